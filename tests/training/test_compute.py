"""PyTorch uses the requested device and number of threads, or reports why it cannot."""

from __future__ import annotations

import pytest
import torch

from model.config import named_architecture
from training.compute import ComputeError, pick_device, use_threads

CPU = torch.device("cpu")


def test_missing_device_is_refused() -> None:
    assert pick_device("cpu") == CPU
    with pytest.raises(ComputeError, match="auto, cpu or cuda"):
        pick_device("tpu")
    if not torch.cuda.is_available():
        assert pick_device("auto") == CPU
        with pytest.raises(ComputeError, match="finds no GPU"):
            pick_device("cuda")


def test_zero_threads_are_refused() -> None:
    with pytest.raises(ComputeError, match="--threads"):
        use_threads(0)


@pytest.mark.parametrize(
    ("architecture", "asked", "environment", "threads"),
    [
        ("tiny", None, None, 1),
        ("toy", None, None, 1),
        ("small", None, None, 3),
        ("tiny", 2, None, 2),
        ("tiny", None, "3", 3),
    ],
)
def test_a_narrow_model_trains_with_one_thread_by_default(
    architecture: str, asked: int | None, environment: str | None, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if environment:
        monkeypatch.setenv("OMP_NUM_THREADS", environment)
    before = torch.get_num_threads()
    torch.set_num_threads(3)  # PyTorch's choice, as on a machine of three cores
    try:
        use_threads(asked, named_architecture(architecture, source_vocab_size=9, target_vocab_size=9))
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
