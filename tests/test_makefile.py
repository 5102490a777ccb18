"""Makefile: The Makefile, by what `make -n` would run in a fresh checkout whose path contains a space."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
MAKE = shutil.which("make") or "make"


def said(folder: Path, *words: str, **environment: str) -> str:
    """The commands that make would run, and its messages."""
    checkout = folder / "a checkout"
    checkout.mkdir()
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "requirements-dev.lock"):
        shutil.copy(ROOT / name, checkout)
    # Not as a part of the make that runs the tests, which would hand down its own words and say where it goes.
    inherited = ("MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "PYTHON")
    ours = {name: value for name, value in os.environ.items() if name not in inherited}
    done = subprocess.run([MAKE, "-n", *words], cwd=checkout, env=ours | environment, capture_output=True, text=True)
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", ["python3", "python3.11", "python3.12", "python3.13", "python3.14"])
def test_python_is_found_under_any_of_its_names(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to(sys.executable)
    assert f"\n{name} -m venv .venv\n" in said(tmp_path, "serve", PATH=str(tmp_path))


@pytest.mark.parametrize("name", ["training", "engine", "serving", "gpu"])
def test_benchmark_gets_its_quick_option_if_it_has_one(tmp_path: Path, name: str) -> None:
    has = '"--short"' in (ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
    *_, line = said(tmp_path, "bench", f"BENCHMARK={name}", f"PYTHON={sys.executable}").splitlines()
    assert f"-m benchmarks.{name} " in line
    assert ("--short" in line) == has
