"""A web server on loopback that plays an OpenAI-compatible server with a large model, good or bad."""

from __future__ import annotations

import http.server
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Answer = Callable[[str, int], Any]
"""From the text of a prompt, and how often it was asked before, to the answer: a text, a status, a completion, or
bytes; None: the connection ends without one."""
_TEXT = re.compile(r"The text to translate:\n(.*)\Z", re.DOTALL)


class LlmStub(http.server.ThreadingHTTPServer):
    """Answers each question as `answer` says. `asked` has the requests' bodies, `most` how many came at once."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: Answer = lambda text, times: text
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.waiting = self.most = 0
        self.stopped = threading.Event()
        """Ends answers that never end."""
        self.lock = threading.Lock()
        self._times: dict[str, int] = {}

    def handle_error(self, request: object, client_address: object) -> None:
        """Says nothing: clients that stop waiting close their connection."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def texts(self) -> list[str]:
        return [text_of(body) for body in self.asked]

    def forget(self) -> None:
        """Forgets what was asked."""
        with self.lock:
            self.stopped.set()
            self.stopped = threading.Event()
            self.asked, self.headers, self.waiting, self.most, self._times = [], [], 0, 0, {}

    def note(self, body: dict[str, Any], headers: dict[str, str]) -> int:
        """Returns how often the text was asked before."""
        with self.lock:
            self.asked.append(body)
            self.headers.append(headers)
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            text = text_of(body)
            self._times[text] = self._times.get(text, -1) + 1
            return self._times[text]


def text_of(body: dict[str, Any]) -> str:
    """The text that a request asks to translate, in the template `instruct`."""
    found = _TEXT.search(str(body["messages"][-1]["content"]))
    return found[1] if found else ""


def completion(text: object, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop", **fields}
    return {"choices": [choice]}


class _Handler(http.server.BaseHTTPRequestHandler):
    server: LlmStub
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in one packet: the second of two would wait 40 ms for the first's acknowledgement

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        times = self.server.note(body, dict(self.headers))
        try:
            answer = self.server.answer(text_of(body), times)
        finally:
            with self.server.lock:
                self.server.waiting = max(0, self.server.waiting - 1)
        if answer is None:
            self.close_connection = True
            return
        status = answer if isinstance(answer, int) else 200
        content = answer
        if isinstance(answer, str):
            content = completion(answer)
        if not isinstance(content, bytes):
            content = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def llm_stub() -> Iterator[LlmStub]:
    """A stub that listens."""
    stub = LlmStub()
    thread = threading.Thread(target=stub.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield stub
    finally:
        stub.stopped.set()
        stub.shutdown()
        stub.server_close()
        thread.join()
