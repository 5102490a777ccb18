"""Prepared weights: packed for the kernels once, in a file of the cache folder that all workers map.

Processes that map one file share its pages, and a second start finds it made. The file's name has the checksum of the
bundle's weights and a digest of all that decides how they are packed. Its last 32 bytes are the SHA-256 of the others.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ctypes import CDLL
from functools import cache
from pathlib import Path
from time import time

from model import positions
from model.bundle_files import WEIGHTS, read_file
from model.int8 import weights as packing
from model.int8.backend import Int8Backend, layout_of
from model.int8.library import library
from model.int8.weights import Layout, Weights, check_widths, pack_into_memory, packed, read_weights
from model.machine import cache_folder
from model.model_spec import ModelSpec

DIGEST_BYTES = 32
MAX_UNUSED_S = 30 * 24 * 3600
"""Files that no process has opened for this long are deleted when another is made."""
log = logging.getLogger(__name__)


def load_prepared(spec: ModelSpec, isa: str = "auto") -> Int8Backend:
    """A backend whose weights are those of the prepared file, which is made if there is none.

    Where no file can be kept, the weights are packed into this process's memory. Raises KernelsUnavailable; BundleError
    if the bundle's folder no longer has the weights of `spec`.
    """
    check_widths(spec.architecture)
    kernels = library(isa)
    layout = layout_of(kernels)
    try:
        memory = _mapped(_path(spec, layout), spec, layout, kernels)
    except (OSError, RuntimeError) as error:
        log.warning("%s: workers do not share these weights, which cannot be kept in a file: %s", spec.name, error)
        memory = pack_into_memory(_read(spec), spec.architecture, layout, kernels)
    return Int8Backend(memory, spec.architecture, kernels)


def _path(spec: ModelSpec, layout: Layout) -> Path:
    """Raises RuntimeError if there is no cache folder."""
    how = f"{_packing_digest()} {spec.architecture} {layout}".encode()
    name = f"{spec.checksum[:16]}-{hashlib.sha256(how).hexdigest()[:16]}.int8"
    return cache_folder() / "weights" / name


@cache
def _packing_digest() -> str:
    sources = Path(packing.__file__), Path(packing.__file__).with_name("layout.h"), Path(positions.__file__)
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


def _mapped(path: Path, spec: ModelSpec, layout: Layout, kernels: CDLL) -> mmap.mmap:
    """Raises OSError and BundleError."""
    if (memory := _open(path)) is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.parent):
            memory = _open(path)  # unless another process made it meanwhile
            if memory is None:
                _make(path, _read(spec), spec, layout, kernels)
                _delete_unused(path.parent)
                memory = _open(path)
    if memory is None:
        raise OSError(f"{path} is not what was written to it")
    return memory


def _open(path: Path) -> mmap.mmap | None:
    """Maps the file; None if there is none, or a damaged one."""
    try:
        with open(path, "rb") as file:
            memory = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    except (FileNotFoundError, ValueError):  # an empty file cannot be mapped
        return None
    with memoryview(memory) as view:
        intact = hashlib.sha256(view[:-DIGEST_BYTES]).digest() == view[-DIGEST_BYTES:]
    if not intact:
        return None
    if hasattr(mmap, "MADV_DONTNEED"):
        memory.madvise(mmap.MADV_DONTNEED)  # no page counts as this process's until it is used
    with suppress(OSError):  # another user's
        os.utime(path)
    return memory


def _read(spec: ModelSpec) -> Weights:
    """Raises BundleError."""
    content = read_file(Path(spec.folder), WEIGHTS)
    found = hashlib.sha256(content).hexdigest()
    if found != spec.checksum:
        raise spec.replaced_by(f"{spec.name.partition('@')[0]}@{found[:12]}")
    return read_weights(content)


def _make(path: Path, weights: Weights, spec: ModelSpec, layout: Layout, kernels: CDLL) -> None:
    """Writes the file, which appears only when complete. Raises OSError."""
    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
        try:
            for piece in packed(weights, spec.architecture, layout, kernels):
                digest.update(piece)
                file.write(piece)
            file.write(digest.digest())
            file.flush()
            os.replace(file.name, path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time makes a file: two that make the same would not share it."""
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _delete_unused(folder: Path) -> None:
    """Also leftovers of killed processes. A process that still maps a deleted file keeps its content."""
    oldest = time() - MAX_UNUSED_S
    for path in folder.iterdir():
        with suppress(OSError):  # another process was faster
            if path.name != ".lock" and path.stat().st_mtime < oldest:
                path.unlink()
