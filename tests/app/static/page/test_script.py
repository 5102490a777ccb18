"""app/static/: the content of a text, a file or a bundle is text on the page, and never runs as script."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from chromium import Visit
from playwright.sync_api import Page, Route, expect
from the_page import translation, type_in

pytestmark = pytest.mark.browser

SCRIPT = '"><img src=x onerror="window.ran = true"><script>window.ran = true</script>'
_NAMES = {"model", "licence", "name", "set", "device", "precision"}


def hostile(value: Any, key: str = "") -> Any:
    """`value`, parsed from JSON, with a script in each text by which a bundle names something."""
    if isinstance(value, dict):
        return {name: hostile(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [hostile(inner, key) for inner in value]
    return f"{value}{SCRIPT}" if isinstance(value, str) and key in _NAMES else value


def expect_harmless(page: Page) -> None:
    expect(page.locator("img:not([src='page/mark.svg'])")).to_have_count(0)
    expect(page.locator("script:not([src])")).to_have_count(0)
    assert page.evaluate("window.ran === undefined")


def test_link_text_and_file_name_run_no_script_in_any_part_of_the_page(visit: Visit) -> None:
    page = visit.page("/#en/fr/%3Cimg%20src%3Dx%20onerror%3D%22window.ran%3Dtrue%22%3E")
    expect(translation(page)).to_contain_text("<img")
    name = f"{SCRIPT.replace('/', '')}.txt"
    page.set_input_files("#file", {"name": name, "mimeType": "text/plain", "buffer": b"I am tired.\n"})
    expect(page.get_by_role("link", name=re.compile("Save"))).to_be_visible()
    expect_harmless(page)
    type_in(page, f"I am tired. {SCRIPT}")
    expect(translation(page)).to_contain_text("Je suis fatigué.")
    page.locator("#attention-panel summary").click()
    expect(page.locator("#attention svg, #attention canvas").first).to_be_visible()
    page.click("#show-others")
    expect(page.locator("#others")).to_be_visible()
    expect_harmless(page)


def test_bundle_names_run_no_script(visit: Visit) -> None:
    def alter(route: Route) -> None:
        route.fulfill(json=hostile(json.loads(route.fetch().text())))

    page = visit.new()
    page.route("**/models", alter)
    page.route("**/languages", alter)
    page.goto(f"{visit.url}/#en/fr/")
    page.locator("#model-panel summary").click()
    expect(page.locator("#model")).to_contain_text("onerror")
    expect_harmless(page)
