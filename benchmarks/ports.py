"""Finds a free port for a server that starts later, in another process."""

from __future__ import annotations

import socket
from random import SystemRandom


def free_port() -> int:
    """A free port of 127.0.0.1, below the ephemeral ports (on Linux from 32768), so that no connection takes it before
    the server does."""
    while True:
        port = SystemRandom().randrange(10_000, 30_000)
        with socket.socket() as candidate:
            try:
                candidate.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
