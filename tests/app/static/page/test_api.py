"""app/static/page/api: what the page's "API" tells people to enter in other programs, and that it works."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import client_tools_deepl
import client_tools_deeplx
import client_tools_dialects
import client_tools_google
import client_tools_libretranslate
import httpx
import pytest
from chromium import REFUSED, Visit
from playwright.sync_api import Browser, Locator, Page, Route, expect
from shared_fixtures import SHIPPED, listening
from the_page import PHONE

from app.api.dialects import chat_prompts
from app.api.dialects.table import DIALECTS
from app.http.api_keys import new_key

pytestmark = pytest.mark.browser

DOCS = Path(__file__).parents[4] / "docs" / "tools.md"
MODULES = (
    client_tools_libretranslate,
    client_tools_deepl,
    client_tools_deeplx,
    client_tools_dialects,
    client_tools_google,
)
REPLAYED = [tool for module in MODULES for tool in module.TOOLS]
READ = """async () => {
    const { OTHERS, OWN, TOOLS } = await import("./page/api/tools.js");
    const { curlCommand } = await import("./page/api/curl.js");
    const example = { text: "Where is the train station?", source: "en", target: "fr" };
    return [OWN, ...TOOLS, ...OTHERS].map((tool) => ({ ...tool, curl: curlCommand(tool, example) }));
}"""
ADDRESS = re.compile(r"(?:\{(?:url|host|origin|site)\}|(?:https?://)?(?:HOST|localhost)(?::8000)?)[^\s'\"{]*")

Entry = dict[str, Any]
"""A tool of app/static/page/api/tools.js, and its command."""


@pytest.fixture(scope="module")
def entries(browser: Browser, shipped_url: str) -> Iterator[list[Entry]]:
    visit = Visit(browser, shipped_url, shares_tab=False)
    yield visit.page().evaluate(READ)
    visit.end()


def documented() -> dict[str, tuple[str, set[str]]]:
    """What docs/tools.md says to enter in each tool, and the addresses in it."""
    tables = re.findall(r"^\| tool \| .*\n\|[-|]+\n((?:\|.*\n)+)", DOCS.read_text(encoding="utf-8"), re.M)
    rows = [[cell.strip() for cell in line.split("|")[1:]] for table in tables for line in table.splitlines()]
    return {name: (enter, addresses(" ".join(re.findall("`(.*?)`", enter)))) for name, _, enter, *_ in rows}


def addresses(text: str) -> set[str]:
    """The addresses in a text, without what differs between services."""
    found = {re.sub(r"\{(origin|site)\}", "{url}", address) for address in ADDRESS.findall(text)}
    found = {re.sub("https?://(HOST|localhost)(:8000)?", "{url}", address) for address in found}
    return {re.sub("^HOST(:8000)?", "{host}", address) for address in found}


def addresses_of(entry: Entry) -> set[str]:
    return addresses(" ".join(value for _, value in entry["fields"]))


def names_of(entry: Entry) -> set[str]:
    return {entry["name"], *entry.get("also", [])}


def by_names(entries: list[Entry]) -> dict[str, Entry]:
    return {name: entry for entry in entries for name in names_of(entry)}


def test_the_page_and_the_documentation_list_the_same_tools_and_addresses(entries: list[Entry]) -> None:
    by_name = by_names(entries)
    rows = documented()
    assert len(rows) > 60
    for name, (enter, expected) in rows.items():
        entry = by_name[name]
        if not enter.startswith(("the same", "a custom engine")):
            assert addresses_of(entry) == expected, name
        root = re.search("INTERLINEAR_ROOT_API=(\\w+)", enter)
        assert (entry["api"] if entry.get("isRoot") else "") == (root[1] if root else ""), name
    [template] = [value for label, value in by_name["Calibre's Ebook Translator"]["fields"]]
    shown = re.findall(r"^## A template for Calibre\n\n(.*?)\n\n##", DOCS.read_text(encoding="utf-8"), re.M | re.S)
    assert addresses(template) == addresses(shown[0]) == {"{url}/libretranslate/translate"}
    unlisted = [entry["name"] for entry in entries if not names_of(entry) & rows.keys()]
    others = ["LibreTranslate", "DeepL", "Google Translate", "Azure Translator", "nllb-serve", "OpenAI"]
    assert unlisted == ["", "PDFMathTranslate Azure", *others]


def test_the_page_has_a_field_for_a_key_where_the_replayed_tools_send_one(entries: list[Entry]) -> None:
    by_name = by_names(entries)
    for tool in REPLAYED:
        entry = by_name[tool.name]
        has_key = any(re.search(r"\{(key|any|\?token|\?key)\}", value) for _, value in entry["fields"])
        assert has_key == tool.takes_key or not entry["fields"], tool.name
        assert (entry["api"] if entry.get("isRoot") else "") == tool.root_api, tool.name


def test_the_tools_whose_prompts_are_understood_are_named(entries: list[Entry]) -> None:
    [openai] = [entry for entry in entries if entry["api"] == "openai"]
    named = re.sub(r" \(.*?\)", "", chat_prompts.TOOLS)
    assert openai["prompts"] == re.split(", | and ", named)


# ---- Commands


def run(command: str, key: str = "") -> httpx.Response:
    """Sends what curl sends."""
    words = iter(shlex.split(command.replace("KEY", key)))
    assert next(words) == "curl"
    is_query, url = False, ""
    sent: list[tuple[str, str]] = []
    for word in words:
        if word == "-G":
            is_query = True
        elif word in ("-H", "-d", "--data-urlencode"):
            sent.append((word, next(words)))
        else:
            url = word
    headers = dict(value.split(": ") for option, value in sent if option == "-H")
    data = [value for option, value in sent if option != "-H"]
    if data and data[0][0] in "{[":
        return httpx.post(url, content=data[0], headers=headers)
    form = urlencode(dict(value.split("=", 1) for value in data))
    if is_query:
        return httpx.get(f"{url}?{form}", headers=headers)
    return httpx.post(url, content=form, headers={"Content-Type": "application/x-www-form-urlencoded", **headers})


def translates(command: str, key: str = "") -> bool:
    answer = run(command, key)
    is_json = answer.headers["content-type"].startswith("application/json")
    return "Où est la gare" in (json.dumps(answer.json(), ensure_ascii=False) if is_json else answer.text)


def test_the_command_of_every_tool_translates(entries: list[Entry]) -> None:
    assert {entry["api"] for entry in entries} == {"", *(dialect.name for dialect in DIALECTS)}
    commands = {entry["curl"]: entry["name"] for entry in entries if not entry.get("isRoot")}
    assert [name for command, name in commands.items() if not translates(command)] == []


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A service that requires a key, with two APIs at the root: its URL and a key."""
    key, line = new_key("tools")
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text(line)
    with listening(SHIPPED / "en-fr", precision="int8", api_keys_file=file, root_api="libretranslate,deepl") as url:
        yield url, key


def test_with_a_key_and_at_the_root_commands_translate_and_the_page_says_what_else_is_needed(
    browser: Browser, locked: tuple[str, str]
) -> None:
    url, key = locked
    visit = Visit(browser, url, shares_tab=False)
    visit.allowed.append(REFUSED)  # the key may not adapt
    page = visit.new()
    page.add_init_script(f"location.port && sessionStorage.setItem('interlinear.key', '{key}')")
    page.goto(url)
    found: list[Entry] = page.evaluate(READ)
    for name in "", "Weblate", "Nextcloud", "Subtitle Edit DeepL", "XUnity.AutoTranslator":
        [entry] = [entry for entry in found if entry["name"] == name]
        assert translates(entry["curl"], key), name
        assert not translates(entry["curl"], "il_wrong"), name
    dialog = opened(page)
    expect(value_of(dialog, "Address")).to_have_text(f"{url}/interlinear/translate")
    expect(value_of(dialog, "Header")).to_have_text("Authorization: Bearer KEY")
    pick(dialog, "Nextcloud")
    host, _, port = url.rpartition(":")
    for label, value in ("Host", host), ("Port", port), ("API-Key", "your key of this service"):
        expect(value_of(dialog, label)).to_have_text(value)
    expect(dialog.locator(".fault")).to_have_count(0)
    expect(dialog).to_contain_text("this service has INTERLINEAR_ROOT_API=libretranslate.")
    pick(dialog, "Subtitle Edit DeepLX")
    expect(dialog.locator(".note.fault")).to_contain_text(["INTERLINEAR_ROOT_API=deeplx", "It sends no key"])
    expect(dialog.locator("h4")).to_have_count(0)
    pick(dialog, "XUnity.AutoTranslator")
    lines = f"Endpoint=CustomTranslate\nUrl={url}/plain/translate?key=KEY"
    assert value_of(dialog, "Setting").inner_text() == lines
    visit.end()


# ---- The dialog


def opened(page: Page) -> Locator:
    page.click("#api")
    dialog = page.get_by_role("dialog", name="Translate from other programs")
    expect(dialog).to_be_visible()
    return dialog


def pick(dialog: Locator, name: str) -> None:
    dialog.get_by_role("radio", name=name, exact=True).check(force=True)
    expect(dialog.locator("#api-tool")).to_have_text(name)


def value_of(dialog: Locator, label: str) -> Locator:
    """What to enter in a field."""
    name = dialog.locator("dt", has_text=re.compile(f"^{re.escape(label)}$"))
    return name.locator("xpath=following-sibling::dd[1]").locator("code, span.about").first


def test_a_tool_is_found_by_keyboard_and_its_address_copied_and_nothing_is_loaded_before(visit: Visit) -> None:
    page = visit.page()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    expect(page.locator("#model-aside")).not_to_be_empty()
    assert [url for url in visit.requests if "/page/api/" in url or "i18n/api" in url] == []
    page.locator("#api").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Translate from other programs")
    expect(dialog.get_by_role("searchbox", name="Search")).to_be_focused()
    expect(value_of(dialog, "Address")).to_have_text(f"{visit.url}/translate")
    expect(dialog.get_by_role("radio", name="Your own program")).to_be_checked()
    assert dialog.get_by_role("radio").count() > 60
    page.keyboard.type("weblate")
    expect(dialog.get_by_role("radio")).to_have_count(5)
    expect(dialog.get_by_role("radio").last).to_have_accessible_name("Programs for OpenAI")  # by Weblate's prompts
    page.keyboard.press("Enter")
    expect(value_of(dialog, "API URL")).to_have_text(f"{visit.url}/libretranslate/")
    expect(value_of(dialog, "API key")).to_have_text("leave empty")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(dialog.locator("#api-tool")).to_have_text("Weblate DeepL")
    expect(value_of(dialog, "API key")).to_have_text("not-needed")
    page.keyboard.press("Tab")
    expect(dialog.get_by_role("button", name="Copy: API URL")).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("status")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"{visit.url}/deepl/v2"
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.locator("#api")).to_be_focused()
    opened(page)
    expect(page.locator("#api-tool")).to_have_text("Weblate DeepL")
    page.get_by_role("searchbox").fill("nothing of the kind")
    expect(dialog.get_by_role("radio")).to_have_count(0)
    expect(dialog).to_contain_text("Pick the API that it speaks")
    page.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)


def test_copying_works_over_plain_http_where_browsers_offer_no_clipboard(kept_visit: Visit) -> None:
    [page] = kept_visit.pages
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined, configurable: true })")
    dialog = opened(page)
    pick(dialog, "Mastodon")
    page.evaluate("addEventListener('copy', () => (window.copied = String(getSelection())), { once: true })")
    button = dialog.get_by_role("button", name="Copy: Setting")
    button.click()
    expect(dialog.get_by_role("status")).to_have_text("Copied")
    assert page.evaluate("copied") == f"LIBRE_TRANSLATE_ENDPOINT={kept_visit.url}/libretranslate"
    expect(button).to_be_focused()
    page.evaluate("document.execCommand = () => false")
    button.click()
    expect(dialog.locator(".fault")).to_have_text("The browser does not allow copying")
    page.keyboard.press("Escape")
    page.evaluate("delete navigator.clipboard; delete document.execCommand")


def test_tools_that_ask_by_https_or_take_no_path_are_told_apart(kept_visit: Visit) -> None:
    [page] = kept_visit.pages
    dialog = opened(page)
    pick(dialog, "Dialect")  # which asks localhost alone without https
    port = kept_visit.url.rpartition(":")[2]
    expect(value_of(dialog, "Instance URL")).to_have_text(f"localhost:{port}/libretranslate")
    expect(dialog.locator(".fault")).to_have_count(0)
    expect(dialog).to_contain_text("Only programs on this machine reach this address.")
    pick(dialog, "Weblate Azure")
    expect(value_of(dialog, "Base URL")).to_have_text(f"127.0.0.1:{port}/azure")
    expect(dialog.locator(".note.fault")).to_have_text(
        ["It asks by https only, so put a proxy with a certificate in front of the service."]
    )
    pick(dialog, "Akkoma")
    expect(dialog.locator(".note.fault")).to_contain_text(["it needs INTERLINEAR_ROOT_API=libretranslate, and"])
    page.keyboard.press("Escape")


def test_behind_a_proxy_with_https_and_a_path_addresses_have_both(browser: Browser, shipped_url: str) -> None:
    visit = Visit(browser, "https://example.org", shares_tab=False)
    page = visit.new()

    def forward(route: Route) -> None:
        path = route.request.url.removeprefix("https://example.org/mt")
        route.fulfill(response=route.fetch(url=f"{shipped_url}{path}"))

    page.context.route("https://example.org/mt/**", forward)
    page.goto("https://example.org/mt/#en/fr")
    dialog = opened(page)
    expect(value_of(dialog, "Address")).to_have_text("https://example.org/mt/translate")
    expect(dialog.locator(".note")).to_have_count(0)
    pick(dialog, "Weblate Azure")
    expect(value_of(dialog, "Base URL")).to_have_text("example.org/mt/azure")
    expect(dialog.locator(".fault")).to_have_count(0)
    pick(dialog, "Nextcloud")
    expect(value_of(dialog, "Host")).to_have_text("https://example.org")
    expect(value_of(dialog, "Port")).to_have_text("443")
    expect(dialog.locator(".note.fault")).to_have_count(1)
    visit.end()


def test_the_dialog_fits_a_phone_in_both_languages_and_every_control_has_a_name(visit: Visit) -> None:
    page = visit.page(**PHONE)
    for title in "Translate from other programs", "在其他程序中翻译":
        page.tap("#api")
        dialog = page.get_by_role("dialog", name=title)
        expect(dialog.locator("input[type=search]")).not_to_be_focused()
        for name in "Calibre's Ebook Translator", "OpenAI", "google-cloud-translate Python":
            dialog.locator("label", has_text=name).tap()
            expect(dialog.locator("#api-tool")).to_contain_text(name)
            for width in (390, 320):
                page.set_viewport_size({"width": width, "height": 800})
                assert dialog.evaluate("at => at.scrollWidth <= at.clientWidth && at.offsetWidth <= innerWidth")
        tree = dialog.aria_snapshot()
        assert re.findall(r"- (?:button|link|radio|radiogroup|searchbox|group)\b(?! \")[^\n]*", tree) == []
        size = "field => parseFloat(getComputedStyle(field).fontSize)"
        assert dialog.locator("input[type=search]").evaluate(size) >= 16
        dialog.locator("header button").tap()
        expect(dialog).to_have_count(0)
        page.tap("#interface")


def test_without_its_module_the_button_leads_to_the_reference(visit: Visit) -> None:
    page = visit.page()
    page.route("**/page/api/tools.js", lambda route: route.abort())
    visit.allowed.append(REFUSED)
    page.click("#api")
    page.wait_for_url("**/docs")
