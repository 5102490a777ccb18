"""Our engine against fxtranslate, which runs Firefox's models: the same weights in int8, the same texts, the same core.

    PYTHONPATH=.:tests/support python -m benchmarks.firefox --bundle mine/en-fr --pairs my.tsv --python other/bin/python

The bundle must be one that Marian can express, such as `train --architecture student` makes with Marian's positions,
post-normalisation and --zero-start. Both take texts and give texts. fxtranslate chooses its instructions itself.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, Self
from unittest.mock import patch

import torch
import typer
from marian_models import INTGEMM8, as_bin, is_product
from sacrebleu import corpus_chrf
from torch import Tensor, nn

from benchmarks.cores import chosen_isa, pinned, processor
from benchmarks.table import Table
from model.backends import prepare
from model.bundle_weights import LoadedBundle, load_bundle
from model.decoding import greedy_decode
from model.machine import keep_freed_memory
from training.corpora.corpus import read_pairs
from training.export.marian import marian_arrays, marian_vocabulary

ROWS = (16, 32, 64, 128)
PEER = Path(__file__).with_name("peers") / "firefox.py"


def firefox_model(bundle: LoadedBundle, texts: Sequence[str]) -> bytes:
    """The bundle's model as Firefox has them, which round the inputs of each product by a number that is fixed: here by
    the largest input that it has while the model translates `texts`. One embedding for both sides."""
    largest: dict[int, float] = {}
    linear = torch.nn.functional.linear

    def noted(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        place = weight.untyped_storage().data_ptr()
        largest[place] = max(largest.get(place, 0.0), float(x.abs().max()))
        return linear(x, weight, bias)

    with patch.object(torch.nn.functional, "linear", noted):
        greedy_decode(bundle.model, [bundle.source_tokenizer.encode_source(text) for text in texts], bundle.limits)
    arrays, multipliers = marian_arrays(bundle.model), deepcopy(bundle.model)
    for ours, filled in zip(bundle.model.modules(), multipliers.modules(), strict=True):
        if isinstance(ours, nn.Linear):
            assert isinstance(filled, nn.Linear)
            filled.weight.data.fill_(127 / largest[ours.weight.untyped_storage().data_ptr()])
    for name, array in marian_arrays(multipliers).items():  # so only the exporter knows what Marian calls each weight
        if is_product(name):
            product = "none" if name == "Wemb" else name  # its transpose, which is multiplied, has no name
            arrays[f"{product}_QuantMultA"] = array[:1, :1]
    return as_bin(arrays, INTGEMM8)


class Peer:
    """fxtranslate, in a process of its own on `core`; a context that ends it."""

    def __init__(self, python: Path, model: Path, vocabulary: Path, core: int) -> None:
        with pinned(core):
            self._process = subprocess.Popen(
                [python, PEER, model, vocabulary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        self.about = f"fxtranslate, {self._answer()}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate()

    def translate(self, texts: Sequence[str]) -> tuple[list[float], list[str]]:
        """Seconds of each, and the translations."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(list(texts)) + "\n")
        self._process.stdin.flush()
        seconds, translations = self._answer()
        return seconds, translations

    def _answer(self) -> Any:
        assert self._process.stdout
        if not (line := self._process.stdout.readline()):
            self._process.communicate()
            raise RuntimeError(f"fxtranslate ended with status {self._process.returncode}")
        return json.loads(line)


class Ours:
    """Our engine in this process, from text to text."""

    def __init__(self, bundle: LoadedBundle) -> None:
        keep_freed_memory()
        torch.set_num_threads(1)
        self._bundle, self._backend = bundle, prepare(bundle.model, "int8", isa=chosen_isa())
        self.about = f"Interlinear, {type(self._backend).__name__}"

    def translate(self, texts: Sequence[str], rows: int) -> list[str]:
        """Decodes up to `rows` of the texts together."""
        sources = [self._bundle.source_tokenizer.encode_source(text) for text in texts]
        done = greedy_decode(self._backend, sources, self._bundle.limits, rows)
        return [self._bundle.target_tokenizer.decode(hypothesis.tokens) for hypothesis in done]

    def seconds_alone(self, texts: Sequence[str]) -> list[float]:
        seconds = []
        for text in texts:
            began = perf_counter()
            self.translate([text], 1)
            seconds.append(perf_counter() - began)
        return seconds


def compare(ours: Ours, peer: Peer, texts: Sequence[str], rounds: int) -> Iterator[Table]:
    """All texts, in turns: ours at each number of rows; and each text alone."""
    speeds: dict[int, list[float]] = {rows: [] for rows in ROWS}
    theirs: list[float] = []
    ratios: list[float] = []
    alone: list[tuple[float, float]] = []
    for _ in range(rounds):
        round_speeds = {}
        for rows in ROWS:
            began = perf_counter()
            ours.translate(texts, rows)
            round_speeds[rows] = len(texts) / (perf_counter() - began)
        spent, _ = peer.translate(texts)
        theirs.append(len(texts) / sum(spent))
        for rows, speed in round_speeds.items():
            speeds[rows].append(speed)
        ratios.append(max(round_speeds.values()) / theirs[-1])
        alone.append((1000 * statistics.median(ours.seconds_alone(texts)), 1000 * statistics.median(spent)))
    table = Table("Sentences a second", ["speed"], note="one core, text to text")
    table.rows = {f"Interlinear, {rows} rows": [each] for rows, each in speeds.items()}
    table.rows |= {"fxtranslate": [theirs], "ours at its best is faster by": [ratios]}
    yield table
    table = Table("One sentence alone", ["ms"], note="the median sentence")
    table.rows = {"Interlinear": [[one for one, _ in alone]], "fxtranslate": [[other for _, other in alone]]}
    table.rows["ours is faster by"] = [[other / one for one, other in alone]]
    yield table


def main(
    folder: Annotated[Path, typer.Option("--bundle", help="A bundle that Marian can express.")],
    pairs: Annotated[Path, typer.Option(metavar="FILE", help="Sentence pairs (TSV).")],
    python: Annotated[Path, typer.Option(help="The Python of an environment with fxtranslate.")] = Path(sys.executable),
    sentences: Annotated[int, typer.Option(help="Maximum number of sentences.")] = 1_000,
    rounds: Annotated[int, typer.Option(min=1, help="Measurements of each.")] = 5,
    core: Annotated[int, typer.Option(help="The core on which both run in turns.")] = 0,
) -> None:
    """Measure our engine against fxtranslate on the same weights, sentences and core."""
    bundle = load_bundle(folder, torch.device("cpu"))
    read = list(read_pairs(pairs)[0])
    random.Random(1).shuffle(read)
    read = [pair for pair in read if len(bundle.source_tokenizer.encode_source(pair.source)) < bundle.limits.max_source]
    texts, references = [pair.source for pair in read[:sentences]], [pair.target for pair in read[:sentences]]
    with tempfile.TemporaryDirectory() as temporary:
        model, vocabulary = Path(temporary) / "model.bin", Path(temporary) / "vocab.spm"
        model.write_bytes(firefox_model(bundle, texts[:100]))
        vocabulary.write_bytes(marian_vocabulary(bundle.source_tokenizer))
        ours = Ours(bundle)
        with Peer(python, model, vocabulary, core) as peer, pinned(core):
            typer.echo(f"{processor()}; {ours.about}; {peer.about}; {len(texts):,} sentences of {pairs.name}")
            found = {"Interlinear": ours.translate(texts, 64), "fxtranslate": peer.translate(texts)[1]}
            for name, translations in found.items():
                score = corpus_chrf(translations, [references]).score
                typer.echo(f"{name}: chrF {score:.1f}, {statistics.fmean(map(len, translations)):.1f} characters")
            for table in compare(ours, peer, texts, rounds):
                typer.echo("\n" + "\n".join(table.lines()))


if __name__ == "__main__":
    typer.run(main)
