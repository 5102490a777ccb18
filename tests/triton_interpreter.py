"""Triton's interpreter in half of its time, for the process that imports this.

It puts its own functions in the place of Triton's at each call of a device function, and back after it. Once is enough
where nothing else uses Triton.
"""

from __future__ import annotations

import functools
from typing import Any

from triton.runtime import interpreter

_patch = interpreter._patch_lang


@functools.cache
def _patched_for_good(function: Any) -> Any:
    scope = _patch(function)
    scope.restore = lambda: None
    return scope


interpreter._patch_lang = _patched_for_good
