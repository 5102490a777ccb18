"""Measures what each change of a recipe is worth: one run per row of a file, and a table of the results.

    python -m benchmarks.ablation recipes/ablation/multi30k.en-de.toml --corpora DIR --out DIR

Each row is `python -m training run --recipe` on the base with a few keys changed, and resumes where it was stopped. A
row's result is kept beside it, and copied with its log to where it is committed. The file and the table are handled in
`benchmarks.ablation_table`.
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

from benchmarks.ablation_table import PLACES, Row, read_rows, seen_from, table, toml_text
from model.atomic_files import write_atomically
from model.bundle import read_bundle
from training.evaluation.evaluate import DEVELOPMENT
from training.optim.signals import immediate_stop
from training.pipeline.recipe_file import RecipeFile, read_toml

BEAM = 5
RESULT = "result.json"
Say = Callable[[str], None]


class RowError(ValueError):
    """A row that came to nothing, and why."""


@dataclass(frozen=True)
class Place:
    """Where an ablation's rows are run, and how. `program` is what `python -m training` is."""

    file: Path
    corpora: Path
    out: Path
    logs: Path
    device: str = "auto"
    threads: int | None = None
    program: tuple[str, ...] = (sys.executable, "-m", "training")
    stopped: Event = field(default_factory=Event)
    running: set[subprocess.Popen[bytes]] = field(default_factory=set)
    door: Lock = field(default_factory=Lock)
    """Nothing is begun while what runs is being stopped."""

    def folder(self, row: Row) -> Path:
        return self.out / row.name

    def recipe(self, row: Row) -> dict[str, Any]:
        """The row's whole recipe for any folder: its {corpora} and {out} filled in, paths from its file absolute."""

        def filled(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: filled(each) for key, each in value.items()}
            if isinstance(value, list):
                return [filled(each) for each in value]
            return self.filled(row, value) if isinstance(value, str) else value

        return seen_from(self.file.parent.absolute(), filled(row.recipe))

    def filled(self, row: Row, text: str, quoted: Callable[[str], str] = str) -> str:
        corpora, out = self.corpora.absolute(), self.folder(row).absolute()
        for place, path in zip(PLACES, (corpora, out), strict=True):
            text = text.replace(place, quoted(str(path)))
        return text

    def options(self) -> list[str]:
        """Those that say on what to compute."""
        return ["--device", self.device, *([] if self.threads is None else ["--threads", str(self.threads)])]

    def begin(self, words: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Begins a command, out of reach of the terminal's Ctrl-C, which comes to us too: of two signals the second
        would not let a training save. Raises RowError if all has been stopped."""
        with self.door:
            if self.stopped.is_set():
                raise RowError("stopped")
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, process_group=0, **options)
            self.running.add(process)
        return process

    def stop(self) -> None:
        """Has what is running end; a training saves itself first."""
        self.stopped.set()
        with self.door:
            for process in list(self.running):
                process.terminate()

    def kill(self) -> None:
        """Ends what is running at once, with all that it began; what was saved before is whole."""
        self.stopped.set()
        with self.door:
            for process in list(self.running):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def kept_result(row: Row, place: Place) -> dict[str, Any] | None:
    """What the row came to, if it is done as it stands in the file now."""
    path = place.folder(row) / RESULT
    if not path.exists():
        return None
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result if (result["recipe"], result["before"]) == (row.recipe, list(row.before)) else None


def run_row(row: Row, place: Place) -> dict[str, Any]:
    """Does what is left to do of a row. Raises RowError, in one line, other ValueErrors and OSError."""
    if (result := kept_result(row, place)) is None:
        folder = place.folder(row)
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder, row) as lock:
            _check_unchanged(row, place)
            for number, command in enumerate(row.before, 1):
                _run_before(row, place, number, command, lock)
            write_atomically(folder / "recipe.toml", toml_text(place.recipe(row)).encode())
            recipe = ["--recipe", str(folder / "recipe.toml"), "--corpora", str(place.corpora)]
            where = ["--out", str(folder / "bundle"), "--work", str(folder / "work"), "--replace"]
            _command(row, place, [*place.program, "run", *recipe, *where, *place.options()], "run", lock)
            result = _result(row, place, _with_beam(row, place, lock))
            write_atomically(folder / RESULT, _json(result))
    place.logs.mkdir(parents=True, exist_ok=True)
    log = place.folder(row) / "work" / "run" / "log.csv"
    if log.exists():  # work that is done may have been deleted, to save room
        shutil.copyfile(log, place.logs / f"{row.name}.csv")
    (place.logs / f"{row.name}.json").write_bytes(_json(result))
    return result


def _check_unchanged(row: Row, place: Place) -> None:
    """Raises RowError if the work there was begun by another recipe, or after other commands.

    More epochs, say, a run would go on for, from where it had ended with a learning rate come down: no run of the new
    recipe. A parent it knows by its weights, wherever they lie.
    """
    folder = place.folder(row)
    begun = folder / "recipe.toml"
    if not (folder / "work").exists():
        return
    done = (folder / RESULT).exists()  # of the row as it was, or it would have been taken
    same = begun.exists() and _without_parent(read_toml(begun)) == _without_parent(place.recipe(row))
    if done or not same or not all(_was_run(row, place, *each) for each in enumerate(row.before, 1)):
        raise RowError(f"it has changed since it was begun: delete {folder} to run it anew")


def _without_parent(recipe: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in recipe.items() if key != "parent"}


def _was_run(row: Row, place: Place, number: int, command: str) -> bool:
    done = _done(row, place, number)
    return done.exists() and done.read_text(encoding="utf-8") == command


def _done(row: Row, place: Place, number: int) -> Path:
    """The file that says which command was run as the row's own of that number."""
    return place.folder(row) / f"before-{number}.done"


def _run_before(row: Row, place: Place, number: int, command: str, lock: int) -> None:
    """Runs one of the row's own commands, once."""
    if _was_run(row, place, number, command):
        return
    words = shlex.split(place.filled(row, command, shlex.quote))
    python = [sys.executable] if words[0] == "python" else words[:1]
    _command(row, place, [*python, *words[1:]], f"before-{number}", lock)
    write_atomically(_done(row, place, number), command.encode())


def _command(row: Row, place: Place, words: Sequence[str], name: str, lock: int) -> str:
    """Runs a command, what it says going to NAME.txt of the row's folder; returns its standard output."""
    said, printed = place.folder(row) / f"{name}.txt", place.folder(row) / f"{name}.out"
    with open(said, "ab") as errors, open(printed, "wb") as output:
        process = place.begin(words, stdout=output, stderr=errors, pass_fds=[lock])
        code = process.wait()
        place.running.discard(process)
    if code:
        lines = said.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["it does not say why"]
        raise RowError("stopped" if place.stopped.is_set() else f"{name} ended with {code}: {lines[-1]} (see {said})")
    return printed.read_text(encoding="utf-8")


@contextlib.contextmanager
def _locked(folder: Path, row: Row) -> Iterator[int]:
    """The row is ours until we and every command that we began have ended. Raises RowError if it is another's."""
    with open(folder / "lock", "wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RowError("a command that was begun before is still at it") from None
        yield file.fileno()


def _with_beam(row: Row, place: Place, lock: int) -> dict[str, float]:
    """BLEU of the row's test sets with a beam, by set."""
    recipe = RecipeFile.of(place.recipe(row), place.file, place.corpora)
    sets = [word for text in recipe.test for word in ("--pairs", text)]
    if not sets:
        return {}
    columns = recipe.prepare.get("columns")
    found = ["--columns", ",".join(map(str, columns))] if columns else []
    found += ["--encoding", recipe.prepare["encoding"]] if "encoding" in recipe.prepare else []
    bundle = ["--bundle", str(place.folder(row) / "bundle"), "--corpora", str(place.corpora)]
    words = ["evaluate", *bundle, *sets, *found, "--raw", "--beam", str(BEAM), "--json"]
    said = _command(row, place, [*place.program, *words, *place.options()], "evaluate", lock)
    return _bleu(json.loads(said)["metrics"])


def _bleu(metrics: Sequence[dict[str, Any]]) -> dict[str, float]:
    return {metric["set"]: metric["score"] for metric in metrics if metric["metric"] == "BLEU"}


def _result(row: Row, place: Place, beam: dict[str, float]) -> dict[str, Any]:
    """What is kept of a row; no path of this machine is in it."""
    config, _ = read_bundle(place.folder(row) / "bundle")
    training = config["training"]
    greedy = _bleu(training["decoder_metrics"])
    facts = ("seed", "steps", "epochs", "seconds", "parameters", "device", "precision", "weights", "candidates")
    return {
        "row": row.name,
        "command": f"{command_of(place)} --row {row.name}",
        "changes": row.changes,
        "before": list(row.before),
        "recipe": row.recipe,
        **{fact: training[fact] for fact in facts},
        "threads": place.threads,
        "dev": greedy.pop(DEVELOPMENT),
        "test": {name: {"greedy": score, f"beam {BEAM}": beam[name]} for name, score in greedy.items()},
        "signature": config["metrics"][0]["signature"],
        "architecture": config["architecture"],
        "versions": training["versions"],
        "commit": training["commit"],
    }


def command_of(place: Place) -> str:
    """What anybody types to run the ablation, but for the row."""
    file = place.file.name if place.file.is_absolute() else place.file.as_posix()
    return f"python -m benchmarks.ablation {file} --corpora DIR --out DIR"


def _json(result: dict[str, Any]) -> bytes:
    return (json.dumps(result, indent=2, ensure_ascii=False) + "\n").encode()


def run_rows(rows: Sequence[Row], place: Place, jobs: int, say: Say) -> bool:
    """Runs rows, `jobs` at a time, those with commands of their own last, since they may need others' bundles.

    Says what came of each; whether all came to something.
    """
    for row in rows:  # what cannot be is said before any work
        RecipeFile.of(place.recipe(row), Path(f"{place.file}, row {row.name}"), place.corpora)
    told: list[bool] = []
    for wave in ([row for row in rows if not row.before], [row for row in rows if row.before]):
        told += _run_wave(wave, place, jobs, say)
    return all(told)


def _run_wave(wave: Sequence[Row], place: Place, jobs: int, say: Say) -> list[bool]:
    """Runs rows, `jobs` at a time. At Ctrl-C trainings save themselves and end, at a second they end at once."""
    with ThreadPoolExecutor(jobs) as pool:
        try:
            futures = {row.name: pool.submit(run_row, row, place) for row in wave}
            return [_told(name, future, say) for name, future in futures.items()]
        except KeyboardInterrupt:
            try:
                place.stop()
                say("stopping what is running, which saves itself; again to stop at once")
                pool.shutdown(cancel_futures=True)
            except KeyboardInterrupt:
                place.kill()
            raise


def _told(name: str, future: Future[dict[str, Any]], say: Say) -> bool:
    try:
        result = future.result()
    except (ValueError, OSError) as error:  # of this row: the others go on
        say(f"{name}: {error}")
        return False
    say(f"{name}: {result['dev']:.2f} BLEU on the development set")
    return True


def ablation(
    file: Annotated[Path, typer.Argument(help="The base and the rows, as recipes/ablation/multi30k.en-de.toml.")],
    corpora: Annotated[Path, typer.Option(help="Where the files are that the recipe names.")],
    out: Annotated[Path, typer.Option(help="A folder for each row's data, run and bundle.")],
    row: Annotated[list[str] | None, typer.Option(help="Only this row; again for more. (default: all)")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Rows that run at the same time.")] = 1,
    threads: Annotated[int | None, typer.Option(help="CPU threads of each. (default: one a core)")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: a GPU if there is one.")] = "auto",
    logs: Annotated[
        Path | None, typer.Option(help="Where logs and results are copied. (default: docs/recipes/NAME)")
    ] = None,
) -> None:
    """Run the rows of an ablation that are not done, and print the table of those that are."""
    place = Place(file, corpora, out, logs or Path("docs", "recipes", file.stem), device, threads)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:  # the terminal is gone, and this is not under nohup
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    try:
        with immediate_stop():
            good = ablate(place, row or [], jobs)
    except (ValueError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo("\nstopped; the same command goes on", err=True)
        raise typer.Exit(130) from None
    raise typer.Exit(0 if good else 1)


def ablate(place: Place, names: Sequence[str], jobs: int, say: Say = typer.echo) -> bool:
    """Runs the rows of those `names`, or all, and says the table of all that are done. Raises ValueError."""
    rows = read_rows(place.file)
    if unknown := sorted(set(names) - {row.name for row in rows}):
        raise ValueError(f"{place.file} has no row {unknown[0]}: there are {', '.join(row.name for row in rows)}")
    chosen = [row for row in rows if not names or row.name in names]
    good = run_rows(chosen, place, jobs, lambda line: typer.echo(line, err=True))
    done = [result for row in rows if (result := kept_result(row, place))]
    for line in table(command_of(place), done):
        say(line)
    return good


if __name__ == "__main__":
    typer.run(ablation)
