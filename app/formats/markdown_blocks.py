"""Locates the text blocks of a Markdown file, line by line, and their inline tokens with their source text.

markdown-it-py reports the lines of a block but not the position of an inline token; its rules are instrumented for
that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, lheading, paragraph
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline.state_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.front_matter import front_matter_plugin

from app.formats.document import UnreadableDocument
from app.formats.markdown_extensions import TITLE, use_extensions

_MAX_CHARS = 1_000_000
"""The parser takes up to 20 s for this many characters of adversarial input."""
_MIN_TOKENS, _TOKENS_PER_CHAR = 1_000, 8
"""Lists have more than one for each character."""
_LINE = re.compile(r"[^\r\n]*(\r\n?|\n|\Z)")
_CLOSING_MARKS = re.compile(r"(?:[ \t]|^)#+$")
_TASK_OR_ALERT = re.compile(r"\[[ xX]\][ \t]+|\[![A-Za-z]+\][+-]?(?:[ \t]*(?:\n|\Z)|(?P<titled>[ \t]+))")
"""The beginning of a GitHub task or alert, the latter perhaps with a title as in Obsidian and VitePress."""
_CELL = re.compile(r"(?:[^|]++|(?<=\\)\|)*+")
"""Up to the next bar without a backslash before it, even if that backslash is escaped: the parser does the same."""
_BLANK = " \t"
"""White space by CommonMark (section 2.1), which is trimmed only at the ends of a line; any other white space is
text."""
_RECORDED_RULES = (
    "newline",
    "escape",
    "backticks",
    "link",
    "image",
    "autolink",
    "footnote_inline",
    "footnote_ref",
    "math_inline",
)


class Block(NamedTuple):
    """Characters [start, end) of the file that are a block's text, including the prefixes of its inner lines.

    `separators` are the text between its lines. `can_begin` tells whether its first line might begin another kind of
    block. `finish` escapes what has a special meaning in the whole block.
    """

    start: int
    end: int
    tokens: Sequence[Token]
    separators: Sequence[str]
    can_begin: bool
    finish: Callable[[str], str]


class _Line(NamedTuple):
    start: int
    end: int
    """Without the line end."""


class Definition(NamedTuple):
    """Characters [start, end) of the file with a link's destination, and its title."""

    start: int
    end: int
    title: str


class FrontMatter(NamedTuple):
    """Characters [start, end) of the file that are the front matter, including its fences: YAML, or TOML."""

    start: int
    end: int
    is_toml: bool


def blocks(text: str) -> Iterator[Block | Definition | FrontMatter]:
    """The headings, paragraphs and table cells of `text`, and its definitions and front matter. Raises
    UnreadableDocument."""
    if "\0" in text:
        raise UnreadableDocument("The file contains a null character; it is not text.")
    if len(text) > _MAX_CHARS:
        raise UnreadableDocument(f"The file has {len(text)} characters; Markdown may have {_MAX_CHARS}. Split it.")
    lines = [_Line(found.start(), found.start(1)) for found in _LINE.finditer(text)]
    env: dict[str, object] = {}
    opening = Token("", "", 0)
    row, cell_start = -1, 0
    for token in _parsed(text, env):
        if token.nesting > 0:
            opening = token
        if token.type == "front_matter" and token.map:
            yield FrontMatter(lines[token.map[0]].start, lines[token.map[1] - 1].end, token.markup == "+++")
        if token.type != "inline" or not token.map or not token.content:
            continue
        if opening.type == TITLE:
            start = lines[token.map[0]].start + opening.meta["column"]
            tokens = _tokens(token.content, env)
            yield Block(start, start + len(token.content), tokens, [], False, lambda title: title.replace('"', "'"))
            continue
        if opening.type in {"th_open", "td_open"}:
            if token.map[0] != row:
                row = token.map[0]
                cell_start = lines[row].start
            if content := token.content.strip():  # the parser keeps what only Python considers white space
                start, end, cell_start = _cell_span(text, content, cell_start, lines[row])
                yield Block(start, end, _tokens(content, env), [], False, lambda cell: cell.replace("|", "\\|"))
            continue
        parts, first = [token.content], token.map[0]
        if (alert := _TASK_OR_ALERT.match(token.content)) and alert["titled"]:
            parts = token.content.split("\n", 1)
        for part in parts:
            end = first + part.count("\n") + 1
            if block := _block(text, lines[first:end], part, opening.markup.startswith("#"), env):
                yield block
            first = end
    references = env.get("references")
    for definition in references.values() if isinstance(references, dict) else ():
        if title := definition.get("title"):
            first, end = definition["map"]
            yield Definition(lines[first].start, lines[end - 1].end, title)


class _Tokens(list[Token]):
    """The tokens of a file, as many as its size allows: a row of a table has those of all its columns."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def append(self, token: Token) -> None:
        if len(self) >= self._limit:
            raise UnreadableDocument("The tables of the file lack too many cells for its size.")
        super().append(token)


def _parsed(text: str, env: dict[str, object]) -> list[Token]:
    """The tokens of blocks. Raises UnreadableDocument."""
    state = StateCore(text, _MARKDOWN, env)
    state.tokens = _Tokens(_MIN_TOKENS + _TOKENS_PER_CHAR * len(text))
    _MARKDOWN.core.process(state)
    return state.tokens


def _block(text: str, lines: Sequence[_Line], content: str, is_atx: bool, env: dict[str, object]) -> Block | None:
    task_or_alert = _TASK_OR_ALERT.match(content)
    if task_or_alert:
        content = content[task_or_alert.end() :]
        lines = lines[1:] if task_or_alert[0].endswith("\n") else lines
        if not content:
            return None
    spans = [
        _content_span(text, line, content_line, is_atx)
        for line, content_line in zip(lines, content.split("\n"), strict=True)
    ]
    separators = [text[line.end : start] for line, (start, _) in zip(lines, spans[1:], strict=False)]
    tokens = _tokens(content, env)
    return Block(spans[0][0], spans[-1][1], tokens, separators, not is_atx, _escape_heading if is_atx else str)


def _content_span(text: str, line: _Line, content: str, is_atx: bool) -> tuple[int, int]:
    """The position of `content` in the line: at its end."""
    blank = None if is_atx else _BLANK  # a heading's content comes without any white space
    content_line, visible = content.strip(blank), text[line.start : line.end].rstrip(blank)
    if is_atx and not visible.endswith(content_line):
        visible = _CLOSING_MARKS.sub("", visible).rstrip()
    assert visible.endswith(content_line), (visible, content_line)
    return line.start + len(visible) - len(content_line), line.start + len(visible)


def _cell_span(text: str, content: str, start: int, line: _Line) -> tuple[int, int, int]:
    """The position of `content`, searched from `start`, and of the next cell."""
    while start <= line.end:
        end = _CELL.match(text, start, line.end).end()  # type: ignore[union-attr]  # it matches anything
        visible = text[start:end].rstrip()
        encoded = content.replace("|", "\\|")
        # The first cell comes after the line's prefix.
        if visible.strip() == encoded or (start == line.start and visible.endswith(encoded)):
            return start + len(visible) - len(encoded), start + len(visible), end + 1
        start = end + 1
    raise AssertionError(content)


def _escape_heading(markup: str) -> str:
    """Escapes a heading's last "#", which would be taken for a closing mark."""
    return re.sub(r"#+\Z", r"\\\g<0>", markup)


def _tokens(content: str, env: dict[str, object]) -> list[Token]:
    tokens: list[Token] = []
    return _MARKDOWN.inline.parse(content, _MARKDOWN, env, tokens)


def _keeping_lines(rule: Callable[[StateBlock, int, int, bool], bool]) -> Callable[[StateBlock, int, int, bool], bool]:
    """`rule`, but its content has all of its lines: the parser strips lines that consist, for example, of no-break
    spaces."""

    def keeping_lines(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
        if not rule(state, start_line, end_line, silent):
            return False
        inline = state.tokens[-2]
        assert inline.map
        first, end = inline.map
        inline.content = state.getLines(first, end, state.blkIndent, False).strip(_BLANK)
        return True

    return keeping_lines


def _recorded(rule: Callable[[StateInline, bool], bool]) -> Callable[[StateInline, bool], bool]:
    """`rule`, but it records in its tokens' meta their source text."""

    def recorded(state: StateInline, silent: bool) -> bool:
        start, count = state.pos, len(state.tokens)
        if not rule(state, silent):
            return False
        if not silent:
            _annotate(state, start, state.tokens[count:])
        return True

    return recorded


def _annotate(state: StateInline, start: int, tokens: Sequence[Token]) -> None:
    # Pending text before it has become a separate token.
    added = [token for token in tokens if token.type not in {"text", "text_special"} and "raw" not in token.meta]
    if not added:
        return
    if added[0].type == "link_open" and added[0].markup != "autolink":
        end_of_label = state.md.helpers.parseLinkLabel(state, start, True)
        closing = state.src[end_of_label : state.pos]
        if closing in {"]", "][]"}:  # the label is the text, which will change
            closing = f"][{state.src[start + 1 : end_of_label]}]".replace("\n", " ")
        added[0].meta["raw"], added[-1].meta["raw"] = "[", closing
        return
    if added[0].type == "image":
        end_of_label = state.md.helpers.parseLinkLabel(state, start + 1, False)
        label, closing = state.src[start + 2 : end_of_label], state.src[end_of_label : state.pos]
        if closing in {"]", "][]"}:
            closing = f"][{label}]".replace("\n", " ")
        added[0].meta["label"], added[0].meta["closing"] = label, closing
    if added[0].type == "footnote_ref" and state.src[start] == "^":
        added[0].children = state.env["footnotes"]["list"][added[0].meta["id"]]["tokens"]
    if added[0].type in {"softbreak", "hardbreak"}:
        while state.src[start - 1 : start] == " ":
            start -= 1
    added[0].meta["raw"] = state.src[start : state.pos]


def _parser() -> MarkdownIt:
    markdown = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    markdown.use(front_matter_plugin).use(footnote_plugin).use(use_extensions)
    # We parse the inline content ourselves, at its position, and tokens must not be joined.
    markdown.disable(["inline", "footnote_tail", "text_join", "fragments_join"])
    for name, block_rule in (("paragraph", paragraph), ("lheading", lheading)):
        markdown.block.ruler.at(name, _keeping_lines(block_rule))
    ruler = markdown.inline.ruler
    rules = dict(zip(ruler.get_active_rules(), ruler.getRules(""), strict=True))
    for name in _RECORDED_RULES:
        ruler.at(name, _recorded(rules[name]))
    return markdown


_MARKDOWN = _parser()
