"""LibreTranslate's API: unmodified clients made for LibreTranslate, and requests as other programs send them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import httpx
import pytest
from deep_translator import LibreTranslator
from deep_translator.exceptions import AuthorizationException, ServerException
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples
from libretranslatepy import LibreTranslateAPI
from shared_fixtures import Gate, Service, fail_admission, listening, make_bundle, serving

from app import errors
from app.errors import Overloaded, ServiceError
from app.http.api_keys import new_key
from app.storage.downloads import Downloads
from app.storage.store_local import LocalStore
from app.translation.translator import Translator

pytestmark = pytest.mark.slow

PREFIX = "/libretranslate"
PATH = f"{PREFIX}/translate"
HELLO = {"q": "Hello.", "source": "en", "target": "fr"}
POLISH = "Dzień dobry, jak się dzisiaj masz?"
GERMAN = "Das ist ein schöner Tag, und wir gehen heute im Wald spazieren."


@pytest.fixture(scope="module")
def url(bundle_folder: Path) -> Iterator[str]:
    """The URL of LibreTranslate's API on a socket."""
    with listening(bundle_folder) as root:
        yield root + PREFIX


@pytest.fixture(scope="module")
def locked(bundle_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The URL of a service that requires keys, and a key."""
    key, line = new_key("alice")
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text(line)
    with listening(bundle_folder, api_keys_file=file) as root:
        yield root + PREFIX, key


def ours(service: Service, text: str, **options: object) -> str:
    """The translation by our own API."""
    body = {"text": text, "source": "en", "target": "fr", **options}
    found: str = service.post("/translate", body).json()["translations"][0]["text"]
    return found


def error_of(response: httpx.Response) -> str:
    """The error message, which must be the response's only field."""
    (only,) = response.json().items()
    assert only[0] == "error"
    assert response.headers["content-type"] == "application/json"
    found: str = only[1]
    return found


def refused(work: Any, *arguments: object) -> tuple[int, str]:
    """Status and message of the error that libretranslatepy raises."""
    with pytest.raises(HTTPError) as caught:
        work(*arguments)
    with caught.value as error:
        return error.code, json.load(error)["error"]


# ---- libretranslatepy


@pytest.mark.slow
def test_libretranslatepy_gets_our_translation(url: str, service: Service) -> None:
    client = LibreTranslateAPI(url)
    for text in ("Hello.", "How are you?\n\n The cat & dog = 100%+1, naïve 猫", "  "):
        assert client.translate(text, "en", "fr") == ours(service, text)


def test_libretranslatepy_sends_a_list_as_text_and_gets_text_back(url: str, service: Service) -> None:
    texts: Any = ["Hello.", "The cat sleeps."]
    assert LibreTranslateAPI(url).translate(texts, "en", "fr") == ours(service, repr(texts))


def test_libretranslatepy_detects_and_lists_languages(url: str) -> None:
    client = LibreTranslateAPI(url, "a key that nobody wants")
    (found,) = client.detect("Where is the nearest station, please?")
    assert found["language"] == "en" and 90 < found["confidence"] <= 100
    assert client.languages() == [
        {"code": "en", "name": "English", "targets": ["en", "fr"]},
        {"code": "fr", "name": "French", "targets": ["fr"]},
    ]


def test_libretranslatepy_reports_the_reason_of_an_error(url: str) -> None:
    client = LibreTranslateAPI(url)
    assert refused(client.translate, "Hello.", "en", "xx") == (400, "xx is not supported")
    assert refused(client.translate, "Hello.", "xx", "fr") == (400, "xx is not supported")
    assert refused(client.translate, "", "en", "fr") == (400, "Invalid request: missing q parameter")
    status, error = refused(client.translate, "Bonjour.", "fr", "en")
    assert status == 400 and "fr to en" in error
    status, error = refused(client.translate, "a" * 50_001, "en", "fr")
    assert status == 400 and "50000" in error


def test_libretranslatepy_needs_a_valid_key_where_keys_are_configured(locked: tuple[str, str]) -> None:
    url, key = locked
    assert LibreTranslateAPI(url, key).translate("Hello.", "en", "fr")
    assert LibreTranslateAPI(url, key).detect("Hello.")
    for client in (LibreTranslateAPI(url, "wrong"), LibreTranslateAPI(url)):
        assert refused(client.translate, "Hello.", "en", "fr")[0] == 403
        assert refused(client.detect, "Hello.")[0] == 403
        assert client.languages()


# ---- deep-translator, which sends the fields as a query, on a POST without a body


def test_deep_translator_gets_our_translation(url: str, service: Service) -> None:
    client = LibreTranslator("English", "French", api_key="any", custom_url=f"{url}/")
    assert client.translate("How are you & yours?") == ours(service, "How are you & yours?")
    assert client.translate_batch(["Hello.", "Hi."]) == [ours(service, "Hello."), ours(service, "Hi.")]


def test_deep_translator_raises_its_own_exceptions(locked: tuple[str, str]) -> None:
    url, key = locked
    assert LibreTranslator("en", "fr", api_key=key, custom_url=f"{url}/").translate("Hello.")
    with pytest.raises(AuthorizationException):
        LibreTranslator("en", "fr", api_key="wrong", custom_url=f"{url}/").translate("Hello.")
    with pytest.raises(ServerException):
        LibreTranslator("en", "de", api_key=key, custom_url=f"{url}/").translate("Hello.")


# ---- Mastodon


def test_mastodons_request_is_translated(service: Service) -> None:
    """Sends and reads what Mastodon 4.1 and later do in app/lib/translation_service/libre_translate.rb."""
    told = service.request("GET", f"{PREFIX}/languages", headers={"content-type": "application/json"}).json()
    targets = {
        language["code"]: [code for code in language["targets"] if code != language["code"]] for language in told
    }
    assert targets == {"en": ["fr"], "fr": []}
    post = ["<p>Hello, my friend. How are you today?</p>", "Hello.", ""]
    body = {"q": post, "target": "fr", "format": "html", "api_key": None}
    answer = service.post(PATH, {**body, "source": "en"}).json()
    assert answer == {"translatedText": [ours(service, text, format="html") for text in post]}
    answer = service.post(PATH, {**body, "source": "auto"}).json()
    assert len(answer["translatedText"]) == 3
    assert {found["language"] for found in answer["detectedLanguage"]} <= targets.keys()


# ---- /translate


@pytest.mark.parametrize(
    "sent",
    [
        {"json": HELLO},
        {"data": HELLO},
        {"files": {name: (None, value) for name, value in HELLO.items()}},
        {"params": HELLO},
        {"json": {"q": "Hello."}, "params": {"q": "Bonjour.", "source": "en", "target": "fr"}},
        {"json": {**HELLO, "secret": "x", "colour": 5, "format": "", "alternatives": None}},
    ],
)
def test_json_form_and_query_requests_are_equivalent(service: Service, sent: dict[str, Any]) -> None:
    answer = service.request("POST", PATH, **sent)
    assert (answer.status_code, answer.json()) == (200, {"translatedText": ours(service, "Hello.")})


def test_list_gets_a_list_in_response(service: Service) -> None:
    texts = ["Hello.", "How are you?", ""]
    for q in (texts, texts[:1]):
        answer = service.post(PATH, {**HELLO, "q": q, "source": "auto", "alternatives": 2}).json()
        assert answer["translatedText"] == [ours(service, text, alternatives=2) for text in q]
        assert len(answer["detectedLanguage"]) == len(answer["alternatives"]) == len(q)
        for text, found in zip(q, answer["alternatives"], strict=True):
            told = service.post("/translate", {"text": text, "source": "en", "target": "fr", "alternatives": 2}).json()
            assert found == [other["text"] for other in told["translations"][0]["alternatives"]]
    joined = service.post(PATH, {**HELLO, "q": ["Hello.|How are you?"]}).json()
    assert len(joined["translatedText"]) == 1


@pytest.mark.parametrize(
    ("asked", "most"), [(2, 2), ("2", 2), (2.0, 2), (10**30, 8), (0, None), (-3, None), ("", None)]
)
def test_alternatives_are_returned_on_request(service: Service, asked: object, most: int | None) -> None:
    answer = service.post(PATH, {**HELLO, "alternatives": asked}).json()
    assert ("alternatives" in answer) == (most is not None)
    if most is not None:
        found = answer["alternatives"]
        assert 1 <= len(found) <= most
        assert len({*found, answer["translatedText"]}) == len(found) + 1


def test_markup_is_kept(service: Service) -> None:
    answer = service.post(PATH, {**HELLO, "q": "<p>Hello &lt; <b>you</b>.</p>", "format": "html"}).json()
    assert answer["translatedText"] == ours(service, "<p>Hello &lt; <b>you</b>.</p>", format="html")
    assert answer["translatedText"].startswith("<p>")


def test_the_language_of_each_text_is_detected_separately(service: Service) -> None:
    texts = ["Where is the nearest station?", "Où est la gare la plus proche ?", "123"]
    answer = service.post(PATH, {**HELLO, "q": texts, "source": "auto"}).json()
    assert [found["language"] for found in answer["detectedLanguage"]] == ["en", "fr", "en"]
    assert answer["detectedLanguage"][0]["confidence"] > 90
    assert answer["detectedLanguage"][2]["confidence"] == 0
    assert answer["translatedText"][1:] == texts[1:]
    alone = service.post(PATH, {**HELLO, "q": texts[0], "source": "auto"}).json()
    assert alone["detectedLanguage"] == answer["detectedLanguage"][0]


def test_text_in_an_unserved_language_is_refused_but_does_not_fail_a_list(service: Service) -> None:
    for q in (POLISH, [POLISH], [POLISH, POLISH]):
        answer = service.post(PATH, {**HELLO, "q": q, "source": "auto"})
        assert answer.status_code == 400
        assert error_of(answer) == "The text looks Polish, which is not translated into French here."
    answer = service.post(PATH, {**HELLO, "q": [POLISH, "Where is the station?"], "source": "auto"}).json()
    assert answer["translatedText"] == [POLISH, ours(service, "Where is the station?")]
    assert answer["detectedLanguage"][0]["confidence"] < 5


def test_one_failed_text_fails_the_list(service: Service) -> None:
    answer = service.post(PATH, {**HELLO, "q": ["Hello.", "a" * 50_001]})
    assert answer.status_code == 400
    assert "50001" in error_of(answer)


def test_text_in_the_target_language_is_unchanged(service: Service) -> None:
    for code in ("en", "fr"):
        answer = service.post(PATH, {"q": ["Hello.", " "], "source": code, "target": code, "alternatives": 1}).json()
        assert answer == {"translatedText": ["Hello.", " "], "alternatives": [[], []]}


def test_libretranslate_accepts_both_codes_of_a_language(tmp_path: Path) -> None:
    make_bundle(tmp_path / "en-zh", target="zh")
    make_bundle(tmp_path / "pt-BR-en", source="pt-BR", target="en", seed=1)
    with serving(tmp_path) as service:
        chinese = service.post(PATH, {**HELLO, "target": "zh"})
        assert chinese.status_code == 200
        for code in ("zh-Hans", "zh-CN", "ZH_cn", "zt", "zh-Hant"):
            assert service.post(PATH, {**HELLO, "target": code}).json() == chinese.json()
        for code in ("pb", "pt_BR", "PT"):
            assert service.post(PATH, {"q": "Olá.", "source": code, "target": "en"}).status_code == 200
        fields = {"source": "en", "target": "zh-Hans"}
        answer = service.request("POST", f"{PREFIX}/translate_file", files={"file": ("a.txt", "Hello.")}, data=fields)
        assert answer.status_code == 200


@pytest.mark.parametrize(
    ("source", "target", "code"), [("auto", "auto", "auto"), ("xx", "xx", "xx"), ("en", "ITA", "ITA")]
)
def test_unserved_language_is_named(service: Service, source: str, target: str, code: str) -> None:
    answer = service.post(PATH, {**HELLO, "source": source, "target": target})
    assert (answer.status_code, error_of(answer)) == (400, f"{code} is not supported")


@pytest.mark.parametrize("name", ["q", "source", "target"])
def test_missing_fields_are_named(service: Service, name: str) -> None:
    for body in ({**HELLO, name: ""}, {**HELLO, name: None}, {k: v for k, v in HELLO.items() if k != name}):
        answer = service.post(PATH, body)
        assert (answer.status_code, error_of(answer)) == (400, f"Invalid request: missing {name} parameter")
    assert service.post(PATH, {**HELLO, "q": []}).status_code == 400


WRONG: dict[str, list[Any]] = {
    "q": [True, {}, ["a", None], [["a"]], ["a"] * 1_001],
    "source": [1, ["en"], "e" * 36, {}],
    "target": ["auto", 1],
    "format": ["xml", 1, ["html"]],
    "alternatives": ["x", 1.5, [1], {}, "9" * 5_000],
    "api_key": [[5]],
}


def test_a_number_is_as_good_as_its_digits(service: Service) -> None:
    assert service.post(PATH, {**HELLO, "q": 12}).json() == service.post(PATH, {**HELLO, "q": "12"}).json()
    assert (
        service.post(PATH, {**HELLO, "q": [0, 1.5]}).json() == service.post(PATH, {**HELLO, "q": ["0", "1.5"]}).json()
    )


@pytest.mark.parametrize("wrong", [{name: value} for name, values in WRONG.items() for value in values])
def test_wrong_fields_are_refused(service: Service, wrong: dict[str, Any]) -> None:
    answer = service.post(PATH, {**HELLO, **wrong})
    assert answer.status_code == 400
    assert error_of(answer)


@pytest.mark.parametrize(
    "sent",
    [
        {"content": b"{", "headers": {"content-type": "application/json"}},
        {"json": ["Hello."]},
        {"content": b"q=Hello"},
        {"content": b"q=%ff", "headers": {"content-type": "application/x-www-form-urlencoded"}},
        {"content": b"", "headers": {"content-type": "multipart/form-data"}},
        {"json": {"q": "a" * (1 << 20)}},
    ],
)
def test_malformed_requests_are_refused(service: Service, sent: dict[str, Any]) -> None:
    answer = service.request("POST", PATH, **sent)
    assert answer.status_code == 400
    assert error_of(answer)


VALUES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["en", "fr", "auto", "html", "2", "Hi."])
)
SENT = st.dictionaries(
    st.sampled_from(["q", "source", "target", "format", "alternatives", "api_key", "x"]),
    VALUES
    | st.text(max_size=3)
    | st.lists(VALUES, max_size=2)
    | st.dictionaries(st.text(max_size=1), VALUES, max_size=1),
)


@draw_examples(60)
@given(sent=SENT, path=st.sampled_from(["translate", "detect"]))
def test_every_request_gets_a_translation_or_a_refusal(service: Service, sent: dict[str, Any], path: str) -> None:
    body = json.dumps({**HELLO, **sent}).encode()
    answer = service.request("POST", f"{PREFIX}/{path}", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (200, 400)
    if answer.status_code == 400:
        assert error_of(answer)


def test_disconnected_clients_request_is_cancelled(bundle_folder: Path, gate: Gate) -> None:
    with serving(bundle_folder) as service:
        assert service.leave(gate, PATH, data=HELLO) == 499
        gate.opened.set()


# ---- Errors


KINDS = [
    (errors.NotJSON, 400),
    (errors.NotAuthorised, 403),
    (errors.PairNotServed, 400),
    (errors.BodyTooSlow, 400),
    (errors.TooMuchText, 400),
    (errors.WrongContentType, 400),
    (errors.InvalidFields, 400),
    (errors.TooManyRequests, 429),
    (errors.TooManyCharacters, 429),
    (errors.StepFailed, 500),
    (errors.Unavailable, 503),
    (errors.Overloaded, 503),
    (errors.DeadlinePassed, 504),
]


WORDINGS = {
    errors.NotAuthorised: "Invalid API key",
    errors.TooMuchText: "Invalid request: request exceeds text limit: why",
    errors.TooManyRequests: "Slowdown: why",
    errors.TooManyCharacters: "Slowdown: why",
}
"""What programs look for in LibreTranslate's messages."""


@pytest.mark.parametrize(("kind", "status"), KINDS)
def test_every_error_has_libretranslates_status_and_format(
    service: Service, monkeypatch: pytest.MonkeyPatch, kind: type[ServiceError], status: int
) -> None:
    async def fail(*arguments: object) -> None:
        raise kind("why", retry_after_s=2.5 if status in (429, 503) else None)

    monkeypatch.setattr(Translator, "translate", fail)
    answer = service.post(PATH, HELLO)
    assert (answer.status_code, error_of(answer)) == (status, WORDINGS.get(kind, "why"))
    assert answer.headers.get("retry-after") == ("3" if status in (429, 503) else None)
    assert "www-authenticate" not in answer.headers


def test_internal_error_has_the_same_format(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_admission(monkeypatch, service, RuntimeError())
    transport = httpx.ASGITransport(service._with_state, raise_app_exceptions=False)

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.post(PATH, json=HELLO)

    answer = service.run(ask())
    assert answer.status_code == 500
    assert "log" in error_of(answer)


def test_unknown_paths_and_methods_are_refused_in_the_same_format(service: Service) -> None:
    for method, path, status in [("GET", "/translate", 405), ("GET", "/nowhere", 404), ("POST", "/languages", 405)]:
        answer = service.request(method, PREFIX + path)
        assert answer.status_code == status
        assert error_of(answer)


def test_errors_of_several_fields_have_no_pointers(service: Service) -> None:
    error = error_of(service.post(PATH, {**HELLO, "format": "xml", "alternatives": "x"}))
    assert error.startswith("Invalid request: format: ")
    assert "; alternatives: " in error
    assert "#" not in error


def test_overloaded_service_refuses_before_reading_the_body(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_admission(monkeypatch, service, Overloaded("full", retry_after_s=1.0))
    for path in ("translate", "translate_file"):
        answer = service.request("POST", f"{PREFIX}/{path}", content=b"{")
        assert (answer.status_code, error_of(answer)) == (503, "full")


# ---- Keys and rates


@pytest.mark.parametrize("way", ["json", "data", "params"])
def test_key_may_be_a_field_or_a_header(locked: tuple[str, str], way: str) -> None:
    url, key = locked
    right, wrong = {**HELLO, "api_key": key}, {**HELLO, "api_key": "wrong"}
    post: Any = httpx.post
    assert post(f"{url}/translate", **{way: right}).status_code == 200
    assert post(f"{url}/translate", **{way: wrong}).status_code == 403
    with_header = {"headers": {"Authorization": f"Bearer {key}"}}
    assert post(f"{url}/translate", **{way: HELLO}, **with_header).status_code == 200
    assert post(f"{url}/translate", **{way: wrong}, **with_header).status_code == 403


@pytest.mark.parametrize("key", [None, "", 5, [], "\u0130"])
def test_invalid_key_counts_as_none(locked: tuple[str, str], key: object) -> None:
    url, _ = locked
    answer = httpx.post(f"{url}/translate", json={**HELLO, "api_key": key})
    assert answer.status_code == 403
    assert "key" in error_of(answer)


def test_service_information_requires_no_key(locked: tuple[str, str]) -> None:
    url, _ = locked
    assert httpx.get(f"{url}/languages").status_code == httpx.get(f"{url}/health").status_code == 200
    told = httpx.get(f"{url}/frontend/settings").json()
    assert told["apiKeys"] is told["keyRequired"] is True
    file = {"file": ("a.txt", b"Hello.")}
    data = {"source": "en", "target": "fr"}
    assert httpx.post(f"{url}/translate_file", files=file, data=data).status_code == 403


def test_exceeding_the_rate_limit_is_429(bundle_folder: Path) -> None:
    with serving(bundle_folder, rate_requests="1/hour") as service:
        answers = [service.post(PATH, HELLO) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 429]
    assert error_of(answers[1])
    assert int(answers[1].headers["retry-after"]) >= 1


@pytest.mark.parametrize("path", ["translate", "detect", "translate_file"])
def test_malformed_requests_count_towards_the_rate(bundle_folder: Path, path: str) -> None:
    with serving(bundle_folder, rate_requests="1/hour") as service:
        answers = [service.request("POST", f"{PREFIX}/{path}", content=b"{") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [400, 429]


def test_all_characters_of_a_list_are_charged_except_those_left_unchanged(bundle_folder: Path) -> None:
    with serving(bundle_folder, rate_characters="10/hour") as service:
        assert service.post(PATH, {**HELLO, "q": ["a" * 50], "target": "en"}).status_code == 200
        assert service.post(PATH, {**HELLO, "q": ["aaaaa", "aaaaaa"]}).status_code == 429
        assert service.post(PATH, {**HELLO, "q": ["aaaaa", "aaaa"]}).status_code == 200


# ---- Detection, settings, suggestions


def test_detect_accepts_a_text_in_any_format(service: Service) -> None:
    q = "Where is the nearest station?"
    for sent in (
        {"json": {"q": q}},
        {"data": {"q": q}},
        {"params": {"q": q}},
        {"json": {"q": ["Where is", "the station?"]}},
    ):
        (found,) = service.request("POST", f"{PREFIX}/detect", **sent).json()
        assert found["language"] == "en" and 0 < found["confidence"] <= 100
    assert service.post(f"{PREFIX}/detect", {"q": "123"}).json() == [{"confidence": 0.0, "language": "en"}]


def test_detecting_an_invalid_text_is_refused(service: Service) -> None:
    bodies: list[Any] = [{}, {"q": ""}, {"q": {}}, {"q": "a" * 50_001}]
    for body in bodies:
        answer = service.post(f"{PREFIX}/detect", body)
        assert answer.status_code == 400
        assert error_of(answer)


def test_settings_are_those_that_libretranslates_page_reads(service: Service) -> None:
    told = service.get(f"{PREFIX}/frontend/settings").json()
    assert ".docx" in told.pop("supportedFilesFormat")
    assert told == {
        "charLimit": 50_000,
        "frontendTimeout": 500,
        "apiKeys": False,
        "keyRequired": False,
        "suggestions": False,
        "filesTranslation": True,
        "language": {"source": {"code": "auto", "name": "Auto Detect"}, "target": {"code": "fr", "name": "French"}},
    }


def test_a_suggestion_counts_for_the_next_request(bundle_folder: Path, tmp_path: Path) -> None:
    with serving(bundle_folder, translation_memory=str(tmp_path / "memory.sqlite")) as service:
        assert service.get(f"{PREFIX}/frontend/settings").json()["suggestions"] is True
        pair = {"q": "Hello.", "s": "Salut.", "source": "en", "target": "fr"}
        for sent in ({"json": pair}, {"data": {**pair, "s": "Coucou."}}):
            answer = service.request("POST", f"{PREFIX}/suggest", **sent)
            assert (answer.status_code, answer.json()) == (200, {"success": True})
        assert service.post(PATH, {**HELLO, "q": "Hello."}).json()["translatedText"] == "Coucou."
        for wrong in ({**pair, "s": ""}, {**pair, "target": "xx"}, {**pair, "s": "a" * 50_001}):
            answer = service.post(f"{PREFIX}/suggest", wrong)
            assert answer.status_code == 400
            assert error_of(answer)


def test_suggestions_are_refused_without_a_memory(service: Service) -> None:
    answer = service.post(f"{PREFIX}/suggest", {"q": "Hello.", "s": "Salut.", "source": "en", "target": "fr"})
    assert answer.status_code == 403
    assert error_of(answer)


# ---- Files


def send(service: Service, name: str, content: str, **fields: str) -> httpx.Response:
    data = {"source": "en", "target": "fr", **fields}
    return service.request("POST", f"{PREFIX}/translate_file", files={"file": (name, content)}, data=data)


def test_file_is_translated_and_downloaded(url: str, service: Service) -> None:
    files, data = {"file": ("résumé.md", "# Hello.\n")}, {"source": "auto", "target": "fr", "api_key": "any"}
    place = httpx.post(f"{url}/translate_file", files=files, data=data).json()["translatedFileUrl"]
    assert place.startswith(f"{url}/download_file/")
    for _ in range(2):
        fetched = httpx.get(place)
        assert fetched.text == f"# {ours(service, 'Hello.')}\n"
        assert fetched.headers["content-type"].startswith("text/markdown")
        assert fetched.headers["content-disposition"].endswith("r%C3%A9sum%C3%A9.fr.md")
        assert fetched.headers["x-content-type-options"] == "nosniff"


def test_file_url_includes_the_proxys_path(bundle_folder: Path) -> None:
    with listening(bundle_folder, root_path="/mt") as root:
        answer = httpx.post(
            f"{root}{PREFIX}/translate_file", files={"file": ("a.txt", "Hello.")}, data={"source": "en", "target": "fr"}
        )
    assert answer.json()["translatedFileUrl"].startswith(f"{root}/mt{PREFIX}/download_file/")


@pytest.mark.parametrize("host", ["[::1", "a b", "", "\xe9", "x" * 5_000])
def test_wrong_host_header_is_handled(service: Service, host: str) -> None:
    files, data = {"file": ("a.txt", "Hello.")}, {"source": "en", "target": "fr"}
    headers = {"host": host.encode("latin-1")}
    answer = service.request("POST", f"{PREFIX}/translate_file", files=files, data=data, headers=headers)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("name", "content", "fields", "said"),
    [
        ("a.png", "Hello", {}, ".docx"),
        ("a.json", "{", {}, "not JSON"),
        ("a.txt", "Hello", {"target": "xx"}, "xx is not supported"),
        ("a.txt", "Hello", {"source": ""}, "missing source parameter"),
        ("a.txt", "Hello", {"target": ""}, "missing target parameter"),
        ("a.txt", POLISH, {"source": "auto"}, "looks Polish"),
        ("a.txt", GERMAN, {"source": "auto"}, "looks German"),
        ("a.json", f'"{"a" * 50_001}"', {}, "50001"),
    ],
)
def test_a_file_that_cannot_be_translated_is_refused(
    service: Service, name: str, content: str, fields: dict[str, str], said: str
) -> None:
    answer = send(service, name, content, **fields)
    assert answer.status_code == 400
    assert said in error_of(answer)


def test_missing_file_is_refused(service: Service) -> None:
    for sent in ({"data": HELLO}, {"json": HELLO}, {}, {"files": {"other": ("a.txt", "Hello.")}, "data": HELLO}):
        answer = service.request("POST", f"{PREFIX}/translate_file", **sent)
        assert answer.status_code == 400
        assert error_of(answer)


def test_file_in_the_target_language_is_unchanged(service: Service) -> None:
    place = send(service, "a.txt", "Hello.", target="en").json()["translatedFileUrl"]
    assert service.get(place).text == "Hello."


def test_file_larger_than_the_download_store_is_refused(bundle_folder: Path) -> None:
    with serving(bundle_folder) as service:
        service.state.downloads = Downloads(LocalStore(), max_bytes=100)
        answer = send(service, "a.txt", "Hello.")
    assert answer.status_code == 400
    assert "too large" in error_of(answer)


def test_unknown_download_name_is_404(service: Service) -> None:
    for name in ("x", "%2e%2e", "%2e%2e%2fsecret", "a" * 1_000):
        answer = service.get(f"{PREFIX}/download_file/{name}")
        assert answer.status_code == 404
        assert error_of(answer)


# ---- At the root, for clients that take no path


def test_clients_need_only_the_address_if_the_api_is_at_the_root(bundle_folder: Path, service: Service) -> None:
    with listening(bundle_folder, root_api="libretranslate") as root:
        client = LibreTranslateAPI(root)
        assert client.translate("Hello.", "en", "fr") == ours(service, "Hello.")
        assert [language["code"] for language in client.languages()] == ["en", "fr"]
        assert refused(client.translate, "Hello.", "en", "xx")[0] == 400
        assert LibreTranslator("en", "fr", api_key="any", custom_url=f"{root}/").translate("Hello.")
        assert error_of(httpx.get(f"{root}/nowhere"))
        assert error_of(httpx.get(f"{root}/translate"))
        body = {"text": "Hello.", "source": "en", "target": "fr"}
        ours_there = httpx.post(f"{root}/interlinear/translate", json=body).json()
        assert ours_there["translations"][0]["text"] == ours(service, "Hello.")
        problem = httpx.get(f"{root}/interlinear/nowhere")
        assert problem.headers["content-type"] == "application/problem+json"
        assert httpx.get(f"{root}/health").json() == {"status": "ok"}


# ---- The manual


def test_documented_examples_run_unchanged(service: Service) -> None:
    manual = service.get("/openapi.json").json()["paths"]
    for path in ("translate", "detect"):
        content = manual[f"{PREFIX}/{path}"]["post"]["requestBody"]["content"]
        for example in content["application/json"]["examples"].values():
            assert service.post(f"{PREFIX}/{path}", example["value"]).status_code == 200
        form = content["application/x-www-form-urlencoded"]["example"]
        assert service.request("POST", f"{PREFIX}/{path}", data=form).status_code == 200
        parts = {name: (None, value) for name, value in content["multipart/form-data"]["example"].items()}
        assert service.request("POST", f"{PREFIX}/{path}", files=parts).status_code == 200
    file = manual[f"{PREFIX}/translate_file"]["post"]["requestBody"]["content"]["multipart/form-data"]["example"]
    assert send(service, "a.txt", file.pop("file"), **file).status_code == 200


def test_openapi_documents_each_error_as_returned(service: Service) -> None:
    responses = service.get("/openapi.json").json()["paths"][PATH]["post"]["responses"]
    assert responses.keys() == {"200", "400", "403", "429", "500", "503", "504"}
    for status in responses.keys() - {"200"}:
        content = responses[status]["content"]["application/json"]
        assert content["schema"] == {"$ref": "#/components/schemas/LibreError"}
        for example in content["examples"].values():
            assert list(example["value"]) == ["error"]
