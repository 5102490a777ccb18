"""Inserts tags into translated text, and encodes it for its format.

Tag placement is in app/text/tag_projection.py.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from app.markup.passage import Passage, ProtectedSpan, Tag, resolve_references

_WORD = re.compile(r"[^\W_]")


class Insertion(NamedTuple):
    """`raw` in the place of characters [start, end), usually none."""

    start: int
    end: int
    raw: str


@dataclass(eq=False, slots=True)
class TagNode:
    """An element, or a mark (`start == end`, no children), and later its place in the translation."""

    start: int
    end: int
    opening: str = ""
    closing: str = ""
    opened_before: bool = False
    """Opened in an earlier sentence."""
    closed_after: bool = False
    """Closed in a later one."""
    space: bool = False
    is_guessed: bool = False
    """Around a word that none of its own words is aligned to."""
    children: list[TagNode] = field(default_factory=list)
    units: tuple[int, int] = (0, 0)
    place: tuple[int, int] = (0, 0)
    """Characters of the translation; for a space mark, the space that it replaces."""


def tag_tree(tags: Sequence[Tag], length: int) -> TagNode:
    """A root node for a text of `length` characters, with nodes for its tags.

    An unpaired tag belongs to an element that begins before the text or ends after it.
    """
    root = TagNode(0, length)
    open_nodes = [root]
    for tag in tags:
        if tag.kind == "mark":
            open_nodes[-1].children.append(TagNode(tag.at, tag.at, tag.raw, space=tag.space))
        elif tag.kind == "open":
            node = TagNode(tag.at, length, tag.raw, closed_after=True)
            open_nodes[-1].children.append(node)
            open_nodes.append(node)
        elif len(open_nodes) > 1:
            node = open_nodes.pop()
            node.end, node.closing, node.closed_after = tag.at, tag.raw, False
        else:
            root.children = [TagNode(0, tag.at, closing=tag.raw, opened_before=True, children=root.children)]
    return root


def insertions(root: TagNode) -> Iterator[Insertion]:
    """The tags in target order."""
    waiting: list[TagNode | Insertion] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Insertion):
            yield node
            continue
        start, end = node.place
        yield Insertion(start, end if node.space else start, node.opening)
        waiting.append(Insertion(end, end, node.closing))
        waiting.extend(sorted(node.children, key=lambda child: child.place)[::-1])


def empty_elements(root: TagNode, text: str, translation: str) -> Iterator[str]:
    """The words of `text` inside an element that is around no word of the translation that is aligned to one; not of
    elements inside it."""
    in_text, in_translation = ([word.start() for word in _WORD.finditer(of)] for of in (text, translation))
    waiting = root.children[::-1]
    while waiting:
        node = waiting.pop()
        is_whole = not (node.opened_before or node.closed_after)
        is_empty = node.is_guessed or not _has_any(in_translation, *node.place)
        if is_whole and is_empty and _has_any(in_text, node.start, node.end):
            yield text[node.start : node.end]
        else:
            waiting += node.children[::-1]


def _has_any(places: Sequence[int], start: int, end: int) -> bool:
    """Whether any of `places`, which are in order, is in [start, end)."""
    return bisect_left(places, start) < bisect_left(places, end)


def render_source(passage: Passage) -> str:
    """The source of `passage`: its own text with its tags and protected parts, encoded for its format."""
    pieces: list[str | ProtectedSpan] = []
    moved, shift, end = [], 0, 0
    protected = iter((*passage.protected, None))
    following = next(protected)
    for tag in (*passage.tags, None):
        while following and (tag is None or following.end <= tag.at):
            pieces += [passage.text[end : following.start], following]
            end, shift = following.end, shift + len(following.raw) - (following.end - following.start)
            following = next(protected)
        if tag:
            moved.append(Insertion(tag.at + shift, tag.at + shift + _covers(passage.text, tag), tag.raw))
    text = render_pieces([*pieces, passage.text[end:]], moved, passage.write)
    if not passage.nested:
        return text
    nested = {inner.number: render_source(inner.passage) for inner in passage.nested}
    return resolve_references(text, nested.get)


def render_pieces(
    pieces: Iterable[str | ProtectedSpan], insertions: Iterable[Insertion], write: Callable[[str], str]
) -> str:
    """`pieces`, encoded, with the insertions, which are in order."""
    parts: list[str] = []
    waiting = iter(insertions)
    following = next(waiting, None)
    offset = 0
    for piece in pieces:
        length = len(piece.raw) if isinstance(piece, ProtectedSpan) else len(piece)
        done = 0
        while following and following.start < offset + length:
            if isinstance(piece, str):
                parts.append(write(piece[done : following.start - offset]))
                done = following.end - offset
            parts.append(following.raw)
            following = next(waiting, None)
        parts.append(piece.raw if isinstance(piece, ProtectedSpan) else write(piece[done:]))
        offset += length
    while following:
        parts.append(following.raw)
        following = next(waiting, None)
    return "".join(parts)


def _covers(text: str, tag: Tag) -> int:
    """How many characters of `text` the tag replaces: the space after it, if the tag itself is white space."""
    return int(tag.space and text[tag.at : tag.at + 1].isspace())
