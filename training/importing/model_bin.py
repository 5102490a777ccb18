"""Reads `model.bin`, CTranslate2's file of weights, without trusting any number in it.

The format is the one that CTranslate2's `specs/model_spec.py` writes, version 6: a header, variables, and aliases,
other names of variables. Numbers are little-endian.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.importing.byte_reader import ByteReader, decoded_name
from training.importing.errors import ImportFault
from training.importing.weights import checked_values

VERSIONS = (4, 5, 6)
"""Readable ones. Those before 6 have settings in variables that are in config.json now."""
DTYPES = ("float32", "int8", "int16", "int32", "float16", "bfloat16")
_SIZES = {"float32": 4, "int8": 1, "int16": 2, "int32": 4, "float16": 2, "bfloat16": 2}
_MAX_RANK = 4


@dataclass(frozen=True)
class Variable:
    """A tensor as stored; `content` is a part of the file."""

    dtype: str
    shape: tuple[int, ...]
    content: memoryview

    def numbers(self, rows: NDArray[np.int64] | None = None) -> NDArray[np.float32]:
        """The values, or those of the given `rows`, as float32, which holds all but large int32 exactly. Raises
        ImportFault unless all are finite."""
        kind = "uint16" if self.dtype == "bfloat16" else self.dtype
        stored = np.frombuffer(self.content, np.dtype(kind).newbyteorder("<")).reshape(self.shape)
        if rows is not None:
            stored = stored[rows]
        if self.dtype == "bfloat16":  # the upper half of a float32
            bits = stored.astype(np.uint32)
            bits <<= 16
            return checked_values(bits.view(np.float32))
        return checked_values(stored.astype(np.float32))


@dataclass(frozen=True)
class ModelBin:
    """The content of a file. `spec` and `revision` say which variables to expect."""

    version: int
    spec: str
    revision: int
    variables: Mapping[str, Variable]
    """By name, aliases included."""


def read_model_bin(content: memoryview) -> ModelBin:
    """Parses a whole file; variables remain parts of `content`. Raises ImportFault."""
    reader = ByteReader(content)
    if (version := reader.number("I")) not in VERSIONS:
        raise ImportFault(
            f"has version {version} of CTranslate2's format, not {VERSIONS[0]} to {VERSIONS[-1]}: convert the model "
            "again with a current CTranslate2"
        )
    spec, revision = _string(reader), reader.number("I")
    variables: dict[str, Variable] = {}
    for _ in range(reader.number("I")):
        name = _string(reader)
        if name in variables:
            raise ImportFault(f"has two variables called {name!r}")
        variables[name] = _read_variable(reader, name)
    for _ in range(reader.number("I")):
        alias, name = _string(reader), _string(reader)
        if alias in variables:
            raise ImportFault(f"has two variables called {alias!r}")
        if name not in variables:
            raise ImportFault(f"has {alias!r} for {name!r}, which is not there")
        variables[alias] = variables[name]
        if f"{name}_scale" in variables:  # which an alias shares without saying so
            variables.setdefault(f"{alias}_scale", variables[f"{name}_scale"])
    if reader.rest:
        raise ImportFault(f"goes on for {reader.rest:,} bytes after its end")
    return ModelBin(version, spec, revision, variables)


def _string(reader: ByteReader) -> str:
    """Reads a length, which counts the NUL at the end, and that many bytes."""
    return decoded_name(bytes(reader.take(reader.number("H"))))


def _read_variable(reader: ByteReader, name: str) -> Variable:
    if (rank := reader.number("B")) > _MAX_RANK:
        raise ImportFault(f"has {name!r} with {rank} dimensions")
    shape = tuple(reader.number("I") for _ in range(rank))
    if (number := reader.number("B")) >= len(DTYPES):
        raise ImportFault(f"has {name!r} with the unknown type {number}")
    dtype, size = DTYPES[number], reader.number("I")
    if math.prod(shape) * _SIZES[dtype] != size:
        raise ImportFault(f"has {name!r} with {size:,} bytes, which is not the size of {dtype} {shape}")
    return Variable(dtype, shape, reader.take(size))
