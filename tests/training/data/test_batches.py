"""The order of training: each pair as often as its weight says, within the budget, and the same when resumed at any
position."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from shared_fixtures import small_config

from training.data.batches import Batch, Pairs, Position, batches_from, epoch_rows, load_pairs

CONFIG = small_config(100)


def make_pairs(count: int = 300, longest: int = 30) -> Pairs:
    random = np.random.default_rng(7)
    sides = [
        [random.integers(4, 100, random.integers(1, longest)).tolist() for _ in range(count)] for _ in ("src", "tgt")
    ]
    return Pairs.of(*sides)


def rows_of(pairs: Pairs, epoch: int = 0, seed: int = 1, budget: int = 200) -> list[list[int]]:
    return [rows.tolist() for rows in epoch_rows(pairs, budget, seed, epoch)]


def test_an_epoch_has_every_pair_once() -> None:
    pairs = make_pairs()
    assert Counter(row for rows in rows_of(pairs) for row in rows) == Counter(range(300))


def test_no_batch_exceeds_the_budget_unless_it_is_a_single_pair() -> None:
    pairs = make_pairs(longest=60)
    longest = np.maximum(pairs.source.lengths, pairs.target.lengths) + 1
    for rows in rows_of(pairs, budget=40):
        assert len(rows) == 1 or len(rows) * max(longest[row] for row in rows) <= 40
    assert max(longest) > 40


def test_little_of_a_batch_is_padding() -> None:
    pairs = make_pairs(3000)
    batches = [pairs.batch(rows, CONFIG) for rows in epoch_rows(pairs, 1000, 1, 0)]
    target = sum(batch.target_tokens for batch in batches) / sum(batch.tgt_out.numel() for batch in batches)
    source = sum(int((batch.src != CONFIG.pad_id).sum()) for batch in batches)
    assert target > 0.9
    # Its lengths are drawn by themselves here: by target length alone, half would be padding.
    assert source / sum(batch.src.numel() for batch in batches) > 0.7


def test_pairs_are_grouped_anew_in_every_epoch() -> None:
    pairs = Pairs.of([[5] * 6] * 300, [[5] * 8] * 300)  # of equal lengths, so that any may share one
    one, other = ({frozenset(rows) for rows in rows_of(pairs, epoch)} for epoch in (0, 1))
    assert len(one) == len(other) > 10
    assert not one & other


def test_batches_are_not_ordered_by_length() -> None:
    """Batches are made from pairs in order of length, so an unshuffled order would teach short sentences first."""
    pairs = make_pairs()
    longest = [pairs.target.lengths[rows].max() for rows in epoch_rows(pairs, 200, 1, 0)]
    assert abs(np.corrcoef(longest, range(len(longest)))[0, 1]) < 0.5


def test_order_depends_on_epoch_and_seed_only() -> None:
    pairs = make_pairs()
    assert rows_of(pairs) == rows_of(pairs)
    assert rows_of(pairs) != rows_of(pairs, epoch=1)
    assert rows_of(pairs) != rows_of(pairs, seed=2)


@pytest.mark.parametrize("weight", [0.25, 1.5, 3.0])
def test_weight_is_how_often_a_pair_is_drawn(weight: float) -> None:
    pairs = make_pairs(100)
    pairs = replace(pairs, weights=np.where(np.arange(100) < 50, weight, 1.0))
    epochs = 200
    drawn = Counter(row for epoch in range(epochs) for rows in rows_of(pairs, epoch) for row in rows)
    assert sum(drawn[row] for row in range(50)) / (50 * epochs) == pytest.approx(weight, rel=0.05)
    assert all(drawn[row] == epochs for row in range(50, 100))
    times = Counter(row for rows in rows_of(pairs) for row in rows)
    assert all(int(weight) <= times[row] <= np.ceil(weight) for row in range(50))


def test_batch_has_shifted_and_padded_targets() -> None:
    batch = Pairs.of([[5, 6], [7]], [[8], [9, 10, 11]]).batch(np.array([0, 1]), CONFIG)
    assert batch.src.tolist() == [[5, 6, 2], [7, 2, 0]]
    assert batch.tgt_in.tolist() == [[1, 8, 0, 0], [1, 9, 10, 11]]
    assert batch.tgt_out.tolist() == [[8, 2, 0, 0], [9, 10, 11, 2]]
    assert batch.target_tokens == 6


@pytest.mark.parametrize("taken", [0, 1, 17, 40])
def test_resuming_at_a_position_gives_the_same_batches(taken: int) -> None:
    pairs, position = make_pairs(), Position()
    batches = batches_from(pairs, CONFIG, 200, 1, position)
    for _ in islice(batches, taken):
        pass
    later = batches_from(pairs, CONFIG, 200, 1, Position(position.epoch, position.batch))
    for ours, theirs in islice(zip(batches, later, strict=False), 45):
        assert equal(ours, theirs)


def equal(ours: Batch, theirs: Batch) -> bool:
    return all(torch.equal(getattr(ours, name), getattr(theirs, name)) for name in ("src", "tgt_in", "tgt_out"))


def test_position_counts_the_batches_taken() -> None:
    pairs, position = make_pairs(), Position()
    count = len(rows_of(pairs))
    batches = batches_from(pairs, CONFIG, 200, 1, position)
    for _ in islice(batches, count + 3):
        pass
    assert position == Position(epoch=1, batch=3)


def test_prepared_pairs_are_loaded_with_the_weights_of_their_corpora(data: Path) -> None:
    pairs, record = load_pairs(data)
    assert len(pairs) == record["pairs"] == len(pairs.weights)
    assert set(pairs.weights) == {1.0}
    assert pairs.source.ids[pairs.source.starts].min() > 3


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_parts_of_a_batch_make_the_batch_and_have_its_token_count(parts: int) -> None:
    pairs, rows = make_pairs(), np.arange(5)
    whole = pairs.batch(rows, CONFIG)
    some = [pairs.batch(rows, CONFIG, part, parts) for part in range(parts)]
    assert {batch.target_tokens for batch in some} == {whole.target_tokens}
    assert sum(int((batch.tgt_out != CONFIG.pad_id).sum()) for batch in some) == whole.target_tokens
    assert all(len(batch.src) > 0 for batch in some)
    sources = Counter(tuple(row.tolist()) for batch in some[:5] for row in batch.src)
    assert sources.total() == 5


def test_batch_marks_the_predictions_of_rehearsed_pairs() -> None:
    pairs = Pairs.of([[5], [6, 7], [8, 9, 10]], [[11], [12, 13], [14]])
    flags = np.array([False, True, True])
    batch = replace(pairs, rehearsed=flags).batch(np.array([1, 0, 2]), CONFIG)
    known = batch.rehearsed
    assert known is not None and batch.target_positions is not None
    assert known.rows.tolist() == [0, 2]
    predicted = batch.tgt_out.flatten()[batch.target_positions]
    assert predicted[known.tokens].tolist() == [12, 13, CONFIG.eos_id, 14, CONFIG.eos_id]
    assert predicted[known.others].tolist() == [11, CONFIG.eos_id]
    assert batch.tgt_out[known.rows].flatten()[known.target_positions].tolist() == predicted[known.tokens].tolist()
    assert pairs.batch(np.array([1, 0, 2]), CONFIG).rehearsed is None
    assert replace(pairs, rehearsed=flags).batch(np.array([0]), CONFIG).rehearsed is None


def test_rehearsed_corpus_is_identified_among_those_loaded(data: Path, tmp_path: Path) -> None:
    assert load_pairs(data)[0].rehearsed is None
    data = Path(shutil.copytree(data, tmp_path / "rehearsing"))
    record = json.loads((data / "prepared.json").read_text(encoding="utf-8"))
    record["corpora"][-1]["rehearsed"] = True
    (data / "prepared.json").write_text(json.dumps(record), encoding="utf-8")
    pairs, read = load_pairs(data)
    assert pairs.rehearsed is not None and len(pairs.rehearsed) == len(pairs)
    assert pairs.rehearsed.all() == (len(read["corpora"]) == 1)
