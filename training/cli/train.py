"""The verb `train`: prepared pairs in, a run folder of checkpoints and curves out.

    python -m training train --data data/mine --out runs/mine

Knows the options. The steps are `training.optim.loop`'s, and which recipe suits a corpus `training.optim.defaults`'s.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from training.compute import pick_device, use_threads
from training.data.batches import load_pairs
from training.data.dataset import PreparedSummary
from training.evaluation.scoring import limits_for
from training.file_lock import BusyError, alone_in
from training.optim.defaults import architecture_for, recipe_for, size_for
from training.optim.distributed import World, joined
from training.optim.loop import train
from training.optim.signals import Stopped, python_here
from training.optim.trainer import TrainingError

_LENGTH, _MODEL, _MACHINE = "How long", "Model", "Machine and files"
_RECIPE, _REPORT = "Recipe (what is not given suits the number of pairs)", "Evaluation and early stopping"


def train_verb(
    data: Annotated[Path, typer.Option(help="The data folder that `prepare` made.")],
    out: Annotated[Path, typer.Option(help="The run folder: made, or continued where it was stopped.")],
    epochs: Annotated[float | None, typer.Option(help="Times to go through the data.", rich_help_panel=_LENGTH)] = None,
    steps: Annotated[
        int | None, typer.Option(help="Or: updates of the weights, whatever the data.", rich_help_panel=_LENGTH)
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            help="Stop after this many evaluations without a better development loss; 0: never. (default: 5)",
            rich_help_panel=_LENGTH,
        ),
    ] = None,
    architecture: Annotated[
        str | None,
        typer.Option(help="tiny, small or base: larger learns more, from more pairs.", rich_help_panel=_MODEL),
    ] = None,
    dropout: Annotated[
        float | None, typer.Option(help="Share of values dropped; more for fewer pairs.", rich_help_panel=_MODEL)
    ] = None,
    attention_dropout: Annotated[
        float | None, typer.Option(help="The same for attention weights. (default: 0)", rich_help_panel=_MODEL)
    ] = None,
    norm: Annotated[
        str | None,
        typer.Option(
            help="Layer normalisation: post (the paper), pre or residual_post. (default: pre)", rich_help_panel=_MODEL
        ),
    ] = None,
    positions: Annotated[
        str | None, typer.Option(help="sinusoidal or learned. (default: sinusoidal)", rich_help_panel=_MODEL)
    ] = None,
    sharing: Annotated[
        str | None,
        typer.Option(
            help="Embedding matrices that are one: all, decoder, none. (default: all)", rich_help_panel=_MODEL
        ),
    ] = None,
    bias: Annotated[
        bool | None,
        typer.Option("--bias/--no-bias", help="Biases in attention. (default: bias)", rich_help_panel=_MODEL),
    ] = None,
    encoder_layers: Annotated[
        int | None, typer.Option(help="Instead of the architecture's.", rich_help_panel=_MODEL)
    ] = None,
    decoder_layers: Annotated[int | None, typer.Option(help="Likewise.", rich_help_panel=_MODEL)] = None,
    d_model: Annotated[int | None, typer.Option(help="Width; likewise.", rich_help_panel=_MODEL)] = None,
    num_heads: Annotated[int | None, typer.Option(help="Attention heads; likewise.", rich_help_panel=_MODEL)] = None,
    d_ff: Annotated[int | None, typer.Option(help="Feed-forward width; likewise.", rich_help_panel=_MODEL)] = None,
    batch_tokens: Annotated[
        int | None,
        typer.Option(help="Tokens a batch, padding included; of all processes together.", rich_help_panel=_RECIPE),
    ] = None,
    accumulate: Annotated[
        int | None, typer.Option(help="Batches a step, where memory is short. (default: 1)", rich_help_panel=_RECIPE)
    ] = None,
    learning_rate_factor: Annotated[
        float | None, typer.Option(help="Times the paper's learning rate.", rich_help_panel=_RECIPE)
    ] = None,
    warmup: Annotated[
        int | None, typer.Option(help="Steps in which the learning rate climbs.", rich_help_panel=_RECIPE)
    ] = None,
    cooldown: Annotated[
        float | None,
        typer.Option(help="Share of the steps in which it falls to zero. (default: 0.25)", rich_help_panel=_RECIPE),
    ] = None,
    label_smoothing: Annotated[
        float | None, typer.Option(help="Probability spread over all tokens. (default: 0.1)", rich_help_panel=_RECIPE)
    ] = None,
    bpe_dropout: Annotated[
        float | None,
        typer.Option(
            help="Share of merges left out where text becomes tokens, anew each epoch. (default: 0)",
            rich_help_panel=_RECIPE,
        ),
    ] = None,
    r_drop: Annotated[
        float | None,
        typer.Option(
            help="How much two passes with different dropout must agree; needs two a batch. (default: 0)",
            rich_help_panel=_RECIPE,
        ),
    ] = None,
    clip_norm: Annotated[
        float | None, typer.Option(help="Longest gradient. (default: 1)", rich_help_panel=_RECIPE)
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Draws weights, dropout and order. (default: 1)", rich_help_panel=_RECIPE)
    ] = None,
    evaluate_every: Annotated[
        int | None,
        typer.Option(
            help="Steps between evaluations, each of which keeps weights. (default: 25 times in all)",
            rich_help_panel=_REPORT,
        ),
    ] = None,
    keep: Annotated[
        int | None, typer.Option(help="Last weights to keep, for averaging. (default: 5)", rich_help_panel=_REPORT)
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(help="float32 or bfloat16. (default: what is faster here)", rich_help_panel=_MACHINE),
    ] = None,
    device: Annotated[
        str, typer.Option(help="cpu, cuda, or auto: a GPU if there is one.", rich_help_panel=_MACHINE)
    ] = "auto",
    compiled: Annotated[
        bool,
        typer.Option(
            "--compile/--no-compile",
            help="Through torch.compile, which takes minutes to begin; for GPUs, and never run on one.",
            rich_help_panel=_MACHINE,
        ),
    ] = False,
    threads: Annotated[
        int | None, typer.Option(help="CPU threads. (default: one a core; for `tiny` one)", rich_help_panel=_MACHINE)
    ] = None,
    save_every: Annotated[
        int | None,
        typer.Option(
            help="Steps between savings; an evaluation is one, too. (default: 100, on a GPU 1,000)",
            rich_help_panel=_MACHINE,
        ),
    ] = None,
) -> None:
    """Train a model on prepared data. Killed at any moment, the same command continues it."""
    if steps is not None and epochs is not None:
        raise TrainingError("give --steps or --epochs, not both")
    summary, where = PreparedSummary.load(data), pick_device(device)
    pairs, _ = load_pairs(data)
    size = size_for(summary.own_pairs, where.type == "cuda")
    config = architecture_for(
        size,
        summary.vocab_size,
        summary.options["max_tokens"],
        architecture=architecture,
        dropout=dropout,
        attention_dropout=attention_dropout,
        norm=norm,
        positions=positions,
        share_embeddings=sharing,
        attention_bias=bias,
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        d_model=d_model,
        num_heads=num_heads,
        d_ff=d_ff,
    )
    recipe = recipe_for(
        size,
        pairs,
        epochs,
        steps=steps,
        batch_tokens=batch_tokens,
        accumulate=accumulate,
        learning_rate_factor=learning_rate_factor,
        warmup=warmup,
        cooldown=cooldown,
        label_smoothing=label_smoothing,
        bpe_dropout=bpe_dropout,
        r_drop=r_drop,
        clip_norm=clip_norm,
        precision=precision,
        seed=seed,
        evaluate_every=evaluate_every,
        patience=patience,
        keep=keep,
    )
    use_threads(threads, config)
    with joined(where) as world, _alone_in(out, world):
        try:
            limits = limits_for(pairs, config)
            if save_every is None:
                save_every = 1000 if where.type == "cuda" else 100
            state = train(data, out, config, recipe, world.device, limits, save_every, world=world, compiled=compiled)
        except Stopped:
            if world.is_first:
                raise
    if not world.is_first:
        return
    typer.echo(f"trained {state.step:,} steps; the best development loss was {state.best_loss:.3f} nats a token")
    typer.echo(
        f"next: {python_here()} -m training export --run {shlex.quote(str(out))} --data {shlex.quote(str(data))} "
        f"--out mine/{summary.source}-{summary.target}"
    )


@contextmanager
def _alone_in(run: Path, world: World) -> Iterator[None]:
    """The first process holds the lock of `run` for all. Raises BusyError, in all."""
    with ExitStack() as held:

        def refusal() -> str:
            try:
                held.enter_context(alone_in(run))
            except BusyError as error:
                return str(error)
            return ""

        if said := world.from_first(refusal):
            raise BusyError(said)
        yield
