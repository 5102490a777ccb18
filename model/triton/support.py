"""Whether the Triton engine can decode a model. Needs neither PyTorch nor Triton."""

from __future__ import annotations

import importlib.util

from model.config import ModelConfig

MAX_HEAD_DIM, MAX_WIDTH = 128, 4096


def missing_support(config: ModelConfig) -> str | None:
    """Why the Triton engine cannot decode a model of this architecture here; None if it can."""
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    if config.head_dim > MAX_HEAD_DIM:
        return f"its heads are {config.head_dim} wide, and {MAX_HEAD_DIM} is the most"
    if config.d_model > MAX_WIDTH:
        return f"it is {config.d_model} wide, and {MAX_WIDTH} is the most"
    return None
