"""training/pipeline/ and training/data/reverse.py: `run --reverse`: the other direction of a run's pairs, on the
same data."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from shared_fixtures import PAIRS
from typer.testing import CliRunner

from model.bundle_weights import load_bundle
from training.__main__ import cli
from training.corpora.corpus import write_pairs


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own_and_in_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_training: None, small_default_size: None
) -> None:
    monkeypatch.chdir(tmp_path)


def run(*options: str, out: str, code: int = 0) -> str:
    languages = ["--source", "en", "--target", "fr"]
    command = ["run", "--pairs", "my.tsv", *languages, "--out", out, "--work", "runs/both", "--test", "test.tsv"]
    result = CliRunner().invoke(cli, [*command, "--device", "cpu", "--threads", "1", *options])
    assert result.exit_code == code, result.output
    return result.stderr + result.stdout


@pytest.mark.slow
def test_other_direction_is_trained_on_the_same_data_beside_the_first() -> None:
    write_pairs(Path("my.tsv"), PAIRS[::4])
    write_pairs(Path("test.tsv"), PAIRS[:5])
    run(out="mine/en-fr")
    record = Path("runs/both/data/prepared.json")
    prepared = record.stat().st_mtime_ns
    output = run("--reverse", out="mine/fr-en")
    assert "my.tsv: UTF-8" not in output
    assert record.stat().st_mtime_ns == prepared
    there, back = (load_bundle(Path("mine") / name, torch.device("cpu")) for name in ("en-fr", "fr-en"))
    assert (there.pair, back.pair) == ("en-fr", "fr-en")
    assert sorted(path.name for path in Path("runs/both/reverse").iterdir()) == ["plan.json", "run"]
    assert "nothing to do" in run("--reverse", "--replace", out="mine/fr-en")
    assert "nothing to do" not in run("--reverse", "--replace", out="mine/en-fr")
    assert "was started with other pairs or options" in run("--reverse", "--seed", "7", out="mine/other", code=1)


def test_fine_tuning_has_no_other_direction(bundle_folder: Path) -> None:
    write_pairs(Path("my.tsv"), PAIRS[:20])
    write_pairs(Path("test.tsv"), PAIRS[:5])
    output = run("--reverse", "--init", str(next(bundle_folder.iterdir())), out="mine/fr-en", code=1)
    assert "error: --init adapts a bundle of one direction: leave --reverse out\n" in output
