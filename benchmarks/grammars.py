"""Grammars of hostile files: the pieces that are typical of a format, and files made by repeating and nesting them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

NUMBER = "\0"
"""In a piece: a number that is another one in each place, so that names differ."""
_MAX_COUNT = 1 << 20


@dataclass(frozen=True)
class Grammar:
    """How to make hostile files of a format.

    `pieces` stand beside each other; `nests` open and close, and go around pieces and each other. `before` and `after`
    are around them all. `build` makes the file: a package puts the text into one of its parts. `options` are arguments
    of formats.read, of which a file has one choice. `size`, which counts, is that of the text.
    """

    name: str
    suffix: str
    pieces: Sequence[str]
    nests: Sequence[tuple[str, str]] = ()
    before: str = ""
    after: str = ""
    options: Sequence[dict[str, Any]] = ({"target": "ar", "source": "en"},)
    build: Callable[[str], bytes] = str.encode
    work: Callable[[str, bytes, dict[str, Any]], list[float]] | None = None
    """What is done with the file's name, its content and the options, instead of reading, writing and reviewing it;
    returns the processor seconds of each request. May raise UnreadableDocument."""


@dataclass(frozen=True)
class Node:
    """`before`, the children, `after`: `count` times one after another, or within each other if it `nests`."""

    before: str
    after: str = ""
    count: int = 1
    nests: bool = False
    children: tuple[Node, ...] = field(default=())

    def render(self) -> str:
        inner = "".join(child.render() for child in self.children)
        if self.nests:
            return f"{self.before * self.count}{inner}{self.after * self.count}"
        return f"{self.before}{inner}{self.after}" * self.count

    def size(self, number: int) -> int:
        """Bytes of `render()`, of which each NUMBER takes `number`."""
        own = sum(len(part.encode()) + (number - 1) * part.count(NUMBER) for part in (self.before, self.after))
        inner = sum(child.size(number) for child in self.children)
        return own * self.count + inner * (1 if self.nests else self.count)

    def __str__(self) -> str:
        inner = " ".join(map(str, self.children))
        shown = f"{self.before}{{{inner}}}{self.after}" if self.nests or self.children else self.before + self.after
        kind = "nested " if self.nests else ""
        return f"{kind}{self.count} x {shown[:80]!r}" if self.count > 1 else repr(shown[:80])


class Genome(NamedTuple):
    """A hostile file: the nodes of its text, and which of the grammar's options it is read with."""

    nodes: tuple[Node, ...]
    option: int = 0

    def text(self, grammar: Grammar) -> str:
        parts = "".join([grammar.before, *(node.render() for node in self.nodes), grammar.after]).split(NUMBER)
        return parts[0] + "".join(f"{number}{part}" for number, part in enumerate(parts[1:], 1))

    def __str__(self) -> str:
        return " + ".join(map(str, self.nodes))[:300]


def seeds(grammar: Grammar, limit: int, draw: random.Random) -> Iterator[Genome]:
    """Files of one piece, of one nest, of one piece in each nest, and of two kinds, each as long as it may be."""
    pieces = [Node(piece, count=_MAX_COUNT) for piece in grammar.pieces]
    nests = [Node(*pair, count=_MAX_COUNT, nests=True) for pair in grammar.nests]
    mixed = "".join(grammar.pieces)
    some = [Node(before, after, count=_MAX_COUNT, children=(Node(mixed),)) for before, after in grammar.nests]
    both = [replace(nest, children=(piece,)) for nest in nests for piece in pieces]
    pairs = [
        Node("", count=_MAX_COUNT, children=(replace(one, count=1), replace(two, count=1)))
        for one in pieces
        for two in pieces
        if one is not two
    ]
    draw.shuffle(both)
    draw.shuffle(pairs)
    firsts = [*pieces, Node(mixed, count=_MAX_COUNT), *nests, *some]
    for node in (*firsts, *(one for pair in zip(both, pairs, strict=False) for one in pair)):
        yield fitted(Genome((node,), draw.randrange(len(grammar.options))), grammar, limit, draw)


def mutated(genome: Genome, others: Sequence[Genome], grammar: Grammar, limit: int, draw: random.Random) -> Genome:
    """`genome` with a few of its nodes repeated, nested, swapped, replaced or removed, or with some of `others`."""
    nodes, option = genome.nodes, genome.option
    for _ in range(draw.choice((1, 1, 2, 3))):
        nodes = _changed(nodes, draw.choice(others), grammar, draw)
    if draw.random() < 0.1:
        option = draw.randrange(len(grammar.options))
    if nodes and draw.random() < 0.7:
        place = draw.randrange(len(nodes))
        nodes = _with(nodes, place, replace(nodes[place], count=_MAX_COUNT))
    return fitted(Genome(nodes, option), grammar, limit, draw)


def _changed(nodes: tuple[Node, ...], other: Genome, grammar: Grammar, draw: random.Random) -> tuple[Node, ...]:
    if not nodes:
        return (Node(draw.choice(grammar.pieces)),)
    place = draw.randrange(len(nodes))
    node = nodes[place]
    if node.children and draw.random() < 0.6:
        return _with(nodes, place, replace(node, children=_changed(node.children, other, grammar, draw)))
    kind = draw.randrange(9)
    if kind == 0:
        return _with(nodes, place, replace(node, count=max(1, min(_MAX_COUNT, int(node.count * draw.uniform(0.2, 5))))))
    if kind == 1 and grammar.nests:
        around = Node(*draw.choice(grammar.nests), count=draw.choice((1, 2, 8, 64)), nests=draw.random() < 0.8)
        return _with(nodes, place, replace(around, children=(node,)))
    if kind == 2 and len(nodes) > 1:
        there = draw.randrange(len(nodes))
        return _with(_with(nodes, place, nodes[there]), there, node)
    if kind == 3:
        return (*nodes[:place], draw.choice(other.nodes) if other.nodes else node, *nodes[place:])
    if kind == 4 and len(nodes) > 1:
        return nodes[:place] + nodes[place + 1 :]
    if kind == 5:
        return _with(nodes, place, Node("", count=draw.choice((2, 8, 64)), children=(node, _piece(grammar, draw))))
    if kind == 6 and node.after:
        return _with(nodes, place, replace(node, after=""))  # which is never closed
    if kind == 7:
        return _with(nodes, place, _piece(grammar, draw))
    return (*nodes[:place], _piece(grammar, draw), *nodes[place:])


def _piece(grammar: Grammar, draw: random.Random) -> Node:
    return Node(draw.choice(grammar.pieces), count=draw.choice((1, 1, 2, 16, 256)))


def _with(nodes: tuple[Node, ...], place: int, node: Node) -> tuple[Node, ...]:
    return (*nodes[:place], node, *nodes[place + 1 :])


def fitted(genome: Genome, grammar: Grammar, limit: int, draw: random.Random) -> Genome:
    """`genome` with counts so much smaller that its text has at most `limit` bytes."""
    nodes, number = genome.nodes, len(str(limit))
    room = limit - Node(grammar.before, grammar.after).size(number)
    while nodes and sum(node.size(number) for node in nodes) > room:
        nodes = _smaller(nodes, draw)
    return Genome(nodes, genome.option)


def _smaller(nodes: tuple[Node, ...], draw: random.Random) -> tuple[Node, ...]:
    place = max(draw.sample(range(len(nodes)), min(2, len(nodes))), key=lambda at: nodes[at].size(1))
    node = nodes[place]
    if node.count > 1 and (not node.children or draw.random() < 0.5):
        return _with(nodes, place, replace(node, count=int(node.count * 0.9)))
    if node.children:
        return _with(nodes, place, replace(node, children=_smaller(node.children, draw)))
    return nodes[:place] + nodes[place + 1 :]


def scaled(genome: Genome, factor: int) -> Genome:
    """`genome` with its longest runs and deepest nests `factor` times as long or as deep."""
    return Genome(tuple(_scaled(node, factor) for node in genome.nodes), genome.option)


def _scaled(node: Node, factor: int) -> Node:
    if node.count > 4:
        return replace(node, count=node.count * factor)
    return replace(node, children=tuple(_scaled(child, factor) for child in node.children))
