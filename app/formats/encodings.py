"""Decodes and encodes files: UTF-8, UTF-16 with a byte order mark, or in the encoding that they declare. Never
guesses."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from typing import Literal

from app.formats.document import UnreadableDocument, WrongOption

Encoding = Literal["auto", "keep"]
"""Of a translated text that was not Unicode: UTF-8, or its own."""
BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_SUPPORTED_NAME = re.compile(r"utf-?(?:8|16)", re.IGNORECASE)
XML_ENCODING = re.compile(r"""<\?xml[^>]{0,100}\sencoding\s*=\s*["']([\w.:-]+)""")
_META_CHARSET = re.compile(
    r"""<meta(?:[\s/]+[^\s=>"'/]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'>]+))?){0,9}?[\s/]+
    (?:charset\s*=\s*["']?\s*|content\s*=\s*["']?\s*[\w.+-]+/[\w.+-]+\s*;\s*charset\s*=\s*)([\w.:-]+)""",
    re.IGNORECASE | re.VERBOSE,
)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_HEAD_CHARS = 4_096
"""The number of characters in which an encoding may be declared."""
_LEGACY = re.compile(
    r"windows-(?:874|125[0-8])|iso-8859-(?:[2-8]|10|1[3-6])|koi8-[ru]|gbk|gb18030|big5|shift_jis|euc-(?:jp|kr)"
    r"|iso-2022-jp|macintosh|ibm866|utf-16(?:le|be)"
)
_LABELS = {
    **dict.fromkeys(["iso-8859-1", "iso8859-1", "latin1", "latin-1", "ascii", "us-ascii", "cp1252"], "windows-1252"),
    **dict.fromkeys(["iso-8859-9", "latin5"], "windows-1254"),
    **dict.fromkeys(["iso-8859-11", "tis-620"], "windows-874"),
    **dict.fromkeys(["shift-jis", "sjis", "x-sjis", "windows-31j", "ms932", "cp932"], "shift_jis"),
    **dict.fromkeys(["gb2312", "x-gbk", "cp936"], "gbk"),
    **dict.fromkeys(["ks_c_5601-1987", "windows-949", "cp949"], "euc-kr"),
    **dict.fromkeys(["utf-16", "utf16"], "utf-16le"),
    **{f"cp{number}": f"windows-{number}" for number in (874, *range(1250, 1259))},
}
"""Other names, in the meaning that they have on the web (https://encoding.spec.whatwg.org/#names-and-labels)."""
_CODECS = {"shift_jis": "cp932", "euc-kr": "cp949", "windows-874": "cp874"}
"""Python's names, where they differ."""


def decode(content: bytes) -> tuple[str, Callable[[str], bytes]]:
    """The text without its byte order mark, and a function that encodes text the same way. Raises
    UnreadableDocument."""
    bom, encoding = next(((m, name) for m, name in BYTE_ORDER_MARKS.items() if content.startswith(m)), (b"", "utf-8"))
    try:
        text = content[len(bom) :].decode(encoding)
    except UnicodeDecodeError as error:
        offset = len(bom) + error.start
        raise UnreadableDocument(
            f"The file is not {encoding.upper()}: byte {offset} is 0x{content[offset]:02x}. Save it as UTF-8."
        ) from None
    if "\0" in text[:2]:
        fault = "The file has a null character; it is not text, or UTF-16 or UTF-32 that does not say so."
        raise UnreadableDocument(f"{fault} Save it as UTF-8.")
    return text, lambda text: bom + text.encode(encoding)


def check_declared_encoding(declaration: re.Match[str] | None) -> None:
    """Raises UnreadableDocument if the first group, the encoding that the file declares, is not supported.

    The file may be ASCII while its translation is not, and would then be read in the declared encoding.
    """
    if declaration and not _SUPPORTED_NAME.fullmatch(declaration[1]):
        raise UnreadableDocument(f"The file declares the encoding {declaration[1]}. Save it as UTF-8.")


def legacy_encoding(content: bytes, charset: str, is_html: bool) -> str:
    """The encoding of `content` if it is not Unicode with a byte order mark, or UTF-8: `charset`, which who sent it
    declares, or what the page itself declares. Raises UnreadableDocument if it is unknown."""
    if content.startswith(tuple(BYTE_ORDER_MARKS)):
        return ""
    declared = charset.strip().lower()
    if is_html and not declared:
        found = next(_declarations(content[:_HEAD_CHARS].decode("latin-1")), None)
        declared = found[1].lower() if found and not _SUPPORTED_NAME.fullmatch(found[1]) else ""
    if declared in ("", "utf-8", "utf8"):
        return ""
    name = _LABELS.get(declared, declared)
    if not _LEGACY.fullmatch(name):
        raise UnreadableDocument(f"The file declares the encoding {declared[:100]!r}. Save it as UTF-8.")
    return name


def _declarations(head: str) -> Iterator[re.Match[str]]:
    """The declarations of an encoding, its name as the first group, of XML and of HTML, outside comments."""
    head = _COMMENT.sub(lambda found: " " * len(found[0]), head)
    yield from filter(None, (XML_ENCODING.match(head), _META_CHARSET.search(head)))


def from_legacy(content: bytes, encoding: str) -> bytes:
    """`content` in UTF-8. Raises UnreadableDocument."""
    try:
        return content.decode(_CODECS.get(encoding, encoding)).encode()
    except UnicodeDecodeError as error:
        where = f"byte {error.start} is 0x{content[error.start]:02x}"
        raise UnreadableDocument(f"The file is not {encoding}, which it declares: {where}. Save it as UTF-8.") from None


def to_legacy(content: bytes, encoding: str, is_html: bool) -> bytes:
    """The reverse; HTML has references for what `encoding` lacks. Raises WrongOption."""
    try:
        return content.decode().encode(_CODECS.get(encoding, encoding), "xmlcharrefreplace" if is_html else "strict")
    except UnicodeEncodeError as error:
        lacks = f"The translation has {error.object[error.start]!r}, which {encoding} lacks."
        raise WrongOption("encoding", f"{lacks} Leave the option out, to get UTF-8.") from None


def unicode_charset(content: bytes) -> str:
    """The charset to name for a text."""
    return "utf-16" if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"


def declare_utf8(text: str) -> str:
    """A page that declares UTF-8 in the place of an encoding that is not Unicode."""
    for found in reversed(list(_declarations(text[:_HEAD_CHARS]))):
        if not _SUPPORTED_NAME.fullmatch(found[1]):
            text = f"{text[: found.start(1)]}utf-8{text[found.end(1) :]}"
    return text


def escape_above(limit: int, text: str, prefix: str) -> str:
    """`text` with characters above the code point `limit` as their UTF-16 code units, `prefix` and four digits each."""
    return text if max(text, default="") <= chr(limit) else "".join(_escaped(limit, one, prefix) for one in text)


def _escaped(limit: int, character: str, prefix: str) -> str:
    if ord(character) <= limit:
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"{prefix}{units[place : place + 4]}" for place in range(0, len(units), 4))


def join_surrogates(text: str) -> str:
    """`text`, in which escapes may have spelled a character as two halves; a lone half becomes U+FFFD."""
    if not any("\ud800" <= one <= "\udfff" for one in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
