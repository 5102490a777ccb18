"""Setup for every test run: markers by fixture, and fixtures."""

from __future__ import annotations

import gc
import os
import re
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis_profiles  # noqa: F401  which loads the profile
import pytest


def interrupt(number: int, frame: object) -> None:
    """What Python does at SIGINT by itself.

    asyncio.run replaces Python's own handler; to put it back, `signal` makes the repr of all that the run returned.
    """
    raise KeyboardInterrupt


# Shells start background processes with SIGINT ignored, and every command that a test interrupts would inherit that.
signal.signal(signal.SIGINT, interrupt)
# Models that this user has installed would take the place of tests' bundles.
os.environ["INTERLINEAR_MODELS_DIR"] = str(Path(tempfile.gettempdir(), "interlinear-tests-have-no-models"))
MARKED_BY_FIXTURE = {"browser": "browser", "shipped_url": "bundle", "shipped_en_fr": "bundle", "run_folder": "slow"}
"""Fixture to marker: it goes on each test that uses the fixture, directly or through another one."""


def marks_of_module(path: Path) -> set[str]:
    """The markers that a module gives all of its tests by its line `pytestmark = `, read without importing it."""
    written = re.search(r"^pytestmark = (\[.*?\]|.*?)$", path.read_text(encoding="utf-8"), re.M | re.S)
    return set(re.findall(r"pytest\.mark\.(\w+)", written[1])) if written else set()


def pytest_configure(config: pytest.Config) -> None:
    """Loads the fixtures, but not where pytest-xdist only hands tests out: their imports take four seconds."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.pluginmanager.import_plugin("shared_fixtures")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skips the import of modules that `-m "not (a or b)"` deselects as a whole: imports take much of the time."""
    left_out = re.fullmatch(r"not \(([\w ]+)\)", config.getoption("markexpr"))
    marks = left_out[1].split(" or ") if left_out else []
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return (bool(marks) and is_test and not marks_of_module(collection_path).isdisjoint(marks)) or None


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are cores: tests wait for servers, browsers and clocks much of the time."""
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collects no garbage meanwhile, and never looks at what was imported and collected again."""
    gc.disable()
    yield
    gc.enable()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before pytest selects by -m
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        used = getattr(item, "fixturenames", ())
        for mark in {mark for name, mark in MARKED_BY_FIXTURE.items() if name in used}:
            item.add_marker(mark)
    # Quick tests come last: with them, all processes of pytest-xdist are busy to the end.
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
