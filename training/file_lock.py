"""One command at a time in a folder: a lock on a file, which the kernel takes back however its process ends.

Which verb must be alone where, the verbs' packages say. Not filelock's: it leaves its file behind, so that folders made
in vain would stay; where it may not wait, it takes a lock that was deleted before it was held for one that is busy; and
it raises where a file system has no locks (4.2).
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
    """Another command is at work on the same; one line says where."""


def alone_in(folder: Path) -> AbstractContextManager[None]:
    """Within it, no other command is so in `folder`, which is made. Raises BusyError."""
    return _holding(folder / ".lock", f"in {folder}")


def alone_making(out: Path) -> AbstractContextManager[None]:
    """Within it, no other command so makes the file or folder `out`. Raises BusyError."""
    whole = out.absolute()
    return _holding(whole.with_name(f".{whole.name}.lock"), f"on {out}")


@contextmanager
def _holding(lock: Path, where: str) -> Iterator[None]:
    """Holds `lock`, a file that is there only meanwhile; Windows, which has no flock, goes without."""
    new = [folder for folder in lock.parents if not folder.exists()]
    lock.parent.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":
        yield
        return
    descriptor = _locked(lock, where)
    try:
        yield
    finally:
        if _leads_to(lock, descriptor):  # else the folder was deleted, and this is of whoever came after that
            lock.unlink()
        os.close(descriptor)
        with suppress(OSError):  # until one has something in it: a refused command leaves no empty folder
            for folder in new:
                folder.rmdir()


def _locked(lock: Path, where: str) -> int:
    """A descriptor of `lock` that holds it; no process that we start inherits it. Raises BusyError."""
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise BusyError(f"another command is at work {where}; wait for it or stop it") from None
        except OSError:
            pass  # a file system without locks: better to work as if alone than not at all
        if _leads_to(lock, descriptor):
            return descriptor
        os.close(descriptor)  # whoever held it has deleted it since we opened it: that is nobody's lock


def _leads_to(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
