"""The engine without HTTP: decodes the sentences of a file in a batch that is always full, in this one process.

    python -m benchmarks.alone BUNDLE SENTENCES PRECISION SECONDS

Prints one line of JSON: sentences and target tokens a second. Sentences are one per line, decoded repeatedly until the
time is up; loading and the first round do not count. Heeds INTERLINEAR_ISA, as the service does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import perf_counter

import torch

from app.engine.worker import ROWS, ROWS_INT8
from benchmarks.cores import chosen_isa
from model.backends import prepare
from model.bundle_weights import load_bundle
from model.decoding import greedy_decode
from model.machine import keep_freed_memory


def decode_alone(bundle_folder: Path, texts: list[str], precision: str, seconds: float) -> dict[str, float]:
    """Sentences and target tokens a second, end symbols included."""
    keep_freed_memory()
    torch.set_num_threads(1)
    bundle = load_bundle(bundle_folder, torch.device("cpu"))
    backend = prepare(bundle.model, precision, isa=chosen_isa())
    sources = [bundle.source_tokenizer.encode_source(text) for text in texts]
    rows = ROWS_INT8 if backend.precision == "int8" else ROWS["cpu"]
    greedy_decode(backend, sources[:rows], bundle.limits, rows)
    sentences = tokens = 0
    began = perf_counter()
    while perf_counter() - began < seconds:
        done = greedy_decode(backend, sources, bundle.limits, rows)
        sentences += len(done)
        tokens += sum(len(hypothesis.tokens) for hypothesis in done)
    spent = perf_counter() - began
    return {"requests": sentences / spent, "tokens": tokens / spent}


if __name__ == "__main__":
    folder, file, precision, seconds = sys.argv[1:]
    lines = Path(file).read_text(encoding="utf-8").rstrip("\n").split("\n")  # sentences may have other separators
    print(json.dumps(decode_alone(Path(folder), lines, precision, float(seconds))))
