"""Triton's interpreter in half of its time, for the process that imports this.

It puts its own functions in the place of Triton's at each call of a device function, and back after it. Once is enough
where nothing else uses Triton.
"""

from __future__ import annotations

import functools
from typing import Any

from triton.language import core
from triton.runtime import interpreter

_patch = interpreter._patch_lang


@functools.cache
def _patched_for_good(function: Any) -> Any:
    scope = _patch(function)
    scope.restore = lambda: None
    return scope


interpreter._patch_lang = _patched_for_good

# It also builds the same types and shapes anew for each number that it computes.

_np_dtype = interpreter._get_np_dtype
_np_dtypes: dict[str, Any] = {}


def _np_dtype_once(of: Any) -> Any:
    name = of.scalar.name
    if name not in _np_dtypes:
        _np_dtypes[name] = _np_dtype(of)
    return _np_dtypes[name]


_block_type = core.block_type.__init__
_block_types: dict[tuple[Any, ...], dict[str, Any]] = {}


def _block_type_once(self: Any, element: Any, shape: Any) -> None:
    key = element.name, *(core._unwrap_if_constexpr(size) for size in shape)
    if key not in _block_types:
        _block_type(self, element, shape)
        _block_types[key] = dict(vars(self))
    vars(self).update(_block_types[key])


_tensor = core.tensor.__init__
_shapes: dict[str, dict[str, Any]] = {}


def _tensor_once(self: Any, handle: Any, type: Any) -> None:
    if type.name not in _shapes:
        _tensor(self, handle, type)
        _shapes[type.name] = {name: vars(self)[name] for name in ("shape", "numel")}
    vars(self).update(_shapes[type.name], handle=handle, type=type, dtype=type.scalar)


interpreter._get_np_dtype = _np_dtype_once
core.block_type.__init__ = _block_type_once
core.tensor.__init__ = _tensor_once
