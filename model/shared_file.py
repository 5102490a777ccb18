"""Files of the cache folder that are made once and then mapped by all processes, which share their pages.

The last 32 bytes of a file are the SHA-256 of the others.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import time

DIGEST_BYTES = 32
MAX_UNUSED_S = 30 * 24 * 3600
"""Files that no process has opened for this long are deleted when another is made."""


def map_file(path: Path, make: Callable[[], Iterable[bytes]]) -> mmap.mmap:
    """Maps the file, read-only. If there is none, or a damaged one, it is made of the parts that `make` returns.

    Its name must identify its content. Raises OSError, and the errors of `make`.
    """
    if (memory := _open(path)) is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.parent):
            memory = _open(path)  # unless another process made it meanwhile
            if memory is None:
                _write(path, make())
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


def _write(path: Path, parts: Iterable[bytes]) -> None:
    """Writes the file, which appears only when complete. Raises OSError."""
    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
        try:
            for part in parts:
                digest.update(part)
                file.write(part)
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
