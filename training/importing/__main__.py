"""The command `import`, also without the trainer's other commands: `python -m training.importing firefox:en-fr`."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

import typer

from model.machine import use_one_blas_thread
from training.command_line import accept_any_encoding, command_from_options, guarded
from training.importing.command import import_model as run_import
from training.importing.options import ImportOptions
from training.importing.report import JsonReport, Report


@command_from_options
def import_model(options: ImportOptions) -> None:
    """Make a bundle of a published model, such as firefox:en-fr.

    interlinear import firefox:en-fr --out imported/en-fr

    interlinear import translate-en_fr-1_9.argosmodel --source en --target fr

    The model comes from a registry (firefox, opus, argos, huggingface), or is a file or folder on disk.
    """
    if options.as_json:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    report = JsonReport() if options.as_json else Report(typer.echo)
    try:
        run_import(options, report)
    except Exception as error:
        report.fail(error)
        raise


def _end_with_stdin() -> None:
    """Ends the process when its standard input ends: then the program that started it is gone."""
    with suppress(OSError):  # it was closed from the start
        while os.read(0, 1 << 16):
            pass
    os._exit(1)


def main() -> None:
    accept_any_encoding()
    use_one_blas_thread()  # its products are PyTorch's
    cli = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    cli.command("import")(guarded(import_model, resumable=True, module="training.importing"))
    cli(prog_name="python -m training.importing")


if __name__ == "__main__":
    main()
