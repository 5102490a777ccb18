"""Records the service's answers to 20,000 requests of every kind, and compares those of other code byte for byte.

    python -m benchmarks.golden_answers record --out golden.bin
    python -m benchmarks.golden_answers compare golden.bin [--sample 2000] [--kind html] [--kind plain.icu]

Both start the service of the checkout in which they run, with its bundles, once for each configuration. The recording
has the requests as well as the answers, so that `compare` asks the same whatever has become of the texts that they were
made of. With this module of one checkout, the code of another:

    cd OTHER && PYTHONPATH=THIS python -P -m benchmarks.golden_answers compare golden.bin

What differs each time is blanked, as BLANKED says, and nothing else is.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.client
import json
import os
import queue
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

BLANKED: Sequence[tuple[bytes, bytes]] = (
    (rb"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", b"UUID"),  # of DeepL's glossaries and memories
    (rb"(?<![\w.])([0-9a-f]{32}|[0-9A-F]{32}|[0-9A-F]{64})\b", b"ID"),  # of jobs and downloads, and DeepL's keys
    (rb"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", b"TIME"),
    (rb'creationdate="\d{8}T\d{6}Z"', b'creationdate="TIME"'),  # of a translation memory's pairs
    (rb'"created": ?\d{10}\b', b'"created": TIME'),  # OpenAI's
    (rb'("code":200,"id":)\d+', rb"\1ID"),  # DeepLX's
    (rb'("character_count":)\d+(,"character_limit")', rb"\1COUNT\2"),  # of all requests before
    (rb'("tokens_per_second":)[\d.]+', rb"\1SPEED"),  # of a bundle
)
"""What is volatile in bodies that are texts, and what stands for it."""
HEADERS = ("content-type", "content-disposition", "x-interlinear-model", "x-interlinear-warnings", "location", "allow")
"""The headers that are compared."""
WHOLE_BYTES = 1 << 16
"""Of a longer body, the recording has this much and a checksum."""
CLIENTS = 16
"""Requests at once: the service answers with the same bits whatever it decodes together."""
TIMEOUT_S = 900
BUSY = re.compile(
    r"The large model (cannot be asked: ConnectTimeout|does not answer at present)"
    r"|which (cannot be asked: ConnectTimeout|does not answer at present)"
)
"""What an answer says if this machine is so busy that the large model's stub is late: it is asked again."""
MAX_TRIES = 100
SETTINGS = {
    "device": "cpu",
    "precision": "int8",
    "deadline_ms": "800000",  # a slow machine changes no answer
    "max_wait_ms": "800000",
    "queue_tokens": str(1 << 23),
    "llm_timeout_ms": "700000",
}


@dataclass(frozen=True)
class Call:
    """One HTTP request. `@NAME@` in the path and the body stands for what `capture` of an earlier call found."""

    method: str
    path: str
    media_type: str = ""
    body: bytes = b""
    capture: Mapping[str, str] = field(default_factory=dict)
    """Names and patterns; the first group of each is searched for in the answer: lines of headers, an empty line, and
    the body."""
    until: str = ""
    """A pattern of the answer: before it matches, the call is made again."""

    def to_json(self) -> dict[str, Any]:
        fields = {**vars(self), "body": base64.b85encode(self.body).decode(), "capture": dict(self.capture)}
        return {name: value for name, value in fields.items() if value}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Call:
        return cls(**{**fields, "body": base64.b85decode(fields.get("body", ""))})


@dataclass(frozen=True)
class Asked:
    """What is asked of one configuration: one call, or several that follow each other."""

    id: int
    kind: str
    calls: Sequence[Call]

    @property
    def is_setup(self) -> bool:
        """Whether it is answered before all that are not, and in order."""
        return self.kind == "setup"


@dataclass(frozen=True)
class Configuration:
    """A service: its settings, files that they may name by `@FOLDER@`, and whether a large model is there."""

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    has_large_model: bool = False


@dataclass(frozen=True)
class Recording:
    configurations: Sequence[Configuration]
    asked: Mapping[str, Sequence[Asked]]
    """By configuration."""
    answers: Mapping[int, list[list[Any]]]
    """By id: of each call the status, the compared headers, and the body."""


def blanked(body: bytes, media_type: str) -> str:
    """The body as it is compared: blanked if it is a text, and with a checksum in place of its end if it is long."""
    if media_type.startswith("text/") or "json" in media_type or "xml" in media_type.partition(";")[0]:
        for pattern, replacement in BLANKED:
            body = re.sub(pattern, replacement, body)
    if len(body) > WHOLE_BYTES:
        body = body[:WHOLE_BYTES] + f"\n... {len(body)} bytes, SHA-256 {hashlib.sha256(body).hexdigest()}".encode()
    try:
        return body.decode()
    except UnicodeDecodeError:
        return "base85 " + base64.b85encode(body).decode()


# ---- The service and its clients


@contextmanager
def service(root: Path, configuration: Configuration) -> Iterator[int]:
    """Serves the code and the bundles of `root`; yields the port."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="golden-"))
        for name, content in configuration.files.items():
            Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
            Path(folder, name).write_text(content, encoding="utf-8")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        settings = {**SETTINGS, "models_dir": f"{folder}/none", "bundles": "bundles", **configuration.settings}
        if configuration.has_large_model:
            from benchmarks.golden_large_model import large_model

            settings |= {"llm": stack.enter_context(large_model()), "llm_model": "stub"}
        environ = {name: value for name, value in os.environ.items() if not name.upper().startswith("INTERLINEAR_")}
        environ |= {
            f"INTERLINEAR_{name.upper()}": value.replace("@FOLDER@", folder) for name, value in settings.items()
        }
        # The order of sums in float32 may depend on the number of threads, and that of the language detector's on the
        # order in sets.
        environ |= {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "NO_COLOR": "1"}
        words = [sys.executable, "-m", "app", "serve", "--port", str(port)]
        with Path(folder, "log").open("wb") as log:
            process = subprocess.Popen(words, cwd=root, env=environ, stdout=log, stderr=log)
        try:
            _wait_until_ready(port, process, Path(folder, "log"))
            yield port
        finally:
            process.terminate()
            process.wait()


def _wait_until_ready(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + TIMEOUT_S
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            connection.request("GET", "/ready")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        finally:
            connection.close()
        if process.poll() is not None or time.monotonic() > until:
            raise SystemExit(f"The service does not start:\n{log.read_text(encoding='utf-8')[-3000:]}")
        time.sleep(0.1)


class Client:
    """A connection that is kept."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)

    def close(self) -> None:
        self._connection.close()

    def answer(self, asked: Asked) -> list[list[Any]]:
        """Of each call the status, the compared headers, and the body as it is compared."""
        found, answers = dict[str, str](), list[list[Any]]()
        for call in asked.calls:
            path, body = call.path, call.body
            for name, value in found.items():
                path = path.replace(f"@{name}@", value)
                body = body.replace(f"@{name}@".encode(), value.encode("latin-1"))
            for _ in range(MAX_TRIES):
                status, headers, content = self._made(call.method, path, call.media_type, body)
                lines = [f"{name}: {value}" for name, value in headers.items()]
                text = "\n".join([*lines, "", content.decode("latin-1")])
                is_done = not call.until or status != 200 or re.search(call.until, text)
                if is_done and not BUSY.search(text):
                    break
                time.sleep(0.1)
            for name, pattern in call.capture.items():
                match = re.search(pattern, text)
                found[name] = match[1] if match else "none"
            kept = {name: headers[name] for name in HEADERS if name in headers}
            for name in ("location", "content-disposition"):
                if name in kept:
                    kept[name] = blanked(kept[name].encode(), "text/plain")
            answers.append([status, kept, blanked(content, headers.get("content-type", ""))])
        return answers

    def _made(self, method: str, path: str, media_type: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        headers = {"Host": "localhost", **({"Content-Type": media_type} if media_type else {})}
        for is_last in (False, True):
            try:
                self._connection.request(method, path, body or None, headers)
                response = self._connection.getresponse()
                content = response.read()
            except (OSError, http.client.HTTPException):  # closed after an error, perhaps while we sent
                self._connection.close()
                if is_last:
                    raise
            else:
                return response.status, {name.lower(): value for name, value in response.getheaders()}, content
        raise AssertionError


def ask(root: Path, configuration: Configuration, asked: Sequence[Asked]) -> dict[int, list[list[Any]]]:
    """Answers to all that is asked of one configuration, by id."""
    answers = dict[int, list[list[Any]]]()
    failures = list[BaseException]()
    waiting: queue.SimpleQueue[Asked] = queue.SimpleQueue()

    def work(port: int) -> None:
        with closing(Client(port)) as client:
            while not failures:
                try:
                    each = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    answers[each.id] = client.answer(each)
                except Exception as error:
                    error.add_note(f"{each.kind} {each.id}: {each.calls[0].path} {each.calls[0].body[:500]!r}")
                    failures.append(error)

    with service(root, configuration) as port:
        for clients, those in ((1, [x for x in asked if x.is_setup]), (CLIENTS, [x for x in asked if not x.is_setup])):
            for each in those:
                waiting.put(each)
            threads = [threading.Thread(target=work, args=(port,)) for _ in range(min(clients, len(those)))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if failures:
                raise failures[0]
    return answers


def answers_of(root: Path, recording: Recording) -> dict[int, list[list[Any]]]:
    """The answers of the code in `root`, by id. Prints how long each configuration takes."""
    answers = dict[int, list[list[Any]]]()
    for configuration in recording.configurations:
        asked = recording.asked.get(configuration.name, ())
        if any(not each.is_setup for each in asked):
            start = time.monotonic()
            answers |= ask(root, configuration, asked)
            print(f"{configuration.name}: {len(asked)} requests in {time.monotonic() - start:.0f} s", flush=True)
    return answers


# ---- The recording


def write(path: Path, recording: Recording) -> None:
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=6) as lines:
        print(json.dumps([vars(each) for each in recording.configurations]), file=lines)
        for configuration, asked in recording.asked.items():
            for each in asked:
                calls = [call.to_json() for call in each.calls]
                print(json.dumps([configuration, each.id, each.kind, calls, recording.answers[each.id]]), file=lines)


def read(path: Path) -> Recording:
    asked, answers = defaultdict[str, list[Asked]](list), dict[int, list[list[Any]]]()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        configurations = [Configuration(**fields) for fields in json.loads(next(lines))]
        for line in lines:
            configuration, number, kind, calls, answers[number] = json.loads(line)
            asked[configuration].append(Asked(number, kind, [Call.from_json(call) for call in calls]))
    return Recording(configurations, asked, answers)


def selected(recording: Recording, sample: int = 0, kinds: Sequence[str] = ()) -> Recording:
    """The recording with requests of these kinds alone, and about `sample` of them: every nth of each kind, and at
    least one."""
    wanted = {
        name: [each for each in asked if each.is_setup or _is_of(each.kind, kinds)]
        for name, asked in recording.asked.items()
    }
    total = sum(not each.is_setup for asked in wanted.values() for each in asked)
    step = max(1, total // sample) if sample else 1
    seen, chosen = Counter[tuple[str, str]](), defaultdict[str, list[Asked]](list)
    for name, asked in wanted.items():
        for each in asked:
            if each.is_setup or seen[name, each.kind] % step == 0:
                chosen[name].append(each)
            seen[name, each.kind] += 1
    return Recording(recording.configurations, chosen, recording.answers)


def _is_of(kind: str, kinds: Sequence[str]) -> bool:
    """Whether it is one of these kinds, or of a part of them: plain.icu is of plain."""
    return not kinds or any(kind == each or kind.startswith(f"{each}.") for each in kinds)


@dataclass(frozen=True)
class Difference:
    """A request whose answer has changed."""

    configuration: str
    asked: Asked
    before: list[list[Any]]
    after: list[list[Any]]

    def shown(self) -> str:
        lines = [f"--- {self.asked.kind}, request {self.asked.id}, configuration {self.configuration}"]
        for number, call in enumerate(self.asked.calls):
            before, after = self.before[number], self.after[number]
            lines.append(f"{call.method} {call.path} {call.media_type} {_text(call.body)}")
            if before == after:
                lines.append(f"= {before[0]}")
            else:
                lines += [f"- {before[0]} {before[1]} {before[2]}", f"+ {after[0]} {after[1]} {after[2]}"]
                lines += [f"  from character {_first_difference(before[2], after[2])}"]
        return "\n".join(lines)


def _text(body: bytes) -> str:
    """The body, in readable form if it is JSON."""
    try:
        return json.dumps(json.loads(body), ensure_ascii=False)
    except ValueError:
        return body.decode("utf-8", "replace")


def _first_difference(before: str, after: str) -> str:
    at = next((n for n, (old, new) in enumerate(zip(before, after, strict=False)) if old != new), None)
    at = min(len(before), len(after)) if at is None else at
    return f"{at}: {before[max(0, at - 30) : at + 50]!r} became {after[max(0, at - 30) : at + 50]!r}"


def differences(recording: Recording, answers: Mapping[int, list[list[Any]]]) -> list[Difference]:
    return [
        Difference(name, each, recording.answers[each.id], answers[each.id])
        for name, asked in recording.asked.items()
        for each in asked
        if each.id in answers and recording.answers[each.id] != answers[each.id]
    ]


def report(recording: Recording, answers: Mapping[int, list[list[Any]]], show: int) -> Iterable[str]:
    """The lines that `compare` prints: the first `show` of each kind in full, then the counts."""
    found = differences(recording, answers)
    totals = Counter(each.kind for asked in recording.asked.values() for each in asked if each.id in answers)
    by_kind = defaultdict[str, list[Difference]](list)
    for each in found:
        by_kind[each.asked.kind].append(each)
    for those in by_kind.values():
        for each in those[:show]:
            yield each.shown()
    for kind, those in by_kind.items():
        yield f"{kind}: {len(those)} of {totals[kind]} differ: {', '.join(str(each.asked.id) for each in those[:20])}"
    yield f"{len(found)} of {totals.total()} answers differ"


cli = typer.Typer(add_completion=False, no_args_is_help=True, help=(__doc__ or "").partition("\n")[0])


@cli.command()
def record(
    out: Annotated[Path, typer.Option(help="Where to write the recording")],
    count: Annotated[int, typer.Option(help="How many requests")] = 20_000,
    corpora: Annotated[Path | None, typer.Option(help="A folder of corpora, whose sentences are used too")] = None,
) -> None:
    """Record the answers of the code in this folder."""
    from benchmarks.golden_requests import all_requests

    configurations, asked, sources = all_requests(count, corpora)
    for source, number in sources.items():
        print(f"{number} texts of {source}")
    root = Path.cwd()
    made = answers_of(root, Recording(configurations, asked, {}))
    write(out, Recording(configurations, asked, made))
    statuses = Counter(answer[-1][0] for answer in made.values())
    print(f"{len(made)} answers in {out}, {out.stat().st_size >> 10} KB; statuses: {dict(sorted(statuses.items()))}")


@cli.command()
def compare(
    recording: Annotated[Path, typer.Argument(help="What `record` wrote")],
    sample: Annotated[int, typer.Option(help="Ask about so many of them only, some of each kind")] = 0,
    kind: Annotated[list[str] | None, typer.Option(help="Ask those of this kind only; it may be repeated")] = None,
    show: Annotated[int, typer.Option(help="Print so many of each kind in full")] = 2,
) -> None:
    """Compare the answers of the code in this folder with recorded ones."""
    chosen = selected(read(recording), sample, kind or ())
    made = answers_of(Path.cwd(), chosen)
    for line in report(chosen, made, show):
        print(line)
    if differences(chosen, made):
        raise typer.Exit(1)


if __name__ == "__main__":
    cli()
