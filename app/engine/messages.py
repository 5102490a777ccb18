"""What became of a sentence, as plain values: so it comes from a worker, and so it lies in the cache.

(tokens, log_probs, stopped, aligned, looked), the last two as bytes of NUMBER and FLOAT; of a beam there are several,
the best first.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from model.hypothesis import Hypothesis

NUMBER, FLOAT = "i", "f"
"""As `array` names them."""


def told(hypothesis: Hypothesis) -> list[tuple[Any, ...]]:
    """All but its attention."""
    return [_told(found) for found in hypothesis.finished or (hypothesis,)]


def become(hypothesis: Hypothesis, found: Sequence[tuple[Any, ...]]) -> None:
    """Makes of `hypothesis`, which has only wishes, what was `told` of it or of one with the same wishes."""
    _become(hypothesis, *found[0])
    if hypothesis.width > 1:
        hypothesis.finished = [hypothesis, *(_become(hypothesis.started_again(), *other) for other in found[1:])]


def _told(h: Hypothesis) -> tuple[Any, ...]:
    aligned, looked = array(NUMBER, h.aligned).tobytes(), array(FLOAT, h.looked).tobytes()
    return h.tokens, h.log_probs, h.finish_reason == "stop", aligned, looked


def _become(
    hypothesis: Hypothesis, tokens: list[int], log_probs: list[float], stopped: bool, aligned: bytes, looked: bytes
) -> Hypothesis:
    hypothesis.tokens, hypothesis.log_probs = tokens, log_probs
    hypothesis.finish_reason = "stop" if stopped else "length"
    hypothesis.aligned, hypothesis.looked = array(NUMBER, aligned), array(FLOAT, looked)
    return hypothesis
