"""docs/text-on-its-way.md: the order of its functions, the policies, and the number of modules."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from shared_fixtures import SHIPPED, serving

from app.translation import policies

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "text-on-its-way.md").read_text(encoding="utf-8")
STEPS = re.findall(r"^\| \d+ \| `([\w/]+\.py)` `([\w.]+)` \|", PAGE, re.MULTILINE)
MAX_MODULES = 20


@pytest.mark.slow
def test_a_text_takes_the_steps_of_the_page_in_their_order() -> None:
    called: dict[tuple[str, str], None] = {}

    def note(frame: FrameType, event: str, argument: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            called.setdefault((path.relative_to(ROOT).as_posix(), frame.f_code.co_qualname))

    async def profile(function: Callable[[FrameType, str, Any], None] | None) -> None:
        sys.setprofile(function)  # of the event loop's thread

    with serving(SHIPPED / "en-fr") as service:
        assert service.run(service.state.deployments.current.engine.wait_started())
        service.run(profile(note))
        response = service.post("/translate", {"text": "The cat sleeps.", "source": "en", "target": "fr"})
        service.run(profile(None))
    assert response.json()["translations"][0]["text"] == "Le chat dort."
    assert [step for step in called if step in set(STEPS)] == STEPS


def test_the_path_has_few_modules() -> None:
    assert len(STEPS) > 10
    assert len({path for path, _ in STEPS}) <= MAX_MODULES


def test_the_page_has_the_policies_in_their_order() -> None:
    rows = re.findall(r"^\| (decoded|accepted) \| `(\w+)` \|", PAGE, re.MULTILINE)
    tables = {"decoded": policies.WHEN_DECODED, "accepted": policies.WHEN_ACCEPTED}
    assert rows == [(when, policy.__name__) for when, table in tables.items() for policy in table]
