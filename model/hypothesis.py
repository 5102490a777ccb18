"""A sentence in decoding: source, constraints and result, as token ids."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from model.spelling import Spelling

FinishReason = Literal["stop", "length"]
Weights = NDArray[np.float32]
"""Attention weights."""


@dataclass(frozen=True)
class Limits:
    """Length limits of a sentence, in tokens, without the end symbol.

    A target ends at `ratio` times the length of its source plus `margin`, since anything longer is a loop, and at
    `max_target`.
    """

    max_source: int = 256
    max_target: int = 256
    ratio: float = 2.0
    margin: int = 16

    def __post_init__(self) -> None:
        """Raises ValueError, naming the field, for an invalid length."""
        for name, least in (("max_source", 1), ("max_target", 1), ("margin", 0)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise ValueError(f"{name} must be a whole number from {least}, not {value!r}")
        if type(self.ratio) not in (int, float) or not 0 <= self.ratio < math.inf:
            raise ValueError(f"ratio must be a number of at least 0, not {self.ratio!r}")

    def target(self, source_length: int, prefix_length: int = 0) -> int:
        """The maximum number of target tokens for a source of `source_length` tokens, if the first `prefix_length` of
        them are given."""
        return min(self.max_target, int(self.ratio * source_length) + self.margin + prefix_length)

    def for_sources(self, longest: int, prefix_length: int = 0) -> Limits:
        """The same limits for sources of at most `longest` tokens: caches are allocated by them."""
        longest = min(longest, self.max_source)
        return replace(self, max_source=longest, max_target=self.target(longest, prefix_length))


MAX_BEAM_SIZE, MAX_LENGTH_PENALTY = 32, 10.0


@dataclass(frozen=True)
class Decoding:
    """How a model is to be decoded, unless a request asks for something else: its bundle's defaults."""

    beam_size: int | None = None
    """None: the service's default."""
    length_penalty: float = 1.0
    """See `Hypothesis.length_penalty`."""
    narrowing: bool = False
    """See `Hypothesis.narrowing`."""
    replace_unknowns: bool = False
    """Whether the model may generate the unknown symbol; in its place the translation has the text of the source token
    that it is aligned to."""

    def __post_init__(self) -> None:
        """Raises ValueError, naming the field, for an invalid value."""
        beam_size, penalty = self.beam_size, self.length_penalty
        if beam_size is not None and (type(beam_size) is not int or not 1 <= beam_size <= MAX_BEAM_SIZE):
            raise ValueError(f"beam_size must be a whole number from 1 to {MAX_BEAM_SIZE}, not {beam_size!r}")
        if type(penalty) not in (int, float) or not 0 <= penalty <= MAX_LENGTH_PENALTY:
            raise ValueError(f"length_penalty must be a number from 0 to {MAX_LENGTH_PENALTY:g}, not {penalty!r}")
        for name in ("narrowing", "replace_unknowns"):
            if type(value := getattr(self, name)) is not bool:
                raise ValueError(f"{name} must be true or false, not {value!r}")

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the fields that are not at their defaults."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) != field.default}


@dataclass(frozen=True)
class TokenConstraint:
    """Constraints on the next token, and how many candidates for it are wanted."""

    allowed: Sequence[int] = ()
    """The only tokens allowed; if empty, all are, subject to `unmet` and `forbidden`."""
    unmet: Sequence[int] = ()
    """Required tokens that have not come yet. They must come before the end symbol: where that would be the best token,
    the best unmet one takes its place."""
    forbidden: Sequence[int] = ()
    count: int = 1
    """The number of best allowed tokens wanted."""

    @property
    def allows_all(self) -> bool:
        return not (self.allowed or self.unmet or self.forbidden)


@dataclass(eq=False)
class Hypothesis:
    """A sentence in decoding.

    `source` has no end symbol; decoding adds it, unless the model does without. `forced` gives the target instead of
    the model's choice; scores and attention are then the model's for that target. The target begins with `prefix`,
    contains each of `required` exactly once, and none of `forbidden`; `limit` must leave room for the required ones. If
    `beam_size` is over 1, the result is that of the best hypothesis in `finished`.

    The first `source_prefix_length` tokens of `source`, and `target_prefix_length` of `prefix` or `forced`, only say
    what the model translates into what (`model.directions`): none is aligned to the former, and the latter do not count
    in the score.

    `tokens` ends in `</s>` if and only if `finish_reason` is "stop"; `log_probs` has one natural logarithm per token.
    """

    source: Sequence[int]
    limit: int
    forced: Sequence[int] | None = None
    record: bool = False
    required: Sequence[int] = ()
    forbidden: Sequence[int] = ()
    beam_size: int = 1
    prefix: Sequence[int] = ()
    source_prefix_length: int = 0
    target_prefix_length: int = 0
    length_penalty: float = 1.0
    """Ranks the hypotheses of a beam: see `ranking_score`."""
    narrowing: bool = False
    """How its beam is searched: see `model.decoding.beam.Beam`."""
    spelling: Spelling = ()
    """The tokens that may follow `prefix`, until the text that they have to spell is complete."""
    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    aligned: Sequence[int] = ()
    """The alignment: for each token the position of the source token that it translates, which is none of the prefix.
    It is what the model's `AlignmentHead` scores highest: the end symbol, if the token translates no other. Without
    such a head, and for the last token, which no step reads, it is what the step that generated the token attended to
    most, the end symbol excluded: in the head of cross-attention that was trained to be the alignment, or else by the
    mean over all layers and heads."""
    coverage: Sequence[float] = ()
    """For each token that the encoder reads, the end symbol included, the sum of the attention that it received from
    all tokens but the last (Tu et al. 2016): in the head of cross-attention that was trained to be the alignment, or
    else the mean over all layers and heads."""
    finished: list[Hypothesis] = field(default_factory=list)
    """The finished hypotheses of a beam, by `ranking_score`, best first."""
    encoder_attention: Weights | None = None
    """If `record`, from admission on: the encoder's weights, [layer, head, source, source]."""
    decoder_rows: list[Weights] = field(default_factory=list)
    """If `record`, per step: the weights over the target so far, `<s>` first, [layer, head, steps so far]; of a
    recurrent decoder, no layer."""
    cross_rows: list[Weights] = field(default_factory=list)
    """If `record`, per step: the weights over the source, [layer, head, source]."""

    @property
    def decoder_attention(self) -> Weights:
        """[layer, head, target, target], lower triangular: a row's keys are the tokens before it, `<s>` first."""
        layers, heads, _ = self.decoder_rows[0].shape
        weights = np.zeros((layers, heads, len(self.decoder_rows), len(self.decoder_rows)), np.float32)
        for step, row in enumerate(self.decoder_rows):
            weights[:, :, step, : row.shape[-1]] = row
        return weights

    @property
    def cross_attention(self) -> Weights:
        """[layer, head, target, source], with the end symbols of both sides."""
        return np.stack(self.cross_rows, axis=2)

    @property
    def score(self) -> float:
        """The mean log probability of its tokens, those of its direction excluded."""
        return self._score(1)

    @property
    def ranking_score(self) -> float:
        """The sum of its log probabilities over its length to the power of the length penalty (Wu et al. 2016, section
        7, without their constant 5, as CTranslate2 does). With a penalty of 1 it is `score`; 0 favours short targets.
        """
        return self._score(self.length_penalty)

    def _score(self, length_penalty: float) -> float:
        log_probs = self.log_probs[self.target_prefix_length :] or self.log_probs  # all if NaN ended it before
        return sum(log_probs) / math.pow(len(log_probs), length_penalty)

    @property
    def is_searched(self) -> bool:
        """Whether Python chooses its tokens in int8, too: those of a beam, and where a spelling restricts them."""
        return self.beam_size > 1 or bool(self.spelling)

    def without_result(self) -> Hypothesis:
        """A copy with the same constraints and an empty result."""
        wishes = (
            self.source,
            self.limit,
            self.forced,
            self.record,
            self.required,
            self.forbidden,
            self.beam_size,
            self.prefix,
            self.source_prefix_length,
            self.target_prefix_length,
            self.length_penalty,
            self.narrowing,
            self.spelling,
        )
        return Hypothesis(*wishes)

    def next_constraint(self, eos: int) -> TokenConstraint | None:
        """The constraints on the next token, or None if there are none and only the best token is wanted."""
        if self.forced is not None:
            return TokenConstraint(allowed=[[*self.forced, eos][len(self.tokens)]])
        count = 2 * self.beam_size if self.beam_size > 1 else 1
        if len(self.tokens) < len(self.prefix):
            return TokenConstraint(allowed=[self.prefix[len(self.tokens)]], count=count)
        if self.spelling and (state := self._spelling_state()) < len(self.spelling):
            return TokenConstraint(allowed=[token for token, _ in self.spelling[state]], count=count)
        if not (self.required or self.forbidden):
            return TokenConstraint(count=count) if self.is_searched else None
        unmet = [token for token in self.required if token not in self.tokens]
        forbidden = [*self.forbidden, *(token for token in self.required if token in self.tokens)]
        return TokenConstraint(unmet if self.limit - len(self.tokens) <= len(unmet) else (), unmet, forbidden, count)

    def _spelling_state(self) -> int:
        """The state of `spelling` after the tokens that follow the prefix."""
        state = 0
        for token in self.tokens[len(self.prefix) :]:
            if state == len(self.spelling):
                break
            state = next(after for allowed, after in self.spelling[state] if allowed == token)
        return state

    def extend(self, token: int, log_prob: float, eos: int) -> None:
        """Appends the next token. Sets `finish_reason` if it is the last, which a token with a log probability of NaN
        always is."""
        self.tokens.append(token)
        self.log_probs.append(log_prob)
        if token == eos:
            self.finish_reason = "stop"
        elif math.isnan(log_prob) or len(self.tokens) >= self.limit + (self.forced is not None):
            self.finish_reason = "length"
