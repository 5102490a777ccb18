"""app/, model/, training/: which package may import which, checked on the syntax trees of the sources."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from setuptools import find_packages

ROOT = Path(__file__).resolve().parents[1]
TOP_PACKAGES = ("app", "model", "training")
VAGUE_NAMES = {"util", "utils", "helper", "helpers", "common", "misc"}


def python_files(*folders: str) -> list[Path]:
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    assert files, f"no Python file under {folders}"
    return files


def imported_names(source: str, package: str = "") -> Iterator[str]:
    """Yields the dotted name of everything that `source`, a module of `package`, imports, at any depth.

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


@functools.cache
def names_used_by(path: Path) -> set[str]:
    """All dotted names in a module, such as "os.environ" or "torch.load"."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)}


@functools.cache
def imports_of(path: Path) -> set[str]:
    return set(imported_names(path.read_text(encoding="utf-8"), ".".join(path.relative_to(ROOT).parent.parts)))


def distribution_name(requirement: str) -> str:
    """The normalised name in a requirement such as "prometheus_client>=0.21"."""
    return re.split(r"[^\w.-]", requirement)[0].lower().replace("_", "-")


def imports_among(files: list[Path], forbidden: set[str]) -> list[str]:
    """Lists each import by `files` of a module in `forbidden`, or of anything in one, as a line `file: import`."""
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
def test_every_form_of_import_is_detected(source: str, found: str) -> None:
    assert found in set(imported_names(source, package="app.api"))


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("app", {"training", "benchmarks", "tests"}),
        ("training", {"app", "benchmarks", "tests"}),
        ("model", {"app", "training", "benchmarks", "tests"}),
    ],
)
def test_no_top_level_package_imports_a_forbidden_one(package: str, forbidden: set[str]) -> None:
    assert imports_among(python_files(package), forbidden) == []


def test_only_routes_import_routes() -> None:
    made = [path for path in python_files("app/api") if "APIRouter(" in path.read_text(encoding="utf-8")]
    routes = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in made}
    files = [
        path for path in python_files("app") if not path.is_relative_to(ROOT / "app" / "api") and path.name != "main.py"
    ]
    assert len(routes) > 8
    assert imports_among(files, routes | {"app.api.admission", "app.main"}) == [
        "app/__main__.py: app.main.create_app",
        "app/__main__.py: app.main.server_options",
        "app/replica.py: app.main.create_app",
        "app/replica.py: app.main.server_options",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "engine/cache",
        "storage/background_jobs",
        "translation/documents",
        "storage/glossary_store",
        "http/api_keys",
        "translation/attention_svg",
        "runtime/rate_limits",
        "runtime/byte_budgets",
    ],
)
def test_serving_code_below_http_imports_no_web_framework(name: str) -> None:
    assert (
        imports_among(
            [ROOT / "app" / f"{name}.py"],
            {"fastapi", "starlette", "app.http.json_body", "app.http.auth", "app.http.forms"},
        )
        == []
    )


def test_model_imports_no_web_framework_or_command_line_and_reads_no_environment() -> None:
    forbidden = {"fastapi", "starlette", "pydantic", "pydantic_settings", "uvicorn", "argparse", "typer", "click"}
    assert imports_among(python_files("model"), forbidden | {"os.environ", "os.getenv"}) == []
    # The cache folder depends on the environment.
    for path in set(python_files("model")) - {ROOT / "model" / "machine.py"}:
        assert names_used_by(path).isdisjoint({"os.environ", "os.getenv", "sys.argv"}), path


@pytest.mark.slow
def test_serving_code_never_loads_a_pickle() -> None:
    assert imports_among(python_files("app", "model"), {"pickle", "cloudpickle", "dill", "shelve", "torch.load"}) == []
    for path in python_files("app", "model"):
        assert "torch.load" not in names_used_by(path), path


ORDER = {
    "app.errors": "",
    "app.runtime": "app.errors model.machine",
    "app.settings": "app.runtime app.errors model.machine model.published",
    "app.server": "app.settings app.runtime app.errors",
    "app.markup": "",
    "app.text": "app.markup app.settings app.errors model.languages model.machine model.normalisation model.scripts"
    " model.shared_file",
    "app.formats": "app.text app.markup model.languages",
    "app.documents": "app.formats app.markup app.runtime app.errors model.machine model.quality",
    "app.engine": "app.runtime app.errors model",
    "app.llm": "app.settings app.runtime app.errors model.languages",
    "app.translation": "app.llm app.engine app.documents app.formats app.text app.markup app.settings app.runtime"
    " app.errors model",
    "app.storage": "app.translation app.text app.settings app.runtime app.errors model",
    "app.services": "app.translation app.llm app.engine app.documents app.formats app.text app.markup app.settings"
    " app.runtime app.errors model",
    "app.published": "app.services app.engine app.settings app.runtime app.errors model",
    "app.cli": "app.published app.services app.storage app.translation app.llm app.engine app.formats app.text"
    " app.markup app.settings app.runtime app.errors model",
    "app.bulk": "app.cli app.services app.translation app.engine app.formats app.text app.markup app.settings"
    " app.runtime app.errors model",
    "app.http": "app.engine app.server app.settings app.runtime app.errors model.machine",
    "app.api": "app.http app.published app.services app.storage app.translation app.engine app.documents app.formats"
    " app.text app.markup app.server app.settings app.runtime app.errors model",
    "app.cluster": "app.bulk app.cli app.api app.http app.server app.engine app.settings app.runtime app.errors model",
    "app.doctor": "app.published app.services app.storage app.http app.server app.engine app.settings app.runtime"
    " app.errors model",
    "app.main": "app model",
    "app.replica": "app model",
    "app.__main__": "app model",
    "training.file_lock": "",
    "training.launch": "",
    "training.signals": "",
    "training.protobuf": "",
    "training.download": "training.file_lock",
    "training.options": "",
    "training.command_line": "training.options training.launch training.signals",
    "training.process_map": "model.machine",
    "training.compute": "model",
    "training.corpora": "training.download training.file_lock training.process_map model",
    "training.cleaning": "training.corpora training.file_lock training.process_map model",
    "training.data": "training.cleaning training.corpora training.options training.protobuf training.file_lock"
    " training.process_map model",
    "training.evaluation": "training.data training.cleaning training.corpora training.compute training.options"
    " training.file_lock training.process_map model",
    "training.align": "training.evaluation training.compute training.options training.file_lock model",
    "training.optim": "training.evaluation training.data training.cleaning training.corpora training.compute"
    " training.options training.signals training.launch training.file_lock training.process_map model",
    "training.export": "training.optim training.align training.evaluation training.data training.cleaning"
    " training.corpora training.compute training.options training.launch training.protobuf training.file_lock"
    " training.process_map model",
    "training.importing": "training.export training.evaluation training.corpora training.compute"
    " training.command_line training.options training.protobuf training.launch training.download training.file_lock"
    " model",
    "training.synthetic": "training.optim training.evaluation training.data training.cleaning training.corpora"
    " training.compute training.options training.file_lock training.process_map model",
    "training.adapt": "training.synthetic training.export training.optim training.align training.evaluation"
    " training.data training.cleaning training.corpora training.compute training.options training.file_lock"
    " training.process_map model",
    "training.pipeline": "training.adapt training.synthetic training.export training.optim training.evaluation"
    " training.data training.cleaning training.corpora training.compute training.options training.signals"
    " training.launch training.file_lock training.process_map model",
    "training.cli": "training.importing training.pipeline training.adapt training.synthetic training.export"
    " training.optim training.align training.evaluation training.data training.cleaning training.corpora"
    " training.compute training.command_line training.options training.signals training.launch training.file_lock"
    " training.process_map model",
    "training.__main__": "training model",
}
"""Bottom up: which of our modules each package, or module beside the packages, may import."""


RAY_FILES = {"app/replica.py", "app/cluster/bulk_ray.py"}
"""The files that may import Ray; the other modules of app.cluster are tested without it."""


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def unit(name: str) -> str:
    """The package, or module beside the packages, that contains `name`."""
    return ".".join(name.split(".")[:2])


def own_imports(path: Path) -> set[str]:
    """What a file imports from app, model and training: packages, modules or names."""
    return {name for name in imports_of(path) if name.split(".")[0] in TOP_PACKAGES}


def forbidden_imports(path: Path) -> list[str]:
    """Lists the imports by `path` that `ORDER` does not allow, a line each."""
    here = unit(module_name(path))
    allowed = [here, *ORDER[here].split()]
    return [
        f"{path.relative_to(ROOT)} imports {name}, and {here} may not"
        for name in sorted(own_imports(path))
        if not any(f"{name}.".startswith(f"{one}.") for one in allowed)
    ]


def test_only_the_modules_that_run_in_rays_processes_import_ray() -> None:
    """It is 466 MB, which `make serve` does without, and its control plane is pickles; see docs/ray.md."""
    files = python_files(*TOP_PACKAGES)
    assert {line.split(":")[0] for line in imports_among(files, {"ray"})} <= RAY_FILES
    # Nor does anything import those, but Ray, and `translate --ray` when it is given.
    assert imports_among(files, {"app.replica", "app.cluster.bulk_ray"}) == [
        "app/__main__.py: app.cluster.bulk_ray.on_cluster"
    ]


@pytest.mark.slow
def test_bulk_translation_loads_pyarrow_only_where_it_is_needed() -> None:
    assert loaded_by({"app.bulk.command"}) & {"pyarrow", "ray", "torch"} == set()


def test_package_imports_only_packages_below_it() -> None:
    files = [path for path in python_files("app", "training") if module_name(path) not in TOP_PACKAGES]
    assert {unit(module_name(path)) for path in files} == set(ORDER)
    assert [line for path in files for line in forbidden_imports(path)] == []


def test_the_order_is_bottom_up() -> None:
    order = list(ORDER)
    for number, name in enumerate(order):
        below = {one for one in ORDER[name].split() if one.split(".")[0] != "model" and one not in TOP_PACKAGES}
        assert below <= set(order[:number]), name


def test_no_packages_import_each_other_in_a_circle() -> None:
    """`ORDER` covers app and training; this test covers model as well."""
    needs: dict[str, set[str]] = {}
    for path in python_files(*TOP_PACKAGES):
        here = unit(module_name(path))
        needs.setdefault(here, set()).update(unit(name) for name in own_imports(path))
        needs[here].discard(here)
    while leaves := [name for name in needs if not needs[name] & needs.keys()]:
        for name in leaves:
            del needs[name]
    assert needs == {}


@pytest.mark.parametrize(
    "path", [path for path in python_files("app", "training") if path.name == "__init__.py"], ids=module_name
)
def test_package_docstring_says_what_it_may_import(path: Path) -> None:
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert "Imports" in said or len(path.relative_to(ROOT).parts) > 3


def modules_of(package: str) -> set[str]:
    return {module_name(path) for path in python_files(package.replace(".", "/"))}


def worker_modules() -> set[str]:
    """The modules of app.engine that only the worker process needs: worker, and what it alone imports."""
    importers: dict[str, set[str]] = {name: set() for name in modules_of("app.engine") - {"app.engine"}}
    for path in python_files("app"):
        for name in imports_of(path):
            for module in importers.keys() & {name, name.rpartition(".")[0]}:
                importers[module].add(module_name(path))
    found = {"app.engine.worker"}
    while more := {name for name, by in importers.items() if by and by <= found} - found:
        found |= more
    return found


def loaded_by(modules: set[str]) -> set[str]:
    """The top-level packages that a new process has loaded after importing `modules`."""
    program = f"import sys, {', '.join(sorted(modules))}; print(*{{name.split('.')[0] for name in sys.modules}})"
    command = [sys.executable, "-c", program]
    return set(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split())


WEB = {"fastapi", "starlette", "pydantic", "uvicorn"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("app.markup", {*WEB, "torch", "numpy"}),
        ("app.text", {"fastapi", "starlette", "uvicorn", "torch"}),
        ("app.formats", {"fastapi", "starlette", "uvicorn", "torch"}),
        ("app.translation", {"fastapi", "starlette", "uvicorn", "torch"}),
    ],
)
def test_package_loads_only_its_own_dependencies(package: str, forbidden: set[str]) -> None:
    assert loaded_by(modules_of(package)) & forbidden == set()


@pytest.mark.slow
def test_engine_loads_no_web_framework_and_its_front_half_no_torch() -> None:
    front = modules_of("app.engine") - worker_modules()
    assert {"app.engine.engine", "app.engine.cache", "app.engine.scheduler"} <= front
    assert loaded_by(front) & {*WEB, "torch"} == set()
    assert loaded_by(modules_of("app.engine")) & WEB == set()


@pytest.mark.slow
def test_front_process_loads_no_torch() -> None:
    assert "torch" not in loaded_by({"app.main", "app.__main__", "app.cli.translate"})


@pytest.mark.slow
def test_serving_code_imports_only_what_the_container_installs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = [*project["dependencies"], *project["optional-dependencies"]["scale"]]  # the container has both
    declared = {distribution_name(requirement) for requirement in required}
    owners = packages_distributions()
    allowed = {name for name in owners if declared & {distribution_name(owner) for owner in owners[name]}}
    allowed |= {"starlette", "pydantic_core"}  # what fastapi and pydantic are layers over, and re-export
    allowed |= {*TOP_PACKAGES, *sys.stdlib_module_names}
    files = [path for path in python_files("app", "model") if str(path.relative_to(ROOT)) not in RAY_FILES]
    names = {name.split(".")[0] for path in files for name in imports_of(path)}
    # The extras `bulk` and `mcp`; what PyTorch brings for CUDA
    assert names - allowed == {"pyarrow", "mcp", "triton"}


def test_redis_is_imported_only_if_there_is_a_store() -> None:
    assert {line.split(":")[0] for line in imports_among(python_files(*TOP_PACKAGES), {"redis"})} == {
        "app/storage/store_connection.py",
        "app/storage/store_valkey.py",
    }
    modules = {"app.storage.store_connection", "app.storage.store_valkey", "app.storage.memory_valkey"}
    assert sorted(imports_among(python_files(*TOP_PACKAGES), modules)) == [
        "app/doctor/report.py: app.storage.store_connection.server_time",
        "app/main.py: app.storage.memory_valkey.ValkeyLog",
        "app/main.py: app.storage.store_valkey.ValkeyStore",
        "app/storage/memory_valkey.py: app.storage.store_valkey.ValkeyStore",
        "app/storage/store_valkey.py: app.storage.store_connection.Connection",
    ]


def test_file_name_says_what_the_file_is_for() -> None:
    files = python_files(*TOP_PACKAGES, "benchmarks", "tests")
    assert [
        path for path in files if VAGUE_NAMES & {path.stem.removeprefix("test_"), *path.relative_to(ROOT).parts[:-1]}
    ] == []


def test_every_package_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = find_packages(str(ROOT), include=project["tool"]["setuptools"]["packages"]["find"]["include"])
    assert set(packages) == {".".join(path.parent.relative_to(ROOT).parts) for path in python_files(*TOP_PACKAGES)}


def test_only_the_command_line_imports_a_verb() -> None:
    modules = {path.stem for path in (ROOT / "training" / "cli").glob("*.py")} - {"__init__"}
    assert len(modules) == 15
    files = [path for path in python_files(*TOP_PACKAGES) if path != ROOT / "training" / "__main__.py"]
    assert imports_among(files, {f"training.cli.{module}" for module in modules}) == []


def test_each_test_file_lies_where_what_it_tests_does() -> None:
    """tests/app/engine/test_cache.py tests app/engine/cache.py; any other begins with a path."""
    tests = ROOT / "tests"
    files = sorted(tests.rglob("test_*.py"))
    assert files
    tested = {file: ROOT / file.relative_to(tests).parent / file.stem.removeprefix("test_") for file in files}
    assert [file for file in files if not (ROOT / file.relative_to(tests).parent).is_dir()] == []
    unclear = [
        file
        for file, path in tested.items()
        if not (path.with_suffix(".py").exists() or path.is_dir() or path.name == path.parent.name)
    ]
    assert len(unclear) < len(files) / 2
    for file in unclear:
        named = file.read_text(encoding="utf-8").removeprefix('"""').partition(":")[0].replace(",", "").split(" ")
        wrong = [path for path in named if path != "and" and not (ROOT / path).exists()]
        assert not wrong, f"{file.name} begins with no path: {wrong}"
