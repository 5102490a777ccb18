"""Python processes that have imported PyTorch and the trainer: a command starts in milliseconds, not in four seconds.

A server imports once, and forks a real process for each command, with its own working directory, environment, output,
signals and exit status. For tests of what a command does; not of what it imports. Run as a program, with `-m`, this
file is `python -m` through the server of the process that set WARM_PYTHON.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

VARIABLE = "WARM_PYTHON"
"""The address of the server, for programs."""


class WarmProcess:
    """`python -m` with `arguments`, as a `subprocess.Popen` that has no pipes."""

    def __init__(
        self,
        arguments: Sequence[str],
        env: Mapping[str, str] | None = None,
        cwd: Path | str = ".",
        stdout: int = 1,
        stderr: int = 2,
        address: str = "",
    ) -> None:
        request = {"arguments": arguments, "env": dict(os.environ if env is None else env), "cwd": os.path.abspath(cwd)}
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection.connect(address or server_address())
        message = json.dumps(request).encode()
        socket.send_fds(self._connection, [len(message).to_bytes(4, "big")], [0, stdout, stderr])
        self._connection.sendall(message)
        self._answers = self._connection.makefile("r")
        self.pid = int(self._answers.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self._connection.setblocking(False)
            try:
                gone = self._connection.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                return None
            finally:
                self._connection.setblocking(True)
            assert gone, "the server has ended"
            self.wait()
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = int(self._answers.readline())
            self._answers.close()
            self._connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@functools.cache
def server_address() -> str:
    """The address of this process's server, which ends with it."""
    folder = tempfile.mkdtemp(prefix="warm")  # not in pytest's, whose path may be too long for a socket
    address = f"{folder}/socket"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    command = [sys.executable, __file__, "serve", address]
    server = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, start_new_session=True)
    while not os.path.exists(address):
        assert server.poll() is None
        time.sleep(0.02)

    def end() -> None:
        server.communicate()
        os.remove(address)
        os.rmdir(folder)

    atexit.register(end)
    return address


def run_warm(
    arguments: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path | str = "."
) -> subprocess.CompletedProcess[str]:
    """`python -m` with `arguments`, to its end: its exit status and what it printed."""
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        code = WarmProcess(arguments, env, cwd, stdout.fileno(), stderr.fileno()).wait()
        for file in (stdout, stderr):
            file.seek(0)
        return subprocess.CompletedProcess(list(arguments), code, stdout.read(), stderr.read())


# ---- The server's side


def serve(address: str) -> list[str]:
    """Forks for each command. Returns in the children, with the arguments of `python -m`."""
    import select

    import shared_fixtures  # noqa: F401
    import torch

    import training.__main__
    import training.importing.bundle  # noqa: F401

    torch.optim.Adam([torch.zeros(1)])  # the first one imports for a second
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(f"{address}.new")
    listener.listen(64)
    os.rename(f"{address}.new", address)  # whoever sees it can connect
    while 0 not in select.select([listener.fileno(), 0], [], [])[0]:  # its standard input ends with the tests
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            return _become(connection)
        connection.close()
    os._exit(0)


def _become(connection: socket.socket) -> list[str]:
    """Forks the command's process and returns in it; its parent reports its id and its exit status."""
    size, outputs, *_ = socket.recv_fds(connection, 4, 3)
    with connection.makefile("rb") as file:
        request = json.loads(file.read(int.from_bytes(size, "big")))
    child = os.fork()
    if child:
        connection.sendall(f"{child}\n".encode())
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.sendall(f"{code}\n".encode())
        os._exit(0)
    connection.close()
    for number, output in enumerate(outputs):
        os.dup2(output, number)
        os.close(output)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    for name, number in (("stdout", 1), ("stderr", 2)):  # anew: the server's may be of another kind
        buffering = 1 if name == "stderr" or "PYTHONUNBUFFERED" in os.environ else -1
        stream = os.fdopen(number, "w", buffering, encoding="utf-8", errors="backslashreplace", closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    return list(request["arguments"])


def main() -> None:
    verb, *words = sys.argv[1:]
    if verb == "-m":
        process = WarmProcess(words, address=os.environ[VARIABLE])
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda received, _: os.kill(process.pid, received))
        sys.exit(process.wait() % 256)
    module, *sys.argv[1:] = serve(*words)
    sys.modules.pop(f"{module}.__main__", None)
    sys.path.insert(0, os.getcwd())  # and the folder of the tests stays there
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)  # to take apart what was imported takes seconds, since its pages are shared with the server


if __name__ == "__main__":
    main()
