"""A process for documents whose reader does what the document says, for tests of what happens to such a process.

A hundredth of the tags is too many for it.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

from app import formats
from app.documents import worker

_read = formats.read


def read(name: str, content: bytes, *arguments: Any, **options: Any) -> formats.Document:
    if content.startswith(b"loop"):
        while True:
            pass
    if content == b"backtrack":
        re.match("(a+)+$", "a" * 60 + "b")  # in C, where no handler of a signal would run
    if content == b"fill":
        held = []
        while True:
            held.append(bytearray(1 << 20))
    if content == b"crash":
        ctypes.string_at(0)
    if content == b"recurse":
        return read(name, content, *arguments, **options)
    if content == b"fail":
        raise StopIteration
    if content.startswith(b"die once"):
        Path(content[9:].decode()).touch(exist_ok=False)  # the second time, it fails
        os.kill(os.getpid(), signal.SIGKILL)
    return _read(name, content, *arguments, **options)


if __name__ == "__main__":
    formats.read = read
    worker.MAX_TAGS //= 100
    worker.main(int(sys.argv[1]))
