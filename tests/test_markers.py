"""tests/conftest.py: tests that `make check` skips, by the markers of modules and those that fixtures bring."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.conftest import marks_of_module, pytest_collection_modifyitems, pytest_ignore_collect


@pytest.mark.parametrize(
    ("fixtures", "marks"),
    [
        ([], []),
        (["service", "browser"], ["browser"]),
        (["visit", "browser", "shipped_url"], ["browser", "bundle"]),
    ],
)
def test_marks_come_from_the_fixtures(fixtures: list[str], marks: list[str]) -> None:
    added = list[str]()
    marking: dict[str, Any] = {"add_marker": added.append, "get_closest_marker": lambda name: None}
    item = SimpleNamespace(path=Path("test_module.py"), fixturenames=fixtures, **marking)
    pytest_collection_modifyitems(cast(Any, [item]))
    assert sorted(added) == marks


@pytest.mark.parametrize(
    ("line", "marks"),
    [
        ("", set()),
        ("pytestmark = pytest.mark.slow", {"slow"}),
        ("pytestmark = [pytest.mark.slow, pytest.mark.bundle]", {"slow", "bundle"}),
        ('pytestmark = [\n    pytest.mark.slow,\n    pytest.mark.skipif(True, reason="none"),\n]', {"slow", "skipif"}),
        ("    pytestmark = pytest.mark.slow", set()),
    ],
)
def test_marks_of_a_module_are_read_from_its_line(tmp_path: Path, line: str, marks: set[str]) -> None:
    module = tmp_path / "test_module.py"
    module.write_text(f"import pytest\n\n{line}\n\n\ndef test_it() -> None:\n    assert pytest.mark.browser\n")
    assert marks_of_module(module) == marks


@pytest.mark.parametrize(
    ("expression", "mark", "ignored"),
    [
        ("not (slow or browser)", "slow", True),
        ("not (slow or browser)", "browser", True),
        ("not (slow or browser)", "bundle", None),
        ("not (browser)", "slow", None),
        ("not soak", "slow", None),
        ("slow", "slow", None),
        ("not (slow and bundle)", "slow", None),
    ],
)
def test_only_modules_excluded_as_a_whole_are_not_imported(
    tmp_path: Path, expression: str, mark: str, ignored: bool | None
) -> None:
    config = SimpleNamespace(getoption=lambda name: {"markexpr": expression}[name])
    module = tmp_path / "test_module.py"
    module.write_text(f"pytestmark = pytest.mark.{mark}\n")
    assert pytest_ignore_collect(module, cast(Any, config)) is ignored
