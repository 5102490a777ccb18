"""The verb `run`: from a file of sentence pairs to a bundle in one command, which goes on where it was stopped.

    python -m training run --pairs my.tsv --source en --target fr --out bundles/mine

Knows the order of things; each is done by the verb's file that it is named after.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import typer

from model.allocator import keep_freed_memory
from model.bundle import BundleError, check_replaceable, read_bundle
from model.config import ARCHITECTURES
from model.tokenizer import Tokenizer
from training.batches import load_pairs
from training.checkpoint import STATE, load_state
from training.export import ATTRIBUTION, LICENCE, ExportOptions, data_digest, export_run, serve_command
from training.plan import Plan, measure, within
from training.prepare import PrepareOptions, already_prepared, prepare_corpora, two_columns
from training.prepared import PreparedSummary
from training.recipes import architecture_for, recipe_for, size_for
from training.scoring import Development, limits_for
from training.train import train
from training.trainer import TrainingError, pick_device, use_threads

Say = Callable[[str], None]


@dataclass(frozen=True)
class RunOptions:
    """`prepare.out` and `export.run`, `.data` lie in `work`."""

    work: Path
    prepare: PrepareOptions
    export: ExportOptions
    architecture: str | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        if self.architecture is not None and self.architecture not in ARCHITECTURES:
            raise ValueError(f"--architecture must be one of {', '.join(ARCHITECTURES)}, not {self.architecture!r}")
        if self.minutes is not None and not self.minutes > 0:
            raise ValueError(f"--minutes must be above 0, not {self.minutes:g}")


def run_all(options: RunOptions, say: Say = print) -> None:
    """Prepares, plans, trains and exports, leaving out what is done already.

    Raises BundleError, CorpusError, TrainingError and ValueError, each in one line.
    """
    data, out = options.prepare.out, options.export.out
    summary, plan = already_prepared(options.prepare), Plan.load(options.work)
    if summary and plan and made_by(plan, data, out):
        say(f"all is done: {out} was made from these pairs (delete {options.work} to train anew)")
        return
    check_replaceable(out, options.export.replace)
    device = pick_device(options.export.device)
    if summary is None:
        summary = _prepare(options, say)
    if plan is None or plan.data != data_digest(data):
        plan = _make_plan(options, summary, device, say)
        plan.save(options.work)
    elif options.architecture not in (None, plan.architecture):
        raise TrainingError(f"{options.work} was begun with the architecture {plan.architecture}: give another --work")
    _train(options, plan, device, say)
    export_run(options.export, say)


def made_by(plan: Plan, data: Path, out: Path) -> bool:
    """Whether `out` is the bundle that `plan` leads to: then a run killed after its export has nothing left to do."""
    try:
        config, _ = read_bundle(out)
    except BundleError:
        return False
    training = config["training"]
    ours = (plan.data, dataclasses.asdict(plan.recipe), plan.config.to_dict())
    return plan.data == data_digest(data) and ours == (
        training.get("data_sha256"),
        training.get("recipe"),
        config["architecture"],
    )


def _prepare(options: RunOptions, say: Say) -> PreparedSummary:
    if (options.export.run / STATE).exists():
        raise TrainingError(
            f"{options.work} was begun with other pairs or options: give another --work, or delete that folder"
        )
    options.work.mkdir(parents=True, exist_ok=True)
    return prepare_corpora(options.prepare, say)


def _make_plan(options: RunOptions, summary: PreparedSummary, device: torch.device, say: Say) -> Plan:
    data = options.prepare.out
    pairs, _ = load_pairs(data)
    size = size_for(len(pairs), device.type == "cuda")
    name = options.architecture or size.architecture
    config = architecture_for(size, summary.vocab_size, options.prepare.max_tokens, architecture=name)
    recipe = recipe_for(size, pairs, seed=options.prepare.seed)
    tokenizer = Tokenizer.load(data / "sentencepiece.model")
    development = Development.load(data, tokenizer, limits_for(pairs, config), summary.target)
    say("timing a few steps ...")
    speed = measure(config, recipe, pairs, development, device)
    if options.minutes is not None:
        recipe = within(recipe, speed, options.minutes)
    return Plan(data_digest(data), name, config, recipe, speed)


def _train(options: RunOptions, plan: Plan, device: torch.device, say: Say) -> None:
    snapshot = load_state(options.export.run) if options.export.run.exists() else None
    for line in plan.describe(snapshot["state"]["step"] if snapshot else 0):
        say(line)
    pairs, _ = load_pairs(options.prepare.out)
    limits = limits_for(pairs, plan.config)
    train(options.prepare.out, options.export.run, plan.config, plan.recipe, device, limits, plan.save_every)


def run(
    pairs: Annotated[
        list[str],
        typer.Option(
            metavar="FILE",
            help="Your sentence pairs, one a line: source, tab, translation; .gz and .xz too. Or two plain files, as "
            "a.en,b.fr. Give the option again for more files.",
        ),
    ],
    source: Annotated[str, typer.Option(metavar="CODE", help="The language to translate from, such as en or pt-BR.")],
    target: Annotated[str, typer.Option(metavar="CODE", help="The language to translate into.")],
    out: Annotated[Path, typer.Option(help="The bundle folder to make, such as bundles/mine.")],
    minutes: Annotated[
        float | None, typer.Option(help="Take no longer than about this. (default: until it stops getting better)")
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option(help="Where everything on the way is kept, for the same command to go on. (default: runs/NAME)"),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Swap a bundle that is there for the new one.")] = False,
    dev: Annotated[
        str | None, typer.Option(metavar="FILE", help="Pairs to measure by. (default: some are set apart)")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="N,N", help="The columns of source and target, such as 2,1. (default: found)")
    ] = None,
    encoding: Annotated[str | None, typer.Option(help="Such as cp1252 or gb18030. (default: found)")] = None,
    architecture: Annotated[
        str | None, typer.Option(help="tiny, small or base. (default: what suits the number of pairs)")
    ] = None,
    licence: Annotated[str, typer.Option(help="Under which licence the bundle may be used.")] = LICENCE,
    attribution: Annotated[
        list[str] | None, typer.Option(help="Who made the pairs, as their licence asks; give it again for more.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed, the same model.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: a GPU if there is one.")] = "auto",
    threads: Annotated[int | None, typer.Option(help="CPU threads. (default: one a core)")] = None,
) -> None:
    """Do all in one go: from a file of sentence pairs to a bundle that the service loads.

    Stopped at any moment, the same command goes on where it was.
    """
    keep_freed_memory()
    use_threads(threads)
    work = work or Path("runs", out.name)
    prepare = PrepareOptions(
        pairs=tuple(pairs),
        source=source,
        target=target,
        out=work / "data",
        dev=dev,
        columns=None if columns is None else two_columns(columns),
        encoding=encoding,
        seed=seed,
        replace=True,
    )
    export = ExportOptions(
        run=work / "run",
        data=work / "data",
        out=out,
        replace=replace,
        licence=licence,
        attribution=tuple(attribution or (ATTRIBUTION,)),
        device=device,
    )
    run_all(RunOptions(work, prepare, export, architecture, minutes), typer.echo)
    typer.echo("to serve it:")
    typer.echo(f"  {serve_command(out)}")
