"""A transport that closes without losing the response: it stops sending, and drops data that still arrives.

The kernel resets a connection that is closed with unread data, and the peer may then never see the response (RFC 9112,
section 9.6).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

MAX_IDLE_S, MAX_LINGER_S = 5.0, 30.0
"""Maximum time to linger without receiving data, and in total: the defaults of nginx's lingering_timeout and
lingering_time."""


class LingeringTransport(asyncio.Transport):
    """Wraps `inner`, a protocol's transport, with a `close` that waits for the peer.

    `unread` returns the maximum number of unread bytes that may still arrive. If it is 0, `close` closes at once.
    """

    def __init__(
        self,
        inner: asyncio.Transport,
        unread: Callable[[], int],
        max_idle_s: float = MAX_IDLE_S,
        max_linger_s: float = MAX_LINGER_S,
    ) -> None:
        super().__init__()
        self._inner, self._unread, self._max_idle_s, self._max_linger_s = inner, unread, max_idle_s, max_linger_s
        self._left = 0
        self._timer: asyncio.TimerHandle | None = None
        self._linger_end = 0.0
        self.is_lingering = False
        self._is_corked = False
        self._head: bytes | bytearray | memoryview = b""

    def cork(self) -> None:
        """Holds back the next write, a response's head, to send it in one packet with its body: two cost twice as
        much."""
        self._is_corked = True

    def flush(self) -> None:
        """Sends a head without a body."""
        if self._head:
            self.write(b"")

    def close(self) -> None:
        if self.is_closing():
            return
        self.flush()
        self._left = self._unread()
        if not self._left:
            self._inner.close()
            return
        self.is_lingering = True
        self._linger_end = asyncio.get_running_loop().time() + self._max_linger_s
        try:
            self._inner.write_eof()
            self._inner.resume_reading()
        except OSError:  # the peer has reset the connection
            self._inner.abort()
        self._wait()

    def drop(self, size: int) -> None:
        """Counts `size` dropped bytes."""
        self._left -= size
        if self._left < 0:
            self._inner.close()
        else:
            self._wait()

    def _wait(self) -> None:
        if self._timer:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(min(loop.time() + self._max_idle_s, self._linger_end), self._inner.close)

    def is_closing(self) -> bool:
        return self.is_lingering or self._inner.is_closing()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.is_lingering:
            return
        if self._is_corked:
            self._is_corked, self._head = False, data
            return
        if self._head:
            data, self._head = b"".join([self._head, data]), b""
        self._inner.write(data)

    def abort(self) -> None:
        self._inner.abort()

    def pause_reading(self) -> None:
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        self._inner.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._inner.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._inner.get_extra_info(name, default)
