"""How many replicas to run, by the load that each reports (app/runtime/load.py): Ray Serve calls `by_load`.

Imports only the standard library: Ray's controller, which runs it, is not a service.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

LOAD = "interlinear_load"
"""The name under which replicas report their load."""
TARGET_LOAD = 0.65
"""The load of each replica after a scale-out."""
MAX_LOAD, MIN_LOAD = 0.75, 0.55
"""A mean load above MAX_LOAD adds replicas. Replicas go only if the others then have less than MIN_LOAD. What is asked
for cannot both add and remove: with the number that TARGET_LOAD asks for, it lies between the two."""
SETTLE_S = 20.0
"""After a scale-out, how long the load still shows the time before it: its window of 10 s, the time until it is
reported, and the balancer's until it shares the connections out anew."""


class Sample(Protocol):
    """A figure at a time."""

    value: float


class Context(Protocol):
    """What Ray Serve tells of a deployment: its ray.serve.config.AutoscalingContext."""

    current_num_replicas: int
    target_num_replicas: int
    current_time: float | None
    last_scale_up_time: float | None
    policy_state: dict[str, Any]

    @property
    def raw_metrics(self) -> Mapping[str, Mapping[Any, Sequence[Sample]]] | None: ...


def by_load(context: Context) -> tuple[int, dict[str, Any]]:
    """The number of replicas that should run, and the policy's state, which is empty. Ray Serve adds its own delays and
    bounds.

    Counts each replica's latest load, which is a mean already.
    """
    target = context.target_num_replicas
    series = (context.raw_metrics or {}).get(LOAD, {})
    load = sum(samples[-1].value for samples in series.values() if samples)
    if load > MAX_LOAD * target and not _is_settling(context):
        return math.ceil(load / TARGET_LOAD), {}
    # Rounded, or a load of exactly 0.55 a replica would need one more.
    return min(target, max(1, math.ceil(round(load / MIN_LOAD, 6)))), {}


def _is_settling(context: Context) -> bool:
    """Whether replicas have been added that do not take their share yet."""
    if context.current_num_replicas < context.target_num_replicas:
        return True
    if context.last_scale_up_time is None or context.current_time is None:
        return False
    return context.current_time - context.last_scale_up_time < SETTLE_S
