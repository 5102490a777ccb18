"""Translates texts, sentence by sentence, and files, with httpx.

    python docs/examples/client.py http://127.0.0.1:8000 en fr "Hello. How are you?" report.docx

Copy what you need: `send` retries and raises, `translate` takes several texts, `stream` yields sentences as they are
done, `translate_file` uploads. With API keys, give the client `headers={"Authorization": f"Bearer {key}"}`.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

RETRIED = {429, 503}
"""Over a rate, and overloaded or not ready. Any other error stays the same if the request is repeated."""


class Problem(Exception):
    """An error of the service (RFC 9457): `fields` has type, title, status, detail, and errors by field."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__(f"{fields['title']}: {fields['detail']}")
        self.fields = fields


def send(
    client: httpx.Client,
    path: str,
    *,
    stream: bool = False,
    attempts: int = 5,
    sleep: Callable[[float], object] = time.sleep,
    **content: Any,
) -> httpx.Response:
    """Posts `content`, as `json` or as `data` and `files`; waits and retries where the service says so.

    With `stream`, the response's body is still to be read. Raises Problem.
    """
    for attempt in range(1, attempts + 1):
        response = client.send(client.build_request("POST", path, **content), stream=stream)
        if response.is_success:
            return response
        response.read()
        response.close()
        if response.status_code not in RETRIED or attempt == attempts:
            break
        sleep(float(response.headers.get("Retry-After", 1)))
    if response.headers.get("Content-Type") != "application/problem+json":  # from a proxy in between
        response.raise_for_status()
    raise Problem(response.json())


def translate(client: httpx.Client, texts: list[str], source: str, target: str) -> list[str]:
    """The translations of `texts`. Raises Problem for the first that has none; the response has those of the others."""
    response = send(client, "/translate", json={"text": texts, "source": source, "target": target})
    translations = []
    for one in response.json()["translations"]:
        if one["error"]:
            raise Problem(one["error"])
        translations.append(one["text"])
    return translations


def stream(client: httpx.Client, text: str, source: str, target: str) -> Iterator[str]:
    """The translation in parts, a sentence each with what precedes it, as soon as it is done."""
    response = send(client, "/translate/stream", stream=True, json={"text": text, "source": source, "target": target})
    try:
        event = ""
        for line in response.iter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                event = value
            elif name == "data" and event == "part":
                yield json.loads(value)["text"]
            elif name == "data" and event == "error":
                raise Problem(json.loads(value))
            elif name == "data" and event == "done":
                return
        raise httpx.RemoteProtocolError("the stream ended without `done`")
    finally:
        response.close()  # the service stops translating if this comes early


def translate_file(client: httpx.Client, path: Path, source: str, target: str) -> Path:
    """Writes the translation of a document beside it: of report.docx, report.fr.docx."""
    fields = {"source": source, "target": target}
    response = send(client, "/translate/file", data=fields, files={"file": (path.name, path.read_bytes())})
    written = path.with_suffix(f".{target}{path.suffix}")
    written.write_bytes(response.content)
    return written


def main(url: str, source: str, target: str, *things: str) -> None:
    with httpx.Client(base_url=url, timeout=120) as client:
        for thing in things:
            if Path(thing).is_file():
                print(translate_file(client, Path(thing), source, target))
            else:
                for part in stream(client, thing, source, target):
                    print(part, end="", flush=True)
                print()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (Problem, httpx.HTTPError) as error:
        sys.exit(str(error))
