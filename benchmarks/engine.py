"""Our engine against CTranslate2: the same weights, the same token ids, the same cores, one after the other.

    python -m benchmarks.engine --bundle bundles/en-fr --pairs my.tsv
    python -m benchmarks.engine --shape opus --beam 4

Chooses sentences, weights and cores, and prints the results; the measurements are in `benchmarks.engine_tables`.
"""

from __future__ import annotations

import json
import os
import platform
import random
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from benchmarks.cores import processor
from benchmarks.decoders import OURS, THEIRS
from benchmarks.engine_tables import (
    THEIR_PRECISIONS,
    Bench,
    Plan,
    agreement,
    alone,
    by_length,
    by_rows,
    compare_best,
    memory,
    sweep,
)
from benchmarks.sentences import random_sentences
from benchmarks.shapes import ATTENTION, SHAPES, random_bundle
from benchmarks.table import Table
from benchmarks.team import Work
from model.bundle_weights import LoadedBundle, load_bundle
from training.corpora.corpus import read_pairs
from training.export.ctranslate2 import ConvertOptions, convert_bundle

HERE = Path(__file__).resolve().parent
PARTS = ("speed", "alone", "memory", "answers", "rows", "lengths")


def measure(bench: Bench, bundle: LoadedBundle, parts: Sequence[str]) -> Iterator[Table]:
    """Yields the tables of one bundle on some cores; those that compare single-threaded workers only for one core."""
    single = len(bench.cores) == 1
    rows = 64 if 64 in bench.plan.our_rows else bench.plan.our_rows[-1]
    if {"speed", "memory"} & set(parts):
        table, best = sweep(bench)
        yield table
        if "speed" in parts:
            yield compare_best(bench, best)
        if "memory" in parts:
            yield memory(bench, best)
    if "alone" in parts:
        yield alone(bench, rows)
    if "answers" in parts and single:
        yield agreement(bench, rows)
    if "rows" in parts and single:
        yield by_rows(bench)
    if "lengths" in parts and single:
        yield by_length(bench, bundle.limits.max_source, bundle.limits.target)


def chosen_work(bundle: LoadedBundle, pairs: Path | None, count: int, beam_size: int = 1) -> Work:
    """Sentences of a file in random order, or random ones. The target limit is the bundle's for the longest of them."""
    texts = [pair.source for pair in read_pairs(pairs)[0]] if pairs else random_sentences(2 * count)
    random.Random(1).shuffle(texts)
    encoded = (bundle.source_tokenizer.encode_source(text) for text in texts)
    sources = [source for source in encoded if 0 < len(source) <= bundle.limits.max_source][:count]
    if not sources:
        raise typer.BadParameter(f"no sentence of {pairs} has 1 to {bundle.limits.max_source} tokens")
    return Work(sources, max(bundle.limits.target(len(source)) for source in sources), beam_size)


def models_of(
    bundle: LoadedBundle, folder: Path, precisions: Sequence[str], theirs: LoadedBundle | None = None
) -> dict[tuple[str, str], Path]:
    """The folder of the weights for each kind of engine and precision; converts CTranslate2's into `folder`, which are
    those of `theirs`, if given."""
    models = {(OURS, precision): bundle.folder.resolve() for precision in (*precisions, "float32")}
    for precision in THEIR_PRECISIONS:
        models[THEIRS, precision] = folder / precision
        options = ConvertOptions((theirs or bundle).folder, folder / precision, dtype=precision)
        convert_bundle(options, lambda line: None)
    return models


def chosen_cores(counts: Sequence[int] | None) -> list[list[int]]:
    """The first n available cores for each n of `counts`; by default all, then one."""
    found = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    for count in counts or ():
        if not 1 <= count <= len(found):
            raise typer.BadParameter(f"--cores must be 1 to {len(found)} here, not {count}")
    return [found[:count] for count in dict.fromkeys(counts or (len(found), 1))]


def introduction(bundle: LoadedBundle, work: Work, origin: str, plan: Plan) -> Iterator[str]:
    shape, lengths = bundle.model.config, work.lengths
    layers = f"{shape.encoder_layers} + {shape.decoder_layers} layers, width {shape.d_model}"
    yield f"{bundle.name}: {layers}, {bundle.model.parameter_count():,} parameters"
    search = "greedy" if work.beam_size == 1 else f"beams of {work.beam_size}"
    yield (
        f"{len(work.sources):,} sentences of {origin}: {statistics.fmean(lengths):.1f} source tokens, at most "
        f"{max(lengths)}; {search}, targets of at most {work.limit} tokens, end symbols counted"
    )
    yield f"{plan.rounds} rounds, the engines in turns of at least {plan.seconds} s; medians, and the range"


def main(
    bundles: Annotated[list[Path] | None, typer.Option("--bundle", help="Weights to measure; repeatable.")] = None,
    shapes: Annotated[
        list[str] | None,
        typer.Option("--shape", help=f"Random weights of a shape: {', '.join(SHAPES)}; repeatable."),
    ] = None,
    beam_size: Annotated[int, typer.Option("--beam", min=1, help="Size of the beams; 1 is greedy.")] = 1,
    pairs: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Sentence pairs (TSV). (default: random sentences)"),
    ] = None,
    sentences: Annotated[int, typer.Option(help="Maximum number of sentences.")] = 1_000,
    cores: Annotated[list[int] | None, typer.Option(help="Number of cores; repeatable. (default: all, then 1)")] = None,
    precision: Annotated[list[str] | None, typer.Option(help="Of our engine; repeatable. (default: int8)")] = None,
    parts: Annotated[
        list[str] | None, typer.Option("--part", help=f"One of {', '.join(PARTS)}; repeatable. (default: all)")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Measurements of each.")] = Plan.rounds,
    seconds: Annotated[float, typer.Option(help="Minimum duration of a turn.")] = Plan.seconds,
    short: Annotated[bool, typer.Option("--short", help="Less than a minute: one round, fewer settings.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every round's figures to FILE.")] = None,
) -> None:
    """Measure our engine against CTranslate2 on the same weights, sentences and cores."""
    if find_spec("ctranslate2") is None:
        raise typer.BadParameter("CTranslate2 is not installed: pip install ctranslate2")
    if unknown := sorted(set(parts or ()) - set(PARTS)):
        raise typer.BadParameter(f"--part must be one of {', '.join(PARTS)}, not {unknown[0]}")
    if unknown := sorted(set(shapes or ()) - set(SHAPES)):
        raise typer.BadParameter(f"--shape must be one of {', '.join(SHAPES)}, not {unknown[0]}")
    plan = Plan(rounds, seconds, precisions=tuple(precision or Plan.precisions))
    if short:
        sentences, plan = min(sentences, 200), short_plan(plan)
    machine = f"{processor()}, {os.cpu_count()} cores; Python {platform.python_version()}"
    typer.echo(machine)
    found: dict[str, Any] = {}
    shipped = HERE.parent / "bundles" / "en-fr"
    for wanted in [*(bundles or ([] if shapes else [shipped])), *(shapes or ())]:
        with tempfile.TemporaryDirectory() as temporary:
            theirs = None
            if isinstance(wanted, Path):
                bundle = load_bundle(wanted, torch.device("cpu"))
            else:
                like = load_bundle(shipped, torch.device("cpu"))
                bundle = random_bundle(Path(temporary) / wanted, wanted, like)
                if bundle.architecture.decoder == "ssru":
                    theirs = random_bundle(Path(temporary) / f"{wanted}{ATTENTION}", f"{wanted}{ATTENTION}", like)
            work = chosen_work(bundle, pairs, sentences, beam_size)
            for line in introduction(bundle, work, pairs.name if pairs else "random words", plan):
                typer.echo(line)
            if theirs:
                typer.echo("CTranslate2 has no such decoder: its weights are those of the shape with self-attention")
            models = models_of(bundle, Path(temporary), plan.precisions, theirs)
            compared = [part for part in parts or PARTS if not (theirs and part == "answers")]
            for chosen in chosen_cores(cores):
                with Bench(models, chosen, plan, work) as bench:
                    found[f"{bundle.name}, cores: {len(chosen)}"] = print_tables(bench, bundle, compared)
    if json_file:
        figures = {"machine": machine, "measured": found}
        json_file.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def print_tables(bench: Bench, bundle: LoadedBundle, parts: Sequence[str]) -> dict[str, Any]:
    """Prints each table when it is measured; returns them all for JSON."""
    tables = []
    typer.echo(f"\ncores: {len(bench.cores)} (numbers {', '.join(map(str, bench.cores))})")
    for table in measure(bench, bundle, parts):
        tables.append(table.as_json())
        typer.echo("\n" + "\n".join(table.lines()))
    computed = list(bench.about())
    typer.echo("\nbackends: " + "; ".join(computed))
    return {"computed": computed, "tables": tables}


def short_plan(plan: Plan) -> Plan:
    return Plan(1, min(plan.seconds, 0.2), 10, plan.precisions[:1], (64,), (32,), (1, 8, 64), (8, 32, 128), 64)


if __name__ == "__main__":
    typer.run(main)
