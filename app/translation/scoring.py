"""Scores given translations: the log probability of each token, in the engine's batches, as forced sequences."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.engine.sequence import Decoded
from app.engine.sequence import Sequence as EngineSequence
from app.errors import InvalidFields, ServiceError, TooMuchText
from app.markup.passage import Passage, ProtectedSpan
from app.translation.input_normalisation import (
    added_full_stop,
    is_all_caps,
    is_better_lowercased,
    max_protected_spans,
    model_input,
)
from app.translation.planner import check_tokens
from app.translation.request import MAX_INLINE_CHARS
from app.translation.sentence import make_sequence
from app.translation.text_plan import protected_spans
from app.translation.translator import Translator
from model.bundle import Bundle
from model.languages import full_stop, has_end_mark
from model.tokenizer import SPACE, Piece

END = "</s>"


class GivenPair(NamedTuple):
    """A text and a translation of it."""

    text: str
    translation: str


@dataclass(frozen=True)
class ScoredPair:
    """The tokens of a translation with their log probabilities. Offsets are code points of the translation given."""

    tokens: list[Piece]
    decoded: Decoded
    quality: float | None
    """The probability that the translation is good enough to use as it is; None if the bundle does not estimate it."""

    @property
    def score(self) -> float:
        """The mean log probability of the tokens, the end symbol included."""
        return self.decoded.score

    @property
    def log_prob(self) -> float:
        return sum(self.decoded.log_probs)


@dataclass(frozen=True)
class Scores:
    """What became of each pair, in order, and the number of tokens, end symbols included."""

    pairs: list[ScoredPair | ServiceError]
    model: str
    source_tokens: int
    target_tokens: int


class _Prepared(NamedTuple):
    sequence: EngineSequence
    tokens: list[Piece]


async def score_pairs(
    translator: Translator,
    pairs: Sequence[GivenPair],
    source: str,
    target: str,
    deadline_ms: int | None = None,
    waited_s: float = 0.0,
) -> Scores:
    """Scores each pair as one sequence, all of them together.

    A pair that cannot be scored has an error; if all fail, raises the first. Raises the errors of
    `Translator.translate`, also PairNotServed for languages that need a pivot language.
    """
    bundle = translator.catalogue.find(source, target)
    size = sum(len(text) for pair in pairs for text in pair)
    if size <= MAX_INLINE_CHARS:
        prepared = _prepare_all(translator, bundle, pairs)
    else:
        prepared = await asyncio.to_thread(_prepare_all, translator, bundle, pairs)
    found = [one for one in prepared if isinstance(one, _Prepared)]
    results = iter(await translator.decode_all([one.sequence for one in found], deadline_ms, waited_s))
    scored = [one if isinstance(one, ServiceError) else _scored(bundle, one, next(results)) for one in prepared]
    errors = [one for one in scored if isinstance(one, ServiceError)]
    if errors and len(errors) == len(scored):
        raise errors[0]
    done = [pair for pair in scored if isinstance(pair, ScoredPair)]
    lengths = [
        len(one.sequence.source)
        for one, pair in zip(prepared, scored, strict=True)
        if isinstance(one, _Prepared) and isinstance(pair, ScoredPair)
    ]
    source_tokens = sum(lengths) + sum(map(bundle.architecture.source_ends, lengths))
    return Scores(scored, bundle.name, source_tokens, sum(len(pair.decoded.tokens) for pair in done))


def _scored(bundle: Bundle, prepared: _Prepared, result: Decoded | ServiceError) -> ScoredPair | ServiceError:
    if isinstance(result, ServiceError):
        return result
    quality = None if bundle.quality is None else bundle.quality.quality(result.log_probs)
    return ScoredPair(prepared.tokens, result, quality)


def _prepare_all(translator: Translator, bundle: Bundle, pairs: Sequence[GivenPair]) -> list[_Prepared | ServiceError]:
    prepared: list[_Prepared | ServiceError] = []
    for number, pair in enumerate(pairs):
        try:
            for text in pair:
                translator.check_length(len(text))
            prepared.append(_prepare(bundle, pair, number))
        except (InvalidFields, TooMuchText) as error:
            prepared.append(error.with_traceback(None))
    return prepared


def _prepare(bundle: Bundle, pair: GivenPair, number: int) -> _Prepared:
    """Raises InvalidFields and TooMuchText."""
    passage = Passage(pair.text.strip())
    if not passage.text:
        raise InvalidFields.at(f"#/pairs/{number}/text", "holds no sentence")
    passage = Passage(passage.text, tuple(protected_spans(passage, bundle)))
    if len(passage.protected) > max_protected_spans(bundle):
        limit = max_protected_spans(bundle)
        raise TooMuchText(
            f"text has {len(passage.protected)} placeholders and symbols to keep; a pair may have {limit}."
        )
    ids = bundle.source_tokenizer.encode_source_parts(model_input(passage, bundle))
    check_tokens("text", len(ids), bundle.limits.max_source)
    tokens = _target_pieces(bundle, passage, pair.translation)
    check_tokens("translation", len(tokens), bundle.limits.max_target)
    forced = tuple(token.id for token in tokens)
    end = len(pair.translation.rstrip())
    tokens.append(Piece(bundle.target_tokenizer.eos_id, END, end, end))
    return _Prepared(make_sequence(bundle, ids, len(forced), forced=forced), tokens)


def _target_pieces(bundle: Bundle, passage: Passage, translation: str) -> list[Piece]:
    """The tokens that the model would generate for `translation`, with their code points in it.

    What /translate changes after decoding is undone: capitals of a text in capitals, the capital of a label, the full
    stop that it added to the source, and the symbols of protected text.
    """
    start, end = len(translation) - len(translation.lstrip()), len(translation.rstrip())
    text = translation[start:end]
    added = full_stop(bundle.target) if text and added_full_stop(passage.text, bundle) else ""
    if added and has_end_mark(text):
        added = ""
    tokenizer = bundle.target_tokenizer
    lowered = text
    if is_all_caps(passage, bundle.source_tokenizer) and text.isupper():
        lowered = text[:1] + text[1:].lower()
    elif (
        is_better_lowercased(passage, bundle.source_tokenizer)
        and text
        and is_better_lowercased(Passage(text), tokenizer)
    ):
        lowered = text.lower()
    text = lowered if len(lowered) == len(text) else text  # offsets must hold
    found: list[Piece] = []
    at, before = 0, SPACE
    for place, number in _protected_places(passage.protected, text):
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
