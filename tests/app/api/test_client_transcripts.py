"""app/api/: the dialogues of other programs, byte for byte: what each asks at the start, one text and thirty at once,
blank and long ones, and refusals, with what its user then sees."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import client_tools_deepl
import client_tools_deeplx
import client_tools_dialects
import client_tools_google
import client_tools_libretranslate
import pytest
from client_transcripts import BLANKS, HELLO, Answer, Live, Services, Shown, Tool, Wire, at_once, dialogue, translations

pytestmark = pytest.mark.slow

MODULES = (
    client_tools_libretranslate,
    client_tools_deepl,
    client_tools_deeplx,
    client_tools_dialects,
    client_tools_google,
)
TOOLS = [tool for module in MODULES for tool in module.TOOLS]
THIRTY = [f"My friend number {number} sleeps here." for number in range(30)]
LONG = " ".join(f"This is the sentence with the number {number}, and it is not the last." for number in range(20))
every_tool = pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
with_key = pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool.takes_key], ids=lambda tool: tool.name)


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    services = Services(tmp_path_factory.mktemp("tools"), [tool.slug for tool in TOOLS])
    yield services
    services.stop()


def live_for(services: Services, tool: Tool, **settings: object) -> Live:
    return services.get(tool.root_api, **{**tool.settings, **settings})


def key_of(live: Live, tool: Tool, limited: bool = False) -> str:
    return live.keys[tool.slug + ("-limited" if limited else "")]


def works(tool: Tool, live: Live, wire: Wire, key: str | None = None) -> None:
    """Asserts that the connection is as good as new."""
    opened = wire.opened
    assert dialogue(tool, wire, [HELLO], key) == translations(live, [HELLO])
    assert wire.opened == max(1, opened) or not tool.keeps_alive


def refused(
    tool: Tool, wire: Wire, kind: str, key: str | None = None, target: str = "", text: str = HELLO, times: int = 1
) -> None:
    """Asserts that the tool shows what it should for this kind of refusal, at the latest for the last of `times`
    texts."""

    def ask() -> None:
        for _ in range(times):
            dialogue(tool, wire, [text], key, target)

    with pytest.raises(Shown) as caught:
        ask()
    assert tool.shows(kind, str(caught.value)), str(caught.value)


@every_tool
def test_what_it_asks_at_the_start_is_answered_as_it_demands(services: Services, tool: Tool) -> None:
    live = live_for(services, tool)
    with Wire(live.host) as wire:
        for step in tool.start:
            step.demand(wire.send(step.request(None)))
        works(tool, live, wire)


@with_key
def test_what_it_asks_at_the_start_is_answered_where_keys_are_required(services: Services, tool: Tool) -> None:
    live = live_for(services, tool, keys=True)
    with Wire(live.host) as wire:
        for step in tool.start:
            step.demand(wire.send(step.request(key_of(live, tool))))
        works(tool, live, wire, key_of(live, tool))


@every_tool
def test_thirty_texts_at_once_are_translated_in_order(services: Services, tool: Tool) -> None:
    live = live_for(services, tool)
    assert at_once(tool, live, THIRTY) == translations(live, THIRTY)


@every_tool
def test_a_long_text_is_translated(services: Services, tool: Tool) -> None:
    live = live_for(services, tool)
    with Wire(live.host) as wire:
        assert dialogue(tool, wire, [LONG]) == translations(live, [LONG])
        works(tool, live, wire)


@every_tool
def test_blank_texts_are_returned_or_refused_as_the_tool_expects(services: Services, tool: Tool) -> None:
    live = live_for(services, tool)
    with Wire(live.host) as wire:
        for text in BLANKS:
            is_sent = bool(tool.translate([text], tool.source, tool.target, None))
            if is_sent and text == "" and tool.shown.get("empty"):
                refused(tool, wire, "empty", text="")
            else:
                assert "".join(dialogue(tool, wire, [text])).strip() == ""
        works(tool, live, wire)


@every_tool
def test_an_unknown_pair_is_refused(services: Services, tool: Tool) -> None:
    live = live_for(services, tool)
    with Wire(live.host) as wire:
        refused(tool, wire, "pair", target=tool.unserved)
        works(tool, live, wire)


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if "too long" in tool.shown], ids=lambda tool: tool.name)
def test_a_text_over_the_limit_is_refused(services: Services, tool: Tool) -> None:
    live = live_for(services, tool)
    with Wire(live.host) as wire:
        refused(tool, wire, "too long", text="a" * 50_001)
        works(tool, live, wire)


@every_tool
def test_without_a_key_it_shows_why(services: Services, tool: Tool) -> None:
    live = live_for(services, tool, keys=True)
    with Wire(live.host) as wire:
        refused(tool, wire, "no key")
        if tool.takes_key:
            works(tool, live, wire, key_of(live, tool))


@with_key
def test_with_a_wrong_key_it_shows_why(services: Services, tool: Tool) -> None:
    live = live_for(services, tool, keys=True)
    with Wire(live.host) as wire:
        refused(tool, wire, "wrong key", key="il_wrong")
        works(tool, live, wire, key_of(live, tool))


@every_tool
def test_over_the_rate_it_shows_why(services: Services, tool: Tool) -> None:
    """The rate is that of its key, or else of its address."""
    if tool.takes_key:
        live = live_for(services, tool, keys=True)
        address, key = "127.0.0.1", key_of(live, tool, limited=True)
    else:
        live = live_for(services, tool, rate_requests="1/hour")
        address, key = f"127.0.1.{1 + TOOLS.index(tool)}", None
    with Wire(live.host, address) as wire:
        refused(tool, wire, "rate", key, times=2)
        if tool.takes_key:
            works(tool, live, wire, key_of(live, tool))


@every_tool
def test_while_the_service_is_overloaded_it_shows_why(services: Services, tool: Tool) -> None:
    live = live_for(services, tool)
    with Wire(live.host) as wire:
        with live.overloaded():
            refused(tool, wire, "busy")
        works(tool, live, wire)


def test_subtitle_edit_chooses_forms_of_address_where_a_language_has_them(services: Services) -> None:
    """It sends `formality` as its user has chosen."""
    tool = client_tools_deepl.SUBTITLE_EDIT

    def less(source: str, target: str) -> Answer:
        [request] = tool.translate([HELLO], source, target, None)
        body = request.body.replace(b"&formality=default", b"") + b"&formality=less"
        lines = [(name, str(len(body)) if name == "Content-Length" else value) for name, value in request.headers]
        with Wire(services.get("deepl").host) as wire:
            return wire.send(replace(request, body=body, headers=lines))

    assert tool.read(less("en-GB", "fr"))
    with pytest.raises(Shown, match="does not support formality"):
        tool.read(less("fr", "en-GB"))


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        (client_tools_dialects.IMMERSIVE, "My {0}friend{1} sleeps <b0>here</b0>."),
        (client_tools_dialects.KISS, "My <i0>friend</i0> sleeps {1} here."),
        (client_tools_google.KISS_GOOGLE, "My <a i=1>friend</a> sleeps <a i=2>here</a>."),
        (client_tools_google.JETBRAINS_DOCUMENTATION, '<div class="content">My <b>friend</b> sleeps &lt; here.</div>'),
        (client_tools_dialects.OMEGAT, "My <g0>friend</g0> sleeps<x1/> here."),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_what_stands_for_markup_in_its_texts_comes_back(services: Services, tool: Tool, text: str) -> None:
    marks = re.compile(r"<[^>]*>|\{\d\}|&\w+;")
    with Wire(live_for(services, tool).host) as wire:
        (found,) = dialogue(tool, wire, [text])
    assert sorted(marks.findall(found)) == sorted(marks.findall(text))


def test_the_documentation_lists_every_tool_with_the_version_that_was_read() -> None:
    page = Path(__file__).parents[3].joinpath("docs", "tools.md").read_text(encoding="utf-8")
    listed = [tuple(map(str.strip, line.split("|")))[1:3] for line in page.splitlines() if line.startswith("| ")]
    assert [tool.name for tool in TOOLS if (tool.name, tool.version) not in listed] == []
