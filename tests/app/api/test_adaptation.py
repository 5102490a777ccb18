"""/adaptation: who may adapt a bundle, what is refused, and an adaptation from the file to the served bundle."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import warm
from quick_trainer import COMMAND
from servers import WAIT_S
from shared_fixtures import PAIRS, Service, make_bundle, serving

from app.errors import BundlesRefused
from app.http.api_keys import new_key
from app.services import adaptation, trainer
from app.settings import Settings
from model.bundle import open_bundle

pytestmark = pytest.mark.slow

OWN = "".join(f"{pair.source}\t{pair.target}\n" for pair in PAIRS[:100])
LIMITS = {"accept_general_loss": "100"}
WAITING = [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(10_000)"]
"""A trainer that never ends."""


class Administrator:
    """Sends requests with the key of an administrator, or with another one."""

    def __init__(self, service: Service, key: str) -> None:
        self.service, self.key = service, key

    def request(self, method: str, path: str = "", **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.key}"}
        return self.service.request(method, f"/adaptation{path}", headers=headers, **options)

    def send(self, content: str = OWN, name: str = "own.tsv", **fields: str) -> httpx.Response:
        form = {"source": "en", "target": "fr", **fields}
        return self.request("POST", files={"file": (name, content.encode())}, data=form)

    def status(self) -> Any:
        response = self.request("GET")
        assert response.status_code == 200, response.text
        return response.json()

    def when(self, state: str) -> Any:
        """The status, once the adaptation is in `state`."""
        end = time.monotonic() + 10 * WAIT_S
        while (status := self.status())["state"] != state:
            assert status["state"] != "failed", status
            assert time.monotonic() < end, status
            time.sleep(0.05)
        return status


@pytest.fixture
def bundles(tmp_path: Path) -> Path:
    return make_bundle(tmp_path / "bundles" / "en-fr").parent


def serving_with(
    monkeypatch: pytest.MonkeyPatch, bundles: Path, command: list[str], **settings: Any
) -> tuple[Service, dict[str, str]]:
    """A service with that trainer, and the keys of an administrator and of a user."""
    keys, lines = {}, []
    for name, more in (("admin", " admin"), ("user", "")):
        keys[name], line = new_key(name)
        lines.append(f"{line}{more}\n")
    file = bundles.parent / "keys"
    file.write_text("".join(lines))
    temporary = bundles.parent / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    return serving(bundles, trainer=command, api_keys_file=file, **settings), keys


@pytest.fixture
def adapting(bundles: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Administrator]:
    monkeypatch.setattr(trainer, "NICENESS", 0)  # other tests would keep it waiting
    monkeypatch.setenv(warm.VARIABLE, warm.server_address())
    service, keys = serving_with(monkeypatch, bundles, COMMAND)
    with service:
        yield Administrator(service, keys["admin"])


@pytest.fixture
def waiting(bundles: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Administrator]:
    service, keys = serving_with(monkeypatch, bundles, WAITING)
    with service:
        yield Administrator(service, keys["admin"])


def slug(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["type"].rpartition(":")[2]


def files_left(bundles: Path) -> list[Path]:
    return list((bundles.parent / "temporary").iterdir())


def models(one: Administrator) -> list[str]:
    response = one.service.request("GET", "/models", headers={"Authorization": f"Bearer {one.key}"})
    return [model["model"] for model in response.json()]


@pytest.mark.slow
def test_adaptation_is_served_once_it_is_accepted_and_not_if_it_cannot_be(
    adapting: Administrator, bundles: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = open_bundle(bundles / "en-fr")
    assert adapting.status()["state"] == "none"
    response = adapting.send(minutes="1000", **LIMITS)
    assert (response.status_code, response.json()["state"]) == (202, "planning")
    planned = adapting.when("planned")
    assert slug(adapting.request("POST", "/accept")) == (409, "adaptation-conflict")
    plan = planned["plan"]
    assert (plan["bundle"], plan["accepted_loss"], plan["minutes"]) == (before.name, 100, 1000)
    assert plan["pairs"] + plan["held_out"] + sum(plan["left_out"].values()) == 100
    assert plan["held_out"] > 0 and plan["general"] and plan["rehearsed"] > 0
    assert adapting.request("POST", "/start").status_code == 202
    trained = adapting.when("trained")
    assert {(score["held_out"], score["metric"]) for score in trained["scores"]} == {
        (held_out, metric) for held_out in (True, False) for metric in ("BLEU", "chrF")
    }
    assert len(trained["comparison"]) == plan["held_out"]
    known = {(pair.source, pair.target) for pair in PAIRS[:100]}
    assert {(row["text"], row["reference"]) for row in trained["comparison"]} <= known
    assert models(adapting) == [before.name]
    assert slug(adapting.send()) == (409, "adaptation-conflict")

    kept = shutil.copytree(bundles / "en-fr", tmp_path / "kept")
    shutil.rmtree(bundles / "en-fr")
    make_bundle(bundles / "en-fr", seed=1)
    changed = adapting.request("POST", "/accept")
    assert slug(changed) == (409, "adaptation-conflict")
    assert "has changed since" in changed.json()["detail"]
    shutil.copytree(kept, bundles / "en-fr", dirs_exist_ok=True)

    async def refuse() -> None:
        assert open_bundle(bundles / "en-fr").name != before.name
        raise BundlesRefused("Alas.")

    with monkeypatch.context() as patch:
        patch.setattr(adapting.service.state.deployments, "reload", refuse)
        assert slug(adapting.request("POST", "/accept")) == (409, "bundles-refused")
    assert open_bundle(bundles / "en-fr").name == before.name
    assert adapting.status()["state"] == "trained"

    accepted = adapting.request("POST", "/accept")
    assert (accepted.status_code, accepted.json()["state"]) == (200, "accepted"), accepted.text
    assert models(adapting) == [accepted.json()["model"]] == [open_bundle(bundles / "en-fr").name] != [before.name]
    assert files_left(bundles) == []


@pytest.mark.slow
def test_refusal_of_the_trainer_is_told_and_the_bundle_stays(
    bundles: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "refusing_trainer.py"
    program.write_text(
        "import json, sys\nfrom pathlib import Path\n"
        "if '--dry-run' not in sys.argv: sys.exit('error: general set loses 3.1 BLEU: nothing was exported')\n"
        "work = Path(sys.argv[sys.argv.index('--work') + 1])\nwork.mkdir()\n"
        "plan = dict(bundle='en-fr', pairs=9, held_out=1, left_out={}, rehearsed=0, general={}, accepted_loss=2.0)\n"
        "(work / 'preview.json').write_text(json.dumps(plan | {'minutes': None}))\n"
    )
    before = open_bundle(bundles / "en-fr").name
    service, keys = serving_with(monkeypatch, bundles, [sys.executable, str(program)])
    with service:
        one = Administrator(service, keys["admin"])
        one.send()
        one.when("planned")
        one.request("POST", "/start")
        assert one.when("failed")["error"] == "general set loses 3.1 BLEU: nothing was exported"
        assert slug(one.request("POST", "/accept")) == (409, "adaptation-conflict")
    assert open_bundle(bundles / "en-fr").name == before


@pytest.mark.slow
def test_file_without_a_usable_pair_fails_with_the_trainers_reason(adapting: Administrator) -> None:
    assert adapting.send("Open\tOuvrir\n").status_code == 202
    status = adapting.when("failed")
    assert "there is only one pair" in status["error"]
    assert slug(adapting.request("POST", "/start")) == (409, "adaptation-conflict")
    assert adapting.send("Open\tOuvrir\n").status_code == 202  # another takes its place


@pytest.mark.parametrize(
    ("content", "name", "fields", "pointer"),
    [
        ("Open\n", "own.tsv", {}, "#/file"),
        ("\n", "own.tsv", {}, "#/file"),
        ("no memory", "own.tmx", {}, "#/file"),
        ("<x/>", "own.tmx", {}, "#/file"),
        ("PK\x03\x04\0", "own.docx", {}, "#/file"),
        (OWN, "own.tsv", {"minutes": "0"}, "#/minutes"),
        (OWN, "own.tsv", {"minutes": "nan"}, "#/minutes"),
        (OWN, "own.tsv", {"accept_general_loss": "101"}, "#/accept_general_loss"),
        (OWN, "own.tsv", {"source": "auto"}, "#/source"),
        (OWN, "own.tsv", {"more": "1"}, "#/more"),
    ],
)
def test_wrong_field_is_named(
    waiting: Administrator, content: str, name: str, fields: dict[str, str], pointer: str
) -> None:
    response = waiting.send(content, name, **fields)
    assert slug(response) == (422, "invalid-fields")
    assert [fault["pointer"] for fault in response.json()["errors"]] == [pointer]
    assert waiting.status()["state"] == "none"


def test_pair_without_a_bundle_is_refused(waiting: Administrator) -> None:
    assert slug(waiting.send(target="de")) == (404, "pair-not-served")


@pytest.mark.slow
def test_trainer_has_the_lowest_priority_and_dies_with_its_adaptation(waiting: Administrator, bundles: Path) -> None:
    assert waiting.send().status_code == 202
    end = time.monotonic() + WAIT_S
    while not waiting.status()["lines"]:
        assert time.monotonic() < end
        time.sleep(0.02)
    (folder,) = files_left(bundles)
    [process] = _processes_in(folder)
    assert os.getpriority(os.PRIO_PROCESS, process) == trainer.NICENESS
    autogroup = Path(f"/proc/{process}/autogroup")
    assert not autogroup.exists() or autogroup.read_text().endswith(f" nice {trainer.NICENESS}\n")
    assert slug(waiting.send()) == (409, "adaptation-conflict")
    assert waiting.request("DELETE").status_code == 204
    assert (_processes_in(folder), files_left(bundles)) == ([], [])
    assert waiting.request("DELETE").status_code == 204


@pytest.mark.slow
def test_trainer_dies_with_the_service(bundles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service, keys = serving_with(monkeypatch, bundles, WAITING)
    with service:
        one = Administrator(service, keys["admin"])
        assert one.send().status_code == 202
        end = time.monotonic() + WAIT_S
        while not one.status()["lines"]:
            assert time.monotonic() < end
            time.sleep(0.02)
        (folder,) = files_left(bundles)
        assert len(_processes_in(folder)) == 1
    assert (_processes_in(folder), files_left(bundles)) == ([], [])


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("POST", ""), ("POST", "/start"), ("POST", "/accept")])
def test_only_keys_marked_admin_may_adapt(
    bundles: Path, monkeypatch: pytest.MonkeyPatch, method: str, path: str
) -> None:
    service, keys = serving_with(monkeypatch, bundles, WAITING)
    with service:
        assert slug(Administrator(service, keys["user"]).request(method, path)) == (403, "not-allowed")
        assert slug(Administrator(service, "unknown").request(method, path)) == (401, "not-authorised")


def test_service_without_keys_says_why_it_cannot_adapt(service: Service) -> None:
    response = service.get("/adaptation")
    assert slug(response) == (403, "no-adaptation")
    assert "no API key file" in response.json()["detail"]
    assert 'name="interlinear-adaptation" content="off"' in service.get("/").text


def test_service_without_the_trainer_says_what_is_missing(bundles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adaptation, "missing_for_trainer", lambda: ["sacrebleu"])
    service, keys = serving_with(monkeypatch, bundles, WAITING)
    with service:
        response = Administrator(service, keys["admin"]).send()
        assert slug(response) == (403, "no-adaptation")
        assert "sacrebleu is missing" in response.json()["detail"]
        assert 'name="interlinear-adaptation" content="off"' in service.get("/").text


def test_several_instances_cannot_adapt() -> None:
    several = Settings(api_keys_file=Path("keys"), instances=2), Settings(api_keys_file=Path("keys"), store="redis://x")
    for settings in several:
        assert "one instance" in str(adaptation.obstacle_to_adaptation(settings))
    assert adaptation.obstacle_to_adaptation(Settings(api_keys_file=Path("keys"))) is None


def _processes_in(folder: Path) -> list[int]:
    """The processes whose working directory is `folder`."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                if os.readlink(place / "cwd").startswith(str(folder)):
                    found.append(int(place.name))
            except OSError:
                continue
    return found
