"""app/static/: the page is accessible: by keyboard and screen reader, at any width, in any colour scheme; and it is
served safely."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from chromium import Visit
from playwright.sync_api import Browser, Page, Route, expect
from shared_fixtures import Service, serving
from the_page import FRENCH, TEXT, translation, type_in

FOLDER = Path("app/static/page")


@pytest.fixture(scope="module")
def shown(browser: Browser, shipped_url: str) -> Iterator[Page]:
    """A page that shows FRENCH, with all panels closed when it is opened. Tests look at it, in their order."""
    visit = Visit(browser, shipped_url, shares_tab=False)
    page = visit.page(color_scheme="light")
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(FRENCH)
    yield page
    visit.end()


def test_page_works_in_a_browser_without_storage(visit: Visit) -> None:
    page = visit.new()
    for store in ("localStorage", "sessionStorage"):
        page.add_init_script(f"Object.defineProperty(window, '{store}', {{ get() {{ throw new Error('no'); }} }})")
    page.goto(visit.url)
    type_in(page, "I am tired.")
    expect(translation(page)).to_have_text("Je suis fatigué.")
    page.click("#interface")
    expect(page.locator("#copy")).to_have_text("复制")


def test_translation_is_announced_when_typing_stops(shown: Page) -> None:
    expect(shown.get_by_role("status").filter(has_text=FRENCH)).to_have_count(1)
    expect(shown.locator("#spoken [lang=fr]")).to_have_text(FRENCH)


def test_keyboard_reaches_everything_in_visible_order(shown: Page) -> None:
    page = shown
    page.locator("h1").click()
    reached = []
    for _ in range(15):
        page.keyboard.press("Tab")
        reached.append(page.locator(":focus").evaluate("at => at.id || at.parentElement.id || at.className"))
    seen = ["api", "interface", "theme", "source-language", "swap", "target-language", "source-text", "choose-file"]
    seen += ["clear", "target-text", "copy", "show-others", "copy-link", "attention-panel", "model-panel"]
    assert reached[: len(seen)] == seen


def open_model_panel(page: Page) -> None:
    if not page.locator("#model-panel[open]").count():
        page.click("#model-panel summary")
    expect(page.locator("#model dl")).to_be_visible()


def test_every_control_has_an_accessible_name(shown: Page) -> None:
    page = shown
    open_model_panel(page)
    tree = page.locator("body").aria_snapshot()
    assert re.findall(r"- (?:button|link|combobox|textbox|region|checkbox)(?! \")[^\n]*", tree) == []
    for name in ('combobox "Translate from"', 'combobox "Translate into"', 'textbox "Text to translate"'):
        assert name in tree


def test_alternatives_are_announced_focused_next_and_in_the_writing_direction_of_their_script(
    kept_visit: Visit,
) -> None:
    [page] = kept_visit.pages
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(FRENCH)
    page.click("#show-others")
    choices = page.locator("#others button")
    expect(choices.first).to_be_visible()
    told = f"Alternatives for “My house is red.”: Translations: {choices.count()}"
    expect(page.locator("#spoken")).to_have_text(told)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")  # over the link that can be copied
    expect(choices.first).to_be_focused()
    hebrew: dict[str, Any] = {"text": "מה שלומך?", "alternatives": [{"text": "שלום (Bob)?"}], "warnings": []}
    page.route("**/translate", lambda route: route.fulfill(json={"translations": [hebrew]}))
    page.locator(".sentence").nth(1).click()
    expect(choices.last).to_have_text(re.compile("Bob"))
    expect(choices.last).to_have_css("direction", "rtl")
    page.click("#show-others")


def test_nothing_is_wider_than_the_window_in_both_languages(visit: Visit) -> None:
    page = visit.page()
    type_in(page, f"{TEXT} https://{'w' * 80}.com")  # which no decoder takes long for
    expect(page.locator("#time")).not_to_be_empty()
    page.click("#show-others")
    page.click("#model-panel summary")
    expect(page.locator("#model table").first).to_be_visible()
    for copy in ("Copy", "复制"):
        expect(page.locator("#copy")).to_have_text(copy)
        expect(page.locator("#model table").first).to_be_visible()
        for width in (1280, 768, 390, 320):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.click("#interface")


def test_message_after_the_translation_is_announced_and_panes_do_not_move(kept_visit: Visit) -> None:
    [page] = kept_visit.pages
    expect(page.locator("#model-aside")).not_to_be_empty()
    before = page.locator("#model-panel").bounding_box()
    type_in(page, "Bonjour mon ami. " * 3)
    expect(page.locator("#notes .note").first).to_be_visible()
    assert page.locator("#model-panel").bounding_box() == before
    expect(page.locator("#spoken")).to_contain_text("In French already")


CONTRAST = """() => {
    const style = getComputedStyle(document.documentElement);
    const light = (name) => {
        const parts = style.getPropertyValue(`--${name}`).match(/\\w\\w/g).map((part) => parseInt(part, 16) / 255);
        const [r, g, b] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
    };
    const grounds = ["ground", "surface", "hover"];
    const pairs = ["ink", "ink-soft", "accent", "danger"].flatMap((ink) => grounds.map((ground) => [ink, ground]));
    pairs.push(["accent-ink", "accent"], ["ink", "lit"], ["ink", "lit-soft"]);
    const ratio = (one, other) => Math.max(one, other) / Math.min(one, other);
    return pairs.filter(([ink, ground]) => ratio(light(ink), light(ground)) < 4.5).map(String);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_colour_has_enough_contrast(shown: Page, scheme: Any) -> None:
    """WCAG 2.2, 1.4.3, level AA, with its definition of luminance."""
    page = shown
    page.emulate_media(color_scheme=scheme)
    expect(page.locator("html")).to_have_attribute("data-theme", scheme)
    assert page.evaluate(CONTRAST) == []


def test_reduced_motion_is_respected(shown: Page) -> None:
    page = shown
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate("parseFloat(getComputedStyle(document.getElementById('copy')).transitionDuration)") <= 0.001


def test_chinese_browsers_get_the_chinese_page_and_chosen_languages_and_themes_are_remembered(visit: Visit) -> None:
    page = visit.page(locale="zh-CN", color_scheme="light")
    expect(page.get_by_role("button", name="翻译文件")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")
    expect(page.locator("#target-language option:checked")).to_have_text("法语")
    page.click("#interface")
    expect(page.get_by_role("button", name="Translate a file")).to_be_visible()
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    theme = page.locator("#theme")
    expect(theme).to_have_text("Auto")
    theme.click()
    theme.click()
    expect(theme).to_have_text("Dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground
    page.reload()
    expect(page.get_by_role("button", name="Translate a file")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    theme.click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_both_interface_languages_have_the_same_texts() -> None:
    english, chinese = (
        re.findall(r'^  "?([\w.-]+)"?:\s+"', (FOLDER / "i18n" / f"{name}.js").read_text(), re.M)
        for name in ("en", "zh")
    )
    assert english == chinese
    parts = [file.read_text() for file in FOLDER.rglob("*.js") if file.stem not in ("en", "zh")]
    said = {key for part in parts for key in re.findall(r'"([\w.-]+)"', part)}
    said |= set(re.findall(r'data-(?:text|label|title|hint)="([\w.-]+)"', (FOLDER / "index.html").read_text()))
    asked = {key for part in parts for key in re.findall(r'\btext\("([\w.-]+)"', part)}
    on_demand = ("attention.", "review.", "adapt.", "installs.", "api.")
    assert {key for key in asked if not key.startswith(on_demand)} <= set(english)
    assert {key for key in english if not key.startswith(("theme.", "problem."))} <= said


@pytest.mark.parametrize("name", ["attention", "review", "adapt", "installs", "api"])
def test_parts_loaded_on_demand_have_the_same_texts_in_both_languages(name: str) -> None:
    english, chinese = (FOLDER / "i18n" / f"{name}.js").read_text().split("export const chinese")
    keys = re.findall(r'^  "([\w.-]+)":', english, re.M)
    assert keys == re.findall(r'^  "([\w.-]+)":', chinese, re.M)
    assert all(key.startswith(f"{name}.") for key in keys)


def test_page_can_be_installed_as_an_app(shown: Page, shipped_url: str) -> None:
    """What browsers ask for: a manifest with a name, a start within its scope, and icons of the sizes it says."""
    page = shown
    [manifest] = [link.get_attribute("href") for link in page.locator('link[rel="manifest"]').all()]
    assert manifest
    response = page.request.get(f"{shipped_url}/{manifest}")
    assert response.headers["content-type"].startswith("application/manifest+json")
    found = response.json()
    session = page.context.new_cdp_session(page)
    read = session.send("Page.getAppManifest")
    assert read["errors"] == []
    assert read["url"].endswith(manifest)
    faults = {fault["errorId"] for fault in session.send("Page.getInstallabilityErrors")["installabilityErrors"]}
    assert faults <= {"in-incognito"}  # as all contexts of tests are
    sizes = {icon["sizes"] for icon in found["icons"]}
    assert {"192x192", "512x512"} <= sizes
    for icon in found["icons"]:
        size = page.evaluate(
            """async (url) => {
                const image = new Image();
                image.src = url;
                await image.decode();
                return `${image.naturalWidth}x${image.naturalHeight}`;
            }""",
            f"page/{icon['src']}",
        )
        assert icon["sizes"] in (size, "any")


# The model's panel


def test_panel_describes_the_model(shown: Page, shipped_url: str) -> None:
    [model] = httpx.get(f"{shipped_url}/models").json()
    page = shown
    open_model_panel(page)
    panel = page.locator("#model")
    for said in (model["model"], model["licence"], model["checksum"], "6 encoder and 2 decoder layers", "tokens/s"):
        expect(panel).to_contain_text(said)
    assert model["corpora"]
    for corpus in model["corpora"]:
        expect(panel).to_contain_text(f"{corpus['name']}{corpus['pairs']:,}")
    expect(panel.locator(".tables tbody").first.locator("tr")).to_have_count(
        len({figure["set"] for figure in model["metrics"]})
    )
    expect(panel.locator('[data-figure="last"]')).to_contain_text("tokens in")


def test_panel_describes_the_chosen_languages_model(visit: Visit, shipped_url: str) -> None:
    [model] = httpx.get(f"{shipped_url}/models").json()
    other = {**model, "model": "en-de@0", "target": "de", "targets": ["de"], "licence": "another"}
    several = {**model, "model": "mul-mul@1", "source": "mul", "target": "mul", "licence": "CC-BY-NC-4.0"}
    several |= {"sources": ["en", "de"], "targets": ["de", "fr", "es"]}
    page = visit.new()
    served = [{"code": "en", "name": "", "targets": ["fr", "de", "es"]}]
    page.route("**/languages", lambda route: route.fulfill(json=served))
    page.route("**/models", lambda route: route.fulfill(json=[several, model, other]))
    page.goto(visit.url)
    page.click("#model-panel summary")
    expect(page.locator("#model h3")).to_have_text("English to French")
    page.select_option("#target-language", "de")
    expect(page.locator("#model h3")).to_have_text("English to German")
    expect(page.locator("#model")).to_contain_text("another")
    expect(page.locator("#model-aside")).not_to_contain_text("commercial")
    page.select_option("#target-language", "es")
    expect(page.locator("#model h3")).to_have_text("several languages to several languages")
    for said in ("from 2 into 3", "CC-BY-NC-4.0 (no commercial use)"):
        expect(page.locator("#model")).to_contain_text(said)
    expect(page.locator("#model-aside")).to_contain_text("no commercial use")


# How it is served


def test_page_works_behind_a_proxy_that_adds_a_path(visit: Visit) -> None:
    page = visit.new()
    inside = visit.url

    def strip(route: Route) -> None:
        route.continue_(url=route.request.url.replace(f"{inside}/mt/", f"{inside}/"))

    page.context.route(f"{inside}/mt/**", strip)
    page.goto(f"{inside}/mt/")
    type_in(page, "I am tired.")
    expect(translation(page)).to_have_text("Je suis fatigué.")
    assert [url for url in visit.requests if not url.startswith((f"{inside}/mt/", "data:"))] == []


@pytest.mark.slow
def test_every_file_of_the_page_has_the_security_policy(service: Service) -> None:
    for path in ["/", *(f"/page/{file.relative_to(FOLDER)}" for file in FOLDER.rglob("*.*"))]:
        answer = service.get(path)
        assert answer.status_code == 200, path
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        tag = answer.headers["etag"]
        assert service.request("GET", path, headers={"If-None-Match": tag}).status_code == 304
        assert service.request("HEAD", path).content == b""


def test_scripts_have_a_content_type_that_browsers_accept(service: Service) -> None:
    assert service.get("/").headers["content-type"] == "text/html; charset=utf-8"
    assert service.get("/page/main.js").headers["content-type"] == "text/javascript; charset=utf-8"
    assert service.get("/page/styles/page.css").headers["content-type"] == "text/css; charset=utf-8"


@pytest.mark.parametrize("path", ["../../main.py", "%2e%2e/%2e%2e/main.py", "nothing.js", "", "%00"])
def test_nothing_else_is_served(service: Service, path: str) -> None:
    assert service.get(f"/page/{path}").status_code == 404


def test_page_gets_its_api_path_and_limits_from_the_service(bundle_folder: Path) -> None:
    with serving(bundle_folder, root_api="libretranslate", max_text_chars=7) as service:
        html = service.get("/").text
    assert '<meta name="interlinear-api" content="./interlinear/">' in html
    assert '<meta name="interlinear-max-characters" content="7">' in html
    assert "[[" not in html
