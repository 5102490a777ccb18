"""Tools that speak LibreTranslate's API, for tests/test_client_transcripts.py; written from their public sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from client_transcripts import (
    JSON,
    Answer,
    RawRequest,
    Shown,
    Step,
    Tool,
    dotnet,
    json_bytes,
    libretranslate_shown,
    python_httpx,
)

BASE = "/libretranslate"


def languages(answer: Answer) -> None:
    """A list with codes, among them those of the transcripts."""
    assert {"en", "fr"} <= {each["code"] for each in answer.json()}


# ---- Weblate: weblate/machinery/libretranslate.py and base.py


def _weblate_headers() -> list[tuple[str, str]]:
    return [
        ("User-Agent", "Weblate/5.15"),
        ("Referer", "https://weblate.example.org/"),
        ("Accept", "application/json; charset=utf-8"),
    ]


def _weblate_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """Texts in batches; duplicates and empty ones are left out before."""
    asked = [text for text in texts if text]
    body = json_bytes({"api_key": key or "", "q": asked, "source": source, "target": target})
    return [python_httpx("POST", f"{BASE}/translate", body, JSON, _weblate_headers())] if asked else []


def _weblate_read(answer: Answer) -> list[str]:
    """raise_for_status, whose message is followed by the `error` or `message` of the response."""
    found = answer.json()
    if not answer.ok:
        raise Shown(f"{found.get('error') or found.get('message')}")
    translations: list[str] = found["translatedText"]
    return translations


WEBLATE = Tool(
    "Weblate",
    "19117864, 2026",
    "API URL: http://HOST:8000/libretranslate/",
    _weblate_translate,
    _weblate_read,
    libretranslate_shown(),
    [Step(lambda key: python_httpx("GET", f"{BASE}/languages", headers=_weblate_headers()), languages)],
)


# ---- Mastodon: app/lib/translation_service/libre_translate.rb and app/lib/request.rb, by http.rb


def _mastodon_request(method: str, path: str, body: bytes = b"") -> RawRequest:
    headers = [
        ("Content-Type", JSON),
        ("User-Agent", "Mastodon/4.5.0 (http.rb/5.3.1; +https://mastodon.example.org/)"),
        ("Date", "Sun, 29 Nov 2026 12:00:00 GMT"),
        ("Accept-Encoding", "gzip"),
        ("Connection", "Keep-Alive"),
        ("Host", "{host}"),
        *([("Content-Length", str(len(body)))] if body else []),
    ]
    return RawRequest(method, BASE + path, headers, body)


def _mastodon_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """All texts of a post in one list."""
    body = {"q": list(texts), "source": source, "target": target, "format": "html", "api_key": key}
    return [_mastodon_request("POST", "/translate", json_bytes(body))]


def _mastodon_read(answer: Answer) -> list[str]:
    if answer.status == 429:
        raise Shown("Translation::TooManyRequestsError")
    if answer.status == 403:
        raise Shown("Translation::QuotaExceededError")
    if not answer.ok:
        raise Shown("Translation::UnexpectedResponseError")
    found: list[str] = answer.json()["translatedText"]
    return found


def _mastodon_languages(answer: Answer) -> None:
    targets = {each["code"]: [code for code in each["targets"] if code != each["code"]] for each in answer.json()}
    assert "fr" in targets["en"]


MASTODON = Tool(
    "Mastodon",
    "bcba029, 2026",
    "LIBRE_TRANSLATE_ENDPOINT=http://HOST:8000/libretranslate",
    _mastodon_translate,
    _mastodon_read,
    {
        "pair": "Translation::UnexpectedResponseError",
        "no key": "Translation::QuotaExceededError",
        "wrong key": "Translation::QuotaExceededError",
        "rate": "Translation::TooManyRequestsError",
        "busy": "Translation::UnexpectedResponseError",
    },
    [Step(lambda key: _mastodon_request("GET", "/languages"), _mastodon_languages)],
)


# ---- Subtitle Edit: src/libuilogic/AutoTranslate/LibreTranslate.cs


def _subtitle_edit_translate(texts: Sequence[str], source: str, target: str, key: str | None) -> list[RawRequest]:
    """One text a request, its JSON put together by hand, with blanks."""

    def written(text: str) -> bytes:
        escaped = text.strip().replace("\\", "\\\\").replace('"', '\\"').replace("\n", "<br />")
        part = f', "api_key": "{key}"' if key else ""
        return f'{{"q": "{escaped}", "source": "{source}", "target": "{target}"{part}}}'.encode()

    accept = [("accept", JSON)]
    return [dotnet("POST", f"{BASE}/translate", written(text), JSON, accept) for text in texts if text.strip()]


def _subtitle_edit_read(answer: Answer) -> list[str]:
    """EnsureSuccessStatusCode: the body goes into its log alone."""
    if not answer.ok:
        raise Shown(f"Response status code does not indicate success: {answer.status}")
    return [answer.json()["translatedText"].strip()]


def status_shown(wording: str, **others: int) -> dict[str, str]:
    """What a tool shows that puts the status into `wording`."""
    statuses: dict[str, Any] = {"pair": 400, "no key": 403, "wrong key": 403, "rate": 429, "busy": 503, **others}
    return {kind: wording.format(status) for kind, status in statuses.items()}


SUBTITLE_EDIT = Tool(
    "Subtitle Edit",
    "5c98fbdf, 22 August 2026",
    "URL: http://HOST:8000/libretranslate/, with the slash",
    _subtitle_edit_translate,
    _subtitle_edit_read,
    status_shown("Response status code does not indicate success: {}"),
    connections=1,
)

TOOLS = [WEBLATE, MASTODON, SUBTITLE_EDIT]
