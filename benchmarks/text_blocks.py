"""Hostile texts as blocks of pieces, and a hill climb over them, for `benchmarks.slow_texts` and `slow_memory`."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

Made = TypeVar("Made")
NUMBER = "\ue000"
"""In a piece: another number at each repetition."""
PAIRS = (
    *(("(", ")"), ("[", "]"), ("{", "}"), ("<b>", "</b>"), ("<b>a ", "</b>"), ("*", "*"), ("**a ", "**"), ("«", "»")),
    *(("<i>", " a</i>"), ("<p>", "</p>"), ("<x>a ", "</x>"), ("“", "”"), ("{n, select, other {", "}}"), ("`", "`")),
    *((f"<i{NUMBER}>", "</i>"), ("<b>a", "b</b>. "), ('<i title="a">', "</i>"), ("[a ", "](b)"), ("_", "_")),
    *(("{n, plural, one {a} other {b ", "}}"), ("<a>a <b>", "</a>"), ("<li>", ""), ("<b>", ""), ("", "</b>")),
)
"""What blocks nest in."""
Length = Callable[[str], int]


def utf8_length(text: str) -> int:
    return len(text.encode())


class Block(NamedTuple):
    """Pieces that fill a share of a text: repeated, or in between as many openings as endings."""

    pieces: tuple[str, ...]
    share: float
    """0: once."""
    nest: tuple[str, str] | None = None

    def text(self, size: int, length: Length) -> str:
        once = "".join(self.pieces)
        unit = once if self.nest is None else "".join(self.nest)
        times = max(1, int(self.share * size) // max(1, length(unit)))
        if self.nest is None:
            return _numbered(once * times)
        return _numbered(self.nest[0] * times) + _numbered(once) + _numbered(self.nest[1] * times)


Blocks = tuple[Block, ...]


def _numbered(text: str) -> str:
    first, *others = text.split(NUMBER)
    return first + "".join(f"{number}{other}" for number, other in enumerate(others))


def text_of(blocks: Blocks, size: int, length: Length = utf8_length) -> str:
    """The longest text of the blocks whose `length` is at most `size`."""
    total = sum(block.share for block in blocks) or 1.0
    text = "".join(block._replace(share=block.share / total).text(size, length) for block in blocks)
    return text[: bisect_right(range(len(text) + 1), size, key=lambda end: length(text[:end])) - 1]


def random_block(draw: random.Random, pieces: Sequence[str]) -> Block:
    chosen = tuple(draw.choice(pieces) for _ in range(draw.choice((1, 1, 1, 2, 2, 3, 5))))
    nest = draw.choice(PAIRS) if draw.random() < 0.2 else None
    return Block(chosen, draw.choice((0.0, 1.0, 1.0, 1.0, 0.1)), nest)


def random_blocks(draw: random.Random, pieces: Sequence[str]) -> Blocks:
    return tuple(random_block(draw, pieces) for _ in range(draw.choice((1, 1, 2, 2, 3, 4))))


def changed_blocks(given: Blocks, draw: random.Random, pieces: Sequence[str]) -> Blocks:
    """Blocks with one difference."""
    blocks = list(given)
    at = draw.randrange(len(blocks))
    block, kind = blocks[at], draw.randrange(7)
    if kind == 0 and len(blocks) < 6:
        blocks.insert(at, random_block(draw, pieces))
    elif kind == 1 and len(blocks) > 1:
        del blocks[at]
    elif kind == 2:
        blocks[at] = block._replace(share=draw.choice((0.0, 0.1, 0.3, 1.0, 3.0)))
    elif kind == 3:
        blocks[at] = block._replace(nest=draw.choice((None, *PAIRS)))
    elif kind == 4 and len(block.pieces) > 1:
        gone = draw.randrange(len(block.pieces))
        blocks[at] = block._replace(pieces=block.pieces[:gone] + block.pieces[gone + 1 :])
    elif kind == 5 and len(block.pieces) < 8:
        where = draw.randrange(len(block.pieces) + 1)
        blocks[at] = block._replace(pieces=(*block.pieces[:where], draw.choice(pieces), *block.pieces[where:]))
    else:
        where = draw.randrange(len(block.pieces))
        blocks[at] = block._replace(pieces=(*block.pieces[:where], draw.choice(pieces), *block.pieces[where + 1 :]))
    return tuple(blocks)


def climb(
    draw: random.Random,
    steps: int,
    start: Callable[[], Made],
    change: Callable[[Made], Made],
    cost: Callable[[Made], float],
    enough: float = math.inf,
) -> tuple[float, Made]:
    """Looks for what costs much, and its cost: begins with a few at random, and keeps each change that does not lower
    it. Ends after `steps` measurements, or once one is more than `enough`."""
    starts = [start() for _ in range(max(1, steps // 4))]
    most, best = max(((cost(made), made) for made in starts), key=lambda found: found[0])
    for _ in range(steps - len(starts)):
        made = best
        for _ in range(draw.choice((1, 1, 2, 3))):
            made = change(made)
        if (found := cost(made)) >= most:
            most, best = found, made
        if most > enough:
            break
    return most, best
