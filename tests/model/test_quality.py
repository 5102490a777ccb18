"""Tests of model/quality.py: estimates from the probabilities of tokens."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.quality import DOUBTFUL_WORD, LogisticModel, QualityModel, good_chrf, sentence_features, word_features

MODEL = QualityModel(LogisticModel(-1.9, (3.6, -1.4, 0.5, 0.1, 0.9, -0.2)), LogisticModel(0.3, (0.5, -0.7)))
LOG_PROBS = st.lists(st.floats(-20, 0), min_size=1, max_size=50)


@given(LOG_PROBS)
def test_a_quality_is_a_probability(log_probs: list[float]) -> None:
    assert 0 <= MODEL.quality(log_probs) <= 1


@given(LOG_PROBS, st.integers(0, 49), st.floats(0.1, 5))
def test_a_less_certain_token_never_raises_the_quality(log_probs: list[float], number: int, less: float) -> None:
    worse = list(log_probs)
    worse[number % len(worse)] -= less
    assert MODEL.quality(worse) <= MODEL.quality(log_probs)


def test_a_translation_that_a_limit_ended_is_not_good() -> None:
    assert MODEL.quality([-0.01] * 5) > 0.5
    assert MODEL.quality([-0.01] * 5, is_complete=False) == 0


def test_features_of_certain_tokens_are_finite() -> None:
    assert all(map(math.isfinite, (*sentence_features([0.0]), *word_features(0.0))))


@given(st.floats(-30, 0))
def test_a_word_is_doubtful_under_its_limit(log_prob: float) -> None:
    limit = MODEL.doubtful_word_log_prob
    assert limit < 0
    if abs(log_prob - limit) > 1e-6:
        assert (log_prob < limit) == (MODEL.word_probability(log_prob) < DOUBTFUL_WORD)


def test_good_translations_without_spaces_have_a_lower_chrf() -> None:
    assert good_chrf("zh-TW") < good_chrf("fr")


def test_a_model_is_read_as_it_was_written() -> None:
    assert QualityModel.read(MODEL.to_dict()) == MODEL


@pytest.mark.parametrize(
    "fields",
    [
        None,
        {},
        {"sentence": {"intercept": 1.0, "coefficients": [1.0]}, "word": MODEL.word.to_dict()},
        {"sentence": {"intercept": math.nan, "coefficients": [1.0, 2.0, 3.0]}, "word": MODEL.word.to_dict()},
        {"sentence": MODEL.sentence.to_dict(), "word": {"intercept": "1", "coefficients": [1.0, 2.0]}},
    ],
)
def test_a_model_of_another_shape_is_refused(fields: object) -> None:
    with pytest.raises(ValueError, match="quality must have"):
        QualityModel.read(fields)


def test_a_source_without_an_end_mark_has_coefficients_of_its_own() -> None:
    assert MODEL.quality([-1.0] * 3, ends_sentence=False) != MODEL.quality([-1.0] * 3)


def test_a_model_of_an_older_bundle_takes_labels_for_sentences() -> None:
    older = QualityModel.read(
        {"sentence": {"intercept": -1.9, "coefficients": [3.6, -1.4, 0.5]}, "word": MODEL.word.to_dict()}
    )
    assert older.quality([-1.0] * 3, ends_sentence=False) == older.quality([-1.0] * 3)
    assert older.quality([-1.0] * 3) == MODEL.quality([-1.0] * 3)
