"""A training run on prepared data: chooses architecture and recipe by the size of the corpus, then trains.

`training.optim.loop` trains, `training.optim.defaults` chooses.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from model.config import ModelConfig
from training.compute import pick_device, use_threads
from training.data.batches import load_pairs
from training.data.dataset import PreparedSummary
from training.evaluation.scoring import limits_for
from training.file_lock import BusyError, lock_folder
from training.launch import python_command
from training.optim.clock import Clock
from training.optim.defaults import architecture_for, recipe_for, size_for
from training.optim.distributed import World, joined
from training.optim.loop import train
from training.optim.trainer import LENGTH, MACHINE, Recipe, TrainingError
from training.options import DEVICE, Option, OptionGroup, Values
from training.signals import Stopped

MODEL = "Model"
MODEL_OPTIONS = {
    "dropout": Option("Dropout rate; fewer pairs need a higher one.", panel=MODEL),
    "attention_dropout": Option("Dropout rate of attention weights. (default: 0)", panel=MODEL),
    "norm": Option("Layer normalisation: post (the paper), pre or residual_post. (default: pre)", panel=MODEL),
    "positions": Option("sinusoidal, learned, or marian, for export to it. (default: sinusoidal)", panel=MODEL),
    "zero_start": Option("Start the decoder from zeros, as Marian does. (default: from a token)", panel=MODEL),
    "share_embeddings": Option(
        "Which embedding matrices are shared: all, decoder, none. (default: all)", names=("--sharing",), panel=MODEL
    ),
    "attention_bias": Option("Biases in attention. (default: bias)", names=("--bias/--no-bias",), panel=MODEL),
    "encoder_layers": Option("Number of encoder layers; overrides the architecture.", panel=MODEL),
    "decoder_layers": Option("Number of decoder layers; overrides the architecture.", panel=MODEL),
    "d_model": Option("Model width; overrides the architecture.", panel=MODEL),
    "num_heads": Option("Number of attention heads; overrides the architecture.", panel=MODEL),
    "d_ff": Option("Feed-forward width; overrides the architecture.", panel=MODEL),
}
Say = Callable[[str], None]


@dataclass(frozen=True)
class TrainOptions:
    """What to train on, and where; `model` and `recipe` override what depends on the number of pairs."""

    data: Path
    """The data folder that `prepare` made."""
    out: Path
    """The run folder, which is created; or an existing one, to resume it."""
    reverse: Annotated[bool, Option(names=("--reverse",))] = False
    """Train the other direction of the data: from its target language to its source language."""
    epochs: Annotated[float | None, Option(panel=LENGTH)] = None
    """Number of passes over the data."""
    architecture: Annotated[str | None, Option(panel=MODEL)] = None
    """tiny, small or base: larger models learn more, from more pairs; student: small, with a recurrent decoder."""
    model: Annotated[Values, OptionGroup(ModelConfig, options=MODEL_OPTIONS)] = field(default_factory=dict)
    recipe: Annotated[Values, OptionGroup(Recipe)] = field(default_factory=dict)
    device: Annotated[str, Option(DEVICE.help, panel=MACHINE)] = "auto"
    threads: Annotated[int | None, Option(panel=MACHINE)] = None
    """CPU threads. (default: one per core; one for `tiny`)"""
    save_every: Annotated[int | None, Option(panel=MACHINE)] = None
    """Steps between checkpoints; evaluations also save one. (default: 100, on a GPU 1,000)"""

    def __post_init__(self) -> None:
        if self.epochs is not None and "steps" in self.recipe:
            raise TrainingError("give --steps or --epochs, not both")


def train_prepared(options: TrainOptions, say: Say = print) -> None:
    """Trains on prepared data, or resumes. Raises BusyError, TrainingError, ValueError, Stopped."""
    clock = Clock.started()
    summary, where = PreparedSummary.load(options.data, options.reverse), pick_device(options.device)
    pairs, _ = load_pairs(options.data, options.reverse)
    size = size_for(summary.own_pairs, where.type == "cuda")
    shape = {"architecture": options.architecture, **options.model}
    config = architecture_for(size, summary.vocab_size, summary.options["max_tokens"], **shape)
    recipe = recipe_for(size, pairs, options.epochs, **options.recipe)
    use_threads(options.threads, config)
    save_every = options.save_every
    if save_every is None:
        save_every = 1000 if where.type == "cuda" else 100
    with joined(where) as world, _alone_in(options.out, world):
        try:
            limits = limits_for(pairs, config)
            how = (config, recipe, world.device, limits, save_every)
            state = train(options.data, options.out, *how, world=world, clock=clock, reverse=options.reverse)
        except Stopped:
            if world.is_first:
                raise
    if not world.is_first:
        return
    say(f"trained {state.step:,} steps; the best development loss was {state.best_loss:.3f} nats a token")
    run, data = shlex.quote(str(options.out)), shlex.quote(str(options.data))
    say(
        f"next: {python_command()} -m training export --run {run} --data {data} "
        f"--out mine/{summary.source}-{summary.target}"
    )


@contextmanager
def _alone_in(run: Path, world: World) -> Iterator[None]:
    """A context in which the first process holds the lock of `run` for all. Raises BusyError in all processes."""
    with ExitStack() as held:

        def refusal() -> str:
            try:
                held.enter_context(lock_folder(run))
            except BusyError as error:
                return str(error)
            return ""

        if said := world.broadcast_from_first(refusal):
            raise BusyError(said)
        yield
