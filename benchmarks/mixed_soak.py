"""Does the service grow over an hour of mixed traffic on all routes, with reloads in between?

    python -m benchmarks.mixed_soak --minutes 60

Clients send texts, documents, attention requests, other services' calls and mistakes, while bundles come and go. Prints
the service's memory (proportional set size), file descriptors and threads; exits with 1 if they grew, or if any
response had a status of 500 or more that is not a refusal.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import platform
import random
import re
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import httpx
import torch
import typer

from app.http.api_keys import new_key
from app.runtime.process_memory import proportional_set_size
from benchmarks.balancer import children
from benchmarks.cores import processor
from benchmarks.soak import pseudoword_sentences, running_service

SENTENCES = pseudoword_sentences(5_000, 14, seed=5)
SAMPLES = 30
"""Measurements of the service's resources, evenly over the run."""
WARMUP_SHARE = 0.2
"""Share of the run in which the service may grow: caches fill, and touched pages stay resident."""
MAX_GROWTH_MB, MAX_GROWTH_DESCRIPTORS, MAX_GROWTH_THREADS = 50.0, 10, 4


@dataclass(frozen=True)
class ResourceUsage:
    """Memory, file descriptors and threads of all processes of the service."""

    megabytes: float
    """Proportional set size."""
    descriptors: int
    threads: int
    front_megabytes: float = 0.0
    """The front process's part of `megabytes`."""
    names: Counter[str] = field(default_factory=Counter, compare=False)
    """What the descriptors refer to and the threads are called."""

    @classmethod
    def of(cls, front: int) -> ResourceUsage:
        """Measures the usage; repeats if a worker exits meanwhile, as in a reload."""
        while True:
            try:
                workers = children(front)
                sizes = [proportional_set_size(process) / 1e6 for process in (front, *workers)]
                files = Counter(_named_descriptors(front, workers))
                threads = Counter(f"thread {comm.read_text().strip()}" for comm in _threads(front, workers))
            except (FileNotFoundError, ProcessLookupError):
                sizes = [math.nan]
            if not math.isnan(sum(sizes)):
                return cls(sum(sizes), files.total(), threads.total(), sizes[0], files + threads)
            time.sleep(0.01)

    def __str__(self) -> str:
        of_front = f"{self.front_megabytes:.0f} of the front process"
        return f"{self.megabytes:8.0f} MB ({of_front}) {self.descriptors:6} descriptors {self.threads:5} threads"


def _named_descriptors(front: int, workers: Sequence[int]) -> Iterator[str]:
    """What the file descriptors of all processes refer to, without what differs from one to the next."""
    for process in (front, *workers):
        for descriptor in Path(f"/proc/{process}/fd").iterdir():
            file = re.sub(r"[0-9]+", "N", os.readlink(descriptor))
            yield f"{'front' if process == front else 'worker'}: {file}"


def _threads(front: int, workers: Sequence[int]) -> Iterator[Path]:
    """The files with the names of all threads."""
    for process in (front, *workers):
        yield from Path(f"/proc/{process}/task").glob("*/comm")


@dataclass
class Traffic:
    """Clients of every kind, and the statuses of their responses."""

    client: httpx.AsyncClient
    admin: httpx.AsyncClient
    bundles: Path
    draw: random.Random
    statuses: Counter[int] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)

    async def send(self, method: str, path: str, **options: object) -> None:
        response = await self.client.request(method, path, **options)  # type: ignore[arg-type]
        self.statuses[response.status_code] += 1
        if response.status_code >= 500 and response.status_code not in (503, 504):
            self.failures[f"{response.status_code} {method} {path}"] += 1

    def text(self, sentences: int = 3) -> str:
        return " ".join(self.draw.sample(SENTENCES, self.draw.randint(1, sentences)))

    async def translate(self) -> None:
        html = {"text": [self.text(), f"<p>{self.text()}</p>"], "source": "en", "target": "fr", "format": "html"}
        await self.send("POST", "/translate", json=html | {"alternatives": self.draw.randint(0, 2)})
        plain = {"text": self.text(), "source": "en", "target": "fr", "alignment": True}
        await self.send("POST", "/translate", json=plain)

    async def detect(self) -> None:
        await self.send("POST", "/translate", json={"text": self.text(), "source": "auto", "target": "fr"})

    async def stream(self) -> None:
        await self.send("POST", "/translate/stream", json={"text": self.text(8), "source": "en", "target": "fr"})

    async def document(self) -> None:
        name, content = self.draw.choice(
            [
                ("a.txt", "\n\n".join(self.text() for _ in range(5))),
                ("a.md", f"# {self.text(1)}\n\n- {self.text(1)}\n- {self.text(1)}\n"),
                ("a.html", f"<html><body><p>{self.text()}</p><img alt='{self.text(1)}'></body></html>"),
                ("a.json", json.dumps({"title": self.text(1), "body": [self.text()]})),
                ("a.srt", f"1\n00:00:01,000 --> 00:00:02,000\n{self.text(1)}\n"),
                ("a.po", f'msgid ""\nmsgstr ""\n\nmsgid "{self.text(1)}"\nmsgstr ""\n'),
            ]
        )
        fields = {"source": "en", "target": "fr"}
        await self.send("POST", "/translate/file", files={"file": (name, content.encode())}, data=fields)

    async def attention(self) -> None:
        await self.send(
            "POST", "/attention", json={"text": self.draw.choice(SENTENCES), "source": "en", "target": "fr"}
        )

    async def libretranslate(self) -> None:
        key = self.client.headers["x-key"]
        body = {"q": self.text(), "source": "en", "target": "fr", "api_key": key}
        await self.send("POST", "/libretranslate/translate", json=body)
        await self.send("POST", "/libretranslate/detect", json={"q": self.text(), "api_key": key})

    async def deepl(self) -> None:
        key = {"authorization": f"DeepL-Auth-Key {self.client.headers['x-key']}"}
        body = {"text": [self.text()], "source_lang": "EN", "target_lang": "FR"}
        await self.send("POST", "/deepl/v2/translate", json=body, headers=key)
        await self.send("GET", "/deepl/v2/usage", headers=key)

    async def browse(self) -> None:
        for path in ("/", "/page/main.js", "/languages", "/models", "/health", "/ready", "/docs", "/openapi.json"):
            await self.send("GET", path)

    async def send_invalid(self) -> None:
        await self.send("POST", "/translate", content=b"{", headers={"content-type": "application/json"})
        await self.send("POST", "/translate", json={"text": self.text(), "source": "en", "target": "tlh"})
        await self.send("POST", "/translate", content=b"x" * 2_000_000, headers={"content-type": "application/json"})
        await self.send("PUT", "/translate", content=b"x")
        await self.send("POST", "/translate/file", files={"file": ("a.exe", b"MZ")}, data={"target": "fr"})

    async def disconnect(self) -> None:
        """Closes the connection while the request is being processed."""
        body = {"text": self.text(40), "source": "en", "target": "fr"}
        try:
            async with asyncio.timeout(0.02):
                await self.send("POST", "/translate", json=body)
        except TimeoutError:
            pass

    async def run(self, until: float) -> None:
        """Sends requests of one client until the end."""
        usual: list[Callable[[], Awaitable[None]]] = [self.translate, self.detect, self.stream, self.document]
        others = [self.attention, self.libretranslate, self.deepl, self.browse, self.send_invalid, self.disconnect]
        while time.monotonic() < until:
            try:
                await self.draw.choice([*usual, *usual, *others])()
            except httpx.HTTPError as error:
                self.failures[repr(error)] += 1

    async def reload(self, front: int, spare: Path, every_s: float, until: float) -> list[ResourceUsage]:
        """Removes and restores the second bundle, again and again.

        Returns the service's resources each time that it has served one bundle for `every_s` seconds: with two it has
        more workers, and during a reload both sets of them.
        """
        usages: list[ResourceUsage] = []
        second = self.bundles / spare.name
        while time.monotonic() + every_s < until:
            await asyncio.sleep(every_s)
            if second.exists():
                shutil.rmtree(second)
            else:
                usage = ResourceUsage.of(front)
                print(usage, flush=True)
                usages.append(usage)
                shutil.copytree(spare, self.bundles / f".{spare.name}")
                (self.bundles / f".{spare.name}").rename(second)
            response = await self.admin.post("/models/reload")
            self.statuses[response.status_code] += 1
            if response.status_code != 200:
                self.failures[f"reload: {response.status_code} {response.text}"] += 1
        return usages


def growth(usages: list[ResourceUsage]) -> ResourceUsage:
    """Growth from the first third after the warm-up to the last third, by medians."""
    settled = usages[int(WARMUP_SHARE * len(usages)) :]
    third = max(1, len(settled) // 3)
    first, last = settled[:third], settled[-third:]

    def growth_of(read: Callable[[ResourceUsage], float]) -> float:
        return statistics.median(map(read, last)) - statistics.median(map(read, first))

    return ResourceUsage(
        growth_of(lambda usage: usage.megabytes),
        int(growth_of(lambda usage: usage.descriptors)),
        int(growth_of(lambda usage: usage.threads)),
        growth_of(lambda usage: usage.front_megabytes),
    )


def more_names(usages: list[ResourceUsage]) -> Counter[str]:
    """What the last measurement has more descriptors and threads of than the first after the warm-up."""
    return usages[-1].names - usages[int(WARMUP_SHARE * len(usages))].names


async def run_mixed_traffic(
    front: int, port: int, bundles: Path, spare: Path, keys: tuple[str, str], minutes: float, clients: int
) -> bool:
    """Runs the traffic and prints a report. Returns whether the service passed.

    `keys` are the API keys of a client and of an administrator.
    """
    seconds = 60 * minutes
    until = time.monotonic() + seconds
    base, limits = f"http://127.0.0.1:{port}", httpx.Limits(max_connections=clients)
    user = {"authorization": f"Bearer {keys[0]}", "x-key": keys[0]}
    async with (
        httpx.AsyncClient(base_url=base, headers=user, limits=limits, timeout=120) as client,
        httpx.AsyncClient(base_url=base, headers={"authorization": f"Bearer {keys[1]}"}, timeout=300) as admin,
    ):
        traffic = Traffic(client, admin, bundles, random.Random(1))
        every_s = max(min(5.0, seconds / 4), seconds / (2 * SAMPLES))
        reading = asyncio.create_task(traffic.reload(front, spare, every_s, until))
        await asyncio.gather(*(traffic.run(until) for _ in range(clients)))
        usages = await reading
        responses = ", ".join(f"{count:,} with {status}" for status, count in sorted(traffic.statuses.items()))
        print(f"{traffic.statuses.total():,} responses ({responses}); second bundle added {len(usages)} times")
    grown = growth(usages)
    of_front = f"{grown.front_megabytes:+.0f} of the front process"
    print(
        f"growth: {grown.megabytes:+.0f} MB ({of_front}), {grown.descriptors:+} descriptors, {grown.threads:+} threads"
    )
    for name, count in more_names(usages).most_common() if usages else ():
        print(f"{count:+} {name}")
    for failure, count in traffic.failures.most_common(10):
        print(f"FAILED {count:,} times: {failure}")
    is_stable = (
        grown.megabytes <= MAX_GROWTH_MB
        and grown.descriptors <= MAX_GROWTH_DESCRIPTORS
        and grown.threads <= MAX_GROWTH_THREADS
    )
    return is_stable and not traffic.failures


def main(
    bundle: Annotated[Path, typer.Option(help="The bundle that stays; English to French.")] = Path("bundles/en-fr"),
    spare: Annotated[Path, typer.Option(help="The bundle that is removed and restored.")] = Path("bundles/fr-en"),
    minutes: Annotated[float, typer.Option(help="Duration.")] = 60.0,
    clients: Annotated[int, typer.Option(help="Concurrent clients.")] = 12,
) -> None:
    """Check that the service does not grow under mixed traffic on all routes, with reloads."""
    print(f"{processor()}, {os.cpu_count()} cores; Python {platform.python_version()}, torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        bundles, keys = Path(folder, "bundles"), Path(folder, "keys.txt")
        shutil.copytree(bundle, bundles / bundle.name)
        (user, line), (admin, other) = new_key("user"), new_key("admin")
        keys.write_text(f"{line}\n{other} admin\n")
        settings = {"INTERLINEAR_API_KEYS_FILE": str(keys), "INTERLINEAR_CACHE_BYTES": "8388608"}
        with running_service(bundles, settings) as (process, port):
            traffic = run_mixed_traffic(process.pid, port, bundles, spare, (user, admin), minutes, clients)
            passed = asyncio.run(traffic)
    raise typer.Exit(0 if passed else 1)


if __name__ == "__main__":
    typer.run(main)
