"""Chooses the backend that decodes a model at a precision."""

from __future__ import annotations

import copy
import logging

import torch

from model.decoding.batch import Backend
from model.decoding.cuda_graphs import CudaGraphBackend
from model.decoding.torch_backend import TorchBackend
from model.int8.backend import Int8Backend
from model.int8.isa import KernelsUnavailable
from model.int8.reference import with_quantised_products
from model.machine import PRECISIONS
from model.transformer import Transformer

log = logging.getLogger(__name__)


def prepare(model: Transformer, precision: str, tiled: bool = True) -> Backend:
    """A backend for `model` at `precision`, on the device of its weights. Does not change `model`.

    "auto" is float16 on a GPU; on a CPU it is int8 if the C kernels can run, else float32. Raises ValueError for a
    precision that the device does not have. `tiled`: see TorchBackend.
    """
    device = model.output.weight.device.type
    int8 = _int8_backend(model) if device == "cpu" and precision in ("auto", "int8") else None
    if precision == "auto":
        precision = "float16" if device == "cuda" else "int8" if int8 else "float32"
    available = PRECISIONS.get(device, ("float32",))
    if precision not in available:
        raise ValueError(f"on {device} precision must be one of {', '.join(available)}, not {precision!r}")
    if precision == "int8":
        return int8 or TorchBackend(with_quantised_products(_as(model, torch.float32)), "int8", tiled)
    backend_class = CudaGraphBackend if device == "cuda" else TorchBackend
    return backend_class(_as(model, getattr(torch, precision)), tiled=tiled)


def _as(model: Transformer, dtype: torch.dtype) -> Transformer:
    return model if model.output.weight.dtype == dtype else copy.deepcopy(model).to(dtype)


def _int8_backend(model: Transformer) -> Int8Backend | None:
    try:
        return Int8Backend.of(model)
    except KernelsUnavailable as reason:
        log.info("int8 without the C kernels: %s", reason)
        return None
