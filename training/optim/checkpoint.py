"""Saves a run's state and recent weights, so that a kill at any moment loses nothing that was saved.

`training.optim.loop` defines the content of the state.
"""

from __future__ import annotations

import re
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, BinaryIO, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from model.atomic_files import replacing_file, write_atomically

STATE = "state.pt"
BEST = "best.safetensors"


class _ErrorKeepingFile:
    """A file for torch.save, which turns any error in `write` into a RuntimeError. `error` is the original one."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: BaseException | None = None

    def write(self, content: bytes) -> int:
        try:
            return self._file.write(content)
        except BaseException as error:
            self.error = error
            raise

    def flush(self) -> None:
        self._file.flush()


def save_state(run: Path, state: dict[str, Any]) -> None:
    """Replaces the state that `load_state` returns."""
    with replacing_file(run / STATE) as file:
        wrapped = _ErrorKeepingFile(file)
        try:
            torch.save(state, cast(BinaryIO, wrapped))
        except RuntimeError:
            if wrapped.error is None:
                raise
            raise wrapped.error from None


def load_state(run: Path) -> dict[str, Any] | None:
    """The last state saved in `run`, tensors on the CPU; None if there is none. Raises ValueError if it is damaged."""
    if not (run / STATE).exists():
        return None
    try:
        state: dict[str, Any] = torch.load(run / STATE, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, UnpicklingError) as error:
        raise ValueError(f"{run / STATE} is damaged: {str(error).partition(chr(10))[0]}") from None
    return state


def load_weights(path: Path) -> dict[str, Tensor]:
    """The weights in a file. Raises ValueError if it is damaged."""
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged: {error}") from None


def save_weights(run: Path, step: int, weights: dict[str, Tensor], keep: int) -> None:
    """Saves the weights of `step`; keeps those of the last `keep` saved steps."""
    write_atomically(run / f"weights-{step:08d}.safetensors", serialised(weights))
    for path in saved_weights(run)[:-keep]:
        path.unlink()


def save_best(run: Path, weights: dict[str, Tensor]) -> None:
    write_atomically(run / BEST, serialised(weights))


def saved_weights(run: Path) -> list[Path]:
    """The files of `save_weights`, oldest first."""
    found = [path for path in run.iterdir() if re.fullmatch(r"weights-\d{8,}\.safetensors", path.name)]
    return sorted(found, key=step_of)


def discard_weights(run: Path) -> None:
    """Deletes weights that were saved before any state: the run starts over, perhaps with other options."""
    for path in [*saved_weights(run), run / BEST]:
        path.unlink(missing_ok=True)


def step_of(weights: Path) -> int:
    """The step whose weights are in a file of `save_weights`."""
    return int(weights.stem.removeprefix("weights-"))


def average(paths: list[Path]) -> dict[str, Tensor]:
    """The mean of several checkpoints' weights, in float32 (Vaswani et al. 2017, section 6.1)."""
    mean = {name: tensor.double() for name, tensor in load_weights(paths[0]).items()}
    for path in paths[1:]:
        for name, tensor in load_weights(path).items():
            mean[name] += tensor
    return {name: (tensor / len(paths)).float() for name, tensor in mean.items()}


def serialised(weights: dict[str, Tensor]) -> bytes:
    """`weights` as safetensors; a shared tensor is stored once, under its first name."""
    unique: dict[int, str] = {}
    for name, tensor in weights.items():
        unique.setdefault(tensor.data_ptr(), name)
    return save({name: weights[name].contiguous() for name in unique.values()})
