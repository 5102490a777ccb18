"""The running batch, which sentences join and leave between steps, and the interfaces of its backends.

The arithmetic is in DecoderState, which a Backend provides; waiting sentences are in `app.engine.scheduler`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from model.config import ModelConfig
from model.decoding.beam import Beam, Candidates, advance, copied
from model.hypothesis import Hypothesis, Limits, TokenConstraint


@dataclass(frozen=True)
class Step:
    """The results of one step for each live row, in order."""

    tokens: list[int]
    log_probs: list[float]
    """Natural logarithms, one per row; NaN where the arithmetic of that row broke down."""
    aligned: list[int]
    """The source token that each row attended to most; see `Hypothesis.aligned`."""
    candidates: Mapping[int, Candidates]
    """By row, the tokens that its constraint allows, best first; the first is its token."""
    attention: list[tuple[Tensor, Tensor]]
    """The weights of the decoded position: over the target so far, [layer, head, target], and over the source, [layer,
    head, source]. One pair per row; empty unless recorded."""


class DecoderState(Protocol):
    """The decoder state of the running sentences, in rows 0 to n - 1 of `rows`, and the arithmetic of a step."""

    rows: int

    def admit(self, sources: Sequence[Sequence[int]], record: bool) -> list[Tensor]:
        """Encodes `sources`, without end symbols, into the next free rows. The caller guarantees that they fit.

        Returns the encoder's weights, [layer, head, source, source] per sentence, or nothing unless `record`.
        """
        ...

    def step(self, tokens: Sequence[int], constraints: Mapping[int, TokenConstraint], record: bool) -> Step:
        """Decodes one token for every live row. `tokens`: the last of each row; `constraints`: by row, for rows that
        have one."""
        ...

    def coverage(self, rows: Sequence[int]) -> list[list[float]]:
        """For each of `rows`, the attention that each source token received in all its steps but the last."""
        ...

    def fork(self, rows: Sequence[int]) -> None:
        """Copies `rows` into the next free ones, in order. The caller guarantees that there are enough."""
        ...

    def drop(self, rows: Sequence[int]) -> list[int]:
        """Frees `rows`, closing the gaps. Returns for each remaining row its previous index."""
        ...


class Batch(Protocol):
    """The sentences being decoded together, in at most `rows` rows; they join and leave between steps."""

    rows: int

    @property
    def running(self) -> Sequence[Hypothesis]: ...

    @property
    def free(self) -> int:
        """Number of free rows. A sentence takes `beam_size` rows."""
        ...

    def admit(self, hypotheses: Sequence[Hypothesis]) -> None:
        """Encodes `hypotheses` as one batch and gives them rows. They must fit: see `free`."""
        ...

    def step(self) -> list[Hypothesis]:
        """Decodes one token for every running sentence; returns the sentences that finished, which have left the
        batch."""
        ...

    def remove(self, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Removes running sentences, finished or aborted, and returns them."""
        ...


class Backend(Protocol):
    """A model prepared for decoding at some precision, on some device."""

    config: ModelConfig
    precision: str
    device: torch.device

    def new_batch(self, rows: int, limits: Limits) -> Batch: ...


def rows_taken(hypotheses: Sequence[Hypothesis]) -> int:
    """Rows that sentences take, including those of their beams."""
    return sum(h.beam_size for h in hypotheses)


class DecodeBatch:
    """A Batch that keeps each sentence's tokens itself and leaves the arithmetic to a DecoderState."""

    def __init__(self, state: DecoderState, config: ModelConfig) -> None:
        self.rows = state.rows
        self.running: list[Hypothesis] = []
        self._state, self._eos, self._bos = state, config.eos_id, config.bos_id
        self._branches: list[Hypothesis] = []
        """The owners of the rows, in order: sentences, or a beam's branches in place of its sentence."""
        self._row_of: dict[Hypothesis, int] = {}
        self._beams: dict[Hypothesis, Beam] = {}

    @property
    def free(self) -> int:
        """Number of free rows. A sentence takes `beam_size` rows."""
        return self.rows - rows_taken(self.running)

    def admit(self, hypotheses: Sequence[Hypothesis]) -> None:
        """Encodes `hypotheses` as one batch and gives them rows. They must fit: see `free`."""
        assert rows_taken(hypotheses) <= self.free
        attention = self._state.admit([h.source for h in hypotheses], any(h.record for h in hypotheses))
        self.running.extend(hypotheses)
        for hypothesis in hypotheses:
            if hypothesis.beam_size > 1:
                self._beams[hypothesis] = Beam(hypothesis, self._eos)
            self._place(self._beams[hypothesis].branches[0] if hypothesis.beam_size > 1 else hypothesis)
        for hypothesis, weights in zip(hypotheses, attention, strict=False):
            if hypothesis.record:
                hypothesis.encoder_attention = weights

    def step(self) -> list[Hypothesis]:
        """Decodes one token for every running sentence; returns the sentences that finished, which have left the
        batch."""
        branches = self._branches
        last = [h.tokens[-1] if h.tokens else self._bos for h in branches]
        constraints = {
            row: constraint for row, h in enumerate(branches) if (constraint := h.next_constraint(self._eos))
        }
        step = self._state.step(last, constraints, any(h.record for h in branches))
        for hypothesis, aligned in zip(branches, step.aligned, strict=True):
            hypothesis.aligned = [*hypothesis.aligned, aligned]
        for hypothesis, (decoder, cross) in zip(branches, step.attention, strict=False):
            if hypothesis.record:
                hypothesis.decoder_rows.append(decoder)
                hypothesis.cross_rows.append(cross)
        candidates = {branches[row]: found for row, found in step.candidates.items()}
        for hypothesis, token, log_prob in zip(branches, step.tokens, step.log_probs, strict=True):
            if hypothesis.beam_size == 1:
                hypothesis.extend(token, log_prob, self._eos)
        beams = list(self._beams.values())
        advance(beams, [[candidates[branch] for branch in beam.branches] for beam in beams], self)
        finished = [h for h in self.running if h.finish_reason]
        self.read([h for h in finished if h.beam_size == 1])
        return self.remove(finished)

    def remove(self, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Removes running sentences, finished or aborted, and returns them."""
        if hypotheses:
            gone = set(map(id, hypotheses))
            self.drop([branch for h in hypotheses for branch in self._branches_of(h)])
            self.running = [h for h in self.running if id(h) not in gone]
            self._beams = {h: beam for h, beam in self._beams.items() if id(h) not in gone}
        return list(hypotheses)

    def _branches_of(self, hypothesis: Hypothesis) -> list[Hypothesis]:
        return self._beams[hypothesis].branches if hypothesis in self._beams else [hypothesis]

    def _place(self, branch: Hypothesis) -> None:
        self._row_of[branch] = len(self._branches)
        self._branches.append(branch)

    # ---- Requests of beams; see `model.decoding.beam.Rows`

    def read(self, branches: Sequence[Hypothesis]) -> None:
        if branches:
            for branch, coverage in zip(
                branches, self._state.coverage([self._row_of[b] for b in branches]), strict=True
            ):
                branch.coverage = coverage

    def fork(self, branches: Sequence[Hypothesis]) -> list[Hypothesis]:
        copies = [copied(branch) for branch in branches]
        if branches:
            self._state.fork([self._row_of[branch] for branch in branches])
        for copy in copies:
            self._place(copy)
        return copies

    def extend(self, branch: Hypothesis, token: int, log_prob: float) -> None:
        branch.extend(token, log_prob, self._eos)

    def drop(self, branches: Sequence[Hypothesis]) -> None:
        if branches:
            order = self._state.drop([self._row_of[branch] for branch in branches])
            self._branches = [self._branches[row] for row in order]
            self._row_of = {branch: row for row, branch in enumerate(self._branches)}
