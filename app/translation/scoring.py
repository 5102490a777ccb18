"""Scores given translations: the log probability of each token, in the engine's batches, as forced sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.engine.sequence import Decoded
from app.errors import InvalidFields, ServiceError, TooMuchText
from app.markup.passage import Passage
from app.runtime import event_loop
from app.translation.candidate import Candidate
from app.translation.given_translation import given_pieces
from app.translation.input_normalisation import max_protected_spans, model_input
from app.translation.planner import check_tokens
from app.translation.sentence import Sentence, make_sequence
from app.translation.text_plan import protected_passage
from app.translation.translator import Translator
from model.bundle import Bundle
from model.tokenizer import Piece

END = "</s>"


class GivenPair(NamedTuple):
    """A text and a translation of it."""

    text: str
    translation: str


@dataclass(frozen=True)
class ScoredPair:
    """The tokens of a translation with their log probabilities. Offsets are code points of the translation given."""

    tokens: list[Piece]
    candidate: Candidate

    @property
    def decoded(self) -> Decoded:
        return self.candidate.decoded

    @property
    def quality(self) -> float | None:
        """See `Candidate.quality`."""
        return self.candidate.quality

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


async def score_pairs(
    translator: Translator,
    pairs: Sequence[GivenPair],
    source: str,
    target: str,
    deadline_ms: int | None = None,
    waited_s: float = 0.0,
    client: str = "",
) -> Scores:
    """Scores each pair as one sequence, all of them together.

    A pair that cannot be scored has an error; if all fail, raises the first. Raises the errors of
    `Translator.translate`, also PairNotServed for languages that need a pivot language.
    """
    bundle = translator.catalogue.find(source, target)
    size = sum(len(text) for pair in pairs for text in pair)
    prepared = await event_loop.run(size, _prepare_all, translator, bundle, pairs)
    sequences = [one.sentence.sequence for one in prepared if isinstance(one, _ForcedPair)]
    results = iter(await translator.decode_all(sequences, deadline_ms, waited_s, client))
    scored = [one if isinstance(one, ServiceError) else _scored(one, next(results)) for one in prepared]
    errors = [one for one in scored if isinstance(one, ServiceError)]
    if errors and len(errors) == len(scored):
        raise errors[0]
    done = [pair for pair in scored if isinstance(pair, ScoredPair)]
    source_tokens = sum(pair.candidate.sentence.source_tokens for pair in done)
    return Scores(scored, bundle.name, source_tokens, sum(len(pair.decoded.tokens) for pair in done))


class _ForcedPair(NamedTuple):
    """The tokens of a given translation, and the sentence whose sequence forces them."""

    tokens: list[Piece]
    sentence: Sentence


def _scored(pair: _ForcedPair, result: Decoded | ServiceError) -> ScoredPair | ServiceError:
    if isinstance(result, ServiceError):
        return result
    return ScoredPair(pair.tokens, Candidate(pair.sentence, result))


def _prepare_all(
    translator: Translator, bundle: Bundle, pairs: Sequence[GivenPair]
) -> list[_ForcedPair | ServiceError]:
    prepared: list[_ForcedPair | ServiceError] = []
    for number, pair in enumerate(pairs):
        try:
            for text in pair:
                translator.check_length(len(text))
            prepared.append(_prepare(bundle, pair, number))
        except (InvalidFields, TooMuchText) as error:
            prepared.append(error.with_traceback(None))
    return prepared


def _prepare(bundle: Bundle, pair: GivenPair, number: int) -> _ForcedPair:
    """The pair, to be decoded. Raises InvalidFields and TooMuchText."""
    passage = Passage(pair.text.strip())
    if not passage.text:
        raise InvalidFields.at(f"#/pairs/{number}/text", "holds no sentence")
    passage = protected_passage(passage, bundle)
    if len(passage.protected) > max_protected_spans(bundle):
        limit = max_protected_spans(bundle)
        raise TooMuchText(
            f"text has {len(passage.protected)} placeholders and symbols to keep; a pair may have {limit}."
        )
    ids = bundle.source_tokenizer.encode_source_parts(model_input(passage, bundle))
    check_tokens("text", len(ids), bundle.limits.max_source)
    tokens = given_pieces(bundle, passage, pair.translation)
    check_tokens("translation", len(tokens), bundle.limits.max_target)
    forced = tuple(token.id for token in tokens)
    end = len(pair.translation.rstrip())
    tokens.append(Piece(bundle.target_tokenizer.eos_id, END, end, end))
    sequence = make_sequence(bundle, ids, len(forced), forced=forced)
    return _ForcedPair(tokens, Sentence(passage, bundle, sequence))
