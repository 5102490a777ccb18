"""Our engine against Marian on one core: the same random weights, the same sentences, equally long translations.

    taskset -c 1 python -m benchmarks.marian --oracle PYTHON --shape student

PYTHON is the interpreter of an environment with pymarian. Both decode greedily. Sentences have `SOURCE_TOKENS` tokens
and, since random weights end none, translations have `TARGET_TOKENS`, Marian's limit for such sources. Marian is not
asked for scores. Each engine runs at each batch size, in turns.
"""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import tempfile
from pathlib import Path
from time import perf_counter
from typing import IO, Annotated, Any, cast

import torch
import typer

from benchmarks.cores import processor
from benchmarks.importing import convert_with_marian
from benchmarks.sentences import random_sentences
from benchmarks.shapes import TARGET_TOKENS, random_bundle
from model.backends import prepare
from model.bundle_weights import LoadedBundle, load_bundle
from model.decoding import decode_all
from model.decoding.batch import Batch
from model.hypothesis import Hypothesis
from training.export.marian import MarianOptions, convert_for_marian

SOURCE_TOKENS = 16
"""End symbol included."""
SHIPPED = Path(__file__).resolve().parents[1] / "bundles" / "en-fr"
MARIAN = """
import json, sys, time
from pymarian import Translator
asked = json.loads(sys.stdin.readline())
translator = Translator(asked["options"])
for line in sys.stdin:
    sentences = json.loads(line)
    began = time.perf_counter()
    found = translator.translate(sentences)
    print(json.dumps([time.perf_counter() - began, found]), flush=True)
"""


class Marian:
    """A process of Marian with one thread."""

    def __init__(self, python: str, model: Path, vocabulary: Path, rows: int) -> None:
        options = (
            f"--models {model} --vocabs {vocabulary} {vocabulary} --beam-size 1 --quiet --cpu-threads 1 --skip-cost "
            f"--max-length-factor {TARGET_TOKENS / SOURCE_TOKENS} --mini-batch {rows} --maxi-batch 100 "
            "--maxi-batch-sort src --no-spm-decode"
        )
        self._process = subprocess.Popen(
            [python, "-c", MARIAN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._send({"options": options})

    def translate(self, sentences: list[str]) -> tuple[float, list[list[str]]]:
        """Seconds, and the pieces of each translation."""
        self._send(sentences)
        seconds, found = json.loads(cast(IO[str], self._process.stdout).readline())
        return seconds, [line.split(" ") for line in found]

    def close(self) -> None:
        cast(IO[str], self._process.stdin).close()
        self._process.wait()

    def _send(self, value: Any) -> None:
        stream = cast(IO[str], self._process.stdin)
        stream.write(json.dumps(value) + "\n")
        stream.flush()


class Ours:
    """Our engine in this process."""

    def __init__(self, bundle: LoadedBundle, precision: str, rows: int) -> None:
        self._bundle, self._rows = bundle, rows
        self._batch: Batch = prepare(bundle.model, precision).new_batch(rows, bundle.limits)

    def translate(self, sentences: list[str]) -> tuple[float, list[list[str]]]:
        """As Marian's, tokenising included."""
        began = perf_counter()
        sources = [self._bundle.source_tokenizer.encode_source(sentence) for sentence in sentences]
        hypotheses = [Hypothesis(source, TARGET_TOKENS) for source in sources]
        decode_all(self._batch, hypotheses)
        seconds = perf_counter() - began
        return seconds, [[self._bundle.target_tokenizer.piece(id) for id in h.tokens] for h in hypotheses]

    def close(self) -> None:
        pass


def sentences_of_one_length(bundle: LoadedBundle, count: int) -> list[str]:
    texts = random_sentences(40 * count)
    encode = bundle.source_tokenizer.encode_source
    found = [text for text in texts if len(encode(text)) == SOURCE_TOKENS - 1]
    if len(found) < count:
        raise typer.BadParameter(f"only {len(found)} random sentences have {SOURCE_TOKENS} tokens")
    return found[:count]


def main(
    oracle: Annotated[str, typer.Option(metavar="PYTHON", help="Interpreter of an environment with pymarian.")],
    shape: Annotated[str, typer.Option(help="See benchmarks.shapes.")] = "student",
    rows: Annotated[list[int] | None, typer.Option(help="Batch sizes; repeatable. (default: 64 and 1)")] = None,
    count: Annotated[int, typer.Option(help="Number of sentences.")] = 128,
    rounds: Annotated[int, typer.Option(min=1)] = 5,
) -> None:
    """Measure our engine against Marian."""
    torch.set_num_threads(1)
    typer.echo(f"{processor()}; Python {platform.python_version()}; {shape}, {count} sentences, greedy, one thread")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        bundle = random_bundle(folder / "bundle", shape, load_bundle(SHIPPED, torch.device("cpu")))
        convert_for_marian(MarianOptions(folder / "bundle", folder / "marian"), lambda line: None)
        float32, vocabulary = folder / "marian" / "model.npz", folder / "marian" / "vocab.spm"
        int8 = convert_with_marian(oracle, float32, folder / "int8.bin", "intgemm8")
        sentences = sentences_of_one_length(bundle, count)
        for number in rows or [64, 1]:
            engines: dict[str, Ours | Marian] = {
                "ours int8": Ours(bundle, "int8", number),
                "Marian int8": Marian(oracle, int8, vocabulary, number),
                "ours float32": Ours(bundle, "float32", number),
                "Marian float32": Marian(oracle, float32, vocabulary, number),
            }
            speeds: dict[str, list[float]] = {name: [] for name in engines}
            answers = {name: engine.translate(sentences)[1] for name, engine in engines.items()}  # warms up
            for turn in range(rounds):
                for name in list(engines)[:: -1 if turn % 2 else 1]:
                    speeds[name].append(count * TARGET_TOKENS / engines[name].translate(sentences)[0])
            for name, found in speeds.items():
                engines[name].close()
                equal = sum(map(list.__eq__, answers[name], answers["ours float32"]))
                tokens = sum(map(len, answers[name])) / count
                speed = f"{statistics.median(found):,.0f} target tokens/s ({min(found):,.0f} to {max(found):,.0f})"
                same = f"{tokens:.1f} tokens a sentence, {equal} of {count} as ours in float32"
                typer.echo(f"{number} together, {name}: {speed}; {same}")


if __name__ == "__main__":
    typer.run(main)
