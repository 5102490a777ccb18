"""app/api/dialects/: what programs send and no manual shows, byte for byte: types, encodings, paths, codes of languages
and versions of HTTP, to LibreTranslate's and DeepL's API."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pytest
from client_transcripts import (
    EXTENSION,
    FORM,
    HELLO,
    JSON,
    Live,
    RawRequest,
    Services,
    Wire,
    chrome_fetch,
    form_bytes,
    json_bytes,
    preflight,
    translations,
)

pytestmark = pytest.mark.slow

BOM = b"\xef\xbb\xbf"
EMPTY_PARTS = "multipart/form-data; boundary=x"


@dataclass(frozen=True)
class Dialect:
    """Where it translates, with what fields, and where the translations are in the response."""

    path: str
    text: str
    others: Mapping[str, str]
    read: Callable[[Any], Any]

    def fields(self, text: object = HELLO) -> dict[str, Any]:
        return {self.text: text, **self.others}


DIALECTS = {
    "libretranslate": Dialect(
        "/libretranslate/translate", "q", {"source": "en", "target": "fr"}, lambda found: found["translatedText"]
    ),
    "deepl": Dialect(
        "/deepl/v2/translate",
        "text",
        {"source_lang": "EN", "target_lang": "FR"},
        lambda found: found["translations"][0]["text"],
    ),
}
CODES = {
    "he": ("iw", "he-IL", "HEB", "iw_IL"),
    "nb": ("no", "nb-NO", "NB", "nob", "no_NO"),
    "zh": ("zh-CN", "zh_cn", "ZH-HANS", "zh-hans", "zt", "zh-TW", "ZH-HANT", "zho", "chi"),
    "pt-BR": ("pb", "pt_br", "PT-BR", "pt", "por"),
    "es": ("es-419", "ES", "spa", "es_MX"),
}
"""Spellings in use of languages that are served."""
every_dialect = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    services = Services(tmp_path_factory.mktemp("wire"), [], [("en", target) for target in ("fr", *CODES)])
    yield services.get()
    services.stop()


@pytest.fixture
def wire(live: Live) -> Iterator[Wire]:
    with Wire(live.host) as wire:
        yield wire


def post(path: str, body: bytes = b"", kind: str | None = None, *lines: tuple[str, str], **fields: Any) -> RawRequest:
    length = [("Content-Length", str(len(body)))]
    typed = [] if kind is None else [("Content-Type", kind)]
    return RawRequest("POST", path, [("Host", "{host}"), *lines, *typed, *length], body, **fields)


def is_translated(live: Live, wire: Wire, dialect: Dialect, request: RawRequest, text: str = HELLO) -> None:
    answer = wire.send(request)
    assert answer.status == 200, answer.text
    assert dialect.read(answer.json()) == translations(live, [text])[0]


KINDS = (
    None,
    "",
    "text/plain",
    "text/plain;charset=UTF-8",
    FORM,
    "Application/JSON",
    "application/json; charset=utf8",
    "application/json;charset=UTF-8;odata=verbose",
    "application/vnd.api+json",
    "application/octet-stream",
    "*/*",
    "json",
)


@every_dialect
@pytest.mark.parametrize("kind", KINDS)
def test_json_is_read_whatever_its_type(live: Live, wire: Wire, dialect: Dialect, kind: str | None) -> None:
    text = "Hello, my naïve friend."
    is_translated(live, wire, dialect, post(dialect.path, json_bytes(dialect.fields(text)), kind), text)


@every_dialect
@pytest.mark.parametrize("kind", [None, "", FORM, f"{FORM}; charset=UTF-8", "application/X-WWW-Form-Urlencoded"])
def test_a_form_is_read_with_its_type_or_none(live: Live, wire: Wire, dialect: Dialect, kind: str | None) -> None:
    body = form_bytes(*dialect.fields().items())
    is_translated(live, wire, dialect, post(dialect.path, body, kind))


@every_dialect
@pytest.mark.parametrize("kind", [JSON, FORM, None])
def test_a_byte_order_mark_is_no_part_of_the_body(live: Live, wire: Wire, dialect: Dialect, kind: str | None) -> None:
    body = form_bytes(*dialect.fields().items()) if kind == FORM else json_bytes(dialect.fields())
    is_translated(live, wire, dialect, post(dialect.path, BOM + body, kind))


@every_dialect
@pytest.mark.parametrize("kind", [None, JSON, FORM, EMPTY_PARTS, "text/plain"])
def test_all_may_be_in_the_query_of_an_empty_post(live: Live, wire: Wire, dialect: Dialect, kind: str | None) -> None:
    target = f"{dialect.path}?{urlencode(dialect.fields())}"
    is_translated(live, wire, dialect, post(target, b"", kind))
    lines = [("Host", "{host}"), *([("Content-Type", kind)] if kind else [])]
    if kind != EMPTY_PARTS:  # without a length there may be parts
        is_translated(live, wire, dialect, RawRequest("POST", target, lines))


@every_dialect
@pytest.mark.parametrize("accept", ["text/html", "application/xml", "*/*;q=0", "text/html, image/gif, */*; q=0.2", ""])
def test_any_accept_is_answered_with_json(live: Live, wire: Wire, dialect: Dialect, accept: str) -> None:
    request = post(dialect.path, json_bytes(dialect.fields()), JSON, ("Accept", accept))
    is_translated(live, wire, dialect, request)


@every_dialect
@pytest.mark.parametrize("where", ["start", "middle", "end", "slash at the end"])
def test_doubled_slashes_and_one_at_the_end_change_nothing(
    live: Live, wire: Wire, dialect: Dialect, where: str
) -> None:
    head, _, tail = dialect.path.rpartition("/")
    paths = {"start": f"/{dialect.path}", "middle": f"{head}//{tail}", "end": f"{dialect.path}//"}
    path = paths.get(where, f"{dialect.path}/")
    is_translated(live, wire, dialect, post(path, json_bytes(dialect.fields()), JSON))


@every_dialect
def test_the_target_may_be_a_whole_url(live: Live, wire: Wire, dialect: Dialect) -> None:
    is_translated(live, wire, dialect, post(f"http://{{host}}{dialect.path}", json_bytes(dialect.fields()), JSON))


@every_dialect
@pytest.mark.parametrize("connection", ["", "keep-alive"])
def test_http_1_0_is_answered(live: Live, dialect: Dialect, connection: str) -> None:
    lines = [("Connection", connection)] if connection else []
    request = post(dialect.path, json_bytes(dialect.fields()), JSON, *lines, version="HTTP/1.0")
    with Wire(live.host) as wire:
        is_translated(live, wire, dialect, request)


@every_dialect
def test_a_body_in_chunks_is_read(live: Live, wire: Wire, dialect: Dialect) -> None:
    body = json_bytes(dialect.fields())
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:7], body[7:], b""))
    lines = [("Host", "{host}"), ("Content-Type", JSON), ("Transfer-Encoding", "chunked")]
    is_translated(live, wire, dialect, RawRequest("POST", dialect.path, lines, chunks))
    is_translated(live, wire, dialect, post(dialect.path, body, JSON))


@every_dialect
def test_a_client_that_expects_100_gets_its_answer(live: Live, wire: Wire, dialect: Dialect) -> None:
    request = post(dialect.path, json_bytes(dialect.fields()), JSON, ("Expect", "100-continue"))
    is_translated(live, wire, dialect, request)


@every_dialect
@pytest.mark.parametrize("number", [5, 0, 1.5])
def test_a_number_is_a_text(live: Live, wire: Wire, dialect: Dialect, number: float) -> None:
    is_translated(live, wire, dialect, post(dialect.path, json_bytes(dialect.fields(number)), JSON), str(number))


def test_a_list_may_be_json_in_a_field_of_a_form(live: Live, wire: Wire) -> None:
    """As PHP's clients send it, for LibreTranslate; DeepL's repeat the field."""
    dialect = DIALECTS["libretranslate"]
    texts = ["Hello.", "How are you, my friend?"]
    body = form_bytes(*dialect.fields(json.dumps(texts)).items())
    answer = wire.send(post(dialect.path, body, FORM))
    assert answer.json()["translatedText"] == translations(live, texts)


@every_dialect
@pytest.mark.parametrize(
    "wrong", [b"{", b'{"a": ', b"[1]", b"\xff\xfe", b'{"q": {}, "text": {}}', b""], ids=lambda body: repr(body)
)
def test_the_connection_can_be_used_after_a_wrong_body(live: Live, wire: Wire, dialect: Dialect, wrong: bytes) -> None:
    assert wire.send(post(dialect.path, wrong, JSON)).status == 400
    is_translated(live, wire, dialect, post(dialect.path, json_bytes(dialect.fields()), JSON))
    assert wire.opened == 1


@pytest.mark.parametrize(
    "path", ["/libretranslate/languages", "/libretranslate/frontend/settings", "/deepl/v2/languages"]
)
@pytest.mark.parametrize("kind", [FORM, EMPTY_PARTS, JSON, None])
def test_a_get_may_have_a_body(live: Live, wire: Wire, path: str, kind: str | None) -> None:
    body = {FORM: b"api_key=any", EMPTY_PARTS: b"--x--\r\n", JSON: b"{}", None: b""}[kind]
    lines = [("Host", "{host}"), *([("Content-Type", kind)] if kind else []), ("Content-Length", str(len(body)))]
    for _ in range(2):
        answer = wire.send(RawRequest("GET", path, lines, body))
        assert answer.status == 200, answer.text
        assert answer.json()
    assert wire.opened == 1


@every_dialect
@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        (EXTENSION, True),
        ("moz-extension://2c127fa4-62c7-7e4f-90e5-472b45eecfdc", True),
        ("safari-web-extension://5f1dbb39-0f3c-4b8e-9f1a-6f0c3c1f8f0e", True),
        ("https://example.org", False),
        ("null", False),
    ],
)
def test_extensions_may_ask_and_pages_only_if_named(wire: Wire, dialect: Dialect, origin: str, allowed: bool) -> None:
    asked = wire.send(preflight(dialect.path, "authorization,content-type", origin))
    request = chrome_fetch("POST", dialect.path, json_bytes(dialect.fields()), JSON, origin=origin)
    for answer in (asked, wire.send(request)):
        assert answer.headers.get("access-control-allow-origin") == (origin if allowed else None)
    assert (asked.status == 200) == allowed


@pytest.mark.parametrize(("served", "code"), [(served, code) for served, codes in CODES.items() for code in codes])
@every_dialect
def test_codes_of_a_language_in_use_are_understood(
    live: Live, wire: Wire, dialect: Dialect, served: str, code: str
) -> None:
    found = {}
    for target in (served, code):
        fields = {**dialect.fields(), list(dialect.others)[1]: target}
        answer = wire.send(post(dialect.path, json_bytes(fields), JSON))
        assert answer.status == 200, (target, answer.text)
        found[target] = dialect.read(answer.json())
    assert found[served] == found[code] != HELLO
