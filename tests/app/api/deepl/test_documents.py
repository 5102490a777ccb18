"""DeepL's own client uploads documents, polls their status and downloads them."""

from __future__ import annotations

import asyncio
import io
import json
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import deepl
import pytest
from deepl_clients import EN_FR, client_of, plainly
from servers import WAIT_S
from shared_fixtures import Gate, Service, listening, serving

from app.errors import Overloaded
from app.translation.translator import Translator
from app.translation.types import Options, Translations
from tests.app.formats.test_docx import run, word

pytestmark = pytest.mark.slow


def test_a_short_document_is_done_at_the_first_status_request(
    deepl_client: deepl.DeepLClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(seconds: float) -> None:
        raise AssertionError

    monkeypatch.setattr("deepl.translator.time", SimpleNamespace(time=time.time, sleep=refuse))
    monkeypatch.setattr("app.api.deepl.documents.STATUS_WAIT_S", WAIT_S)
    deepl_client.translate_document(b"Hello.", io.BytesIO(), filename="a.txt", **EN_FR)


@pytest.mark.usefixtures("fast_deepl_client")
def test_client_translates_a_document_from_path_to_path(
    deepl_client: deepl.DeepLClient, shipped_url: str, tmp_path: Path
) -> None:
    source, target = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text("Hello.\n\nHow are you?\n")
    status = deepl_client.translate_document_from_filepath(source, target, **EN_FR)
    assert target.read_text() == plainly(shipped_url, "Hello.\n\nHow are you?\n")[0]
    assert (status.done, status.billed_characters) == (True, 21)


@pytest.mark.usefixtures("fast_deepl_client")
@pytest.mark.parametrize(
    ("content", "options"),
    [
        (word(f"<w:p>{run('Hello. ')}{run('How are you?', '<w:b/>')}</w:p>"), {}),
        (b"<!DOCTYPE html><p>Hello.</p>", {}),
        (b"Hello.", {}),
        (b"# Hello", {"filename": "a.md"}),
        (b'{"a": "Hello."}', {"extra_body_parameters": {"filename": "a.json"}}),
        (b"WEBVTT\n\n00:01.000 --> 00:02.000\nHello.\n", {"target_lang": "fr", "source_lang": None}),
    ],
)
def test_document_without_a_name_is_recognised_by_its_content(
    deepl_client: deepl.DeepLClient, shipped_url: str, content: bytes, options: dict[str, Any]
) -> None:
    given = io.BytesIO(content) if "filename" not in options else content
    translated = io.BytesIO()
    status = deepl_client.translate_document(given, translated, **{**EN_FR, **options})
    assert status.done
    (hello,) = plainly(shipped_url, "Hello")[:1] if b"# Hello" in content else plainly(shipped_url, "Hello.")
    shown = translated.getvalue()
    if content.startswith(b"PK"):
        with zipfile.ZipFile(translated) as archive:
            assert archive.read("word/document.xml").count(b"<w:b/>") == 1
    else:
        assert shown.decode() == content.decode().replace("Hello" if b"# Hello" in content else "Hello.", hello)


@pytest.mark.usefixtures("fast_deepl_client")
def test_document_can_be_polled_and_downloaded_once(deepl_client: deepl.DeepLClient, shipped_url: str) -> None:
    handle = deepl_client.translate_document_upload(b"Hello.", filename="report.txt", **EN_FR)
    assert deepl_client.translate_document_wait_until_done(handle).status == deepl.DocumentStatus.Status.DONE
    for stranger in (
        deepl.DocumentHandle(handle.document_id, "F" * 64),
        deepl.DocumentHandle("F" * 32, handle.document_key),
        deepl.DocumentHandle(handle.document_id, "é"),
    ):
        with pytest.raises(deepl.DeepLException, match="No such document"):
            deepl_client.translate_document_get_status(stranger)
        with pytest.raises(deepl.DeepLException, match="Not found"):
            deepl_client.translate_document_download(stranger, io.BytesIO())
    fetched = deepl_client.translate_document_download(handle)
    assert fetched is not None
    assert fetched.headers["content-disposition"] == 'attachment; filename="report.fr.txt"'
    assert fetched.text == plainly(shipped_url, "Hello.")[0]
    while _is_there(deepl_client, handle):
        time.sleep(0.01)


def _is_there(client: deepl.DeepLClient, handle: deepl.DocumentHandle) -> bool:
    try:
        return client.translate_document_get_status(handle).done
    except deepl.DeepLException as gone:
        return "No such document" not in str(gone)


def test_document_in_progress_cannot_be_downloaded(bundle_folder: Path, gate: Gate, fast_deepl_client: None) -> None:
    with listening(bundle_folder) as url, client_of(url) as client:
        handle = client.translate_document_upload(b"Hello.", filename="a.txt", **EN_FR)
        gate.entered.wait()
        assert client.translate_document_get_status(handle).status == deepl.DocumentStatus.Status.TRANSLATING
        with pytest.raises(deepl.DocumentNotReadyException):
            client.translate_document_download(handle)
        gate.opened.set()
        client.translate_document_wait_until_done(handle)
        assert client.translate_document_download(handle) is not None


@pytest.mark.usefixtures("fast_deepl_client")
@pytest.mark.parametrize(
    ("name", "content", "said"),
    [("a.docx", b"Hello", "not .docx"), ("a.txt", b"\xe9", "byte 0 is 0xe9"), ("a.json", b"{", "not JSON")],
)
def test_untranslatable_document_reports_the_reason(
    deepl_client: deepl.DeepLClient, name: str, content: bytes, said: str, tmp_path: Path
) -> None:
    with pytest.raises(deepl.DocumentTranslationException, match=said) as failed:
        deepl_client.translate_document(content, io.BytesIO(), filename=name, **EN_FR)
    handle = failed.value.document_handle
    assert deepl_client.translate_document_get_status(handle).error_message
    with pytest.raises(deepl.DeepLException, match="Bad request"):
        deepl_client.translate_document_download(handle)


@pytest.mark.usefixtures("fast_deepl_client")
@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("a.png", {}, "file extension must be one of .*docx"),
        ("a.txt", {"output_format": "docx"}, "is written as txt"),
        ("a.txt", {"target_lang": "XX"}, "'target_lang' not supported"),
        ("a.txt", {"formality": "none"}, "#/formality: "),
        ("a.txt", {"glossary": "none"}, "No such glossary"),
    ],
)
def test_unacceptable_document_is_refused_on_upload(
    deepl_client: deepl.DeepLClient, name: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(deepl.DeepLException, match=said):
        deepl_client.translate_document_upload(b"Hello.", filename=name, **{**EN_FR, **options})


def test_document_may_have_another_suffix_of_the_same_format(deepl_client: deepl.DeepLClient) -> None:
    assert deepl_client.translate_document_upload(b"Hello", filename="a.htm", output_format="HTML", **EN_FR)


def test_unfinished_documents_are_deleted_when_the_service_stops(bundle_folder: Path, gate: Gate) -> None:
    with serving(bundle_folder) as service:
        for _ in range(6):
            files = {"file": ("a.txt", b"Hello.")}
            assert service.request("POST", "/deepl/v2/document", files=files, data=EN_FR).status_code == 200
        gate.entered.wait()
        service.run(service.state.background_jobs.close())
        left = service.run(_tasks())
        gate.opened.set()
    assert not [task for task in left if "_run" in repr(task.get_coro()) and "BackgroundJobs" in repr(task.get_coro())]


async def _tasks() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks()


def test_long_document_is_translated_in_batches(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"Hello {number}." for number in range(20)]
    parts: list[int] = []
    translate = Translator.translate

    async def sometimes_busy(translator: Translator, items: Any, options: Options) -> Translations:
        parts.append(len(items))
        if len(parts) == 2:
            raise Overloaded("busy", (), 0.01)
        return await translate(translator, items, options)

    with monkeypatch.context() as patched:
        patched.setattr("app.storage.background_jobs.RETRY_AFTER_S", 0.0)
        patched.setattr("app.translation.documents._MAX_BATCH_CHARS", 50)
        patched.setattr(Translator, "translate", sometimes_busy)
        place, key = _left(service, "a.json", json.dumps(lines), **EN_FR)
        while service.post(place, key).json()["status"] != "done":
            time.sleep(0.01)
        translated = service.post(f"{place}/result", key).json()
    assert parts == [6, 6, 6, 5, 3]  # the second one twice
    body = {"text": lines, "source": "en", "target": "fr"}
    assert translated == [item["text"] for item in service.post("/translate", body).json()["translations"]]


def _left(service: Service, name: str, content: str, **fields: str) -> tuple[str, dict[str, str]]:
    """Uploads a document and leaves it. Returns the path of its status, and the form with its key."""
    files = {"file": (name, content.encode())}
    handle = service.request("POST", "/deepl/v2/document", files=files, data=fields).json()
    return f"/deepl/v2/document/{handle['document_id']}", {"document_key": handle["document_key"]}


@pytest.mark.parametrize(("text", "status"), [("Bonjour, comment allez-vous ce matin ?", "error"), ("12 + 3", "done")])
def test_document_in_the_target_language_ends_in_an_error(service: Service, text: str, status: str) -> None:
    place, key = _left(service, "a.txt", text, target_lang="FR")
    while (told := service.post(place, key).json())["status"] not in {"done", "error"}:
        time.sleep(0.01)
    assert told["status"] == status
    assert told.get("error_message") == ("Source and target language are equal." if status == "error" else None)


def test_document_in_an_unserved_language_ends_in_an_error(service: Service) -> None:
    text = "Das ist ein schöner Tag, und wir gehen heute im Wald spazieren."
    place, key = _left(service, "a.txt", text, target_lang="FR")
    while (told := service.post(place, key).json())["status"] not in {"done", "error"}:
        time.sleep(0.01)
    assert "which is not translated into French here" in told.get("error_message", "")
