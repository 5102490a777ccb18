"""Files kept in memory for download under unguessable names, limited in bytes and time."""

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
    """A file to be sent."""

    name: str
    content: bytes
    media_type: str


class Downloads:
    """The files. To make room, drops those fetched longest ago, or never, first."""

    def __init__(self, max_bytes: int, clock: Callable[[], float] = monotonic) -> None:
        self._files: TTLCache[str, Download] = TTLCache(max_bytes, LIFETIME_S, clock, lambda file: _size(file))

    def add(self, file: Download) -> str | None:
        """Returns a name to fetch it by, valid for LIFETIME_S; None if it exceeds the total limit.

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
