"""What a run leaves on disk: whole files only, the last few weights, and their average."""

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from training.checkpoint import (
    BEST,
    average,
    discard_weights,
    load_state,
    save_best,
    save_state,
    save_weights,
    saved_weights,
    step_of,
    write_atomically,
)


def test_a_state_comes_back_as_it_was(tmp_path: Path) -> None:
    assert load_state(tmp_path) is None
    weights = torch.randn(3, 2)
    state = {"model": {"w": weights}, "state": {"step": 7, "history": [{"dev_loss": 0.1}]}}
    save_state(tmp_path, state)
    loaded = load_state(tmp_path)
    assert loaded is not None
    assert torch.equal(loaded["model"]["w"], weights)
    assert loaded["state"] == state["state"]


def test_a_failed_write_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomically(tmp_path / "file", b"old")

    def full(descriptor: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"


def test_the_last_few_weights_stay(tmp_path: Path) -> None:
    for step in (500, 1000, 1500, 99_999_999, 100_000_000):
        save_weights(tmp_path, step, {"w": torch.full((2,), float(step))}, keep=3)
    assert [step_of(path) for path in saved_weights(tmp_path)] == [1500, 99_999_999, 100_000_000]
    assert load_file(saved_weights(tmp_path)[0])["w"].tolist() == [1500.0, 1500.0]


def test_the_average_is_the_mean(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save_weights(tmp_path, step, {"w": torch.tensor([step, 10.0 * step])}, keep=5)
    mean = average(saved_weights(tmp_path))
    assert mean["w"].tolist() == [2.0, 20.0]
    assert mean["w"].dtype == torch.float32


def test_a_shared_tensor_is_written_once(tmp_path: Path) -> None:
    matrix = torch.randn(4, 3)
    save_best(tmp_path, {"embedding": matrix, "output": matrix, "bias": torch.zeros(4)})
    assert set(load_file(tmp_path / BEST)) == {"embedding", "bias"}


def test_discarding_leaves_no_weights(tmp_path: Path) -> None:
    save_weights(tmp_path, 5, {"w": torch.zeros(1)}, keep=3)
    save_best(tmp_path, {"w": torch.zeros(1)})
    save_state(tmp_path, {})
    discard_weights(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["state.pt"]
