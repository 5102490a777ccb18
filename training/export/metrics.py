"""Measures a bundle through the service before it is written to its place, from a temporary copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from model.backends import prepare
from model.bundle_weights import LoadedBundle, load_bundle
from training.evaluation.evaluate import Result, TestSet, evaluate_served
from training.evaluation.placeholders import PlaceholderResult, evaluate_placeholders

Pair = tuple[str, str]


def measure_as_served(
    write: Callable[[Path], None], tests: Sequence[TestSet], device: torch.device, languages: Pair | None = None
) -> list[Result]:
    """The results of `tests` with the service's default settings, for the bundle that `write` writes to a folder.

    `languages`: source and target, which a bundle of several directions needs. Raises NotServed if the
    service refuses it, for example because it translates a sample differently.
    """
    with _written(write, device, languages) as bundle:
        return evaluate_served(bundle, tests, prepare(bundle.model, "auto").precision, device.type)


def measure_placeholders(
    write: Callable[[Path], None], tests: Sequence[TestSet], device: torch.device, languages: Pair | None = None
) -> list[PlaceholderResult]:
    """How that bundle places placeholders, for each of `tests` that has names. Raises NotServed."""
    with _written(write, device, languages) as bundle:
        how = prepare(bundle.model, "auto").precision, device.type
        found = [evaluate_placeholders(bundle, test.name, test.pairs, *how) for test in tests]
        return [result for result in found if result]


@contextmanager
def _written(write: Callable[[Path], None], device: torch.device, languages: Pair | None) -> Iterator[LoadedBundle]:
    with TemporaryDirectory(prefix="interlinear-") as place:
        write(Path(place, "bundle"))
        bundle = load_bundle(Path(place, "bundle"), device)
        yield bundle.in_direction(*languages) if languages else bundle
