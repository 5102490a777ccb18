"""The verb `run`: from a file of sentence pairs to a bundle in one command, which goes on where it was stopped.

    python -m training run --pairs my.tsv --source en --target fr --out mine/en-fr
    python -m training run --pairs my.tsv --init bundles/en-fr --out mine/adapted
    python -m training run --recipe recipes/en-fr.toml --corpora DIR --out bundles/en-fr --replace

Knows the order of things; each is done by the verb's file that it is named after.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer

from model.atomic_files import check_replaceable
from model.bundle import read_bundle
from model.machine import keep_freed_memory
from model.tokenizer import Tokenizer
from training.adapt.finetune import LEARNING_RATE, REHEARSE, said_changes
from training.adapt.transfer import Parent
from training.cleaning.rules import RULES
from training.compute import pick_device, use_threads
from training.data.batches import load_pairs
from training.data.dataset import PreparedSummary
from training.data.prepare import already_prepared, damage, input_files, prepare_corpora, two_columns
from training.evaluation.evaluate import TestSet
from training.evaluation.scoring import A_DIFFERENCE, Development, limits_for
from training.export.bundle import export_run, serve_command
from training.export.run_folder import MOST_CANDIDATES, data_digest, record_origin
from training.export.tradeoff import ACCEPTED, SHARES
from training.file_lock import alone_in, alone_making
from training.optim.checkpoint import STATE, load_state
from training.optim.defaults import architecture_for
from training.optim.loop import CHANGEABLE, train
from training.optim.trainer import TrainingError
from training.pipeline.options import RunOptions, export_asked, prepare_asked, tuning_asked
from training.pipeline.plan import Plan, measure, within_minutes
from training.pipeline.recipe_file import RecipeFile
from training.pipeline.work_folder import made_by, rivals, work_folder

Say = Callable[[str], None]


def run_all(options: RunOptions, say: Say = print) -> None:
    """Prepares, plans, trains and exports, leaving out what is done already.

    Raises BundleError, NotReplaceable, BusyError, CorpusError, TrainingError and ValueError, each in one line.
    """
    began = time.monotonic()
    # Where nothing can be written, or another makes the same, that is said now and not after hours of training.
    with alone_in(options.work), alone_making(options.export.out):
        _do_what_is_left(options, began, say)


def _do_what_is_left(options: RunOptions, began: float, say: Say) -> None:
    """`began`: when, by the monotonic clock, the time of --minutes began."""
    data, out = options.prepare.out, options.export.out
    tests = options.export.tests(options.prepare.source, options.prepare.target)
    options.export.sentences()  # what cannot be read is said before any work
    options, general = options.rehearsing(tests, say)
    tests = [*tests, *(test for test in general if test not in tests)]
    summary, plan = already_prepared(options.prepare), Plan.load(options.work)
    if summary and plan and options.fits(plan) and made_by(plan, options.export, tests):
        _say_changes(out, say)
        say(f"all is done: {out} was made from these pairs (delete {options.work} to train anew)")
        return
    check_replaceable(out, options.export.replace, needed=input_files(options.prepare))
    for rival in rivals(out, f"{options.prepare.source}-{options.prepare.target}"):
        say(f"warning: {rival} is of the same direction, and a service of {out.parent} refuses two: mind --out")
    device = pick_device(options.export.device)
    if summary is None:
        summary = _prepare(options, say)
    begun = (options.export.run / STATE).exists()
    if plan is None or plan.data != data_digest(data) or not (begun or options.fits(plan)):
        plan = _make_plan(options, summary, tests, general, device, began, say)
        plan.save(options.work)
    else:
        if options.minutes is not None:
            say(f"--minutes counts from now; the plan was made before (delete {options.work} for another)")
        if not options.fits(plan):
            plan = _of_another_length(plan, options, summary, device)
            plan.save(options.work)
    export, adapted = options.export, None
    if options.tuning is not None:
        before = options.tuning.measured_before(options.work, data, general, say)
        export = dataclasses.replace(export, initial=options.tuning.initial.record(before))
        adapted = options.tuning.adapted(before, general)
    record_origin(export.run, export.origin)
    _train(options, plan, device, began, say)
    export_run(export, say, tests, adapted)
    _say_changes(out, say)


def _say_changes(out: Path, say: Say) -> None:
    config, _ = read_bundle(out)
    for line in said_changes(config):
        say(line)


def _prepare(options: RunOptions, say: Say) -> PreparedSummary:
    if (options.export.run / STATE).exists():
        lost = damage(options.prepare.out)
        why = f"has lost the data that it was begun with ({lost})" if lost else "was begun with other pairs or options"
        raise TrainingError(f"{options.work} {why}: give another --work, or delete that folder")
    options.work.mkdir(parents=True, exist_ok=True)
    return prepare_corpora(options.prepare, say)


def _make_plan(
    options: RunOptions,
    summary: PreparedSummary,
    tests: Sequence[TestSet],
    general: Sequence[TestSet],
    device: torch.device,
    began: float,
    say: Say,
) -> Plan:
    data, tuning = options.prepare.out, options.tuning
    pairs, _ = load_pairs(data)
    if tuning is not None:
        name, config = tuning.architecture, dataclasses.replace(tuning.initial.config, **options.model)
    else:
        size = options.size(summary, device)
        name, shape = options.architecture or size.architecture, options.model
        if options.parent and not options.architecture:
            name, shape = f"of {options.parent.name}", options.parent.shape | options.model
        config = architecture_for(size, summary.vocab_size, options.prepare.max_tokens, **shape)
    if options.parent:
        options.parent.check(config)
    recipe = options.recipe(options.training, pairs, summary, device)
    tokenizer = Tokenizer.load(data / "sentencepiece.model")
    development = Development.load(data, tokenizer, limits_for(pairs, config), summary.target)
    use_threads(options.threads, config)
    say("timing a few steps ...")
    timed = partial(measure, config, recipe, pairs, development, device)
    speed = timed()
    # The candidates are measured on the development set, the best on the others; what is adapted, before and at points
    # on the way.
    sentences = MOST_CANDIDATES * summary.dev_pairs + sum(len(test.pairs) for test in tests)
    sentences += summary.dev_pairs + sum(len(test.pairs) for test in tests)  # what ships, as served too
    if tuning is not None:
        sentences += (len(SHARES) + 3) * (summary.dev_pairs + sum(len(test.pairs) for test in general))
    exporting = sentences * speed.translation
    if options.minutes is not None:
        speed, recipe = within_minutes(options.minutes, began, recipe, speed, sentences, timed, say)
        recipe = recipe if tuning is None else tuning.paced(recipe)
        exporting = sentences * speed.translation
    return Plan(data_digest(data), name, config, recipe, speed, options.asked, exporting)


def _of_another_length(plan: Plan, options: RunOptions, summary: PreparedSummary, device: torch.device) -> Plan:
    """`plan`, by which a run was begun, for as long as is asked now. Raises TrainingError if it is for another run."""
    if not options.fits_but_for_length(plan):
        others = "".join(f" and another {name}" for name in options.differing(plan))
        raise TrainingError(
            f"{options.work} was begun with the architecture {plan.architecture}{others}: give another --work"
        )
    pairs, _ = load_pairs(options.prepare.out)
    # What an epoch is in steps is the plan's to say: another device may want other batches.
    given = {"batch_tokens": plan.recipe.batch_tokens, "accumulate": plan.recipe.accumulate, **options.training}
    recipe = options.recipe(given, pairs, summary, device)
    # What is asked for as before stays what it came to then, within --minutes or on another device.
    changed = options.length_differing(plan)
    if changed & {"epochs", "steps"}:
        changed |= {"steps", "evaluate_every"}
    lasting = {name: getattr(recipe, name) for name in CHANGEABLE if name in changed}
    return dataclasses.replace(plan, recipe=dataclasses.replace(plan.recipe, **lasting), asked=options.asked)


def _train(options: RunOptions, plan: Plan, device: torch.device, began: float, say: Say) -> None:
    snapshot = load_state(options.export.run) if options.export.run.exists() else None
    done = (snapshot["state"]["step"], snapshot["state"]["seconds"]) if snapshot else ()
    for line in plan.describe(*done):
        say(line)
    pairs, _ = load_pairs(options.prepare.out)
    limits = limits_for(pairs, plan.config)
    initial = options.tuning.initial.weights if options.tuning else None
    if options.parent and snapshot is None:
        tokenizer = Tokenizer.load(options.prepare.out / "sentencepiece.model")
        pieces = options.parent.pieces(tokenizer)
        whole = sum(len(parts) == 1 for parts in pieces.values())
        say(
            f"beginning from {options.parent.name}, which has {whole:,} of the tokens and parts of "
            f"{len(pieces) - whole:,} others"
        )
        initial = options.parent.weights(plan.config, pieces, plan.recipe.seed)
    use_threads(options.threads, plan.config)
    run = options.export.run
    limit = None if options.minutes is None else plan.time_limit(began + 60 * options.minutes)
    with alone_in(run):  # `train` may be told to work there
        how = (device, limits, plan.save_every, initial)
        train(options.prepare.out, run, plan.config, plan.recipe, *how, time_is_up=limit.reached if limit else None)


_TUNING = "Fine-tuning"


def run(
    out: Annotated[Path, typer.Option(help="The bundle folder to make, such as mine/en-fr.")],
    pairs: Annotated[
        list[str] | None,
        typer.Option(
            "--pairs",
            "--from",
            metavar="FILE",
            help="Your sentence pairs, one a line: source, tab, translation; .gz and .xz too. Or two plain files, as "
            "a.en,b.fr. Also a zip or tar of these, a TMX, the address of any, as https://.../file.tsv.gz#sha256=..., "
            "and mtdata:ID if mtdata is installed. Give the option again for more.",
        ),
    ] = None,
    recipe: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file that says all this and more, such as recipes/en-fr.toml; what is given here wins.",
        ),
    ] = None,
    corpora: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where the files are that the recipe names. (default: the current folder)"),
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="CODE", help="The language to translate from, such as en or pt-BR.")
    ] = None,
    target: Annotated[str | None, typer.Option(metavar="CODE", help="The language to translate into.")] = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="So long at most, preparing and export included. (default: until it stops getting better)"),
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option(
            help="Where everything on the way is kept, for the same command to go on. "
            "(default: runs/mine-en-fr for --out mine/en-fr)"
        ),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Swap a bundle that is there for the new one.")] = False,
    dev: Annotated[
        str | None, typer.Option(metavar="FILE", help="Pairs to measure by. (default: some are set apart)")
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Pairs to measure the finished bundle on; give it again for more."),
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
    parent: Annotated[
        Path | None,
        typer.Option(
            metavar="BUNDLE",
            help="Begin from the weights of this one for other languages: sooner good, from fewer pairs.",
        ),
    ] = None,
    general: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Pairs of another field, to see what is lost there; again for more. (default: the bundle's, or ours)",
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
    rehearse: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            help="Learn also from N general sentences for each of your pairs, with the translations that the bundle "
            f"gives now, to lose less elsewhere; 0 for none. (default: {REHEARSE:g})",
            rich_help_panel=_TUNING,
        ),
    ] = None,
    general_text: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Take those from this text in the source language, a sentence a line. (default: sentences of ours)",
            rich_help_panel=_TUNING,
        ),
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help=f"The highest. (default: {LEARNING_RATE:g})", rich_help_panel=_TUNING)
    ] = None,
    accept_loss: Annotated[
        float | None,
        typer.Option(
            metavar="BLEU",
            help="Ship what was learnt even where it costs this much on the development set. (default: "
            f"{A_DIFFERENCE:g}; if it costs more, the weights of the --init bundle ship)",
            rich_help_panel=_TUNING,
        ),
    ] = None,
    accept_general_loss: Annotated[
        float | None,
        typer.Option(
            metavar="BLEU",
            help="Ship what loses this much on general pairs; where all that was learnt loses more, nothing is "
            f"exported. (default: {ACCEPTED:g})",
            rich_help_panel=_TUNING,
        ),
    ] = None,
    blend: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Ship weights that lie this far from the --init bundle's to those learnt, such as 0.75: what is lost "
            "elsewhere comes back sooner than what is gained goes. (default: the best of several on your pairs that "
            "loses no more elsewhere than is accepted)",
            rich_help_panel=_TUNING,
        ),
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
    remark: Annotated[
        list[str] | None,
        typer.Option(help="A paragraph for the card: what the model is for, and not for; give it again for more."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed, the same model. (default: 1)")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: a GPU if there is one.")] = "auto",
    threads: Annotated[int | None, typer.Option(help="CPU threads. (default: one a core; for `tiny` one)")] = None,
) -> None:
    """Do all in one go: from a file of sentence pairs to a bundle that the service loads.

    Stopped at any moment, the same command goes on where it was.
    """
    keep_freed_memory()
    use_threads(threads)
    work = work or work_folder(out)
    if corpora is not None and recipe is None:
        raise ValueError("--corpora is where the files are that a recipe names: give one with --recipe")
    below = corpora or Path()
    said = (RecipeFile.load(recipe, below) if recipe else RecipeFile()).overridden(
        pairs=tuple(pairs or ()),
        source=source,
        target=target,
        dev=dev,
        test=tuple(test or ()),
        seed=seed,
        parent=str(parent) if parent else None,
        prepare={
            "columns": two_columns(columns),
            "encoding": encoding,
            "keep": tuple(keep) if keep else None,
        },
        model={"architecture": architecture},
        export={
            "licence": licence,
            "attribution": tuple(attribution) if attribution else None,
            "remarks": tuple(remark) if remark else None,
        },
    )
    tuning = tuning_asked(
        init, general, mix, learning_rate, accept_loss, blend, accept_general_loss, rehearse, general_text
    )
    prepare = prepare_asked(said, work, tuning, tuple(mix or ()))
    begun_from = Parent.load(Path(said.parent)) if said.parent else None
    export = export_asked(said, work, tuning, begun_from, out, replace, device, below if recipe else None)
    run_all(
        RunOptions(work, prepare, export, said.model, said.training, minutes, tuning, begun_from, threads), typer.echo
    )
    typer.echo("to serve it:")
    typer.echo(f"  {serve_command(out)}")
