"""No development sentence is in the training data, and ensuring this costs little."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.cleaning.holdout import SideKeys, choose_dev_pairs, comparison_key, default_dev_size, partitions
from training.corpora.corpus import Pair

# Few letters, so that sides coincide often, with case, punctuation and spaces to differ in.
SENTENCES = st.text("abB .!", min_size=1, max_size=4)
PAIRS = st.lists(st.builds(Pair, SENTENCES, SENTENCES), min_size=2, max_size=60)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("It's late.", "its LATE"),
        ("Va !", "Va!"),
        ("Straße", "STRASSE"),
        ("你好，世界。", "你好世界"),
        ("café", unicodedata.normalize("NFD", "Café")),
        ("ΣΑΣ", "σας"),
        ("ﬁn", "FIN"),
    ],
)
def test_case_punctuation_and_unicode_form_do_not_make_another_sentence(one: str, other: str) -> None:
    assert comparison_key(one) == comparison_key(other)


@pytest.mark.parametrize(("one", "other"), [("cote", "côte"), ("कि", "का"), ("?", "!"), ("Room 1", "Room 2")])
def test_letters_accents_and_numbers_make_another_sentence(one: str, other: str) -> None:
    assert comparison_key(one) != comparison_key(other)


@given(PAIRS, st.integers(1, 20), st.integers(0, 5))
def test_development_and_training_share_no_sentence(pairs: list[Pair], size: int, seed: int) -> None:
    keys = SideKeys.of(pairs)
    chosen = choose_dev_pairs(keys, size, seed)
    rest = keys[~chosen]
    kept = np.flatnonzero(~chosen)[~rest.sharing_a_side(keys[chosen])]
    development = {comparison_key(side) for index in np.flatnonzero(chosen) for side in pairs[index]}
    training = {comparison_key(side) for index in kept for side in pairs[index]}
    assert not development & training
    assert chosen.sum() == min(size, len(pairs))


def test_pairs_whose_sentences_occur_once_are_chosen_first() -> None:
    siblings = [Pair("Run!", f"Cours {n} !") for n in range(50)] + [Pair(f"Go {n}!", "Va !") for n in range(50)]
    alone = [Pair(f"Sentence {n}.", f"Phrase {n}.") for n in range(20)]
    keys = SideKeys.of(siblings + alone)
    chosen = choose_dev_pairs(keys, 15, seed=3)
    assert np.flatnonzero(chosen).min() >= len(siblings)
    assert not keys[~chosen].sharing_a_side(keys[chosen]).any()


def test_seed_decides_which_pairs_are_chosen() -> None:
    keys = SideKeys.of([Pair(f"Sentence {n}.", f"Phrase {n}.") for n in range(500)])
    assert (choose_dev_pairs(keys, 50, 1) == choose_dev_pairs(keys, 50, 1)).all()
    assert (choose_dev_pairs(keys, 50, 1) != choose_dev_pairs(keys, 50, 2)).any()


@pytest.mark.parametrize(("pairs", "size"), [(2, 1), (19, 1), (600, 30), (147_470, 1000)])
def test_development_set_is_a_twentieth_within_limits(pairs: int, size: int) -> None:
    assert default_dev_size(pairs) == size


def test_pairs_are_read_a_fixed_number_of_times() -> None:
    for count in (5, 100, 5000):
        parts = list(partitions(np.arange(count), codes_per_part=10))
        assert len(parts) == min(count // 10 + 1, 32)
        assert sorted(np.concatenate(parts).tolist()) == list(range(count))
