"""A real server of Redis or Valkey, for tests of the store."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Self

import pytest
from servers import WAIT_S, becomes

COMMAND = shutil.which("redis-server") or shutil.which("valkey-server")


class StoreServer:
    """The server, on a free port of 127.0.0.1, which it keeps when it starts again. It writes nothing to disk.

    As a context manager, it runs within.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        if COMMAND is None:
            # In CI a missing server fails the run: .ci/run installs it.
            (pytest.fail if os.environ.get("CI") else pytest.skip)("redis-server is not installed")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port: int = listener.getsockname()[1]
        self._command = [COMMAND, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
        self._command += ["--appendonly", "no", *options]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._process = process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        assert becomes(lambda: process.poll() is not None or self._answers())
        assert process.poll() is None, "the server has ended"

    def kill(self) -> None:
        """All that it holds is lost."""
        assert self._process
        self._process.kill()
        self._process.wait(WAIT_S)

    def pause(self) -> None:
        """It accepts connections, and answers nothing."""
        assert self._process
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process
        self._process.send_signal(signal.SIGCONT)

    def ask(self, *command: str) -> bytes:
        """The start of the server's answer to a command without spaces in its words."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S) as connection:
            connection.sendall(f"{' '.join(command)}\r\n".encode())
            return connection.recv(1 << 20)

    def _answers(self) -> bool:
        try:
            return self.ask("PING").startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False
