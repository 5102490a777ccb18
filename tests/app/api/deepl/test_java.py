"""app/api/deepl/: what DeepL's client for Java sends, byte by byte, and what it reads: forms, whose fields are called
`a[0].b`.

Written from the sources of deepl-java 1.17 (HttpContent, HttpClientWrapper, DeepLClient, Translator), which no package
of Python's or Node's has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote_plus

import httpx
import pytest
from deepl_clients import plainly
from servers import WAIT_S
from shared_fixtures import listening, make_bundle

pytestmark = pytest.mark.slow

AGENT = {"User-Agent": "deepl-java/1.17.0 (Linux 6.1) java/17.0.9 (Debian)", "Authorization": "DeepL-Auth-Key any"}
ACCEPT = {"Accept": "text/html, image/gif, image/jpeg, */*; q=0.2"}
"""What HttpURLConnection adds."""
BOUNDARY = "5f1dbb39-0f3c-4b8e-9f1a-6f0c3c1f8f0e"
Pairs = list[tuple[str, str]]


class Java:
    """Sends requests as the client does."""

    def __init__(self, url: str) -> None:
        self.url = f"{url}/deepl"

    def send(self, method: str, path: str, content: bytes | None = None, kind: str = "") -> httpx.Response:
        headers = {**AGENT, **ACCEPT, **({"Content-Type": kind} if kind else {})}
        return httpx.request(method, self.url + path, content=content, headers=headers, timeout=WAIT_S)

    def form(self, method: str, path: str, pairs: Pairs) -> httpx.Response:
        """Names are percent-encoded too, as URLEncoder does; a DELETE has an empty form."""
        encoded = "&".join(f"{quote_plus(name, safe='*')}={quote_plus(value, safe='*')}" for name, value in pairs)
        return self.send(method, path, encoded.encode(), "application/x-www-form-urlencoded")

    def upload(self, path: str, name: str, content: bytes, pairs: Pairs) -> httpx.Response:
        """A part for a file of a type that Java does not guess has `Content-Type: null`."""
        start = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="'
        types = "Content-Type: null\r\nContent-Transfer-Encoding: binary"
        parts = [
            f'{start}file"; filename="{name}"\r\n{types}\r\n\r\n'.encode(),
            content,
            b"\r\n",
            *(f'{start}{field}"\r\n\r\n{value}\r\n'.encode() for field, value in pairs),
            f"--{BOUNDARY}--\r\n".encode(),
        ]
        return self.send("POST", path, b"".join(parts), f"multipart/form-data; boundary={BOUNDARY}")


def dictionary(number: int, source: str, target: str, entries: str, entries_format: str = "tsv") -> Pairs:
    fields = {"source_lang": source, "target_lang": target, "entries": entries, "entries_format": entries_format}
    return [(f"dictionaries[{number}].{name}", value) for name, value in fields.items()]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("java")
    make_bundle(folder / "en-fr")
    make_bundle(folder / "fr-en", "fr", "en", seed=1)
    with listening(folder) as url:
        yield url


@pytest.fixture(scope="module")
def java(url: str) -> Java:
    return Java(url)


def answer(response: httpx.Response, status: int = 200) -> Any:
    assert response.status_code == status, response.text
    return response.json()


def test_texts_are_translated(java: Java, url: str) -> None:
    fields = [("source_lang", "en"), ("target_lang", "fr"), ("text", "Hello, you & me."), ("text", "Été + *?")]
    options = [
        *[("show_billed_characters", "1"), ("split_sentences", "1"), ("preserve_formatting", "1"), ("context", "A.")],
        *[
            ("formality", "default"),
            ("tag_handling", "xml"),
            ("tag_handling_version", "v2"),
            ("outline_detection", "0"),
        ],
        *[("splitting_tags", "p,div"), ("non_splitting_tags", "b"), ("ignore_tags", "x,y")],
        *[("model_type", "prefer_quality_optimized")],
    ]
    plain = answer(java.form("POST", "/v2/translate", fields))["translations"]
    assert [each["text"] for each in plain] == plainly(url, "Hello, you & me.", "Été + *?")
    assert [each["billed_characters"] for each in plain] == [16, 8]
    found = answer(java.form("POST", "/v2/translate", [*fields[:2], ("text", "<x>Hello.</x> Bye."), *options]))
    assert "<x>Hello.</x>" in found["translations"][0]["text"]
    assert found["translations"][0]["model_type_used"] == "quality_optimized"
    for name in ("custom_instructions", "style_id", "style_profile_id"):
        refused = answer(java.form("POST", "/v2/translate", [*fields, (name, "Be brief.")]), 400)
        assert "not supported" in refused["message"]


def test_languages_and_usage_are_read(java: Java) -> None:
    # Types come in a form, and also without one.
    sources = answer(java.form("POST", "/v2/languages", []))
    assert [each["language"] for each in sources] == ["EN", "FR"]
    targets = answer(java.form("POST", "/v2/languages", [("type", "target")]))
    assert {each["language"] for each in targets} == {"EN-GB", "EN-US", "FR"}
    assert answer(java.send("GET", "/v2/usage"))["character_count"] >= 0
    assert len(answer(java.send("GET", "/v2/glossary-language-pairs"))["supported_languages"]) == 2


@pytest.mark.parametrize("path", ["/v2/document", "/v2/document/"], ids=["a file", "a stream"])
def test_documents_are_translated(java: Java, url: str, path: str) -> None:
    fields = [("source_lang", "en"), ("target_lang", "fr"), ("formality", "default")]
    handle = answer(java.upload(path, "lettre é.txt", b"Hello.", fields))
    key = [("document_key", handle["document_key"])]
    status = {"status": "queued"}
    while status["status"] in ("queued", "translating"):
        status = answer(java.form("POST", f"/v2/document/{handle['document_id']}", key))
    assert status["status"] == "done"
    found = java.form("POST", f"/v2/document/{handle['document_id']}/result", key)
    assert [found.text] == plainly(url, "Hello.")


def test_glossaries_of_one_pair_are_made_and_used(java: Java) -> None:
    fields = [("name", "Animals"), ("source_lang", "en"), ("target_lang", "fr"), ("entries_format", "tsv")]
    made = answer(java.form("POST", "/v2/glossaries", [*fields, ("entries", "cat\tfélin\n")]), 201)
    path = f"/v2/glossaries/{made['glossary_id']}"
    assert answer(java.send("GET", path)) == made
    assert java.send("GET", f"{path}/entries").text == "cat\tfélin"
    text = [
        ("source_lang", "en"),
        ("target_lang", "fr"),
        ("glossary_id", made["glossary_id"]),
        ("text", "The cat sleeps."),
    ]
    assert "félin" in answer(java.form("POST", "/v2/translate", text))["translations"][0]["text"].lower()
    assert java.form("DELETE", path, []).status_code == 204
    assert java.send("GET", path).status_code == 404


def test_multilingual_glossaries_are_made_and_changed(java: Java) -> None:
    both = [*dictionary(0, "en", "fr", "cat\tfélin"), *dictionary(1, "fr", "en", "chat\tcat")]
    made = answer(java.form("POST", "/v3/glossaries", [("name", "Animals"), *both]), 201)
    assert [each["entry_count"] for each in made["dictionaries"]] == [1, 1]
    path = f"/v3/glossaries/{made['glossary_id']}"

    def entries() -> str:
        [found] = answer(java.send("GET", f"{path}/entries?source_lang=en&target_lang=fr"))["dictionaries"]
        return str(found["entries"])

    changed = answer(java.form("PATCH", path, dictionary(0, "en", "fr", "dog,clébard\n", "csv")))
    assert [each["entry_count"] for each in changed["dictionaries"]] == [2, 1]
    assert entries() == "cat\tfélin\ndog\tclébard"
    assert answer(java.form("PATCH", path, [("name", "Beasts")]))["name"] == "Beasts"
    new = [(name.partition(".")[2], value) for name, value in dictionary(0, "en", "fr", "cat\tchaton")]
    assert answer(java.form("PUT", f"{path}/dictionaries", new))["entry_count"] == 1
    assert entries() == "cat\tchaton"
    assert java.form("DELETE", f"{path}/dictionaries?source_lang=fr&target_lang=en", []).status_code == 204
    assert [each["name"] for each in answer(java.send("GET", "/v3/glossaries"))["glossaries"]] == ["Beasts"]
    csv = [*dictionary(0, "en", "fr", "cat,félin\n", "csv"), ("name", "From CSV")]
    assert answer(java.form("POST", "/v3/glossaries", csv), 201)["dictionaries"][0]["entry_count"] == 1
    assert java.form("DELETE", path, []).status_code == 204


def test_style_rules_and_deepl_write_are_refused(java: Java) -> None:
    style = java.send("POST", "/v3/style_rules", b'{"name":"a","language":"fr"}', "application/json")
    assert answer(style, 404)["message"] == "This service has no style rules."
    assert answer(java.send("GET", "/v3/style_rules/a/custom_instructions/b"), 404)["message"].endswith("style rules.")
    rephrased = java.form("POST", "/v2/write/rephrase", [("text", "Hello."), ("target_lang", "en-US")])
    assert answer(rephrased, 404)["message"] == "This service has no DeepL Write."
