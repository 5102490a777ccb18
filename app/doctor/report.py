"""The report: a line for each thing that is looked at, in order.

It starts no worker and answers no request, so that it may run beside a service. Levels: ok; warning, where the service
works less well or less safely than it could; error, where it would refuse to start.
"""

from __future__ import annotations

import os
import platform
import stat
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterator, Mapping

from app.doctor.findings import Finding, Level, error, ok, warning
from app.doctor.machine import available_memory, clock, disk, limits, processor_name
from app.engine.registry import Catalogue
from app.engine.worker import Models
from app.errors import StoreUnavailable
from app.http.api_keys import Keys
from app.published.folder import ModelsFolder
from app.published.importer import missing_importer
from app.server.listener import CannotListen, listen
from app.services.startup import (
    bundle_folders,
    checked_bundle,
    decodes_in_int8,
    device_of,
    installed_folders,
    memory_needs,
    wanted_workers,
    worker_config,
    worker_count,
)
from app.settings import PREFIX, Settings, SettingsError, ignored_variables, load_settings, without_password
from model import __version__
from model.bundle import Bundle
from model.bundle_files import BundleError
from model.int8.isa import KernelsUnavailable
from model.int8.library import instruction_set, library
from model.machine import is_loopback, usable_cores
from model.published import parse_name
from model.triton.support import missing_support

TIMEOUT_S = 2.0
Assemble = Callable[[Settings, Catalogue], object]


def examine(environ: Mapping[str, str], assemble: Assemble) -> Iterator[Finding]:
    """Yields what is found, one subject after the other. Stops where the rest depends on what is wrong.

    `assemble` is `app.main.create_app`, which knows what the service refuses.
    """
    yield ok("version", f"Interlinear {__version__}, Python {platform.python_version()}, {platform.platform()}")
    for name in ignored_variables(environ):
        yield warning("settings", f"{name} is not a setting and is ignored: look for its spelling in `serve --help`")
    try:
        settings = load_settings()
    except SettingsError as fault:
        yield error("settings", str(fault))
        return
    changed = sorted(settings.model_fields_set)
    yield ok("settings", ", ".join(f"{PREFIX}{name.upper()}" for name in changed) or "all have their defaults")
    yield from _processor(settings)
    yield from _access(settings)
    yield from limits()
    yield from clock()
    yield from disk(settings)
    yield from _port(settings)
    if settings.store:
        yield from _store(settings.store)
    yield from _published(settings)
    catalogue = yield from _bundles(settings)
    if catalogue:
        yield from _engine(settings, catalogue, assemble)


def exit_status(findings: list[Finding]) -> int:
    """0, or 1 if there is an error."""
    return int(any(finding.level is Level.ERROR for finding in findings))


# ---- The machine


def _processor(settings: Settings) -> Iterator[Finding]:
    cores = usable_cores()
    what = f"{processor_name()}, {cores} usable core{'s' * (cores > 1)}"
    try:
        device = device_of(settings)
        workers = wanted_workers(settings)
    except SettingsError as fault:
        yield error("processor", f"{what}; {fault}")
        return
    if device == "cuda":
        yield ok("processor", f"{what}, and a GPU, which decodes; {workers} worker{'s' * (workers > 1)}")
        return
    if settings.precision in ("auto", "int8"):
        try:
            what += f", int8 with {instruction_set(library(settings.isa))}"
        except KernelsUnavailable as reason:
            level = Level.WARNING if settings.isa == settings.precision == "auto" else Level.ERROR
            advice = (
                "PyTorch decodes in float32, several times slower: install a C compiler (gcc), or see docs/engine.md"
            )
            yield Finding(level, "processor", f"{what}, without int8, since {reason}: {advice}")
    else:
        what += f", {settings.precision}"
    if workers > cores and settings.instances <= cores:
        yield warning("processor", f"{workers} workers share {cores} cores: no more than one a core is faster")
    yield ok("processor", f"{what}; {workers} worker{'s' * (workers > 1)}")


# ---- Who reaches the service


def _access(settings: Settings) -> Iterator[Finding]:
    if settings.api_keys_file:
        try:
            count = len(Keys(settings.api_keys_file).all)
        except SettingsError as fault:
            yield error("keys", str(fault))
        else:
            yield ok("keys", f"{count} in {settings.api_keys_file}")
            if settings.api_keys_file.stat().st_mode & stat.S_IWOTH:
                yield warning("keys", f"everybody can add keys: chmod o-w {settings.api_keys_file}")
    elif not is_loopback(settings.host):
        yield warning("keys", f"whoever reaches {settings.host} may translate: set {PREFIX}API_KEYS_FILE, see `key`")
    else:
        yield ok("keys", "none wanted; only this machine reaches the service")
    if "*" in settings.trusted_proxies:
        yield warning(
            "proxies", f"every client can forge its address: name proxies in {PREFIX}TRUSTED_PROXIES instead of *"
        )
    has_rate = settings.rate_requests or settings.rate_characters
    if has_rate and not (settings.trusted_proxies or settings.api_keys_file) and is_loopback(settings.host):
        yield warning(
            "proxies", f"behind a proxy all clients share one rate: name the proxy in {PREFIX}TRUSTED_PROXIES"
        )


def _port(settings: Settings) -> Iterator[Finding]:
    try:
        for each in listen(settings.host, settings.port):
            each.close()
    except CannotListen as fault:
        answer = _ready(settings)
        if answer is None:
            yield error("port", str(fault))
        elif answer == 200:
            yield ok("port", f"{settings.port}: a service answers there, and is ready")
        else:
            yield error("port", f"{settings.port}: a service answers there, and is not ready ({answer}): see its log")
    else:
        yield ok("port", f"{settings.port} of {settings.host or 'every address'} is free")


def _ready(settings: Settings) -> int | None:
    """The status of GET /ready of what listens at the port; None if it does not answer as the service does."""
    host = "127.0.0.1" if settings.host in ("", "0.0.0.0", "::") else settings.host
    url = f"http://{f'[{host}]' if ':' in host else host}:{settings.port}/ready"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            return 200 if b'"models"' in answer.read() else None
    except urllib.error.HTTPError as fault:
        return fault.code
    except (OSError, ValueError):
        return None


def _store(url: str) -> Iterator[Finding]:
    shown = without_password(url)
    try:
        from app.storage.store_connection import server_time
    except ImportError:
        return  # assembling the service says so
    try:
        apart = abs(time.time() - server_time(url, TIMEOUT_S))
    except StoreUnavailable as fault:
        yield error("store", f"{shown} does not answer: {fault.__cause__}")
    else:
        yield (warning if apart > TIMEOUT_S else ok)("store", f"{shown} answers; its clock is {apart:.1f} s apart")


# ---- The bundles


def _bundles(settings: Settings) -> Generator[Finding, None, Catalogue | None]:
    """Returns the catalogue, if all bundles are right."""
    try:
        places = bundle_folders(settings.bundles, is_needed=not installed_folders(settings))
    except BundleError as fault:
        yield error("bundles", str(fault))
        return None
    opened, faults = [list[Bundle]() for _ in places], 0
    for bundles, folders in zip(opened, places, strict=True):
        for folder in folders:
            try:
                bundles.append(checked_bundle(folder))
            except BundleError as fault:
                faults += 1
                yield error("bundles", f"{fault}: export or copy it again, or take it out of the folder")
    if faults:
        return None
    for folder in installed_folders(settings):
        try:
            opened.append([checked_bundle(folder)])
        except BundleError as fault:
            yield warning("bundles", f"{fault}: it is left out; install it again")
    catalogue = Catalogue(*opened, pivot=settings.pivot)
    lengths = [len(catalogue.route(*pair)) for pair in catalogue.pairs()]
    pairs = f"{lengths.count(1)} language pairs, {lengths.count(2)} more through another language"
    yield ok("bundles", f"{sum(map(len, opened))}, checksums right; {pairs}")
    without = [bundle.name for bundle in catalogue if bundle.quality is None]
    if without:
        yield warning("bundles", f"no estimate of quality for {', '.join(without)}: `interlinear calibrate` fits one")
    return catalogue


def _published(settings: Settings) -> Iterator[Finding]:
    """The models that are installed, and those that the settings name and that are not."""
    if settings.models_folder is None:
        yield warning("models", f"there is no place for installed models: set {PREFIX}MODELS_DIR to a folder")
        return
    folder = ModelsFolder(settings.models_folder)
    missing, jobs = folder.missing(settings.models), {job.model: job for job in folder.jobs()}
    if missing and (obstacle := missing_importer()):
        yield error("models", f"{obstacle} {PREFIX}MODELS needs it")
    for name in missing:
        how = jobs[str(name)].description() if str(name) in jobs else "the service installs it once it runs"
        yield warning("models", f"{name} is not installed: {how}")
    for job in jobs.values():
        if job.error and parse_name(job.model) not in missing:
            yield warning("models", f"{job.model} {job.description()}")
    if settings.models or folder.installed():
        yield ok("models", f"{len(folder.installed())} installed in {folder.path}")


def _engine(settings: Settings, catalogue: Catalogue, assemble: Assemble) -> Iterator[Finding]:
    """What the service would do with its settings and bundles, and a worker with the models' samples."""
    try:
        assemble(settings.model_copy(update={"admin_port": None}), catalogue)
        workers = worker_count(settings, catalogue)
        models = Models(worker_config(settings, catalogue))
        models.check()
    except (SettingsError, BundleError, ValueError, OSError) as fault:
        yield error("engine", str(fault))
        return
    precisions = ", ".join(sorted(set(models.precisions.values())))
    yield ok("engine", f"all samples come out as they did on export, in {precisions}")
    yield from gpu_engine_findings(settings, catalogue, models.engines)
    if device_of(settings) == "cpu":
        yield from _memory(settings, catalogue, workers)


def gpu_engine_findings(settings: Settings, catalogue: Catalogue, engines: dict[str, str]) -> Iterator[Finding]:
    """Which engine decodes each bundle on a GPU, and why."""
    if settings.gpu_engine == "graph":
        if device_of(settings) == "cuda":
            yield ok("gpu engine", "graph, the default; triton has never run on a GPU")
        return
    if device_of(settings) == "cpu":
        yield warning("gpu engine", f"{PREFIX}GPU_ENGINE=triton has no effect, since no GPU decodes")
        return
    for bundle in catalogue:
        if engines[bundle.spec.name] == "triton":
            yield warning("gpu engine", f"triton for {bundle.name}, which has never run on a GPU")
        else:
            reason = missing_support(bundle.architecture) or "it failed its self-test, as the log says"
            yield warning("gpu engine", f"graph for {bundle.name} in place of triton: {reason}")


def _memory(settings: Settings, catalogue: Catalogue, workers: int) -> Iterator[Finding]:
    worker_bytes, shared_bytes = memory_needs(settings, catalogue)
    needed = workers * worker_bytes + shared_bytes + settings.cache_bytes
    left = available_memory()
    what = f"{workers} worker{'s' * (workers > 1)} may take {needed / 1e6:,.0f} MB with the cache"
    if left is None:
        yield ok("memory", what)
    elif left < needed:
        advice = f"set {PREFIX}WORKERS or {PREFIX}MEMORY_BYTES, or serve fewer bundles"
        yield warning("memory", f"{what}, and {left / 1e6:,.0f} MB are free: {advice}")
    else:
        yield ok("memory", f"{what}, of {left / 1e6:,.0f} MB that are free")
    if not decodes_in_int8(settings, catalogue):
        yield warning("memory", "without int8 each worker holds the weights by itself")


def run(assemble: Assemble) -> int:
    """Prints each finding as it is made. Returns the exit status."""
    findings = []
    for finding in examine(os.environ, assemble):
        print(finding, flush=True)
        findings.append(finding)
    errors, warnings = (sum(f.level is level for f in findings) for level in (Level.ERROR, Level.WARNING))
    print(f"errors: {errors}, warnings: {warnings}", file=sys.stderr)
    return exit_status(findings)
