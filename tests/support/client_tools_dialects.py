"""Tools that speak the APIs of MTranServer, Immersive Translate, KISS Translator, hcfy, nllb-serve or a plain GET, for
tests/app/api/test_client_transcripts.py; written from their public sources."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, quote_plus

from client_tools_deeplx import (
    KISS_SHOWN,
    ZOTERO_SHOWN,
    kiss_failed,
    messages_shown,
    per_text,
    refused_shown,
    stranslate_failed,
    stranslate_request,
    with_token,
    zotero_ok,
    zotero_request,
)
from client_transcripts import (
    JSON,
    Answer,
    RawRequest,
    Shown,
    Step,
    Tool,
    chrome_fetch,
    dotnet,
    json_bytes,
    libretranslate_shown,
    python_httpx,
    status_fields,
)

# ---- MTranServer


def _mtranserver_result(answer: Answer) -> list[str]:
    return [answer.json()["result"]]


# Zotero, with zotero-pdf-translate: src/modules/services/mtranserver.ts


def _zotero_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    """The key alone in its header, which is empty without one."""
    headers = [("authorization", key or ""), ("content-type", JSON)]
    body = json_bytes({"text": text, "from": source, "to": target})
    return zotero_request("/mtranserver/translate", body, headers)


def _zotero_read(answer: Answer) -> list[str]:
    zotero_ok(answer)
    return _mtranserver_result(answer)


ZOTERO = Tool(
    "Translate for Zotero MTranServer",
    "ac91aca, August 2026",
    "MTranServer, Endpoint: http://HOST:8000/mtranserver/translate, secret: the key",
    per_text(_zotero_write),
    _zotero_read,
    ZOTERO_SHOWN,
)


# LiveCaptions-Translator: src/apis/TranslateAPI.cs


def _live_captions_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    """`Bearer` is always there; .NET leaves out a blank at the end."""
    body = json_bytes({"text": text, "to": target, "from": source})
    headers = [("Authorization", f"Bearer {key or ''}".strip())]
    return dotnet("POST", "/mtranserver/translate", body, "application/json; charset=utf-8", headers)


def _live_captions_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise Shown(f"[ERROR] Translation Failed: HTTP Error - {status_fields(answer.status)['name']}")
    return _mtranserver_result(answer)


LIVE_CAPTIONS = Tool(
    "LiveCaptions-Translator MTranServer",
    "7a6fe4a, July 2026",
    "MTranServer, API Url: http://HOST:8000/mtranserver/translate, API Key",
    per_text(_live_captions_write),
    _live_captions_read,
    refused_shown("[ERROR] Translation Failed: HTTP Error - {name}"),
    unserved="nl-NL",
)


# STranslate: src/STranslate/ViewModels/Preference/Translator/TranslatorMTranServer.cs


def _stranslate_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    return stranslate_request(with_token("/mtranserver/translate", key), {"from": source, "to": target, "text": text})


def _stranslate_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise stranslate_failed(answer, answer.json().get("error", ""))
    return _mtranserver_result(answer)


STRANSLATE = Tool(
    "STranslate MTranServer",
    "92f09c9, October 2025",
    "MTranServer, API: http://HOST:8000/mtranserver/translate",
    per_text(_stranslate_write),
    _stranslate_read,
    messages_shown("* {}"),
)


# MTranCode: src/translate/MTranServerTranslate.ts


def _mtrancode_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    """got 11."""
    body = json_bytes({"from": "auto", "to": target, "text": text, "html": False})
    headers = [
        ("user-agent", "got (https://github.com/sindresorhus/got)"),
        ("accept", JSON),
        ("content-type", JSON),
        ("content-length", str(len(body))),
        ("accept-encoding", "gzip, deflate, br"),
        ("Host", "{host}"),
        ("Connection", "keep-alive"),
    ]
    return RawRequest("POST", "/mtranserver/translate", headers, body)


def _mtrancode_read(answer: Answer) -> list[str]:
    """Any error is an empty translation."""
    if not answer.ok or not answer.json().get("result"):
        raise Shown("")
    return _mtranserver_result(answer)


MTRANCODE = Tool(
    "MTranCode",
    "19c0702, 2025",
    "apiUrl: http://HOST:8000/mtranserver",
    per_text(_mtrancode_write),
    _mtrancode_read,
    refused_shown(""),
    takes_key=False,
)


# A program of one's own, by MTranServer's manual


def _mtranserver_request(
    method: str, path: str, body: object = None, key: str | None = None, header: str = "X-API-Token"
) -> RawRequest:
    sent = b"" if body is None else json_bytes(body)
    key_header = [(header, key)] if key else []
    return python_httpx(method, f"/mtranserver{path}", sent, JSON if sent else "", key_header)


def _mtranserver_batch(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    body = {"from": source, "to": target, "texts": list(texts), "html": False}
    return [_mtranserver_request("POST", "/translate/batch", body, key)]


def _mtranserver_batch_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise Shown(answer.json()["error"])
    found: list[str] = answer.json()["results"]
    return found


def _mtranserver_languages(answer: Answer) -> None:
    found = answer.json()
    assert {"en", "fr"} <= set(found["languages"])
    assert {"from": "en", "to": "fr"} in found["pairs"]


def _mtranserver_detected(answer: Answer) -> None:
    found = answer.json()
    assert found["language"] == "en" and 0 <= found["confidence"] <= 1


def _mtranserver_version(answer: Answer) -> None:
    assert all(number.isdigit() for number in answer.json()["version"].split(".")[:2])


MTRANSERVER = Tool(
    "a MTranServer script",
    "the manual of MTranServer 4.0.33, January 2026",
    "http://HOST:8000/mtranserver",
    _mtranserver_batch,
    _mtranserver_batch_read,
    messages_shown(),
    [
        Step(lambda key: _mtranserver_request("GET", "/version"), _mtranserver_version),
        Step(lambda key: _mtranserver_request("GET", "/languages", key=key), _mtranserver_languages),
        Step(
            lambda key: _mtranserver_request(
                "POST", "/detect", {"text": "Hello, my friend.", "minConfidence": 0}, key, "Authorization"
            ),
            _mtranserver_detected,
        ),
    ],
)


# ---- Immersive Translate, whose custom API is documented; from the extension's background page


def _immersive_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """Up to eight paragraphs in a request; there is no field for a key."""
    asked = [text for text in texts if text.strip()]
    groups = [asked[start : start + 8] for start in range(0, len(asked), 8)]
    path = with_token("/immersive/translate", key)
    return [
        chrome_fetch("POST", path, json_bytes({"source_lang": source, "target_lang": target, "text_list": group}), JSON)
        for group in groups
    ]


def _immersive_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise Shown(f"{answer.status}: {answer.text}")
    found = answer.json()["translations"]
    assert {item["detected_source_lang"] for item in found} == {"en"}
    return [item["text"] for item in found]


IMMERSIVE = Tool(
    "Immersive Translate",
    "its manual, 2026",
    "Custom API: http://HOST:8000/immersive/translate",
    _immersive_translate,
    _immersive_read,
    refused_shown("{status}: *"),
    source="auto",
)


# ---- KISS Translator, custom API: custom-api_v2.md, src/apis/trans.js


def _kiss_request(body: object, key: str | None) -> RawRequest:
    """`Bearer` is always there; browsers leave out a blank at the end."""
    headers = [("Content-type", JSON), ("Authorization", f"Bearer {key or ''}".strip())]
    return chrome_fetch("POST", "/kiss/translate", json_bytes(body), headers=headers)


def _kiss_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    return _kiss_request({"text": text, "from": source, "to": target}, key)


def _kiss_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise kiss_failed(answer)
    assert answer.json()["src"] == "en"
    return [answer.json()["text"]]


KISS = Tool(
    "KISS Translator",
    "97c08cf, August 2026",
    "Custom, URL: http://HOST:8000/kiss/translate, KEY",
    per_text(_kiss_write, str),
    _kiss_read,
    KISS_SHOWN,
    source="auto",
)


def _kiss_batch(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """Up to twenty texts in a request."""
    asked = [text for text in texts if text]
    groups = [asked[start : start + 20] for start in range(0, len(asked), 20)]
    return [_kiss_request({"texts": group, "from": source, "to": target}, key) for group in groups]


def _kiss_batch_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise kiss_failed(answer)
    found = answer.json()
    items = found["translations"] if isinstance(found, dict) else found
    assert all(isinstance(item["src"], str) for item in items)
    return [item["text"] for item in items]


KISS_BATCH = Tool(
    "KISS Translator aggregated",
    KISS.version,
    f"{KISS.setting}, aggregated requests",
    _kiss_batch,
    _kiss_batch_read,
    KISS_SHOWN,
    source="auto",
)


# ---- hcfy, whose custom source is documented; from the extension's background page


def _hcfy_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    body = {"name": "Interlinear", "text": text, "destination": [target, "中文(简体)"], "source": source}
    return chrome_fetch("POST", with_token("/hcfy/translate", key), json_bytes(body), JSON)


def _hcfy_read(answer: Answer) -> list[str]:
    """A paragraph for each line."""
    if not answer.ok:
        raise Shown(f"{answer.status} {answer.reason}")
    found = answer.json()
    assert (found["from"], found["to"]) == ("英语", "法语") and found["text"]
    return ["\n".join(found["result"])]


HCFY = Tool(
    "hcfy",
    "its manual, 2026",
    "自定义翻译源: http://HOST:8000/hcfy/translate",
    per_text(_hcfy_write),
    _hcfy_read,
    refused_shown("{status} *"),
    source="英语",
    target="法语",
    unserved="世界语",
)


# ---- nllb-serve


def _nllb_serve_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise Shown(f"Response status code does not indicate success: {answer.status} ({answer.reason}).")
    found = answer.json()
    assert isinstance(found["source"], list) and found["tgt_lang"] == "fra_Latn"
    return ["\n".join(found["translation"]).strip()]


# Subtitle Edit: src/libuilogic/AutoTranslate/NoLanguageLeftBehindServe.cs


def _subtitle_edit_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    """A list of lines, the JSON put together by hand, with blanks."""
    lines = ", ".join(json_bytes(line).decode() for line in text.split("\n"))
    body = f'{{"source":[{lines}], "src_lang": "{source}", "tgt_lang": "{target}"}}'.encode()
    return dotnet("POST", "/nllb/translate", body, JSON, [("accept", JSON)])


SUBTITLE_EDIT = Tool(
    "Subtitle Edit nllb-serve",
    "5c98fbdf, August 2026",
    "URL: http://HOST:8000/nllb",
    per_text(_subtitle_edit_write),
    _nllb_serve_read,
    refused_shown("Response status code does not indicate success: {status} (*)."),
    takes_key=False,
    source="eng_Latn",
    target="fra_Latn",
    unserved="ace_Latn",
)


# Zotero, with zotero-pdf-translate: src/modules/services/nllb.ts


def _zotero_nllb_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    body = json_bytes({"source": text, "src_lang": source, "tgt_lang": target})
    return zotero_request("/nllb/translate", body, [("content-type", JSON)])


def _zotero_nllb_read(answer: Answer) -> list[str]:
    zotero_ok(answer)
    return [answer.json()["translation"][0]]


ZOTERO_NLLB = Tool(
    "Translate for Zotero nllb-serve",
    "ac91aca, August 2026",
    "NLLB, nllb-serve, serve endpoint: http://HOST:8000/nllb",
    per_text(_zotero_nllb_write),
    _zotero_nllb_read,
    ZOTERO_SHOWN,
    takes_key=False,
    source="eng_Latn",
    target="fra_Latn",
    unserved="ace_Latn",
)


# ---- A plain GET


# XUnity.AutoTranslator: src/Translators/CustomTranslate/CustomTranslateEndpoint.cs


def _xunity_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    """Mono's WebClient. A key in the URL's own query makes a second question mark."""
    url = with_token("/plain/translate", key, "key")
    escaped = quote(text, safe="-._~")
    headers = [("Host", "{host}"), ("Connection", "keep-alive")]
    return RawRequest("GET", f"{url}?from={source}&to={target}&text={escaped}", headers)


def _xunity_read(answer: Answer) -> list[str]:
    """The body, whatever its type, but in the encoding that it names."""
    if not answer.ok:
        raise Shown(
            f"Error occurred while retrieving translation. The remote server returned an error: ({answer.status})"
        )
    assert answer.headers["content-type"].replace(" ", "").lower() == "text/plain;charset=utf-8"
    return [answer.text]


XUNITY = Tool(
    "XUnity.AutoTranslator",
    "5.6.0, 765b2bc",
    "Endpoint=CustomTranslate, Url=http://HOST:8000/plain/translate",
    per_text(_xunity_write),
    _xunity_read,
    refused_shown("* The remote server returned an error: ({status})"),
)


# OmegaT, with the plugin FakeMT: FakeMT.java; org.omegat.util.WikiGet


def _omegat_write(text: str, source: str, target: str, key: str | None) -> RawRequest:
    """HttpURLConnection of Java 17, closed after each response."""
    url = with_token("/omegat/translate", key, "key")
    headers = [
        ("User-Agent", "Java/17.0.12"),
        ("Host", "{host}"),
        ("Accept", "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"),
        ("Connection", "keep-alive"),
    ]
    return RawRequest("GET", f"{url}?source={source}&target={target}&text={quote_plus(text)}", headers)


def _omegat_read(answer: Answer) -> list[str]:
    """An error is shown in the place of the translation; without a charset it would take the text for ISO 8859-1."""
    if not answer.ok:
        raise Shown(f"{answer.status}: {answer.reason}")
    is_ascii = answer.body.isascii()
    assert is_ascii or answer.headers["content-type"].lower().endswith("charset=utf-8")
    return [answer.json()["translation"]]


OMEGAT = Tool(
    "OmegaT FakeMT",
    "d16d29b, 2023",
    "URL: http://HOST:8000/omegat/translate",
    per_text(_omegat_write),
    _omegat_read,
    refused_shown("{status}: *"),
    keeps_alive=False,
    source="EN-US",
    target="FR-FR",
    unserved="XX",
)


# ---- LTEngine, through Weblate: weblate/machinery/libretranslate.py, with a text a request


def _ltengine_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    headers = [
        ("User-Agent", "Weblate/5.15"),
        ("Referer", "https://weblate.example.org/"),
        ("Accept", "application/json; charset=utf-8"),
    ]
    bodies = [{"api_key": key or "", "q": text, "source": source, "target": target} for text in texts if text]
    return [python_httpx("POST", "/libretranslate/translate", json_bytes(body), JSON, headers) for body in bodies]


def _ltengine_read(answer: Answer) -> list[str]:
    if not answer.ok:
        raise Shown(answer.json()["error"])
    return [answer.json()["translatedText"]]


LTENGINE = Tool(
    "Weblate LTEngine",
    "01c5add9",
    "LTEngine, API URL: http://HOST:8000/libretranslate/",
    _ltengine_translate,
    _ltengine_read,
    libretranslate_shown(),
)

TOOLS = [
    ZOTERO,
    LIVE_CAPTIONS,
    STRANSLATE,
    MTRANCODE,
    MTRANSERVER,
    IMMERSIVE,
    KISS,
    KISS_BATCH,
    HCFY,
    SUBTITLE_EDIT,
    ZOTERO_NLLB,
    XUNITY,
    OMEGAT,
    LTENGINE,
]
