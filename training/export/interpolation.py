"""Chooses the weights of a fine-tuned bundle, interpolated between the initial bundle's and the fine-tuned ones.

`training.export.tradeoff` compares gain and loss at each point.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.atomic_files import write_atomically
from model.transformer import AlignmentHead, Transformer
from training.align.head import head_weights
from training.evaluation.evaluate import TestSet, evaluate_set
from training.export.run_folder import INITIAL_WEIGHTS, TrainedRun, interpolated
from training.export.tradeoff import ACCEPTED, Point, explore
from training.optim.checkpoint import load_weights, serialised
from training.optim.trainer import TrainingError

WEIGHTS, CHOICE = "adapted.safetensors", "adapted.json"
"""Files of a run folder: the chosen weights, and their description."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Baseline:
    """The bundle that a run fine-tunes: its weights, its BLEU by set, and the `general` sets that measure losses.

    `accepted`: BLEU that may be lost on these; `accepted_own`: BLEU that the fine-tuned weights may lose on the
    development set and still ship. `blend`: the only point to measure; None to search. `alignment`: its alignment
    head, if it has one.
    """

    weights: Mapping[str, Tensor]
    bleu: Mapping[str, float]
    general: Sequence[TestSet]
    accepted_own: float
    accepted: float = ACCEPTED
    blend: float | None = None
    alignment: AlignmentHead | None = None


def choose_interpolation(
    run: TrainedRun,
    learnt: tuple[str, Mapping[str, Tensor]],
    baseline: Baseline,
    dev: TestSet,
    dtype: str,
    device: torch.device,
    say: Say,
) -> tuple[str, Transformer, dict[str, Any]]:
    """Chooses the weights that ship, and saves them in the run's folder.

    Returns their description, their model, and the record of the choice for config.json. Raises TrainingError if every
    point loses more on general sets than accepted.
    """

    def bleu(model: Transformer, test: TestSet) -> float:
        how = run.tokenizers, run.limits, run.summary.target
        return evaluate_set(model, *how, test, direction=run.direction).scores[0].score

    def at(share: float) -> tuple[str, dict[str, Tensor]]:
        return next(interpolated([(learnt[0], dict(learnt[1]))], baseline.weights, share))

    def measured(share: float) -> Point:
        model = run.model(at(share)[1], dtype, device)
        point = Point(share, bleu(model, dev), {test.name: bleu(model, test) for test in baseline.general})
        elsewhere = ", ".join(f"{score:.2f} on {name}" for name, score in point.elsewhere.items())
        say(f"blend {share:g}: BLEU {point.own:.2f} on the development set, {elsewhere}")
        return point

    before = Point(0.0, baseline.bleu[dev.name], {test.name: baseline.bleu[test.name] for test in baseline.general})
    found = explore(before, measured, baseline.accepted, baseline.blend)
    say(f"what is gained and lost on the way is drawn in {found.plot(run.folder)}")
    best = found.best
    if best is None:
        raise found.refusal()
    what, weights = learnt if best.share == 1 else at(best.share)
    advice = found.advice(best)
    if (cost := before.own - best.own) > baseline.accepted_own:
        what, weights, best = INITIAL_WEIGHTS, baseline.weights, before
        advice = (
            f"what was learnt costs {cost:.2f} BLEU on the development set: the bundle has the weights that the run "
            "began with (`run --init` with --accept-loss ships what was learnt)"
        )
        say(f"warning: {advice}")
    record = {**found.record(), "blend": best.share, "advice": advice}
    _save_choice(run.folder, what, {**weights, **head_weights(baseline.alignment)}, record)
    return what, run.model(weights, dtype, device), record


def _save_choice(folder: Path, what: str, weights: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
    (folder / CHOICE).unlink(missing_ok=True)
    write_atomically(folder / WEIGHTS, serialised({name: weight.cpu() for name, weight in weights.items()}))
    write_atomically(folder / CHOICE, (json.dumps({"weights": what, **record}, indent=2) + "\n").encode())


def load_choice(folder: Path) -> tuple[str, dict[str, Tensor], dict[str, Any]]:
    """The choice that `choose_interpolation` saved. Raises TrainingError if it has not saved one."""
    if not (folder / CHOICE).exists():
        raise TrainingError(
            f"{folder} adapts a bundle, and `run` has not chosen its weights yet: run it again to finish"
        )
    record = dict(json.loads((folder / CHOICE).read_text(encoding="utf-8")))
    return str(record.pop("weights")), load_weights(folder / WEIGHTS), record
