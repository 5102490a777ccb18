"""The variables of a CTranslate2 model: each is taken once, with its scale applied, and what is left is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.importing.errors import ImportFault
from training.importing.model import MAX_LAYERS
from training.importing.model_bin import Variable
from training.importing.weights import ROWS_TOGETHER, value_fault

_REFUSED = {
    "relative_position": "relative positions",
    "relative_asymmetric": "relative positions",
    "relative_attention": "relative positions",
    "relative_left": "relative positions",
    "relative_right": "relative positions",
    "rotary": "rotary positions",
    "original_max_position": "rotary positions",
    "alibi": "ALiBi",
    "linear_0_noact": "gated feed-forward networks",
    "multi_query": "multi-query attention",
    "num_heads_kv": "multi-query attention",
    "weight_zero": "quantisation such as AWQ",
    "sliding_window": "a sliding window of attention",
    "layernorm_embedding": "a layer normalisation of embeddings",
    "project_in": "projected embeddings",
    "project_out": "projected embeddings",
    "q_norm": "normalised queries",
    "k_norm": "normalised queries",
    "v_norm": "normalised queries",
    "queries_scale": "scaled queries",
    "scale_outputs": "scaled outputs",
    "softcapping": "capped logits",
    "embeddings_1": "several features a token",
    "shared_layer_norm": "parallel residual connections",
    "input_layer_norm": "layer normalisations on both sides",
    "memory_kv": "merged attention",
    "layer_scalar": "scaled layers",
}
"""By a part of a variable's name, what an unsupported one is for."""


class Network:
    """The variables of a model, each taken once."""

    def __init__(self, variables: dict[str, Variable]) -> None:
        self._left = variables
        for name, variable in variables.items():
            is_neutral = not variable.shape and not variable.numbers().any()  # a flag that is off
            for part, meaning in _REFUSED.items():
                if part in name and not is_neutral:
                    raise ImportFault(f"uses {meaning} ({name}), which is not supported")

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def matrix_shape(self, name: str) -> tuple[int, ...]:
        """The shape of a matrix, which stays. Raises ImportFault if it is none."""
        if name not in self or len(self._left[name].shape) != 2:
            raise ImportFault(f"has no matrix {name}")
        return self._left[name].shape

    def dtype(self, name: str) -> str | None:
        return self._left[name].dtype if name in self else None

    def flag(self, name: str, default: float) -> float:
        """A number by itself."""
        variable = self._left.pop(name, None)
        if variable is None:
            return default
        if variable.shape not in ((), (1,)):
            raise ImportFault(f"has {name} of shape {variable.shape}, not a number")
        return float(_numbers(name, variable).reshape(())[()])

    def text(self, name: str, default: str) -> str:
        """A text, stored as its bytes."""
        variable = self._left.pop(name, None)
        if variable is None:
            return default
        try:
            return bytes(variable.content).decode()
        except UnicodeDecodeError:
            raise ImportFault(f"has {name}, which is not UTF-8") from None

    def give_to_both_stacks(self, *names: str) -> None:
        """Renames variables that are there once to those of encoder and decoder."""
        for name in names:
            if name in self:
                variable = self._left.pop(name)
                self._left |= {f"{stack}/{name}": variable for stack in ("encoder", "decoder")}

    def take(self, name: str, shape: Sequence[int] | None = None) -> Tensor:
        """The values of a variable, with its scale applied."""
        return _scaled_values(name, *self._taken(name, shape))

    def take_rows(self, name: str, shape: Sequence[int], rows: Sequence[int], factor: float) -> Iterator[Tensor]:
        """The given rows of a matrix times `factor`, of zeros where a row is -1. A few rows come at a time, since the
        whole matrix in float32 would take four times the memory that it takes in int8."""
        variable, divisor = self._taken(name, shape)
        numbers = np.array(rows, np.int64)
        for start in range(0, len(rows), ROWS_TOGETHER):
            some = numbers[start : start + ROWS_TOGETHER]
            values = _scaled_values(name, variable, divisor, some.clip(min=0))
            values[some < 0] = 0
            yield values if factor == 1 else checked_tensor(name, values.mul_(factor))

    def _taken(self, name: str, shape: Sequence[int] | None) -> tuple[Variable, NDArray[np.float32] | None]:
        """A variable, and what its values are to be divided by: a number a row, or one for all."""
        variable = self._left.pop(name, None)
        if variable is None:
            raise ImportFault(f"has no {name}")
        if shape is not None and variable.shape != tuple(shape):
            raise ImportFault(f"has {name} of shape {variable.shape}, not {tuple(shape)}")
        scale = self._left.pop(f"{name}_scale", None)
        if variable.dtype == "int32" or (variable.dtype in ("int8", "int16")) != (scale is not None):
            raise ImportFault(f"has {name} as {variable.dtype} {'with' if scale else 'without'} a scale")
        if scale is None:
            return variable, None
        divisor = _numbers(f"{name}_scale", scale)
        if scale.shape not in ((), (1,), variable.shape[:1]) or not (divisor > 0).all():
            raise ImportFault(f"has {name}_scale of shape {scale.shape}, which does not fit or is not positive")
        return variable, divisor.reshape(-1, *[1] * (len(variable.shape) - 1))

    def take_optional(self, name: str, shape: Sequence[int]) -> Tensor | None:
        return self.take(name, shape) if name in self else None

    def drop(self, *names: str) -> None:
        for name in names:
            self._left.pop(name, None)

    def check_empty(self) -> None:
        """Raises ImportFault if the model has anything that was not read."""
        if self._left:
            raise ImportFault(f"has {min(self._left)}, which is not supported")

    def depth(self, stack: str) -> int:
        found = (n for n in range(MAX_LAYERS + 1) if f"{stack}/layer_{n}/ffn/linear_0/weight" not in self)
        count = next(found, MAX_LAYERS + 1)
        if not 1 <= count <= MAX_LAYERS:
            raise ImportFault(f"has not 1 to {MAX_LAYERS} layers in its {stack}")
        return count


def _numbers(name: str, variable: Variable, rows: NDArray[np.int64] | None = None) -> NDArray[np.float32]:
    try:
        return variable.numbers(rows)
    except ImportFault as error:
        raise ImportFault(f"{name} {error}") from None


def _scaled_values(
    name: str, variable: Variable, divisor: NDArray[np.float32] | None, rows: NDArray[np.int64] | None = None
) -> Tensor:
    values = _numbers(name, variable, rows)
    if divisor is not None:
        with np.errstate(over="ignore"):
            values /= divisor if rows is None or len(divisor) == 1 else divisor[rows]
    return checked_tensor(name, torch.from_numpy(values))


def settings_in_variables(network: Network) -> dict[str, Any]:
    """What is in config.json since version 6 of the format."""
    roles = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    settings: dict[str, Any] = {name: network.text(name, default) for name, default in roles.items()}
    settings |= {f"add_source_{role}": bool(network.flag(f"with_source_{role}", 0)) for role in ("bos", "eos")}
    if network.flag("user_decoder_start_tokens", 0):
        raise ImportFault("needs a start token from its users, which is not supported")
    starts_with = "bos_token" if network.flag("with_target_bos", 1) else "eos_token"
    return settings | {"decoder_start_token": settings[starts_with]}


def same_in_both(network: Network, name: str, default: float) -> float:
    """A flag that encoder and decoder must agree on."""
    values = {network.flag(f"{stack}/{name}", default) for stack in ("encoder", "decoder")}
    if len(values) > 1:
        raise ImportFault(f"has another {name} in the encoder than in the decoder, which is not supported")
    return values.pop()


def checked_tensor(name: str, values: Tensor) -> Tensor:
    """`values`. Raises ImportFault if a scale made one infinite or too large."""
    if fault := value_fault(values):
        raise ImportFault(f"has {name} with {fault}")
    return values
