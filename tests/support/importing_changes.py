"""Runs the importer until it changes a file for the n-th time, where it is killed or finds the disk full:

    python -m importing_changes kill|full|count N FOLDER ARGUMENT...

Only changes below FOLDER count. `count` lets it end, and prints their number.
"""

from __future__ import annotations

import atexit
import errno
import os
import signal
import sys
from typing import Any

import pytest

CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"}
"""Of Python's audit events, besides those of files opened to be written."""


def main() -> None:
    from imported_families import limit_translations
    from shared_fixtures import export_quickly

    from training.importing.__main__ import main as run_import

    how, number, folder, *arguments = sys.argv[1:]
    changes = 0

    def watch(event: str, given: tuple[Any, ...]) -> None:
        nonlocal changes
        is_written = event == "open" and isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR)
        if not (is_written or event in CHANGES) or not str(given[0]).startswith(folder):
            return
        changes += 1
        if how == "kill" and changes == int(number):
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "full" and changes == int(number) and event not in ("os.remove", "os.rmdir", "shutil.rmtree"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if how == "count":
        atexit.register(lambda: print(changes))
    patch = pytest.MonkeyPatch()
    limit_translations(patch)
    export_quickly(patch)
    sys.argv[1:] = arguments
    sys.addaudithook(watch)
    run_import()


if __name__ == "__main__":
    main()
