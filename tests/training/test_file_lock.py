"""Two commands at once: the second is refused before it touches anything; a killed one blocks no other."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from shared_fixtures import PAIRS, SHIPPED
from typer.testing import CliRunner

from training.__main__ import cli
from training.corpora.corpus import write_pairs
from training.data import prepare as prepare_module
from training.file_lock import BusyError, lock_folder, lock_output
from training.optim.trainer import Trainer
from training.synthetic.resumable_tsv import ResumableTsv

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
Alone = Callable[[Path], AbstractContextManager[None]]


@pytest.mark.bundle
@pytest.mark.parametrize(
    ("verb", "options", "middle", "place"),
    [
        (
            "prepare",
            "--pairs my.tsv --source en --target fr --out made",
            (prepare_module, "_make_tokenizers"),
            "on made",
        ),
        ("train", "--data DATA --out made --steps 2 --architecture d2l --device cpu", (Trainer, "step"), "in made"),
        ("run", "--pairs my.tsv --source en --target fr --out made --device cpu", (Trainer, "step"), "in runs/made"),
        ("translate", "--bundle BUNDLE --pairs few.tsv --beam 1 --out made", (ResumableTsv, "add"), "on made"),
    ],
)
@pytest.mark.usefixtures("quick_training", "small_default_size")
def test_command_on_a_locked_folder_is_refused_in_one_line_and_disturbs_nothing(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    options: str,
    middle: tuple[Any, str],
    place: str,
) -> None:
    bundle = (SHIPPED / "en-fr").resolve()
    monkeypatch.chdir(tmp_path)
    write_pairs(Path("my.tsv"), PAIRS)
    write_pairs(Path("few.tsv"), PAIRS[:3])
    command = [verb, *options.replace("DATA", str(data)).replace("BUNDLE", str(bundle)).split()]
    step, at_once, seconds = getattr(*middle), iter([True]), []

    def meanwhile(*given: Any, **named: Any) -> Any:
        if next(at_once, False):
            seconds.append(CliRunner().invoke(cli, command))
        return step(*given, **named)

    monkeypatch.setattr(*middle, meanwhile)
    first = CliRunner().invoke(cli, command)
    [second] = seconds
    assert second.exit_code == 1
    assert second.output == f"error: another command is running {place}; wait for it or stop it\n"
    assert first.exit_code == 0, first.output
    assert Path("made").exists()
    assert list(tmp_path.rglob(".*")) == []


@pytest.mark.parametrize("alone", [lock_folder, lock_output])
def test_a_second_command_in_a_folder_is_refused_until_the_first_ends(tmp_path: Path, alone: Alone) -> None:
    place = tmp_path / "work" / "place"
    for _ in range(2):
        with alone(place):
            with pytest.raises(BusyError, match="another command is running"), alone(place):
                pass
            with alone(place.with_name("other")):
                pass
    assert list(tmp_path.rglob(".*")) == []


def test_process_that_holds_a_lock_may_lock_a_folder_inside(tmp_path: Path) -> None:
    """As `run` does, which prepares and trains."""
    with lock_folder(tmp_path), lock_output(tmp_path / "data"), lock_folder(tmp_path / "run"):
        pass


def test_folder_created_for_a_refused_lock_is_removed(tmp_path: Path) -> None:
    with lock_folder(tmp_path / "empty"), lock_folder(tmp_path / "used"):
        (tmp_path / "used" / "file").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["used"]


def test_a_killed_process_releases_its_lock_even_if_its_children_live(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys, pathlib, training.file_lock\n"
        "with training.file_lock.lock_folder(pathlib.Path(sys.argv[1])):\n"
        "    helper = subprocess.Popen(['sleep', '600'])\n"
        "    print(helper.pid, flush=True)\n"
        "    helper.wait()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, tmp_path], cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        helper = int(process.stdout.readline())
        with pytest.raises(BusyError), lock_folder(tmp_path):
            pass
        process.kill()
        process.wait()
        assert (tmp_path / ".lock").exists(), "which alone says nothing"
        with lock_folder(tmp_path):
            os.kill(helper, 9)


def test_lock_file_deleted_by_its_holder_is_not_taken_for_a_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, leaves = fcntl.flock, iter([True])

    def late(descriptor: int, operation: int) -> None:
        if next(leaves, False):
            (tmp_path / ".lock").unlink()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with lock_folder(tmp_path), pytest.raises(BusyError), lock_folder(tmp_path):
        pass


def test_releasing_a_lock_in_a_deleted_folder_keeps_the_next_holders_lock(tmp_path: Path) -> None:
    work = tmp_path / "work"
    ours = lock_folder(work)
    ours.__enter__()
    shutil.rmtree(work)
    with lock_folder(work):
        ours.__exit__(None, None, None)
        with pytest.raises(BusyError), lock_folder(work):
            pass


def test_file_system_without_locks_refuses_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_here(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", none_here)
        with lock_folder(tmp_path), lock_folder(tmp_path):
            pass
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "win32")
        with lock_folder(tmp_path), lock_folder(tmp_path):
            pass
