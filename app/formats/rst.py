"""reStructuredText, as documentation made with docutils or Sphinx is written.

Titles, paragraphs, list items, cells of tables and what directives display are passages; code, comments, targets,
options and the rest of the mark-up are kept. docutils' parser finds the blocks (app/formats/rst_blocks.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from docutils.utils import column_width, escape2null

from app.formats.document import Content, Slot, content_of_slots, fill
from app.formats.encodings import decode
from app.formats.rst_blocks import LITERAL_MARK, Block, TableBlock, TextBlock, blocks_of
from app.formats.rst_escapes import Escape, encode_text
from app.formats.rst_inline import MARKERS, Scan, normalised, passage_of, plain_passage
from app.formats.rst_lines import Line
from app.formats.rst_tables import with_texts
from app.markup.passage import Piece
from app.markup.render import render_source

_BETWEEN = "\0"
"""Between the texts of a table."""
_LINE_END = re.compile(r"\r\n?|\n")
_UNESCAPED_COLON = re.compile(r"(?<!\\)(?:\\\\)*:\Z")


def read(content: bytes) -> Content:
    """Raises UnreadableDocument."""
    text, encode = decode(content)
    found = blocks_of(text)
    reader = _Reader(found.targets, found.references)
    reader.scan(text, found.blocks)
    return content_of_slots(text, reader.slots(text, found.blocks), encode)


@dataclass
class _Reader:
    """Makes slots of blocks, knowing the names in the file."""

    targets: set[str]
    references: set[str]
    scans: dict[int, Scan] = field(default_factory=dict)
    """The markup of the blocks, by their id."""
    titles: Counter[str] = field(default_factory=Counter)

    def scan(self, text: str, blocks: Sequence[Block]) -> None:
        """Collects the names that the blocks refer to."""
        for block in blocks:
            if isinstance(block, TableBlock):
                for cell, inner in zip(block.grid.cells, block.blocks, strict=True):
                    self.scan("\n".join(cell.lines), inner)
            elif block.has_markup:
                scan = self.scans[id(block)] = Scan(escape2null(_source(text, block)))
                self.references.update(one.refers for one in scan.found if one.refers)

    def slots(self, text: str, blocks: Sequence[Block]) -> list[Slot]:
        """In order. docutils reads the last line of a damaged table again, as a paragraph."""
        slots = (self._table(text, one) if isinstance(one, TableBlock) else self._slot(text, one) for one in blocks)
        apart = list[Slot]()
        for slot in sorted(filter(None, slots), key=lambda slot: slot.start):
            if not apart or apart[-1].end <= slot.start:
                apart.append(slot)
        return apart

    def _slot(self, text: str, block: TextBlock) -> Slot | None:
        source = _source(text, block)
        if MARKERS.search(source) or any(one.strip() for one in _separators(text, block.lines)):
            return None
        passage = passage_of(self.scans[id(block)], self.references) if block.has_markup else plain_passage(source)
        if not passage:
            return None
        if not block.adornments:
            return Slot(block.lines[0].start, block.lines[-1].end, passage, partial(_encode, text, block))
        name = normalised(passage.text)
        self.titles[name] += 1
        start = min(block.lines[0].start, block.adornments[0].start)
        encode = partial(self._encode_title, text, block, start, passage.text)
        return Slot(start, block.adornments[-1].end, passage, encode)

    def _encode_title(self, text: str, block: TextBlock, start: int, name: str, translation: str) -> str:
        """A title, and the lines around it, as long as it is. If the file refers to the title, a target with its old
        name comes before it."""
        title = _encode(text, block, translation)
        line, below = block.lines[0], block.adornments[-1]
        indent = line.start - max(text.rfind("\n", 0, line.start), text.rfind("\r", 0, line.start)) - 1
        indent = indent if len(block.adornments) > 1 else 0
        width = max(len(below), column_width(title) + indent)
        grown = below[0] * width
        between = text[line.end : below.start]
        end, target = _LINE_END.search(between), ""
        if end and text[:start][-1:] in ("", "\n", "\r") and self._needs_target(name, title):
            target = f".. _`{name}`:{end[0] * 2}"
        if len(block.adornments) == 1:
            return f"{target}{title}{between}{grown}"
        return f"{target}{grown}{text[block.adornments[0].end : line.start]}{title}{between}{grown}"

    def _needs_target(self, name: str, title: str) -> bool:
        """Whether the file refers to `name`, and nothing but the title before its translation had it."""
        is_sought = (found := normalised(name)) in self.references and found not in self.targets
        is_other = normalised(Scan(escape2null(title)).displayed()) != found
        return is_sought and is_other and self.titles[found] == 1 and not re.search(r"[`\\]", name)

    def _table(self, text: str, block: TableBlock) -> Slot | None:
        lines = block.grid.lines
        separators = _separators(text, lines)
        inside = zip(block.grid.cells, block.blocks, strict=True)
        cells = [self.slots("\n".join(cell.lines), inner) for cell, inner in inside]
        pieces = list[Piece]()
        for slot in (slot for slots in cells for slot in slots):
            pieces += [*([_BETWEEN] if pieces else []), *slot.pieces]
        if not pieces or any(one.strip() for one in separators):
            return None
        start, end = lines[0].start, lines[-1].end
        return Slot(start, end, pieces, partial(_encode_table, text[start:end], block, cells, separators))


def _source(text: str, block: TextBlock) -> str:
    """The source of a block: its lines without what is before and after them."""
    return "\n".join(text[line.start : line.end] for line in block.lines)


def _separators(text: str, lines: Sequence[Line]) -> list[str]:
    return [text[one.end : other.start] for one, other in pairwise(lines)]


def _encode(text: str, block: TextBlock, translation: str) -> str:
    """The translation of a block, in lines with the ends and the indentation of its own; its source, if there is no way
    to write the translation."""
    escape = Escape(block.begins_block, block.is_quoted, block.is_term)
    if block.has_markup:
        lines = encode_text(translation, _source(text, block), escape)
    else:
        lines = [line.strip() for line in translation.split("\n") if line.strip()]
    if not lines or (block.mark_below and len(lines) == 1 and column_width(lines[0]) <= 2):
        return text[block.lines[0].start : block.lines[-1].end]
    separators = _separators(text, block.lines)
    separators += [" "] * len(lines)
    encoded = lines[0] + "".join(separator + line for separator, line in zip(separators, lines[1:], strict=False))
    if block.literal_follows and not _UNESCAPED_COLON.search(encoded):
        return f"{encoded} :"
    if not block.literal_follows and block.has_markup and LITERAL_MARK.search(encoded):
        return f"{encoded[:-1]}\\:"
    return encoded


def _encode_table(
    raw: str, block: TableBlock, cells: Sequence[Sequence[Slot]], separators: Sequence[str], translation: str
) -> str:
    """A table with translated cells; itself, if there is no such table."""
    parts = iter(translation.split(_BETWEEN))
    texts = []
    for cell, slots in zip(block.grid.cells, cells, strict=True):
        source, encoded, end = "\n".join(cell.lines), "", 0
        for slot in slots:
            count = 1 + sum(piece.count(_BETWEEN) for piece in slot.pieces if isinstance(piece, str))
            translated = _BETWEEN.join(next(parts) for _ in range(count))
            same = translated == fill(slot.pieces, map(render_source, slot.passages))
            encoded += source[end : slot.start] + (source[slot.start : slot.end] if same else slot.encode(translated))
            end = slot.end
        texts.append((encoded + source[end:]).split("\n"))
    lines = with_texts(block.grid, texts)
    if lines is None:
        return raw
    return lines[0] + "".join(separator + line for separator, line in zip(separators, lines[1:], strict=True))
