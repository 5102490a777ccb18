"""The invariance benchmark: it names the machine, and fails if a sentence changes."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import pytest
import torch
from typer import Typer
from typer.testing import CliRunner

from benchmarks import invariance

pytestmark = pytest.mark.slow


def ran(bundle: Path) -> tuple[int, list[str]]:
    """The exit status and the output."""
    app = Typer()
    app.command()(invariance.main)
    options = ["--bundle", str(bundle), "--precision", "float32", "--sentences", "6", "--no-costs"]
    result = CliRunner().invoke(app, options)
    return result.exit_code, result.output.splitlines()


def test_command_names_the_machine_and_says_that_no_batch_changes_a_sentence(bundle_folder: Path) -> None:
    status, (machine, _, *batchings, last) = ran(bundle_folder / "en-fr")
    assert machine.endswith(f"Python {platform.python_version()}, PyTorch {torch.__version__}")
    assert len(batchings) == len(invariance.SIZES) + len(invariance.ROWS)
    assert (status, last) == (0, "0 differ")


def test_changed_sentence_is_counted_and_fails_the_command(
    bundle_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = invariance.decode_together

    def changed(*given: Any, **named: Any) -> list[invariance.Bits]:
        return [*together(*given, **named)[:-1], ((), ())]

    monkeypatch.setattr(invariance, "decode_at_random", changed)
    status, lines = ran(bundle_folder / "en-fr")
    assert (status, lines[-1]) == (1, f"{len(invariance.ROWS)} differ")
