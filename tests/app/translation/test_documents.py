"""A document is translated however busy the engine is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable

import pytest

from app.errors import Overloaded
from app.translation.documents import MIN_PAUSE_S, retry_while_overloaded


def test_items_refused_for_overload_are_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    answers: list[Awaitable[int]] = []

    async def wait(seconds: float) -> None:
        if threading.get_ident() == here:
            waited.append(seconds)
        else:  # of a server that other tests have in a thread
            await sleep(seconds)

    async def busy(retry_after_s: float | None) -> int:
        raise Overloaded("busy", (), retry_after_s)

    async def free() -> int:
        return 7

    async def scenario() -> None:
        answers.extend([busy(5.0), busy(None), free()])
        assert await retry_while_overloaded(lambda: answers.pop(0)) == 7

    here, sleep = threading.get_ident(), asyncio.sleep
    with monkeypatch.context() as patched:
        patched.setattr("asyncio.sleep", wait)
        asyncio.run(scenario())
    assert waited == [5.0, MIN_PAUSE_S]
