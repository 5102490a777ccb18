"""Does the service grow over an hour of mixed traffic on all routes, with reloads in between?

    python -m benchmarks.mixed_soak --minutes 60

Clients send texts, documents, attention requests, other services' calls and mistakes, while bundles come and go. Prints
the service's memory, file descriptors and threads; exits with 1 if they grew, or if any response had a status of 500 or
more that is not a refusal.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import random
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import httpx
import torch
import typer

from app.http.api_keys import new_key
from benchmarks.cores import processor
from benchmarks.soak import made_sentences, memory, served, workers_of

SENTENCES = made_sentences(5_000, 14, seed=5)
SAMPLES = 30
"""Readings of the service's size, evenly over the time."""
WARM = 0.2
"""Share of the time after which it may grow no more: caches fill, and pages once touched stay."""
MOST_MB, MOST_DESCRIPTORS, MOST_THREADS = 50.0, 10, 4


@dataclass(frozen=True)
class Size:
    """What the service takes: MB of all its processes, descriptors and threads of all."""

    megabytes: float
    descriptors: int
    threads: int

    @classmethod
    def of(cls, front: int) -> Size:
        """Its size now; read again where a worker ended meanwhile, as it does in a reload."""
        while True:
            try:
                processes = (front, *workers_of(front))
                descriptors = sum(len(os.listdir(f"/proc/{process}/fd")) for process in processes)
                threads = sum(len(os.listdir(f"/proc/{process}/task")) for process in processes)
                return cls(memory(front), descriptors, threads)
            except (FileNotFoundError, ProcessLookupError):
                time.sleep(0.01)


@dataclass
class Traffic:
    """Clients of every kind, and what they were answered."""

    client: httpx.AsyncClient
    admin: httpx.AsyncClient
    bundles: Path
    draw: random.Random
    statuses: Counter[int] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    async def send(self, method: str, path: str, **options: object) -> None:
        answer = await self.client.request(method, path, **options)  # type: ignore[arg-type]
        self.statuses[answer.status_code] += 1
        if answer.status_code >= 500 and answer.status_code not in (503, 504):
            self.faults[f"{answer.status_code} {method} {path}"] += 1

    def text(self, sentences: int = 3) -> str:
        return " ".join(self.draw.sample(SENTENCES, self.draw.randint(1, sentences)))

    async def translate(self) -> None:
        asked = {"text": [self.text(), f"<p>{self.text()}</p>"], "source": "en", "target": "fr", "format": "html"}
        await self.send("POST", "/translate", json=asked | {"alternatives": self.draw.randint(0, 2)})
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
        asked = {"q": self.text(), "source": "en", "target": "fr", "api_key": self.client.headers["x-key"]}
        await self.send("POST", "/libretranslate/translate", json=asked)
        await self.send("POST", "/libretranslate/detect", json={"q": self.text(), "api_key": asked["api_key"]})

    async def deepl(self) -> None:
        key = {"authorization": f"DeepL-Auth-Key {self.client.headers['x-key']}"}
        asked = {"text": [self.text()], "source_lang": "EN", "target_lang": "FR"}
        await self.send("POST", "/deepl/v2/translate", json=asked, headers=key)
        await self.send("GET", "/deepl/v2/usage", headers=key)

    async def look(self) -> None:
        for path in ("/", "/page/main.js", "/languages", "/models", "/health", "/ready", "/docs", "/openapi.json"):
            await self.send("GET", path)

    async def mistake(self) -> None:
        await self.send("POST", "/translate", content=b"{", headers={"content-type": "application/json"})
        await self.send("POST", "/translate", json={"text": self.text(), "source": "en", "target": "tlh"})
        await self.send("POST", "/translate", content=b"x" * 2_000_000, headers={"content-type": "application/json"})
        await self.send("PUT", "/translate", content=b"x")
        await self.send("POST", "/translate/file", files={"file": ("a.exe", b"MZ")}, data={"target": "fr"})

    async def leave(self) -> None:
        """Gives up an answer that is on its way."""
        asked = {"text": self.text(40), "source": "en", "target": "fr"}
        try:
            async with asyncio.timeout(0.02):
                await self.send("POST", "/translate", json=asked)
        except TimeoutError:
            pass

    async def run(self, until: float) -> None:
        """One client, to the end."""
        usual: list[Callable[[], Awaitable[None]]] = [self.translate, self.detect, self.stream, self.document]
        others = [self.attention, self.libretranslate, self.deepl, self.look, self.mistake, self.leave]
        while time.monotonic() < until:
            try:
                await self.draw.choice([*usual, *usual, *others])()
            except httpx.HTTPError as error:
                self.faults[repr(error)] += 1

    async def reload(self, front: int, spare: Path, every_s: float, until: float) -> list[Size]:
        """Takes the second bundle away and brings it back, again and again.

        Returns the service's size each time that it has had one bundle for `every_s` seconds: with two it has more
        workers, and during a reload both sets of them.
        """
        sizes: list[Size] = []
        second = self.bundles / spare.name
        while time.monotonic() + every_s < until:
            await asyncio.sleep(every_s)
            if second.exists():
                shutil.rmtree(second)
            else:
                size = Size.of(front)
                line = f"{size.megabytes:8.0f} MB {size.descriptors:6} descriptors {size.threads:5} threads"
                print(line, flush=True)
                sizes.append(size)
                shutil.copytree(spare, self.bundles / f".{spare.name}")
                (self.bundles / f".{spare.name}").rename(second)
            answer = await self.admin.post("/models/reload")
            self.statuses[answer.status_code] += 1
            if answer.status_code != 200:
                self.faults[f"reload: {answer.status_code} {answer.text}"] += 1
        return sizes


def growth(sizes: list[Size]) -> Size:
    """From the first third after the start to the last, by their medians."""
    settled = sizes[int(WARM * len(sizes)) :]
    third = max(1, len(settled) // 3)
    first, last = settled[:third], settled[-third:]

    def grown(read: Callable[[Size], float]) -> float:
        return statistics.median(map(read, last)) - statistics.median(map(read, first))

    return Size(grown(lambda s: s.megabytes), int(grown(lambda s: s.descriptors)), int(grown(lambda s: s.threads)))


async def mixed(
    front: int, port: int, bundles: Path, spare: Path, keys: tuple[str, str], minutes: float, clients: int
) -> bool:
    """Prints what became of it; whether all was well. `keys`: a client's and an administrator's."""
    seconds = 60 * minutes
    until = time.monotonic() + seconds
    base, limits = f"http://127.0.0.1:{port}", httpx.Limits(max_connections=clients)
    user = {"authorization": f"Bearer {keys[0]}", "x-key": keys[0]}
    async with (
        httpx.AsyncClient(base_url=base, headers=user, limits=limits, timeout=120) as client,
        httpx.AsyncClient(base_url=base, headers={"authorization": f"Bearer {keys[1]}"}, timeout=300) as admin,
    ):
        traffic = Traffic(client, admin, bundles, random.Random(1))
        reading = asyncio.create_task(traffic.reload(front, spare, max(5.0, seconds / (2 * SAMPLES)), until))
        await asyncio.gather(*(traffic.run(until) for _ in range(clients)))
        sizes = await reading
        answers = ", ".join(f"{count:,} with {status}" for status, count in sorted(traffic.statuses.items()))
        print(f"{traffic.statuses.total():,} answers ({answers}); a second bundle {len(sizes)} times")
    grown = growth(sizes)
    print(f"grown by {grown.megabytes:+.0f} MB, {grown.descriptors:+} descriptors, {grown.threads:+} threads")
    for fault, count in traffic.faults.most_common(10):
        print(f"FAULT {count:,} times: {fault}")
    level = grown.megabytes <= MOST_MB and grown.descriptors <= MOST_DESCRIPTORS and grown.threads <= MOST_THREADS
    return level and not traffic.faults


def main(
    bundle: Annotated[Path, typer.Option(help="The bundle that stays; from English to French.")] = Path(
        "bundles/en-fr"
    ),
    spare: Annotated[Path, typer.Option(help="The bundle that comes and goes.")] = Path("bundles/fr-en"),
    minutes: Annotated[float, typer.Option(help="How long.")] = 60.0,
    clients: Annotated[int, typer.Option(help="At once.")] = 12,
) -> None:
    """Mixed traffic over all routes with reloads: does the service grow?"""
    print(f"{processor()}, {os.cpu_count()} cores; Python {platform.python_version()}, torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        bundles, keys = Path(folder, "bundles"), Path(folder, "keys.txt")
        shutil.copytree(bundle, bundles / bundle.name)
        (user, line), (admin, other) = new_key("user"), new_key("admin")
        keys.write_text(f"{line}\n{other} admin\n")
        settings = {"INTERLINEAR_API_KEYS_FILE": str(keys), "INTERLINEAR_CACHE_BYTES": "8388608"}
        with served(bundles, settings) as (process, port):
            keys_made = user, admin
            well = asyncio.run(mixed(process.pid, port, bundles, spare, keys_made, minutes, clients))
    raise typer.Exit(0 if well else 1)


if __name__ == "__main__":
    typer.run(main)
