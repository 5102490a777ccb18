"""Reserved symbols are equal on both sides, in the places of placeholders."""

from itertools import islice
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.corpora.corpus import Pair
from training.data.augment.placeholder_copies import MAX_SYMBOLS, Parts, shared_words, symbol_copies

PAIRS = [
    Pair("Tom met Mary Smith in 1999.", "Tom a rencontré Mary Smith en 1999."),
    Pair("It rains.", "Il pleut."),
    Pair("Call get_value(x) with port 80.", "用端口80调用get_value(x)。"),
]


def symbols(parts: Parts) -> list[int]:
    return [part for part in parts if isinstance(part, int)]


def text(parts: Parts) -> str:
    return "".join(part for part in parts if isinstance(part, str))


def words(source: str, target: str) -> list[str]:
    return [found.word for found in shared_words(Pair(source, target))]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("Tom met Mary in 1999.", "Tom a rencontré Mary en 1999.", ["Tom", "Mary", "1999"]),
        ("Dr. Tom's van", "le van de Tom", ["Tom"]),
        ("Call get_value with port 80.", "用端口80调用get_value。", ["80"]),
        ("Python 3.11 is out.", "Python 3.11 发布了。", ["Python", "3.11"]),
        ("Room 5.", "第5号房间。", ["5"]),
        ("Tom and Tom", "Tom et Tom", []),
        ("Tom", "Tomate", []),
        ("13 and 3", "13 et 3", ["13"]),
        ("It costs 3.5.", "Ça coûte 3,5.", []),
        ("On y va.", "On y va.", []),
        ("a radio", "une radio", []),
        ("I am here, A!", "Je suis là, A !", []),
        ("लोक A1\u0941 x", "A1\u0941 y", []),
    ],
)
def test_names_numbers_and_identifiers_that_occur_once_per_side_are_found(
    source: str, target: str, expected: list[str]
) -> None:
    assert words(source, target) == expected


def test_shared_words_have_their_positions() -> None:
    for pair in PAIRS:
        for word, source, target in shared_words(pair):
            assert pair.source[source:].startswith(word)
            assert pair.target[target:].startswith(word)


@given(
    st.lists(st.builds(Pair, *2 * [st.text("Tom A1b_.,é 你", min_size=1)]), min_size=1, max_size=5), st.integers(0, 9)
)
def test_both_sides_of_a_copy_have_the_same_symbols_once_each(pairs: list[Pair], seed: int) -> None:
    for index, source, target in islice(symbol_copies(pairs, Random(seed)), 20):
        assert sorted(symbols(source)) == sorted(symbols(target))
        assert 1 <= len(symbols(source)) == len(set(symbols(source))) <= MAX_SYMBOLS
        # What is not a symbol is the sentence, less the words replaced and the spaces put at its ends.
        for side, parts in zip(pairs[index], (source, target), strict=True):
            assert not side.strip() or len(text(parts).strip()) <= len(side)
            assert all(part.strip() in side for part in parts if isinstance(part, str))


@pytest.mark.parametrize("pairs", [PAIRS, PAIRS[:1], PAIRS[1:2]])
def test_all_symbols_are_used_equally_often(pairs: list[Pair]) -> None:
    drawn = [symbol for _, source, _ in islice(symbol_copies(pairs, Random(1)), 400) for symbol in symbols(source)]
    times = [drawn.count(number) for number in range(32)]
    assert max(times) - min(times) <= 2


def test_symbols_replace_words_surround_them_or_are_at_the_ends() -> None:
    copies = [source for _, source, _ in islice(symbol_copies(PAIRS, Random(1)), 2000)]
    shapes = {tuple(part if isinstance(part, str) else 0 for part in source) for source in copies}
    assert (0, " met Mary Smith in 1999.") in shapes
    assert ("Tom met ", 0, " ", 0, " in 1999.") in shapes  # two replaced, a space between
    assert ("Tom met ", 0, "Mary", 0, " Smith in 1999.") in shapes  # around a word
    assert (0, 0, "It rains.") in shapes  # side by side
    assert (0, " ", "It rains.", " ", 0) in shapes
    assert ("It rains.", 0) in shapes


def test_rest_of_a_sentence_without_spaces_is_kept() -> None:
    copies = islice(symbol_copies(PAIRS[2:], Random(2)), 200)
    targets = {tuple(part if isinstance(part, str) else 0 for part in target) for _, _, target in copies}
    assert ("用端口", 0, "调用get_value(x)。") in targets


def test_copies_prefer_pairs_with_shared_words() -> None:
    plain = [Pair(f"It rains {word}.", f"Il pleut {word}.") for word in "abcdefgh"]
    indices = [index for index, _, _ in islice(symbol_copies([*plain, PAIRS[0]], Random(1)), 300)]
    assert indices.count(len(plain)) > len(indices) / 2


def test_no_pairs_give_no_copies() -> None:
    assert not list(symbol_copies([], Random(1)))
