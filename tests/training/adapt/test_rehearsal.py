"""Rehearsal: made once, from our sentences or the user's, with the bundle's own translations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from shared_fixtures import make_bundle

from model.backends import prepare
from model.bundle_weights import LoadedBundle, load_bundle
from model.tokenizer import Tokenizer
from training.adapt.rehearsal import Rehearsal, make_variants, translate_greedily
from training.corpora.corpus import Pair
from training.corpora.general import general_sentences

pytestmark = pytest.mark.slow


def rehearsal_of(bundle: LoadedBundle, sentences: list[str], work: Path, min_sentences: int) -> Rehearsal:
    """Translates every sentence as x, at once."""

    def translate(bundle: LoadedBundle, backend: object, texts: Sequence[str]) -> list[Pair]:
        return [Pair(text, "x") for text in texts]

    return Rehearsal(bundle, sentences, work, min_sentences, translate)


@pytest.fixture
def bundle(tmp_path: Path) -> LoadedBundle:
    return load_bundle(make_bundle(tmp_path / "bundle"), torch.device("cpu"))


def test_rehearsal_uses_our_sentences_or_the_distinct_lines_of_a_file(bundle: LoadedBundle, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One.\n\nTwo.\nOne.\n", encoding="utf-8")
    assert list(Rehearsal.of(bundle, (), tmp_path).sentences) == general_sentences("en")
    assert list(Rehearsal.of(bundle, (str(tmp_path / "a.txt"),), tmp_path).sentences) == ["One.", "Two."]


def test_rehearsal_data_is_made_again_only_for_other_sentences_another_bundle_or_a_changed_file(
    bundle: LoadedBundle, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    ours = rehearsal_of(bundle, ["One.", "Two."], work, min_sentences=2)
    assert not ours.is_up_to_date
    ours.make(lambda line: None)
    assert ours.is_up_to_date and not ours.is_empty
    assert ours.path.read_text(encoding="utf-8") == "One.\tx\nTwo.\tx\n"
    assert rehearsal_of(bundle, ["One.", "Two."], work, min_sentences=2).is_up_to_date
    assert not rehearsal_of(bundle, ["One.", "Two."], work, min_sentences=3).is_up_to_date
    assert not rehearsal_of(bundle, ["One."], work, min_sentences=2).is_up_to_date
    another = load_bundle(make_bundle(tmp_path / "another", seed=1), torch.device("cpu"))
    assert not rehearsal_of(another, ["One.", "Two."], work, min_sentences=2).is_up_to_date
    ours.path.write_text("One.\tx\n", encoding="utf-8")
    assert not ours.is_up_to_date


def test_rehearsal_pairs_are_the_bundles_translations_without_failed_ones(bundle: LoadedBundle) -> None:
    texts = ["Hello.", "How are you?", "", "The cat sleeps. " * 40]
    found = translate_greedily(bundle, prepare(bundle.model, "float32"), texts)
    assert {pair.source for pair in found} <= set(texts[:2])
    assert all(pair.target == pair.target.strip() != "" for pair in found)


def test_too_few_sentences_are_supplemented_by_variants(bundle: LoadedBundle, tmp_path: Path) -> None:
    said: list[str] = []
    few = rehearsal_of(bundle, ["The cat sleeps.", "How are you?"], tmp_path, min_sentences=7)
    few.make(said.append)
    assert "2 general sentences and 5 variants of them" in said[0]
    lines = few.path.read_text(encoding="utf-8").splitlines()
    assert lines[:2] == ["The cat sleeps.\tx", "How are you?\tx"] and len(lines) == 7


SHIPPED = {code: Path(__file__).parents[3] / "bundles" / f"{code}-en" for code in ("fr", "zh")}


@pytest.mark.bundle
@pytest.mark.parametrize("code", SHIPPED)
def test_variant_replaces_some_words_by_others_of_the_vocabulary(code: str) -> None:
    tokenizer = Tokenizer.load(SHIPPED[code] / "sentencepiece.model")
    sentences = general_sentences(code)[:400]
    variants = make_variants(sentences, tokenizer, code, 800)
    assert variants == make_variants(sentences, tokenizer, code, 800)
    assert len(set(variants)) > 700
    first, second = variants[:400], variants[400:]
    assert sum(one != other for one, other in zip(first, second, strict=True)) > 350
    alike = [len(a & b) / len(a) for a, b in zip(map(set, sentences), map(set, first), strict=True)]
    assert 0.5 < sum(alike) / len(alike) < 0.98
    ends = "。！？" if code == "zh" else ".!?"
    ended = [variant[-1] in ends for variant, text in zip(first, sentences, strict=True) if text[-1] in ends]
    assert sum(ended) > 0.95 * len(ended)
    words = {word.strip(".,!?").casefold() for text in sentences for word in text.split()}
    new = {word.strip(".,!?").casefold() for text in first for word in text.split()} - words
    assert len(new) > 200


def test_no_variants_are_made_of_nothing_or_if_there_are_enough_sentences(bundle: LoadedBundle) -> None:
    assert make_variants([], bundle.source_tokenizer, "en", 5) == []
    assert make_variants(["The cat sleeps."], bundle.source_tokenizer, "en", -3) == []
