"""The trainer's commands in `interlinear`: each executes `python -m training`, without importing it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

import typer

from app.cli.exit_codes import CANNOT_SERVE
from app.services.trainer import missing_for_trainer, trainer_command


class Verb(NamedTuple):
    name: str
    """The command's name in `python -m training`."""
    help: str


TRAINER = {
    "train": Verb("run", "Trains a bundle from sentence pairs, or adapts one, in a single command."),
    "prepare": Verb("prepare", "Prepares sentence pairs for training: vocabulary, token ids, development set."),
    "train-step": Verb("train", "Trains a model on prepared data."),
    "pack": Verb("pack", "Packs prepared data or a run into parts that travel."),
    "unpack": Verb("unpack", "Makes prepared data or a run again from such parts."),
    "export": Verb("export", "Exports a trained model as a bundle, or a bundle as a CTranslate2 model."),
    "import": Verb("import", "Makes a bundle of a published model, downloaded or on disk: firefox:en-fr, opus:en-fr."),
    "evaluate": Verb("evaluate", "Measures BLEU and chrF of a bundle, as the service translates."),
    "adapt": Verb("adapt", "Adapts a bundle in its place to the corrections of a translation memory."),
    "calibrate": Verb("calibrate", "Fits a bundle's estimates of how good its translations are."),
    "distil": Verb("translate", "Translates one side of a file with a bundle, to make training pairs."),
    "toy": Verb("toy", "Learns to drop the first number of a sequence, in a minute, without any files."),
    "d2l": Verb("d2l", 'Redoes the exercise of the textbook "Dive into Deep Learning".'),
}


def command_of(verb: Verb) -> Callable[[typer.Context], None]:
    """A command that runs `python -m training` with this `verb` and its arguments."""

    def run_trainer(context: typer.Context) -> None:
        if missing := missing_for_trainer():
            print(
                f"interlinear: {context.info_name} needs the extra `train`, of which {', '.join(missing)} is missing: "
                "pip install 'interlinear[train]', or '.[train]' in a checkout",
                file=sys.stderr,
            )
            raise typer.Exit(CANNOT_SERVE)
        command = [*trainer_command(), verb.name, *context.args]
        if sys.platform == "win32":
            raise typer.Exit(subprocess.call(command))
        os.execv(command[0], command)  # replaces this process, so that signals and exit codes are the trainer's

    return run_trainer


def add_training_verbs(cli: typer.Typer) -> None:
    """Adds a command to `cli` for each command of the trainer."""
    for name, verb in TRAINER.items():
        cli.command(
            name,
            help=verb.help,
            rich_help_panel="Training",
            add_help_option=False,  # the trainer answers `--help` itself
            context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        )(command_of(verb))
