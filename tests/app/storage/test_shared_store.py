"""app/storage/: instances that share a store, as clients see them: DeepL's own client asks them in turn."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import deepl
import httpx
import pytest
from deepl_clients import EN_FR, client_of
from servers import WAIT_S, becomes
from shared_fixtures import Service, listening, serving
from store_server import StoreServer

from app.http.auth import AccessControl
from app.runtime.rate_limits import Rate
from app.settings import Settings, SettingsError, load_settings
from app.storage import store_valkey
from app.storage.store_local import LocalStore
from benchmarks.soak import workers_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("patient_stores")]
ROOT = Path(__file__).resolve().parents[3]
HELLO: dict[str, Any] = {"text": "Hello.", "source": "en", "target": "fr"}


@pytest.fixture(scope="module")
def urls(store_server: StoreServer, bundle_folder: Path) -> Iterator[tuple[str, str]]:
    """Two instances that listen, and may take as long as a busy machine does."""
    settings: dict[str, Any] = {"store": store_server.url, "deadline_ms": int(1000 * WAIT_S)}
    with listening(bundle_folder, **settings) as first, listening(bundle_folder, **settings) as second:
        yield first, second


@pytest.fixture
def clients(urls: tuple[str, str]) -> Iterator[tuple[deepl.DeepLClient, deepl.DeepLClient]]:
    with client_of(urls[0]) as first, client_of(urls[1]) as second:
        yield first, second


def test_glossary_made_at_one_is_used_changed_and_deleted_at_the_other(
    clients: tuple[deepl.DeepLClient, deepl.DeepLClient],
) -> None:
    first, second = clients
    made = first.create_glossary("Animals", "EN", "FR", {"cat": "Büffel"})
    assert second.get_glossary_entries(made) == {"cat": "Büffel"}
    assert [each.glossary_id for each in second.list_glossaries()] == [made.glossary_id]
    assert "Büffel" in str(second.translate_text("The cat sleeps.", glossary=made, **EN_FR))
    for changer, user, animal in ((second, first, "Lynx"), (first, second, "Gnu")):
        dictionary = deepl.api_data.MultilingualGlossaryDictionaryEntries("EN", "FR", {"cat": animal})
        changer.replace_multilingual_glossary_dictionary(made.glossary_id, dictionary)
        assert animal in str(user.translate_text("The cat sleeps.", glossary=made, **EN_FR))
        assert animal in str(changer.translate_text("The cat sleeps.", glossary=made, **EN_FR))
    first.delete_glossary(made)
    assert second.list_glossaries() == []
    with pytest.raises(deepl.DeepLException, match="No such glossary"):
        second.translate_text("The cat sleeps.", glossary=made, **EN_FR)


@pytest.mark.usefixtures("fast_deepl_client")
def test_document_is_uploaded_polled_and_downloaded_at_different_instances(
    clients: tuple[deepl.DeepLClient, deepl.DeepLClient],
) -> None:
    first, second = clients
    glossary = first.create_glossary("Animals", "EN", "FR", {"cat": "Büffel"})
    handle = first.translate_document_upload(b"The cat sleeps.", filename="a.txt", glossary=glossary, **EN_FR)
    second.delete_glossary(glossary)  # the document keeps the terms
    status = second.translate_document_wait_until_done(handle)
    assert (status.done, status.billed_characters) == (True, 15)
    translated = io.BytesIO()
    second.translate_document_download(handle, translated)
    assert "Büffel" in translated.getvalue().decode()

    def is_gone() -> bool:
        with pytest.raises(deepl.DeepLException) as refused:
            first.translate_document_download(handle, io.BytesIO())
        return "Not found" in str(refused.value)

    assert becomes(is_gone)


def test_usage_adds_up_over_instances(clients: tuple[deepl.DeepLClient, deepl.DeepLClient]) -> None:
    def used(client: deepl.DeepLClient) -> int:
        return client.get_usage().character.count or 0

    first, second = clients
    time.sleep(1.5)  # what tests before used is counted once a second
    before = used(first)
    for client in (first, second, first):
        client.translate_text("Hello.", **EN_FR)
    assert becomes(lambda: used(first) == used(second) == before + 18)


def test_file_translated_at_one_is_downloaded_at_the_other(urls: tuple[str, str]) -> None:
    first, second = urls
    sent: dict[str, Any] = {"files": {"file": ("a.txt", b"Hello.")}, "data": {"source": "en", "target": "fr"}}
    url = httpx.post(f"{first}/libretranslate/translate_file", **sent).json()["translatedFileUrl"]
    assert url.startswith(first)
    shown = httpx.get(url.replace(first, second))
    assert shown.status_code == 200
    assert shown.content == httpx.get(url).content
    assert shown.headers["content-disposition"] == 'attachment; filename="a.fr.txt"'


def test_report_of_a_file_is_read_at_the_other(urls: tuple[str, str]) -> None:
    first, second = urls
    done = httpx.post(
        f"{first}/translate/file", files={"file": ("a.txt", b"Hello.")}, data={"source": "en", "target": "fr"}
    )
    assert httpx.get(second + done.headers["x-interlinear-report"]).json()["file"] == "a.fr.txt"


def test_four_instances_grant_the_rate_of_one(store_server: StoreServer, bundle_folder: Path) -> None:
    rates: dict[str, Any] = {"rate_requests": Rate.parse("300/hour"), "rate_characters": Rate.parse("1000/hour")}
    with ExitStack() as stack:
        settings: dict[str, Any] = {**rates, "store": f"{store_server.url}?prefix=rates"}
        services = [stack.enter_context(serving(bundle_folder, **settings)) for _ in range(4)]
        statuses = [services[n % 4].get("/deepl/v2/usage").status_code for n in range(340)]
        assert 300 <= statuses.count(200) <= 306
        assert set(statuses) == {200, 429}


# ---- When something dies


def test_document_of_a_killed_instance_is_finished_by_another(
    store_server: StoreServer, urls: tuple[str, str], bundle_folder: Path, fast_deepl_client: None
) -> None:
    content = "".join(f"Hello, you {number}.\n" for number in range(5)).encode()
    settings = {"STORE": store_server.url, "WORKERS": "1", "PRECISION": "int8", "DEVICE": "cpu", "PORT": "0"}
    environ = {**os.environ, **{f"INTERLINEAR_{name}": value for name, value in settings.items()}}
    environ |= {"INTERLINEAR_MAX_WAIT_MS": "60000"}
    command = [sys.executable, "-m", "app", "serve", "--bundles", str(bundle_folder)]
    with (
        subprocess.Popen(command, cwd=ROOT, env=environ, stderr=subprocess.PIPE, text=True) as process,
        client_of(urls[1]) as other,
        ExitStack() as stack,
    ):
        try:
            assert process.stderr
            lines = iter(process.stderr.readline, "")
            url = next(line for line in lines if "running on" in line).split("running on ")[1].split()[0].rstrip('"}')
            assert becomes(lambda: httpx.get(f"{url}/ready").status_code == 200)
            [worker] = workers_of(process.pid)
            stack.callback(os.kill, worker, signal.SIGKILL)
            os.kill(worker, signal.SIGSTOP)  # it is at work when its instance is killed
            with client_of(url) as client:
                handle = client.translate_document_upload(content, filename="a.txt", **EN_FR)
            translating = deepl.DocumentStatus.Status.TRANSLATING
            assert becomes(lambda: other.translate_document_get_status(handle).status == translating)
            holders = store_server.ask("HVALS", "interlinear:jobs:holders")
            assert holders.startswith(b"*1")
        finally:
            process.send_signal(signal.SIGKILL)
        process.wait(WAIT_S)
        assert not other.translate_document_get_status(handle).done
        assert store_server.ask("HVALS", "interlinear:jobs:holders") == holders
        # As after BackgroundJobs' LEASE_S.
        assert store_server.ask("ZADD", "interlinear:jobs:leases", "XX", "CH", "1", handle.document_id) == b":1\r\n"
        other.translate_document_wait_until_done(handle)
        translated = io.BytesIO()
        other.translate_document_download(handle, translated)
    again = httpx.post(
        f"{urls[1]}/translate/file", files={"file": ("a.txt", content)}, data={"source": "en", "target": "fr"}
    )
    assert again.status_code == 200
    assert translated.getvalue() == again.content


def test_translation_goes_on_without_the_store_and_all_is_well_when_it_is_back(
    tmp_path: Path, bundle_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_valkey, "PROBE_INTERVAL_S", 0.01)
    rate = Rate.parse("1000000/second")
    file = {"files": {"file": ("a.txt", b"Hello.")}}
    needs_store: list[Callable[[Service], httpx.Response]] = [
        lambda service: service.get("/deepl/v2/glossaries"),
        lambda service: service.get("/deepl/v3/glossaries/none"),
        lambda service: service.post(
            "/deepl/v2/glossaries",
            {"name": "a", "source_lang": "en", "target_lang": "fr", "entries": "a\tb", "entries_format": "tsv"},
        ),
        lambda service: service.post("/deepl/v2/document/A", {"document_key": "B"}),
        lambda service: service.request("POST", "/deepl/v2/document", data=EN_FR, **file),
        lambda service: service.request(
            "POST", "/libretranslate/translate_file", data={"source": "en", "target": "fr"}, **file
        ),
        lambda service: service.get("/libretranslate/download_file/a"),
        lambda service: service.get("/deepl/v2/usage"),
        lambda service: service.post("/deepl/v2/translate", {"text": ["a"], "glossary_id": "a", **EN_FR}),
    ]

    def available(service: Service) -> float:
        return float(service.get("/metrics").text.split("\ninterlinear_store_available ")[1].split()[0])

    with StoreServer(tmp_path) as server, serving(bundle_folder, rate_requests=rate, store=server.url) as service:
        assert available(service) == 1
        assert all(ask(service).status_code != 503 for ask in needs_store)
        statuses = []
        for number in range(300):
            if number == 100:
                server.kill()
            statuses.append(service.post("/translate", HELLO).status_code)
        assert statuses == [200] * 300
        for ask in needs_store:
            answer = ask(service)
            assert answer.status_code == 503, answer.request.url
            assert answer.headers["retry-after"] == "2"
        done = service.request("POST", "/translate/file", data={"source": "en", "target": "fr"}, **file)
        assert done.status_code == 200
        assert "x-interlinear-report" not in done.headers
        assert available(service) == 0
        server.start()
        assert becomes(lambda: available(service) == 1)
        assert all(ask(service).status_code != 503 for ask in needs_store)


# ---- The setting


def test_several_instances_may_have_rates_if_they_share_them(bundle_folder: Path, store_server: StoreServer) -> None:
    settings: dict[str, Any] = {"instances": 2, "rate_requests": Rate.parse("5/hour")}
    with pytest.raises(SettingsError, match="set INTERLINEAR_STORE"):
        serving(bundle_folder, **settings)
    AccessControl(Settings(**settings, store=store_server.url), LocalStore())


@pytest.mark.parametrize("url", ["localhost:6379", "http://a:word@b", "redis:", "memcached://a"])
def test_other_stores_are_refused_without_showing_a_password(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLINEAR_STORE", url)
    with pytest.raises(SettingsError, match=r"INTERLINEAR_STORE=.*a store is redis://HOST:PORT") as refused:
        load_settings()
    assert "word" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"store": "redis://:word@localhost:port"}, "INTERLINEAR_STORE=redis://...@localhost:port: "),
        ({"store": "redis://localhost", "glossary_store": "folder"}, "only one of them can keep"),
    ],
)
def test_unusable_setting_stops_the_start(
    bundle_folder: Path, tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    if "glossary_store" in settings:
        settings = {**settings, "glossary_store": tmp_path}
    with pytest.raises(SettingsError) as refused:
        serving(bundle_folder, **settings)
    assert said in str(refused.value)
    assert "word" not in str(refused.value)


def test_correction_given_to_one_counts_at_the_other(bundle_folder: Path, store_server: StoreServer) -> None:
    settings: dict[str, Any] = {"store": store_server.url, "translation_memory": "store"}
    with serving(bundle_folder, **settings) as one, serving(bundle_folder, **settings) as other:
        for writer, reader, translation in ((one, other, "Salut."), (other, one, "Coucou.")):
            pairs = [{"text": "Hello.", "translation": translation}]
            body = {"source": "en", "target": "fr", "pairs": pairs}
            version = writer.request("PUT", "/memory", json=body).json()["memory_version"]
            [item] = reader.post("/translate", HELLO).json()["translations"]
            assert (item["text"], item["memory"], item["memory_version"]) == (translation, "exact", version)
        assert other.request("DELETE", "/memory?source=en&target=fr").json()["pairs"] == 1
        assert one.post("/translate", HELLO).json()["translations"][0]["memory"] is None


def test_memory_is_imported_and_exported_at_different_instances(bundle_folder: Path, store_server: StoreServer) -> None:
    settings: dict[str, Any] = {"store": store_server.url, "translation_memory": "store"}
    unit = '<tuv xml:lang="en"><seg>House</seg></tuv><tuv xml:lang="fr"><seg>Logis</seg></tuv>'
    content = f'<tmx version="1.4"><header srclang="en"/><body><tu>{unit}</tu></body></tmx>'.encode()
    with (
        listening(bundle_folder, **settings) as one,
        listening(bundle_folder, **settings) as other,
        client_of(one) as first,
        client_of(other) as second,
    ):
        job = first.create_translation_memory_import("a.tmx", len(content))
        second.upload_translation_memory_file(job.upload_url.replace(one, other), content)
        result = first.get_translation_memory_job(job.job_id).result
        assert result and result.status == "completed" and result.translation_memory_id
        export = second.create_translation_memory_export(result.translation_memory_id)
        written = io.BytesIO()
        first.download_translation_memory_export(first.get_translation_memory_job(export.job_id), written)
        assert b"Logis" in written.getvalue()
        second.delete_translation_memory(result.translation_memory_id)
        assert first.list_translation_memories() == []


def test_translation_memories_are_in_a_file_or_in_the_store(bundle_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="INTERLINEAR_STORE is not set"):
        serving(bundle_folder, translation_memory="store")
    with pytest.raises(SettingsError, match="write store"):
        serving(bundle_folder, translation_memory=str(tmp_path / "a"), store="redis://127.0.0.1:1")
