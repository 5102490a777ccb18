"""Documents: a file is read into passages, and written with their translations in their places.

A reader for each format, by the suffix of the file's name. Knows no translator.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath

from app.documents import docx, html, json_strings, markdown, plain, po, subtitles, xliff
from app.documents.document import Content, Document, UnknownFormat, UnreadableDocument, few

__all__ = ["FORMATS", "Document", "UnknownFormat", "UnreadableDocument", "read", "translated_name"]

_Reader = Callable[[bytes], Content]

FORMATS: dict[str, tuple[_Reader, str]] = {
    ".txt": (plain.read, "text/plain"),
    ".md": (markdown.read, "text/markdown"),
    ".markdown": (markdown.read, "text/markdown"),
    ".html": (html.read, "text/html"),
    ".htm": (html.read, "text/html"),
    ".xhtml": (html.read, "application/xhtml+xml"),
    ".srt": (subtitles.read_srt, "application/x-subrip"),
    ".vtt": (subtitles.read_vtt, "text/vtt"),
    ".po": (po.read, "text/x-gettext-translation"),
    ".pot": (po.read, "text/x-gettext-translation-template"),
    ".json": (json_strings.read, "application/json"),
    ".arb": (json_strings.read, "application/json"),
    ".xliff": (xliff.read, "application/xliff+xml"),
    ".xlf": (xliff.read, "application/xliff+xml"),
    ".docx": (docx.read, "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
}


def read(name: str, content: bytes, target: str = "", longest: int | None = None) -> Document:
    """The document in `content`, of the format that the suffix of `name` tells.

    `target` is the language that it will be in, for those that say so themselves; `longest`, how many characters a
    passage may have, for those that can be cut anywhere. Raises UnreadableDocument, and of it UnknownFormat. Takes
    seconds for megabytes; so does writing.
    """
    suffix = PurePath(name).suffix.lower()
    if suffix not in FORMATS:
        raise UnknownFormat(f"A file's name must end in one of {', '.join(FORMATS)}; this one's ends in {suffix!r}.")
    reader, media_type = FORMATS[suffix]
    if reader is xliff.read:
        found = xliff.read(content, target)
    else:
        found = plain.read(content, longest) if reader is plain.read else reader(content)
    return Document(few(found.passages), found.write, media_type)


def translated_name(name: str, target: str) -> str:
    """ "report.fr.docx" for "report.docx"; without the folders that some clients put before it."""
    path = PurePath(name.replace("\\", "/").rpartition("/")[2])
    return f"{path.stem}.{target}{path.suffix}"
