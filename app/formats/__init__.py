"""Document formats: reads a file into passages, and writes it with their translations.

One reader per format, chosen by the file's suffix and loaded with the first document. Imports app.text, app.markup and
model.languages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from inspect import signature
from pathlib import PurePath
from typing import NamedTuple, TypedDict, Unpack

from app.formats.document import (
    Content,
    Document,
    TextLocation,
    UnknownFormat,
    UnreadableDocument,
    WrongOption,
    check_passages,
    write_bounded,
)
from app.formats.encodings import (
    UTF_8,
    XML_ENCODING,
    Encoding,
    declared_encoding,
    evident_encoding,
    from_legacy,
    to_legacy,
    unicode_charset,
)
from app.text.line_breaks import LineBreaks

__all__ = [
    "MEDIA_TYPES",
    "PACKED_SUFFIXES",
    "Document",
    "FormatOptions",
    "TextLocation",
    "UnknownFormat",
    "UnreadableDocument",
    "WrongOption",
    "format_suffix",
    "read",
    "translated_name",
    "written_suffix",
]


class Format(NamedTuple):
    """A document format, and the media type of files with one of its suffixes."""

    reader: str
    """The module of this package that reads it, with the name of its function if that is not `read`."""
    media_type: str
    written_as: str = ""
    """The suffix of what is written, if that has another format."""


FORMATS = {
    ".txt": Format("plain", "text/plain"),
    ".md": Format("markdown", "text/markdown"),
    ".markdown": Format("markdown", "text/markdown"),
    ".mdx": Format("markdown", "text/markdown"),
    ".rst": Format("rst", "text/x-rst"),
    ".html": Format("html", "text/html"),
    ".htm": Format("html", "text/html"),
    ".xhtml": Format("html", "application/xhtml+xml"),
    ".srt": Format("subtitles", "application/x-subrip"),
    ".vtt": Format("subtitles", "text/vtt"),
    ".po": Format("po", "text/x-gettext-translation"),
    ".pot": Format("po", "text/x-gettext-translation-template"),
    ".json": Format("json_strings", "application/json"),
    ".arb": Format("json_strings.read_arb", "application/json"),
    ".properties": Format("properties", "text/x-java-properties"),
    ".strings": Format("apple_strings", "text/x-strings"),
    ".stringsdict": Format("stringsdict", "application/x-plist"),
    ".xcstrings": Format("xcstrings", "application/x-xcstrings+json"),
    ".xml": Format("android", "application/xml"),
    ".resx": Format("resx", "text/microsoft-resx"),
    ".resw": Format("resx", "text/microsoft-resx"),
    ".yaml": Format("yaml_strings", "application/yaml"),
    ".yml": Format("yaml_strings", "application/yaml"),
    ".toml": Format("toml_strings", "application/toml"),
    ".ts": Format("qt_ts", "application/x-linguist"),
    ".tmx": Format("tmx", "application/x-tmx+xml"),
    ".ftl": Format("fluent", "text/x-fluent"),
    ".csv": Format("tables", "text/csv"),
    ".tsv": Format("tables", "text/tab-separated-values"),
    ".ass": Format("ass", "text/x-ssa"),
    ".ssa": Format("ass", "text/x-ssa"),
    ".xliff": Format("xliff", "application/xliff+xml"),
    ".xlf": Format("xliff", "application/xliff+xml"),
    ".docx": Format("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ".pdf": Format("pdf", "application/pdf", written_as=".html"),
    ".pptx": Format("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ".xlsx": Format("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ".epub": Format("epub", "application/epub+zip"),
    ".odt": Format("odf", "application/vnd.oasis.opendocument.text"),
    ".ods": Format("odf", "application/vnd.oasis.opendocument.spreadsheet"),
    ".odp": Format("odf", "application/vnd.oasis.opendocument.presentation"),
}
"""The supported formats, by suffix."""
MEDIA_TYPES = {suffix: found.media_type for suffix, found in FORMATS.items()}
_ANY_ENCODING = {"plain", "markdown", "rst", "html", "subtitles", "ass", "tables", "apple_strings"}
"""Texts, which may be in another encoding than Unicode."""
PACKED_SUFFIXES = {".docx", ".pdf", ".pptx", ".xlsx", ".odt", ".ods", ".odp", ".epub"}
"""Files that are mostly markup or pictures, compressed."""


class FormatOptions(TypedDict, total=False):
    """Options of formats that can be read in more than one way."""

    line_breaks: LineBreaks
    """For plain text: whether to join lines."""
    sheet_names: bool
    """For workbooks: whether to translate the names of sheets."""
    redo_fuzzy: bool
    """For gettext catalogues: whether to translate fuzzy entries again."""
    paths: str
    """For JSON, YAML and TOML: the paths of the values to translate, such as "$.menu.*, $..title"; "" for all."""
    columns: str
    """For .csv and .tsv: the columns to translate, "text, title", or to fill in, "en=fr"."""
    charset: str
    """For formats of text: the encoding, as who sent the file declares it; "" if they do not."""
    encoding: Encoding
    """For formats of text: what the translation of a file that is not Unicode has."""


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
    UnreadableDocument, including its subclasses UnknownFormat and WrongOption. Takes seconds for megabytes; so does
    writing.
    """
    suffix = format_suffix(name)
    found = FORMATS[suffix]
    is_html, keeps = found.reader == "html", format_options.get("encoding") == "keep"
    legacy, charset, evident = "", "utf-8", ""
    if found.reader.partition(".")[0] in _ANY_ENCODING:
        declared = declared_encoding(content, format_options.get("charset", ""), is_html)
        evident = "" if declared else evident_encoding(content, source)
        legacy = evident or declared.removeprefix(UTF_8)
        content = from_legacy(content, legacy) if legacy else content
        charset = legacy if keeps and legacy else unicode_charset(content)
    elif MEDIA_TYPES[suffix].startswith("text/"):  # else HTTP takes it for UTF-8
        declaration = XML_ENCODING.match(content[:200].decode("latin-1"))
        charset = declaration[1].lower() if declaration else unicode_charset(content)
    reader = reader_of(found)
    arguments = {"target": target, "source": source, "max_chars": max_chars, "suffix": suffix, **format_options}
    parsed = reader(content, **{name: arguments[name] for name in signature(reader).parameters if name in arguments})
    media_type = MEDIA_TYPES[written_suffix(suffix)]
    media_type = media_type if charset == "utf-8" else f"{media_type}; charset={charset}"
    passages = list(parsed.passages)
    check_passages(passages)
    locations = parsed.locations or [TextLocation(name=f"passage {number}") for number in range(1, len(passages) + 1)]
    write = partial(write_bounded, parsed.write, len(content))
    document = Document(passages, write, media_type, locations, evident)
    if keeps and legacy:
        return replace(document, write=lambda texts: to_legacy(write(texts), legacy, is_html))
    return document


def reader_of(found: Format) -> Callable[..., Content]:
    """The function that reads a format. It takes a file's content, and those of the arguments of `read` that it needs.

    All modules of readers take 0.1 s to load, and few services read documents.
    """
    module, _, function = found.reader.partition(".")
    reader: Callable[..., Content] = getattr(import_module(f"app.formats.{module}"), function or "read")
    return reader


def format_suffix(name: str) -> str:
    """The suffix that decides a file's format. Raises UnknownFormat."""
    suffix = PurePath(name).suffix.lower()
    if suffix not in MEDIA_TYPES:
        raise UnknownFormat(
            f"A file's name must end in one of {', '.join(MEDIA_TYPES)}; this one's ends in {suffix!r}."
        )
    return suffix


def written_suffix(suffix: str) -> str:
    """The suffix of a translated file: that of its source, mostly."""
    found = FORMATS.get(suffix.lower())
    return (found and found.written_as) or suffix


def translated_name(name: str, target: str) -> str:
    """Returns "report.fr.docx" for "report.docx", and "report.fr.html" for "report.pdf"; drops the folders that some
    clients send."""
    path = PurePath(name.replace("\\", "/").rpartition("/")[2])
    return f"{path.stem}.{target}{written_suffix(path.suffix)}"
