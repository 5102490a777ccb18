"""training/__main__.py: the trainer's command line: every command exists, has help, and fails in one line."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest
import typer
from shared_fixtures import PAIRS
from typer.testing import CliRunner

from model.atomic_files import NotReplaceable
from model.bundle_files import BundleError
from training.__main__ import VERBS, cli, main
from training.command_line import guarded
from training.corpora.text_file import CorpusError
from training.launch import python_command
from training.optim.trainer import TrainingError

pytestmark = pytest.mark.slow


def plain(text: str) -> str:
    """Help without colours and frames."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m|[│╭╮╰╯─]", " ", text).split())


def test_all_verbs_of_the_trainer_exist() -> None:
    assert {"prepare", "train", "evaluate", "export", "run"} <= set(VERBS)
    result = CliRunner().invoke(cli, ["--help"])
    assert result.exit_code == 0
    assert all(verb in result.output for verb in VERBS)


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_help_explains_each_verb_and_option(verb: str) -> None:
    command = typer.main.get_command(cli).commands[verb]  # type: ignore[attr-defined]
    assert command.help
    assert [option.name for option in command.params if option.name != "help" and not option.help] == []
    result = CliRunner().invoke(cli, [verb, "--help"], env={"COLUMNS": "300"})
    assert result.exit_code == 0
    # A text in brackets would be taken for markup and vanish.
    shown = plain(result.output)
    assert all(plain(option.help) in shown for option in command.params if option.name != "help")


@pytest.mark.parametrize(
    "error",
    [
        TrainingError("why"),
        BundleError("why"),
        NotReplaceable("why"),
        ValueError("why"),
        CorpusError("f.tsv", "why", 3),
        FileExistsError("why"),
        PermissionError(13, "why", "f"),
    ],
)
def test_user_errors_are_one_line_and_exit_code_1(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    def verb() -> None:
        raise error

    with pytest.raises(typer.Exit) as stopped:
        guarded(verb)()
    assert stopped.value.exit_code == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "why" in said
    assert said.count("\n") == 1


def test_internal_error_is_not_hidden() -> None:
    def verb() -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        guarded(verb)()


@pytest.mark.parametrize("resumable", [True, False])
def test_interrupted_command_says_how_to_resume(capsys: pytest.CaptureFixture[str], resumable: bool) -> None:
    def verb() -> None:
        raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as stopped:
        guarded(verb, resumable)()
    assert stopped.value.exit_code == 130
    said = capsys.readouterr().err
    assert "stopped" in said
    assert ("to resume:\n  python -m training " in said.replace(python_command(), "python")) == resumable


def test_steps_and_epochs_together_are_refused() -> None:
    result = CliRunner().invoke(cli, ["train", "--data", "d", "--out", "r", "--steps", "5", "--epochs", "1"])
    assert result.exit_code == 1
    assert result.stderr == "error: give --steps or --epochs, not both\n"


def test_folder_without_data_is_refused() -> None:
    result = CliRunner().invoke(cli, ["train", "--data", "nowhere", "--out", "r"])
    assert result.exit_code == 1
    assert "nowhere is not a data folder" in result.stderr


def test_unprintable_characters_do_not_end_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{pair.source}\tДа, {pair.source}\n" for pair in PAIRS[:80]]
    (tmp_path / "my.tsv").write_text("".join(lines + lines), encoding="utf-8")
    command = ["training", "prepare", "--pairs", "my.tsv", "--source", "en", "--target", "ru"]
    command += ["--keep", "all", "--vocab-size", "400", "--out", "data"]
    written = io.BytesIO()
    stdout = io.TextIOWrapper(written, encoding="latin-1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", command)
    monkeypatch.setattr(sys, "stdout", stdout)
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    stdout.flush()
    assert rb"\u0414\u0430, " in written.getvalue()
    assert (tmp_path / "data" / "prepared.json").exists()
