"""The key/value cache against a shadow that keeps each sentence's tensors separately, under any order of operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis_profiles import draw_examples
from torch import Tensor

from model.config import ModelConfig
from model.decoding.kv_cache import KVCache

LAYERS, HEADS, HEAD_DIM = 2, 2, 4
ROWS, MAX_SOURCE, MAX_TARGET = 5, 7, 6
CONFIG = ModelConfig(10, 10, d_model=HEADS * HEAD_DIM, num_heads=HEADS, d_ff=8, encoder_layers=1, decoder_layers=LAYERS)


def new_cache() -> KVCache:
    return KVCache(CONFIG, ROWS, MAX_SOURCE, MAX_TARGET)


def random_memory(rows: int, length: int) -> list[tuple[Tensor, Tensor]]:
    def draw() -> Tensor:
        return torch.randn(rows, HEADS, length, HEAD_DIM)

    return [(draw(), draw()) for _ in range(LAYERS)]


def step(cache: KVCache) -> list[tuple[Tensor, Tensor]]:
    """One step with random keys and values; returns what `update` returned, a pair per layer."""
    cache.begin_step()
    updated = [cache.update(layer, *random_memory(len(cache), 1)[0]) for layer in range(LAYERS)]
    cache.end_step()
    return updated


@dataclass
class Shadow:
    """The expected cache of one sentence, in separate tensors, made by concatenation."""

    memory: list[tuple[Tensor, Tensor]]
    """A layer each, [heads, source, d_k]."""
    past: list[tuple[Tensor, Tensor]] = field(
        default_factory=lambda: [(torch.empty(HEADS, 0, HEAD_DIM), torch.empty(HEADS, 0, HEAD_DIM))] * LAYERS
    )
    """A layer each, [heads, target, d_k]."""

    @property
    def source_length(self) -> int:
        return self.memory[0][0].size(1)

    @property
    def length(self) -> int:
        return self.past[0][0].size(1)

    def update(self, layer: int, key: Tensor, value: Tensor) -> None:
        keys, values = self.past[layer]
        self.past[layer] = torch.cat([keys, key], 1), torch.cat([values, value], 1)


class CacheAgainstShadow(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cache = new_cache()
        self.sentences: list[Shadow] = []

    @precondition(lambda self: len(self.sentences) < ROWS)
    @rule(data=st.data())
    def admit(self, data: st.DataObject) -> None:
        room = ROWS - len(self.sentences)
        lengths = data.draw(st.lists(st.integers(1, MAX_SOURCE), min_size=1, max_size=room))
        memory = random_memory(len(lengths), max(lengths))
        self.cache.admit(memory, lengths)
        self.sentences += [
            Shadow([(key[row, :, :length], value[row, :, :length]) for key, value in memory])
            for row, length in enumerate(lengths)
        ]

    @precondition(lambda self: self.sentences and max(s.length for s in self.sentences) < MAX_TARGET)
    @rule()
    def step(self) -> None:
        before = [sentence.length for sentence in self.sentences]
        assert self.cache.begin_step().tolist() == before
        assert self.cache.mask()[:, 0, 0].tolist() == [
            [position <= own for position in range(max(before) + 1)] for own in before
        ]
        for layer in range(LAYERS):
            key, value = random_memory(len(self.sentences), 1)[0]
            keys, values = self.cache.update(layer, key, value)
            for row, sentence in enumerate(self.sentences):
                sentence.update(layer, key[row], value[row])
                own_keys, own_values = sentence.past[layer]
                assert torch.equal(keys[row, :, : own_keys.size(1)], own_keys)
                assert torch.equal(values[row, :, : own_values.size(1)], own_values)
        self.cache.end_step()

    @precondition(lambda self: self.sentences)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        count = len(self.sentences)
        gone = data.draw(st.lists(st.integers(0, count - 1), unique=True, max_size=count))
        order = self.cache.drop(gone)
        assert sorted(order) == [row for row in range(count) if row not in gone]
        # Nobody moves without need: who sits among the rows that stay keeps his place.
        assert all(order[row] == row for row in range(len(order)) if row not in gone)
        self.sentences = [self.sentences[row] for row in order]

    @invariant()
    def holds_every_sentence(self) -> None:
        assert len(self.cache) == len(self.sentences)
        assert self.cache.lengths == [sentence.length for sentence in self.sentences]
        assert self.cache.source_lengths == [sentence.source_length for sentence in self.sentences]
        if not self.sentences:
            return
        longest = max(self.cache.source_lengths)
        assert self.cache.memory_mask()[:, 0, 0].tolist() == [
            [position < sentence.source_length for position in range(longest)] for sentence in self.sentences
        ]
        for layer in range(LAYERS):
            keys, values = self.cache.memory(layer)
            for row, sentence in enumerate(self.sentences):
                own_keys, own_values = sentence.memory[layer]
                assert torch.equal(keys[row, :, : sentence.source_length], own_keys)
                assert torch.equal(values[row, :, : sentence.source_length], own_values)


CacheAgainstShadow.TestCase.settings = draw_examples(60, stateful_step_count=25)
TestCacheAgainstShadow = CacheAgainstShadow.TestCase


def admit(cache: KVCache, lengths: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
    memory = random_memory(len(lengths), max(lengths))
    cache.admit(memory, lengths)
    return memory


@pytest.mark.parametrize("dropped", [[0], [4], [1, 3], [0, 1, 2], [2, 3, 4], [0, 2, 4], [], [0, 1, 2, 3]])
def test_dropping_rows_equals_rebuilding_with_the_remaining_ones(dropped: list[int]) -> None:
    torch.manual_seed(0)
    lengths = [3, 7, 1, 5, 2]
    memory = random_memory(ROWS, MAX_SOURCE)
    steps = [random_memory(ROWS, 1) for _ in range(3)]

    def built(rows: list[int]) -> KVCache:
        cache = new_cache()
        own = [lengths[row] for row in rows]
        cache.admit([(k[rows, :, : max(own)], v[rows, :, : max(own)]) for k, v in memory], own)
        for new in steps:
            cache.begin_step()
            for layer, (key, value) in enumerate(new):
                cache.update(layer, key[rows], value[rows])
            cache.end_step()
        return cache

    cache = built(list(range(ROWS)))
    rebuilt = built(cache.drop(dropped))
    assert (cache.lengths, cache.source_lengths) == (rebuilt.lengths, rebuilt.source_lengths)
    assert torch.equal(cache.begin_step(), rebuilt.begin_step())
    assert torch.equal(cache.mask(), rebuilt.mask())
    assert torch.equal(cache.memory_mask(), rebuilt.memory_mask())
    seen = cache.memory_mask()[:, :, 0, :, None]  # what lies behind a sentence's end is nobody's
    for layer, (key, value) in enumerate(random_memory(len(cache), 1)):
        pairs = zip(cache.update(layer, key, value), rebuilt.update(layer, key, value), strict=True)
        assert all(torch.equal(ours, theirs) for ours, theirs in pairs)
        pairs = zip(cache.memory(layer), rebuilt.memory(layer), strict=True)
        assert all(torch.equal(ours * seen, theirs * seen) for ours, theirs in pairs)


def test_the_cache_is_allocated_once() -> None:
    torch.manual_seed(0)
    cache = new_cache()

    def addresses() -> list[int]:
        return sorted(
            tensor.data_ptr()
            for value in vars(cache).values()
            for tensor in (value if isinstance(value, list) else [value])
            if isinstance(tensor, Tensor) and tensor.ndim == 4
        )

    before = addresses()
    assert len(before) == 4 * LAYERS
    admit(cache, [3, 7])
    step(cache)
    admit(cache, [2, 2, 2])
    step(cache)
    cache.drop([0, 3])
    assert addresses() == before
    # What attention is given are slices of that memory, not copies.
    for keys, values in [*step(cache), *[cache.memory(layer) for layer in range(LAYERS)]]:
        assert {keys.data_ptr(), values.data_ptr()} <= set(before)


def test_reads_end_at_the_longest_live_row() -> None:
    torch.manual_seed(0)
    cache = new_cache()
    admit(cache, [7, 2])
    step(cache)
    step(cache)
    assert cache.drop([0]) == [1]
    keys, _ = cache.memory(0)
    assert keys.shape == (1, HEADS, 2, HEAD_DIM)
    admit(cache, [4])
    [(keys, _), *_] = step(cache)
    assert keys.shape == (2, HEADS, 3, HEAD_DIM)
    assert cache.lengths == [3, 1]


@pytest.mark.parametrize("lengths", [[1] * (ROWS + 1), [MAX_SOURCE + 1], []])
def test_sentences_that_do_not_fit_are_not_admitted(lengths: list[int]) -> None:
    cache = new_cache()
    with pytest.raises((AssertionError, ValueError)):
        cache.admit(random_memory(len(lengths), max(lengths, default=1)), lengths)
    assert len(cache) == 0


def test_freed_rows_can_be_allocated_again() -> None:
    torch.manual_seed(0)
    cache = new_cache()
    admit(cache, [1] * ROWS)
    with pytest.raises(AssertionError):
        admit(cache, [1])
    cache.drop([2])
    admit(cache, [MAX_SOURCE])
    assert cache.source_lengths == [1, 1, 1, 1, MAX_SOURCE]


def test_full_row_accepts_no_further_step() -> None:
    torch.manual_seed(0)
    cache = new_cache()
    admit(cache, [2])
    for _ in range(MAX_TARGET):
        step(cache)
    with pytest.raises(AssertionError):
        cache.begin_step()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_keys_and_values_have_the_requested_type(dtype: torch.dtype) -> None:
    cache = KVCache(CONFIG, 1, 2, 2, dtype=dtype)
    memory: Any = [(key.to(dtype), value.to(dtype)) for key, value in random_memory(1, 2)]
    cache.admit(memory, [2])
    assert torch.equal(cache.memory(0)[0], memory[0][0])
