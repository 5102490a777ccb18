"""The weights of a model that is imported, in a temporary file: int8 ones take four times their size as float32."""

from __future__ import annotations

import gc
import math
import mmap
import os
import weakref
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile, gettempdir

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.atomic_files import naming_in_errors
from model.bundle_weights import restored, stored
from model.decoding.batch import Backend
from model.decoding.batch_invariance import uniform_tiles
from model.decoding.torch_backend import TorchBackend
from model.int8.backend import Int8Backend, layout_of
from model.int8.isa import KernelsUnavailable
from model.int8.library import library
from model.int8.weights import check_widths, packed
from model.machine import give_freed_memory_back
from model.transformer import Transformer
from model.weight_storage import scale_name
from training.importing.errors import ImportFault

MAX_WEIGHT = 1e10
"""Far above all weights of trained models, and above biases that forbid a token."""
ROWS_TOGETHER = 4096
"""Rows of a matrix that are converted together."""


def disk_folder() -> Path | None:
    """A folder for large temporary files: many systems keep /tmp in memory. None for Python's choice."""
    large = Path("/var/tmp")
    return large if "TMPDIR" not in os.environ and os.access(large, os.W_OK) else None


class WeightsOnDisk(MutableMapping[str, Tensor]):
    """Float32 tensors by name, written to a file as they are set, and mapped from it when they are asked for.

    The system may drop mapped pages from memory whenever it needs it, and they do not count towards a limit of the
    process's memory (RLIMIT_DATA). A tensor that is changed changes in the file.
    """

    def __init__(self) -> None:
        self._file = TemporaryFile(dir=disk_folder(), prefix="interlinear-")  # noqa: SIM115 - closed with this object
        weakref.finalize(self, self._file.close)
        self._places: dict[str, tuple[int, tuple[int, ...]]] = {}

    def __setitem__(self, name: str, weight: Tensor) -> None:
        self.put(name, tuple(weight.shape), (weight,))

    def put(self, name: str, shape: tuple[int, ...], parts: Iterable[Tensor]) -> None:
        """Sets a tensor, of which `parts` are consecutive rows."""
        start = self._file.seek(0, os.SEEK_END)
        start = self._file.seek(start + -start % mmap.ALLOCATIONGRANULARITY)
        with naming_in_errors(disk_folder() or Path(gettempdir())):
            for part in parts:
                self._file.write(part.float().contiguous().numpy().data)
            self._file.flush()
        assert self._file.tell() == start + 4 * math.prod(shape), "the parts make up the tensor"
        self._places[name] = start, shape

    def __getitem__(self, name: str) -> Tensor:
        start, shape = self._places[name]
        if not math.prod(shape):
            return torch.zeros(shape)
        content = mmap.mmap(self._file.fileno(), 4 * math.prod(shape), access=mmap.ACCESS_WRITE, offset=start)
        return torch.frombuffer(content, dtype=torch.float32).view(shape)

    def __delitem__(self, name: str) -> None:
        del self._places[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def lean_backend(model: Transformer) -> TorchBackend:
    """Decodes with `model` in little memory: its products have one shape, which needs no trials of the model's own
    products, and the system gets back what was freed before, caches of keys and values in reference cycles included."""
    backend = TorchBackend(model, tiles=uniform_tiles(model))
    gc.collect()
    give_freed_memory_back()
    return backend


def quick_backend(model: Transformer) -> Backend:
    """Decodes with `model` in int8, as the service does, in a tenth of the time of `lean_backend`; with that where the
    kernels cannot run. Embeddings are rounded to int8 as well, and all weights are packed into a file."""
    try:
        check_widths(model.config)
        kernels = library("auto")
    except KernelsUnavailable:
        return lean_backend(model)
    weights = {name: weight.detach().numpy() for name, weight in rounded(model, "int8").named_parameters()}
    with TemporaryFile(dir=disk_folder(), prefix="interlinear-") as file:
        with naming_in_errors(disk_folder() or Path(gettempdir())):
            file.writelines(packed(weights, model.config, layout_of(kernels), kernels))
            file.flush()
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return Int8Backend(memory, model.config, kernels)


def rounded(model: Transformer, storage: str) -> Transformer:
    """A copy of `model` on disk whose weights are those that a bundle restores, stored as one of `STORAGES`. Raises
    ImportFault if the type has no such numbers."""
    weights = WeightsOnDisk()
    for name, weight in model.named_parameters():
        weights.put(name, tuple(weight.shape), _rounded_parts(name, weight.detach(), storage))
    return Transformer.with_weights(model.config, weights).eval()


def restored_on_disk(tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """What `restored` makes of `tensors`; int8 ones, which take four times their size as float32, on disk."""
    quantised = {name for name, tensor in tensors.items() if tensor.dtype == torch.int8}
    weights = WeightsOnDisk()
    for name in quantised:
        weights.put(name, tuple(tensors[name].shape), _restored_parts(name, tensors))
    others = tensors.keys() - quantised - set(map(scale_name, quantised))
    return {**{name: tensors[name] for name in others}, **weights}


def _restored_parts(name: str, tensors: Mapping[str, Tensor]) -> Iterator[Tensor]:
    both = name, scale_name(name)
    for start in range(0, len(tensors[name]), ROWS_TOGETHER):
        yield restored({part: tensors[part][start : start + ROWS_TOGETHER] for part in both})[name]


def _rounded_parts(name: str, weight: Tensor, storage: str) -> Iterator[Tensor]:
    for start in range(0, len(weight), ROWS_TOGETHER):
        part = restored(stored({name: weight[start : start + ROWS_TOGETHER]}, storage))[name]
        if not part.isfinite().all():
            raise ImportFault(f"has numbers in {name} that {storage} cannot hold: leave --dtype out")
        yield part


def value_fault(values: Tensor) -> str | None:
    """Why a model cannot have these weights; None if it can. Makes no other tensor, unlike `isfinite`."""
    least, greatest = map(float, torch.aminmax(values)) if values.numel() else (0.0, 0.0)
    if not (math.isfinite(least) and math.isfinite(greatest)):
        return "a value that is not finite"
    largest = max(least, greatest, key=abs)
    return f"the value {largest:.3g}, with which sums may overflow" if abs(largest) > MAX_WEIGHT else None


def checked_values(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """`values`, an array of its own. Raises ImportFault for those that a model cannot have as weights."""
    if fault := value_fault(torch.from_numpy(values)):
        raise ImportFault(f"has {fault}")
    return values


def arranged(matrix: Tensor, rows: Sequence[int]) -> Iterator[Tensor]:
    """The given rows of `matrix` [tokens, width], of zeros where a row is -1; some of them at a time."""
    numbers = torch.tensor(rows)
    for start in range(0, len(rows), ROWS_TOGETHER):
        some = numbers[start : start + ROWS_TOGETHER]
        found = matrix.index_select(0, some.clamp(min=0))
        found[some < 0] = 0
        yield found
