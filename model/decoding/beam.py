"""Beam search (Sutskever et al. 2014, section 3.2), which ranks finished hypotheses by `ranking_score`.

A batch owns the rows in which hypotheses are decoded.
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
"""A branch, a token that may extend or end it, and the log probability of the token."""


class Rows(Protocol):
    """Operations that a batch provides for its beams. A branch is a hypothesis that has a row.

    Each takes all branches of a step together: moving rows one by one would dominate the cost of beam search.
    """

    def read(self, branches: Sequence[Hypothesis]) -> None:
        """Sets `aligned` and `coverage` of each branch."""
        ...

    def fork(self, branches: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Copies each branch into a new row; a branch that is listed twice gets two copies."""
        ...

    def extend(self, branch: Hypothesis, token: int, log_prob: float) -> None: ...

    def drop(self, branches: Sequence[Hypothesis]) -> None: ...


def copied(branch: Hypothesis) -> Hypothesis:
    """A hypothesis with its own copies of tokens and log probabilities."""
    return replace(branch, tokens=[*branch.tokens], log_probs=[*branch.log_probs])


class Beam:
    """The beam of `sentence`: its `beam_size` best unfinished hypotheses, and those that have finished.

    Each step considers 2 * `beam_size` candidates per branch. The best `beam_size` that do not end become the new
    branches; one that ends is finished if it is among the best `beam_size`. The search is over when `beam_size`
    hypotheses have finished, or no branch is left. `sentence` then gets the result.

    If the sentence is `narrowing`, the beam is searched as Marian does: each hypothesis that finishes takes a place of
    the beam, which goes on with the others until none is left. It then finds better ones that end later.
    """

    def __init__(self, sentence: Hypothesis, eos: int) -> None:
        self.sentence, self.eos = sentence, eos
        self.branches = [sentence.without_result()]
        self.finished: list[Hypothesis] = []

    @property
    def over(self) -> bool:
        return not self.branches

    def choose(self, candidates: Sequence[Candidates]) -> tuple[list[Option], list[Option]]:
        """Chooses among the `candidates` of each branch. Returns the options that end a branch, and those that
        continue one; a branch may continue with several tokens."""
        beam_size = self.sentence.beam_size
        options = [
            (total + log_prob, branch, token, log_prob)
            for branch, found in zip(self.branches, candidates, strict=True)
            for total in (sum(branch.log_probs),)
            for token, log_prob in found
        ]
        options.sort(key=lambda option: -option[0])
        if self.sentence.narrowing:
            del options[beam_size - len(self.finished) :]
        ending: list[Option] = []
        continuing: list[Option] = []
        for rank, (_, branch, token, log_prob) in enumerate(options):
            if len(continuing) == beam_size:
                break
            if math.isnan(log_prob) or token == self.eos or len(branch.tokens) + 1 >= branch.limit:
                if rank < beam_size:
                    ending.append((branch, token, log_prob))
            else:
                continuing.append((branch, token, log_prob))
        return ending, continuing if len(self.finished) + len(ending) < beam_size else []

    def finish(self, ending: Sequence[Option]) -> None:
        """Adds hypotheses that end. Their branches must have been read."""
        for branch, token, log_prob in ending:
            ended = copied(branch)
            ended.extend(token, log_prob, self.eos)
            self.finished.append(ended)

    def conclude(self) -> None:
        """Gives the sentence the result of its best finished hypothesis."""
        # A score of NaN cannot be ranked. It comes first, so that the failure is noticed.
        self.finished.sort(key=lambda ended: -math.inf if math.isnan(ended.ranking_score) else -ended.ranking_score)
        best, sentence = self.finished[0], self.sentence
        sentence.finished = self.finished
        sentence.tokens, sentence.log_probs, sentence.finish_reason = best.tokens, best.log_probs, best.finish_reason
        sentence.aligned, sentence.coverage = best.aligned, best.coverage


def advance(beams: Sequence[Beam], candidates: Sequence[Sequence[Candidates]], rows: Rows) -> None:
    """Extends the branches of all beams by one token each, from the `candidates` of each branch of each beam.

    A beam that is over has no rows left.
    """
    choices = [beam.choose(found) for beam, found in zip(beams, candidates, strict=True)]
    rows.read(list(dict.fromkeys(branch for ending, _ in choices for branch, _, _ in ending)))
    continuing = Counter(branch for _, options in choices for branch, _, _ in options)
    rows.drop([branch for beam in beams for branch in beam.branches if branch not in continuing])
    copies: dict[Hypothesis, list[Hypothesis]] = {branch: [branch] for branch in continuing}
    again = list((continuing - Counter(copies.keys())).elements())
    for branch, copy in zip(again, rows.fork(again), strict=True):  # before any branch is extended
        copies[branch].append(copy)
    for beam, (ending, options) in zip(beams, choices, strict=True):
        beam.finish(ending)
        beam.branches = [copies[branch].pop(0) for branch, _, _ in options]
        for own, (_, token, log_prob) in zip(beam.branches, options, strict=True):
            rows.extend(own, token, log_prob)
        if beam.over:
            beam.conclude()
