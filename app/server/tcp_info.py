"""Statistics of a connection from Linux's struct tcp_info (<linux/tcp.h>)."""

from __future__ import annotations

import socket
import struct

_OPTION = getattr(socket, "TCP_INFO", None)
_UNACKED, _LAST_DATA_RECEIVED, _BYTES_ACKED = 24, 52, 120
"""Offsets of tcpi_unacked and tcpi_last_data_recv, 4 bytes each, and tcpi_bytes_acked, 8 bytes."""


def seconds_since_data(connection: socket.socket | None) -> float:
    """Seconds since the client's last byte arrived; 0.0 if unknown."""
    info = _read_tcp_info(connection, _LAST_DATA_RECEIVED + 4)
    return struct.unpack_from("I", info, _LAST_DATA_RECEIVED)[0] / 1000 if info else 0.0


def waiting_connections(listener: socket.socket) -> int:
    """The number of connections that wait to be accepted; 0 if unknown."""
    info = _read_tcp_info(listener, _UNACKED + 4)
    return int(struct.unpack_from("I", info, _UNACKED)[0]) if info else 0


def bytes_acked(connection: socket.socket | None) -> int | None:
    """The number of bytes that the client's machine has acknowledged; None if unknown."""
    info = _read_tcp_info(connection, _BYTES_ACKED + 8)
    return int(struct.unpack_from("Q", info, _BYTES_ACKED)[0]) if info else None


def _read_tcp_info(connection: socket.socket | None, size: int) -> bytes | None:
    """The first `size` bytes of tcp_info."""
    if _OPTION is None or connection is None:
        return None
    try:
        info: bytes = connection.getsockopt(socket.IPPROTO_TCP, _OPTION, size)
    except (OSError, TypeError):  # closed, not TCP, or uvloop's substitute for a socket, which has no options
        return None
    return info if len(info) == size else None
