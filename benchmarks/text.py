"""Measures the share of a request's time outside the engine: splitting, encoding, checking, joining, JSON.

    python -m benchmarks.text --pairs FILE [--bundle bundles/en-fr] [--characters 20000] [--rounds 15]

Each line of FILE has a source sentence and a tab; five sentences make a paragraph of the text. One request at a time
passes through the whole application except the socket; the engine's workers are separate processes.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import platform
import statistics
from asyncio import Future
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from fastapi import FastAPI
from starlette.types import Message

from app.engine.sequence import Decoded, Sequence
from app.main import create_app
from app.runtime.process_tuning import GC_THRESHOLDS
from app.server.state import APPLICATION
from app.services.startup import load_catalogue
from app.settings import Settings
from benchmarks.cores import processor
from training.corpora.corpus import read_pairs


def text_of(sentences: list[str], characters: int) -> str:
    """The first `characters` of the sentences in paragraphs of five."""
    paragraphs = (" ".join(sentences[start : start + 5]) for start in range(0, len(sentences), 5))
    return "\n\n".join(paragraphs)[:characters]


async def measure(bundle: Path, text: str, rounds: int) -> list[tuple[float, float]]:
    """Seconds of each request, and those spent waiting for the engine."""
    settings = Settings(bundles=(bundle,), cache_bytes=0)  # so that every round decodes
    bundles = load_catalogue(settings)
    (served,) = bundles
    app = create_app(settings, bundles)
    found: list[tuple[float, float]] = []
    async with app.router.lifespan_context(app) as state:
        assert state
        engine = state[APPLICATION].deployments.current.engine
        decode, waited, asked, since = engine.decode, 0.0, 0, 0.0

        async def timed(
            sequences: list[Sequence], deadline: float, client: str, continues: bool
        ) -> list[Future[Decoded]]:
            nonlocal waited, asked, since
            if not asked:  # sentences that are decoded again ask at the same time
                since = perf_counter()
            asked += 1
            futures: list[Future[Decoded]] = await decode(sequences, deadline, client, continues)
            await asyncio.wait(futures)
            asked -= 1
            if not asked:
                waited += perf_counter() - since
            return futures

        engine.decode = timed

        gc.freeze()  # as `python -m app serve` does
        gc.set_threshold(*GC_THRESHOLDS)
        body = json.dumps({"text": text, "source": served.source, "target": served.target}).encode()
        for _ in range(rounds + 2):  # the first waits for the workers, the second warms up
            waited, began = 0.0, perf_counter()
            await post_translate(app, state, body)
            found.append((perf_counter() - began, waited))
    return found[2:]


async def post_translate(app: FastAPI, state: Mapping[str, Any], body: bytes) -> None:
    """Calls the ASGI application with POST /translate, so that no client's work is measured."""
    path, headers = "/translate", [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "headers": headers,
    }
    scope |= {"query_string": b"", "root_path": "", "asgi": {"version": "3.0"}, "state": dict(state)}
    messages, statuses = [{"type": "http.request", "body": body, "more_body": False}], []

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        statuses.append(message.get("status", 200))

    await app(scope, receive, send)
    assert set(statuses) == {200}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--bundle", type=Path, default=Path("bundles/en-fr"))
    parser.add_argument("--characters", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    text = text_of([pair.source for pair in read_pairs(options.pairs)[0]], options.characters)
    found = asyncio.run(measure(options.bundle, text, options.rounds))
    total, engine = (statistics.median(column) for column in zip(*found, strict=True))
    outside = statistics.median(1 - waited / whole for whole, waited in found)
    print(f"{processor()}; Python {platform.python_version()}, PyTorch {torch.__version__}; {options.bundle}")
    print(f"{len(text):,} characters, {options.rounds} requests, cache off, medians:")
    print(f"request {1000 * total:.1f} ms, engine {1000 * engine:.1f} ms, outside the engine {100 * outside:.1f} %")


if __name__ == "__main__":
    main()
