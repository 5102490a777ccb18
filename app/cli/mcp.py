"""A server of the Model Context Protocol, which offers a running service to assistants as tools."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal, TypedDict

import httpx
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

from model import __version__

TIMEOUT_S = 300
MAX_TERMS = 200
"""Of a glossary in one answer, which an assistant reads as a whole."""
INSTRUCTIONS = (
    "Translates with the models of a service that the user runs. `languages` says what can be translated into what."
    " If certain words must be translated in a certain way, look for a glossary first."
)


class Translated(TypedDict):
    """A translation, and what is known about it."""

    text: str
    source: Annotated[str, Field(description="The language given or detected; und: no words")]
    quality: Annotated[float | None, Field(description="Probability that it can be used as it is; null: not known")]
    warnings: Annotated[list[str], Field(description="Suspected errors")]


def run(url: str, key: str, port: int | None) -> None:
    """Serves over standard input and output, or over HTTP on a loopback port, until the client or a signal ends it."""
    server = create_server(url, key)
    if port is None:
        server.run()
    else:
        print(f"interlinear: http://127.0.0.1:{port}/mcp", file=sys.stderr, flush=True)
        server.run("streamable-http", host="127.0.0.1", port=port)


def create_server(url: str, key: str = "") -> MCPServer[Any]:
    """The tools of the service whose own API is at `url`, with one of its API keys if it has any."""
    url = url.rstrip("/")
    root = url.removesuffix("/interlinear")  # of the other APIs
    bearer = {"Authorization": f"Bearer {key}"} if key else {}
    tls = httpx.create_ssl_context()  # takes 20 ms
    server = MCPServer[Any](
        "interlinear", "Interlinear", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING"
    )
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)

    async def ask(method: str, address: str, headers: dict[str, str] = bearer, **options: Any) -> Any:
        try:
            async with httpx.AsyncClient(headers=headers, timeout=TIMEOUT_S, verify=tls) as client:
                response = await client.request(method, address, **options)
            content = response.json()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ToolError(f"The service at {url} does not answer ({error}). Does it run? --url names it.") from None
        except ValueError:
            raise ToolError(f"{address} answers {response.status_code} without JSON. Is this the service?") from None
        if not response.is_success:
            raise ToolError(_detail(content))
        return content

    @server.tool(title="Translate", annotations=reads)
    async def translate(
        text: Annotated[str, Field(description="The text, of any length; line breaks and placeholders are kept")],
        target: Annotated[str, Field(description="The code of the language to translate into, such as fr or zh-Hans")],
        source: Annotated[str, Field(description="The code of the text's language; auto: it is detected")] = "auto",
        format: Annotated[Literal["text", "html"], Field(description="html: the text is HTML or XML")] = "text",
        terms: Annotated[dict[str, str] | None, Field(description="Terms, each with its required translation")] = None,
        glossary: Annotated[str, Field(description="The name of one of the service's glossaries, not with terms")] = "",
    ) -> Translated:
        """Translate a text into another language. Terms, or a glossary, say how certain words must be translated."""
        if terms and glossary:
            raise ToolError("Give terms or a glossary, not both.")
        body = {"text": text, "source": source, "target": target, "format": format, "glossary": glossary or terms}
        (found,) = (await ask("POST", f"{url}/translate", json=body))["translations"]
        if found["error"]:
            raise ToolError(_detail(found["error"]))
        quality, warnings = found["quality"], found["warnings"]
        return Translated(text=found["text"], source=found["source"], quality=quality, warnings=warnings)

    @server.tool(title="Detect a language", annotations=reads)
    async def detect(text: Annotated[str, Field(description="The text; a sentence is enough")]) -> dict[str, Any]:
        """Detect the `language` of a text, with a `confidence` from 0 to 100; 0 if the text contains no words."""
        found: list[dict[str, Any]] = await ask("POST", f"{root}/libretranslate/detect", json={"q": text})
        return found[0]

    @server.tool(title="List languages", annotations=reads)
    async def languages() -> list[dict[str, Any]]:
        """List the languages that can be translated from, each with the targets that it can be translated into."""
        found: list[dict[str, Any]] = await ask("GET", f"{url}/languages")
        return found

    @server.tool(title="Look up a glossary", annotations=reads)
    async def glossary(
        name: Annotated[str, Field(description="The glossary's name; empty: list all, without their terms")] = "",
        containing: Annotated[str, Field(description="Of its terms, show those with this in them; 200 at most")] = "",
    ) -> list[dict[str, Any]]:
        """List the service's glossaries, for each direction, or look up required translations of terms in one."""
        address, headers = f"{root}/deepl/v3/glossaries", {"Authorization": f"DeepL-Auth-Key {key or 'none'}"}
        found = []
        for each in (await ask("GET", address, headers=headers))["glossaries"]:
            # Those of the service's folder, which `translate` takes, have their name as the id.
            if not each["glossary_id"] == each["name"] == (name or each["name"]):
                continue
            for pair in each["dictionaries"]:
                codes = {"source": pair["source_lang"], "target": pair["target_lang"]}
                found.append({"name": each["name"], **codes, "entries": pair["entry_count"]})
                if name:
                    query = {"source_lang": codes["source"], "target_lang": codes["target"]}
                    answer = await ask("GET", f"{address}/{name}/entries", params=query, headers=headers)
                    lines = answer["dictionaries"][0]["entries"].split("\n")
                    shown = [line.split("\t", 1) for line in lines if containing.casefold() in line.casefold()]
                    found[-1]["terms"] = dict(shown[:MAX_TERMS])
        if name and not found:
            raise ToolError(f"There is no glossary {name}.")
        return found

    return server


def _detail(problem: Any) -> str:
    """What an error says: ours in `detail`, LibreTranslate's in `error`, DeepL's in `message`."""
    said = problem if isinstance(problem, dict) else {}
    fields = "".join(f" {each['pointer']}: {each['detail']}." for each in said.get("errors") or [])
    return str(said.get("message") or said.get("error") or said.get("detail") or problem) + fields
