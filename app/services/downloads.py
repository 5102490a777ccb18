"""Keeps files in memory for download under unguessable names, for a limited time and up to a limit of bytes."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

from cachetools import TTLCache

LIFETIME_S = 600.0
_OVERHEAD_BYTES = 1_000
"""Memory that a file takes besides its content."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_MAX_NAME_CHARS = 100


class Download(NamedTuple):
    """A file to download."""

    name: str
    content: bytes
    media_type: str


class Downloads:
    """The files, up to `max_bytes`. To make room, drops the least recently used first."""

    def __init__(self, max_bytes: int, clock: Callable[[], float] = monotonic) -> None:
        self._files: TTLCache[str, Download] = TTLCache(max_bytes, LIFETIME_S, clock, lambda file: _size(file))

    def add(self, file: Download) -> str | None:
        """Returns a name to fetch the file by, valid for LIFETIME_S; None if the file alone exceeds the limit.

        The name is URL-safe, keeps the file's extension, and contains 128 random bits.
        """
        name = f"{secrets.token_hex(16)}.{_UNSAFE.sub('_', file.name)[-_MAX_NAME_CHARS:]}"
        try:
            self._files[name] = file
        except ValueError:
            return None
        return name

    def find(self, name: str) -> Download | None:
        return self._files.get(name)


def _size(file: Download) -> int:
    return len(file.content) + _OVERHEAD_BYTES
