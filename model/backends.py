"""Prepares a model for decoding at a chosen precision."""

from __future__ import annotations

import copy
import logging

import torch

from model.decoding.batch import Runner
from model.decoding.cuda_graphs import GraphRunner
from model.decoding.torch_backend import TorchRunner
from model.int8.library import KernelRunner, KernelsUnavailable
from model.int8.reference import with_quantised_products
from model.machine import PRECISIONS
from model.transformer import Transformer

log = logging.getLogger(__name__)


def prepare(model: Transformer, precision: str, tiled: bool = True) -> Runner:
    """A runner of `model` at `precision`, on the device of its weights; `model` itself does not change.

    "auto" is half precision on a GPU; on a CPU int8 if the C kernels can run, else float32. Raises ValueError for a
    precision that the device does not offer. `tiled`: see TorchRunner.
    """
    device = model.output.weight.device.type
    kernels = _kernels(model) if device == "cpu" and precision in ("auto", "int8") else None
    if precision == "auto":
        precision = "float16" if device == "cuda" else "int8" if kernels else "float32"
    offered = PRECISIONS.get(device, ("float32",))
    if precision not in offered:
        raise ValueError(f"on {device} precision must be one of {', '.join(offered)}, not {precision!r}")
    if precision == "int8":
        return kernels or TorchRunner(with_quantised_products(_as(model, torch.float32)), "int8", tiled)
    runner = GraphRunner if device == "cuda" else TorchRunner
    return runner(_as(model, getattr(torch, precision)), tiled=tiled)


def _as(model: Transformer, dtype: torch.dtype) -> Transformer:
    return model if model.output.weight.dtype == dtype else copy.deepcopy(model).to(dtype)


def _kernels(model: Transformer) -> KernelRunner | None:
    try:
        return KernelRunner(model)
    except KernelsUnavailable as reason:
        log.info("int8 without the C kernels: %s", reason)
        return None
