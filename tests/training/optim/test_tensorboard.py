"""TensorBoard: written if it is installed, and not imported otherwise."""

from __future__ import annotations

import math
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Self

import pytest

from training.optim.tensorboard import write_tensorboard


class FakeWriter:
    """Replaces torch.utils.tensorboard's writer, and records its arguments."""

    written: ClassVar[list[tuple[str, float, int]]] = []
    made: ClassVar[list[tuple[str, int]]] = []

    def __init__(self, folder: str, purge_step: int) -> None:
        self.made.append((folder, purge_step))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.written.append((name, value, step))


def test_evaluation_is_logged_as_scalars_at_its_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = FakeWriter
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    installed = ModuleType("tensorboard")
    installed.__spec__ = ModuleSpec("tensorboard", None)
    monkeypatch.setitem(sys.modules, "tensorboard", installed)
    write_tensorboard(tmp_path, {"step": 40, "dev_loss": 2.5, "dev_bleu": 31.0, "train_loss": math.nan})
    assert FakeWriter.made == [(str(tmp_path / "tensorboard"), 40)]
    assert FakeWriter.written == [("dev_loss", 2.5, 40), ("dev_bleu", 31.0, 40)]


def test_without_tensorboard_nothing_is_imported_or_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)  # importing it would be an error
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    write_tensorboard(tmp_path, {"step": 1, "dev_loss": 2.5})
    assert list(tmp_path.iterdir()) == []
