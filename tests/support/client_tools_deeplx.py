"""Tools that speak DeepLX's API, for tests/app/api/test_client_transcripts.py; written from their public sources."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from client_transcripts import (
    FORM,
    JSON,
    Answer,
    Headers,
    RawRequest,
    Shown,
    Tool,
    Translate,
    chrome_fetch,
    dotnet,
    form_bytes,
    json_bytes,
    node_fetch,
    python_requests,
    status_fields,
    status_shown,
)

PATH = "/deeplx/translate"
Write = Callable[[str, str, str, str | None], RawRequest]


# ---- What several tools have in common


def per_text(write: Write, sends: Callable[[str], object] = str.strip) -> Translate:
    """A request for each text; none for those that `sends` says no to, which are the blank ones."""

    def translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
        return [write(text, source, target, key) for text in texts if sends(text)]

    return translate


def with_token(target: str, key: str | None, name: str = "token") -> str:
    """The URL with the key that its user appends where there is no field for one."""
    return f"{target}?{name}={key}" if key else target


def refused_shown(wording: str, **statuses: int) -> dict[str, str]:
    """status_shown with the statuses that most dialects have."""
    return status_shown(wording, **{"no_key": 401, "wrong_key": 401, "too_long": 413, **statuses})


MESSAGES = {
    "pair": "*xx*",
    "too long": "The text has 50001 characters, over the limit of 50000.",
    "no key": "This service requires an API key; none was sent.",
    "wrong key": "This service requires an API key; the one that was sent is unknown.",
    "rate": "Over the limit of 1/hour requests. Retry after * s.",
    "busy": "The queue is full. Retry after * s.",
}
"""What the service says, in the field of each dialect."""


def messages_shown(wording: str = "{}", messages: Mapping[str, str] = MESSAGES) -> dict[str, str]:
    return {kind: wording.format(message) for kind, message in messages.items()}


def zotero_request(target: str, body: bytes, headers: Headers, method: str = "POST") -> RawRequest:
    """Zotero.HTTP.request, by XMLHttpRequest of Firefox 128."""
    lines = [
        ("Host", "{host}"),
        ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Zotero/7.0.30"),
        ("Accept", "*/*"),
        ("Accept-Language", "en-US,en;q=0.5"),
        ("Accept-Encoding", "gzip, deflate"),
        *headers,
        *([("Content-Length", str(len(body)))] if method == "POST" else []),
        ("Connection", "keep-alive"),
    ]
    return RawRequest(method, target, lines, body)


def zotero_ok(answer: Answer) -> None:
    """Zotero.HTTP.request throws for any status but 2xx; the plugin for any but 200."""
    if answer.status != 200:
        raise Shown(f"HTTP request failed with status code {answer.status}")


ZOTERO_SHOWN = refused_shown("HTTP request failed with status code {status}")


def tauri_request(method: str, target: str, body: bytes = b"") -> RawRequest:
    """fetch of Tauri 1, by Rust's reqwest."""
    length = [("content-length", str(len(body)))] if body else []
    return RawRequest(method, target, [("content-type", JSON), ("accept", "*/*"), ("host", "{host}"), *length], body)


def deeplx_data(answer: Answer) -> list[str]:
    return [answer.json()["data"]]


def real_language(code: str) -> None:
    """Intl.DisplayNames throws for anything that is not of the form of a language."""
    if not re.fullmatch(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*", code):
        raise Shown(f"RangeError: Invalid argument to Intl.DisplayNames.prototype.of: {code}")


# ---- Subtitle Edit: src/libuilogic/AutoTranslate/DeepLXTranslate.cs


def _subtitle_edit_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    """At an absolute path, as text/plain, its JSON put together by hand, with blanks."""
    escaped = text.strip().replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    body = f'{{ "source_lang": "{source}", "target_lang": "{target}", "text": "{escaped}" }}'.encode()
    return dotnet("POST", "/translate", body, "text/plain; charset=utf-8")


def _subtitle_edit_read(answer: Answer) -> list[str]:
    """The first of the alternatives before the translation itself."""
    if not answer.ok:
        raise Shown(f"DeepLXTranslate error: StatusCode={status_fields(answer.status)['name']}\n{answer.text}")
    found = answer.json()
    best: str = (found["alternatives"] or [""])[0] or found["data"]
    return [best.strip()]


SUBTITLE_EDIT = Tool(
    "Subtitle Edit DeepLX",
    "5c98fbdf, August 2026",
    "INTERLINEAR_ROOT_API=deeplx; URL: http://HOST:8000",
    per_text(_subtitle_edit_write),
    _subtitle_edit_read,
    refused_shown("DeepLXTranslate error: StatusCode={name}\n*"),
    root_api="deeplx",
    takes_key=False,
    attempts=4,
)


# ---- Sharkey: packages/backend/src/server/api/endpoints/notes/translate.ts and HttpRequestService.ts


def _sharkey_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    """node-fetch with an agent that keeps connections; a form, without a source."""
    body = form_bytes(("text", text), ("target_lang", target))
    headers = [
        ("Accept", "application/json, */*"),
        ("Accept-Encoding", "gzip, deflate, br"),
        ("Content-Length", str(len(body))),
        ("Content-Type", FORM),
        ("User-Agent", "Misskey/2025.4.4 (https://sharkey.example.org)"),
        ("Host", "{host}"),
        ("Connection", "keep-alive"),
    ]
    return RawRequest("POST", with_token(PATH, key), headers, body)


def _sharkey_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise Shown("Failed to translate note.")
    real_language(answer.json()["source_lang"])
    return deeplx_data(answer)


SHARKEY = Tool(
    "Sharkey DeepLX",
    "1e2355d",
    "DeepLX-JS URL: http://HOST:8000/deeplx/translate",
    per_text(_sharkey_write),
    _sharkey_read,
    refused_shown("Failed to translate note."),
)


# ---- SillyTavern: src/endpoints/translate.js


def _sillytavern_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    body = json_bytes({"text": text, "source_lang": "auto", "target_lang": target})
    headers = [
        ("Accept", JSON),
        ("Content-Type", JSON),
        ("Content-Length", str(len(body))),
        ("User-Agent", "node-fetch"),
        ("Accept-Encoding", "gzip, deflate, br"),
        ("Connection", "close"),
        ("Host", "{host}"),
    ]
    return RawRequest("POST", with_token(PATH, key), headers, body)


def _sillytavern_read(answer: Answer) -> list[str]:
    """Its server passes the status on; its page shows the phrase."""
    if not answer.ok:
        raise Shown(f"Error: {answer.reason}")
    return deeplx_data(answer)


SILLYTAVERN = Tool(
    "SillyTavern DeepLX",
    "ba6f7b7, September 2024",
    "DeepLX, Custom URL: http://HOST:8000/deeplx/translate",
    per_text(_sillytavern_write, str),
    _sillytavern_read,
    refused_shown("Error: {reason}"),
    keeps_alive=False,
)


# ---- Pot: src/services/translate/deepl/index.jsx


def _pot_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    body = json_bytes({"source_lang": source, "target_lang": target, "text": text})
    return tauri_request("POST", with_token(PATH, key), body)


def _pot_read(answer: Answer) -> list[str]:
    found = answer.json()
    if not answer.ok:
        raise Shown(f"Http Request Error\nHttp Status: {answer.status}\n{found}")
    if not found["data"]:
        raise Shown(f"{found}")
    return deeplx_data(answer)


POT = Tool(
    "Pot DeepLX",
    "1bbaddb8, May 2026",
    "DeepL, Type: DeepLX, Custom URL: http://HOST:8000/deeplx/translate",
    per_text(_pot_write),
    _pot_read,
    refused_shown("Http Request Error\nHttp Status: {status}\n*"),
    source="auto",
    target="FR",
)


# ---- kiss-translator: src/apis/trans.js and src/libs/response.js, from the background page


def kiss_failed(answer: Answer) -> Shown:
    """The whole response, as JSON."""
    return Shown(f"{answer.status} {answer.reason} {answer.json()}")


KISS_SHOWN = refused_shown("{status} *")


def _kiss_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    body = json_bytes({"text": text, "target_lang": target, "source_lang": source})
    key_header = [("Authorization", f"Bearer {key}")] if key else []
    return chrome_fetch("POST", PATH, body, headers=[("Content-type", JSON), *key_header])


def _kiss_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise kiss_failed(answer)
    assert answer.json()["source_lang"] == "EN"
    return deeplx_data(answer)


KISS = Tool(
    "KISS Translator DeepLX",
    "97c08cf, August 2026",
    "DeepLX, URL: http://HOST:8000/deeplx/translate, KEY",
    per_text(_kiss_write, str),
    _kiss_read,
    KISS_SHOWN,
    source="auto",
    target="FR",
)


# ---- Zotero, with zotero-pdf-translate: src/modules/services/deeplcustom.ts


def _zotero_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    body = json_bytes({"text": text, "source_lang": source, "target_lang": target})
    return zotero_request(with_token(PATH, key), body, [("Content-Type", "application/json; charset=utf-8")])


def _zotero_read(answer: Answer) -> list[str]:
    zotero_ok(answer)
    return deeplx_data(answer)


ZOTERO = Tool(
    "Translate for Zotero DeepLX",
    "ac91aca, August 2026",
    "DeepL (custom), Endpoint: http://HOST:8000/deeplx/translate",
    per_text(_zotero_write),
    _zotero_read,
    ZOTERO_SHOWN,
    source="EN",
    target="FR",
    unserved="XX",
)


# ---- FluentRead: entrypoints/service/deeplx.ts, from the background page


def _fluentread_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    body = json_bytes({"text": text, "source_lang": "AUTO", "target_lang": target.upper()})
    key_header = [("Authorization", f"Bearer {key}")] if key else []
    return chrome_fetch("POST", PATH, body, JSON, key_header)


def _fluentread_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise Shown(f"HTTP {answer.status} {answer.reason}, {answer.text[:200]}")
    found = answer.json()
    assert found["code"] == 200
    if not found["data"].strip():
        raise Shown("no translation")
    return deeplx_data(answer)


FLUENTREAD = Tool(
    "FluentRead DeepLX",
    "f799b6b, August 2026",
    "DeepLX: http://HOST:8000/deeplx/translate, Token",
    per_text(_fluentread_write),
    _fluentread_read,
    messages_shown("HTTP * *{}*", {**MESSAGES, "pair": "XX"}),
)


# ---- PDFMathTranslate: pdf2zh/translator.py


def _pdf2zh_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    body = json_bytes({"source_lang": source, "target_lang": target, "text": text}, ascii_only=True, spaces=True)
    return python_requests("POST", with_token(PATH, key), body, JSON)


def _pdf2zh_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise Shown(f"{answer.status} Client Error: {answer.reason} for url")
    return deeplx_data(answer)


PDF2ZH = Tool(
    "PDFMathTranslate DeepLX",
    "ad6dd92, November 2025",
    "DEEPLX_ENDPOINT=http://HOST:8000/deeplx/translate and DEEPLX_ACCESS_TOKEN",
    per_text(_pdf2zh_write),
    _pdf2zh_read,
    refused_shown("{status} Client Error: *"),
)


# ---- LunaTranslator: src/LunaTranslator/translator/_deepl.py


def _luna_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    """Its own requests, by libcurl."""
    body = json_bytes({"text": text, "source_lang": source, "target_lang": target}, ascii_only=True, spaces=True)
    headers = [
        ("Host", "{host}"),
        ("User-Agent", "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko)"),
        ("Accept-Encoding", "gzip, deflate"),
        ("Accept", "*/*"),
        ("Connection", "keep-alive"),
        ("Content-Type", JSON),
        ("Content-Length", str(len(body))),
    ]
    return RawRequest("POST", with_token(PATH, key), headers, body)


def _luna_read(answer: Answer) -> list[str]:
    """Whatever the status."""
    if "data" not in answer.json():
        raise Shown("https://github.com/OwO-Network/DeepLX/issues/179")
    return deeplx_data(answer)


LUNA = Tool(
    "LunaTranslator DeepLX",
    "c7940af0, August 2026",
    "DeepLX, api: http://HOST:8000/deeplx/translate",
    per_text(_luna_write),
    _luna_read,
    refused_shown("https://github.com/OwO-Network/DeepLX/issues/179"),
    source="EN",
    target="FR",
    unserved="XX",
)


# ---- STranslate: src/STranslate/ViewModels/Preference/Translator/TranslatorDeepLX.cs and HttpUtil.cs


def stranslate_failed(answer: Answer, message: object) -> Shown:
    """The phrase, then what it takes from the body."""
    return Shown(f"{answer.reason} {message}".strip())


def stranslate_request(target: str, body: object, headers: Headers = ()) -> RawRequest:
    return dotnet("POST", target, json_bytes(body), "application/json; charset=utf-8", headers)


def _stranslate_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    body: dict[str, Any] = {"text": text, "source_lang": source, "target_lang": target}
    return stranslate_request(PATH, body, [("Authorization", f"Bearer {key}")] if key else [])


def _stranslate_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise stranslate_failed(answer, answer.json().get("message", ""))
    return deeplx_data(answer)


STRANSLATE = Tool(
    "STranslate DeepLX",
    "92f09c9, October 2025",
    "DeepLX, API: http://HOST:8000/deeplx/translate, Token",
    per_text(_stranslate_write),
    _stranslate_read,
    messages_shown("* {}", {**MESSAGES, "pair": "*XX*"}),
    source="EN",
    target="FR",
    unserved="XX",
)


# ---- Bob, with bob-plugin-deeplx: src/main.js


def _bob_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    """By macOS; without a token there is only `Bearer`, with a blank."""
    body = json_bytes({"text": text, "source_lang": source, "target_lang": target})
    headers = [
        ("Host", "{host}"),
        ("Content-Type", JSON),
        ("Connection", "keep-alive"),
        ("Accept", "*/*"),
        ("User-Agent", "Bob/1.15.2 CFNetwork/1568.200.51 Darwin/24.1.0"),
        ("Authorization", f"Bearer {key or ''}"),
        ("Content-Length", str(len(body))),
        ("Accept-Language", "en-US,en;q=0.9"),
        ("Accept-Encoding", "gzip, deflate"),
    ]
    return RawRequest("POST", PATH, headers, body)


def _bob_read(answer: Answer) -> list[str]:
    """It has no message for other errors: its window goes on waiting."""
    if answer.status != 200 or not answer.json()["data"]:
        raise Shown(
            {401: "Access denied", 406: "Unsupported target languages", 429: "Too many requests"}.get(answer.status, "")
        )
    assert isinstance(answer.json()["alternatives"], list | None)
    return deeplx_data(answer)


BOB = Tool(
    "Bob DeepLX",
    "bob-plugin-deeplx df0b7aa, August 2024",
    "DeepLX, URL: http://HOST:8000/deeplx/translate, Token",
    per_text(_bob_write),
    _bob_read,
    {"pair": "", "no key": "Access denied", "wrong key": "Access denied", "rate": "Too many requests", "busy": ""},
    source="EN",
    target="FR",
    unserved="XX",
)


# ---- A script, such as those of DeepLX's manual: JSON as httpx writes a string, without a Content-Type


def _script_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    body = json_bytes({"text": text, "source_lang": source, "target_lang": target}, ascii_only=True, spaces=True)
    key_header = [("Authorization", f"Bearer {key}")] if key else []
    request = node_fetch("POST", PATH, body, headers=key_header)
    return request


def _script_read(answer: Answer) -> list[str]:
    found = answer.json()
    assert found["code"] == answer.status
    if not answer.ok:
        raise Shown(found["message"])
    assert set(found) == {"code", "id", "data", "alternatives", "source_lang", "target_lang", "method"}
    assert isinstance(found["id"], int)
    return deeplx_data(answer)


SCRIPT = Tool(
    "a DeepLX script",
    "the manual of DeepLX 5e04163, December 2025",
    "http://HOST:8000/deeplx/translate",
    per_text(_script_write, lambda text: True),
    _script_read,
    messages_shown(messages={**MESSAGES, "pair": "*XX*"}),
    source="EN",
    target="FR",
    unserved="XX",
)

TOOLS = [
    SUBTITLE_EDIT,
    SHARKEY,
    SILLYTAVERN,
    POT,
    KISS,
    ZOTERO,
    FLUENTREAD,
    PDF2ZH,
    LUNA,
    STRANSLATE,
    BOB,
    SCRIPT,
]
