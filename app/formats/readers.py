"""The reader of each format, by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.formats import docx, epub, html, json_strings, markdown, odf, plain, po, pptx, subtitles, xliff, xlsx
from app.formats.document import Content

Reader = Callable[..., Content]

READERS: dict[str, Reader] = {
    "plain": plain.read,
    "markdown": markdown.read,
    "html": html.read,
    "srt": subtitles.read_srt,
    "vtt": subtitles.read_vtt,
    "po": po.read,
    "json": json_strings.read,
    "xliff": xliff.read,
    "docx": docx.read,
    "pptx": pptx.read,
    "xlsx": xlsx.read,
    "odf": odf.read,
    "epub": epub.read,
}
ARGUMENTS: dict[Reader, Sequence[str]] = {
    plain.read: ("max_chars", "line_breaks"),
    po.read: ("target", "redo_fuzzy"),
    json_strings.read: ("target",),
    xliff.read: ("target",),
    html.read: ("target", "source"),
    xlsx.read: ("sheet_names",),
    odf.read: ("suffix",),
    epub.read: ("target", "source"),
}
"""Additional arguments of readers."""
