"""Recipes, and the training step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from torch import Tensor, nn

from model.config import ModelConfig
from model.transformer import Transformer
from training.data.batches import Batch, Pairs, RehearsedRows
from training.optim.distributed import ALONE, World
from training.optim.loss import Projection, distillation_loss, projected_loss, r_drop_loss, sampled_loss
from training.optim.schedule import by_clock, fall, noam
from training.options import Option

LENGTH, MACHINE, EVALUATION = "How long", "Machine and files", "Evaluation and early stopping"
RECIPE = "Recipe (defaults depend on the number of pairs)"
"""Headings under which `train --help` lists options."""
MINUTES = Option(
    "Train by the clock: the whole command takes this long, evaluation and export included, and the learning rate falls"
    " to zero at the end of the training. With --epochs or --steps, and with --init, whichever ends first. (default: "
    "by epochs)",
    panel=LENGTH,
)
NOT_FINITE = "the gradient is not finite; a lower --learning-rate-factor or float32 may help"


class TrainingError(ValueError):
    """Training cannot continue, for a reason that the user can act on."""


@dataclass(frozen=True)
class Recipe:
    """How to train. Includes everything that affects the weights, so that equal recipes without `minutes` give equal
    weights. With `minutes`, weights also depend on the machine's speed.

    `steps` may then be 0: as many as fit. `evaluate_every` must be 0, since evaluations come at shares of the time, and
    `patience`, since the loss falls most as the rate falls to zero, and an early stop would come before.
    `bpe_dropout`: see `training.optim.bpe_dropout`. `r_drop`: alpha of Wu et al. 2021, see `training.optim.loss`.
    `distil`: weight of the cross entropy with the initial model's predictions, which replaces the usual loss on
    rehearsed pairs; 0 trains on them as on any other pair.
    """

    steps: Annotated[int, Option(panel=LENGTH)]
    """Number of weight updates, instead of --epochs."""
    batch_tokens: Annotated[int, Option(panel=RECIPE)] = 4096
    """Tokens per batch, on the longer side, with padding; all processes together."""
    accumulate: Annotated[int, Option(panel=RECIPE)] = 1
    """Batches per step: more make up for smaller batches if memory is short. (default: 1)"""
    learning_rate_factor: Annotated[float, Option(panel=RECIPE)] = 1.0
    """Factor by which the paper's learning rate is multiplied; with --minutes, its peak."""
    warmup: Annotated[int, Option(panel=RECIPE)] = 4000
    """Steps in which the learning rate rises; with --minutes, at most an eighth of them all."""
    cooldown: Annotated[float, Option(panel=RECIPE)] = 0.0
    """Share of the steps, or with --minutes of the time, at the end, in which the learning rate falls to zero.
    (default: 0.25, with --minutes alone 0.7)"""
    label_smoothing: Annotated[float, Option(panel=RECIPE)] = 0.1
    """Probability spread over all tokens. (default: 0.1)"""
    bpe_dropout: Annotated[float, Option(panel=RECIPE)] = 0.0
    """Probability of skipping a merge in tokenisation, drawn anew each epoch. (default: 0)"""
    r_drop: Annotated[float, Option(panel=RECIPE)] = 0.0
    """Weight of the agreement between two passes with different dropout; takes twice the time. (default: 0)"""
    sampled_softmax: Annotated[int, Option(metavar="N", panel=RECIPE)] = 0
    """Compute the loss over the tokens of a batch's targets and N others, drawn anew for each batch, that stand for the
    rest: a step takes less time on a CPU. (default: 0, over the whole vocabulary)"""
    freeze_encoder: Annotated[float, Option(metavar="SHARE", panel=RECIPE)] = 0.0
    """Share of the steps, or with --minutes of the time, at the start, in which the encoder of initial weights, which
    knows the language, does not learn: that saves half of a step. (default: 0)"""
    distil: float = 0.0
    clip_norm: Annotated[float, Option(panel=RECIPE)] = 1.0
    """Maximum gradient norm. (default: 1)"""
    precision: Annotated[str, Option(panel=MACHINE)] = "auto"
    """float32 or bfloat16. (default: the faster one on this machine)"""
    seed: Annotated[int, Option(panel=RECIPE)] = 1
    """Seed for weights, dropout and order. (default: 1)"""
    evaluate_every: Annotated[int, Option(panel=EVALUATION)] = 1000
    """Steps between evaluations, each of which saves weights. (default: 25 evaluations in all, with --minutes 20)"""
    patience: Annotated[int, Option(panel=LENGTH)] = 0
    """Stop after this many evaluations without a better development loss; 0: never. (default: 5, with --minutes 0)"""
    keep: Annotated[int, Option(panel=EVALUATION)] = 5
    """Keep the weights of this many last evaluations, for averaging. (default: 5, with --minutes 1)"""
    minutes: Annotated[float | None, MINUTES] = None

    def __post_init__(self) -> None:
        counts = ["batch_tokens", "accumulate", "warmup", "keep"]
        if self.minutes is None:
            counts += ["steps", "evaluate_every"]
        elif not 0 < self.minutes < math.inf:
            raise TrainingError(f"minutes must be above 0, not {self.minutes:g}")
        elif unused := [name for name in ("patience", "evaluate_every") if getattr(self, name)]:
            raise TrainingError(f"{' and '.join(unused)} cannot be used with minutes: nothing stops before their end")
        elif self.steps < 0:
            raise TrainingError(f"steps must be at least 0, not {self.steps}")
        for name in counts:
            if getattr(self, name) < 1:
                raise TrainingError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("cooldown", "label_smoothing", "bpe_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise TrainingError(f"{name} must lie in [0, 1), not {getattr(self, name)}")
        if not 0 <= self.freeze_encoder <= 1:
            raise TrainingError(f"freeze_encoder must lie in [0, 1], not {self.freeze_encoder:g}")
        for name in ("learning_rate_factor", "clip_norm"):
            if not 0 < getattr(self, name) < math.inf:
                raise TrainingError(f"{name} must be above 0, not {getattr(self, name)}")
        for name in ("r_drop", "distil"):
            if not 0 <= getattr(self, name) < math.inf:
                raise TrainingError(f"{name} must be at least 0, not {getattr(self, name)}")
        if self.sampled_softmax < 0:
            raise TrainingError(f"sampled_softmax must be at least 0, not {self.sampled_softmax}")
        if self.r_drop and self.sampled_softmax:
            raise TrainingError("r_drop and sampled_softmax cannot be used together: it compares whole distributions")
        if self.r_drop and self.distil:
            raise TrainingError("r_drop and distil cannot be used together")
        if self.precision not in ("auto", "float32", "bfloat16"):
            raise TrainingError(f"precision must be auto, float32 or bfloat16, not {self.precision!r}")


class Trainer:
    """A model, its optimiser and the computation of a step, shared among the processes of `world`.

    `teacher`: weights of the same architecture, for the recipe's `distil`.
    """

    def __init__(
        self,
        config: ModelConfig,
        recipe: Recipe,
        device: torch.device,
        world: World = ALONE,
        teacher: Mapping[str, Tensor] | None = None,
    ) -> None:
        torch.manual_seed(recipe.seed)
        self.recipe, self.device, self.world = recipe, device, world
        self.model = Transformer(config).to(device)
        if device.type == "cuda":  # cuDNN's attention would plan for each new shape, and batches have hundreds
            torch.backends.cuda.enable_cudnn_sdp(False)
        fused = device.type in ("cpu", "cuda")
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=fused)
        self.precision = resolve_precision(recipe.precision, device)
        self.encoder_learns = True
        """Whether steps change the encoder's weights. Of the embeddings that it shares with the decoder, a frozen one
        leaves those of target tokens to learn."""
        self._teacher = None if teacher is None else _frozen(config, teacher, device)
        self._shared_loss = world.parallel(_Loss(self), recipe.freeze_encoder > 0) if world.size > 1 else None

    def step(self, batches: Sequence[Batch], learning_rate: float) -> Tensor:
        """One update on the mean loss over all tokens of `batches`; returns their summed nats, unsmoothed.

        This process has a part of each batch; mean and sum are those of the whole. If the gradient is not finite, the
        weights do not change, and this raises TrainingError; on a GPU it returns NaN, so as not to wait.
        """
        self.model.train()
        tokens = sum(batch.target_tokens for batch in batches)
        nats = torch.zeros((), device=self.device)
        compute = self._shared_loss or self.loss
        for number, batch in enumerate(batches, 1):
            with nullcontext() if number == len(batches) else self.world.no_sync(compute):
                loss, nll = compute(batch.to(self.device), self.recipe.label_smoothing, self.recipe.r_drop)
                torch.autograd.backward(loss * self.world.size / tokens)
            nats += nll
        if not self.encoder_learns:
            self._keep_source_embeddings(batches)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip_norm)
        if self.device.type == "cuda":  # reading the norm would wait for the GPU: its fused Adam checks this itself
            self.optimizer.found_inf = norm.isfinite().logical_not().float()  # type: ignore[attr-defined]
            nats = torch.where(norm.isfinite(), nats, torch.nan)
        elif not math.isfinite(norm.item()):
            raise TrainingError(NOT_FINITE)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return self.world.sum(nats)

    def _keep_source_embeddings(self, batches: Sequence[Batch]) -> None:
        """Lets only the embeddings of these batches' target tokens learn, where encoder and decoder share them.

        As the wrong answers of the softmax all others would move away from what a frozen encoder reads: in 620 steps by
        a quarter of their length, which cost 0.04 nats a token.
        """
        if self.model.config.share_embeddings != "all":
            return
        weight = self.model.source_embedding.tokens.weight
        is_target = torch.zeros(len(weight), device=self.device)
        for batch in batches:
            is_target[batch.tgt_out.flatten().to(self.device)] = 1.0
        assert weight.grad is not None
        weight.grad *= self.world.sum(is_target).clamp_(max=1.0)[:, None]

    def loss(self, batch: Batch, smoothing: float, r_drop: float = 0.0) -> tuple[Tensor, Tensor]:
        """The summed loss of a batch, and its summed nats: `projected_loss`, or with `r_drop` `r_drop_loss`."""
        if r_drop:
            batch = batch.doubled()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            with nullcontext() if self.encoder_learns else torch.no_grad():
                encoded = self.model.encode(batch.src)  # [batch, source, d_model]
            memory, mask = self.model.memory(encoded), self.model.source_mask(batch.src)
            hidden = self.model.decode(batch.tgt_in, memory, mask)  # [batch, target, d_model]
            target_positions = batch.target_positions
            if target_positions is None:
                target_positions = (batch.tgt_out != self.model.config.pad_id).flatten().nonzero()[:, 0]
            hidden = hidden.flatten(0, 1)[target_positions]  # [tokens, d_model]
            if self.precision == "bfloat16":
                hidden = hidden.bfloat16()
        output, targets = _projection(self.model), batch.tgt_out.flatten()[target_positions]
        if r_drop:
            passes = hidden.view(2, -1, hidden.size(-1))
            return r_drop_loss(passes, output, targets[: passes.size(1)], smoothing, r_drop)
        if self._teacher is None or batch.rehearsed is None:
            return self._cross_entropy(hidden, output, targets, smoothing)
        own, taught = batch.rehearsed.others, batch.rehearsed.tokens
        loss, nll = self._cross_entropy(hidden[own], output, targets[own], smoothing)
        predicted, teacher = self._predicted(self._teacher, batch, batch.rehearsed), _projection(self._teacher)
        distilled, taught_nll = distillation_loss(hidden[taught], output, predicted, teacher, targets[taught])
        return loss + self.recipe.distil * distilled, nll + taught_nll

    def _cross_entropy(
        self, hidden: Tensor, output: Projection, targets: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        """`projected_loss`; in training with the recipe's `sampled_softmax` its estimate."""
        if samples := self.recipe.sampled_softmax if self.model.training else 0:
            return sampled_loss(hidden, output, targets, smoothing, samples)
        return projected_loss(hidden, output, targets, smoothing)

    @torch.no_grad()
    def _predicted(self, teacher: Transformer, batch: Batch, rehearsed: RehearsedRows) -> Tensor:
        """The decoder states of `teacher` at the rehearsed pairs' predictions: [predictions, d_model]."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            hidden = teacher.hidden(batch.src[rehearsed.rows], batch.tgt_in[rehearsed.rows])
        hidden = hidden.flatten(0, 1)[rehearsed.target_positions]
        return hidden.bfloat16() if self.precision == "bfloat16" else hidden

    def learning_rate(self, step: int, done: float = 0.0, warmup: int = 0) -> float:
        """The learning rate of `step`. By the clock also depends on the share `done` of the time that is over, and on
        the steps of `warmup`, if they are fewer than the recipe's; the peak is the same."""
        recipe, width = self.recipe, self.model.config.d_model
        if recipe.minutes is None:
            return noam(step, width, recipe.warmup, recipe.learning_rate_factor, recipe.steps, recipe.cooldown)
        warmup = warmup or recipe.warmup
        factor = recipe.learning_rate_factor * math.sqrt(warmup / recipe.warmup)
        if not recipe.steps:
            return noam(warmup, width, warmup, factor) * by_clock(step, warmup, done, recipe.cooldown)
        by_steps = noam(step, width, warmup, factor, recipe.steps, recipe.cooldown)
        return min(by_steps, noam(step, width, warmup, factor) * fall(done, recipe.cooldown))

    @torch.no_grad()
    def development_loss(self, pairs: Pairs) -> float:
        """Nats per token on `pairs`, without smoothing or dropout."""
        self.model.eval()
        order = np.argsort(pairs.target.lengths, kind="stable")
        nats, tokens = 0.0, 0
        for rows in np.array_split(order, max(1, len(order) // 64)):
            batch = pairs.batch(rows, self.model.config)
            nats += self.loss(batch.to(self.device), 0.0)[1].item()
            tokens += batch.target_tokens
        return nats / tokens


def _projection(model: Transformer) -> Projection:
    return Projection(model.output.weight, model.output.bias)


def _frozen(config: ModelConfig, weights: Mapping[str, Tensor], device: torch.device) -> Transformer:
    """A model with `weights` that are never trained."""
    model = Transformer(config)
    model.load_state_dict(weights)
    return model.requires_grad_(False).eval().to(device)


class _Loss(nn.Module):
    """`Trainer.loss` as a module, which DistributedDataParallel requires."""

    def __init__(self, trainer: Trainer) -> None:
        super().__init__()
        self.model, self.loss = trainer.model, trainer.loss

    def forward(self, batch: Batch, smoothing: float, r_drop: float) -> tuple[Tensor, Tensor]:
        return self.loss(batch, smoothing, r_drop)


def resolve_precision(precision: str, device: torch.device, cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Resolves "auto": bfloat16 where its matrix products are faster than float32's, else float32.

    They are faster on GPUs that have it (NVIDIA's since Ampere), with AMX, and on AMD's processors with AVX-512 BF16 (a
    Zen 4: 2.4 times). On an Intel processor with AVX-512 BF16 but without AMX they take twice as long as float32's. The
    choice is a rule rather than a measurement, so that a resumed run computes as before.
    """
    if precision != "auto":
        return precision
    if device.type == "cuda":  # there may be none: also called for a bundle that was trained on one
        fast = not torch.cuda.is_available() or torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        fast = torch.cpu._is_amx_tile_supported() or _is_amd_with_bfloat16(cpuinfo)
    return "bfloat16" if fast else "float32"


def _is_amd_with_bfloat16(cpuinfo: Path) -> bool:
    try:
        processor = cpuinfo.read_text()
    except OSError:
        return False
    return "AuthenticAMD" in processor and "avx512_bf16" in processor
