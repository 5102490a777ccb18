"""Schemas of LibreTranslate's responses, as its own clients expect them."""

from __future__ import annotations

from pydantic import BaseModel, Field


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
