"""Chooses PyTorch's device and number of threads from the command line's options."""

from __future__ import annotations

import os

import torch

from model.config import ModelConfig

MAX_ONE_THREAD_WIDTH = 128
"""The width of `tiny`; models up to this width train with one thread."""


class ComputeError(ValueError):
    """A requested device is not available; the message is one line and names the option."""


def pick_device(name: str) -> torch.device:
    """The device "cpu" or "cuda"; "auto" is a GPU if available. Raises ComputeError."""
    if name not in ("auto", "cpu", "cuda"):
        raise ComputeError(f"--device must be auto, cpu or cuda, not {name!r}")
    has_gpu = torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise ComputeError("--device cuda: PyTorch finds no GPU")
    return torch.device("cuda" if has_gpu and name != "cpu" else "cpu")


def use_threads(threads: int | None, config: ModelConfig | None = None) -> None:
    """Sets the number of threads. Raises ComputeError.

    None: OMP_NUM_THREADS if set, else one for a narrow model of `config`, else PyTorch's default, one per core. The
    operations of a narrow model are so short that threads mostly wait for each other, and they spin while they wait:
    beside other jobs on two cores, two threads train `tiny` at 148 to 804 tokens a second, one at 1,700.
    """
    if (
        threads is None
        and config is not None
        and config.d_model <= MAX_ONE_THREAD_WIDTH
        and not os.environ.get("OMP_NUM_THREADS")
    ):
        threads = 1
    if threads is not None:
        if threads < 1:
            raise ComputeError(f"--threads must be at least 1, not {threads}")
        torch.set_num_threads(threads)
