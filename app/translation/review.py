"""Translates documents for review, and writes them with what was reviewed; app.formats.review has the files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple

from app.errors import InvalidFields
from app.formats import Document, UnreadableDocument
from app.formats.review import Reviewed, Unit, read_xliff, translations_of, units_of, write_xliff
from app.formats.review_html import write_html
from app.translation.documents import in_document_thread, options_for
from app.translation.memory import MemoryOption
from app.translation.translator import Translator
from app.translation.types import GlossaryOption, Translations
from model.quality import DOUBTFUL

ReviewKind = Literal["review", "xliff"]
"""A page in HTML, or XLIFF."""


class Review(NamedTuple):
    """A document's texts with their translations, which may be changed before they are written."""

    units: Sequence[Unit]
    reviewed: Sequence[Reviewed]
    languages: tuple[str, str]
    done: Translations


async def review_document(
    translator: Translator,
    document: Document,
    source: str,
    target: str,
    glossary: GlossaryOption = None,
    memory: MemoryOption | None = None,
) -> Review:
    """Translates as `translate_document` does, and writes nothing. Raises what that raises."""
    options = await options_for(translator, document, source, target, glossary, memory)
    units = await _units(document)
    done = await translator.translate([[unit.passage] for unit in units], options)
    reviewed = []
    for item in done.items:
        if item.error:
            raise item.error
        warnings = list(dict.fromkeys(warning for _, warning in item.located_warnings))
        reviewed.append(Reviewed(item.text or "", item.quality, warnings, [word.span for word in item.words]))
    return Review(units, reviewed, translator.catalogue.codes(options.source, target), done)


async def write_review(review: Review, name: str, kind: ReviewKind) -> bytes:
    """The review as a file. `name`: of the document."""
    content = (name, review.languages, review.units, review.reviewed, review.done.model)
    work = partial(write_html, *content, DOUBTFUL) if kind == "review" else partial(write_xliff, *content)
    return await in_document_thread(work)


async def write_reviewed(document: Document, review: bytes) -> bytes:
    """The document with the translations of a review in XLIFF. Raises InvalidFields."""
    units = await _units(document)

    def write() -> bytes:
        return document.write(translations_of(document.passages, units, read_xliff(review, units)))

    try:
        return await in_document_thread(write)
    except UnreadableDocument as error:
        raise InvalidFields.at("#/review", str(error)) from None


async def _units(document: Document) -> list[Unit]:
    try:
        return await in_document_thread(partial(units_of, document.passages, document.locations))
    except UnreadableDocument as error:
        raise InvalidFields.at("#/file", str(error)) from None
