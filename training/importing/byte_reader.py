"""Reads binary files of published models, and never beyond their end."""

from __future__ import annotations

import struct

from training.importing.errors import ImportFault


class ByteReader:
    """Takes a file's bytes in order. Raises ImportFault where fewer are left than are announced."""

    def __init__(self, content: memoryview) -> None:
        self._content, self._at = content, 0

    @property
    def rest(self) -> int:
        return len(self._content) - self._at

    def take(self, size: int) -> memoryview:
        if size > self.rest:
            raise ImportFault(f"ends in the middle: {size:,} bytes are announced, {self.rest:,} are left")
        self._at += size
        return self._content[self._at - size : self._at]

    def number(self, kind: str) -> int:
        return int(struct.unpack(f"<{kind}", self.take(struct.calcsize(f"<{kind}")))[0])


def decoded_name(content: bytes) -> str:
    """The name in `content`, which ends in NUL. Raises ImportFault."""
    if not content.endswith(b"\0") or b"\0" in content[:-1]:
        raise ImportFault("has a name without an end")
    try:
        return content[:-1].decode()
    except UnicodeDecodeError:
        raise ImportFault("has a name that is not UTF-8") from None
