"""Beam search over one sentence (Sutskever et al. 2014, section 3.2), with hypotheses ranked by mean log probability.

The batch owns the rows of the hypotheses.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from model.hypothesis import Hypothesis

Candidates = Sequence[tuple[int, float]]
"""Next tokens and their log probabilities, best first."""
Option = tuple[Hypothesis, int, float]
"""A branch, a token that may extend or end it, and the token's log probability."""


class Rows(Protocol):
    """Operations that a batch provides to its beams. A branch is a hypothesis that has a row.

    They take all branches of a step at once: moving rows one by one would dominate the cost of a beam.
    """

    def read(self, branches: Sequence[Hypothesis]) -> None:
        """Sets `aligned` and `coverage` of each branch."""
        ...

    def fork(self, branches: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Copies each branch into a new row; a branch listed twice gets two copies."""
        ...

    def extend(self, branch: Hypothesis, token: int, log_prob: float) -> None: ...

    def drop(self, branches: Sequence[Hypothesis]) -> None: ...


def copied(branch: Hypothesis) -> Hypothesis:
    """A hypothesis with its own copies of tokens and log probabilities."""
    return replace(branch, tokens=[*branch.tokens], log_probs=[*branch.log_probs])


class Beam:
    """The `beam_size` best hypotheses of `sentence`, which receives the result.

    Considers twice as many continuations: the best `beam_size` that do not end continue; one that ends counts if it is
    among the best `beam_size`. The beam is finished when `beam_size` have ended, or none continues.
    """

    def __init__(self, sentence: Hypothesis, eos: int) -> None:
        self.sentence, self.eos = sentence, eos
        self.branches = [sentence.started_again()]
        self.finished: list[Hypothesis] = []

    @property
    def over(self) -> bool:
        return not self.branches

    def choose(self, candidates: Sequence[Candidates]) -> tuple[list[Option], list[Option]]:
        """Chooses from the `candidates` of each branch which branches end, and which continue, once for every token."""
        beam_size = self.sentence.beam_size
        options = [
            (sum(branch.log_probs) + log_prob, branch, token, log_prob)
            for branch, found in zip(self.branches, candidates, strict=True)
            for token, log_prob in found
        ]
        options.sort(key=lambda option: -option[0])
        ending: list[Option] = []
        going: list[Option] = []
        for rank, (_, branch, token, log_prob) in enumerate(options):
            if len(going) == beam_size:
                break
            if math.isnan(log_prob) or token == self.eos or len(branch.tokens) + 1 >= branch.limit:
                if rank < beam_size:
                    ending.append((branch, token, log_prob))
            else:
                going.append((branch, token, log_prob))
        return ending, going if len(self.finished) + len(ending) < beam_size else []

    def finish(self, ending: Sequence[Option]) -> None:
        """Records hypotheses that end; their branches have been read."""
        for branch, token, log_prob in ending:
            ended = copied(branch)
            ended.extend(token, log_prob, self.eos)
            self.finished.append(ended)

    def conclude(self) -> None:
        """Gives the sentence its best finished hypothesis."""
        # A sum with a NaN cannot be ranked: such a hypothesis goes first, so that the failure is noticed.
        self.finished.sort(key=lambda ended: -ended.score if ended.score == ended.score else -math.inf)
        best, sentence = self.finished[0], self.sentence
        sentence.finished = self.finished
        sentence.tokens, sentence.log_probs, sentence.finish_reason = best.tokens, best.log_probs, best.finish_reason
        sentence.aligned, sentence.coverage = best.aligned, best.coverage


def advance(beams: Sequence[Beam], candidates: Sequence[Sequence[Candidates]], rows: Rows) -> None:
    """Extends every branch of every beam by one token from its `candidates`. A finished beam has no rows."""
    choices = [beam.choose(found) for beam, found in zip(beams, candidates, strict=True)]
    rows.read(list(dict.fromkeys(branch for ending, _ in choices for branch, _, _ in ending)))
    going = Counter(branch for _, options in choices for branch, _, _ in options)
    rows.drop([branch for beam in beams for branch in beam.branches if branch not in going])
    copies: dict[Hypothesis, list[Hypothesis]] = {branch: [branch] for branch in going}
    again = list((going - Counter(copies.keys())).elements())
    for branch, copy in zip(again, rows.fork(again), strict=True):  # before any of them is extended
        copies[branch].append(copy)
    for beam, (ending, options) in zip(beams, choices, strict=True):
        beam.finish(ending)
        beam.branches = [copies[branch].pop(0) for branch, _, _ in options]
        for own, (_, token, log_prob) in zip(beam.branches, options, strict=True):
            rows.extend(own, token, log_prob)
        if beam.over:
            beam.conclude()
