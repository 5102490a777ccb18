"""A file lock for one command at a time per folder, which the kernel releases however its process ends.

The commands' packages decide what to lock. filelock (4.2) is not used, since it leaves its file behind, and with it
folders that are no longer needed; it reports a lock as busy that was deleted before it was held; and it raises on file
systems without locks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl


class BusyError(ValueError):
    """Another command is using the same folder or file; one line says where."""


def lock_folder(folder: Path) -> AbstractContextManager[None]:
    """A context that holds the lock of `folder`, which it creates. Raises BusyError."""
    return _holding(folder / ".lock", f"in {folder}")


def lock_output(out: Path) -> AbstractContextManager[None]:
    """A context that holds the lock for writing the file or folder `out`. Raises BusyError."""
    whole = out.absolute()
    return _holding(whole.with_name(f".{whole.name}.lock"), f"on {out}")


@contextmanager
def _holding(lock: Path, where: str) -> Iterator[None]:
    """Holds `lock`, a file that exists only meanwhile; on Windows, which has no flock, does nothing."""
    new = [folder for folder in lock.parents if not folder.exists()]
    lock.parent.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":
        yield
        return
    descriptor = _locked(lock, where)
    try:
        yield
    finally:
        if _leads_to(lock, descriptor):  # otherwise the folder was deleted, and this lock is a later command's
            lock.unlink()
        os.close(descriptor)
        with suppress(OSError):  # stays if it is not empty: a refused command leaves no empty folder
            for folder in new:
                folder.rmdir()


def _locked(lock: Path, where: str) -> int:
    """A descriptor that holds `lock`; child processes do not inherit it. Raises BusyError."""
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise BusyError(f"another command is running {where}; wait for it or stop it") from None
        except OSError:
            pass  # a file system without locks: working unlocked is better than not at all
        if _leads_to(lock, descriptor):
            return descriptor
        os.close(descriptor)  # its holder deleted it after we opened it, so it protects nothing


def _leads_to(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
