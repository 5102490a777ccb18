"""Which of a parent's tokens translate a new one, by pairs of both languages."""

from __future__ import annotations

from random import Random

import pytest

from training.adapt.lexicon import AlignedPair, lexicon
from training.align.statistical import LONGEST

NEW, PARENTS = 30, 50


def pairs(count: int, seed: int = 4) -> list[AlignedPair]:
    """Pairs whose token n from 10 on is the parent's 2 n - 10, in almost the same order; token 9 is on both sides."""
    random = Random(seed)
    found = []
    for _ in range(count):
        new = random.sample(range(10, NEW), random.randint(3, 7))
        parents = [2 * token - 10 for token in new]
        if random.random() < 0.5:
            at = random.randrange(len(parents) - 1)
            parents[at : at + 2] = parents[at + 1], parents[at]
        found.append(AlignedPair([9, *new], [9, 9, 9], [1, *parents]))
    return found


def test_each_token_is_translated_by_the_one_that_it_occurs_with() -> None:
    found = lexicon(pairs(400), NEW, PARENTS)
    assert sorted(found) == list(range(9, NEW))
    for token in range(10, NEW):
        assert found[token].tokens[0] == 2 * token - 10
        assert found[token].probabilities[0] > 0.9
        assert sum(found[token].probabilities) == pytest.approx(1)
        assert found[token].share == 1
    assert found[9].tokens[0] == 1


def test_share_is_that_of_the_occurrences_in_the_new_language() -> None:
    assert lexicon(pairs(400), NEW, PARENTS)[9].share == pytest.approx(1 / 4)


def test_token_with_two_translations_has_both_by_how_often_each_occurs() -> None:
    both = [AlignedPair([11, 12], [], [21, 22])] * 300 + [AlignedPair([11, 12], [], [23, 22])] * 100
    found = lexicon(both, NEW, PARENTS)[11]
    assert found.tokens == [21, 23]
    assert found.probabilities == pytest.approx([0.75, 0.25], abs=0.05)


def test_rare_tokens_and_long_pairs_are_left_out() -> None:
    long = [AlignedPair([12] * (LONGEST + 1), [], [22]), AlignedPair([12], [], [22] * (LONGEST + 1))]
    found = lexicon([AlignedPair([11], [], [21])] * 5 + [AlignedPair([13], [], [23])] * 2 + long * 5, NEW, PARENTS)
    assert list(found) == [11]
    assert lexicon([*long, AlignedPair([], [], [21])], NEW, PARENTS) == {}
