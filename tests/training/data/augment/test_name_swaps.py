"""Copies with other names and numbers: the same on both sides, and taken from the corpus."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.corpora.corpus import Pair
from training.data.augment.name_swaps import NameSwapper
from training.data.augment.placeholder_copies import shared_words
from training.data.augment.robustness import text_copies

CORPUS = [
    Pair("I know Robert.", "Je connais Robert."),
    Pair("I know Marek.", "Je connais Marek."),
    Pair("It is Anouk's.", "C'est à Anouk."),
    Pair("We saw Eveline.", "Nous avons vu Eveline."),
]


def copies(pair: Pair, corpus: list[Pair] = CORPUS) -> set[Pair]:
    made = (NameSwapper(corpus).swap(pair, Random(seed)) for seed in range(40))
    return {copy for copy in made if copy}


def test_both_sides_get_the_same_name_and_keep_the_rest() -> None:
    found = copies(Pair("Where is Tom's dog?", "Où est le chien de Tom ?"))
    assert len(found) > 10
    for source, target in found:
        name = source.removeprefix("Where is ").removesuffix("'s dog?")
        assert name.istitle()
        assert name != "Tom"
        assert target == f"Où est le chien de {name} ?"


def test_name_that_begins_with_a_vowel_replaces_one_that_does() -> None:
    names = {source[9:-1] for source, _ in copies(Pair("It is of Alice.", "C'est d'Alice."))}
    assert names
    assert {name[0] for name in names} <= {"A", "E"}
    assert {source[8] for source, _ in copies(Pair("He is a Tom.", "C'est un Tom."))} <= {"R", "M"}


def test_both_of_two_names_are_replaced_in_each_sides_order() -> None:
    for source, target in copies(Pair("Tom met John.", "John, Tom l'a vu.")):
        first, second = source.removesuffix(".").split(" met ")
        assert target == f"{second}, {first} l'a vu."


@pytest.mark.parametrize(
    ("number", "shape"), [("1945", "dddd"), ("2:30", "d:dd"), ("10", "dd"), ("1,000.5", "d,ddd.d"), ("30-40", "dd-dd")]
)
def test_a_number_becomes_another_of_the_same_shape(number: str, shape: str) -> None:
    found = copies(Pair(f"At {number} it ended.", f"À {number} c'était fini."))
    assert len(found) > 5
    for source, target in found:
        other = source.removeprefix("At ").removesuffix(" it ended.")
        assert "".join("d" if sign.isdigit() else sign for sign in other) == shape
        assert target == f"À {other} c'était fini."


@pytest.mark.parametrize(
    "pair",
    [
        ("I have 1 dog.", "J'ai 1 chien."),  # one dog, but 3 dogs
        ("It is the 21st.", "Le 21st."),
        ("It is NATO.", "C'est la NATO."),  # spelt, not named
        ("It is late.", "Il est tard."),
        ("Tom and Tom.", "Tom et Tom."),  # which is which?
        ("Take the McDuff.", "Prends le McDuff."),
    ],
)
def test_words_that_may_not_be_names_are_unchanged(pair: tuple[str, str]) -> None:
    assert not copies(Pair(*pair))


def test_name_is_not_replaced_if_no_other_is_known() -> None:
    assert not copies(Pair("I know Tom.", "Je connais Tom."), [])
    assert copies(Pair("In 1945.", "En 1945."), [])


WORDS = st.sampled_from(["Tom", "Ann", "1945", "saw", "vu", "l'", ",", "É", "e\u0301", "Ωmega", "汤姆", "Li"])
SIDES = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)


@given(st.builds(Pair, SIDES, SIDES), st.integers(0, 99))
def test_shared_words_stay_shared(pair: Pair, seed: int) -> None:
    copy = NameSwapper([*CORPUS, pair]).swap(pair, Random(seed))
    if copy is None:
        return
    kept = {shared.word for shared in shared_words(pair)}
    for before, after in zip(pair, copy, strict=True):
        changed = [(a, b) for a, b in zip(before.split(), after.split(), strict=True) if a != b]
        assert changed
        assert all(a in kept for a, _ in changed)
        assert all(b in copy.source.split() and b in copy.target.split() for _, b in changed)


def test_some_copies_of_a_corpus_have_other_names() -> None:
    pairs = [Pair(f"He saw {name} {n} times.", f"Il a vu {name} {n} fois.") for n, name in enumerate(["Tom", "Robert"])]
    found = [source for _, source, _ in text_copies(pairs, ("en", "fr"), Random(1), lambda _: True)]
    assert any("Tom" not in source and "Robert" not in source for source in found)
