"""The splitter benchmark: its samples and its arithmetic."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.splitters import ends_of, is_two, measure, paragraph, paragraphs, sentences, tables

FOUR = ["One is here.", "Two is there!", "“Three”, he said.", "Four?"]


@pytest.mark.parametrize(
    "line", ["It ends here. It goes on.", "Who? Me.", "他来了。他走了。", "Es war spät. „Ja“, sagte er."]
)
def test_lines_of_two_sentences_are_recognised(line: str) -> None:
    assert is_two(line)


@pytest.mark.parametrize("line", ["Mr. Smith came.", "It was approx. Ten of them.", "Er kam am 3. Mai.", "他来了。"])
def test_abbreviations_do_not_split_a_sentence(line: str) -> None:
    assert not is_two(line)


def test_sample_sentences_are_lines_with_an_end_mark(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(
        "One.\tUn.\nA heading\tUn titre\nOnce is fine. Twice is not.\tUne fois oui. Deux fois non.\nOne.\tUn.\n",
        encoding="utf-8",
    )
    assert sentences(path, 0) == ["One."]
    assert sentences(path, 1) == ["Un."]


def test_paragraphs_have_every_sentence_once_with_its_end() -> None:
    found = paragraphs(FOUR, "en", together=3)
    assert [len(ends) for _, ends in found] == [2, 0]
    split = [sentence for text, ends in found for sentence in parts(text, ends)]
    assert sorted(sentence.strip() for sentence in split) == sorted(FOUR)
    assert paragraph(["你好。", "再见。"], "").text == "你好。再见。"


def parts(text: str, ends: frozenset[int]) -> list[str]:
    places = [0, *sorted(ends), len(text)]
    return [text[start:end] for start, end in pairwise(places)]


def test_perfect_splitter_scores_one_and_one_that_finds_nothing_zero() -> None:
    texts = paragraphs(FOUR, "en", together=2)
    ends = dict(texts)
    right = measure(lambda text: parts(text, ends.get(text, frozenset())), texts)
    assert (right.precision, right.recall, right.f1, right.changed) == (1, 1, 1, 0)
    nothing = measure(lambda text: [text], texts)
    assert (nothing.recall, nothing.missed.total(), nothing.invented.total()) == (0, 2, 0)
    everything = measure(lambda text: text.split(" "), texts)
    assert everything.recall == 1
    assert everything.precision < 0.5


def test_lost_text_is_detected() -> None:
    assert ends_of(["One.  ", " Two."], "One.   Two.") == (frozenset({4}), True)
    assert ends_of(["One.", "Too."], "One. Two.") == (frozenset({4}), False)
    assert ends_of(["One."], "One. Two.") == (frozenset(), False)


def test_figures_are_by_splitter_and_language() -> None:
    texts = paragraphs(FOUR, "en", together=2)
    result = measure(lambda text: [text], texts)
    f1, precision, recall, cost = tables({"none": {"en": result}}, {"en": 40, "fr": 50})
    assert f1.rows["none"] == recall.rows["none"] == precision.rows["none"] == [0, None]
    assert cost.rows["none"][2] == 0
