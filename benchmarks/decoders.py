"""The two engines compared, each in its own processes, which read commands from standard input.

Neither engine's library is imported in the other's processes, since memory is compared too. `benchmarks.team` sends the
commands.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

from benchmarks.cores import chosen_isa

OURS, THEIRS = "interlinear", "ctranslate2"
_STEPS = 16
"""Decoder steps in a call, where the batch takes several at once."""
INDEX_TYPE = "i"
"""Type code in `array` of the sentence indices in the queue, a pipe from which our workers read them."""


class Decoder(Protocol):
    """One process of an engine. Arguments and results are JSON values."""

    def about(self) -> str:
        """The backend, its precision and version."""
        ...

    def load(self, sources: list[list[int]], limit: int, beam_size: int) -> None:
        """Sets the sentences to decode."""
        ...

    def ready(self, rows: int) -> None:
        """Sets the maximum number of sentences decoded together."""
        ...

    def decode(self) -> int:
        """Decodes all sentences, or those that this process reads from the queue; returns the target tokens."""
        ...

    def answers(self) -> list[tuple[int, list[int], float]]:
        """Index, target tokens and mean log probability of each sentence of the last `decode`."""
        ...

    def alone(self, numbers: list[int]) -> list[float]:
        """Seconds that each of these sentences takes when decoded alone."""
        ...


class OurDecoder:
    """One worker of our engine, with continuous batching. Heeds INTERLINEAR_ISA, as the service does."""

    def __init__(self, model: str, precision: str, threads: int, queue: int) -> None:
        import gc

        import torch

        from model.backends import prepare
        from model.bundle_weights import load_bundle
        from model.decoding.batch import Batch
        from model.hypothesis import Hypothesis
        from model.machine import keep_freed_memory

        torch.set_num_threads(threads)
        bundle = load_bundle(Path(model), torch.device("cpu"))
        self._runner, self._limits = prepare(bundle.model, precision, isa=chosen_isa()), bundle.limits
        keep_freed_memory()  # only now, so that memory used in loading is returned
        gc.freeze()  # as the service's workers do
        self._version, self._hypothesis = torch.__version__, Hypothesis
        self._queue = queue
        self._batches: dict[int, Batch] = {}
        self._done: dict[int, Hypothesis] = {}

    def about(self) -> str:
        return f"{type(self._runner).__name__}, {self._runner.precision}; PyTorch {self._version}"

    def load(self, sources: list[list[int]], limit: int, beam_size: int) -> None:
        self._sources, self._limit, self._beam_size = sources, limit, beam_size

    def ready(self, rows: int) -> None:
        rows *= self._beam_size
        if rows not in self._batches:
            self._batches[rows] = self._runner.new_batch(rows, self._limits)
        self._batch = self._batches[rows]

    def decode(self) -> int:
        batch, taken = self._batch, {}
        group = max(1, batch.rows // 4)
        while True:
            # As in greedy_decode: fewer than a quarter of the rows are not worth a pass of the encoder.
            if batch.free >= group and (joining := self._take(batch.free // self._beam_size)):
                taken.update(joining)
                batch.admit(list(joining.values()))
            if not batch.running:
                self._done = taken
                return sum(len(hypothesis.tokens) for hypothesis in taken.values())
            batch.step(_STEPS, max(1, group - batch.free))

    def answers(self) -> list[tuple[int, list[int], float]]:
        return [(number, h.tokens, sum(h.log_probs) / len(h.log_probs)) for number, h in self._done.items()]

    def alone(self, numbers: list[int]) -> list[float]:
        seconds = []
        for number in numbers:
            began = perf_counter()
            self._batch.admit([self._new(number)])
            while self._batch.running:
                self._batch.step(_STEPS)
            seconds.append(perf_counter() - began)
        return seconds

    def _take(self, count: int) -> dict[int, Any]:
        """Up to `count` sentences from the queue, by index; none if it is empty."""
        numbers = array.array(INDEX_TYPE)
        with contextlib.suppress(BlockingIOError):
            numbers.frombytes(os.read(self._queue, count * numbers.itemsize))
        return {number: self._new(number) for number in numbers}

    def _new(self, number: int) -> Any:
        return self._hypothesis(self._sources[number], self._limit, beam_size=self._beam_size)


class TheirDecoder:
    """CTranslate2 as documented: one call with all sentences, which it sorts and batches itself.

    Timed calls request no scores, which saves it a softmax; our engine returns every token's.
    """

    def __init__(self, model: str, precision: str, threads: int, workers: int, device: str = "cpu") -> None:
        import ctranslate2

        self._pieces: list[str] = json.loads((Path(model) / "shared_vocabulary.json").read_text(encoding="utf-8"))
        self._ids = {piece: id for id, piece in enumerate(self._pieces)}
        self._translator = ctranslate2.Translator(
            model, device=device, compute_type=precision, inter_threads=workers, intra_threads=threads
        )
        self._version = ctranslate2.__version__

    def about(self) -> str:
        return f"CTranslate2 {self._version}, {self._translator.compute_type}"

    def load(self, sources: list[list[int]], limit: int, beam_size: int) -> None:
        self._sources = [[self._pieces[id] for id in source] for source in sources]
        self._limit, self._beam_size = limit, beam_size

    def ready(self, rows: int) -> None:
        self._rows = rows

    def decode(self) -> int:
        return sum(len(result.hypotheses[0]) for result in self._translate(self._sources))

    def answers(self) -> list[tuple[int, list[int], float]]:
        results = self._translate(self._sources, return_scores=True)
        tokens = [[self._ids[piece] for piece in result.hypotheses[0]] for result in results]
        return [
            (number, ids, result.scores[0]) for number, (ids, result) in enumerate(zip(tokens, results, strict=True))
        ]

    def alone(self, numbers: list[int]) -> list[float]:
        seconds = []
        for number in numbers:
            began = perf_counter()
            self._translate([self._sources[number]])
            seconds.append(perf_counter() - began)
        return seconds

    def _translate(self, sources: list[list[str]], **options: Any) -> Sequence[Any]:
        results: Sequence[Any] = self._translator.translate_batch(
            sources,
            max_batch_size=self._rows,
            batch_type="examples",
            beam_size=self._beam_size,
            max_decoding_length=self._limit,
            min_decoding_length=0,
            max_input_length=0,
            return_end_token=True,
            **options,
        )
        return results


def run_commands(kind: str, options: dict[str, Any], cores: Sequence[int]) -> None:
    """Loads an engine and runs the commands of standard input, one JSON object a line, to the end of input."""
    if cores and platform.system() == "Linux":
        os.sched_setaffinity(0, cores)
    decoder: Decoder = OurDecoder(**options) if kind == OURS else TheirDecoder(**options)
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps(getattr(decoder, command["method"])(**command["arguments"])), flush=True)


if __name__ == "__main__":
    run_commands(sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3]))
