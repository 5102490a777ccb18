"""Reports which texts of a translated file have warnings."""

from __future__ import annotations

from operator import attrgetter

from app.api.schemas.translation import FileReport, FileSentence, FileWarning
from app.translation.documents import Document
from app.translation.types import Translations
from model.quality import DOUBTFUL

_MAX_DOUBTFUL = 1_000
_EXCERPT_CHARS = 80
"""Characters of a text that identify it."""


def report_of(name: str, document: Document, translations: Translations) -> FileReport:
    """`name`: of the translated file."""
    warnings, doubtful = [], []
    for passage, location, item in zip(document.passages, document.locations, translations.items, strict=True):
        if item.quality is not None and item.quality < DOUBTFUL and item.engine != "llm":
            found = location.at(0)
            text, quality = _excerpt(passage.text, 0), item.quality
            doubtful.append(FileSentence(line=found.line, name=found.name or None, text=text, quality=quality))
        for offset, warning in item.located_warnings:
            found, text = location.at(offset), _excerpt(passage.text, offset)
            warnings.append(FileWarning(line=found.line, name=found.name or None, text=text, warning=warning))
    versions = [item.memory_version for item in translations.items if item.memory_version is not None]
    doubtful.sort(key=attrgetter("quality"))
    return FileReport(
        file=name,
        model=translations.model,
        texts=len(translations.items),
        llm_sentences=translations.llm_sentences,
        from_memory=sum(item.from_memory for item in translations.items),
        memory_version=max(versions, default=None),
        encoding=document.evident_encoding or None,
        warnings=warnings,
        check_first=doubtful[:_MAX_DOUBTFUL],
    )


def _excerpt(text: str, start: int) -> str:
    return text[start : start + _EXCERPT_CHARS].strip().partition("\n")[0].rstrip()
