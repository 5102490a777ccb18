"""Markdown: CommonMark with tables, strikethrough, footnotes and front matter, parsed by markdown-it-py.

Headings, paragraphs and cells are passages, as are alternative texts of images, titles of links, and the title and
description in front matter; code, HTML blocks and the rest of the front matter are kept. The positions of blocks and
their line prefixes are in app/formats/markdown_blocks.py.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from markdown_it.common.utils import unescapeAll
from markdown_it.token import Token

from app.formats.document import Content, Slot, content_of_slots
from app.formats.encodings import decode
from app.formats.front_matter import slots as front_matter_slots
from app.formats.markdown_blocks import Block, Definition, FrontMatter, blocks
from app.formats.passage_builder import PassageBuilder
from app.markup.passage import OBJECT, NestedPassage, Passage, has_no_references, reference

_SPECIAL = re.compile(
    r"[`\[\]]|(?<!\s)\*|\*(?!\s)|(?<!\w)_|_(?!\w)|~(?=~)|(?<=~)~|<(?=[A-Za-z/!?])|&(?=#?\w{1,32};)"
    r"|\\(?=[!-/:-@\[-`{-~\n]|\Z)"
)
"""Characters that may be markup, judging by their neighbours; at its ends a piece of text may touch anything."""
_EXTENSION_MARKS = frozenset("$=:{")
"""Begin what CommonMark does not have."""
_BESIDE_BRACKET = re.compile(r"!\Z|\A\^")
"""Would turn a following link into an image, or a footnote if at its beginning."""
_LINE_START = re.compile(r"(?:[+-](?=\s|$)|--|#{1,6}(?=\s|$)|>|=+\s*$|~~~|[:|][:|-])|(\d{1,9})[.)](?=\s|$)")
"""Would begin a block, or turn the line before it into a heading or a table."""
_TITLE = re.compile(
    r"""(?<=[ \t\n])(?:"(?P<double>(?:\\.|[^"\\])*)"|'(?P<single>(?:\\.|[^'\\])*)'|\((?P<round>(?:\\.|[^()\\])*)\))
    (?=[ \t\n]*\)?\Z)""",
    re.DOTALL | re.VERBOSE,
)
"""The title, with its quotes, in what follows a link's text or defines a link."""
_IN_TITLE = re.compile(r"&(?=#?\w{1,32};)|\\(?=[!-/:-@\[-`{-~\n]|\Z)")
_TITLE_QUOTES = {"double": '"', "single": "'", "round": "()"}
_HTML_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)")
_OPAQUE = {"code", "kbd", "samp", "var", "pre", "script", "style", "math", "svg"}
_VOID = {"area", "br", "img", "hr", "input", "wbr"}


def read(content: bytes) -> Content:
    """Raises UnreadableDocument."""
    text, encode = decode(content)
    return content_of_slots(text, sorted(_slots(text), key=lambda slot: slot.start), encode)


def _slots(text: str) -> Iterator[Slot]:
    can_nest = has_no_references(text)
    for block in blocks(text):
        if isinstance(block, FrontMatter):
            yield from front_matter_slots(text, block.start, block.end, block.is_toml)
        elif isinstance(block, Definition):
            if match := _title(text[block.start : block.end], block.title):
                yield Slot(block.start + match[0].start, block.start + match[0].stop, match[1])
        elif passage := _InlineConverter(block.tokens, can_nest).passage():
            yield Slot(block.start, block.end, passage, partial(_encode_block, block))


def _title(markup: str, title: object) -> tuple[slice, Passage] | None:
    """The position of a title at the end of `markup`, and its passage; None if it cannot be determined."""
    match = _TITLE.search(markup) if isinstance(title, str) and any(map(str.isalpha, title)) else None
    if not match or not match.lastgroup or unescapeAll(match[match.lastgroup]) != title:
        return None
    write = partial(_escape_title, _TITLE_QUOTES[match.lastgroup])
    return slice(*match.span(match.lastgroup)), Passage(str(title), write=write)


def _escape_title(quotes: str, text: str) -> str:
    text = _IN_TITLE.sub(r"\\\g<0>", text)
    return "".join(f"\\{character}" if character in quotes else character for character in text)


def _encode_block(block: Block, translation: str) -> str:
    """The translation with the block's line ends and prefixes, escaped so that nothing begins another block."""
    first, *others = translation.split("\n")
    lines = [_escape_line_start(first) if block.can_begin else first]
    separators = [*block.separators, *[" "] * len(others)]
    for line, separator in zip(others, separators, strict=False):
        lines += [separator, _escape_line_start(line.lstrip(" "))]
    return block.finish("".join(lines))


def _escape_line_start(line: str) -> str:
    match = _LINE_START.match(line)
    position = match.end(1) if match and match[1] else 0
    return f"{line[:position]}\\{line[position:]}" if match else line


def _escape(text: str, hard_break: str, has_links: bool, escaped: frozenset[str]) -> str:
    """`escaped`: characters that some programs take for markup, and the source escapes."""
    text = _SPECIAL.sub(r"\\\g<0>", text)
    for character in escaped:
        text = text.replace(character, f"\\{character}")
    if has_links:
        text = _BESIDE_BRACKET.sub(r"\\\g<0>", text)
    return text.replace("\n", hard_break)


class _InlineConverter:
    """Makes a passage of a block's inline tokens."""

    def __init__(self, tokens: Sequence[Token], can_nest: bool) -> None:
        """`can_nest`: whether descriptions and titles of images become nested passages."""
        self.tokens, self.can_nest = tokens, can_nest
        self.nested: list[NestedPassage] = []
        self.titles: list[object] = []
        """Titles of the open links."""
        self.builder = PassageBuilder()
        # "_" cannot mark part of a word, which a translation may need; "*" can.
        self.only_underscores = all(token.markup.startswith("_") for token in tokens if token.tag in {"em", "strong"})
        self.closing: dict[str, list[int]] = {}
        for index, token in enumerate(tokens):
            if token.type == "html_inline" and token.content.startswith("</"):
                self.closing.setdefault(_name(token), []).append(index)

    def passage(self) -> Passage | None:
        index = 0
        while index < len(self.tokens):
            index = self._add_token(index)
        types = {token.type for token in self.tokens}
        breaks = [_raw(token) for token in self.tokens if token.type == "hardbreak"]
        escaped = {token.content for token in self.tokens if token.type == "text_special"} & _EXTENSION_MARKS
        has_links = bool({"link_open", "image"} & types)
        write = partial(_escape, hard_break=[*breaks, " "][0], has_links=has_links, escaped=frozenset(escaped))
        nested = tuple(self.nested)
        if passage := self.builder.build_translatable(write):
            return replace(passage, nested=nested)
        return replace(self.builder.build(write), nested=nested) if nested else None

    def _add_token(self, index: int) -> int:
        """Collects the token at `index` and those that it opens. Returns the index of the next token."""
        token = self.tokens[index]
        if token.type in {"text", "text_special"}:
            self.builder.add_text(token.content)
        elif token.type == "softbreak":
            self.builder.add_mark(_raw(token), space=True)
            self.builder.add_text(" ")
        elif token.type == "hardbreak":
            self.builder.add_text("\n")
        elif token.type == "html_inline":
            return self._add_html(index)
        elif token.type == "link_open" and token.markup == "autolink":
            self.builder.add_protected(self.tokens[index + 1].content, _raw(token))
            return index + 3
        elif token.type in {"code_inline", "code", "math_inline", "math_inline_double"}:
            self.builder.add_protected(token.content, _raw(token))
        elif token.type == "image":
            self.builder.add_protected(OBJECT, self._image(token))
        elif token.nesting > 0:
            if token.type == "link_open":
                self.titles.append(token.attrs.get("title"))
            self.builder.open_tag(self._markup(token), token.tag)
        elif token.type == "link_close":
            self.builder.close_tag(self._with_title_reference(_raw(token), self.titles.pop()), token.tag)
        elif token.nesting < 0:
            self.builder.close_tag(self._markup(token), token.tag)
        elif token.type == "footnote_ref" and token.children and self.can_nest:
            note = _InlineConverter(token.children, can_nest=False).passage()
            self.builder.add_mark(f"^[{self._refer(note)}]" if note else _raw(token))
        else:
            self.builder.add_mark(_raw(token))
        return index + 1

    def _add_html(self, index: int) -> int:
        token, name = self.tokens[index], _name(self.tokens[index])
        if not name or name in _VOID or token.content.endswith("/>"):
            self.builder.add_mark(token.content)
        elif token.content.startswith("</"):
            self.builder.close_tag(token.content, ("html", name))
        elif name in _OPAQUE and (end := self._closing_of(name, index)):
            inside = self.tokens[index : end + 1]
            text = "".join(t.content for t in inside[1:-1])
            self.builder.add_protected(text or " ", "".join(map(_raw, inside)))
            return end + 1
        else:
            self.builder.open_tag(token.content, ("html", name))
        return index + 1

    def _image(self, token: Token) -> str:
        """An image's markup, with references to its description and title."""
        description = _InlineConverter(token.children or [], can_nest=False).passage() if self.can_nest else None
        label = self._refer(description) if description else token.meta["label"]
        return f"![{label}{self._with_title_reference(token.meta['closing'], token.attrs.get('title'))}"

    def _with_title_reference(self, closing: str, title: object) -> str:
        """The end of a link or an image, with a reference to its title, if any."""
        match = _title(closing, title) if self.can_nest else None
        return f"{closing[: match[0].start]}{self._refer(match[1])}{closing[match[0].stop :]}" if match else closing

    def _refer(self, passage: Passage) -> str:
        self.nested.append(NestedPassage(len(self.nested), passage))
        return reference(len(self.nested) - 1)

    def _closing_of(self, name: str, index: int) -> int | None:
        positions = self.closing.get(name, [])
        after = bisect_left(positions, index)
        return positions[after] if after < len(positions) else None

    def _markup(self, token: Token) -> str:
        return _raw(token).replace("_", "*") if token.tag in {"em", "strong"} and self.only_underscores else _raw(token)


def _name(token: Token) -> str:
    """An element's name; "" for a comment or similar."""
    match = _HTML_TAG.match(token.content)
    return match[2].lower() if match else ""


def _raw(token: Token) -> str:
    """The token's source text."""
    raw: str = token.meta.get("raw", token.markup or token.content)
    return raw
