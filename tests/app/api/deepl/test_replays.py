"""app/api/deepl/: what DeepL's clients for .NET, PHP and Ruby and its command line for Node send, byte by byte.

Those of deepl-php 1.19, deepl-rb 3.8 and deepl-cli 1.2 were recorded as they ran against the service. Those of
deepl-dotnet 1.20, for which no runtime was at hand, are written from its sources (DeepLHttpClient, Translator,
DeepLClient, LargeFormUrlEncodedContent) and what .NET's MultipartFormDataContent writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from servers import WAIT_S
from shared_fixtures import listening, make_bundle

FORM, JSON = "application/x-www-form-urlencoded", "application/json"
RUBY_ACCEPT = {"Accept-Encoding": "gzip;q=1.0,deflate;q=0.6,identity;q=0.3", "Connection": "close"}
TRANSLATIONS = [
    (
        "deepl-cli/1.2.0 node/20.20.2",
        FORM,
        b"text=%3Cp%3EHello+%3Cb%3Eyou%3C%2Fb%3E%3C%2Fp%3E&target_lang=FR&source_lang=EN&formality=prefer_less"
        b"&preserve_formatting=1&context=A+b&split_sentences=0&tag_handling=xml&model_type=prefer_quality_optimized"
        b"&show_billed_characters=1&outline_detection=0&splitting_tags=p%2Cq&non_splitting_tags=b&ignore_tags=x"
        b"&tag_handling_version=v2",
    ),
    (
        "deepl-ruby/3.8.0 (linux-gnu) ruby/3.1.2",
        JSON,
        b'{"text":["<p>Hello <b>you</b></p>"],"source_lang":"EN","target_lang":"FR","tag_handling":"xml",'
        b'"split_sentences":"1","preserve_formatting":false,"outline_detection":false,"splitting_tags":["p"],'
        b'"non_splitting_tags":["b"],"ignore_tags":["x","y"],"formality":"prefer_less","context":"c",'
        b'"model_type":"prefer_quality_optimized","show_billed_characters":true,"tag_handling_version":"v2"}',
    ),
    (
        "deepl-php/1.19.0 (Linux 6.1) php/8.2.36 curl/7.88.1",
        JSON,
        b'{"target_lang":"fr","source_lang":"en","formality":"prefer_less","show_billed_characters":true,'
        b'"text":["<p>Hello <b>you<\\/b><\\/p>"],"split_sentences":"nonewlines","preserve_formatting":true,'
        b'"tag_handling":"xml","tag_handling_version":"v2","outline_detection":false,"context":"c",'
        b'"model_type":"prefer_quality_optimized","non_splitting_tags":["b"],"splitting_tags":["p"],"ignore_tags":["x"]}',
    ),
    (
        "deepl-dotnet/1.20.0 (Debian GNU/Linux 12) dotnet-clr/8.0.10",
        FORM,
        b"target_lang=fr&source_lang=en&formality=less&show_billed_characters=1&context=c&split_sentences=nonewlines"
        b"&preserve_formatting=1&tag_handling=xml&tag_handling_version=v2&outline_detection=0&non_splitting_tags=b"
        b"&splitting_tags=p%2Cq&ignore_tags=x&model_type=quality_optimized"
        b"&text=%3Cp%3EHello+%3Cb%3Eyou%3C%2Fb%3E%3C%2Fp%3E",
    ),
]
BOUNDARY = "2b1ce47c-4b8a-4d0a-9d3f-0a4a4dd6a4f1"
PARTS = "Content-Type: text/plain; charset=utf-8\r\nContent-Disposition: form-data; name="


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("replays")
    make_bundle(folder / "en-fr")
    make_bundle(folder / "fr-en", "fr", "en", seed=1)
    with listening(folder) as url:
        yield f"{url}/deepl"


def sent(url: str, method: str, path: str, content: bytes = b"", kind: str = "", **headers: str) -> httpx.Response:
    types = {"Content-Type": kind} if kind else {}
    known = {"Authorization": "DeepL-Auth-Key any", "Accept": "*/*", **types, **headers}
    return httpx.request(method, url + path, content=content, headers=known, timeout=WAIT_S)


def answer(response: httpx.Response, status: int = 200) -> Any:
    assert response.status_code == status, response.text
    return response.json()


@pytest.mark.parametrize(
    ("agent", "kind", "body"), TRANSLATIONS, ids=[agent.split("/")[0] for agent, _, _ in TRANSLATIONS]
)
def test_texts_are_translated_with_every_option(url: str, agent: str, kind: str, body: bytes) -> None:
    [found] = answer(sent(url, "POST", "/v2/translate", body, kind, **{"User-Agent": agent}))["translations"]
    assert found["text"].startswith("<p>") and "<b>" in found["text"]
    assert found["detected_source_language"] == "EN"
    assert (found["billed_characters"], found["model_type_used"]) == (23, "quality_optimized")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            b"text=Hello&target_lang=FR&source_lang=EN&formality=default"
            b"&translation_memory_id=12345678-1234-1234-1234-123456789abc&translation_memory_threshold=75",
            "#/translation_memory_id: No translation memory",
        ),
        (b"target_lang=en-GB&formality=more&show_billed_characters=1&text=Bonjour", "does not support formality"),
        (b"target_lang=fr&custom_instructions=Be+brief&custom_instructions=b&text=a", "#/custom_instructions: "),
    ],
)
def test_options_that_are_refused_are_named(url: str, body: bytes, said: str) -> None:
    assert said in answer(sent(url, "POST", "/v2/translate", body, FORM), 400)["message"]


def test_ruby_sends_a_body_with_every_request(url: str) -> None:
    def ruby(method: str, path: str, body: bytes = b"{}") -> httpx.Response:
        return sent(url, method, path, body, JSON, **RUBY_ACCEPT)

    assert {each["language"] for each in answer(ruby("GET", "/v2/languages", b'{"type":"target"}'))} == {
        *("EN-GB", "EN-US", "FR")
    }
    assert [each["language"] for each in answer(ruby("GET", "/v2/languages"))] == ["EN", "FR"]
    assert answer(ruby("GET", "/v2/usage"))["character_limit"] == 1_000_000_000_000
    assert len(answer(ruby("GET", "/v2/glossary-language-pairs"))["supported_languages"]) == 2
    body = b'{"name":"A","source_lang":"EN","target_lang":"FR","entries":"cat\\tmatou\\n","entries_format":"tsv"}'
    path = f"/v2/glossaries/{answer(ruby('POST', '/v2/glossaries', body), 201)['glossary_id']}"
    assert answer(ruby("GET", path))["entry_count"] == 1
    assert ruby("GET", f"{path}/entries").text == "cat\tmatou"
    assert ruby("DELETE", path).status_code == 204
    assert answer(ruby("GET", path), 404)["message"] == "No such glossary."


def test_the_command_line_finds_a_glossary_by_its_name_and_changes_it(url: str) -> None:
    entries = '"entries":"cat\\tmatou\\nhouse\\tbaraque\\n","entries_format":"tsv"'
    body = f'{{"name":"An","dictionaries":[{{"source_lang":"EN","target_lang":"FR",{entries}}}]}}'.encode()
    made = answer(sent(url, "POST", "/v3/glossaries", body, JSON), 201)
    assert sent(url, "GET", "/v3/glossaries/An").status_code == 404
    assert made["glossary_id"] in [
        each["glossary_id"] for each in answer(sent(url, "GET", "/v3/glossaries"))["glossaries"]
    ]
    path = f"/v3/glossaries/{made['glossary_id']}"
    assert answer(sent(url, "PATCH", path, b'{"name":"Beasts"}', JSON))["name"] == "Beasts"
    one = '{"source_lang":"EN","target_lang":"FR","entries":"cat\\tfélin","entries_format":"tsv"}'
    assert answer(sent(url, "PUT", f"{path}/dictionaries", one.encode(), JSON))["entry_count"] == 1
    found = answer(sent(url, "GET", f"{path}/entries?source_lang=EN&target_lang=FR"))
    assert found["dictionaries"][0]["entries"] == "cat\tfélin"
    assert sent(url, "DELETE", path).status_code == 204


def test_dotnet_makes_and_changes_glossaries_by_forms(url: str) -> None:
    body = (
        b"name=A&dictionaries%5B0%5D.source_lang=en&dictionaries%5B0%5D.target_lang=fr"
        b"&dictionaries%5B0%5D.entries=cat%09matou&dictionaries%5B0%5D.entries_format=tsv"
    )
    path = f"/v3/glossaries/{answer(sent(url, 'POST', '/v3/glossaries', body, FORM), 201)['glossary_id']}"
    assert (
        answer(sent(url, "PATCH", path, body.replace(b"matou", b"f%C3%A9lin").replace(b"name=A", b"name=B"), FORM))[
            "name"
        ]
        == "B"
    )
    one = b"source_lang=en&target_lang=fr&entries=dog%09cabot&entries_format=tsv"
    assert answer(sent(url, "PUT", f"{path}/dictionaries", one, FORM))["entry_count"] == 1
    query = "source_lang=en&target_lang=fr"
    assert answer(sent(url, "GET", f"{path}/entries?{query}"))["dictionaries"][0]["entries"] == "dog\tcabot"
    assert sent(url, "DELETE", f"{path}/dictionaries?{query}").status_code == 204
    assert sent(url, "DELETE", path).status_code == 204


@pytest.mark.parametrize(
    "parts",
    [
        # .NET writes no quotes around names, and a name that is not ASCII twice.
        [
            f"{PARTS}target_lang\r\n\r\nfr",
            f"{PARTS}source_lang\r\n\r\nen",
            "Content-Disposition: form-data; name=file; filename=\"=?utf-8?B?w6kudHh0?=\"; filename*=utf-8''%C3%A9.txt"
            "\r\n\r\nHello.",
        ],
        # PHP gives the whole path as the file's name.
        [
            'Content-Disposition: form-data; name="target_lang"\r\n\r\nfr',
            'Content-Disposition: form-data; name="source_lang"\r\n\r\nen',
            'Content-Disposition: form-data; name="file"; filename="/tmp/letters/é.txt"'
            "\r\nContent-Type: application/octet-stream\r\n\r\nHello.",
        ],
        # Ruby sends the file first, and its name again.
        [
            'Content-Disposition: form-data; name="file"; filename="é.txt"'
            "\r\nContent-Type: application/octet-stream\r\n\r\nHello.",
            'Content-Disposition: form-data; name="source_lang"\r\n\r\nEN',
            'Content-Disposition: form-data; name="target_lang"\r\n\r\nFR',
            'Content-Disposition: form-data; name="filename"\r\n\r\né.txt',
        ],
    ],
    ids=["dotnet", "php", "ruby"],
)
def test_documents_are_translated(url: str, parts: list[str]) -> None:
    body = "".join(f"--{BOUNDARY}\r\n{part}\r\n" for part in parts) + f"--{BOUNDARY}--\r\n"
    kind = f'multipart/form-data; boundary="{BOUNDARY}"'
    handle = answer(sent(url, "POST", "/v2/document", body.encode(), kind))
    path, key = f"/v2/document/{handle['document_id']}", handle["document_key"]
    status = {"status": "queued"}
    while status["status"] in ("queued", "translating"):
        status = answer(sent(url, "POST", path, f"document_key={key}".encode(), FORM))
    assert status["status"] == "done"
    found = sent(url, "POST", f"{path}/result", json.dumps({"document_key": key}).encode(), JSON)
    assert found.status_code == 200
    assert "%C3%A9.fr.txt" in found.headers["content-disposition"]
    plain = sent(url, "POST", "/v2/translate", b"text=Hello.&source_lang=en&target_lang=fr", FORM)
    assert found.text == answer(plain)["translations"][0]["text"]
