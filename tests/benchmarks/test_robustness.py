"""The robustness benchmark: its variants, and when two translations agree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
import torch
from shared_fixtures import make_bundle

from app.engine.launch import InProcessWorker
from benchmarks.noise import NOISES, Noise, measure_noise
from benchmarks.robustness import VARIANTS, agreement, measure, noise, probes
from model.bundle_weights import LoadedBundle, load_bundle
from model.normalisation import normalise_source
from training.corpora.corpus import Pair

BY_NAME = {variant.name: variant for variant in VARIANTS}


@pytest.mark.parametrize(
    ("name", "text", "typed", "asked"),
    [
        ("IN CAPITALS", "Hello!", "HELLO!", "HELLO!"),
        ("small letters", "Is Tom in?", "is tom in?", "Is Tom in?"),
        ("no final mark", "¿Es tarde?", "Es tarde", "Es tarde"),
        ("no final mark", "Où est-il ?", "Où est-il", "Où est-il"),
        ("small initial, no final mark", "Is Tom in?", "is Tom in", "is Tom in"),
        ("curly apostrophes", "It's.", "It’s.", "It's."),
        ("traditional characters", "计划。", "計劃。", "计划。"),
        ("with {name}", "Où est-il ?", "Où est-il {name} ?", "Où est-il {name} ?"),
        ("with 4711", "Wait", "Wait 4711", "Wait 4711"),
    ],
)
def test_variant_changes_the_source_and_the_expected_translation_accordingly(
    name: str, text: str, typed: str, asked: str
) -> None:
    assert (BY_NAME[name].apply(text), BY_NAME[name].expect(text)) == (typed, asked)


def test_words_match_without_case_and_accents_but_the_whole_only_exactly() -> None:
    found = agreement(["Bonjour !", "Oui.", "Non."], ["BONJOUR !", "Oui", "PEUT-ÊTRE."], BY_NAME["IN CAPITALS"])
    assert (found.sentences, found.words, found.exact) == (3, 2 / 3, 1 / 3)


def test_protected_part_counts_if_it_occurs_exactly_once() -> None:
    found = agreement(["Oui.", "Non.", "Si."], ["Oui {name}.", "Non.", "Si {name} {name}."], BY_NAME["with {name}"])
    assert (found.words, found.exact) == (1 / 3, 1 / 3)


@pytest.mark.real_service
@pytest.mark.parametrize("language", ["en", "fr", "de", "es", "zh", "zh-CN"])
def test_every_language_of_ours_has_short_and_long_sentences(language: str) -> None:
    assert 25 <= len(probes(language)) <= 40
    assert len(set(probes(language))) == len(probes(language))


def test_a_language_without_sentences_of_ours_is_refused() -> None:
    with pytest.raises(ValueError, match="the repository has no sentences in tlh"):
        probes("tlh")


@pytest.mark.slow
def test_bundle_has_a_row_for_each_variant_that_changes_something(bundle: LoadedBundle) -> None:
    table = measure(bundle, InProcessWorker)
    assert set(table.rows) == set(BY_NAME) - {"traditional characters"}
    for sentences, *shares in table.rows.values():
        assert isinstance(sentences, int) and sentences > 0
        assert all(isinstance(share, float) and 0 <= share <= 100 for share in shares)


PAIRS = [Pair("It's the cat that sleeps.", "C'est le chat qui dort."), Pair("How are you?", "Comment vas-tu ?")]


@pytest.mark.parametrize("kind", NOISES, ids=lambda kind: kind.name)
def test_noise_is_deterministic_and_changes_one_or_two_characters(kind: Noise) -> None:
    text = "It's the 大猫 that sleeps."
    typed = [kind.add(text, Random(seed)) for seed in range(20)]
    assert typed == [kind.add(text, Random(seed)) for seed in range(20)]
    assert all(1 <= abs(len(one) - len(text)) <= 4 or len(one) == len(text) for one in typed)
    assert text not in typed
    assert kind.add("", Random(0)).strip() == ""


def test_decoder_that_ignores_noise_loses_nothing_and_one_that_does_not_loses_all() -> None:
    known = {pair.source: pair.target for pair in PAIRS}

    def attentive(texts: Sequence[str]) -> list[str]:
        return [known[normalise_source(text).strip().replace("..", ".").replace("??", "?")] for text in texts]

    def deaf(texts: Sequence[str]) -> list[str]:
        return [known.get(text, "Pardon") for text in texts]

    names = [kind.name for kind in NOISES if kind.name != "a space in Chinese"]
    for row in (found := measure_noise(PAIRS, "fr", deaf).rows).values():
        _, others, clean, _, lost = (cell for cell in row if isinstance(cell, float | int))
        assert others == 100 and clean > 99 and lost > 10
    assert list(found) == names
    found = measure_noise(PAIRS, "fr", attentive).rows
    assert [name for name, row in found.items() if row[1] or row[4]] == ["the mark doubled"]


def test_noise_is_measured_through_the_service(tmp_path: Path) -> None:
    writing_words = load_bundle(make_bundle(tmp_path / "en-fr", seed=7), torch.device("cpu"))
    table = noise(writing_words, PAIRS, InProcessWorker)
    assert table.title == "en to fr"
    assert table.rows["a space doubled"][0] == 2
    assert [row[1] for name, row in table.rows.items() if name != "the mark doubled"] == [0] * (len(table.rows) - 1)
