"""The trainer, which this package never imports: whether it is installed, and how it is started as a process."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

NICENESS = 19
"""The trainer's: it gets the processor time that nobody else wants, so that requests do not wait for it."""
_MAX_LINE_BYTES = 1 << 20


class TrainerFailed(Exception):
    """The trainer ended with an error; the message is its last line."""


def missing_packages(requirements: Iterable[str], extra: str) -> list[str]:
    """The packages of `extra` that are not installed; `requirements` is in the format of
    `importlib.metadata.requires`."""
    found = []
    for requirement in requirements:
        if re.search(rf"extra == ['\"]{extra}['\"]", requirement):
            name = re.split(r"[^\w.-]", requirement)[0]
            try:
                version(name)
            except PackageNotFoundError:
                found.append(name)
    return found


def missing_for_trainer() -> list[str]:
    """The missing packages that keep the trainer from starting."""
    if not _has_module("__main__.py"):  # the container has only what imports published models
        return ["training"]
    try:
        return missing_packages(requires("interlinear") or (), "train")
    except PackageNotFoundError:  # a checkout that was not installed
        return []


def missing_for_importer() -> list[str]:
    """The missing packages that keep the import of published models from starting."""
    return [] if _has_module("importing/__main__.py") else ["training"]


def _has_module(path: str) -> bool:
    found = find_spec("training")
    return found is not None and found.origin is not None and (Path(found.origin).parent / path).exists()


def trainer_command() -> list[str]:
    """The beginning of the command."""
    # -P: a file or folder called `training` in the current directory must not be mistaken for the trainer.
    return [sys.executable, "-P", "-m", "training"]


def importer_command() -> list[str]:
    """The beginning of the command that imports published models, which needs no package but the service's."""
    return [sys.executable, "-P", "-m", "training.importing"]


async def run_trainer(
    command: Sequence[str],
    folder: Path,
    say: Callable[[str], None],
    memory_bytes: int | None = None,
    environ: Mapping[str, str] | None = None,
) -> None:
    """Runs `command` in `folder` at low priority, and passes each line that it prints to `say`.

    `memory_bytes`: how much it may allocate. `environ`: variables beside those of this process. Kills the process, and
    those that it has started, when the caller is cancelled; its standard input ends with this process. Raises
    TrainerFailed and OSError.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=folder,
        env={**os.environ, **(environ or {}), "PYTHONPATH": _search_path(), "PYTHONUNBUFFERED": "1"},
        start_new_session=True,  # to be killed as a group; uvloop knows no `process_group`
        limit=_MAX_LINE_BYTES,
    )
    last = ""
    try:
        _lower_priority(process.pid)
        if memory_bytes and sys.platform == "linux":
            with suppress(OSError, ValueError):  # it has ended, or its own limit is lower
                resource.prlimit(process.pid, resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
        assert process.stdout
        async for raw in process.stdout:
            if line := raw.decode("utf-8", "replace").rstrip():
                last = line
                say(line)
        code = await process.wait()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    if code:
        raise TrainerFailed(last.removeprefix("error: ") or f"The trainer ended with the code {code}.")


def _lower_priority(process: int) -> None:
    """Makes the leader of a session yield to all others, before it starts threads and processes."""
    with suppress(OSError):  # it has ended
        os.setpriority(os.PRIO_PROCESS, process, NICENESS)
    with suppress(OSError):  # where Linux groups processes by session, niceness counts only within one (man 7 sched)
        Path(f"/proc/{process}/autogroup").write_text(str(NICENESS), encoding="ascii")
    with suppress(OSError):  # where memory runs out, the kernel ends this process before those that serve
        Path(f"/proc/{process}/oom_score_adj").write_text("1000", encoding="ascii")


def _search_path() -> str:
    """PYTHONPATH with which another folder's process finds the trainer that belongs to this process."""
    found = find_spec("training")
    own = [str(Path(found.origin).parent.parent)] if found and found.origin else []
    return os.pathsep.join(filter(None, [*own, os.environ.get("PYTHONPATH")]))
