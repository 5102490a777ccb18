"""Frames messages between processes: the length in four bytes (little endian), then MessagePack."""

from __future__ import annotations

import struct

import msgspec

_LENGTH = struct.Struct("<I")
LENGTH_BYTES = _LENGTH.size
_encode = msgspec.msgpack.Encoder().encode


def encode_frame(message: msgspec.Struct) -> bytes:
    """The frame of a message."""
    content = _encode(message)
    return _LENGTH.pack(len(content)) + content


def frame_length(buffer: bytes | bytearray, start: int = 0) -> int:
    """The length of the message whose frame begins at `start`, without the LENGTH_BYTES before it."""
    length: int = _LENGTH.unpack_from(buffer, start)[0]
    return length
