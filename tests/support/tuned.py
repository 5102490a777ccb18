"""An untrained bundle in the format of shipped ones, and the command that fine-tunes it, both fast."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from finished import finished
from shared_fixtures import PAIRS, train_quickly
from typer.testing import CliRunner

from model.bundle_weights import load_bundle, save_bundle
from model.config import ModelConfig
from model.hypothesis import Limits
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from training.__main__ import cli
from training.adapt import finetune, rehearsal
from training.corpora import general
from training.corpora.corpus import Pair, write_pairs
from training.data.vocabulary import train_vocabulary
from training.export import tradeoff
from training.pipeline.plan import Timings

LIMITS = Limits(300, 310, ratio=0.5, margin=2)
"""Low, since an untrained model ends few sentences."""
END_BIAS = 2.5
"""How much likelier than other tokens the end symbol is to an untrained model: most sentences end after some tokens."""
REHEARSED = 8
"""Our general sentences that a bundle translates for rehearsal."""
OWN, GENERAL = PAIRS[:100], [Pair(f"general {number}", f"général {number}") for number in range(60)]


def begin(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `folder` the working directory, and writes the user's and general pairs there."""
    monkeypatch.chdir(folder)
    write_pairs(Path("own.tsv"), OWN)
    write_pairs(Path("general.tsv"), GENERAL)


def tune_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduces training, rehearsal and measurement to few steps and sentences."""
    train_quickly(monkeypatch, lambda *_: Timings(step=0.01, evaluation=0.1))
    monkeypatch.setattr(tradeoff.Tradeoff, "_drawn", lambda self: b"")
    monkeypatch.setattr(tradeoff, "SHARES", (1.0, 0.5))
    monkeypatch.setattr(finetune, "EVALUATIONS", 2)
    monkeypatch.setattr(finetune, "FINE_TUNING_SIZES", (finetune.SizeDefaults(1e9, batch_tokens=400, epochs=2),))
    monkeypatch.setattr(
        rehearsal, "general_sentences", lambda language: general.general_sentences(language)[:REHEARSED]
    )
    monkeypatch.setattr(rehearsal, "MIN_SENTENCES", 0)
    monkeypatch.setattr(finetune, "general_pairs_of", lambda config: general.general_pairs_of(config)[:4])


def ship(
    monkeypatch: pytest.MonkeyPatch, architecture: Mapping[str, Any] = {}, limits: Limits = LIMITS, **more: Any
) -> Path:
    """Makes the bundle, with `more` in its config.json, and calls `tune_quickly`.

    `architecture`: fields of its ModelConfig.
    """
    tune_quickly(monkeypatch)
    folder = Path("bundles/shipped")
    if architecture or limits != LIMITS or more:
        save_shipped(folder, architecture, limits, **more)
    else:
        finished("shipped", lambda: save_shipped(folder))
    return folder


def save_shipped(folder: Path, architecture: Mapping[str, Any] = {}, limits: Limits = LIMITS, **more: Any) -> str:
    tokenizer = Tokenizer(train_vocabulary([side for pair in OWN for side in pair], 400, ["en", "fr"], threads=1))
    size = tokenizer.vocab_size
    torch.manual_seed(1)
    shape: dict[str, Any] = {"d_model": 32, "num_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1}
    shape |= {"dropout": 0, "output_bias": True}
    model = Transformer(ModelConfig(size, size, **{**shape, **architecture}))
    with torch.no_grad():
        model.output.bias[model.config.eos_id] += END_BIAS
    record: dict[str, Any] = {"source": "en", "target": "fr", "metrics": [], "samples": [], "licence": "CC BY 4.0"}
    record |= {"attribution": ["the general pairs' makers"]}
    parent = {"bundle": "older@1", "source": "fr", "target": "en", "corpora": [], "initial": {"bundle": "oldest@1"}}
    record |= {"training": {"corpora": [{"name": "general.tsv", "pairs": 60, "weight": 1.0}], "parent": parent}}
    save_bundle(folder, model, tokenizer, limits, record | more, "")
    return ""


def run(*options: object, code: int = 0) -> str:
    result = CliRunner().invoke(cli, ["run", *map(str, options), "--device", "cpu", "--threads", "1"])
    assert result.exit_code == code, result.output
    return result.stdout + result.stderr if code else result.stderr + result.stdout


def tune(*options: object, code: int = 0) -> str:
    return run("--pairs", "own.tsv", "--init", "bundles/shipped", "--out", "bundles/mine", *options, code=code)


def tuned(*options: str) -> str:
    """`tune(*options)` of the bundle that `ship` makes, in a folder that has nothing but it and what `begin` writes."""
    return finished(("tuned", *options), lambda: tune(*options))


def loaded(name: str) -> Any:
    return load_bundle(Path("bundles", name), torch.device("cpu"))
