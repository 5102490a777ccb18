"""Selects the best tokens that a constraint allows, by the log probabilities of a step."""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor

from model.hypothesis import TokenConstraint


def best_by_row(
    log_probs: Tensor, constraints: Mapping[int, TokenConstraint], eos: int
) -> dict[int, list[tuple[int, float]]]:
    """The result of `best_allowed` for each row with a constraint; log_probs [rows, vocabulary].

    Handles rows with one allowed token together, and likewise beams without other constraints, since every query of a
    GPU takes about the same time.
    """
    given = {row: constraint.allowed[0] for row, constraint in constraints.items() if len(constraint.allowed) == 1}
    scores = log_probs[list(given), list(given.values())].tolist() if given else []
    found = {row: [(token, score)] for (row, token), score in zip(given.items(), scores, strict=True)}
    for row, constraint in constraints.items():
        if row not in given and not constraint.allows_all:
            found[row] = best_allowed(log_probs[row], constraint, eos)
    for count in {constraint.count for constraint in constraints.values() if constraint.allows_all}:
        rows = [row for row, constraint in constraints.items() if constraint.allows_all and constraint.count == count]
        values, tokens = log_probs[rows].topk(min(count, log_probs.size(-1)))  # [rows with this count, count]
        for row, best, scores in zip(rows, tokens.tolist(), values.tolist(), strict=True):
            found[row] = [(token, score) for token, score in zip(best, scores, strict=True) if score != -math.inf]
    return found


def best_allowed(log_probs: Tensor, constraint: TokenConstraint, eos: int) -> list[tuple[int, float]]:
    """The best tokens that `constraint` allows, with log probabilities, best first; log_probs [vocabulary]."""
    scores, allowed = log_probs, constraint.allowed
    if not allowed:
        scores = log_probs.clone()
        scores[list(constraint.forbidden)] = -math.inf
        if constraint.unmet:
            if scores.argmax() == eos:
                allowed = constraint.unmet
            scores[eos] = -math.inf
    if allowed:
        found = list(zip(allowed, log_probs[list(allowed)].tolist(), strict=True))
        return sorted(found, key=lambda pair: -pair[1])[: constraint.count]
    values, tokens = scores.topk(min(constraint.count, len(scores)))
    pairs = zip(tokens.tolist(), values.tolist(), strict=True)
    return [(token, value) for token, value in pairs if value != -math.inf]
