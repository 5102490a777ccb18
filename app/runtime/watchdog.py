"""Kills a process, and all that it has started, if it goes on for too long after SIGTERM or SIGINT.

This takes a process of its own: while a call in C holds the interpreter, Python runs neither threads nor handlers of
signals, and at its end it waits for threads. But the interpreter's own handler, in C, writes the signal's number to a
descriptor at once, and the other process reads it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

SIGNALS = (signal.SIGTERM, signal.SIGINT)
MAX_STOP_S = 28.0
"""How long a stop of the service may take, besides its drain, so that nothing runs after 30 s."""


class Watchdog:
    """Kills this process `limit_s` after a signal."""

    def __init__(self, limit_s: float) -> None:
        self._end, theirs = socket.socketpair()
        self._end.setblocking(False)
        with theirs:
            # By its path, isolated and without site-packages: it starts in 20 ms.
            command = [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(limit_s)]
            # In a session of its own, Ctrl-C does not reach it. It inherits what is blocked here: a service manager may
            # send a signal to every process, also while this one starts.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
            try:
                self._process = subprocess.Popen(command, stdin=theirs.fileno(), start_new_session=True)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def watch(self) -> None:
        """Begins to watch. Call it in the main thread, once the event loop runs, which sets a descriptor of its own.

        The loop is then no longer woken by a signal: its handler runs with the next event.
        """
        signal.set_wakeup_fd(self._end.fileno(), warn_on_full_buffer=False)


def main(watched: int, limit_s: float) -> None:
    """Reads the numbers of signals from standard input until the watched process ends."""
    while received := os.read(0, 1024):
        if set(received) & set(SIGNALS):
            break
    else:
        return
    until = time.monotonic() + limit_s
    while (left_s := until - time.monotonic()) > 0:
        if select.select([0], [], [], left_s)[0] and not os.read(0, 1024):
            return
    now, message = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), f"did not end within {limit_s:g} s: killed"
    print(json.dumps({"time": now, "level": "critical", "process": watched, "message": message}), file=sys.stderr)
    kill_family(watched)


def kill_family(process: int) -> None:
    """Kills a process, its children, theirs, and so on, except for the caller."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGSTOP)  # so that it starts no more
    for each in _family(process):
        if each != os.getpid():
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)


def _family(process: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            parent = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found = [process]
    for each in found:
        found += children.get(each, [])
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
