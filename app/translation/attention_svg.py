"""Draws a sentence's attention as SVG: the alignment as lines, and each matrix as a heat map.

The document is self-contained: it has no scripts or fonts, and fetches nothing.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from struct import pack
from unicodedata import combining, east_asian_width
from zlib import compress, crc32

import numpy as np

from app.errors import TooMuchText
from app.translation.attention import Attention, Kind, Selection, Weights

MAX_WEIGHTS = 1_000_000
"""Maximum number of weights in a picture; each takes at least one pixel."""
_MAX_LABELLED_WEIGHTS = 3_000
"""Maximum number of weights that get a title each, which takes a hundred times as many bytes as a pixel."""
_MARGIN = 24.0
_CELL = 12.0
_WORD, _LABEL = 14.0, 10.0
"""Font sizes: of the sentences, and of the axes."""
_SLOT = 112.0
"""Width of "layer 10, head 10"."""
_NARROW, _WIDE = 0.62, 1.05
"""Character widths in a monospaced font, relative to its size, with a margin for unknown fonts."""
_VISIBLE = {code: 0x2400 + code for code in range(0x20)} | {0x7F: 0x2421, 0xFFFE: 0xFFFD, 0xFFFF: 0xFFFD}
"""Visible characters for those that XML forbids or that are invisible."""
_AXES: dict[Kind, tuple[str, str]] = {
    "encoder": ("Encoder", "rows: source tokens; columns: the source tokens they look at"),
    "decoder": ("Decoder", "rows: target tokens; columns: the tokens before them that they look at"),
    "cross": ("Cross", "rows: target tokens; columns: the source tokens they look at"),
}
_STYLE = """
text{font:10px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1f2328;white-space:pre}
.word{font-size:14px;text-anchor:middle}.rows{text-anchor:end}.note{fill:#59636e}
.title{font:600 18px system-ui,sans-serif}.kind{font:600 14px system-ui,sans-serif}.said{font:12px system-ui,sans-serif}
.paper{fill:#fff}.heat{flood-color:#08306b;stop-color:#08306b}.frame{fill:none;stroke:#afb8c1}
.links{fill:none;stroke:#0969da;stroke-width:1.5;stroke-opacity:.75}.cells{fill:none;pointer-events:all}
image{image-rendering:optimizeSpeed;image-rendering:pixelated;filter:url(#ink)}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.note{fill:#9198a1}.paper{fill:#0d1117}
.heat{flood-color:#cae8ff;stop-color:#cae8ff}.frame{stroke:#57606a}.links{stroke:#58a6ff}}
"""
_DEFINITIONS = (
    '<filter id="ink" x="0" y="0" width="1" height="1"><feFlood class="heat"/>'
    '<feComposite in2="SourceAlpha" operator="in"/></filter>'
    '<linearGradient id="scale"><stop class="heat" stop-opacity="0"/><stop class="heat" offset="1"/></linearGradient>'
)


@dataclass(frozen=True)
class _Block:
    """A part of the picture. Sizes are in pixels; `elements` are drawn from its top left corner."""

    width: float
    height: float
    elements: Sequence[str]


@dataclass(frozen=True)
class _Grid:
    """The heat maps of one kind: a row per layer, a column per head. All have the same axes."""

    kind: Kind
    weights: Weights
    layers: Sequence[int]
    heads: Sequence[int]
    """Indices of the layers and heads in the model."""
    queries: list[str]
    keys: list[str]
    labelled: bool
    """Whether each weight has a title."""


def draw(attention: Attention, selection: Selection, max_weights: int = MAX_WEIGHTS) -> str:
    """An SVG document of `attention`, whose weights are those of `selection`. Raises TooMuchText."""
    count = sum(weights.size for weights in attention.weights.values())
    if count > max_weights:
        raise TooMuchText(
            f"The picture would show {count} weights, over the limit of {max_weights}. "
            "Choose fewer kinds, layers or heads, or a shorter sentence."
        )
    kinds = [kind for kind, weights in attention.weights.items() if len(weights)]
    grids = [_grid(attention, kind, selection, count <= _MAX_LABELLED_WEIGHTS) for kind in kinds]
    return _document(attention, [_heading(attention), _alignment(attention), _scale(), *map(_draw_grid, grids)])


def _document(attention: Attention, blocks: Sequence[_Block]) -> str:
    width = max(block.width for block in blocks) + 2 * _MARGIN
    tops = list(accumulate((block.height + _MARGIN for block in blocks), initial=_MARGIN))
    size = f'width="{width:g}" height="{tops[-1]:g}" viewBox="0 0 {width:g} {tops[-1]:g}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title description">',
        f'<title id="title">{_escaped(_name(attention))}</title>',
        f'<desc id="description">{_escaped(_description(attention))}</desc>',
        f"<style>{_STYLE}</style><defs>{_DEFINITIONS}</defs>",
        '<rect class="paper" width="100%" height="100%"/>',
    ]
    for block, top in zip(blocks, tops, strict=False):
        parts += [f'<g transform="translate({_MARGIN:g} {top:g})">', *block.elements, "</g>"]
    return "".join([*parts, "</svg>\n"])


def _name(attention: Attention) -> str:
    return f"Attention of {attention.bundle.name}"


def _description(attention: Attention) -> str:
    pairs = " ".join(f"{source}-{target}" for source, target in attention.alignment)
    return f"{attention.text.strip()} → {attention.translation} (alignment, source-target, from 0: {pairs or 'none'})"


def _heading(attention: Attention) -> _Block:
    name = _name(attention)
    return _Block(len(name) * 11, 18, [f'<text class="title" y="16">{_escaped(name)}</text>'])


def _alignment(attention: Attention) -> _Block:
    """The two sentences, one above the other, with a line from each target token to its source token."""
    rows = [[token.piece for token in tokens] for tokens in (attention.source_tokens, attention.target_tokens)]
    advances = [[(_advance(word) + 1) * _WORD for word in row] for row in rows]
    width = max(map(sum, advances))
    middles = [_middles(row, (width - sum(row)) / 2) for row in advances]
    words = [
        f'<text class="word" x="{middle:g}" y="{y}">{_escaped(word)}</text>'
        for row, places, y in zip(rows, middles, (44, 134), strict=True)
        for word, middle in zip(row, places, strict=True)
    ]
    lines = "".join(
        f"M{middles[0][source]:g} 50C{middles[0][source]:g} 85 {middles[1][target]:g} 85 {middles[1][target]:g} 120"
        for source, target in attention.alignment
    )
    pair = f"{attention.bundle.source} above, {attention.bundle.target} below"
    architecture = attention.bundle.architecture
    has_head = architecture.alignment_size or architecture.alignment_head is not None
    where = "by the head trained to align" if has_head else "by its attention in all layers and heads"
    heading = _headline("Alignment", f"{pair}: the source token of each target token, {where}")
    return _Block(max(width, 640), 140, [heading, *words, f'<path class="links" d="{lines}"/>'])


def _scale() -> _Block:
    """The colour scale. Opacity is the square root of the weight, since most weights are small."""
    ticks = [
        f'<text x="{200 * weight**0.5:g}" y="26" text-anchor="middle">{weight:g}</text>'
        for weight in (0, 0.05, 0.25, 0.5, 1)
    ]
    bar = '<rect class="frame" width="200" height="12" style="fill:url(#scale)"/>'
    note = "weight; layers and heads are counted from 0"
    return _Block(640, 28, [bar, *ticks, f'<text class="said note" x="220" y="11">{note}</text>'])


def _grid(attention: Attention, kind: Kind, selection: Selection, labelled: bool) -> _Grid:
    queries, keys = attention.axes(kind)
    weights = attention.weights[kind]
    layers, heads = selection.layers or range(weights.shape[0]), selection.heads or range(weights.shape[1])
    return _Grid(kind, weights, layers, heads, queries, keys, labelled)


def _draw_grid(grid: _Grid) -> _Block:
    left, top = (max(map(_advance, labels)) * _LABEL + 8 for labels in (grid.queries, grid.keys))
    width, height = max(len(grid.keys) * _CELL, _SLOT), len(grid.queries) * _CELL
    across, down = width + 16, height + top + 36
    elements = [_headline(*_AXES[grid.kind]), f"<defs>{_labels(grid)}</defs>"]
    for row, layer in enumerate(grid.layers):
        y = row * down + top + 44
        elements.append(f'<use href="#{grid.kind}-rows" x="{left:g}" y="{y:g}"/>')
        for column, head in enumerate(grid.heads):
            elements += [f'<g transform="translate({left + column * across:g} {y:g})">', *_map(grid, row, column)]
            elements.append(f'<text class="note" y="{-top - 4:g}">layer {layer}, head {head}</text>')
            elements.append(f'<use href="#{grid.kind}-columns"/></g>')
    return _Block(left + len(grid.heads) * across, len(grid.layers) * down + 20, elements)


def _labels(grid: _Grid) -> str:
    """Both axes, defined once for all heat maps."""
    rows, columns = (
        "".join(f'<text x="{x}" y="{(n + 0.75) * _CELL:g}">{_escaped(token)}</text>' for n, token in enumerate(tokens))
        for x, tokens in ((-4, grid.queries), (4, grid.keys))
    )
    turned = f'<g id="{grid.kind}-columns" transform="rotate(-90)">{columns}</g>'
    return f'<g id="{grid.kind}-rows" class="rows">{rows}</g>{turned}'


def _map(grid: _Grid, row: int, column: int) -> Iterator[str]:
    weights = grid.weights[row, column]  # [query, key]
    size = f'width="{len(grid.keys) * _CELL:g}" height="{len(grid.queries) * _CELL:g}"'
    title = f"{_AXES[grid.kind][0]}, layer {grid.layers[row]}, head {grid.heads[column]}"
    yield f'<g><title>{title}</title><rect class="frame" {size}/>'
    yield f'<image {size} preserveAspectRatio="none" href="data:image/png;base64,{b64encode(_png(weights)).decode()}"/>'
    if grid.labelled:
        yield f'<g class="cells" transform="scale({_CELL:g})">'
        yield from _labelled_cells(weights, grid.queries, grid.keys)
        yield "</g>"
    yield "</g>"


def _labelled_cells(weights: Weights, queries: Sequence[str], keys: Sequence[str]) -> Iterator[str]:
    for y, (query, row) in enumerate(zip(queries, weights.tolist(), strict=True)):
        for x, (key, weight) in enumerate(zip(keys, row, strict=True)):
            # Tokens may be written from right to left; isolates keep the order around the arrow.
            title = f"\u2068{_escaped(query)}\u2069 → \u2068{_escaped(key)}\u2069: {weight:.4g}"
            yield f'<rect x="{x}" y="{y}" width="1" height="1"><title>{title}</title></rect>'


def _png(weights: Weights) -> bytes:
    """[query, key] as a PNG image (ISO/IEC 15948) with a black pixel per weight, more opaque for larger weights."""
    rows, columns = weights.shape
    lines = np.zeros((rows, 1 + 2 * columns), np.uint8)  # [query, filter type and (grey, alpha) of each key]
    lines[:, 2::2] = np.rint(255 * np.sqrt(np.clip(weights, 0, 1)))
    header = pack(">IIBBBBB", columns, rows, 8, 4, 0, 0, 0)  # 8 bits of grey and of alpha
    pixels = compress(lines.tobytes(), 4)  # as small as at level 9, which takes 15 times as long
    chunks = [(b"IHDR", header), (b"IDAT", pixels), (b"IEND", b"")]
    packed = [pack(">I", len(data)) + name + data + pack(">I", crc32(name + data)) for name, data in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def _headline(name: str, note: str) -> str:
    note_x = len(name) * 9 + 16
    return f'<text class="kind" y="12">{name}</text><text class="said note" x="{note_x}" y="12">{_escaped(note)}</text>'


def _middles(advances: Sequence[float], start: float) -> list[float]:
    ends = accumulate(advances, initial=start)
    return [end + advance / 2 for end, advance in zip(ends, advances, strict=False)]


def _advance(text: str) -> float:
    """The approximate width of `text`, relative to its font size."""
    return sum(
        0 if combining(character) else _WIDE if east_asian_width(character) in "WF" else _NARROW for character in text
    )


def _escaped(text: str) -> str:
    return escape(text.translate(_VISIBLE))
