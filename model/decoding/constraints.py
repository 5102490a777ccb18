"""Selects the best tokens that a demand allows, from one step's log probabilities."""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor

from model.hypothesis import Demand


def best_by_row(log_probs: Tensor, demands: Mapping[int, Demand], eos: int) -> dict[int, list[tuple[int, float]]]:
    """The result of `allowed_best` for each row that has a demand; log_probs [rows, vocabulary].

    Rows whose token is given, and beams without further constraints, are handled together, since a GPU answers one
    query as slowly as many.
    """
    given = {row: demand.only[0] for row, demand in demands.items() if len(demand.only) == 1}
    scores = log_probs[list(given), list(given.values())].tolist() if given else []
    found = {row: [(token, score)] for (row, token), score in zip(given.items(), scores, strict=True)}
    for row, demand in demands.items():
        if row not in given and not demand.allows_all:
            found[row] = allowed_best(log_probs[row], demand, eos)
    for count in {demand.count for demand in demands.values() if demand.allows_all}:
        rows = [row for row, demand in demands.items() if demand.allows_all and demand.count == count]
        values, tokens = log_probs[rows].topk(min(count, log_probs.size(-1)))  # [rows of these, count]
        for row, best, scores in zip(rows, tokens.tolist(), values.tolist(), strict=True):
            found[row] = [(token, score) for token, score in zip(best, scores, strict=True) if score != -math.inf]
    return found


def allowed_best(log_probs: Tensor, demand: Demand, eos: int) -> list[tuple[int, float]]:
    """The best tokens that `demand` allows, with their log probabilities, best first; log_probs [vocabulary]."""
    scores, only = log_probs, demand.only
    if not only:
        scores = log_probs.clone()
        scores[list(demand.forbidden)] = -math.inf
        if demand.owed:
            if scores.argmax() == eos:
                only = demand.owed
            scores[eos] = -math.inf
    if only:
        found = [(token, float(log_probs[token])) for token in only]
        return sorted(found, key=lambda pair: -pair[1])[: demand.count]
    values, tokens = scores.topk(min(demand.count, len(scores)))
    pairs = zip(tokens.tolist(), values.tolist(), strict=True)
    return [(token, value) for token, value in pairs if value != -math.inf]
