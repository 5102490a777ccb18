"""The reader of each format, by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.formats import (
    android,
    apple_strings,
    ass,
    docx,
    fluent,
    html,
    json_strings,
    markdown,
    plain,
    po,
    properties,
    qt_ts,
    resx,
    stringsdict,
    subtitles,
    tables,
    tmx,
    toml_strings,
    xcstrings,
    xliff,
    yaml_strings,
)
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
    "properties": properties.read,
    "strings": apple_strings.read,
    "stringsdict": stringsdict.read,
    "xcstrings": xcstrings.read,
    "arb": json_strings.read_arb,
    "android": android.read,
    "resx": resx.read,
    "yaml": yaml_strings.read,
    "toml": toml_strings.read,
    "ts": qt_ts.read,
    "tmx": tmx.read,
    "fluent": fluent.read,
    "csv": tables.read_csv,
    "tsv": tables.read_tsv,
    "ass": ass.read,
    "xliff": xliff.read,
    "docx": docx.read,
}
ARGUMENTS: dict[Reader, Sequence[str]] = {
    plain.read: ("max_chars", "line_breaks"),
    po.read: ("target", "redo_fuzzy"),
    json_strings.read: ("target", "paths"),
    yaml_strings.read: ("target", "source", "paths"),
    toml_strings.read: ("target", "paths"),
    properties.read: ("target",),
    apple_strings.read: ("target",),
    stringsdict.read: ("target",),
    xcstrings.read: ("target", "source"),
    json_strings.read_arb: ("target", "source"),
    android.read: ("target",),
    resx.read: ("target",),
    qt_ts.read: ("target",),
    tmx.read: ("target", "source"),
    fluent.read: ("target",),
    tables.read_csv: ("target", "source", "columns"),
    tables.read_tsv: ("target", "source", "columns"),
    xliff.read: ("target",),
    html.read: ("target", "source"),
}
"""Additional arguments of readers."""
