"""Measures a bundle through the service before it is written to its place, from a temporary copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from model.backends import prepare
from model.bundle_weights import load_bundle
from training.evaluation.evaluate import Result, TestSet, evaluate_served


def measure_as_served(write: Callable[[Path], None], tests: Sequence[TestSet], device: torch.device) -> list[Result]:
    """The results of `tests` with the service's default settings, for the bundle that `write` writes to a folder.

    Raises NotServed if the service refuses it, for example because it translates a sample differently.
    """
    with TemporaryDirectory(prefix="interlinear-") as place:
        write(Path(place, "bundle"))
        bundle = load_bundle(Path(place, "bundle"), device)
        return evaluate_served(bundle, tests, prepare(bundle.model, "auto").precision, device.type)
