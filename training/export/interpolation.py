"""Chooses the weights of a fine-tuned bundle: interpolated between its own and the fine-tuned ones, as far as general
quality is kept.

The gain and loss at each point are compared in `training.export.tradeoff`.
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
from model.transformer import Transformer
from training.evaluation.evaluate import TestSet, evaluate_set
from training.export.run_folder import BEGUN_WITH, Trained, blended
from training.export.tradeoff import ACCEPTED, Point, explored
from training.optim.checkpoint import load_weights, serialised
from training.optim.trainer import TrainingError

WEIGHTS, CHOICE = "adapted.safetensors", "adapted.json"
"""In a run's folder: the chosen weights, and their description."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Adapted:
    """The bundle that a run fine-tunes: its weights, its BLEU by set, and the `general` sets that measure losses.

    `accepted`: BLEU that may be lost there; `accepted_own`, on the development set, for the fine-tuned weights to ship
    instead of the bundle's. `blend`: the only point to measure; None to search.
    """

    weights: Mapping[str, Tensor]
    bleu: Mapping[str, float]
    general: Sequence[TestSet]
    accepted_own: float
    accepted: float = ACCEPTED
    blend: float | None = None


def choose_adapted(
    run: Trained,
    learnt: tuple[str, Mapping[str, Tensor]],
    adapted: Adapted,
    dev: TestSet,
    dtype: torch.dtype,
    device: torch.device,
    say: Say,
) -> tuple[str, Transformer, dict[str, Any]]:
    """Chooses what ships: its description, its model, and what config.json records of the choice; kept in the run's
    folder.

    Raises TrainingError if every point loses more elsewhere than accepted.
    """

    def bleu(model: Transformer, test: TestSet) -> float:
        return evaluate_set(model, run.tokenizer, run.limits, run.summary.target, test).scores[0].score

    def at(share: float) -> tuple[str, dict[str, Tensor]]:
        return next(blended([(learnt[0], dict(learnt[1]))], adapted.weights, share))

    def measured(share: float) -> Point:
        model = run.model(at(share)[1], dtype, device)
        point = Point(share, bleu(model, dev), {test.name: bleu(model, test) for test in adapted.general})
        elsewhere = ", ".join(f"{score:.2f} on {name}" for name, score in point.elsewhere.items())
        say(f"blend {share:g}: BLEU {point.own:.2f} on the development set, {elsewhere}")
        return point

    before = Point(0.0, adapted.bleu[dev.name], {test.name: adapted.bleu[test.name] for test in adapted.general})
    found = explored(before, measured, adapted.accepted, adapted.blend)
    say(f"what is gained and lost on the way is drawn in {found.plot(run.folder)}")
    best = found.best
    if best is None:
        raise found.refusal()
    what, weights = learnt if best.share == 1 else at(best.share)
    advice = found.advice(best)
    if (cost := before.own - best.own) > adapted.accepted_own:
        what, weights, best = BEGUN_WITH, adapted.weights, before
        advice = (
            f"what was learnt costs {cost:.2f} BLEU on the development set: the bundle has the weights that the run "
            "began with (`run --init` with --accept-loss ships what was learnt)"
        )
        say(f"warning: {advice}")
    record = {**found.record(), "blend": best.share, "advice": advice}
    _keep(run.folder, what, weights, record)
    return what, run.model(dict(weights), dtype, device), record


def _keep(folder: Path, what: str, weights: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
    (folder / CHOICE).unlink(missing_ok=True)
    write_atomically(folder / WEIGHTS, serialised({name: weight.cpu() for name, weight in weights.items()}))
    write_atomically(folder / CHOICE, (json.dumps({"weights": what, **record}, indent=2) + "\n").encode())


def chosen_before(folder: Path) -> tuple[str, dict[str, Tensor], dict[str, Any]]:
    """What `choose_adapted` saved. Raises TrainingError if it chose nothing."""
    if not (folder / CHOICE).exists():
        raise TrainingError(f"{folder} adapts a bundle, and `run` has chosen none of its weights yet: go on with that")
    record = dict(json.loads((folder / CHOICE).read_text(encoding="utf-8")))
    return str(record.pop("weights")), load_weights(folder / WEIGHTS), record
