"""The result of a training run: weights that may ship, and the record of how they were trained.

`training.export.bundle` measures which weights are best.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from model.atomic_files import write_atomically
from model.bundle_weights import fill, restored, stored
from model.config import ModelConfig
from model.directions import Direction
from model.hypothesis import Limits
from model.languages import ends_sentence
from model.tokenizer import Tokenizers
from model.transformer import Transformer
from training.corpora.corpus import Pair
from training.data.batches import Pairs, epoch_rows, load_pairs
from training.data.dataset import PreparedSummary, dev_pairs, load_direction, load_tokenizers
from training.evaluation.scoring import limits_for
from training.optim.checkpoint import BEST, average, load_state, load_weights, saved_weights, step_of
from training.optim.schedule import noam
from training.optim.trainer import TrainingError, resolve_precision

ORIGIN = "origin.json"
"""File of a run folder: the bundle from which its weights started, and the credits for that."""
END_MARK_PAIRS = 20_000
"""Pairs by which the share of sources with end marks is estimated."""
MAX_CANDIDATES = 3
"""Maximum number of candidates from `TrainedRun.candidates`."""
INITIAL_WEIGHTS = "those that the run began with"


@dataclass(frozen=True)
class TrainedRun:
    """A run folder and the data it was trained on."""

    folder: Path
    data: Path
    snapshot: dict[str, Any]
    config: ModelConfig
    tokenizers: Tokenizers
    direction: Direction
    summary: PreparedSummary
    pairs: Pairs
    limits: Limits

    @classmethod
    def load(cls, folder: Path, data: Path) -> TrainedRun:
        """Raises TrainingError if `folder` has no weights yet or was trained on other data."""
        snapshot = load_state(folder) if folder.is_dir() else None
        if snapshot is None or not saved_weights(folder):
            raise TrainingError(f"{folder} has no weights yet: train at least until the first evaluation")
        reverse = bool(snapshot["identity"]["data"].get("reverse"))
        pairs, record = load_pairs(data, reverse)
        younger = {field.name: field.default for field in dataclasses.fields(PreparedSummary)}  # than the state
        if record != {name: younger.get(name) for name in record} | snapshot["identity"]["data"]:
            raise TrainingError(f"{folder} was not trained on the current contents of {data}")
        config = ModelConfig.from_dict(snapshot["identity"]["config"])
        summary, limits = PreparedSummary.load(data, reverse), limits_for(pairs, config)
        direction = load_direction(data, reverse)
        return cls(folder, data, snapshot, config, load_tokenizers(data), direction, summary, pairs, limits)

    def development(self) -> list[Pair]:
        """The development pairs, in the direction of the run."""
        return dev_pairs(self.data, self.summary.reverse)

    def sources_with_end_marks(self) -> float:
        """The share of an epoch's sources with an end mark. `prepare` counts it for one direction; for the other one,
        this is the share among END_MARK_PAIRS pairs, evenly spaced."""
        if not self.summary.reverse:
            return self.summary.sources_with_end_marks
        rows = np.linspace(0, len(self.pairs) - 1, min(len(self.pairs), END_MARK_PAIRS)).astype(np.int64)
        marked = [ends_sentence(self.tokenizers.source.decode(ids)) for ids in self.pairs.source.sequences(rows)]
        return round(float(np.average(marked, weights=self.pairs.weights[rows])), 3)

    def is_current(self) -> bool:
        """Whether there has been no evaluation since this run was loaded."""
        now = load_state(self.folder)
        return now is not None and len(now["state"]["history"]) == len(self.snapshot["state"]["history"])

    def model(self, weights: Mapping[str, Tensor], dtype: str, device: torch.device) -> Transformer:
        """The model with `weights` as a bundle in `dtype` restores them: rounded, then float32."""
        model = Transformer(self.config)
        fill(model, restored(stored({name: weights[name] for name, _ in model.named_parameters()}, dtype)))
        return model.to(device).eval()

    def candidates(self) -> Iterator[tuple[str, dict[str, Tensor]]]:
        """The trained weights that may ship, each with a description."""
        last, best = saved_weights(self.folder), self.snapshot["state"]["best_step"]
        for count in sorted({len(last), min(3, len(last))} - {1}):  # a cooldown leaves little to average out
            yield f"the average of the last {count} evaluations", average(last[-count:])
        if len(last) == 1 and step_of(last[0]) != best:
            yield f"those of step {step_of(last[0]):,}, the last evaluation's", average(last)
        if best:
            yield f"those of step {best:,}, of the lowest development loss", load_weights(self.folder / BEST)

    def beginning(self) -> dict[str, Tensor] | None:
        """The weights from the parent, if the run has never had a lower development loss since."""
        began_best = self.snapshot["state"]["best_step"] == 0 and (self.folder / BEST).exists()
        return load_weights(self.folder / BEST) if began_best else None


def interpolated(
    learnt: Iterable[tuple[str, dict[str, Tensor]]], origin: Mapping[str, Tensor], share: float
) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """Interpolates each of the fine-tuned weights with the initial weights `origin`, a `share` of the way from those.

    This keeps more of the initial quality than it loses of the gain (Wortsman et al. 2022, "Robust fine-tuning of
    zero-shot models", section 3).
    """
    for what, weights in learnt:
        between = {name: origin[name].lerp(weight, share) for name, weight in weights.items()}
        yield f"those {share:g} of the way from where the run began to {what}", between


def record_origin(run: Path, origin: Mapping[str, Any]) -> None:
    """Saves in the run folder the record of the bundle from which its weights started; see `origin_of`."""
    if origin:
        run.mkdir(parents=True, exist_ok=True)
        write_atomically(run / ORIGIN, (json.dumps(origin, indent=2) + "\n").encode())


def origin_of(run: Path) -> dict[str, Any]:
    """The record that `record_origin` saved; empty if the run started from random weights."""
    return dict(json.loads((run / ORIGIN).read_text(encoding="utf-8"))) if (run / ORIGIN).exists() else {}


def data_digest(data: Path) -> str:
    """SHA-256 of the record of prepared data, which contains those of its files and all options."""
    return hashlib.sha256((data / "prepared.json").read_bytes()).hexdigest()


def training_record(run: TrainedRun, weights: str, model: Transformer) -> dict[str, Any]:
    """The record of the training for config.json: names and sizes, no paths.

    `versions`, `commit` and `sessions` are those of the training. Runs older than their record have none.
    """
    identity, state = run.snapshot["identity"], run.snapshot["state"]
    recipe, position = identity["recipe"], state["position"]
    batches = len(epoch_rows(run.pairs, recipe["batch_tokens"], recipe["seed"], position["epoch"]))
    epochs = position["epoch"] + position["batch"] / batches
    sessions: list[dict[str, Any]] = state.get("sessions", [])
    last = {name: sessions[-1][name] for name in ("versions", "commit")} if sessions else {}
    device = "cuda" if run.snapshot["cuda_random"] else "cpu"
    precision = run.snapshot.get("precision") or resolve_precision(recipe["precision"], torch.device(device))
    summary = run.summary
    return {
        "corpora": [
            {"name": corpus["name"], "pairs": corpus["kept"], "weight": corpus["weight"]} for corpus in summary.corpora
        ],
        "pairs": summary.pairs,
        "of_which_copies_with_symbols": summary.reserved_copies,
        "of_which_copies_in_other_case": summary.augmented_copies,  # or punctuation, or with other names
        "sources_with_end_marks": run.sources_with_end_marks(),
        "development_pairs": summary.dev_pairs,
        "parameters": model.parameter_count(),
        "steps": state["step"],
        "epochs": round(epochs, 2),
        "target_tokens": round(epochs * float(run.pairs.weights @ (run.pairs.target.lengths + 1))),
        "seconds": round(state["seconds"]),
        "seed": recipe["seed"],
        "recipe": recipe,
        "precision": precision,
        "device": device,
        "weights": weights,
        "best_development_loss": state["best_loss"],
        "data_sha256": data_digest(run.data),
        "schedule": _schedule_record(run),
        "sessions": sessions,
        **last,
    }


def _schedule_record(run: TrainedRun) -> dict[str, Any]:
    """What the learning rates were, as far as the recipe does not say it."""
    recipe, time = run.snapshot["identity"]["recipe"], run.snapshot["state"].get("time", {})
    peak = noam(recipe["warmup"], run.config.d_model, recipe["warmup"], recipe["learning_rate_factor"])
    if recipe.get("minutes") is None:
        return {"peak": peak, "warmup": recipe["warmup"]}
    return {
        "peak": peak,
        "warmup": time["warmup"],
        "seconds_used": round(time["used_s"]),
        "of_which_before_training": round(time["began_s"]),
        "ended": time["ended_minutes"] > 0,
        "rates": [[step, share, float(f"{rate:.4g}")] for step, share, rate in time["rates"]],
    }
