"""Schemas of LibreTranslate's requests and responses, as its own clients expect them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from app.api.engine_option import Engine
from app.api.schemas.fields import Language, Text, Texts

MAX_ALTERNATIVES = 8


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
"""Digits in forms and queries, and optionally in JSON."""


class LibreRequest(BaseModel):
    """Fields of every request. Ignores unknown fields, as LibreTranslate does."""

    model_config = ConfigDict(strict=True, extra="ignore")

    api_key: Text | None = Field(
        None, description="Needed if the service requires a key; `Authorization: Bearer` works too"
    )


class ToTranslate(LibreRequest):
    """A text, or a list of texts, to translate."""

    q: Texts = Field(description="The text; in JSON also a list of texts, for which the response has lists")
    source: Language = Field(description="The language of the text; `auto`: detected for each text separately")
    target: Language = Field(description="The language to translate into")
    format: Literal["text", "html"] = Field("text", description="`html`: the markup is preserved")
    engine: Engine = None
    alternatives: Number = Field(
        0, description=f"Maximum number of alternative translations, best first; up to {MAX_ALTERNATIVES}"
    )

    @property
    def texts(self) -> list[str]:
        return self.q if isinstance(self.q, list) else [self.q]


class ToDetect(LibreRequest):
    """A text whose language to detect."""

    q: Texts = Field(description="The text; in JSON also a list of texts, which are treated as one text")


class FileToTranslate(LibreRequest):
    """Fields sent along with a file."""

    source: Language = Field(description="The language of the document, or `auto`")
    target: Language = Field(description="The language to translate into")
    engine: Engine = None


class Suggestion(LibreRequest):
    """A better translation."""

    q: str = Field(min_length=1, description="The text", examples=["Hello."])
    s: str = Field(min_length=1, description="The translation that it shall have", examples=["Salut."])
    source: Language = Field(description="The language of the text; `auto` is detected")
    target: Language = Field(description="The language of the translation")


class LibreSuggested(BaseModel):
    """The suggestion was stored."""

    success: bool = Field(examples=[True], description="Always true")


class LibreDetection(BaseModel):
    """A detected language."""

    confidence: float = Field(ge=0, le=100, description="In percent", examples=[99.0])
    language: str = Field(examples=["en"], description="Its code")


class LibreTranslation(BaseModel):
    """For a list of texts, each field is a list of the same length."""

    translatedText: str | list[str] = Field(examples=["Bonjour."], description="A list if `q` is a list")
    detectedLanguage: LibreDetection | list[LibreDetection] | None = Field(
        None, description="Present if the source is `auto`"
    )
    alternatives: list[str] | list[list[str]] | None = Field(
        None, description="Present if requested", examples=[["Salut."]]
    )


class LibreLanguage(BaseModel):
    """A language and its targets, including itself."""

    code: str = Field(examples=["en"], description="Language code, as in requests")
    name: str = Field(examples=["English"], description="In English")
    targets: list[str] = Field(examples=[["en", "fr"]], description="Codes of its target languages")


class LibreFile(BaseModel):
    """The URL of a translated file, for ten minutes."""

    translatedFileUrl: str = Field(
        examples=["http://127.0.0.1:8000/libretranslate/download_file/0a1b2c.hello.fr.txt"],
        description="Anyone with this URL can download the file",
    )


class LibreLanguageName(BaseModel):
    """A language."""

    code: str = Field(examples=["auto"], description="Language code, as in requests")
    name: str = Field(examples=["Auto Detect"], description="In English")


class LibreLanguages(BaseModel):
    """Initially selected languages."""

    source: LibreLanguageName = Field(description="The source language")
    target: LibreLanguageName = Field(description="The target language")


class LibreSettings(BaseModel):
    """Settings for a translation page."""

    charLimit: int = Field(description="Maximum number of characters in a text", examples=[50_000])
    frontendTimeout: int = Field(description="Milliseconds from the last key press to a translation", examples=[500])
    apiKeys: bool = Field(description="Whether the service has API keys")
    keyRequired: bool = Field(description="Whether a key is required")
    suggestions: bool = Field(description="Whether users can suggest better translations")
    filesTranslation: bool = Field(description="Whether the service translates files")
    supportedFilesFormat: list[str] = Field(description="Supported file extensions", examples=[[".txt", ".docx"]])
    language: LibreLanguages = Field(description="Initially selected languages")


class LibreError(BaseModel):
    """Why the request failed."""

    error: str = Field(examples=["xx is not supported"], description="What went wrong")
