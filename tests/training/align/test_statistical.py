"""Which tokens of sentence pairs a statistical model aligns."""

from __future__ import annotations

from random import Random

import numpy as np

from training.align.statistical import NO_WORD, UNKNOWN, TokenPair, align, links

SIZE = 60


def translated(count: int, seed: int = 4) -> list[TokenPair]:
    """Token n from 10 to 29 is 30 + n, two neighbours swapped; a target has 1 somewhere, which translates nothing."""
    random = Random(seed)
    found: list[TokenPair] = []
    for _ in range(count):
        source = random.sample(range(10, 30), random.randint(2, 6))
        target = [30 + token for token in source]
        at = random.randrange(len(target) - 1)
        target[at : at + 2] = target[at + 1], target[at]
        target.insert(random.randint(0, len(target)), 1)
        found.append((source, target))
    return found


def each_alone(pairs: list[TokenPair]) -> list[list[int]]:
    return [list(range(len(target))) for _, target in pairs]


def test_a_token_is_linked_to_the_one_that_it_translates_wherever_that_stands() -> None:
    pairs = translated(600)
    right = count = 0
    for (source, target), found in zip(pairs, links(pairs, SIZE, each_alone(pairs)), strict=True):
        for place, position in enumerate(found):
            if position >= 0 and target[place] != 1:
                right, count = right + (source[position] + 30 == target[place]), count + 1
    assert count > 0.9 * sum(len(source) for source, _ in pairs)
    assert right > 0.99 * count


def test_a_token_is_linked_to_the_one_at_the_other_end_of_the_sentence() -> None:
    """As "mañana" at the beginning is "tomorrow" at the end."""
    random = Random(4)
    pairs: list[TokenPair] = []
    for length in range(2, 10):
        for number in range(100):
            rest = random.sample(range(10, 30), length)
            first, last = ([7], [37]) if number < 20 else ([], [])
            pairs.append(([*first, *rest], [*(30 + token for token in rest), *last]))
    linked = zip(links(pairs, SIZE, each_alone(pairs)), pairs, strict=True)
    found = [link[-1] for link, (source, _) in linked if source[0] == 7]
    assert np.mean(np.array(found) == 0) > 0.95


def test_a_token_that_occurs_with_everything_is_linked_to_no_word() -> None:
    pairs = translated(600)
    found = [
        link[list(target).index(1)]
        for (_, target), link in zip(pairs, links(pairs, SIZE, each_alone(pairs)), strict=True)
    ]
    assert np.mean(np.array(found) == NO_WORD) > 0.9


def test_the_other_tokens_of_a_linked_word_are_unknown() -> None:
    pairs: list[TokenPair] = [([11, 12], [41, 42, 2])] * 40
    pairs += [([11], [41])] * 40
    pairs += [([12], [42, 2])] * 40
    [found, *_] = links(pairs, SIZE, [[0, 1, 1]] * 40 + [[0]] * 40 + [[0, 0]] * 40)
    assert found[0] == 0
    assert sorted(found[1:]) == [UNKNOWN, 1]
    [alone, *_] = links(pairs, SIZE, each_alone(pairs))
    assert sorted(alone[1:]) == [NO_WORD, 1]


def test_probabilities_of_what_may_generate_a_token_sum_to_one() -> None:
    pairs = translated(20)
    found = align(pairs, SIZE)
    at = 0
    for generated, given in pairs:
        for _ in generated:
            assert abs(found.weights[at : at + len(given)].sum() - 1) < 1e-5
            at += len(given)
    assert at == len(found.weights)
