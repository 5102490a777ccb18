"""Learns an alignment head from token pairs, and measures it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, NamedTuple

from model.tokenizer import Tokenizers
from model.transformer import Transformer
from training.align.head import accuracy, train_head, with_alignment_head
from training.align.statistical import LONGEST, TokenPair, links

MIN_PAIRS = 1000
"""Fewer say too little of the words for a statistical model."""
MAX_CANDIDATES = 25_000_000
"""Of two tokens of a pair that may be aligned, which take some 60 bytes each."""
_SEED = 1
Say = Callable[[str], None]


class Aligned(NamedTuple):
    """A model with an alignment head, or without, and what config.json records of it: nothing without."""

    model: Transformer
    record: dict[str, Any]


def align(
    model: Transformer,
    tokenizers: Tokenizers,
    target: str,
    pairs: Sequence[TokenPair],
    tests: Sequence[TokenPair],
    say: Say = print,
) -> Aligned | None:
    """`model` with an alignment head that learnt from `pairs`, measured on `tests`; None if the pairs are too few, or
    cross-attention finds more of what a statistical model aligns in `tests`. `target`: the targets' language."""
    pairs, tests = _sample(_usable(pairs), MAX_CANDIDATES), _sample(_usable(tests), MAX_CANDIDATES // 5)
    if len(pairs) < MIN_PAIRS or not tests:
        return None
    words = [_word_numbers(tokenizers, ids, target) for _, ids in (*pairs, *tests)]
    vocab_size = max(model.config.source_vocab_size, model.config.target_vocab_size)
    linked = links([*pairs, *tests], vocab_size, words)
    bare = with_alignment_head(model, None)
    aligned = with_alignment_head(bare, train_head(bare, pairs, linked[: len(pairs)]))
    head, attention = accuracy(aligned, tests, linked[len(pairs) :])
    say(f"alignment: {head:.1%} of the links of {len(tests):,} pairs; by cross-attention alone {attention:.1%}")
    record = {
        "learnt_from_pairs": len(pairs),
        "measured_on_pairs": len(tests),
        "links_found": round(head, 4),
        "links_found_by_attention": round(attention, 4),
    }
    return Aligned(aligned, record) if head > attention else None


def _sample(pairs: Sequence[TokenPair], most: int) -> list[TokenPair]:
    """As many pairs as have so many candidates at most, drawn the more rarely the more of them a pair has: for the
    memory that they take, several short pairs say more than a long one."""
    random, found, total = Random(_SEED), [], 0
    for source, target in sorted(pairs, key=lambda pair: len(pair[0]) * len(pair[1]) * random.expovariate(1)):
        total += len(source) * len(target)
        if total > most:
            break
        found.append((source, target))
    return found


def _word_numbers(tokenizers: Tokenizers, ids: Sequence[int], language: str) -> list[int]:
    words = tokenizers.target.words(ids, [0.0] * len(ids), language)
    return [number for number, (first, end, _) in enumerate(words) for _ in range(first, end)]


def _usable(pairs: Iterable[TokenPair]) -> list[TokenPair]:
    return [pair for pair in pairs if all(0 < len(side) <= LONGEST for side in pair)]
