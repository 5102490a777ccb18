"""Does a service with a memory limit serve far more bundles than it holds, and lose or change nothing?

    python -m benchmarks.many_bundles --bundles 100 --memory-mb 400 --requests 20000

Makes copies of the shipped bundles, each with a language pair and weights of its own. A service without a limit gives
the expected responses; then one with the limit answers requests for bundles drawn at random, while models load and
unload. Prints what was lost or changed, the latency of the first request to an absent bundle, and the proportional set
size of all processes; exits with 1 if anything was lost or changed, or if more was loaded than allowed.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import statistics
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import httpx
import numpy as np
import typer
from safetensors.numpy import load, save

from benchmarks.cores import processor
from benchmarks.soak import memory, running_service
from model.bundle_files import CONFIG, SUMS, VOCABULARY, WEIGHTS, checksums

SENTENCES = (
    "Where is the train station?",
    "The committee will meet again on Friday to discuss the new proposals.",
    "I would like to buy two tickets for my friends.",
    "Please close the window before you leave.",
    "There are three books and an old map on the table.",
)
Request = tuple[str, str]
"""The target language and a sentence."""


def copy_bundle(bundle: Path, folder: Path, target: str, number: int) -> None:
    """Writes a copy that translates from English to `target`. One weight differs, so that it is a model of its own."""
    weights = load((bundle / WEIGHTS).read_bytes())
    first = weights["source_embedding.tokens.weight"].reshape(-1)
    first[0] = np.float16(number / 1024)
    config = json.loads((bundle / CONFIG).read_text())
    config |= {"source": "en", "target": target}
    content = {CONFIG: json.dumps(config).encode(), WEIGHTS: save(weights)}
    folder.mkdir(parents=True)
    (folder / VOCABULARY).symlink_to((bundle / VOCABULARY).resolve())
    sums = checksums((bundle / SUMS).read_bytes())
    for name, data in content.items():
        (folder / name).write_bytes(data)
        sums[name] = sha256(data).hexdigest()
    (folder / SUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))


@dataclass
class Outcome:
    """What came of the requests."""

    responses: dict[Request, Any] = field(default_factory=dict)
    """The response to each, without its request's time."""
    lost: Counter[str] = field(default_factory=Counter)
    changed: int = 0
    seconds: list[float] = field(default_factory=list)


async def send_all(port: int, requests: list[Request], clients: int, expected: dict[Request, Any]) -> Outcome:
    """Sends the requests from `clients` clients at once, and compares the responses with `expected`."""
    outcome, waiting = Outcome(), iter(requests)

    async def run(client: httpx.AsyncClient) -> None:
        for target, text in waiting:
            began = time.perf_counter()
            try:
                response = await client.post("/translate", json={"text": text, "source": "en", "target": target})
            except httpx.HTTPError as error:
                outcome.lost[repr(error)] += 1
                continue
            outcome.seconds.append(time.perf_counter() - began)
            if response.status_code != 200:
                outcome.lost[f"{response.status_code} {response.text[:200]}"] += 1
                continue
            outcome.responses[target, text] = response.json()
            outcome.changed += expected.get((target, text), response.json()) != response.json()

    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
        await asyncio.gather(*(run(client) for _ in range(clients)))
    return outcome


def loaded_models(port: int) -> list[str]:
    """The target languages of the models that are loaded."""
    models = httpx.get(f"http://127.0.0.1:{port}/models", timeout=60).json()
    return [model["target"] for model in models if model["loaded"]]


def metric(port: int, name: str) -> float:
    [value] = re.findall(rf"^{name} (\S+)$", httpx.get(f"http://127.0.0.1:{port}/metrics").text, re.MULTILINE)
    return float(value)


def main(
    source: Annotated[Path, typer.Option(help="The folder of bundles to copy.")] = Path("bundles"),
    bundles: Annotated[int, typer.Option(help="The number of bundles.", max=600)] = 100,
    memory_mb: Annotated[int, typer.Option(help="INTERLINEAR_MEMORY_BYTES, in MB.")] = 400,
    requests: Annotated[int, typer.Option(help="The number of requests.")] = 20_000,
    clients: Annotated[int, typer.Option(help="Concurrent clients.")] = 16,
) -> None:
    """Serve more bundles than fit in memory together, and compare each response with the expected one."""
    print(f"{processor()}, {os.cpu_count()} cores")
    originals = sorted(source.glob("en-*"))
    targets = [f"{a}{b}" for a in "abcdfghijklmnopqrstuvwxyz" for b in "abcdefghijklmnopqrstuvwxyz"][:bundles]
    settings = {"INTERLINEAR_CACHE_BYTES": "0", "INTERLINEAR_MAX_WAIT_MS": "60000"}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "bundles")
        for number, target in enumerate(targets):
            copy_bundle(originals[number % len(originals)], folder / f"en-{target}", target, number)
        settings["XDG_CACHE_HOME"] = str(Path(temporary, "cache"))
        every = [(target, text) for target in targets for text in SENTENCES]
        began = time.perf_counter()
        with running_service(folder, settings) as (process, port):
            print(f"without a limit: ready after {time.perf_counter() - began:.1f} s, weights prepared meanwhile")
            expected = asyncio.run(send_all(port, every, clients, {})).responses
            print(f"  {memory(process.pid):,.0f} MB after {len(expected):,} of {len(every):,} responses")
        limited = {**settings, "INTERLINEAR_MEMORY_BYTES": str(memory_mb * 1_000_000)}
        began = time.perf_counter()
        with running_service(folder, limited) as (process, port):
            print(f"with {memory_mb} MB: ready after {time.perf_counter() - began:.1f} s")
            firsts = asyncio.run(send_all(port, [(target, SENTENCES[0]) for target in targets], 1, expected))
            first_ms = [1000 * seconds for seconds in firsts.seconds]
            print(
                f"  first request to a bundle: median {statistics.median(first_ms):.0f} ms, longest {max(first_ms):.0f}"
            )
            draw = random.Random(1)
            outcome = asyncio.run(send_all(port, [draw.choice(every) for _ in range(requests)], clients, expected))
            loaded, unloads = loaded_models(port), metric(port, "interlinear_model_unloads_total")
            print(f"  {memory(process.pid):,.0f} MB, {len(loaded)} models loaded, {unloads:,.0f} unloaded")
    lost = firsts.lost + outcome.lost
    changed = firsts.changed + outcome.changed
    rate = len(outcome.seconds) / max(sum(outcome.seconds), 1e-9) * clients
    print(f"{bundles + requests:,} requests: {lost.total()} lost, {changed} changed; {rate:,.0f} a second")
    for why, count in lost.most_common(5):
        print(f"LOST {count:,} times: {why}")
    raise typer.Exit(1 if lost or changed or len(expected) < len(every) or len(loaded) == bundles else 0)


if __name__ == "__main__":
    typer.run(main)
