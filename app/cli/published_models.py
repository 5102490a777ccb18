"""Lists, installs, updates and removes published models, with or without a running service."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

from app.cli.exit_codes import CANNOT_SERVE, INTERRUPTED, OK, SOME_FAILED, WRONG_USAGE
from app.errors import ServiceError
from app.published.catalogue import Figure, PublishedModel, load_catalogue
from app.published.folder import name_in_record
from app.published.installer import POLL_S, Installer
from app.published.jobs import InstallJob
from app.runtime.metrics import Metrics
from app.services import startup
from app.settings import Settings, SettingsError, load_settings
from model.bundle import Bundle
from model.bundle_files import WEIGHTS, BundleError
from model.published import REGISTRIES, ModelName, parse_name

HEADINGS = ("model", "state", "MB", "licence", "BLEU", "COMET-22", "measured on")


def list_models(wanted: Sequence[str], everything: bool) -> int:
    """Prints the models of the languages or pairs that are `wanted`. Returns the exit code, as all of these do."""

    def work(settings: Settings) -> int:
        rows = list(_served_rows(settings, wanted))
        if wanted or everything:
            rows += _available_rows({row[0] for row in rows}, wanted, everything)
        widths = [max(len(row[column]) for row in (HEADINGS, *rows)) for column in range(len(HEADINGS))]
        for row in (HEADINGS, *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        if not (wanted or everything):
            print(
                f"{len(load_catalogue().all)} more are published; `interlinear models list es` lists those of Spanish"
            )
        return OK

    return _run(work)


def add(texts: Sequence[str], accepts_licence: bool) -> int:
    """Installs models, or follows a service that does."""
    names = list[ModelName]()
    for text in texts:
        if (name := parse_name(text)) is None:
            _say(f"{text} is no published model: it begins with {', '.join(REGISTRIES)} and a colon")
            return WRONG_USAGE
        names += name.expanded()
    return _work(lambda installer: _install(installer, names, accepts_licence))


def remove(directions: Sequence[str]) -> int:
    """Removes installed models."""

    async def work(installer: Installer) -> int:
        for direction in directions:
            await installer.remove(direction)
            print(f"removed {direction}")
        return OK

    return _work(work)


# ---- Lists


def _served_rows(settings: Settings, wanted: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """A row for each bundle, those that serve and those that installed ones took the place of."""
    catalogue = startup.load_catalogue(settings)
    for bundle in catalogue:
        if _concerns(wanted, *bundle.directions.sides):
            yield _bundle_row(bundle, "served")
    for bundle, new in catalogue.replaced:
        if _concerns(wanted, bundle.source, bundle.target):
            yield _bundle_row(bundle, f"replaced by {name_in_record(new.config) or new.folder}")


def _bundle_row(bundle: Bundle, state: str) -> tuple[str, ...]:
    name = name_in_record(bundle.config)
    size = f"{(bundle.folder / WEIGHTS).stat().st_size / 1e6:.1f}"
    if name is None:
        licence = (bundle.record.licence or "").partition(",")[0]
        return bundle.pair, f"{state}, from {bundle.folder}", size, licence, "", "", ""
    published = bundle.config["training"]["imported"].get("published", [])
    figures = [Figure(**figure) for figure in published]
    return (
        str(name),
        f"{state}, installed as {bundle.folder.name}",
        size,
        bundle.record.licence or "",
        *_scores(figures),
    )


def _available_rows(known: Iterable[str], wanted: Sequence[str], everything: bool) -> Iterator[tuple[str, ...]]:
    for model in load_catalogue().all:
        is_shown = (everything or model.is_released) and str(model.name) not in known
        if is_shown and _concerns(wanted, model.source, model.target):
            yield _catalogue_row(model)


def _catalogue_row(model: PublishedModel) -> tuple[str, ...]:
    size = "" if model.size is None else f"{model.size / 1e6:.1f}"
    licence = model.licence.partition(";")[0]
    return str(model.name), "available" if model.is_released else "for trying", size, licence, *_scores(model.figures)


def _scores(figures: Sequence[Figure]) -> tuple[str, str, str]:
    """BLEU and COMET-22 on the first test set."""
    sets = list(dict.fromkeys(figure.dataset for figure in figures)) or [""]
    found = {figure.metric: figure.score for figure in figures if figure.dataset == sets[0]}
    bleu, comet = found.get("BLEU"), found.get("COMET-22")
    return "" if bleu is None else f"{bleu:.1f}", "" if comet is None else f"{comet:.4f}", sets[0]


def _concerns(wanted: Sequence[str], source: str, target: str) -> bool:
    """Whether a pair is, or has, one of the languages or pairs that are `wanted`; all are if none is."""
    return not wanted or any(text in (source, target, f"{source}-{target}") for text in wanted)


# ---- Work


def _run(work: Callable[[Settings], int]) -> int:
    try:
        return work(load_settings())
    except ServiceError as error:
        _say(error.detail)
    except (SettingsError, BundleError, OSError) as error:
        _say(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    return CANNOT_SERVE


def _work(work: Callable[[Installer], Awaitable[int]]) -> int:
    """Runs `work` with an installer of what it asks for alone."""

    async def run(settings: Settings) -> int:
        settings = settings.model_copy(update={"models": ()})
        return await work(Installer(settings, served=lambda: (), reload=_taken_by_services, metrics=Metrics()))

    return _run(lambda settings: asyncio.run(run(settings)))


async def _taken_by_services() -> None:
    """A service that runs looks at the folder every few seconds."""


async def _install(installer: Installer, names: Sequence[ModelName], accepts_licence: bool) -> int:
    """Installs models, or follows a service that is at it. Ctrl-C cancels them."""
    jobs = [installer.add(name, accepts_licence) for name in names]
    installer.start()
    try:
        with _progress() as show:
            results = [await _followed(installer, job, show) for job in jobs]
    except BaseException:
        for job in jobs:
            with contextlib.suppress(ServiceError):
                installer.cancel(job.id)
        raise
    finally:
        await installer.stop()
    return OK if all(results) else SOME_FAILED


async def _followed(installer: Installer, job: InstallJob, show: Callable[[InstallJob], None]) -> bool:
    """Whether the model is installed in the end; a failure that a service would try again is one here."""
    while True:
        job = installer.job(job.id)
        show(job)
        if job.has_ended or job.state == "waiting":
            break
        await asyncio.sleep(POLL_S)
    if job.state == "done":
        print(f"installed {job.name or job.model}, licence {job.licence}; a service that runs takes it within seconds")
        return True
    _say(f"{job.model}: {job.error or job.state}")
    installer.cancel(job.id)
    return False


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[InstallJob], None]]:
    """A bar on standard error, or a line for each step if that is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = [TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()]
    console, said = Console(stderr=True), set[tuple[str, str]]()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def show(job: InstallJob) -> None:
            bar.update(task, description=f"{job.model}: {job.state}", completed=job.bytes, total=job.total)
            if bar.disable and (step := (job.model, job.state)) not in said:
                said.add(step)
                _say(f"{job.model}: {job.state}")

        yield show


def _say(message: str) -> None:
    print(f"interlinear: {message}", file=sys.stderr, flush=True)


def update(directions: Sequence[str], yes: bool) -> int:
    """Replaces installed models by newer ones."""
    return OK
