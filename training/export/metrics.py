"""Measures a bundle through the service before it is written to its place, from a temporary copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from model.backends import prepare
from model.bundle_weights import LoadedBundle, load_bundle
from model.quality import QualityModel
from training.corpora.text_file import CorpusError
from training.evaluation.calibration import fit_quality
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


def fit_as_served(
    write: Callable[[Path], None],
    fitted_on: Sequence[TestSet],
    measured_on: Sequence[TestSet],
    device: torch.device,
    languages: Pair | None = None,
    say: Callable[[str], None] = print,
    prior: QualityModel | None = None,
) -> dict[str, Any]:
    """The record's `quality`: estimates fitted on and measured on sets that the bundle was not trained on, at the
    precision that serves; see `training.evaluation.calibration`. Empty, with a reason, if there are too few pairs.

    `prior`: the estimates of the bundle that was fine-tuned.
    """
    with _written(write, device, languages) as bundle:
        try:
            entry, measured = fit_quality(prepare(bundle.model, "auto"), bundle, fitted_on, measured_on, prior)
        except CorpusError as error:
            say(f"warning: the bundle will not estimate the quality of its translations: {error}")
            return {}
        for calibration in measured:
            say(str(calibration))
        return {"quality": {bundle.direction.pair: entry}}


@contextmanager
def _written(write: Callable[[Path], None], device: torch.device, languages: Pair | None) -> Iterator[LoadedBundle]:
    with TemporaryDirectory(prefix="interlinear-") as place:
        write(Path(place, "bundle"))
        bundle = load_bundle(Path(place, "bundle"), device)
        yield bundle.in_direction(*languages) if languages else bundle
