"""docs/examples/: the programs in docs/examples, in Python and JavaScript, against the real service: what their
users do with them."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser
from servers import WAIT_S
from shared_fixtures import listening

from app.engine.scheduler import Scheduler
from app.errors import Overloaded, StepFailed
from app.translation.translator import Translator
from app.translation.types import TranslatedPart, Translations
from tests.app.formats.test_docx import run, word

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
TEXT = "Hello. How are you? I am well, thank you."
XLIFF = """<?xml version="1.0" encoding="UTF-8"?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">
<file original="a" source-language="en" target-language="fr" datatype="plaintext"><body>
<trans-unit id="1"><source>Hello.</source></trans-unit></body></file></xliff>
"""
FILES = {"page.xliff": XLIFF.encode(), "letter.docx": word(f"<w:p>{run('How are you?')}</w:p>")}
PAIR = {"source": "en", "target": "fr"}
each_program = pytest.mark.parametrize("program", ["client.py", "client.mjs"])


@pytest.fixture(scope="module")
def url(bundle_folder: Path) -> Iterator[str]:
    with listening(bundle_folder) as url:
        yield url


def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("no Node on this machine")
    return found


def start(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs an example as its first lines say."""
    interpreter = sys.executable if program.endswith(".py") else node()
    command = [interpreter, str(EXAMPLES / program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)


def translated(url: str, text: str) -> str:
    answer = httpx.post(f"{url}/translate", json={"text": text, **PAIR}).raise_for_status().json()
    return str(answer["translations"][0]["text"])


def refusals(url: str, status: int) -> float:
    """The number of responses with this status so far."""
    lines = re.findall(
        rf'^interlinear_requests_total{{.*status="{status}"}} (\S+)$', httpx.get(f"{url}/metrics").text, re.M
    )
    return sum(map(float, lines))


@each_program
def test_program_prints_the_translation_that_the_service_streams(program: str, url: str) -> None:
    result = start(program, url, "en", "fr", TEXT)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == translated(url, TEXT) + "\n"


@each_program
@pytest.mark.parametrize("name", list(FILES))
def test_program_writes_the_translation_beside_the_file(program: str, name: str, url: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_bytes(FILES[name])
    result = start(program, url, "en", "fr", str(file))
    written = file.with_suffix(f".fr{file.suffix}")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{written}\n", "")
    if name.endswith(".docx"):
        text = zipfile.ZipFile(io.BytesIO(written.read_bytes())).read("word/document.xml").decode()
        expected = translated(url, "How are you?")
    else:
        text, expected = written.read_text(encoding="utf-8"), translated(url, "Hello.")
    assert escaped(expected) in text
    assert file.read_bytes() == FILES[name]


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@each_program
def test_program_waits_when_it_is_over_its_rate(program: str, bundle_folder: Path) -> None:
    with listening(bundle_folder, rate_requests="1/second") as url:
        result = start(program, url, "en", "fr", "Hello.", "How are you?")
        assert (result.returncode, result.stderr) == (0, "")
        assert len(result.stdout.splitlines()) >= 2
        assert refusals(url, 429) >= 1


@each_program
def test_program_repeats_a_request_that_an_overloaded_service_refused(
    program: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, before = translated(url, TEXT), refusals(url, 503)
    refuse_once(monkeypatch)
    result = start(program, url, "en", "fr", TEXT)
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{expected}\n", "")
    assert refusals(url, 503) == before + 1


def full(seconds: int) -> Overloaded:
    return Overloaded(f"The queue is full. Retry after {seconds} s.", retry_after_s=seconds)


def refuse_once(patch: pytest.MonkeyPatch) -> None:
    """Has a scheduler find its queue full once, as it is while others' sentences wait."""
    check, left = Scheduler.check, [full(1)]

    def refused(scheduler: Scheduler, client: str = "", tokens: int = 1, waited_s: float = 0.0) -> None:
        if left:
            raise left.pop()
        check(scheduler, client, tokens, waited_s)

    patch.setattr(Scheduler, "check", refused)


@each_program
def test_program_says_in_the_services_words_what_is_wrong(program: str, url: str) -> None:
    result = start(program, url, "en", "xx", "Hello.")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("Language pair not served: No bundle translates from en to xx.")


@each_program
def test_program_ends_with_the_problem_of_a_stream_that_fails_midway(
    program: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Translator.stream

    async def broken(*arguments: Any) -> AsyncGenerator[TranslatedPart | Translations, None]:
        parts = whole(*arguments)
        yield await anext(parts)
        await parts.aclose()
        raise StepFailed("The decoding step of this sentence failed.")

    monkeypatch.setattr(Translator, "stream", broken)
    result = start(program, url, "en", "fr", TEXT)
    assert result.returncode == 1
    assert result.stdout.strip()
    assert translated(url, TEXT).startswith(result.stdout)
    assert result.stderr == "The model failed on this text: The decoding step of this sentence failed.\n"


@each_program
def test_program_notices_a_stream_that_was_cut_off(program: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Translator.stream

    async def cut(*arguments: Any) -> AsyncGenerator[TranslatedPart | Translations, None]:
        parts = whole(*arguments)
        yield await anext(parts)
        await parts.aclose()

    monkeypatch.setattr(Translator, "stream", cut)
    result = start(program, url, "en", "fr", TEXT)
    assert (result.returncode, result.stderr) == (1, "the stream ended without `done`\n")


def python_client() -> ModuleType:
    spec = importlib.util.spec_from_file_location("client", EXAMPLES / "client.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPT = """
import { send, translate, Problem } from "CLIENT";
const url = "URL", waits = [], sleep = async (seconds) => waits.push(seconds);
const found = { texts: await translate(url, TEXTS, "en", "fr") };
try {
  await send(`${url}/translate`, { text: 5, source: "en", target: "fr" }, { sleep });
} catch (error) {
  found.fields = error.fields;
  found.isProblem = error instanceof Problem;
  found.waits = waits;
}
console.log(JSON.stringify(found));
"""


def javascript_findings(url: str, texts: list[str]) -> dict[str, Any]:
    script = SCRIPT.replace("CLIENT", (EXAMPLES / "client.mjs").as_uri())
    script = script.replace("TEXTS", json.dumps(texts)).replace("URL", url)
    command = [node(), "--input-type=module", "--eval", script]
    result = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=True)
    return dict(json.loads(result.stdout))


def python_findings(url: str, texts: list[str]) -> dict[str, Any]:
    client = python_client()
    waits: list[float] = []
    with httpx.Client(base_url=url) as http:
        found = {"texts": client.translate(http, texts, "en", "fr")}
        with pytest.raises(client.Problem) as caught:
            client.send(http, "/translate", json={"text": 5, **PAIR}, sleep=waits.append)
    return {**found, "fields": caught.value.fields, "isProblem": True, "waits": waits}


@pytest.mark.parametrize("findings", [python_findings, javascript_findings], ids=["Python", "JavaScript"])
def test_functions_translate_texts_and_raise_problems_by_field(findings: Any, url: str) -> None:
    texts = ["Hello.", "How are you?"]
    found = findings(url, texts)
    assert found["texts"] == [translated(url, text) for text in texts]
    assert found["isProblem"]
    assert (found["fields"]["status"], found["fields"]["type"]) == (422, "urn:interlinear:error:invalid-fields")
    assert found["fields"]["errors"]
    assert all(error["pointer"].startswith("#/text") for error in found["fields"]["errors"])
    assert found["waits"] == []


def test_python_client_gives_up_after_its_attempts(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client, waits = python_client(), list[float]()

    def refused(scheduler: Scheduler, client: str, tokens: int = 1, waited_s: float = 0.0) -> None:
        raise full(3)

    monkeypatch.setattr(Scheduler, "check", refused)
    with httpx.Client(base_url=url) as http, pytest.raises(client.Problem, match="Overloaded") as caught:
        client.send(http, "/translate", json={"text": "Never before.", **PAIR}, attempts=3, sleep=waits.append)
    assert caught.value.fields["status"] == 503
    assert waits == [3, 3]


def test_javascript_client_runs_in_a_page(browser: Browser, url: str) -> None:
    page = browser.new_page()
    try:
        page.route(
            "**/client.mjs", lambda route: route.fulfill(path=EXAMPLES / "client.mjs", content_type="text/javascript")
        )
        page.goto(f"{url}/health")
        found = page.evaluate(
            """async (text) => {
                const { stream, translateFile } = await import("/client.mjs");
                const parts = [];
                for await (const part of stream(location.origin, text, "en", "fr")) parts.push(part);
                const file = await translateFile(location.origin, new Blob(["Hello."]), "a.txt", "en", "fr");
                return { parts, file: await file.text() };
            }""",
            TEXT,
        )
    finally:
        page.close()
    assert len(found["parts"]) >= 3
    assert "".join(found["parts"]) == translated(url, TEXT)
    assert found["file"] == translated(url, "Hello.")
