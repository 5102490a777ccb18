"""pyproject.toml: What a wheel carries besides modules: every file that the packages read at run time."""

from __future__ import annotations

import tomllib
from glob import glob
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_package_data_names_every_file_beside_the_modules() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    carried = {
        folder / file
        for package, patterns in declared.items()
        for folder in [ROOT / package.replace(".", "/")]
        for pattern in patterns
        for file in glob(pattern, root_dir=folder, recursive=True)  # as setuptools does
    }
    found = {
        file
        for package in ("app", "model", "training")
        for file in (ROOT / package).rglob("*")
        if file.is_file() and file.suffix not in (".py", ".pyc", ".so") and "__pycache__" not in file.parts
    }
    assert found <= carried, sorted(str(file.relative_to(ROOT)) for file in found - carried)
