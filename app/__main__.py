"""The command line: `python -m app serve`, `key`, `doctor`, `translate` and `mcp`."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import re
import signal
import socket
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.exit_codes import EXIT_CODES
from app.cli.models import cli as models_cli
from app.cli.training_verbs import add_training_verbs
from app.cli.translate_options import TranslateOptions, command_from_options, setting_option
from app.runtime.process_tuning import tune_process
from app.runtime.supervision import SUPERVISION, Supervision
from app.settings import PREFIX, Settings, describe_settings, load_settings

if TYPE_CHECKING:
    from app.bulk.command import Bulk
    from app.cli.offline_engine import Command
    from app.engine.launch import Launch
    from app.engine.registry import Catalogue
    from app.server.server import Server


cli = typer.Typer(add_completion=False, no_args_is_help=True, help="Interlinear, the translation service.")


SERVE = "Serve and translate"
"""Heading of these commands in `--help`. A docstring says what its command does, in a line, and shows an example."""
SETTINGS = re.sub(r"^(\S+) +(?=\S)", r"\1\n    ", describe_settings(), flags=re.MULTILINE)
"""Each setting's meaning on a line below it; side by side they do not fit in a terminal."""


@cli.command(rich_help_panel=SERVE, epilog=f"Settings, from the environment:\n\n\b\n{SETTINGS}")
def serve(
    host: Annotated[str | None, setting_option("host")] = None,
    port: Annotated[str | None, setting_option("port")] = None,
    bundles: Annotated[str | None, setting_option("bundles")] = None,
    device: Annotated[str | None, setting_option("device")] = None,
    precision: Annotated[str | None, setting_option("precision")] = None,
    workers: Annotated[str | None, setting_option("workers")] = None,
) -> None:
    """Serve the bundles over HTTP.

    interlinear serve --port 8000 --bundles bundles

    The page is at /, the API reference at /docs. Options override the settings in the environment.
    """
    tune_process()

    from app.runtime.json_logs import log_to_stderr
    from app.server.listener import CannotListen
    from app.services.startup import early_workers, load_catalogue, worker_config
    from app.settings import SettingsError, ignored_variables
    from model.bundle_files import BundleError

    log_to_stderr()
    for name in ignored_variables(os.environ):
        logging.warning("%s is not a setting; ignored", name)
    try:
        chosen = {"bundles": bundles, "device": device, "precision": precision, "workers": workers}
        options = {"host": host, "port": port, **chosen}
        settings = load_settings(options)
        if settings.instances > 1:
            raise typer.Exit(serve_instances(settings, load_catalogue(settings), options))
        with early_workers(settings) as launch:
            catalogue = load_catalogue(settings)
            launch.configure(worker_config(settings, catalogue))
            _run_server(settings, catalogue, launch)
    except (SettingsError, BundleError, CannotListen) as error:
        print(f"interlinear: {error}", file=sys.stderr)
        raise typer.Exit(1) from None


def _run_server(settings: Settings, catalogue: Catalogue, launch: Launch) -> None:
    """Runs the service until a signal ends it. Raises SettingsError, BundleError and CannotListen."""
    import uvicorn

    from app.main import create_app, server_options
    from app.server.listener import listen
    from app.server.server import Server

    app = create_app(settings, catalogue, launch, detect_early=True)
    sockets = listen(settings.host, settings.port)
    for line in catalogue.descriptions():
        logging.info(line)
    _run_until_signal(Server(uvicorn.Config(app, **server_options(settings)), settings.drain_ms / 1000), sockets)


def _run_until_signal(server: Server, sockets: list[socket.socket]) -> None:
    from app.runtime.watchdog import MAX_STOP_S, SIGNALS, Watchdog

    gc.freeze()  # scanning a hundred thousand objects would stall all requests
    server.watchdog = Watchdog(server.drain_s + MAX_STOP_S)
    # uvicorn finishes what it has accepted and then raises the signal again; a requested shutdown is not a failure.
    for number in SIGNALS:
        signal.signal(number, _exit)
    server.run(sockets)


def _exit(*_: object) -> None:
    """Ends the process without waiting for threads whose work nobody needs any more."""
    logging.shutdown()
    os._exit(0)


def serve_instances(
    settings: Settings,
    catalogue: Catalogue,
    options: dict[str, str | None],
    supervision: Supervision = SUPERVISION,
) -> int:
    """Serves with several front processes. Returns the exit status.

    Raises SettingsError, BundleError and CannotListen before any of them starts.
    """
    from app.api.admin_server import listen_admin
    from app.main import create_app
    from app.server.instances import InstanceConfig, Supervisor
    from app.server.listener import listen
    from app.services.startup import worker_count
    from app.settings import SettingsError

    create_app(settings.model_copy(update={"admin_port": None}), catalogue)  # raises what each instance would
    admin = None if settings.admin_port is None else listen_admin(settings.host, settings.admin_port)
    sockets = listen(settings.host, settings.port)
    for line in catalogue.descriptions():
        logging.info(line)
    try:
        folder = TemporaryDirectory(prefix="interlinear-")
    except OSError as error:
        raise SettingsError(
            f"there is no folder for sockets between instances ({error.strerror}): set TMPDIR"
        ) from None
    with folder:
        config = InstanceConfig(
            number=0,
            instances=settings.instances,
            workers=worker_count(settings, catalogue),
            options={name: value for name, value in options.items() if value is not None},
            folder=folder.name,
            sockets=[each.fileno() for each in sockets],
            admin=None if admin is None else admin.fileno(),
        )
        return asyncio.run(Supervisor(config, [*sockets, *([] if admin is None else [admin])], supervision).run())


@cli.command(hidden=True)
def instance(config: str) -> None:
    """One of the instances that `serve` starts."""
    tune_process()

    import msgspec
    import uvicorn

    from app.api.state import State
    from app.main import create_app, server_options
    from app.runtime.json_logs import log_to_stderr
    from app.runtime.peers import Peers
    from app.server.instances import InstanceConfig, InstanceServer
    from app.server.state import app_state
    from app.services.startup import load_catalogue, share_of
    from app.settings import SettingsError
    from model.bundle_files import BundleError

    given = msgspec.json.decode(config, type=InstanceConfig)
    log_to_stderr(given.number)
    try:
        settings = share_of(load_settings(given.options), given.number, given.workers)
        app = create_app(
            settings,
            load_catalogue(settings),
            detect_early=True,
            peers=Peers(Path(given.folder), given.number, given.instances),
            admin_listener=None if given.admin is None else socket.socket(fileno=given.admin),
        )
    except (SettingsError, BundleError) as error:
        print(f"interlinear: {error}", file=sys.stderr)
        raise typer.Exit(1) from None

    async def until_ready() -> None:
        state = app_state(server.lifespan.state)
        assert isinstance(state, State)
        await state.deployments.current.engine.wait_started()

    server = InstanceServer(
        uvicorn.Config(app, **server_options(settings)), settings.drain_ms / 1000, given, until_ready
    )
    _run_until_signal(server, [socket.socket(fileno=each) for each in given.sockets])


@cli.command(rich_help_panel=SERVE)
def key(name: Annotated[str, typer.Argument(help="The key's name, as the log shows it")]) -> None:
    """Create an API key, and print it once.

    interlinear key alice >> keys.txt

    Its line for INTERLINEAR_API_KEYS_FILE goes to standard output, the key to standard error.
    """
    from app.http.api_keys import new_key

    try:
        made, line = new_key(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    print(line)
    print(f"The key, which cannot be shown again: {made}", file=sys.stderr)


cli.add_typer(models_cli, name="models", rich_help_panel=SERVE)


@cli.command(rich_help_panel=SERVE)
def doctor() -> None:
    """Say what is wrong with machine, settings and bundles.

    interlinear doctor

    A line each says what to do. Exits with 1 where `serve` would not start. May run beside a service.
    """
    tune_process()

    from app.doctor.report import run
    from app.main import create_app

    raise typer.Exit(run(create_app))


@cli.command(rich_help_panel=SERVE, epilog=f"Exit codes:\n\n\b\n{EXIT_CODES}")
@command_from_options
def translate(options: TranslateOptions) -> None:
    """Translate lines, a document or a folder of texts.

    interlinear translate --source en --target fr < in.txt > out.txt

    interlinear translate --source en --target fr --file report.docx

    interlinear translate --source en --target fr --in texts --out translated

    It is as fast as the engine can be. Input that is typed, or that comes from a pipe that pauses, is answered at once.
    No service needs to run, but its settings for bundles, device, precision, workers, glossaries, translation memory,
    cache and large model (`serve --help`) apply here as well.
    """
    from app.bulk.command import Bulk
    from app.cli.translate import run

    command = options.command()
    if options.in_ is None:
        raise typer.Exit(run(command))
    assert options.out
    raise typer.Exit(_translate_bulk(command, Bulk(options.in_, options.out, options.column), options.ray))


def _translate_bulk(command: Command, bulk: Bulk, ray: str | None) -> int:
    """Translates a folder, here or on a Ray cluster. Returns the exit status."""
    from app.bulk.command import run

    if ray is None:
        return run(command, bulk)
    try:
        from app.cluster.bulk_ray import on_cluster
    except ImportError as error:
        print(f"interlinear: --ray needs Ray ({error}): pip install 'ray[data]'", file=sys.stderr)
        return 2
    return run(command, bulk, on_cluster(ray))


@cli.command(rich_help_panel=SERVE)
def mcp(
    url: Annotated[str, typer.Option(envvar=f"{PREFIX}URL", help="Address of the service")] = "http://127.0.0.1:8000",
    http: Annotated[bool, typer.Option("--http", help="Serve over HTTP on this machine, at /mcp")] = False,
    port: Annotated[int, typer.Option(help="For --http")] = 8001,
) -> None:
    """Offer a running service to assistants, as an MCP server.

    interlinear mcp --url http://127.0.0.1:8000

    An assistant starts this itself, and speaks to it over standard input and output. INTERLINEAR_KEY: an API key.
    """
    try:
        from app.cli.mcp import run
    except ImportError as error:
        print(f"interlinear: mcp needs its SDK ({error}): pip install 'interlinear[mcp]'", file=sys.stderr)
        raise typer.Exit(2) from None
    run(url, os.environ.get(f"{PREFIX}KEY", ""), port if http else None)


def with_training() -> typer.Typer:
    """The command `interlinear`: the commands of this module, and the trainer's."""
    both = typer.Typer(
        add_completion=False, no_args_is_help=True, help="Interlinear: serves and trains translation models."
    )
    both.registered_commands += cli.registered_commands
    both.registered_groups += cli.registered_groups
    add_training_verbs(both)
    return both


def interlinear() -> None:
    """Runs the command `interlinear`."""
    with_training()()


if __name__ == "__main__":
    cli()
