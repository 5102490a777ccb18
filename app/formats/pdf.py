"""PDF with a text layer: its text in reading order, written as a page of HTML that says so.

A PDF has letters at positions, and neither paragraphs nor words; a translation, which is longer or shorter, would have
no place there. Pictures and layout are left out. A scan is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from app.formats.document import Content, TextLocation
from app.markup.passage import Passage

_LINE_END_HYPHEN = re.compile(r"(\w)[-\u00ad\u2010]\n\s*(?=[^\W\d_])(?![A-Z])")
"""A word that goes on in the next line."""
_HYPHEN_BEFORE_NAME = re.compile(r"(\w-)\n\s*(?=[A-Z])")
_BEFORE_BULLET = re.compile(r"\n(?=[^\S\n]*[\u2022\u2023\u25a0\u25aa\u25cb\u25cf\u25e6\u2043]\s)")
_LIGATURES = str.maketrans({"\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl"})
_SENTENCE_END = re.compile(r"[.!?:;。！？：；…][\"'”’»)\]]*$")
_END_CHARS = 100
"""Of a paragraph, for its last sentence's end."""
_CJK = r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]"
_SPACE_IN_CJK = re.compile(rf"(?<={_CJK})\s+(?={_CJK})")
_RUNNING_NUMBER = re.compile(r"\d+|(?<![ivxlc])[ivxlc]+$")
_RUNNING_PAGES = 3
"""A line on so many pages, apart from its number, is a running head."""
_HEADINGS = ((1.5, "h1"), (1.15, "h2"))
"""By how much larger its letters are than those of most of the text."""
_MAX_HEADING_CHARS = 200
_NOTE = "Text of a PDF in reading order, without its pictures and layout."


class Block(NamedTuple):
    """A paragraph or heading."""

    page: int
    size: float
    text: str


def read(content: bytes, target: str = "") -> Content:
    """`target`: the language that the page will declare. Raises UnreadableDocument. Takes 0.05 s a page."""
    found = paragraphs(_blocks(content))
    body = _body_size(found)
    names = [_name(block, body) for block in found]
    passages = [Passage(block.text, write=_encode) if any(map(str.isalpha, block.text)) else None for block in found]

    def write(translations: Sequence[str]) -> bytes:
        remaining = iter(translations)
        lines = ["<!DOCTYPE html>", f'<html lang="{escape(target)}"><meta charset="utf-8">']
        lines.append(f'<p lang="en"><small>{_NOTE}</small></p>')
        for name, block, passage in zip(names, found, passages, strict=True):
            lines.append(f"<{name}>{next(remaining) if passage else _encode(block.text)}</{name}>")
        return "\n".join([*lines, "</html>", ""]).encode()

    chosen = [(passage, block) for passage, block in zip(passages, found, strict=True) if passage]
    locations = [TextLocation(name=f"page {block.page}") for _, block in chosen]
    return Content([passage for passage, _ in chosen], write, locations)


def _encode(text: str) -> str:
    return escape(text, quote=False)


def _blocks(content: bytes) -> list[Block]:
    from app.formats.pdf_text import blocks  # here, since the library takes 0.2 s to load

    return [Block(*each) for each in blocks(content)]


def paragraphs(found: Sequence[Block]) -> list[Block]:
    """The blocks without running heads and page numbers, each on one line, and those joined that a page or column break
    has parted."""
    on_pages = Counter((key, block.page) for block in found if (key := _running_key(block.text)))
    pages = Counter(key for key, _ in on_pages)
    joined = list[tuple[Block, list[str]]]()
    # Each item of a list is a block by itself.
    for block in (each._replace(text=text) for each in found for text in _BEFORE_BULLET.split(each.text)):
        if pages[_running_key(block.text)] >= _RUNNING_PAGES or block.text.strip().isdecimal():
            continue
        text = _one_line(block.text)
        if not text:
            continue
        before, parts = joined[-1] if joined else (block, [""])
        end = parts[-1][-_END_CHARS:]
        if joined and before.size == block.size and not _SENTENCE_END.search(end) and text[:1].islower():
            if end[-1:] in "-\u00ad\u2010" and end[-2:-1].isalpha():
                parts[-1] = parts[-1][:-1]
            else:
                text = f" {text}"
            parts.append(text)
        else:
            joined.append((block, [text]))
    return [block._replace(text="".join(parts)) for block, parts in joined]


def _running_key(text: str) -> str:
    """What is the same on each page of a running head; empty if it is too long for one."""
    words = text.split()
    return " ".join(_RUNNING_NUMBER.sub("#", word) for word in words) if 0 < len(words) <= 12 else ""


def _one_line(text: str) -> str:
    text = _LINE_END_HYPHEN.sub(r"\1", text.translate(_LIGATURES).strip())
    text = _HYPHEN_BEFORE_NAME.sub(r"\1", text)
    return " ".join(_SPACE_IN_CJK.sub(lambda space: "" if "\n" in space[0] else space[0], text).split())


def _body_size(found: Sequence[Block]) -> float:
    """The size of most letters, in points."""
    sizes = Counter[float]()
    for block in found:
        sizes[block.size] += len(block.text)
    return max(sizes, key=sizes.__getitem__, default=1.0) or 1.0


def _name(block: Block, body: float) -> str:
    """The element for a block."""
    if len(block.text) > _MAX_HEADING_CHARS:
        return "p"
    return next((name for factor, name in _HEADINGS if block.size >= factor * body), "p")
