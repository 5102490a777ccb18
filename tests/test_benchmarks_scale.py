"""The benchmarks of several instances: the simulation's model, and what their tables count."""

from __future__ import annotations

import asyncio
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.balancer import children, family, processor_s
from benchmarks.queueing import Balancer, Instance, Leastconn, Machine, Request, Simulation, Times
from benchmarks.scale import SCENARIOS, Group, Row, Scenario, Traffic, Work, answers, kill_instances, run_scenario
from benchmarks.scale_simulation import ceiling, simulate_many, times_of
from benchmarks.sentences import workloads
from benchmarks.soak import Outcomes

TIMES = Times(front=0.004, step=0.003, row=0.001, balancer=0.0005)


def answered_at(clients: int, instances: int, seconds: float, cores: float = 2, shared: bool = False) -> list[float]:
    """When requests are answered, of so many clients in a closed loop. Each instance has a worker, and cores of its own
    unless they are `shared`."""
    simulation = Simulation()
    machine = Machine(simulation, cores) if shared else None
    made = [Instance(simulation, TIMES, 1, cores, 32, machine) for _ in range(instances)]
    balancer = Balancer(simulation, TIMES, made, 1, "leastconn", seed=1)
    found: list[float] = []

    def send() -> None:
        def done(now: float) -> None:
            found.append(now)
            simulation.at(now, send)

        balancer.add(Request(1.0, done))

    for _ in range(clients):
        simulation.at(0.0, send)
    simulation.run(lambda: simulation.now > seconds)
    return found


def test_request_alone_takes_the_sum_of_its_times() -> None:
    first = answered_at(clients=1, instances=1, seconds=1)[0]
    assert first == pytest.approx(TIMES.balancer + TIMES.front + TIMES.step + TIMES.row)


def test_busy_instance_does_what_its_front_can() -> None:
    assert len(answered_at(clients=16, instances=1, seconds=10)) == pytest.approx(10 / TIMES.front, rel=0.02)


def test_two_instances_do_twice_as_much_unless_they_share_their_cores() -> None:
    one, two = (len(answered_at(32, instances, seconds=5)) for instances in (1, 2))
    assert two == pytest.approx(2 * one, rel=0.02)
    one, two = (len(answered_at(32, instances, 5, cores=1, shared=True)) for instances in (1, 2))
    assert two == pytest.approx(one, rel=0.1)


def test_leastconn_chooses_an_instance_with_the_fewest_requests() -> None:
    draw, counts, choose = random.Random(0), [0] * 5, Leastconn(5)
    for _ in range(300):
        number = draw.randrange(5)
        if draw.random() < 0.5 and counts[number]:
            counts[number] -= 1
        else:
            number = choose(counts, draw)
            assert counts[number] == min(counts)
            counts[number] += 1
        choose.changed(number, counts[number])


def test_times_are_those_that_were_measured() -> None:
    alone, together = [0.005, 0.004, 0.001], [0.004, TIMES.per_request(16), 0.0005]
    found = times_of(alone, together, rows=16)
    assert (found.front, found.step, found.row) == pytest.approx((TIMES.front, TIMES.step, TIMES.row))


@pytest.mark.parametrize("policy", ["leastconn", "random"])
def test_simulated_instances_answer_at_the_rate_of_arrivals(policy: str) -> None:
    times = Times(front=4e-4, step=1.5e-3, row=1e-3, balancer=6e-5)
    found = simulate_many(times, 4, policy, 2, 3_000)
    mean = 0.99 + 0.01 * 30
    assert found["requests"] == pytest.approx(0.8 * 4 * ceiling(times, mean), rel=0.1)
    assert 1e3 * (times.front + times.row) < found["p50"] < found["p99"]


def test_row_counts_whatever_is_no_translation_as_lost() -> None:
    outcomes, row = Outcomes(lost=1, twice=2, changed=3, longest_s=0.5), Row()
    outcomes.statuses.update({200: 10, 502: 4, 503: 5})
    traffic = Traffic(0, [], (), 0.0, outcomes)
    row.add(traffic, 2.0)
    row.add(traffic, 2.0)
    assert (row.runs, row.answered, row.refused, row.lost, row.twice, row.changed) == (2, 20, 10, 10, 4, 6)
    assert (row.longest_ms, row.wrong) == (500, 30)


def test_processor_time_and_children_of_a_process_that_has_ended_are_none() -> None:
    async def ended() -> int:
        process = await asyncio.create_subprocess_exec("true")
        await process.wait()
        return process.pid

    number = asyncio.run(ended())
    assert (processor_s(number), children(number), family(number)) == (0.0, [], [number])


def test_scenarios_have_different_names() -> None:
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)


@pytest.mark.skipif(not shutil.which("haproxy"), reason="HAProxy is not installed")
def test_killed_instance_loses_nothing(bundle_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.scale.HEALTHY_S", 2.5)  # HAProxy looks every second

    async def kill_one(group: Group) -> None:
        await kill_instances(replace(group, instances=group.instances[:1]))

    bundle = bundle_folder / "en-fr"
    bodies = workloads(bundle, None, tmp_path)["short"].bodies.read_bytes().splitlines()[:50]
    work = Work(bundle, bundle, bodies, [{answer} for answer in answers(bundle_folder, bodies)])  # without an update
    row = run_scenario(Scenario("kill", kill_one), 1, 300, 4, work)
    assert row.answered >= 300
    assert row.wrong == 0
