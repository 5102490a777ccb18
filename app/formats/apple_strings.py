r"""Apple's .strings: translates the values of `"key" = "value";`. Keys, comments and layout are kept.

The syntax is that of NeXT's property lists. Xcode writes such files in UTF-8 and in UTF-16.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from app.formats import stringsdict
from app.formats.catalogue_strings import Value, catalogue_content
from app.formats.document import Content, UnreadableDocument, line_numbers
from app.formats.encodings import decode, escape_above, join_surrogates

_BINARY = b"bplist00"
_XML = re.compile(r"\s*<(?:\?xml|!DOCTYPE|plist|!--)")
_SPACE = r"(?:\s++|/\*(?:[^*]++|\*(?!/))*+\*/|//[^\r\n]*+)*+"
_TOKEN = r"""(?:"(?:[^"\\]++|\\[\s\S])*+"|'(?:[^'\\]++|\\[\s\S])*+'|[\w.$/:-]++)"""
_GAP = re.compile(_SPACE)
_ENTRY = re.compile(rf"(?P<key>{_TOKEN}){_SPACE}(?:={_SPACE}(?P<value>{_TOKEN}){_SPACE})?;")
_ESCAPE = re.compile(r"\\(?:[Uu](?P<code>[0-9A-Fa-f]{4})|(?P<octal>[0-7]{1,3})|(?P<one>[\s\S]))")
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SPELLINGS = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": ""}
_WIDE_ESCAPE = re.compile(r"\\[Uu](?!00[0-7])[0-9A-Fa-f]{4}")


def read(content: bytes, target: str = "") -> Content:
    """Raises UnreadableDocument. `target`: the language to translate labels into."""
    if content.startswith(_BINARY):
        raise UnreadableDocument("The file is a binary property list. Convert it to text: plutil -convert xml1.")
    text, encode = decode(content)
    if "\0" in text:
        raise UnreadableDocument("The file is UTF-16 without a byte order mark. Save it as UTF-8.")
    if _XML.match(text):
        return stringsdict.read_strings(content, target)
    return catalogue_content(text, _values(text), target, encode)


def _values(text: str) -> Iterator[Value]:
    """Raises UnreadableDocument where the text is no entry."""
    ascii_only = text.isascii() and _WIDE_ESCAPE.search(text) is not None
    place = _end_of_gap(text, 0)
    while place < len(text):
        entry = _ENTRY.match(text, place)
        if entry is None:
            line = line_numbers(text)(place)
            raise UnreadableDocument(f'The file is not .strings: line {line} is not "key" = "value";')
        place = _end_of_gap(text, entry.end())
        value = entry["value"] or ""
        if value[:1] in ('"', "'"):
            start, end = entry.span("value")
            spelled = partial(_escape, value[0], "\n" in value, ascii_only)
            name = _unescape(entry["key"].strip("\"'"))
            yield Value(start + 1, end - 1, _unescape(value[1:-1]), spelled, name)


def _end_of_gap(text: str, place: int) -> int:
    found = _GAP.match(text, place)
    assert found
    return found.end()


def _unescape(raw: str) -> str:
    def character(found: re.Match[str]) -> str:
        if found["code"]:
            return chr(int(found["code"], 16))
        if found["octal"]:
            # NeXT's character set, of which ASCII is a part; other characters are rare and stay as they are.
            code = int(found["octal"], 8)
            return chr(code) if code < 0x80 else found[0]
        return _ESCAPED.get(found["one"], found["one"])

    return join_surrogates(_ESCAPE.sub(character, raw))


def _escape(quote: str, has_lines: bool, ascii_only: bool, text: str) -> str:
    """`text` between quotation marks; with `has_lines`, its line ends are written as such."""
    kept = "\n\r\t" if has_lines else ""
    spelled = "".join(
        f"\\{one}" if one in ("\\", quote) else one if one in kept else _SPELLINGS.get(one, one) for one in text
    )
    return escape_above(0x7F, spelled, "\\U") if ascii_only else spelled
