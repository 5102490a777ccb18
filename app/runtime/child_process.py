"""A module of ours that runs as a process of its own, on one end of a pair of sockets."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent.parent


class ChildProcess:
    """A started process, whose only argument is the descriptor of its end. It exits when ours is closed."""

    end: socket.socket
    """Our end of the connection."""

    def __init__(self, module: str) -> None:
        self.end, theirs = socket.socketpair()
        path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", module, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env={**os.environ, "PYTHONPATH": path},
                )
        except BaseException:
            self.end.close()
            raise
        self.pid = self._process.pid

    def kill(self) -> None:
        """Ends it at once."""
        self._process.kill()

    def wait(self) -> str:
        """Blocks until it has ended. Returns how it ended, in a few words."""
        code = self.wait_code()
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"

    def wait_code(self) -> int:
        """Blocks until it has ended. Returns its exit status; negative: the signal that ended it."""
        return self._process.wait()
