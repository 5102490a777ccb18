"""Laws of the robustness benchmark: what a variant is, and when two translations agree."""

from __future__ import annotations

import pytest

from app.link import InProcessWorker
from benchmarks.robustness import VARIANTS, agreement, measure, probes
from model.bundle import Bundle

BY_NAME = {variant.name: variant for variant in VARIANTS}


@pytest.mark.parametrize(
    ("name", "text", "typed", "asked"),
    [
        ("IN CAPITALS", "Hello!", "HELLO!", "HELLO!"),
        ("in small letters", "Is Tom in?", "is tom in?", "Is Tom in?"),
        ("no last mark", "¿Es tarde?", "Es tarde", "Es tarde"),
        ("no last mark", "Où est-il ?", "Où est-il", "Où est-il"),
        ("begun small, no last mark", "Is Tom in?", "is Tom in", "is Tom in"),
        ("curly apostrophes", "It's.", "It’s.", "It's."),
        ("traditional characters", "计划。", "計劃。", "计划。"),
        ("with {name}", "Où est-il ?", "Où est-il {name} ?", "Où est-il {name} ?"),
        ("with 4711", "Wait", "Wait 4711", "Wait 4711"),
    ],
)
def test_a_variant_is_typed_so_and_asks_for_the_translation_so(name: str, text: str, typed: str, asked: str) -> None:
    assert (BY_NAME[name].typed(text), BY_NAME[name].asked(text)) == (typed, asked)


def test_words_agree_without_case_and_marks_and_the_whole_only_to_the_letter() -> None:
    found = agreement(["Bonjour !", "Oui.", "Non."], ["BONJOUR !", "Oui", "PEUT-ÊTRE."], BY_NAME["IN CAPITALS"])
    assert (found.sentences, found.words, found.asked) == (3, 2 / 3, 1 / 3)


def test_what_is_to_be_kept_counts_if_it_stands_there_once() -> None:
    found = agreement(["Oui.", "Non.", "Si."], ["Oui {name}.", "Non.", "Si {name} {name}."], BY_NAME["with {name}"])
    assert (found.words, found.asked) == (1 / 3, 1 / 3)


@pytest.mark.parametrize("language", ["en", "fr", "de", "es", "zh", "zh-CN"])
def test_every_language_of_ours_has_short_sentences_and_long_ones(language: str) -> None:
    assert 25 <= len(probes(language)) <= 40
    assert len(set(probes(language))) == len(probes(language))


def test_a_language_without_sentences_of_ours_is_refused() -> None:
    with pytest.raises(ValueError, match="no sentences of ours in tlh"):
        probes("tlh")


def test_a_bundle_has_a_row_for_each_variant_that_changes_something(bundle: Bundle) -> None:
    table = measure(bundle, InProcessWorker)
    assert set(table.rows) == set(BY_NAME) - {"traditional characters"}
    for sentences, *shares in table.rows.values():
        assert isinstance(sentences, int) and sentences > 0
        assert all(isinstance(share, float) and 0 <= share <= 100 for share in shares)
