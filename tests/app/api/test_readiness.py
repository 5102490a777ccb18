"""What /ready depends on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from app.api.readiness import check_ready
from app.errors import Unavailable
from app.runtime.shutdown import Shutdown

LOAD = SimpleNamespace(current=lambda: 1.5)
ENGINE: Any = SimpleNamespace(ready=True, failure=None, metrics=SimpleNamespace(load=LOAD))
"""A saturated engine."""


def test_service_that_shuts_down_is_not_ready_but_a_replaced_process_answers_for_the_service() -> None:
    with pytest.raises(Unavailable, match="shutting down"):
        check_ready(ENGINE, Shutdown(begun=True))
    check_ready(ENGINE, Shutdown(begun=True, is_replaced=True))


def test_saturated_service_is_ready_but_for_those_who_ask_strictly() -> None:
    check_ready(ENGINE, Shutdown())
    with pytest.raises(Unavailable, match=r"its load is 1\.50"):
        check_ready(ENGINE, Shutdown(), strict=True)
