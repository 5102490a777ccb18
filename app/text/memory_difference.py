"""The part of a stored text that differs from a similar one, once the stored pair has the other text's values."""

from __future__ import annotations

from typing import NamedTuple

from rapidfuzz.distance import Levenshtein

from app.markup.passage import replaced
from app.text.memory_slots import Abstracted, Slot, substitute_slots, tokens


class AlmostEqual(NamedTuple):
    """A stored pair with the numbers and placeholders of a similar text, and where its text still differs."""

    source: str
    target: str
    start: int
    """Characters [start, end) of `source`, perhaps none, have something else in their place."""
    end: int
    new_tokens: int
    """Number of tokens that the other text has in their place."""


def compare(stored: Abstracted, translation: Abstracted, new: Abstracted) -> AlmostEqual | None:
    """Compares a stored pair with a similar text. None if its translation cannot take the text's values."""
    old_tokens, new_tokens = list(tokens(stored)), list(tokens(new))
    codes = Levenshtein.opcodes([token for token, *_ in old_tokens], [token for token, *_ in new_tokens])
    slots, new_slots = ({slot.start: slot for slot in text.slots} for text in (stored, new))
    pairs: list[tuple[Slot, Slot]] = []
    for code in codes:
        if code.tag == "equal":
            for (_, start, _), (_, other, _) in zip(
                old_tokens[code.src_start : code.src_end], new_tokens[code.dest_start : code.dest_end], strict=True
            ):
                if start in slots:
                    pairs.append((slots[start], new_slots[other]))
    target = substitute_slots(stored, translation, pairs)
    if target is None:
        return None
    differing = [code for code in codes if code.tag != "equal"]
    begin = differing[0].src_start if differing else len(old_tokens)
    finish = differing[-1].src_end if differing else begin
    if begin < finish:
        start, end = old_tokens[begin][1], old_tokens[finish - 1][2]
    else:  # something comes in between
        start = end = old_tokens[begin][1] if begin < len(old_tokens) else len(stored.text)
    source, places = _with_values(stored, {old: other.value for old, other in pairs})
    start, end = (place + sum(size for at, size in places if at <= place) for place in (start, end))
    count = differing[-1].dest_end - differing[0].dest_start if differing else 0
    return AlmostEqual(source, target, start, end, count)


def _with_values(text: Abstracted, values: dict[Slot, str]) -> tuple[str, list[tuple[int, int]]]:
    """The text with other values in slots, and for each the end of the slot and how much longer it has become."""
    edits = [(slot.start, slot.end, values.get(slot, slot.value)) for slot in text.slots]
    return replaced(text.text, edits), [(end, len(value) - (end - start)) for start, end, value in edits]
