"""Bundles are replaced while the service runs: no request is refused for it, and invalid bundles change nothing."""

from __future__ import annotations

import asyncio
import gc
import math
import re
import shutil
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from servers import WAIT_S
from shared_fixtures import Gate, Service, make_bundle, serving

from app.engine.engine import Engine
from app.engine.launch import InProcessWorker, WorkerProcess
from app.engine.registry import Catalogue
from app.http.api_keys import new_key
from app.main import create_app
from app.runtime.metrics import exposition
from app.services import reload as reload_module
from app.services.reload import ReloadTiming
from app.services.startup import load_catalogue
from app.settings import Settings
from model.bundle_files import ALIGNMENT
from model.bundle_weights import alignment_content, load_bundle
from model.transformer import AlignmentHead
from tests.app.api.test_directions import save_directions
from training.align.head import with_alignment_head
from training.evaluation.calibrate import write_config

pytestmark = pytest.mark.slow

HELLO = {"text": "Hello.", "source": "en", "target": "fr"}


class Site:
    """A folder of bundles and keys that tests change while a service serves it."""

    def __init__(self, folder: Path) -> None:
        self.bundles, self._keys = folder / "bundles", folder / "keys"
        self._admin, line = new_key("admin")
        self._user, other = new_key("user")
        self._keys.write_text(f"{line} admin\n{other}\n")
        self._made = 0
        self.put("en-fr")

    def serving(self, **settings: Any) -> Service:
        return serving(self.bundles, api_keys_file=self._keys, **settings)

    def put(self, name: str, source: str = "en", target: str = "fr") -> None:
        """Puts a bundle unlike all before in place of any with this name."""
        self._made += 1
        made = make_bundle(self.bundles.parent / str(self._made), source, target, seed=self._made)
        shutil.rmtree(self.bundles / name, ignore_errors=True)
        self.bundles.mkdir(exist_ok=True)
        made.rename(self.bundles / name)

    def spoil(self, name: str, file: str) -> None:
        path = self.bundles / name / file
        path.write_bytes(path.read_bytes()[:-1])
        sums = self.bundles / name / "SHA256SUMS"
        sums.write_text(sums.read_text() + "\n")

    def reload(self, service: Service, key: str | None = None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {key or self._admin}"}
        return service.request("POST", "/models/reload", headers=headers, timeout=60)

    def translate(self, service: Service, **fields: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self._user}"}
        return service.request("POST", "/translate", headers=headers, json={**HELLO, **fields}, timeout=60)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_new_bundle_is_served_only_after_a_reload(site: Site) -> None:
    with site.serving() as service:
        before = site.translate(service).json()["model"]
        site.put("en-fr")
        site.put("fr-en", "fr", "en")
        assert site.translate(service).json()["model"] == before
        told = site.reload(service).json()
        assert told["changed"] is True
        after = site.translate(service).json()["model"]
        assert after != before
        assert after in told["models"]
        assert site.translate(service, source="fr", target="en").status_code == 200
        assert {one["code"] for one in service.get("/languages").json()} == {"en", "fr"}
        assert service.get("/ready").json()["models"] == told["models"]
        assert [model["model"] for model in service.get("/models").json()] == told["models"]


def test_a_reload_adds_the_directions_of_a_bundle_of_several_and_takes_them_away(site: Site) -> None:
    def targets(service: Service) -> dict[str, list[str]]:
        return {language["code"]: language["targets"] for language in service.get("/languages").json()}

    with site.serving() as service:
        own = site.translate(service).json()["model"]
        assert site.translate(service, target="de").status_code == 404
        save_directions(site.bundles / "several", {"en": ["en"], "fr": []}, {"de": {"target_prefix": ["de"]}, "fr": {}})
        assert site.reload(service).json()["changed"] is True
        assert targets(service) == {"en": ["fr", "de"], "fr": ["de"]}
        assert site.translate(service, target="de").json()["model"].startswith("en-de@")
        assert site.translate(service).json()["model"] == own
        shutil.rmtree(site.bundles / "several")
        assert site.reload(service).json()["models"] == [own]
        assert targets(service) == {"en": ["fr"]}
        assert site.translate(service, target="de").status_code == 404


def test_an_unchanged_model_keeps_its_cached_results(site: Site) -> None:
    with site.serving() as service:
        first = site.translate(service)
        held = _figure(service, "interlinear_cache_bytes")
        assert held > 0
        site.put("fr-en", "fr", "en")
        assert site.reload(service).json()["changed"] is True
        misses = _figure(service, "interlinear_cache_sentences_total", result="miss")
        assert site.translate(service).content == first.content
        assert _figure(service, "interlinear_cache_sentences_total", result="miss") == misses
        assert _figure(service, "interlinear_cache_bytes") == held


def test_a_model_that_aligns_differently_keeps_its_name_and_none_of_its_cached_results(site: Site) -> None:
    with site.serving() as service:
        name = site.translate(service).json()["model"]
        for seed in (1, 2):
            misses = _figure(service, "interlinear_cache_sentences_total", result="miss")
            assert site.translate(service).json()["model"] == name
            assert _figure(service, "interlinear_cache_sentences_total", result="miss") == misses
            _put_head(site.bundles / "en-fr", seed)
            assert site.reload(service).json()["changed"] is True
            assert site.translate(service).json()["model"] == name
            assert _figure(service, "interlinear_cache_sentences_total", result="miss") > misses


def _put_head(folder: Path, seed: int) -> None:
    """Puts a random alignment head in place of the bundle's own."""
    bundle = load_bundle(folder, torch.device("cpu"))
    torch.manual_seed(seed)
    model = with_alignment_head(bundle.model, AlignmentHead(bundle.architecture.d_model, 16))
    config = {**bundle.config, "format_version": 2, "architecture": model.config.to_dict()}
    write_config(folder, config, {ALIGNMENT: alignment_content(model)})


def test_bundle_replaced_during_the_start_is_served_after_a_reload(site: Site) -> None:
    settings = Settings(bundles=(site.bundles,), device="cpu", workers=1, precision="float32", api_keys_file=site._keys)
    bundles = load_catalogue(settings)
    site.put("en-fr")
    with Service(create_app(settings, bundles, InProcessWorker)) as service:
        assert site.reload(service).json()["changed"] is True
        assert site.translate(service).status_code == 200
        assert service.get("/ready").status_code == 200


def test_a_removed_model_leaves_no_metrics(site: Site) -> None:
    with site.serving() as service:
        gone = site.translate(service).json()["model"]
        assert gone in exposition(service.state.metrics).decode()
        old = service.state.deployments.current
        site.put("en-fr")
        site.reload(service)
        service.run(_until(lambda: gone not in exposition(service.state.metrics).decode()))
        assert old.engine.alive == 0
        assert site.translate(service).json()["model"] in exposition(service.state.metrics).decode()


def test_model_that_returns_while_it_is_still_stopping_keeps_its_metrics(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = shutil.copytree(site.bundles / "en-fr", site.bundles.parent / "first")
    with site.serving() as service:
        deployments = service.state.deployments
        name = site.translate(service).json()["model"]
        wait_started = Engine.wait_started

        async def only_after_its_end(engine: Engine) -> bool:
            stack.close()
            await asyncio.wait(deployments._retiring)
            return await wait_started(engine)

        with ExitStack() as stack:
            stack.enter_context(deployments.current)
            site.put("en-fr")
            assert service.run(deployments.reload())
            shutil.rmtree(site.bundles / "en-fr")
            first.rename(site.bundles / "en-fr")
            monkeypatch.setattr(Engine, "wait_started", only_after_its_end)
            assert service.run(deployments.reload())
        assert site.translate(service, text="How are you?").json()["model"] == name
        assert _figure(service, "interlinear_sentences_total", model=name) > 0


def test_cancelled_reload_leaves_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the service stops while it checks the watched folder."""
    begun: list[Engine] = []

    async def never(engine: Engine) -> bool:
        begun.append(engine)
        return await asyncio.Event().wait()

    async def halfway() -> None:
        reload = asyncio.create_task(deployments.reload())
        await _until(lambda: any(engine.alive for engine in begun))
        reload.cancel()
        await asyncio.wait([reload])

    monkeypatch.setattr(Engine, "wait_started", never)
    with site.serving() as service:
        deployments = service.state.deployments
        served = site.translate(service).json()["model"]
        site.put("en-fr")
        service.run(halfway())
        assert [engine.alive for engine in begun] == [0]
        assert site.translate(service, text="How are you?").json()["model"] == served
        told = exposition(service.state.metrics).decode()
        assert set(re.findall(r'model="([^"]+)"', told)) == {served}


def test_unread_response_does_not_keep_a_bundle_forever(site: Site, gate: Gate) -> None:
    gate.opened.set()
    with site.serving(reload_timing=ReloadTiming(max_retire_s=0.01)) as service:
        old = service.state.deployments.current
        with old:
            site.put("en-fr")
            assert site.reload(service).json()["changed"] is True
            service.run(asyncio.wait_for(_ended(old.engine), WAIT_S))


def test_nothing_of_a_replaced_bundle_stays_in_memory(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither caches nor cycles of references keep its tokenizer."""
    monkeypatch.setattr(gc, "freeze", lambda: None)  # a worker does, for its own process; here it is this one
    with site.serving() as service:
        shutil.rmtree(site.bundles / "en-fr")
        site.put("en-pt", target="pt")  # whose vocabulary no bundle of another test has: equal ones are shared
        assert site.reload(service).json()["changed"] is True
        deployments = service.state.deployments
        [bundle] = deployments.current.translator.catalogue
        replaced = weakref.ref(bundle.source_tokenizer)
        del bundle
        for text in ("Cancel", "{0}me and {1}two “cats”", "DO NOT OPEN"):
            assert site.translate(service, text=text, target="pt").status_code == 200
        shutil.rmtree(site.bundles / "en-pt")
        site.put("en-fr")
        assert site.reload(service).json()["changed"] is True

        async def retired() -> None:
            await asyncio.gather(*deployments._retiring)

        service.run(retired())
        assert replaced() is None


def test_after_a_refused_reload_metrics_are_of_the_served_bundles(site: Site) -> None:
    with site.serving() as service:
        site.translate(service)
        held = _figure(service, "interlinear_cache_bytes")
        wrong = {"source": "Hello.", "source_ids": [40], "target_ids": [41, 42, 43, 2]}
        folder = make_bundle(site.bundles.parent / "wrong", seed=99, samples=[wrong])
        shutil.rmtree(site.bundles / "en-fr")
        folder.rename(site.bundles / "en-fr")
        assert site.reload(service).status_code == 409
        assert _figure(service, "interlinear_cache_bytes") == held > 0


def test_bundle_of_the_later_folder_is_served_while_it_exists(site: Site) -> None:
    mine = site.bundles.parent / "mine"
    mine.mkdir()
    with serving((site.bundles, mine), api_keys_file=site._keys) as service:
        ours = site.translate(service).json()["model"]
        make_bundle(mine / "en-fr", seed=77)
        assert site.reload(service).json()["changed"] is True
        assert (served := site.translate(service).json()["model"]) != ours
        assert site.reload(service).json()["changed"] is False
        with serving((site.bundles, mine), api_keys_file=site._keys) as other:
            assert site.translate(other).json()["model"] == served
            assert site.reload(other).json()["changed"] is False
        site.put("fr-en", "fr", "en")
        assert site.reload(service).json()["changed"] is True
        assert site.translate(service).json()["model"] == served
        shutil.rmtree(mine / "en-fr")
        assert site.reload(service).json()["changed"] is True
        assert site.translate(service).json()["model"] == ours


def test_unchanged_bundles_are_not_reloaded(site: Site) -> None:
    with site.serving() as service:
        engine = service.state.deployments.current.engine
        assert site.reload(service).json()["changed"] is False
        assert service.state.deployments.current.engine is engine


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "sentencepiece.model"])
def test_unreadable_bundle_changes_nothing(site: Site, file: str) -> None:
    with site.serving() as service:
        before = site.translate(service).json()["model"]
        site.put("en-fr")
        site.spoil("en-fr", file)
        refused = site.reload(service)
        assert refused.status_code == 409
        assert file in refused.json()["detail"]
        assert site.translate(service).json()["model"] == before
        assert service.get("/ready").status_code == 200


@pytest.mark.parametrize("file", ["model.safetensors", "config.json"])
def test_damaged_bundle_whose_checksums_are_those_served_is_refused(site: Site, file: str) -> None:
    with site.serving() as service:
        assert site.translate(service).status_code == 200
        path = site.bundles / "en-fr" / file
        path.write_bytes(path.read_bytes()[:-1])
        refused = site.reload(service)
        assert refused.status_code == 409
        assert f"{file} does not match its checksum" in refused.json()["detail"]
        assert site.translate(service).status_code == 200


def test_bundle_with_wrong_samples_changes_nothing(site: Site) -> None:
    with site.serving() as service:
        before = site.translate(service).json()["model"]
        wrong = {"source": "Hello.", "source_ids": [40], "target_ids": [41, 42, 43, 2]}
        folder = make_bundle(site.bundles.parent / "wrong", seed=99, samples=[wrong])
        shutil.rmtree(site.bundles / "en-fr")
        folder.rename(site.bundles / "en-fr")
        refused = site.reload(service)
        assert refused.status_code == 409
        assert site.translate(service).json()["model"] == before
        assert service.state.deployments.current.engine.alive == 1


def test_request_finishes_with_the_bundle_it_started_with(site: Site, gate: Gate) -> None:
    with site.serving() as service:
        old = service.state.deployments.current

        async def meanwhile() -> httpx.Response:
            headers = {"Authorization": f"Bearer {site._user}"}
            asked = asyncio.create_task(service._client.post("/translate", json=HELLO, headers=headers, timeout=60))
            await asyncio.to_thread(gate.entered.wait, WAIT_S)
            site.put("en-fr")
            assert await service.state.deployments.reload()
            assert old.engine.alive == 1, "somebody still needs it"
            gate.opened.set()
            return await asked

        answer = service.run(meanwhile())
        assert answer.status_code == 200
        assert answer.json()["model"] == next(iter(old.translator.catalogue)).name
        assert site.translate(service).json()["model"] != answer.json()["model"]
        service.run(asyncio.wait_for(_ended(old.engine), WAIT_S))


def test_reload_under_load_fails_no_request(site: Site) -> None:
    with site.serving() as service:
        headers = {"Authorization": f"Bearer {site._user}"}

        async def load() -> list[str]:
            deployments = service.state.deployments
            done = asyncio.Event()
            models: list[str] = []

            async def client(number: int) -> None:
                while not done.is_set():
                    body = {**HELLO, "text": f"Hello {number} {len(models)}."}
                    answer = await service._client.post("/translate", json=body, headers=headers, timeout=60)
                    assert answer.status_code == 200, answer.text
                    models.append(answer.json()["model"])

            async def served_model_is_seen() -> None:
                [bundle] = deployments.current.translator.catalogue
                while bundle.name not in models:  # noqa: ASYNC110  # seen by the clients
                    await asyncio.sleep(0.01)

            async with asyncio.timeout(4 * WAIT_S), asyncio.TaskGroup() as clients:
                for number in range(4):
                    clients.create_task(client(number))
                await served_model_is_seen()
                for _ in range(2):
                    site.put("en-fr")
                    assert await deployments.reload()
                    await served_model_is_seen()
                done.set()
            return models

        assert len(set(service.run(load()))) == 3


def test_changes_of_a_watched_folder_are_served(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    with site.serving(watch_bundles=True, reload_timing=ReloadTiming(check_interval_s=0.01)) as service:
        deployments = service.state.deployments

        async def until(changed: bool) -> None:
            first, said = deployments.current, len(_errors(caplog))
            async with asyncio.timeout(WAIT_S):
                while (deployments.current is first) if changed else len(_errors(caplog)) == said:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

        before = site.translate(service).json()["model"]
        site.put("en-fr")
        service.run(until(changed=True))
        after = site.translate(service).json()["model"]
        assert after != before
        site.spoil("en-fr", "model.safetensors")
        service.run(until(changed=False))
        assert "keeping the bundles that are being served" in _errors(caplog)[-1]
        assert site.translate(service).json()["model"] == after


def test_bundle_copied_file_by_file_is_served_once_complete(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.put("fr-en", "fr", "en")
    new = (site.bundles / "fr-en").rename(site.bundles.parent / "fr-en")
    timing = ReloadTiming(check_interval_s=0.01, retry_delays_s=(3600.0,))
    with site.serving(watch_bundles=True, reload_timing=timing) as service:
        # The first three at once: where the copying is held up, each may be what the service finds missing.
        (site.bundles.parent / "begun").mkdir()
        for file in ("SHA256SUMS", "config.json", "sentencepiece.model"):
            shutil.copy2(new / file, site.bundles.parent / "begun")
        (site.bundles.parent / "begun").rename(site.bundles / "fr-en")
        service.run(_until(lambda: len(_errors(caplog)) == 1))
        assert "model.safetensors cannot be read" in _errors(caplog)[0]
        shutil.copy2(new / "model.safetensors", site.bundles / "fr-en")
        service.run(_until(lambda: len(list(service.state.deployments.current.translator.catalogue)) == 2))
        assert site.translate(service, source="fr", target="en").status_code == 200


def test_growing_copy_is_not_loaded_until_two_checks_find_it_equal(site: Site) -> None:
    with site.serving(watch_bundles=True, reload_timing=ReloadTiming(check_interval_s=1e6)) as service:
        deployments = service.state.deployments
        served = deployments.current
        site.put("en-fr")
        weights = site.bundles / "en-fr" / "model.safetensors"
        whole = weights.read_bytes()
        for size in range(0, len(whole), len(whole) // 4):
            weights.write_bytes(whole[:size])
            service.run(deployments._check_folder())  # and raises nothing
        weights.write_bytes(whole)
        service.run(deployments._check_folder())
        assert deployments.current is served
        service.run(deployments._check_folder())
        assert deployments.current is not served


def test_a_refused_reload_is_retried_at_growing_intervals(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    now, tried_at = 0.0, []

    def short_of_memory(settings: Settings) -> Catalogue:
        tried_at.append(now)
        raise MemoryError

    timing = ReloadTiming(check_interval_s=1e6, clock=lambda: now)
    with site.serving(watch_bundles=True, reload_timing=timing) as service:
        deployments = service.state.deployments
        served = deployments.current
        site.put("en-fr")
        service.run(deployments._check_folder())
        with monkeypatch.context() as patch:
            patch.setattr(reload_module, "load_catalogue", short_of_memory)
            for now in range(0, 10_000, 10):  # noqa: B007  the clock
                with pytest.raises(MemoryError):
                    service.run(deployments._check_folder())
        assert tried_at == [0, 30, 150, 750, 4350, 7950]
        now = 11_550
        service.run(deployments._check_folder())
        assert deployments.current is not served
        service.run(deployments._check_folder())  # has nothing to say any more


def test_a_repeated_refusal_is_logged_once(
    site: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def short_of_memory(settings: Settings) -> Catalogue:
        tries.append(settings)
        raise MemoryError

    async def until_tried_often(told: int) -> None:
        await _until(lambda: len(_errors(caplog)) == told)
        before = len(tries)
        await _until(lambda: len(tries) >= before + 5)
        assert len(_errors(caplog)) == told
        assert _errors(caplog)[-1].endswith(": MemoryError()")

    timing = ReloadTiming(check_interval_s=0.01, retry_delays_s=(0.01,))
    with site.serving(watch_bundles=True, reload_timing=timing) as service:
        deployments = service.state.deployments
        # Otherwise the service's first look at the folder may refuse the new bundle before it has seen a change.
        service.run(_until(lambda: deployments._snapshot.file_states and deployments._snapshot.due == math.inf))
        monkeypatch.setattr(reload_module, "load_catalogue", short_of_memory)
        site.put("fr-en", "fr", "en")
        service.run(until_tried_often(told=1))
        site.put("en-de", "en", "de")
        service.run(until_tried_often(told=2))


def test_only_an_admins_key_may_reload(site: Site, bundle_folder: Path) -> None:
    with site.serving() as service:
        site.put("en-fr")
        refused = site.reload(service, site._user)
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:interlinear:error:not-allowed")
        assert service.request("POST", "/models/reload").status_code == 401
    with serving(bundle_folder) as service:
        assert service.request("POST", "/models/reload").status_code == 403


def test_reload_replaces_worker_processes(site: Site) -> None:
    settings = Settings(bundles=(site.bundles,), device="cpu", workers=2)  # in int8, for which they import no PyTorch
    with Service(create_app(settings, load_catalogue(settings), WorkerProcess)) as service:
        deployments = service.state.deployments
        assert service.run(deployments.current.engine.wait_started())
        before = [slot.worker._process for slot in deployments.current.engine._slots]
        model = service.post("/translate", HELLO).json()["model"]
        site.put("en-fr")
        assert service.run(deployments.reload())
        assert service.post("/translate", HELLO).json()["model"] != model
        for process in before:
            assert process.wait(timeout=WAIT_S) == 0
        assert deployments.current.engine.alive == 2


async def _until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not done():  # noqa: ASYNC110  nobody tells of it
            await asyncio.sleep(0.01)


async def _ended(engine: Any) -> None:
    while engine.alive:  # noqa: ASYNC110  nobody tells of it
        await asyncio.sleep(0.01)


def _errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


def _figure(service: Service, name: str, **labels: str) -> float:
    """A metric's current value."""
    value: float | None = service.state.metrics.registry.get_sample_value(name, labels)
    assert value is not None
    return value
