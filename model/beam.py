"""Beam search over one sentence (Sutskever et al. 2014, section 3.2), the hypotheses ranked by mean log probability.

Knows tokens and scores; whose rows the hypotheses live in is the batch's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from model.hypothesis import Hypothesis

Candidates = Sequence[tuple[int, float]]
"""Next tokens and their log probabilities, best first."""


class Rows(Protocol):
    """What a batch does for a beam. A branch is a hypothesis that has a row."""

    def read(self, branch: Hypothesis) -> None:
        """Sets its `aligned` and `looked`."""
        ...

    def fork(self, branch: Hypothesis) -> Hypothesis:
        """A copy that has a row of its own and has come as far."""
        ...

    def extend(self, branch: Hypothesis, token: int, log_prob: float) -> None: ...

    def drop(self, branches: Sequence[Hypothesis]) -> None: ...


def copied(branch: Hypothesis) -> Hypothesis:
    """A hypothesis with tokens and log probabilities of its own."""
    return replace(branch, tokens=[*branch.tokens], log_probs=[*branch.log_probs])


class Beam:
    """The `width` best hypotheses of `sentence`, which gets the outcome.

    Of twice as many continuations the best `width` that do not end go on; one that ends counts if it is among the best
    `width`. It is over when `width` have ended, or none goes on.
    """

    def __init__(self, sentence: Hypothesis, eos: int) -> None:
        self.sentence, self.eos = sentence, eos
        self.branches = [sentence.started_again()]
        self.finished: list[Hypothesis] = []

    @property
    def over(self) -> bool:
        return not self.branches

    def advance(self, candidates: Sequence[Candidates], rows: Rows) -> None:
        """One token more for every branch, of the `candidates` of each. When it is over, no branch has a row."""
        width = self.sentence.width
        options = [
            (sum(branch.log_probs) + log_prob, branch, token, log_prob)
            for branch, found in zip(self.branches, candidates, strict=True)
            for token, log_prob in found
        ]
        options.sort(key=lambda option: -option[0])
        chosen: list[tuple[Hypothesis, int, float]] = []
        for rank, (_, branch, token, log_prob) in enumerate(options):
            if len(chosen) == width:
                break
            if math.isnan(log_prob) or token == self.eos or len(branch.tokens) + 1 >= branch.limit:
                if rank < width:
                    self._finish(branch, token, log_prob, rows)
            else:
                chosen.append((branch, token, log_prob))
        if len(self.finished) >= width:
            chosen = []
        self._continue(chosen, rows)
        if self.over:
            self._conclude()

    def _finish(self, branch: Hypothesis, token: int, log_prob: float, rows: Rows) -> None:
        rows.read(branch)
        ended = copied(branch)
        ended.extend(token, log_prob, self.eos)
        self.finished.append(ended)

    def _continue(self, chosen: Sequence[tuple[Hypothesis, int, float]], rows: Rows) -> None:
        going = {id(branch) for branch, _, _ in chosen}
        rows.drop([branch for branch in self.branches if id(branch) not in going])
        taken: set[int] = set()
        self.branches = []
        steps: list[tuple[Hypothesis, int, float]] = []
        for branch, token, log_prob in chosen:  # all are copied before any goes on
            own = branch if id(branch) not in taken else rows.fork(branch)
            taken.add(id(branch))
            self.branches.append(own)
            steps.append((own, token, log_prob))
        for own, token, log_prob in steps:
            rows.extend(own, token, log_prob)

    def _conclude(self) -> None:
        # A sum with a NaN in it ranks nowhere: such a hypothesis goes first, so that somebody notices.
        self.finished.sort(key=lambda ended: -ended.score if ended.score == ended.score else -math.inf)
        best, sentence = self.finished[0], self.sentence
        sentence.finished = self.finished
        sentence.tokens, sentence.log_probs, sentence.finish_reason = best.tokens, best.log_probs, best.finish_reason
        sentence.aligned, sentence.looked = best.aligned, best.looked
