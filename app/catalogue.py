"""The bundles that are served, by language pair: found in a folder at the start, looked up by every request.

Knows neither requests nor decoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import torch

from app.errors import PairNotServed
from app.settings import Settings, SettingsError
from model.bundle import Bundle, BundleError, load_bundle


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
    """Every bundle under `settings.bundles`, on its device. Raises SettingsError and BundleError."""
    device, dtype = torch.device(_device(settings)), _dtype(settings)
    return Catalogue(load_bundle(folder, device, dtype) for folder in bundle_folders(settings.bundles))


def bundle_folders(place: Path) -> list[Path]:
    """The bundles in `place`, or `place` itself if it is one. Hidden folders are exports not finished yet."""
    if (place / "config.json").is_file():
        return [place]
    found = sorted(path for path in place.iterdir() if path.is_dir()) if place.is_dir() else []
    folders = [path for path in found if not path.name.startswith(".")]
    if not folders:
        raise BundleError(
            f"there is no bundle in {place}: train one with `python -m training run`, "
            "or name another folder in INTERLINEAR_BUNDLES"
        )
    return folders


def _device(settings: Settings) -> str:
    has_gpu = torch.cuda.is_available()
    if settings.device == "cuda" and not has_gpu:
        raise SettingsError("INTERLINEAR_DEVICE=cuda: PyTorch finds no GPU here")
    return "cuda" if has_gpu and settings.device != "cpu" else "cpu"


def _dtype(settings: Settings) -> torch.dtype:
    half = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(settings.precision)
    if half and _device(settings) == "cpu":
        raise SettingsError(f"INTERLINEAR_PRECISION={settings.precision} needs a GPU; on a CPU, use float32")
    return half or torch.float32
