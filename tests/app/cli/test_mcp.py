"""app/cli/mcp.py: the tools that assistants get, called by the SDK's own client, over HTTP and standard input."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult, TextContent
from servers import WAIT_S, becomes
from shared_fixtures import listening
from typer.testing import CliRunner

from app.__main__ import cli
from app.cli.mcp import create_server
from app.http.api_keys import new_key

pytestmark = pytest.mark.slow

T = TypeVar("T")
KEY, KEY_LINE = new_key("assistant")


@pytest.fixture(scope="module")
def url(bundle_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with two glossaries, and with keys."""
    folder = tmp_path_factory.mktemp("glossaries")
    (folder / "animals.en-fr.tsv").write_text("cat\tmatou\ndog\ttoutou\n", encoding="utf-8")
    (folder / "many.en-fr.tsv").write_text("".join(f"w{n}\tm{n}\n" for n in range(250)), encoding="utf-8")
    keys = folder / "keys.txt"
    keys.write_text(f"{KEY_LINE}\n", encoding="utf-8")
    with listening(bundle_folder, glossaries=folder, api_keys_file=keys) as url:
        yield url


def using(url: str, work: Callable[[Client], Awaitable[T]], key: str = KEY) -> T:
    """What `work` returns with a client of a server in this process."""

    async def run() -> T:
        async with Client(create_server(url, key)) as client:
            return await work(client)

    return asyncio.run(run())


def call(url: str, tool: str, key: str = KEY, **arguments: Any) -> CallToolResult:
    return using(url, lambda client: client.call_tool(tool, arguments), key)


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def refused(url: str, tool: str, key: str = KEY, **arguments: Any) -> str:
    """The error that a tool gives."""
    result = call(url, tool, key, **arguments)
    assert result.is_error
    return text_of(result)


def test_every_tool_and_every_argument_is_described(url: str) -> None:
    async def listed(client: Client) -> Any:
        return (await client.list_tools()).tools

    tools = {tool.name: tool for tool in using(url, listed)}
    assert set(tools) == {"translate", "detect", "languages", "glossary"}
    for tool in tools.values():
        assert tool.description
        assert "\n" not in tool.description
        assert tool.annotations
        assert tool.annotations.read_only_hint
        assert tool.output_schema
        assert all("description" in each for each in tool.input_schema["properties"].values())
    assert tools["translate"].input_schema["required"] == ["text", "target"]


def test_a_text_is_translated_as_the_service_translates_it(url: str) -> None:
    asked = {"text": "The cat sleeps.", "source": "en", "target": "fr"}
    answer = httpx.post(f"{url}/translate", json=asked, headers={"Authorization": f"Bearer {KEY}"}).json()
    expected = {name: answer["translations"][0][name] for name in ("text", "source", "quality", "warnings")}
    assert expected["text"]
    assert call(url, "translate", **asked).structured_content == expected


def test_the_source_language_is_detected_unless_it_is_given(url: str) -> None:
    found = call(url, "translate", text="This is a sentence in the English language.", target="fr").structured_content
    assert found is not None
    assert found["source"] == "en"


@pytest.mark.parametrize("given", [{"terms": {"cat": "Mistigri"}}, {"glossary": "animals"}])
def test_terms_and_glossaries_are_enforced(url: str, given: dict[str, Any]) -> None:
    found = call(url, "translate", text="cat", source="en", target="fr", **given).structured_content
    assert found is not None
    assert found["text"] == ("Mistigri" if "terms" in given else "matou")


def test_markup_is_kept_in_html(url: str) -> None:
    found = call(url, "translate", text="<p>The <b>cat</b></p>", source="en", target="fr", format="html")
    assert found.structured_content is not None
    assert found.structured_content["text"].startswith("<p>")


def test_a_language_is_detected(url: str) -> None:
    found = call(url, "detect", text="This is a sentence in the English language.").structured_content
    assert found is not None
    assert found["language"] == "en"
    assert found["confidence"] > 50


def test_languages_are_listed_with_their_targets(url: str) -> None:
    assert call(url, "languages").structured_content == {
        "result": [{"code": "en", "name": "English", "targets": ["fr"]}]
    }


def test_glossaries_are_listed_without_terms(url: str) -> None:
    item = {"source": "en", "target": "fr"}
    assert call(url, "glossary").structured_content == {
        "result": [{"name": "animals", **item, "entries": 2}, {"name": "many", **item, "entries": 250}]
    }


def test_terms_are_looked_up_in_a_glossary(url: str) -> None:
    def terms(**arguments: str) -> Any:
        found = call(url, "glossary", **arguments).structured_content
        assert found is not None
        return found["result"][0]["terms"]

    assert terms(name="animals") == {"cat": "matou", "dog": "toutou"}
    assert terms(name="animals", containing="TOU") == {"cat": "matou", "dog": "toutou"}
    assert terms(name="animals", containing="dog") == {"dog": "toutou"}
    assert terms(name="animals", containing="horse") == {}
    assert len(terms(name="many")) == 200


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("translate", {"text": "Hello.", "source": "en", "target": "de"}, "de"),
        ("translate", {"text": "Hello.", "source": "", "target": "fr"}, "#/source"),
        ("translate", {"text": "cat", "source": "en", "target": "fr", "glossary": "plants"}, "animals, many"),
        ("translate", {"text": "cat", "target": "fr", "glossary": "animals", "terms": {"cat": "x"}}, "not both"),
        ("translate", {"text": "cat"}, "target"),
        ("glossary", {"name": "plants"}, "There is no glossary plants."),
    ],
)
def test_errors_of_the_service_become_errors_of_the_tool(
    url: str, tool: str, arguments: dict[str, Any], said: str
) -> None:
    assert said in refused(url, tool, **arguments)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("translate", {"text": "Hello.", "target": "fr"}), ("detect", {"text": "Hello."}), ("glossary", {})],
)
def test_a_missing_key_is_said(url: str, tool: str, arguments: dict[str, Any]) -> None:
    assert "key" in refused(url, tool, key="", **arguments)


def test_an_address_where_nothing_listens_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert f"The service at http://127.0.0.1:{port} does not answer" in refused(f"http://127.0.0.1:{port}", "languages")


class _Page(BaseHTTPRequestHandler):
    paths: list[str] = []  # noqa: RUF012  # of the test

    def do_GET(self) -> None:
        self.paths.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"a page")

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


def test_another_server_is_recognised_and_our_api_may_be_below_interlinear() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as page:
        threading.Thread(target=page.serve_forever).start()
        address = f"http://127.0.0.1:{page.server_port}"
        said = refused(f"{address}/interlinear/", "languages"), refused(f"{address}/interlinear/", "glossary")
        page.shutdown()
    assert _Page.paths == ["/interlinear/languages", "/deepl/v3/glossaries"]
    assert all("answers 200 without JSON. Is this the service?" in each for each in said)


def test_the_command_speaks_over_standard_input_and_output(url: str) -> None:
    async def run() -> Any:
        command = [sys.executable, "-m", "app", "mcp", "--url", url]
        server = StdioServerParameters(command=command[0], args=command[1:], env={**os.environ, "INTERLINEAR_KEY": KEY})
        async with Client(stdio_client(server)) as client:
            return (await client.call_tool("languages", {})).structured_content

    assert asyncio.run(run())["result"][0]["code"] == "en"


def test_the_command_speaks_over_http_on_loopback(url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    environ = {**os.environ, "INTERLINEAR_KEY": KEY, "INTERLINEAR_URL": url}
    command = [sys.executable, "-m", "app", "mcp", "--http", "--port", str(port)]
    address = f"http://127.0.0.1:{port}/mcp"
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        assert process.stderr.readline() == f"interlinear: {address}\n"

        def listens() -> bool:
            with socket.socket() as tried:
                return tried.connect_ex(("127.0.0.1", port)) == 0

        async def run() -> Any:
            async with Client(address) as client:
                return (await client.call_tool("languages", {})).structured_content

        try:
            assert becomes(listens)
            assert asyncio.run(run())["result"][0]["code"] == "en"
            # A page in a browser that has another name for this machine must not use it.
            assert httpx.post(address, json={}, headers={"Host": "evil.example"}, timeout=WAIT_S).status_code == 421
        finally:
            process.terminate()


def test_without_the_sdk_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    monkeypatch.delitem(sys.modules, "app.cli.mcp")
    result = CliRunner().invoke(cli, ["mcp"])
    assert result.exit_code == 2
    assert "pip install 'interlinear[mcp]'" in result.output
