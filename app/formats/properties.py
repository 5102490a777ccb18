r"""Java's .properties: translates the values. Keys, comments, separators and continuation lines without text are kept.

The syntax is that of java.util.Properties.load. A file that is not UTF-8 is ISO 8859-1, as Java reads it. A file in
ASCII, or with escapes for other characters, gets \uXXXX for those of the translation, which any version of Java reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from app.formats.catalogue_strings import CatalogueString, Value, catalogue_content, read_string
from app.formats.document import Content, UnreadableDocument, line_numbers
from app.formats.encodings import decode, escape_above, join_surrogates
from app.markup.passage import Passage
from app.text.icu_messages import has_branches

_LINE = re.compile(
    r"""
    [ \t\f\r\n]*+
    (?: [\#!][^\r\n]*+
    | (?P<key> (?: [^\\\r\n=:\ \t\f] | \\(?:\r\n[ \t\f]*+|[\s\S]) )*+ )
      (?: \\(?:\r\n?|\n)[ \t\f]*+ | [ \t\f] )*+ (?: [=:] (?: \\(?:\r\n?|\n)[ \t\f]*+ | [ \t\f] )*+ )?+
      (?P<value> (?: [^\\\r\n]++ | \\(?:\r\n|[\s\S]|\Z) )*+ )
    ) (?: \r\n?|\n|\Z )
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:(?P<fold>(?:\r\n?|\n)[ \t\f]*)|u(?P<code>[0-9A-Fa-f]{4})|(?P<bad>u)|(?P<one>[\s\S])|\Z)")
_WIDE_ESCAPE = re.compile(r"\\u(?!00[0-7])[0-9A-Fa-f]{4}")
_FOLDED_LINES = re.compile(r"\\n(\\(?:\r\n?|\n)[ \t\f]*)")
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPELLINGS = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
_ARGUMENT = re.compile(r"\{\d[^{}]*+\}")
"""An argument of java.text.MessageFormat."""
_SINGLE_APOSTROPHE = re.compile(r"(?<!')'(?!')")


def read(content: bytes, target: str = "") -> Content:
    """Raises UnreadableDocument. `target`: the language to translate labels into."""
    text, encode, is_latin = _decode(content)
    escapes = content.isascii() or _WIDE_ESCAPE.search(text) is not None
    return catalogue_content(text, _values(text, escapes, is_latin), target, encode, _read_message)


def _decode(content: bytes) -> tuple[str, Callable[[str], bytes], bool]:
    """The text, what encodes it again, and whether it is ISO 8859-1."""
    try:
        return *decode(content), False
    except UnreadableDocument:
        return content.decode("latin-1"), lambda text: text.encode("latin-1"), True


def _values(text: str, escapes: bool, is_latin: bool) -> Iterator[Value]:
    place = 0
    while place < len(text) and (line := _LINE.match(text, place)):
        place = line.end()
        raw = line["value"]
        if not raw:
            continue
        limit = 0x7F if escapes else 0xFF if is_latin else 0x10FFFF
        value = _unescape(text, line.start("value"), line.end("value"))
        folded = _FOLDED_LINES.search(raw)
        encoded = partial(_escape, limit, f"\\n{folded[1]}" if folded else "\\n")
        yield Value(line.start("value"), line.end("value"), value, encoded, line["key"])


def _unescape(text: str, start: int, end: int) -> str:
    """The string that characters [start, end) spell. Raises UnreadableDocument."""

    def character(found: re.Match[str]) -> str:
        if found["bad"]:
            line = line_numbers(text)(start + found.start())
            raise UnreadableDocument(f"Line {line} has a \\u that four hexadecimal digits do not follow.")
        if found["code"]:
            return chr(int(found["code"], 16))
        return _ESCAPED.get(found["one"], found["one"]) if found["one"] else ""

    return join_surrogates(_ESCAPE.sub(character, text[start:end]))


def _escape(limit: int, line_end: str, text: str) -> str:
    """`text` as a value; characters above `limit` are escaped."""
    spelled = re.sub(r"[\\\t\n\r\f]", lambda found: _SPELLINGS[found[0]], text)
    if line_end != "\\n":
        spelled = re.sub(r"\\n(?=.)", lambda _: line_end, spelled)
    if spelled[:1] == " ":
        spelled = f"\\{spelled}"
    return escape_above(limit, spelled, "\\u")


def _read_message(text: str, target: str, marks: frozenset[str]) -> CatalogueString:
    """A value with arguments is a message, in which an apostrophe is written twice and a single one quotes."""
    if has_branches(text) or not _ARGUMENT.search(text) or _SINGLE_APOSTROPHE.search(text):
        return read_string(text, target, marks)
    # Without an apostrophe it may as well be no message, but a typographic one is the same in both.
    apostrophe = "''" if "''" in text else "’"
    return CatalogueString([Passage(text.replace("''", "'"), write=lambda part: part.replace("'", apostrophe))])
