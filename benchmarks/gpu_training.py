"""Measures the GPU utilisation of training, and the minutes to a BLEU score. `--until` has never run on a GPU.

    python -m benchmarks.gpu_training --json figures.json
    python -m benchmarks.gpu_training --pairs train.tsv --dev dev.tsv --architecture small --until 40

Target tokens a second and the share of the card's peak, for several batch sizes, and where the best one
spends its time, kernel by kernel. The share counts model operations, those of the paper's formulas, and not what
else the kernels do. It also runs on a CPU, as in its test, whose peak is unknown.
"""

from __future__ import annotations

import csv
import json
import platform
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile

from benchmarks.cores import processor
from benchmarks.table import Table
from benchmarks.training import random_pairs, read_task_pairs
from model.config import ARCHITECTURES, ModelConfig, named_architecture
from training.compute import pick_device
from training.data.batches import Batch, Pairs, Position, batches_from
from training.optim.trainer import Recipe, Trainer

ROOT = Path(__file__).resolve().parent.parent
PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L4": 121e12, "RTX 4090": 165e12}
"""Dense bfloat16 operations a second, by a part of the card's name (NVIDIA's data sheets, SXM versions)."""
Report = Callable[[Sequence[Table]], None]
COLUMNS = ("target tokens/s", "ms a step", "of the peak, %", "padding, %", "first steps, s")


def operations(config: ModelConfig, batch: Batch) -> float:
    """Operations of forward and backward pass: 6 per parameter and token (Kaplan et al. 2020, section 2.1); attention.

    Parameters of the encoder, and of keys and values in cross-attention, count per source token; the decoder's others
    and the output's per target token. Embeddings are looked up, which costs nothing, and padding does not count.
    Attention takes 12 d_model a layer for each pair of query and key: 2 for each of two products, three times. A target
    token attends to half of the targets on average.
    """
    width, inner = config.d_model, config.d_ff
    source = (batch.src != config.pad_id).sum(1).double()  # [batch], tokens
    target = (batch.tgt_out != config.pad_id).sum(1).double()
    feed = 2 * width * inner
    encoder = config.encoder_layers * (4 * width**2 + feed)
    memory = config.decoder_layers * 2 * width**2
    decoder = config.decoder_layers * (4 * width**2 + 2 * width**2 + feed) + width * config.target_vocab_size
    weights = 6 * ((encoder + memory) * source.sum() + decoder * target.sum())
    seen = config.encoder_layers * (source * source).sum()
    seen = seen + config.decoder_layers * ((target * (target + 1) / 2).sum() + (target * source).sum())
    return float(weights + 12 * width * seen)


def peak(name: str) -> float | None:
    """The card's peak operations a second by its data sheet, if known."""
    return next((rate for part, rate in PEAKS.items() if re.search(rf"\b{part}\b", name)), None)


def padding(batches: Sequence[Batch], pad: int) -> float:
    """The share of padding among source and target positions."""
    tables = [table for batch in batches for table in (batch.src, batch.tgt_out)]
    return 1 - sum(int((table != pad).sum()) for table in tables) / sum(table.numel() for table in tables)


@dataclass(frozen=True)
class Speed:
    """Speed of one setting."""

    tokens_per_second: list[float]
    """Target tokens a second in each round."""
    step_ms: float
    operations_per_second: float
    padding: float
    first_s: float
    """Seconds of the first round, in which kernels are loaded and memory is allocated."""

    def cells(self, ceiling: float | None) -> list[Any]:
        share = 100 * self.operations_per_second / ceiling if ceiling else None
        return [self.tokens_per_second, self.step_ms, share, 100 * self.padding, self.first_s]


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def speed(trainer: Trainer, batches: Sequence[Batch], rounds: int) -> Speed:
    """Measures `rounds` rounds of steps through `batches`, each of another shape, after a warm-up round."""
    config, device = trainer.model.config, trainer.device
    seconds = []
    for _ in range(rounds + 1):
        wait_for(device)
        began = time.perf_counter()
        for batch in batches:
            trainer.step([batch], 1e-4)
        wait_for(device)
        seconds.append(time.perf_counter() - began)
    first, *counted = seconds
    tokens = sum(batch.target_tokens for batch in batches)
    median = statistics.median(counted)
    work = sum(operations(config, batch) for batch in batches)
    rates = [tokens / taken for taken in counted]
    return Speed(rates, 1000 * median / len(batches), work / median, padding(batches, config.pad_id), first)


def kernels(trainer: Trainer, batches: Sequence[Batch], count: int = 12) -> Table:
    """The kernels with the largest own time in these steps."""
    on_gpu = trainer.device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities) as record:
        for batch in batches:
            trainer.step([batch], 1e-4)
        wait_for(trainer.device)
    own = "self_device_time_total" if on_gpu else "self_cpu_time_total"
    # Only kernels on a GPU, since the operators that launch them, and annotations, have the same time.
    kept = [
        e
        for e in record.key_averages()
        if not on_gpu or (e.device_type == DeviceType.CUDA and not e.is_user_annotation)
    ]
    events = sorted(kept, key=lambda event: -getattr(event, own))
    total = sum(getattr(event, own) for event in events) or 1
    table = Table("Largest kernels", ("of the time, %", "calls"))
    for number, event in enumerate(events[:count], 1):  # kernels of one template differ only at the end
        table.rows[f"{number}. {event.key[:60]}"] = [100 * getattr(event, own) / total, float(event.count)]
    return table


def sweep(
    pairs: Pairs,
    config: ModelConfig,
    device: torch.device,
    sizes: Sequence[int],
    steps: int,
    rounds: int,
    trainer_type: Callable[..., Trainer] = Trainer,
    measure: Callable[[Trainer, Sequence[Batch], int], Speed] = speed,
) -> Iterator[tuple[str, Speed, Trainer, list[Batch]]]:
    """Measures every batch size. Reports and skips those that do not fit the memory, so that the other results
    remain."""
    for size in sizes:
        batches = list(islice(batches_from(pairs, config, size, 1, Position()), steps))
        trainer = trainer_type(config, Recipe(steps=1, batch_tokens=size), device)
        label = f"{size:,} tokens"
        try:
            yield label, measure(trainer, batches, rounds), trainer, batches
        except torch.OutOfMemoryError:
            typer.echo(f"{label}: out of memory")


def logged(work: Path) -> list[dict[str, float]]:
    """The evaluations in a run's log so far."""
    path = work / "run" / "log.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def minutes_until(bleu: float, minutes: float, options: Sequence[str], report: Report) -> Table:
    """Runs `python -m training run` until it reaches `bleu` or `minutes` are over; returns BLEU by minutes.

    BLEU is that of the evaluations during training, on at most 500 development sentences. The bundle is discarded.
    Raises ChildProcessError if training fails.
    """
    table = Table(f"Minutes from the command to {bleu:g} BLEU", ("minutes", "BLEU", "steps"))
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "training", "run", "--out", f"{folder}/bundle", "--work", f"{folder}/work"]
        began = time.monotonic()
        command = [*words, *options]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        try:
            reached, ended = False, False
            while not (reached or ended) and time.monotonic() - began < 60 * minutes:
                time.sleep(0.5)
                ended = process.poll() is not None
                for row in logged(Path(folder, "work"))[len(table.rows) :]:
                    passed = (time.monotonic() - began) / 60
                    table.rows[f"evaluation {len(table.rows) + 1}"] = [passed, row["dev_bleu"], row["step"]]
                    reached = reached or row["dev_bleu"] >= bleu
                    report([table])
            if ended and process.returncode:
                raise ChildProcessError(f"the training exited with status {process.returncode}: {shlex.join(command)}")
        finally:
            process.kill()
            process.wait()
    table.note = "reached" if reached else "not reached"
    return table


def main(
    pairs: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Sentence pairs to train on (TSV). (default: random)")
    ] = None,
    dev: Annotated[Path | None, typer.Option(help="Development pairs, for --until.")] = None,
    until: Annotated[float | None, typer.Option(help="Measure the time to this BLEU on --dev instead.")] = None,
    recipe: Annotated[Path | None, typer.Option(help="Training recipe, for --until.")] = None,
    source: Annotated[str, typer.Option(help="Language of the pairs' first column.")] = "en",
    target: Annotated[str, typer.Option(help="Language of their second column.")] = "fr",
    minutes: Annotated[float, typer.Option(help="Time limit of --until.")] = 20.0,
    architecture: Annotated[str, typer.Option(help=f"One of {', '.join(ARCHITECTURES)}.")] = "base",
    vocab_size: Annotated[int, typer.Option(help="Pieces of the joint vocabulary; --until uses the recipe's.")] = 8_000,
    batch_tokens: Annotated[list[int], typer.Option(help="Padded target tokens per batch; repeatable.")] = [  # noqa: B006
        8_192,
        16_384,
        32_768,
        65_536,
    ],
    steps: Annotated[int, typer.Option(help="Batches per round, each of another shape.")] = 10,
    rounds: int = 3,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the figures to FILE.")] = None,
) -> None:
    """Measure the GPU utilisation of training, or the time to a BLEU score."""
    where = pick_device(device)
    name = torch.cuda.get_device_name(where) if where.type == "cuda" else processor()
    machine = f"{name}; Python {platform.python_version()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}"
    typer.echo(machine)

    def write(tables: Sequence[Table]) -> None:
        """Writes the figures after each row, so that an interrupted measurement keeps them."""
        if json_file:
            figures = {"machine": machine, "tables": [table.as_json() for table in tables]}
            json_file.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")

    if until is not None:
        if pairs is None or dev is None:
            raise typer.BadParameter("--until needs --pairs and --dev")
        files = ["--pairs", str(pairs.resolve()), "--dev", str(dev.resolve()), "--source", source, "--target", target]
        options = ["--architecture", architecture, "--device", where.type]
        options += ["--recipe", str(recipe.resolve())] if recipe else []
        tables = [minutes_until(until, minutes, [*files, *options], write)]
    else:
        data, size_found = (random_pairs(60_000, vocab_size), vocab_size)
        if pairs is not None:
            data, size_found = read_task_pairs(pairs, vocab_size)
        config = named_architecture(architecture, source_vocab_size=size_found, target_vocab_size=size_found)
        tables = measured(data, config, where, batch_tokens, steps, rounds, peak(name), write)
    for table in tables:
        typer.echo("\n" + "\n".join(table.lines()))
    write(tables)


def measured(
    data: Pairs,
    config: ModelConfig,
    device: torch.device,
    sizes: Sequence[int],
    steps: int,
    rounds: int,
    ceiling: float | None,
    report: Report,
) -> list[Table]:
    """The sweep, and the largest kernels of the setting with the most operations a second."""
    table = Table("Training", COLUMNS)
    best, setting = 0.0, None
    for label, found, trainer, batches in sweep(data, config, device, sizes, steps, rounds):
        table.rows[label] = found.cells(ceiling)
        typer.echo(f"{label}: {statistics.median(found.tokens_per_second):,.0f} target tokens/s")
        if found.operations_per_second > best:
            best, setting = found.operations_per_second, (label, trainer, batches)
            table.note = f"at best {best / 1e12:.3g} T model operations a second, of {_peak_text(ceiling)}"
        report([table])
    if setting is None:
        return [table]
    label, trainer, batches = setting
    largest = kernels(trainer, batches)
    largest.note = label
    return [table, largest]


def _peak_text(ceiling: float | None) -> str:
    return f"{ceiling / 1e12:,.0f} T in bfloat16 by the data sheet" if ceiling else "an unknown peak"


if __name__ == "__main__":
    typer.run(main)
