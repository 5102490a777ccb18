"""Reads and writes safetensors, one tensor at a time.

The safetensors library copies each tensor that it reads from memory, and writes only tensors that are all in memory. A
file has the length of its header, 8 bytes; the header, JSON, padded with spaces to a multiple of 8 bytes; and the
tensors' bytes, little-endian, without gaps (https://github.com/huggingface/safetensors).
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Mapping
from typing import Any, NamedTuple

Content = bytes | mmap.mmap | memoryview
ITEM_BYTES = {"F32": 4, "BF16": 2, "F16": 2, "I8": 1}
"""Bytes of a number, by type, in the order in which the library writes tensors: those of a type by their names."""
_OTHER_ITEM_BYTES = {"F64": 8, "I64": 8, "U64": 8, "I32": 4, "U32": 4, "I16": 2, "U16": 2, "U8": 1, "BOOL": 1}
_MAX_HEADER_BYTES = 100_000_000
"""The library's limit."""
_METADATA = "__metadata__"


class StoredTensor(NamedTuple):
    dtype: str
    shape: tuple[int, ...]
    data: memoryview
    """A part of the file."""


def read_tensors(content: Content) -> dict[str, StoredTensor]:
    """The tensors of a whole file, by name. Raises ValueError unless they fill it."""
    view = memoryview(content)
    start = 8 + int.from_bytes(view[:8], "little")
    if len(view) < 8 or start > min(len(view), 8 + _MAX_HEADER_BYTES):
        raise ValueError("the header of safetensors is cut off")
    try:
        header = json.loads(bytes(view[8:start]))
        entries = {name: _entry(name, header[name]) for name in header if name != _METADATA}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"the header of safetensors cannot be read: {error!r}") from None
    data, end = view[start:], 0
    tensors = {}
    for name, (dtype, shape, first, last) in sorted(entries.items(), key=lambda entry: entry[1][2:]):
        if first != end or last > len(data):
            raise ValueError(f"{name} in safetensors is not where the tensor before it ends, or is cut off")
        tensors[name], end = StoredTensor(dtype, shape, data[first:last]), last
    if end != len(data):
        raise ValueError(f"safetensors go on for {len(data) - end:,} bytes after the last tensor")
    return tensors


def _entry(name: str, entry: Mapping[str, Any]) -> tuple[str, tuple[int, ...], int, int]:
    """Type, shape, and the first and last offset of a tensor."""
    dtype, shape, (first, last) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    size = {**ITEM_BYTES, **_OTHER_ITEM_BYTES}[dtype]
    if not all(type(number) is int and number >= 0 for number in (*shape, first, last)):
        raise ValueError(f"{name} has a shape or an offset that is not a number")
    if last - first != size * math.prod(shape):
        raise ValueError(f"{name} has {last - first:,} bytes, which is not the size of {dtype} {shape}")
    return dtype, shape, first, last


def in_file_order(tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> list[str]:
    """The names of tensors, given by type and shape, in the order in which a file has them."""
    kinds = list(ITEM_BYTES)
    return sorted(tensors, key=lambda name: (kinds.index(tensors[name][0]), name))


def file_header(tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> bytes:
    """What a file of tensors, given by type and shape, begins with. Their bytes follow, as `in_file_order`."""
    entries, end = {}, 0
    for name in in_file_order(tensors):
        dtype, shape = tensors[name]
        start, end = end, end + ITEM_BYTES[dtype] * math.prod(shape)
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": (start, end)}
    header = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header
