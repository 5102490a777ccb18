"""The serving benchmark: what the load generator counts and from when, requests, and its report. No test asserts
speed."""

from __future__ import annotations

import asyncio
import http.server
import io
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import sentencepiece
from shared_fixtures import SENTENCES, make_bundle
from typer import Typer
from typer.testing import CliRunner
from warm import run_warm

from benchmarks import serving
from benchmarks.cores import Cores, pinned
from benchmarks.load import SOURCE, Figures, Generator, Load, compiler, figures, medians
from benchmarks.peers.libretranslate import in_our_fields, install
from benchmarks.sentences import LENGTHS, SHORT_TOKENS, Workload, mixed_sentences, random_sentences, short_sentences
from benchmarks.servers import Contestant, ServerFailed, running
from benchmarks.serving import WHOLE, Results, as_json, report
from benchmarks.waves import rows
from model.bundle_files import read_bundle
from model.tokenizer import Tokenizer
from training.corpora.corpus import Pair, write_pairs
from training.export.ctranslate2 import ConvertOptions, convert_bundle

pytestmark = pytest.mark.slow

needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C compiler")
SERVICE = Path(__file__).resolve().parents[2]


class Far(http.server.ThreadingHTTPServer):
    """A server that responds with `status`, `delay_s` after each request; one at a time if `lock`ed."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(
        self,
        statuses: list[int],
        delay_s: float = 0.0,
        close: bool = False,
        silent: bool = False,
        retry_after: str = "",
    ) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.retry_after = retry_after
        self.statuses, self.delay_s, self.close, self.silent = statuses, delay_s, close, silent
        self.bodies: list[bytes] = []
        self.turn = threading.Lock()
        self.released = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores errors: the generator disconnects when its time is up."""


class Answering(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # a response in one packet: the second of two would wait 40 ms for the first's acknowledgement
    server: Far

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.server.silent:
            self.server.released.wait(600)
            self.close_connection = True
            return
        with self.server.turn:
            self.server.bodies.append(body)
            status = self.server.statuses[len(self.server.bodies) % len(self.server.statuses)]
            time.sleep(self.server.delay_s)
        answer = json.dumps({"usage": {"source_tokens": 1, "target_tokens": 3}}).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(answer)))
        if self.server.retry_after:
            self.send_header("Retry-After", self.server.retry_after)
        if self.server.close:
            self.send_header("connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing."""


@contextmanager
def far_end(*statuses: int, **options: Any) -> Iterator[Far]:
    with Far(list(statuses) or [200], **options) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()
            thread.join()


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The load generator, compiled as in the benchmark, but with warnings as errors."""
    program = tmp_path_factory.mktemp("load") / "load"
    options = ["-O2", "-std=gnu11", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    subprocess.run([compiler() or "cc", *options, "-o", program, SOURCE, "-lm"], check=True)
    return program


@pytest.fixture
def bodies(tmp_path: Path) -> Path:
    path = tmp_path / "bodies.jsonl"
    path.write_text("".join(json.dumps({"text": f"é{number}"}) + "\n" for number in range(50)), encoding="utf-8")
    return path


def load(
    program: Path,
    port: int,
    bodies: Path,
    kind: str,
    amount: float,
    seconds: float = 0.5,
    warmup: float = 0.0,
    drain: float = 120.0,
    connections: int = 64,
) -> dict[str, Any]:
    words = ["127.0.0.1", port, "/x", bodies, kind, amount, seconds, warmup, drain, connections, 7, "target_tokens"]
    output = subprocess.run([program, *map(str, words)], check=True, capture_output=True, text=True, timeout=600).stdout
    found: dict[str, Any] = json.loads(output)
    return found


@needs_compiler
@pytest.mark.parametrize(("kind", "amount"), [("closed", 4), ("open", 200)])
@pytest.mark.parametrize("close", [False, True], ids=["kept", "closed by the server"])
def test_every_request_is_counted_once_by_its_outcome(
    program: Path, bodies: Path, kind: str, amount: float, close: bool
) -> None:
    with far_end(200, 503, 503, 404, close=close) as server:
        found = load(program, server.server_port, bodies, kind, amount)
    assert set(found["statuses"]) == {"200", "404", "503"}
    assert (found["errors"], found["unanswered"]) == (0, 0)
    assert found["arrived"] == sum(found["statuses"].values()) == len(server.bodies)
    assert found["field_per_s"] == pytest.approx(3 * found["completed_per_s"])
    assert set(server.bodies) <= set(bodies.read_bytes().splitlines())


@needs_compiler
def test_closed_loop_has_no_more_requests_in_flight_than_clients(program: Path, bodies: Path) -> None:
    with far_end(delay_s=0.01) as server:
        found = load(program, server.server_port, bodies, "closed", 3)
    # Each waits for the two before it: with a fourth under way, one would have waited for three.
    assert found["answered_ms"]["p50"] >= 3 * 10 * 0.99
    assert found["completed_per_s"] <= 100


@needs_compiler
@pytest.mark.parametrize("close", [False, True], ids=["kept", "closed by the server"])
def test_refused_client_waits_as_long_as_it_is_told_and_sends_the_same_again(
    program: Path, bodies: Path, close: bool
) -> None:
    with far_end(503, 200, close=close, retry_after="1") as server:  # begins with the second
        found = load(program, server.server_port, bodies, "closed", 1, seconds=1.5)
    first, refused, again = server.bodies[:3]
    assert refused == again
    assert found["statuses"]["503"] * 1.0 <= 1.5 + 1
    assert found["answered_ms"]["max"] >= 1000  # from the first attempt
    assert first in bodies.read_bytes().splitlines()


@needs_compiler
def test_wave_is_one_request_of_each_client(program: Path, bodies: Path) -> None:
    with far_end(200, 503, delay_s=0.01, retry_after="1") as server:
        found = load(program, server.server_port, bodies, "wave", 20)
    assert found["statuses"] == {"200": 10, "503": 10}
    assert len(server.bodies) == found["arrived"] == 20
    assert found["answered_ms"]["max"] >= 190


def test_table_of_waves_has_the_share_answered_and_the_smallest_one() -> None:
    rounds = [{**one(1), "refused": share, "failed": 0.0} for share in (0.25, 0.0, 0.5)]
    [_, row] = rows(iter([("short", 64, rounds)]))
    assert row.split() == ["64", "short", "75%", "50%", "1", "3"]


@needs_compiler
def test_open_loop_latency_counts_from_the_arrival(program: Path, bodies: Path) -> None:
    with far_end(delay_s=0.02) as server:
        found = load(program, server.server_port, bodies, "open", 200, connections=1)
    arrived = found["arrived"]
    assert arrived > 60
    # The last answer comes when all have had their 20 ms, half a second after the arrivals began.
    assert found["answered_ms"]["max"] >= 1000 * (0.02 * arrived - 0.5) - 20
    assert found["answered_ms"]["p50"] >= 200  # though a single answer takes 20 ms
    assert found["lag_ms"]["max"] >= 200


@needs_compiler
def test_arrivals_do_not_wait_for_responses(program: Path, bodies: Path) -> None:
    with far_end(silent=True) as server:
        found = load(program, server.server_port, bodies, "open", 100, drain=0.3)
    assert found["unanswered"] == found["arrived"] > 20
    assert found["answered_ms"]["p50"] >= 300  # what has been waited for in vain counts as well
    assert found["completed_per_s"] == 0


@needs_compiler
def test_seed_determines_the_number_of_arrivals(program: Path, bodies: Path) -> None:
    with far_end() as server:
        counts = {load(program, server.server_port, bodies, "open", 400)["arrived"] for _ in range(2)}
    assert len(counts) == 1
    assert 150 < counts.pop() < 250


@needs_compiler
def test_responses_during_warm_up_are_not_counted(program: Path, bodies: Path) -> None:
    with far_end() as server:
        found = load(program, server.server_port, bodies, "open", 400, seconds=0.2, warmup=0.4)
    assert found["arrived"] < len(server.bodies) / 2


@needs_compiler
@pytest.mark.parametrize(("kind", "amount"), [("closed", 2), ("open", 50)])
def test_unreachable_server_counts_as_errors_and_the_run_ends(
    program: Path, bodies: Path, kind: str, amount: float
) -> None:
    with socket.socket() as taken:  # which nobody listens on, nor can
        taken.bind(("127.0.0.1", 0))
        found = load(program, taken.getsockname()[1], bodies, kind, amount, drain=0.2)
    assert found["errors"] > 0
    assert found["statuses"] == {}


@needs_compiler
def test_generator_process_counts_arrivals_at_the_given_rate(tmp_path: Path, bodies: Path) -> None:
    generator = Generator(tmp_path, core=None, seconds=0.2, warmup=0.0)
    with far_end() as server:
        few = generator.run(server.server_port, bodies, Load("open", 0.5), capacity=100)
        many = generator.run(server.server_port, bodies, Load("open", 2.0), capacity=400)
    assert 0 < few["arrived"] < many["arrived"]
    assert figures(many)["failed"] == 0


def test_shares_are_of_arrivals_and_only_503_is_a_refusal() -> None:
    found = figures(
        {
            "arrived": 20,
            "errors": 1,
            "unanswered": 2,
            "statuses": {"200": 10, "503": 5, "504": 2},
            "completed_per_s": 10.0,
            "field_per_s": 90.0,
            "answered_ms": {"p50": 1.0, "p95": 2.0, "p99": 3.0, "max": 9.0},
        }
    )
    assert found == {
        "requests": 10.0, "tokens": 90.0, "p50": 1.0, "p95": 2.0, "p99": 3.0, "refused": 0.25, "failed": 0.25
    }  # fmt: skip


def one(requests: float) -> Figures:
    return {"requests": requests, "tokens": 10 * requests, "p50": 1, "p95": 2, "p99": 3, "refused": 0.5, "failed": 0}


def test_medians_are_taken_per_figure() -> None:
    assert medians([one(1), one(9), one(5)])["requests"] == 5


def results() -> tuple[Results, Results]:
    loads = [Load("closed", 64), Load("open", 2.0)]
    served: Results = {"short": {"ours": {load: [one(80)] for load in loads}}}
    served["short"]["theirs (of 8)"] = {load: [one(40), one(10), one(40)] for load in loads}
    return served, {"short": {"engine alone": {WHOLE: [one(100)]}}}


def test_report_shows_the_share_that_http_keeps_and_the_ratio_to_the_peer() -> None:
    text = "\n".join(report(*results()))
    assert "at 64 clients, ours has 80% of the engine's tokens/s; 2.00 x theirs" in text
    assert "2.0 x capacity" in text
    assert "50.0%" in text


def test_json_has_every_round() -> None:
    figures = json.loads(json.dumps(as_json(["a processor", "versions"], *results())))
    assert figures["machine"] == ["a processor", "versions"]
    found = figures["measured"]
    assert found["short"]["engine alone"]["all at once"] == [one(100)]
    assert [f["requests"] for f in found["short"]["theirs (of 8)"]["64 clients"]] == [40, 10, 40]


@pytest.fixture(scope="module")
def tokenizer(bundle_folder: Path) -> Tokenizer:
    return Tokenizer(read_bundle(bundle_folder / "en-fr")[1]["sentencepiece.model"])


def test_short_sentences_are_short_and_mixed_ones_have_every_length(tokenizer: Tokenizer) -> None:
    texts = [f"Hello{' cat' * count}." for count in range(140)] * 3
    short = [len(tokenizer.encode(text)) + 1 for text in short_sentences(texts, tokenizer)]
    assert short
    assert max(short) <= SHORT_TOKENS
    lengths = [len(tokenizer.encode(text)) + 1 for text in mixed_sentences(texts, tokenizer)]
    classes = [next(size for size in LENGTHS if length <= size) for length in lengths]
    assert set(classes) >= set(LENGTHS[1:])
    assert max(map(classes.count, LENGTHS)) <= 200


def test_generated_sentences_are_deterministic_and_of_many_lengths() -> None:
    made = random_sentences(500)
    assert made == random_sentences(500)
    lengths = [len(sentence.split()) for sentence in made]
    assert min(lengths) < 4 < statistics.median(lengths) < 20 < max(lengths) <= 60


def test_request_has_the_sentence_and_its_languages(tokenizer: Tokenizer, tmp_path: Path) -> None:
    workload = Workload.of("short", ['Zoé "a"\\'], tokenizer, ("en", "fr"), tmp_path)
    (line,) = workload.bodies.read_text(encoding="utf-8").splitlines()
    assert json.loads(line) == {"text": 'Zoé "a"\\', "source": "en", "target": "fr"}


ECHO = """
import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""


def test_server_responds_and_is_stopped_afterwards(tmp_path: Path) -> None:
    contestant = Contestant("echo", lambda port: [sys.executable, "-c", ECHO, str(port)])
    with running(contestant, tmp_path, None, b'{"a": 1}') as server:
        server.signal(signal.SIGSTOP)
        with server.turn():
            assert server.post(b'{"b": 2}') == {"b": 2}
    with pytest.raises(OSError, match="refused"):
        server.post(b"{}")


def test_server_that_exits_at_once_is_reported_with_its_last_output(tmp_path: Path) -> None:
    contestant = Contestant("broken", lambda port: [sys.executable, "-c", "raise SystemExit('no model here')"])
    with pytest.raises(ServerFailed, match="no model here"), running(contestant, tmp_path, None, b"{}"):
        raise AssertionError("it runs")


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="processes cannot be pinned here")
def test_child_processes_are_pinned_to_cores_and_the_parent_is_not() -> None:
    before, core = os.sched_getaffinity(0), Cores.found().server
    program = "import os; print(*os.sched_getaffinity(0))"
    with pinned(core):
        found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert found.split() == [str(core)]
    assert os.sched_getaffinity(0) == before


@pytest.fixture(scope="module")
def converted(bundle_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle converted for CTranslate2."""
    pytest.importorskip("ctranslate2")
    folder = tmp_path_factory.mktemp("converted") / "en-fr"
    convert_bundle(ConvertOptions(bundle_folder / "en-fr", folder), lambda line: None)
    return folder


def test_peers_respond_with_our_fields_to_each_request(converted: Path, tokenizer: Tokenizer) -> None:
    from benchmarks.peers.batched import Batched
    from benchmarks.peers.locked import create_app

    async def ask(text: str) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(create_app(converted)), base_url="http://a") as far:
            return await far.post("/translate", json={"text": text, "source": "en", "target": "fr"})

    texts = ["Hello.", "How are you?", "The cat sleeps."]
    alone = [asyncio.run(ask(text)).json() for text in texts]
    batched = Batched(converted, max_batch_size=8, batch_timeout_s=0.0)
    batched.setup("cpu")
    together = [batched.encode_response(output) for output in batched.unbatch(batched.predict(batched.batch(texts)))]
    for text, answer, other in zip(texts, alone, together, strict=True):
        assert answer["usage"]["source_tokens"] == other["usage"]["source_tokens"] == len(tokenizer.encode(text)) + 1
        assert answer["translations"][0].keys() == other["translations"][0].keys() == {"text"}
        assert answer["usage"]["target_tokens"] >= 1


@needs_compiler
def test_command_serves_measures_and_writes_its_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(words: list[str], cwd: Path, env: dict[str, str], **options: Any) -> subprocess.CompletedProcess[str]:
        done = run_warm(words[2:], env, cwd)
        assert (words[1], done.returncode) == ("-m", 0), done.stderr
        return done

    monkeypatch.setattr(serving, "subprocess", SimpleNamespace(run=run))
    monkeypatch.setenv("INTERLINEAR_PRECISION", "int8")  # whose workers do not import PyTorch
    made = make_bundle(tmp_path / "en-fr")
    write_pairs(tmp_path / "pairs.tsv", [Pair(text, "x") for text in SENTENCES[:20]])
    app = Typer()
    app.command()(serving.main)
    options = ["--bundle", str(made), "--pairs", str(tmp_path / "pairs.tsv"), "--json", str(tmp_path / "found")]
    result = CliRunner().invoke(app, ["--short", "--no-peers", "--seconds", "0.1", *options], catch_exceptions=False)
    assert result.exit_code == 0
    assert "short sentences" in result.stdout
    assert "Interlinear serves in int8" in result.stdout
    figures = json.loads((tmp_path / "found").read_text())
    assert all(line in result.stdout for line in figures["machine"])
    found = figures["measured"]
    assert list(found) == ["short", "mixed"]
    for labels in found.values():
        assert list(labels) == ["engine alone", "Interlinear"]
        assert list(labels["Interlinear"]) == ["1 client", "64 clients", "0.8 x capacity", "2.0 x capacity"]


def test_libretranslate_is_asked_and_answers_in_our_fields(tmp_path: Path) -> None:
    install(SERVICE / "bundles" / "en-fr", "en", "fr", tmp_path)
    [package] = tmp_path.iterdir()
    assert json.loads((package / "metadata.json").read_text())["to_code"] == "fr"
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(package / "sentencepiece.model"))

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        fields = json.load(environ["wsgi.input"])
        start_response("200 OK" if fields["target"] == "fr" else "400 BAD REQUEST", [("Content-Type", "text/plain")])
        return [json.dumps({"translatedText": fields["q"].upper()}).encode()]

    def ask(target: str) -> tuple[str, Any]:
        body = json.dumps({"text": "Hello.", "source": "en", "target": target}).encode()
        statuses: list[str] = []
        environ = {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        answer = b"".join(in_our_fields(app, pieces)(environ, lambda status, _: statuses.append(status)))
        return statuses[0], json.loads(answer)

    tokens = len(pieces.encode("HELLO.")) + 1
    assert ask("fr") == ("200 OK", {"translations": [{"text": "HELLO."}], "usage": {"target_tokens": tokens}})
    assert ask("xx")[0] == "400 BAD REQUEST"
