"""model/bpe_dropout.py: merges by score, and BPE-dropout. tests/model/test_tokenizer.py compares the merges with
SentencePiece's."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from model.bpe_dropout import MergeDropout, Merges

MARK = "_"
BYTES = range(1000, 1256)


def merges(*pieces: str) -> Merges:
    """Merges of single letters and `pieces`, the first of which is merged first; ids are positions in that order."""
    every = [*pieces, *"_abcd"]
    return Merges({piece: (id, -float(id)) for id, piece in enumerate(every)}, BYTES, MARK)


def spelt(found: list[int], *pieces: str) -> list[str]:
    every = [*pieces, *"_abcd"]
    return [every[id] for id in found]


def encoded(text: str, *pieces: str) -> list[str]:
    return spelt(merges(*pieces).encode(text, MergeDropout(0.0, Random(1))), *pieces)


@pytest.mark.parametrize(
    ("text", "pieces", "expected"),
    [
        ("abc", ("ab", "bc"), ["ab", "c"]),
        ("abc", ("bc", "ab"), ["a", "bc"]),
        ("aaa", ("aa",), ["aa", "a"]),
        ("abab", ("ab", "abab"), ["abab"]),
        ("abcd", ("bc", "abc", "abcd"), ["abcd"]),
        ("abcd", ("abcd", "abc"), ["a", "b", "c", "d"]),  # nothing leads there
        ("_ab_a", ("_a", "_ab"), ["_ab", "_a"]),
        ("a_a", ("_a", "a_a"), ["a_a"]),  # a piece across words
        ("__a", ("__", "__a"), ["__a"]),
    ],
)
def test_best_merge_comes_first_and_the_leftmost_of_equal_ones(
    text: str, pieces: tuple[str, ...], expected: list[str]
) -> None:
    assert encoded(text, *pieces) == expected


def test_character_without_a_piece_is_spelt_in_bytes() -> None:
    assert merges().encode("aé", MergeDropout(0.0, Random(1))) == [1, 1000 + 0xC3, 1000 + 0xA9]


def test_segmentations_have_the_probabilities_of_the_paper() -> None:
    """In "abc", ab comes before bc. At first both are possible: with dropout d, ab is merged with 1 - d, bc with d (1 -
    d), none with d^2."""
    pieces, dropout, draws = ("ab", "bc"), 0.3, 20_000
    ours, drops = merges(*pieces), MergeDropout(dropout, Random(1))
    found = Counter(tuple(spelt(ours.encode("abc", drops), *pieces)) for _ in range(draws))
    expected = {("ab", "c"): 0.7, ("a", "bc"): 0.3 * 0.7, ("a", "b", "c"): 0.09}
    assert {split: times / draws for split, times in found.items()} == pytest.approx(expected, abs=0.015)


def test_dropped_merge_may_happen_after_another() -> None:
    """In "abcd", ab may be merged after cd although it was dropped before; once both are dropped, nothing is."""
    pieces, dropout, draws = ("ab", "cd"), 0.5, 20_000
    ours, drops = merges(*pieces), MergeDropout(dropout, Random(1))
    found = Counter(tuple(spelt(ours.encode("abcd", drops), *pieces)) for _ in range(draws))
    # ab first: 1/2, then cd: 1/2. cd first: 1/4, then ab: 1/2.
    expected = {("ab", "cd"): 3 / 8, ("ab", "c", "d"): 1 / 4, ("a", "b", "cd"): 1 / 8, ("a", "b", "c", "d"): 1 / 4}
    assert {split: times / draws for split, times in found.items()} == pytest.approx(expected, abs=0.015)
