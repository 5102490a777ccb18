"""A worker: holds every bundle and takes turns - admit, step, hand back - for as long as the front is there.

Knows token ids, batches and messages. Requests, their order and their deadlines are the front's.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from app.engine.executor import Station, Task
from app.engine.ipc import Channel, Greeting, Order
from app.engine.messages import told
from app.runtime.json_logs import log_to_stderr
from model.allocator import keep_freed_memory
from model.backends import prepare
from model.bundle import BundleError
from model.bundle_weights import load_bundle
from model.hypothesis import Hypothesis

ROWS = {"cpu": 64, "cuda": 256}
"""Sentences decoded together: as many as it takes for more to bring nearly nothing, since all of them wait for each."""
ROWS_INT8 = 32
TOGETHER_S = 0.004
"""While more work is here than fits, answers are sent together at such intervals: each message wakes the front."""
log = logging.getLogger(__name__)


@dataclass
class Report:
    """What became of the last turns, for the front."""

    results: list[tuple[Any, ...]] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    steps: list[tuple[int, int, float]] = field(default_factory=list)

    def due(self, since: float, crowded: bool) -> bool:
        """Whether to send it. Answers may wait for others a moment if it is `crowded`, steps alone for longer."""
        if not (self.results or self.failures):
            return len(self.steps) >= 64
        return not crowded or perf_counter() - since >= TOGETHER_S


class Turns:
    """Takes turns between the bundles, as the front's messages say."""

    def __init__(self, stations: Sequence[Station]) -> None:
        self._stations = stations
        self._tasks: dict[int, tuple[Station, Task]] = {}

    @property
    def busy(self) -> bool:
        return bool(self._tasks)

    @property
    def crowded(self) -> bool:
        """Whether sentences wait for a row."""
        return any(station.crowded for station in self._stations)

    def hear(self, tasks: list[tuple[Any, ...]], cancelled: list[int]) -> None:
        """A message of the front's."""
        for number, model, source, limit, forced, record, once, never, width, prefix, ahead in tasks:
            station = self._stations[model]
            # A beam is no wider than the batch, which only tests make so small.
            hypothesis = Hypothesis(source, limit, forced, record, once, never, min(width, station.rows), prefix)
            self._tasks[number] = station, Task(number, hypothesis, ahead)
            station.add(self._tasks[number][1])
        for number in cancelled:
            if number in self._tasks:  # else it was finished meanwhile
                station, task = self._tasks.pop(number)
                station.remove(task)

    def take(self, report: Report) -> None:
        """One turn of every bundle that has work."""
        for model, station in enumerate(self._stations):
            if station.busy:
                self._turn(model, station, report)

    def _turn(self, model: int, station: Station, report: Report) -> None:
        started = perf_counter()
        finished, failed = station.turn()
        rows = station.size + len(finished) + len(failed)
        report.results += [_result(task) for task in finished]
        report.failures += [task.number for task in failed]
        report.steps.append((model, rows, perf_counter() - started))
        for task in (*finished, *failed):
            del self._tasks[task.number]


def work(channel: Channel, when_loaded: Callable[[], object] = lambda: None) -> None:
    """Loads what the front orders, says so, and serves it until the front is gone."""
    first = channel.receive(wait=True)
    while first == []:
        first = channel.receive(wait=True)
    if first is None:
        return
    order = Order(*first[0])
    try:
        stations = _stations(order)
    except Exception as error:
        failure = (str(error) or repr(error)).splitlines()[0]  # CUDA's have several
        log.critical("the worker cannot serve: %s", failure, exc_info=not isinstance(error, ValueError))
        channel.send(Greeting(failure, 0, []))
        return
    if not channel.send(
        Greeting("", max(station.rows for station in stations), [station.runner.precision for station in stations])
    ):
        return
    when_loaded()
    # What is here now stays: to look through PyTorch's objects for garbage would stop every sentence for 0.1 s.
    gc.freeze()
    turns, report, sent = Turns(stations), Report(), 0.0
    while (messages := channel.receive(wait=not turns.busy)) is not None:
        for message in messages:
            turns.hear(*message)
        turns.take(report)
        if report.due(sent, turns.crowded):
            if not channel.send((report.results, report.failures, report.steps)):
                return
            report, sent = Report(), perf_counter()


def _stations(order: Order) -> list[Station]:
    """Raises BundleError, in one line, for a bundle that is not the one ordered or whose samples come out wrong."""
    device = torch.device(order.device)
    if order.threads:
        torch.set_num_threads(order.threads)
    stations = []
    for folder, name in order.bundles:
        bundle = load_bundle(Path(folder), device)
        if bundle.name != name:
            raise BundleError(f"{folder} is {bundle.name} now, and was {name} when the service read it")
        runner = prepare(bundle.model, order.precision)
        rows = ROWS_INT8 if runner.precision == "int8" else ROWS[device.type]
        stations.append(Station(runner, bundle, order.rows or rows))
        stations[-1].check_samples()
    return stations


def _result(task: Task) -> tuple[Any, ...]:
    h = task.hypothesis
    attention = None
    if h.record:
        assert h.encoder_attention is not None
        attention = [_packed(tensor) for tensor in (h.encoder_attention, h.decoder_attention, h.cross_attention)]
    return task.number, task.waited, attention, told(h)


def _packed(tensor: Tensor) -> tuple[list[int], str, bytes]:
    """Shape, type and bytes; NumPy, through which PyTorch would go, is not there in the container."""
    tensor = tensor.cpu().contiguous()
    content = ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())
    return list(tensor.shape), str(tensor.dtype).removeprefix("torch."), content


def main(descriptor: int) -> None:
    """Works at the socket that this process was started with."""
    faulthandler.enable()
    for number in (signal.SIGINT, signal.SIGTERM):  # these may go to the whole group; the front says when to end
        signal.signal(number, signal.SIG_IGN)
    log_to_stderr()
    with socket.socket(fileno=descriptor) as end:
        work(Channel(end), when_loaded=keep_freed_memory)
    # Not through the interpreter's end: there is nothing to save, and libraries' threads make it slow.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
