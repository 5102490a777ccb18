"""The training loop: trains on a data folder and writes checkpoints and curves to a run folder, resumable bit for bit.

Decides when to evaluate, save and stop. `training.optim.trainer` computes steps, `training.optim.checkpoint` writes
files.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.config import ModelConfig
from model.hypothesis import Limits
from model.machine import keep_freed_memory
from training.data.batches import Batch, Pairs, Position, batches_from, load_pairs
from training.data.dataset import PreparedSummary
from training.evaluation.scoring import Development
from training.optim.bpe_dropout import resegmenter
from training.optim.checkpoint import discard_weights, load_state, save_best, save_state, save_weights
from training.optim.clock import Clock, ClockSchedule, StepSchedule, TimeUsed
from training.optim.diagnostics import before_training, while_training
from training.optim.distributed import ALONE, World
from training.optim.environment import session_record
from training.optim.progress import Progress, write_curves
from training.optim.tensorboard import write_tensorboard
from training.optim.trainer import NOT_FINITE, Recipe, Trainer, TrainingError
from training.signals import Stopped, StopRequest, stop_requests


@dataclass
class State:
    """The state of a run: all that resuming needs besides model and optimiser."""

    step: int = 0
    position: Position = field(default_factory=Position)
    history: list[dict[str, float]] = field(default_factory=list)
    best_loss: float = math.inf
    best_step: int = 0
    recent_loss: float = math.inf
    """The lowest development loss since the run was last extended, and its step, which patience uses: in a longer run
    the learning rate is higher again, and so is the loss at first."""
    recent_step: int = 0
    train_loss: float = 0.0
    """Sum of nats over all predicted tokens since the last evaluation, without smoothing."""
    train_tokens: int = 0
    seconds: float = 0.0
    time: TimeUsed = field(default_factory=TimeUsed)
    sessions: list[dict[str, Any]] = field(default_factory=list)
    """Where the run was trained: the first step of each session and its `session_record`. Sessions in a row with the
    same record are one."""


CHANGEABLE = ("steps", "minutes", "evaluate_every", "patience", "keep")
"""Fields of a recipe that may change when a run is resumed: its length, and what it reports. A run that has minutes
keeps having some."""
BLEU_SENTENCES = 500
"""Development sentences translated at each evaluation; the loss uses all."""
_DEFAULTS = {
    part: {field.name: field.default for field in dataclasses.fields(kind)}
    for part, kind in (("config", ModelConfig), ("recipe", Recipe), ("data", PreparedSummary))
}
"""By part and field, the value with which a run started if its saved state is older than the field."""


def train(
    data: Path,
    run: Path,
    config: ModelConfig,
    recipe: Recipe,
    device: torch.device,
    limits: Limits,
    save_every: int,
    initial: Mapping[str, Tensor] | None = None,
    world: World = ALONE,
    clock: Clock | None = None,
    trainer_type: type[Trainer] = Trainer,
    reverse: bool = False,
) -> State:
    """Trains in `run` until the recipe's steps are done, its minutes over on the `clock`, which by default begins now,
    or early stopping ends it; resumes an existing run.

    Starts from the weights `initial`, which are evaluated first, as step 0; else from random weights.

    After a stop signal, finishes and saves the current step, then raises Stopped. Raises TrainingError if `run` was
    started with another configuration, recipe or data, or `save_every` is below 1.

    `reverse` trains from the data's target to its source. All processes of `world` call this with the same arguments;
    the first evaluates, saves and prints.
    """
    clock = clock or Clock.started()
    if save_every < 1:
        raise TrainingError(f"save_every must be at least 1, not {save_every}")
    for name in ("distil", "freeze_encoder"):
        if getattr(recipe, name) and initial is None:
            raise TrainingError(f"{name} needs initial weights, and there are none")
    keep_freed_memory()
    if world.is_first:
        run.mkdir(parents=True, exist_ok=True)
    pairs, record = load_pairs(data, reverse)
    development = Development.load(data, limits, reverse)
    trainer = trainer_type(config, recipe, device, world, initial if recipe.distil else None)
    identity = {"config": config.to_dict(), "recipe": dataclasses.asdict(recipe), "data": record}
    state, same_recipe, precision = _resume(run, trainer, identity)
    start_step = state.step
    schedule = StepSchedule(recipe) if recipe.minutes is None else ClockSchedule(recipe, state.time, clock, world)
    world.check_equal((state.step, state.position, identity))
    resegment = resegmenter(recipe, config, development.tokenizers)
    batches = batches_from(
        pairs, config, recipe.batch_tokens, recipe.seed, state.position, world.rank, world.size, resegment
    )
    progress = Progress(recipe.steps, state.step, shown=world.is_first, seconds_left=schedule.seconds_left)
    _announce(trainer, state, pairs, precision, progress)
    if not is_finished(state, recipe):
        _record_session(state, session_record(device, trainer.precision, world.size))
    if not state.step:
        for warning in before_training(record, pairs, config, recipe, tuned=initial is not None):
            progress.say(f"warning: {warning}")
    session = _Session(run, trainer, identity, state, schedule, development, batches, progress, clock, save_every)
    with closing(progress), stop_requests(urgent=world.size == 1) as stop:
        session.begin(initial)
        while not is_finished(state, recipe) and not _out_of_patience(state, recipe):
            session.step(stop)
        _announce_end(state, recipe, progress)
        if world.is_first and not same_recipe and state.step == start_step:  # its result is what this recipe leads to
            save_state(run, {**(load_state(run) or {}), "identity": identity})
        if signal_number := world.max(stop.number or 0):  # while the last step was saved: `run` must not export
            raise Stopped(signal_number, saved=True)
    return state


class _Session:
    """A run from its start, or from where it was saved, to its end or a stop signal."""

    def __init__(
        self,
        run: Path,
        trainer: Trainer,
        identity: dict[str, Any],
        state: State,
        schedule: StepSchedule,
        development: Development,
        batches: Iterator[Batch],
        progress: Progress,
        clock: Clock,
        save_every: int,
    ) -> None:
        self._run, self._trainer, self._identity, self._state = run, trainer, identity, state
        self._schedule, self._development, self._batches = schedule, development, batches
        self._progress, self._clock, self._save_every = progress, clock, save_every
        self._pending = PendingLosses(at_once=trainer.device.type == "cpu")

    def begin(self, initial: Mapping[str, Tensor] | None) -> None:
        """Evaluates the weights `initial` of a new run as step 0, and begins the schedule."""
        if initial is not None and not self._state.step:
            self._trainer.model.load_state_dict(initial)
            self._schedule.begin(self._state.step)
            self._evaluate(self._trainer.learning_rate(1))
        self._schedule.begin(self._state.step)

    def step(self, stop: StopRequest) -> None:
        """Takes a step; evaluates and saves after it where that is due. Raises Stopped after a signal, once saved."""
        world, state = self._trainer.world, self._state
        number = state.step + 1
        rate = self._schedule.rate(self._trainer, number)
        self._trainer.encoder_learns = self._schedule.done_before(number) >= self._trainer.recipe.freeze_encoder
        self._train(rate)
        self._schedule.stepped()
        if evaluated := self._schedule.ends(number) or self._schedule.evaluation_is_due(number):
            self._pending.read(state, self._progress)
            self._evaluate(rate)
        # Each process may receive the signal in a different step, or not at all.
        signal_number = world.max(stop.number or 0)
        # After an evaluation too: what it wrote must not be newer than the state from which a run resumes.
        if signal_number or evaluated or state.step % self._save_every == 0:
            self._pending.read(state, self._progress)  # in all processes: a failure must not leave the others waiting
            if world.is_first:
                save_state(self._run, _snapshot(self._trainer, state, self._identity))
            self._schedule.saved()
        if signal_number:
            raise Stopped(signal_number, saved=True)

    def _train(self, rate: float) -> None:
        """Changes the weights by one step."""
        trainer, state, began = self._trainer, self._state, self._clock.now()
        trainer.world.seed(trainer.recipe.seed, state.step + 1)
        taken = [next(self._batches) for _ in range(trainer.recipe.accumulate)]
        state.step += 1
        nats = trainer.step(taken, rate)
        self._pending.add(state.step, nats, sum(batch.target_tokens for batch in taken), state, self._progress)
        state.seconds += self._clock.now() - began

    def _evaluate(self, rate: float) -> None:
        """Evaluates in the first process, and sends the others what early stopping needs."""
        state = self._state

        def evaluated() -> tuple[list[dict[str, float]], float, int]:
            self._evaluate_here(rate)
            return state.history, state.best_loss, state.best_step

        state.history, state.best_loss, state.best_step = self._trainer.world.broadcast_from_first(evaluated)
        # Step 0 does not count: in a field that the initial weights know, the loss falls below theirs only as the
        # learning rate falls.
        if state.step and (loss := state.history[-1]["dev_loss"]) < state.recent_loss:
            state.recent_loss, state.recent_step = loss, state.step
        state.train_loss, state.train_tokens = 0.0, 0
        self._schedule.evaluated()

    def _evaluate_here(self, rate: float) -> None:
        run, trainer, state, development = self._run, self._trainer, self._state, self._development
        loss = trainer.development_loss(development.pairs)
        translations = development.translate(trainer.model, BLEU_SENTENCES)
        row = {
            "step": state.step,
            "epoch": state.position.epoch,
            "learning_rate": rate,
            "train_loss": state.train_loss / state.train_tokens if state.step else math.nan,
            "dev_loss": loss,
            "dev_bleu": development.bleu(translations),
            "tokens_per_second": self._progress.tokens_per_second,
            "seconds": state.seconds,
        }
        state.history.append(row)
        weights = trainer.model.state_dict()
        if loss < state.best_loss:
            state.best_loss, state.best_step = loss, state.step
            save_best(run, weights)
        if state.step:  # the average is over trained weights only
            save_weights(run, state.step, weights, trainer.recipe.keep)
        write_curves(run, state.history)
        write_tensorboard(run, row)
        shown = random.Random(state.step).randrange(len(translations))
        learnt = f"step {state.step:,}: training loss {row['train_loss']:.3f}" if state.step else "before training"
        self._progress.say(
            f"{learnt}, development loss {loss:.3f}, "
            f"BLEU {row['dev_bleu']:.1f}\n  source     {development.sources[shown]}\n  "
            f"reference  {development.references[shown]}\n  ours       {translations[shown]}"
        )
        for warning in while_training(state.history):
            self._progress.say(f"warning: {warning}")


def _announce(trainer: Trainer, state: State, pairs: Pairs, saved_precision: str | None, progress: Progress) -> None:
    """Says what begins, or continues after `state`."""
    progress.say(
        f"{'continuing at step ' + format(state.step, ',') if state.step else 'training'} on {trainer.device.type} "
        f"in {trainer.precision}: {trainer.model.parameter_count():,} parameters, {len(pairs):,} pairs"
    )
    if saved_precision not in (None, trainer.precision):
        progress.say(f"warning: until now it was in {saved_precision}; the model card will name both")


def _announce_end(state: State, recipe: Recipe, progress: Progress) -> None:
    """Says why the run ends before its steps are done, if it does."""
    if recipe.minutes is not None and state.time.ended_minutes:
        progress.say(f"the time is over after {state.step:,} steps")
    elif state.step < recipe.steps:
        since = _since_best(state)
        progress.say(f"stopped early: {since} evaluation{'s' * (since > 1)} without a better development loss")


@dataclass
class PendingLosses:
    """Losses of steps that a GPU may still be computing. Reading one waits for it, so each is read one step late."""

    at_once: bool
    steps: list[tuple[int, Tensor, torch.cuda.Event | None, int]] = field(default_factory=list)
    """Of each: step number, summed nats on the CPU, a GPU's event for their arrival, and number of tokens."""

    def add(self, step: int, nats: Tensor, tokens: int, state: State, progress: Progress) -> None:
        arrival = None
        if nats.device.type == "cuda":  # asking later would also wait for steps started since
            nats, arrival = nats.to("cpu", non_blocking=True), torch.cuda.Event()  # type: ignore[no-untyped-call]
            arrival.record()
        self.steps.append((step, nats, arrival, tokens))
        self.read(state, progress, left=0 if self.at_once else 1)

    def read(self, state: State, progress: Progress, left: int = 0) -> None:
        """Reads all losses but the last `left`. Raises TrainingError if the gradient of a step was not finite."""
        while len(self.steps) > left:
            step, summed, arrival, tokens = self.steps.pop(0)
            if arrival is not None:
                arrival.synchronize()
            nats = summed.item()
            if math.isnan(nats):
                raise TrainingError(NOT_FINITE)
            state.train_loss += nats
            state.train_tokens += tokens
            progress.advance(step, nats / tokens, tokens)


def is_finished(state: State, recipe: Recipe) -> bool:
    """Whether the steps are done, or the minutes over."""
    if recipe.minutes is not None and state.time.ended_minutes >= recipe.minutes:
        return True
    return 0 < recipe.steps <= state.step


def _record_session(state: State, record: dict[str, Any]) -> None:
    if not state.sessions or record != {k: v for k, v in state.sessions[-1].items() if k != "from_step"}:
        state.sessions.append({"from_step": state.step + 1, **record})


def _out_of_patience(state: State, recipe: Recipe) -> bool:
    """True once `patience` evaluations in a row have not lowered the development loss."""
    return 0 < recipe.patience <= _since_best(state)


def _since_best(state: State) -> int:
    """Evaluations since the best development loss, at any distance from each other."""
    return sum(row["step"] > state.recent_step for row in state.history)


def _snapshot(trainer: Trainer, state: State, identity: dict[str, Any]) -> dict[str, Any]:
    return {
        "identity": identity,
        "state": dataclasses.asdict(state),
        "model": trainer.model.state_dict(),
        "optimizer": trainer.optimizer.state_dict(),
        "precision": trainer.precision,
        "random": torch.get_rng_state(),
        "cuda_random": [torch.cuda.get_rng_state(trainer.device)] if trainer.device.type == "cuda" else [],
    }


def _resume(run: Path, trainer: Trainer, identity: dict[str, Any]) -> tuple[State, bool, str | None]:
    """Restores the run that is saved in `run`, if any.

    Returns its state; whether its `identity` is the same, CHANGEABLE fields included; and its precision, if known.
    """
    snapshot = load_state(run)
    if snapshot is None:
        if trainer.world.is_first:
            discard_weights(run)
        return State(), True, None
    if not snapshot["model"]:
        raise TrainingError(
            f"{run} was packed, without what resuming needs: export it, and adapt the bundle with --init"
        )
    same_recipe = True
    for part, ours in identity.items():
        theirs = _DEFAULTS[part] | snapshot["identity"][part]
        fixed = {*ours} - {*CHANGEABLE}
        if part == "recipe" and (ours["minutes"] is None) != (theirs["minutes"] is None):
            fixed.add("minutes")
        if names := [name for name in ours if name in fixed and ours[name] != theirs.get(name)]:
            differs = f"{run} was begun with another {part} ({', '.join(names)})"
            raise TrainingError(f"{differs}: continue it with the same, or train elsewhere")
        same_recipe &= all(ours[name] == theirs.get(name) for name in ours)
    trainer.model.load_state_dict(snapshot["model"])
    trainer.optimizer.load_state_dict(snapshot["optimizer"])
    torch.set_rng_state(snapshot["random"])
    if snapshot["cuda_random"] and trainer.device.type == "cuda":
        torch.cuda.set_rng_state(snapshot["cuda_random"][0], trainer.device)
    fields = dict(snapshot["state"])
    recent = {"recent_loss": fields["best_loss"], "recent_step": fields["best_step"]}  # of states older than the fields
    if identity["recipe"]["steps"] > snapshot["identity"]["recipe"]["steps"]:
        fields |= {"recent_loss": math.inf, "recent_step": fields["step"]}
    position, time = Position(**fields["position"]), TimeUsed(**fields.get("time", {}))
    resumed = State(**{**recent, **fields, "position": position, "time": time})
    return resumed, same_recipe, snapshot.get("precision")
