"""The trainer's verbs of the command `interlinear`: each becomes `python -m training`, of which nothing is imported."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from typing import NamedTuple

import typer

from app.cli.exit_codes import CANNOT_SERVE


class Verb(NamedTuple):
    name: str
    """What `python -m training` calls it."""
    help: str


TRAINER = {
    "train": Verb("run", "Makes a bundle from a file of sentence pairs, or adapts one, in one go."),
    "prepare": Verb("prepare", "Makes token ids, a vocabulary and a development set from sentence pairs."),
    "train-step": Verb("train", "Trains a model on prepared data."),
    "export": Verb("export", "Makes a bundle from a trained model, or a CTranslate2 model from a bundle."),
    "evaluate": Verb("evaluate", "Measures BLEU and chrF of a bundle, as the service translates."),
    "distil": Verb("translate", "Translates one side of a file with a bundle, as pairs to train on."),
    "toy": Verb("toy", "Learns to drop the first number of a sequence, in a minute, without any files."),
    "d2l": Verb("d2l", 'Redoes the exercise of the textbook "Dive into Deep Learning".'),
}


def missing(requirements: Iterable[str], extra: str) -> list[str]:
    """The packages of `extra` that are not installed; `requirements` as `importlib.metadata.requires` has them."""
    found = []
    for requirement in requirements:
        if re.search(rf"extra == ['\"]{extra}['\"]", requirement):
            name = re.split(r"[^\w.-]", requirement)[0]
            try:
                version(name)
            except PackageNotFoundError:
                found.append(name)
    return found


def trainer_missing() -> list[str]:
    """What keeps the trainer from starting, by package; nothing if it is there."""
    if find_spec("training") is None:
        return ["training"]
    try:
        return missing(requires("interlinear") or (), "train")
    except PackageNotFoundError:  # a checkout that is not installed
        return []


def starts(verb: Verb) -> Callable[[typer.Context], None]:
    """A command that runs `python -m training` with this `verb` and the arguments given."""

    def start(context: typer.Context) -> None:
        if absent := trainer_missing():
            print(
                f"interlinear: {context.info_name} needs the extra `train`, of which {', '.join(absent)} is missing: "
                "pip install 'interlinear[train]', or '.[train]' in a checkout",
                file=sys.stderr,
            )
            raise typer.Exit(CANNOT_SERVE)
        # -P: a file or folder called `training` where the user is must not be taken for the trainer.
        command = [sys.executable, "-P", "-m", "training", verb.name, *context.args]
        if sys.platform == "win32":
            raise typer.Exit(subprocess.call(command))
        os.execv(command[0], command)  # this process becomes the trainer's: signals and exit codes are its own

    return start


def add_training_verbs(cli: typer.Typer) -> None:
    """Gives `cli` a command for each verb of the trainer."""
    for name, verb in TRAINER.items():
        cli.command(
            name,
            help=verb.help,
            rich_help_panel="Training",
            add_help_option=False,  # `--help` too is the trainer's to answer
            context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        )(starts(verb))
