"""app/api/deepl/: DeepL's own client for Python imports, reads, exports and deletes translation memories."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import deepl
import httpx
import pytest
from deepl.api_data import TranslationMemoryJobResult
from deepl_clients import EN_FR, client_of
from shared_fixtures import listening

from app.http.api_keys import new_key

pytestmark = pytest.mark.slow

Units = list[dict[str, str]]


def tmx(units: Units, srclang: str = "en") -> bytes:
    """A TMX file of units, each with texts by language."""
    written = [
        "".join(f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in unit.items()) for unit in units
    ]
    body = "".join(f"<tu>{variants}</tu>" for variants in written)
    return f'<tmx version="1.4"><header srclang="{srclang}"/><body>{body}</body></tmx>'.encode()


@pytest.fixture(scope="module")
def url(bundle_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    memory = tmp_path_factory.mktemp("memory") / "memory.sqlite"
    with listening(bundle_folder, translation_memory=str(memory)) as url:
        yield url


@pytest.fixture
def client(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[deepl.DeepLClient]:
    """A client that fails rather than wait for a job, since all are done at once; its memories are empty."""
    monkeypatch.setattr("deepl.http_client.max_network_retries", 0)
    monkeypatch.setattr("deepl.deepl_client.time", SimpleNamespace(time=lambda: 0.0, sleep=_fail))
    with client_of(url) as client:
        for memory in client.list_translation_memories():
            client.delete_translation_memory(memory)
        yield client


def _fail(seconds: float) -> None:
    raise AssertionError(f"waited {seconds} s")


def imported(client: deepl.DeepLClient, folder: Path, content: bytes, **options: Any) -> TranslationMemoryJobResult:
    (folder / "memory.tmx").write_bytes(content)
    result = client.import_translation_memory_from_filepath(folder / "memory.tmx", **options).result
    assert result
    return result


def test_imported_memory_is_listed_used_exported_and_deleted(client: deepl.DeepLClient, tmp_path: Path) -> None:
    units = [{"en-US": f"House {word}", "fr": f"Maison {word}"} for word in ("one", "two", "red")]
    done = imported(client, tmp_path, tmx(units, "en-us"), display_name="Houses")
    assert (done.status, done.skipped_segment_count) == ("completed", 0)
    assert done.translation_memory_id
    memory = client.get_translation_memory(done.translation_memory_id)
    assert (memory.name, memory.source_language, memory.target_languages) == ("en-fr", "en", ["fr"])
    assert memory.segment_count == 3
    assert memory.creation_time
    options: dict[str, Any] = {"translation_memory": memory, "translation_memory_threshold": 80}
    assert str(client.translate_text("House red", **EN_FR, **options)) == "Maison red"
    client.export_translation_memory_to_filepath(memory, tmp_path / "export.tmx")
    again = imported(client, tmp_path, (tmp_path / "export.tmx").read_bytes())
    assert again.translation_memory_id == done.translation_memory_id
    assert client.get_translation_memory(memory).segment_count == 3
    client.delete_translation_memory(memory)
    assert client.list_translation_memories() == []
    for call in (
        client.get_translation_memory,
        client.delete_translation_memory,
        client.create_translation_memory_export,
    ):
        with pytest.raises(deepl.DeepLException, match="No such translation memory"):
            call(memory)


def test_segments_come_in_pages_and_may_be_filtered(client: deepl.DeepLClient, tmp_path: Path) -> None:
    words = ["one", "two", "red", "blue", "green"]
    done = imported(client, tmp_path, tmx([{"en": f"House {word}", "fr": f"Maison {word}"} for word in words]))
    id = done.translation_memory_id
    assert id
    texts: list[str] = []
    cursor, pages = None, 0
    while cursor or not pages:
        page = client.list_translation_memory_segments(id, page_size=2, page_cursor=cursor)
        assert page.segment_count == 5
        texts += [f"{each.source_text}={each.targets[0].target_text}" for each in page]
        cursor, pages = page.next_page_cursor, pages + 1
    assert pages == 3
    assert sorted(texts) == sorted(f"House {word}=Maison {word}" for word in words)

    def matching(text: str, **options: Any) -> list[str]:
        found = client.list_translation_memory_segments(id, filter_text=text, **options)
        return [each.source_text for each in found]

    assert matching("MAISON BLUE") == ["House blue"]
    assert matching("MAISON BLUE", filter_case_sensitive=True) == []
    assert sorted(matching("re")) == ["House green", "House red"]
    for wrong in (
        {"page_size": 0},
        {"page_size": 101},
        {"filter_text": "a"},
        {"page_cursor": "-1"},
        {"page_cursor": "x"},
    ):
        with pytest.raises(deepl.DeepLException, match=f"#/{next(iter(wrong))}"):
            client.list_translation_memory_segments(id, **wrong)


def test_pairs_of_directions_that_are_not_served_are_skipped(client: deepl.DeepLClient, tmp_path: Path) -> None:
    units = [{"en": "House", "fr": "Maison", "de": "Haus"}, {"en": "Cat", "de": "Katze"}, {"fr": "Chien", "de": "Hund"}]
    for srclang in ("en", "*all*"):
        done = imported(client, tmp_path, tmx(units, srclang))
        assert done.skipped_segment_count == (2 if srclang == "en" else 3)
        [memory] = client.list_translation_memories()
        assert (memory.translation_memory_id, memory.segment_count) == (done.translation_memory_id, 1)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"no XML", "not well-formed"),
        (b"<a/>", "its first element is a"),
        (tmx([]), "no unit in its source language and another one"),
        (tmx([{"en": "House"}, {"fr": "Maison"}]), "no unit in its source language and another one"),
        (tmx([{"en": "House", "de": "Haus"}]), "No bundle translates from en to de"),
        (tmx([{"en": "House", "fr": "a" * 50_001}]), "over the limit"),
    ],
)
def test_failed_import_tells_why(client: deepl.DeepLClient, tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(deepl.DeepLException, match=said):
        imported(client, tmp_path, content)
    assert client.list_translation_memories() == []


def test_job_waits_for_its_file_of_the_declared_length(client: deepl.DeepLClient, url: str) -> None:
    job = client.create_translation_memory_import("a.tmx", 5)
    assert job.expires_at
    assert timedelta(minutes=9) < job.expires_at - datetime.now(UTC) < timedelta(minutes=10)
    waiting = client.get_translation_memory_job(job.job_id)
    assert (waiting.status, waiting.display_name, waiting.source_content_length) == ("awaiting_input", "a.tmx", 5)
    for content, status in ((b"1234", 400), (b"123456", 413)):
        assert httpx.put(job.upload_url, content=content).status_code == status
    assert client.get_translation_memory_job(job.job_id).status == "awaiting_input"
    assert httpx.put(job.upload_url.replace(job.job_id, "none"), content=b"12345").status_code == 404
    with pytest.raises(deepl.DeepLException, match="No such job"):
        client.get_translation_memory_job("none")
    with pytest.raises(deepl.DeepLException, match="over the limit"):
        client.create_translation_memory_import("a.tmx", 1 << 40)


def test_memories_and_jobs_belong_to_a_key(bundle_folder: Path, tmp_path: Path, client: deepl.DeepLClient) -> None:
    (ann, first), (bob, second) = new_key("ann"), new_key("bob")
    (tmp_path / "keys").write_text(f"{first}\n{second}\n")
    place = str(tmp_path / "memory.sqlite")
    settings = {"api_keys_file": tmp_path / "keys", "translation_memory": place}
    with (
        listening(bundle_folder, **settings) as url,
        client_of(url, ann) as one,
        client_of(url, bob) as other,
    ):
        done = imported(one, tmp_path, tmx([{"en": "House", "fr": "Maison"}]))
        [memory] = one.list_translation_memories()
        assert memory.translation_memory_id == done.translation_memory_id
        assert other.list_translation_memories() == []
        for call in (other.get_translation_memory, other.delete_translation_memory):
            with pytest.raises(deepl.DeepLException, match="No such translation memory"):
                call(memory)
        job = one.create_translation_memory_import("a.tmx", 5)
        with pytest.raises(deepl.DeepLException, match="No such job"):
            other.get_translation_memory_job(job.job_id)
        assert httpx.post(f"{url}/deepl/v3/translation_memories/import", json={}).status_code == 403


def test_files_of_jobs_are_below_the_path_of_each_api(bundle_folder: Path, tmp_path: Path) -> None:
    settings = {"root_api": "libretranslate", "translation_memory": str(tmp_path / "memory.sqlite")}
    with listening(bundle_folder, **settings) as url, client_of(url) as client:
        assert client.create_translation_memory_import("a.tmx", 5).upload_url.startswith(f"{url}/deepl/v3/")
        done = imported(client, tmp_path, tmx([{"en": "House", "fr": "Maison"}]))
        assert done.translation_memory_id
        job = client.export_translation_memory_to_filepath(done.translation_memory_id, tmp_path / "export.tmx")
        assert job.result and str(job.result.download_url).startswith(f"{url}/libretranslate/download_file/")
        assert b"Maison" in (tmp_path / "export.tmx").read_bytes()


def test_without_the_setting_an_import_is_refused(deepl_client: deepl.DeepLClient) -> None:
    with pytest.raises(deepl.DeepLException, match="keeps no translation memory"):
        deepl_client.create_translation_memory_import("a.tmx", 5)
