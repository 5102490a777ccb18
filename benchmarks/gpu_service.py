"""The part of `benchmarks.gpu` that needs a bundle: the service over HTTP, and CTranslate2 on the same device.

Sentences are made of words of a small list: the speed of a model does not depend on their sense. Our cache is off.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import perf_counter

import typer

from app.engine.worker import ROWS, ROWS_TRITON
from benchmarks.decoders import TheirDecoder
from benchmarks.servers import CACHE, Contestant, Server, ServerFailed, convert, running
from model.backends import load_backend
from model.bundle import Bundle, open_bundle
from model.decoding import greedy_decode
from model.hypothesis import Limits

WORDS = (
    "the old new small red house friend train water morning letter river is was will be seen left near with people our"
)
LIST, CLIENTS, ALONE = 50, 32, 50
"""Texts of a request, requests at a time, and sentences that are decoded alone."""
BATCHES = 32, 256, 1024


def random_sentences(count: int) -> list[str]:
    draw = random.Random(3)
    return [" ".join(draw.choices(WORDS.split(), k=draw.randint(4, 16))).capitalize() + "." for _ in range(count)]


def measure(folder: Path, device: str, count: int, http: bool, peer: bool) -> None:
    """Prints figures of the bundle in `folder` on `device`, "cpu" or "cuda"."""
    bundle, texts = open_bundle(folder), random_sentences(count)
    typer.echo(f"\n{bundle.name}, {count:,} sentences of random words")
    names = ("graph", "triton") if device == "cuda" else ("cpu",)
    if http:
        for engine in names:
            try:
                _measure_http(bundle, engine, device, texts)
            except ServerFailed as failure:
                typer.echo(f"{engine}: the service fails: {failure}")
    if peer:
        for engine in names:
            _measure_engine(bundle, engine, device, texts)
        try:
            _measure_ctranslate2(bundle, device, texts)
        except (ImportError, RuntimeError, ValueError) as failure:  # its wheel is for other versions of CUDA
            typer.echo(f"CTranslate2 does not run here: {str(failure).splitlines()[0]}")


# ---- Over HTTP


def _measure_http(bundle: Bundle, engine: str, device: str, texts: list[str]) -> None:
    long = {"INTERLINEAR_MAX_WAIT_MS": "60000", "INTERLINEAR_QUEUE_TOKENS": str(1 << 24)}
    chosen = {"INTERLINEAR_DEVICE": device, "INTERLINEAR_GPU_ENGINE": "graph" if engine == "cpu" else engine}
    service = Contestant(engine, lambda port: [sys.executable, "-m", "app", "serve"], {**chosen, **long})
    pair = {"source": bundle.source, "target": bundle.target}

    def body(text: str | list[str]) -> bytes:
        return json.dumps({"text": text, **pair}).encode()

    began = perf_counter()
    with running(service, bundle.folder, None, body(texts[0])) as server:
        ready_s = perf_counter() - began
        alone = {text: _translated(server, body([text]))[0][0] for text in texts[:ALONE]}
        seconds = [_timed(partial(server.post, body([text]))) for text in texts[:ALONE]]
        lists = [texts[first : first + LIST] for first in range(0, len(texts), LIST)]
        with ThreadPoolExecutor(CLIENTS) as clients:
            began = perf_counter()
            answers = list(clients.map(lambda given: _translated(server, body(given)), lists))
            spent = perf_counter() - began
    tokens = sum(count for _, count in answers)
    together = dict(zip(texts, (text for found, _ in answers for text in found), strict=True))
    differing = sum(together[text] != translation for text, translation in alone.items())
    alone_ms = statistics.median(seconds) * 1e3
    typer.echo(
        f"{engine}, over HTTP: answers {ready_s:.1f} s after its start; alone {alone_ms:.2f} ms; "
        f"lists of {LIST}, {tokens / spent:,.0f} target tokens/s; cache: {CACHE}; "
        f"{differing} of {len(alone)} sentences differ from alone"
    )


def _translated(server: Server, body: bytes) -> tuple[list[str], int]:
    """The translations of a request, and their target tokens."""
    answer = server.post(body)
    return [found["text"] for found in answer["translations"]], answer["usage"]["target_tokens"]


def _timed(work: Callable[[], object]) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began


# ---- The engine alone, and CTranslate2


def _measure_engine(bundle: Bundle, engine: str, device: str, texts: list[str]) -> None:
    backend = load_backend(bundle.spec, device, "auto", gpu_engine="graph" if engine == "cpu" else engine)
    if engine == "triton" and backend.engine != engine:
        typer.echo("triton: not measured: the graph engine decodes in its place")
        return
    sources = [bundle.source_tokenizer.encode_source(text) for text in texts]
    rows = ROWS_TRITON if device == "cuda" else ROWS["cpu"]
    limits = bundle.limits.for_sources(max(map(len, sources)))

    def decode(given: list[list[int]], limits: Limits, rows: int) -> int:
        return sum(len(h.tokens) for h in greedy_decode(backend, given, limits, rows))

    decode(sources[: 2 * rows], limits, rows)
    began = perf_counter()
    tokens = decode(sources, limits, rows)
    spent = perf_counter() - began
    alone = [_timed(partial(decode, [source], limits, 1)) for source in sources[:ALONE]]
    _report(f"Interlinear ({engine}, {backend.precision}, {rows} rows)", tokens / spent, alone)


def _measure_ctranslate2(bundle: Bundle, device: str, texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model, kind = convert(bundle.folder, Path(folder) / "model"), "float16" if device == "cuda" else "int8"
        decoder = TheirDecoder(str(model), kind, threads=1, workers=1, device=device)
        decoder.load([bundle.source_tokenizer.encode_source(text) for text in texts], 256, beam_size=1)
        best = 0.0
        for rows in BATCHES:
            decoder.ready(rows)
            decoder.decode()
            began = perf_counter()
            best = max(best, decoder.decode() / (perf_counter() - began))
        alone = decoder.alone(list(range(min(ALONE, len(texts)))))
    _report(f"{decoder.about()}, the best of batches of {', '.join(map(str, BATCHES))}", best, alone)


def _report(label: str, tokens_per_s: float, alone: list[float]) -> None:
    typer.echo(f"{label}: {tokens_per_s:,.0f} target tokens/s; alone {statistics.median(alone) * 1e3:.2f} ms")
