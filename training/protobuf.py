"""Protocol Buffers, in which SentencePiece and ONNX store their models: as much of the format as is needed here."""

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


def encode_key(number: int, wire: int) -> bytes:
    """What stands before a field's content."""
    return encode_varint(number << 3 | wire)


def encode_field(number: int, content: bytes | str | int) -> bytes:
    """Field `number` of a message: a message in a message or other bytes, a text, or a number of at least 0."""
    if isinstance(content, int):
        return encode_key(number, 0) + encode_varint(content)
    content = content.encode() if isinstance(content, str) else content
    return encode_key(number, 2) + encode_varint(len(content)) + content
