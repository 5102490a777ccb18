"""app/cli/ and training/cli/: the help of every command, of `python -m app`, `python -m training` and
`interlinear`: its group, and its examples, which are run in a folder that has what they name."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from imported_families import firefox
from loopback_registry import loopback_registry, put_firefox_model
from servers import becomes
from shared_fixtures import PAIRS, SHIPPED
from tuned import tune_quickly
from typer.main import get_command
from typer.testing import CliRunner

from app.__main__ import cli as service
from app.__main__ import with_training
from app.cli.training_verbs import TRAINER
from model.bundle import open_bundle
from model.machine import cache_folder
from training.__main__ import GROUPS
from training.__main__ import cli as trainer
from training.align import command as align
from training.align import learn
from training.corpora.corpus import write_pairs

ROOT = Path(__file__).resolve().parents[3]
SERVICE: dict[str, Any] = get_command(service).commands  # type: ignore[attr-defined]
TRAINER_VERBS: dict[str, Any] = get_command(trainer).commands  # type: ignore[attr-defined]
BOTH: dict[str, Any] = get_command(with_training()).commands  # type: ignore[attr-defined]
NAMES = {ours: verb.name for verbs in TRAINER.values() for ours, verb in verbs.items()}
"""The trainer's verbs in `interlinear`, and their names in `python -m training`."""
VERBS = [name for name, command in BOTH.items() if not command.hidden]
GROUP_NAMES = ["Serve and translate", *GROUPS]


def command_of(verb: str) -> Any:
    """The command that has the options and the help of a verb of `interlinear`."""
    return TRAINER_VERBS[NAMES[verb]] if verb in NAMES else SERVICE[verb]


def examples(verb: str) -> list[str]:
    """The paragraphs after the first of the verb's help, up to one that is no command."""
    _, *paragraphs = str(command_of(verb).help).split("\n\n")
    found = []
    for paragraph in paragraphs:
        if not paragraph.startswith("interlinear "):
            break
        found.append(paragraph.strip())
    return found


def test_no_verb_is_missing_from_the_map() -> None:
    assert set(NAMES.values()) == set(TRAINER_VERBS)
    assert set(VERBS) == {*NAMES, *(name for name, command in SERVICE.items() if not command.hidden)}


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_map_shows_each_verb_in_a_line_of_its_group(arguments: list[str]) -> None:
    shown = CliRunner().invoke(with_training(), arguments, env={"COLUMNS": "80"}).output
    verbs, group = {}, ""
    for line in shown.splitlines():
        if heading := re.match(r"╭─ (.*?) ─", line):
            group = heading[1]
        elif group in GROUP_NAMES and line.startswith("│"):
            name, told = line.strip("│ ").split(maxsplit=1)
            verbs[name] = (group, told)
    assert [verb for verb in verbs if verb != "models"] == [verb for verb in VERBS if verb != "models"]
    assert verbs == {verb: (BOTH[verb].rich_help_panel, command_of(verb).help.split("\n\n")[0]) for verb in VERBS}
    assert list(dict.fromkeys(group for group, _ in verbs.values())) == GROUP_NAMES


@pytest.mark.parametrize("verb", VERBS)
def test_verb_has_one_group_everywhere(verb: str) -> None:
    assert BOTH[verb].rich_help_panel == command_of(verb).rich_help_panel
    assert BOTH[verb].rich_help_panel in GROUP_NAMES


@pytest.mark.parametrize("verb", VERBS)
def test_help_starts_with_an_example_of_the_verb(verb: str) -> None:
    assert examples(verb)
    for example in examples(verb):
        assert len(example) < 80
        _, name, *arguments = shlex.split(re.sub(r" [<>]{1,2} \S+", "", example))
        assert name == verb
        command_of(verb).make_context(name, arguments)


SMALL = "--device cpu --threads 1"
QUICKER = {
    "prepare": "--vocab-size 340",
    "train-step": f"--architecture d2l --epochs 1 --warmup 5 {SMALL}",
    "pack": "",
    "unpack": "",
    "export": SMALL,
    "evaluate": f"--raw {SMALL}",
    "calibrate": "--threads 1",
    "align": "--threads 1",
    "distil": SMALL,
    "sentences": "",
    "pair": "",
    "train": SMALL,
    "adapt": f"--accept-general-loss 100 --accept-loss 100 {SMALL}",
    "import": "--threads 1",
    "toy": "--epochs 1 --d-model 16 --device cpu",
    "d2l": "--epochs 1 --device cpu",
}
"""Each verb of the trainer, in the order in which its first example finds what it reads, and what makes it quick."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the files that the examples name."""
    monkeypatch.chdir(tmp_path)
    for name, count in {"my": 80, "train": 20, "test": 20, "dev": 60, "d2l-first-600": 120}.items():
        write_pairs(tmp_path / f"{name}.tsv", PAIRS[:count])
    (tmp_path / "in.txt").write_text("Hello.\nWhere is the train station?\n")
    (tmp_path / "proceedings.xml").write_text("<protokoll><p>Die Sitzung ist eröffnet.</p></protokoll>")
    for language, text in {"en": "The meeting is open.", "es": "La sesión está abierta."}.items():
        (tmp_path / "manual" / language).mkdir(parents=True)
        (tmp_path / "manual" / language / "one.xml").write_text(f'<doc><p id="a">{text}</p></doc>', encoding="utf-8")
    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>{pair.source}</seg></tuv><tuv xml:lang="fr"><seg>{pair.target}</seg></tuv></tu>'
        for pair in PAIRS[:30]
    )
    (tmp_path / "corrections.tmx").write_text(f'<tmx version="1.4"><header srclang="en"/><body>{units}</body></tmx>')
    for name in "bundles/en-fr", "mine/teacher":
        shutil.copytree(SHIPPED / "en-fr", tmp_path / name)
    return tmp_path


@pytest.mark.slow
@pytest.mark.bundle
def test_first_example_of_each_verb_of_the_trainer_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, small_default_size: None
) -> None:
    assert set(QUICKER) == set(NAMES)
    tune_quickly(monkeypatch)
    for module in (learn, align):
        monkeypatch.setattr(module, "MIN_PAIRS", 10)
    compiled = list(cache_folder().glob("kernels-*"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    cache_folder().mkdir(parents=True)
    for kernels in compiled:  # to compile them takes ten seconds
        shutil.copy(kernels, cache_folder())
    with loopback_registry() as registry:
        firefox(folder / "firefox")
        put_firefox_model(registry, folder / "firefox")
        for verb, quicker in QUICKER.items():
            _, _, *arguments = shlex.split(f"{examples(verb)[0]} {quicker}")
            if verb == "unpack":
                shutil.rmtree("data/mine")
            if verb == "train":  # from here on a bundle that learns quickly
                shutil.rmtree("bundles/en-fr")
                shutil.move("mine/en-fr", "bundles/en-fr")
            if verb == "import":
                arguments += ["--registry", f"{registry.url}/db/models.json"]
            done = CliRunner().invoke(trainer, [NAMES[verb], *arguments])
            assert done.exit_code == 0, f"{verb}: {done.output}"
    for made in "mine/en-fr", "imported/en-fr", "bundles/en-fr":
        assert open_bundle(Path(made)).direction.pair == "en-fr"
    assert Path("distilled.tsv").read_text(encoding="utf-8").count("\t") > 0


@pytest.fixture
def environment(folder: Path) -> dict[str, str]:
    """Variables with which a shell finds the command `interlinear` and one worker serves `bundles`."""
    command = folder / "bin" / "interlinear"
    command.parent.mkdir()
    program = "from app.__main__ import interlinear; interlinear()"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -c "{program}" "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "INTERLINEAR_WORKERS": "1"}


@pytest.mark.slow
@pytest.mark.bundle
def test_first_example_of_each_verb_of_the_service_runs(folder: Path, environment: dict[str, str]) -> None:
    ran = set()
    for verb in ("key", "doctor", "translate", "models"):
        command = ["sh", "-c", examples(verb)[0]]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        ran.add(verb)
    assert Path("keys.txt").read_text().startswith("alice sha256:")
    assert len(Path("out.txt").read_text(encoding="utf-8").splitlines()) == 2
    serve = f"exec {examples('serve')[0]}"
    assert "--port 8000" in serve
    command = ["sh", "-c", serve.replace("--port 8000", "--port 0")]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        log = ""
        while not (port := re.search(r"running on http://127\.0\.0\.1:(\d+)", log)):
            log += (line := process.stderr.readline())
            assert line, log
        threading.Thread(target=process.stderr.read).start()
        try:
            assert becomes(lambda: httpx.get(f"http://127.0.0.1:{port[1]}/ready").status_code == 200)
            command = ["sh", "-c", examples("mcp")[0].replace(":8000", f":{port[1]}")]
            done = subprocess.run(
                command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
        finally:
            process.terminate()
    ran |= {"serve", "mcp"}
    assert ran == {name for name, command in SERVICE.items() if not command.hidden}
