"""The command line: `python -m training prepare | train | evaluate | export | run | ...`, one file per command.

A command's docstring is its help: what it does, in a line, and then an example."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from io import TextIOWrapper
from typing import Any

import torch
import typer

from training.cli.adapt import adapt
from training.cli.calibrate import calibrate
from training.cli.d2l import d2l
from training.cli.evaluate import evaluate
from training.cli.export import export
from training.cli.import_model import import_model
from training.cli.pack import pack
from training.cli.prepare import prepare
from training.cli.run import run
from training.cli.toy import toy
from training.cli.train import train
from training.cli.translate import translate
from training.cli.unpack import unpack
from training.optim.distributed import processes_started
from training.optim.signals import Stopped, current_command, immediate_stop

cli = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Trains translation models on your own sentence pairs and exports them for the service.",
)


def _say(text: str) -> None:
    """Writes the line and its end together: with several processes, and stderr unbuffered, another could come
    between."""
    print(f"{text}\n", end="", file=sys.stderr)


def guarded(verb: Callable[..., None], resumable: bool = False) -> Callable[..., None]:
    """Wraps a command: errors that the user can fix end it with one line and code 1, Ctrl-C or SIGTERM with how to
    resume."""

    @functools.wraps(verb)
    def guard(*args: Any, **options: Any) -> None:
        try:
            if processes_started() > 1 and verb is not train:
                raise ValueError(f"only `train` runs in several processes: start `{verb.__name__}` without torchrun")
            with immediate_stop():
                verb(*args, **options)
        except (ValueError, OSError) as error:
            # All our errors are ValueErrors; an OSError names the file.
            _say(f"error: {error}")
            raise typer.Exit(1) from None
        except torch.OutOfMemoryError as error:
            _say(f"error: {str(error).partition('. ')[0]}: a smaller --batch-tokens needs less memory")
            raise typer.Exit(1) from None
        except KeyboardInterrupt as error:
            stopped = error if isinstance(error, Stopped) else Stopped()
            what = "saved and stopped" if stopped.saved else "stopped"
            _say(f"\n{what}; to resume:\n  {current_command()}" if resumable else f"\n{what}")
            raise typer.Exit(128 + stopped.number) from None

    return guard


GROUPS: dict[str, dict[str, Callable[..., None]]] = {
    "Get a model": {"run": run, "import": import_model, "adapt": adapt},
    "Train step by step": {
        "prepare": prepare,
        "train": train,
        "export": export,
        "evaluate": evaluate,
        "calibrate": calibrate,
        "translate": translate,
        "pack": pack,
        "unpack": unpack,
    },
    "Learn how it works": {"toy": toy, "d2l": d2l},
}
"""The commands, in the order and under the headings of `--help`."""
VERBS = {name: verb for verbs in GROUPS.values() for name, verb in verbs.items()}
RESUMABLE = {"train", "run", "adapt", "translate", "import"}
for group, verbs in GROUPS.items():
    for name, verb in verbs.items():
        cli.command(name, rich_help_panel=group)(guarded(verb, name in RESUMABLE))


def main() -> None:
    """Runs the command line in any terminal encoding: an example that it cannot display must not end hours of work."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        cli()
    except SystemExit as end:
        if processes_started() == 1:
            raise
        # A thread of Gloo that frees its last tensor while the interpreter shuts down aborts the process, and torchrun
        # then reports a finished training as failed (PyTorch's issue 190489): end without shutting it down.
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))


if __name__ == "__main__":
    main()
