"""requirements.lock: The lock files match pyproject.toml, with hashes, and contain no URL."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SERVING = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["scale"]]
EVERYTHING = [*SERVING, *PROJECT["optional-dependencies"]["train"], *PROJECT["optional-dependencies"]["dev"]]


def locked(name: str) -> dict[str, str]:
    """The version of each package in the file. Fails unless each has a hash."""
    text = (ROOT / name).read_text(encoding="utf-8")
    entries = re.findall(
        r"^([a-z0-9.-]+)==([^ ]+)(?: ;[^\\\n]*)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", text, re.M
    )
    assert len(entries) == text.count("==") - text.count('== "'), "a line is no package with hashes"
    return {package: version for package, version, _ in entries}


@pytest.mark.parametrize(
    ("name", "wanted"), [("requirements.lock", SERVING), ("requirements-dev.lock", EVERYTHING)], ids=["serving", "all"]
)
def test_lock_file_satisfies_every_dependency(name: str, wanted: list[str]) -> None:
    versions = locked(name)
    for requirement in map(Requirement, wanted):
        package = canonicalize_name(requirement.name)
        if package != "torch":
            assert package in versions, f"{name} has no {package}: make lock"
            assert requirement.specifier.contains(versions[package]), (
                f"{name} has {package} {versions[package]}: make lock"
            )
    assert "torch" not in versions


def test_node_packages_are_locked_by_hash_without_a_url() -> None:
    text = (ROOT / "tests" / "package-lock.json").read_text(encoding="utf-8")
    packages: dict[str, dict[str, str]] = json.loads(text)["packages"]
    wanted = json.loads((ROOT / "tests" / "package.json").read_text(encoding="utf-8"))["dependencies"]
    assert {name: packages[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    assert all(package["integrity"].startswith("sha512-") for name, package in packages.items() if name)
    assert "://" not in text


def test_both_lock_files_have_the_same_versions() -> None:
    assert locked("requirements.lock").items() <= locked("requirements-dev.lock").items()


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_lock_file_contains_no_url(name: str) -> None:
    assert (
        re.findall(r"\w+://|--(?:index|extra-index|find|trusted)[\w-]*", (ROOT / name).read_text(encoding="utf-8"))
        == []
    )
