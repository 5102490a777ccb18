"""A Transformer's weights in int8, decoded by the C kernels on one core."""

from __future__ import annotations

import ctypes
import mmap
from ctypes import c_int32
from typing import TYPE_CHECKING

import numpy as np

from model.bundle_files import BundleError
from model.config import ModelConfig
from model.hypothesis import Limits
from model.int8.batch import Int8Batch
from model.int8.library import library
from model.int8.weights import Layout, Weights, check_widths, pack_into_memory

if TYPE_CHECKING:  # an int8 worker does without PyTorch
    from model.shared_file import MappedFile
    from model.transformer import Transformer


def layout_of(kernels: ctypes.CDLL) -> Layout:
    """How these compiled kernels read the weights."""
    return Layout(*(c_int32 * len(Layout._fields)).in_dll(kernels, "kernel_layout"))


class Int8Backend:
    """See `model.decoding.batch.Backend`."""

    precision, device, engine = "int8", "cpu", "int8"

    def __init__(
        self, memory: mmap.mmap, config: ModelConfig, kernels: ctypes.CDLL, file: MappedFile | None = None
    ) -> None:
        """`memory`: the weights, packed for these kernels, which only read them; that of `file`, if there is one.

        Raises MemoryError.
        """
        self.config, self.library, self._file = config, kernels, file
        self._packed = np.frombuffer(memory, np.uint8)
        self.weight_bytes = len(memory)
        self.model: int | None = kernels.model_open(self._packed.ctypes.data)
        """Address of the C structure."""
        if not self.model:
            raise MemoryError("no memory for a model")

    @classmethod
    def pack(cls, weights: Weights, config: ModelConfig, isa: str = "auto") -> Int8Backend:
        """Packs `weights`, named as in `model.weight_shapes`; `isa`: the instruction set, see `model.int8.isa`.

        Raises KernelsUnavailable, for this machine or for a model whose widths are not multiples of the vector width.
        """
        check_widths(config)
        kernels = library(isa)
        return cls(pack_into_memory(weights, config, layout_of(kernels), kernels), config, kernels)

    @classmethod
    def of(cls, model: Transformer, isa: str = "auto") -> Int8Backend:
        """Packs the weights of a PyTorch model, which does not change. Raises KernelsUnavailable."""
        named = model.named_parameters()
        return cls.pack({name: weight.detach().float().numpy() for name, weight in named}, model.config, isa)

    def __del__(self) -> None:
        if getattr(self, "model", None):
            self.library.model_close(self.model)

    def check_weights(self) -> None:
        """See `model.decoding.batch.Backend`."""
        if self._file and not self._file.is_unchanged:
            raise BundleError("the file of the prepared weights was changed while in use")

    def new_batch(self, rows: int, limits: Limits) -> Int8Batch:
        return Int8Batch(self, rows, limits)
