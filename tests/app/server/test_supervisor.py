"""app/server/: what happens to two instances on one port: one hangs, all are replaced, their supervisor is killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from instances import HELLO, Instances, children, serving_instances
from servers import WAIT_S, becomes

pytestmark = pytest.mark.slow

IMPATIENT = """
from app.__main__ import serve_instances
from app.runtime.json_logs import log_to_stderr
from app.runtime.supervision import Supervision
from app.services.startup import load_catalogue
from app.settings import load_settings

log_to_stderr()
settings = load_settings({})
serve_instances(settings, load_catalogue(settings), {}, Supervision(max_silent_checks=3, check_interval_s=1.0))
"""
"""Serves as `python -m app serve` does, but knows after three seconds, and not after thirty, that an instance hangs."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instances]:
    with serving_instances(tmp_path_factory.mktemp("supervised"), ("-c", IMPATIENT), drain_ms=500) as made:
        yield made


@contextmanager
def load(running: Instances, clients: int = 3) -> Iterator[list[int]]:
    """The statuses of translations and of /ready, for which clients ask again and again, each time over a connection of
    its own; 0 for none."""
    ended, statuses = threading.Event(), list[int]()

    def ask() -> None:
        while not ended.is_set():
            try:
                statuses.append(running.post("/translate", HELLO).status_code)
                statuses.append(running.get("/ready").status_code)
            except httpx.TransportError:
                statuses.append(0)
            time.sleep(0.1)  # it keeps the processor from what starts

    with ThreadPoolExecutor(clients) as pool:
        asking = [pool.submit(ask) for _ in range(clients)]
        try:
            yield statuses
        finally:
            ended.set()
    for each in asking:
        each.result()


def replaced(running: Instances, old: dict[int, int]) -> Callable[[], bool]:
    """Whether other processes than these serve."""

    def check() -> bool:
        now = running.processes()
        return now.keys() == old.keys() and not set(now.values()) & set(old.values())

    return check


def test_sighup_replaces_all_instances_while_the_service_is_ready(running: Instances) -> None:
    old = running.processes()
    with load(running) as statuses:
        running.process.send_signal(signal.SIGHUP)
        assert becomes(replaced(running, old))
        assert becomes(lambda: not any(Path(f"/proc/{process}").exists() for process in old.values()))
        before = len(statuses)
        assert becomes(lambda: len(statuses) > before + 10)
    assert set(statuses) == {200}
    assert not running.logged('"critical"')


def test_hanging_instance_is_replaced_while_the_other_answers(running: Instances) -> None:
    old = running.processes()
    os.kill(old[1], signal.SIGSTOP)  # it holds no request
    with load(running) as statuses:
        assert becomes(lambda: running.processes().get(1, old[1]) != old[1])
    assert statuses
    assert set(statuses) == {200}
    assert running.processes()[0] == old[0]
    assert running.logged(f"process {old[1]} hangs")
    assert becomes(running.all_work)


def test_killed_instance_loses_only_what_is_in_it(running: Instances) -> None:
    old, clients = running.processes(), 3
    with load(running, clients) as statuses:
        assert becomes(lambda: len(statuses) > 10)
        os.kill(old[0], signal.SIGKILL)
        assert becomes(lambda: running.processes().get(0, old[0]) != old[0])
        assert becomes(running.all_work)
        before = len(statuses)
        assert becomes(lambda: len(statuses) > before + 10)
    assert set(statuses) <= {0, 200}
    assert statuses.count(0) <= clients
    assert running.logged("instance 0 has died: killed by SIGKILL")


def test_instances_end_with_their_supervisor_after_what_they_have_accepted(running: Instances) -> None:
    instances = [*running.processes().values()]
    processes = instances + [child for instance in instances for child in children(instance)]
    assert len(processes) == 6  # each has a worker and a watchdog
    text = " ".join(f"Sentence number {number}." for number in range(400))
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(running.post, "/translate", {**HELLO, "text": text})
        assert becomes(lambda: sum(running.series("interlinear_queue_sentences").values()) > 0 or asked.done())
        running.process.kill()
        assert asked.result(WAIT_S).status_code == 200
    assert becomes(lambda: not any(Path(f"/proc/{process}").exists() for process in processes))
