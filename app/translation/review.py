"""Translates documents for review."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from app.documents.messages import ReviewKind
from app.formats.units import Reviewed
from app.translation.documents import Document, options_for
from app.translation.translator import Translator
from app.translation.types import Options, Translations


class Review(NamedTuple):
    """A document's texts with their translations, which may be changed before they are written."""

    reviewed: Sequence[Reviewed]
    languages: tuple[str, str]
    done: Translations


async def review_document(translator: Translator, document: Document, options: Options) -> Review:
    """Translates as `translate_document` does, and writes nothing. Raises what that raises."""
    options = await options_for(translator, document, options)
    done = await translator.translate([[passage] for passage in document.passages], options)
    reviewed = []
    for item in done.items:
        if item.error:
            raise item.error
        warnings = list(dict.fromkeys(warning for _, warning in item.located_warnings))
        reviewed.append(Reviewed(item.text or "", item.quality, warnings, [word.span for word in item.words]))
    return Review(reviewed, translator.catalogue.codes(options.source, options.target), done)


async def write_review(document: Document, review: Review, kind: ReviewKind) -> bytes:
    """The review as a file."""
    return (await document.file.write_review(kind, review.languages, review.done.model, review.reviewed)).content
