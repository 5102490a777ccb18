"""Translating through the service's own command: unusual lines, and a command that fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from training.evaluation import service_command
from training.evaluation.service_command import NotServed, translate_served

pytestmark = pytest.mark.slow

LANGUAGES = ("en", "fr")


def answering(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the service's command by a Python program."""
    monkeypatch.setattr(service_command, "command_for", lambda *asked: [sys.executable, "-c", program])


def test_any_sentence_is_one_line_in_and_one_line_out(monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = ["a\u2028b\u2029c", "a\rb", "\ta\x0b\x0c\x85", "", "a\nb", "你好", "\U0001f600", "\ud800"]
    answering("import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())", monkeypatch)
    expected = [sentence.replace("\n", " ") for sentence in sentences]
    assert translate_served(Path("x"), LANGUAGES, sentences) == expected
    assert translate_served(Path("x"), LANGUAGES, []) == []


def test_precision_device_and_workers_reach_the_service_but_environment_settings_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("INTERLINEAR_PRECISION", "bfloat16")
    monkeypatch.setenv("interlinear_max_items", "1")
    program = "import os; print(sorted(v for v in os.environ.items() if 'INTERLINEAR' in v[0].upper()))"
    answering(program, monkeypatch)
    output = "[('INTERLINEAR_DEVICE', 'cpu'), ('INTERLINEAR_PRECISION', 'int8')]"
    assert translate_served(Path("x"), LANGUAGES, ["a"], "int8", "cpu", 1) == [output]


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys; sys.exit('interlinear: line 1 is not translated: Alas.')", "line 1 is not translated: Alas."),
        ("import sys; sys.exit(3)", "exit code is 3"),
        ("import os; os.kill(os.getpid(), 9)", "it was killed"),
        ("pass", "the service returned 0 lines for 1 sentences"),
        ("print('a\\nb')", "the service returned 2 lines for 1 sentences"),
    ],
)
def test_command_that_does_not_translate_everything_is_an_error_of_one_line(
    program: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(program, monkeypatch)
    with pytest.raises(NotServed) as caught:
        translate_served(Path("x"), LANGUAGES, ["a"])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_message_of_a_service_that_cannot_start_is_shown(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    with pytest.raises(NotServed, match=r"^the service's own command failed: .*broken"):
        translate_served(tmp_path / "broken", LANGUAGES, ["a"])


def test_command_is_that_of_the_service(bundle_folder: Path) -> None:
    command = service_command.command_for(bundle_folder, "en", "fr")
    assert command[:4] == [sys.executable, "-m", "app", "translate"]
    done = subprocess.run(command, input=b"Hello.\n", capture_output=True, check=True)
    assert done.stdout.count(b"\n") == 1
