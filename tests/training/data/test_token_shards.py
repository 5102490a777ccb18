"""Token files: lookups return what was written, wherever the cuts are, and damage is reported."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples
from shared_fixtures import PAIRS, small_config

from training.cleaning.holdout import SideKeys, choose_dev_pairs
from training.corpora.corpus import LineTally, Pair, write_pairs
from training.data.batches import load_pairs
from training.data.options import PrepareOptions
from training.data.pair_store import PairStore, PairStoreWriter, is_first
from training.data.prepare import already_prepared, prepare_corpora
from training.data.token_shards import Shards, ShardWriter, is_intact, token_type

pytestmark = pytest.mark.slow

SIDE = st.lists(st.integers(0, 65_535), min_size=1, max_size=9)


def write(
    folder: Path, pairs: list[tuple[list[int], list[int]]], vocab_size: int, shard_bytes: int, kept: list[bool]
) -> Shards:
    writer = ShardWriter(folder, vocab_size, shard_bytes)
    for source, target in pairs:
        writer.add(np.array(source + target, np.uint32), np.array([[len(source), len(target)]], np.uint32))
    corpora = np.arange(len(pairs), dtype=np.int16)[kept]
    return Shards.open(folder, writer.finish(np.array(kept), corpora), vocab_size)


@draw_examples(30)
@given(st.lists(st.tuples(SIDE, SIDE, st.booleans()), min_size=1, max_size=20), st.integers(1, 60), st.booleans())
def test_pairs_are_read_back_from_any_number_of_files(
    tmp_path_factory: pytest.TempPathFactory,
    pairs: list[tuple[list[int], list[int], bool]],
    shard_bytes: int,
    large: bool,
) -> None:
    folder, kept = tmp_path_factory.mktemp("shards"), [keep for _, _, keep in pairs]
    vocab_size = 70_000 if large else 65_536
    shards = write(folder, [(source, target) for source, target, _ in pairs], vocab_size, shard_bytes, kept)
    wanted = [(source, target) for source, target, keep in pairs if keep]
    starts, ends = shards.starts, shards.starts + shards.lengths
    found = [
        tuple(shards.tokens[np.arange(start, end)].tolist() for start, end in zip(starts[row], ends[row], strict=True))
        for row in range(len(starts))
    ]
    assert found == wanted
    assert shards.corpora.tolist() == [row for row, keep in enumerate(kept) if keep]
    assert all(path.stat().st_size % token_type(vocab_size).itemsize == 0 for path in folder.glob("*.bin"))


def test_one_lookup_may_span_several_files(tmp_path: Path) -> None:
    shards = write(tmp_path, [([n], [n + 1]) for n in range(0, 20, 2)], 100, 8, [True] * 10)
    assert len(list(tmp_path.glob("*.bin"))) == 5
    assert shards.tokens[np.array([[0, 19], [7, 8]])].tolist() == [[0, 19], [7, 8]]


def test_excluded_pair_is_skipped_by_the_index_alone(tmp_path: Path) -> None:
    shards = write(tmp_path, [([1], [2, 3]), ([4], [5]), ([6], [7])], 100, 1 << 20, [True, False, True])
    assert shards.starts.tolist() == [[0, 1], [5, 6]]
    assert shards.lengths.tolist() == [[1, 2], [1, 1]]
    assert shards.lengths.dtype == np.uint16


@pytest.fixture
def options(tmp_path: Path) -> PrepareOptions:
    write_pairs(tmp_path / "pairs.tsv", PAIRS)
    return PrepareOptions((str(tmp_path / "pairs.tsv"),), "en", "fr", tmp_path / "data", vocab_size=360)


def quiet(line: str) -> None:
    pass


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tokens-00000.bin", "lengths.npy", "starts.npy", "corpora.npy"])
def test_missing_truncated_or_damaged_shard_is_named_or_made_again(options: PrepareOptions, name: str) -> None:
    summary = prepare_corpora(options, quiet)
    path = options.out / name
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(ValueError, match=rf"{name} has [\d,]+ bytes instead of [\d,]+: prepare the data again"):
        load_pairs(options.out)
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert already_prepared(options) is None
    path.write_bytes(content)
    assert already_prepared(options) == summary
    path.unlink()
    with pytest.raises(ValueError, match=f"{name} is missing: prepare the data again"):
        load_pairs(options.out)
    assert not is_intact(options.out, summary.files)


def test_data_of_the_previous_version_must_be_prepared_again(options: PrepareOptions) -> None:
    summary = prepare_corpora(options, quiet)
    record = json.loads((options.out / "prepared.json").read_text())
    (options.out / "prepared.json").write_text(json.dumps({**record, "format_version": 1}))
    with pytest.raises(ValueError, match="has format 1, not 2: prepare it again"):
        load_pairs(options.out)
    assert already_prepared(options) is None
    assert prepare_corpora(dataclasses.replace(options, replace=True), quiet) == summary


def test_loading_reads_no_tokens_and_batches_read_only_their_own(options: PrepareOptions) -> None:
    summary = prepare_corpora(options, quiet)
    with open(options.out / "tokens-00000.bin", "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        file.write(b"\0" * size)
    pairs, _ = load_pairs(options.out)
    assert pairs.source.lengths.min() > 0
    assert pairs.batch(np.array([0, 1]), small_config(summary.vocab_size)).src.max() <= 2


@pytest.mark.slow
def test_several_processes_prepare_the_same_data_as_one(
    options: PrepareOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.data.pair_store.CHUNK_PAIRS", 50)
    one = prepare_corpora(dataclasses.replace(options, processes=1), quiet)
    two = prepare_corpora(dataclasses.replace(options, processes=2, replace=True), quiet)
    assert one == two


# ---- The pairs on their way there


def store_of(path: Path, pairs: list[Pair]) -> PairStore:
    writer = PairStoreWriter(path)
    assert writer.add_all(0, enumerate(pairs, 1)) == len(pairs)
    return writer.finish()


def test_pair_store_returns_its_pairs_and_reports_dropped_ones(tmp_path: Path) -> None:
    store, skipped = store_of(tmp_path / "text", PAIRS), [LineTally()]
    assert list(store.pairs) == PAIRS
    assert [store.pairs[5], *store.pairs[7:9]] == [PAIRS[5], *PAIRS[7:9]]
    kept = np.arange(len(PAIRS)) % 2 == 1
    half = store.keep(kept, skipped, "odd")
    assert list(half.pairs) == PAIRS[1::2]
    assert half.lines.tolist() == list(range(2, len(PAIRS) + 1, 2))
    assert skipped[0].counts == {"odd": len(PAIRS) // 2}
    assert skipped[0].first_lines["odd"][:2] == [1, 3]
    assert half.keep(np.ones(len(half.pairs), np.bool_), skipped, "none") is half


@given(st.lists(st.integers(-3, 9)))
def test_first_of_duplicates_is_kept_however_the_work_is_divided(codes: list[int]) -> None:
    wanted = [code not in codes[:row] for row, code in enumerate(codes)]
    for codes_per_part in (2, 1 << 20):
        assert is_first(np.array(codes, np.int64), codes_per_part).tolist() == wanted


def test_the_development_set_does_not_depend_on_how_the_work_is_divided() -> None:
    keys = SideKeys.of(PAIRS)
    whole = choose_dev_pairs(keys, 20, 1)
    assert (choose_dev_pairs(keys, 20, 1, codes_per_part=30) == whole).all()
