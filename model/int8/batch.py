"""The batch of the C kernels: passes sentences to them and reads their results, step by step.

The library is in `model.int8.library`, the weights' layout in `model.int8.weights`.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from ctypes import c_float, c_int32, c_void_p
from typing import TYPE_CHECKING

import numpy as np

from model.decoding.batch import rows_taken
from model.decoding.beam import Beam, Candidates, advance, copied
from model.hypothesis import Hypothesis, Limits, Weights

if TYPE_CHECKING:
    from model.int8.backend import Int8Backend

MAX_STEPS = 16
"""Of a call of `step`."""
DEMANDS = 64
"""As in the C file: the maximum number of required tokens per sentence, and of forbidden ones."""


class Int8Batch:
    """The sentences being decoded together, like `model.decoding.batch.DecodeBatch`; raises MemoryError if there is no
    room.

    The kernels keep a sentence's tokens and choose them; a beam's tokens are also kept here, and chosen here.
    """

    def __init__(self, backend: Int8Backend, rows: int, limits: Limits) -> None:
        self.rows = rows
        self._backend = backend  # keeps alive the memory that the kernels read
        self._library, self._config = backend.library, backend.config
        self._limits, longest = limits, limits.max_target + 1
        self._sentences: dict[int, Hypothesis] = {}  # by C's number for them; branches in place of beams
        self._numbers: dict[Hypothesis, int] = {}
        self._beams: dict[Hypothesis, Beam] = {}
        self._records: dict[int, tuple[Weights, Weights]] = {}
        self.steps: list[int] = []
        self._finished, self._step_rows = (c_int32 * rows)(), (c_int32 * MAX_STEPS)()
        self._tokens, self._log_probs = (c_int32 * longest)(), (c_float * longest)()
        self._aligned, self._coverage = (c_int32 * longest)(), (c_float * (limits.max_source + 1))()
        self._aligned_bytes, self._coverage_bytes = (memoryview(a).cast("B") for a in (self._aligned, self._coverage))
        self._batch = self._library.batch_new(backend.model, rows, limits.max_source + 1, longest)
        if not self._batch:
            raise MemoryError(f"no memory for {rows} sentences of up to {limits.max_source} tokens")

    def __del__(self) -> None:
        self._library.batch_free(self._batch)

    @property
    def running(self) -> list[Hypothesis]:
        return [*(h for h in self._sentences.values() if not h.is_searched), *self._beams]

    @property
    def free(self) -> int:
        """Number of free rows. A sentence takes `beam_size` rows."""
        branches = sum(len(beam.branches) for beam in self._beams.values())
        return self.rows - (len(self._sentences) - branches) - rows_taken(list(self._beams))

    def admit(self, hypotheses: Sequence[Hypothesis]) -> None:
        """Encodes `hypotheses` and gives them rows. They must fit: see `free`. Raises ValueError for anything unsafe
        for C."""
        self._check(hypotheses)
        count, config = len(hypotheses), self._config
        for hypothesis in hypotheses:
            if hypothesis.record:
                length = self._source_length(hypothesis)
                shape = config.encoder_layers, config.num_heads, length, length
                hypothesis.encoder_attention = np.empty(shape, np.float32)
        numbers = (c_int32 * count)()
        self._library.batch_admit(
            self._batch,
            count,
            _integers([id for h in hypotheses for id in config.source_ids(h.source)]),
            _integers(list(map(self._source_length, hypotheses))),
            _integers([h.source_prefix_length for h in hypotheses]),
            _integers([h.limit for h in hypotheses]),
            _integers([id for h in hypotheses for id in h.forced or h.prefix]),
            _integers([len(h.prefix) or -1 if h.forced is None else len(h.forced) for h in hypotheses]),
            _integers([h.forced is None for h in hypotheses]),
            _integers([id for h in hypotheses for id in (*h.required, *h.forbidden)]),
            _integers([len(h.required) for h in hypotheses]),
            _integers([len(h.forbidden) for h in hypotheses]),
            _integers([h.is_searched for h in hypotheses]),
            _addresses([h.encoder_attention for h in hypotheses]),
            numbers,
        )
        for number, hypothesis in zip(numbers, hypotheses, strict=True):
            if hypothesis.is_searched:
                self._beams[hypothesis] = Beam(hypothesis, config.eos_id)
                hypothesis = self._beams[hypothesis].branches[0]
            self._add(number, hypothesis)

    def step(self, most: int = 1, enough: int = 0) -> list[Hypothesis]:
        """See `Batch`. The kernels take all steps of a call, unless there is something to choose or to record after
        each.

        The tokens of unfinished sentences are kept here and not yet in the hypothesis.
        """
        recorded = self._room_for_records()
        most = 1 if self._beams or self._records else min(most, MAX_STEPS)
        given = self._batch, most, enough, *recorded, self._finished, self._step_rows
        count = self._library.batch_steps(*given)
        self.steps = [len(self.running)] if self._beams else [rows for rows in self._step_rows[:most] if rows]
        for number, (decoder, cross) in self._records.items():
            self._sentences[number].decoder_rows.append(decoder)
            self._sentences[number].cross_rows.append(cross)
        # Candidates of all rows before any row leaves: until then the kernels still have all logits.
        candidates = [[self._candidates(b) for b in beam.branches] for beam in self._beams.values()]
        finished = [self._finish(number) for number in self._finished[:count]]
        advance(list(self._beams.values()), candidates, self)
        over = [sentence for sentence, beam in self._beams.items() if beam.over]
        for sentence in over:
            del self._beams[sentence]
        return [*finished, *over]

    def remove(self, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Removes running sentences, finished or aborted, and returns them."""
        if hypotheses:
            beams = [self._beams.pop(h) for h in hypotheses if h in self._beams]
            alone = [h for h in hypotheses if not h.is_searched]
            self.drop([*alone, *(branch for beam in beams for branch in beam.branches)])
        return list(hypotheses)

    def _check(self, hypotheses: Sequence[Hypothesis]) -> None:
        """C does not check its input: a length or an id that is too large would address memory outside its buffers."""
        assert rows_taken(hypotheses) <= self.free
        limits, config = self._limits, self._config
        for hypothesis in hypotheses:
            source, forced = hypothesis.source, hypothesis.forced or hypothesis.prefix
            lengths = (len(source), limits.max_source), (max(hypothesis.limit, len(forced)), limits.max_target)
            if any(length > limit for length, limit in lengths):
                raise ValueError(f"{len(source)} source tokens and a target of {lengths[1][0]} are beyond {limits}")
            if max(len(hypothesis.required), len(hypothesis.forbidden)) > DEMANDS:
                raise ValueError(f"at most {DEMANDS} tokens can be demanded, and as many forbidden")
            asked = (*forced, *hypothesis.required, *hypothesis.forbidden)
            for ids, size in ((source, config.source_vocab_size), (asked, config.target_vocab_size)):
                if ids and not 0 <= min(ids) <= max(ids) < size:
                    raise ValueError(f"token ids must be under {size} and not negative: {min(ids)} to {max(ids)}")

    def _source_length(self, hypothesis: Hypothesis) -> int:
        """The number of tokens that the encoder reads."""
        return len(hypothesis.source) + self._config.source_ends(len(hypothesis.source))

    def _finish(self, number: int) -> Hypothesis:
        hypothesis = self._sentences[number]
        count = self._read(number, hypothesis)
        self._drop(number)
        hypothesis.tokens, hypothesis.log_probs = self._tokens[:count], self._log_probs[:count]
        hypothesis.finish_reason = "stop" if hypothesis.tokens[-1] == self._config.eos_id else "length"
        return hypothesis

    def _read(self, number: int, hypothesis: Hypothesis) -> int:
        places = self._tokens, self._log_probs, self._aligned, self._coverage
        count: int = self._library.batch_read(self._batch, number, *places)
        alignments, sources = count + hypothesis.is_searched, self._source_length(hypothesis)
        hypothesis.aligned = array("i", self._aligned_bytes[: 4 * alignments].tobytes())
        hypothesis.coverage = array("f", self._coverage_bytes[: 4 * sources].tobytes())
        return count

    def _add(self, number: int, hypothesis: Hypothesis) -> None:
        self._sentences[number], self._numbers[hypothesis] = hypothesis, number

    def _drop(self, number: int) -> None:
        del self._numbers[self._sentences.pop(number)]
        self._library.batch_drop(self._batch, number)

    def _candidates(self, branch: Hypothesis) -> Candidates:
        constraint = branch.next_constraint(self._config.eos_id)
        assert constraint is not None
        tokens, log_probs = (c_int32 * constraint.count)(), (c_float * constraint.count)()
        lists = [
            part
            for ids in (constraint.allowed, constraint.unmet, constraint.forbidden)
            for part in (_integers(ids), len(ids))
        ]
        count = self._library.batch_candidates(
            self._batch, self._numbers[branch], *lists, constraint.count, tokens, log_probs
        )
        return list(zip(tokens[:count], log_probs[:count], strict=True))

    # ---- Requests of beams; see `model.decoding.beam.Rows`

    def read(self, branches: Sequence[Hypothesis]) -> None:
        for branch in branches:
            self._read(self._numbers[branch], branch)

    def fork(self, branches: Sequence[Hypothesis]) -> list[Hypothesis]:
        copies = [copied(branch) for branch in branches]
        for branch, copy in zip(branches, copies, strict=True):
            self._add(self._library.batch_fork(self._batch, self._numbers[branch]), copy)
        return copies

    def extend(self, branch: Hypothesis, token: int, log_prob: float) -> None:
        branch.extend(token, log_prob, self._config.eos_id)
        self._library.batch_extend(self._batch, self._numbers[branch], token)

    def drop(self, branches: Sequence[Hypothesis]) -> None:
        for branch in branches:
            self._drop(self._numbers[branch])

    def _room_for_records(self) -> tuple[ctypes.Array[c_void_p] | None, ctypes.Array[c_void_p] | None]:
        layers, heads = self._config.decoder_layers, self._config.num_heads
        attending = 0 if self._config.decoder == "ssru" else layers
        self._records = {}
        for number, hypothesis in self._sentences.items():
            if hypothesis.record:
                lengths = len(hypothesis.decoder_rows) + 1, self._source_length(hypothesis)
                shapes = ((depth, heads, length) for depth, length in zip((attending, layers), lengths, strict=True))
                decoder, cross = (np.empty(shape, np.float32) for shape in shapes)
                self._records[number] = decoder, cross
        if not self._records:
            return None, None
        pairs = [self._records.get(number, (None, None)) for number in range(self.rows)]
        return _addresses([decoder for decoder, _ in pairs]), _addresses([cross for _, cross in pairs])


def _integers(values: Sequence[int]) -> ctypes.Array[c_int32]:
    return (c_int32 * len(values))(*values)


def _addresses(arrays: Sequence[Weights | None]) -> ctypes.Array[c_void_p] | None:
    """The address of each array, NULL for None; None if all of them are None."""
    if not any(array is not None for array in arrays):
        return None
    return (c_void_p * len(arrays))(*(None if array is None else array.ctypes.data for array in arrays))
