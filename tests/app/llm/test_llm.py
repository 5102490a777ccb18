"""The cascade to a large model, which a stub plays: app.llm and app.translation.llm_answers, through HTTP."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from llm_stub import LlmStub, completion, llm_stub
from servers import WAIT_S
from shared_fixtures import SHIPPED, Service, serving

from app.llm.prompts import PromptTemplate, load_template
from app.settings import SettingsError

pytestmark = pytest.mark.slow

TRANSLATIONS = {
    "The house is small.": "La petite maison est là.",
    "Hello, {0}, you have {1} new messages.": "Salut, {0}, il y a {1} nouveaux messages pour toi.",
    "Delete {name} from {folder}?": "Faut-il supprimer {name} de {folder} ?",
    "Open the window before {time}.": "Ouvre donc la fenêtre avant {time}.",
    "We sold 25 cars and 310 bikes.": "Nous avons vendu 25 autos et 310 vélos.",
    "We sold 25 cars.": "Nous avons vendu 25 autos.",
    "The red car belongs to my brother.": "L'auto rouge est à mon frère.",
    "My sister lives near the station.": "Ma sœur habite près de la gare.",
    "I bought %s at %d percent off.": "J'ai acheté %s avec %d pour cent de rabais.",
}
"""Sentences with translations that bundles/en-fr does not make."""


def good(text: str, times: int = 0) -> str:
    """The translation, with the marks of the text in the places of its placeholders."""
    marks = re.findall(r"<[a-z]\d+/>", text)
    for source, target in TRANSLATIONS.items():
        placeholders = re.findall(r"\{\w+\}|%[sd]", source)
        if source == text or (len(placeholders) == len(marks) and _filled(source, placeholders, marks) == text):
            return _filled(target, placeholders, marks)
    return text


def _filled(text: str, placeholders: list[str], marks: list[str]) -> str:
    for placeholder, mark in zip(placeholders, marks, strict=True):
        text = text.replace(placeholder, mark)
    return text


@pytest.fixture(scope="module")
def stub() -> Iterator[LlmStub]:
    with llm_stub() as stub:
        yield stub


@pytest.fixture(scope="module")
def both(stub: LlmStub) -> Iterator[Service]:
    """A service of en-fr with the large model."""
    settings: dict[str, Any] = {"llm": stub.url, "llm_model": "stub", "llm_timeout_ms": 50_000}
    with serving(SHIPPED / "en-fr", precision="int8", **settings) as service:  # a fortieth of the time of PyTorch
        assert service.run(service.state.deployments.current.engine.wait_started())
        yield service


@pytest.fixture(scope="module")
def quick(stub: LlmStub, bundle_folder: Path) -> Iterator[Service]:
    """The same with random weights, which score each answer in a tenth of the time."""
    with serving(bundle_folder, llm=stub.url, llm_model="stub", llm_timeout_ms=50_000) as service:
        assert service.run(service.state.deployments.current.engine.wait_started())
        yield service


@pytest.fixture(autouse=True)
def _fresh(stub: LlmStub, request: pytest.FixtureRequest) -> None:
    stub.forget()
    stub.answer = good
    for name in {"both", "quick"} & set(request.fixturenames):
        model = request.getfixturevalue(name).state.deployments.current.translator.large_model
        model._answers.clear()
        model._failures, model._paused_until = 0, 0.0


def translated(service: Service, text: Any, engine: str | None = "llm", **fields: Any) -> list[dict[str, Any]]:
    body = {"text": text, "source": "en", "target": "fr", "engine": engine, **fields}
    answer = service.post("/translate", {name: value for name, value in body.items() if value is not None})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["translations"])


def test_a_sentence_goes_to_the_large_model_when_the_request_says_so(both: Service, stub: LlmStub) -> None:
    [done] = translated(both, "The house is small.")
    assert done["text"] == "La petite maison est là."
    assert done["engine"] == "llm" and done["warnings"] == [] and done["words"] == []
    assert done["quality"] is not None
    answer = both.post("/translate", {"text": "The house is small.", "source": "en", "target": "fr", "engine": "llm"})
    assert answer.json()["model"].endswith(", stub")
    assert len(stub.asked) == 1, "the second time the answer is known"
    [own] = translated(both, "The house is small.", "local")
    assert own["engine"] == "local" and own["text"] != done["text"]
    assert len(stub.asked) == 1


def test_the_sentences_around_come_along(quick: Service, stub: LlmStub) -> None:
    first, second, third = (
        "The house is small.",
        "The red car belongs to my brother.",
        "My sister lives near the station.",
    )
    translated(quick, f"{first} {second} {third}")
    prompts = {text: str(body["messages"]) for text, body in zip(stub.texts, stub.asked, strict=True)}
    assert first in prompts[second] and third in prompts[second]
    assert second in prompts[first] and third not in prompts[first]


@pytest.mark.parametrize("text", [text for text in TRANSLATIONS if re.search("[{%]", text)])
def test_placeholders_go_as_marks_and_come_back(both: Service, stub: LlmStub, text: str) -> None:
    [done] = translated(both, text)
    assert done["text"].replace("\u202f", " ").replace("\xa0", " ") == TRANSLATIONS[text]
    assert done["engine"] == "llm"
    assert not re.search(r"[{}%]", stub.texts[0]) and "<x1/>" in stub.texts[0]


def test_only_sentences_below_the_mark_go_to_the_large_model(both: Service, stub: LlmStub) -> None:
    text = "My sister lives near the station. The red car belongs to my brother."
    qualities = [translated(both, one, "local")[0]["quality"] for one in text.split(". ")]
    assert max(qualities) > min(qualities)
    [done] = translated(both, text, "auto", llm_below=sum(qualities) / 2)
    assert done["engine"] == "both" and len(stub.asked) == 1
    [done] = translated(both, text, "auto", llm_below=0)
    assert done["engine"] == "local" and len(stub.asked) == 1
    assert "The red car" in str(stub.asked[0]["messages"]), "the neighbour comes along"


def test_tags_are_around_their_words_in_the_answer(both: Service) -> None:
    [done] = translated(both, "<p>The <b>red</b> car belongs to my <i>brother</i>.</p>", format="html")
    assert done["text"] == "<p>L&#x27;auto <b>rouge</b> est à mon <i>frère</i>.</p>".replace("&#x27;", "'")
    assert done["engine"] == "llm"


def test_a_term_must_be_in_the_answer(both: Service, stub: LlmStub) -> None:
    text, glossary = "The red car belongs to my brother.", {"car": "bagnole"}
    [done] = translated(both, text, glossary=glossary)
    assert done["engine"] == "local" and "bagnole" in done["text"]
    assert "the term “bagnole” was missing" in done["warnings"][0]
    assert len(stub.asked) == 2 and "the term “bagnole” was missing" in str(stub.asked[1]["messages"])
    assert "car = bagnole" in str(stub.asked[0]["messages"])
    stub.answer = lambda text, times: "La bagnole rouge est à mon frère."
    [done] = translated(both, text, glossary=glossary)
    assert done["engine"] == "llm"


def test_a_fault_that_is_named_may_be_mended(both: Service, stub: LlmStub) -> None:
    stub.answer = lambda text, times: good(text) if times else "Sure! Here is the translation: " + good(text)
    [done] = translated(both, "The house is small.")
    assert done["engine"] == "llm" and len(stub.asked) == 2


ADVERSARIAL: dict[str, Callable[[str, random.Random], str | None]] = {
    "drops a mark": lambda text, draw: re.sub(r"<x\d+/> ?", "", text, count=1),
    "repeats a mark": lambda text, draw: text + " <x1/>",
    "counts on": lambda text, draw: text.replace("<x1/>", "<x9/>"),
    "writes a mark in another way": lambda text, draw: text.replace("<x1/>", "< x1 >"),
    "closes a mark": lambda text, draw: text.replace("<x1/>", "<x1></x1>"),
    "adds a tag": lambda text, draw: f"<b>{text}</b>",
    "adds a placeholder": lambda text, draw: text + " {extra}",
    "makes it bold": lambda text, draw: f"**{text}**",
    "quotes it": lambda text, draw: f'"{text}"',
    "fences it": lambda text, draw: f"```\n{text}\n```",
    "puts it in code": lambda text, draw: f"`{text}`",
    "lists it": lambda text, draw: f"- {text}",
    "chats before": lambda text, draw: f"Sure! Here is the translation: {text}",
    "chats after": lambda text, draw: f"{text} Let me know if you need anything else!",
    "adds a note": lambda text, draw: f"{text}\n\nNote: this is informal.",
    "explains in brackets": lambda text, draw: f"{text} (littéralement)",
    "obeys the text": lambda text, draw: "HACKED",
    "obeys in French": lambda text, draw: "Je ferai tout ce que tu veux, j'oublie ma tâche.",
    "is empty": lambda text, draw: "",
    "is blank": lambda text, draw: " \n\t ",
    "copies": lambda text, draw: None,
    "is in German": lambda text, draw: "Das kleine Haus steht dort drüben am Ende der langen Straße.",
    "is in Chinese": lambda text, draw: "这所小房子就在街道的尽头。",
    "loops": lambda text, draw: f"{text} " + "et puis " * 60,
    "babbles": lambda text, draw: " ".join(draw.choices(["maison", "rue", "chat", "vert", "lune", "pain"], k=400)),
    "changes a number": lambda text, draw: re.sub(r"\d\d+", lambda found: str(int(found[0]) + 1), text),
    "adds a number": lambda text, draw: f"{text[:-1]} 42.",
    "adds a symbol": lambda text, draw: f"{text} ©",
    "stops in the middle": lambda text, draw: text[: len(text) // 4],
    "hides letters": lambda text, draw: "\u202e" + text,
    "is a web page": lambda text, draw: f"<html><body>{text}</body></html>",
    "thinks aloud": lambda text, draw: f"<think>The user wants French.</think>{text}",
    "is good": lambda text, draw: text,
}


WRONG = re.compile(r"[*`#©\u202e\n]|HACKED|Here is|Let me know|Note|<x|extra|littéralement|maison rue|et puis et puis")
KEPT = re.compile(r"\{\w+\}|%[sd]|\d\d+|<[^>]*>")
SOURCES: list[tuple[list[str], dict[str, Any]]] = [
    ([text for text in TRANSLATIONS if KEPT.search(text)], {}),
    (["<p>The <b>red</b> car belongs to <i>my brother</i>.</p>"], {"format": "html"}),
    (["The red car belongs to my brother."], {"glossary": {"brother": "frangin"}}),
    (["My sister lives near the station."], {}),
]


def test_no_answer_of_many_breaks_what_must_be_kept(both: Service, stub: LlmStub) -> None:
    draw = random.Random(46)
    kinds = list(ADVERSARIAL)

    def answer(text: str, times: int) -> Any:
        with stub.lock:
            made = ADVERSARIAL[draw.choice(kinds)](good(text), draw)
        return text if made is None else made

    stub.answer = answer
    engines = Counter[str]()
    while len(stub.asked) < 60:
        texts, fields = draw.choice(SOURCES)
        both.state.deployments.current.translator.large_model._answers.clear()
        given = draw.choices(texts, k=8)
        for text, done in zip(given, translated(both, given, **fields), strict=True):
            engines[done["engine"]] += 1
            assert Counter(KEPT.findall(done["text"])) == Counter(KEPT.findall(text)), done
            assert not WRONG.search(done["text"]), done
            assert "glossary" not in fields or "frangin" in done["text"].lower(), done
    assert engines["llm"] > 2 and engines["local"] > 12


@pytest.mark.parametrize("kind", ADVERSARIAL)
def test_an_answer_of_each_kind(both: Service, stub: LlmStub, kind: str) -> None:
    stub.answer = lambda text, times: ADVERSARIAL[kind](good(text), random.Random(1)) or text
    done = translated(both, ["Delete {name} from {folder}?", "We sold 25 cars."])
    harmless = {"is good", "thinks aloud"}
    not_for_numbers = {"drops a mark", "counts on", "writes a mark in another way", "closes a mark"}
    not_for_marks = {"changes a number"}
    expected = [kind in harmless | not_for_marks, kind in harmless | not_for_numbers]
    assert [one["engine"] == "llm" for one in done] == expected


def test_an_operators_lowest_quality_is_for_the_bundles_translations(stub: LlmStub) -> None:
    settings: dict[str, Any] = {"llm": stub.url, "llm_model": "stub", "min_quality": 1.0}
    with serving(SHIPPED / "en-fr", precision="int8", **settings) as service:
        [own] = translated(service, "The house is small.", "local")
        assert own["warnings"][0].startswith("Check this sentence")
        [answered] = translated(service, "The house is small.")
        assert (answered["engine"], answered["warnings"]) == ("llm", [])


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (500, "answered with status 500"),
        (302, "answered with status 302"),
        (b"<html>", "sent no chat completion"),
        ({"choices": []}, "sent no chat completion"),
        (completion(None), "sent no text"),
        (completion("La", finish_reason="length"), "was stopped before its answer ended"),
        (completion("", finish_reason="content_filter"), "refused"),
        (completion(None, message={"content": None, "refusal": "no"}), "refused"),
        (b"[" * 100_000, "sent no chat completion"),
        (b" " * 2_000_000, "sent more than"),
        (None, "cannot be asked"),
    ],
)
def test_a_failure_leaves_the_own_translation_with_a_warning(
    both: Service, stub: LlmStub, answer: Any, fault: str
) -> None:
    [own] = translated(both, "The house is small.", "local")
    stub.answer = lambda text, times: answer
    [done] = translated(both, "The house is small.")
    assert done["text"] == own["text"] and done["engine"] == "local"
    assert [fault in warning for warning in done["warnings"]] == [True]


@pytest.mark.parametrize(("limit_s", "fields"), [(0.3, {}), (50.0, {"deadline_ms": 1_500})])
def test_a_silent_model_is_waited_for_as_long_as_the_limit_or_the_deadline(
    both: Service, stub: LlmStub, monkeypatch: pytest.MonkeyPatch, limit_s: float, fields: dict[str, Any]
) -> None:
    def silent(text: str, times: int) -> None:
        stub.stopped.wait(WAIT_S)

    [own] = translated(both, "The house is small.", "local")
    stub.answer = silent
    monkeypatch.setattr(both.state.deployments.current.translator.large_model, "limit_s", limit_s)
    [done] = translated(both, "The house is small.", **fields)  # while the model is still silent
    assert done["text"] == own["text"]
    assert "did not answer in time" in done["warnings"][0]


def test_a_model_that_fails_again_and_again_is_left_alone(both: Service, stub: LlmStub) -> None:
    stub.answer = lambda text, times: 500
    for number in range(8):
        [done] = translated(both, f"The house is small, {number}.")
    assert len(stub.asked) == 5
    assert "does not answer at present" in done["warnings"][0]


def test_a_model_that_dies_under_load_loses_nothing(bundle_folder: Path) -> None:
    with (
        llm_stub() as dying,
        serving(bundle_folder, precision="int8", llm=dying.url, llm_model="stub", llm_timeout_ms=5_000) as service,
    ):
        under_load = threading.Event()

        def slow(text: str, times: int) -> str:
            if len(dying.asked) > 20:
                under_load.set()
            time.sleep(0.02)
            return good(text)

        def die() -> None:
            assert under_load.wait(WAIT_S)
            dying.shutdown()
            dying.server_close()

        dying.answer = slow
        bodies = [
            {"text": f"The house number {number} is small.", "source": "en", "target": "fr", "engine": "llm"}
            for number in range(50)
        ]
        killer = threading.Thread(target=die)
        killer.start()
        answers = service.post_together("/translate", bodies)
        killer.join()
        assert [answer.status_code for answer in answers] == [200] * 50
        assert all(str(number) in answer.json()["translations"][0]["text"] for number, answer in enumerate(answers))
        dying.serve_forever = lambda *_: None  # type: ignore[method-assign]


def test_many_sentences_are_asked_at_once_and_a_stream_keeps_their_order(quick: Service, stub: LlmStub) -> None:
    def slow(text: str, times: int) -> str:
        time.sleep(0.2)
        return good(text)

    stub.answer = slow
    texts = [f"My sister lives near the station {number}." for number in range(40)]
    done = translated(quick, texts)
    assert 8 < stub.most <= 32, "half of 64"
    assert all(one["engine"] for one in done)
    body = {"text": " ".join(TRANSLATIONS)[:120], "source": "en", "target": "fr", "engine": "llm"}
    streamed = quick.post("/translate/stream", body).text
    whole = quick.post("/translate", body).json()["translations"][0]["text"]
    assert "".join(re.findall(r'event: part\ndata: .*?"text":"(.*?)","source"', streamed)) == whole
    assert '"engine":"llm"' in streamed


def test_what_the_user_or_the_memory_began_is_not_sent(both: Service, stub: LlmStub) -> None:
    translated(both, "The house is small.", prefix="La mais")
    assert stub.asked == []


def test_a_document_and_other_apis_choose_the_engine(both: Service, stub: LlmStub) -> None:
    fields = {"source": "en", "target": "fr", "engine": "llm"}
    files = {"file": ("page.html", b"<p>The <b>red</b> car belongs to my brother.</p>")}
    answer = both.request("POST", "/translate/file", data=fields, files=files)
    assert answer.text == "<p>L'auto <b>rouge</b> est à mon frère.</p>"
    assert ", stub" in answer.headers["X-Interlinear-Model"]
    report = both.get(answer.headers["X-Interlinear-Report"]).json()
    assert report["llm_sentences"] == 1
    answer = both.post("/libretranslate/translate", {"q": "The house is small.", **fields})
    assert answer.json()["translatedText"] == "La petite maison est là."
    deepl = {"text": ["The house is small."], "target_lang": "FR", "source_lang": "EN"}
    for model_type, is_large in (("quality_optimized", True), ("latency_optimized", False)):
        answer = both.post("/deepl/v2/translate", {**deepl, "model_type": model_type})
        assert (answer.json()["translations"][0]["text"] == "La petite maison est là.") is is_large


def test_a_service_without_a_large_model_says_so(service: Service) -> None:
    answer = service.post("/translate", {"text": "Hello.", "source": "en", "target": "fr", "engine": "llm"})
    assert answer.status_code == 422 and "no large model" in answer.text
    answer = service.post("/translate", {"text": "Hello.", "source": "en", "target": "fr", "engine": "auto"})
    assert answer.json()["translations"][0]["engine"] == "local"


def test_pairs_and_the_key_of_the_server(stub: LlmStub, bundle_folder: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("sk-123\n")
    settings: dict[str, Any] = {"llm": stub.url, "llm_model": "stub", "llm_key_file": key, "engine": "llm"}
    with serving(bundle_folder, **settings) as service:
        assert translated(service, "The house is small.", None)[0]["engine"] == "llm"
        assert stub.headers[0]["Authorization"] == "Bearer sk-123"
        assert {name: stub.asked[0][name] for name in ("model", "temperature", "stream")} == {
            "model": "stub",
            "temperature": 0,
            "stream": False,
        }
        metrics = service.get("/metrics").text
        assert 'interlinear_llm_requests_total{outcome="answered"} 1.0' in metrics
    with serving(bundle_folder, llm=stub.url, llm_model="stub", llm_pairs="de-en") as service:
        answer = service.post("/translate", {"text": "Hello.", "source": "en", "target": "fr", "engine": "llm"})
        assert answer.status_code == 422 and "en-fr" in answer.text
        answer = service.post("/translate", {"text": "Hello.", "source": "auto", "target": "fr", "engine": "llm"})
        assert answer.json()["translations"][0]["engine"] == "local", "the language that is detected is not en-fr's"


@pytest.mark.parametrize("name", ["instruct", "hunyuan-mt", "translategemma"])
def test_a_template_that_ships_has_the_text_and_only_what_is_known(name: str) -> None:
    values = {"source": "English", "target": "French", "source_code": "en", "target_code": "fr"}
    text = 'Say "{terms}" and {target}, \\ please.'
    messages = load_template(name).messages({**values, "text": text, "terms": "", "fault": "", "mark": ""})
    assert [message["role"] for message in messages] in (["user"], ["system", "user"])
    content = messages[-1]["content"]
    given = content[0]["text"] if isinstance(content, list) else content
    assert given.endswith(text) and "fault" not in str(messages)


def test_a_template_of_ones_own(tmp_path: Path, stub: LlmStub, bundle_folder: Path) -> None:
    (tmp_path / "mine.txt").write_text("[user]\nInto {target}: {text}\n")
    assert load_template(str(tmp_path / "mine.txt")).messages({"target": "French", "text": "Hi."}) == [
        {"role": "user", "content": "Into French: Hi."}
    ]
    with pytest.raises(ValueError, match="the variable"):
        PromptTemplate.parse("[user]\nTranslate.")
    with pytest.raises(SettingsError, match="no template"):
        serving(bundle_folder, llm=stub.url, llm_model="stub", llm_template="missing")


def test_the_address_and_the_model_are_checked(bundle_folder: Path) -> None:
    settings: list[dict[str, Any]] = [{"llm": "localhost"}, {"llm": "http://localhost/v1"}]
    for wrong in settings:
        with pytest.raises(ValueError, match="INTERLINEAR_LLM"):
            serving(bundle_folder, **wrong)


def test_no_proxy_and_no_redirect_gets_a_text(
    stub: LlmStub, bundle_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with serving(bundle_folder, llm=stub.url, llm_model="stub") as service:
        assert translated(service, "The house is small.")[0]["engine"] == "llm"


JAPANESE = {"The house is small.": "家は小さい。", "Hello, <x1/>!": "<x1/>さん、こんにちは！"}
JAPANESE["The <x1/>red<x2/> car belongs to <x3/>."] = "<x3/>の<x1/>赤い<x2/>車です。"


def test_a_pair_without_a_bundle_is_for_the_large_model_alone(stub: LlmStub, bundle_folder: Path) -> None:
    stub.answer = lambda text, times: JAPANESE.get(text, 500)
    with serving(bundle_folder, llm=stub.url, llm_model="stub", llm_pairs="en-ja") as service:
        assert [one["targets"] for one in service.get("/languages").json()] == [["fr", "ja"]]

        def post(text: Any, path: str = "/translate", **fields: Any) -> httpx.Response:
            return service.post(path, {"text": text, "source": "en", "target": "ja", **fields})

        answer = post("The house is small. Hello, {name}!").json()
        assert answer["translations"][0]["text"] == "家は小さい。{name}さん、こんにちは！"
        assert answer["translations"][0]["engine"] == "llm" and answer["model"] == "stub"
        html = post("<p>The <b>red</b> car belongs to {name}.</p>", format="html").json()
        assert html["translations"][0]["text"] == "<p>{name}の<b>赤い</b>車です。</p>"
        assert '"text":"家は小さい。"' in post("The house is small.", "/translate/stream").text
        assert post("The house is large.").status_code == 503
        both = post(["The house is small.", "The house is large."]).json()["translations"]
        assert [one["text"] for one in both] == ["家は小さい。", None]
        assert post("Hello.", engine="local").status_code == 404
        found = post("The house is small.", source="auto").json()["translations"][0]
        assert (found["text"], found["source"]) == ("家は小さい。", "en")
        libre = {"q": "The house is small.", "source": "en", "target": "ja"}
        assert service.post("/libretranslate/translate", libre).json()["translatedText"] == "家は小さい。"
        deepl = {"text": ["The house is small."], "target_lang": "JA"}
        assert service.post("/deepl/v2/translate", deepl).json()["translations"][0]["text"] == "家は小さい。"
        assert "JA" in service.get("/deepl/v2/languages?type=target").text
        stub.answer = lambda text, times: {"Open": "開く"}.get(text, "家は小さい。")
        fields: dict[str, Any] = {"alternatives": 2, "alignment": True}
        assert post("The house is small.", **fields).json()["translations"][0]["alignment"] == []
        assert post("&Open").json()["translations"][0]["text"] == "開く(&O)"
        file = {"file": ("a.txt", b"The house is small.\n")}
        answer = service.request("POST", "/translate/file", data={"source": "en", "target": "ja"}, files=file)
        assert answer.text == "家は小さい。\n" and answer.headers["X-Interlinear-Model"] == "stub"
        assert post("We sold 25 cars.").status_code == 503, "a number is missing"
        assert post("Goodbye, {name}!").status_code == 503, "a placeholder is missing"

        def slow_first(text: str, times: int) -> str:
            time.sleep(0.3 * ("25" in text))
            return "家は小さい。"

        stub.answer = slow_first
        first = post("We sold 25 cars. Goodbye, {name}!").json()["detail"]
        assert "numbers, signs" in first, "the reason of the first sentence, though the second fails before it"


@pytest.mark.parametrize(("target", "expected"), [("ja", "家は小さい。"), ("fr", "La petite maison est là.")])
def test_the_command_line_asks_the_large_model(stub: LlmStub, bundle_folder: Path, target: str, expected: str) -> None:
    stub.answer = lambda text, times: JAPANESE[text] if target == "ja" else good(text)
    settings = {
        "LLM": stub.url,
        "LLM_MODEL": "stub",
        "LLM_PAIRS": "en-ja,en-fr",
        "BUNDLES": str(bundle_folder),
        "PRECISION": "int8",
    }
    done = subprocess.run(
        [sys.executable, "-m", "app", "translate", "--source", "en", "--target", target, "--engine", "llm"],
        input="The house is small.\n",
        capture_output=True,
        text=True,
        env={**os.environ, **{f"INTERLINEAR_{name}": value for name, value in settings.items()}},
        timeout=120,
        check=True,
    )
    assert done.stdout == f"{expected}\n"
