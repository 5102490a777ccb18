"""Numbers as Protocol Buffers write them, in which SentencePiece stores its models."""

from __future__ import annotations


def encode_varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; the high bit says that another byte follows."""
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80]) + encode_varint(number >> 7)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, and where it ends."""
    if data[at] < 0x80:
        return data[at], at + 1
    high, end = read_varint(data, at + 1)
    return data[at] & 0x7F | high << 7, end
