"""A Batch whose sentences advance on the GPU, several steps at a time, without Python for each row and token."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from model.decoding.batch import Batch, rows_taken
from model.decoding.torch_backend import TorchBackend
from model.hypothesis import Hypothesis, Limits
from model.triton.graphs import StepGraphs
from model.triton.network import Network, StepBuffers
from model.triton.state import DeviceState
from model.triton.tiles import STOP

MAX_OTHER_ROWS = 256
STEPS = 8
"""Steps between two looks at what has ended: a sentence joins and leaves after each eighth token."""


def is_plain(hypothesis: Hypothesis) -> bool:
    """Whether the best token of each step is all that a sentence wants."""
    h = hypothesis
    wishes = h.record or h.required or h.forbidden or h.prefix or h.spelling
    return h.forced is None and h.beam_size == 1 and not wishes


class _Round(NamedTuple):
    """A launched round: its number, and on the CPU, once `event` has passed, why each row ended and its length."""

    number: int
    rows: int
    flags: Tensor  # [2, all rows]
    event: torch.cuda.Event | None


class PlainBatch:
    """A Batch of plain hypotheses: see `is_plain`.

    A call of `step` launches a round of as many steps as it was made for, and reads while that runs what ended in the
    round before. A row that has ended takes no part in later steps, and belongs to its sentence until this has been
    read.
    """

    def __init__(self, network: Network, rows: int, limits: Limits, steps: int = STEPS) -> None:
        self.rows, self._round_steps = rows, steps
        self.steps: list[int] = []
        self._network = network
        self._state = DeviceState(network.config, rows, limits, network.device, network.dtype)
        self._buffers = StepBuffers(network, self._state)
        step = partial(network.step, self._state, self._buffers)
        self._graphs = StepGraphs(step, self._state.rows, network.device)
        is_cuda = network.device.type == "cuda"
        self._flags = [torch.empty(2, self._state.rows, dtype=torch.int32, pin_memory=is_cuda) for _ in range(2)]
        self._reader = torch.cuda.Stream() if is_cuda else None  # type: ignore[no-untyped-call]
        self._free = list(range(rows))  # a heap: the lowest rows first, so that few sentences take a small graph
        self._row_of: dict[Hypothesis, int] = {}
        self._at: dict[int, Hypothesis] = {}
        self._since = np.full(self._state.rows, np.iinfo(np.int64).max)
        """The first round of each row's sentence. Flags of earlier rounds are of the sentence before it."""
        self._rounds = 0
        self._launched: _Round | None = None

    @property
    def running(self) -> list[Hypothesis]:
        return list(self._row_of)

    @property
    def free(self) -> int:
        return len(self._free)

    @torch.inference_mode()
    def admit(self, hypotheses: Sequence[Hypothesis]) -> None:
        """See `Batch`. Encodes and joins on the GPU, behind the round that runs, for which it does not wait."""
        rows = [heapq.heappop(self._free) for _ in hypotheses]
        try:
            lengths = self._network.encode([h.source for h in hypotheses], rows, self._state)
            assert max(lengths) <= self._state.source_slots
            assert max(h.limit for h in hypotheses) <= self._state.max_target
        except BaseException:
            self._free.extend(rows)
            heapq.heapify(self._free)
            raise
        self._state.admit(rows, hypotheses, lengths, self._network.config.bos_id)
        self._since[rows] = self._rounds
        for row, hypothesis in zip(rows, hypotheses, strict=True):
            self._row_of[hypothesis], self._at[row] = row, hypothesis

    @torch.inference_mode()
    def step(self, most: int = 1, enough: int = 0) -> list[Hypothesis]:
        """Decodes a round of tokens of every running sentence, whatever is asked for. Returns sentences that a round
        before finished, which leave the batch."""
        self.steps = [len(self._row_of)] * self._round_steps if self._row_of else []
        before = self._launched
        self._launched = self._launch() if self._row_of else None
        return self._read(before) if before else []

    def remove(self, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        """See `Batch`."""
        if hypotheses:
            self._state.free([self._row_of[h] for h in hypotheses])
            self._release(hypotheses)
        return list(hypotheses)

    def _release(self, hypotheses: Sequence[Hypothesis]) -> None:
        for hypothesis in hypotheses:
            row = self._row_of.pop(hypothesis)
            del self._at[row]
            self._since[row] = np.iinfo(np.int64).max
            heapq.heappush(self._free, row)

    def _launch(self) -> _Round:
        rows = self._graphs.run(max(self._at) + 1, self._round_steps)
        flags = self._flags[self._rounds % 2]
        flags.copy_(self._state.rows_state[:2], non_blocking=True)
        event = None
        if self._reader:
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
        self._rounds += 1
        return _Round(self._rounds - 1, rows, flags, event)

    def _read(self, launched: _Round) -> list[Hypothesis]:
        if launched.event:
            launched.event.synchronize()
        reasons, lengths = launched.flags[:, : launched.rows].numpy()
        ended = np.flatnonzero((reasons != 0) & (self._since[: launched.rows] <= launched.number))
        if not len(ended):
            return []
        rows = ended.tolist()
        found = [self._at[row] for row in rows]
        read: AbstractContextManager[object] = torch.cuda.stream(self._reader) if self._reader else nullcontext()
        longest = max(len(self._network.config.source_ids(h.source)) for h in found)
        with read:  # a stream of its own: the round that runs changes nothing of these rows
            results = self._state.read(rows, int(lengths[ended].max()), longest)
        (tokens, aligned), log_probs, coverage = (result.tolist() for result in results)
        for number, (hypothesis, row) in enumerate(zip(found, rows, strict=True)):
            length = int(lengths[row])
            hypothesis.tokens = tokens[number][:length]
            hypothesis.log_probs = log_probs[number][:length]
            hypothesis.aligned = aligned[number][:length]
            hypothesis.coverage = coverage[number][: len(self._network.config.source_ids(hypothesis.source))]
            hypothesis.finish_reason = "stop" if reasons[row] == STOP.value else "length"
        self._release(found)
        return found


class TritonBatch:
    """A Batch that decodes plain hypotheses in a PlainBatch, and all others in a Batch of another backend, made when it
    is first needed. That one is smaller, since a step of it computes all its rows; what does not fit waits here."""

    def __init__(self, network: Network, other: TorchBackend, rows: int, limits: Limits, steps: int = STEPS) -> None:
        self.rows, self._limits, self._other = rows, limits, other
        self._plain = PlainBatch(network, rows, limits, steps)
        self._others: Batch | None = None
        self._waiting: list[Hypothesis] = []

    @property
    def running(self) -> list[Hypothesis]:
        return [*self._plain.running, *self._running_others]

    @property
    def _running_others(self) -> list[Hypothesis]:
        return [*(self._others.running if self._others else ()), *self._waiting]

    @property
    def free(self) -> int:
        """Number of free rows, which both kinds share."""
        return self._plain.free - rows_taken(self._running_others)

    @property
    def steps(self) -> Sequence[int]:
        """See `Batch`."""
        return self._plain.steps or (self._others.steps if self._others else [])

    def admit(self, hypotheses: Sequence[Hypothesis]) -> None:
        """See `Batch`."""
        assert rows_taken(hypotheses) <= self.free
        plain, others = ([h for h in hypotheses if is_plain(h) is wanted] for wanted in (True, False))
        self._waiting += others
        self._admit_others()
        if plain:
            self._plain.admit(plain)

    def _admit_others(self) -> None:
        if not self._waiting:
            return
        if self._others is None:
            self._others = self._other.new_batch(min(self.rows, MAX_OTHER_ROWS), self._limits)
        sizes = accumulate(h.beam_size for h in self._waiting)
        count = sum(size <= self._others.free for size in sizes)
        if count:
            self._others.admit(self._waiting[:count])
            del self._waiting[:count]

    def step(self, most: int = 1, enough: int = 0) -> list[Hypothesis]:
        """See `Batch`; plain hypotheses advance by several tokens at once."""
        finished = self._plain.step()
        self._admit_others()
        if self._others and self._others.running:
            finished += self._others.step()
        return finished

    def remove(self, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        """See `Batch`."""
        plain, others = ([h for h in hypotheses if is_plain(h) is wanted] for wanted in (True, False))
        if others and self._others:
            waiting, gone = set(self._waiting), set(others)
            self._others.remove([h for h in others if h not in waiting])
            self._waiting = [h for h in self._waiting if h not in gone]
        self._plain.remove(plain)
        return list(hypotheses)
