"""app/static/: the page adapts the model: for holders of an admin key alone, from a file to scores and translations
side by side."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from chromium import REFUSED, Visit
from playwright.sync_api import Browser, Page, Route, expect
from shared_fixtures import BUNDLE_LIMITS, PAIRS, listening, make_bundle, random_model
from the_page import PHONE

from app.http.api_keys import new_key
from app.server.connection import Connection
from model.bundle import open_bundle
from model.bundle_weights import save_bundle

pytestmark = pytest.mark.browser

PANEL = "#adapt-panel"
OWN = "".join(f"{pair.source}\t{pair.target}\n" for pair in PAIRS[:100]).encode()
PLAN = {"bundle": "en-fr@0", "pairs": 1500, "held_out": 100, "left_out": {"a duplicate pair": 7}, "rehearsed": 25_000}
PLAN |= {"general": {"general set": 160}, "accepted_loss": 2.0, "minutes": 30.0}
STATUS: dict[str, Any] = {"state": "none", "source": "en", "target": "fr", "plan": PLAN, "lines": ["step 1", "step 2"]}
STATUS |= {"scores": [], "advice": "", "comparison": [], "model": "", "error": ""}
SCORE = {"set": "development set", "held_out": True, "sentences": 100, "metric": "BLEU", "before": 7.26, "after": 17.3}
ROW = {"text": "Open the valve.", "reference": "Ouvrir la vanne.", "before": "Ouvrez <b>.", "after": "Ouvrir la vanne."}
SAME = {**ROW, "before": "Pareil.", "after": "Pareil."}
TRAINED = {**STATUS, "state": "trained", "scores": [SCORE], "comparison": [SAME, *[ROW] * 12], "advice": "Use it."}


class Served(NamedTuple):
    visit: Visit
    keys: dict[str, str]
    bundle: Path
    goes_on: Path
    """The trainer waits for this file."""

    def page(self, key: str | None = "admin", status: dict[str, Any] | None = None, **options: Any) -> Page:
        """The page with that key; `status`: what it is told instead of what is so."""
        page = self.visit.new(**options)
        if status:
            page.route("**/adaptation", lambda route: route.fulfill(json=status))
        self.open(page, key)
        return page

    def open(self, page: Page, key: str | None = "admin") -> None:
        if key:
            page.add_init_script(f"sessionStorage.setItem('interlinear.key', {json.dumps(self.keys[key])})")
        page.goto(f"{self.visit.url}/#en/fr/")

    def opened(self, status: dict[str, Any] | None = None, **options: Any) -> Page:
        """The page of an administrator, with the panel open."""
        page = self.page("admin", status, **options)
        page.locator(f"{PANEL} > summary").click()
        return page


@pytest.fixture(scope="module")
def served(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("adapting")
    keys, lines = {}, []
    for name, more in (("admin", " admin"), ("user", "")):
        keys[name], line = new_key(name)
        lines.append(f"{line}{more}\n")
    (folder / "keys").write_text("".join(lines))
    bundle = make_bundle(folder / "bundles" / "en-fr")
    adapted, goes_on = make_adapted(folder / "adapted"), folder / "goes_on"
    command = [
        sys.executable,
        str(Path(__file__).parents[3] / "support" / "scripted_trainer.py"),
        str(adapted),
        str(goes_on),
    ]
    with (
        pytest.MonkeyPatch.context() as patch,
        listening(bundle.parent, Connection, command, api_keys_file=folder / "keys") as url,
    ):
        patch.setattr("app.services.trainer.NICENESS", 0)  # other tests would keep it waiting
        yield Served(Visit(browser, url), keys, bundle, goes_on)


def make_adapted(folder: Path) -> Path:
    """A bundle as adapting one exports it."""
    model, tokenizer, sample = random_model("en", "fr", 1)
    sets = ("development set", 10), ("general set", 4)
    metrics = [
        {"set": name, "sentences": sentences, "metric": metric, "score": 1.5}
        for name, sentences in sets
        for metric in ("BLEU", "chrF")
    ]
    training = {"corpora": [], "initial": {"bundle": "en-fr@0", "metrics": metrics}}
    record = {"source": "en", "target": "fr", "training": training, "metrics": metrics, "samples": [sample]}
    save_bundle(folder, model, tokenizer, BUNDLE_LIMITS, {**record, "licence": "CC0-1.0"}, "")
    return folder


@pytest.fixture(autouse=True)
def _checked(served: Served) -> Iterator[None]:
    served.visit.complaints.clear()
    served.visit.allowed.clear()
    yield
    served.visit.end()


def choose(page: Page, content: bytes) -> None:
    field = page.locator(f"{PANEL} input[type=file]")
    field.set_input_files({"name": "own.tsv", "mimeType": "text/plain", "buffer": content})


def test_file_is_learnt_and_the_result_served_when_it_is_accepted(served: Served) -> None:
    before = open_bundle(served.bundle).name
    page = served.opened()
    page.get_by_label("BLEU that may be lost on general texts").fill("100")
    page.get_by_label("Minutes, at most").fill("")
    expect(page.get_by_label("Model", exact=True)).to_have_value(before)
    choose(page, OWN)
    expect(page.locator(f"{PANEL} .plan")).to_contain_text("until it stops improving")
    expect(page.locator(f"{PANEL} .plan code")).to_have_text(before)
    page.get_by_role("button", name="Start").click()
    expect(page.locator(f"{PANEL} .state")).to_contain_text("Training.")
    expect(page.locator(f"{PANEL} .state")).to_be_focused()
    page.reload()  # it goes on
    page.locator(f"{PANEL} > summary").click()
    expect(page.locator(f"{PANEL} .state")).to_contain_text("Training.")
    served.goes_on.touch()
    expect(page.get_by_role("table", name="Scores before and after").locator("tbody tr")).to_have_count(4)
    page.get_by_role("button", name="Accept").click()
    expect(page.locator(f"{PANEL} .state")).to_contain_text("The service translates with en-fr@")
    after = open_bundle(served.bundle).name
    assert after != before
    expect(page.locator(f"{PANEL} .state")).to_contain_text(after)


def test_wrong_file_chosen_before_the_models_are_there_is_refused_beside_the_field(served: Served) -> None:
    served.visit.allowed.append(REFUSED)
    page = served.page()
    expect(page.locator(PANEL)).to_be_visible()
    held: list[Route] = []
    page.route("**/models", lambda route: held.append(route))
    page.locator(f"{PANEL} > summary").click()
    choose(page, b"no pair\n")
    page.wait_for_timeout(100)
    while held:
        held.pop().continue_()
        page.wait_for_timeout(100)
    expect(page.get_by_role("alert").filter(has_text="Line 1 is not a text")).to_be_visible()


def test_file_dropped_on_the_panel_is_sent_and_not_translated(served: Served) -> None:
    page = served.opened({**STATUS, "plan": None})
    expect(page.get_by_label("Model", exact=True)).not_to_have_value("")
    with page.expect_request(lambda request: request.method == "POST" and "adaptation" in request.url) as sent:
        page.locator(f"{PANEL} .pairs").evaluate(
            """zone => {
              const files = new DataTransfer();
              files.items.add(new File(["Open\\tOuvrir\\n"], "own.tsv"));
              for (const type of ["dragover", "drop"])
                zone.dispatchEvent(new DragEvent(type, { dataTransfer: files, bubbles: true, cancelable: true }));
            }"""
        )
    assert b'filename="own.tsv"' in (sent.value.post_data_buffer or b"")
    expect(page.locator("#files > li")).to_have_count(0)
    expect(page.locator("#drop")).to_be_hidden()


def test_only_translations_that_changed_are_shown_side_by_side(served: Served) -> None:
    page = served.opened(TRAINED)
    rows = page.locator(f"{PANEL} .compared li")
    expect(rows).to_have_count(10)
    expect(rows.first.locator(".before")).to_have_text("BeforeOuvrez <b>.")
    left, right = rows.first.locator(".before").bounding_box(), rows.first.locator(".after").bounding_box()
    assert left and right and left["y"] == right["y"] and left["x"] + left["width"] <= right["x"]
    expect(page.locator(PANEL)).to_contain_text("1 of 13 are translated as before")
    page.get_by_role("button", name="Show 2 more").click()
    expect(rows).to_have_count(12)
    expect(page.locator(f"{PANEL} tbody tr")).to_have_text("your pairs, held out (100)BLEU7.317.3")


def test_panel_fits_a_phone_in_every_state_and_both_languages(served: Served) -> None:
    status: dict[str, Any] = {}
    page = served.visit.new(**PHONE)
    page.route("**/adaptation", lambda route: route.fulfill(json=status))
    said = ""
    for state in ("none", "planning", "planned", "training", "trained", "failed"):
        status |= TRAINED if state == "trained" else {**STATUS, "state": state, "error": "no/such/" + 40 * "folder"}
        if not said:
            served.open(page)
            page.locator(f"{PANEL} > summary").click()
        else:
            page.evaluate("document.dispatchEvent(new Event('keychange'))")  # which has the page ask again
        expect(page.locator(f"{PANEL} .state")).not_to_have_text(said)
        said = page.locator(f"{PANEL} .state").inner_text()
        for language, title in ("en", "Adapt the model"), ("zh", "调整模型"):
            expect(page.locator(f"{PANEL} h2").first).to_have_text(title)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            names = page.locator(f"{PANEL} button:visible").all_text_contents()
            assert all(any("一" <= letter <= "鿿" for letter in name) == (language == "zh") for name in names)
            page.locator("#interface").click()
        tree = page.locator(PANEL).aria_snapshot()
        assert "textbox\n" not in tree and "combobox\n" not in tree and "button\n" not in tree


def test_panel_is_only_for_holders_of_an_admin_key(served: Served, visit: Visit) -> None:
    served.visit.allowed.append(REFUSED)
    page = served.page("user")
    expect(page.locator("#target-language")).to_have_value("fr")
    with page.expect_response("**/adaptation") as answer:
        page.evaluate("document.dispatchEvent(new Event('keychange'))")
    assert answer.value.status == 403
    expect(page.locator(PANEL)).to_have_count(0)
    asked = served.page(None)
    asked.locator("#source-text").fill("Hello.")
    asked.locator("#key").fill(served.keys["admin"])
    asked.get_by_role("button", name="Use this key").click()
    expect(asked.locator(PANEL)).to_be_visible()
    visit.page()  # a service without keys
    assert not any("adapt/" in url or url.endswith("/adaptation") for url in visit.requests if "loader" not in url)
