"""What the kernel knows of a connection, where it tells: Linux's struct tcp_info (<linux/tcp.h>)."""

from __future__ import annotations

import socket
import struct

_OPTION = getattr(socket, "TCP_INFO", None)
_LAST_DATA_RECEIVED, _BYTES_ACKED = 52, 120
"""Where tcpi_last_data_recv, 4 bytes, and tcpi_bytes_acked, 8 bytes, begin."""


def unread_s(connection: socket.socket | None) -> float:
    """How long ago the last of the client's bytes came, in seconds; 0.0 if that is not told."""
    told = _told(connection, _LAST_DATA_RECEIVED + 4)
    return struct.unpack_from("I", told, _LAST_DATA_RECEIVED)[0] / 1000 if told else 0.0


def bytes_taken(connection: socket.socket | None) -> int | None:
    """How many bytes the client's machine has acknowledged; None if that is not told."""
    told = _told(connection, _BYTES_ACKED + 8)
    return int(struct.unpack_from("Q", told, _BYTES_ACKED)[0]) if told else None


def _told(connection: socket.socket | None, size: int) -> bytes | None:
    """The first `size` bytes of tcp_info."""
    if _OPTION is None or connection is None:
        return None
    try:
        told: bytes = connection.getsockopt(socket.IPPROTO_TCP, _OPTION, size)
    except (OSError, TypeError):  # closed, no TCP, or uvloop's stand-in for a socket, which has no options
        return None
    return told if len(told) == size else None
