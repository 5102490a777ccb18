"""Keeps files for download under unguessable names, for a limited time and up to a limit of bytes."""

from __future__ import annotations

import re
import secrets
from typing import NamedTuple

from app.storage.protocols import Kind, Store, StoreFull

LIFETIME_S = 600.0
MAX_FILES = 100_000
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
    """The files, up to `max_bytes`. To make room, drops the oldest first."""

    def __init__(self, store: Store, max_bytes: int) -> None:
        self._store, self._kind = store, Kind("downloads", MAX_FILES, max_bytes, LIFETIME_S)

    def check(self) -> None:
        """Raises StoreUnavailable if no file can be kept, as far as is known."""
        self._store.check()

    async def add(self, file: Download) -> str | None:
        """Returns a name to fetch the file by, valid for LIFETIME_S; None if the file alone exceeds the limit.

        The name is URL-safe, keeps the file's extension, and contains 128 random bits. Raises StoreUnavailable.
        """
        name = f"{secrets.token_hex(16)}.{_UNSAFE.sub('_', file.name)[-_MAX_NAME_CHARS:]}"
        fields = {
            "name": file.name.encode("utf-8", "surrogatepass"),
            "content": file.content,
            "media_type": file.media_type.encode(),
        }
        try:
            await self._store.put(self._kind, name, fields, len(file.content) + _OVERHEAD_BYTES, keep_s=0.0)
        except StoreFull:
            return None
        return name

    async def change(self, name: str, content: bytes) -> None:
        """Changes the content of a file, if it is still there and nobody else changes it now. Raises StoreFull and
        StoreUnavailable."""
        if record := await self._store.get(self._kind, name, "name"):
            size = len(content) + _OVERHEAD_BYTES
            await self._store.put(self._kind, name, {"content": content}, size, record.version, keep_s=0.0)

    async def find(self, name: str) -> Download | None:
        """Raises StoreUnavailable."""
        record = await self._store.get(self._kind, name, "name", "content", "media_type")
        if record is None:
            return None
        fields = record.fields
        return Download(
            fields["name"].decode("utf-8", "surrogatepass"), fields["content"], fields["media_type"].decode()
        )
