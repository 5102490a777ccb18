"""Fine-tuning: what a bundle gives to a run, what is measured before and after, and what is recorded of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import PAIRS

from model.bundle import VOCABULARY
from training.batches import load_pairs
from training.corpus import Pair, read_pairs, write_pairs
from training.prepare import PrepareOptions, prepare_corpora

OWN, GENERAL = PAIRS[:100], [Pair(f"general {number}", f"général {number}") for number in range(60)]


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_pairs(Path("own.tsv"), OWN)
    write_pairs(Path("general.tsv"), GENERAL)


def options(**fields: Any) -> PrepareOptions:
    given = {"pairs": ("own.tsv",), "source": "en", "target": "fr", "out": Path("data"), "reserved_share": 0.0}
    return PrepareOptions(**{**given, **fields})


def silent(line: str) -> None:
    pass


def test_a_given_vocabulary_is_taken_as_it_is(bundle_folder: Path) -> None:
    vocabulary = bundle_folder / "en-fr" / VOCABULARY
    summary = prepare_corpora(options(vocabulary=str(vocabulary)), silent)
    assert Path("data", VOCABULARY).read_bytes() == vocabulary.read_bytes()
    assert VOCABULARY in summary.sha256


def test_no_pair_mixed_in_is_measured_by_and_it_is_drawn_as_often_as_asked() -> None:
    prepare_corpora(options(mix=("general.tsv:0.5",)), silent)
    pairs, record = load_pairs(Path("data"))
    own, general = (corpus["kept"] for corpus in record["corpora"])
    assert general == 60
    assert set(read_pairs(Path("data/dev.tsv"))[0]) <= set(OWN)
    assert np.isclose(pairs.weights[own:].sum(), 0.5 * own, atol=0.01)


def test_the_pairs_mixed_in_decide_what_the_data_are() -> None:
    first = prepare_corpora(options(mix=("general.tsv",)), silent)
    write_pairs(Path("general.tsv"), GENERAL[:30])
    second = prepare_corpora(options(mix=("general.tsv",), replace=True), silent)
    assert first.sha256 != second.sha256


def test_only_own_pairs_that_are_left_are_worth_training_on() -> None:
    write_pairs(Path("dev.tsv"), OWN)
    with pytest.raises(ValueError, match="no pair is left to train on"):
        prepare_corpora(options(mix=("general.tsv",), dev="dev.tsv"), silent)
