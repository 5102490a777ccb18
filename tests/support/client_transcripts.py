"""Transcripts of other programs' dialogues with the service: what each sends, byte for byte, what it reads, and a live
service to replay them against."""

from __future__ import annotations

import gzip
import json
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

import httpx
import pytest
from servers import WAIT_S
from shared_fixtures import BUNDLE_LIMITS, SURE, decode_with, listening, untrained_model

from app.engine.scheduler import Scheduler
from app.http.api_keys import new_key
from model.bundle_weights import save_bundle
from model.decoding.batch import DecodeBatch
from model.hypothesis import Hypothesis

Headers = Sequence[tuple[str, str]]
HELLO = "Hello, my friend."
BLANKS = "", " ", "\n \n"


# ---- What goes over the wire


@dataclass(frozen=True)
class RawRequest:
    """A request as its client writes it. `{host}` in the target and in headers stands for the server's host and
    port."""

    method: str
    target: str
    headers: Headers
    body: bytes = b""
    version: str = "HTTP/1.1"

    def encode(self, host: str) -> bytes:
        lines = [f"{self.method} {self.target} {self.version}", *(f"{name}: {value}" for name, value in self.headers)]
        head = "\r\n".join([*lines, "", ""]).replace("{host}", host)
        return head.encode("utf-8") + self.body


@dataclass(frozen=True)
class Answer:
    """A response. Header names are in lower case."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """A client's connection: used again as long as both ends keep it open."""

    def __init__(self, host: str, address: str = "127.0.0.1") -> None:
        """`address`: the client's."""
        self.host, self._address = host, address
        self._socket: socket.socket | None = None
        self._rest = b""
        self.opened = 0
        """How often it was opened."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def send(self, request: RawRequest) -> Answer:
        if self._socket is None:
            name, _, port = self.host.rpartition(":")
            self._socket = socket.create_connection((name, int(port)), WAIT_S, (self._address, 0))
            self._rest, self.opened = b"", self.opened + 1
        self._socket.sendall(request.encode(self.host))
        answer = self._read(request.method)
        asked = {name.lower(): value.lower() for name, value in request.headers}.get("connection")
        if "close" in (asked, answer.headers.get("connection", "").lower()):
            self.close()
        return answer

    def close(self) -> None:
        if self._socket:
            self._socket.close()
            self._socket = None

    def _read(self, method: str) -> Answer:
        head = self._until(b"\r\n\r\n").decode("latin-1")
        if head.startswith("HTTP/1.1 100 "):
            head = self._until(b"\r\n\r\n").decode("latin-1")
        first, *lines = head.rstrip("\r\n").split("\r\n")
        _, code, reason = first.split(" ", 2)
        status = int(code)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if method == "HEAD" or status in (204, 304):
            body = b""
        elif headers.get("transfer-encoding", "").lower() == "chunked":
            body = b"".join(self._chunks())
        else:
            body = self._exactly(int(headers["content-length"]))
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        return Answer(status, reason, headers, body)

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self._until(b"\r\n").split(b";")[0], 16):
            yield self._exactly(size)
            self._exactly(2)
        self._until(b"\r\n")

    def _until(self, end: bytes) -> bytes:
        while end not in self._rest:
            self._receive()
        found, _, self._rest = self._rest.partition(end)
        return found + end

    def _exactly(self, size: int) -> bytes:
        while len(self._rest) < size:
            self._receive()
        found, self._rest = self._rest[:size], self._rest[size:]
        return found

    def _receive(self) -> None:
        assert self._socket
        piece = self._socket.recv(1 << 16)
        if not piece:
            raise EOFError(self._rest)
        self._rest += piece


# ---- Tools


class Shown(Exception):
    """What a tool shows its user in place of a translation."""


Translate = Callable[[Sequence[str], str, str, str | None], list[RawRequest]]
Read = Callable[[Answer], list[str]]


@dataclass(frozen=True)
class Step:
    """A request that a tool makes at its start, and what it demands of the answer: raises AssertionError or Shown."""

    request: Callable[[str | None], RawRequest]
    """Made with the user's key."""
    demand: Callable[[Answer], object]


@dataclass(frozen=True)
class Tool:
    """A program that speaks the API of another service."""

    name: str
    version: str
    """The version or commit that was read, and when."""
    setting: str
    """What its user enters, where HOST is the service."""
    translate: Translate
    """The requests for texts, with source, target and key: one for all, or one for each, as the tool does. None for
    blank texts, if it sends none."""
    read: Read
    """Takes from a response what the tool takes from it. Raises Shown."""
    shown: Mapping[str, str]
    """What its user sees of refusals, by kind: "pair", "empty", "too long", "no key", "wrong key", "rate", "busy". `*`
    stands for any text. Without "empty", empty texts are translated, or not sent."""
    start: Sequence[Step] = ()
    root_api: str = ""
    """INTERLINEAR_ROOT_API, if the tool needs one."""
    takes_key: bool = True
    keeps_alive: bool = True
    """Whether it uses a connection again."""
    connections: int = 30
    """How many it opens at most to translate texts at once."""
    attempts: int = 1
    """How often it sends a request that is refused with one of the statuses `retried`."""
    retried: Sequence[int] = (429, 503)
    source: str = "en"
    """The tool's name of English as a source."""
    target: str = "fr"
    unserved: str = "xx"
    """A language that the service does not translate into, in the tool's spelling."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the service that the tool needs."""

    @property
    def slug(self) -> str:
        """Its name as that of a key."""
        return re.sub(r"\W+", "-", self.name).strip("-")

    def shows(self, kind: str, shown: str) -> bool:
        """Whether the tool may show this for that kind of refusal."""
        pattern = ".*".join(map(re.escape, self.shown[kind].split("*")))
        return re.fullmatch(pattern, shown, re.DOTALL) is not None


def libretranslate_shown(wording: str = "{}") -> dict[str, str]:
    """What a tool shows that puts LibreTranslate's `error` into `wording`."""
    return {kind: wording.format(message) for kind, message in LIBRETRANSLATE_ERRORS.items()}


def deepl_shown(wording: str = "{}") -> dict[str, str]:
    """What a tool shows that puts DeepL's `message` into `wording`."""
    return {kind: wording.format(message) for kind, message in DEEPL_ERRORS.items()}


_RATE = "Over the limit of 1/hour requests. Retry after * s."
_BUSY = "The queue is full. Retry after * s."
LIBRETRANSLATE_ERRORS = {
    "pair": "xx is not supported",
    "empty": "Invalid request: missing q parameter",
    "too long": "Invalid request: request exceeds text limit: The text has 50001 characters, over the limit of 50000.",
    "no key": "Please contact the server operator to obtain an API key",
    "wrong key": "Invalid API key",
    "rate": f"Slowdown: {_RATE}",
    "busy": _BUSY,
}
DEEPL_ERRORS = {
    "pair": "*Value for 'target_lang' not supported. Supported: *.",
    "too long": "The text has 50001 characters, over the limit of 50000.",
    "no key": "This service requires an API key; none was sent.",
    "wrong key": "This service requires an API key; the one that was sent is unknown.",
    "rate": _RATE,
    "busy": _BUSY,
}
_STATUSES = {"pair": 400, "too long": 400, "no key": 403, "wrong key": 403, "rate": 429, "busy": 503}


def status_shown(wording: str, **statuses: int) -> dict[str, str]:
    """What a tool shows that puts the status into `wording`: as `{status}`, `{reason}`, or `{name}`, .NET's name.

    `statuses`: those that differ from LibreTranslate's, by kind, `_` for a blank.
    """
    given = {**_STATUSES, **{kind.replace("_", " "): status for kind, status in statuses.items()}}
    return {kind: wording.format(**status_fields(status)) for kind, status in given.items()}


def status_fields(status: int) -> dict[str, Any]:
    """The status, its `reason` phrase, and `name`, that of .NET's HttpStatusCode."""
    reason = HTTPStatus(status).phrase
    name = "RequestEntityTooLarge" if status == 413 else reason.replace(" ", "")
    return {"status": status, "reason": reason, "name": name}


# ---- How HTTP libraries write a request; `{host}` is filled in when it is sent


def json_bytes(value: object, ascii_only: bool = False, spaces: bool = False) -> bytes:
    """JSON as most write it; Python's own has spaces, and escapes all but ASCII."""
    separators = (", ", ": ") if spaces else (",", ":")
    return json.dumps(value, ensure_ascii=ascii_only, separators=separators).encode()


def form_bytes(*pairs: tuple[str, str]) -> bytes:
    return urlencode(pairs).encode()


def multipart_bytes(boundary: str, *pairs: tuple[str, str]) -> bytes:
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in pairs
    ]
    return "".join([*parts, f"--{boundary}--\r\n"]).encode()


JSON, FORM = "application/json", "application/x-www-form-urlencoded"


def python_requests(method: str, target: str, body: bytes = b"", kind: str = "", headers: Headers = ()) -> RawRequest:
    """Python's requests 2.34."""
    lines = [
        ("Host", "{host}"),
        ("User-Agent", "python-requests/2.34.2"),
        ("Accept-Encoding", "gzip, deflate"),
        ("Accept", "*/*"),
        ("Connection", "keep-alive"),
        *headers,
        *_length_and_kind(method, body, kind),
    ]
    return RawRequest(method, target, lines, body)


def python_httpx(method: str, target: str, body: bytes = b"", kind: str = "", headers: Headers = ()) -> RawRequest:
    """Python's httpx 0.28. A header of the program's own takes the place of a default one."""
    own = {name.lower() for name, _ in headers}
    defaults = [
        ("Accept", "*/*"),
        ("Accept-Encoding", "gzip, deflate"),
        ("Connection", "keep-alive"),
        ("User-Agent", "python-httpx/0.28.1"),
    ]
    kept = [(name, value) for name, value in defaults if name.lower() not in own]
    lines = [("Host", "{host}"), *kept, *headers, *_length_and_kind(method, body, kind)]
    return RawRequest(method, target, lines, body)


def node_fetch(method: str, target: str, body: bytes = b"", kind: str = "", headers: Headers = ()) -> RawRequest:
    """fetch of Node 18 and later, by undici."""
    lines = [
        ("host", "{host}"),
        ("connection", "keep-alive"),
        *([("Content-Type", kind)] if kind else []),
        *headers,
        ("accept", "*/*"),
        ("accept-language", "*"),
        ("sec-fetch-mode", "cors"),
        ("user-agent", "node"),
        ("accept-encoding", "gzip, deflate"),
        *([("content-length", str(len(body)))] if method != "GET" else []),
    ]
    return RawRequest(method, target, lines, body)


EXTENSION = "chrome-extension://nlkaejimjacpillmajjnopmpbkbnocid"


def chrome_fetch(
    method: str, target: str, body: bytes = b"", kind: str = "", headers: Headers = (), origin: str = EXTENSION
) -> RawRequest:
    """fetch of Chrome, from an extension's page or a web page."""
    lines = [
        ("Host", "{host}"),
        ("Connection", "keep-alive"),
        *([("Content-Length", str(len(body)))] if method != "GET" else []),
        ("sec-ch-ua-platform", '"Linux"'),
        (
            "User-Agent",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/146.0.0.0 Safari/537.36",
        ),
        *headers,
        *([("Content-Type", kind)] if kind else []),
        ("Accept", "*/*"),
        ("Origin", origin),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Mode", "cors"),
        ("Sec-Fetch-Dest", "empty"),
        ("Accept-Encoding", "gzip, deflate, br, zstd"),
        ("Accept-Language", "en-US,en;q=0.9"),
    ]
    return RawRequest(method, target, lines, body)


def preflight(target: str, headers: str, origin: str = EXTENSION, method: str = "POST") -> RawRequest:
    """What Chrome asks before it sends a page's request with `headers`, names in lower case separated by commas."""
    asked = [("Access-Control-Request-Method", method), ("Access-Control-Request-Headers", headers)]
    found = chrome_fetch("OPTIONS", target, headers=asked, origin=origin)
    return RawRequest("OPTIONS", target, [line for line in found.headers if line[0] != "Content-Length"])


def demand_allowed(answer: Answer, origin: str = EXTENSION) -> None:
    """A browser hands a response over to the script only with this header."""
    if answer.headers.get("access-control-allow-origin") not in ("*", origin):
        raise Shown("Failed to fetch")


def dotnet(method: str, target: str, body: bytes = b"", kind: str = "", headers: Headers = ()) -> RawRequest:
    """.NET's HttpClient. `kind` is "application/json; charset=utf-8" for PostAsJsonAsync and StringContent."""
    lines = [
        ("Host", "{host}"),
        *headers,
        *([("Content-Type", kind)] if kind else []),
        *([("Content-Length", str(len(body)))] if method != "GET" else []),
    ]
    return RawRequest(method, target, lines, body)


def dotnet_json(value: object) -> bytes:
    """JSON by System.Text.Json, which escapes all but ASCII, and what HTML could take for markup."""
    written = json.dumps(value, separators=(",", ":"))
    for character in "&'<>+`":
        written = written.replace(character, f"\\u{ord(character):04X}")
    return written.encode()


def php_json(value: object) -> bytes:
    """JSON by PHP's json_encode."""
    return json.dumps(value, separators=(",", ":")).replace("/", "\\/").encode()


def node_http(method: str, target: str, body: bytes = b"", headers: Headers = (), agent: str = "") -> RawRequest:
    """Node's http, below node-fetch and axios: the program's headers first. `agent`: its User-Agent."""
    lines = [
        *headers,
        *([("User-Agent", agent)] if agent else []),
        *([("Content-Length", str(len(body)))] if method != "GET" else []),
        ("Accept-Encoding", "gzip, deflate, br"),
        ("Host", "{host}"),
        ("Connection", "keep-alive"),
    ]
    return RawRequest(method, target, lines, body)


def okhttp(method: str, target: str, body: bytes = b"", headers: Headers = (), kind: str = "") -> RawRequest:
    """Java's and Kotlin's OkHttp."""
    lines = [
        *headers,
        *([("Content-Type", kind)] if kind else []),
        *([("Content-Length", str(len(body)))] if method != "GET" else []),
        ("Host", "{host}"),
        ("Connection", "Keep-Alive"),
        ("Accept-Encoding", "gzip"),
        ("User-Agent", "okhttp/4.12.0"),
    ]
    return RawRequest(method, target, lines, body)


def curl(
    method: str, target: str, body: bytes = b"", kind: str = "", headers: Headers = (), agent: str = ""
) -> RawRequest:
    """libcurl, also below PHP: no User-Agent unless the program sets one, as `agent`."""
    first = [("Host", "{host}"), *([("User-Agent", agent)] if agent else []), ("Accept", "*/*")]
    length = [("Content-Length", str(len(body))), ("Content-Type", kind)] if kind else []
    return RawRequest(method, target, [*first, *headers, *length], body)


def electron(method: str, target: str, body: bytes = b"", kind: str = "", headers: Headers = ()) -> RawRequest:
    """Chromium's network stack without a page: net.request of Electron, and Obsidian's requestUrl."""
    lines = [
        ("Host", "{host}"),
        ("Connection", "keep-alive"),
        *([("Content-Length", str(len(body)))] if method != "GET" else []),
        *([("Content-Type", kind)] if kind else []),
        *headers,
        ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0"),
        ("Sec-Fetch-Site", "none"),
        ("Sec-Fetch-Mode", "no-cors"),
        ("Sec-Fetch-Dest", "empty"),
        ("Accept-Encoding", "gzip, deflate, br, zstd"),
        ("Accept-Language", "en-US"),
    ]
    return RawRequest(method, target, lines, body)


def go_http(method: str, target: str, body: bytes = b"", headers: Headers = ()) -> RawRequest:
    """Go's net/http, which sorts headers."""
    lines = [
        ("Host", "{host}"),
        ("User-Agent", "Go-http-client/1.1"),
        *([("Content-Length", str(len(body)))] if body else []),
        *sorted(headers),
        ("Accept-Encoding", "gzip"),
    ]
    return RawRequest(method, target, lines, body)


def _length_and_kind(method: str, body: bytes, kind: str) -> list[tuple[str, str]]:
    length = [("Content-Length", str(len(body)))] if body or method != "GET" else []
    return [*length, *([("Content-Type", kind)] if kind else [])]


# ---- The live service


class QuickDecoder(DecodeBatch):
    """Decodes each sentence in one step: into itself, after a word that tells a translation from its source."""

    first = 0
    """The token of that word."""

    def admit(self, hypotheses: Sequence[Hypothesis]) -> None:
        self.running.extend(hypotheses)

    def step(self, most: int = 1, enough: int = 0) -> list[Hypothesis]:
        done = self.running
        self.steps = [len(done)]
        for hypothesis in done:
            self._finish(hypothesis)
            if hypothesis.beam_size > 1:
                other = hypothesis.without_result()
                self._finish(other, twice=True)
                best = hypothesis.without_result()
                self._finish(best)
                hypothesis.finished = [best, other]
        self.running = []
        return done

    def remove(self, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        self.running = [hypothesis for hypothesis in self.running if hypothesis not in hypotheses]
        return list(hypotheses)

    def _finish(self, hypothesis: Hypothesis, twice: bool = False) -> None:
        source = list(hypothesis.source)
        added = [self.first] * (2 if twice else 1)
        hypothesis.tokens = [*(hypothesis.forced or [*hypothesis.prefix, *added, *source]), self._eos]
        hypothesis.log_probs = [-0.1] * len(hypothesis.tokens)
        last = len(source) - 1
        hypothesis.aligned = [min(max(0, place - len(added)), last) for place in range(len(hypothesis.tokens))]
        hypothesis.coverage = [1.0] * (len(source) + 1)
        hypothesis.finish_reason = "stop"


@dataclass
class Live:
    """A service on a socket."""

    url: str
    scheduler: Scheduler
    keys: Mapping[str, str]
    """By name; empty if it requires none."""
    translated: dict[str, list[str]] = field(default_factory=dict)
    """What `translations` has asked for."""

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    @contextmanager
    def overloaded(self) -> Iterator[None]:
        """The engine's queue has no room for anybody."""
        room, self.scheduler.queue_tokens = self.scheduler.queue_tokens, 0
        yield
        self.scheduler.queue_tokens = room


def translations(live: Live, texts: Sequence[str], source: str = "en", target: str = "fr", **fields: Any) -> list[str]:
    """Translations by the service's own API, which is at one of two addresses."""
    body = {"text": list(texts), "source": source, "target": target, **fields}
    asked = json.dumps(body)
    if asked in live.translated:
        return live.translated[asked]
    for path in ("/interlinear/translate", "/translate"):
        found = httpx.post(f"{live.url}{path}", json=body, headers={"Authorization": f"Bearer {live.keys.get('ours')}"})
        if found.status_code != 404:
            break
    live.translated[asked] = [item["text"] for item in found.json()["translations"]]
    return live.translated[asked]


PAIRS = ("en", "fr"), ("fr", "en"), ("en", "de")


def make_bundles(folder: Path, pairs: Sequence[tuple[str, str]]) -> None:
    """Bundles of pairs, all with one model: QuickDecoder asks none."""
    model, tokenizer = untrained_model("en", "fr", 0)
    sample = {"source": SURE, "source_ids": [5], "target_ids": [5]}  # nobody checks it
    QuickDecoder.first = tokenizer.encode("chat")[0]
    shared = {"training": {"corpora": []}, "metrics": [], "licence": "CC0-1.0", "remarks": [], "samples": [sample]}
    for source, target in pairs:
        record = {"source": source, "target": target, **shared}
        save_bundle(folder / f"{source}-{target}", model, tokenizer, BUNDLE_LIMITS, record, "A bundle for tests.\n")


class Services:
    """Live services of the same bundles, started when they are first used."""

    def __init__(self, folder: Path, key_names: Sequence[str], pairs: Sequence[tuple[str, str]] = PAIRS) -> None:
        """`key_names`: of keys that are needed. For each there is also `NAME-limited`: a single request an hour."""
        self._folder, self._running = folder, dict[object, tuple[Any, Live]]()
        self._patch = pytest.MonkeyPatch()
        self._schedulers: list[Scheduler] = []
        make_bundles(folder / "bundles", pairs)
        decode_with(QuickDecoder, self._patch)
        schedulers = self._schedulers

        class Remembered(Scheduler):
            def __init__(self, *arguments: Any, **options: Any) -> None:
                super().__init__(*arguments, **options)
                schedulers.append(self)

        self._patch.setattr("app.services.reload.Scheduler", Remembered)
        made = {name: new_key(name) for each in ("ours", *key_names) for name in (each, f"{each}-limited")}
        self.keys = {name: key for name, (key, _) in made.items()}
        limits = {name: " requests=1/hour" if name.endswith("-limited") else "" for name in made}
        self.keys_file = folder / "keys"
        self.keys_file.write_text("\n".join(line + limits[name] for name, (_, line) in made.items()))

    def get(self, root_api: str = "", keys: bool = False, **settings: Any) -> Live:
        """The service with these settings."""
        chosen = {
            **({"root_api": root_api} if root_api else {}),
            **({"api_keys_file": self.keys_file} if keys else {}),
            **settings,
        }
        wanted = json.dumps(chosen, sort_keys=True, default=str)
        if wanted not in self._running:
            context = listening(self._folder / "bundles", **chosen)
            url = context.__enter__()
            live = Live(url, self._schedulers[-1], self.keys if keys else {})
            self._running[wanted] = context, live
        return self._running[wanted][1]

    def stop(self) -> None:
        for context, _ in self._running.values():
            context.__exit__(None, None, None)
        self._patch.undo()


# ---- Replaying


def dialogue(tool: Tool, wire: Wire, texts: Sequence[str], key: str | None = None, target: str = "") -> list[str]:
    """What the tool shows for texts. Raises Shown."""
    found: list[str] = []
    for request in tool.translate(texts, tool.source, target or tool.target, key):
        found += asked(tool, wire, request)
    return found


def asked(tool: Tool, wire: Wire, request: RawRequest) -> list[str]:
    """Sends a request as often as the tool does, without its pauses, and reads the last answer."""
    answer = wire.send(request)
    for _ in range(tool.attempts - 1):
        if answer.status not in tool.retried:
            break
        answer = wire.send(request)
    return tool.read(answer)


def at_once(tool: Tool, live: Live, texts: Sequence[str], key: str | None = None) -> list[str]:
    """What the tool shows for texts that it sends over several connections at once."""
    requests = tool.translate(texts, tool.source, tool.target, key)
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(live.host)) for _ in range(min(tool.connections, len(requests)))]

        def shares(number: int) -> list[list[str]]:
            return [asked(tool, wires[number], request) for request in requests[number :: len(wires)]]

        with ThreadPoolExecutor(len(wires)) as pool:
            found = list(pool.map(shares, range(len(wires))))
    return [text for place in range(len(requests)) for text in found[place % len(wires)][place // len(wires)]]
