"""The trainer's commands in `interlinear`: each executes `python -m training`, without importing it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

import typer

from app.cli.exit_codes import CANNOT_SERVE
from app.services.trainer import importer_command, missing_for_importer, missing_for_trainer, trainer_command


class Verb(NamedTuple):
    name: str
    """The command's name in `python -m training`."""
    help: str
    """The first line of its help there."""


TRAINER = {
    "Get a model": {
        "train": Verb("run", "Train or adapt a bundle from sentence pairs, in one command."),
        "import": Verb("import", "Make a bundle of a published model, such as firefox:en-fr."),
        "adapt": Verb("adapt", "Adapt a bundle in its place to corrections of its users."),
    },
    "Train step by step": {
        "prepare": Verb("prepare", "Clean sentence pairs and convert them to token ids."),
        "train-step": Verb("train", "Train a model on prepared data."),
        "export": Verb("export", "Export a run as a bundle, or a bundle for another program."),
        "evaluate": Verb("evaluate", "Measure BLEU and chrF of a bundle, as the service translates."),
        "calibrate": Verb("calibrate", "Fit a bundle's estimates of how good its translations are."),
        "align": Verb("align", "Teach a bundle which word translates which, to place tags."),
        "distil": Verb("translate", "Translate one side of a file, to make training pairs."),
        "sentences": Verb("sentences", "Write the whole sentences of running text, each once."),
        "pair": Verb("pair", "Write the sentence pairs of texts that have the same ids."),
        "pack": Verb("pack", "Pack prepared data or a run into parts that travel."),
        "unpack": Verb("unpack", "Make prepared data or a run again from packed parts."),
    },
    "Learn how it works": {
        "toy": Verb("toy", "Learn to drop the first number of a sequence, in a minute."),
        "d2l": Verb("d2l", 'Redo the exercise of the textbook "Dive into Deep Learning".'),
    },
}
"""The commands by group, as in `python -m training --help`."""


def command_of(verb: Verb) -> Callable[[typer.Context], None]:
    """A command that runs `python -m training` with this `verb` and its arguments."""

    def run_trainer(context: typer.Context) -> None:
        missing, command = missing_for_trainer(), [*trainer_command(), verb.name]
        if verb.name == "import":  # needs no package but the service's, and a part of the trainer
            missing, command = missing_for_importer(), importer_command()
        if missing:
            print(
                f"interlinear: {context.info_name} needs the extra `train`, of which {', '.join(missing)} is missing: "
                "pip install 'interlinear[train]', or '.[train]' in a checkout",
                file=sys.stderr,
            )
            raise typer.Exit(CANNOT_SERVE)
        command += context.args
        if sys.platform == "win32":
            raise typer.Exit(subprocess.call(command))
        os.execv(command[0], command)  # replaces this process, so that signals and exit codes are the trainer's

    return run_trainer


def add_training_verbs(cli: typer.Typer) -> None:
    """Adds a command to `cli` for each command of the trainer."""
    for group, verbs in TRAINER.items():
        for name, verb in verbs.items():
            cli.command(
                name,
                help=verb.help,
                rich_help_panel=group,
                add_help_option=False,  # the trainer answers `--help` itself
                context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
            )(command_of(verb))
