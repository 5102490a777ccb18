"""A request without a host, or with two, is refused in its API's format."""

from __future__ import annotations

import socket
from pathlib import Path

from servers import WAIT_S, rest
from shared_fixtures import listening


def test_request_must_have_exactly_one_host(bundle_folder: Path) -> None:
    none, one, two = "", "Host: a\r\n", "Host: a\r\nHost: a\r\n"
    expected = [
        ("GET /health HTTP/1.1", none, b"400"),
        ("GET /health HTTP/1.1", one, b"200"),
        ("GET /health HTTP/1.1", two, b"400"),
        ("GET /health HTTP/1.0", none, b"200"),
        ("GET /health HTTP/1.0", one, b"200"),
        ("GET /health HTTP/1.0", two, b"400"),
        ("POST /translate HTTP/1.1", two, b"400"),
        ("GET /libretranslate/languages HTTP/1.1", two, b"400"),
        ("GET /deepl/v2/languages HTTP/1.1", none, b"400"),
    ]
    found, words = [], []
    with listening(bundle_folder) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        for line, hosts, _ in expected:
            with socket.create_connection((host, int(port)), timeout=WAIT_S) as client:
                client.sendall(f"{line}\r\n{hosts}Connection: close\r\n\r\n".encode())
                answer = rest(client)
            found.append((line, hosts, answer.split()[1]))
            words.append(answer)
    assert found == expected
    assert b"urn:interlinear:error:wrong-host" in words[0] and b"x-request-id" in words[0]
    assert b'{"error":' in words[7].replace(b" ", b"") and b'{"message":' in words[8].replace(b" ", b"")
