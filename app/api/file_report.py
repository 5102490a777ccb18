"""What is told of a file's translation beside the file: which of its texts have warnings."""

from __future__ import annotations

from app.api.schemas import FileReport, FileWarning
from app.formats import Document
from app.translation.types import Translations

_SHOWN = 80
"""Characters of a text by which it is known again."""


def report_of(name: str, document: Document, done: Translations) -> FileReport:
    """`name`: the translated file's."""
    warnings = []
    for passage, place, item in zip(document.passages, document.places, done.items, strict=True):
        for offset, warning in item.located_warnings:
            found = place.at(offset)
            text = passage.text[offset : offset + _SHOWN].strip().partition("\n")[0].rstrip()
            warnings.append(FileWarning(line=found.line, name=found.name or None, text=text, warning=warning))
    return FileReport(file=name, model=done.model, texts=len(done.items), warnings=warnings)
