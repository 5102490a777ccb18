"""Estimates from the probabilities of its tokens whether a translation is good enough to use as it is.

Without PyTorch or NumPy: the service estimates each sentence that it translates. `training.evaluation.calibration` fits
the coefficients, which a bundle's config.json carries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from model.languages import WITHOUT_SPACES, language_alone

GOOD_CHRF, GOOD_CHRF_WITHOUT_SPACES = 75.0, 50.0
"""A translation is good if its chrF against a reference, from 0 to 100, is at least this. In languages without spaces,
whose n-grams of characters are words, an equally good translation has a lower chrF."""
DOUBTFUL = 0.5
"""A sentence whose quality is lower should be checked."""
DOUBTFUL_WORD = 0.35
"""A word whose probability is lower is doubtful."""
_SURE = -1e-3
"""Log probabilities nearer to 0 count as this, so that the logarithm of their size stays finite."""


def good_chrf(target: str) -> float:
    """The chrF from which a translation into the language `target` is good."""
    return GOOD_CHRF_WITHOUT_SPACES if language_alone(target) in WITHOUT_SPACES else GOOD_CHRF


def sentence_features(log_probs: Sequence[float], ends_sentence: bool = True) -> tuple[float, ...]:
    """The mean log probability of a translation's tokens, the logarithm of its size, and that of their number; for a
    source without an end mark, also 1 and both logarithms again, else zeros.

    The mean alone orders translations nearly as well. Its logarithm makes the most certain ones less alike, and the
    number corrects for short ones, whose mean says less. What has no end mark is mostly a label of a program: as
    uncertain ones are more often good than sentences, since labels leave less choice.
    """
    mean = min(_SURE, sum(log_probs) / len(log_probs))
    size, count = math.log(-mean), math.log(len(log_probs))
    return (mean, size, count, 0.0, 0.0, 0.0) if ends_sentence else (mean, size, count, 1.0, size, count)


def word_features(log_prob: float) -> tuple[float, float]:
    """The log probability of a word, which is the sum of its tokens', and the logarithm of its size."""
    log_prob = min(_SURE, log_prob)
    return log_prob, math.log(-log_prob)


@dataclass(frozen=True)
class LogisticModel:
    """Logistic regression."""

    intercept: float
    coefficients: tuple[float, ...]

    def probability(self, features: Sequence[float]) -> float:
        """From 0 to 1."""
        logit = self.intercept
        for coefficient, feature in zip(self.coefficients, features, strict=True):
            logit += coefficient * feature
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, logit))))

    @classmethod
    def read(cls, fields: Any, count: int, more: int = 0) -> Self:
        """Parses JSON with `count` coefficients, which older bundles have, or `more` besides, which else are 0. Raises
        ValueError."""
        numbers = [fields.get("intercept"), *fields.get("coefficients", ())] if isinstance(fields, dict) else []
        if len(numbers) == count + 1:
            numbers += [0.0] * more
        if len(numbers) != count + more + 1 or not all(type(n) in (int, float) and math.isfinite(n) for n in numbers):
            raise ValueError(f"quality must have an intercept and {count + more} coefficients, all of them numbers")
        return cls(float(numbers[0]), tuple(map(float, numbers[1:])))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"intercept": self.intercept, "coefficients": list(self.coefficients)}


@dataclass(frozen=True)
class QualityModel:
    """Estimates the quality of a direction's translations."""

    sentence: LogisticModel
    """The probability that a translation is good: see `good_chrf`."""
    word: LogisticModel
    """The probability that a word of the translation is in the reference."""

    def quality(self, log_probs: Sequence[float], is_complete: bool = True, ends_sentence: bool = True) -> float:
        """The probability that the translation with these tokens' log probabilities is good; 0 if it is not complete,
        because a limit ended it. `log_probs` are not empty. `ends_sentence`: whether the source ends like one."""
        return self.sentence.probability(sentence_features(log_probs, ends_sentence)) if is_complete else 0.0

    def word_probability(self, log_prob: float) -> float:
        """The probability that a word with this log probability is right."""
        return self.word.probability(word_features(log_prob))

    @cached_property
    def doubtful_word_log_prob(self) -> float:
        """The log probability under which a word is doubtful, since its probability is under DOUBTFUL_WORD."""
        low, high = -100.0, 0.0
        for _ in range(60):  # by bisection: the probability of being right rises with that of the word
            middle = (low + high) / 2
            low, high = (middle, high) if self.word_probability(middle) < DOUBTFUL_WORD else (low, middle)
        return low

    @classmethod
    def read(cls, fields: Any) -> Self:
        """Parses one direction's entry in config.json. Raises ValueError."""
        if not isinstance(fields, dict):
            raise ValueError("quality must have an object for each direction")
        return cls(LogisticModel.read(fields.get("sentence"), 3, 3), LogisticModel.read(fields.get("word"), 2))

    def to_dict(self) -> dict[str, Any]:
        """For config.json."""
        return {"sentence": self.sentence.to_dict(), "word": self.word.to_dict()}
