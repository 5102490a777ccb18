"""Reports which texts of a translated file have warnings."""

from __future__ import annotations

from app.api.schemas.translation import FileReport, FileWarning
from app.formats import Document
from app.translation.types import Translations

_EXCERPT_CHARS = 80
"""Characters of a text that identify it."""


def report_of(name: str, document: Document, translations: Translations) -> FileReport:
    """`name`: of the translated file."""
    warnings = []
    for passage, location, item in zip(document.passages, document.locations, translations.items, strict=True):
        for offset, warning in item.located_warnings:
            found = location.at(offset)
            text = passage.text[offset : offset + _EXCERPT_CHARS].strip().partition("\n")[0].rstrip()
            warnings.append(FileWarning(line=found.line, name=found.name or None, text=text, warning=warning))
    return FileReport(file=name, model=translations.model, texts=len(translations.items), warnings=warnings)
