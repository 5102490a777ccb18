"""Makes a model ready to decode at a chosen precision. Knows which precisions there are and what they need."""

from __future__ import annotations

import copy

import torch

from model.decoding import Runner, TorchRunner
from model.transformer import Transformer

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def prepare(model: Transformer, precision: str) -> Runner:
    """A runner of `model` at `precision`, on the device where its weights are; `model` itself is left as it was.

    Raises ValueError for a precision that is not offered there.
    """
    if precision not in DTYPES:
        raise ValueError(f"precision must be one of {', '.join(DTYPES)}, not {precision!r}")
    dtype = DTYPES[precision]
    if model.output.weight.dtype == dtype:
        return TorchRunner(model)
    return TorchRunner(copy.deepcopy(model).to(dtype).eval())
