"""Features of the native API: language detection, markup, glossaries, alternatives, streams."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from servers import WAIT_S
from shared_fixtures import Service, decode_with, make_bundle, serving
from starlette.types import Message

from app.server.state import APPLICATION
from model.bundle import Bundle
from model.decoding.batch import DecodeBatch
from model.hypothesis import Hypothesis

HELLO = {"text": "Hello.", "source": "en", "target": "fr"}
FRENCH = "Bonjour mon ami, comment vas-tu aujourd'hui ?"
ENGLISH = "The cat sleeps on the chair in the kitchen."


def items(service: Service, **fields: Any) -> list[dict[str, Any]]:
    response = service.post("/translate", {**HELLO, **fields})
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["translations"]
    return found


# ---- Languages


def test_the_language_of_each_item_is_detected_separately(service: Service) -> None:
    english, french, none = items(service, source="auto", text=[ENGLISH, FRENCH, "12:30"])
    assert (english["source"], french["source"], none["source"]) == ("en", "fr", "und")
    assert min(english["confidence"], french["confidence"]) > 0.9 > none["confidence"]
    assert english["text"] == items(service, text=ENGLISH)[0]["text"]
    assert (none["text"], none["warnings"]) == ("12:30", [])


def test_text_in_the_target_language_is_unchanged_with_a_warning(service: Service) -> None:
    (item,) = items(service, source="auto", text=FRENCH)
    assert item["text"] == FRENCH
    assert item["warnings"] == ["In French already, and left as it was."]


def test_text_perhaps_in_the_target_language_gets_an_uncertain_warning(service: Service) -> None:
    (item,) = items(service, source="auto", text="Buongiorno")
    assert item["text"] == "Buongiorno"
    looks = "The text looks Italian, which is not translated into French here. It was taken for French."
    assert item["warnings"] == [looks, "It was left as it was."]


def test_item_in_an_unserved_language_fails_alone(service: Service) -> None:
    german = "Das ist ein schöner Tag, und wir gehen heute im Wald spazieren."
    good, bad = items(service, source="auto", text=[ENGLISH, german])
    assert good["error"] is None
    assert (bad["text"], bad["error"]["status"]) == (None, 404)
    assert bad["source"] == "en"
    assert bad["confidence"] < 0.02
    assert service.post("/translate", {**HELLO, "source": "auto", "text": german}).status_code == 404
    assert service.post("/translate", {**HELLO, "source": "auto", "target": "de"}).status_code == 404


@pytest.fixture(scope="module")
def both_ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("both")
    make_bundle(folder / "en-fr")
    make_bundle(folder / "de-fr", source="de", seed=1)
    make_bundle(folder / "es-en", source="es", target="en", seed=2)
    with serving(folder, precision="auto") as service:
        yield service


@pytest.mark.slow
def test_items_of_one_request_use_the_bundles_of_their_languages(both_ways: Service) -> None:
    german = "Die Katze schläft heute auf dem Stuhl in der Küche."
    answer = both_ways.post("/translate", {**HELLO, "source": "auto", "text": [ENGLISH, german, FRENCH]}).json()
    assert [item["source"] for item in answer["translations"]] == ["en", "de", "fr"]
    assert answer["translations"][1]["text"] == items(both_ways, source="de", text=german)[0]["text"]
    assert [name.partition("@")[0] for name in answer["model"].split(", ")] == ["en-fr", "de-fr"]


@pytest.mark.slow
@pytest.mark.parametrize("text", ["Hello", "Save", "Delete", "Cancel", "OK", "Menu", "Hola", "Bonjour", "Buongiorno"])
def test_every_api_translates_a_short_text_whatever_language_it_resembles(both_ways: Service, text: str) -> None:
    """The letters of "Hello" are those of a Spanish word, and Spanish reaches French through English here."""
    (item,) = items(both_ways, source="auto", text=text)
    source = item["source"]
    assert source in (("es",) if text == "Hola" else ("en", "de", "fr"))
    doubts = [warning for warning in item["warnings"] if "aken for" in warning]
    assert len(doubts) == (item["confidence"] < 0.5)
    if source != "fr":
        assert item["text"] == items(both_ways, source=source, text=text)[0]["text"]
    libre = both_ways.post("/libretranslate/translate", {"q": text, "source": "auto", "target": "fr"}).json()
    assert (libre["translatedText"], libre["detectedLanguage"]["language"]) == (item["text"], source)
    [deepl] = both_ways.post("/deepl/v2/translate", {"text": [text], "target_lang": "FR"}).json()["translations"]
    assert (deepl["text"], deepl["detected_source_language"]) == (item["text"], source.upper())
    streamed = both_ways.post("/translate/stream", {**HELLO, "source": "auto", "text": text}).text
    assert json.loads(streamed.rpartition("data: ")[2])["translations"] == [item]
    fields = {"source": "auto", "target": "fr"}
    file = both_ways.request("POST", "/translate/file", files={"file": ("a.txt", text)}, data=fields)
    assert (file.status_code, file.text) == (200, item["text"])


# ---- Markup, alignment, alternatives, glossaries


def test_markup_is_placed_around_the_translation(service: Service) -> None:
    text = "<p class='x'>Hello, {name}.</p><!-- Hello. --><script>Hello.</script>"
    (item,) = items(service, text=text, format="html")
    assert item["text"].startswith("<p class='x'>")
    assert item["text"].endswith("</p><!-- Hello. --><script>Hello.</script>")
    assert item["text"].count("{name}") == 1


def test_attribute_is_translated_separately_wherever_its_tag_goes(service: Service) -> None:
    markup = "<p>Hello <img src=a alt='The cat sleeps.'> Bo.</p> <input placeholder='How are you?'>"
    (item,) = items(service, text=markup, format="html", alternatives=2)
    alone = [items(service, text=text)[0]["text"].replace("'", "&#39;") for text in ("The cat sleeps.", "How are you?")]
    (plain,) = items(service, text=markup, format="html")
    assert plain["text"].count(f"<img src=a alt='{alone[0]}'>") == 1
    assert plain["text"].endswith(f"</p> <input placeholder='{alone[1]}'>")
    for text in (item["text"], *(other["text"] for other in item["alternatives"])):
        assert text.count("<img src=a alt='") == text.count("<input placeholder='") == 1
        assert "\ufdd2" not in text


def test_words_are_aligned_within_both_texts(service: Service) -> None:
    text = "Hello. How are you?\n\nThe cat sleeps."
    (item,) = items(service, text=text, alignment=True)
    assert item["alignment"] is not None
    for pair in item["alignment"]:
        assert text[slice(*pair["source"])].isalpha()
        assert item["text"][slice(*pair["target"])].strip()
    assert items(service, text=text)[0]["alignment"] is None


JSON_TEXT = '{"title":  "The cat sleeps. Hello.", "n": 12.50, "items": ["How are you?", null]}\n'


def test_string_values_of_a_text_in_json_are_translated_as_texts(service: Service) -> None:
    (item,) = items(service, text=JSON_TEXT)
    first, second = (each["text"] for each in items(service, text=["The cat sleeps. Hello.", "How are you?"]))
    title, other = (json.dumps(each, ensure_ascii=False) for each in (first, second))
    assert item["text"] == f'{{"title":  {title}, "n": 12.50, "items": [{other}, null]}}\n'
    assert items(service, text=JSON_TEXT, source="auto")[0]["text"] == item["text"]
    assert items(service, text=JSON_TEXT, line_breaks="auto")[0]["text"] == item["text"]
    lines = JSON_TEXT.replace(", ", ",\n")
    assert items(service, text=lines, line_breaks="join") == items(service, text=lines)
    assert items(service, text=JSON_TEXT, source="fr")[0]["text"] == JSON_TEXT  # in its target already
    libre = service.post("/libretranslate/translate", {"q": JSON_TEXT, "source": "en", "target": "fr"}).json()
    assert libre["translatedText"] == item["text"]
    # Its sentences are no slices of it, and so have no offsets in it.
    *parts, _ = Reader(service, {**HELLO, "text": JSON_TEXT}).all()
    assert len(parts) == 4 and {part["source"] for _, part in parts} == {None}
    (aligned,) = items(service, text=JSON_TEXT, alignment=True)
    assert (aligned["text"], aligned["alignment"]) == (item["text"], [])


def test_in_other_formats_and_documents_json_is_a_text_like_any_other(service: Service) -> None:
    text = '{"title": "Hello. How are you? The cat sleeps."}'
    translated = items(service, text=text)[0]["text"]
    assert translated.startswith('{"title": "') and translated.endswith('"}')
    assert items(service, text=text, format="html")[0]["text"] != translated
    fields = {"source": "en", "target": "fr"}
    file = service.request("POST", "/translate/file", files={"file": ("a.txt", text)}, data=fields)
    assert file.text != translated
    short = '{"a": "Hello."}'  # a placeholder in braces
    assert service.request("POST", "/translate/file", files={"file": ("a.txt", short)}, data=fields).text == short
    body = {**HELLO, "text": short, "prefix": "Bon"}
    assert "this one has 0" in service.post("/translate", body).json()["detail"]


WRAPPED = (
    "The old man walked slowly down the street, looking at the houses on\n"
    "both sides as if he had never seen them before. He had lived in this\n"
    "town for more than fifty years and knew every stone of it.\n"
)


def test_lines_of_a_paragraph_are_kept_or_joined_as_in_a_file(shipped_url: str) -> None:
    def ask(text: str, **fields: object) -> dict[str, Any]:
        body = {"text": text, "source": "en", "target": "fr", **fields}
        (item,) = httpx.post(f"{shipped_url}/translate", json=body, timeout=60).json()["translations"]
        return cast(dict[str, Any], item)

    kept, together = ask(WRAPPED)["text"], ask(" ".join(WRAPPED.split()) + "\n", alternatives=1)
    joined = ask(WRAPPED, line_breaks="auto", alternatives=1)
    assert ask(WRAPPED, line_breaks="keep")["text"] == kept and len(kept.splitlines()) == 3
    for found, expected in zip([joined, *joined["alternatives"]], [together, *together["alternatives"]], strict=True):
        assert found["text"].split() == expected["text"].split() != kept.split()
        assert len(found["text"].splitlines()) >= 3 and max(map(len, found["text"].splitlines())) <= 68
    fields = {"source": "en", "target": "fr"}
    file = httpx.post(f"{shipped_url}/translate/file", files={"file": ("a.txt", WRAPPED)}, data=fields, timeout=60)
    assert ask(WRAPPED, line_breaks="auto")["text"] == file.text


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"line_breaks": "join", "format": "html"}, "#/line_breaks"),
        ({"line_breaks": "auto", "alignment": True}, "#/alignment"),
        ({"line_breaks": "cut"}, "#/line_breaks"),
    ],
)
def test_options_incompatible_with_joined_lines_are_refused_by_name(
    service: Service, fields: dict[str, object], pointer: str
) -> None:
    response = service.post("/translate", {**HELLO, **fields})
    assert (response.status_code, response.json()["errors"][0]["pointer"]) == (422, pointer)


def test_alternatives_differ_from_the_translation_and_are_ordered_best_first(service: Service) -> None:
    (item,) = items(service, text="How are you?", alternatives=3)
    found = item["alternatives"]
    assert 1 <= len(found) <= 3
    assert len({item["text"], *(other["text"] for other in found)}) == len(found) + 1
    scores = [other["score"] for other in found]
    assert scores == sorted(scores, reverse=True)


def test_glossary_term_is_in_the_translation(service: Service) -> None:
    (item,) = items(service, text="The CAT sleeps.", glossary={"cat": "félin"})
    assert "félin" in item["text"].lower()
    assert "félin" not in items(service, text="The CAT sleeps.")[0]["text"].lower()


def test_named_glossaries_come_from_the_setting(bundle_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "pets.en-fr.tsv").write_text("cat\tfélin\n", encoding="utf-8")
    with serving(bundle_folder, glossaries=tmp_path, precision="auto") as service:
        assert "félin" in items(service, text="The cat sleeps.", glossary="pets")[0]["text"].lower()
        refused = service.post("/translate", {**HELLO, "glossary": "plants"})
    assert refused.status_code == 422
    assert "There are: pets." in refused.json()["detail"]


# ---- Streams


class Reader:
    """Requests a stream over ASGI and yields its events as they are sent; httpx would wait for the last."""

    def __init__(self, service: Service, body: dict[str, Any]) -> None:
        self._service, self._body = service, json.dumps(body).encode()
        self._sent: asyncio.Queue[Message] = asyncio.Queue()
        self._left = asyncio.Event()
        self._asked = False
        self._rest = b""
        service.run(self._start())

    async def _start(self) -> None:
        headers = [(b"host", b"testserver"), (b"content-type", b"application/json")]
        path = "/translate/stream"
        scope: dict[str, Any] = {"type": "http", "method": "POST", "path": path, "headers": headers}
        scope |= {
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "asgi": {"version": "3.0"},
            "state": {APPLICATION: self._service.state},
        }
        self._task = asyncio.ensure_future(self._service.app(scope, self._receive, self._send))

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        await self._sent.put(message)

    def event(self) -> tuple[str, dict[str, Any]]:
        while b"\n\n" not in self._rest:
            message = self._service.run(asyncio.wait_for(self._sent.get(), WAIT_S))
            self._rest += message.get("body", b"")
        first, _, self._rest = self._rest.partition(b"\n\n")
        name, data = first.decode().split("\n")
        return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))

    def all(self) -> list[tuple[str, dict[str, Any]]]:
        found = [self.event()]
        while found[-1][0] == "part":
            found.append(self.event())
        return found

    def leave(self) -> None:
        async def wait() -> None:
            self._left.set()
            await asyncio.wait_for(self._task, WAIT_S)

        self._service.run(wait())


@pytest.mark.parametrize(
    "fields",
    [
        {"text": "Hello.  How are you?\n\nThe cat sleeps.\n"},
        {"text": ["Hello. Bo.", "", "***", "The cat sleeps."]},
        {"text": "<p>Hello, <b>Bo</b>.</p>\n<p>How are you?</p>", "format": "html"},
        {"text": "<p>Hello <img alt='The cat.'> Bo.</p><i title='How are you?'>Hello.</i>", "format": "html"},
        {"text": ["Hello.", "a" * 50_001, FRENCH], "source": "auto"},
        {"text": "The cat sleeps. Hello.", "glossary": {"cat": "félin"}},
        {"text": '{"a": "Hello. How are you?", "b": [1.50, "The cat \\"sleeps\\"."]}'},
    ],
)
def test_joined_parts_of_a_stream_equal_the_translation(service: Service, fields: dict[str, Any]) -> None:
    *parts, (last, done) = Reader(service, {**HELLO, **fields}).all()
    assert last == "done"
    expected = service.post("/translate", {**HELLO, **fields}).json()
    assert done["translations"] == expected["translations"]
    assert [part["item"] for _, part in parts] == sorted(part["item"] for _, part in parts)
    for number, item in enumerate(expected["translations"]):
        text = "".join(part["text"] for _, part in parts if part["item"] == number)
        assert text == (item["text"] or "")


class Hold:
    """Delays the sentence of these tokens as long as it is the only one in the batch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tokens: list[int]) -> None:
        self.opened = opened = threading.Event()
        self.abandoned = threading.Event()
        hold = self

        class Holding(DecodeBatch):
            def step(self, most: int = 1, enough: int = 0) -> list[Hypothesis]:
                if [h for h in self.running if list(h.source) == tokens] == self.running:
                    assert opened.wait(WAIT_S)
                return super().step(most, enough)

            def remove(self, hypotheses: Any) -> list[Hypothesis]:
                if any(h.finish_reason is None for h in hypotheses):
                    hold.abandoned.set()
                return super().remove(hypotheses)

        decode_with(Holding, monkeypatch)


def test_first_sentence_arrives_before_the_last_is_decoded(
    bundle_folder: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = Hold(monkeypatch, bundle.source_tokenizer.encode("The cat sleeps."))
    with serving(bundle_folder, precision="auto") as service:
        reader = Reader(service, {**HELLO, "text": "Hello. The cat sleeps."})
        name, part = reader.event()
        assert (name, part["item"], part["source"]) == ("part", 0, [0, 6])
        assert not hold.opened.is_set()
        hold.opened.set()
        assert [name for name, _ in reader.all()] == ["part", "done"]


def test_disconnected_streams_capacity_is_freed(
    bundle_folder: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = Hold(monkeypatch, bundle.source_tokenizer.encode("The cat sleeps."))
    with serving(bundle_folder, precision="auto") as service:
        reader = Reader(service, {**HELLO, "text": "Hello. The cat sleeps."})
        reader.event()
        reader.leave()
        hold.opened.set()
        assert hold.abandoned.wait(WAIT_S)


def test_stream_that_fails_late_reports_it(
    bundle_folder: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = Hold(monkeypatch, bundle.source_tokenizer.encode("The cat sleeps."))
    with serving(bundle_folder, precision="auto") as service:
        reader = Reader(service, {**HELLO, "text": "Hello. The cat sleeps."})
        assert reader.event()[0] == "part"
        service.advance_clock(60)  # the longest time for a request
        name, problem = reader.event()
        hold.opened.set()
    assert (name, problem["status"]) == ("error", 504)


@pytest.mark.parametrize(
    ("fields", "status"), [({"target": "xx"}, 404), ({"text": 5}, 422), ({"text": "a" * 50_001}, 413)]
)
def test_error_before_the_first_event_is_an_ordinary_error_response(
    service: Service, fields: dict[str, Any], status: int
) -> None:
    response = service.post("/translate/stream", {**HELLO, **fields})
    assert (response.status_code, response.json()["status"]) == (status, status)


def test_events_are_not_buffered_by_proxies(service: Service) -> None:
    headers = service.post("/translate/stream", HELLO).headers
    assert (headers["cache-control"], headers["x-accel-buffering"]) == ("no-store", "no")
