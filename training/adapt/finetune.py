"""Fine-tuning: what a run takes from its initial bundle, how it trains, and a comparison of before and after.

`training.pipeline.run` orders the stages, `training.optim.loop` trains.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

import torch
from torch import Tensor

from model.atomic_files import write_atomically
from model.bundle_files import TARGET_VOCABULARY, VOCABULARY, BundleError
from model.config import ModelConfig
from model.tokenizer import Tokenizers
from training.adapt.base import BaseBundle
from training.adapt.rehearsal import Rehearsal
from training.cleaning.simplified_chinese import has_simplified_only
from training.corpora.corpus import LineTally
from training.corpora.general import general_pairs_of
from training.data.batches import Pairs, load_pairs
from training.data.options import PrepareOptions
from training.evaluation.evaluate import DEVELOPMENT, TestSet, evaluate_set
from training.evaluation.scoring import MIN_BLEU_DIFFERENCE
from training.export.bundle import SERVED_FIELDS
from training.export.interpolation import Baseline
from training.export.model_card import changes
from training.export.tradeoff import ACCEPTED
from training.optim.defaults import BY_CLOCK, recipe_of
from training.optim.diagnostics import overlap
from training.optim.loss import EXCLUDED_BIAS
from training.optim.trainer import Recipe, TrainingError
from training.options import Option

BEFORE_FILE = "before.json"
GENERAL = "general set"
"""The name of the general pairs in a bundle."""
BLEU = "BLEU"
REHEARSAL_RATIO = 4.0
DISTIL_WEIGHT = 1.0
LEARNING_RATE = 1e-3
DROPOUT = 0.1
WARMUP, COOLDOWN = 0.1, 0.8
"""Shares of the steps."""
EVALUATIONS, PATIENCE, KEEP = 10, 5, 3
PANEL = "Fine-tuning"
"""The heading of these options in `run --help`."""
_OF_TOKENS = {
    "source_embedding.tokens.weight": 0,
    "target_embedding.tokens.weight": 1,
    "output.weight": 1,
    "output.bias": 1,
}
"""Weights with a row for each token, of the source, 0, or of the target."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class SizeDefaults:
    """Settings for epochs of up to `max_pairs` pairs."""

    max_pairs: float
    batch_tokens: int
    epochs: float


FINE_TUNING_SIZES = (SizeDefaults(10_000, 1024, 6), SizeDefaults(50_000, 2048, 6), SizeDefaults(math.inf, 4096, 2))


class InitialBundle(BaseBundle):
    """The bundle to adapt to other pairs; its vocabulary, architecture and languages are kept."""

    @classmethod
    def load(cls, folder: Path, source: str | None = None, target: str | None = None) -> Self:
        """`source`, `target`: the direction to adapt, of a bundle of several. Raises BundleError."""
        initial = super().load(folder)
        if initial.bundle.chosen is not None:
            return initial
        if source is None or target is None:
            pairs = f"{initial.bundle.directions.count:,} pairs of languages"
            raise BundleError(f"{folder} translates {pairs}: choose the one to adapt with --source and --target")
        return cls(initial.bundle.in_direction(source, target), initial.alignment)

    @property
    def text_options(self) -> dict[str, Any]:
        """The fields of PrepareOptions that make text into the bundle's tokens."""
        vocabularies = {"vocabulary": VOCABULARY} | (
            {} if self.bundle.tokenizers.is_joint else {"target_vocabulary": TARGET_VOCABULARY}
        )
        paths = {name: str(self.bundle.folder / file) for name, file in vocabularies.items()}
        prefixes = dict(zip(("source_prefix", "target_prefix"), self.bundle.direction.prefixes, strict=True))
        return {**paths, **prefixes, **self.bundle.config.get("text", {})}

    @property
    def can_resegment(self) -> bool:
        """Whether the recipe may have BPE-dropout."""
        return self.bundle.tokenizers.is_joint and self.bundle.source_tokenizer.can_resegment

    @property
    def max_tokens(self) -> int:
        return min(self.bundle.limits.max_source, self.bundle.limits.max_target)

    def with_bundle_script(self, options: PrepareOptions) -> PrepareOptions:
        """`options`, with Chinese text simplified or kept, as for the bundle's vocabulary."""
        simplified = has_simplified_only(self.bundle.source_tokenizer)
        if options.normalises_characters() == simplified:
            return options
        return dataclasses.replace(options, script="simplified" if simplified else "keep")

    @property
    def config(self) -> ModelConfig:
        """The bundle's architecture, with the dropout for fine-tuning."""
        return dataclasses.replace(self.bundle.model.config, dropout=DROPOUT)

    @cached_property
    def weights(self) -> dict[str, Tensor]:
        """The bundle's weights, with those of reserved symbols that an imported model does not know; see
        `learnable_symbols`."""
        return learnable_symbols(self.bundle.model.state_dict(), self.bundle.tokenizers)

    @property
    def own_config(self) -> dict[str, Any]:
        """config.json as of a bundle for this direction alone: what it carries may be of another."""
        config = {**self.bundle.config, "source": self.bundle.source, "target": self.bundle.target}
        if self.bundle.directions.count > 1:
            config.pop("general", None)
        return config

    def languages(self, source: str | None, target: str | None) -> tuple[str, str]:
        """The bundle's source and target. Raises TrainingError if others are requested."""
        for option, asked, ours in (("source", source, self.bundle.source), ("target", target, self.bundle.target)):
            if asked not in (None, ours):
                raise TrainingError(f"--{option} {asked}: {self.name} has the {option} {ours}, which fine-tuning keeps")
        return self.bundle.source, self.bundle.target

    def licence(self, given: str | None) -> str:
        """`given`, or the bundle's."""
        return given or str(self.bundle.config.get("licence", ""))

    def record(self, before: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The record of this bundle in the new one's config.json; `before`: its metrics on the new one's sets."""
        config = self.own_config
        record: dict[str, Any] = {"bundle": self.name, "metrics": list(before), "limits": config["limits"]}
        if (estimates := self.bundle.quality) is not None:
            record["quality"] = estimates.to_dict()
        kept = ("licence", "attribution", "general", *SERVED_FIELDS)
        return record | {name: config[name] for name in kept if name in config} | self.lineage()


@dataclass(frozen=True)
class FineTuning:
    """Options of fine-tuning. Raises ValueError, naming the option."""

    initial: InitialBundle
    general: Annotated[tuple[str, ...], Option(metavar="FILE", panel=PANEL)] = ()
    """Pairs from another field, to measure what fine-tuning loses there; repeat for more. (default: the bundle's
    general pairs, or ours)"""
    learning_rate: Annotated[float | None, Option(panel=PANEL)] = None
    """The peak learning rate. (default: {LEARNING_RATE:g})"""
    accept_loss: Annotated[float | None, Option(metavar="BLEU", panel=PANEL)] = None
    """Ship the fine-tuned weights even if they lose this much BLEU on the development set. (default:
    {MIN_BLEU_DIFFERENCE:g}; if they lose more, the weights of the --init bundle ship)"""
    blend: Annotated[float | None, Option(metavar="SHARE", panel=PANEL)] = None
    """Ship weights interpolated this share of the way from the --init bundle's to the fine-tuned ones, such as 0.75:
    losses in other fields shrink faster than gains. (default: of several shares, the one that is best on your pairs and
    loses no more elsewhere than accepted)"""
    accept_general_loss: Annotated[float | None, Option(metavar="BLEU", panel=PANEL)] = None
    """Accept this loss of BLEU on general pairs; if all fine-tuned weights lose more, nothing is exported. (default:
    {ACCEPTED:g})"""
    rehearse: Annotated[float, Option(metavar="N", panel=PANEL)] = REHEARSAL_RATIO
    """Also train on N general sentences for each of your pairs, with the bundle's own translations, to lose less in
    other fields; 0 for none. (default: {REHEARSAL_RATIO:g})"""
    general_text: Annotated[tuple[str, ...], Option(metavar="FILE", panel=PANEL)] = ()
    """A file of general sentences in the source language, one per line, for --rehearse; repeat for more. (default:
    ours)"""

    def __post_init__(self) -> None:
        if self.learning_rate is not None and not 0 < self.learning_rate < 1:
            raise ValueError(f"--learning-rate must lie between 0 and 1, not {self.learning_rate:g}")
        if self.accept_loss is not None and not 0 <= self.accept_loss <= 100:
            raise ValueError(f"--accept-loss must lie between 0 and 100, not {self.accept_loss:g}")
        if self.blend is not None and not 0 < self.blend <= 1:
            raise ValueError(f"--blend must be above 0 and at most 1, not {self.blend:g}")
        if self.accept_general_loss is not None and not 0 <= self.accept_general_loss <= 100:
            raise ValueError(f"--accept-general-loss must lie between 0 and 100, not {self.accept_general_loss:g}")
        if not 0 <= self.rehearse < math.inf:
            raise ValueError(f"--rehearse must be at least 0, not {self.rehearse:g}")

    @property
    def architecture(self) -> str:
        """The architecture's name in a plan; names the bundle, since another one needs another plan."""
        return f"of {self.initial.name}"

    def recipe(self, pairs: Pairs, seed: int, epochs: float | None = None, **given: Any) -> Recipe:
        """A recipe of a few epochs over `pairs`, with a falling rate and early stopping; `given` overrides it.

        Minutes only shorten it: more epochs would cost more in other fields.
        """
        size = next(size for size in FINE_TUNING_SIZES if pairs.weights.sum() <= size.max_pairs)
        chosen = {"batch_tokens": size.batch_tokens, "cooldown": COOLDOWN, "patience": PATIENCE, "keep": KEEP}
        if given.get("minutes") is not None:
            chosen |= BY_CLOCK
        distil = 0.0 if pairs.rehearsed is None or given.get("r_drop") else DISTIL_WEIGHT
        fields = {**chosen, "distil": distil, "seed": seed, **given}
        return self.with_learning_rate(recipe_of(pairs, size.epochs if epochs is None else epochs, EVALUATIONS, fields))

    def with_learning_rate(self, recipe: Recipe) -> Recipe:
        """`recipe` with the warm-up and the peak learning rate of fine-tuning."""
        warmup, width = math.ceil(WARMUP * recipe.steps), self.initial.config.d_model
        factor = (self.learning_rate or LEARNING_RATE) * math.sqrt(width * warmup)  # see training.optim.schedule
        return dataclasses.replace(recipe, warmup=warmup, learning_rate_factor=factor)

    def general_sets(self, tests: Sequence[TestSet]) -> list[TestSet]:
        """The sets of `general`, which are the last of `tests`; if it is empty, the bundle's general pairs, or ours.

        Raises TrainingError if there are none and no loss was accepted explicitly.
        """
        if self.general:
            return list(tests[len(tests) - len(self.general) :])
        pairs = general_pairs_of(self.initial.own_config)
        if not pairs and self.accept_general_loss is None:
            raise TrainingError(
                f"{self.initial.name} carries no general pairs, and we have none in its languages: give some with "
                "--general FILE, to measure what is lost there, or accept any loss with --accept-general-loss 100"
            )
        return [TestSet(GENERAL, pairs, LineTally())] if pairs else []

    def rehearsal(self, work: Path) -> Rehearsal | None:
        """The rehearsal; None if there is nothing to rehearse. Raises CorpusError."""
        if not self.rehearse:
            return None
        found = Rehearsal.of(self.initial.bundle, self.general_text, work)
        return found if found.sentences else None

    def baseline(self, before: Sequence[Mapping[str, Any]], general: Sequence[TestSet]) -> Baseline:
        """The criteria for choosing weights; `before`: the bundle's metrics on the `general` and the development
        set."""
        return Baseline(
            self.initial.weights,
            {metric["set"]: metric["score"] for metric in before if metric["metric"] == BLEU},
            general,
            MIN_BLEU_DIFFERENCE if self.accept_loss is None else self.accept_loss,
            ACCEPTED if self.accept_general_loss is None else self.accept_general_loss,
            self.blend,
            self.initial.alignment,
        )

    def measure_before(self, work: Path, data: Path, general: Sequence[TestSet], say: Say) -> list[dict[str, Any]]:
        """Measures the bundle on the development set of `data` and on the `general` sets, or reads an earlier
        measurement of the same from `work`. Metrics have the names that they will have after fine-tuning."""
        bundle = self.initial.bundle
        tests = [TestSet.development(data), *general]
        sentences = [[test.name, test.digest] for test in tests]
        if (kept := _read_json(work / BEFORE_FILE)) and kept["of"] == [self.initial.name, sentences]:
            return list(kept["metrics"])
        pairs, _ = load_pairs(data)
        for test in tests[1:]:
            for warning in overlap(
                test.name, [bundle.source_tokenizer.encode_source(pair.source) for pair in test.pairs], pairs
            ):
                say(f"warning: {warning}")
        say(f"measuring {self.initial.name} before training ...")
        how = bundle.model, bundle.tokenizers, bundle.spec.limits, bundle.target
        results = [evaluate_set(*how, test, direction=bundle.direction) for test in tests]
        metrics = [metric for result in results for metric in result.metrics()]
        kept = {"of": [self.initial.name, sentences], "metrics": metrics}
        write_atomically(work / BEFORE_FILE, (json.dumps(kept, indent=2) + "\n").encode())
        return metrics


def learnable_symbols(weights: Mapping[str, Tensor], tokenizers: Tokenizers) -> dict[str, Tensor]:
    """`weights`, in which reserved symbols that the output bias excludes are copies of the other symbols in turn.

    An imported model was trained without them. `import` makes some of them copies of names and excludes the rest, which
    training on placeholders would not reach. If it excluded all, they become the mean of the tokens of text.
    """
    changed = dict(weights)
    if (bias := weights.get("output.bias")) is None:
        return changed
    symbols = [torch.tensor(tokenizer.reserved_ids) for tokenizer in tokenizers]  # [side][symbols]
    text = [torch.tensor([id for id in range(t.vocab_size) if t.is_text(id)]) for t in tokenizers]
    is_known = bias[symbols[1]] >= EXCLUDED_BIAS
    known, others = is_known.nonzero()[:, 0], is_known.logical_not().nonzero()[:, 0]
    shared: dict[int, Tensor] = {}
    for name, side in _OF_TOKENS.items():
        if name not in weights:
            continue
        weight, ids = weights[name], symbols[side]
        if weight.data_ptr() not in shared:  # one matrix may have several names
            like = ids[known[torch.arange(len(others)) % len(known)]] if len(known) else None
            rows = weight[text[side]].mean(0) if like is None else weight[like]
            shared[weight.data_ptr()] = weight.index_put((ids[others],), rows)
        changed[name] = shared[weight.data_ptr()]
    return changed


def _read_json(path: Path) -> dict[str, Any] | None:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def describe_changes(config: Mapping[str, Any]) -> Iterator[str]:
    """Yields a table of scores before and after fine-tuning, from a bundle's config.json; nothing if there was none."""
    initial = config["training"].get("initial")
    if initial is None:
        return
    rows = [(_set_label(metric), metric["metric"], metric["score"], after) for metric, after in changes(config)]
    width = max(len(label) for label, *_ in rows)
    yield f"before fine-tuning, as {initial['bundle']}, and after:"
    for label, metric, before, score in rows:
        yield f"  {label:{width}}  {metric:4}  {before:5.1f} -> {score:5.1f}"
    if tradeoff := config["training"].get("tradeoff"):
        yield tradeoff["advice"]


def _set_label(metric: Mapping[str, Any]) -> str:
    own = metric["set"] == DEVELOPMENT
    return f"{'your pairs, held out' if own else 'elsewhere: ' + metric['set']} ({metric['sentences']:,} sentences)"
