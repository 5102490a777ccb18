"""How model.safetensors stores a bundle's weights: the types to choose from, and what their tensors must be.

In int8 a matrix is two tensors: int8 [rows, columns] under the weight's name, and float32 [rows] under `scale_name`.
The weight is their product, row by row. Vectors and learned positions are in half precision. `model.bundle_weights`
stores and restores weights in PyTorch, and `model.int8.weights` restores the same ones, to the bit, in NumPy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from model.safetensors_format import Content
from model.weight_shapes import Shape

STORAGES = ("float16", "bfloat16", "float32", "int8")
DTYPES = {"float16": "F16", "bfloat16": "BF16", "float32": "F32", "int8": "F16"}
"""safetensors' names for the types of what is not an int8 matrix, by storage."""
INT8 = "I8"
"""safetensors' name for the type of an int8 matrix."""
SCALES = ("F32",)
FLOATS = ("F16", "BF16", "F32", "F64")
"""safetensors' names for the permitted types of scales, and of weights that are not int8."""


def scale_name(name: str) -> str:
    """The name of the scales of matrix `name`."""
    return f"{name}.scale"


def is_int8_matrix(name: str, shape: Shape) -> bool:
    """Whether this weight is int8 in a bundle that is stored so: a matrix of a product or of token embeddings."""
    return len(shape) == 2 and not name.endswith(".positions")


def is_int8(content: Content) -> bool:
    """Whether model.safetensors has int8 tensors, according to its header; False if it has none that can be read."""
    try:
        header = json.loads(bytes(content[8 : 8 + int.from_bytes(content[:8], "little")]))
        return any(tensor.get("dtype") == INT8 for tensor in header.values())
    except (ValueError, AttributeError, RecursionError):  # refused where the tensors are verified
        return False


def stored_tensors(shapes: Mapping[str, Shape], int8: bool) -> dict[str, tuple[tuple[str, ...], Shape]]:
    """For each tensor of model.safetensors that stores weights of these shapes, its permitted types and its shape."""
    found: dict[str, tuple[tuple[str, ...], Shape]] = {}
    for name, shape in shapes.items():
        if int8 and is_int8_matrix(name, shape):
            found[name] = (INT8,), shape
            found[scale_name(name)] = SCALES, shape[:1]
        else:
            found[name] = FLOATS, shape
    return found
