"""POST /translate/file over HTTP: round trips of files, refusals, and no body that breaks it."""

from __future__ import annotations

import asyncio
import io
import json
import re
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples
from shared_fixtures import Gate, Service, fail_admission, serving

from app.errors import TooMuchText
from app.formats import MEDIA_TYPES
from app.storage.downloads import Download
from app.translation.source_language import SourceLanguages
from app.translation.text_plan import TextPlan
from model.bundle import Bundle
from tests.app.formats.test_docx import run, word

pytestmark = pytest.mark.slow

FIELDS = {"source": "en", "target": "fr"}
PATH = "/translate/file"
GERMAN = "Das ist ein schöner Tag, und wir gehen heute im Wald spazieren."
SPANISH = "Esta mañana fuimos al mercado y compramos pan, queso y unas manzanas."
"""Where English and French are served, this is closer to French, and German to English."""
BOUNDARY = {"content-type": "multipart/form-data; boundary=b"}


def send(service: Service, name: str, content: bytes | str, **fields: str) -> httpx.Response:
    data = content.encode() if isinstance(content, str) else content
    return service.request("POST", PATH, files={"file": (name, data)}, data={**FIELDS, **fields})


def translated(service: Service, text: str) -> str:
    found: str = service.post("/translate", {"text": text, **FIELDS}).json()["translations"][0]["text"]
    return found


def test_translated_file_has_the_translations_of_its_texts(service: Service, bundle: Bundle) -> None:
    response = send(service, "report.json", '{"a": "Hello.", "n": 1, "b": ["How are you?"]}')
    assert response.status_code == 200
    assert response.json() == {"a": translated(service, "Hello."), "n": 1, "b": [translated(service, "How are you?")]}
    assert response.headers["content-type"] == "application/json"
    assert response.headers["content-disposition"] == 'attachment; filename="report.fr.json"'
    assert response.headers["x-interlinear-model"] == bundle.name
    assert int(response.headers["x-interlinear-warnings"]) >= 0


def test_files_encoding_is_that_of_its_part_and_is_kept_on_request(service: Service) -> None:
    def sent(content: bytes, **fields: str) -> httpx.Response:
        file = ("a.txt", content, "text/plain; charset=windows-1252")
        return service.request("POST", PATH, files={"file": file}, data={**FIELDS, **fields})

    found = sent("1 €\n".encode("cp1252"))
    assert (found.content.decode(), found.headers["content-type"]) == ("1 €\n", "text/plain; charset=utf-8")
    kept = sent("1 €\n".encode("cp1252"), encoding="keep")
    assert (kept.content.decode("cp1252"), kept.headers["content-type"]) == (
        "1 €\n",
        "text/plain; charset=windows-1252",
    )
    utf16 = service.request("POST", PATH, files={"file": ("a.txt", "1 €".encode("utf-16"))}, data=FIELDS)
    assert (utf16.content.decode("utf-16"), utf16.headers["content-type"]) == ("1 €", "text/plain; charset=utf-16")


def test_word_document_comes_back_as_a_word_document(service: Service) -> None:
    response = send(service, "a.docx", word(f"<w:p>{run('Hello. ')}{run('How are you?', '<w:b/>')}</w:p>"))
    assert response.status_code == 200
    assert response.headers["content-type"] == MEDIA_TYPES[".docx"]
    with zipfile.ZipFile(io.BytesIO(response.content)) as archive:
        assert archive.read("word/document.xml").count(b"<w:b/>") == 1


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "Hello.\n\n  How are you?\n"),
        ("a.md", "# Hello\n\n- *How* are [you](x)?\n"),
        ("a.rst", "Hello\n=====\n\n- *How* are :ref:`you <x>`?\n"),
        ("a.html", "<p>Hello <b>there</b>.</p>"),
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\nHello.\n"),
        ("a.po", 'msgid "Hello."\nmsgstr ""\n'),
        ("a.xliff", '<xliff version="2.0"><file><unit><segment><source>Hello</source></segment></unit></file></xliff>'),
        ("a.xml", '<resources><string name="a">Hello</string></resources>'),
        ("a.properties", "a=Hello"),
        ("a.strings", '"a" = "Hello";'),
        ("a.xcstrings", '{"sourceLanguage": "en", "strings": {"Hello": {}}}'),
        ("a.yaml", "en: {a: Hello}"),
        ("a.ftl", "a = Hello"),
        ("a.csv", "en,fr\nHello,\n"),
        ("a.txt", ""),
    ],
)
def test_every_format_is_served(service: Service, name: str, content: str) -> None:
    response = send(service, name, content)
    assert response.status_code == 200
    assert response.headers["content-type"].partition(";")[0] == MEDIA_TYPES[Path(name).suffix]


def test_options_choose_values_and_columns(service: Service) -> None:
    found = send(service, "a.json", '{"a": "Hello.", "b": "Hello."}', paths="$.b")
    assert found.json() == {"a": "Hello.", "b": translated(service, "Hello.")}
    found = send(service, "a.csv", "id,text\nHello,Hello.\n", columns="text")
    assert found.text == f"id,text\nHello,{translated(service, 'Hello.')}\n"


def test_plain_text_file_may_be_longer_than_one_text(bundle_folder: Path) -> None:
    with serving(bundle_folder, max_text_chars=200) as service:
        for content in ("Hello.\n" * 60, "Hello. " * 60, "a" * 420):
            response = send(service, "a.txt", content)
            assert response.status_code == 200


@pytest.mark.parametrize(
    "glossary",
    [
        (None, b' {"Hello": "Ahoy"}'),
        ("terms.tsv", b"# greetings\nHello\tAhoy\n"),
        ("terms.csv", b'"Hello",Ahoy,EN,FR\r\n'),
    ],
)
def test_file_request_accepts_a_glossary(service: Service, glossary: tuple[str | None, bytes]) -> None:
    files = {"file": ("a.txt", b"Hello."), "glossary": glossary}
    response = service.request("POST", PATH, files=files, data=FIELDS)
    assert response.status_code == 200
    assert "Ahoy" in response.text
    assert "Ahoy" not in send(service, "a.txt", "Hello.").text


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("terms.tsv", b"Hello\tAhoy\nHello\n", "line 2"),
        ("terms.tsv", b"Hello\xff\tAhoy\n", "line 1: not UTF-8"),
        ("terms.csv", b"Hello,Ahoy,de,fr", "line 1: its languages are not"),
        ("terms.tsv", b"".join(b"t%d\tt\n" % number for number in range(10_001)), "at most 10,000 terms"),
    ],
)
def test_invalid_glossary_is_refused(service: Service, name: str, content: bytes, said: str) -> None:
    files = {"file": ("a.txt", b"Hello."), "glossary": (name, content)}
    response = service.request("POST", PATH, files=files, data=FIELDS)
    assert response.status_code == 422
    assert said in response.json()["detail"]
    assert response.json()["errors"][0]["pointer"] == "#/glossary"


def test_report_lists_the_texts_with_warnings(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        TextPlan, "located_warnings", lambda plan: [(s.sentence.start, "Mind.") for s in plan.sentences]
    )
    response = send(service, "a.txt", "Hello.\n\nHow are you? I am well.\n")
    assert response.headers["x-interlinear-warnings"] == "3"
    report = service.get(response.headers["x-interlinear-report"])
    assert report.headers["content-type"] == "application/json"
    found = report.json()
    assert (found["file"], found["texts"], found["model"]) == ("a.fr.txt", 1, response.headers["x-interlinear-model"])
    assert [(one["line"], one["name"], one["text"], one["warning"]) for one in found["warnings"]] == [
        (1, None, "Hello.", "Mind."),
        (3, None, "How are you? I am well.", "Mind."),
        (3, None, "I am well.", "Mind."),
    ]
    found = service.get(send(service, "a.json", '{"a":\n["Hello."]}').headers["x-interlinear-report"]).json()
    assert [(one["line"], one["name"]) for one in found["warnings"]] == [(2, "$.a[0]")]


def test_report_names_an_encoding_that_the_bytes_showed(service: Service) -> None:
    text = "The café’s naïve façade – “Hello.” It is €5."
    response = send(service, "a.txt", text.encode("cp1252"))
    assert response.status_code == 200
    assert service.get(response.headers["x-interlinear-report"]).json()["encoding"] == "windows-1252"
    assert response.content == send(service, "a.txt", text).content
    for fields in ({"source": "auto", "charset": "windows-1252"}, {"charset": "cp1252"}):
        response = send(service, "a.txt", text.encode("cp1252"), **fields)
        assert service.get(response.headers["x-interlinear-report"]).json()["encoding"] is None
        assert response.status_code == 200
    refused = send(service, "a.txt", "Привет".encode("cp1251"))
    assert refused.status_code == 422
    assert "its encoding is not evident" in refused.json()["errors"][0]["detail"]


def test_expired_report_and_another_files_report_are_not_found(service: Service) -> None:
    other = service.run(service.state.downloads.add(Download("a.txt", b"Hello", "text/plain")))
    for name in ("none", other):
        response = service.get(f"{PATH}/report/{name}")
        assert response.status_code == 404
        assert response.json()["detail"].startswith("There is no such report")


def test_fuzzy_translations_are_redone_on_request(service: Service) -> None:
    catalogue = '#, fuzzy\n#| msgid "Hi."\nmsgid "Hello."\nmsgstr "Salut."\n'
    assert send(service, "a.po", catalogue).text == catalogue
    again = send(service, "a.po", catalogue, redo_fuzzy="true").text
    assert again == f'#, fuzzy\nmsgid "Hello."\nmsgstr "{translated(service, "Hello.")}"\n'


def test_file_name_may_have_any_characters(service: Service) -> None:
    disposition = send(service, "résumé 猫's.txt", "Hello.").headers["content-disposition"]
    plain, _, encoded = disposition.partition("; filename*=UTF-8''")
    assert plain == 'attachment; filename="r_sum_ _\'s.fr.txt"'
    assert unquote(encoded) == "résumé 猫's.fr.txt"


@pytest.mark.parametrize(
    ("name", "content", "fields", "status", "said"),
    [
        ("a.png", "Hello", {}, 415, ".docx"),
        ("a.docx", "Hello", {}, 422, "not .docx"),
        ("a.json", "{", {}, 422, "not JSON"),
        ("a.txt", b"\xe9", {}, 422, "byte 0 is 0xe9"),
        ("a.po", 'msgid "Hello"\n', {}, 422, "line 1 has no msgstr"),
        ("a.txt", "Hello", {"target": "xx"}, 404, "en to xx"),
        ("a.txt", SPANISH, {"source": "auto"}, 404, "The text looks Spanish, which is not translated into French here"),
        ("a.txt", GERMAN, {"source": "auto"}, 404, "The text looks German, which is not translated into French here"),
        ("a.txt", "Hello", {"source": ""}, 422, "#/source"),
        ("a.txt", "Hello", {"colour": "red"}, 422, "#/colour"),
        ("a.json", json.dumps("a" * 50_001), {}, 413, "50001 characters"),
        ("a.txt", "Hello", {"line_breaks": "cut"}, 422, "#/line_breaks"),
        ("a.txt", "Hello", {"redo_fuzzy": "perhaps"}, 422, "#/redo_fuzzy"),
        ("a.json", '{"a": "Hello"}', {"paths": "a"}, 422, "#/paths"),
        ("a.csv", "id,text\n1,Hello", {"columns": "title"}, 422, "#/columns"),
        ("a.csv", "id,text\n1,Hello", {}, 422, "#/columns"),
        ("a.txt", "Hello", {"glossary": "none"}, 422, "no glossary 'none'"),
        ("a.txt", "Hello", {"glossary": '{"cat": 1}'}, 422, "the translation of 'cat' is not a string"),
        ("a.txt", "Hello", {"glossary": '{"cat"'}, 422, "#/glossary"),
        ("a.txt", "Hello", {"glossary": '{"a":' * 100_000}, 422, "nested too deeply"),
        ("a.txt", "Hello", {"glossary": '{"cat": ""}'}, 422, "translation of 'cat' is empty"),
        ("a.txt", "Hello", {"glossary": '{"cat": "\\ud800"}'}, 422, "#/glossary"),
    ],
)
def test_every_refusal_is_a_problem(
    service: Service, name: str, content: str | bytes, fields: dict[str, str], status: int, said: str
) -> None:
    response = send(service, name, content, **fields)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert said in response.json()["detail"]


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"json": FIELDS}, 415),
        ({"content": b"{}"}, 415),
        ({"data": FIELDS}, 415),
        ({"content": b"", "headers": {"content-type": "multipart/form-data"}}, 422),
        ({"content": b"", "headers": {"content-type": "multipart/form-data; boundary=b; charset=utf-7"}}, 415),
        ({"files": {"file": ("a.txt", b"Hello")}, "data": {**FIELDS, "glossary": b"\xff"}}, 422),
        ({"content": b"hello", "headers": BOUNDARY}, 422),
        ({"content": b"--b--\r\n", "headers": BOUNDARY}, 422),
        ({"files": {"file": ("a.txt", b"Hello")}}, 422),
        ({"files": {"file": ("a.txt", b"Hello"), "other": ("b.txt", b"Hello")}, "data": FIELDS}, 422),
        ({"files": {"other": ("a.txt", b"Hello")}, "data": FIELDS}, 422),
        ({"files": {"a": ("", b"Hello")}, "data": {**FIELDS, "file": "Hello"}}, 422),
        ({"files": {"file": ("a.txt", b"Hello")}, "data": {**FIELDS, "glossary": "a" * 5_000}}, 422),
        ({"files": {"file": ("a.txt", b"Hello")}, "data": {**FIELDS, "source": ["en"] * 20}}, 422),
    ],
)
def test_form_that_is_malformed_or_lacks_fields_is_refused(
    service: Service, options: dict[str, Any], status: int
) -> None:
    response = service.request("POST", PATH, **options)
    assert response.status_code == status
    assert response.json()["status"] == status


def test_missing_fields_are_named(service: Service) -> None:
    response = service.request("POST", PATH, files={"file": ("a.txt", b"Hello")})
    assert [fault["pointer"] for fault in response.json()["errors"]] == ["#/source", "#/target"]
    response = service.request("POST", PATH, files={"wrong": ("a.txt", b"Hello")}, data=FIELDS)
    assert [fault["pointer"] for fault in response.json()["errors"]] == ["#/file"]


def test_size_limit_applies_while_the_file_arrives(bundle_folder: Path) -> None:
    arrived = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal arrived
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        while True:
            arrived += 1 << 14
            yield b" " * (1 << 14)

    with serving(bundle_folder, max_file_bytes=1_000) as service:
        response = service.request("POST", PATH, content=endless(), headers=BOUNDARY)
        assert send(service, "a.txt", "a" * 1_001).status_code == 413
        assert send(service, "a.txt", "a" * 1_000).status_code == 200
    assert response.status_code == 413
    assert response.json()["detail"] == "The file is over the limit of 1000 bytes."
    assert arrived <= 1 << 17


def test_file_may_have_more_texts_than_a_request(bundle_folder: Path) -> None:
    with serving(bundle_folder, max_items=2, max_text_chars=20) as service:
        assert send(service, "a.json", json.dumps(["Hello."] * 5)).status_code == 200
        refused = send(service, "a.json", json.dumps(["Hello."] * 7))
    assert refused.status_code == 413
    assert "42 characters of text, over the limit of 40" in refused.json()["detail"]


def test_file_with_a_failed_text_is_not_returned(service: Service) -> None:
    response = send(service, "a.json", json.dumps(["Hello.", "a" * 50_001]))
    assert response.status_code == 413


def test_form_that_stops_arriving_times_out(bundle_folder: Path) -> None:
    async def stalled() -> AsyncIterator[bytes]:
        yield b"--b\r\n"
        await asyncio.Event().wait()

    with serving(bundle_folder, deadline_ms=30) as service:
        response = service.request("POST", PATH, content=stalled(), headers=BOUNDARY)
    assert response.status_code == 408


def test_disconnected_clients_request_is_cancelled(bundle_folder: Path, gate: Gate) -> None:
    with serving(bundle_folder) as service:
        assert service.leave(gate, PATH, files={"file": ("a.txt", b"Hello.")}, data=FIELDS) == 499
        gate.opened.set()


def test_overloaded_service_does_not_read_the_file(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_admission(monkeypatch, service, TooMuchText("busy"))
    assert send(service, "a.txt", "Hello").json()["detail"] == "busy"


def test_the_language_is_detected_from_the_whole_document(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    choose = SourceLanguages.choose

    def noting(languages: SourceLanguages, text: str) -> Any:
        told.append(text)
        return choose(languages, text)

    monkeypatch.setattr(SourceLanguages, "choose", noting)
    content = json.dumps(["How are you?", "Hello.", "The cat sleeps in the house, and I am well."])
    response = send(service, "a.json", content, source="auto")
    assert told == ["How are you?\nHello.\nThe cat sleeps in the house, and I am well."]
    assert response.json() == send(service, "a.json", content).json()


@draw_examples(60)
@given(
    body=st.lists(
        st.sampled_from(
            [b"--b", b"--", b"\r\n", b"Content-Disposition: form-data", b'; name="file"', b'; filename="a.md"', b":"]
        )
        | st.binary(max_size=5)
    ).map(b"".join),
    content_type=st.sampled_from(
        [
            "multipart/form-data; boundary=b",
            "multipart/form-data; boundary=b; charset=utf-8",
            "multipart/form-data; boundary=",
        ]
    ),
)
def test_no_form_body_causes_an_internal_error(service: Service, body: bytes, content_type: str) -> None:
    response = service.request("POST", PATH, content=body, headers={"content-type": content_type})
    assert response.status_code == 422


def test_openapi_describes_the_file_endpoint(service: Service) -> None:
    operation = service.get("/openapi.json").json()["paths"][PATH]["post"]
    form = operation["requestBody"]["content"]["multipart/form-data"]
    assert set(form["schema"]["required"]) == {"file", "source", "target"}
    media_types = list(MEDIA_TYPES.values())
    binary = {"schema": {"type": "string", "format": "binary"}}
    assert operation["responses"]["200"]["content"] == dict.fromkeys(media_types, binary)
    example = form["example"]
    assert send(service, "a.txt", example.pop("file"), **example).status_code == 200
    assert {"404", "413", "415", "422", "503", "504"} <= operation["responses"].keys()


def reviewed(service: Service, name: str, content: bytes | str, review: bytes) -> httpx.Response:
    """The document, written with a review."""
    data = content.encode() if isinstance(content, str) else content
    files = {"file": (name, data), "review": ("review.xliff", review)}
    return service.request("POST", PATH, files=files, data=FIELDS)


DOCUMENTS: dict[str, str | bytes] = {
    "a.txt": "Hello.\n\nHow are you? I am here.\n",
    "a.md": "# Hello\n\n- *How* are [you](x)? `code`\n",
    "a.html": '<p>Hello <b>there</b>, see <img alt="a house" src="x"> it.</p><p>You &amp; I.</p>',
    "a.json": '{"a": "Hello {name}.", "b": ["How are you?"]}',
    "a.po": 'msgid "Hello %s."\nmsgstr ""\n',
    "a.docx": word(f"<w:p>{run('Hello. ')}{run('How are you?', '<w:b/>')}</w:p>"),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_review_sent_back_unchanged_gives_the_translated_document(service: Service, name: str) -> None:
    content = DOCUMENTS[name]
    review = send(service, name, content, **{"as": "xliff"})
    assert review.status_code == 200
    assert review.headers["content-type"] == "application/xliff+xml"
    assert f"a.fr{Path(name).suffix}.xliff" in review.headers["content-disposition"]
    again, direct = reviewed(service, name, content, review.content), send(service, name, content)
    assert again.status_code == 200
    assert again.headers["content-type"] == direct.headers["content-type"]
    assert again.headers["content-disposition"] == direct.headers["content-disposition"]
    assert "x-interlinear-model" not in again.headers  # nothing was translated
    if name.endswith(".docx"):
        parts = [
            {part: archive.read(part) for part in archive.namelist()}
            for archive in (zipfile.ZipFile(io.BytesIO(found.content)) for found in (again, direct))
        ]
        assert parts[0] == parts[1]
    else:
        assert again.text == direct.text


def test_review_as_a_page_has_each_text_beside_its_translation(service: Service) -> None:
    response = send(service, "a.txt", "Hello.\n", **{"as": "review"})
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    assert response.headers["content-disposition"] == 'attachment; filename="a.fr.txt.html"'
    assert "Hello." in response.text
    assert translated(service, "Hello.") in response.text
    assert service.get(response.headers["x-interlinear-report"]).json()["file"] == "a.fr.txt.html"


def test_changed_review_changes_the_document(service: Service) -> None:
    review = send(service, "a.txt", "Hello.\n", **{"as": "xliff"}).text
    changed = re.sub("(?s)(<target[^>]*>).*?</target>", r"\1Salut &amp; toi.</target>", review)
    assert reviewed(service, "a.txt", "Hello.\n", changed.encode()).text == "Salut & toi.\n"


def test_review_of_another_document_is_refused_at_its_field(service: Service) -> None:
    review = send(service, "a.txt", "Hello.\n", **{"as": "xliff"}).content
    response = reviewed(service, "a.txt", "Goodbye.\n", review)
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "#/review"
    assert reviewed(service, "a.txt", "Hello.\n", b"<xliff").status_code == 422


def test_unknown_kind_of_answer_is_refused(service: Service) -> None:
    assert send(service, "a.txt", "Hello.", **{"as": "pdf"}).status_code == 422


@pytest.mark.parametrize(("name", "content"), [("a.txt", "1\n"), ("a.txt", ""), ("a.json", "{}")])
def test_document_without_text_can_be_reviewed(service: Service, name: str, content: str) -> None:
    for kind in ("review", "xliff"):
        response = send(service, name, content, **{"as": kind})
        assert response.status_code == 200
    assert reviewed(service, name, content, response.content).text == content
