"""The operations on Valkey or Redis that must be atomic, in Lua: the files of `lua` say what they take and return."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).with_name("lua")


class Script(NamedTuple):
    """A script, and the digest by which the server knows it."""

    source: str
    digest: str

    @classmethod
    def of(cls, *names: str) -> Script:
        """The script in these files of the folder `lua`, one after the other."""
        source = "".join((_FOLDER / f"{name}.lua").read_text("utf-8") for name in names)
        return cls(source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


TAKE, USED = (Script.of("store/rate", f"store/{name}") for name in ("take", "used"))
PUT, DELETE, VERSIONS, OFFER, CLAIM, RENEW, WITHDRAW = (
    Script.of("store/records", f"store/{name}")
    for name in ("put", "delete", "versions", "offer", "claim", "renew", "withdraw")
)
MEMORY_PUT, MEMORY_GROWTH, MEMORY_REMOVE, MEMORY_CLEAR, MEMORY_CHANGES = (
    Script.of("memory/scope", f"memory/{name}") for name in ("put", "growth", "remove", "clear", "changes")
)
MEMORY_VERSIONS = Script.of("memory/versions")
ALL = (
    *(TAKE, USED, PUT, DELETE, VERSIONS, OFFER, CLAIM, RENEW, WITHDRAW),
    *(MEMORY_PUT, MEMORY_GROWTH, MEMORY_REMOVE, MEMORY_CLEAR, MEMORY_CHANGES, MEMORY_VERSIONS),
)
