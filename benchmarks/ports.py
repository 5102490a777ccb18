"""Finds a free port for a server that starts later, in another process."""

from __future__ import annotations

import socket
from random import SystemRandom


def free_port() -> int:
    """One of 127.0.0.1 on which nobody listens, below those that systems give out by themselves (Linux from 32768 on):
    no connection takes it before the server does."""
    while True:
        port = SystemRandom().randrange(10_000, 30_000)
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
