"""app/api/: Weblate's own sequences: what it sends to LibreTranslate's and to DeepL's API, and how it reads the
answers.

Written from weblate/machinery/base.py, libretranslate.py and deepl.py of Weblate 5.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from deepl_clients import plainly
from servers import WAIT_S
from shared_fixtures import listening, make_bundle

pytestmark = pytest.mark.slow

HEADERS = {"Referer": "http://weblate.example.org/", "Accept": "application/json; charset=utf-8"}
PLACEHOLDERS = re.compile(r"%\(\w+\)s|%[sd]|\{\w*\}|<[^>]+>")
"""What Weblate's checks would highlight in these strings."""
STRINGS = [
    "Hello %s, how are you?",
    "You have {count} new messages.",
    "Delete %(name)s?",
    "%d of %d files",
    "Saved to {}.",
    "How are you?",
]


class Weblate:
    """A machinery: the steps that both have in common."""

    def __init__(self, url: str, key: str = "") -> None:
        self.base, self.key = url.rstrip("/"), key

    def request(self, method: str, path: str, **options: Any) -> Any:
        headers = {**HEADERS, **self.headers()}
        answer = httpx.request(method, f"{self.base}/{path}", headers=headers, timeout=WAIT_S, **options)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def headers(self) -> dict[str, str]:
        return {}

    def languages(self) -> set[tuple[str, str]]:
        """Pairs of codes."""
        raise NotImplementedError

    def download(self, texts: list[str], source: str, target: str) -> dict[str, str]:
        raise NotImplementedError

    def marker(self, start: int) -> str:
        return f"[X{start}X]"

    def escaped(self, text: str) -> str:
        return text

    def restored(self, text: str, markers: dict[str, str]) -> str:
        """The text with its placeholders, where a blank may stand before a marker's last character."""
        for marker, placeholder in markers.items():
            pattern = f"{re.escape(marker[:-1])} *{re.escape(marker[-1:])}"
            assert len(re.findall(pattern, text)) == 1, (marker, text)
            before, after = re.split(pattern, text)
            text = before + placeholder + after
        return text

    def translate(self, strings: list[str], source: str, target: str) -> list[str]:
        """What a translator is shown for strings."""
        assert (source, target) in self.languages()
        cleaned = [self._cleaned(each) for each in strings]
        found = self.download(list(dict.fromkeys(text for text, _ in cleaned)), source, target)
        return [self.restored(found[text], markers) for text, markers in cleaned]

    def _cleaned(self, string: str) -> tuple[str, dict[str, str]]:
        parts, markers, end = [], {}, 0
        for match in PLACEHOLDERS.finditer(string):
            marker = self.marker(match.start())
            parts += [self.escaped(string[end : match.start()]), marker]
            markers[marker], end = self.escaped(match[0]), match.end()
        return "".join([*parts, self.escaped(string[end:])]), markers


class LibreTranslate(Weblate):
    def languages(self) -> set[tuple[str, str]]:
        codes = [each["code"] for each in self.request("GET", "languages")]
        return {(source, target) for source in codes for target in codes if source != target}

    def download(self, texts: list[str], source: str, target: str) -> dict[str, str]:
        body = {"api_key": self.key, "q": texts, "source": source, "target": target}
        return dict(zip(texts, self.request("POST", "translate", json=body)["translatedText"], strict=True))


class DeepL(Weblate):
    glossary: str | None = None

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"DeepL-Auth-Key {self.key}"}

    def languages(self) -> set[tuple[str, str]]:
        beta = {"enable_beta_languages": "1"}
        sources = [each["language"] for each in self.request("GET", "languages", params={**beta, "type": "source"})]
        listed = self.request("GET", "languages", params={**beta, "type": "target"})
        targets = {"EN", *(each["language"].upper() for each in listed)}  # plain English is not listed
        assert {each["language"] for each in listed if each["supports_formality"]} <= {"DE", "ES", "FR"}
        return {(source, target) for source in sources for target in targets}

    def download(self, texts: list[str], source: str, target: str) -> dict[str, str]:
        body = {
            **{"text": texts, "source_lang": source, "target_lang": target, "formality": "default"},
            **{"tag_handling": "xml", "ignore_tags": ["x"], "context": "An application."},
            **({"glossary_id": self.glossary} if self.glossary else {}),
            "model_type": "prefer_quality_optimized",
        }
        found = self.request("POST", "translate", json=body)["translations"]
        return dict(zip(texts, (each["text"] for each in found), strict=True))

    def marker(self, start: int) -> str:
        return f'<x id="{start}"></x>'

    def escaped(self, text: str) -> str:
        return html.escape(text)

    def restored(self, text: str, markers: dict[str, str]) -> str:
        for marker, placeholder in markers.items():
            assert text.count(marker) == 1, (marker, text)
            text = text.replace(marker, placeholder)
        return html.unescape(text)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("weblate")
    make_bundle(folder / "en-fr")
    make_bundle(folder / "en-de", "en", "de", seed=1)  # when its settings are saved, it tries these two languages
    with listening(folder) as url:
        yield url


@pytest.fixture(params=[LibreTranslate, DeepL])
def machinery(request: pytest.FixtureRequest, url: str) -> Weblate:
    kind: type[Weblate] = request.param
    return kind(f"{url}/libretranslate/") if kind is LibreTranslate else kind(f"{url}/deepl/v2", "any")


def test_settings_can_be_saved(machinery: Weblate) -> None:
    assert machinery.languages()
    assert machinery.download(["test"], "en", "de")["test"]


def test_strings_are_translated_with_their_placeholders(machinery: Weblate, url: str) -> None:
    source, target = ("EN", "FR") if isinstance(machinery, DeepL) else ("en", "fr")
    found = machinery.translate(STRINGS, source, target)
    for string, translation in zip(STRINGS, found, strict=True):
        assert sorted(PLACEHOLDERS.findall(translation)) == sorted(PLACEHOLDERS.findall(string))
    assert found[-1:] == plainly(url, STRINGS[-1])


def test_marks_of_xml_survive_in_strings_for_deepl(url: str) -> None:
    machinery = DeepL(f"{url}/deepl/v2", "any")
    [found] = machinery.translate(["You & me: how are you, %s? <b>Hello.</b>"], "EN", "FR")
    assert all(found.count(each) == 1 for each in ("&", "%s", "<b>", "</b>"))
    assert "&amp;" not in found


def test_glossaries_are_replaced_and_used(url: str) -> None:
    """Weblate finds its glossary by a name with a checksum, and removes others of the same languages."""
    machinery = DeepL(f"{url}/deepl/v2", "any")
    pairs = machinery.request("GET", "glossary-language-pairs")["supported_languages"]
    assert ("EN", "FR") in {(each["source_lang"].upper(), each["target_lang"].upper()) for each in pairs}
    for checksum, term in (("0a1b", "félin"), ("2c3d", "minet")):
        name = f"weblate:1:EN:FR:{checksum}"
        for each in machinery.request("GET", "glossaries")["glossaries"]:
            machinery.request("DELETE", f"glossaries/{each['glossary_id']}")
        made = {"name": name, "source_lang": "EN", "target_lang": "FR", "entries": f"cat\t{term}"}
        machinery.request("POST", "glossaries", json={**made, "entries_format": "tsv"})
        found = {each["name"]: each["glossary_id"] for each in machinery.request("GET", "glossaries")["glossaries"]}
        assert list(found) == [name]
        machinery.glossary = found[name]
        assert term in machinery.download(["The cat sleeps."], "EN", "FR")["The cat sleeps."].lower()


def test_error_says_what_is_wrong(url: str) -> None:
    """Weblate shows `message` of DeepL's errors, and `error` of LibreTranslate's."""
    for machinery, field in (
        (LibreTranslate(f"{url}/libretranslate"), "error"),
        (DeepL(f"{url}/deepl/v2", "any"), "message"),
    ):
        with pytest.raises(httpx.HTTPStatusError) as refused:
            machinery.download(["Hello."], "en", "it")
        assert refused.value.response.status_code == 400
        assert "supported" in refused.value.response.json()[field]
