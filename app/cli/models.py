"""`interlinear models list | add | remove | update`: the options; app.cli.published_models does the work."""

from __future__ import annotations

from typing import Annotated

import typer

HELP = """List, install, update and remove published models.

interlinear models list es

interlinear models add firefox:es

A service with the same folder of models (INTERLINEAR_MODELS_DIR) takes what is installed within seconds.
INTERLINEAR_MODELS names what a service installs by itself.
"""
cli = typer.Typer(no_args_is_help=True, help=HELP)


@cli.command("list")
def list_models(
    languages: Annotated[
        list[str] | None, typer.Argument(help="Only those of a language or a pair, such as es or en-es")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All languages, and models that their publishers do not use")
    ] = False,
) -> None:
    """List what is served, installed and available.

    interlinear models list es

    Without a language, only what is served and installed. Scores are as published, not measured here.
    """
    from app.cli import published_models

    raise typer.Exit(published_models.list_models(languages or [], everything))


@cli.command()
def add(
    models: Annotated[
        list[str], typer.Argument(help="Such as firefox:en-es, or firefox:es for both ways with English")
    ],
    accept_licence: Annotated[
        bool, typer.Option("--accept-licence", help="Accept a licence that forbids commercial use")
    ] = False,
) -> None:
    """Install published models. A service that runs takes each without a restart.

    interlinear models add firefox:es
    """
    from app.cli import published_models

    raise typer.Exit(published_models.add(models, accept_licence))


@cli.command()
def remove(
    directions: Annotated[list[str], typer.Argument(help="Such as en-es, as `interlinear models list` shows them")],
) -> None:
    """Remove installed models. The models that they replaced serve again.

    interlinear models remove en-es
    """
    from app.cli import published_models

    raise typer.Exit(published_models.remove(directions))


@cli.command()
def update(
    directions: Annotated[
        list[str] | None, typer.Argument(help="Such as en-es; default: all that are installed", show_default=False)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before a model is replaced")] = False,
) -> None:
    """Install newer weights of installed models, after a comparison on the bundle's own samples.

    interlinear models update en-es
    """
    from app.cli import published_models

    raise typer.Exit(published_models.update(directions or [], yes))
