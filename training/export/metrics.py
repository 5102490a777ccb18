"""The figures of a bundle before it is in its place: as the service answers, from a copy of it.

Knows how a copy is made and measured; what is written, and where, is `training.export.bundle`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from model.backends import prepare
from model.bundle_weights import load_bundle
from training.evaluation.evaluate import Result, TestSet, evaluate_served


def measured_as_served(write: Callable[[Path], None], tests: Sequence[TestSet], device: torch.device) -> list[Result]:
    """The results of `tests` on the service's default settings, from the bundle that `write` puts into a folder.

    Raises NotServed if the service does not serve it, such as where its samples come out otherwise.
    """
    with TemporaryDirectory(prefix="interlinear-") as place:
        write(Path(place, "bundle"))
        bundle = load_bundle(Path(place, "bundle"), device)
        return evaluate_served(bundle, tests, prepare(bundle.model, "auto").precision, device.type)
