"""app/api/dialects: every row answers in its own format, with the translations of POST /translate, and its errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import httpx
import pytest
from shared_fixtures import Service, serving

from app.api.dialects.dialect import Dialect, Row, TextQuestion
from app.api.dialects.table import DIALECTS
from app.http.api_keys import new_key
from app.main import create_app
from app.settings import RootAPI, SettingsError, load_settings

TEXT = "My friend has a house."
MESSAGES = {"messages": [{"role": "user", "content": f"Translate into French:\n{TEXT}"}]}


class Ask(NamedTuple):
    """A request for one translation, and where the response has it."""

    path: str
    sent: Any
    at: tuple[str | int, ...]
    in_query: bool = True
    """Whether all may be in the query."""

    def read(self, response: httpx.Response) -> str:
        if not self.at:
            return response.text
        value = response.json()
        for step in self.at:
            value = value[step]
        return str(value)

    def fields(self, text: Any) -> Any:
        """The same with another text."""
        within = json.dumps(self.sent).replace(json.dumps(TEXT), json.dumps(text))
        return json.loads(within.replace(TEXT, json.dumps(text).strip('"')))


def google(**other: Any) -> dict[str, Any]:
    return {"q": TEXT, "sl": "en", "tl": "fr", **other}


PAIR = {"from": "en", "to": "fr"}
LIBRE = {"q": TEXT, "source": "en", "target": "fr"}
DEEPL = {"text": TEXT, "source_lang": "EN", "target_lang": "FR"}
IMMERSIVE = {"text_list": [TEXT], "source_lang": "en", "target_lang": "fr"}
HCFY = {"text": TEXT, "source": "英语", "destination": ["法语"]}
NLLB = {"source": TEXT, "src_lang": "eng_Latn", "tgt_lang": "fra_Latn"}
ASKS = [
    Ask("/libretranslate/translate", LIBRE, ("translatedText",)),
    Ask("/deepl/v2/translate", DEEPL, ("translations", 0, "text")),
    Ask("/deeplx/translate", DEEPL, ("data",)),
    Ask("/deeplx/v1/translate", DEEPL, ("data",)),
    Ask("/deeplx/v2/translate", DEEPL, ("translations", 0, "text")),
    Ask("/mtranserver/translate", {"text": TEXT, **PAIR}, ("result",)),
    Ask("/mtranserver/translate/batch", {"texts": [TEXT], **PAIR}, ("results", 0), in_query=False),
    Ask("/mtranserver/imme", IMMERSIVE, ("translations", 0, "text"), in_query=False),
    Ask("/mtranserver/kiss", {"text": TEXT, **PAIR}, ("text",)),
    Ask("/mtranserver/hcfy", HCFY, ("result", 0), in_query=False),
    Ask("/immersive/translate", IMMERSIVE, ("translations", 0, "text"), in_query=False),
    Ask("/kiss/translate", {"text": TEXT, **PAIR}, ("text",)),
    Ask("/hcfy/translate", HCFY, ("result", 0), in_query=False),
    Ask("/google/language/translate/v2", {**LIBRE, "format": "text"}, ("data", "translations", 0, "translatedText")),
    Ask("/google/translate_a/single", google(), (0, 0, 0)),
    Ask("/google/translate_a/single", google(dj="1"), ("sentences", 0, "trans")),
    Ask("/google/translate_a/t", google(), (0,)),
    Ask("/azure/translate?from=en&to=fr", [{"Text": TEXT}], (0, "translations", 0, "text"), in_query=False),
    Ask("/nllb/translate", NLLB, ("translation", 0)),
    Ask("/nllb/api/v4/translator", {**LIBRE, "text": TEXT}, ("result",)),
    Ask("/plain/translate", {"text": TEXT, **PAIR}, ()),
    Ask("/omegat/translate", {**LIBRE, "text": TEXT}, ("translation",)),
    Ask("/openai/v1/chat/completions", MESSAGES, ("choices", 0, "message", "content"), in_query=False),
]
by_path = pytest.mark.parametrize("ask", ASKS, ids=lambda ask: f"{ask.path}{ask.at[:1]}")


@pytest.fixture(scope="module")
def service(bundle_folder: Path) -> Iterator[Service]:
    with serving(bundle_folder, precision="auto") as service:
        yield service


@pytest.fixture(scope="module")
def expected(service: Service) -> str:
    answer = service.post("/translate", {"text": TEXT, "source": "en", "target": "fr"})
    return str(answer.json()["translations"][0]["text"])


def rows() -> list[tuple[Dialect, Row]]:
    return [(dialect, row) for dialect in DIALECTS for row in dialect.rows]


def test_every_row_that_translates_is_asked_here() -> None:
    asked = {ask.path.partition("?")[0] for ask in ASKS}
    wanted = {f"{dialect.prefix}{row.path}" for dialect, row in rows() if issubclass(row.question, TextQuestion)}
    assert asked == wanted


def test_the_setting_has_the_names_of_the_table() -> None:
    assert get_args(RootAPI) == ("interlinear", *(dialect.name for dialect in DIALECTS))


@by_path
def test_translation_is_that_of_our_own_api(ask: Ask, service: Service, expected: str) -> None:
    assert ask.read(service.request("POST", ask.path, json=ask.sent)) == expected


@by_path
@pytest.mark.parametrize("kind", [None, "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "*/*"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_json_of_any_type_is_read(ask: Ask, kind: str | None, bom: bytes, service: Service, expected: str) -> None:
    headers = {"content-type": kind} if kind else {}
    response = service.request("POST", ask.path, content=bom + json.dumps(ask.sent).encode(), headers=headers)
    assert ask.read(response) == expected


@by_path
def test_form_query_and_slashes_are_read(ask: Ask, service: Service, expected: str) -> None:
    if not ask.in_query:
        assert (
            ask.read(service.request("POST", ask.path.replace("/", "//").removeprefix("/"), json=ask.sent)) == expected
        )
        return
    ways = [
        service.request("POST", f"{ask.path}/", data=ask.sent),
        service.request("POST", ask.path.replace("/", "//").removeprefix("/"), params=ask.sent),
        service.request("POST", ask.path, files=[(name, (None, value)) for name, value in ask.sent.items()]),
        service.request("POST", ask.path, params=ask.sent, headers={"content-type": "multipart/form-data; boundary=b"}),
    ]
    assert [ask.read(way) for way in ways] == [expected] * len(ways)


@by_path
def test_empty_and_blank_texts_come_back(ask: Ask, service: Service) -> None:
    for text in ("", "  ", "\n"):
        response = service.request("POST", ask.path, json=ask.fields(text))
        if ask.path.startswith(("/libretranslate", "/openai")) and not text.strip():
            assert response.status_code == 400 if not text or "openai" in ask.path else 200
        elif "hcfy" in ask.path:
            assert response.json()["result"] == text.split("\n")
        else:
            assert ask.read(response) == text


@by_path
def test_number_is_a_text(ask: Ask, service: Service) -> None:
    if ask.path.startswith("/openai"):
        return
    assert ask.read(service.request("POST", ask.path, json=ask.fields(12))) == "12"


@by_path
def test_language_that_is_not_served_is_named(ask: Ask, service: Service) -> None:
    path, body = ask.path.replace("to=fr", "to=sw"), json.dumps(ask.sent, ensure_ascii=False)
    for french in ('"fr"', '"FR"', '"fra_Latn"', '"法语"'):
        body = body.replace(french, '"sw"')
    body = body.replace("into French", "into Swahili")
    response = service.request("POST", path, content=body.encode(), headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert "sw" in response.text or "target_lang" in response.text  # DeepL's message names the field
    assert response.headers["x-request-id"]


@by_path
def test_missing_language_is_named_in_the_dialects_format(ask: Ask, service: Service) -> None:
    response = service.request(
        "POST", ask.path.partition("?")[0], content=b"{}", headers={"content-type": "text/plain"}
    )
    assert response.status_code == 400
    dialect = next(each for each in DIALECTS if ask.path.startswith(f"{each.prefix}/"))
    if dialect.name in ("plain", "omegat", "nllb"):
        assert response.headers["content-type"] == "text/plain; charset=utf-8" and response.text
        return
    told = response.json()
    message = told.get("error", told.get("message"))
    assert message["message"] if isinstance(message, dict) else message, told


def test_keys_are_found_in_every_way(bundle_folder: Path, tmp_path: Path) -> None:
    key, line = new_key("reader")
    file = tmp_path / "keys"
    file.write_text(line)
    with serving(bundle_folder, api_keys_file=file, precision="auto") as service:
        for ask in ASKS:
            refused = service.request("POST", ask.path, json=ask.sent)
            assert refused.status_code in (401, 403), ask
            refused = service.request("POST", ask.path, json=ask.sent, headers={"authorization": "Bearer wrong"})
            assert refused.status_code in (401, 403), ask
            for headers in (
                {"authorization": f"Bearer {key}"},
                {"authorization": f"DeepL-Auth-Key {key}"},
                {"authorization": key},
                {"ocp-apim-subscription-key": key},
                {"x-goog-api-key": key},
            ):
                assert service.request("POST", ask.path, json=ask.sent, headers=headers).status_code == 200, ask
            for name in ("api_key", "auth_key", "key", "token"):
                path = f"{ask.path}{'&' if '?' in ask.path else '?'}{name}={key}"
                assert service.request("POST", path, json=ask.sent).status_code == 200, ask
            if isinstance(ask.sent, dict):
                assert service.request("POST", ask.path, json={**ask.sent, "auth_key": key}).status_code == 200, ask
        token = service.request("POST", f"/azure/sts/v1.0/issueToken?Subscription-Key={key}")
        assert token.text == key


# ---- At the root


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: str(dialect.name))
def test_each_dialect_can_be_at_the_root(dialect: Dialect, bundle_folder: Path) -> None:
    with serving(bundle_folder, root_api=dialect.name, precision="auto") as service:
        for ask in ASKS:
            if ask.path.startswith(f"{dialect.prefix}/"):
                for path in (ask.path, ask.path.removeprefix(dialect.prefix)):
                    assert ask.read(service.request("POST", path, json=ask.sent))
        moved = "/translate" in dialect.paths
        ours = {"text": TEXT, "source": "en", "target": "fr"}
        assert service.post("/interlinear/translate" if moved else "/translate", ours).status_code == 200
        assert f'content=".{"/interlinear" if moved else ""}/"' in service.get("/").text


def test_several_dialects_can_be_at_the_root_unless_they_collide(bundle_folder: Path) -> None:
    with serving(bundle_folder, root_api="deepl,openai,google", precision="auto") as service:
        for ask in ASKS:
            if ask.path.startswith(("/deepl/", "/openai", "/google")):
                response = service.request("POST", ask.path[ask.path.index("/", 1) :], json=ask.sent)
                assert ask.read(response)
        assert service.request("POST", "/v2/translate", json={"text": "x"}).json().keys() == {"message", "detail"}
        assert service.request("POST", "/v2/translate", json={"text": "x"}).headers["x-trace-id"]
        assert service.request("POST", "/v1/chat/completions", json={}).json()["error"]["type"]
        assert service.get("/nowhere").headers["content-type"] == "application/problem+json"
    settings = load_settings({"root_api": "libretranslate,deeplx", "bundles": str(bundle_folder)})
    with pytest.raises(SettingsError, match="libretranslate and deeplx both have /translate"):
        create_app(settings, None)  # type: ignore[arg-type]


# ---- What single dialects have


def test_several_targets_and_detected_languages_of_azure(service: Service) -> None:
    path = "/azure/translate?api-version=3.0&to=fr&to=FR"
    (found,) = service.request("POST", path, json=[{"text": TEXT}]).json()
    assert found["detectedLanguage"]["language"] == "en"
    assert [each["to"] for each in found["translations"]] == ["fr", "FR"]
    assert len({each["text"] for each in found["translations"]}) == 1
    (found,) = service.request("POST", path.replace("&to=fr&to=FR", "&from=en&to=fr,en"), json=[{"Text": TEXT}]).json()
    assert "detectedLanguage" not in found and len(found["translations"]) == 2
    languages = service.get("/azure/languages?api-version=3.0&scope=translation").json()["translation"]
    assert languages["fr"] == {"name": "French", "nativeName": "French", "dir": "ltr"}
    (detected,) = service.request("POST", "/azure/detect", json=[{"Text": TEXT}]).json()
    assert detected["language"] == "en" and detected["isTranslationSupported"]
    refused = service.request("POST", "/azure/translate?to=fr", json={"texts": "x"})
    assert str(refused.json()["error"]["code"]).startswith("400")


def test_googles_other_routes(service: Service) -> None:
    prefix = "/google/language/translate/v2"
    found = service.request("POST", f"{prefix}/detect", json={"q": [TEXT, "Bonjour, mon ami."]}).json()
    assert [[each["language"] for each in one] for one in found["data"]["detections"]] == [["en"], ["fr"]]
    assert service.get(f"{prefix}/languages").json() == {
        "data": {"languages": [{"language": "en"}, {"language": "fr"}]}
    }
    named = service.get(f"{prefix}/languages?target=en").json()["data"]["languages"]
    assert named[1] == {"language": "fr", "name": "French"}
    found = service.request("GET", f"{prefix}?q=Hello.&q={TEXT}&target=fr&key=x").json()["data"]["translations"]
    assert [each["detectedSourceLanguage"] for each in found] == ["en", "en"]
    html = service.request("POST", prefix, json={"q": "<b>Hello.</b>", "target": "fr", "source": "en"}).json()
    assert html["data"]["translations"][0]["translatedText"].startswith("<b>")
    assert (
        service.request("POST", "/google/translate_a/t", data={"q": TEXT, "sl": "auto", "tl": "fr"}).json()[0][1]
        == "en"
    )


def test_mtranservers_other_routes(service: Service) -> None:
    assert service.get("/mtranserver/languages").json() == {
        "languages": ["en", "fr"],
        "pairs": [{"from": "en", "to": "fr"}],
    }
    assert service.request("POST", "/mtranserver/detect", json={"text": TEXT}).json() == {"language": "en"}
    doubtful = service.request("POST", "/mtranserver/detect", json={"text": "12", "minConfidence": 0.5}).json()
    assert doubtful == {"language": "", "confidence": 0.0}
    assert service.get("/mtranserver/version").json()["version"]


def test_text_in_the_first_language_goes_into_the_second_for_hcfy(service: Service) -> None:
    asked = {"text": f"{TEXT}\n\nHello.", "destination": ["英语", "法语"]}
    found = service.request("POST", "/hcfy/translate", json=asked).json()
    assert (found["from"], found["to"], len(found["result"])) == ("英语", "法语", 3)
    assert found["result"][1] == ""


def test_key_before_a_second_question_mark_is_read(service: Service, expected: str) -> None:
    assert service.get(f"/plain/translate?key=K?from=en&to=fr&text={TEXT}").text == expected


def test_completion_can_be_streamed(service: Service, expected: str) -> None:
    response = service.request("POST", "/openai/v1/chat/completions", json={**MESSAGES, "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    events = [line.removeprefix("data: ") for line in response.text.splitlines() if line]
    assert events[-1] == "[DONE]"
    deltas = [json.loads(event)["choices"][0]["delta"] for event in events[:-1]]
    assert "".join(delta.get("content", "") for delta in deltas) == expected
    assert service.get("/openai/v1/models").json()["data"][0]["object"] == "model"
    refused = service.request(
        "POST", "/openai/v1/chat/completions", json={"messages": [{"role": "user", "content": "Hi"}]}
    )
    assert refused.status_code == 400
    assert "only translates" in refused.json()["error"]["message"]


def test_extensions_may_read_responses_and_pages_may_not(service: Service) -> None:
    for origin, allowed in (
        ("moz-extension://x", True),
        ("chrome-extension://x", True),
        ("https://example.org", False),
    ):
        response = service.request("POST", "/libretranslate/translate", json=LIBRE, headers={"origin": origin})
        assert (response.headers.get("access-control-allow-origin") == origin) == allowed


def test_spec_is_libretranslates(service: Service) -> None:
    found = service.get("/libretranslate/spec").json()
    assert found["info"]["title"] == "LibreTranslate"
    assert "/libretranslate/translate" in found["paths"] and "/deepl/v2/translate" not in found["paths"]
