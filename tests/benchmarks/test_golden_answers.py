"""Golden answers: what is recorded compares equal, and a planted difference is found and shown."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks import golden_answers
from benchmarks.golden_answers import Asked, Call, Configuration, Recording, blanked, selected
from benchmarks.golden_large_model import answer, good_answer
from benchmarks.golden_requests import Made, detections, dialects, errors, glossaries, large_model, pages, plain_texts
from benchmarks.golden_requests import memory as memory_requests
from benchmarks.golden_texts import Draw, Texts, texts_of

pytestmark = pytest.mark.slow
SERVICE = """
import http.server, sys

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = b'{"id": "%032x", "path": "%s", "body": "ANSWER"}' % (id(self), self.path.encode())
        answer = answer.replace(b"ANSWER", body.upper() if body != b"twice" else b"TWICE")
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[-1])), Handler).serve_forever()
"""
"""A service whose answer is the body in capitals."""


@pytest.fixture(scope="module")
def texts() -> Texts:
    return texts_of(None, None)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of SERVICE, where the commands run, with a recording `golden.bin` of it."""
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__main__.py").write_text(SERVICE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    steps = [
        Call("POST", "/jobs", capture={"id": r'"id": "(\w+)"'}),
        Call("GET", "/jobs/@id@", until="jobs"),
    ]
    asked = [Asked(number, "plain", [Call("POST", "/", "text/plain", b"text %d" % number)]) for number in range(30)]
    asked += [Asked(30, "plain.twice", [Call("POST", "/", "text/plain", b"twice")]), Asked(31, "job", steps)]
    recording = Recording([Configuration("default")], {"default": asked}, {})
    answers = golden_answers.answers_of(tmp_path, recording)
    golden_answers.write(tmp_path / "golden.bin", Recording(recording.configurations, recording.asked, answers))
    return tmp_path


def compared(*options: str) -> tuple[int, str]:
    """The exit status and the output."""
    result = CliRunner().invoke(golden_answers.cli, ["compare", "golden.bin", *options])
    return result.exit_code, result.output


def test_the_same_code_has_no_differences(checkout: Path) -> None:
    status, output = compared()
    assert (status, output.splitlines()[-1]) == (0, "0 of 32 answers differ")


def test_a_planted_difference_is_counted_and_shown(checkout: Path) -> None:
    program = checkout / "app" / "__main__.py"
    # Another length, since Python keeps the bytecode of a file whose size and second are the same.
    program.write_text(program.read_text(encoding="utf-8").replace('b"TWICE"', 'b"planted"'), encoding="utf-8")
    status, output = compared()
    assert status == 1
    assert output.splitlines()[-2:] == ["plain.twice: 1 of 1 differ: 30", "1 of 32 answers differ"]
    assert "--- plain.twice, request 30, configuration default\nPOST / text/plain twice\n" in output
    assert re.search(
        r'^- 200 .*"TWICE".*\n\+ 200 .*"planted".*\n  from character \d+: .* became .*$', output, re.MULTILINE
    )
    assert compared("--kind", "job")[0] == 0
    assert compared("--kind", "plain")[0] == 1


def test_a_sample_has_every_kind() -> None:
    asked = [Asked(number, "setup" if number == 5 else "ab"[number % 2], []) for number in range(100)]
    asked.append(Asked(100, "rare", []))
    chosen = selected(Recording([Configuration("default")], {"default": asked}, {}), sample=10)
    assert [each.kind for each in chosen.asked["default"]].count("a") == 5
    assert {each.kind for each in chosen.asked["default"]} == {"a", "b", "rare", "setup"}


def test_only_what_is_volatile_is_blanked() -> None:
    text = '{"id":"0123456789abcdef0123456789abcdef","score":-0.12345678901234567,"model":"en-fr@20eaab3c2592"}'
    assert blanked(text.encode(), "application/json") == text.replace("0123456789abcdef" * 2, "ID")
    assert blanked(b"0123456789abcdef" * 2, "application/pdf") == "0123456789abcdef" * 2
    assert blanked(b"a" * 100_000, "text/plain") != blanked(b"a" * 99_999 + b"b", "text/plain")


@pytest.mark.parametrize(
    "make", [plain_texts, pages, detections, glossaries, dialects, errors, large_model, memory_requests]
)
def test_requests_are_the_same_each_time(make: object, texts: Texts) -> None:
    def some() -> list[object]:
        made: Made = make(Draw("seed", texts))  # type: ignore[operator]
        return list(islice(made, 50))

    assert some() == some()


def test_the_large_models_stub_has_fit_and_unfit_answers() -> None:
    text = "The red car belongs to <x1/>."
    assert good_answer(text, "French") == "L'auto rouge est à <x1/>."
    prompt = [{"content": "You translate from English into French."}, {"content": text}]
    given = {answer(prompt, text.replace("<x1/>", name)) for name in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
    assert any(each.startswith("L'auto rouge") for each in given) and len(given) > 5
