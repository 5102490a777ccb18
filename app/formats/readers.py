"""The reader of each format, by its name.

Readers take a file's content, and those of the arguments of `formats.read` that their formats need.
"""

from __future__ import annotations

from collections.abc import Callable

from app.formats import (
    android,
    apple_strings,
    ass,
    docx,
    epub,
    fluent,
    html,
    json_strings,
    markdown,
    odf,
    pdf,
    plain,
    po,
    pptx,
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
    xlsx,
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
    "pdf": pdf.read,
    "pptx": pptx.read,
    "xlsx": xlsx.read,
    "odf": odf.read,
    "epub": epub.read,
}
