"""tests/conftest.py: tests that `make check` skips: the markers that tests/conftest.py adds."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from conftest import MARKED_BY_MODULE, pytest_collection_modifyitems, pytest_ignore_collect

TESTS = Path(__file__).parent


def test_every_marked_module_exists() -> None:
    assert set().union(*MARKED_BY_MODULE.values()) <= {path.stem for path in TESTS.glob("test_*.py")}


@pytest.mark.parametrize(
    ("module", "fixtures", "marks"),
    [
        ("test_decoding", [], []),
        ("test_api_pivot", ["service", "browser"], ["browser"]),
        ("test_page_for_all", ["visit", "browser", "shipped_url"], ["browser", "bundle"]),
        ("test_optim_loop", [], ["slow"]),
        ("test_invariance", [], ["bundle", "slow"]),
    ],
)
def test_marks_come_from_the_module_and_the_fixtures(module: str, fixtures: list[str], marks: list[str]) -> None:
    added = list[str]()
    marking: dict[str, Any] = {"add_marker": added.append, "get_closest_marker": lambda name: None}
    item = SimpleNamespace(path=TESTS / f"{module}.py", fixturenames=fixtures, **marking)
    pytest_collection_modifyitems(cast(Any, [item]))
    assert sorted(added) == marks


@pytest.mark.parametrize(
    ("expression", "module", "ignored"),
    [
        ("not (slow or browser)", "test_optim_loop", True),
        ("not (slow or browser)", "test_page_script", True),
        ("not (slow or browser)", "test_decoding", None),
        ("not (browser)", "test_optim_loop", None),
        ("not soak", "test_optim_loop", None),
        ("slow", "test_optim_loop", None),
        ("not (slow and bundle)", "test_optim_loop", None),
    ],
)
def test_only_modules_excluded_as_a_whole_are_not_imported(expression: str, module: str, ignored: bool | None) -> None:
    config = SimpleNamespace(getoption=lambda name: {"markexpr": expression}[name])
    assert pytest_ignore_collect(TESTS / f"{module}.py", cast(Any, config)) is ignored
