"""Several instances on one port, as real processes: `INTERLINEAR_INSTANCES=2 python -m app serve`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from time import sleep
from typing import Any

import httpx
import pytest
from instances import HELLO, Instances, serving_instances
from servers import WAIT_S, becomes
from shared_fixtures import make_bundle
from typer.testing import CliRunner

from app.__main__ import cli
from app.http.api_keys import new_key
from app.runtime.metrics import Metrics, exposition
from app.runtime.peers import Peers
from app.services import startup
from app.services.startup import load_catalogue, share_of, worker_count
from app.settings import Settings, SettingsError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instances]:
    folder = tmp_path_factory.mktemp("instances")
    with serving_instances(folder, translation_memory=str(folder / "memory.sqlite")) as made:
        yield made


def test_both_instances_answer_on_one_port(running: Instances) -> None:
    assert becomes(lambda: running.post("/translate", HELLO).status_code == 200 and _all_translated(running))


def _all_translated(running: Instances) -> bool:
    return min({"0": 0.0, "1": 0.0, **running.series("interlinear_sentences_total")}.values()) > 0


def test_a_correction_through_one_instance_counts_in_the_other_at_the_next_request(running: Instances) -> None:
    direction = {"source": "en", "target": "fr"}
    headers = {"Connection": "close", "Authorization": f"Bearer {running.key}"}

    def send(method: str, path: str, body: object) -> tuple[Any, int]:
        """The answer, and the instance that gave it."""
        answer = httpx.request(method, running.url + path, json=body, headers=headers, timeout=WAIT_S)
        name = answer.raise_for_status().headers["x-request-id"]
        assert becomes(lambda: bool(running.logged(name)))
        return answer.json(), json.loads(running.logged(name)[0])["instance"]

    seen, number = set[tuple[int, int]](), 0
    while not {(0, 1), (1, 0)} <= seen:
        number += 1
        assert number < 1_000
        pairs = [{"text": "A house.", "translation": f"Une demeure {number}."}]
        stored, writer = send("PUT", "/memory", {**direction, "pairs": pairs})
        answer, reader = send("POST", "/translate", {**direction, "text": "A house."})
        [item] = answer["translations"]
        assert (item["text"], item["memory"]) == (f"Une demeure {number}.", "exact")
        assert item["memory_version"] == stored["memory_version"] == number
        seen.add((writer, reader))


def test_log_says_which_instance_writes(running: Instances) -> None:
    assert running.post("/translate", HELLO).status_code == 200
    assert becomes(lambda: len(running.logged('"/translate"')) > 0)
    assert json.loads(running.logged('"/translate"')[0])["instance"] in (0, 1)
    assert {json.loads(line)["instance"] for line in running.logged("running on")} == {0, 1}


def test_admin_port_shows_the_metrics_of_all_instances(running: Instances) -> None:
    found = httpx.get(
        f"http://127.0.0.1:{running.admin}/metrics", headers={"Authorization": f"Bearer {running.key}"}, timeout=WAIT_S
    ).text
    assert set(re.findall(r'interlinear_load{instance="(\d)"}', found)) == {"0", "1"}
    assert found.count("# TYPE interlinear_load gauge") == 1


def test_reload_reaches_all_instances(running: Instances) -> None:
    make_bundle(running.bundles / "fr-en", source="fr", target="en")
    answer = running.post("/models/reload")
    assert answer.status_code == 200 and answer.json()["changed"]
    for _ in range(8):
        assert len(running.get("/models").json()) == 2
    assert running.post("/models/reload").json()["changed"] is False


def test_refused_reload_changes_no_instance(running: Instances) -> None:
    shutil.copytree(running.bundles / "en-fr", running.bundles / "broken")
    (running.bundles / "broken" / "config.json").write_text("{}")
    try:
        assert running.post("/models/reload").status_code == 409
    finally:
        shutil.rmtree(running.bundles / "broken")
    assert running.post("/translate", HELLO).status_code == 200


def test_sigterm_ends_all_instances(running: Instances) -> None:
    processes = [*running.processes().values()]
    assert len(processes) == 2
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(WAIT_S) == 0
    assert not [number for number in processes if Path(f"/proc/{number}").exists()]
    assert not running.logged('"critical"')


@pytest.mark.parametrize("limit", ["settings", "key"])
def test_rates_need_a_store(bundle_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setenv("INTERLINEAR_INSTANCES", "2")
    if limit == "settings":
        monkeypatch.setenv("INTERLINEAR_RATE_REQUESTS", "600/minute")
    else:
        (tmp_path / "keys").write_text(f"{new_key('alice')[1]} requests=5/minute\n")
        monkeypatch.setenv("INTERLINEAR_API_KEYS_FILE", str(tmp_path / "keys"))
    result = CliRunner().invoke(cli, ["serve", "--bundles", str(bundle_folder), "--device", "cpu"])
    assert result.exit_code == 1
    assert result.stderr.startswith("interlinear: INTERLINEAR_INSTANCES=2: each instance")
    assert result.stderr.count("\n") == 1


def test_used_port_is_refused_before_an_instance_starts(bundle_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLINEAR_INSTANCES", "2")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        result = CliRunner().invoke(cli, ["serve", "--bundles", str(bundle_folder), "--device", "cpu", "--port", port])
    assert result.exit_code == 1
    assert "already in use" in result.stderr
    assert result.stderr.count("\n") == 1


def test_instances_divide_workers_cache_and_memory() -> None:
    settings = Settings(instances=3, cache_bytes=300, memory_bytes=90, admin_port=1)
    shares = [share_of(settings, number, workers=8) for number in range(3)]
    assert [share.workers for share in shares] == [3, 3, 2]
    assert {(share.instances, share.cache_bytes, share.memory_bytes) for share in shares} == {(1, 100, 30)}
    assert [share.admin_port for share in shares] == [1, None, None]


def test_every_instance_has_a_worker(bundle_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(bundles=(bundle_folder,), device="cpu", instances=5, workers=2, cache_bytes=0)
    bundles = load_catalogue(settings)
    monkeypatch.setattr("app.services.startup.memory_left", lambda: None)
    assert worker_count(settings, bundles) == 5
    fronts = 5 * (startup.FRONT_BYTES + startup.FRONT_GROWTH_BYTES)
    monkeypatch.setattr("app.services.startup.memory_left", lambda: fronts + 10_000_000)
    with pytest.raises(SettingsError, match="too little memory: 5 workers"):
        worker_count(settings, bundles)


def test_instance_that_does_not_answer_is_left_out_of_the_metrics(tmp_path: Path) -> None:
    peers, other = Peers(tmp_path, 0, 4), Peers(tmp_path, 2, 4)
    other.serve({"metrics": Metrics().families})
    assert b'interlinear_load{instance="0"} 0.0\ninterlinear_load{instance="2"} 0.0' in exposition(Metrics(), peers)
    silent = socket.socket(socket.AF_UNIX)
    silent.bind(str(tmp_path / "3.socket"))
    silent.listen()
    try:
        assert list(peers.ask_all("metrics", timeout_s=0.3)) == [2]
    finally:
        other.stop()
        silent.close()


def test_question_waits_for_an_instance_that_starts(tmp_path: Path) -> None:
    peers, other = Peers(tmp_path, 0, 2), Peers(tmp_path, 1, 2)

    def start() -> None:
        sleep(0.3)
        other.serve({"ping": lambda: b"pong\n"})

    starting = threading.Thread(target=start)
    starting.start()
    try:
        assert peers.ask(1, "ping", WAIT_S) == b"pong\n"
    finally:
        starting.join()
        other.stop()


def test_instances_take_turns(tmp_path: Path) -> None:
    """However many of them find at once that the bundles have changed."""
    inside, most = 0, 0

    async def load(peers: Peers) -> None:
        nonlocal inside, most
        async with peers.turn():
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.05)
            inside -= 1

    async def load_all() -> None:
        await asyncio.gather(*(load(Peers(tmp_path, number, 3)) for number in range(3)))

    asyncio.run(load_all())
    assert (inside, most) == (0, 1)


def test_killed_instance_gives_up_its_turn(tmp_path: Path) -> None:
    child = os.fork()
    if not child:  # the child, which never returns

        async def hold() -> None:
            async with Peers(tmp_path, 0, 2).turn():
                (tmp_path / "held").touch()
                signal.pause()

        asyncio.run(hold())
        os._exit(1)

    async def wait_for_turn() -> None:
        waiting = asyncio.create_task(_enter(Peers(tmp_path, 1, 2)))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        os.kill(child, signal.SIGKILL)
        await waiting

    try:
        assert becomes((tmp_path / "held").exists)
        asyncio.run(wait_for_turn())
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


async def _enter(peers: Peers) -> None:
    async with peers.turn():
        pass
