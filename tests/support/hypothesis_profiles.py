"""The number of examples of property tests, and their seed."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings

# Durations on a busy machine prove nothing. CI draws the same examples every time, so that only a change makes it fail.
# Elsewhere they are random, to find what no run has tried. `make check` draws a fifth of them.
settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "local")
settings.register_profile("fast", settings.get_profile(settings.get_current_profile_name()), max_examples=20)


def draw_examples(count: int, **options: Any) -> settings:
    """Settings for `count` examples at Hypothesis's usual 100 per test, and in proportion under other profiles."""
    profile = settings.get_profile(settings.get_current_profile_name())
    return settings(max_examples=max(1, count * profile.max_examples // 100), **options)
