"""DeepL's own client and command line, as they come, against the service on a real socket; and what else they meet."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import deepl
import deepl.__main__ as command_line
import httpx
import pytest
from conftest import Gate, Service, listening, make_bundle, serving
from deepl.api_data import MultilingualGlossaryDictionaryEntries
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_documents_docx import run, word

from app.errors import InvalidFields, Overloaded
from app.fields import Fields
from app.keys import new_key
from app.rates import Rate
from app.routes.deepl_shapes import MultilingualRequest
from app.routes.deepl_text import TextRequest, item_of
from app.routes.deepl_wire import pair_of, target_languages, validated
from app.translation import Options, Translations
from app.translator import Translator

EN_FR: dict[str, Any] = {"source_lang": "EN", "target_lang": "FR"}
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The service of the bundle that comes with it, which says different things of different texts."""
    with listening(Path(__file__).parent.parent / "bundles") as url:
        yield url


@contextmanager
def client_of(url: str, key: str = "any key") -> Iterator[deepl.DeepLClient]:
    client = deepl.DeepLClient(key, server_url=f"{url}/deepl/")
    yield client
    client._client._session.close()


@pytest.fixture
def client(url: str) -> Iterator[deepl.DeepLClient]:
    with client_of(url) as client:
        yield client


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients made in this test try once, and ask after documents without a pause of five seconds."""
    monkeypatch.setattr("deepl.http_client.max_network_retries", 0)
    monkeypatch.setattr("deepl.translator.time", SimpleNamespace(time=time.time, sleep=lambda _: time.sleep(0.01)))
    monkeypatch.setattr("app.routes.deepl_documents.PATIENCE_S", 0.1)


def plainly(url: str, *texts: str, **fields: Any) -> list[str]:
    """What our own API makes of it."""
    body = {"text": list(texts), "source": "en", "target": "fr", **fields}
    return [item["text"] for item in httpx.post(f"{url}/translate", json=body).json()["translations"]]


# ---- Texts


def test_a_text_is_translated_and_texts_are(client: deepl.DeepLClient, url: str) -> None:
    one = client.translate_text("Hello.", **EN_FR)
    assert isinstance(one, deepl.TextResult)
    assert [one.text] == plainly(url, "Hello.")
    assert (one.detected_source_lang, one.billed_characters, one.model_type_used) == ("EN", 6, None)
    many = client.translate_text(["Hello.", "", "How are you?\n"], **EN_FR)
    assert isinstance(many, list)
    assert [each.text for each in many] == plainly(url, "Hello.", "", "How are you?\n")


def test_the_language_is_told(client: deepl.DeepLClient) -> None:
    texts = ["How are you? I am well, thank you.", "123", "Bonjour, comment allez-vous ce matin ?"]
    found = client.translate_text(texts, target_lang="fr")
    assert isinstance(found, list)
    assert [each.detected_source_lang for each in found] == ["EN", "EN", "FR"]
    assert [each.text for each in found[1:]] == texts[1:]  # no words; French already


@pytest.mark.parametrize("asked", ["quality_optimized", "latency_optimized", "prefer_quality_optimized"])
def test_the_model_is_the_one_that_was_asked_for(client: deepl.DeepLClient, asked: str) -> None:
    found = client.translate_text(["Hello."], model_type=asked, **EN_FR)
    assert isinstance(found, list)
    assert found[0].model_type_used == asked.removeprefix("prefer_")


def test_markup_stays_and_ignored_elements_do(client: deepl.DeepLClient, url: str) -> None:
    text = "<p>Hello, <keep>Cat & dog</keep>!</p>"
    html = client.translate_text([text, "<p>How are you?</p>"], tag_handling="html", **EN_FR)
    assert isinstance(html, list)
    assert [each.text for each in html] == plainly(url, text, "<p>How are you?</p>", format="html")
    kept = client.translate_text(text, tag_handling="xml", ignore_tags="x,KEEP", **EN_FR)
    assert isinstance(kept, deepl.TextResult)
    assert "<keep>Cat & dog</keep>" in kept.text


def test_what_splits_sentences_is_as_it_is_asked_for(client: deepl.DeepLClient, url: str) -> None:
    def translated(text: str, **options: Any) -> str:
        return str(client.translate_text(text, **EN_FR, **options))

    text = "How are\nyou? I am well."
    assert translated(text, split_sentences="1") == plainly(url, text)[0]
    assert translated(text, split_sentences="nonewlines") == plainly(url, "How are you? I am well.")[0]
    whole = translated(text, split_sentences="0")
    assert whole == translated("How are you? I am well.", split_sentences=deepl.SplitSentences.OFF)
    assert whole != plainly(url, "How are you? I am well.")[0]
    markup = "<x>How are you?</x> <x>I am well.</x>"
    apart = translated(markup, tag_handling="xml", splitting_tags=["x"])
    assert apart == "<x>{}</x> <x>{}</x>".format(*plainly(url, "How are you?", "I am well."))
    together = translated(markup, tag_handling="xml", non_splitting_tags=["x"], split_sentences="0")
    assert together != apart
    assert together == translated(markup, tag_handling="xml", outline_detection=False, split_sentences="0")


def test_options_without_effect_are_taken(client: deepl.DeepLClient, url: str) -> None:
    found = client.translate_text(
        "Hello.",
        context="A letter.",
        formality="prefer_more",
        preserve_formatting=True,
        tag_handling_version="v2",
        extra_body_parameters={"enable_beta_languages": True},
        **EN_FR,
    )
    assert [str(found)] == plainly(url, "Hello.")


@pytest.mark.usefixtures("impatient")
def test_what_is_too_long_or_in_no_language_served_is_refused(client: deepl.DeepLClient) -> None:
    with pytest.raises(deepl.DeepLException, match="50001 characters, over the limit") as refused:
        client.translate_text("a" * 50_001, **EN_FR)
    assert refused.value.http_status_code == 413
    with pytest.raises(deepl.DeepLException, match="in no language that is translated into fr"):
        client.translate_text("Ich möchte heute Abend nicht mehr ins Kino gehen.", target_lang="FR")
    with pytest.raises(deepl.DeepLException, match="'target_lang' not supported"):
        client.translate_text("Hello.", source_lang="EN", target_lang="EN-GB")


@pytest.mark.parametrize("unit", ["\n ", " \n", "a\n", " ", "a ", ". ", "\u2028", "<x>", "\n<x> "])
@pytest.mark.parametrize("options", [{"split_sentences": "0"}, {"split_sentences": "0", "tag_handling": "xml"}])
def test_hostile_text_is_made_one_sentence_too(unit: str, options: dict[str, str]) -> None:
    body = TextRequest.model_validate({"target_lang": "FR", "text": [unit * 25_000], **options})
    asyncio.run(item_of(body.text[0], body))


def test_languages_are_those_served(client: deepl.DeepLClient) -> None:
    assert [(each.code, each.name) for each in client.get_source_languages()] == [("EN", "English")]
    found = [(each.code, each.name, each.supports_formality) for each in client.get_target_languages()]
    assert found == [("FR", "French", False)]
    assert [(each.source_lang, each.target_lang) for each in client.get_glossary_languages()] == [("en", "fr")]


def test_targets_with_variants_go_by_them(tmp_path: Path, impatient: None) -> None:
    make_bundle(tmp_path / "fr-en", "fr", "en")
    with listening(tmp_path) as url, client_of(url) as client:
        assert [each.code for each in client.get_target_languages()] == ["EN-GB", "EN-US"]
        found = {str(client.translate_text("Bonjour.", target_lang=code)) for code in ("EN-GB", "en-us")}
        assert len(found) == 1


@pytest.mark.parametrize(
    ("pairs", "asked", "found"),
    [
        (["en-fr"], ("EN", "FR"), ("en", "fr")),
        (["en-fr"], ("en-US", "fr-CA"), ("en", "fr")),
        (["en-fr"], (None, "fr"), (None, "fr")),
        (["fr-pt-BR", "fr-pt"], ("FR", "PT-BR"), ("fr", "pt-BR")),
        (["fr-pt-BR", "fr-pt"], ("FR", "PT-PT"), ("fr", "pt")),
        (["fr-en-GB"], ("FR", "EN-US"), None),
        (["zh-Hans-en"], ("ZH", "EN-GB"), ("zh-Hans", "en")),
        (["en-zh"], ("EN", "ZH-HANS"), ("en", "zh")),
        (["en-zh"], ("EN", "ZH-HANT"), None),
        (["en-fr", "de-fr-CA"], ("DE", "FR"), ("de", "fr-CA")),
        (["en-fr"], ("XX", "FR"), None),
        (["en-fr"], ("EN", "E"), None),
    ],
)
def test_codes_are_found_in_any_case_and_with_variants(
    pairs: list[str], asked: tuple[str | None, str], found: tuple[str | None, str] | None
) -> None:
    served: Any = [_bundle(pair) for pair in pairs]
    if found is None:
        with pytest.raises(Exception, match="not supported"):
            pair_of(served, *asked)
    else:
        assert pair_of(served, *asked) == found


def _bundle(pair: str) -> SimpleNamespace:
    """For "fr-pt-BR": variants are in capitals, or a script's name."""
    parts = pair.split("-")
    at = 2 if len(parts) > 2 and (parts[1].isupper() or len(parts[1]) == 4) else 1
    return SimpleNamespace(source="-".join(parts[:at]), target="-".join(parts[at:]))


def test_every_target_offered_can_be_asked_for() -> None:
    served: Any = [_bundle(f"fr-{target}") for target in ("en", "pt", "zh", "de", "es-419")]
    offered = [code for code, _ in target_languages(served)]
    assert offered == ["EN-GB", "EN-US", "PT-BR", "PT-PT", "ZH", "ZH-HANS", "DE", "ES-419"]
    for code in offered:
        assert pair_of(served, "FR", code)


def test_usage_is_what_was_translated(bundle_folder: Path, impatient: None) -> None:
    with listening(bundle_folder) as url, client_of(url) as client:
        client.translate_text(["Hello.", "Bye."], **EN_FR)
        usage = client.get_usage().character
        assert (usage.count, usage.limit, usage.limit_reached) == (10, 1_000_000_000_000, False)


# ---- Documents


def test_a_short_document_is_there_when_it_is_first_asked_after(
    client: deepl.DeepLClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(seconds: float) -> None:
        raise AssertionError

    monkeypatch.setattr("deepl.translator.time", SimpleNamespace(time=time.time, sleep=refuse))
    monkeypatch.setattr("app.routes.deepl_documents.PATIENCE_S", 8.0)
    client.translate_document(b"Hello.", io.BytesIO(), filename="a.txt", **EN_FR)


@pytest.mark.usefixtures("impatient")
def test_a_document_is_translated_from_path_to_path(client: deepl.DeepLClient, url: str, tmp_path: Path) -> None:
    source, target = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text("Hello.\n\nHow are you?\n")
    status = client.translate_document_from_filepath(source, target, **EN_FR)
    assert target.read_text() == plainly(url, "Hello.\n\nHow are you?\n")[0]
    assert (status.done, status.billed_characters) == (True, 21)


@pytest.mark.usefixtures("impatient")
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
def test_a_document_without_a_name_is_known_by_how_it_begins(
    client: deepl.DeepLClient, url: str, content: bytes, options: dict[str, Any]
) -> None:
    given = io.BytesIO(content) if "filename" not in options else content
    translated = io.BytesIO()
    status = client.translate_document(given, translated, **{**EN_FR, **options})
    assert status.done
    (hello,) = plainly(url, "Hello")[:1] if b"# Hello" in content else plainly(url, "Hello.")
    shown = translated.getvalue()
    if content.startswith(b"PK"):
        with zipfile.ZipFile(translated) as archive:
            assert archive.read("word/document.xml").count(b"<w:b/>") == 1
    else:
        assert shown.decode() == content.decode().replace("Hello" if b"# Hello" in content else "Hello.", hello)


@pytest.mark.usefixtures("impatient")
def test_a_document_is_asked_after_and_fetched_once(client: deepl.DeepLClient, url: str) -> None:
    handle = client.translate_document_upload(b"Hello.", filename="report.txt", **EN_FR)
    assert client.translate_document_wait_until_done(handle).status == deepl.DocumentStatus.Status.DONE
    for stranger in (
        deepl.DocumentHandle(handle.document_id, "F" * 64),
        deepl.DocumentHandle("F" * 32, handle.document_key),
        deepl.DocumentHandle(handle.document_id, "é"),
    ):
        with pytest.raises(deepl.DeepLException, match="no such document"):
            client.translate_document_get_status(stranger)
        with pytest.raises(deepl.DeepLException, match="Not found"):
            client.translate_document_download(stranger, io.BytesIO())
    fetched = client.translate_document_download(handle)
    assert fetched is not None
    assert fetched.headers["content-disposition"] == 'attachment; filename="report.fr.txt"'
    assert fetched.text == plainly(url, "Hello.")[0]
    while _is_there(client, handle):
        time.sleep(0.01)


def _is_there(client: deepl.DeepLClient, handle: deepl.DocumentHandle) -> bool:
    try:
        return client.translate_document_get_status(handle).done
    except deepl.DeepLException as gone:
        return "no such document" not in str(gone)


def test_a_document_that_is_not_translated_yet_is_not_ready(bundle_folder: Path, gate: Gate, impatient: None) -> None:
    with listening(bundle_folder) as url, client_of(url) as client:
        handle = client.translate_document_upload(b"Hello.", filename="a.txt", **EN_FR)
        gate.entered.wait()
        assert client.translate_document_get_status(handle).status == deepl.DocumentStatus.Status.TRANSLATING
        with pytest.raises(deepl.DocumentNotReadyException):
            client.translate_document_download(handle)
        gate.opened.set()
        client.translate_document_wait_until_done(handle)
        assert client.translate_document_download(handle) is not None


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("name", "content", "said"),
    [("a.docx", b"Hello", "not .docx"), ("a.txt", b"\xe9", "byte 0 is 0xe9"), ("a.json", b"{", "not JSON")],
)
def test_a_document_that_cannot_be_translated_says_why(
    client: deepl.DeepLClient, name: str, content: bytes, said: str, tmp_path: Path
) -> None:
    with pytest.raises(deepl.DocumentTranslationException, match=said) as failed:
        client.translate_document(content, io.BytesIO(), filename=name, **EN_FR)
    handle = failed.value.document_handle
    assert client.translate_document_get_status(handle).error_message
    with pytest.raises(deepl.DeepLException, match="Bad request"):
        client.translate_document_download(handle)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("a.pdf", {}, "must end in one of .*docx"),
        ("a.txt", {"output_format": "docx"}, "stays of its own format, txt"),
        ("a.txt", {"target_lang": "XX"}, "'target_lang' not supported"),
        ("a.txt", {"formality": "more"}, "'formality' is not supported"),
        ("a.txt", {"glossary": "none"}, "no such glossary"),
    ],
)
def test_a_document_that_cannot_be_taken_is_refused_at_once(
    client: deepl.DeepLClient, name: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(deepl.DeepLException, match=said):
        client.translate_document_upload(b"Hello.", filename=name, **{**EN_FR, **options})


def test_a_document_of_the_same_format_may_have_its_other_suffix(client: deepl.DeepLClient) -> None:
    assert client.translate_document_upload(b"Hello", filename="a.htm", output_format="HTML", **EN_FR)


def test_documents_left_behind_end_with_the_service(bundle_folder: Path, gate: Gate) -> None:
    with serving(bundle_folder) as service:
        for _ in range(6):
            files = {"file": ("a.txt", b"Hello.")}
            assert service.request("POST", "/deepl/v2/document", files=files, data=EN_FR).status_code == 200
        gate.entered.wait()
        service.run(service.state["errands"].close())
        left = service.run(_tasks())
        gate.opened.set()
    assert not [task for task in left if "_run" in repr(task.get_coro()) and "Errands" in repr(task.get_coro())]


async def _tasks() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks()


def test_a_long_document_is_translated_a_part_at_a_time(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"Hello {number}." for number in range(20)]
    parts: list[int] = []
    translate = Translator.translate

    async def sometimes_busy(translator: Translator, items: Any, options: Options) -> Translations:
        parts.append(len(items))
        if len(parts) == 2:
            raise Overloaded("busy", (), 0.01)
        return await translate(translator, items, options)

    with monkeypatch.context() as patched:
        patched.setattr("app.errands.PAUSE_S", 0.0)
        patched.setattr("app.files._AT_ONCE", 50)
        patched.setattr(Translator, "translate", sometimes_busy)
        files = {"file": ("a.json", json.dumps(lines).encode())}
        handle = service.request("POST", "/deepl/v2/document", files=files, data=EN_FR).json()
        place, key = f"/deepl/v2/document/{handle['document_id']}", {"document_key": handle["document_key"]}
        while service.post(place, key).json()["status"] != "done":
            time.sleep(0.01)
        translated = service.post(f"{place}/result", key).json()
    assert parts == [6, 6, 6, 5, 3]  # the second one twice
    body = {"text": lines, "source": "en", "target": "fr"}
    assert translated == [item["text"] for item in service.post("/translate", body).json()["translations"]]


# ---- Glossaries


def test_a_glossary_is_made_listed_used_and_deleted(client: deepl.DeepLClient, url: str) -> None:
    made = client.create_glossary("Animals", "en-US", "FR", {"cat": "Büffel", "the dog": "wau wau"})
    assert (made.name, made.ready, made.source_lang, made.target_lang) == ("Animals", True, "EN", "FR")
    assert made.entry_count == 2
    assert client.get_glossary(made.glossary_id).creation_time == made.creation_time
    assert [each.glossary_id for each in client.list_glossaries()] == [made.glossary_id]
    assert client.get_glossary_entries(made) == {"cat": "Büffel", "the dog": "wau wau"}
    assert "Büffel" in str(client.translate_text("The cat sleeps.", glossary=made, **EN_FR))
    assert "Büffel" in str(client.translate_text_with_glossary("The cat sleeps.", made))
    assert "Büffel" not in str(client.translate_text("The cat sleeps.", **EN_FR))
    client.delete_glossary(made)
    assert client.list_glossaries() == []
    for gone in (client.get_glossary, client.get_glossary_entries, client.delete_glossary):
        with pytest.raises(deepl.GlossaryNotFoundException):
            gone(made.glossary_id)
    with pytest.raises(deepl.DeepLException, match="no such glossary"):
        client.translate_text("The cat sleeps.", glossary=made, **EN_FR)


@pytest.mark.usefixtures("impatient")
def test_a_glossary_is_made_of_csv_and_used_on_documents(client: deepl.DeepLClient) -> None:
    csv = 'cat,Büffel,en,fr\n"house, old",Hütte\n'
    made = client.create_glossary_from_csv("Words", "EN", "FR", csv_data=io.StringIO(csv))
    assert client.get_glossary_entries(made) == {"cat": "Büffel", "house, old": "Hütte"}
    translated = io.BytesIO()
    client.translate_document(b"The cat sleeps.", translated, filename="a.txt", glossary=made, **EN_FR)
    assert "Büffel" in translated.getvalue().decode()
    client.delete_glossary(made)


def test_a_glossary_of_several_pairs_is_changed_a_dictionary_at_a_time(tmp_path: Path) -> None:
    make_bundle(tmp_path / "en-fr")
    make_bundle(tmp_path / "fr-en", "fr", "en", seed=1)
    with listening(tmp_path) as url, client_of(url) as client:
        there = MultilingualGlossaryDictionaryEntries("EN", "FR", {"cat": "Büffel"})
        back = MultilingualGlossaryDictionaryEntries("fr", "en-US", {"chat": "Lynx"})
        made = client.create_multilingual_glossary("Words", [there])
        assert [each.glossary_id for each in client.list_glossaries()] == [made.glossary_id]
        grown = client.update_multilingual_glossary_dictionary(made, back)
        assert [(each.source_lang, each.target_lang) for each in grown.dictionaries] == [("EN", "FR"), ("FR", "EN")]
        assert client.list_glossaries() == []  # version 2 knows those of one pair alone
        with pytest.raises(deepl.DeepLException, match="2 dictionaries"):
            client.get_glossary(made.glossary_id)
        assert client.update_multilingual_glossary_name(made, "More words").name == "More words"
        client.update_multilingual_glossary_dictionary_from_csv(made, "EN", "FR", "dog,wau wau")
        found = client.get_multilingual_glossary_entries(made, "EN", "FR")
        assert [str(each.entries) for each in found.dictionaries] == ["cat\tBüffel\ndog\twau wau"]
        assert "Lynx" in str(
            client.translate_text("Le chat dort.", source_lang="FR", target_lang="EN-GB", glossary=grown)
        )
        replaced = client.replace_multilingual_glossary_dictionary_from_csv(made, "EN", "FR", "cat,Bär")
        assert (replaced.source_lang, replaced.entry_count) == ("EN", 1)
        assert "Bär" in str(client.translate_text("The cat sleeps.", glossary=made.glossary_id, **EN_FR))
        client.delete_multilingual_glossary_dictionary(made, source_lang="FR", target_lang="EN")
        with pytest.raises(deepl.GlossaryNotFoundException, match="no such dictionary"):
            client.delete_multilingual_glossary_dictionary(made, source_lang="FR", target_lang="EN")
        with pytest.raises(deepl.GlossaryNotFoundException, match="no such dictionary"):
            client.get_multilingual_glossary_entries(made, "FR", "EN")
        (left,) = client.list_multilingual_glossaries()
        assert [(each.source_lang, each.entry_count) for each in left.dictionaries] == [("EN", 1)]
        client.delete_multilingual_glossary(made)
        assert client.list_multilingual_glossaries() == []
        with pytest.raises(deepl.GlossaryNotFoundException):
            client.update_multilingual_glossary_name(made, "No words")


def test_of_several_glossaries_the_first_that_has_a_term_holds(client: deepl.DeepLClient) -> None:
    first = client.create_glossary("one", "EN", "FR", {"cat": "Büffel"})
    second = client.create_glossary("two", "EN", "FR", {"cat": "Bär", "dog": "Wolf"})
    found = client.translate_text(["The cat sleeps.", "The dog sleeps."], glossary_ids=[first, second], **EN_FR)
    assert isinstance(found, list)
    assert "Büffel" in found[0].text
    assert "Wolf" in found[1].text
    client.delete_glossary(first)
    client.delete_glossary(second)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"entries": "cat"}, "line 1: it must be a term and its translation, and has 1 parts"),
        ({"entries": "cat\ta\ncat\tb"}, "line 2: the term 'cat' is given twice"),
        ({"entries": "cat,a,de,fr", "entries_format": "csv"}, "line 1: it is of other languages"),
        ({"entries": 'cat,"a', "entries_format": "csv"}, "line 1"),
        ({"entries": "\n"}, "at least one term"),
        ({"target_lang": "DE"}, "the pairs of languages served: en-fr"),
        ({"name": " "}, "1 to 1024 characters"),
        ({"entries_format": "xml"}, "#/entries_format"),
    ],
)
def test_what_cannot_be_a_glossary_is_refused(url: str, fields: dict[str, str], said: str) -> None:
    good = {"name": "a", "source_lang": "EN", "target_lang": "FR", "entries": "cat\tchat", "entries_format": "tsv"}
    response = httpx.post(f"{url}/deepl/v2/glossaries", json={**good, **fields})
    assert response.status_code == 400
    assert said in response.json()["detail"]


def test_the_services_own_glossaries_are_there_by_name(bundle_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "own.en-fr.tsv").write_text("cat\tBüffel\n")
    with listening(bundle_folder, glossaries=tmp_path) as url, client_of(url) as client:
        assert [each.glossary_id for each in client.list_glossaries()] == ["own"]
        assert client.get_glossary_entries("own") == {"cat": "Büffel"}
        assert "Büffel" in str(client.translate_text("The cat sleeps.", glossary="own", **EN_FR))
        with pytest.raises(deepl.DeepLException, match="stays as it is"):
            client.delete_glossary("own")


def test_glossaries_outlive_the_service_where_they_have_a_folder(bundle_folder: Path, tmp_path: Path) -> None:
    with listening(bundle_folder, glossary_store=tmp_path) as url, client_of(url) as client:
        made = client.create_glossary("Animals", "EN", "FR", {"cat": "Büffel"})
    with listening(bundle_folder, glossary_store=tmp_path) as url, client_of(url) as client:
        assert client.get_glossary(made.glossary_id).creation_time == made.creation_time
        assert "Büffel" in str(client.translate_text("The cat sleeps.", glossary=made, **EN_FR))


# ---- Keys and limits


@pytest.fixture
def two_keys(tmp_path: Path) -> tuple[Path, str, str]:
    """A file of keys, and ann's and bob's."""
    (ann, first), (bob, second) = new_key("ann"), new_key("bob")
    (tmp_path / "keys").write_text(f"{first}\n{second}\n")
    return tmp_path / "keys", ann, bob


@pytest.mark.usefixtures("impatient")
def test_where_there_are_keys_a_wrong_one_opens_nothing(
    bundle_folder: Path, two_keys: tuple[Path, str, str], tmp_path: Path
) -> None:
    path, ann, bob = two_keys
    with listening(bundle_folder, api_keys_file=path) as url, client_of(url) as stranger, client_of(url, ann) as client:
        calls: list[Callable[[], object]] = [
            lambda: stranger.translate_text("Hello.", **EN_FR),
            stranger.get_usage,
            stranger.get_source_languages,
            stranger.get_target_languages,
            stranger.get_glossary_languages,
            stranger.list_glossaries,
            stranger.list_multilingual_glossaries,
            lambda: stranger.translate_document_upload(b"Hello.", filename="a.txt", **EN_FR),
        ]
        for call in calls:
            with pytest.raises(deepl.AuthorizationException, match="does not know"):
                call()
        refused = httpx.post(f"{url}/deepl/v2/translate", content=b"{", headers={"Authorization": f"Bearer {ann}"})
        assert refused.status_code == 403
        assert "www-authenticate" not in refused.headers
        assert str(client.translate_text("Hello.", **EN_FR))
        with client_of(url, bob) as other:
            handle = client.translate_document_upload(b"Hello.", filename="a.txt", **EN_FR)
            made = client.create_glossary("Animals", "EN", "FR", {"cat": "chat"})
            with pytest.raises(deepl.DeepLException, match="no such document"):
                other.translate_document_get_status(handle)
            with pytest.raises(deepl.GlossaryNotFoundException):
                other.get_glossary(made.glossary_id)
            assert other.list_glossaries() == []
            assert other.get_usage().character.count == 0
        assert client.translate_document_get_status(handle).ok


@pytest.mark.usefixtures("impatient")
def test_who_has_had_his_characters_has_exceeded_his_quota(bundle_folder: Path) -> None:
    with listening(bundle_folder, rate_characters=Rate.read("10/day")) as url, client_of(url) as client:
        client.translate_text("0123456789", **EN_FR)
        usage = client.get_usage().character
        assert (usage.count, usage.limit, usage.limit_reached) == (10, 10, True)
        with pytest.raises(deepl.QuotaExceededException):
            client.translate_text("Hello.", **EN_FR)
        with pytest.raises(deepl.QuotaExceededException):
            client.translate_document_upload(b"Hello.", filename="a.txt", **EN_FR)


@pytest.mark.usefixtures("impatient")
def test_a_document_over_the_quota_says_so(bundle_folder: Path) -> None:
    limit = Rate.read("10/day")
    over = pytest.raises(deepl.DocumentTranslationException, match="over the limit of 10/day")
    with listening(bundle_folder, rate_characters=limit) as url, client_of(url) as client, over:
        client.translate_document(b"Hello, you there.", io.BytesIO(), filename="a.txt", **EN_FR)


@pytest.mark.usefixtures("impatient")
def test_who_asks_too_often_is_told(bundle_folder: Path) -> None:
    with listening(bundle_folder, rate_requests=Rate.read("1/day")) as url, client_of(url) as client:
        client.get_usage()
        with pytest.raises(deepl.TooManyRequestsException):
            client.get_usage()


@pytest.mark.usefixtures("impatient")
def test_without_a_service_there_is_no_connection(bundle_folder: Path) -> None:
    with listening(bundle_folder) as url:
        pass
    with client_of(url) as client, pytest.raises(deepl.ConnectionException):
        client.get_usage()


# ---- The command line


def test_the_command_runs_as_it_is_installed(url: str) -> None:
    environment = {**os.environ, "DEEPL_SERVER_URL": f"{url}/deepl/"}
    words = ["--auth-key", "any", "text", "--from", "EN", "--to", "FR", "--show-billed-characters", "Hello.", "Bye."]
    command = [sys.executable, "-m", "deepl", *words]
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=60, check=True)
    hello, bye = plainly(url, "Hello.", "Bye.")
    assert done.stdout == f"Billed characters: 6\n{hello}\nBilled characters: 4\n{bye}\n"


@pytest.mark.usefixtures("impatient")
def test_every_command_that_is_served_works(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DEEPL_SERVER_URL", f"{url}/deepl/")
    monkeypatch.setenv("DEEPL_AUTH_KEY", "any")

    def said(*words: object) -> str:
        main: Callable[..., None] = command_line.main
        main([str(word) for word in words], "deepl")
        return capsys.readouterr().out

    assert "Characters: " in said("usage")
    assert said("languages") == "Source languages available:\nEN: English\nTarget languages available:\nFR: French\n"
    assert "en, fr" in said("languages", "--glossary")
    created = said("glossary", "create", "--name", "Animals", "--from", "EN", "--to", "FR", "cat=Büffel")
    id = created.partition("(")[2].partition(")")[0]
    assert id in said("glossary", "list")
    assert "Animals" in said("glossary", "get", id)
    assert said("glossary", "entries", id) == "cat\tBüffel\n"
    options = ("--from", "EN", "--to", "FR", "--glossary-id", id)
    assert "Büffel" in said("text", *options, "--show-model-type-used", "--show-detected-source", "The cat sleeps.")
    (tmp_path / "a.txt").write_text("The cat sleeps.")
    said("document", *options, tmp_path / "a.txt", tmp_path / "done")
    assert "Büffel" in (tmp_path / "done" / "a.txt").read_text("utf-8")
    assert "successfully deleted" in said("glossary", "delete", id)
    with pytest.raises(SystemExit):
        said("glossary", "get", id)
    assert "Glossary not found" in capsys.readouterr().err


# ---- On the wire


def test_a_form_is_as_good_as_json(service: Service) -> None:
    fields = {"text": ["Hello.", "Bye."], "target_lang": "fr", "source_lang": "en", "formality": ""}
    expected = service.post("/deepl/v2/translate", {**EN_FR, "text": fields["text"]})
    assert expected.status_code == 200
    form = service.request("POST", "/deepl/v2/translate", data=fields)
    assert form.json() == expected.json()
    parts = [(name, (None, each)) for name, value in fields.items() for each in _all(value)]
    assert service.request("POST", "/deepl/v2/translate", files=parts).json() == expected.json()
    query = {"target_lang": "FR", "source_lang": "EN", "text": fields["text"]}
    assert service.request("POST", "/deepl/v2/translate", params=query).json() == expected.json()
    tags: dict[str, Any] = {**EN_FR, "text": "<x>Hello.</x> Bye.", "tag_handling": "xml", "outline_detection": "0"}
    kept = service.request("POST", "/deepl/v2/translate", data={**tags, "ignore_tags": "y, x"}).json()
    assert "<x>Hello.</x>" in kept["translations"][0]["text"]


def _all(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


def test_the_type_of_languages_may_be_in_the_query_or_in_a_form(service: Service) -> None:
    path = "/deepl/v2/languages"
    targets = service.get(f"{path}?type=target").json()
    assert targets == [{"language": "FR", "name": "French", "supports_formality": False}]
    for method in ("GET", "POST"):
        assert service.request(method, path, content=b"type=target", headers=FORM).json() == targets
    assert service.get(path).json() == [{"language": "EN", "name": "English"}]
    assert service.get(f"{path}?type=other").status_code == 400
    assert service.request("POST", "/deepl/v2/usage").json() == service.get("/deepl/v2/usage").json()


@pytest.mark.parametrize(
    ("method", "path", "options", "status"),
    [
        ("POST", "translate", {"json": {"text": ["a"]}}, 400),
        ("POST", "translate", {"json": {"target_lang": "FR"}}, 400),
        ("POST", "translate", {"json": {"target_lang": "FR", "text": []}}, 400),
        ("POST", "translate", {"json": {"target_lang": "FR", "text": [1]}}, 400),
        ("POST", "translate", {"json": {"target_lang": "FR", "text": ["a"], "split_sentences": 1}}, 400),
        ("POST", "translate", {"json": {"target_lang": "FR", "text": ["a"], "outline_detection": "0"}}, 400),
        ("POST", "translate", {"json": {"target_lang": "FR", "text": ["a"], "ignore_tags": [1]}}, 400),
        ("POST", "translate", {"json": {"target_lang": "FR", "text": ["a"], "glossary_id": "a"}}, 400),
        ("POST", "translate", {"json": {"target_lang": "FR", "text": ["a"], "style_id": "a"}}, 400),
        ("POST", "translate", {"json": {"target_lang": "FR", "text": ["a"], "translation_memory_id": "a"}}, 400),
        ("POST", "translate", {"json": {"target_lang": "FR", "text": ["a"], "custom_instructions": ["a"]}}, 400),
        ("POST", "translate", {"json": {**EN_FR, "text": ["a"], "glossary_id": "a", "glossary_ids": ["b"]}}, 400),
        ("POST", "translate", {"json": {**EN_FR, "text": ["a"], "glossary_ids": list("abcdef")}}, 400),
        ("POST", "translate", {"json": {**EN_FR, "text": ["a"], "glossary_id": "a"}}, 404),
        ("POST", "translate", {"json": {**EN_FR, "source_lang": "FR", "text": ["a"]}}, 400),
        ("POST", "translate", {"json": {**EN_FR, "text": ["a", "a" * 50_001]}}, 413),
        ("POST", "translate", {"json": {**EN_FR, "text": ["a" * 50_001], "tag_handling": "xml"}}, 413),
        ("POST", "translate", {"json": {**EN_FR, "text": ["a"] * 1_001}}, 413),
        ("POST", "translate", {"json": []}, 400),
        ("POST", "translate", {"content": b"{", "headers": {"content-type": "application/json"}}, 400),
        ("POST", "translate", {"content": b"a", "headers": {"content-type": "text/plain"}}, 400),
        ("POST", "document", {"json": EN_FR}, 400),
        ("POST", "document", {"data": EN_FR, "files": {"other": ("a.txt", b"a")}}, 400),
        ("POST", "document/x", {"json": {}}, 400),
        ("POST", "document/x", {"json": {"document_key": "a"}}, 404),
        ("GET", "glossaries/x", {}, 404),
        ("GET", "translate", {}, 405),
        ("GET", "nothing", {}, 404),
    ],
)
def test_every_refusal_is_in_deepls_words(
    service: Service, method: str, path: str, options: dict[str, Any], status: int
) -> None:
    response = service.request(method, f"/deepl/v2/{path}", **options)
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-trace-id"]
    answer = response.json()
    assert sorted(answer) == ["detail", "message"]
    assert all(isinstance(text, str) and text for text in answer.values())


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("v2/translate", {"target_lang": "FR", "text": [1] * 100_000}),
        ("v2/translate", {"target_lang": "FR", "text": ["a"], "ignore_tags": [1] * 100_000}),
        ("v2/translate", {"target_lang": "FR", "text": ["a"], "custom_instructions": [1] * 100_000}),
        ("v3/glossaries", {"name": "a", "dictionaries": [1] * 100_000}),
        ("v3/glossaries", {"name": "a", "dictionaries": [{}] * 100}),
    ],
)
def test_of_many_faults_few_are_listed(path: str, fields: dict[str, Any]) -> None:
    model = TextRequest if path == "v2/translate" else MultilingualRequest
    with pytest.raises(InvalidFields) as refused:
        validated(model, Fields(fields))
    assert len(refused.value.errors) <= 4


def test_a_body_that_does_not_arrive_is_400(bundle_folder: Path) -> None:
    async def stalled() -> Any:
        yield b"{"
        await asyncio.Event().wait()

    with serving(bundle_folder, deadline_ms=30) as service:
        options = {"content": stalled(), "headers": {"content-type": "application/json"}}
        assert service.request("POST", "/deepl/v2/translate", **options).status_code == 400


def test_what_is_too_late_or_too_much_keeps_its_status(
    bundle_folder: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(bundle_folder, deadline_ms=300) as service:
        late = service.post("/deepl/v2/translate", {**EN_FR, "text": ["Hello."]})
        gate.opened.set()
        monkeypatch.setattr(service.state["errands"], "most", 0)
        full = service.request("POST", "/deepl/v2/document", files={"file": ("a.txt", b"Hello.")}, data=EN_FR)
    assert late.status_code == 504
    assert (full.status_code, full.headers["retry-after"]) == (503, "1")
    assert sorted(late.json()) == sorted(full.json()) == ["detail", "message"]


def test_a_client_that_leaves_is_dropped(bundle_folder: Path, gate: Gate) -> None:
    left, sent = asyncio.Event(), list[Any]()
    bodies = [json.dumps({**EN_FR, "text": ["Hello."]}).encode()]

    async def receive() -> dict[str, Any]:
        if not bodies:
            await left.wait()
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": bodies.pop()}

    async def scenario() -> None:
        headers = [(b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/deepl/v2/translate", "query_string": b""}

        async def send(message: Any) -> None:
            sent.append(message)

        request = asyncio.create_task(
            service._with_state({**scope, "headers": headers, "root_path": ""}, receive, send)
        )
        await asyncio.to_thread(gate.entered.wait)
        left.set()
        await request
        assert service.state["engine"].scheduler.waiting == 0

    with serving(bundle_folder) as service:
        service.run(scenario())
        gate.opened.set()
    assert sent[0]["status"] == 499


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    [
        *("text", "target_lang", "source_lang", "split_sentences", "tag_handling", "ignore_tags", "splitting_tags"),
        *("glossary_id", "glossary_ids", "formality", "outline_detection", "model_type", "context", "style_id"),
        *("name", "entries", "entries_format", "dictionaries", "document_key", "type"),
    ]
)
LIKELY = st.sampled_from(["FR", "EN", "xml", "0", "1", "tsv", "csv", "a\tb", "<p>Hello.", ["Hello."], True])


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    fields=st.dictionaries(FIELDS, LIKELY | ANYTHING, max_size=6),
    path=st.sampled_from(
        [
            *(("POST", "v2/translate"), ("POST", "v2/glossaries"), ("POST", "v3/glossaries"), ("GET", "v2/languages")),
            *(("POST", "v2/document/a"), ("PUT", "v3/glossaries/a/dictionaries"), ("PATCH", "v3/glossaries/a")),
        ]
    ),
)
def test_no_fields_break_it(service: Service, fields: dict[str, Any], path: tuple[str, str]) -> None:
    content = json.dumps(fields).encode()
    headers = {"content-type": "application/json"}
    response = service.request(path[0], f"/deepl/{path[1]}", content=content, headers=headers)
    assert response.status_code < 500
    if response.status_code >= 400:
        assert sorted(response.json()) == ["detail", "message"]
