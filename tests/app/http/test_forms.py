"""Fields of a request: the same in any encoding, within the limits, and every body gets a proper response."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import pytest
from fastapi import Request
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples

from app.errors import BodyTooSlow, ClientLeft, InvalidFields, NotJSON, ServiceError, TooMuchText, WrongContentType
from app.http.forms import FORM, JSON, MULTIPART, Fields, Upload, read_fields, read_upload
from app.server.state import APPLICATION, AppState
from app.settings import Settings

URL = "http://test/"
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
IN_PARTS = (
    b'--b\r\nContent-Disposition: form-data; name="q"\r\n\r\na\r\n'
    b'--b\r\nContent-Disposition: form-data; name="format"\r\n\r\nhtml\r\n--b--\r\n'
)
FIELDS = st.dictionaries(st.sampled_from(["q", "text", "source", "é"]), TEXT, min_size=1)


def received(sent: httpx.Request, chunks: Iterable[bytes] | None = None, **limits: Any) -> Request:
    """What the service receives for `sent`; after `chunks`, if there are any, the client sends no more."""
    settings = Settings(**limits)
    state = {APPLICATION: AppState(settings=settings)}
    left = [sent.read()] if chunks is None else list(chunks)

    async def receive() -> dict[str, Any]:
        if not left:
            await asyncio.Event().wait()
        body = left.pop(0)
        if not body and chunks is not None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": body, "more_body": chunks is not None}

    headers = [(name.lower(), value) for name, value in sent.headers.raw]
    scope = {"type": "http", "method": sent.method, "path": "/", "headers": headers, "state": state}
    return Request({**scope, "query_string": sent.url.query}, receive)


def read(*, method: str = "POST", url: str = URL, limits: dict[str, Any] | None = None, **options: Any) -> Fields:
    return asyncio.run(read_fields(received(httpx.Request(method, url, **options), **(limits or {}))))


def upload(limits: dict[str, Any] | None = None, **options: Any) -> tuple[Upload, Fields]:
    return asyncio.run(read_upload(received(httpx.Request("POST", URL, **options), **(limits or {}))))


def in_parts(fields: dict[str, Any]) -> dict[str, Any]:
    """A multipart form without a file."""
    return {"files": [(name, (None, value)) for name, value in fields.items()]}


def content(body: bytes, kind: str, **headers: str) -> dict[str, Any]:
    return {"content": body, "headers": {"content-type": kind, **headers}}


@pytest.mark.slow
@draw_examples(40)
@given(FIELDS)
def test_field_is_equal_in_query_form_and_json(fields: dict[str, str]) -> None:
    ways = [
        read(json=fields),
        read(data=fields),
        read(**in_parts(fields)),
        read(url=f"{URL}?{urlencode(fields)}"),
        read(method="GET", data=fields),
    ]
    for found in ways:
        assert {name: found.one(name) for name in fields} == fields
        assert {name: found.all(name) for name in fields} == {name: [text] for name, text in fields.items()}
        assert found.by_name() == fields


@pytest.mark.slow
@draw_examples(40)
@given(st.lists(TEXT, min_size=2, max_size=4))
def test_list_is_equal_in_query_form_and_json(texts: list[str]) -> None:
    for found in [
        read(json={"text": texts}),
        read(data={"text": texts}),
        read(files=[("text", (None, text)) for text in texts]),
        read(url=f"{URL}?{urlencode({'text': texts}, doseq=True)}"),
    ]:
        assert found.all("text") == texts
        assert found.by_name() == {"text": texts}


def test_first_of_repeated_strings_counts_and_json_keeps_its_value() -> None:
    assert read(data={"q": ["a", "b"]}).one("q") == "a"
    assert read(json={"q": ["a", "b"]}).one("q") == ["a", "b"]
    assert read(json={"n": 3}).one("n") == 3


@pytest.mark.parametrize("kind", [None, "text/plain", "text/plain; charset=utf-8", FORM, "*/*", JSON])
@pytest.mark.parametrize("body", [b'{"q": "a"}', b'\xef\xbb\xbf {"q": "a"}'])
def test_body_that_looks_like_json_is_json(kind: str | None, body: bytes) -> None:
    headers = {"content-type": kind} if kind else {}
    assert read(content=body, headers=headers).one("q") == "a"


def test_body_of_no_type_is_a_form_and_an_empty_one_has_no_fields() -> None:
    assert read(content=b"q=a").one("q") == "a"
    assert read(content=b"\xef\xbb\xbfq=a").one("q") == "a"
    assert read(**content(b"", f"{MULTIPART}; boundary=b"), url=f"{URL}?q=a").one("q") == "a"


def test_missing_field_is_none_or_an_empty_list() -> None:
    found = read(json={"q": None})
    assert (found.one("q"), found.all("q"), found.one("other"), found.all("other")) == (None, [], None, [])


def test_body_field_overrides_the_query() -> None:
    url = f"{URL}?q=query&source=en"
    for found in (
        read(url=url, json={"q": "body"}),
        read(url=url, data={"q": "body"}),
        read(url=url, **in_parts({"q": "body"})),
    ):
        assert (found.one("q"), found.all("q"), found.one("source")) == ("body", ["body"], "en")
    assert read(url=url, json={"q": None}).one("q") == "query"


@pytest.mark.parametrize("body", [IN_PARTS, IN_PARTS.removesuffix(b"\r\n")])
def test_multipart_form_ends_with_its_boundary(body: bytes) -> None:
    assert read(**content(body, f"{MULTIPART}; boundary=b")).by_name() == {"q": "a", "format": "html"}
    assert read(**content(b"", f"{MULTIPART}; boundary=b")).by_name() == {}


def test_empty_body_needs_no_content_type() -> None:
    assert read(url=f"{URL}?q=a", method="GET").one("q") == "a"
    assert read(**content(b"", JSON)).by_name() == {}


def test_form_may_have_unescaped_utf_8_and_stray_percent_signs() -> None:
    found = read(**content("q=100% sûr&a=%zz".encode(), FORM))
    assert (found.one("q"), found.one("a")) == ("100% sûr", "%zz")


@pytest.mark.parametrize("charset", ["", "; charset=UTF-8", '; charset="utf-8"', "; Charset=us-ascii"])
def test_supported_charset_is_accepted(charset: str) -> None:
    assert read(**content(b"q=a", FORM.title() + charset)).one("q") == "a"


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        (content(b"q=a", "text/plain"), WrongContentType, "it is text/plain"),
        (content(b"q=a", f"{FORM}; charset=utf-16"), WrongContentType, "utf-16"),
        (content(b"q=a", f"{FORM}; charset=undefined"), WrongContentType, "undefined"),
        (content(b"q=a", FORM, **{"content-encoding": "gzip"}), WrongContentType, "gzip"),
        (content(b"{}", JSON, **{"content-encoding": "br"}), WrongContentType, "br"),
        (content(b"--b", f"{MULTIPART}; boundary=b", **{"content-encoding": "gzip"}), WrongContentType, "gzip"),
        (content(b"{", JSON), NotJSON, "line 1"),
        (content(b"[" * 100_000, JSON), NotJSON, "deep"),
        (content(b"[]", JSON), InvalidFields, "object"),
        (content(b'{"q": "\\ud800"}', JSON), InvalidFields, "surrogate"),
        (content(b'{"\\ud800": 1}', JSON), InvalidFields, "surrogate"),
        (content(b'{"q": ["\xed\xa0\x80"]}', JSON), InvalidFields, "surrogate"),
        (content(b"q=\xe9", FORM), InvalidFields, "UTF-8"),
        (content(b"q=%e9", FORM), InvalidFields, "UTF-8"),
        (content(b"q=%ed%a0%80", FORM), InvalidFields, "UTF-8"),
        ({"url": f"{URL}?q=%ff"}, InvalidFields, "UTF-8"),
        ({"url": f"{URL}?q=%ff", "json": {"q": "a"}}, InvalidFields, "UTF-8"),
        (in_parts({"q": b"\xe9"}), InvalidFields, "UTF-8"),
        ({"files": {"q": ("a.txt", b"a")}}, InvalidFields, "files"),
        (content(b"--b\r\n\r\n", f"{MULTIPART}; boundary=b"), InvalidFields, "name"),
        (content(IN_PARTS.removesuffix(b"-\r\n"), f"{MULTIPART}; boundary=b"), InvalidFields, "truncated"),
        (content(IN_PARTS.partition(b"html")[0], f"{MULTIPART}; boundary=b"), InvalidFields, "truncated"),
        (content(b"--b\r\n", MULTIPART), InvalidFields, "boundary"),
        (content(b"--b\r\n", f'{MULTIPART}; boundary="b'), InvalidFields, "multipart"),
        (content(b"--b", f"{MULTIPART}; boundary={'b' * 300}"), InvalidFields, "multipart"),
    ],
)
def test_malformed_requests_are_refused(options: dict[str, Any], error: type[ServiceError], said: str) -> None:
    with pytest.raises(error, match=said):
        read(**options)


@pytest.mark.parametrize(
    "options",
    [{"data": {"q": ["a"] * 34}}, {"files": [("q", (None, "a"))] * 34}, {"url": f"{URL}?{'&'.join(['q=a'] * 34)}"}],
)
def test_number_of_fields_is_limited_by_that_of_texts(options: dict[str, Any]) -> None:
    assert len(read(limits={"max_items": 2}, **options).all("q")) == 34
    with pytest.raises(InvalidFields, match="33"):
        read(limits={"max_items": 1}, **options)


@pytest.mark.parametrize(
    "options", [{"json": {"q": "a" * 200}}, {"data": {"q": "a" * 200}}, in_parts({"q": "a" * 200})]
)
def test_a_body_over_the_limit_is_refused(options: dict[str, Any]) -> None:
    assert read(**options).one("q") == "a" * 200
    with pytest.raises(TooMuchText, match="100 bytes"):
        read(limits={"max_body_bytes": 100}, **options)


@pytest.mark.parametrize("kind", [JSON, FORM, f"{MULTIPART}; boundary=b", "image/png"])
def test_body_that_stops_arriving_times_out(kind: str) -> None:
    sent = httpx.Request("POST", URL, headers={"content-type": kind})
    with pytest.raises(BodyTooSlow):
        asyncio.run(read_fields(received(sent, [b"--b\r\n"], deadline_ms=20)))
    with pytest.raises(ClientLeft):
        asyncio.run(read_fields(received(sent, [b"--b\r\n", b""])))


@pytest.mark.slow
@draw_examples(80)
@given(
    body=st.binary(max_size=30)
    | st.lists(
        st.sampled_from(
            [b"--b", b"--", b"\r\n", b"Content-Disposition: form-data", b'; name="q"', b"=", b"&", b"%", b"{}"]
        )
    ).map(b"".join)
    | st.recursive(
        st.none() | st.floats() | st.text(), lambda deeper: st.lists(deeper) | st.dictionaries(TEXT, deeper)
    ).map(lambda value: json.dumps(value).encode()),
    kind=st.sampled_from(
        [JSON, FORM, f"{MULTIPART}; boundary=b", MULTIPART, "", "multipart/form-data; boundary=b; charset=idna"]
    )
    | st.text(st.characters(codec="latin-1", exclude_categories=["Cc"])),
    query=st.binary(max_size=10),
)
def test_every_body_is_read_or_refused(body: bytes, kind: str, query: bytes) -> None:
    request = received(httpx.Request("POST", URL, content=body, headers=[(b"content-type", kind.encode("latin-1"))]))
    request.scope["query_string"] = query
    try:
        found = asyncio.run(read_fields(request))
    except ServiceError:
        return
    for name in found.by_name():
        assert found.all(name) or found.one(name) == []


def test_file_has_its_name_and_fields() -> None:
    file, fields = upload(files={"file": ("résumé.txt", b"\xff\x00")}, data={"source": "en", "target": "fr"})
    assert file == Upload("résumé.txt", b"\xff\x00")
    assert fields.by_name() == {"source": "en", "target": "fr"}


def test_file_has_the_charset_of_its_part() -> None:
    file, _ = upload(files={"file": ("a.txt", b"\xe9", "text/plain; charset=windows-1252")})
    assert file == Upload("a.txt", b"\xe9", "windows-1252")


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        ("=?utf-8?B?csOpc3Vtw6kuZG9jeA==?=", "résumé.docx"),
        ("=?utf-8?B?/w==?=", "=?utf-8?B?/w==?="),
        ("=?utf-8?B?a?=", "=?utf-8?B?a?="),
    ],
)
def test_file_name_may_be_encoded_as_dotnet_clients_do(sent: str, name: str) -> None:
    assert upload(files={"file": (sent, b"a")})[0].name == name


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"json": {"file": "Hello"}}, WrongContentType),
        ({"data": {"file": "Hello"}}, WrongContentType),
        ({}, WrongContentType),
        (in_parts({"file": "Hello"}), InvalidFields),
        ({"files": {"file": ("", b"Hello")}}, InvalidFields),
        ({"files": {"other": ("a.txt", b"Hello")}}, InvalidFields),
        ({"files": {"file": ("a.txt", b"Hello"), "other": ("b.txt", b"Hello")}}, InvalidFields),
        ({"files": {"file": ("a.txt", b"Hello")}, "data": {"source": b"\xff"}}, InvalidFields),
    ],
)
def test_form_has_exactly_one_file_called_file(options: dict[str, Any], error: type[ServiceError]) -> None:
    with pytest.raises(error):
        upload(**options)


def test_additional_files_are_accepted_with_their_own_limits() -> None:
    def sent(glossary: Any) -> Fields:
        request = httpx.Request("POST", URL, files={"file": ("a.txt", b"a" * 900), "glossary": glossary})
        return asyncio.run(read_upload(received(request, max_file_bytes=1_000), {"glossary": 100}))[1]

    assert sent(("t.tsv", b"a" * 100)).files == {"glossary": Upload("t.tsv", b"a" * 100)}
    assert sent((None, b"a" * 100)).by_name() == {"glossary": "a" * 100}
    for over in (("t.tsv", b"a" * 101), (None, b"a" * 101)):
        with pytest.raises(TooMuchText, match="glossary is over the limit of 100 bytes"):
            sent(over)


def test_file_has_its_own_size_limit() -> None:
    limits = {"max_file_bytes": 1_000, "max_body_bytes": 10}
    assert upload(limits, files={"file": ("a.txt", b"a" * 1_000)})[0].content == b"a" * 1_000
    for size in (1_001, 100_000):
        with pytest.raises(TooMuchText, match="1000 bytes"):
            upload(limits, files={"file": ("a.txt", b"a" * size)})


def test_percent_signs_in_a_query_are_decoded_once() -> None:
    assert read(url=f"{URL}?q={quote('%41')}").one("q") == "%41"
