"""Strings of catalogues in any format: messages with branches, labels with mnemonics, or plain text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from app.markup.passage import Passage, Piece
from app.text import icu_messages, mnemonics


class CatalogueString(NamedTuple):
    """`pieces` to translate, and `finish`, which completes the string once they are joined."""

    pieces: Sequence[Piece]
    finish: Callable[[str], str] = str

    @property
    def passages(self) -> list[Passage]:
        return [piece for piece in self.pieces if isinstance(piece, Passage)]


def read_string(text: str, target: str, marks: frozenset[str]) -> CatalogueString:
    """`target`: the language to translate into; `marks`: the mnemonic marks that its catalogue certainly uses."""
    if (pieces := icu_messages.message_pieces(text)) is not None:
        return CatalogueString(pieces)
    if labelled := mnemonics.remove_mnemonic(text, marks):
        label, mnemonic = labelled
        return CatalogueString([Passage(label)], lambda translation: mnemonic.insert_into(translation, target))
    return CatalogueString([Passage(text)])
