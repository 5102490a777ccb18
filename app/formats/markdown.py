"""Markdown: CommonMark with tables, strikethrough, footnotes and front matter. Its parser tells what is what.

Headings, paragraphs and cells are passages; code, HTML blocks, link definitions and front matter stay as they are.
Where in the file a passage stands, and what its lines begin with, is app/documents/markdown_blocks.py's.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import partial

from markdown_it.token import Token

from app.documents.document import Content, Slot, slotted
from app.documents.elements import Collector
from app.documents.encodings import decoded
from app.documents.markdown_blocks import Block, blocks
from app.passage import Passage

_SPECIAL = re.compile(
    r"[`\[\]]|(?<!\s)\*|\*(?!\s)|(?<!\w)_|_(?!\w)|~(?=~)|(?<=~)~|<(?=[A-Za-z/!?])|&(?=#?\w{1,32};)"
    r"|\\(?=[!-/:-@\[-`{-~\n]|\Z)"
)
"""What may be markup, from what stands beside it; at its ends a piece of text may touch anything."""
_BESIDE_BRACKET = re.compile(r"!\Z|\A\^")
"""Before a link, which would become an image; at its beginning, where a footnote would be."""
_LINE_START = re.compile(r"(?:[+-](?=\s|$)|--|#{1,6}(?=\s|$)|>|=+\s*$|~~~|[:|][:|-])|(\d{1,9})[.)](?=\s|$)")
"""What begins a block, or makes the line before it a heading or a table."""
_HTML_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)")
_OPAQUE = {"code", "kbd", "samp", "var", "pre", "script", "style", "math", "svg"}
_VOID = {"area", "br", "img", "hr", "input", "wbr"}


def read(content: bytes) -> Content:
    """Raises UnreadableDocument."""
    text, encode = decoded(content)
    slots = []
    for block in blocks(text):
        passage = _Inline(block.tokens).passage()
        if passage:
            slots.append(Slot(block.start, block.end, passage, partial(_spelt, block)))
    return slotted(text, slots, encode)


def _spelt(block: Block, translation: str) -> str:
    """The translation with the block's line ends and prefixes, and nothing in it that would begin another block."""
    first, *others = translation.split("\n")
    lines = [_guarded(first) if block.can_begin else first]
    separators = [*block.separators, *[" "] * len(others)]
    for line, separator in zip(others, separators, strict=False):
        lines += [separator, _guarded(line.lstrip(" "))]
    return block.finish("".join(lines))


def _guarded(line: str) -> str:
    found = _LINE_START.match(line)
    place = found.end(1) if found and found[1] else 0
    return f"{line[:place]}\\{line[place:]}" if found else line


def _written(text: str, hard_break: str, has_links: bool) -> str:
    text = _SPECIAL.sub(r"\\\g<0>", text)
    if has_links:
        text = _BESIDE_BRACKET.sub(r"\\\g<0>", text)
    return text.replace("\n", hard_break)


class _Inline:
    """Makes a passage of a block's inline tokens."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.collector = Collector()
        # "_" marks no part of a word, and a translation may want that; "*" does.
        self.only_underscores = all(token.markup.startswith("_") for token in tokens if token.tag in {"em", "strong"})
        self.closing: dict[str, list[int]] = {}
        for index, token in enumerate(tokens):
            if token.type == "html_inline" and token.content.startswith("</"):
                self.closing.setdefault(_name(token), []).append(index)

    def passage(self) -> Passage | None:
        index = 0
        while index < len(self.tokens):
            index = self._take(index)
        types = {token.type for token in self.tokens}
        breaks = [_raw(token) for token in self.tokens if token.type == "hardbreak"]
        return self.collector.passage(partial(_written, hard_break=[*breaks, " "][0], has_links="link_open" in types))

    def _take(self, index: int) -> int:
        """Collects the token there, and those that it is the beginning of. Returns where the next one is."""
        token = self.tokens[index]
        if token.type in {"text", "text_special"}:
            self.collector.text(token.content)
        elif token.type == "softbreak":
            self.collector.mark(_raw(token), space=True)
            self.collector.text(" ")
        elif token.type == "hardbreak":
            self.collector.text("\n")
        elif token.type == "html_inline":
            return self._take_html(index)
        elif token.type == "link_open" and token.markup == "autolink":
            self.collector.keep(self.tokens[index + 1].content, _raw(token))
            return index + 3
        elif token.type == "code_inline":
            self.collector.keep(token.content, _raw(token))
        elif token.nesting > 0:
            self.collector.open(self._markup(token), token.tag)
        elif token.nesting < 0:
            self.collector.close(self._markup(token), token.tag)
        else:
            self.collector.mark(_raw(token))
        return index + 1

    def _take_html(self, index: int) -> int:
        token, name = self.tokens[index], _name(self.tokens[index])
        if not name or name in _VOID or token.content.endswith("/>"):
            self.collector.mark(token.content)
        elif token.content.startswith("</"):
            self.collector.close(token.content, ("html", name))
        elif name in _OPAQUE and (end := self._closing_of(name, index)):
            inside = self.tokens[index : end + 1]
            text = "".join(t.content for t in inside[1:-1])
            self.collector.keep(text or " ", "".join(map(_raw, inside)))
            return end + 1
        else:
            self.collector.open(token.content, ("html", name))
        return index + 1

    def _closing_of(self, name: str, index: int) -> int | None:
        places = self.closing.get(name, [])
        after = bisect_left(places, index)
        return places[after] if after < len(places) else None

    def _markup(self, token: Token) -> str:
        return _raw(token).replace("_", "*") if token.tag in {"em", "strong"} and self.only_underscores else _raw(token)


def _name(token: Token) -> str:
    """Of an element; "" if this is a comment or suchlike."""
    found = _HTML_TAG.match(token.content)
    return found[2].lower() if found else ""


def _raw(token: Token) -> str:
    """What stands in the file."""
    raw: str = token.meta.get("raw", token.markup or token.content)
    return raw
