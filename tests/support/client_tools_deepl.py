"""Tools that speak DeepL's API, for tests/app/api/test_client_transcripts.py; written from their public sources."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from client_tools_libretranslate import SHARKEY_FAILED, guzzle, weblate_read
from client_transcripts import (
    DEEPL_ERRORS,
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
    deepl_shown,
    dotnet,
    dotnet_json,
    form_bytes,
    json_bytes,
    node_http,
    php_json,
    python_requests,
    status_fields,
    status_shown,
)

BASE = "/deepl"
URL = "http://HOST:8000/deepl"


# ---- What several have in common


def translated(answer: Answer) -> list[str]:
    found = answer.json()["translations"]
    assert all(each["detected_source_language"] == "EN" for each in found if each["text"].strip())
    return [each["text"] for each in found]


def authorization(key: str | None) -> tuple[str, str]:
    """These require a key; what is not one is not needed where the service has none."""
    return "Authorization", f"DeepL-Auth-Key {key or ''}"


def source_languages(answer: Answer) -> None:
    assert {"EN", "FR"} <= {each["language"] for each in answer.json()}


def target_languages(answer: Answer) -> None:
    """Clients that refuse plain English find its variants."""
    listed = answer.json()
    assert {"EN-GB", "EN-US", "FR", "DE"} <= {each["language"] for each in listed}
    assert {each["language"] for each in listed if each["supports_formality"]} == {"FR", "DE"}


def usage(answer: Answer) -> None:
    assert answer.json()["character_count"] < answer.json()["character_limit"]


def deepl_error(answer: Answer) -> str:
    """How DeepL's own libraries word a response for their exceptions."""
    kinds = {
        400: "Bad request",
        403: "Authorization failure, check {key}",
        429: "Too many requests, DeepL servers are currently experiencing high load",
        503: "Service unavailable",
    }
    found = answer.json()
    kind = kinds.get(answer.status, "Unexpected status code: {code}")
    return f"{kind}, message: {found['message']}, detail: {found['detail']}"


SDK_SHOWN = {
    **{kind: f"Bad request, message: {DEEPL_ERRORS[kind]}, detail: *" for kind in ("pair", "too long")},
    **{
        kind: f"Authorization failure, check {{key}}, message: {DEEPL_ERRORS[kind]}, detail: *"
        for kind in ("no key", "wrong key")
    },
    "rate": f"Too many requests, *, message: {DEEPL_ERRORS['rate']}, detail: *",
    "busy": f"Service unavailable, message: {DEEPL_ERRORS['busy']}, detail: *",
    "too long": f"Unexpected status code: {{code}}, message: {DEEPL_ERRORS['too long']}, detail: *",
}


# ---- Weblate: weblate/machinery/deepl.py and base.py, as in tests/app/api/test_weblate.py


def _weblate(method: str, path: str, key: str | None, body: bytes = b"") -> RawRequest:
    found = python_requests(method, f"{BASE}/v2{path}", body, JSON if body else "")
    headers = [line for line in found.headers[1:] if line[0] not in ("User-Agent", "Accept")]
    own = [("User-Agent", "Weblate/5.15"), ("Accept", "application/json; charset=utf-8")]
    lines = [found.headers[0], *own, ("Referer", "https://example.org/"), authorization(key), *headers]
    return RawRequest(method, found.target, lines, body)


def _weblate_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """All texts in one list, as XML."""
    asked = [text for text in texts if text]
    body = {
        **{"text": asked, "source_lang": source, "target_lang": target, "formality": "default"},
        **{"tag_handling": "xml", "ignore_tags": ["x"], "context": "An application."},
    }
    written = json_bytes(body, ascii_only=True, spaces=True)
    return [_weblate("POST", "/translate", key, written)] if asked else []


def _weblate_read(answer: Answer) -> list[str]:
    return translated(answer) if answer.ok else weblate_read(answer)


WEBLATE = Tool(
    "Weblate DeepL",
    "5, 01c5add9",
    f"API URL: {URL}/v2",
    _weblate_translate,
    _weblate_read,
    deepl_shown("* Error: * for url: *: {{'message': *{}*"),
    [
        Step(lambda key: _weblate("GET", "/languages?enable_beta_languages=1&type=source", key), source_languages),
        Step(lambda key: _weblate("GET", "/languages?enable_beta_languages=1&type=target", key), target_languages),
        Step(
            lambda key: _weblate("GET", "/glossary-language-pairs", key),
            lambda answer: answer.json()["supported_languages"],
        ),
    ],
    keeps_alive=False,
    source="EN",
    target="FR",
    unserved="XX",
)


# ---- Subtitle Edit: src/libuilogic/AutoTranslate/DeepLTranslate.cs


def _subtitle_edit_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """The path is absolute: one in the URL is lost. French has forms of address, so `formality` is sent."""
    return [
        dotnet(
            "POST",
            "/v2/translate",
            form_bytes(
                ("text", text),
                ("target_lang", target),
                ("source_lang", source.split("-")[0]),
                *([("formality", "default")] if target == "fr" else []),
            ),
            FORM,
            [authorization(key or "any")],
        )
        for text in texts
        if text.strip()
    ]


def _subtitle_edit_read(answer: Answer) -> list[str]:
    if answer.status == 403:
        raise Shown(f"Forbidden! \r\n\r\n{answer.text}")
    if not answer.ok:
        raise Shown(
            "DeepL failed with status code {status} ({name})\r\n\r\n".format(**status_fields(answer.status))
            + answer.text
        )
    return translated(answer)


SUBTITLE_EDIT = Tool(
    "Subtitle Edit DeepL",
    "5c98fbdf, August 2026",
    "URL: http://HOST:8000, with INTERLINEAR_ROOT_API=deepl, and any key",
    _subtitle_edit_translate,
    _subtitle_edit_read,
    {
        **deepl_shown("DeepL failed with status code * (*)\r\n\r\n*{}*"),
        "no key": f"Forbidden! \r\n\r\n*{DEEPL_ERRORS['wrong key']}*",
        "wrong key": f"Forbidden! \r\n\r\n*{DEEPL_ERRORS['wrong key']}*",
    },
    root_api="deepl",
    connections=1,
    attempts=4,
    source="en-GB",
)


# ---- Sharkey: packages/backend/src/server/api/endpoints/notes/translate.ts, with a key and an instance of one's own


def _sharkey_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    headers = [("Content-Type", FORM), ("Accept", "application/json, */*"), authorization(key or "any")]
    return [
        node_http(
            "POST", f"{BASE}/v2/translate", form_bytes(("text", text), ("target_lang", target)), headers, "Sharkey"
        )
        for text in texts
        if text
    ]


def _sharkey_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise Shown(SHARKEY_FAILED)
    return translated(answer)


SHARKEY = Tool(
    "Sharkey DeepL",
    "1e2355d",
    f"DeepLX-JS mode with the URL {URL}/v2/translate, and any key",
    _sharkey_translate,
    _sharkey_read,
    status_shown(SHARKEY_FAILED),
)


# ---- LiveCaptions-Translator: src/apis/TranslateAPI.cs


def _live_captions_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    return [
        dotnet(
            "POST",
            f"{BASE}/v2/translate",
            dotnet_json({"text": [text], "target_lang": target}),
            "application/json; charset=utf-8",
            [authorization(key)],
        )
        for text in texts
        if text.strip()
    ]


def _live_captions_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise Shown("[ERROR] Translation Failed: HTTP Error - {name}".format(**status_fields(answer.status)))
    return translated(answer)


LIVE_CAPTIONS = Tool(
    "LiveCaptions-Translator DeepL",
    "7a6fe4a, July 2026",
    f"API URL: {URL}/v2/translate",
    _live_captions_translate,
    _live_captions_read,
    status_shown("[ERROR] Translation Failed: HTTP Error - {name}", too_long=413),
    connections=2,
    target="FR",
)


# ---- LibreOffice: linguistic/source/translate.cxx, with libcurl

NOTHING = "(the text stays as it is)"


def _libreoffice_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """A paragraph at a time; the key is a field of the form, `tag_handling` part of the URL in its settings."""
    found = []
    for text in texts:
        fields = {"auth_key": key or "any", "target_lang": target, "text": text}
        body = "&".join(f"{name}={quote(value, safe='-._~')}" for name, value in fields.items()).encode()
        agent = "LibreOffice 26.2.0.3 libcurl/8.17.0 OpenSSL/3.5.4"
        found.append(curl("POST", f"{BASE}/v2/translate?tag_handling=html", body, FORM, agent=agent))
    return [request for request, text in zip(found, texts, strict=True) if text.strip()]


def _libreoffice_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise Shown(NOTHING)
    return translated(answer)[:1]


LIBREOFFICE = Tool(
    "LibreOffice",
    "translate.cxx, 045bef39",
    f"API URL: {URL}/v2/translate?tag_handling=html, and any key",
    _libreoffice_translate,
    _libreoffice_read,
    status_shown(NOTHING),
    connections=1,
    keeps_alive=False,
    target="FR",
)


# ---- Easydict: Easydict/Swift/Service/DeepL/DeepLService+Translate.swift, by Alamofire, which sorts fields


def _easydict_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """A text a request; `auto` where it could not detect the language itself."""
    found = []
    for text in texts:
        fields = {"source_lang": source, "target_lang": target, "text": text}
        body = "&".join(f"{name}={quote(value, safe='-._~')}" for name, value in fields.items()).encode()
        headers = [
            ("Host", "{host}"),
            ("Content-Type", f"{FORM}; charset=utf-8"),
            ("Connection", "keep-alive"),
            ("Accept", "*/*"),
            ("User-Agent", "Easydict/2.17.0 (com.izual.Easydict; build:100; macOS 26.0.0) Alamofire/5.10.2"),
            authorization(key or "any"),
            ("Accept-Language", "en-US;q=1.0"),
            ("Content-Length", str(len(body))),
            ("Accept-Encoding", "br;q=1.0, gzip;q=0.9, deflate;q=0.8"),
        ]
        found.append(RawRequest("POST", f"{BASE}/v2/translate", headers, body))
    return [request for request, text in zip(found, texts, strict=True) if text.strip()]


def _easydict_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise Shown(f"Response status code was unacceptable: {answer.status}.")
    return translated(answer)[:1]


EASYDICT = Tool(
    "Easydict",
    "db250b32, June 2026",
    f"DeepL, API endpoint: {URL}/v2/translate, and any key",
    _easydict_translate,
    _easydict_read,
    status_shown("Response status code was unacceptable: {status}.", too_long=413),
    source="auto",
    target="FR",
)


# ---- KISS Translator: src/apis/trans.js


def _kiss_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """Ten texts a request; an empty source language is to be detected."""
    found = []
    for start in range(0, len(texts), 10):
        body = {"text": list(texts[start : start + 10]), "target_lang": target, "source_lang": source}
        headers = [("Content-type", JSON), authorization(key)]
        found.append(chrome_fetch("POST", f"{BASE}/v2/translate", json_bytes(body), headers=headers))
    return found if "".join(texts) else []


def _kiss_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise Shown(f"{answer.status} {answer.json()}")
    return translated(answer)


KISS = Tool(
    "KISS Translator DeepL",
    "97c08cf, August 2026",
    f"DeepL, URL: {URL}/v2/translate",
    _kiss_translate,
    _kiss_read,
    deepl_shown("* {{*{}*"),
    connections=6,
    source="",
    target="FR",
)


# ---- deepl-dotnet: DeepL/Translator.cs and DeepL/Internal/DeepLHttpClient.cs


def _dotnet_headers(key: str | None) -> Headers:
    return [("User-Agent", "deepl-dotnet/1.21.0 (Unix 6.1) dotnet-clr/10.0.0"), authorization(key or "any")]


def _dotnet_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """One form with all texts. It refuses empty ones itself."""
    fields = [("target_lang", target), ("source_lang", source), ("show_billed_characters", "1")]
    body = form_bytes(*fields, *[("text", text) for text in texts])
    return [dotnet("POST", f"{BASE}/v2/translate", body, FORM, _dotnet_headers(key))] if all(texts) else []


def _sdk_read(answer: Answer, key: str, code: str) -> list[str]:
    if not answer.ok:
        raise Shown(deepl_error(answer).replace("{key}", key).replace("{code}", code))
    assert all(each["billed_characters"] >= 0 for each in answer.json()["translations"])
    return translated(answer)


def _sdk_shown(key: str, code: str) -> dict[str, str]:
    """`no key` is any that the service does not know: these refuse to have none."""
    found = {kind: shown.replace("{key}", key).replace("{code}", code) for kind, shown in SDK_SHOWN.items()}
    return {**found, "no key": found["wrong key"]}


DOTNET = Tool(
    "deepl-dotnet",
    "6cae4c1, April 2026",
    f'new TranslatorOptions {{ ServerUrl = "{URL}" }}, and any key',
    _dotnet_translate,
    lambda answer: _sdk_read(answer, "AuthKey", "RequestEntityTooLarge"),
    _sdk_shown("AuthKey", "RequestEntityTooLarge"),
    [
        Step(lambda key: dotnet("GET", f"{BASE}/v2/usage", headers=[("Accept", JSON), *_dotnet_headers(key)]), usage),
        Step(
            lambda key: dotnet(
                "GET", f"{BASE}/v2/languages?type=target", headers=[("Accept", JSON), *_dotnet_headers(key)]
            ),
            target_languages,
        ),
    ],
    attempts=6,
    source="en",
)


# ---- deepl-php: src/Translator.php and src/HttpClientWrapper.php, with PHP's curl


def _php(method: str, path: str, key: str | None, body: bytes = b"") -> RawRequest:
    own = [authorization(key or "any"), ("User-Agent", "deepl-php/1.19.0 (Linux 6.1) php/8.4.1 curl/8.14.1")]
    lines = [("Host", "{host}"), ("Accept", "*/*"), *own]
    length = [("Content-Type", JSON), ("Content-Length", str(len(body)))] if body else []
    return RawRequest(method, BASE + path, [*lines, *length], body)


def _php_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    body = {"target_lang": target, "source_lang": source, "show_billed_characters": True, "text": list(texts)}
    return [_php("POST", "/v2/translate", key, php_json(body))]


PHP = Tool(
    "deepl-php",
    "1.19.0, bde58fa",
    f"['server_url' => '{URL}'], and any key",
    _php_translate,
    lambda answer: _sdk_read(answer, "authentication key", "413 "),
    {
        **_sdk_shown("authentication key", "413 "),
    },
    [
        Step(lambda key: _php("GET", "/v2/usage", key), usage),
        Step(lambda key: _php("GET", "/v2/languages?type=source", key), source_languages),
        Step(lambda key: _php("GET", "/v2/languages?type=target", key), target_languages),
    ],
    attempts=5,
    source="en",
)


# ---- deepl-rb: lib/deepl/requests/, with Ruby's Net::HTTP


def _ruby(method: str, path: str, key: str | None, body: Any) -> RawRequest:
    """A GET has a body in JSON, too."""
    written = json_bytes(body)
    headers = [
        authorization(key or "any"),
        ("User-Agent", "deepl-ruby/3.8.0 (linux-gnu) ruby/3.4.7"),
        ("Content-Type", JSON),
        ("Accept-Encoding", "gzip;q=1.0,deflate;q=0.6,identity;q=0.3"),
        ("Accept", "*/*"),
        ("Host", "{host}"),
        ("Connection", "close"),
        ("Content-Length", str(len(written))),
    ]
    return RawRequest(method, f"{BASE}/v2{path}", headers, written)


def _ruby_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    body = {"text": list(texts), "source_lang": source, "target_lang": target}
    return [_ruby("POST", "/translate", key, body)]


def _ruby_read(answer: Answer) -> list[str]:
    if answer.ok:
        return translated(answer)
    messages = {
        400: answer.json()["message"],
        403: "Authorization failed. Please supply a valid auth_key parameter.",
        413: "Request entity too large.",
        429: "Limit exceeded. Please wait and send your request once again.",
        503: "An internal server error occured. Try again after waiting a short period.",
    }
    raise Shown(messages[answer.status])


RUBY = Tool(
    "deepl-rb",
    "3.8.0, bcec403",
    f"config.host = '{URL}', and any key",
    _ruby_translate,
    _ruby_read,
    {
        "pair": DEEPL_ERRORS["pair"],
        "too long": "Request entity too large.",
        **dict.fromkeys(("no key", "wrong key"), "Authorization failed. Please supply a valid auth_key parameter."),
        "rate": "Limit exceeded. Please wait and send your request once again.",
        "busy": "An internal server error occured. Try again after waiting a short period.",
    },
    [
        Step(lambda key: _ruby("GET", "/usage", key, {}), usage),
        Step(lambda key: _ruby("GET", "/languages", key, {}), source_languages),
        Step(lambda key: _ruby("GET", "/languages", key, {"type": "target"}), target_languages),
    ],
    keeps_alive=False,
    attempts=6,
    retried=(429,),
    source="EN",
    target="FR",
)


# ---- deepl-rs: src/endpoint/translate.rs, with reqwest


def _rust_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """Options that are not set are null."""
    unset = ("split_sentences", "preserve_formatting", "formality", "glossary_id", "tag_handling", "model_type")
    lists = ("non_splitting_tags", "splitting_tags", "ignore_tags")
    body = {"context": None, "source_lang": source, **dict.fromkeys((*unset, *lists))}
    # serde_json sorts the fields of a value.
    written = json_bytes(dict(sorted({**body, "text": list(texts), "target_lang": target}.items())))
    headers = [
        ("authorization", authorization(key or "any")[1]),
        ("content-type", JSON),
        ("accept", "*/*"),
        ("host", "{host}"),
        ("content-length", str(len(written))),
    ]
    return [RawRequest("POST", f"{BASE}/v2/translate", headers, written)]


def _rust_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise Shown(f"{answer.status} {answer.reason} {answer.text}")
    return translated(answer)


RUST = Tool(
    "deepl-rs",
    "0.8.0, 2592802",
    "none: api.deepl.com is fixed",
    _rust_translate,
    _rust_read,
    {**deepl_shown("* {{*{}*"), "no key": f"403 Forbidden *{DEEPL_ERRORS['wrong key']}*"},
    source="EN",
    target="FR",
)


# ---- deepl-cli: src/api/http-client.ts and src/api/translation-client.ts, with axios


def _cli(method: str, path: str, key: str | None, body: bytes = b"") -> RawRequest:
    headers = [
        ("Accept", "application/json, text/plain, */*"),
        *([("Content-Type", FORM)] if method != "GET" else []),
        authorization(key or "any"),
    ]
    return node_http(method, BASE + path, body, headers, "deepl-cli/1.2.0 node/24.11.1")


def _cli_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """`deepl translate --preserve-formatting`; several files are one batch."""
    fields = [("target_lang", target.upper()), ("source_lang", source.upper()), ("preserve_formatting", "1")]
    body = form_bytes(*[("text", text) for text in texts], *fields)
    return [_cli("POST", "/v2/translate", key, body)] if "".join(texts).strip() else []


def _cli_read(answer: Answer) -> list[str]:
    if answer.ok:
        return translated(answer)
    messages = {
        403: "Authentication failed: Invalid API key",
        429: "Rate limit exceeded: Too many requests",
        503: "Service temporarily unavailable: Please try again later",
    }
    message = messages.get(answer.status, f"API error: {json.loads(answer.text)['message']}")
    raise Shown(f"{message} (Trace ID: {answer.headers['x-trace-id']})")


CLI = Tool(
    "deepl-cli",
    "1.2.0, a68154a",
    "api.baseUrl: http://localhost:8000/deepl, or an https one, and any key",
    _cli_translate,
    _cli_read,
    {
        **deepl_shown("API error: {} (Trace ID: *)"),
        **dict.fromkeys(("no key", "wrong key"), "Authentication failed: Invalid API key (Trace ID: *)"),
        "rate": "Rate limit exceeded: Too many requests (Trace ID: *)",
        "busy": "Service temporarily unavailable: Please try again later (Trace ID: *)",
    },
    [
        Step(lambda key: _cli("GET", "/v2/usage", key), usage),
        Step(lambda key: _cli("GET", "/v2/languages?type=source", key), source_languages),
        Step(lambda key: _cli("GET", "/v2/languages?type=target", key), target_languages),
    ],
    connections=10,
    attempts=4,
)

# ---- LinguaCafe: app/Services/DictionaryService.php, with Guzzle


def _linguacafe_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    return [
        guzzle(
            f"{BASE}/v2/translate",
            {"text": [text], "source_lang": source, "target_lang": target},
            authorization(key or "any"),
        )
        for text in texts
        if text.strip()
    ]


def _linguacafe_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise Shown("error")
    return translated(answer)


LINGUACAFE = Tool(
    "LinguaCafe DeepL",
    "c1ea298, March 2025",
    f"DeepL host: {URL}/v2, and any key",
    _linguacafe_translate,
    _linguacafe_read,
    status_shown("error"),
    source="EN",
    target="FR",
)

TOOLS = [
    WEBLATE,
    SUBTITLE_EDIT,
    SHARKEY,
    LIVE_CAPTIONS,
    LIBREOFFICE,
    EASYDICT,
    KISS,
    DOTNET,
    PHP,
    RUBY,
    RUST,
    CLI,
    LINGUACAFE,
]
