"""How the running command was started, and the commands that it tells people to run next."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path


def processes_started() -> int:
    """The number of processes that torchrun started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def python_command() -> str:
    """The running Python as a shell command, whose environment need not be on the path."""
    python = Path(sys.executable)
    if shutil.which("python") == sys.executable:
        return "python"
    return shlex.quote(str(python.relative_to(Path.cwd()) if python.is_relative_to(Path.cwd()) else python))


def current_command(module: str = "training") -> str:
    """The running command, `python -m` and `module`, as a shell command."""
    count = processes_started()
    launcher = python_command() if count == 1 else f"torchrun --standalone --nproc-per-node {count}"
    return f"{launcher} -m {module} {shlex.join(sys.argv[1:])}"


def serve_command(bundle: Path) -> str:
    """The command that serves `bundle`."""
    return f"INTERLINEAR_BUNDLES={shlex.quote(str(bundle))} {python_command()} -m app serve"
