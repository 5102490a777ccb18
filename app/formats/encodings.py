"""Decodes and encodes files: UTF-8, or UTF-16 with a byte order mark. Never guesses."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

from app.formats.document import UnreadableDocument

_BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_SUPPORTED_NAME = re.compile(r"utf-?(?:8|16)", re.IGNORECASE)


def decode(content: bytes) -> tuple[str, Callable[[str], bytes]]:
    """The text without its byte order mark, and a function that encodes text the same way. Raises
    UnreadableDocument."""
    bom, encoding = next(((m, name) for m, name in _BYTE_ORDER_MARKS.items() if content.startswith(m)), (b"", "utf-8"))
    try:
        text = content[len(bom) :].decode(encoding)
    except UnicodeDecodeError as error:
        offset = len(bom) + error.start
        raise UnreadableDocument(
            f"The file is not {encoding.upper()}: byte {offset} is 0x{content[offset]:02x}. Save it as UTF-8."
        ) from None
    return text, lambda text: bom + text.encode(encoding)


def check_declared_encoding(declaration: re.Match[str] | None) -> None:
    """Raises UnreadableDocument if the first group, the encoding that the file declares, is not supported.

    The file may be ASCII while its translation is not, and would then be read in the declared encoding.
    """
    if declaration and not _SUPPORTED_NAME.fullmatch(declaration[1]):
        raise UnreadableDocument(f"The file declares the encoding {declaration[1]}. Save it as UTF-8.")


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
