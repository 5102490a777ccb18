"""The tokens that the model would generate for a given translation, to force or to score it."""

from __future__ import annotations

from collections.abc import Sequence

from app.markup.passage import Passage, ProtectedSpan
from app.translation.input_normalisation import (
    added_full_stop,
    is_all_caps,
    is_better_lowercased,
    lowercased,
    truecased,
)
from model.bundle import Bundle
from model.languages import ends_sentence, full_stop
from model.tokenizer import SPACE, Piece


def given_pieces(
    bundle: Bundle, passage: Passage, translation: str, places: Sequence[tuple[int, int]] | None = None
) -> list[Piece]:
    """The tokens that the model would generate for `translation`, with their code points in it.

    What /translate changes after decoding is undone: capitals of a text in capitals, the capital of a label, the full
    stop that it added to the source, and the symbols of protected text.

    `places`: where protected text is, with the number of its span, if that is known; else it is looked for.
    """
    start, end = len(translation) - len(translation.lstrip()), len(translation.rstrip())
    if places is not None:
        start, end = 0, len(translation)
    text = translation[start:end]
    added = full_stop(bundle.target) if text and added_full_stop(passage.text, bundle) else ""
    if added and ends_sentence(text):
        added = ""
    tokenizer = bundle.target_tokenizer
    read = bundle.source_tokenizer
    if text.isupper() and is_all_caps(passage, read):
        text = truecased(text, tokenizer, True)
    elif is_better_lowercased(passage, read) and is_better_lowercased(Passage(text), tokenizer):
        text = lowercased(text)
    found: list[Piece] = []
    at, before = 0, SPACE
    for place, number in _protected_places(passage.protected, text) if places is None else places:
        raw = passage.protected[number].raw
        found += _pieces_at(bundle, text[at:place], before, start + at)
        if place == 0:
            found += [Piece(id, tokenizer.piece(id), start, start) for id in tokenizer.encode_parts([0])[:-1]]
        symbol = tokenizer.reserved_ids[number]
        found.append(Piece(symbol, tokenizer.piece(symbol), start + place, start + place + len(raw)))
        at, before = place + len(raw), ""
    found += _pieces_at(bundle, text[at:] + added, before, start + at)
    return [piece._replace(start=min(piece.start, end), end=min(piece.end, end)) for piece in found]


def _pieces_at(bundle: Bundle, text: str, before: str, offset: int) -> list[Piece]:
    """The target tokens of a part of a translation that begins at `offset`."""
    pieces = bundle.target_tokenizer.pieces(text, before)
    return [Piece(id, piece, offset + start, offset + end) for id, piece, start, end in pieces]


def _protected_places(protected: Sequence[ProtectedSpan], text: str) -> list[tuple[int, int]]:
    """Where `text` has protected text of the source, and the number of its span; one that it lacks has no place."""
    taken: list[tuple[int, int]] = []
    places: list[tuple[int, int]] = []
    for number, span in enumerate(protected):
        place = text.find(span.raw)
        while place >= 0 and any(place < end and start < place + len(span.raw) for start, end in taken):
            place = text.find(span.raw, place + 1)
        if place >= 0:
            taken.append((place, place + len(span.raw)))
            places.append((place, number))
    return sorted(places)
