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
from time import time, time_ns

DIGEST_BYTES = 32
MAX_UNUSED_S = 30 * 24 * 3600
"""Files that no process has opened for this long are deleted when another is made."""


class MappedFile:
    """A file's content in `memory`, read-only. What is written to the file later changes it."""

    def __init__(self, path: Path) -> None:
        """Raises OSError, and ValueError if the file is empty."""
        with open(path, "rb") as file:
            self._modified = os.fstat(file.fileno()).st_mtime_ns
            self.memory = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
            self._descriptor = os.dup(file.fileno())

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)

    @property
    def is_intact(self) -> bool:
        """Whether the content is what was written when the file was made."""
        with memoryview(self.memory) as view:
            return hashlib.sha256(view[:-DIGEST_BYTES]).digest() == view[-DIGEST_BYTES:]

    @property
    def is_unchanged(self) -> bool:
        """Whether the content is still intact; takes 1 µs unless the file's time of change is another."""
        modified = os.fstat(self._descriptor).st_mtime_ns
        if modified == self._modified:
            return True
        self._modified = modified  # somebody may have touched it, and no more
        return self.is_intact

    def note_use(self) -> None:
        """Keeps the file from being deleted as unused."""
        with suppress(OSError):  # another user's
            os.utime(self._descriptor, ns=(time_ns(), self._modified))


def map_file(path: Path, make: Callable[[], Iterable[bytes]]) -> MappedFile:
    """Maps the file. If there is none, or a damaged one, it is made of the parts that `make` returns.

    Its name must identify its content. Raises OSError, and the errors of `make`.
    """
    if (mapped := _open(path)) is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.parent):
            mapped = _open(path)  # unless another process made it meanwhile
            if mapped is None:
                _write(path, make())
                delete_unused(path.parent)
                mapped = _open(path)
    if mapped is None:
        raise OSError(f"{path} is not what was written to it")
    return mapped


def _open(path: Path) -> MappedFile | None:
    """Maps the file; None if there is none, or a damaged one."""
    try:
        mapped = MappedFile(path)
    except (FileNotFoundError, ValueError):  # an empty file cannot be mapped
        return None
    if not mapped.is_intact:
        return None
    if hasattr(mmap, "MADV_DONTNEED"):
        mapped.memory.madvise(mmap.MADV_DONTNEED)  # no page counts as this process's until it is used
    mapped.note_use()
    return mapped


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


def delete_unused(folder: Path) -> None:
    """Also leftovers of killed processes. A process that still maps a deleted file keeps its content."""
    oldest = time() - MAX_UNUSED_S
    for path in folder.iterdir():
        with suppress(OSError):  # another process was faster
            if path.name != ".lock" and path.stat().st_atime < oldest:
                path.unlink()
