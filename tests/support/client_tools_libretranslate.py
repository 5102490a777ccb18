"""Tools that speak LibreTranslate's API, for tests/app/api/test_client_transcripts.py; written from their public
sources."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, quote_plus

from client_transcripts import (
    FORM,
    JSON,
    Answer,
    Headers,
    RawRequest,
    Shown,
    Step,
    Tool,
    chrome_fetch,
    curl,
    demand_allowed,
    dotnet,
    dotnet_json,
    electron,
    form_bytes,
    go_http,
    json_bytes,
    libretranslate_shown,
    multipart_bytes,
    node_fetch,
    node_http,
    okhttp,
    php_json,
    preflight,
    python_httpx,
    python_requests,
    status_fields,
    status_shown,
)

BASE = "/libretranslate"
URL = "http://HOST:8000/libretranslate"


# ---- What several have in common


def languages(answer: Answer) -> None:
    """A list with codes and names, among them those of the transcripts."""
    listed = answer.json()
    assert {"en", "fr"} <= {each["code"] for each in listed}
    assert all(each["name"] for each in listed)


def translated(answer: Answer) -> list[str]:
    """`translatedText`: a text, or a list of them."""
    found = answer.json()["translatedText"]
    return found if isinstance(found, list) else [found]


def wording(form: str) -> Any:
    """Reads a response; of an error it puts `{error}`, the response's field, `{status}`, `{reason}`, or `{name}` of
    .NET into `form`."""

    def read(answer: Answer) -> list[str]:
        if answer.ok:
            return translated(answer)
        error = answer.json().get("error") if "{error}" in form else None
        raise Shown(form.format(error=error, **status_fields(answer.status)))

    return read


# ---- Weblate: weblate/machinery/libretranslate.py and base.py


def _weblate(method: str, path: str, body: bytes = b"", kind: str = "") -> RawRequest:
    found = python_requests(method, BASE + path, body, kind)
    headers = [line for line in found.headers if line[0] not in ("User-Agent", "Accept")]
    own = [("User-Agent", "Weblate/5.15"), ("Accept", "application/json; charset=utf-8")]
    return RawRequest(method, BASE + path, [headers[0], *own, ("Referer", "https://example.org/"), *headers[1:]], body)


def _weblate_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """All texts in one list; empty strings are never translated."""
    asked = [text for text in texts if text]
    body = {"api_key": key or "", "q": asked, "source": source, "target": target}
    written = json_bytes(body, ascii_only=True, spaces=True)
    return [_weblate("POST", "/translate", written, JSON)] if asked else []


def weblate_read(answer: Answer) -> list[str]:
    """The message of requests, followed by `error` of the response, or else by all of it."""
    if answer.ok:
        return translated(answer)
    side = "Client" if answer.status < 500 else "Server"
    payload = answer.json()
    detail = payload.get("error") or str(payload)
    raise Shown(f"{answer.status} {side} Error: {answer.reason} for url: http://HOST: {detail[:200]}")


WEBLATE = Tool(
    "Weblate",
    "19117864",
    f"API URL: {URL}/",
    _weblate_translate,
    weblate_read,
    libretranslate_shown("* Error: * for url: *: {}"),
    [Step(lambda key: _weblate("GET", "/languages"), languages)],
    keeps_alive=False,
)


# ---- Mastodon: app/lib/translation_service/libre_translate.rb and app/lib/request.rb, with http.rb


def _mastodon(method: str, path: str, body: bytes = b"") -> RawRequest:
    """Its Host has no port."""
    headers = [
        ("User-Agent", "Mastodon/4.5.0 (http.rb/5.3.1; +https://mastodon.example.org/)"),
        ("Host", "127.0.0.1"),
        ("Date", "Sun, 29 Nov 2026 12:00:00 GMT"),
        ("Accept-Encoding", "gzip"),
        ("Content-Type", JSON),
        ("Connection", "close"),
        *([("Content-Length", str(len(body)))] if body else []),
    ]
    return RawRequest(method, BASE + path, headers, body)


def _mastodon_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """All texts of a post in one list."""
    body = {"q": list(texts), "source": source, "target": target, "format": "html", "api_key": key}
    return [_mastodon("POST", "/translate", json_bytes(body))]


def _mastodon_read(answer: Answer) -> list[str]:
    if answer.ok:
        return translated(answer)
    kinds = {429: "TooManyRequestsError", 403: "QuotaExceededError"}
    raise Shown(f"TranslationService::{kinds.get(answer.status, 'UnexpectedResponseError')}")


def _mastodon_languages(answer: Answer) -> None:
    targets = {each["code"]: [code for code in each["targets"] if code != each["code"]] for each in answer.json()}
    assert "fr" in targets["en"]


MASTODON = Tool(
    "Mastodon",
    "bcba029",
    f"LIBRE_TRANSLATE_ENDPOINT={URL}",
    _mastodon_translate,
    _mastodon_read,
    {
        **dict.fromkeys(("pair", "too long", "busy"), "TranslationService::UnexpectedResponseError"),
        **dict.fromkeys(("no key", "wrong key"), "TranslationService::QuotaExceededError"),
        "rate": "TranslationService::TooManyRequestsError",
    },
    [Step(lambda key: _mastodon("GET", "/languages"), _mastodon_languages)],
    keeps_alive=False,
)


# ---- Discourse: discourse-translator's app/services/discourse_translator/provider/libre_translate.rb, with Excon


def _discourse(method: str, path: str, *pairs: tuple[str, str]) -> RawRequest:
    body = "&".join(f"{name}={quote_plus(value, safe='*')}" for name, value in pairs).encode()
    headers = [
        ("User-Agent", "excon/1.3.2"),
        *([("Content-Type", FORM)] if pairs else []),
        ("Host", "{host}"),
        *([("Content-Length", str(len(body)))] if pairs else []),
    ]
    return RawRequest(method, BASE + path, headers, body)


def _discourse_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """A post at a time: it asks for its language, then translates its HTML from that."""
    found = []
    for text in texts:
        found.append(_discourse("POST", "/detect", ("q", text), ("api_key", key or "")))
        fields = [("q", text), ("source", source), ("target", target), ("format", "html")]
        found.append(_discourse("POST", "/translate", *fields, ("api_key", key or "")))
    return found


def _discourse_read(answer: Answer) -> list[str]:
    found = answer.json()
    if answer.status != 200:
        raise Shown(str(found))
    if isinstance(found, list):
        if found and found[0]["language"] not in ("en", "fr"):
            raise Shown("an unknown language")
        return []
    return translated(answer)


DISCOURSE = Tool(
    "Discourse",
    "discourse-translator 919fdab",
    f"translator_libretranslate_endpoint: {URL}",
    _discourse_translate,
    _discourse_read,
    libretranslate_shown("*{}*"),
    [Step(lambda key: _discourse("GET", "/languages"), languages)],
    keeps_alive=False,
)


# ---- Rocket.Chat: apps/meteor/app/autotranslate/server/libreTranslate.ts, with node-fetch


def _rocket_chat_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """A message at a time, its lines in a list, empty ones as well."""
    found = []
    for text in texts:
        body = {"q": text.split("\n"), "source": "auto", "target": target, "format": "text"}
        written = json_bytes({**body, **({"api_key": key} if key else {})})
        headers = [("Content-Type", JSON), ("Accept", "*/*")]
        found.append(node_http("POST", f"{BASE}/translate", written, headers, "node-fetch/1.0"))
    return found


def _rocket_chat_read(answer: Answer) -> list[str]:
    """The lines, joined; of an error its status alone, for the log."""
    if not answer.ok:
        raise Shown(answer.reason)
    return ["\n".join(translated(answer))]


ROCKET_CHAT = Tool(
    "Rocket.Chat",
    "34e35442, June 2026",
    f"AutoTranslate_LibreTranslateAPIURL: {URL}",
    _rocket_chat_translate,
    _rocket_chat_read,
    status_shown("{reason}"),
    [Step(lambda key: node_http("GET", f"{BASE}/languages", headers=[("Accept", "*/*")]), languages)],
)


# ---- Mattermost 11.5, by its requests: its provider is not public


def _mattermost_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    found = []
    for text in texts:
        body = {"q": text, "source": "auto", "target": target.lower(), "format": "text"}
        written = json_bytes({**body, **({"api_key": key} if key else {})})
        found.append(go_http("POST", f"{BASE}/translate", written, [("Content-Type", JSON)]))
    return found


MATTERMOST = Tool(
    "Mattermost",
    "11.5, by what it sends",
    f"the server's URL: {URL}",
    _mattermost_translate,
    wording("{error}"),
    libretranslate_shown(),
    [Step(lambda key: go_http("GET", f"{BASE}/languages"), languages)],
)


# ---- Nextcloud: integration_libretranslate 05144bc, with jefs42/libretranslate 2927203: PHP's curl

_BOUNDARY = "------------------------5f1dbb390f3c4b8e"
_PARTS = f"multipart/form-data; boundary={_BOUNDARY}"


def _nextcloud(method: str, target: str, *pairs: tuple[str, str]) -> RawRequest:
    """Every request has a form in parts, GET too, and is made on a connection of its own."""
    return curl(method, target, multipart_bytes(_BOUNDARY, *pairs), _PARTS)


def _nextcloud_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    return [
        _nextcloud(
            "POST",
            "/translate",
            *[("q", text), ("format", "html"), ("source", source), ("target", target), ("api_key", key or "")],
        )
        for text in texts
    ]


NEXTCLOUD = Tool(
    "Nextcloud",
    "integration_libretranslate 05144bc, jefs42/libretranslate 2927203",
    "Host: http://HOST, Port: 8000",
    _nextcloud_translate,
    wording("{error}"),
    libretranslate_shown(),
    [
        Step(lambda key: _nextcloud("POST", "/"), lambda answer: None),
        Step(lambda key: _nextcloud("GET", "/frontend/settings"), lambda answer: answer.json()["language"]["target"]),
        Step(lambda key: _nextcloud("GET", "/languages"), languages),
        Step(
            lambda key: RawRequest(
                "POST",
                f"/detect?q=Where+is+the+station%3F&api_key={key or ''}",
                _nextcloud("POST", "").headers,
                _nextcloud("POST", "").body,
            ),
            lambda answer: answer.json()[0]["language"],
        ),
    ],
    root_api="libretranslate",
    keeps_alive=False,
)


# ---- Akkoma: lib/pleroma/akkoma/translators/libre_translate.ex, with Finch


def _akkoma(method: str, path: str, body: bytes = b"") -> RawRequest:
    """The path replaces that of the URL."""
    headers = [
        ("host", "{host}"),
        *([("content-length", str(len(body))), ("content-type", JSON)] if body else []),
        ("user-agent", "Akkoma 3.17.0; https://akkoma.example.org <admin@example.org>"),
    ]
    return RawRequest(method, path, headers, body)


def _akkoma_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """Jason sorts the fields."""
    return [
        _akkoma(
            "POST",
            "/translate",
            json_bytes({"api_key": key, "format": "html", "q": text, "source": "auto", "target": target}),
        )
        for text in texts
    ]


AKKOMA = Tool(
    "Akkoma",
    "3437e11",
    "config :pleroma, :libre_translate, url: http://HOST:8000",
    _akkoma_translate,
    wording("libre_translate: request failed (code {status})"),
    {
        **status_shown("libre_translate: request failed (code {status})"),
        "empty": "libre_translate: request failed (code 400)",
    },
    [Step(lambda key: _akkoma("GET", "/languages"), languages)],
    root_api="libretranslate",
)


# ---- Sharkey: packages/backend/src/server/api/endpoints/notes/translate.ts, with node-fetch


def _sharkey_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    headers = [("Content-Type", JSON), ("Accept", "application/json, */*")]
    found = []
    for text in texts:
        body = {"q": text, "source": "auto", "target": target.split("-")[0], "format": "text", "api_key": key or ""}
        found.append(node_http("POST", f"{BASE}/translate", json_bytes(body), headers, "Sharkey/2025.4"))
    return [request for request, text in zip(found, texts, strict=True) if text]


SHARKEY_FAILED = "Failed to translate note. Please try again later or contact an administrator for assistance."


def _sharkey_read(answer: Answer) -> list[str]:
    """It names the language detected, and shows one message for every error."""
    if not answer.ok:
        raise Shown(SHARKEY_FAILED)
    assert answer.json()["detectedLanguage"]["language"] in ("en", "fr")
    return translated(answer)


SHARKEY = Tool(
    "Sharkey",
    "1e2355d",
    f"LibreTranslate URL: {URL}/translate",
    _sharkey_translate,
    _sharkey_read,
    status_shown(SHARKEY_FAILED),
)


# ---- Dialect: dialect/providers/modules/libretrans.py and soup.py, with libsoup 3


def _dialect(method: str, path: str, body: bytes = b"", kind: str = "") -> RawRequest:
    headers = [
        ("Host", "{host}"),
        *([("Content-Type", kind), ("Content-Length", str(len(body)))] if body else []),
        ("User-Agent", "Dialect App"),
        ("Accept-Encoding", "gzip, deflate"),
        ("Connection", "Keep-Alive"),
    ]
    return RawRequest(method, BASE + path, headers, body)


def _dialect_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """The field is not translated while it is empty."""
    found = []
    for text in texts:
        body = {"q": text, "source": source, "target": target, **({"api_key": key} if key else {})}
        found.append(_dialect("POST", "/translate", json_bytes(body, ascii_only=True, spaces=True), JSON))
    return [request for request, text in zip(found, texts, strict=True) if text]


def _dialect_check(answer: Answer) -> Any:
    """It looks at the text of an error alone."""
    found = answer.json()
    if not found:
        raise Shown("UnexpectedError: Response is empty!")
    if "error" not in found:
        return found
    error = found["error"]
    if error == "Please contact the server operator to obtain an API key":
        kind = "APIKeyRequired"
    elif error == "Invalid API key":
        kind = "APIKeyInvalid"
    elif "is not supported" in error:
        kind = "InvalidLangCode"
    elif "exceeds text limit" in error:
        kind = "BatchSizeExceeded"
    else:
        kind = "UnexpectedError"
    raise Shown(f"{kind}: {error}")


def _dialect_read(answer: Answer) -> list[str]:
    _dialect_check(answer)
    return translated(answer)


def _dialect_is_an_instance(answer: Answer) -> None:
    assert answer.json()["info"]["title"] == "LibreTranslate"


def _dialect_settings(answer: Answer) -> None:
    found = _dialect_check(answer)
    assert found["apiKeys"] is found["keyRequired"]
    assert int(found["charLimit"]) == 50_000


def _dialect_key(answer: Answer) -> None:
    assert "confidence" in _dialect_check(answer)[0]


_DIALECT_SHOWN = libretranslate_shown()
DIALECT = Tool(
    "Dialect",
    "172df32, March 2026",
    "Instance: HOST:8000/libretranslate, with https unless HOST is localhost",
    _dialect_translate,
    _dialect_read,
    {
        "pair": f"InvalidLangCode: {_DIALECT_SHOWN['pair']}",
        "too long": f"BatchSizeExceeded: {_DIALECT_SHOWN['too long']}",
        "no key": f"APIKeyRequired: {_DIALECT_SHOWN['no key']}",
        "wrong key": f"APIKeyInvalid: {_DIALECT_SHOWN['wrong key']}",
        "rate": f"UnexpectedError: {_DIALECT_SHOWN['rate']}",
        "busy": f"UnexpectedError: {_DIALECT_SHOWN['busy']}",
    },
    [
        Step(lambda key: _dialect("GET", "/spec"), _dialect_is_an_instance),
        Step(lambda key: _dialect("GET", "/languages"), languages),
        Step(lambda key: _dialect("GET", "/frontend/settings"), _dialect_settings),
        Step(
            lambda key: _dialect("POST", "/detect", form_bytes(("q", "hello"), ("api_key", key or "")), FORM),
            _dialect_key,
        ),
    ],
)


# ---- Subtitle Edit: src/libuilogic/AutoTranslate/LibreTranslate.cs


def _subtitle_edit_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """One text after another, their JSON put together by hand, with blanks."""

    def written(text: str) -> bytes:
        escaped = text.strip().replace("\\", "\\\\").replace('"', '\\"').replace("\n", "<br />")
        part = f', "api_key": "{key}"' if key else ""
        return f'{{"q": "{escaped}", "source": "{source}", "target": "{target}"{part}}}'.encode()

    accept = [("Accept", JSON)]
    return [dotnet("POST", f"{BASE}/translate", written(text), JSON, accept) for text in texts if text.strip()]


SUBTITLE_EDIT = Tool(
    "Subtitle Edit",
    "5c98fbdf, August 2026",
    f"URL: {URL}/, with the slash",
    _subtitle_edit_translate,
    wording("Response status code does not indicate success: {status} ({reason})."),
    status_shown("Response status code does not indicate success: {status} ({reason})."),
    connections=1,
)


# ---- Lingarr: Lingarr.Server/Services/Translation/LibreService.cs


def _lingarr_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    accept = [("Accept", JSON)]
    return [
        dotnet(
            "POST",
            f"{BASE}/translate",
            dotnet_json({"q": text, "source": source, "target": target, "format": "text", "api_key": key}),
            JSON,
            accept,
        )
        for text in texts
        if text
    ]


def _lingarr_read(answer: Answer) -> list[str]:
    if answer.ok:
        return translated(answer)
    is_retried = answer.status in (429, 503)
    detail = "retry limit reached." if is_retried else answer.text
    name = answer.reason.replace(" ", "")
    raise Shown(f"LibreTranslate translation failed with status {name} ({answer.reason}): {detail}")


LINGARR = Tool(
    "Lingarr",
    "e26da8b, August 2026",
    f"LibreTranslate address: {URL}",
    _lingarr_translate,
    _lingarr_read,
    {
        **libretranslate_shown('LibreTranslate translation failed with status * (*): {{"error":*"{}"}}'),
        "rate": "LibreTranslate translation failed with status * (Too Many Requests): retry limit reached.",
        "busy": "LibreTranslate translation failed with status * (Service Unavailable): retry limit reached.",
    },
    [Step(lambda key: dotnet("GET", f"{BASE}/languages", headers=[("Accept", JSON)]), languages)],
    connections=1,
    attempts=4,
)


# ---- TranslateYou: translation-engines/.../lt/LTEngine.kt, with Retrofit and OkHttp


def _translate_you_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """All in the query of a POST, whose body is empty."""
    found = []
    for text in texts:
        fields = {"q": text, "source": source, "target": target, **({"api_key": key} if key else {})}
        query = "&".join(
            f"{name}={quote(value, safe='!$()*,-./:;?@_~')}"
            for name, value in {**fields, "format": "text", "alternatives": "3"}.items()
        )
        found.append(okhttp("POST", f"{BASE}/translate?{query}"))
    return [request for request, text in zip(found, texts, strict=True) if text]


def _translate_you_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise Shown(f"HTTP {answer.status} {answer.reason}")
    assert all(isinstance(text, str) for text in answer.json().get("alternatives", []))
    return translated(answer)


TRANSLATE_YOU = Tool(
    "TranslateYou",
    "18dfcd6, July 2026",
    f"Instance: {URL}/, with the slash",
    _translate_you_translate,
    _translate_you_read,
    status_shown("HTTP {status} {reason}"),
    [Step(lambda key: okhttp("GET", f"{BASE}/languages"), languages)],
    connections=5,
)


# ---- Zotero's "Translate for Zotero": src/modules/services/libretranslate.ts, with Firefox's XMLHttpRequest


def _zotero(method: str, path: str, body: bytes, headers: Headers) -> RawRequest:
    lines = [
        ("Host", "{host}"),
        ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Zotero/9.0"),
        ("Accept", "*/*"),
        ("Accept-Language", "en-US,en;q=0.5"),
        ("Accept-Encoding", "gzip, deflate"),
        *headers,
        ("Content-Length", str(len(body))),
        ("Connection", "keep-alive"),
    ]
    return RawRequest(method, path, lines, body)


def _zotero_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    found = []
    for text in texts:
        body = {"q": text, "source": source.split("-")[0], "target": target.split("-")[0], "format": "text"}
        written = json_bytes({**body, **({"api_key": key} if key else {})})
        found.append(_zotero("POST", f"{BASE}/translate", written, [("Content-Type", JSON)]))
    return [request for request, text in zip(found, texts, strict=True) if text]


def _zotero_read(answer: Answer) -> list[str]:
    """Zotero.HTTP raises for any status but success."""
    if not answer.ok:
        raise Shown(f"HTTP POST {URL}/translate failed with status code {answer.status}")
    return translated(answer)


ZOTERO = Tool(
    "Translate for Zotero",
    "ac91aca, August 2026",
    f"Endpoint: {URL}",
    _zotero_translate,
    _zotero_read,
    status_shown(f"HTTP POST {URL}/translate failed with status code {{status}}"),
    source="en-US",
    target="fr-FR",
)


# ---- TWP (Translate Web Pages): src/background/translationService.js, an extension's XMLHttpRequest


def _twp_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """It knows one text a request. An extension with access to all sites asks for no permission before."""
    return [
        chrome_fetch(
            "POST",
            f"{BASE}/translate",
            form_bytes(("q", text), ("source", "auto"), ("target", target), ("format", "text"), ("api_key", key or "")),
            FORM,
        )
        for text in texts
        if text.strip()
    ]


def _twp_read(answer: Answer) -> list[str]:
    """Whatever the status, it takes the language detected from the response, which an error has not."""
    if "detectedLanguage" not in answer.json():
        raise Shown("TypeError: response.detectedLanguage is undefined")
    assert answer.json()["detectedLanguage"]["language"]
    return translated(answer)


TWP = Tool(
    "TWP (Translate Web Pages)",
    "50a9211, August 2026",
    f"LibreTranslate URL: {URL}/translate",
    _twp_translate,
    _twp_read,
    status_shown("TypeError: response.detectedLanguage is undefined"),
    connections=6,
)


# ---- SillyTavern: src/endpoints/translate.js, with node-fetch


def _silly_tavern_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    headers = [("Content-Type", JSON), ("Accept", "*/*")]
    found = []
    for text in texts:
        body = {"q": text, "source": "auto", "target": target, "format": "text", "api_key": key}
        found.append(node_http("POST", f"{BASE}/translate", json_bytes(body), headers, "node-fetch"))
    return [request for request, text in zip(found, texts, strict=True) if text]


SILLY_TAVERN = Tool(
    "SillyTavern",
    "ba6f7b7, September 2024",
    f"LibreTranslate URL: {URL}/translate",
    _silly_tavern_translate,
    wording("{reason}"),
    status_shown("{reason}"),
)


# ---- Crow Translate 2.12: QOnlineTranslator's src/qonlinetranslator.cpp, with Qt's network


def _crow(path: str, *pairs: tuple[str, str]) -> RawRequest:
    """The body begins with an ampersand."""
    body = "".join(f"&{name}={quote(value, safe='-._~')}" for name, value in pairs).encode()
    headers = [
        ("Host", "{host}"),
        ("Content-Type", FORM),
        ("Content-Length", str(len(body))),
        ("Connection", "Keep-Alive"),
        ("Accept-Encoding", "gzip, deflate"),
        ("Accept-Language", "en-US,*"),
        ("User-Agent", "Mozilla/5.0"),
    ]
    return RawRequest("POST", BASE + path, headers, body)


def _crow_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    found = []
    for text in texts:
        fields = [("q", text), ("source", source), ("target", target), ("api_key", key or "")]
        found += [_crow("/detect", ("q", text), ("api_key", key or "")), _crow("/translate", *fields)]
    return found if "".join(texts).strip() else []


def _crow_read(answer: Answer) -> list[str]:
    found = answer.json()
    if not answer.ok:
        raise Shown(f"Error transferring {URL} - server replied: {answer.reason}")
    if isinstance(found, list):
        assert found[0]["language"]
        return []
    return translated(answer)


CROW = Tool(
    "Crow Translate",
    "2.12, QOnlineTranslator 8541f9b, 2024",
    f"LibreTranslate instance: {URL}",
    _crow_translate,
    _crow_read,
    status_shown(f"Error transferring {URL} - server replied: {{reason}}"),
    connections=1,
)


# ---- SearXNG: searx/engines/libretranslate.py, with httpx


def _searxng_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    found = []
    for text in texts:
        body = {"q": text, "source": source, "target": target, "alternatives": 3, **({"api_key": key} if key else {})}
        agent = [("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0")]
        written = json_bytes(body, ascii_only=True, spaces=True)
        found.append(python_httpx("POST", f"{BASE}/translate", written, JSON, agent))
    return [request for request, text in zip(found, texts, strict=True) if text.strip()]


def _searxng_read(answer: Answer) -> list[str]:
    """searx.network raises by status."""
    if answer.status == 429:
        raise Shown("too many requests")
    if answer.status == 403:
        raise Shown("access denied")
    if not answer.ok:
        raise Shown("HTTP error")
    assert isinstance(answer.json().get("alternatives", []), list)
    return translated(answer)


SEARXNG = Tool(
    "SearXNG",
    "9fea412, August 2026",
    f"base_url: {URL}",
    _searxng_translate,
    _searxng_read,
    {
        **dict.fromkeys(("pair", "too long", "busy"), "HTTP error"),
        **dict.fromkeys(("no key", "wrong key"), "access denied"),
        "rate": "too many requests",
    },
)


# ---- Translate for Obsidian: src/handlers/libre-translate.ts, with Obsidian's requestUrl


def _obsidian_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    return [
        electron("POST", f"{BASE}/translate", json_bytes({"q": text, "source": source, "target": target}), JSON)
        for text in texts
        if text.strip()
    ]


OBSIDIAN = Tool(
    "Translate for Obsidian",
    "56b5dd5, July 2024",
    f"Host: {URL}",
    _obsidian_translate,
    wording("{error}"),
    libretranslate_shown(),
    [
        Step(lambda key: electron("GET", f"{BASE}/languages"), languages),
        Step(
            lambda key: electron("POST", f"{BASE}/detect", json_bytes({"q": "Where is the station?"}), JSON),
            lambda answer: answer.json()[0]["confidence"] / 100,
        ),
    ],
    takes_key=False,
)


# ---- wagtail-localize: src/wagtail_localize/machine_translators/libretranslate.py


def _wagtail_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    body = {"q": list(texts), "source": source.split("-")[0], "target": target.split("-")[0], "api_key": key or ""}
    written = json_bytes({**body, "format": "html"}, ascii_only=True, spaces=True)
    found = python_requests("POST", f"{BASE}/translate", written)
    lines = [line for line in found.headers if line[0] != "Content-Length"]
    headers = [*lines, ("Content-Type", JSON), ("Content-Length", str(len(written)))]
    return [RawRequest("POST", found.target, headers, written)]


WAGTAIL = Tool(
    "wagtail-localize",
    "5aa51f47, August 2026",
    f"LIBRETRANSLATE_URL: {URL}",
    _wagtail_translate,
    wording("{status} Error: {reason} for url"),
    status_shown("{status} Error: {reason} for url"),
    keeps_alive=False,
)


# ---- RSSBox: core/models/agent.py, with urllib


def _rssbox(method: str, path: str, *pairs: tuple[str, str]) -> RawRequest:
    """A GET has a form, too, which is empty without a key."""
    body = form_bytes(*pairs)
    headers = [
        ("Accept-Encoding", "identity"),
        ("Content-Length", str(len(body))),
        ("Host", "{host}"),
        ("Accept", JSON),
        ("Content-Type", FORM),
        ("User-Agent", "LibreTranslateAgent/1.0"),
        ("Connection", "close"),
    ]
    return RawRequest(method, BASE + path, headers, body)


def _rssbox_key(key: str | None) -> list[tuple[str, str]]:
    return [("api_key", key)] if key else []


def _rssbox_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    fields = [("source", "auto"), ("target", target), ("format", "html"), *_rssbox_key(key)]
    return [_rssbox("POST", "/translate", ("q", text), *fields) for text in texts if text.strip()]


RSSBOX = Tool(
    "RSSBox",
    "36c4fd6, January 2026",
    f"Server URL: {URL}",
    _rssbox_translate,
    wording("_api_request HTTP Error {status}: {reason}"),
    status_shown("_api_request HTTP Error {status}: {reason}"),
    [Step(lambda key: _rssbox("GET", "/languages", *_rssbox_key(key)), languages)],
    keeps_alive=False,
)


# ---- LiveCaptions-Translator: src/apis/TranslateAPI.cs


def _live_captions_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    found = []
    for text in texts:
        body = {"q": text, "target": target, "source": "auto", "format": "text", "api_key": key or ""}
        kind = "application/json; charset=utf-8"
        found.append(dotnet("POST", f"{BASE}/translate", dotnet_json(body), kind))
    return [request for request, text in zip(found, texts, strict=True) if text.strip()]


LIVE_CAPTIONS = Tool(
    "LiveCaptions-Translator",
    "7a6fe4a, July 2026",
    f"API URL: {URL}/translate",
    _live_captions_translate,
    wording("[ERROR] Translation Failed: HTTP Error - {name}"),
    status_shown("[ERROR] Translation Failed: HTTP Error - {name}"),
    connections=2,
)


# ---- Linguist: linguist-translators' translators/LibreTranslator.js, in a sandboxed frame of the extension


def _linguist_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """Its page has no origin, so that the browser asks for permission to send JSON."""
    found = []
    for text in texts:
        body = {"q": text, "source": source, "target": target, "format": "text", "api_key": key or ""}
        found.append(chrome_fetch("POST", f"{BASE}/translate", json_bytes(body), JSON, origin="null"))
    return [request for request, text in zip(found, texts, strict=True) if text.strip()]


def _linguist_read(answer: Answer) -> list[str]:
    """It shows the field of any response, which an error has not."""
    demand_allowed(answer, "null")
    if "translatedText" not in answer.json():
        raise Shown("undefined")
    return translated(answer)


def _linguist_may_send(answer: Answer) -> None:
    demand_allowed(answer, "null")
    assert answer.ok
    assert "content-type" in answer.headers["access-control-allow-headers"].lower()


LINGUIST = Tool(
    "Linguist",
    "linguist-translators de48049, September 2025",
    f"apiPath = '{URL}/translate', and INTERLINEAR_CORS_ORIGINS=null",
    _linguist_translate,
    _linguist_read,
    status_shown("undefined"),
    [Step(lambda key: preflight(f"{BASE}/translate", "content-type", "null"), _linguist_may_send)],
    connections=6,
    settings={"cors_origins": ["null"]},
)


# ---- FreedomTranslate for WordPress 2.2.0: freedomtranslate-wp.php, with PHP's curl


def _freedom_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    found = []
    for text in texts:
        body: dict[str, Any] = {"q": text, "source": source, "target": target, "format": "text", "job_id": "a1b2c3"}
        if key:
            body["api_key"] = key
        written = php_json({**body, "options": {"num_ctx": 4096, "num_predict": 1500}})
        headers = [
            ("Host", "{host}"),
            ("User-Agent", "WordPress/6.9; https://wordpress.example.org"),
            ("Accept", "*/*"),
            ("Accept-Encoding", "deflate, gzip, br"),
            ("Referer", f"{URL}/translate"),
            ("Content-Type", JSON),
            ("Content-Length", str(len(written))),
            ("Connection", "close"),
        ]
        found.append(RawRequest("POST", f"{BASE}/translate", headers, written))
    return [request for request, text in zip(found, texts, strict=True) if text.strip()]


def _freedom_read(answer: Answer) -> list[str]:
    """It looks for the field alone, whatever the status."""
    if "translatedText" not in answer.json():
        raise Shown("Missing translatedText")
    return translated(answer)


FREEDOM = Tool(
    "FreedomTranslate for WordPress",
    "2.2.0, 7b88b29",
    f"API Server URL: {URL}/translate",
    _freedom_translate,
    _freedom_read,
    status_shown("Missing translatedText"),
    keeps_alive=False,
)


# ---- Calibre's Ebook Translator: engines/custom.py, a template of the user's, with mechanize


def _calibre_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """`{"q": "<text>", "source": "<source>", "target": "<target>", "api_key": "..."}`."""
    found = []
    for text in texts:
        body = {"q": text, "source": source, "target": target, "api_key": key or ""}
        written = json_bytes(body, ascii_only=True, spaces=True)
        headers = [
            ("Accept-Encoding", "identity"),
            ("Content-Length", str(len(written))),
            ("Host", "{host}"),
            ("Content-Type", JSON),
            ("User-Agent", "Python-urllib/3.14"),
            ("Connection", "close"),
        ]
        found.append(RawRequest("POST", f"{BASE}/translate", headers, written))
    return [request for request, text in zip(found, texts, strict=True) if text.strip()]


def _calibre_read(answer: Answer) -> list[str]:
    """`response["translatedText"]`; the text of an error is part of the message."""
    if not answer.ok:
        raise Shown(f"Can not parse returned response. Raw data: {json.loads(answer.text)}")
    return translated(answer)


CALIBRE = Tool(
    "Calibre's Ebook Translator",
    "3a04deb, August 2026",
    f"a custom engine with the URL {URL}/translate",
    _calibre_translate,
    _calibre_read,
    libretranslate_shown("Can not parse returned response. Raw data: *{}*"),
    keeps_alive=False,
    attempts=3,
)

# ---- Strapi's translate plugin: providers/libretranslate/lib/, with axios


def _strapi(method: str, path: str, body: bytes = b"") -> RawRequest:
    accept = [("Accept", "application/json, text/plain, */*")]
    kind = [("Content-Type", JSON)] if body else []
    return node_http(method, BASE + path, body, [*accept, *kind], "axios/1.13.2")


def _strapi_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """All texts in one list; codes are cut at the hyphen."""
    languages = {"source": source.lower().split("-")[0], "target": target.lower().split("-")[0]}
    body = {"q": list(texts), **languages, "format": "text", **({"api_key": key} if key else {})}
    return [_strapi("POST", "/translate", json_bytes(body))]


STRAPI = Tool(
    "Strapi's translate plugin",
    "libretranslate 1.1.6, ddc1f83",
    f"apiUrl: '{URL}'",
    _strapi_translate,
    wording(f"Request to {URL}/translate failed with {{status}}"),
    status_shown(f"Request to {URL}/translate failed with {{status}}"),
    [Step(lambda key: _strapi("GET", "/languages"), languages)],
    connections=1,
    source="en-GB",
    target="fr-FR",
)


# ---- i18n Ally for Visual Studio Code: src/translators/engines/libretranslate.ts, with axios


def _i18n_ally_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    found = []
    for text in texts:
        body = json_bytes({"q": text, "source": source, "target": target, "format": "html"})
        headers = [("Accept", "application/json, text/plain, */*"), ("Content-Type", JSON)]
        found.append(node_http("POST", f"{BASE}/translate", body, headers, "axios/0.21.1"))
    return [request for request, text in zip(found, texts, strict=True) if text.strip()]


I18N_ALLY = Tool(
    "i18n Ally",
    "2.13.1, 4c504c93",
    f"i18n-ally.translate.libre.apiRoot: {URL}",
    _i18n_ally_translate,
    wording("Request failed with status code {status}"),
    status_shown("Request failed with status code {status}"),
    takes_key=False,
)


# ---- translate of npm: src/engines/libre.js, with fetch


def _translate_npm(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    found = []
    for text in texts:
        body = {"q": text, "source": source, "target": target, **({"api_key": key} if key else {})}
        found.append(node_fetch("POST", f"{BASE}/translate", json_bytes(body), JSON))
    return [request for request, text in zip(found, texts, strict=True) if text.strip()]


def _translate_npm_read(answer: Answer) -> list[str]:
    """It looks at `error` alone, whatever the status."""
    if error := answer.json().get("error"):
        raise Shown(error)
    return translated(answer)


TRANSLATE_NPM = Tool(
    "translate (npm)",
    "3.0.1, 215d778",
    f"Translate({{ engine: 'libre', url: '{URL}/translate' }})",
    _translate_npm,
    _translate_npm_read,
    libretranslate_shown(),
)


# ---- LinguaCafe: app/Services/DictionaryService.php, with Guzzle


def guzzle(target: str, body: object, *headers: tuple[str, str]) -> RawRequest:
    """Laravel's HTTP client."""
    written = php_json(body)
    lines = [("Host", "{host}"), ("User-Agent", "GuzzleHttp/7"), *headers, ("Content-Type", JSON)]
    return RawRequest("POST", target, [*lines, ("Content-Length", str(len(written)))], written)


def _linguacafe_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    return [
        guzzle(f"{BASE}/translate", {"q": text, "source": source, "target": target}) for text in texts if text.strip()
    ]


LINGUACAFE = Tool(
    "LinguaCafe",
    "c1ea298, March 2025",
    f"LibreTranslate host: {URL}/translate",
    _linguacafe_translate,
    wording("error"),
    status_shown("error"),
    takes_key=False,
)

TOOLS = [
    *[WEBLATE, MASTODON, DISCOURSE, ROCKET_CHAT, MATTERMOST, NEXTCLOUD, AKKOMA, SHARKEY, DIALECT, SUBTITLE_EDIT],
    *[LINGARR, TRANSLATE_YOU, ZOTERO, TWP, SILLY_TAVERN, CROW, SEARXNG, OBSIDIAN, WAGTAIL, RSSBOX, LIVE_CAPTIONS],
    *[LINGUIST, FREEDOM, CALIBRE, STRAPI, I18N_ALLY, TRANSLATE_NPM, LINGUACAFE],
]
