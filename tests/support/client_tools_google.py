"""Tools that speak Google's or Azure's API, for tests/app/api/test_client_transcripts.py; from their public sources,
and what
the clients of PyPI and npm send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

from client_tools_deeplx import (
    KISS_SHOWN,
    MESSAGES,
    ZOTERO_SHOWN,
    kiss_failed,
    messages_shown,
    per_text,
    stranslate_failed,
    stranslate_request,
    tauri_request,
    zotero_ok,
    zotero_request,
)
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
    json_bytes,
    python_httpx,
)

V2 = "/google/language/translate/v2"
SINGLE = "/google/translate_a/single"
AZURE = "/azure/translate?api-version=3.0"


def segments(answer: Answer) -> list[str]:
    """The translation in the lists of translate_a/single."""
    return ["".join(segment[0] for segment in answer.json()[0] if segment and segment[0])]


# ---- JetBrains IDEs, with TranslationPlugin: trans/google/GoogleTranslator.kt and GoogleTranslation.kt


def _jetbrains_write(target: str, text: str) -> RawRequest:
    """HttpURLConnection; the text alone is in the form."""
    body = urlencode({"q": text}).encode()
    headers = [
        ("Accept", JSON),
        ("Accept-Encoding", "gzip"),
        (
            "User-Agent",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/145.0.0.0",
        ),
        ("Referer", "https://translate.google.com/"),
        ("Content-Type", FORM),
        ("Cache-Control", "no-cache"),
        ("Pragma", "no-cache"),
        ("Host", "{host}"),
        ("Connection", "keep-alive"),
        ("Content-Length", str(len(body))),
    ]
    return RawRequest("POST", target, headers, body)


def _jetbrains_single(text: str, source: str, target: str, key: str | None) -> RawRequest:
    kinds = "&dt=t&dt=bd&dt=rm&dt=qca&dt=ex"
    rest = f"sl={source}&tl={target}&client=gtx{kinds}&dj=1&ie=UTF-8&oe=UTF-8&hl={target}&tk=466116.73230"
    return _jetbrains_write(f"{SINGLE}?{rest}", text)


def _jetbrains_failed(answer: Answer) -> None:
    if not answer.ok:
        raise Shown(
            {429: "Too many requests", 400: "Bad request", 503: "Service unavailable"}.get(answer.status, answer.reason)
        )


def _jetbrains_read(answer: Answer) -> list[str]:
    """Into objects without null, whose fields all have to be there."""
    _jetbrains_failed(answer)
    found = answer.json()
    assert found["src"] and isinstance(found["src"], str)
    detected = found["ld_result"]
    assert all(isinstance(code, str) for code in detected["srclangs"])
    assert all(isinstance(number, float | int) for number in detected["srclangs_confidences"])
    assert not found.get("dict") and "spell_res" in found.get("spell", {"spell_res": ""})
    for sentence in found["sentences"]:
        assert isinstance(sentence["orig"], str) and isinstance(sentence["backend"], int)
    return ["".join(sentence["trans"] for sentence in found["sentences"])]


_JETBRAINS_SHOWN = {
    "pair": "Bad request",
    "no key": "Unauthorized",
    "rate": "Too many requests",
    "busy": "Service unavailable",
}

JETBRAINS = Tool(
    "TranslationPlugin",
    "773f89e8, February 2026",
    "Google, custom server: http://HOST:8000/google",
    per_text(_jetbrains_single),
    _jetbrains_read,
    _JETBRAINS_SHOWN,
    takes_key=False,
    source="auto",
)


def _jetbrains_documentation(text: str, source: str, target: str, key: str | None) -> RawRequest:
    rest = f"sl={source}&tl={target}&client=te_lib&format=html&tk=466116.73230"
    return _jetbrains_write(f"/google/translate_a/t?{rest}", text)


def _jetbrains_documentation_read(answer: Answer) -> list[str]:
    """The first list that begins with a text: the translation, and perhaps the language."""
    _jetbrains_failed(answer)
    found: Any = answer.json()
    while isinstance(found[0], list):
        found = found[0]
    assert found[1:] == ["en"]
    return [found[0]]


JETBRAINS_DOCUMENTATION = Tool(
    "TranslationPlugin documentation",
    "773f89e8, February 2026",
    "Google, custom server: http://HOST:8000/google",
    per_text(_jetbrains_documentation),
    _jetbrains_documentation_read,
    _JETBRAINS_SHOWN,
    takes_key=False,
    source="auto",
)


# ---- Zotero, with zotero-pdf-translate: src/modules/services/google.ts


def _zotero_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    kinds = "".join(f"&dt={kind}" for kind in ("at", "bd", "ex", "ld", "md", "qca", "rw", "rm", "ss", "t"))
    rest = f"client=gtx&sl={source}&tl={target}&hl=en{kinds}&source=bh&ssel=0&tsel=0&kc=1&tk=466116.73230"
    escaped = quote(text, safe="!'()*-._~")
    return zotero_request(f"{SINGLE}?{rest}&q={escaped}", b"", (), "GET")


def _zotero_read(answer: Answer) -> list[str]:
    zotero_ok(answer)
    return segments(answer)


ZOTERO = Tool(
    "Translate for Zotero Google",
    "ac91aca, August 2026",
    "Google, secret: http://HOST:8000/google",
    per_text(_zotero_write),
    _zotero_read,
    ZOTERO_SHOWN,
    takes_key=False,
    source="en-US",
)


# ---- kiss-translator: src/apis/trans.js; query-string sorts the fields


def _kiss_google(text: str, source: str, target: str, key: str | None) -> RawRequest:
    rest = urlencode(
        {"client": "gtx", "dj": 1, "dt": "t", "ie": "UTF-8", "q": text, "sl": source, "tl": target}, quote_via=quote
    )
    key_header = [("Authorization", f"Bearer {key}")] if key else []
    return chrome_fetch("GET", f"{SINGLE}?{rest}", headers=[("Content-type", JSON), *key_header])


def _kiss_google_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise kiss_failed(answer)
    assert answer.json()["src"] == "en"
    return [" ".join(sentence["trans"] for sentence in answer.json()["sentences"])]


KISS_GOOGLE = Tool(
    "KISS Translator Google",
    "97c08cf, August 2026",
    "Google, URL: http://HOST:8000/google/translate_a/single, KEY",
    per_text(_kiss_google),
    _kiss_google_read,
    KISS_SHOWN,
    source="auto",
)


def _kiss_azure(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """Several texts in a request; `from` is empty, and so are headers without a value."""
    headers = [("Content-type", JSON), ("Ocp-Apim-Subscription-Key", key or ""), ("Ocp-Apim-Subscription-Region", "")]
    asked = [{"Text": text} for text in texts if text]
    url = f"{AZURE}&from={source}&to={target}"
    return [chrome_fetch("POST", url, json_bytes(asked), headers=headers)] if asked else []


def _kiss_azure_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise kiss_failed(answer)
    assert all(item["detectedLanguage"]["language"] == "en" for item in answer.json())
    return [" ".join(each["text"] for each in item["translations"]) for item in answer.json()]


KISS_AZURE = Tool(
    "KISS Translator Azure",
    "97c08cf, August 2026",
    "Azure AI, URL: http://HOST:8000/azure/translate?api-version=3.0, KEY",
    _kiss_azure,
    _kiss_azure_read,
    {**KISS_SHOWN, "too long": "400 *"},
    source="",
)


# ---- Pot: src/services/translate/google/index.jsx


def _pot_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    kinds = "&".join(f"dt={kind}" for kind in ("at", "bd", "ex", "ld", "md", "qca", "rw", "rm", "ss", "t"))
    names = {"client": "gtx", "sl": source, "tl": target, "hl": target, "ie": "UTF-8", "oe": "UTF-8", "otf": "1"}
    rest = urlencode({**names, "ssel": "0", "tsel": "0", "kc": "7", "q": text})
    return tauri_request("GET", f"{SINGLE}?{kinds}&{rest}")


def _pot_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise Shown(f"Http Request Error\nHttp Status: {answer.status}\n{answer.json()}")
    found = answer.json()
    assert found[1] is None, "it would read entries of a dictionary"
    return segments(answer)


POT = Tool(
    "Pot Google",
    "4e78b50b",
    "Google, Custom URL: http://HOST:8000/google",
    per_text(_pot_write),
    _pot_read,
    {
        "pair": "*Http Status: 400\n*",
        "no key": "*Http Status: 401\n*",
        "rate": "*Http Status: 429\n*",
        "busy": "*Http Status: 503\n*",
    },
    takes_key=False,
    source="auto",
)


# ---- Comment Translate for VS Code: src/translate/GoogleTranslate.ts, google-translate-token-with-mirror


def _got_request(target: str) -> RawRequest:
    headers = [
        (
            "user-agent",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/70.0.3538.102",
        ),
        ("accept", JSON),
        ("accept-encoding", "gzip, deflate, br"),
        ("Host", "{host}"),
        ("Connection", "keep-alive"),
    ]
    return RawRequest("GET", target, headers)


def _comment_translate_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    kinds = [("dt", kind) for kind in ("at", "bd", "ex", "ld", "md", "qca", "rw", "rm", "ss", "t")]
    rest = [("ie", "UTF-8"), ("oe", "UTF-8"), ("otf", "1"), ("ssel", "0"), ("tsel", "0"), ("kc", "7"), ("q", text)]
    names = [("client", "gtx"), ("sl", source), ("tl", target), ("hl", target)]
    return _got_request(f"{SINGLE}?{urlencode([*names, *kinds, *rest, ('tk', '466116.73230')], quote_via=quote)}")


def _comment_translate_page(answer: Answer) -> None:
    """It looks for a number in the page of the mirror, and can do without, but not without a page."""
    if not answer.ok:
        raise Shown("BAD_NETWORK")


def _comment_translate_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise Shown(f"HTTPError: Response code {answer.status} ({answer.reason})")
    return segments(answer)


COMMENT_TRANSLATE = Tool(
    "Comment Translate Google",
    "MTranCode 19c0702, 2025",
    "googleTranslate.mirror: http://HOST:8000/google",
    per_text(_comment_translate_write),
    _comment_translate_read,
    {
        "pair": "HTTPError: Response code 400 *",
        "no key": "HTTPError: Response code 401 *",
        "rate": "HTTPError: Response code 429 *",
        "busy": "HTTPError: Response code 503 *",
    },
    [Step(lambda key: _got_request("/google"), _comment_translate_page)],
    takes_key=False,
    source="auto",
)


# ---- Google's own clients


def google_message(answer: Answer) -> str:
    """`error.message`, in an error of Google's form."""
    error = answer.json()["error"]
    assert error["code"] == answer.status and error["errors"][0]["message"] == error["message"]
    return str(error["message"])


def _google_python_request(method: str, path: str, body: object = None, key: str | None = None) -> RawRequest:
    sent = b"" if body is None else json_bytes(body, ascii_only=True, spaces=True)
    client = "gl-python/3.11.7 grpc/1.85.3 gax/2.44.0 gapic/3.28.0 gccl/3.28.0"
    headers = [
        ("Host", "{host}"),
        ("User-Agent", client),
        ("Accept-Encoding", "gzip"),
        ("Accept", "*/*"),
        ("Connection", "keep-alive"),
        *([("Content-Type", JSON)] if sent else []),
        ("X-Goog-Api-Client", client),
        *([("X-Goog-Api-Key", key)] if key else []),
        *([("Content-Length", str(len(sent)))] if sent else []),
    ]
    return RawRequest(method, f"{V2}{path}prettyPrint=false", headers, sent)


def _google_python_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """With the format that is the default, HTML."""
    body = {"target": target, "q": list(texts), "cid": [], "format": None, "source": source, "model": None}
    return [_google_python_request("POST", "?", body, key)]


def _google_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise Shown(f"{answer.status} POST {google_message(answer)}")
    return [item["translatedText"] for item in answer.json()["data"]["translations"]]


def _google_languages(answer: Answer) -> None:
    languages = answer.json()["data"]["languages"]
    assert {"language": "fr", "name": "French"} in languages


def _google_detected(answer: Answer) -> None:
    (((detected,),),) = (answer.json()["data"]["detections"],)
    assert detected["language"] == "en" and 0 <= detected["confidence"] <= 1


def _google_shown(wording: str) -> dict[str, str]:
    statuses = {"pair": 400, "too long": 413, "no key": 401, "wrong key": 401, "rate": 429, "busy": 503}
    return {kind: wording.format(status, MESSAGES[kind]) for kind, status in statuses.items()}


GOOGLE_PYTHON = Tool(
    "google-cloud-translate Python",
    "3.28.0 of PyPI, translate_v2",
    'Client(client_options={"api_endpoint": "http://HOST:8000/google"})',
    _google_python_translate,
    _google_read,
    _google_shown("{} POST {}"),
    [
        Step(lambda key: _google_python_request("GET", "/languages?target=en&", key=key), _google_languages),
        Step(
            lambda key: _google_python_request("POST", "/detect?", {"q": ["Hello, my friend."]}, key), _google_detected
        ),
    ],
)


def _google_node_request(method: str, path: str, query: str, key: str | None, body: object = None) -> RawRequest:
    sent = b"" if body is None else json_bytes(body)
    headers = [
        ("accept", "*/*"),
        ("accept-encoding", "gzip, deflate, br"),
        *([("content-length", str(len(sent))), ("content-type", JSON)] if sent else []),
        ("user-agent", "gcloud-node-translate/9.4.2"),
        ("Host", "{host}"),
        ("Connection", "keep-alive"),
    ]
    return RawRequest(method, f"{V2}{path}?{query}key={key or 'none'}", headers, sent)


def _google_node_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    body = {"q": list(texts), "format": "text", "source": source, "target": target}
    return [_google_node_request("POST", "", "", key, body)]


GOOGLE_NODE = Tool(
    "google-cloud-translate Node",
    "@google-cloud/translate 9.4.2 of npm, v2",
    "GOOGLE_CLOUD_TRANSLATE_ENDPOINT=http://HOST:8000/google/language/translate/v2",
    _google_node_translate,
    _google_read,
    _google_shown("{} POST {}") | {"no key": f"401 POST {MESSAGES['wrong key']}"},
    [
        Step(lambda key: _google_node_request("GET", "/languages", "target=en&", key), _google_languages),
        Step(
            lambda key: _google_node_request("POST", "/detect", "", key, {"q": ["Hello, my friend."]}), _google_detected
        ),
    ],
    attempts=4,
)


# ---- Weblate: weblate/machinery/microsoft.py and base.py


def _weblate_request(method: str, target: str, body: bytes = b"", headers: Headers = ()) -> RawRequest:
    own = [
        ("User-Agent", "Weblate/5.15"),
        ("Referer", "https://weblate.example.org/"),
        ("Accept", "application/json; charset=utf-8"),
    ]
    return python_httpx(method, target, body, JSON if body else "", [*own, *headers])


def _weblate_token(key: str | None) -> RawRequest:
    return _weblate_request("POST", f"/azure/sts/v1.0/issueToken?Subscription-Key={key or 'none'}")


def _weblate_token_demand(answer: Answer) -> None:
    """The response's text is the token."""
    assert answer.ok and answer.text
    assert answer.text.isascii() and '"' not in answer.text


def _weblate_languages(answer: Answer) -> None:
    assert {"en", "fr"} <= set(answer.json()["translation"])


def _weblate_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """A text a request, with the token, which is the key."""
    headers = [("Authorization", f"Bearer {key or 'none'}")]
    url = f"{AZURE}&from={source}&to={target}&category=general"
    return [_weblate_request("POST", url, json_bytes([{"Text": text[:5000]}]), headers) for text in texts if text]


def _weblate_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise Shown(azure_message(answer))
    return [answer.json()[0]["translations"][0]["text"]]


def azure_message(answer: Answer) -> str:
    """`error.message`, in an error of Azure's form."""
    error = answer.json()["error"]
    assert int(error["code"]) // 1000 == answer.status
    return str(error["message"])


WEBLATE = Tool(
    "Weblate Azure",
    "19117864",
    "Azure AI Translator, Base URL: HOST/azure, Endpoint URL: HOST/azure; behind TLS, without http:// or https://",
    _weblate_translate,
    _weblate_read,
    {kind: shown for kind, shown in MESSAGES.items() if kind != "too long"} | {"no key": MESSAGES["wrong key"]},
    [
        Step(_weblate_token, _weblate_token_demand),
        Step(
            lambda key: _weblate_request(
                "GET", "/azure/languages?api-version=3.0", headers=[("Authorization", f"Bearer {key or 'none'}")]
            ),
            _weblate_languages,
        ),
    ],
)


# ---- Azure's own clients; pdf2zh goes by the first


def _azure_request(method: str, target: str, version: str, key: str | None, body: object = None) -> RawRequest:
    sent = b"" if body is None else json_bytes(body, ascii_only=True, spaces=True)
    headers = [
        ("Host", "{host}"),
        ("User-Agent", f"azsdk-python-ai-translation-text/{version} Python/3.11.7 (Linux-6.18-x86_64-with-glibc2.36)"),
        ("Accept-Encoding", "gzip, deflate"),
        ("Accept", JSON),
        ("Connection", "keep-alive"),
        *([("Content-Type", JSON), ("Content-Length", str(len(sent)))] if sent else []),
        ("x-ms-client-request-id", "4e9d3f0e-ec55-11f1-988c-02fc00000001"),
        ("Ocp-Apim-Subscription-Key", key or "none"),
    ]
    return RawRequest(method, target, headers, sent)


def _azure_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    url = f"/azure/translate?to={target}&from={source}&api-version=3.0"
    return [_azure_request("POST", url, "1.0.1", key, [{"text": text} for text in texts])]


def _azure_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise Shown(f"({answer.status}) {azure_message(answer)}")
    found = answer.json()
    assert all("detectedLanguage" not in item for item in found)
    assert {each["to"] for item in found for each in item["translations"]} == {"fr"}
    return [item["translations"][0]["text"] for item in found]


def _azure_languages(answer: Answer) -> None:
    french = answer.json()["translation"]["fr"]
    assert french == {"name": "French", "nativeName": french["nativeName"], "dir": "ltr"}


_AZURE_SHOWN = messages_shown("(*) {}") | {"no key": f"(401) {MESSAGES['wrong key']}"}

AZURE_PYTHON = Tool(
    "azure-ai-translation-text 1",
    "1.0.1 of PyPI",
    'TextTranslationClient(endpoint="http://HOST:8000/azure", credential=AzureKeyCredential("KEY"))',
    _azure_translate,
    _azure_read,
    _AZURE_SHOWN,
    [Step(lambda key: _azure_request("GET", "/azure/languages?api-version=3.0", "1.0.1", key), _azure_languages)],
    attempts=4,
)


def _azure_2_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """The API of June 2026."""
    body = {"inputs": [{"text": text, "language": source, "targets": [{"language": target}]} for text in texts]}
    return [_azure_request("POST", "/azure/translate?api-version=2026-06-06", "2.0.0", key, body)]


def _azure_2_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise Shown(f"({answer.status}) {azure_message(answer)}")
    found = [item["translations"][0] for item in answer.json()["value"]]
    assert {each["language"] for each in found} == {"fr"}
    return [each["text"] for each in found]


AZURE_PYTHON_2 = Tool(
    "azure-ai-translation-text 2",
    "2.0.0 of PyPI",
    AZURE_PYTHON.setting,
    _azure_2_translate,
    _azure_2_read,
    _AZURE_SHOWN,
    [
        Step(
            lambda key: _azure_request("GET", "/azure/languages?api-version=2026-06-06", "2.0.0", key),
            _weblate_languages,
        )
    ],
    attempts=4,
)


# ---- STranslate: src/STranslate/ViewModels/Preference/Translator/TranslatorMicrosoft.cs


def _stranslate_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    headers = [("Ocp-Apim-Subscription-Key", key or "none"), ("Ocp-Apim-Subscription-Region", "eastasia")]
    return stranslate_request(f"{AZURE}&to={target}&from={source}", [{"text": text}], headers)


def _stranslate_read(answer: Answer) -> list[str]:
    """It has a line of its own for each of Azure's numbers, which it looks up as digits."""
    if not answer.ok:
        raise stranslate_failed(answer, answer.json()["error"]["code"])
    return [answer.json()[0]["translations"][0]["text"]]


STRANSLATE = Tool(
    "STranslate Microsoft",
    "92f09c9, October 2025",
    "Microsoft, API: http://HOST:8000/azure, Key",
    per_text(_stranslate_write),
    _stranslate_read,
    {
        "pair": "Bad Request 400*",
        "no key": "Unauthorized 401000",
        "wrong key": "Unauthorized 401000",
        "rate": "Too Many Requests 429*",
        "busy": "Service Unavailable 503000",
    },
)

TOOLS = [
    JETBRAINS,
    JETBRAINS_DOCUMENTATION,
    ZOTERO,
    KISS_GOOGLE,
    KISS_AZURE,
    POT,
    COMMENT_TRANSLATE,
    GOOGLE_PYTHON,
    GOOGLE_NODE,
    WEBLATE,
    AZURE_PYTHON,
    AZURE_PYTHON_2,
    STRANSLATE,
]
