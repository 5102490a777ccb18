"""Requests and responses of /memory."""

from __future__ import annotations

from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from app.api.schemas.fields import Body, SourceLanguage, Text

_VERSION = "The memory's version in this direction, which every change raises"


class RememberedPair(Body):
    """A text and the translation that it shall have."""

    text: Text = Field(examples=["Open the file"], description="A whole text, or a sentence of longer ones")
    translation: Text = Field(examples=["Ouvrir le fichier"], description="In the target language")


class MemoryFields(Body):
    """The direction."""

    source: SourceLanguage = Field(description="The language of the texts", examples=["en"])
    target: SourceLanguage = Field(description="The language of the translations", examples=["fr"])


class MemoryRequest(MemoryFields):
    """Pairs to remember."""

    pairs: list[RememberedPair] = Field(min_length=1, max_length=10_000, description="One pair or more", fail_fast=True)


class SearchQuery(MemoryFields):
    """What to look for."""

    text: str = Field(description="The text to look for", examples=["Open the file"])
    limit: int = Field(10, ge=1, le=100, strict=False, description="Maximum number of matches", examples=[5])


class ForgetQuery(MemoryFields):
    """What to forget."""

    text: str | SkipJsonSchema[None] = Field(
        None,
        description="The text of the pair to forget; without it, all pairs of the direction are",
        examples=["Open the file"],
    )


class Remembered(BaseModel):
    """What PUT has stored. It is on the disk, and counts from the next request on."""

    pairs: int = Field(examples=[1], description="Number of pairs in the request")
    memory_version: int = Field(examples=[7], description=_VERSION)


class Forgotten(BaseModel):
    """What DELETE has erased."""

    pairs: int = Field(examples=[1], description="Number of pairs that were erased")
    memory_version: int = Field(examples=[8], description=_VERSION)


class MemoryMatch(BaseModel):
    """A pair of the memory, and how similar its text is."""

    text: str = Field(examples=["Open the file"], description="The text of the pair")
    translation: str = Field(examples=["Ouvrir le fichier"], description="The translation of the pair")
    percentage: int = Field(
        examples=[75],
        description="100: the texts differ in nothing but white space; below: 100 times 1 less the edit distance in "
        "words and marks, divided by those of the longer text",
    )


class MemoryMatches(BaseModel):
    """The pairs with the most similar texts."""

    exact: str | None = Field(
        examples=[None],
        description="The translation that /translate would give for the whole text, with its own numbers and "
        "placeholders; null if no pair's text is equal",
    )
    matches: list[MemoryMatch] = Field(description="The most similar first")
    memory_version: int = Field(examples=[7], description=_VERSION)
