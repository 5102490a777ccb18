"""The command `toy`: learns to drop the first number of a sequence, the smallest proof that model and trainer work.

    python -m training toy

Needs no files.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
import typer
from torch import Tensor

from model.config import ARCHITECTURES, ModelConfig, NormPlacement, named_architecture
from model.transformer import Transformer
from training.command_line import command_from_options
from training.compute import pick_device, use_threads
from training.data.batches import Batch
from training.data.options import require
from training.optim.schedule import noam
from training.optim.trainer import Recipe, Trainer
from training.options import DEVICE

VOCABULARY = 11
"""The numbers 1 to 10; 0 is padding, which never occurs."""
LENGTH = 15
BATCH = 32
TRAINING_BATCHES, VALIDATION_BATCHES = 30, 10
"""Per epoch."""
START = 1
WARMUP = 400
QUESTION = list(range(1, VOCABULARY))


@dataclass(frozen=True)
class ToyOptions:
    norm: NormPlacement = "pre"
    """Placement of layer normalisation: post (the paper), pre or residual_post."""
    d_model: int = ARCHITECTURES["toy"]["d_model"]
    """Model width, a multiple of 4; the original demonstration has 512, which is slow."""
    epochs: int = 20
    """Number of epochs, each of {TRAINING_BATCHES} batches of {BATCH} sequences."""
    seed: int = 1
    """Seed for weights, dropout and numbers."""
    device: Annotated[str, DEVICE] = "auto"

    def __post_init__(self) -> None:
        require(self.epochs >= 1, f"--epochs must be at least 1, not {self.epochs}")

    def config(self) -> ModelConfig:
        """The architecture `toy`; its feed-forward layer is always twice as wide as the model."""
        return named_architecture(
            "toy",
            source_vocab_size=VOCABULARY,
            target_vocab_size=VOCABULARY,
            d_model=self.d_model,
            d_ff=2 * self.d_model,
            norm=self.norm,
            share_embeddings="none",
            bos_id=START,
            max_positions=LENGTH,
        )


def draw_batch(random: torch.Generator) -> Batch:
    """Sequences of random numbers after a 1; the target is the sequence without it.

    The dropped 1 is the decoder's start symbol, so the decoder's input is the sequence itself.
    """
    numbers = torch.randint(1, VOCABULARY, (BATCH, LENGTH), generator=random)  # [batch, source]
    numbers[:, 0] = START
    target = numbers[:, 1:].contiguous()  # [batch, target]
    return Batch(numbers, numbers[:, :-1].contiguous(), target, target.numel())


def learn(options: ToyOptions, say: Callable[[str], None] = print) -> Transformer:
    """Trains on fresh random sequences; one line to `say` per epoch. Equal options give equal weights on a CPU."""
    device = pick_device(options.device)
    steps = options.epochs * TRAINING_BATCHES
    recipe = Recipe(steps=steps, warmup=WARMUP, label_smoothing=0.0, precision="float32", seed=options.seed)
    use_threads(None, options.config())
    trainer = Trainer(options.config(), recipe, device)
    random = torch.Generator().manual_seed(options.seed)
    say(f"{trainer.model.parameter_count():,} parameters, norm {options.norm}, on {device.type}")
    for epoch in range(options.epochs):
        began = time.monotonic()
        nats = torch.zeros((), device=device)
        for number in range(TRAINING_BATCHES):
            step = epoch * TRAINING_BATCHES + number + 1
            nats += trainer.step([draw_batch(random)], noam(step, options.d_model, WARMUP))
        tokens = TRAINING_BATCHES * BATCH * (LENGTH - 1)
        train_loss = nats.item() / tokens
        speed = tokens / (time.monotonic() - began)
        say(
            f"epoch {epoch + 1:2}: training loss {train_loss:.4f}, validation loss "
            f"{validation_loss(trainer, random):.4f}, {speed:,.0f} tokens/s"
        )
    return trainer.model.eval()


@torch.no_grad()
def validation_loss(trainer: Trainer, random: torch.Generator) -> float:
    """Nats per token on fresh sequences, without dropout."""
    trainer.model.eval()
    batches = [draw_batch(random) for _ in range(VALIDATION_BATCHES)]
    nats = sum(trainer.loss(batch.to(trainer.device), 0.0)[1].item() for batch in batches)
    return nats / sum(batch.target_tokens for batch in batches)


@torch.no_grad()
def drop_first(model: Transformer, numbers: list[int]) -> list[int]:
    """The model's greedy answer for `numbers`: as many numbers as there are after the first.

    Any number may occur in an answer, so there is no end symbol, and each step runs the whole decoder again;
    `model.decoding` does neither.
    """
    device = model.output.weight.device
    src = torch.tensor([numbers], device=device)  # [1, source]
    tgt = torch.tensor([[START]], device=device)  # [1, target]
    for _ in numbers[1:]:
        best: Tensor = model(src, tgt)[:, -1:].argmax(-1)
        tgt = torch.cat([tgt, best], dim=1)
    return [int(number) for number in tgt[0, 1:]]


@command_from_options
def toy(options: ToyOptions) -> None:
    """Learn to drop the first number of a sequence, in a minute.

    interlinear toy

    It needs no files, and shows that model, loss and trainer work.
    """
    model = learn(options, typer.echo)
    typer.echo(f"without the first number, {QUESTION} is")
    typer.echo(str(drop_first(model, QUESTION)))
