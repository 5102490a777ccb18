"""Runs of the trainer that tests share: the first test that needs one makes it, and the others get copies."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Hashable

_FINISHED: dict[Hashable, tuple[str, str]] = {}
"""Folders, and what was printed."""


def finished(key: Hashable, run: Callable[[], str]) -> str:
    """Leaves the working directory as `run` leaves an equal one, and returns what `run` returns.

    `key`: equal only where the working directory, the run and what is patched are equal.
    """
    if key not in _FINISHED:
        output = run()
        folder = tempfile.mkdtemp(prefix="finished")
        atexit.register(shutil.rmtree, folder)
        shutil.copytree(".", folder, dirs_exist_ok=True)
        _FINISHED[key] = folder, output
    folder, output = _FINISHED[key]
    shutil.copytree(folder, ".", dirs_exist_ok=True)
    return output
