"""training/importing/__main__.py: the importer as a process: what it needs, what it says, and how it ends."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from imported_families import firefox, limit_translations
from loopback_registry import LoopbackRegistry, loopback_registry, put_firefox_model
from typer.testing import CliRunner
from warm import run_warm

from model.bundle import open_bundle
from training.__main__ import cli
from training.importing import __main__ as process
from training.importing import retrieve
from training.importing.registries.hosts import AllowedAddresses, Place
from training.importing.registries.offer import Offer
from training.importing.report import JsonReport

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
TESTS = ROOT / "tests"
NEEDED = re.findall(r"^!training/(.+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
"""The part of training/ that an import needs: what the image gets."""
BLOCKED = """
import importlib.abc, os, runpy, sys

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        place = os.path.join(os.environ["PYTHONPATH"], *name.split("."))
        is_absent = name.startswith("training.") and not os.path.exists(place) and not os.path.exists(place + ".py")
        if is_absent or name.split(".")[0] in os.environ["BLOCKED"].split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
if "FEW" in os.environ:  # sentences to take samples from
    from training.export import samples
    samples.SENTENCES = {language: "|".join(text.split("|")[::9]) for language, text in samples.SENTENCES.items()}
runpy.run_module("training.importing", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of Firefox's kind."""
    folder = tmp_path_factory.mktemp("firefox") / "model"
    firefox(folder)
    return folder


@pytest.fixture(scope="module")
def registry(model: Path) -> Iterator[LoopbackRegistry]:
    with loopback_registry() as server:
        yield server


@pytest.fixture
def address(registry: LoopbackRegistry, model: Path) -> str:
    """Of a list of Mozilla's form with the model, as it is before faults."""
    return put_firefox_model(registry, model)


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT}:{TESTS}/support", "OMP_NUM_THREADS": "1", "COLUMNS": "200", **more}


# ---- What it needs


@pytest.fixture(scope="module")
def needed_part(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the part of training/ that the container gets, and model/."""
    place = tmp_path_factory.mktemp("image")
    for name in NEEDED:
        (place / "training" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "training" / name).symlink_to(ROOT / "training" / name)
    (place / "model").symlink_to(ROOT / "model")
    return place


def run_without_the_extra(
    part: Path, folder: Path, *arguments: str, few_samples: bool = False
) -> subprocess.CompletedProcess[str]:
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["train"]
    names = " ".join(requirement.partition(">")[0] for requirement in extra)
    command = [sys.executable, "-P", "-c", BLOCKED, *arguments]
    more = {"PYTHONPATH": str(part), "BLOCKED": names, **({"FEW": "1"} if few_samples else {})}
    return subprocess.run(
        command, cwd=folder, env=environment(**more), capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.slow
def test_an_import_needs_only_the_services_packages_and_a_part_of_the_trainer(
    needed_part: Path, model: Path, tmp_path: Path
) -> None:
    shown = run_without_the_extra(needed_part, tmp_path, "--help")
    assert shown.returncode == 0, shown.stderr
    assert "Make a bundle of a published model" in shown.stdout
    arguments = [str(model), "--source", "en", "--target", "fr", "--into", "made", "--threads", "1", "--dtype", "int8"]
    refused = run_without_the_extra(needed_part, tmp_path, *arguments, "--check", "pairs.tsv")
    assert refused.returncode == 1
    assert "--check and --calibrate need the extra `train`, of which" in refused.stderr
    assert refused.stderr.count("\n") == 1
    done = run_without_the_extra(needed_part, tmp_path, *arguments, few_samples=True)
    assert done.returncode == 0, done.stderr
    assert open_bundle(tmp_path / "made" / "en-fr").pair == "en-fr"


@pytest.mark.slow
def test_it_needs_all_of_that_part_and_loads_pytorch_only_to_convert() -> None:
    def loaded(module: str) -> set[str]:
        program = f"import sys, {module}; print(*sys.modules)"
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, cwd=ROOT, env=environment(), check=True, capture_output=True, text=True)
        return set(done.stdout.split())

    first, all_of_it = loaded("training.importing.__main__"), loaded("training.importing.bundle")
    assert first & {"torch", "numpy", "sentencepiece"} == set()
    used = {name for name in first | all_of_it if name.startswith("training.") and ".importing" not in name}
    files = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in NEEDED}
    assert used == {f"training.{name}" for name in files - {"__init__", "importing", "corpora.general.tsv"}}


# ---- What it says to a program


@pytest.fixture
def stays_without_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_end_with_stdin", lambda: None)
    monkeypatch.setattr(retrieve, "_PAUSES_S", (0, 0))


def events(*arguments: object) -> list[dict[str, Any]]:
    result = CliRunner().invoke(cli, ["import", *map(str, arguments), "--json"])
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.usefixtures("stays_without_stdin")
def test_a_program_reads_the_states_of_an_import_from_a_name_to_a_bundle(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_translations(monkeypatch)
    monkeypatch.setattr(JsonReport, "progress_every_s", 0)
    places = ["--into", tmp_path / "made", "--downloads", tmp_path / "downloads"]
    said = events("firefox:en-fr", "--registry", address, *places, "--threads", 1)
    states = [event["state"] for event in said if event["state"] != "note"]
    assert list(dict.fromkeys(states)) == ["finding", "downloading", "converting", "checking", "done"]
    arriving = [event for event in said if event["state"] == "downloading"]
    assert all(event["name"] == "firefox:en-fr@tiny" for event in arriving)
    assert (arriving[0]["source"], arriving[0]["target"], arriving[0]["licence"]) == ("en", "fr", "MPL-2.0")
    amounts = [event["bytes"] for event in arriving]
    assert amounts == sorted(amounts)
    assert amounts[0] == 0
    assert amounts[-1] == arriving[-1]["total"] > 0
    folder = tmp_path / "made" / "en-fr"
    bundle = open_bundle(folder)
    done = {"state": "done", "folder": str(folder), "model": bundle.name, "name": "firefox:en-fr@tiny"}
    assert said[-1] == done
    assert {path.name for path in (tmp_path / "downloads").iterdir()} == {"firefox", "lists"}
    again = events("firefox:en-fr", "--registry", address, *places, "--threads", 1)
    assert again[-1]["state"] == "failed"
    assert "--replace" in again[-1]["error"]
    assert again[-1]["passes"] is False


def test_progress_is_reported_at_most_twice_a_second_and_never_goes_back(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("training.importing.report.time", SimpleNamespace(monotonic=lambda: now))
    offer, report = Offer("argos", "en-fr", "1.9", (), "page", "MIT", (), "en", "fr"), JsonReport()
    for step in range(100):
        now = step / 10
        report.download(offer, 50 if step == 50 else 1_000 * step, 90_000)
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(said) == 20
    amounts = [event["bytes"] for event in said]
    assert amounts == sorted(amounts)
    assert all(event["total"] >= event["bytes"] for event in said)


@pytest.mark.slow
@pytest.mark.parametrize("is_json", [True, False])
def test_only_with_json_it_ends_when_its_standard_input_does(address: str, tmp_path: Path, is_json: bool) -> None:
    """Its standard input ends with the program that started it."""
    with loopback_registry() as slow:
        slow.add("db/models.json", b"{}").stall = 1
        command = [sys.executable, "-P", "-m", "training.importing", "firefox:en-fr"]
        registry = f"{slow.url}/db/models.json" if is_json else address
        command += ["--registry", registry, "--downloads", "downloads", "--download-only", "--out", "out"]
        running = subprocess.Popen(
            [*command, *(["--json"] if is_json else [])],
            cwd=tmp_path,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert running.stdin
        assert running.stdout
        if is_json:
            assert json.loads(running.stdout.readline()) == {"state": "finding"}
        running.stdin.close()
        assert running.wait(60) == (1 if is_json else 0)
        running.stdout.close()


# ---- What it may ask


@pytest.mark.parametrize(
    ("place", "address", "is_allowed"),
    [
        ("models.example", "https://models.example/a", True),
        ("models.example", "http://models.example/a", False),
        ("models.example", "https://models.example:8443/a", False),
        ("models.example", "https://models.example.evil.example/a", False),
        ("models.example", "https://evil.example/models.example", False),
        ("models.example", "https://models.example@evil.example/", False),
        ("models.example:8443", "https://models.example:8443/a", True),
        ("models.example:8443", "https://models.example/a", False),
        ("*.models.example", "https://eu.models.example/a", True),
        ("*.models.example", "https://models.example/a", False),
        ("*.models.example", "https://evilmodels.example/a", False),
        ("models.example/ours/", "https://models.example/ours/a", True),
        ("models.example/ours/", "https://models.example/others/a", False),
        ("127.0.0.1:8080", "http://127.0.0.1:8080/a", True),
        ("127.0.0.1:8080", "http://127.0.0.1:8081/a", False),
        ("[::1]:8080", "http://[::1]:8080/a", True),
        ("10.0.0.1", "http://10.0.0.1/a", False),
        ("10.0.0.1", "https://10.0.0.1/a", True),
        ("models.example", "ftp://models.example/a", False),
    ],
)
def test_addresses_are_of_a_host_by_https(place: str, address: str, is_allowed: bool) -> None:
    allowed = AllowedAddresses("firefox", (Place.parse(place),))
    assert (allowed.refuse(address) is None) == is_allowed


@pytest.mark.parametrize("text", ["", "https://models.example", "a b", "models.example:x", "*", "user@models.example"])
def test_a_host_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no host, such as models\.example"):
        Place.parse(text)


@pytest.mark.parametrize("name", retrieve.LISTS)
def test_each_registrys_own_list_is_among_its_addresses_and_no_other(name: str) -> None:
    address, _ = retrieve.LISTS[name]
    allowed = AllowedAddresses(name, tuple(map(Place.parse, retrieve.HOSTS[name])))
    assert allowed.refuse(address) is None
    for other in ("https://127.0.0.1/", "http://169.254.169.254/latest/meta-data", address.replace("https:", "http:")):
        assert allowed.refuse(other) is not None


@pytest.mark.usefixtures("stays_without_stdin")
@pytest.mark.parametrize("what", ["db/models.json", "models/model.enfr.bin.gz"])
def test_a_redirect_to_another_place_is_refused_by_name_unless_its_host_is_allowed(
    registry: LoopbackRegistry, address: str, tmp_path: Path, what: str
) -> None:
    with loopback_registry() as other:
        host = other.url.removeprefix("http://")
        other.files["moved"] = registry.files[what]
        registry.add(what, b"").redirect = f"{other.url}/moved?signature=1"
        command = ["firefox:en-fr", "--registry", address, "--downloads", tmp_path, "--download-only"]
        refused = events(*command, "--out", tmp_path / "out")[-1]
        assert f"redirects to {other.url}/moved, which is none of the addresses of firefox" in refused["error"]
        assert f"--host, or for the service INTERLINEAR_REGISTRY_HOSTS, allows {host}" in refused["error"]
        assert refused["passes"] is False
        assert other.asked == []
        assert events(*command, "--out", tmp_path / "out", "--host", host)[-1]["state"] != "failed"
        assert [path for path, _ in other.asked] == ["moved"]


# ---- What goes wrong


def download(address: str, folder: Path, *options: object) -> dict[str, Any]:
    """The last event of a download."""
    command = ["firefox:en-fr", "--registry", address, "--downloads", folder / "downloads", "--download-only"]
    return events(*command, "--out", folder / "out", *options)[-1]


WEIGHTS = "models/model.enfr.bin.gz"
LIST = "db/models.json"
HALF = -1
"""Half of the file's bytes."""


@pytest.mark.usefixtures("stays_without_stdin")
@pytest.mark.parametrize(
    ("what", "fields", "error", "passes", "retry_after_s"),
    [
        (LIST, {"statuses": [404]}, "404 Not Found; if the list has moved, --registry, or for the", False, None),
        (LIST, {"content": b"<html>"}, "is not JSON: .*INTERLINEAR_REGISTRIES=firefox=URL, takes its", True, None),
        (LIST, {"content": b"[]"}, "is not Mozilla's list of models: .* if the list has moved", False, None),
        (LIST, {"statuses": [503] * 3}, "the server answered 503 Service Unavailable", True, None),
        (WEIGHTS, {"statuses": [404]}, "the server answered 404 Not Found", False, None),
        (WEIGHTS, {"statuses": [403]}, "the server answered 403 Forbidden", False, None),
        (WEIGHTS, {"statuses": [429], "retry_after": "3600"}, "asks to wait for 3,600 s", True, 3600),
        (WEIGHTS, {"statuses": [503], "retry_after": "61"}, "asks to wait for 61 s", True, 61),
        (WEIGHTS, {"statuses": [429] * 3, "retry_after": "0"}, "429 Too Many Requests", True, 0),
        (WEIGHTS, {"content": gzip.compress(b"another")}, "bytes unpacked, where its list says", False, None),
        (WEIGHTS, {"is_endless": True}, "goes on after [0-9,]+ bytes, the limit; it was deleted", False, None),
    ],
)
def test_a_fault_is_named_in_a_sentence_with_whether_it_passes(
    registry: LoopbackRegistry,
    address: str,
    tmp_path: Path,
    what: str,
    fields: dict[str, Any],
    error: str,
    passes: bool,
    retry_after_s: float | None,
) -> None:
    vars(registry.files[what]).update(fields)
    failed = download(address, tmp_path)
    assert failed["state"] == "failed"
    assert re.search(error, failed["error"]), failed["error"]
    assert (failed["passes"], failed["retry_after_s"]) == (passes, retry_after_s)
    assert not (tmp_path / "out").exists()
    assert sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()) < 1 << 20


@pytest.mark.usefixtures("stays_without_stdin")
@pytest.mark.parametrize(
    "fields",
    [
        {"statuses": (429,), "retry_after": "0"},
        {"statuses": (500, 500)},
        {"stall": HALF},
        {"cut": HALF},
        {"cut": HALF, "etag": None},
        {"cut": HALF, "statuses": (503,)},
    ],
)
@pytest.mark.parametrize("what", [LIST, WEIGHTS])
def test_a_fault_that_passes_is_waited_for_and_the_download_goes_on(
    registry: LoopbackRegistry,
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    fields: dict[str, Any],
) -> None:
    monkeypatch.setattr("training.download._TIMEOUT_S", 0.2)
    content = registry.files[what].content
    half = len(content) // 2
    for name, value in fields.items():
        setattr(registry.files[what], name, half if value == HALF else list(value) if name == "statuses" else value)
    assert download(address, tmp_path)["state"] != "failed"
    assert retrieve.read_manifest(tmp_path / "out") is not None
    asked = [wanted for path, wanted in registry.asked if path == what]
    is_resumed = ("stall" in fields or "cut" in fields) and fields.get("etag", "") is not None
    assert asked[-1] == (f"bytes={half}-" if is_resumed else None)


@pytest.mark.usefixtures("stays_without_stdin")
def test_bytes_of_the_same_size_that_are_not_the_model_are_refused(
    registry: LoopbackRegistry, address: str, model: Path, tmp_path: Path
) -> None:
    size = (model / "model.enfr.bin").stat().st_size
    registry.files[WEIGHTS].content = gzip.compress(os.urandom(size))
    failed = download(address, tmp_path)
    assert "as SHA-256 unpacked, where its list says" in failed["error"]
    assert not (tmp_path / "out").exists()
    package = {"from_code": "en", "to_code": "fr", "package_version": "1", "links": ["en-fr.argosmodel"]}
    registry.add("index.json", json.dumps([package]).encode())
    registry.add("en-fr.argosmodel", os.urandom(size))
    command = ["argos:en-fr", "--registry", f"{registry.url}/index.json", "--downloads", tmp_path / "downloads"]
    failed = events(*command, "--into", tmp_path / "made")[-1]
    assert failed["state"] == "failed"
    assert failed["passes"] is False
    assert not (tmp_path / "made").exists()


@pytest.mark.usefixtures("stays_without_stdin")
def test_one_broken_entry_of_the_list_is_left_out_with_a_note(
    registry: LoopbackRegistry, model: Path, tmp_path: Path
) -> None:
    address = put_firefox_model(registry, model, **{"en-xx": [{"files": 3}]})
    command = ["firefox:en-fr", "--registry", address, "--downloads", tmp_path / "downloads", "--download-only"]
    said = events(*command, "--out", tmp_path / "out")
    assert (tmp_path / "out").exists()
    assert [event for event in said if "has an entry that is left out, 'en-xx'" in event.get("text", "")]


@pytest.mark.usefixtures("stays_without_stdin")
@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError(
            "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 4000000000 bytes."
        ),
    ],
)
def test_too_little_memory_is_said_in_a_line(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def build(*_: object) -> None:
        raise error

    monkeypatch.setattr("training.importing.bundle.build_model", build)
    arguments = [str(model), "--source", "en", "--target", "fr", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(cli, ["import", *arguments])
    assert result.exit_code == 1
    assert result.stderr.startswith("error: there is too little memory")
    assert result.stderr.count("\n") == 1
    assert events(*arguments)[-1]["error"].startswith("there is too little memory")


# ---- Killed, or the disk full, at any moment


PLACES = ("made", "downloads", "temporary")


def import_until(how: str, number: int, address: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Imports the model into `folder`, and what is there is replaced; see `importing_changes`."""
    (folder / "temporary").mkdir(exist_ok=True)
    command = ["firefox:en-fr", "--registry", address, "--dtype", "int8", "--replace", "--threads", "1"]
    places = ["--into", str(folder / "made"), "--downloads", str(folder / "downloads")]
    arguments = ["importing_changes", how, str(number), str(folder), *command, *places]
    return run_warm(arguments, environment(TMPDIR=str(folder / "temporary")), Path(__file__).parent)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def undisturbed(
    registry: LoopbackRegistry, model: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[int, dict[str, bytes]]:
    """How many changes of files an import makes, and what is there afterwards."""
    folder = tmp_path_factory.mktemp("undisturbed")
    done = import_until("count", 0, put_firefox_model(registry, model), folder)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.splitlines()[-1]), contents(folder)


@pytest.mark.slow
@pytest.mark.parametrize("tenth", range(1, 11))
@pytest.mark.parametrize("how", ["kill", "full"])
def test_an_import_that_is_killed_or_finds_the_disk_full_leaves_nothing_half_made_and_the_next_one_finishes(
    address: str, undisturbed: tuple[int, dict[str, bytes]], tmp_path: Path, how: str, tenth: int
) -> None:
    """In every second case there is a bundle already, which stays until it is replaced."""
    changes, expected = undisturbed
    is_replaced = tenth % 2 == 1
    for name in (name for name in expected if is_replaced and name.startswith("made/")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(expected[name])
    stopped = import_until(how, changes * tenth // 10, address, tmp_path)
    assert stopped.returncode in ((-9, 137) if how == "kill" else (0, 1)), stopped.stderr
    if stopped.returncode == 1:
        assert "No space left on device" in stopped.stderr
        assert stopped.stderr.splitlines()[-1].startswith("error: ")
        assert "Traceback" not in stopped.stderr
    named = [path for path in (tmp_path / "made").glob("*") if not path.name.startswith(".")]
    assert [path.name for path in named] == ["en-fr"] or (not is_replaced and named == [])
    for bundle in named:
        assert open_bundle(bundle).pair == "en-fr"
    assert how == "kill" or stopped.returncode == 0 or not list((tmp_path / "made").glob(".*"))
    done = import_until("count", 0, address, tmp_path)
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path) == expected


@pytest.mark.slow
@pytest.mark.parametrize("what", [LIST, WEIGHTS])
def test_an_import_that_is_killed_while_bytes_arrive_is_resumed(
    registry: LoopbackRegistry, address: str, undisturbed: tuple[int, dict[str, bytes]], tmp_path: Path, what: str
) -> None:
    """Killed by an answer that never ends: its reader waits, and the test kills it."""
    _, expected = undisturbed
    half = len(registry.files[what].content) // 2
    registry.files[what].stall = half
    command = [sys.executable, "-P", "-m", "training.importing", "firefox:en-fr", "--registry", address, "--json"]
    command += ["--into", str(tmp_path / "made"), "--downloads", str(tmp_path / "downloads")]
    running = subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    pattern = ".*.part" if what == WEIGHTS else ".*.mark"  # the list's bytes stay in the process's memory
    while not any(path.stat().st_size for path in tmp_path.rglob(pattern)):
        assert running.poll() is None
        threading.Event().wait(0.01)
    assert running.stdin
    running.stdin.close()
    running.wait(60)
    assert not [path for path in tmp_path.glob("made/*") if not path.name.startswith(".")]
    done = import_until("count", 0, address, tmp_path)
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path) == expected
    first, last = [wanted for path, wanted in registry.asked if path == what]
    assert first is None
    assert (last is not None) == (what == WEIGHTS)
