"""Schemas of DeepL's glossaries, for requests and responses."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, Field, model_validator

from app.api.deepl.wire_format import Body, invalid_field
from app.api.schemas.fields import Language
from app.engine.registry import Catalogue, listed_pairs
from app.storage.glossary_store import MAX_DICTIONARIES, MAX_NAME_CHARS, LanguagePair, StoredGlossary, Terms
from app.text.glossary_files import read_csv, read_tsv, write_tsv
from model.languages import language_alone

_ID = "Identifies the glossary in requests; for the service's own glossaries, their name"
_TIME = "Creation time; for the service's own glossaries, when the service started"


class PairRequest(Body):
    """A language pair."""

    source_lang: Language = Field(description="The language of the terms", examples=["en"])
    target_lang: Language = Field(description="The language of their translations", examples=["fr"])

    @property
    def pair(self) -> LanguagePair:
        return language_alone(self.source_lang), language_alone(self.target_lang)


class DictionaryRequest(PairRequest):
    """Terms and their translations."""

    entries: str = Field(min_length=1, description="One line per term, ending with its translation")
    entries_format: Literal["tsv", "csv"] = Field(description="`tsv`: separated by a tab; `csv`: by a comma (RFC 4180)")

    def terms(self, catalogue: Catalogue) -> Terms:
        """Raises InvalidFields."""
        if self.pair not in catalogue.language_pairs:
            served = listed_pairs(catalogue.language_pairs)
            raise invalid_field("target_lang", f"Glossaries are limited to the language pairs served: {served}.")
        try:
            return read_tsv(self.entries) if self.entries_format == "tsv" else read_csv(self.entries, *self.pair)
        except ValueError as error:
            raise invalid_field("entries", str(error)) from None


class GlossaryRequest(DictionaryRequest):
    """A glossary to create."""

    name: str = Field(min_length=1, max_length=MAX_NAME_CHARS, description="Any name", examples=["Animals"])


class MultilingualRequest(Body):
    """A glossary to create, with one dictionary per language pair."""

    name: str = Field(min_length=1, max_length=MAX_NAME_CHARS, description="Any name", examples=["Animals"])
    dictionaries: list[DictionaryRequest] = Field(
        min_length=1, max_length=MAX_DICTIONARIES, fail_fast=True, description="One per language pair"
    )


class ChangeRequest(Body):
    """Changes to a glossary."""

    name: str | None = Field(None, min_length=1, max_length=MAX_NAME_CHARS, description="The new name")
    dictionaries: list[DictionaryRequest] = Field(
        [],
        max_length=MAX_DICTIONARIES,
        fail_fast=True,
        description="Entries to add; an entry replaces one with the same term",
    )

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.name is None and not self.dictionaries:
            raise ValueError("nothing to change: give a name or dictionaries")
        return self


class SupportedPair(BaseModel):
    """A language pair that a glossary can have."""

    source_lang: str = Field(description="The language of the terms", examples=["en"])
    target_lang: str = Field(description="The language of their translations", examples=["fr"])


class SupportedPairs(BaseModel):
    """All language pairs served."""

    supported_languages: list[SupportedPair] = Field(description="Pairs of languages, without variants")


class DictionaryInfo(SupportedPair):
    """A dictionary without its entries."""

    entry_count: int = Field(description="Number of terms", examples=[2])


class GlossaryInfo(DictionaryInfo):
    """A glossary of one dictionary, without its entries."""

    glossary_id: str = Field(description=_ID, examples=["def3a26b-3e84-45b3-84ae-0c0aaf3525f7"])
    name: str = Field(description="The glossary's name", examples=["Animals"])
    ready: bool = Field(default=True, description="Always true")
    creation_time: str = Field(description=_TIME, examples=["2026-01-31T12:34:56.789012Z"])


class GlossaryList(BaseModel):
    """The glossaries available to the client, oldest first."""

    glossaries: list[GlossaryInfo] = Field(description="One entry per glossary")


class MultilingualInfo(BaseModel):
    """A glossary without its entries."""

    glossary_id: str = Field(description=_ID, examples=["def3a26b-3e84-45b3-84ae-0c0aaf3525f7"])
    name: str = Field(description="The glossary's name", examples=["Animals"])
    creation_time: str = Field(description=_TIME, examples=["2026-01-31T12:34:56.789012Z"])
    dictionaries: list[DictionaryInfo] = Field(description="One per language pair")


class MultilingualList(BaseModel):
    """The glossaries available to the client, oldest first."""

    glossaries: list[MultilingualInfo] = Field(description="One entry per glossary")


class DictionaryEntries(SupportedPair):
    """A dictionary's entries."""

    entries: str = Field(description="One line per term", examples=["cat\tmatou\nhouse\tbaraque"])
    entries_format: Literal["tsv"] = Field(default="tsv", description="A tab separates a term from its translation")


class EntriesResponse(BaseModel):
    """The requested dictionary."""

    dictionaries: list[DictionaryEntries] = Field(description="The requested dictionary only")


def dictionary_info(pair: LanguagePair, terms: Terms) -> DictionaryInfo:
    return DictionaryInfo(source_lang=pair[0], target_lang=pair[1], entry_count=len(terms))


def dictionary_entries(pair: LanguagePair, terms: Terms) -> DictionaryEntries:
    return DictionaryEntries(source_lang=pair[0], target_lang=pair[1], entries=write_tsv(terms))


def multilingual_info(found: StoredGlossary) -> MultilingualInfo:
    return MultilingualInfo(
        glossary_id=found.id,
        name=found.name,
        creation_time=_time(found),
        dictionaries=[dictionary_info(pair, terms) for pair, terms in found.dictionaries.items()],
    )


def glossary_info(found: StoredGlossary) -> GlossaryInfo:
    ((pair, terms),) = found.dictionaries.items()
    return GlossaryInfo(
        glossary_id=found.id, name=found.name, creation_time=_time(found), **dictionary_info(pair, terms).model_dump()
    )


def _time(found: StoredGlossary) -> str:
    return found.created.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
