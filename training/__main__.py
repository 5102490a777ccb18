"""The command line: `python -m training prepare | train | evaluate | export | run | ...`, one file per command.

A command's docstring is its help: what it does, in a line, and then an example."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import typer

from training.cli.adapt import adapt
from training.cli.align import align
from training.cli.calibrate import calibrate
from training.cli.d2l import d2l
from training.cli.evaluate import evaluate
from training.cli.export import export
from training.cli.pack import pack
from training.cli.pair import pair
from training.cli.prepare import prepare
from training.cli.run import run
from training.cli.sentences import sentences
from training.cli.toy import toy
from training.cli.train import train
from training.cli.translate import translate
from training.cli.unpack import unpack
from training.command_line import accept_any_encoding, guarded
from training.importing.__main__ import import_model
from training.launch import processes_started

cli = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Trains translation models on your own sentence pairs and exports them for the service.",
)


GROUPS: dict[str, dict[str, Callable[..., None]]] = {
    "Get a model": {"run": run, "import": import_model, "adapt": adapt},
    "Train step by step": {
        "prepare": prepare,
        "train": train,
        "export": export,
        "evaluate": evaluate,
        "calibrate": calibrate,
        "align": align,
        "translate": translate,
        "sentences": sentences,
        "pair": pair,
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
        cli.command(name, rich_help_panel=group)(guarded(verb, name in RESUMABLE, is_parallel=verb is train))


def main() -> None:
    accept_any_encoding()
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
