"""Fits and measures the probability that a translation is good (`model.quality`), on sentence pairs that the model was
not trained on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import sacrebleu
from numpy.typing import NDArray

from model.bundle import Bundle
from model.decoding import beam_decode
from model.decoding.batch import Backend
from model.hypothesis import Hypothesis
from model.languages import ends_sentence
from model.quality import LogisticModel, QualityModel, good_chrf, sentence_features, word_features
from model.tokenizer import Tokenizer
from training.cleaning.simplified_chinese import references_in_script
from training.corpora.corpus import Pair
from training.corpora.text_file import CorpusError
from training.evaluation.evaluate import TestSet
from training.evaluation.translate import ROWS

Array = NDArray[np.float64]
MIN_PAIRS = 50
"""Fewer development pairs fit nothing."""
BINS = 10
_PENALTY = 1.0
"""Of the squared coefficients of standardised features: keeps the fit finite where a set has translations of one kind
only."""
_PRIOR_PENALTY = 50.0
"""Of the squared differences from the estimates of the bundle that was fine-tuned, which so count as much as about 300
pairs. Fitted on 80 corrections without them, the error on Tatoeba's test set was 0.07 to 0.09, with them 0.02 to
0.04."""


class Judged(NamedTuple):
    """A translation, and whether it is good."""

    log_probs: Sequence[float]
    is_complete: bool
    is_good: bool
    words: Sequence[tuple[float, bool]]
    """Of each word, the log probability and whether the reference has it."""
    ends_sentence: bool = True
    """Whether the source ends like a sentence."""


@dataclass(frozen=True)
class Calibration:
    """How well estimates of quality match a test set."""

    set: str
    sentences: int
    good: float
    """The share of good translations."""
    error: float
    """The expected calibration error, with ten bins of equal width (Naeini et al. 2015)."""
    auroc: float | None
    """The probability that a good translation is rated above one that is not; None if all are of one kind."""
    bins: Sequence[tuple[int, float, float]]
    """For each bin that has any, from the lowest: sentences, mean estimate, share of good ones."""
    risks: Sequence[float]
    """Shares of bad translations among the best rated tenth, two tenths, and so on, up to all."""
    words: tuple[int, float, float | None]
    """Number of words, calibration error and AUROC of their probabilities."""

    def to_dict(self) -> dict[str, Any]:
        """For config.json."""
        return {
            "set": self.set,
            "sentences": self.sentences,
            "good": round(self.good, 4),
            "error": round(self.error, 4),
            "auroc": None if self.auroc is None else round(self.auroc, 4),
            "bins": [[count, round(estimate, 4), round(good, 4)] for count, estimate, good in self.bins],
            "risks": [round(risk, 4) for risk in self.risks],
            "words": {
                "count": self.words[0],
                "error": round(self.words[1], 4),
                "auroc": None if self.words[2] is None else round(self.words[2], 4),
            },
        }

    def __str__(self) -> str:
        auroc = "all of one kind" if self.auroc is None else f"AUROC {self.auroc:.3f}"
        return (
            f"quality on {self.set}: {self.good:.1%} of {self.sentences:,} translations are good, calibration error "
            f"{self.error:.3f}, {auroc}"
        )


def fit_quality(
    backend: Backend,
    bundle: Bundle,
    fitted_on: Sequence[TestSet],
    measured_on: Sequence[TestSet] = (),
    prior: QualityModel | None = None,
    times: Sequence[int] | None = None,
) -> tuple[dict[str, Any], list[Calibration]]:
    """The entry of config.json for the direction of `bundle`, whose model is `backend`, and its measurements.

    The model must not have been trained on these sets. It translates them as by default: greedily, unless the bundle
    says otherwise. `prior`: the estimates of the bundle that was fine-tuned; see `fit`. `times`: how often each of the
    first sets counts, once by default. Raises CorpusError if the first sets have fewer than MIN_PAIRS pairs, without a
    prior.
    """
    times = times or [1] * len(fitted_on)
    judged = [judge(backend, bundle, test.pairs) for test in (*fitted_on, *measured_on)]
    counted = [one for found, count in zip(judged, times, strict=False) for one in found * count]
    fitted = fit(counted, fitted_on[0].name, prior)
    measured = [
        measure(fitted, test.name, found)
        for test, found in zip((*fitted_on, *measured_on), judged, strict=True)
        if any(one.log_probs for one in found)  # else no source of it fits the model's limits
    ]
    entry = {
        **fitted.to_dict(),
        "good_chrf": good_chrf(bundle.target),
        "fitted_on": [
            {"set": test.name, "pairs": len(test.pairs), "digest": test.digest, **({"times": n} if n > 1 else {})}
            for test, n in zip(fitted_on, times, strict=True)
        ],
        "measured": [one.to_dict() for one in measured],
    }
    return entry, measured


def judge(backend: Backend, bundle: Bundle, pairs: Sequence[Pair]) -> list[Judged]:
    """Translates the sources that fit the model's limits, and compares each translation with its reference."""
    tokenizer, (source_prefix, target_prefix) = bundle.target_tokenizer, bundle.direction.prefixes
    encoded = [[*source_prefix, *bundle.source_tokenizer.encode_source(pair.source)] for pair in pairs]
    fitting = [number for number, ids in enumerate(encoded) if len(ids) <= bundle.limits.max_source]
    beam = bundle.decoding.beam_size or 1
    found = beam_decode(
        backend,
        [encoded[number] for number in fitting],
        bundle.limits,
        beam,
        max(ROWS[backend.device], beam),
        target_prefix,
        bundle.decoding.length_penalty,
        bundle.decoding.narrowing,
    )
    chosen = [pairs[number] for number in fitting]
    references = references_in_script([pair.target for pair in chosen], tokenizer)
    good, chrf = good_chrf(bundle.target), sacrebleu.CHRF()
    judged = []
    for hypothesis, pair, reference in zip(found, chosen, references, strict=True):
        tokens, log_probs = _without_prefix(hypothesis)
        is_good = chrf.sentence_score(tokenizer.decode(tokens), [reference]).score >= good
        words = list(_words(tokenizer, tokens, log_probs, reference, bundle.target))
        is_complete, ended = hypothesis.finish_reason == "stop", ends_sentence(pair.source)
        judged.append(Judged(log_probs, is_complete, is_good, words, ended))
    return judged


def fit(judged: Sequence[Judged], name: str = "", prior: QualityModel | None = None) -> QualityModel:
    """Fits the estimates; the fewer sentences there are, the nearer they stay to `prior`.

    Without one, raises CorpusError, about the set `name`, for fewer than MIN_PAIRS sentences, or none with a word, as
    a model translates that has hardly been trained.
    """
    complete = [one for one in judged if one.is_complete and one.log_probs]
    if prior is None and len(complete) < MIN_PAIRS:
        raise CorpusError(name, f"{len(complete)} usable pairs, too few to calibrate with: {MIN_PAIRS} at least")
    words = [word for one in complete for word in one.words]
    if prior is None and not words:
        raise CorpusError(name, "translations without a word, by which none can be calibrated")
    sentence_prior, word_prior = (None, None) if prior is None else (prior.sentence, prior.word)
    features = [sentence_features(one.log_probs, one.ends_sentence) for one in complete]
    return QualityModel(
        fit_logistic(features, [one.is_good for one in complete], sentence_prior),
        fit_logistic([word_features(word) for word, _ in words], [is_right for _, is_right in words], word_prior),
    )


def measure(fitted: QualityModel, name: str, judged: Sequence[Judged]) -> Calibration:
    """Compares the estimates with what is good."""
    usable = [one for one in judged if one.log_probs]
    estimates = np.array([fitted.quality(one.log_probs, one.is_complete, one.ends_sentence) for one in usable])
    good = np.array([one.is_good for one in usable], float)
    words = [word for one in usable for word in one.words]
    word_estimates = np.array([fitted.word_probability(log_prob) for log_prob, _ in words])
    right = np.array([is_right for _, is_right in words], float)
    risks = risk_coverage(estimates, good)
    ends = [max(1, round(len(risks) * tenth / 10)) for tenth in range(1, 11)]
    return Calibration(
        name,
        len(usable),
        float(good.mean()),
        calibration_error(estimates, good),
        auroc(estimates, good),
        reliability(estimates, good),
        [float(risks[end - 1]) for end in ends],
        (len(words), calibration_error(word_estimates, right), auroc(word_estimates, right)),
    )


def calibration_error(estimates: Array, good: Array) -> float:
    """The mean distance between the mean estimate and the share of good ones in each of ten bins of equal width,
    weighted by their sizes (Naeini et al. 2015, section "Calibration measures"); 0 if there are no estimates."""
    bins = reliability(estimates, good)
    return sum(count * abs(estimate - share) for count, estimate, share in bins) / max(1, len(estimates))


def risk_coverage(estimates: Array, good: Array) -> Array:
    """The risk-coverage curve (El-Yaniv and Wiener 2010): for each number from 1 to all, the share of bad translations
    among so many of the best rated. Of equal estimates the first counts as better."""
    bad = 1 - good[np.argsort(-estimates, kind="stable")]
    return np.cumsum(bad) / np.arange(1, len(bad) + 1)


def auroc(estimates: Array, good: Array) -> float | None:
    """The area under the receiver operating characteristic, by the ranks of the good ones; ties count half."""
    positive = int(good.sum())
    negative = len(good) - positive
    if not (positive and negative):
        return None
    _, places, counts = np.unique(estimates, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return float((ranks[good == 1].sum() - positive * (positive + 1) / 2) / (positive * negative))


def reliability(estimates: Array, good: Array) -> list[tuple[int, float, float]]:
    """The points of the calibration plot: for each of ten bins of equal width that has any estimates, their number,
    their mean, and the share of good ones."""
    numbers = np.minimum((estimates * BINS).astype(int), BINS - 1)
    members = (numbers == number for number in range(BINS))
    return [(int(m.sum()), float(estimates[m].mean()), float(good[m].mean())) for m in members if m.any()]


def fit_logistic(
    features: Sequence[Sequence[float]], good: Sequence[bool], prior: LogisticModel | None = None
) -> LogisticModel:
    """Logistic regression with a small penalty of the coefficients, or one of all differences from `prior`, by Newton's
    method; steps that would overshoot are halved."""
    if prior is not None and not features:
        return prior
    given, wanted = np.array(features, float), np.array(good, float)
    mean, deviation = given.mean(axis=0), given.std(axis=0) + 1e-9
    design = np.column_stack([np.ones(len(given)), (given - mean) / deviation])  # [sentence, 1 + feature]
    start = LogisticModel(0.0, (0.0,) * given.shape[1]) if prior is None else prior
    offset = start.intercept + given @ np.array(start.coefficients)  # [sentence]
    penalties = [1e-6, *[_PENALTY] * given.shape[1]] if prior is None else [_PRIOR_PENALTY] * design.shape[1]
    penalty, weights = np.diag(penalties), np.zeros(design.shape[1])

    def loss(weights: Array) -> float:
        logits = offset + design @ weights
        return float((np.logaddexp(0, logits) - wanted * logits).sum() + weights @ penalty @ weights / 2)

    for _ in range(100):
        estimates = 1 / (1 + np.exp(-np.clip(offset + design @ weights, -30, 30)))
        curvature = (design * (estimates * (1 - estimates) + 1e-9)[:, None]).T @ design + penalty
        step = np.linalg.solve(curvature, design.T @ (wanted - estimates) - penalty @ weights)
        while loss(weights + step) > loss(weights) and np.abs(step).max() > 1e-9:
            step = step / 2
        weights = weights + step
        if np.abs(step).max() < 1e-9:
            break
    moved = weights[1:] / deviation
    coefficients = moved + np.array(start.coefficients)
    return LogisticModel(float(start.intercept + weights[0] - moved @ mean), tuple(map(float, coefficients)))


def _without_prefix(hypothesis: Hypothesis) -> tuple[Sequence[int], Sequence[float]]:
    start = hypothesis.target_prefix_length
    return hypothesis.tokens[start:], hypothesis.log_probs[start:]


def _words(
    tokenizer: Tokenizer, tokens: Sequence[int], log_probs: Sequence[float], reference: str, target: str
) -> Iterator[tuple[float, bool]]:
    """The words of a translation, their log probabilities, and whether the reference has each as often."""
    left = Counter(_word_texts(tokenizer, tokenizer.encode(reference), target))
    texts = tokenizer.token_texts(tokens)
    for first, end, log_prob in tokenizer.words(tokens, log_probs, target):
        text = "".join(texts[first:end]).strip()
        if any(map(str.isalnum, text)):
            yield log_prob, left[text] > 0
            left[text] -= 1


def _word_texts(tokenizer: Tokenizer, tokens: Sequence[int], target: str) -> Iterator[str]:
    texts = tokenizer.token_texts(tokens)
    for first, end, _ in tokenizer.words(tokens, [0.0] * len(tokens), target):
        yield "".join(texts[first:end]).strip()
