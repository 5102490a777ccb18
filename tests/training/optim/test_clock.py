"""Training by the clock: rates, evaluations and the end, by a clock that only the tests' trainers move."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from shared_fixtures import TRAINING_LIMITS, small_config
from torch import Tensor
from typer.testing import CliRunner

from model.tokenizer import Tokenizer
from training.__main__ import cli
from training.data.batches import Batch, Pairs
from training.optim import loop
from training.optim.checkpoint import load_state
from training.optim.clock import EVALUATIONS, RATES, Clock, ClockSchedule, StepSchedule, TimeUsed
from training.optim.loop import State, is_finished, train
from training.optim.schedule import by_clock
from training.optim.trainer import Recipe, Trainer, TrainingError
from training.signals import Stopped

MINUTES = Recipe(0, minutes=10, batch_tokens=300, warmup=20, cooldown=0.7, evaluate_every=0, keep=1)
WIDTH = 256
PEAK = (WIDTH * MINUTES.warmup) ** -0.5


@dataclass
class Machine:
    """A machine with its own time, and the training loop's calls of a schedule, without training."""

    step_s: Callable[[int], float] = lambda step: 1.0
    evaluation_s: float = 0.0
    loading_s: float = 0.0
    exporting_s: float = 0.0
    stops_after: int = 0
    """The steps after which a stop signal comes."""
    time: float = 1000.0
    rates: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    """Of each step: its learning rate, and when it began."""
    evaluated: list[float] = field(default_factory=list)
    """When each evaluation began."""

    def train(self, used: TimeUsed, step: int = 0, initial: bool = False, **recipe: Any) -> int:
        """Continues after `step` steps; returns how many there are then. `initial`: evaluates initial weights first."""
        chosen, began = dataclasses.replace(MINUTES, **recipe), self.time
        clock = Clock(began, lambda: self.time, self.exporting_s, step_s=1.0)
        schedule = ClockSchedule(chosen, used, clock) if chosen.minutes else StepSchedule(chosen)
        trainer: Any = SimpleNamespace(recipe=chosen, model=SimpleNamespace(config=SimpleNamespace(d_model=WIDTH)))
        trainer.learning_rate = partial(Trainer.learning_rate, trainer)

        def evaluate() -> None:
            self.evaluated.append(self.time - began)
            self.time += self.evaluation_s
            schedule.evaluated()

        self.time += self.loading_s
        if initial:
            schedule.begin(step)
            evaluate()
        schedule.begin(step)
        while not is_finished(State(step, time=used), chosen):
            step += 1
            self.rates.append(schedule.rate(trainer, step))
            self.times.append(self.time - began)
            self.time += self.step_s(step)
            schedule.stepped()
            if schedule.ends(step) or schedule.evaluation_is_due(step):
                evaluate()
                schedule.saved()
            if len(self.rates) == self.stops_after:
                break
        return step

    @property
    def used_s(self) -> float:
        return self.time - 1000.0


def test_rate_rises_by_steps_then_is_held_then_falls_to_zero_at_the_last_second() -> None:
    machine = Machine()
    assert machine.train(TimeUsed()) == len(machine.rates) == 600
    assert machine.rates[:20] == pytest.approx([PEAK * step / 20 for step in range(1, 21)])
    assert machine.rates[20:180] == pytest.approx([PEAK] * 160)
    assert machine.rates[180:] == pytest.approx([PEAK * (600 - used) / 420 for used in range(180, 600)])


@pytest.mark.parametrize("step_s", [0.25, 3.0, 20.0])
def test_schedule_is_the_same_on_any_machine(step_s: float) -> None:
    machine = Machine(lambda step: step_s)
    machine.train(TimeUsed(), warmup=3)
    assert 600 - step_s < machine.used_s <= 600
    peak = max(machine.rates)
    held = [rate for rate, began in zip(machine.rates, machine.times, strict=True) if 3 * step_s < began <= 180]
    assert held == [peak] * len(held)
    falling = [(rate, began) for rate, began in zip(machine.rates, machine.times, strict=True) if began > 180]
    assert [rate for rate, _ in falling] == pytest.approx([peak * (600 - began) / 420 for _, began in falling])


def test_run_that_becomes_slower_still_ends_in_time_at_a_rate_of_nearly_zero() -> None:
    machine = Machine(lambda step: 0.5 if step < 400 else 2.0)
    machine.train(TimeUsed())
    assert 596 < machine.used_s <= 600
    assert 0 < machine.rates[-1] < PEAK / 100


def test_warm_up_is_shortened_if_it_is_too_large_a_part_of_the_steps() -> None:
    machine = Machine(lambda step: 5.0)
    assert machine.train(used := TimeUsed(), warmup=2000) == 120
    assert used.warmup == 16
    peak = (WIDTH * 2000) ** -0.5
    assert machine.rates[16:36] == pytest.approx([peak] * 20)


def test_warm_up_is_planned_again_if_a_run_gets_more_minutes() -> None:
    machine = Machine()
    assert machine.train(used := TimeUsed(), minutes=0.5, steps=2000, warmup=1000) == 30
    assert used.warmup == 4
    more = Machine()
    assert more.train(used, step=30, minutes=10, steps=2000, warmup=1000) == 600
    assert used.warmup == 1 + 600 // 8
    peak = max(more.rates)
    assert peak == pytest.approx((WIDTH * 1000) ** -0.5)
    assert more.rates[: 76 - 30] == pytest.approx([peak * step / 76 for step in range(31, 77)])


def test_warm_up_of_a_run_that_was_stopped_is_planned_again_only_for_more_minutes() -> None:
    first, same, more = Machine(stops_after=300), Machine(stops_after=1), Machine(stops_after=1)
    assert first.train(used := TimeUsed(), warmup=2000) == 300
    assert used.warmup == 76
    assert same.train(TimeUsed(**dataclasses.asdict(used)), step=300, warmup=2000) == 301
    assert same.rates == pytest.approx([(WIDTH * 2000) ** -0.5 * 300 / 420])
    assert more.train(used, step=300, minutes=60, warmup=2000) == 301
    assert used.warmup == 1 + 3600 // 8
    assert more.rates == pytest.approx([(WIDTH * 2000) ** -0.5 * 301 / 451])


def test_slow_first_step_neither_stops_nor_shortens_anything() -> None:
    machine = Machine(lambda step: 150.0 if step == 1 else 0.5)
    assert machine.train(used := TimeUsed(), warmup=50) == 901
    assert used.warmup == 50


def test_evaluations_come_at_shares_of_the_time() -> None:
    machine = Machine()
    machine.train(TimeUsed())
    assert machine.evaluated == [600 * share / EVALUATIONS for share in range(1, EVALUATIONS + 1)]


@pytest.mark.parametrize("evaluation_s", [10.0, 70.0, 250.0])
def test_long_evaluations_are_fewer_and_the_last_one_is_inside_the_minutes(evaluation_s: float) -> None:
    machine = Machine(evaluation_s=evaluation_s)
    machine.train(TimeUsed())
    assert 598 <= machine.used_s <= 600
    assert machine.evaluated[-1] == machine.used_s - evaluation_s
    assert len(machine.evaluated) >= 2
    assert len(machine.evaluated) - 2 <= 60 / evaluation_s
    assert machine.rates[-1] < PEAK / 100


def test_time_before_training_counts_and_the_schedule_begins_after_it() -> None:
    machine = Machine(loading_s=200, evaluation_s=7)
    machine.train(TimeUsed(), initial=True)
    assert machine.evaluated[0] == machine.times[0] - 7 == 200
    assert 598 <= machine.used_s <= 600
    held = [began for rate, began in zip(machine.rates, machine.times, strict=True) if rate == max(machine.rates)]
    assert held[-1] == pytest.approx(207 + 0.3 * (600 - 207 - 7), abs=8)


@pytest.mark.parametrize(
    ("step_s", "planned_s", "kept_s"), [(1.0, 100, 100), (2.0, 100, 200), (0.5, 100, 100), (0.25, 2000, 500)]
)
def test_time_for_the_export_is_kept_back_and_grows_with_the_steps(
    step_s: float, planned_s: float, kept_s: float
) -> None:
    machine = Machine(lambda step: step_s, exporting_s=planned_s)
    machine.train(TimeUsed())
    assert machine.used_s == 600 - kept_s


def test_resumed_run_goes_on_where_it_was_whatever_the_time_between() -> None:
    whole, first, second = Machine(), Machine(stops_after=250), Machine(time=1e6)
    whole.train(TimeUsed())
    assert first.train(used := TimeUsed()) == 250
    assert second.train(TimeUsed(**dataclasses.asdict(used)), step=250) == 600
    assert [*first.rates, *second.rates] == pytest.approx(whole.rates)


def test_run_resumed_on_a_slower_machine_uses_the_rest_of_the_time() -> None:
    first, second = Machine(stops_after=300), Machine(lambda step: 10.0)
    assert first.train(used := TimeUsed()) == 300
    assert second.train(used, step=300) == 330
    assert second.rates == pytest.approx([PEAK * (300 - used_s) / 420 for used_s in range(0, 300, 10)])


def test_run_whose_time_passed_while_it_was_loaded_ends_after_a_step_that_changes_nothing() -> None:
    Machine(stops_after=300).train(used := TimeUsed())
    machine = Machine(loading_s=400)
    assert machine.train(used, step=300) == 301
    assert (machine.rates, len(machine.evaluated)) == ([0.0], 1)


def test_finished_run_stays_so_unless_it_gets_more_minutes() -> None:
    Machine().train(used := TimeUsed())
    assert Machine().train(used, step=600) == Machine().train(used, step=600, minutes=5) == 600
    more = Machine()
    assert more.train(used, step=600, minutes=20) == 1200
    assert more.rates[0] == pytest.approx(PEAK * 0.5 / 0.7)


def test_ample_minutes_leave_the_rates_of_given_steps_as_they_are() -> None:
    given, limited = Machine(), Machine()
    given.train(TimeUsed(), minutes=None, steps=200, evaluate_every=50)
    assert limited.train(TimeUsed(), steps=200) == 200
    assert limited.rates == given.rates
    assert limited.evaluated[-1] == 200


def test_minutes_end_given_steps_that_do_not_fit() -> None:
    machine = Machine()
    assert machine.train(TimeUsed(), steps=1000) == 600
    assert all(later < earlier for earlier, later in pairwise(machine.rates[20:]))
    assert machine.rates[-1] < PEAK / 100


def test_record_has_a_few_dozen_rates_as_they_were() -> None:
    machine = Machine(lambda step: 0.25, evaluation_s=3)
    machine.train(used := TimeUsed())
    assert RATES <= len(used.rates) <= RATES + 14
    assert [rate for _, _, rate in used.rates] == [machine.rates[step - 1] for step, _, _ in used.rates]
    assert (used.rates[0][0], used.rates[-1][0]) == (1, len(machine.rates))
    assert all(later[1] > earlier[1] for earlier, later in pairwise(used.rates))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"patience": 3}, "patience cannot be used with minutes"),
        ({"evaluate_every": 5}, "evaluate_every cannot be used with minutes"),
        ({"minutes": 0}, "minutes must be above 0"),
        ({"minutes": float("nan")}, "minutes must be above 0"),
        ({"steps": -1}, "steps must be at least 0"),
        ({"minutes": None}, "steps must be at least 1"),
    ],
)
def test_impossible_recipes_by_the_clock_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(TrainingError, match=said):
        dataclasses.replace(MINUTES, **fields)


def test_share_of_the_peak_without_a_cooldown_is_held_to_the_end() -> None:
    assert [by_clock(step, 4, 0.99, 0.0) for step in (1, 2, 4, 9)] == [0.25, 0.5, 1, 1]


# ---- In the training loop


def train_by(data: Path, run: Path, clock: Clock, trainer_type: type[Trainer] = Trainer, **recipe: Any) -> State:
    config = small_config(Tokenizer.load(data / "sentencepiece.model").vocab_size)
    chosen, device = dataclasses.replace(MINUTES, **recipe), torch.device("cpu")
    return train(data, run, config, chosen, device, TRAINING_LIMITS, 10**9, clock=clock, trainer_type=trainer_type)


@pytest.mark.slow
def test_stopped_and_resumed_training_ends_by_the_clock_and_keeps_its_kind_of_length(
    data: Path, tmp_path: Path, quick_training: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "BLEU_SENTENCES", 1)
    now, rates = [0.0], list[float]()

    class Slow(Trainer):
        def step(self, batches: Sequence[Batch], learning_rate: float) -> Tensor:
            now[0] += 25
            rates.append(learning_rate)
            if len(rates) == 10:
                signal.raise_signal(signal.SIGINT)
            return super().step(batches, learning_rate)

        def development_loss(self, pairs: Pairs) -> float:
            now[0] += 20
            return super().development_loss(pairs)

    with pytest.raises(Stopped):
        train_by(data, tmp_path / "run", Clock(0, lambda: now[0]), Slow)
    now[0] = 5000.0
    state = train_by(data, tmp_path / "run", Clock(5000, lambda: now[0]), Slow)
    assert 575 < state.time.used_s <= 600
    assert [row["step"] for row in state.history][-1] == state.step == len(rates)
    assert state.history[-1]["learning_rate"] == rates[-1] < max(rates) / 8
    snapshot = load_state(tmp_path / "run")
    assert snapshot is not None and snapshot["state"]["time"] == dataclasses.asdict(state.time)
    assert [session["from_step"] for session in state.sessions] == [1]
    with pytest.raises(TrainingError, match=r"another recipe \(minutes\)"):
        train_by(data, tmp_path / "run", Clock.started(), minutes=None, steps=8, evaluate_every=4)


@pytest.mark.slow
def test_command_trains_by_the_clock_and_refuses_what_counts_steps(
    data: Path, tmp_path: Path, quick_training: None
) -> None:
    options = ["--data", data, "--out", tmp_path / "run", "--architecture", "toy", "--device", "cpu", "--threads", 1]
    command = ["train", *map(str, options), "--minutes", "0.02"]
    refused = CliRunner().invoke(cli, [*command, "--patience", "3"])
    assert refused.stderr == ("error: patience cannot be used with minutes: nothing stops before their end\n"), (
        refused.output
    )
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 0, done.output
    assert "the time is over after" in done.stderr
    snapshot = load_state(tmp_path / "run")
    assert snapshot is not None
    assert snapshot["identity"]["recipe"]["cooldown"] == 0.7
    assert snapshot["state"]["time"]["ended_minutes"] == 0.02
