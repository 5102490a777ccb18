"""Published models are installed while the service runs, by an importer that follows a script."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from servers import WAIT_S
from shared_fixtures import Service, make_bundle, serving

from app.errors import BundlesRefused
from app.http.api_keys import new_key
from app.published.folder import ModelsFolder
from app.published.jobs import job_id
from app.runtime.metrics import exposition
from app.services.reload import Deployments
from model.published import ModelName, parse_name

pytestmark = pytest.mark.slow

Line = dict[str, Any]
SCRIPTED = Path(__file__).parents[2] / "support" / "scripted_importer.py"
FOUND: dict[str, Any] = {"name": "firefox:en-fr@base-memory", "source": "en", "target": "fr", "licence": "MPL-2.0"}
ARRIVING: Line = {"state": "downloading", **FOUND, "bytes": 40, "total": 100}
COMPLETE: list[Line] = [
    {"state": "finding"},
    ARRIVING,
    {**ARRIVING, "bytes": 100},
    {"state": "converting"},
    {"state": "checking"},
]
DONE: list[Line] = [*COMPLETE, {"copy": "en-fr", "name": "firefox:en-fr@base-memory"}]
HELLO = {"text": "Hello.", "source": "en", "target": "fr"}


def record(name: str) -> dict[str, Any]:
    figure = {"dataset": "FLORES-200 devtest", "metric": "BLEU", "score": 40.5, "origin": "its publisher"}
    return {"name": name, "page": "https://example.org/models", "published": [figure], "downloaded": "2026-11-29"}


class Site:
    """A service with a bundle, a folder of models, and what its importer will say."""

    def __init__(self, folder: Path) -> None:
        self.bundles, self.models, self.script = folder / "bundles", folder / "models", folder / "script"
        self.script.mkdir()
        make_bundle(self.bundles / "en-fr", seed=1)
        self.publish("firefox:en-fr", DONE)

    def publish(self, name: str, lines: Sequence[Line], seed: int = 2) -> None:
        """What the importer says of a model, and the bundle that it makes."""
        path = self.script / name.replace(":", "-")
        path.with_suffix(".json").write_text(json.dumps(list(lines)))
        bundle = path.with_suffix(".bundle")
        shutil.rmtree(bundle, ignore_errors=True)
        make_bundle(bundle, seed=seed, imported=record(f"{name}@base-memory"))

    def go_on(self, name: str = "firefox:en-fr") -> None:
        (self.script / f"{name.replace(':', '-')}.goes_on").touch()

    def runs(self, name: str = "firefox:en-fr") -> list[str]:
        path = self.script / f"{name.replace(':', '-')}.runs"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def importer(self) -> list[str]:
        return [sys.executable, str(SCRIPTED), str(self.script)]

    def serving(self, *models: str, **settings: Any) -> Service:
        names = tuple(name for text in models if (name := parse_name(text)))
        settings = {"models_dir": self.models, "models": names, "precision": "auto", **settings}
        return serving(self.bundles, importer=self.importer, **settings)


POLL_S = 0.05


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Its service looks for work every 50 ms, and not only every half second, and other tests do not keep its importer
    waiting."""
    monkeypatch.setattr("app.published.installer.POLL_S", POLL_S)
    monkeypatch.setattr("app.services.trainer.NICENESS", 0)
    return Site(tmp_path)


def ask(service: Service, method: str, path: str, **options: Any) -> httpx.Response:
    """As somebody at this machine."""
    return service.request(method, path, headers={"Host": "localhost:8000"}, timeout=WAIT_S, **options)


def install(service: Service, model: str = "firefox:en-fr") -> dict[str, Any]:
    answer = ask(service, "POST", "/models", json={"model": model})
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


def until(service: Service, id: str, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    limit = time.monotonic() + WAIT_S
    while not reached(job := dict(ask(service, "GET", f"/models/jobs/{id}").json())):
        assert time.monotonic() < limit, job
        time.sleep(POLL_S)
    return job


def ended(service: Service, id: str) -> dict[str, Any]:
    return until(service, id, lambda job: job["state"] in ("done", "failed", "cancelled"))


def served(service: Service) -> dict[str, Any]:
    return {f"{one['source']}-{one['target']}": one for one in service.get("/models").json()}


def leftovers(site: Site) -> list[str]:
    """What is in the folder of models besides bundles, the lock and jobs."""
    hidden = {path.name for path in site.models.iterdir() if path.name.startswith(".")}
    return sorted(hidden - {".lock", ".jobs"})


def test_an_installed_model_serves_in_place_of_the_shipped_one(site: Site) -> None:
    with site.serving() as service:
        before = served(service)["en-fr"]
        assert before["installed"] is None
        job = install(service)
        assert job["state"] == "queued"
        done = ended(service, job["id"])
        assert done["state"] == "done", done
        assert (done["name"], done["licence"], done["bytes"], done["total"]) == (FOUND["name"], "MPL-2.0", 100, 100)
        after = served(service)["en-fr"]
        assert done["serves"] == after["model"] != before["model"]
        assert after["installed"] == {
            "model": "firefox:en-fr@base-memory",
            "page": "https://example.org/models",
            "published": record("")["published"],
            "downloaded": "2026-11-29",
            "removable": True,
            "replaces": before["model"],
        }
        assert service.post("/translate", HELLO).json()["model"] == after["model"]
        assert leftovers(site) == []


def test_what_the_settings_name_is_installed_once_and_for_all_starts(site: Site) -> None:
    with site.serving("firefox:en-fr") as service:
        ended(service, job_id(ModelName("firefox", "en-fr")))
        first = served(service)["en-fr"]["model"]
    with site.serving("firefox:en-fr") as service:
        assert served(service)["en-fr"]["model"] == first
        time.sleep(10 * POLL_S)  # an installer that wanted to would begin
        assert len(site.runs()) == 1
        assert service.get("/ready").json()["installing"] == []


def test_ready_waits_for_required_models_and_says_how_far_they_are(site: Site) -> None:
    site.publish("firefox:en-fr", [COMPLETE[0], ARRIVING, {"await": True}, *DONE[2:]])
    with site.serving("firefox:en-fr", models_required=True) as service:
        service.run(service.state.deployments.current.engine.wait_started())
        until(service, job_id(ModelName("firefox", "en-fr")), lambda job: job["bytes"] == 40)
        refused = service.get("/ready")
        assert refused.status_code == 503
        while "downloading, 0.0 of 0.0 MB" not in refused.json()["detail"]:
            refused = service.get("/ready")
        assert service.post("/translate", HELLO).status_code == 200
        site.go_on()
        ended(service, job_id(ModelName("firefox", "en-fr")))
        assert service.get("/ready").json()["installing"] == []


def test_ready_and_metrics_show_what_is_being_installed(site: Site) -> None:
    site.publish("firefox:en-fr", [COMPLETE[0], ARRIVING, {"await": True}, *DONE[2:]])
    with site.serving("firefox:en-fr") as service:
        service.run(service.state.deployments.current.engine.wait_started())
        until(service, job_id(ModelName("firefox", "en-fr")), lambda job: job["bytes"] == 40)
        while not (installing := service.get("/ready").json()["installing"]) or installing[0]["bytes"] != 40:
            time.sleep(POLL_S)
        expected = {"model": "firefox:en-fr", "state": "downloading", "bytes": 40, "total": 100}
        assert installing == [{**expected, "error": None, "retry_at": None}]
        assert served(service)["en-fr"]["installing"] == installing[0]
        shown = exposition(service.state.metrics).decode()
        assert 'interlinear_model_install_bytes{of="arrived"} 40.0' in shown
        assert "interlinear_models_missing 1.0" in shown
        site.go_on()
        ended(service, job_id(ModelName("firefox", "en-fr")))
        shown = exposition(service.state.metrics).decode()
        assert "interlinear_models_missing 0.0" in shown
        assert 'interlinear_model_installs_total{state="done"} 1.0' in shown


def test_the_same_model_asked_for_twice_is_one_job(site: Site) -> None:
    site.publish("firefox:en-fr", [{"await": True}, *DONE])
    with site.serving() as service:
        first, second = install(service), install(service)
        assert first["id"] == second["id"]
        site.go_on()
        assert ended(service, first["id"])["state"] == "done"
        assert len(site.runs()) == 1


def test_a_failure_is_said_and_changes_nothing(site: Site) -> None:
    site.publish("firefox:en-fr", [{"state": "failed", "error": "the server answered 404 Not Found"}, {"exit": 1}])
    with site.serving() as service:
        before = served(service)["en-fr"]["model"]
        failed = ended(service, install(service)["id"])
        assert failed["state"] == "failed"
        assert failed["error"]["detail"] == "the server answered 404 Not Found"
        assert failed["error"]["type"] == "urn:interlinear:error:install-failed"
        assert served(service)["en-fr"]["model"] == before
        assert leftovers(site) == []
        assert [one["state"] for one in service.get("/ready").json()["installing"]] == ["failed"]
        site.publish("firefox:en-fr", DONE)
        assert ended(service, install(service)["id"])["state"] == "done"


def test_a_model_that_cannot_be_had_keeps_no_other_from_serving(site: Site) -> None:
    site.publish("argos:en-de", [{"state": "failed", "error": "no such pair"}, {"exit": 1}])
    with site.serving("argos:en-de", "firefox:en-fr") as service:
        ended(service, job_id(ModelName("firefox", "en-fr")))
        waiting = until(service, job_id(ModelName("argos", "en-de")), lambda job: job["state"] == "waiting")
        assert waiting["error"]["detail"] == "no such pair"
        assert waiting["retry_at"]
        assert service.post("/translate", HELLO).json()["model"] == served(service)["en-fr"]["model"]
        assert [one["model"] for one in service.get("/ready").json()["installing"]] == ["argos:en-de"]


def test_cancelling_ends_the_importer_and_leaves_nothing(site: Site) -> None:
    site.publish("firefox:en-fr", [COMPLETE[0], ARRIVING, {"await": True}, *DONE[2:]])
    with site.serving() as service:
        id = install(service)["id"]
        until(service, id, lambda job: job["state"] == "downloading")
        assert ask(service, "DELETE", f"/models/jobs/{id}").status_code == 204
        assert ended(service, id)["state"] == "cancelled"
        assert leftovers(site) == []
        assert ask(service, "DELETE", f"/models/jobs/{id}").status_code == 204
        assert ask(service, "GET", f"/models/jobs/{id}").status_code == 404
        site.go_on()
        assert ended(service, install(service)["id"])["state"] == "done"


def test_a_job_that_a_stop_interrupts_goes_on_at_the_next_start(site: Site) -> None:
    site.publish("firefox:en-fr", [COMPLETE[0], ARRIVING, {"await": True}, *DONE[2:]])
    with site.serving() as service:
        id = install(service)["id"]
        until(service, id, lambda job: job["state"] == "downloading")
        (site.models / ".downloads" / "half").touch()
    assert (site.models / ".downloads" / "half").exists()
    site.go_on()
    with site.serving() as service:
        assert ended(service, id)["state"] == "done"
        assert len(site.runs()) == 2
        assert leftovers(site) == []


def test_a_model_that_the_settings_name_no_more_is_not_tried_again(site: Site) -> None:
    site.publish("argos:en-de", [{"state": "failed", "error": "no such pair"}, {"exit": 1}])
    id = job_id(ModelName("argos", "en-de"))
    with site.serving("argos:en-de") as service:
        until(service, id, lambda job: job["state"] == "waiting")
    with site.serving() as service:
        assert ended(service, id)["state"] == "cancelled"


def test_a_model_that_the_service_refuses_leaves_the_one_that_was_there(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    reload = Deployments.reload
    with site.serving() as service:
        ended(service, install(service)["id"])
        first = served(service)["en-fr"]["model"]
        site.publish("firefox:en-fr", DONE, seed=3)

        async def refuse_new(deployments: Deployments) -> bool:
            if ModelsFolder(site.models).new.exists() and any(ModelsFolder(site.models).new.iterdir()):
                raise BundlesRefused(f"{site.models}/en-fr: a sample came out wrong")
            return await reload(deployments)

        monkeypatch.setattr(Deployments, "reload", refuse_new)
        failed = ended(service, install(service)["id"])
        assert failed["state"] == "failed"
        assert failed["error"]["detail"] == f"The service cannot serve it: {site.models}/en-fr: a sample came out wrong"
        monkeypatch.undo()
        service.run(service.state.deployments.reload())
        assert served(service)["en-fr"]["model"] == first
        assert leftovers(site) == []


def test_a_bundle_of_the_users_own_is_not_replaced(site: Site) -> None:
    mine = make_bundle(site.models / "en-fr", seed=7)
    with site.serving() as service:
        before = served(service)["en-fr"]["model"]
        failed = ended(service, install(service)["id"])
        assert failed["error"]["detail"] == f"{mine} is a bundle that was not installed: move it elsewhere first"
        assert served(service)["en-fr"]["model"] == before


def test_a_damaged_new_bundle_leaves_the_one_that_was_there(site: Site) -> None:
    with site.serving() as service:
        ended(service, install(service)["id"])
        before = served(service)["en-fr"]["model"]
        site.publish("firefox:en-fr", DONE, seed=3)
        (site.script / "firefox-en-fr.bundle" / "model.safetensors").write_bytes(b"")
        failed = ended(service, install(service)["id"])
        assert failed["state"] == "failed"
        assert "is damaged" in failed["error"]["detail"]
        assert served(service)["en-fr"]["model"] == before


def test_a_required_model_that_is_replaced_later_takes_no_service_down(site: Site) -> None:
    with site.serving("firefox:en-fr", models_required=True) as service:
        ended(service, job_id(ModelName("firefox", "en-fr")))
        assert service.get("/ready").status_code == 200
        refused = ask(service, "POST", "/models", json={"model": "argos:en-fr"})
        assert refused.status_code == 409
        assert "INTERLINEAR_MODELS names firefox:en-fr" in refused.json()["detail"]
        shutil.rmtree(site.models / "en-fr")
        service.run(service.state.deployments.reload())
        assert service.get("/ready").status_code == 200


def test_what_is_asked_for_again_is_tried_at_once_with_an_accepted_licence(site: Site) -> None:
    site.publish("firefox:en-fr", [{"state": "failed", "error": "licence", "passes": True}, {"exit": 1}])
    with site.serving() as service:
        id = install(service)["id"]
        until(service, id, lambda job: job["state"] == "waiting")
        site.publish("firefox:en-fr", DONE)
        ask(service, "POST", "/models", json={"model": "firefox:en-fr", "accept_licence": True})
        assert ended(service, id)["state"] == "done"
    assert ["--accept-licence" in run for run in site.runs()] == [False, True]


def test_the_last_bundle_is_not_removed(site: Site) -> None:
    with site.serving() as service:
        ended(service, install(service)["id"])
        shutil.rmtree(site.bundles / "en-fr")
        before = served(service)["en-fr"]["model"]
        assert ask(service, "DELETE", "/models/en-fr").status_code == 409
        assert (site.models / "en-fr").exists()
        assert served(service)["en-fr"]["model"] == before


def test_a_removed_model_gives_its_place_back(site: Site) -> None:
    with site.serving() as service:
        before = served(service)["en-fr"]["model"]
        ended(service, install(service)["id"])
        assert ask(service, "DELETE", "/models/en-fr").status_code == 204
        assert served(service)["en-fr"]["model"] == before
        assert leftovers(site) == []
        missing = ask(service, "DELETE", "/models/en-fr")
        assert missing.status_code == 404
        assert ask(service, "DELETE", "/models/%2E%2E").status_code == 404
        assert site.bundles.exists()


def test_a_model_that_the_settings_name_is_not_removed(site: Site) -> None:
    with site.serving("firefox:en-fr") as service:
        ended(service, job_id(ModelName("firefox", "en-fr")))
        refused = ask(service, "DELETE", "/models/en-fr")
        assert refused.status_code == 409
        assert "INTERLINEAR_MODELS names firefox:en-fr@base-memory" in refused.json()["detail"]


def test_a_place_that_is_no_folder_is_said_and_the_service_serves(site: Site) -> None:
    site.models.write_text("a file")
    with site.serving("firefox:en-fr") as service:
        limit = time.monotonic() + WAIT_S
        while not (installing := service.get("/ready").json().get("installing")):
            assert time.monotonic() < limit
            time.sleep(POLL_S)
        assert (installing[0]["state"], installing[0]["retry_at"] is None) == ("waiting", False)
        refused = ask(service, "POST", "/models", json={"model": "firefox:en-fr"})
        assert refused.status_code == 409
        assert "cannot be written" in refused.json()["detail"]
        waiting = until(service, job_id(ModelName("firefox", "en-fr")), lambda job: job["state"] == "waiting")
        assert "cannot be written" in waiting["error"]["detail"]
        assert service.post("/translate", HELLO).status_code == 200


def test_a_damaged_installed_model_is_left_out(site: Site) -> None:
    with site.serving() as service:
        before = served(service)["en-fr"]["model"]
        ended(service, install(service)["id"])
    weights = site.models / "en-fr" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with site.serving() as service:
        assert served(service)["en-fr"]["model"] == before


def test_two_services_with_one_folder_install_once(site: Site) -> None:
    site.publish("firefox:en-fr", [{"await": True}, *DONE])
    with site.serving("firefox:en-fr") as one, site.serving("firefox:en-fr") as other:
        id = job_id(ModelName("firefox", "en-fr"))
        until(one, id, lambda job: job["attempts"] == 1)
        site.go_on()
        for service in (one, other):
            assert ended(service, id)["state"] == "done"
        limit = time.monotonic() + WAIT_S
        while served(one).keys() != served(other).keys() or any(
            service.post("/translate", HELLO).json()["model"] != served(one)["en-fr"]["model"]
            for service in (one, other)
        ):
            assert time.monotonic() < limit
            time.sleep(0.1)
        assert len(site.runs()) == 1


def test_the_importer_gets_mirrors_hosts_and_an_accepted_licence(site: Site) -> None:
    with site.serving(
        registries={"firefox": "/srv/models.json"}, registry_hosts=("one.example", "two.example")
    ) as service:
        answer = ask(service, "POST", "/models", json={"model": "firefox:en-fr", "accept_licence": True})
        ended(service, answer.json()["id"])
    [run] = site.runs()
    assert "--registry /srv/models.json --host one.example --host two.example --accept-licence" in run
    assert "--dtype int8 --threads 1 --replace --json" in run


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA bounds mappings only on Linux")
def test_the_importer_has_a_bound_on_memory(site: Site) -> None:
    site.publish("firefox:en-fr", [{"state": "finding"}, {"allocate": 16 << 30}, *DONE])
    with site.serving() as service:
        id = install(service)["id"]
        failed = until(service, id, lambda job: job["state"] == "waiting")
        assert "MemoryError" in failed["error"]["detail"]


# ---- Who may


def test_without_keys_only_this_machine_installs(site: Site) -> None:
    refused = [
        {"Host": "test"},  # a name that leads here (DNS rebinding)
        {"Host": "localhost", "X-Forwarded-For": "10.0.0.1"},
        {"Host": "localhost", "Origin": "https://evil.example"},
    ]
    with site.serving() as service:
        for headers in refused:
            answer = service.request("POST", "/models", headers=headers, json={"model": "firefox:en-fr"})
            assert answer.status_code == 403, headers
            assert service.request("GET", "/catalogue", headers=headers).json()["may_install"] is False
        for headers in (
            {"Host": "127.0.0.1:8000"},
            {"Host": "[::1]:8000"},
            {"Host": "localhost", "Origin": "http://localhost"},
        ):
            assert service.request("GET", "/catalogue", headers=headers).json()["may_install"] is True
    with site.serving(page_installs=False) as service:
        assert ask(service, "POST", "/models", json={"model": "firefox:en-fr"}).status_code == 403


def test_with_keys_only_admins_install(site: Site, tmp_path: Path) -> None:
    admin, line = new_key("admin")
    user, other = new_key("user")
    (tmp_path / "keys").write_text(f"{line} admin\n{other}\n")
    with site.serving(api_keys_file=tmp_path / "keys") as service:
        for key, status in ((None, 401), (user, 403), (admin, 202)):
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            asked = service.request("POST", "/models", headers=headers, json={"model": "firefox:en-fr"})
            assert asked.status_code == status
        headers = {"Authorization": f"Bearer {user}"}
        catalogue = service.request("GET", "/catalogue?source=en&target=es", headers=headers).json()
        assert catalogue["may_install"] is False
        assert "admin" in catalogue["how_to_install"]


def test_the_catalogue_lists_models_of_the_languages_asked_for(site: Site) -> None:
    with site.serving() as service:
        ended(service, install(service)["id"])
        answer = ask(service, "GET", "/catalogue?source=en&target=es").json()
        assert answer["dated"]
        assert answer["may_install"] is True
        assert {(one["source"], one["target"]) for one in answer["models"]} == {("en", "es")}
        best = answer["models"][0]
        assert best["model"].startswith("firefox:en-es@")
        assert best["publisher"] == "Mozilla"
        assert best["licence"] == "MPL-2.0"
        assert best["figures"]
        models = ask(service, "GET", "/catalogue").json()["models"]
        assert [one["model"] for one in models if one["installed"]] == ["firefox:en-fr@base-memory"]
        assert ask(service, "GET", "/catalogue?source=xx").json()["models"] == []


@pytest.mark.parametrize(
    "body",
    [{"model": "firefox"}, {"model": "firefox:es"}, {"model": "hf:nobody"}, {}, {"model": "firefox:en-fr", "more": 1}],
)
def test_a_wrong_request_is_refused(site: Site, body: dict[str, Any]) -> None:
    with site.serving() as service:
        answer = ask(service, "POST", "/models", json=body)
        assert answer.status_code == 422
        assert answer.json()["errors"]


def test_a_request_for_a_model_has_the_limits_of_all_bodies(site: Site) -> None:
    with site.serving(max_body_bytes=100) as service:
        answer = ask(service, "POST", "/models", json={"model": "firefox:" + 100 * "e"})
        assert answer.status_code == 413
        assert answer.json()["detail"] == "The body is over the limit of 100 bytes."


def test_who_may_not_install_is_refused_before_the_body_is_read(site: Site) -> None:
    async def body() -> AsyncIterator[bytes]:
        pytest.fail("the body was read")
        yield b""

    with site.serving() as service:
        answer = service.request("POST", "/models", content=body(), headers={"Content-Type": "application/json"})
        assert answer.status_code == 403


def test_a_service_without_importer_says_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.published.installer.missing_importer", lambda: "The importer is not installed here.")
    with serving(site.bundles, models_dir=site.models) as service:
        refused = ask(service, "POST", "/models", json={"model": "firefox:en-fr"})
        assert refused.status_code == 409
        assert refused.json()["detail"] == "The importer is not installed here."
        assert ask(service, "GET", "/catalogue").json()["how_to_install"] == "The importer is not installed here."
