"""The houses and who may call whom: the design's rules, read off the source with `ast`, not off what it does."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HOUSES = ("app", "model", "training")
VAGUE_NAMES = {"util", "utils", "helper", "helpers", "common", "misc"}


def python_files(*folders: str) -> list[Path]:
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    assert files, f"no Python file under {folders}"
    return files


def imported_names(source: str, package: str = "") -> Iterator[str]:
    """The dotted name of everything that `source`, a module of `package`, imports, wherever in it the import stands.

    `from a import b` is "a.b", whether b is a module or not; `from . import b` is resolved against `package`.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str))


def used_names(source: str) -> set[str]:
    """Every dotted name in `source` that is read, such as "os.environ" or "torch.load"."""
    return {ast.unparse(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}


def imports_of(path: Path) -> set[str]:
    return set(imported_names(path.read_text(encoding="utf-8"), ".".join(path.relative_to(ROOT).parent.parts)))


def distribution_name(requirement: str) -> str:
    """The normalised name in a requirement such as "prometheus_client>=0.21"."""
    return re.split(r"[^\w.-]", requirement)[0].lower().replace("_", "-")


def offences(files: list[Path], forbidden: set[str]) -> list[str]:
    """One line, `file: import`, for each import by `files` of a module in `forbidden` or of anything in it."""
    return [
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        for name in sorted(imports_of(path))
        if any(f"{name}.".startswith(f"{module}.") for module in forbidden)
    ]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import training", "training"),
        ("import training.cli.train as t", "training.cli.train"),
        ("from training.cli import train", "training.cli.train"),
        ("def f():\n    from training.cli.train import main", "training.cli.train.main"),
        ("from ...training.cli import train", "training.cli.train"),
        ("from .. import settings", "app.settings"),
        ("from .translate import router", "app.api.translate.router"),
        ("import importlib\nimportlib.import_module('training.cli.train')", "training.cli.train"),
        ("__import__('training')", "training"),
    ],
)
def test_every_form_of_import_is_seen(source: str, found: str) -> None:
    assert found in set(imported_names(source, package="app.api"))


@pytest.mark.parametrize(
    ("house", "forbidden"),
    [
        ("app", {"training", "benchmarks", "tests"}),
        ("training", {"app", "benchmarks", "tests"}),
        ("model", {"app", "training", "benchmarks", "tests"}),
    ],
)
def test_no_house_calls_one_it_may_not(house: str, forbidden: set[str]) -> None:
    assert offences(python_files(house), forbidden) == []


def test_what_routes_are_made_of_knows_no_route() -> None:
    made = [path for path in python_files("app/api") if "APIRouter(" in path.read_text(encoding="utf-8")]
    routes = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in made}
    files = [
        path for path in python_files("app") if not path.is_relative_to(ROOT / "app" / "api") and path.name != "main.py"
    ]
    assert len(routes) > 8
    assert offences(files, routes | {"app.api.dependencies", "app.main"}) == ["app/__main__.py: app.main.create_app"]


@pytest.mark.parametrize(
    "name",
    [
        "engine/cache",
        "services/background_jobs",
        "translation/documents",
        "services/glossary_store",
        "http/api_keys",
        "translation/attention_svg",
        "runtime/rate_limits",
        "runtime/byte_budgets",
    ],
)
def test_what_works_for_requests_knows_none(name: str) -> None:
    assert (
        offences(
            [ROOT / "app" / f"{name}.py"],
            {"fastapi", "starlette", "app.http.json_body", "app.http.auth", "app.http.forms"},
        )
        == []
    )


def test_the_model_knows_no_web_no_command_line_and_no_environment() -> None:
    forbidden = {"fastapi", "starlette", "pydantic", "pydantic_settings", "uvicorn", "argparse", "typer", "click"}
    assert offences(python_files("model"), forbidden | {"os.environ", "os.getenv"}) == []
    for path in python_files("model"):
        assert used_names(path.read_text(encoding="utf-8")).isdisjoint({"os.environ", "os.getenv", "sys.argv"}), path


def test_what_serves_never_loads_a_pickle() -> None:
    assert offences(python_files("app", "model"), {"pickle", "cloudpickle", "dill", "shelve", "torch.load"}) == []
    for path in python_files("app", "model"):
        assert "torch.load" not in used_names(path.read_text(encoding="utf-8")), path


def test_the_front_loads_no_torch() -> None:
    program = "import sys, app.main, app.__main__, app.cli.translate; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0


def test_what_serves_imports_only_what_the_container_installs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {distribution_name(requirement) for requirement in project["dependencies"]}
    owners = packages_distributions()
    allowed = {name for name in owners if declared & {distribution_name(owner) for owner in owners[name]}}
    allowed |= {"starlette", "pydantic_core"}  # what fastapi and pydantic are layers over, and re-export
    allowed |= {*HOUSES, *sys.stdlib_module_names}
    names = {name.split(".")[0] for path in python_files("app", "model") for name in imports_of(path)}
    assert names - allowed == set()


def test_a_file_says_in_its_name_what_it_is_for() -> None:
    files = python_files(*HOUSES, "benchmarks", "tests")
    assert [
        path for path in files if VAGUE_NAMES & {path.stem.removeprefix("test_"), *path.relative_to(ROOT).parts[:-1]}
    ] == []


def test_every_package_of_a_house_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in python_files(*HOUSES)}
    assert found == set(project["tool"]["setuptools"]["packages"])
