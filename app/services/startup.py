"""Prepares a start or a reload: finds the bundles named in the settings, and decides which workers to start."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.engine.launch import EarlyWorkers
from app.engine.messages import WorkerConfig
from app.engine.registry import Catalogue
from app.runtime.memory_limit import memory_left
from app.settings import Settings, SettingsError
from model.bundle import Bundle, open_bundle
from model.bundle_files import WEIGHTS, BundleError
from model.int8.isa import KernelsUnavailable
from model.int8.library import library
from model.int8.weights import check_widths
from model.machine import PRECISIONS, has_gpu, usable_cores

log = logging.getLogger(__name__)


def load_catalogue(settings: Settings) -> Catalogue:
    """Opens and verifies every bundle in `settings.bundles`, and the installed models, which take their places; without
    the weights, which only workers load.

    Raises BundleError.
    """
    installed = list(_installed_bundles(settings))
    places = bundle_folders(settings.bundles, is_needed=not installed)
    return Catalogue(
        *(map(checked_bundle, folders) for folders in places),
        *([bundle] for bundle in installed),
        pivot=settings.pivot,
        beyond=settings.pairs_beyond,
    )


def installed_folders(settings: Settings) -> list[Path]:
    """The installed models, in the order of their names; none if their folder is missing or cannot be read."""
    try:
        return _folders_in(settings.models_folder) if settings.models_folder else []
    except BundleError:
        return []


def _installed_bundles(settings: Settings) -> Iterator[Bundle]:
    """Leaves out what is damaged: an installed model must not keep the service, and what shipped with it, down."""
    for folder in installed_folders(settings):
        try:
            yield checked_bundle(folder)
        except BundleError as fault:
            log.error("an installed model is left out: %s; install it again", fault)


def checked_bundle(folder: Path) -> Bundle:
    """Opens the bundle in `folder`. Raises BundleError, also if it has no samples to detect wrong results with."""
    bundle = open_bundle(folder)
    if not bundle.config["samples"]:
        raise BundleError(f"{folder}: config.json has no samples to check the model with: export it again")
    return bundle


def bundle_folders(places: Sequence[Path], is_needed: bool = True) -> list[list[Path]]:
    """The bundles in each of `places`, or the place itself if it is a bundle.

    Skips hidden folders, which are unfinished exports, and lost+found, which every ext4 root has. Raises
    BundleError if a place is missing or unreadable, or if one `is_needed` and no place has any.
    """
    found = [_folders_in(place) for place in places]
    if is_needed and not any(found):
        raise BundleError(f"there is no bundle in {' or '.join(map(str, places))}: {_ADVICE}")
    return found


_ADVICE = "train one with `python -m training run`, or name another folder in INTERLINEAR_BUNDLES"


def _folders_in(place: Path) -> list[Path]:
    try:
        if (place / "config.json").is_file():
            return [place]
        if not place.is_dir():
            raise BundleError(f"there is no folder {place}: {_ADVICE}")
        found = sorted(path for path in place.iterdir() if path.is_dir())
    except OSError as error:
        raise BundleError(f"{place} cannot be read ({error.strerror})") from None
    return [path for path in found if not path.name.startswith(".") and path.name != "lost+found"]


def worker_config(settings: Settings, bundles: Catalogue) -> WorkerConfig:
    """The configuration of every worker. Raises SettingsError."""
    device = device_of(settings)
    offered = PRECISIONS[device]
    if settings.precision not in ("auto", *offered):
        raise SettingsError(
            f"INTERLINEAR_PRECISION={settings.precision}: must be auto or, on {device}, one of {', '.join(offered)}"
        )
    decodes_in_int8(settings, bundles)  # compiles the kernels once, before workers that would each do so
    specs = [bundle.spec for bundle in bundles]
    return WorkerConfig(
        specs,
        device,
        settings.precision,
        threads=1 if device == "cpu" else 0,
        rows=0,
        isa=settings.isa,
        memory_bytes=settings.memory_bytes,
        gpu_engine=settings.gpu_engine,
    )


def decodes_in_int8(settings: Settings, bundles: Catalogue) -> bool:
    """Whether workers decode with the int8 kernels, which do without PyTorch. Compiles these at the first start.

    Raises SettingsError if this processor lacks the instruction set that is asked for.
    """
    if device_of(settings) != "cpu" or settings.precision not in ("auto", "int8"):
        return False
    try:
        library(settings.isa)
        for bundle in bundles:
            check_widths(bundle.architecture)
    except KernelsUnavailable as reason:
        if settings.isa != "auto":
            raise SettingsError(f"INTERLINEAR_ISA={settings.isa}: {reason}") from None
        return False
    return True


WORKER_BYTES, WORKER_BYTES_PER_WEIGHT_BYTE = 210_000_000, 2.5
"""A worker's peak memory: PyTorch, plus this much per byte of a bundle's weights while it loads them. Measured with one
bundle (244 MB) and with eight (518 MB)."""
INT8_WORKER_BYTES = 70_000_000
"""What a worker with the int8 kernels needs for itself, batches included: 22 MB when it starts, and 3 MB a bundle."""
INT8_BYTES_PER_WEIGHT_BYTE = 0.85
"""What all these workers need together per byte of weights stored in half precision: they share what is prepared."""
PREPARING_BYTES_PER_WEIGHT_BYTE = 3.5
"""What preparing takes per byte of the largest bundle's weights; one worker at a time does it, at its first start."""
FRONT_BYTES = 130_000_000
"""Memory of a front process that has just started."""
FRONT_GROWTH_BYTES = 100_000_000
"""Memory that the front process takes while serving, besides its cache: language detection, requests."""


def wanted_workers(settings: Settings) -> int:
    """One worker on a GPU; on a CPU one per usable core, since two workers with one thread beat one with two. At least
    one for each instance. Raises SettingsError."""
    workers = settings.workers or (1 if device_of(settings) == "cuda" else usable_cores())
    return max(workers, settings.instances)


def early_workers(settings: Settings) -> EarlyWorkers:
    """The workers, started before it is known what they will load. None under a container's memory limit, which decides
    how many fit once the bundles are known. Raises SettingsError."""
    return EarlyWorkers(wanted_workers(settings) if memory_left() is None else 0)


def worker_count(settings: Settings, bundles: Catalogue) -> int:
    """`wanted_workers`, or fewer on a CPU if a container's memory limit requires.

    Raises SettingsError if not even one fits, or fewer than asked for: otherwise the kernel would kill the service
    under load.
    """
    wanted = wanted_workers(settings)
    if device_of(settings) == "cuda" or (left := memory_left()) is None:
        return wanted
    worker_bytes, shared_bytes = memory_needs(settings, bundles)
    fronts_bytes = settings.instances * FRONT_GROWTH_BYTES
    if settings.instances > 1:  # none of them has started yet
        fronts_bytes += settings.instances * FRONT_BYTES
    room = left - fronts_bytes - settings.cache_bytes - shared_bytes
    fitting = max(0, room // worker_bytes)
    required = max(settings.workers or 1, settings.instances)
    if fitting < required:
        needed_bytes = required * worker_bytes
        needed, available, missing = (size // 1_000_000 for size in (needed_bytes, max(0, room), needed_bytes - room))
        fewer = f", or set INTERLINEAR_WORKERS={fitting}" if fitting >= settings.instances else ""
        raise SettingsError(
            f"too little memory: {required} worker{'s' * (required > 1)} for these bundles may take {needed:,} MB, "
            f"and the limit of this container leaves {available:,} MB; raise it by {missing:,} MB, "
            f"or serve fewer bundles{fewer}"
        )
    if fitting < wanted:
        logging.warning(
            "enough memory for only %d of %d workers; each additional one needs %d MB",
            fitting,
            wanted,
            worker_bytes // 1_000_000,
        )
    return min(wanted, fitting)


def share_of(settings: Settings, number: int, workers: int) -> Settings:
    """The settings of instance `number`, which counts from 0: its share of all the `workers`, of the cache and of the
    memory for weights. The first instance has the admin port."""
    instances = settings.instances
    return settings.model_copy(
        update={
            "instances": 1,
            "workers": workers // instances + (number < workers % instances),
            "cache_bytes": settings.cache_bytes // instances,
            "memory_bytes": settings.memory_bytes and max(1, settings.memory_bytes // instances),
            "admin_port": None if number else settings.admin_port,
        }
    )


def memory_needs(settings: Settings, bundles: Catalogue) -> tuple[int, int]:
    """The bytes that each worker on a CPU needs for itself, and those that all of them need together."""
    sizes = [(bundle.folder / WEIGHTS).stat().st_size for bundle in bundles]
    limit = math.inf if settings.memory_bytes is None else settings.memory_bytes
    if not decodes_in_int8(settings, bundles):
        loading = WORKER_BYTES_PER_WEIGHT_BYTE * max(sizes)
        return WORKER_BYTES + int(min(WORKER_BYTES_PER_WEIGHT_BYTE * sum(sizes), limit + loading)), 0
    preparing = PREPARING_BYTES_PER_WEIGHT_BYTE * max(sizes)
    return INT8_WORKER_BYTES, int(min(INT8_BYTES_PER_WEIGHT_BYTE * sum(sizes), limit) + preparing)


def device_of(settings: Settings) -> str:
    """The workers' device: "cpu" or "cuda". Raises SettingsError."""
    if settings.device == "cpu":
        return "cpu"
    if settings.device == "cuda" and not has_gpu():
        raise SettingsError("INTERLINEAR_DEVICE=cuda: PyTorch finds no GPU here")
    return "cuda" if has_gpu() else "cpu"
