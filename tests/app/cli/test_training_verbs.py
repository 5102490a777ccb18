"""The command `interlinear`: the trainer's verbs act like the trainer's own. Their list: test_examples.py."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.__main__ import with_training
from app.services.trainer import missing_packages

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = "from app.__main__ import interlinear; interlinear()"


def interlinear(folder: Path, *arguments: str, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", PROGRAM, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(root), "COLUMNS": "100"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )


def test_command_is_the_installed_script() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"] == {"interlinear": "app.__main__:interlinear"}


@pytest.mark.slow
def test_training_verb_gets_its_arguments_and_returns_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "training.py").write_text("print('not the trainer')")
    done = interlinear(tmp_path, "train-step", "--data", "nowhere", "--out", "run", "--epochs", "1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "nowhere is not a data folder" in done.stderr


def test_training_verb_leaves_help_to_the_trainer(monkeypatch: pytest.MonkeyPatch) -> None:
    executed: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, command: executed.append(command))
    CliRunner().invoke(with_training(), ["train", "--help"])
    [command] = executed
    assert command[-4:] == ["-m", "training", "run", "--help"]


def test_import_leaves_the_other_commands_of_the_trainer_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    executed: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, command: executed.append(command))
    CliRunner().invoke(with_training(), ["import", "firefox:en-fr"])
    [command] = executed
    assert command[-3:] == ["-m", "training.importing", "firefox:en-fr"]


@pytest.mark.slow
def test_where_only_the_importer_is_there_import_works_and_other_commands_name_what_is_missing(tmp_path: Path) -> None:
    place = tmp_path / "place"
    (place / "training" / "importing").mkdir(parents=True)
    (place / "training" / "__init__.py").touch()
    (place / "training" / "importing" / "__init__.py").touch()
    (place / "training" / "importing" / "__main__.py").write_text("import sys; print('importing', *sys.argv[1:])")
    for name in ("app", "model"):
        (place / name).symlink_to(ROOT / name)
    done = interlinear(tmp_path, "import", "firefox:en-fr", root=place)
    assert (done.returncode, done.stdout) == (0, "importing firefox:en-fr\n"), done.stderr
    refused = interlinear(tmp_path, "train", "--pairs", "a.tsv", root=place)
    assert refused.returncode != 0
    assert "train needs the extra `train`, of which training is missing" in refused.stderr


def test_service_verb_runs_in_the_same_process() -> None:
    result = CliRunner().invoke(with_training(), ["key", "alice"])
    assert result.exit_code == 0
    assert result.stdout.startswith("alice")


@pytest.mark.parametrize(
    ("extra", "names"), [("train", ["no-such-package", "nor.this"]), ("dev", ["no-such-package"]), ("other", [])]
)
def test_missing_extra_is_named(extra: str, names: list[str]) -> None:
    requirements = [
        "typer>=0.15",
        'pytest>=8; extra == "train"',
        'no-such-package~=1.0; extra == "train"',
        "nor.this>=2; sys_platform != 'win32' and extra == 'train'",
        'no-such-package~=1.0; extra == "dev"',
    ]
    assert missing_packages(requirements, extra) == names
