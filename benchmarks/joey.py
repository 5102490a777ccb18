"""JoeyNMT in `benchmarks.training`: its settings, and its processes.

The training loop is `benchmarks.peers.joey_loop`, which runs in a separate environment:

    python -m venv joey && joey/bin/pip install joeynmt==2.3.0 importlib-metadata

(JoeyNMT imports the latter without requiring it). The settings leave out its `fp16`, which it turns off on a CPU, and
its DistributedDataParallel, which it starts on GPUs only.
"""

from __future__ import annotations

import ctypes.util
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import torch

from model.config import ModelConfig
from training.data.batches import Batch, Pairs

ROOT = Path(__file__).resolve().parent.parent
UPDATES = 256
"""Number of our batches that it gets; it then starts again with the first."""
KEEPING_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
"""The allocator settings of `model.machine`, as glibc's environment variables."""


class JoeyFailed(RuntimeError):
    """JoeyNMT's process exited early."""


@dataclass(frozen=True)
class Joey:
    """One way of running JoeyNMT."""

    label: str
    environment: dict[str, str] = field(default_factory=dict)
    autocast: bool = False
    """Its trainer with a bfloat16 autocast, which it does not offer on a CPU."""
    dropout_as_ours: bool = False
    """Dropout only where our model has it; by default JoeyNMT's, also on attention weights and in the feed-forward."""
    threads: int | None = None
    """Instead of the task's."""
    own_batches: bool = False
    """Batches of its own sampler from the same pairs, in random order of any lengths; by default our trainer's."""


def settings() -> dict[str, Joey]:
    """The sweep on our batches: every setting that may make it faster, by the name in the report."""
    found = {
        "joey": Joey("JoeyNMT 2.3, float32"),
        "joey memory": Joey("JoeyNMT 2.3, float32, our setting of the allocator", KEEPING_MEMORY),
    }
    if faster := _tcmalloc():
        found["joey tcmalloc"] = Joey("JoeyNMT 2.3, float32, tcmalloc", faster)
    return found | {
        "joey bfloat16": Joey("JoeyNMT 2.3, bfloat16 autocast, the allocator too", KEEPING_MEMORY, autocast=True),
        "joey one thread": Joey("JoeyNMT 2.3, float32, the allocator, 1 thread", KEEPING_MEMORY, threads=1),
        "joey dropout": Joey("JoeyNMT 2.3, float32, the allocator, dropout as ours", KEEPING_MEMORY, False, True),
    }


def own_settings() -> dict[str, Joey]:
    """The settings on its own batches: as installed, and with tcmalloc if available."""
    found = {"joey own": Joey("JoeyNMT 2.3, float32, its own batches", own_batches=True)}
    if faster := _tcmalloc():
        found["joey own tcmalloc"] = Joey("JoeyNMT 2.3, float32, its own batches, tcmalloc", faster, own_batches=True)
    return found


def _tcmalloc() -> dict[str, str]:
    """The environment that preloads tcmalloc; empty if it is not installed."""
    library = ctypes.util.find_library("tcmalloc_minimal")
    return {"LD_PRELOAD": library} if library else {}


def version(python: Path) -> str:
    """The versions of JoeyNMT and PyTorch in that environment. Raises ValueError if it has no JoeyNMT."""
    code = "import torch, joeynmt.training, importlib.metadata as m; print(m.version('joeynmt'), torch.__version__)"
    with suppress(OSError):
        done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, env=_environment({}))
        if done.returncode == 0:
            joey, pytorch = done.stdout.split()
            return f"JoeyNMT {joey} with PyTorch {pytorch}"
    raise ValueError(
        f"{python} has no JoeyNMT: install joeynmt==2.3.0 and importlib-metadata in a separate environment"
    )


def write_updates(path: Path, updates: Iterator[list[Batch]]) -> None:
    """Writes the first `UPDATES` updates, each of one batch, as arrays: sources, and targets from `<s>` to `</s>`."""
    tables: dict[str, Any] = {}
    for number, (batch,) in enumerate(islice(updates, UPDATES)):
        target = torch.cat([batch.tgt_in[:, :1], batch.tgt_out], dim=1)  # [batch, 1 + target]
        tables |= {f"{number}src": batch.src.int().numpy(), f"{number}trg": target.int().numpy()}
    np.savez(path, allow_pickle=False, **tables)


def write_pairs(path: Path, pairs: Pairs) -> None:
    """Writes all pairs as arrays, for JoeyNMT's own batches: the concatenated tokens of each side, and the lengths."""
    tables: dict[str, Any] = {}
    for name, side in (("src", pairs.source), ("trg", pairs.target)):
        sequences = side.sequences(np.arange(len(pairs)))
        tables |= {name: np.concatenate(sequences).astype(np.int32), f"{name}_lengths": side.lengths}
    np.savez(path, allow_pickle=False, **tables)


@contextmanager
def running(
    python: Path, joey: Joey, config: ModelConfig, threads: int, given: Path, batch_tokens: int
) -> Iterator[Connection]:
    """Starts the process of a setting. It receives a number of updates, runs them, and sends (target tokens, seconds).

    `given` is a file of `write_pairs` if it makes its own batches, of `batch_tokens`; else one of `write_updates`.
    """
    shape = {name: getattr(config, name) for name in ("d_model", "num_heads", "d_ff", "dropout")}
    task = {
        **shape,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "vocab_size": config.target_vocab_size,
        "label_smoothing": 0.1,
        "seed": 1,
        "threads": joey.threads or threads,
        "autocast": joey.autocast,
        "dropout_as_ours": joey.dropout_as_ours,
        "batch_tokens": batch_tokens if joey.own_batches else None,
    }
    ours, theirs = Pipe()
    words = [str(python), "-m", "benchmarks.peers.joey_loop", str(theirs.fileno()), json.dumps(task), str(given)]
    environment = _environment(joey.environment)
    with TemporaryFile("w+", errors="replace") as errors:
        process = subprocess.Popen(words, cwd=ROOT, env=environment, pass_fds=[theirs.fileno()], stderr=errors)
        theirs.close()  # so that a dead process is an EOFError here, not an endless wait
        try:
            yield ours
        except (EOFError, ConnectionError) as error:
            if process.wait():  # the error is this process's, not another contestant's
                errors.seek(0)
                raise JoeyFailed(f"{joey.label}: {errors.read()[-2000:]}") from error
            raise
        finally:
            with suppress(OSError):
                ours.send(0)
            process.wait()


def _environment(more: dict[str, str]) -> dict[str, str]:
    """Our environment, without variables that would add our packages to the other Python."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")} | more
