"""Atomic writes of files and folders, even if the process is killed at any moment."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import BinaryIO


class NotReplaceable(ValueError):
    """An existing folder must not be replaced; one line says why."""


def write_atomically(path: Path, content: bytes) -> None:
    """Writes `content` to `path` atomically."""
    with replacing_file(path) as file:
        file.write(content)


@contextmanager
def naming_in_errors(path: Path) -> Iterator[None]:
    """Names `path` in an error of the system that names no file, as that for a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            error.filename = error.filename or str(path)
        raise


@contextmanager
def replacing_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a file that appears at `path` only when complete: written beside it, flushed to disk, then renamed.

    A leftover of a killed process is overwritten, so that leftovers do not fill the disk.
    """
    temporary = path.with_name(f".{path.name}.partial")
    try:
        with naming_in_errors(path):
            with open(temporary, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())  # otherwise a power cut may keep the new name without its content
            os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)  # do not leave a full disk full
        raise


def check_replaceable(
    folder: Path, replace: bool, kind: str = "bundle", mark: str = "model.safetensors", needed: Iterable[Path] = ()
) -> None:
    """Raises NotReplaceable if `folder` exists and `replace` is false, or if it is not a `kind`, which has a file
    `mark`, or if it contains what would be lost with it: another folder, such as a run's, or a file that is
    `needed`."""
    if not folder.exists():
        return
    if not replace:
        raise NotReplaceable(f"{folder} exists; --replace swaps it for the new {kind}")
    if not folder.is_dir() or (not (folder / mark).exists() and any(folder.iterdir())):
        raise NotReplaceable(f"{folder} is not a {kind}, and is left alone")
    folders = (path for path in folder.iterdir() if path.is_dir())
    files = (path for path in needed if path.resolve().is_relative_to(folder.resolve()))
    for path in chain(folders, files):
        raise NotReplaceable(f"{path} would be deleted with the {kind} {folder}: move it elsewhere first")


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """Yields a folder to write in, which replaces `folder` on exit; after an error nothing has changed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Leftovers of a killed process for this folder, but not those for `folder`.more, whose names begin alike.
    abandoned = re.compile(rf"\.{re.escape(folder.name)}\.\w+\.partial(\.old)?")
    for path in folder.parent.iterdir():
        if abandoned.fullmatch(path.name):
            if path.suffix == ".old" and not folder.exists():  # killed between two renames
                path.rename(folder)
            else:
                shutil.rmtree(path, ignore_errors=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".partial", dir=folder.parent))
    try:
        with naming_in_errors(folder):
            yield temporary
            for file in temporary.iterdir():
                _flush(file)
            temporary.chmod(0o755)
            swap_in(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def swap_in(temporary: Path, folder: Path) -> None:
    """Renames `temporary` to `folder`; the previous content takes its name, to be deleted."""
    if not folder.exists():
        temporary.rename(folder)
    elif not _exchange(temporary, folder):
        # Without an atomic exchange the folder is missing for a moment between two renames.
        old = temporary.with_name(f"{temporary.name}.old")
        folder.rename(old)
        try:
            temporary.rename(folder)
        except BaseException:
            old.rename(folder)
            raise
        old.rename(temporary)
    _flush(folder.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Swaps two paths atomically, as Linux can (renameat2 with RENAME_EXCHANGE); False if this system cannot."""
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform.startswith("linux") else None
    here, exchange = -100, 2  # AT_FDCWD of <fcntl.h>, RENAME_EXCHANGE of <linux/fs.h>
    return renameat2 is not None and renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0


def _flush(path: Path) -> None:
    """Makes a file's content, or renames within a folder, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
