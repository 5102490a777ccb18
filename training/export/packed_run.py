"""A run as parts that travel: final weights and record, without the state of its optimiser.

The run folder that comes out of them is one for `export`, from whose bundle `run --init` goes on; it cannot be resumed.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from training.data.parts import PackedFile, Parts, pack_files
from training.optim.checkpoint import BEST, STATE, load_state, load_weights, saved_weights, serialised, step_of
from training.optim.trainer import TrainingError

KIND = "run"
DTYPES = {"float16": torch.float16, "float32": torch.float32}
_LARGE = ("model", "optimizer")
"""What of the state stays: `export` reads weights from files of their own, and only resuming needs the rest."""


def pack_run(run: Path, out: Path, part_bytes: int, dtype: str, weights: int) -> Parts:
    """Packs the run folder `run` into the folder `out`, which it makes or replaces.

    Its weights are those of the last `weights` evaluations, and those of the lowest development loss if others, stored
    in `dtype`. All other files of the run go along. Raises TrainingError if it has no weights yet.
    """
    state = load_state(run)
    if state is None or not (saved := saved_weights(run)):
        raise TrainingError(f"{run} has no weights yet: train at least until the first evaluation")
    best, kept = state["state"]["best_step"], saved[-weights:]
    record = {"step": state["state"]["step"], "weights": [path.name for path in kept], "dtype": dtype}
    if best in map(step_of, kept):  # unpacked as a copy of these
        record["best"] = next(path.name for path in kept if step_of(path) == best)
    files = _packed(run, state, [*kept, *([] if "best" in record else [run / BEST])], dtype)
    return pack_files(out, KIND, files, record, part_bytes)


def _packed(run: Path, state: dict[str, Any], weights: list[Path], dtype: str) -> Iterator[PackedFile]:
    slim = io.BytesIO()
    torch.save({**state, **{name: {} for name in _LARGE}}, slim)
    yield PackedFile(STATE, np.frombuffer(slim.getvalue(), np.uint8))
    others = {*saved_weights(run), run / BEST, run / STATE}
    for path in sorted(run.iterdir()):
        if path in weights or (path.suffix == ".safetensors" and path not in others):  # or those chosen in fine-tuning
            stored = {name: weight.to(DTYPES[dtype]) for name, weight in load_weights(path).items()}
            content = np.frombuffer(serialised(stored), np.uint8)
            yield PackedFile(path.name, content, DTYPES[dtype].itemsize, planes=True)
        elif path.is_file() and path not in others and not path.name.startswith("."):
            yield PackedFile.of(path)


def unpack_run(parts: Parts, folder: Path) -> int:
    """Writes the run folder that `parts` were made of into `folder`, weights as float32. Returns the run's step."""
    parts.unpack(folder)
    if name := parts.record.get("best"):
        (folder / BEST).write_bytes((folder / name).read_bytes())
    for path in folder.glob("*.safetensors"):
        save_file({name: weight.float() for name, weight in load_file(path).items()}, path)
    return int(parts.record["step"])
