"""Ablations: rows of a file that run one by one, resume where they stopped, and result in a table."""

from __future__ import annotations

import contextlib
import csv
import fcntl
import json
import os
import shutil
import signal
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers import becomes
from shared_fixtures import PAIRS, export_quickly, train_quickly
from typer.testing import CliRunner
from warm import WarmProcess

from benchmarks import ablation as ablation_module
from benchmarks.ablation import RESULT, AblationRun, RowError, ablate, run_row, run_rows, stored_result
from benchmarks.ablation_table import Row, read_rows, table, toml_text
from training.__main__ import cli
from training.corpora.corpus import write_pairs
from training.pipeline.recipe_file import RecipeFile, RecipeFileError

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
BASE = """
source = "en"
target = "fr"
pairs = ["pairs.tsv"]
dev = "dev.tsv"
test = ["test.tsv", "flores/test.tsv"]

[prepare]
vocab_size = 400
reserved_share = 0

[model]
architecture = "d2l"

[training]
steps = 4
batch_tokens = 256
evaluate_every = 2
"""
ABLATION = """
base = "base.toml"

[rows.copied]
before = ["python -c 'import shutil, sys; shutil.copy(*sys.argv[1:])' {corpora}/pairs.tsv {out}/mine.tsv"]
pairs = ["{out}/mine.tsv"]
model.dropout = 0.2
seed = 2
"""


def written(folder: Path, text: str = ABLATION) -> Path:
    (folder / "base.toml").write_text(BASE)
    (folder / "all.toml").write_text(text)
    return folder / "all.toml"


class TrainedHere(AblationRun):
    """Trains in this process, since loading the trainer again takes long; other commands run as they do."""

    def command(self, row: Row, words: Sequence[str], name: str, lock: int) -> str:
        program = list(self.program)
        if list(words[: len(program)]) != program:
            return super().command(row, words, name, lock)
        result = CliRunner().invoke(cli, list(words[len(program) :]))
        assert result.exit_code == 0, result.output
        return result.stdout


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[AblationRun, list[str]]:
    """A finished ablation of two rows, and its output."""
    folder = tmp_path_factory.mktemp("a b")  # a path with a space
    (folder / "flores").mkdir()
    sets = {"pairs": PAIRS[15:], "dev": PAIRS[:5], "test": PAIRS[5:10], "flores/test": PAIRS[10:15]}
    for name, pairs in sets.items():
        write_pairs(folder / f"{name}.tsv", pairs)
    place = (written(folder), folder, folder / "out", folder / "logs", "cpu", 1)
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        train_quickly(patch)
        export_quickly(patch)
        assert ablate(TrainedHere(*place), [], 1, said.append)
    return AblationRun(*place), said


def test_each_row_writes_a_table_line_a_log_and_a_result(done: tuple[AblationRun, list[str]]) -> None:
    place, said = done
    results = {name: json.loads((place.logs / f"{name}.json").read_text()) for name in ("base", "copied")}
    assert [line.split(" | ")[0] for line in said if line.startswith(("| base", "| copied"))] == [
        "| base",
        "| copied",
    ] * 2
    changed = next(line for line in said if line.startswith("| copied"))
    assert "model.dropout = 0.2; seed = 2 | 2 | 4 |" in changed
    assert "(+" in changed or "(-" in changed
    assert (results["base"]["seed"], results["copied"]["seed"]) == (1, 2)
    assert results["copied"]["architecture"]["dropout"] == 0.2
    assert list(results["base"]["test"]) == ["test.tsv", "flores/test.tsv"]
    assert all(set(scores) == {"greedy", "beam 5"} for scores in results["base"]["test"].values())
    assert results["copied"]["command"].endswith("all.toml --corpora DIR --out DIR --row copied")
    for name in results:
        log = (place.logs / f"{name}.csv").read_text().splitlines()
        assert [row["step"] for row in csv.DictReader(log)] == ["2", "4"]


def test_beam_scores_are_matched_to_test_sets_by_name_in_any_order(done: tuple[AblationRun, list[str]]) -> None:
    place, _ = done
    given: list[str] = []

    class Evaluated(AblationRun):
        def command(self, row: Row, words: Sequence[str], name: str, lock: int) -> str:
            given.extend(words)
            names = ["flores/test.tsv", "test.tsv"]  # not as in the recipe
            metrics = [{"set": name, "metric": "BLEU", "score": float(len(name))} for name in names]
            return json.dumps({"metrics": [*metrics, {"set": "test.tsv", "metric": "chrF", "score": 99.0}]})

    assert ablation_module.with_beam(read_rows(place.file)[0], Evaluated(**vars(place)), 0) == {
        "test.tsv": 8.0,
        "flores/test.tsv": 15.0,
    }
    assert given[given.index("--corpora") + 1] == str(place.corpora)


def test_beam_is_scored_on_the_recipes_files(done: tuple[AblationRun, list[str]]) -> None:
    given: list[str] = []

    class Evaluated(AblationRun):
        def command(self, row: Row, words: Sequence[str], name: str, lock: int) -> str:
            given.extend(words)
            return '{"metrics": []}'

    reading = {"columns": [2, 1], "encoding": "cp1252"}
    ablation_module.with_beam(Row("r", {"test": ["test.tsv"], "prepare": reading}), Evaluated(**vars(done[0])), 0)
    assert [given[given.index(option) + 1] for option in ("--columns", "--encoding")] == ["2,1", "cp1252"]


def test_committed_files_contain_no_local_paths(done: tuple[AblationRun, list[str]]) -> None:
    place, said = done
    for text in [path.read_text() for path in place.logs.iterdir()] + said:
        assert str(place.out.parent) not in text


def idle(place: AblationRun) -> AblationRun:
    """`place`, where training does nothing."""
    return replace(place, program=(sys.executable, "-c", "raise SystemExit('was run')"))


def test_finished_row_is_not_run_again(done: tuple[AblationRun, list[str]]) -> None:
    said: list[str] = []
    assert ablate(idle(done[0]), ["base"], 1, said.append)
    assert said == done[1]


@pytest.mark.parametrize("name", ["epochs", "steps", "patience", "evaluate_every", "keep"])
@pytest.mark.parametrize("stopped", [False, True])
def test_changed_row_is_refused_until_its_folder_is_deleted(
    done: tuple[AblationRun, list[str]], tmp_path: Path, name: str, stopped: bool
) -> None:
    place = replace(idle(done[0]), out=tmp_path / "out")
    shutil.copytree(done[0].out, place.out)
    base, _ = read_rows(place.file)
    if stopped:
        (place.folder(base) / RESULT).unlink()
    kept = {key: value for key, value in base.recipe["training"].items() if key != "steps"}
    changed = replace(base, recipe={**base.recipe, "training": {**kept, name: 6}})
    assert stored_result(changed, place) is None
    with pytest.raises(RowError, match=f"has changed since it was started: delete {place.folder(base)} to") as refused:
        run_row(changed, place)
    assert "\n" not in str(refused.value)
    shutil.rmtree(place.folder(base))
    with pytest.raises(RowError, match="run exited with status 1: was run"):
        run_row(changed, place)


def test_row_with_changed_commands_is_refused(done: tuple[AblationRun, list[str]], tmp_path: Path) -> None:
    place = replace(idle(done[0]), out=tmp_path / "out")
    shutil.copytree(done[0].out, place.out)
    base, copied = read_rows(place.file)
    (place.folder(base) / RESULT).unlink()
    for changed in (replace(copied, before=()), replace(base, before=("true",))):
        with pytest.raises(RowError, match="has changed since"):
            run_row(changed, place)


def test_a_stopped_row_resumes_with_the_same_recipe(done: tuple[AblationRun, list[str]]) -> None:
    place = idle(done[0])
    for row in read_rows(place.file):
        result = place.folder(row) / RESULT
        kept = result.rename(result.with_suffix(".kept"))
        moved = replace(row, recipe={**row.recipe, "parent": "the same weights elsewhere"})
        for again in (row, moved):
            with pytest.raises(RowError, match="run exited with status 1: was run"):
                run_row(again, place)
        begun = place.folder(row) / "recipe.toml"
        begun.write_text(toml_text(place.recipe(row)))
        kept.rename(result)


def test_row_that_another_process_is_running_is_skipped(done: tuple[AblationRun, list[str]]) -> None:
    place, _ = done
    row = Row("busy", {})
    place.folder(row).mkdir()
    with open(place.folder(row) / "lock", "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RowError, match="still running it"):
            run_row(row, place)


def test_preparatory_command_runs_once_and_its_failure_fails_its_rows(tmp_path: Path) -> None:
    program = (sys.executable, "-c", "raise SystemExit('no training here')")
    place = AblationRun(written(tmp_path), tmp_path, tmp_path / "out", tmp_path / "logs", program=program)
    row = Row("r", {}, before=('python -c \'open("{out}/times", "a").write("x")\'',))
    for _ in range(2):
        with pytest.raises(RowError, match="no training here"):
            run_row(row, place)
    assert (place.folder(row) / "times").read_text() == "x"
    with pytest.raises(RowError, match="before-1 exited with status 3"):
        run_row(replace(row, before=("python -c 'raise SystemExit(3)'",)), place)


def test_one_failed_row_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []

    def run_or_fail(row: Row, place: AblationRun) -> dict[str, Any]:
        ran.append(row.name)
        if row.name == "base":
            raise RowError("why")
        return {"dev": 1.0}

    monkeypatch.setattr(ablation_module, "run_row", run_or_fail)
    text = 'base = "base.toml"\n[rows.late]\nbefore = ["true"]\nseed = 2\n[rows.b]\nseed = 3\n'
    place = AblationRun(written(tmp_path, text), tmp_path, tmp_path / "out", tmp_path / "logs")
    assert not ablate(place, [], 1, lambda line: None)
    assert ran == ["base", "b", "late"]  # what may need another's bundle is last


TRAINING = """
import os, signal, sys, time
told = open(sys.argv[sys.argv.index("--out") + 1] + ".told", "a", buffering=1)
heard = []
def hear(number, frame):
    heard.append(number)
    told.write("heard\\n")
    if len(heard) > 1:
        os._exit(1)
signal.signal(signal.SIGINT, hear)
signal.signal(signal.SIGTERM, hear)
helper = os.fork()
told.write(f"{os.getpid()}\\n")
while not heard or helper == 0:
    time.sleep(0.01)
told.write("saving\\n")
time.sleep(float(os.environ["SAVING"]))
told.write("saved\\n")
os.kill(helper, signal.SIGKILL)
sys.exit(143)
"""
COMMAND_LINE = """
import functools, os, signal, sys, typer
from benchmarks import ablation
os.setpgrp()
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as a terminal's, though these tests may run under nohup
ablation.AblationRun = functools.partial(ablation.AblationRun, program=(sys.executable, "-c", os.environ["TRAINING"]))
typer.run(ablation.ablation)
"""


@contextlib.contextmanager
def at_a_terminal(folder: Path, saving: float) -> Iterator[tuple[WarmProcess, Path]]:
    """Runs the command in a process group, as a terminal does, and returns it once its training is busy. What it prints
    is in `folder`/said."""
    file, out = written(folder), folder / "out"
    (folder / "command_line.py").write_text(COMMAND_LINE)
    words = ["command_line", str(file), "--corpora", str(folder), "--out", str(out), "--row", "base"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRAINING": TRAINING, "SAVING": str(saving)}
    with open(folder / "said", "wb") as said:
        process = WarmProcess(words, environment, folder, stderr=said.fileno())
    told = out / "base" / "bundle.told"
    try:
        wait_until(lambda: told.exists() and told.read_text().count("\n") == 2)
        yield process, told
    finally:
        process.kill()
        for each in told.read_text().splitlines()[:2] if told.exists() else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(each), signal.SIGKILL)


def wait_until(true: Callable[[], bool]) -> None:
    assert becomes(true)


def is_running(process: int) -> bool:
    status = Path("/proc", str(process), "status")
    try:
        return "\nState:\tZ" not in status.read_text()
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_ctrl_c_or_hangup_lets_a_training_save_its_checkpoint(tmp_path: Path, number: int) -> None:
    with at_a_terminal(tmp_path, saving=0.5) as (process, told):
        os.killpg(process.pid, number)
        assert process.wait() == 130
        assert told.read_text().splitlines()[2:] == ["heard", "saving", "saved"]
        assert (tmp_path / "said").read_text().splitlines()[-1] == "stopped; the same command resumes"


def test_second_ctrl_c_kills_a_saving_training_and_its_children(tmp_path: Path) -> None:
    with at_a_terminal(tmp_path, saving=600) as (process, told):
        os.killpg(process.pid, signal.SIGINT)
        wait_until(lambda: "saving" in told.read_text())
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait() == 130
        assert (tmp_path / "said").read_text().splitlines()[-1] == "stopped; the same command resumes"
        wait_until(lambda: not any(is_running(int(each)) for each in told.read_text().splitlines()[:2]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base = 1", "base must be the name of a recipe file"),
        ("base = {}\nmore = 1", "more is unknown here"),
        ("base = {}\n[rows.'a/b']", "not be base: 'a/b'"),
        ("base = {}\n[rows.base]", "not be base: 'base'"),
        ("base = {}\n[rows.a]\nbefore = 'x'", "row a: before must be a list of commands"),
        ("base = {}\n[rows.a]\ntraining.warm = 1", "row a: [training] warm is unknown here"),
        ("base = {}\n[rows.a]\nseed = 2020-01-01", "row a: seed must be a whole number"),
    ],
)
def test_invalid_rows_are_reported_before_any_work(tmp_path: Path, text: str, message: str) -> None:
    place = AblationRun(written(tmp_path, text), tmp_path, tmp_path / "out", tmp_path / "logs")
    with pytest.raises(RecipeFileError) as error:
        ablate(place, [], 1)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert not place.out.exists()


def test_unknown_row_is_refused(tmp_path: Path) -> None:
    place = AblationRun(written(tmp_path), tmp_path, tmp_path / "out", tmp_path / "logs")
    with pytest.raises(ValueError, match="has no row none: there are base, copied"):
        ablate(place, ["none"], 1)


def test_parent_path_is_relative_to_the_file_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = '[rows.a]\nparent = "../bundles/a"\n[rows.b]\nparent = "{out}/../base/bundle"\n[rows.c]\nparent = "/c"\n'
    (tmp_path / "recipes" / "cpu").mkdir(parents=True)
    (tmp_path / "ablations").mkdir()
    (tmp_path / "recipes" / "cpu" / "base.toml").write_text('parent = "../../bundles/base"\n')
    (tmp_path / "ablations" / "all.toml").write_text(f'base = "../recipes/cpu/base.toml"\n{rows}')
    monkeypatch.chdir(tmp_path)
    for file in (Path("ablations/all.toml"), tmp_path / "ablations" / "all.toml"):
        place = AblationRun(file, tmp_path, tmp_path / "out", tmp_path / "logs")
        written = [tomllib.loads(toml_text(place.recipe(row)))["parent"] for row in read_rows(file)]
        found = [
            RecipeFile.of({"parent": text}, place.out / "row" / "recipe.toml", tmp_path).parent for text in written
        ]
        assert [Path(text or "").resolve() for text in found] == [
            tmp_path / "bundles" / "base",
            tmp_path / "bundles" / "a",
            tmp_path / "out" / "base" / "bundle",
            Path("/c"),
        ]


def test_committed_parent_path_is_relative_to_the_ablation_file(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "base.toml").write_text('parent = "../bundles/base"\npairs = ["a", "./b:2", "../c"]\n')
    (tmp_path / "all.toml").write_text('base = "cpu/base.toml"\n[rows.a]\nparent = "bundles/a"\n')
    base, row = read_rows(tmp_path / "all.toml")
    pairs = ["a", "./cpu/b:2", "./cpu/../c"]
    assert base.recipe == {"parent": "cpu/../bundles/base", "pairs": pairs}
    assert (row.recipe, row.changes) == ({"parent": "bundles/a", "pairs": pairs}, ('parent = "bundles/a"',))
    place = AblationRun(tmp_path / "all.toml", tmp_path / "corpora", tmp_path / "out", tmp_path / "logs")
    here = tmp_path.as_posix()
    assert place.recipe(base)["pairs"] == ["a", f"{here}/cpu/b:2", f"{here}/cpu/../c"]


def test_row_with_a_missing_command_does_not_stop_the_others(tmp_path: Path) -> None:
    rows = '[rows.a]\nbefore = ["no-such-command"]\n[rows.b]\nbefore = ["true"]\n'
    place = idle(
        AblationRun(written(tmp_path, f'base = "base.toml"\n{rows}'), tmp_path, tmp_path / "out", tmp_path / "logs")
    )
    said: list[str] = []
    assert not run_rows(read_rows(place.file)[1:], place, 1, said.append)
    assert [line.split(":")[0] for line in said] == ["a", "b"]
    assert "no-such-command" in said[0]


def test_table_without_a_base_or_rows_is_valid() -> None:
    result = {"row": "a", "changes": [], "seed": 1, "steps": 2, "seconds": 3, "parameters": 4000, "dev": 5.0}
    result |= {"test": {"t": {"greedy": 6.0}}, "candidates": [], "weights": "w", "signature": "s"}
    assert "| a |  | 1 | 2 | 3 | 4,000 | 5.00 | 6.00 |" in list(table("c", [result]))
    assert list(table("c", [])) == ["no row is finished yet"]


values = st.text() | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)
tables = st.dictionaries(st.from_regex(r"[a-z_]+", fullmatch=True), values | st.lists(values), max_size=4)


@given(tables, tables)
def test_toml_round_trips(top: dict[str, Any], section: dict[str, Any]) -> None:
    recipe = {**top, "s_1": section}
    assert tomllib.loads(toml_text(recipe)) == recipe


@pytest.mark.parametrize("path", sorted((ROOT / "recipes" / "ablation").glob("*.toml")), ids=lambda path: path.stem)
def test_every_committed_ablation_has_valid_rows(path: Path) -> None:
    rows = read_rows(path)
    assert len(rows) > 1
    for row in rows:
        RecipeFile.of(row.recipe, path, Path())
        assert row.changes or row.name == "base"
