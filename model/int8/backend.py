"""A Transformer's weights in int8, decoded by the C kernels on one core."""

from __future__ import annotations

import ctypes
from ctypes import c_int32
from typing import TYPE_CHECKING

from model.config import ModelConfig
from model.hypothesis import Limits
from model.int8.batch import Int8Batch
from model.int8.library import library
from model.int8.weights import Weights, check_widths, pack

if TYPE_CHECKING:  # an int8 worker does without PyTorch
    from model.transformer import Transformer


class Int8Backend:
    """See `model.decoding.batch.Backend`.

    Raises KernelsUnavailable, for this machine or for a model whose widths are not multiples of the vector width.
    """

    precision, device = "int8", "cpu"

    def __init__(self, weights: Weights, config: ModelConfig, isa: str = "auto") -> None:
        """`weights`: by the names of `model.weight_shapes`; `isa`: the instruction set, see `model.int8.isa`."""
        check_widths(config)
        self.config = config
        self.library = library(isa)
        panel, zero = (c_int32.in_dll(self.library, name).value for name in ("kernel_panel", "kernel_zero"))
        self._packed = pack(weights, config, panel, zero)
        self.model: int | None = self.library.model_open(ctypes.byref(ctypes.c_char.from_buffer(self._packed)))
        """Address of the C structure."""
        if not self.model:
            raise MemoryError("no memory for a model")

    @classmethod
    def of(cls, model: Transformer, isa: str = "auto") -> Int8Backend:
        """Takes the weights of a PyTorch model, which does not change."""
        named = model.named_parameters()
        return cls({name: weight.detach().float().numpy() for name, weight in named}, model.config, isa)

    def __del__(self) -> None:
        if getattr(self, "model", None):
            self.library.model_close(self.model)

    def new_batch(self, rows: int, limits: Limits) -> Int8Batch:
        return Int8Batch(self, rows, limits)
