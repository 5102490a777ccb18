"""app/: the service as a separate process on a bad day: killed workers, full disks, little memory, clocks that jump.

Tests marked `soak` take minutes or need root, for mounts and control groups; `make soak` runs them.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from servers import post
from shared_fixtures import SHIPPED

from app.http.api_keys import new_key
from benchmarks.soak import Soak, kill_workers, memory, pseudoword_sentences, request_sequentially, running_service

pytestmark = [pytest.mark.bundle, pytest.mark.slow]

BUNDLE = SHIPPED / "en-fr"
SETTINGS = {"INTERLINEAR_WORKERS": "2", "INTERLINEAR_MAX_WAIT_MS": "60000"}
ENGLISH, FRENCH = "I am tired.", "Je suis fatigué."
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts and control groups need root")


def ask(port: int, text: str | list[str] = ENGLISH, **fields: object) -> httpx.Response:
    body = {"text": text, "source": "en", "target": "fr", **fields}
    return httpx.post(f"http://127.0.0.1:{port}/translate", json=body, timeout=60)


def expect_translations(port: int) -> None:
    """The service translates, accepts a file of over a megabyte, and reports that it is ready."""
    assert ask(port).json()["translations"][0]["text"] == FRENCH
    document = f"{ENGLISH}\n\n" + "\n" * 1_200_000
    answer = httpx.post(
        f"http://127.0.0.1:{port}/translate/file",
        files={"file": ("long.txt", document.encode())},
        data={"source": "en", "target": "fr"},
        timeout=60,
    )
    assert answer.status_code == 200, answer.text
    assert answer.text.startswith(FRENCH)
    assert httpx.get(f"http://127.0.0.1:{port}/ready").status_code == 200


def bodies_of(sentences: Sequence[str]) -> list[bytes]:
    return [json.dumps({"text": text, "source": "en", "target": "fr"}).encode() for text in sentences]


def killed(port: int, front: int, sentences: int, kills: int, every_s: float) -> Soak:
    """Sends requests from 16 clients while workers are killed; returns the outcomes."""
    bodies = bodies_of(pseudoword_sentences(sentences, 12, seed=7))

    async def run() -> Soak:
        load = Soak(port, bodies, await request_sequentially(port, bodies), leaving=0.05)
        killing = asyncio.create_task(kill_workers(front, kills, every_s))
        while not killing.done():
            await load.run(64, 16)
        assert await killing == kills
        return load

    return asyncio.run(run())


@pytest.mark.soak  # a short one is in tests/app/engine/test_engine.py
def test_killed_workers_change_lose_and_repeat_no_response() -> None:
    with running_service(BUNDLE, {**SETTINGS, "INTERLINEAR_CACHE_BYTES": "0"}) as (process, port):
        load = killed(port, process.pid, sentences=1000, kills=40, every_s=2.0)
    assert load.outcomes.answered > 0
    assert load.outcomes.wrong == 0, str(load.outcomes)


# ---- Machines with something missing


def in_namespace(script: str) -> list[str]:
    """A command prefix that runs a command with its own mounts, changed by `script`."""
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", f'{script} && exec "$@"', "sh"]


@pytest.mark.soak
@needs_root
@pytest.mark.parametrize(
    "script",
    [
        "mount -t tmpfs -o size=64k tmpfs /tmp && ! head -c 70000 /dev/zero > /tmp/full 2> /dev/null",
        "mount -t tmpfs -o size=64k,ro tmpfs /tmp",
        "umount -l /dev/shm",
        "mount -t tmpfs -o size=4k,ro tmpfs /dev/shm",
    ],
    ids=["full tmp", "read-only tmp", "no shm", "read-only shm"],
)
def test_service_needs_neither_tmp_nor_shm(script: str) -> None:
    with running_service(BUNDLE, SETTINGS, before=in_namespace(script)) as (_, port):
        expect_translations(port)


@contextmanager
def control_group(limit: int) -> Iterator[list[str]]:
    """A command prefix that puts what follows into a control group of `limit` bytes of memory."""
    root = Path("/sys/fs/cgroup")
    is_first = (root / "memory").is_dir()
    folder = (root / "memory" if is_first else root) / f"interlinear-soak-{os.getpid()}"
    folder.mkdir()
    try:
        (folder / ("memory.limit_in_bytes" if is_first else "memory.max")).write_text(str(limit))
        yield ["sh", "-c", f'echo $$ > {folder}/cgroup.procs && exec "$@"', "sh"]
    finally:
        for _ in range(50):
            if not (folder / "cgroup.procs").read_text().strip():
                break
            time.sleep(0.1)
        folder.rmdir()


@pytest.mark.soak
@needs_root
@pytest.mark.parametrize("limit", [500, 700, 1000, 1500])
def test_with_little_memory_the_service_loses_nothing_or_refuses_to_start(limit: int) -> None:
    with control_group(limit << 20) as before:
        settings = {**os.environ, "INTERLINEAR_BUNDLES": str(BUNDLE), "INTERLINEAR_PORT": "0"}
        command = [*before, sys.executable, "-m", "app", "serve"]
        tried = subprocess.Popen(command, env=settings, stderr=subprocess.PIPE, text=True)
        try:
            _, said = tried.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            tried.terminate()
            tried.communicate()
        else:
            assert tried.returncode == 1, said
            assert said.splitlines()[-1].startswith("interlinear: too little memory"), said
            return
    with (
        control_group(limit << 20) as before,
        running_service(BUNDLE, {"INTERLINEAR_MAX_WAIT_MS": "60000"}, before) as found,
    ):
        process, port = found
        bodies = bodies_of(pseudoword_sentences(300, 40, seed=3))

        async def run() -> Soak:
            load = Soak(port, bodies, await request_sequentially(port, bodies), leaving=0)
            await load.run(6000, 64)
            return load

        load = asyncio.run(run())
        assert load.outcomes.wrong == 0, str(load.outcomes)
        assert process.poll() is None


# ---- Bundles that break while they are exchanged, and a clock that jumps


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process whose wall clock is shifted by the file named in it."""
    folder = tmp_path_factory.mktemp("clock")
    library, offset = folder / "clock_offset.so", folder / "offset"
    source = Path(__file__).parents[1] / "support" / "clock_offset.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    offset.write_text("0")
    return {"LD_PRELOAD": str(library), "CLOCK_OFFSET_FILE": str(offset)}


@pytest.mark.parametrize("rounds", [2, pytest.param(30, marks=pytest.mark.soak)])
def test_reload_of_damaged_bundles_keeps_the_served_ones_and_a_jumping_clock_changes_nothing(
    tmp_path: Path, clock: dict[str, str], rounds: int
) -> None:
    """Deadlines, rates, caches and the poll of files count by the monotonic clock."""
    bundles = tmp_path / "bundles"
    shutil.copytree(BUNDLE, bundles / "en-fr")
    keys = tmp_path / "keys.txt"
    key, line = new_key("admin")
    keys.write_text(f"{line} admin\n")
    weights, sums = bundles / "en-fr" / "model.safetensors", bundles / "en-fr" / "SHA256SUMS"
    whole, right = weights.read_bytes(), sums.read_text()
    newer = re.sub(r"^[0-9a-f]{8}(?=.*safetensors)", "00000000", right, flags=re.MULTILINE)
    headers = {"Authorization": f"Bearer {key}"}
    settings = {"INTERLINEAR_WORKERS": "1", "INTERLINEAR_API_KEYS_FILE": str(keys)}
    settings |= {"INTERLINEAR_RATE_REQUESTS": "1000000/minute", **clock}
    with running_service(bundles, settings) as (_, port):
        url = f"http://127.0.0.1:{port}"
        seen, stop = list[str](), threading.Event()

        def translate() -> None:
            while not stop.is_set():
                body = {"text": ENGLISH, "source": "en", "target": "fr"}
                answer = httpx.post(f"{url}/translate", json=body, headers=headers, timeout=60)
                seen.append(answer.json()["translations"][0]["text"] if answer.status_code == 200 else answer.text)

        client = threading.Thread(target=translate)
        client.start()
        try:
            for number in range(rounds):
                # A newer bundle on its way: its checksums are there, its weights are not or not whole.
                sums.write_text(newer)
                weights.write_bytes(whole[: len(whole) // 2] if number % 2 else whole[:-8] + bytes(8))
                refused = httpx.post(f"{url}/models/reload", headers=headers, timeout=120)
                assert refused.status_code == 409, refused.text
                weights.write_bytes(whole)
                sums.write_text(right)
                taken = httpx.post(f"{url}/models/reload", headers=headers, timeout=120)
                assert taken.status_code == 200, taken.text
        finally:
            stop.set()
            client.join()
        for hours in (24, -24, 24 * 365 * 30, 0):
            Path(clock["CLOCK_OFFSET_FILE"]).write_text(str(3600 * hours))
            body = {"text": f"I see {hours + 1_000_000} cats.", "source": "en", "target": "fr", "deadline_ms": 20_000}
            answer = httpx.post(f"{url}/translate", json=body, headers=headers, timeout=60)
            assert answer.status_code == 200, answer.text
            date = answer.headers.get("date", "")
            assert httpx.get(f"{url}/ready").status_code == 200, date
    assert set(seen) == {FRENCH}


# ---- Clients that keep what they hold


@pytest.mark.soak
def test_slow_headers_delay_no_other_client() -> None:
    """Connections that send a byte of their head each second are closed in the end, and others are served."""

    async def dribble(port: int) -> float:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        started = time.monotonic()
        try:
            for byte in b"GET /health HTTP/1.1\r\nhost: " + b"x" * 600:
                writer.write(bytes([byte]))
                await writer.drain()
                if reader.at_eof() or await asyncio.wait_for(asyncio.shield(peek(reader)), 1):
                    break
        except (OSError, TimeoutError):
            pass
        writer.close()
        return time.monotonic() - started

    async def peek(reader: asyncio.StreamReader) -> bool:
        await asyncio.sleep(0.9)
        return reader.at_eof()

    async def run(port: int) -> tuple[list[float], list[float]]:
        slow = asyncio.gather(*(dribble(port) for _ in range(200)))
        waits = []
        async with httpx.AsyncClient() as client:
            while not slow.done():
                began = time.monotonic()
                assert (await client.get(f"http://127.0.0.1:{port}/health", timeout=30)).status_code == 200
                waits.append(time.monotonic() - began)
                await asyncio.sleep(0.5)
        return await slow, waits

    with running_service(BUNDLE, SETTINGS) as (_, port):
        lasted, waits = asyncio.run(run(port))
    assert max(lasted) < 300, "a head may take for ever"
    assert max(waits) < 10, "those that send no head keep others waiting"


WORDS, SEND_TIMEOUT_MS = 170, 150
AT_ONCE_TO_THE_SYSTEM = {"MALLOC_MMAP_THRESHOLD_": str(1 << 16), "MALLOC_ARENA_MAX": "1"}
"""glibc gives what is freed back at once: memory is then what is in use, to some megabytes."""


def unread_answers(port: int, clients: int) -> int:
    """The number of clients that began to receive a response of megabytes. Half of them leave, the others are
    disconnected."""
    fields = {"text": "house " * WORDS, "source": "en", "target": "fr", "target_text": "maison"}
    body = json.dumps(fields).encode()
    asked = post("/attention", len(body), "Content-Type: application/json") + body

    async def ask_and_do_not_read() -> int:
        streams = [await asyncio.open_connection("127.0.0.1", port, limit=1024) for _ in range(clients)]
        for _, writer in streams:
            writer.write(asked)
        began = [await reader.readexactly(12) for reader, _ in streams]
        for _, writer in streams[::2]:
            writer.transport.abort()
        await asyncio.sleep(2 * SEND_TIMEOUT_MS / 1000)
        for _, writer in streams:
            writer.transport.abort()
        return began.count(b"HTTP/1.1 200")

    return asyncio.run(ask_and_do_not_read())


@pytest.mark.parametrize(("clients", "waves"), [(5, 4), pytest.param(60, 20, marks=pytest.mark.soak)])
def test_clients_that_do_not_read_attention_leave_nothing_behind(clients: int, waves: int) -> None:
    """If half of the responses stayed in memory, it would grow by more than allowed."""
    model = json.loads((BUNDLE / "config.json").read_text())["architecture"]
    answer_mb = 4 * model["encoder_layers"] * model["num_heads"] * (WORDS + 1) ** 2 / 1e6  # of float32
    settings = {**SETTINGS, **AT_ONCE_TO_THE_SYSTEM, "INTERLINEAR_SEND_TIMEOUT_MS": str(SEND_TIMEOUT_MS)}
    with running_service(BUNDLE, settings) as (process, port):
        for _ in range(3):  # workers, threads and buffers reach their size
            unread_answers(port, clients)
        assert ask(port).status_code == 200
        before = memory(process.pid)
        allowed = before + answer_mb * sum(unread_answers(port, clients) for _ in range(waves)) / 2
        assert ask(port).status_code == 200
        assert allowed > before + 40
        until = time.monotonic() + 10
        while memory(process.pid) > allowed and time.monotonic() < until:
            time.sleep(0.2)
        assert memory(process.pid) < allowed, (before, allowed)
