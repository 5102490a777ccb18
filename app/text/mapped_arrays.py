"""Arrays in a file of the cache folder that is mapped, one after the other in NumPy's format.

A mapped file takes memory only for the pages in use, and processes share those.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from pathlib import Path

import numpy as np

from model.machine import cache_folder
from model.shared_file import DIGEST_BYTES, map_file

_ALIGNMENT = 64


def array_file(original: Path, name: str) -> Path:
    """The file in the cache folder that keeps the arrays of the file `original`.

    `name` begins its name: change it with the arrays. Raises OSError, and RuntimeError where there is no home folder.
    """
    digest = hashlib.sha256(original.read_bytes()).hexdigest()[:16]
    return cache_folder() / "detection" / f"{name}-{digest}.npy"


def map_arrays(path: Path, make: Callable[[], Iterable[np.ndarray]]) -> list[np.ndarray]:
    """The arrays of that file, which `make` returns if there is none. Raises OSError, and the errors of `make`."""
    return list(_read(map_file(path, lambda: _written(make())).memory))


def _written(arrays: Iterable[np.ndarray]) -> Iterator[bytes]:
    for array in arrays:
        with BytesIO() as file:
            np.lib.format.write_array(file, array, version=(1, 0), allow_pickle=False)
            file.write(bytes(-file.tell() % _ALIGNMENT))
            yield file.getvalue()


def _read(memory: mmap.mmap) -> Iterator[np.ndarray]:
    """The arrays in the file, which are not copied."""
    while memory.tell() < len(memory) - DIGEST_BYTES:
        np.lib.format.read_magic(memory)
        shape, _, dtype = np.lib.format.read_array_header_1_0(memory)
        array = np.ndarray(shape, dtype, memory, memory.tell())
        memory.seek(memory.tell() + array.nbytes + -array.nbytes % _ALIGNMENT)
        yield array
