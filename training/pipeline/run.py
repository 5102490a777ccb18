"""Runs all stages from a file of sentence pairs to a bundle, and resumes where it was stopped."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from model.atomic_files import check_replaceable
from model.bundle_files import read_bundle
from model.machine import keep_freed_memory
from training.adapt.finetune import describe_changes
from training.compute import pick_device, use_threads
from training.data.batches import load_pairs
from training.data.dataset import PreparedSummary, load_tokenizers
from training.data.prepare import already_prepared, damage_message, input_files, prepare_corpora
from training.evaluation.evaluate import TestSet
from training.evaluation.scoring import Development, limits_for
from training.export.bundle import export_run
from training.export.run_folder import MAX_CANDIDATES, data_digest, record_origin
from training.export.samples import own_sentences
from training.export.tradeoff import most_points
from training.file_lock import lock_folder, lock_output
from training.launch import serve_command
from training.optim.checkpoint import STATE, load_state
from training.optim.defaults import architecture_for
from training.optim.loop import CHANGEABLE, train
from training.optim.trainer import TrainingError
from training.pipeline.options import RunArguments, RunOptions, run_options
from training.pipeline.plan import Plan, measure
from training.pipeline.preview import Preview
from training.pipeline.work_folder import REVERSE, is_made_by, same_direction_bundles

Say = Callable[[str], None]


def run_all(arguments: RunArguments, say: Say = print) -> None:
    """Prepares, plans, trains and exports; skips the stages that are already done. A dry run writes only a preview.

    Raises BundleError, NotReplaceable, BusyError, CorpusError, TrainingError and ValueError, each with a one-line
    message.
    """
    keep_freed_memory()
    use_threads(arguments.threads)
    options = run_options(arguments)
    started_at = time.monotonic()
    # An output that is busy or cannot be written must fail now, not after hours of training.
    with lock_folder(options.work), lock_output(options.export.out):
        if arguments.dry_run:
            preview = Preview.of(options, say)
            preview.save(options.work)
            for line in preview.describe():
                say(line)
            return
        _run_remaining_stages(options, started_at, say)
    say("to serve it:")
    say(f"  {serve_command(options.export.out)}")


def _run_remaining_stages(options: RunOptions, started_at: float, say: Say) -> None:
    """`started_at`: when the time of --minutes began, on the monotonic clock."""
    data, out = options.prepare.out, options.export.out
    tests = options.export.tests(*options.languages)
    options.export.sentences()  # fail on unreadable input before any work
    for corpus in options.synthetic:
        if not corpus.is_up_to_date:
            check_replaceable(out, options.export.replace)
            corpus.make(say)
    options, general = options.rehearsing(tests, say)
    tests = [*tests, *(test for test in general if test not in tests)]
    summary, plan = already_prepared(options.prepare), Plan.load(options.work)
    if summary and plan and options.fits(plan) and is_made_by(plan, options.export, tests, options.languages):
        _say_changes(out, say)
        say(f"nothing to do: {out} was made from these pairs (delete {options.work} to train again)")
        return
    check_replaceable(out, options.export.replace, needed=input_files(options.prepare))
    for other in same_direction_bundles(out, "-".join(options.languages)):
        say(
            f"warning: {other} translates in the same direction, and a service that loads {out.parent} refuses two such"
            " bundles: consider another --out"
        )
    device = pick_device(options.export.device)
    if summary is None:
        summary = _prepare(options, say)
    begun = (options.export.run / STATE).exists()
    as_asked = plan and options.fits(plan) and options.minutes == plan.recipe.minutes
    if plan is None or plan.data != data_digest(data) or not (begun or as_asked):
        plan = _make_plan(options, summary, tests, general, device, started_at, say)
        plan.save(options.work)
    elif not options.fits(plan):
        plan = _with_new_length(plan, options, summary, device)
        plan.save(options.work)
    export, baseline = options.export, None
    if options.tuning is not None:
        before = options.tuning.measure_before(options.work, data, general, say)
        export = dataclasses.replace(export, initial=options.tuning.initial.record(before))
        baseline = options.tuning.baseline(before, general)
    record_origin(export.run, export.origin)
    _train(options, plan, device, started_at, say)
    export_run(export, say, tests, baseline)
    _say_changes(out, say)


def _say_changes(out: Path, say: Say) -> None:
    config, _ = read_bundle(out)
    for line in describe_changes(config):
        say(line)


def _prepare(options: RunOptions, say: Say) -> PreparedSummary:
    data = options.prepare.out
    if any((run / STATE).exists() for run in (data.parent / "run", data.parent / REVERSE / "run")):
        lost = damage_message(options.prepare.out)
        why = (
            f"has lost the data that it was started with ({lost})"
            if lost
            else "was started with other pairs or options"
        )
        raise TrainingError(f"{data.parent} {why}: give another --work, or delete that folder")
    options.work.mkdir(parents=True, exist_ok=True)
    return prepare_corpora(options.prepare, say)


def _make_plan(
    options: RunOptions,
    summary: PreparedSummary,
    tests: Sequence[TestSet],
    general: Sequence[TestSet],
    device: torch.device,
    started_at: float,
    say: Say,
) -> Plan:
    data, tuning = options.prepare.out, options.tuning
    pairs, _ = load_pairs(data, options.reverse)
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
    development = Development.load(data, limits_for(pairs, config), options.reverse)
    use_threads(options.threads, config)
    say("timing a few steps ...")
    initial = tuning.initial.weights if tuning is not None else None
    timings = measure(config, recipe, pairs, development, device, initial)
    # All candidates are measured on the development set, and the best one on the others; in fine-tuning, also
    # interpolations.
    sentences = min(MAX_CANDIDATES, 1 + recipe.keep) * summary.dev_pairs + sum(len(test.pairs) for test in tests)
    # What ships is also measured as served, and its quality estimates on the same sentences.
    sentences += 2 * (summary.dev_pairs + sum(len(test.pairs) for test in tests))
    own = options.export.sentences() or own_sentences(options.prepare.source)
    sentences += len(own) if own and options.export.samples != "dev" else summary.dev_pairs
    if tuning is not None:
        sentences += most_points(tuning.blend) * (summary.dev_pairs + sum(len(test.pairs) for test in general))
    exporting = timings.exporting(sentences, device.type)
    plan = Plan(data_digest(data), name, config, recipe, timings, options.asked, exporting)
    left = math.inf if options.minutes is None else 60 * options.minutes - (time.monotonic() - started_at)
    if plan.min_seconds > left:
        say(
            f"warning: one step, its evaluation and the export seem to take {plan.min_seconds:.0f} s here, and "
            f"{max(0.0, left):.0f} s of --minutes {options.minutes:g} are left: the run exports what it has by then; "
            "more minutes make a better model"
        )
    return plan


def _with_new_length(plan: Plan, options: RunOptions, summary: PreparedSummary, device: torch.device) -> Plan:
    """`plan`, by which a run was started, with the length requested now. Raises TrainingError if more differs."""
    if not options.fits_except_length(plan):
        others = "".join(f" and another {name}" for name in options.differing(plan))
        raise TrainingError(
            f"{options.work} was started with the architecture {plan.architecture}{others}: give another --work"
        )
    options = dataclasses.replace(options, minutes=options.minutes or plan.recipe.minutes)
    if options.minutes is not None and plan.recipe.minutes is None:
        raise TrainingError(f"{options.work} was started without --minutes: leave it out, or give another --work")
    pairs, _ = load_pairs(options.prepare.out, options.reverse)
    # The plan decides how many steps an epoch has, since another device might get other batches.
    given = {"batch_tokens": plan.recipe.batch_tokens, "accumulate": plan.recipe.accumulate, **options.training}
    recipe = options.recipe(given, pairs, summary, device)
    # Unchanged requests keep their result, even if the device is another one.
    changed = options.length_differing(plan) | {"minutes"}
    if changed & {"epochs", "steps"}:
        changed |= {"steps", "evaluate_every"}
    lasting = {name: getattr(recipe, name) for name in CHANGEABLE if name in changed}
    return dataclasses.replace(plan, recipe=dataclasses.replace(plan.recipe, **lasting), asked=options.asked)


def _train(options: RunOptions, plan: Plan, device: torch.device, started_at: float, say: Say) -> None:
    snapshot = load_state(options.export.run) if options.export.run.exists() else None
    state: dict[str, Any] = snapshot["state"] if snapshot else {"step": 0, "seconds": 0.0}
    used_s = state.get("time", {}).get("used_s", 0.0) + time.monotonic() - started_at
    for line in plan.describe(state["step"], state["seconds"], used_s):
        say(line)
    pairs, _ = load_pairs(options.prepare.out, options.reverse)
    limits = limits_for(pairs, plan.config)
    initial = options.tuning.initial.weights if options.tuning else None
    if options.parent and snapshot is None:
        tokenizer = load_tokenizers(options.prepare.out).source
        pieces = options.parent.pieces(tokenizer)
        whole = sum(len(parts) == 1 for parts in pieces.values())
        say(
            f"starting from {options.parent.name}, which has {whole:,} of the tokens, and parts of "
            f"{len(pieces) - whole:,} others"
        )
        lexicon = {}
        if options.lexicon:
            summary = PreparedSummary.load(options.prepare.out, options.reverse)
            given = tokenizer, pairs, summary, device.type, plan.recipe.seed
            lexicon = options.lexicon.make(options.parent, *given)
            say(f"{len(lexicon):,} of the tokens start from translations by {options.lexicon.bundle.name}")
        initial = options.parent.weights(plan.config, pieces, plan.recipe.seed, lexicon)
    use_threads(options.threads, plan.config)
    run = options.export.run
    with lock_folder(run):  # `train` may be working there too
        how = (device, limits, plan.save_every, initial)
        where = options.prepare.out, run, plan.config, plan.recipe
        train(*where, *how, clock=plan.clock(started_at), reverse=options.reverse)
