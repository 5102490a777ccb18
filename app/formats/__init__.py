"""Document formats: reads a file into passages, and writes it with their translations.

One reader per format, chosen by the file's suffix. Imports app.text, app.markup and model.languages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import TypedDict, Unpack

from app.formats import docx, html, json_strings, markdown, plain, po, subtitles, xliff
from app.formats.document import Content, Document, TextLocation, UnknownFormat, UnreadableDocument, bounded_list
from app.text.line_breaks import LineBreaks

__all__ = [
    "FORMATS",
    "Document",
    "FormatOptions",
    "TextLocation",
    "UnknownFormat",
    "UnreadableDocument",
    "read",
    "translated_name",
]

_Reader = Callable[..., Content]

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
_READER_ARGUMENTS: dict[_Reader, Sequence[str]] = {
    plain.read: ("max_chars", "line_breaks"),
    po.read: ("target", "redo_fuzzy"),
    json_strings.read: ("target",),
    xliff.read: ("target",),
    html.read: ("target", "source"),
}
"""Additional arguments of readers."""


class FormatOptions(TypedDict, total=False):
    """Options of formats that can be read in more than one way."""

    line_breaks: LineBreaks
    """For plain text: whether to join lines."""
    redo_fuzzy: bool
    """For gettext catalogues: whether to translate fuzzy entries again."""


def read(
    name: str,
    content: bytes,
    target: str = "",
    max_chars: int | None = None,
    source: str = "",
    **format_options: Unpack[FormatOptions],
) -> Document:
    """Reads `content` as a document; the suffix of `name` decides the format.

    `target` is the language to translate into, for formats that record it, and `source` the file's language or auto;
    `max_chars` is the maximum number of characters per passage, for formats that can be cut anywhere. Raises
    UnreadableDocument, including its subclass UnknownFormat. Takes seconds for megabytes; so does writing.
    """
    suffix = PurePath(name).suffix.lower()
    if suffix not in FORMATS:
        raise UnknownFormat(f"A file's name must end in one of {', '.join(FORMATS)}; this one's ends in {suffix!r}.")
    reader, media_type = FORMATS[suffix]
    arguments = {"target": target, "source": source, "max_chars": max_chars, **format_options}
    parsed = reader(
        content, **{name: arguments[name] for name in _READER_ARGUMENTS.get(reader, ()) if name in arguments}
    )
    passages = bounded_list(parsed.passages)
    locations = parsed.locations or [TextLocation(name=f"passage {number}") for number in range(1, len(passages) + 1)]
    return Document(passages, parsed.write, media_type, locations)


def translated_name(name: str, target: str) -> str:
    """Returns "report.fr.docx" for "report.docx"; drops the folders that some clients send."""
    path = PurePath(name.replace("\\", "/").rpartition("/")[2])
    return f"{path.stem}.{target}{path.suffix}"
