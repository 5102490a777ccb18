"""Reads Marian's files of weights, `.bin` and `.npz`, without trusting any number in them.

`.bin` is as read in Marian's `common/binary.cpp`: version, headers, names, shapes, a gap, and data. int8 matrices are
those of intgemm: the products' matrices [inputs, outputs] are stored transposed, and a multiplier follows the numbers.
`.npz` is a zip of NumPy arrays. Both have the options as text in `special:model.yml`. Numbers are little-endian.
"""

from __future__ import annotations

import ast
import math
import mmap
import struct
import tokenize
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.importing.byte_reader import ByteReader, decoded_name
from training.importing.errors import ImportFault
from training.importing.model_files import opened_zip
from training.importing.weights import checked_values

OPTIONS = "special:model.yml"
BIN_VERSION = 1
_HEADER = struct.Struct("<QQQQ")
_INTGEMM8 = (0x4101, 0x10001)
"""The number of the type in Bergamot's Marian, which wrote Firefox's models, and in Marian since 1.10."""
_TYPES = {0x101: "int8", 0x402: "float16", 0x404: "float32", 0x408: "float64", **dict.fromkeys(_INTGEMM8, "intgemm8")}
_SIZES = {"int8": 1, "intgemm8": 1, "float16": 2, "float32": 4, "float64": 8}
_NPY_TYPES = {"|i1": "int8", "<f2": "float16", "<f4": "float32", "<f8": "float64"}
_MAX_RANK = 4
_MAX_OPTIONS_BYTES = 1 << 20
_MAX_NPY_HEADER_BYTES = 4096
_EXPANSION, _EXPANSION_BYTES = 1.5, 32 << 20
"""An unpacked .npz may have this multiple of its size, and this many bytes more: weights hardly compress."""


@dataclass(frozen=True)
class StoredArray:
    """An array as stored; `content` is a part of the file."""

    dtype: str
    shape: tuple[int, ...]
    content: memoryview
    is_transposed: bool = False

    def numbers(self) -> NDArray[np.float32]:
        """The values as float32, [*shape]. Raises ImportFault unless all are finite."""
        count = math.prod(self.shape)
        if self.dtype == "intgemm8":
            multiplier = np.frombuffer(self.content[count : count + 4], "<f4")[0]
            if not (np.isfinite(multiplier) and multiplier > 0):
                raise ImportFault(f"has the multiplier {multiplier}")
            with np.errstate(over="ignore"):
                values = np.frombuffer(self.content[:count], np.int8).astype(np.float32)
                values /= np.float32(multiplier)
            shaped = values.reshape(self.shape[::-1]).T if self.is_transposed else values.reshape(self.shape)
        else:
            kind = np.dtype(self.dtype).newbyteorder("<")
            with np.errstate(over="ignore"):
                stored = np.frombuffer(self.content[: count * kind.itemsize], kind)
                shaped = stored.astype(np.float32).reshape(self.shape)
        return checked_values(shaped)


@dataclass(frozen=True)
class PackedArray:
    """An array in an .npz, which is a .npy file in a zip; its values follow a header of `start` bytes."""

    path: Path
    entry: zipfile.ZipInfo
    start: int
    dtype: str
    shape: tuple[int, ...]

    @property
    def content(self) -> memoryview:
        """The values, read anew. Raises ImportFault."""
        with opened_zip(self.path) as archive:
            content = archive.read(self.entry)
        if len(content) != self.entry.file_size:
            raise ImportFault(f"is a damaged zip: {len(content):,} bytes for {self.entry.file_size:,}")
        return memoryview(content)[self.start :]

    def numbers(self) -> NDArray[np.float32]:
        """See `StoredArray.numbers`."""
        return StoredArray(self.dtype, self.shape, self.content).numbers()


@dataclass(frozen=True)
class MarianFile:
    options: str
    """The text of `special:model.yml`."""
    arrays: Mapping[str, StoredArray | PackedArray]


def is_marian_bin(start: bytes) -> bool:
    """Whether a file that begins with `start`, at least 16 bytes, may be a .bin of weights."""
    return len(start) >= 16 and struct.unpack_from("<Q", start)[0] == BIN_VERSION


def read_marian_file(path: Path) -> MarianFile:
    """Reads a .bin or an .npz. Raises ImportFault."""
    if not path.stat().st_size:
        raise ImportFault("is empty")
    if zipfile.is_zipfile(path):
        return read_npz(path)
    if path.suffix == ".npz":
        raise ImportFault("is no .npz file, or a part of one")
    with open(path, "rb") as file:
        return read_bin(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))


def read_bin(content: memoryview) -> MarianFile:
    """Parses a whole .bin; arrays remain parts of `content`. Raises ImportFault."""
    reader = ByteReader(content)
    if (version := reader.number("Q")) != BIN_VERSION:
        raise ImportFault(f"has version {version} of Marian's binary format, not {BIN_VERSION}")
    count = reader.number("Q")
    headers = list(_HEADER.iter_unpack(reader.take(count * _HEADER.size)))
    names = [decoded_name(bytes(reader.take(length))) for length, *_ in headers]
    if len(set(names)) != len(names):
        raise ImportFault("has two arrays of one name")
    shapes = []
    for name, (_, _, rank, _) in zip(names, headers, strict=True):
        if not 1 <= rank <= _MAX_RANK:
            raise ImportFault(f"has {name!r} with {rank} dimensions")
        shapes.append(struct.unpack(f"<{rank}i", reader.take(4 * rank)))
    reader.take(reader.number("Q"))
    arrays = {}
    for name, shape, (_, number, _, size) in zip(names, shapes, headers, strict=True):
        arrays[name] = _bin_array(name, shape, number, reader.take(size))
    if reader.rest:
        raise ImportFault(f"goes on for {reader.rest:,} bytes after its end")
    return _with_options(arrays)


def _bin_array(name: str, shape: tuple[int, ...], number: int, content: memoryview) -> StoredArray:
    if number not in _TYPES:
        raise ImportFault(f"has {name!r} with the type {number:#x}, which is not supported")
    dtype = _TYPES[number]
    if min(shape) < 0:
        raise ImportFault(f"has {name!r} of shape {shape}")
    if math.prod(shape) * _SIZES[dtype] + 4 * (dtype == "intgemm8") > len(content):  # which may be padded
        raise ImportFault(f"has {name!r} with {len(content):,} bytes, too few for {dtype} {shape}")
    if dtype == "intgemm8" and len(shape) != 2:
        raise ImportFault(f"has {name!r} of shape {shape}, not a matrix")
    return StoredArray(dtype, shape, content, is_transposed=dtype == "intgemm8" and "Wemb" not in name)


def read_npz(path: Path) -> MarianFile:
    """Parses an .npz, whose arrays are read when they are asked for. Raises ImportFault."""
    arrays: dict[str, PackedArray] = {}
    with opened_zip(path) as archive:
        entries = archive.infolist()
        if sum(entry.file_size for entry in entries) > _EXPANSION * path.stat().st_size + _EXPANSION_BYTES:
            raise ImportFault("is a zip that would take much more memory than its size")
        for entry in entries:
            name = entry.filename.removesuffix(".npy")
            if name in arrays:
                raise ImportFault("has two arrays of one name")
            with archive.open(entry) as content:
                start, dtype, shape = _npy_header(name, content.read(_MAX_NPY_HEADER_BYTES))
            if math.prod(shape) * _SIZES[dtype] != entry.file_size - start:
                size = entry.file_size - start
                raise ImportFault(f"has {name!r} with {size:,} bytes, which is not the size of {dtype} {shape}")
            arrays[name] = PackedArray(path, entry, start, dtype, shape)
    return _with_options(arrays)


def _npy_header(name: str, content: bytes) -> tuple[int, str, tuple[int, ...]]:
    """Length of the header, type and shape, from the first bytes of a .npy file. The header is a Python literal, of
    which only literals are evaluated."""
    fault = ImportFault(f"has {name!r}, which is not an array of numbers")
    if content[:6] != b"\x93NUMPY" or content[6:7] not in (b"\1", b"\2", b"\3"):
        raise fault
    width, kind = (2, "<H") if content[6] == 1 else (4, "<I")
    if len(content) < 8 + width:
        raise fault
    length, start = struct.unpack_from(kind, content, 8)[0], 8 + width
    if length > len(content) - start:
        raise fault
    try:
        header = ast.literal_eval(content[start : start + length].decode("latin-1").strip())
        shape, dtype, in_columns = header["shape"], _NPY_TYPES[header["descr"]], header["fortran_order"]
    except (ValueError, SyntaxError, KeyError, TypeError, RecursionError, MemoryError, tokenize.TokenError):
        raise fault from None
    if not isinstance(shape, tuple) or len(shape) > _MAX_RANK or not all(type(n) is int and n >= 0 for n in shape):
        raise fault
    if in_columns and sum(n > 1 for n in shape) > 1:
        raise ImportFault(f"has {name!r} in the order of columns")
    return start + length, dtype, shape


def _with_options(arrays: Mapping[str, StoredArray | PackedArray]) -> MarianFile:
    stored = arrays.get(OPTIONS)
    if stored is None or stored.dtype != "int8":
        raise ImportFault(f"has no {OPTIONS}: it is no model of Marian, or was saved without its options")
    if (size := math.prod(stored.shape)) > _MAX_OPTIONS_BYTES:
        raise ImportFault(f"has {size:,} bytes of options")
    try:
        options = bytes(stored.content[:size]).rstrip(b"\0").decode()
    except UnicodeDecodeError:
        raise ImportFault("has options that are not UTF-8") from None
    return MarianFile(options, {name: array for name, array in arrays.items() if name != OPTIONS})
