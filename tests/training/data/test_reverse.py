"""A data folder read in the other direction: as if it had been prepared for that, where the two would differ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from shared_fixtures import TRAINING_LIMITS, small_config

from model.tokenizer import Tokenizer
from training.corpora.corpus import Pair, write_pairs
from training.data.batches import Pairs, load_pairs
from training.data.dataset import PreparedSummary, dev_pairs, load_direction
from training.data.options import PrepareOptions
from training.data.prepare import prepare_corpora
from training.data.reverse import encode_as_source
from training.evaluation.scoring import Development
from training.export.run_folder import TrainedRun
from training.optim.loop import train
from training.optim.trainer import Recipe, TrainingError

OPENING, CLOSING = '"“', '"”'
NAMES = ["Anna", "Bruno", "Clara", "Dario", "Emma", "Farid", "Greta", "Hugo"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data whose targets have what no source has: curly apostrophes, no-break spaces, ideographs after a blank."""
    folder = tmp_path_factory.mktemp("both")
    made = [
        Pair(
            f"{name} says {OPENING[number % 2]}the number {number} is here{CLOSING[number % 2]}, as always.",
            f"{name} dit «\u00a0l’année {number} est là\u202f», 中 文 comme toujours.",
        )
        for name in NAMES
        for number in range(100, 130)
    ]
    write_pairs(folder / "pairs.tsv", made)
    options = PrepareOptions(
        (str(folder / "pairs.tsv"),), "en", "fr", folder / "data", vocab_size=420, augment_share=0.5, keep=("all",)
    )
    prepare_corpora(options, lambda line: None)
    return folder / "data"


def texts(pairs: Pairs, tokenizer: Tokenizer) -> Iterator[tuple[str, str]]:
    rows = np.arange(len(pairs))
    for sides in zip(pairs.source.sequences(rows), pairs.target.sequences(rows), strict=True):
        source, target = map(tokenizer.decode, sides)
        yield source, target


def test_the_sides_are_swapped_and_sources_are_spelt_as_sources(folder: Path) -> None:
    tokenizer = Tokenizer.load(folder / "sentencepiece.model")
    forward, backward = load_pairs(folder)[0], load_pairs(folder, reverse=True)[0]
    rows = np.arange(len(forward))
    assert backward.target.sequences(rows) == forward.source.sequences(rows)
    own = rows[: PreparedSummary.load(folder).own_pairs]
    stored = [tokenizer.decode(ids) for ids in forward.target.sequences(own)]
    assert all("’" in text and "\u00a0" in text for text in stored)
    assert backward.source.sequences(own) == list(map(tokenizer.encode_source, stored))
    assert backward.source.lengths[own].tolist() == [len(tokenizer.encode_source(text)) for text in stored]


def test_reserved_symbols_keep_their_places_among_text_that_changes(folder: Path) -> None:
    tokenizer = Tokenizer.load(folder / "sentencepiece.model")
    cases: list[list[str | int]] = [
        [0, "\u00a0l’", 1],
        ["l’an\u00a0", 2, " est", 3, 4],
        ["\u00a0", 5],
        ["▁ l’an"],
        [""],
    ]
    for parts in cases:
        expected = tokenizer.encode_source_parts(parts)
        assert encode_as_source(tokenizer.encode_parts(parts), tokenizer) == expected


def test_copy_that_changes_the_source_alone_is_not_drawn(folder: Path) -> None:
    tokenizer = Tokenizer.load(folder / "sentencepiece.model")
    summary, pairs = PreparedSummary.load(folder), load_pairs(folder, reverse=True)[0]
    both = list(texts(pairs, tokenizer))
    known = {target for _, target in both[: summary.own_pairs]}
    first = len(pairs) - summary.augmented_copies
    assert (pairs.weights[:first] == 1).all()
    sources = {source for source, _ in both[: summary.own_pairs]}
    unwanted = np.array([source in sources for source, _ in both[first:]])
    assert 0 < unwanted.sum() < len(unwanted)
    assert pairs.weights[first:].tolist() == (~unwanted).astype(float).tolist()
    assert all(target not in known for _, target in np.array(both)[first:][unwanted])
    assert (load_pairs(folder)[0].weights == 1).all()


def test_record_and_development_set_name_the_other_direction(folder: Path) -> None:
    forward, backward = PreparedSummary.load(folder), PreparedSummary.load(folder, reverse=True)
    assert (backward.source, backward.target, backward.reverse) == ("fr", "en", True)
    assert (load_direction(folder, reverse=True).source, load_direction(folder).source) == ("fr", "en")
    assert dev_pairs(folder, reverse=True) == [Pair(target, source) for source, target in dev_pairs(folder)]
    development = Development.load(folder, TRAINING_LIMITS, reverse=True)
    assert development.sources == [pair.target for pair in dev_pairs(folder)]
    assert "reverse" not in json.loads((folder / "prepared.json").read_text(encoding="utf-8"))
    assert not forward.reverse


def test_data_for_fine_tuning_a_bundle_has_no_other_direction(folder: Path, tmp_path: Path) -> None:
    record = json.loads((folder / "prepared.json").read_text(encoding="utf-8"))
    record["options"]["vocabulary"] = "sentencepiece.model"
    (tmp_path / "prepared.json").write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(ValueError, match=r"was prepared for fine-tuning a bundle, which has one direction$"):
        PreparedSummary.load(tmp_path, reverse=True)


@pytest.mark.slow
def test_run_knows_its_direction_and_resumes_in_that_alone(folder: Path, tmp_path: Path) -> None:
    config = small_config(Tokenizer.load(folder / "sentencepiece.model").vocab_size)
    recipe = Recipe(4, batch_tokens=400, warmup=2, evaluate_every=2)

    def trained(reverse: bool) -> None:
        where = folder, tmp_path / "run", config, recipe, torch.device("cpu"), TRAINING_LIMITS
        train(*where, save_every=2, reverse=reverse)

    trained(reverse=True)
    run = TrainedRun.load(tmp_path / "run", folder)
    assert (run.direction.source, run.direction.target, run.summary.reverse) == ("fr", "en", True)
    assert run.development() == dev_pairs(folder, reverse=True)
    assert 0.8 < run.sources_with_end_marks() <= 1
    trained(reverse=True)
    with pytest.raises(TrainingError, match=r"with another data \(source, target, reverse\)"):
        trained(reverse=False)
