"""Measures the effect of each change of a recipe: one run per row of a file, and a table of the results.

    python -m benchmarks.ablation recipes/ablation/multi30k.en-de.toml --corpora DIR --out DIR

Each row is `python -m training run --recipe` on the base with a few keys changed, and resumes where it was stopped. Its
result is stored in the row's folder, and copied with its log to a folder to be committed. `benchmarks.ablation_table`
reads the file and formats the table.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock
from typing import Annotated, Any

import typer

from benchmarks.ablation_table import PLACEHOLDERS, Row, read_rows, resolve_paths, table, toml_text
from model.atomic_files import write_atomically
from model.bundle_files import read_bundle
from training.evaluation.evaluate import DEVELOPMENT
from training.pipeline.recipe_file import RecipeFile, read_toml
from training.signals import immediate_stop

BEAM = 5
RESULT = "result.json"
Say = Callable[[str], None]


class RowError(ValueError):
    """A row failed; the message says why."""


@dataclass(frozen=True)
class AblationRun:
    """Where and how the rows of an ablation run. `program` is the command of `python -m training`."""

    file: Path
    corpora: Path
    out: Path
    logs: Path
    device: str = "auto"
    threads: int | None = None
    program: tuple[str, ...] = (sys.executable, "-m", "training")
    stopped: Event = field(default_factory=Event)
    running: set[subprocess.Popen[bytes]] = field(default_factory=set)
    lock: Lock = field(default_factory=Lock)
    """Held while starting and stopping processes, so that none starts during a stop."""

    def folder(self, row: Row) -> Path:
        return self.out / row.name

    def command(self, row: Row, words: Sequence[str], name: str, lock: int) -> str:
        """Runs a command, with standard error in NAME.txt of the row's folder; returns its standard output."""
        error_file, output_file = self.folder(row) / f"{name}.txt", self.folder(row) / f"{name}.out"
        with open(error_file, "ab") as errors, open(output_file, "wb") as output:
            process = self.start(words, stdout=output, stderr=errors, pass_fds=[lock])
            code = process.wait()
            self.running.discard(process)
        if code:
            lines = error_file.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["no message"]
            failure = f"{name} exited with status {code}: {lines[-1]} (see {error_file})"
            raise RowError("stopped" if self.stopped.is_set() else failure)
        return output_file.read_text(encoding="utf-8")

    def recipe(self, row: Row) -> dict[str, Any]:
        """The complete recipe of a row: {corpora} and {out} substituted, and relative paths made absolute."""

        def substituted(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: substituted(each) for key, each in value.items()}
            if isinstance(value, list):
                return [substituted(each) for each in value]
            return self.substitute(row, value) if isinstance(value, str) else value

        return resolve_paths(self.file.parent.absolute(), substituted(row.recipe))

    def substitute(self, row: Row, text: str, quoted: Callable[[str], str] = str) -> str:
        corpora, out = self.corpora.absolute(), self.folder(row).absolute()
        for placeholder, path in zip(PLACEHOLDERS, (corpora, out), strict=True):
            text = text.replace(placeholder, quoted(str(path)))
        return text

    def options(self) -> list[str]:
        """The options for device and threads."""
        return ["--device", self.device, *([] if self.threads is None else ["--threads", str(self.threads)])]

    def start(self, words: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Starts a command in its own process group, since a second signal from the terminal's Ctrl-C would keep a
        training run from saving. Raises RowError after a stop."""
        with self.lock:
            if self.stopped.is_set():
                raise RowError("stopped")
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, process_group=0, **options)
            self.running.add(process)
        return process

    def stop(self) -> None:
        """Asks the running processes to exit; training runs save first."""
        self.stopped.set()
        with self.lock:
            for process in list(self.running):
                process.terminate()

    def kill(self) -> None:
        """Kills the running processes and their children. Saved checkpoints remain intact."""
        self.stopped.set()
        with self.lock:
            for process in list(self.running):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def stored_result(row: Row, run: AblationRun) -> dict[str, Any] | None:
    """The result of a row that is done and whose definition has not changed since."""
    path = run.folder(row) / RESULT
    if not path.exists():
        return None
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result if (result["recipe"], result["before"]) == (row.recipe, list(row.before)) else None


def run_row(row: Row, run: AblationRun) -> dict[str, Any]:
    """Runs the remaining work of a row. Raises RowError with a message of one line, other ValueErrors and OSError."""
    if (result := stored_result(row, run)) is None:
        folder = run.folder(row)
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder, row) as lock:
            _check_unchanged(row, run)
            for number, command in enumerate(row.before, 1):
                _run_before(row, run, number, command, lock)
            write_atomically(folder / "recipe.toml", toml_text(run.recipe(row)).encode())
            recipe = ["--recipe", str(folder / "recipe.toml"), "--corpora", str(run.corpora)]
            where = ["--out", str(folder / "bundle"), "--work", str(folder / "work"), "--replace"]
            run.command(row, [*run.program, "run", *recipe, *where, *run.options()], "run", lock)
            result = _result(row, run, with_beam(row, run, lock))
            write_atomically(folder / RESULT, _json(result))
    run.logs.mkdir(parents=True, exist_ok=True)
    log = run.folder(row) / "work" / "run" / "log.csv"
    if log.exists():  # the work folder may have been deleted to save space
        shutil.copyfile(log, run.logs / f"{row.name}.csv")
    (run.logs / f"{row.name}.json").write_bytes(_json(result))
    return result


def _check_unchanged(row: Row, run: AblationRun) -> None:
    """Raises RowError if the work folder belongs to another recipe or to other commands.

    With more epochs, for instance, `run` would extend the old run, whose learning rate has already decayed; that is not
    a run of the new recipe. The path of a parent may differ, since `run` compares its weights.
    """
    folder = run.folder(row)
    recipe = folder / "recipe.toml"
    if not (folder / "work").exists():
        return
    done = (folder / RESULT).exists()  # a result of the old definition, since `stored_result` did not accept it
    same = recipe.exists() and _without_parent(read_toml(recipe)) == _without_parent(run.recipe(row))
    if done or not same or not all(_was_run(row, run, *each) for each in enumerate(row.before, 1)):
        raise RowError(f"its definition has changed since it was started: delete {folder} to run it again")


def _without_parent(recipe: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in recipe.items() if key != "parent"}


def _was_run(row: Row, run: AblationRun, number: int, command: str) -> bool:
    done = _done(row, run, number)
    return done.exists() and done.read_text(encoding="utf-8") == command


def _done(row: Row, run: AblationRun, number: int) -> Path:
    """The file that records the row's `before` command of this number, once it has run."""
    return run.folder(row) / f"before-{number}.done"


def _run_before(row: Row, run: AblationRun, number: int, command: str, lock: int) -> None:
    """Runs a `before` command of the row, unless it has run already."""
    if _was_run(row, run, number, command):
        return
    words = shlex.split(run.substitute(row, command, shlex.quote))
    python = [sys.executable] if words[0] == "python" else words[:1]
    run.command(row, [*python, *words[1:]], f"before-{number}", lock)
    write_atomically(_done(row, run, number), command.encode())


@contextlib.contextmanager
def _locked(folder: Path, row: Row) -> Iterator[int]:
    """Locks the row until this process and the commands that it starts have exited. Raises RowError if it is taken."""
    with open(folder / "lock", "wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RowError("an earlier command is still running it") from None
        yield file.fileno()


def with_beam(row: Row, run: AblationRun, lock: int) -> dict[str, float]:
    """BLEU with beam search, by test set of the row."""
    recipe = RecipeFile.of(run.recipe(row), run.file, run.corpora)
    sets = [word for text in recipe.test for word in ("--pairs", text)]
    if not sets:
        return {}
    columns = recipe.prepare.get("columns")
    found = ["--columns", ",".join(map(str, columns))] if columns else []
    found += ["--encoding", recipe.prepare["encoding"]] if "encoding" in recipe.prepare else []
    bundle = ["--bundle", str(run.folder(row) / "bundle"), "--corpora", str(run.corpora)]
    words = ["evaluate", *bundle, *sets, *found, "--raw", "--beam", str(BEAM), "--json"]
    output = run.command(row, [*run.program, *words, *run.options()], "evaluate", lock)
    return _bleu(json.loads(output)["metrics"])


def _bleu(metrics: Sequence[dict[str, Any]]) -> dict[str, float]:
    return {metric["set"]: metric["score"] for metric in metrics if metric["metric"] == "BLEU"}


def _result(row: Row, run: AblationRun, beam: dict[str, float]) -> dict[str, Any]:
    """The stored result of a row, without paths of this machine."""
    config, _ = read_bundle(run.folder(row) / "bundle")
    training = config["training"]
    greedy = _bleu(training["decoder_metrics"])
    facts = ("seed", "steps", "epochs", "seconds", "parameters", "device", "precision", "weights", "candidates")
    return {
        "row": row.name,
        "command": f"{command_of(run)} --row {row.name}",
        "changes": row.changes,
        "before": list(row.before),
        "recipe": row.recipe,
        **{fact: training[fact] for fact in facts},
        "threads": run.threads,
        "dev": greedy.pop(DEVELOPMENT),
        "test": {name: {"greedy": score, f"beam {BEAM}": beam[name]} for name, score in greedy.items()},
        "signature": config["metrics"][0]["signature"],
        "architecture": config["architecture"],
        "versions": training["versions"],
        "commit": training["commit"],
    }


def command_of(run: AblationRun) -> str:
    """The command that runs the ablation, without paths of this machine."""
    file = run.file.name if run.file.is_absolute() else run.file.as_posix()
    return f"python -m benchmarks.ablation {file} --corpora DIR --out DIR"


def _json(result: dict[str, Any]) -> bytes:
    return (json.dumps(result, indent=2, ensure_ascii=False) + "\n").encode()


def run_rows(rows: Sequence[Row], run: AblationRun, jobs: int, say: Say) -> bool:
    """Runs rows, `jobs` at a time; rows with `before` commands last, since these may need other rows' bundles.

    Reports each row. Returns whether all succeeded.
    """
    for row in rows:  # reports invalid recipes before any work
        RecipeFile.of(run.recipe(row), Path(f"{run.file}, row {row.name}"), run.corpora)
    succeeded: list[bool] = []
    for wave in ([row for row in rows if not row.before], [row for row in rows if row.before]):
        succeeded += _run_wave(wave, run, jobs, say)
    return all(succeeded)


def _run_wave(wave: Sequence[Row], run: AblationRun, jobs: int, say: Say) -> list[bool]:
    """Runs rows, `jobs` at a time. At Ctrl-C training runs save and exit; at a second one they are killed."""
    with ThreadPoolExecutor(jobs) as pool:
        try:
            futures = {row.name: pool.submit(run_row, row, run) for row in wave}
            return [_report(name, future, say) for name, future in futures.items()]
        except KeyboardInterrupt:
            try:
                run.stop()
                say("stopping after saving; press Ctrl-C again to stop at once")
                pool.shutdown(cancel_futures=True)
            except KeyboardInterrupt:
                run.kill()
            raise


def _report(name: str, future: Future[dict[str, Any]], say: Say) -> bool:
    try:
        result = future.result()
    except (ValueError, OSError) as error:  # fails this row only
        say(f"{name}: {error}")
        return False
    say(f"{name}: {result['dev']:.2f} BLEU on the development set")
    return True


def ablation(
    file: Annotated[Path, typer.Argument(help="The base and the rows, such as recipes/ablation/multi30k.en-de.toml.")],
    corpora: Annotated[Path, typer.Option(help="Folder of the corpora that the recipe names.")],
    out: Annotated[Path, typer.Option(help="A folder for each row's data, run and bundle.")],
    row: Annotated[list[str] | None, typer.Option(help="Run only this row; repeatable. (default: all)")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Rows that run at the same time.")] = 1,
    threads: Annotated[int | None, typer.Option(help="CPU threads of each run. (default: one per core)")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: a GPU if there is one.")] = "auto",
    logs: Annotated[Path | None, typer.Option(help="Folder for logs and results. (default: docs/recipes/NAME)")] = None,
) -> None:
    """Run the unfinished rows of an ablation, and print the table of the finished ones."""
    run = AblationRun(file, corpora, out, logs or Path("docs", "recipes", file.stem), device, threads)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:  # not ignored by nohup: treat a closed terminal like Ctrl-C
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    try:
        with immediate_stop():
            good = ablate(run, row or [], jobs)
    except (ValueError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo("\nstopped; the same command resumes", err=True)
        raise typer.Exit(130) from None
    raise typer.Exit(0 if good else 1)


def ablate(run: AblationRun, names: Sequence[str], jobs: int, say: Say = typer.echo) -> bool:
    """Runs the rows named, or all, and prints the table of all finished ones. Raises ValueError."""
    rows = read_rows(run.file)
    if unknown := sorted(set(names) - {row.name for row in rows}):
        raise ValueError(f"{run.file} has no row {unknown[0]}: there are {', '.join(row.name for row in rows)}")
    chosen = [row for row in rows if not names or row.name in names]
    good = run_rows(chosen, run, jobs, lambda line: typer.echo(line, err=True))
    done = [result for row in rows if (result := stored_result(row, run))]
    for line in table(command_of(run), done):
        say(line)
    return good


if __name__ == "__main__":
    typer.run(ablation)
