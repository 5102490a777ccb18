"""A run's files: complete files only, the last few weights, and their average."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from training.optim.checkpoint import (
    BEST,
    STATE,
    average,
    discard_weights,
    load_state,
    save_best,
    save_state,
    save_weights,
    saved_weights,
    step_of,
)


def test_state_round_trips(tmp_path: Path) -> None:
    assert load_state(tmp_path) is None
    weights = torch.randn(3, 2)
    state = {"model": {"w": weights}, "state": {"step": 7, "history": [{"dev_loss": 0.1}]}}
    save_state(tmp_path, state)
    loaded = load_state(tmp_path)
    assert loaded is not None
    assert torch.equal(loaded["model"]["w"], weights)
    assert loaded["state"] == state["state"]


def test_last_few_weights_are_kept(tmp_path: Path) -> None:
    for step in (500, 1000, 1500, 99_999_999, 100_000_000):
        save_weights(tmp_path, step, {"w": torch.full((2,), float(step))}, keep=3)
    assert [step_of(path) for path in saved_weights(tmp_path)] == [1500, 99_999_999, 100_000_000]
    assert load_file(saved_weights(tmp_path)[0])["w"].tolist() == [1500.0, 1500.0]


def test_average_is_the_mean(tmp_path: Path) -> None:
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


@pytest.mark.slow
def test_full_disk_is_reported_and_partial_files_are_deleted(tmp_path: Path) -> None:
    """In a separate process whose files may have one mebibyte; PyTorch turns a file's error into a RuntimeError."""
    save_state(tmp_path, {"state": {"step": 1}})
    program = (
        "import resource, signal, sys, torch; from pathlib import Path\n"
        "from training.optim.checkpoint import save_state\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "try: save_state(Path(sys.argv[1]), {'model': torch.zeros(1 << 19), 'more': torch.zeros(1 << 19)})\n"
        "except OSError as error: print(error.strerror)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=True)
    assert done.stdout == "File too large\n"
    assert [path.name for path in tmp_path.iterdir()] == ["state.pt"]
    assert load_state(tmp_path) == {"state": {"step": 1}}


@pytest.mark.parametrize("kept", [0, 50, -1])
def test_a_damaged_file_is_named(tmp_path: Path, kept: int) -> None:
    save_state(tmp_path, {"state": {"step": 1}})
    save_best(tmp_path, {"w": torch.ones(3)})
    for name in (STATE, BEST):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"state.pt is damaged: "):
        load_state(tmp_path)
    with pytest.raises(ValueError, match=r"best.safetensors is damaged: "):
        average([tmp_path / BEST])
