"""Kills the whole service again and again under mixed requests with memory writes, and counts what is lost.

    python -m benchmarks.memory_kill --bundle bundles/en-fr --requests 10000 --kills 20

Every process is really killed (SIGKILL to the process group) and really started again. Each text belongs to one
client, who waits for every answer: so what was acknowledged last is known, and after a kill the memory must have it, or
what the client had sent when the service died.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import httpx
import typer
from lxml import etree

from benchmarks.ports import free_port

START_TIMEOUT_S = 120.0
REQUEST_TIMEOUT_S = 60.0
CLIENTS = 4
TEXTS_PER_CLIENT = 25
WRITE_SHARE, DELETE_SHARE = 0.4, 0.1
Texts = dict[str, str | None]
"""Translation by text; None: erased."""


@dataclass
class Report:
    """What was done, and what is missing."""

    kills: int = 0
    acknowledged: int = 0
    """Writes and deletions that were answered."""
    translated: int = 0
    interrupted: int = 0
    """Requests that a kill left without an answer."""
    lost: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Translations that were not those of the memory."""


@dataclass
class _Client:
    """A client with texts of its own, and what it knows of them."""

    number: int
    known: Texts = field(default_factory=dict)
    sent: Texts = field(default_factory=dict)
    """What the request under way, if any, would change."""


def run(bundle: Path, file: Path, requests: int, kills: int, seed: int = 1) -> Report:
    """Sends `requests` requests in all, with `kills` kills spread over them. `file`: of the memory."""
    report, clients = Report(), [_Client(number) for number in range(CLIENTS)]
    lock, left = threading.Lock(), requests
    for kill in range(kills + 1):
        goal = left - requests // (kills + 1) if kill < kills else 0

        def take(goal: int = goal) -> bool:
            nonlocal left
            with lock:
                left -= left > goal
                return left > goal

        with running_service(bundle, file) as (process, url):
            _verify(url, clients, report)
            stop = threading.Event()
            arguments = [(url, client, take, stop, report, lock, random.Random(f"{seed} {kill} {client.number}"))
                         for client in clients]  # fmt: skip
            threads = [threading.Thread(target=_work, args=each) for each in arguments]
            for thread in threads:
                thread.start()
            if kill < kills:
                while left > goal and any(thread.is_alive() for thread in threads):
                    time.sleep(0.002)
                stop.set()
                os.killpg(process.pid, signal.SIGKILL)
                report.kills += 1
            for thread in threads:
                thread.join()
            if kill == kills:
                _verify(url, clients, report)
    return report


@contextmanager
def running_service(bundle: Path, file: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    port = free_port()
    environment = {
        **os.environ,
        "INTERLINEAR_BUNDLES": str(bundle),
        "INTERLINEAR_TRANSLATION_MEMORY": str(file),
        "INTERLINEAR_PORT": str(port),
        "INTERLINEAR_DEVICE": "cpu",
        "INTERLINEAR_WORKERS": "1",
        "INTERLINEAR_MAX_WAIT_MS": "60000",
    }
    command = [sys.executable, "-m", "app", "serve"]
    process = subprocess.Popen(
        command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_ready(process, url)
        yield process, url
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the service ended with status {process.returncode}")
        try:
            if httpx.get(f"{url}/ready", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise RuntimeError("the service did not become ready")


def _work(
    url: str,
    client: _Client,
    take: Callable[[], bool],
    stop: threading.Event,
    report: Report,
    lock: threading.Lock,
    rng: random.Random,
) -> None:
    with httpx.Client(base_url=url, timeout=REQUEST_TIMEOUT_S) as http:
        while not stop.is_set() and take():
            try:
                _request(http, client, report, lock, rng)
            except httpx.TransportError:
                with lock:
                    report.interrupted += 1
                return


def _request(
    http: httpx.Client, client: _Client, report: Report, lock: threading.Lock, rng: random.Random
) -> None:  # fmt: skip
    direction = {"source": "en", "target": "fr"}
    letter = chr(ord("a") + rng.randrange(TEXTS_PER_CLIENT))
    text = f"Client {'abcd'[client.number] * 3} sees the thing {letter * 3} here."
    kind = rng.random()
    if kind < WRITE_SHARE:
        translation = f"Texte {rng.getrandbits(64):x}."
        client.sent = {text: translation}
        pairs = [{"text": text, "translation": translation}]
        http.put("/memory", json={**direction, "pairs": pairs}).raise_for_status()
    elif kind < WRITE_SHARE + DELETE_SHARE:
        client.sent = {text: None}
        http.delete("/memory", params={**direction, "text": text}).raise_for_status()
    else:
        answer = http.post("/translate", json={**direction, "text": f"{text} The cat sleeps."}).raise_for_status()
        expected, [item] = client.known.get(text), answer.json()["translations"]
        with lock:
            report.translated += 1
            if expected and not item["text"].startswith(expected):
                report.wrong.append(f"{text}: {item['text']}")
            if not expected and item["memory"]:
                report.wrong.append(f"{text}: {item['text']}, though erased")
        return
    client.known |= client.sent
    client.sent = {}
    with lock:
        report.acknowledged += 1


def _verify(url: str, clients: list[_Client], report: Report) -> None:
    """Compares the memory with what the clients know, and lets them know what became of their last requests."""
    answer = httpx.get(f"{url}/memory", params={"source": "en", "target": "fr"}, timeout=REQUEST_TIMEOUT_S)
    units = etree.fromstring(answer.raise_for_status().content).findall("body/tu")
    kept = {unit.findtext("tuv[1]/seg"): unit.findtext("tuv[2]/seg") for unit in units}
    for client in clients:
        for text, translation in client.known.items():
            possible = {translation, client.sent.get(text, translation)}
            if kept.get(text) not in possible:
                report.lost.append(f"{text}: {translation}, but {kept.get(text)}")
        client.known |= {text: kept.get(text) for text in client.sent}
        client.sent = {}


def main(
    bundle: Annotated[Path, typer.Option(help="A bundle from English to French, or a folder of some")],
    requests: int = 10_000,
    kills: int = 20,
    seed: int = 1,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        report = run(bundle, Path(folder) / "memory.sqlite", requests, kills, seed)
    print(
        f"{report.kills} kills; {report.acknowledged} changes acknowledged, {report.translated} translations, "
        f"{report.interrupted} requests interrupted; {len(report.lost)} lost, {len(report.wrong)} wrong"
    )
    for each in [*report.lost, *report.wrong][:10]:
        print(each)
    raise SystemExit(bool(report.lost or report.wrong))


if __name__ == "__main__":
    typer.run(main)
