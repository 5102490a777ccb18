"""app/static/: the page installs and removes a model of a real service, whose importer is a process that follows a
script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from chromium import REFUSED, Visit
from playwright.sync_api import Browser, Page, expect
from servers import WAIT_S
from shared_fixtures import listening
from the_page import TEXT, translation, type_in

from app.server.connection import Connection
from tests.app.published.test_installer import DONE, Line, Site, leftovers

pytestmark = pytest.mark.browser

NAME, ROW = "firefox:en-fr@base-memory", "#installs > li"
FOUND = {"name": NAME, "source": "en", "target": "fr", "licence": "MPL-2.0"}
HALF: Line = {"state": "downloading", **FOUND, "bytes": 11_000_000, "total": 23_000_000}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Its importer waits in the middle of the download; other tests do not keep it waiting."""
    monkeypatch.setattr("app.services.trainer.NICENESS", 0)
    site = Site(tmp_path)
    site.publish("firefox:en-fr", [DONE[0], HALF, {"await": True}, {**HALF, "bytes": 23_000_000}, *DONE[3:]])
    return site


@pytest.fixture
def visit(site: Site, browser: Browser) -> Iterator[Visit]:
    """To 127.0.0.1, without keys."""
    with listening(site.bundles, Connection, None, site.importer, models_dir=site.models) as url:
        visit = Visit(browser, url)
        yield visit
        visit.end()


def served(visit: Visit) -> tuple[str, str]:
    """The model, and how it translates TEXT."""
    body = {"text": TEXT, "source": "en", "target": "fr"}
    answer = httpx.post(f"{visit.url}/translate", json=body, timeout=WAIT_S).raise_for_status().json()
    [made] = answer["translations"]
    return answer["model"], made["text"]


def open_panel(visit: Visit, url: str) -> Page:
    page = visit.new()
    page.goto(f"{url}/#en/fr/")
    type_in(page, TEXT)
    page.click("#model-panel > summary")
    return page


def test_a_click_installs_a_model_and_another_removes_it(visit: Visit, site: Site) -> None:
    before, translated_before = served(visit)
    page = open_panel(visit, visit.url)
    panel, facts = page.locator("#model-install"), page.locator("#model")
    expect(facts).to_contain_text(before)
    expect(panel).to_contain_text("Another model is published for English to French: 48.9 BLEU on FLORES-200+ devtest")
    panel.get_by_role("button", name="Install").click()
    dialog = page.get_by_role("dialog", name="Install English to French?")
    expect(dialog).to_contain_text("Downloads 23 MB from storage.googleapis.com.")
    assert site.runs() == []  # nothing is asked of anybody before that is agreed to
    dialog.get_by_role("button", name="Install").click()
    row = page.locator(ROW)
    expect(row).to_contain_text("Downloading: 11 MB of 23 MB")
    expect(row.get_by_role("progressbar")).to_have_js_property("value", 11_000_000)
    expect(translation(page)).to_have_text(translated_before)

    site.go_on()
    expect(row).to_contain_text("translates now")
    after, translated_after = served(visit)
    assert after != before
    assert translated_after != translated_before
    expect(translation(page)).to_have_text(translated_after)
    expect(row).to_contain_text(f"Installed: {after} translates now")
    expect(facts).to_contain_text(after)
    expect(panel).to_contain_text(f"{NAME}. As published: 40.5 BLEU on FLORES-200 devtest.")
    assert len(site.runs()) == 1

    panel.get_by_role("button", name="Remove").click()
    dialog = page.get_by_role("dialog", name="Remove the model from English to French?")
    expect(dialog).to_contain_text(f"Afterwards {before} translates from English to French again.")
    dialog.get_by_role("button", name="Remove").click()
    expect(translation(page)).to_have_text(translated_before)
    expect(facts).to_contain_text(before)
    expect(page.locator(ROW)).to_have_count(0)
    expect(panel.get_by_role("button", name="Install")).to_be_visible()
    assert served(visit) == (before, translated_before)
    assert leftovers(site) == []


def test_a_page_that_another_name_leads_to_says_how_to_install_and_has_no_button(visit: Visit, site: Site) -> None:
    """A site could have its name lead to this machine (DNS rebinding)."""
    visit.url = visit.url.replace("127.0.0.1", "names.localhost")  # which Chromium resolves to loopback itself
    page = open_panel(visit, visit.url)
    panel = page.locator("#model-install")
    expect(panel).to_contain_text("Models are installed on the service's own machine")
    expect(panel.get_by_role("button")).to_have_count(0)
    page.locator("#target-language").hover()
    expect(page.locator("#target-language optgroup option").first).to_be_attached()
    page.select_option("#target-language", "it")
    expect(page.locator("#offer")).to_contain_text("Models are installed on the service's own machine")
    expect(page.locator("#offer").get_by_role("button")).to_have_count(0)
    visit.allowed = [REFUSED]
    assert page.evaluate("fetch('models/jobs').then(({status}) => status)") == 403
