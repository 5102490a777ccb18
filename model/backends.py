"""Prepares a model for decoding at a chosen precision."""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from model.decoding.batch import Backend
from model.int8.backend import Int8Backend
from model.int8.isa import KernelsUnavailable
from model.int8.prepared import load_prepared
from model.machine import PRECISIONS
from model.model_spec import ModelSpec

# PyTorch is imported where it is needed: a worker that decodes in int8 does without it.
if TYPE_CHECKING:
    import torch

    from model.decoding.torch_backend import TorchBackend
    from model.transformer import Transformer

log = logging.getLogger(__name__)


def load_backend(
    spec: ModelSpec, device: str, precision: str, isa: str = "auto", threads: int = 0, gpu_engine: str = "graph"
) -> Backend:
    """The weights of `spec` prepared for decoding on `device`, "cpu" or "cuda"; see `prepare`.

    `isa`: the instruction set of the int8 kernels, see `model.int8.isa`. `threads`: PyTorch's, 0 for its own choice.
    `gpu_engine`: "triton" for that of `model.triton`, which on a GPU decodes the models that it can.
    Raises BundleError, also if the folder has another bundle now, and ValueError for a precision that the device does
    not offer.
    """
    if device == "cpu" and precision in ("auto", "int8"):
        try:
            return load_prepared(spec, isa)
        except KernelsUnavailable as reason:
            log.info("int8 without the C kernels: %s", reason)
    import torch

    from model.bundle_weights import load_bundle

    if threads:
        torch.set_num_threads(threads)
    bundle = load_bundle(Path(spec.folder), torch.device(device))
    if bundle.spec.name != spec.name:
        raise spec.replaced_by(bundle.spec.name)
    if bundle.spec.alignment_checksum != spec.alignment_checksum:
        raise spec.realigned()
    backend = _prepared(bundle.model, precision)
    if device == "cpu" or gpu_engine == "graph":
        return backend
    from model.triton.backend import with_triton

    return with_triton(backend, spec.limits)


def prepare(model: Transformer, precision: str, tiled: bool = True, isa: str = "auto") -> Backend:
    """A backend of `model` at `precision`, on the device of its weights; `model` itself does not change.

    "auto" is half precision on a GPU; on a CPU int8 if the C kernels can run, else float32. Raises ValueError for a
    precision that the device does not offer. `tiled`: see TorchBackend. `isa`: see `load_backend`.
    """
    if model.output.weight.device.type == "cpu" and precision in ("auto", "int8"):
        try:
            return Int8Backend.of(model, isa)
        except KernelsUnavailable as reason:
            log.info("int8 without the C kernels: %s", reason)
    return _prepared(model, precision, tiled)


def _prepared(model: Transformer, precision: str, tiled: bool = True) -> TorchBackend:
    """A backend that decodes with PyTorch."""
    import torch

    from model.decoding.cuda_graphs import CudaGraphBackend
    from model.decoding.torch_backend import TorchBackend
    from model.int8.reference import with_quantised_products

    device = model.output.weight.device.type
    if precision == "auto":
        precision = "float16" if device == "cuda" else "float32"
    offered = PRECISIONS.get(device, ("float32",))
    if precision not in offered:
        raise ValueError(f"on {device} precision must be one of {', '.join(offered)}, not {precision!r}")
    if precision == "int8":
        return TorchBackend(with_quantised_products(_as(model, torch.float32)), "int8", tiled)
    backend_class = CudaGraphBackend if device == "cuda" else TorchBackend
    return backend_class(_as(model, getattr(torch, precision)), tiled=tiled)


def _as(model: Transformer, dtype: torch.dtype) -> Transformer:
    return model if model.output.weight.dtype == dtype else copy.deepcopy(model).to(dtype)
