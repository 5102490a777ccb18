"""Files that are seen only whole, whatever is killed and whenever. Knows no content."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write_atomically(path: Path, content: bytes) -> None:
    """Puts `content` at `path` whole or not at all."""
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write that is at `path` once it is whole: written beside it, flushed to the disk, then renamed.

    What lies beside it of a command that was killed is written over, so that it does not fill the disk.
    """
    temporary = path.with_name(f".{path.name}.partial")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # else a cut in power may leave the name of what is not there
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)  # a full disk must not stay full for it
        if isinstance(error, OSError) and error.errno is not None:
            error.filename = error.filename or str(path)  # a full disk does not say which it is
        raise
