"""Continuous batching: sentences join and leave the running batch between steps. Also the interfaces of backends.

A backend does the arithmetic, in a DecoderState. Sentences that wait for a batch are in `app.engine.scheduler`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from model.config import ModelConfig
from model.decoding.beam import Beam, Candidates, advance, copied
from model.hypothesis import Hypothesis, Limits, TokenConstraint, Weights


@dataclass(frozen=True)
class StepOutput:
    """The results of one step, for each live row in order."""

    tokens: list[int]
    log_probs: list[float]
    """Natural logarithms; NaN for a row with NaN among its logits."""
    aligned: list[int]
    """The position of the source token that each row attended to most; see `Hypothesis.aligned`."""
    aligned_last: list[int]
    """By the alignment head, the same for each row's last token, which is the one that the step read; empty for a model
    without one."""
    candidates: Mapping[int, Candidates]
    """By row, for rows with a constraint, the best tokens that it allows; the first is the row's token."""
    attention: list[tuple[Weights, Weights]]
    """Per row, the weights of the decoded position over the target so far, [layer, head, target], and over the source,
    [layer, head, source]. Empty unless recorded. A recurrent decoder has no layer with weights over the target."""


class DecoderState(Protocol):
    """The decoder's state, one row per hypothesis, and the arithmetic of a step. Live rows are 0 to n - 1 of `rows`."""

    rows: int

    def admit(self, sources: Sequence[Sequence[int]], prefix_lengths: Sequence[int], record: bool) -> list[Weights]:
        """Encodes `sources`, which have no end symbols, into the next free rows. They must fit.
        `prefix_lengths`: see `Hypothesis.source_prefix_length`.

        Returns the encoder's attention weights if `record`, per sentence [layer, head, source, source]; else nothing.
        """
        ...

    def step(self, tokens: Sequence[int], constraints: Mapping[int, TokenConstraint], record: bool) -> StepOutput:
        """Decodes one token for every live row. `tokens`: the last of each row; `constraints`: by row, for rows that
        have one."""
        ...

    def coverage(self, rows: Sequence[int]) -> list[list[float]]:
        """For each of `rows`, the attention that each source token received in all steps but the last."""
        ...

    def fork(self, rows: Sequence[int]) -> None:
        """Copies `rows` into the next free rows, in order. There must be enough."""
        ...

    def drop(self, rows: Sequence[int]) -> list[int]:
        """Frees `rows` and closes the gaps. Returns the previous index of each remaining row."""
        ...


class Batch(Protocol):
    """Sentences decoded together, in up to `rows` rows; they join and leave between steps."""

    rows: int

    @property
    def steps(self) -> Sequence[int]:
        """The number of sentences in each decoder step that the last call of `step` took."""
        ...

    @property
    def running(self) -> Sequence[Hypothesis]: ...

    @property
    def free(self) -> int:
        """Number of free rows. A sentence takes `beam_size` rows."""
        ...

    def admit(self, hypotheses: Sequence[Hypothesis]) -> None:
        """Encodes `hypotheses` together and gives them rows. They must fit; see `free`."""
        ...

    def step(self, most: int = 1, enough: int = 0) -> list[Hypothesis]:
        """Decodes the next token of every running sentence, or where that is faster up to `most`: fewer once `enough`
        sentences have finished, if that is not 0. Returns finished sentences, which leave the batch."""
        ...

    def remove(self, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Removes running sentences, finished or aborted, and returns them."""
        ...


class Backend(Protocol):
    """A model prepared for decoding at one precision on one device."""

    config: ModelConfig
    precision: str
    device: str
    """"cpu" or "cuda"."""
    engine: str
    """What decodes: "int8", "torch", "graph" or "triton"."""
    weight_bytes: int
    """Memory that the weights take."""

    def new_batch(self, rows: int, limits: Limits) -> Batch: ...

    def check_weights(self) -> None:
        """Raises BundleError if another process may have changed the weights since they were loaded."""
        ...


def rows_taken(hypotheses: Sequence[Hypothesis]) -> int:
    """The number of rows that `hypotheses` take."""
    return sum(h.beam_size for h in hypotheses)


class DecodeBatch:
    """A Batch that keeps the tokens of its sentences, and leaves the arithmetic to a DecoderState."""

    def __init__(self, state: DecoderState, config: ModelConfig) -> None:
        self.rows = state.rows
        self.running: list[Hypothesis] = []
        self.steps: list[int] = []
        self._state, self._eos, self._bos = state, config.eos_id, config.bos_id
        self._branches: list[Hypothesis] = []
        """The hypothesis of each row: a sentence, or in place of a sentence with a beam the beam's branches."""
        self._row_of: dict[Hypothesis, int] = {}
        self._beams: dict[Hypothesis, Beam] = {}

    @property
    def free(self) -> int:
        """Number of free rows. A sentence takes `beam_size` rows."""
        return self.rows - rows_taken(self.running)

    def admit(self, hypotheses: Sequence[Hypothesis]) -> None:
        """Encodes `hypotheses` together and gives them rows. They must fit; see `free`."""
        assert rows_taken(hypotheses) <= self.free
        attention = self._state.admit(
            [h.source for h in hypotheses],
            [h.source_prefix_length for h in hypotheses],
            any(h.record for h in hypotheses),
        )
        self.running.extend(hypotheses)
        for hypothesis in hypotheses:
            if hypothesis.beam_size > 1:
                self._beams[hypothesis] = Beam(hypothesis, self._eos)
            self._append_row(self._beams[hypothesis].branches[0] if hypothesis.beam_size > 1 else hypothesis)
        for hypothesis, weights in zip(hypotheses, attention, strict=False):
            if hypothesis.record:
                hypothesis.encoder_attention = weights

    def step(self, most: int = 1, enough: int = 0) -> list[Hypothesis]:
        """Decodes one token of every running sentence. Returns the finished sentences, which leave the batch."""
        branches = self._branches
        self.steps = [len(self.running)]
        last = [h.tokens[-1] if h.tokens else self._bos for h in branches]
        constraints = {
            row: constraint for row, h in enumerate(branches) if (constraint := h.next_constraint(self._eos))
        }
        output = self._state.step(last, constraints, any(h.record for h in branches))
        for hypothesis, aligned in zip(branches, output.aligned_last, strict=False):
            hypothesis.aligned = [*hypothesis.aligned[:-1], *[aligned] * bool(hypothesis.tokens)]
        for hypothesis, aligned in zip(branches, output.aligned, strict=True):
            hypothesis.aligned = [*hypothesis.aligned, aligned]
        for hypothesis, (decoder, cross) in zip(branches, output.attention, strict=False):
            if hypothesis.record:
                hypothesis.decoder_rows.append(decoder)
                hypothesis.cross_rows.append(cross)
        candidates = {branches[row]: found for row, found in output.candidates.items()}
        for hypothesis, token, log_prob in zip(branches, output.tokens, output.log_probs, strict=True):
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

    def _append_row(self, branch: Hypothesis) -> None:
        self._row_of[branch] = len(self._branches)
        self._branches.append(branch)

    # ---- For beams; see `model.decoding.beam.Rows`

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
            self._append_row(copy)
        return copies

    def extend(self, branch: Hypothesis, token: int, log_prob: float) -> None:
        branch.extend(token, log_prob, self._eos)

    def drop(self, branches: Sequence[Hypothesis]) -> None:
        if branches:
            order = self._state.drop([self._row_of[branch] for branch in branches])
            self._branches = [self._branches[row] for row in order]
            self._row_of = {branch: row for row, branch in enumerate(self._branches)}
