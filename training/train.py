"""Training: prepared pairs in, a run folder of checkpoints and curves out, resumable to the bit.

How a batch is made, the loss, the schedule and what lies on disk each have a file of their own.
"""

from __future__ import annotations

import dataclasses
import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import sacrebleu
import torch
from torch import Tensor, nn

from model.allocator import keep_freed_memory
from model.config import ModelConfig
from model.decoding import Limits, greedy_decode
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from training.batches import Batch, Pairs, Position, batches_from, load_pairs
from training.checkpoint import load_state, save_best, save_state, save_weights
from training.loss import projected_loss
from training.progress import Progress, write_curves
from training.schedule import noam


class TrainingError(ValueError):
    """Training cannot go on, for a reason its user can act on."""


@dataclass(frozen=True)
class Recipe:
    """How to train. Everything that shapes the weights is here, so that equal recipes give equal weights."""

    steps: int
    batch_tokens: int = 4096
    """Padded target tokens a batch."""
    accumulate: int = 1
    """Batches a step."""
    learning_rate_factor: float = 1.0
    warmup: int = 4000
    cooldown: float = 0.0
    """Share of the steps, at the end, in which the learning rate descends to zero."""
    label_smoothing: float = 0.1
    clip_norm: float = 1.0
    precision: str = "auto"
    seed: int = 1
    evaluate_every: int = 1000
    """Steps between evaluations, each of which also saves weights."""
    patience: int = 0
    """Evaluations without a better development loss after which training stops; 0 never stops early."""
    keep: int = 5
    """How many of the last evaluations' weights stay, to be averaged."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch_tokens", "accumulate", "warmup", "evaluate_every", "keep"):
            if getattr(self, name) < 1:
                raise TrainingError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("cooldown", "label_smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise TrainingError(f"{name} must lie in [0, 1), not {getattr(self, name)}")
        if self.precision not in ("auto", "float32", "bfloat16"):
            raise TrainingError(f"precision must be auto, float32 or bfloat16, not {self.precision!r}")


@dataclass
class State:
    """Where a run stands: all that resuming needs beside model and optimiser."""

    step: int = 0
    position: Position = field(default_factory=Position)
    history: list[dict[str, float]] = field(default_factory=list)
    best_loss: float = math.inf
    best_step: int = 0
    train_loss: float = 0.0
    """Sum, since the last evaluation, of the nats of all predicted tokens, smoothing apart."""
    train_tokens: int = 0
    seconds: float = 0.0


class Trainer:
    """A model, its optimiser and the arithmetic of one step. Knows no files."""

    def __init__(self, config: ModelConfig, recipe: Recipe, device: torch.device) -> None:
        torch.manual_seed(recipe.seed)
        self.recipe, self.device = recipe, device
        self.model = Transformer(config).to(device)
        fused = device.type in ("cpu", "cuda")
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=fused)
        self.precision = resolve_precision(recipe.precision, device)

    def step(self, batches: Sequence[Batch], learning_rate: float) -> Tensor:
        """One update on the mean loss over all tokens of `batches`; returns their summed nats, unsmoothed.

        Raises TrainingError if the gradient is not finite; the weights are then as they were.
        """
        self.model.train()
        tokens = sum(batch.target_tokens for batch in batches)
        nats = torch.zeros((), device=self.device)
        for batch in batches:
            loss, nll = self.loss(batch.to(self.device), self.recipe.label_smoothing)
            torch.autograd.backward(loss / tokens)
            nats += nll
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip_norm)
        if not math.isfinite(norm.item()):
            raise TrainingError("the gradient is not finite; a lower --learning-rate-factor or float32 may help")
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return nats

    def loss(self, batch: Batch, smoothing: float) -> tuple[Tensor, Tensor]:
        """The summed loss of a batch and its summed nats; see `projected_loss`."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            hidden = self.model.hidden(batch.src, batch.tgt_in)  # [batch, target, d_model]
            real = (batch.tgt_out != self.model.config.pad_id).flatten().nonzero()[:, 0]
            hidden = hidden.flatten(0, 1)[real]  # [tokens, d_model]
            if self.precision == "bfloat16":
                hidden = hidden.bfloat16()
        return projected_loss(hidden, self.model.output.weight, batch.tgt_out.flatten()[real], smoothing)

    def learning_rate(self, step: int) -> float:
        recipe, width = self.recipe, self.model.config.d_model
        return noam(step, width, recipe.warmup, recipe.learning_rate_factor, recipe.steps, recipe.cooldown)

    @torch.no_grad()
    def development_loss(self, pairs: Pairs) -> float:
        """Nats a token of `pairs`, without smoothing or dropout."""
        self.model.eval()
        order = np.argsort(pairs.target.lengths, kind="stable")
        nats, tokens = 0.0, 0
        for rows in np.array_split(order, max(1, len(order) // 64)):
            batch = pairs.batch(rows, self.model.config)
            nats += self.loss(batch.to(self.device), 0.0)[1].item()
            tokens += batch.target_tokens
        return nats / tokens


def resolve_precision(precision: str, device: torch.device) -> str:
    """What "auto" means here: bfloat16 where matrix units make it fast (a GPU, or AMX), else float32.

    On a processor with bfloat16 instructions but no matrix unit, PyTorch's bfloat16 products take twice float32's time.
    """
    if precision != "auto":
        return precision
    return "bfloat16" if device.type == "cuda" or torch.cpu._is_amx_tile_supported() else "float32"


@dataclass(frozen=True)
class Development:
    """The development set: its text, its tokens and how to score a translation of it."""

    sources: list[str]
    references: list[str]
    pairs: Pairs
    tokenizer: Tokenizer
    limits: Limits
    target: str

    @classmethod
    def load(cls, data: Path, tokenizer: Tokenizer, limits: Limits, target: str) -> Development:
        lines = (data / "dev.tsv").read_text(encoding="utf-8").split("\n")
        columns = [line.split("\t") for line in lines if line]
        sources, references = [column[0] for column in columns], [column[1] for column in columns]
        pairs = Pairs.of([tokenizer.encode(s) for s in sources], [tokenizer.encode(r) for r in references])
        return cls(sources, references, pairs, tokenizer, limits, target)

    def translate(self, model: Transformer, count: int) -> list[str]:
        """Greedy translations of the first `count` sentences."""
        model.eval()
        sources = [ids[: self.limits.max_source] for ids in map(self.tokenizer.encode, self.sources[:count])]
        return [self.tokenizer.decode(h.tokens) for h in greedy_decode(model, sources, self.limits)]

    def bleu(self, translations: list[str]) -> float:
        references = [self.references[: len(translations)]]
        return float(bleu_metric(self.target).corpus_score(translations, references).score)


def bleu_metric(target: str) -> sacrebleu.BLEU:
    """sacreBLEU as is usual for the target language: its Chinese tokeniser for Chinese, else 13a."""
    return sacrebleu.BLEU(tokenize="zh" if target.lower().split("-")[0].split("_")[0] == "zh" else "13a")


CHANGEABLE = ("steps", "evaluate_every", "patience", "keep")
"""Fields of a recipe that may differ when a run is continued: how long it goes on, and what it reports."""
BLEU_SENTENCES = 500
"""Development sentences translated at each evaluation; all of them are in the loss."""


def train(
    data: Path, run: Path, config: ModelConfig, recipe: Recipe, device: torch.device, limits: Limits, save_every: int
) -> State:
    """Trains in `run` until the recipe's steps are done or early stopping; continues what it finds there.

    Raises TrainingError if `run` was begun with another configuration, recipe or data.
    """
    keep_freed_memory()
    run.mkdir(parents=True, exist_ok=True)
    pairs, record = load_pairs(data)
    tokenizer = Tokenizer.load(data / "sentencepiece.model")
    development = Development.load(data, tokenizer, limits, record["target"])
    trainer = Trainer(config, recipe, device)
    identity = {"config": config.to_dict(), "recipe": dataclasses.asdict(recipe), "data": record}
    state = _resume(run, trainer, identity)
    batches = batches_from(pairs, config, recipe.batch_tokens, recipe.seed, state.position)
    progress = Progress(recipe.steps, state.step)
    progress.say(
        f"{'continuing at step ' + format(state.step, ',') if state.step else 'training'} on {device.type} "
        f"in {trainer.precision}: {trainer.model.parameter_count():,} parameters, {len(pairs):,} pairs"
    )
    try:
        while state.step < recipe.steps and not _exhausted(state, recipe):
            _advance(trainer, state, batches, progress)
            if state.step % recipe.evaluate_every == 0 or state.step == recipe.steps:
                _evaluate(run, trainer, state, development, progress)
            if state.step % save_every == 0 or state.step == recipe.steps or _exhausted(state, recipe):
                save_state(run, _snapshot(trainer, state, identity))
    finally:
        progress.close()
    return state


def _advance(trainer: Trainer, state: State, batches: Iterator[Batch], progress: Progress) -> None:
    began = time.monotonic()
    taken = [next(batches) for _ in range(trainer.recipe.accumulate)]
    state.step += 1
    nats = trainer.step(taken, trainer.learning_rate(state.step)).item()
    tokens = sum(batch.target_tokens for batch in taken)
    state.train_loss += nats
    state.train_tokens += tokens
    state.seconds += time.monotonic() - began
    progress.advance(state.step, nats / tokens, tokens)


def _evaluate(run: Path, trainer: Trainer, state: State, development: Development, progress: Progress) -> None:
    loss = trainer.development_loss(development.pairs)
    translations = development.translate(trainer.model, BLEU_SENTENCES)
    row = {
        "step": state.step,
        "epoch": state.position.epoch,
        "learning_rate": trainer.learning_rate(state.step),
        "train_loss": state.train_loss / state.train_tokens,
        "dev_loss": loss,
        "dev_bleu": development.bleu(translations),
        "tokens_per_second": progress.tokens_per_second,
        "seconds": state.seconds,
    }
    state.history.append(row)
    state.train_loss, state.train_tokens = 0.0, 0
    weights = trainer.model.state_dict()
    if loss < state.best_loss:
        state.best_loss, state.best_step = loss, state.step
        save_best(run, weights)
    save_weights(run, state.step, weights, trainer.recipe.keep)
    write_curves(run, state.history)
    shown = random.Random(state.step).randrange(len(translations))
    progress.say(
        f"step {state.step:,}: training loss {row['train_loss']:.3f}, development loss {loss:.3f}, "
        f"BLEU {row['dev_bleu']:.1f}\n  source     {development.sources[shown]}\n  "
        f"reference  {development.references[shown]}\n  ours       {translations[shown]}"
    )


def _exhausted(state: State, recipe: Recipe) -> bool:
    """True once `patience` evaluations in a row brought no better development loss."""
    since = (state.step - state.best_step) // recipe.evaluate_every
    return bool(state.history) and 0 < recipe.patience <= since


def _snapshot(trainer: Trainer, state: State, identity: dict[str, Any]) -> dict[str, Any]:
    return {
        "identity": identity,
        "state": dataclasses.asdict(state),
        "model": trainer.model.state_dict(),
        "optimizer": trainer.optimizer.state_dict(),
        "random": torch.get_rng_state(),
        "cuda_random": torch.cuda.get_rng_state_all() if trainer.device.type == "cuda" else [],
    }


def _resume(run: Path, trainer: Trainer, identity: dict[str, Any]) -> State:
    snapshot = load_state(run)
    if snapshot is None:
        return State()
    for part, ours in identity.items():
        theirs = snapshot["identity"][part]
        names = [name for name in ours if name not in CHANGEABLE and ours[name] != theirs.get(name)]
        if names:
            raise TrainingError(
                f"{run} was begun with another {part} ({', '.join(names)}): continue it with the same, or train elsewhere"
            )
    trainer.model.load_state_dict(snapshot["model"])
    trainer.optimizer.load_state_dict(snapshot["optimizer"])
    torch.set_rng_state(snapshot["random"])
    if snapshot["cuda_random"]:
        torch.cuda.set_rng_state_all(snapshot["cuda_random"])
    fields = dict(snapshot["state"])
    return State(**{**fields, "position": Position(**fields["position"])})
