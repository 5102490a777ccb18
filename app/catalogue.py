"""The bundles that are served, by language pair: found in a folder at the start, looked up by every request.

Knows neither requests nor decoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import torch

from app.cores import usable_cores
from app.errors import PairNotServed
from app.link import Order
from app.settings import Settings, SettingsError
from model.bundle import Bundle, BundleError, load_bundle
from model.precision import PRECISIONS


class Catalogue:
    """Bundles, one a language pair. Raises BundleError if two are for the same, or if there is none."""

    def __init__(self, bundles: Iterable[Bundle]) -> None:
        self._bundles: dict[tuple[str, str], Bundle] = {}
        for bundle in bundles:
            other = self._bundles.setdefault((bundle.source, bundle.target), bundle)
            if other is not bundle:
                raise BundleError(f"{other.folder} and {bundle.folder} both translate {bundle.pair}; keep one of them")

    def __iter__(self) -> Iterator[Bundle]:
        return iter(self._bundles.values())

    def find(self, source: str, target: str) -> Bundle:
        """The bundle that translates from `source` to `target`. Raises PairNotServed."""
        if bundle := self._bundles.get((source, target)):
            return bundle
        served = ", ".join(bundle.pair for bundle in self)
        raise PairNotServed(f"No bundle translates from {source} to {target}. Served: {served}.")


def load_catalogue(settings: Settings) -> Catalogue:
    """Every bundle under `settings.bundles`, verified, without its weights: those are the workers'.

    Raises BundleError.
    """
    nowhere = torch.device("meta")
    return Catalogue(load_bundle(folder, nowhere) for folder in bundle_folders(settings.bundles))


def bundle_folders(place: Path) -> list[Path]:
    """The bundles in `place`, or `place` itself if it is one.

    Hidden folders are exports not finished yet, and lost+found is in the root of every ext4 volume. Raises BundleError.
    """
    try:
        if (place / "config.json").is_file():
            return [place]
        found = sorted(path for path in place.iterdir() if path.is_dir()) if place.is_dir() else []
    except OSError as error:
        raise BundleError(f"{place} cannot be read ({error.strerror})") from None
    folders = [path for path in found if not path.name.startswith(".") and path.name != "lost+found"]
    if not folders:
        raise BundleError(
            f"there is no bundle in {place}: train one with `python -m training run`, "
            "or name another folder in INTERLINEAR_BUNDLES"
        )
    return folders


def worker_order(settings: Settings, bundles: Catalogue) -> Order:
    """What every worker loads. Raises SettingsError."""
    device = device_of(settings)
    offered = PRECISIONS[device]
    if settings.precision not in ("auto", *offered):
        raise SettingsError(f"INTERLINEAR_PRECISION={settings.precision}: on {device} there are {', '.join(offered)}")
    folders = [(str(bundle.folder.resolve()), bundle.name) for bundle in bundles]
    return Order(folders, device, settings.precision, threads=1 if device == "cpu" else 0, rows=0)


def worker_count(settings: Settings) -> int:
    """One worker on a GPU; on a CPU, where two of one thread beat one of two, one a core that we may use."""
    return settings.workers or (1 if device_of(settings) == "cuda" else usable_cores())


def device_of(settings: Settings) -> str:
    """Where workers compute: "cpu" or "cuda". Raises SettingsError."""
    has_gpu = torch.cuda.is_available()
    if settings.device == "cuda" and not has_gpu:
        raise SettingsError("INTERLINEAR_DEVICE=cuda: PyTorch finds no GPU here")
    return "cuda" if has_gpu and settings.device != "cpu" else "cpu"
