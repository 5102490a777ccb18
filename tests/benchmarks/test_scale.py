"""The benchmarks of several instances: what their tables count, and what a kill loses."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.balancer import children, family, processor_s
from benchmarks.scale import SCENARIOS, Group, Row, Scenario, Traffic, Work, answers, kill_instances, run_scenario
from benchmarks.sentences import workloads
from benchmarks.soak import Outcomes

pytestmark = pytest.mark.slow


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
