"""Translating and scoring: sacreBLEU with the language's tokeniser, and truncated sentences are reported."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from shared_fixtures import TRAINING_LIMITS, small_config

from model.bundle_weights import LoadedBundle
from model.decoding import greedy_decode
from model.hypothesis import Limits
from training.data.batches import Pairs
from training.evaluation.scoring import Development, bleu_metric, limits_for, moses_tokens, scores
from training.evaluation.translate import translate

pytestmark = pytest.mark.slow


def test_identical_text_scores_100_and_reports_the_signature() -> None:
    bleu, chrf = scores(["the cat sat on the mat"], ["the cat sat on the mat"], "fr")
    assert (bleu.metric, chrf.metric) == ("BLEU", "chrF")
    assert bleu.score == pytest.approx(100)
    assert chrf.score == pytest.approx(100)
    assert "tok:13a" in bleu.signature
    assert "version:" in chrf.signature


@pytest.mark.parametrize(
    ("language", "tokeniser"), [("zh", "zh"), ("zh-TW", "zh"), ("ZH_Hant", "zh"), ("ja", "char"), ("de", "13a")]
)
def test_languages_without_spaces_are_split_into_characters(language: str, tokeniser: str) -> None:
    metric = bleu_metric(language)
    metric.corpus_score(["a"], [["a"]])
    assert f"tok:{tokeniser}|" in str(metric.get_signature())


def test_chinese_is_scored_by_character() -> None:
    hypothesis, reference = ["我们明天去海边的小房子。"], ["我们明天去海边的大房子。"]
    assert scores(hypothesis, reference, "zh")[0].score > 50 > scores(hypothesis, reference, "fr")[0].score


def test_lowercased_bleu_is_reported_with_a_label() -> None:
    bleu, _, lower = scores(["THE CAT sat on the mat"], ["the cat sat on the mat"], "fr", lowercase=True)
    assert lower.metric == "BLEU in lower case"
    assert lower.score == pytest.approx(100)
    assert bleu.score < 100
    assert "case:lc" in lower.signature
    assert "case:mixed" in bleu.signature


def test_moses_splits_after_french_apostrophes_and_normalises_quotation_marks() -> None:
    assert moses_tokens(["L’homme (« ami ») dort."], "fr", lowercase=True) == ['l\' homme ( " ami " ) dort .']
    *_, moses = scores(["L'homme est ici, là-bas."], ["l’homme est ici, là-bas."], "fr", lowercase=True, moses=True)
    assert moses.score == pytest.approx(100)
    assert moses.metric == "BLEU in lower case, tokens of Moses"
    assert "tok:moses-fr-norm-sacremoses-" in moses.signature


def test_moses_tokens_without_sacremoses_are_refused_with_install_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(ValueError, match="pip install sacremoses"):
        moses_tokens(["Bonjour."], "fr", lowercase=False)


def test_sentence_over_the_limit_is_truncated_and_counted(bundle: LoadedBundle) -> None:
    long = "How are you? " * 40
    found = translate(bundle.model, bundle.tokenizers, bundle.limits, ["Hello.", long])
    first = bundle.source_tokenizer.encode(long)[: bundle.limits.max_source]
    assert found.cut == 1
    assert found.ids[1] == greedy_decode(bundle.model, [first], bundle.limits)[0].tokens
    assert found.texts == [bundle.target_tokenizer.decode(ids) for ids in found.ids]


def test_development_set_is_scored_with_as_many_references_as_translations(data: Path, bundle: LoadedBundle) -> None:
    development = Development.load(data, bundle.limits)
    assert len(development.translate(bundle.model, 3)) == 3
    assert len(development.translate(bundle.model)) == len(development.references) == 16
    assert development.bleu(development.references[:5]) == pytest.approx(100)


def test_limits_follow_the_corpus_if_targets_are_long_and_positions_few() -> None:
    usual = Pairs.of([[5] * 10] * 20, [[5] * 12] * 20)
    assert limits_for(usual, small_config(10)) == Limits()
    long = Pairs.of([[5] * 10] * 20, [[5] * 66] * 20)
    assert limits_for(long, small_config(10)).ratio == 5.0
    paragraphs = Pairs.of([[5] * 300], [[5] * 280])
    assert limits_for(paragraphs, small_config(10, max_positions=513)).max_source == 300
    short = limits_for(usual, small_config(10, max_positions=40))
    assert (short.max_source, short.max_target) == (39, 39)


def test_translating_does_not_change_the_random_state(bundle: LoadedBundle) -> None:
    before = torch.get_rng_state()
    translate(bundle.model, bundle.tokenizers, TRAINING_LIMITS, ["Hello."])
    assert torch.equal(torch.get_rng_state(), before)


def test_limits_do_not_overflow_for_unsigned_lengths_from_files() -> None:
    pairs = Pairs.of([[5] * 4] * 50, [[6] * 5] * 50)
    source, target = (
        dataclasses.replace(side, lengths=side.lengths.astype(np.uint32)) for side in (pairs.source, pairs.target)
    )
    assert limits_for(Pairs(source, target, pairs.weights), small_config(10)) == Limits()
