"""What the kernel knows about a connection, from Linux's struct tcp_info (<linux/tcp.h>)."""

from __future__ import annotations

import socket
import struct

_OPTION = getattr(socket, "TCP_INFO", None)
_LAST_DATA_RECEIVED, _BYTES_ACKED = 52, 120
"""Offsets of tcpi_last_data_recv, 4 bytes, and tcpi_bytes_acked, 8 bytes."""


def unread_s(connection: socket.socket | None) -> float:
    """Seconds since the client's last byte arrived; 0.0 if unknown."""
    told = _told(connection, _LAST_DATA_RECEIVED + 4)
    return struct.unpack_from("I", told, _LAST_DATA_RECEIVED)[0] / 1000 if told else 0.0


def bytes_taken(connection: socket.socket | None) -> int | None:
    """Bytes that the client's machine has acknowledged; None if unknown."""
    told = _told(connection, _BYTES_ACKED + 8)
    return int(struct.unpack_from("Q", told, _BYTES_ACKED)[0]) if told else None


def _told(connection: socket.socket | None, size: int) -> bytes | None:
    """The first `size` bytes of tcp_info."""
    if _OPTION is None or connection is None:
        return None
    try:
        told: bytes = connection.getsockopt(socket.IPPROTO_TCP, _OPTION, size)
    except (OSError, TypeError):  # closed, not TCP, or uvloop's socket stand-in, which has no options
        return None
    return told if len(told) == size else None
