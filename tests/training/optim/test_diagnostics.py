"""Early warnings: each appears in the case that it is for, and not in a similar sound one."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from shared_fixtures import PAIRS, TRAINING_LIMITS, small_config

from model.config import named_architecture
from model.tokenizer import Tokenizer
from training.corpora.corpus import Pair, write_pairs
from training.data.batches import Pairs, load_pairs
from training.data.options import PrepareOptions
from training.data.prepare import prepare_corpora
from training.optim.diagnostics import (
    before_training,
    identical_sides,
    overlap,
    r_drop_without_dropout,
    small_development_set,
    too_few_pairs,
    vocabulary_too_large,
    while_training,
)
from training.optim.loop import train
from training.optim.trainer import Recipe

ODD = [Pair(f"{pair.source} {number}", f"{number} {pair.target}") for number, pair in enumerate(PAIRS)]


def prepared(folder: Path, pairs: list[Pair], dev: list[Pair]) -> list[str]:
    """The warnings for these pairs, and a development file if given, before training."""
    write_pairs(folder / "own.tsv", pairs)
    write_pairs(folder / "dev.tsv", dev)
    data, own = folder / "data", str(folder / "own.tsv")
    options = PrepareOptions(
        (own,), "en", "fr", data, vocab_size=360, dev=str(folder / "dev.tsv") if dev else None, replace=True
    )
    summary = prepare_corpora(options, lambda line: None)
    loaded, record = load_pairs(data)
    return list(before_training(record, loaded, small_config(summary.vocab_size), Recipe(steps=1), tuned=True))


@pytest.mark.slow
def test_overlap_of_development_and_training_data_causes_a_warning(tmp_path: Path) -> None:
    inside, few = prepared(tmp_path, ODD, ODD[:20])
    assert "inside the training pairs: 20 of them" in inside
    assert "has 20 pairs" in few
    assert prepared(tmp_path, ODD[20:], ODD[:20]) == [few]
    assert prepared(tmp_path, ODD, []) == []


@pytest.mark.parametrize(
    ("dev", "pairs", "warned"), [("dev.tsv", 199, True), ("dev.tsv", 200, False), (None, 50, False)]
)
def test_small_development_set_causes_a_warning(dev: str | None, pairs: int, warned: bool) -> None:
    assert len(list(small_development_set({"options": {"dev": dev}, "dev_pairs": pairs}))) == warned


@pytest.mark.parametrize(
    ("same", "dropped", "warned"), [(60, 0, True), (40, 0, False), (0, 90, False), (0, 110, True), (40, 30, True)]
)
def test_sources_mostly_equal_to_their_targets_cause_a_warning(same: int, dropped: int, warned: bool) -> None:
    pairs = Pairs.of([[5, number] for number in range(100)], [[5, n] if n < same else [6, 7, n] for n in range(100)])
    warnings = list(identical_sides({"corpora": [{"kept": 100, "skipped": {"not translated": dropped}}]}, pairs))
    assert len(warnings) == warned
    assert all("the same in most pairs" in warning for warning in warnings)


@pytest.mark.parametrize(("shared", "warned"), [(0, False), (1, False), (2, True), (40, True)])
def test_training_on_a_test_set_causes_a_warning(shared: int, warned: bool) -> None:
    pairs = Pairs.of([[5, number] for number in range(40)], [[6]] * 40)
    sources = [[5, number] if number < shared else [5, 5, number] for number in range(40)]
    warnings = list(overlap("general.tsv", sources, pairs))
    warning = f"{shared} of the 40 sentences of general.tsv are in the training data: its scores are too high"
    assert warnings == [warning] * warned


@pytest.mark.parametrize(
    ("pairs", "architecture", "said"),
    [
        (2_000, "base", "too few for a model of this size"),
        (2_000, "tiny", "adapts it to yours"),
        (20_000, "small", "tiny suits them better"),
        (20_000, "tiny", None),
        (300_000, "small", None),
        (300_000, "base", "small suits them better"),
        (3_000_000, "base", None),
    ],
)
def test_too_little_data_for_the_model_causes_a_warning(pairs: int, architecture: str, said: str | None) -> None:
    warnings = list(
        too_few_pairs(pairs, named_architecture(architecture, source_vocab_size=1000, target_vocab_size=1000))
    )
    assert len(warnings) == (said is not None)
    assert all(said in warning for warning in warnings if said)


def test_too_large_a_vocabulary_for_the_data_causes_a_warning() -> None:
    pairs = Pairs.of([[5, 6, 7]] * 10_000, [[8, 9]] * 10_000)
    [warning] = vocabulary_too_large(pairs, 8000)
    assert "8,000 pieces is large for 50,000 tokens" in warning
    assert list(vocabulary_too_large(pairs, 2000)) == []
    assert list(vocabulary_too_large(Pairs.of([[5]], [[6]]), 1000)) == []


@pytest.mark.parametrize(
    ("r_drop", "dropout", "of_attention", "warned"),
    [(5.0, 0.0, 0.0, True), (5.0, 0.1, 0.0, False), (5.0, 0.0, 0.1, False), (0.0, 0.0, 0.0, False)],
)
def test_r_drop_without_dropout_causes_a_warning(
    r_drop: float, dropout: float, of_attention: float, warned: bool
) -> None:
    config = small_config(400, dropout=dropout, attention_dropout=of_attention)
    assert bool(list(r_drop_without_dropout(config, Recipe(steps=1, r_drop=r_drop)))) == warned


def history(train_loss: list[float], dev_loss: list[float], first: int = 10) -> list[dict[str, float]]:
    rows = zip(train_loss, dev_loss, strict=True)
    return [
        {"step": first + 10 * number, "train_loss": ours, "dev_loss": theirs}
        for number, (ours, theirs) in enumerate(rows)
    ]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (history([6, 6, 6], [6, 5, 4]), "the training loss has not fallen in 30 steps"),
        (history([6, 9, 12], [6, 5, 4]), "has not fallen"),
        (history([6, 5, 4], [6, 5, 4]), None),
        (history([6, 6, 5], [6, 5, 4]), None),
        (history([6, 6], [6, 5]), None),
        (history([6, 6, 6, 6], [6, 5, 4, 3]), None),
        (history([math.nan, 6, 6, 6], [6, 6, 6, 6], first=0), "has not fallen in 30 steps"),
        (history([math.nan, 6, 6, 6], [6, 5, 4, 3], first=0), None),
        (history([6, 5, 4], [4, 5, 6]), "rises from the start (4.000, 5.000, 6.000)"),
        (history([math.nan, 5, 4], [4, 5, 6], first=0), "try a lower --learning-rate"),
        (history([6, 5, 4], [4, 5, 4.5]), None),
        (history([6, 5, 4], [4, 3, 3.5]), None),
        (history([6, 5, 4, 3], [4, 3, 4, 5]), None),
    ],
)
def test_loss_that_rises_or_does_not_fall_causes_one_warning(rows: list[dict[str, float]], said: str | None) -> None:
    warnings = list(while_training(rows))
    assert len(warnings) == (said is not None)
    assert all(said in warning for warning in warnings if said)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_training")
@pytest.mark.parametrize(("factor", "warned"), [(40.0, True), (0.05, False)])
def test_too_high_a_learning_rate_is_reported_while_training(
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    factor: float,
    warned: bool,
) -> None:
    recipe = Recipe(3, batch_tokens=300, evaluate_every=1, warmup=1, learning_rate_factor=factor)
    config = small_config(Tokenizer.load(data / "sentencepiece.model").vocab_size)
    train(data, tmp_path / "run", config, recipe, torch.device("cpu"), TRAINING_LIMITS, save_every=100)
    said = capsys.readouterr().err
    assert ("warning: the training loss has not fallen in 3 steps" in said) == warned
    assert "warning: 304 pairs are few" in said  # without the copies
