"""The load: 0 idle, 1 saturated, above 1 refusing, linear between, and steady."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from shared_fixtures import Service, serving

from app.api.readiness import STRICT_MAX_LOAD
from app.runtime.load import MAX_LOAD, WINDOW_S, Load, StepTime

ROWS = 32
STEP_S, ROW_S = 0.0015, 0.0004
"""A step takes STEP_S, and ROW_S more for each row."""


class Clock:
    """Seconds of a simulated service, and the processor time of its event loop."""

    def __init__(self) -> None:
        self.now = self.cpu = 0.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def load(clock: Clock) -> Load:
    made = Load(lambda: clock.now, lambda: clock.cpu)
    made.batch_rows = ROWS
    return made


def step_s(rows: int) -> float:
    return STEP_S + ROW_S * rows


def decode(load: Load, clock: Clock, share: float, seconds: float, seed: int = 1) -> Iterator[float]:
    """Decodes sentences of 8 steps that arrive at random, at `share` of what one worker can do. Yields the load once a
    second."""
    capacity = ROWS / step_s(ROWS) / 8
    chance = random.Random(seed)
    arrival, rows, shown = clock.now + chance.expovariate(share * capacity), list[int](), clock.now
    until = clock.now + seconds
    while clock.now < until:
        while arrival <= clock.now and len(rows) < ROWS:
            load.add_accepted()
            rows.append(8)
            arrival += chance.expovariate(share * capacity)
        if rows:
            seconds = step_s(len(rows)) * chance.uniform(0.7, 1.3)  # sentences differ in length
            clock.now += seconds
            load.add_step(len(rows), seconds)
            rows = [left - 1 for left in rows if left > 1]
        else:
            clock.now = max(clock.now, arrival)
        if clock.now >= shown + 1:
            shown += 1
            yield load.current()


def test_idle_service_has_no_load(load: Load) -> None:
    assert load.current() == 0.0


@pytest.mark.parametrize("share", [0.1, 0.3, 0.65, 0.9])
def test_load_grows_in_proportion_to_the_work_and_is_steady(load: Load, clock: Clock, share: float) -> None:
    found = list(decode(load, clock, share, 60))[WINDOW_S + 2 :]
    assert max(found) - min(found) < 0.15 * share + 0.05
    assert sum(found) / len(found) == pytest.approx(share, rel=0.15, abs=0.03)


def test_saturated_service_has_load_1(load: Load, clock: Clock) -> None:
    assert list(decode(load, clock, 1.5, 20))[-1] == pytest.approx(1.0, abs=0.02)


def test_load_is_that_of_all_workers(load: Load, clock: Clock) -> None:
    load.workers = lambda: 4
    assert list(decode(load, clock, 0.8, 20))[-1] == pytest.approx(0.2, abs=0.03)


def test_refused_requests_count_as_much_as_accepted_ones(load: Load, clock: Clock) -> None:
    for _ in decode(load, clock, 1.2, 20):
        pass
    for second in range(WINDOW_S):
        clock.now = 30.0 + second
        load.add_accepted()
        load.add_refused()
        for _ in range(round(1 / step_s(ROWS))):
            load.add_step(ROWS, step_s(ROWS))
    clock.now += 1
    assert load.current() == pytest.approx(2.0, abs=0.05)


@pytest.mark.slow
def test_load_has_a_limit(load: Load, clock: Clock) -> None:
    for _ in decode(load, clock, 1.2, 20):
        for _ in range(100_000):
            load.add_refused()
    assert load.current() == MAX_LOAD


def test_refusals_of_an_idle_service_are_no_load(load: Load, clock: Clock) -> None:
    load.add_refused()
    clock.now += 2
    assert load.current() == 0.0


def test_load_falls_to_zero_within_its_window(load: Load, clock: Clock) -> None:
    for _ in decode(load, clock, 0.9, 20):
        pass
    clock.now += WINDOW_S + 1
    assert load.current() == 0.0


def test_busy_event_loop_is_a_load(load: Load, clock: Clock) -> None:
    for _ in range(10 * WINDOW_S):
        clock.now, clock.cpu = clock.now + 0.1, clock.cpu + 0.07
        load.sample_event_loop(0.001)
    assert load.current() == pytest.approx(0.7, abs=0.01)


def test_event_loop_that_is_late_without_computing_is_a_load(load: Load, clock: Clock) -> None:
    for _ in range(10 * WINDOW_S):
        clock.now += 0.1
        load.sample_event_loop(0.5)
    assert load.current() == pytest.approx(0.5, abs=0.01)


def test_steps_of_one_size_are_taken_to_be_proportional() -> None:
    step_time = StepTime()
    for _ in range(100):
        step_time.add(4, 0.004)
    assert step_time.seconds_per_row(ROWS) == pytest.approx(0.001)


def test_thin_steps_tell_the_time_of_full_ones() -> None:
    step_time = StepTime()
    for number in range(1000):
        step_time.add(1 + number % 6, step_s(1 + number % 6))
    assert step_time.seconds_per_row(ROWS) == pytest.approx(step_s(ROWS) / ROWS, rel=0.3)


def test_strict_readiness_fails_while_the_service_is_saturated(bundle_folder: Path) -> None:
    with serving(bundle_folder, admin_port=0) as service:
        admin = f"http://127.0.0.1:{service.state.admin.port}"
        _wait_ready(service)
        assert service.get("/ready?strict=true").status_code == 200
        load = service.state.metrics.load
        load.current = lambda: STRICT_MAX_LOAD + 0.01
        for strict, status in ("true", 503), ("false", 200):
            assert service.get(f"/ready?strict={strict}").status_code == status
            assert httpx.get(f"{admin}/ready?strict={strict}").status_code == status
        assert service.get("/ready?strict=true").json()["detail"] == "The service is saturated: its load is 1.01."
        assert service.get("/ready").status_code == httpx.get(f"{admin}/ready").status_code == 200


def test_both_ports_read_strict_alike(bundle_folder: Path) -> None:
    with serving(bundle_folder, admin_port=0) as service:
        admin = f"http://127.0.0.1:{service.state.admin.port}"
        _wait_ready(service)
        service.state.metrics.load.current = lambda: STRICT_MAX_LOAD + 0.01
        found = set()
        for value in "1", "TRUE", "y", "off", "2", "", "a&strict=on", "on&strict=a", "1&other=2":
            main, other = (get(f"{url}/ready?strict={value}") for get, url in ((service.get, ""), (httpx.get, admin)))
            assert (main.status_code, main.json()) == (other.status_code, other.json()), value
            found.add(main.status_code)
        assert found == {200, 422, 503}
        assert main.headers["Content-Type"] == other.headers["Content-Type"]


def test_engine_measures_its_load(service: Service) -> None:
    _wait_ready(service)
    load = service.state.metrics.load
    body = {"text": [f"Number {number}." for number in range(100)], "source": "en", "target": "fr"}
    assert service.post("/translate", body).status_code == 200
    assert load.workers() == 1
    assert load.batch_rows > 1
    assert load._step_time.seconds_per_row(1) > 0
    assert "\ninterlinear_load " in service.get("/metrics").text


def _wait_ready(service: Service) -> None:
    while service.get("/ready").status_code == 503:
        pass
