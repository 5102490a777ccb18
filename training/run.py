"""The verb `run`: from a file of sentence pairs to a bundle in one command, which goes on where it was stopped.

    python -m training run --pairs my.tsv --source en --target fr --out bundles/mine
    python -m training run --pairs my.tsv --init bundles/en-fr --out bundles/mine

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
from training.cleaning import RULES
from training.export import ATTRIBUTION, LICENCE, ExportOptions, data_digest, export_run, serve_command
from training.finetune import LEARNING_RATE, Initial, Tuning, said_changes
from training.loop import train
from training.plan import Plan, measure, within
from training.prepare import already_prepared, prepare_corpora, two_columns
from training.prepare_options import MAX_TOKENS, PrepareOptions
from training.prepared import PreparedSummary
from training.recipes import architecture_for, recipe_for, size_for
from training.scoring import Development, limits_for
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
    tuning: Tuning | None = None

    def __post_init__(self) -> None:
        if self.architecture is not None and self.tuning is not None:
            raise ValueError("--architecture is that of the bundle with --init: give one of the two")
        if self.architecture is not None and self.architecture not in ARCHITECTURES:
            raise ValueError(f"--architecture must be one of {', '.join(ARCHITECTURES)}, not {self.architecture!r}")
        if self.minutes is not None and not self.minutes > 0:
            raise ValueError(f"--minutes must be above 0, not {self.minutes:g}")

    def fits(self, plan: Plan) -> bool:
        """Whether `plan` is for what is asked here."""
        asked = self.architecture if self.tuning is None else self.tuning.architecture
        return asked in (None, plan.architecture)


def run_all(options: RunOptions, say: Say = print) -> None:
    """Prepares, plans, trains and exports, leaving out what is done already.

    Raises BundleError, CorpusError, TrainingError and ValueError, each in one line.
    """
    data, out = options.prepare.out, options.export.out
    summary, plan = already_prepared(options.prepare), Plan.load(options.work)
    if summary and plan and options.fits(plan) and made_by(plan, data, out):
        _say_changes(out, say)
        say(f"all is done: {out} was made from these pairs (delete {options.work} to train anew)")
        return
    check_replaceable(out, options.export.replace)
    device = pick_device(options.export.device)
    if summary is None:
        summary = _prepare(options, say)
    if plan is None or plan.data != data_digest(data):
        plan = _make_plan(options, summary, device, say)
        plan.save(options.work)
    elif not options.fits(plan):
        raise TrainingError(f"{options.work} was begun with the architecture {plan.architecture}: give another --work")
    export = options.export
    if options.tuning is not None:
        before = options.tuning.measured_before(options.work, data, say)
        export = dataclasses.replace(
            export, initial=options.tuning.initial.record(before), evaluate_on=options.tuning.general
        )
    _train(options, plan, device, say)
    export_run(export, say)
    _say_changes(out, say)


def _say_changes(out: Path, say: Say) -> None:
    config, _ = read_bundle(out)
    for line in said_changes(config):
        say(line)


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
    data, tuning = options.prepare.out, options.tuning
    pairs, _ = load_pairs(data)
    if tuning is not None:
        name, config = tuning.architecture, tuning.initial.config
        recipe = tuning.recipe(pairs, options.prepare.seed)
    else:
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
        recipe = recipe if tuning is None else tuning.paced(recipe)
    return Plan(data_digest(data), name, config, recipe, speed)


def _train(options: RunOptions, plan: Plan, device: torch.device, say: Say) -> None:
    snapshot = load_state(options.export.run) if options.export.run.exists() else None
    for line in plan.describe(snapshot["state"]["step"] if snapshot else 0):
        say(line)
    pairs, _ = load_pairs(options.prepare.out)
    limits = limits_for(pairs, plan.config)
    initial = options.tuning.initial.weights if options.tuning else None
    train(options.prepare.out, options.export.run, plan.config, plan.recipe, device, limits, plan.save_every, initial)


def tuning_asked(
    init: Path | None, general: list[str] | None, mix: list[str] | None, learning_rate: float | None
) -> Tuning | None:
    """What --init asks for. ValueError names an option that needs it."""
    if init is not None:
        return Tuning(Initial.load(init), tuple(general or ()), learning_rate)
    for option, given in (("general", general), ("mix", mix), ("learning-rate", learning_rate)):
        if given:
            raise ValueError(f"--{option} is for fine-tuning: give the bundle to begin from with --init")
    return None


def languages_asked(tuning: Tuning | None, source: str | None, target: str | None) -> tuple[str, str]:
    """Source and target, of the bundle if there is one. Raises ValueError."""
    if tuning is not None:
        return tuning.initial.languages(source, target)
    if source is None or target is None:
        raise ValueError("give --source and --target, or a bundle to begin from with --init")
    return source, target


_TUNING = "Fine-tuning"


def run(
    pairs: Annotated[
        list[str],
        typer.Option(
            "--pairs",
            "--from",
            metavar="FILE",
            help="Your sentence pairs, one a line: source, tab, translation; .gz and .xz too. Or two plain files, as "
            "a.en,b.fr. Also a zip or tar of these, a TMX, the address of any, as https://.../file.tsv.gz#sha256=..., "
            "and mtdata:ID if mtdata is installed. Give the option again for more.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The bundle folder to make, such as bundles/mine.")],
    source: Annotated[
        str | None, typer.Option(metavar="CODE", help="The language to translate from, such as en or pt-BR.")
    ] = None,
    target: Annotated[str | None, typer.Option(metavar="CODE", help="The language to translate into.")] = None,
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
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE", help=f"Do not apply a rule of cleaning: {', '.join(RULES)}, or all."),
    ] = None,
    architecture: Annotated[
        str | None, typer.Option(help="tiny, small or base. (default: what suits the number of pairs)")
    ] = None,
    init: Annotated[
        Path | None,
        typer.Option(
            metavar="BUNDLE",
            help="Adapt this bundle to your pairs, instead of beginning with nothing.",
            rich_help_panel=_TUNING,
        ),
    ] = None,
    general: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Pairs of another field, to see what is lost there; give it again for more.",
            rich_help_panel=_TUNING,
        ),
    ] = None,
    mix: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE:N",
            help="Learn also from these, N pairs for each of yours, to lose less elsewhere.",
            rich_help_panel=_TUNING,
        ),
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help=f"The highest. (default: {LEARNING_RATE:g})", rich_help_panel=_TUNING)
    ] = None,
    licence: Annotated[
        str | None,
        typer.Option(help="Under which licence the bundle may be used. (default: as the --init bundle, or not stated)"),
    ] = None,
    attribution: Annotated[
        list[str] | None,
        typer.Option(
            help="Who made the pairs, as their licence asks; give it again for more. The --init bundle's stay."
        ),
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
    tuning = tuning_asked(init, general, mix, learning_rate)
    source, target = languages_asked(tuning, source, target)
    prepare = PrepareOptions(
        pairs=tuple(pairs),
        source=source,
        target=target,
        out=work / "data",
        dev=dev,
        columns=None if columns is None else two_columns(columns),
        encoding=encoding,
        keep=tuple(keep or ()),
        seed=seed,
        replace=True,
        mix=tuple(mix or ()),
        vocabulary=str(tuning.initial.vocabulary) if tuning else None,
        max_tokens=min(MAX_TOKENS, tuning.initial.max_tokens) if tuning else MAX_TOKENS,
    )
    credits = tuple(attribution or (ATTRIBUTION,))
    export = ExportOptions(
        run=work / "run",
        data=work / "data",
        out=out,
        replace=replace,
        licence=tuning.initial.licence(licence) if tuning else licence or LICENCE,
        attribution=tuning.initial.attribution(credits) if tuning else credits,
        device=device,
    )
    run_all(RunOptions(work, prepare, export, architecture, minutes, tuning), typer.echo)
    typer.echo("to serve it:")
    typer.echo(f"  {serve_command(out)}")
