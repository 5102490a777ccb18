"""Which sentences of a corpus are taken as being most like a field's."""

from __future__ import annotations

import math

import pytest

from training.corpora import selection
from training.corpora.selection import Likeness, most_like, words_of

MINUTES = [f"Mr President, the Commission must act, as {name} said." for name in ("Smith", "Jones", "Weber", "Rossi")]
NEWS = ["A train hit a car in the north.", "The river rose after heavy rain.", "A new drug may slow cancer."]


def test_words_are_runs_of_letters_and_ideographs_stand_alone() -> None:
    assert words_of("It's 30 °C: 我爱 Zoë_1") == ["it", "'", "s", "30", "°", "c", ":", "我", "爱", "zoë", "1"]


def test_sentences_of_the_field_are_more_likely_by_its_model() -> None:
    likeness = Likeness(NEWS, MINUTES)
    assert likeness("The rain hit the river.") > 0 > likeness("The Commission must act, Mr President.")
    assert likeness("") == 0


def test_likeness_is_a_difference_of_proper_distributions() -> None:
    """By each model, the probabilities of all words after one add up to 1."""
    likeness = Likeness(NEWS, MINUTES)
    known = {word for sentence in [*NEWS, *MINUTES] for word in words_of(sentence)}
    totals = sum(likeness._totals) + likeness._known
    for which in (0, 1):
        shares = []
        for word in known:
            broad = (likeness._field.words[word] + likeness._general.words[word] + 1) / totals
            shares.append(likeness._probability(which, "the", word, broad))
        unknown = likeness._probability(which, "the", "unknown", 1 / totals)
        assert math.fsum([*shares, unknown]) == pytest.approx(1)


def test_as_many_as_asked_are_chosen_by_number_whatever_their_order() -> None:
    corpus = [(10 * place, text) for place, text in enumerate([*MINUTES, "Heavy rain hit the north.", *MINUTES[:2]])]
    assert most_like(NEWS, corpus, 1) == {40}
    assert most_like(NEWS, corpus[::-1], 1) == {40}
    assert most_like(NEWS, corpus, 99) == {number for number, _ in corpus}


def test_a_large_corpus_is_compared_with_a_sample_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "GENERAL_SENTENCES", 50)
    corpus = [(place, f"Mr President, item {place}." if place % 100 else NEWS[0]) for place in range(2000)]
    assert most_like(NEWS, corpus, 20) == {*range(0, 2000, 100)}
