"""Bytes to text and back: UTF-8, or UTF-16 that says so by its byte order mark. Guesses nothing."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

from app.formats.document import UnreadableDocument

_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_UTF = re.compile(r"utf-?(?:8|16)", re.IGNORECASE)


def decoded(content: bytes) -> tuple[str, Callable[[str], bytes]]:
    """The text, without a byte order mark, and what makes such bytes of a text. Raises UnreadableDocument."""
    mark, encoding = next(((m, name) for m, name in _MARKS.items() if content.startswith(m)), (b"", "utf-8"))
    try:
        text = content[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        place = len(mark) + error.start
        raise UnreadableDocument(
            f"The file is not {encoding.upper()}: byte {place} is 0x{content[place]:02x}. Save it as UTF-8."
        ) from None
    return text, lambda text: mark + text.encode(encoding)


def refuse_other(declared: re.Match[str] | None) -> None:
    """Raises UnreadableDocument if the first group, the encoding that a file says it has, is none that is read here.

    Its text may be ASCII and its translation not, and would then be read in the encoding declared.
    """
    if declared and not _UTF.fullmatch(declared[1]):
        raise UnreadableDocument(f"The file says that its encoding is {declared[1]}. Save it as UTF-8.")
