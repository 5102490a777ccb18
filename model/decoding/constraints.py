"""Selects the best tokens that a constraint allows, from one step's log probabilities."""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor

from model.hypothesis import TokenConstraint


def best_by_row(
    log_probs: Tensor, constraints: Mapping[int, TokenConstraint], eos: int
) -> dict[int, list[tuple[int, float]]]:
    """The result of `allowed_best` for each row that has a constraint; log_probs [rows, vocabulary].

    Rows whose token is given, and beams without further constraints, are handled together, since a GPU answers one
    query as slowly as many.
    """
    given = {row: constraint.allowed[0] for row, constraint in constraints.items() if len(constraint.allowed) == 1}
    scores = log_probs[list(given), list(given.values())].tolist() if given else []
    found = {row: [(token, score)] for (row, token), score in zip(given.items(), scores, strict=True)}
    for row, constraint in constraints.items():
        if row not in given and not constraint.allows_all:
            found[row] = allowed_best(log_probs[row], constraint, eos)
    for count in {constraint.count for constraint in constraints.values() if constraint.allows_all}:
        rows = [row for row, constraint in constraints.items() if constraint.allows_all and constraint.count == count]
        values, tokens = log_probs[rows].topk(min(count, log_probs.size(-1)))  # [rows of these, count]
        for row, best, scores in zip(rows, tokens.tolist(), values.tolist(), strict=True):
            found[row] = [(token, score) for token, score in zip(best, scores, strict=True) if score != -math.inf]
    return found


def allowed_best(log_probs: Tensor, constraint: TokenConstraint, eos: int) -> list[tuple[int, float]]:
    """The best tokens that `constraint` allows, with their log probabilities, best first; log_probs [vocabulary]."""
    scores, only = log_probs, constraint.allowed
    if not only:
        scores = log_probs.clone()
        scores[list(constraint.forbidden)] = -math.inf
        if constraint.unmet:
            if scores.argmax() == eos:
                only = constraint.unmet
            scores[eos] = -math.inf
    if only:
        found = [(token, float(log_probs[token])) for token in only]
        return sorted(found, key=lambda pair: -pair[1])[: constraint.count]
    values, tokens = scores.topk(min(constraint.count, len(scores)))
    pairs = zip(tokens.tolist(), values.tolist(), strict=True)
    return [(token, value) for token, value in pairs if value != -math.inf]
