"""The shapes of LibreTranslate's requests and answers. Knows no routes; its own clients show what they must be."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from app.api.schemas import Language, Text, Texts

MOST_ALTERNATIVES = 8


def _number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("is not a number")
    return value


Number = Annotated[
    int,
    BeforeValidator(_number),
    Field(strict=False),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^-?[0-9]{1,18}$"}]}),
]
"""Forms and queries have it in digits, and so may JSON."""


class Asked(BaseModel):
    """What a request may hold. Fields that LibreTranslate does not know it ignores, and so do we."""

    model_config = ConfigDict(strict=True, extra="ignore")

    api_key: Text | None = Field(None, description="Where the service wants one; `Authorization: Bearer` will do too")


class ToTranslate(Asked):
    """A text, or a list of them, to be translated."""

    q: Texts = Field(description="The text; in JSON also a list of texts, which is answered by lists")
    source: Language = Field(description="The language of the text; `auto`: each text's is detected by itself")
    target: Language = Field(description="The language to translate into")
    format: Literal["text", "html"] = Field("text", description="`html`: the markup stays as it is")
    alternatives: Number = Field(
        0, description=f"So many other translations at most, the best first; never more than {MOST_ALTERNATIVES}"
    )

    @property
    def texts(self) -> list[str]:
        return self.q if isinstance(self.q, list) else [self.q]


class ToDetect(Asked):
    """A text whose language is to be detected."""

    q: Texts = Field(description="The text; in JSON also a list of texts, which are taken together")


class FileToTranslate(Asked):
    """What is sent beside a file."""

    source: Language = Field(description="The language of the document, or `auto`")
    target: Language = Field(description="The language to translate into")


class LibreDetection(BaseModel):
    """A language that a text may be in."""

    confidence: float = Field(ge=0, le=100, description="In percent", examples=[99.0])
    language: str = Field(examples=["en"], description="Its code")


class LibreTranslation(BaseModel):
    """Of a list, each field is a list of the same length."""

    translatedText: str | list[str] = Field(examples=["Bonjour."], description="A list where `q` is one")
    detectedLanguage: LibreDetection | list[LibreDetection] | None = Field(
        None, description="Only where the source is `auto`"
    )
    alternatives: list[str] | list[list[str]] | None = Field(
        None, description="Only where they were asked for", examples=[["Salut."]]
    )


class LibreLanguage(BaseModel):
    """A language, and those that texts in it are translated into, itself among them."""

    code: str = Field(examples=["en"], description="As requests name it")
    name: str = Field(examples=["English"], description="In English")
    targets: list[str] = Field(examples=[["en", "fr"]], description="Codes of the languages it is translated into")


class LibreFile(BaseModel):
    """Where a translated file is, for ten minutes."""

    translatedFileUrl: str = Field(
        examples=["http://127.0.0.1:8000/libretranslate/download_file/0a1b2c.hello.fr.txt"],
        description="Whoever knows it may fetch the file",
    )


class LibreLanguageName(BaseModel):
    """A language."""

    code: str = Field(examples=["auto"], description="As requests name it")
    name: str = Field(examples=["Auto Detect"], description="In English")


class LibreLanguages(BaseModel):
    """What to begin with."""

    source: LibreLanguageName = Field(description="Of the texts")
    target: LibreLanguageName = Field(description="Of the translations")


class LibreSettings(BaseModel):
    """What a page that translates must know."""

    charLimit: int = Field(description="Characters that a text may have", examples=[50_000])
    frontendTimeout: int = Field(description="Milliseconds after the last key before it translates", examples=[500])
    apiKeys: bool = Field(description="Whether there are API keys")
    keyRequired: bool = Field(description="Whether nothing goes without one")
    suggestions: bool = Field(description="Whether better translations may be suggested")
    filesTranslation: bool = Field(description="Whether files are translated")
    supportedFilesFormat: list[str] = Field(description="What their names may end in", examples=[[".txt", ".docx"]])
    language: LibreLanguages = Field(description="The languages to begin with")


class LibreError(BaseModel):
    """Why not."""

    error: str = Field(examples=["xx is not supported"], description="What went wrong")
