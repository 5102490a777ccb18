"""Lists, installs, updates and removes published models, with or without a running service."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

import typer

from app.cli.exit_codes import CANNOT_SERVE, INTERRUPTED, OK, SOME_FAILED, WRONG_USAGE
from app.cli.offline_engine import Command, CommandError, open_session, say
from app.engine.launch import WorkerProcess
from app.errors import InstallRefused, ServiceError
from app.published.catalogue import Figure, PublishedModel, load_catalogue
from app.published.folder import name_in_record
from app.published.importer import ImportFailed
from app.published.installer import POLL_S, Installer
from app.published.jobs import InstallJob
from app.runtime.metrics import Metrics
from app.services import startup
from app.settings import Settings, SettingsError, load_settings
from model.bundle import Bundle, open_bundle
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
            say(f"{text} is no published model: it begins with {', '.join(REGISTRIES)} and a colon")
            return WRONG_USAGE
        names += name.expanded()
    return _work(lambda installer: _install(installer, names, accepts_licence), knows_settings=False)


def update(directions: Sequence[str], yes: bool) -> int:
    """Replaces installed models by newer ones. `yes`: without asking."""
    return _work(lambda installer: _update(installer, directions, yes))


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
    """A row for each bundle, those that serve and those that installed ones replace."""
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
    state = f"{state}, installed as {bundle.folder.name}"
    return str(name), state, size, (bundle.record.licence or "").partition(";")[0], *_scores(_figures(bundle))


def _figures(bundle: Bundle) -> list[Figure]:
    """The published ones of an imported bundle."""
    return [Figure(**figure) for figure in bundle.config["training"]["imported"].get("published", [])]


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


logging.getLogger("app.published").propagate = False  # the commands say the same themselves


def _run(work: Callable[[Settings], int]) -> int:
    try:
        return work(load_settings())
    except ServiceError as error:
        say(error.detail)
    except (SettingsError, BundleError, CommandError, OSError) as error:
        say(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    return CANNOT_SERVE


def _work(work: Callable[[Installer], Awaitable[int]], knows_settings: bool = True) -> int:
    """Runs `work` with an installer, which may know what the settings name. Returns the exit code."""

    async def run(settings: Settings) -> int:
        settings = settings if knows_settings else settings.model_copy(update={"models": ()})
        return await work(Installer(settings, served=lambda: None, reload=_taken_by_services, metrics=Metrics()))

    return _run(lambda settings: asyncio.run(run(settings)))


async def _taken_by_services() -> None:
    """A service that runs looks at the folder every few seconds."""


async def _install(installer: Installer, names: Sequence[ModelName], accepts_licence: bool) -> int:
    """Installs models, or follows a service that is at it. Ctrl-C cancels them."""
    others = {job.id for job in installer.jobs() if not job.has_ended}
    jobs = [installer.add(name, accepts_licence) for name in names]
    installer.start(asks_for_wanted=False)
    try:
        with _progress() as show:
            results = [await _followed(installer, job, show) for job in jobs]
    except BaseException:
        for job in jobs:
            if job.id not in others:
                with contextlib.suppress(ServiceError):
                    installer.cancel(job.id)
        raise
    finally:
        await installer.stop()
        _forget_unfinished(installer, [job for job in jobs if job.id not in others])
    return OK if all(results) else SOME_FAILED


def _forget_unfinished(installer: Installer, jobs: Sequence[InstallJob]) -> None:
    """Leaves no job to a later start of a service, unless one is at work that ends it itself."""
    folder = installer.folder
    with folder.lock() as is_held:
        for job in jobs:
            if is_held and (found := folder.job(job.id)) and found.state != "done":
                folder.forget(found)
        if is_held:
            folder.clean()


async def _followed(installer: Installer, job: InstallJob, show: Callable[[InstallJob], None]) -> bool:
    """Whether the model is installed in the end; a failure that a service would try again is one here."""
    while True:
        job = installer.job(job.id)
        show(job)
        if job.has_ended or job.state == "waiting":
            break
        await asyncio.sleep(POLL_S)
    if job.state == "done":
        print(f"installed {job.name or job.model}, licence {job.licence}, in {installer.folder.path}")
        return True
    say(f"{job.model}: {job.error or job.state}")
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
                say(f"{job.model}: {job.state}")

        yield show


# ---- Updates


async def _update(installer: Installer, directions: Sequence[str], yes: bool) -> int:
    """Replaces installed models by newer ones, each after a comparison."""
    folder = installer.folder
    results = []
    with folder.lock() as is_held:
        if not is_held:
            raise InstallRefused("A model is being installed: wait until that ends, or cancel it.")
        for direction in directions or [place.name for place in folder.installed()]:
            place, name = installer.installed(direction)
            try:
                made = await installer.newer(direction, lambda event: None)
                if made is None:
                    print(f"{direction}: {name} is what the registry has")
                elif await _agrees(open_bundle(place), open_bundle(made), yes):
                    folder.put_in_place(made)
                    print(f"{direction}: replaced in {folder.path}")
                else:
                    print(f"{direction}: left as it was")
                results.append(True)
            except ImportFailed as failure:
                say(f"{direction}: {failure}")
                results.append(False)
            finally:
                folder.clean()
    if not results:
        print("no model is installed")
    return OK if all(results) else SOME_FAILED


async def _agrees(old: Bundle, new: Bundle, yes: bool) -> bool:
    """Shows what the new one does with the old one's samples, and asks whether to take it."""
    texts = [str(sample["source"]) for sample in old.config["samples"]]
    before, after = [await _translations(bundle, texts) for bundle in (old, new)]
    print(f"{old.pair}: {name_in_record(old.config)} has newer weights, {old.name} -> {new.name}")
    for label, bundle in (("now", old), ("newer", new)):
        bleu, comet, dataset = _scores(_figures(bundle))
        print(f"  {label:<6} BLEU {bleu or 'not published'}, COMET-22 {comet or 'not published'} {dataset}".rstrip())
    for text, one, other in zip(texts, before, after, strict=True):
        if one != other:
            print(f"  {text}\n    now    {one}\n    newer  {other}")
    alike = sum(one == other for one, other in zip(before, after, strict=True))
    print(f"  {alike} of its {len(texts)} samples are translated alike")
    return yes or (sys.stdin.isatty() and typer.confirm("Take the newer weights?"))


async def _translations(bundle: Bundle, texts: Sequence[str]) -> list[str]:
    """How the service would translate `texts`, sentences in the source language of one of its directions."""
    source, target = next(iter(bundle.directions))
    command = Command(source, target, bundles=str(bundle.folder), workers=1, quiet=True)
    async with open_session(command, WorkerProcess) as session:
        return [done.text or "" for done in await session.translate(texts)]
