"""app/static/: the page tells of better published models and of more languages, and installs and removes them.

The service's part is played by `FakeService`, since nothing is downloaded here."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from chromium import REFUSED, Visit
from playwright.sync_api import Locator, Page, Route, expect
from the_page import PHONE, refuse, translation, type_in

pytestmark = pytest.mark.browser

TEXT, FRENCH = "I am tired.", "Je suis fatigué."
LATER = "Je suis bien fatigué."
SET = "FLORES-200 devtest"
HOST = "storage.googleapis.com"
MORE = 'optgroup[label="More languages"] option'
ROW = "#installs > li"


def figure(score: float, metric: str = "BLEU", dataset: str = SET) -> dict[str, Any]:
    return {"dataset": dataset, "metric": metric, "score": score, "origin": "Mozilla's registry"}


def published(source: str, target: str, **more: Any) -> dict[str, Any]:
    """A model as in GET /catalogue."""
    name = f"firefox:{source}-{target}@base-memory"
    facts: dict[str, Any] = {
        "model": name,
        "registry": "firefox",
        "publisher": "Mozilla",
        "source": source,
        "target": target,
    }
    more = {"installed": False, "forbids_commercial_use": False, **more}
    facts |= {"variant": "base-memory", "bytes": 23_012_345, "sha256": None, "licence": "MPL-2.0", "host": HOST}
    facts |= {"page": "https://example.org/registry", "figures": [figure(27.4), figure(0.8535, "COMET-22")]}
    return facts | more


def job(model: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What installs a model, as in GET /models/jobs."""
    state: dict[str, Any] = {
        "id": f"{model['source']}{model['target']}",
        "model": model["model"],
        "name": model["model"],
    }
    state |= {"source": model["source"], "target": model["target"], "state": "downloading", "bytes": 0}
    state |= {"total": model["bytes"], "seconds_left": None, "licence": model["licence"], "error": None}
    return {**state, "retry_at": None, "attempts": 1, "serves": None, **more}


class FakeService:
    """Answers for the service of English to French, all but what it translates until a model is installed."""

    def __init__(self, url: str, *models: dict[str, Any], may_install: bool = True) -> None:
        self.url, self.may_install = url, may_install
        self.catalogue = list(models)
        self.jobs: list[dict[str, Any]] = []
        self.pairs = {"en": ["fr"]}
        [self.model] = httpx.get(f"{url}/models").json()
        self.model |= {"installed": None, "metrics": []}
        self.posted: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self.cancelled: dict[str, Any] | None = None
        """A job that goes on for a moment."""
        self.asked = 0
        """How often for the jobs."""
        self.is_better = False
        """Whether it answers `LATER`."""

    def page(self, visit: Visit, fragment: str = "en/fr", **options: Any) -> Page:
        page = visit.new(**options)
        self.route(page)
        page.goto(f"{self.url}/#{fragment}/")
        expect(page.locator("#model-aside")).not_to_be_empty()
        return page

    def route(self, page: Page) -> None:
        page.route(f"{self.url}/catalogue?*", self._catalogue)
        page.route(f"{self.url}/models/jobs", self._jobs)
        page.route(f"{self.url}/models/jobs/*", self._delete_job)
        page.route(f"{self.url}/models", self._models)
        page.route(f"{self.url}/models/en-*", self._delete_model)
        page.route(f"{self.url}/languages", self._languages)
        page.route(f"{self.url}/translate/stream", self._translate)

    def set(self, index: int = 0, **changes: Any) -> None:
        self.jobs[index] |= changes

    def finish(self, index: int = 0) -> None:
        """A model is there: it serves from now on."""
        done = self.jobs[index]
        targets = self.pairs.setdefault(done["source"], [])
        if done["target"] not in targets:
            targets.append(done["target"])
        self.is_better = True
        self.set(index, state="done", serves=f"{done['source']}-{done['target']}@0123456789ab")

    def _catalogue(self, route: Route) -> None:
        advice = "" if self.may_install else "Only keys marked `admin` may install models."
        answer = {"dated": "2026-11-29", "may_install": self.may_install, "how_to_install": advice}
        pair = [part.split("=")[1] for part in route.request.url.split("?")[1].split("&") if "from_or_to" not in part]
        models = [each for each in self.catalogue if not pair or [each["source"], each["target"]] == pair]
        route.fulfill(json={**answer, "models": models})

    def _jobs(self, route: Route) -> None:
        self.asked += 1
        route.fulfill(json=self.jobs)
        if self.cancelled:
            self.cancelled["state"] = "cancelled"

    def _delete_job(self, route: Route) -> None:
        name = route.request.url.split("/")[-1]
        self.deleted.append(name)
        [deleted] = [each for each in self.jobs if each["id"] == name]
        if deleted["state"] in ("done", "failed"):
            self.jobs.remove(deleted)
        else:
            self.cancelled = deleted
        route.fulfill(status=204)

    def _models(self, route: Route) -> None:
        if route.request.method == "GET":
            return route.fulfill(json=[self.model])
        asked: dict[str, Any] = json.loads(route.request.post_data or "")
        self.posted.append(asked)
        [model] = [each for each in self.catalogue if each["model"] == asked["model"]]
        self.jobs = [each for each in self.jobs if each["state"] != "cancelled"]
        self.jobs.append(job(model, state="queued"))
        route.fulfill(status=202, json=self.jobs[-1])

    def _delete_model(self, route: Route) -> None:
        self.deleted.append(route.request.url.split("/")[-1])
        self.model["installed"] = None
        self.is_better = False
        route.fulfill(status=204)

    def _languages(self, route: Route) -> None:
        route.fulfill(json=[{"code": code, "name": code, "targets": to} for code, to in self.pairs.items()])

    def _translate(self, route: Route) -> None:
        asked: dict[str, Any] = json.loads(route.request.post_data or "")
        if asked["target"] == "fr" and not self.is_better:
            return route.continue_()
        text = LATER if asked["target"] == "fr" else f"[{asked['target']}]"
        item: dict[str, Any] = {"text": text, "source": "en", "confidence": None, "warnings": [], "error": None}
        part = {"item": 0, "text": text, "source": [0, len(asked["text"])], "score": -0.1, "quality": None, "words": []}
        done = {"translations": [item], "model": "m", "usage": {"source_tokens": 1, "target_tokens": 1}}
        events = f"event: part\ndata: {json.dumps(part)}\n\nevent: done\ndata: {json.dumps(done)}\n\n"
        route.fulfill(content_type="text/event-stream", body=events)


@pytest.fixture
def better(visit: Visit) -> FakeService:
    """A service whose model has a figure on the same set as a better one."""
    service = FakeService(visit.url, published("en", "fr"))
    service.model["metrics"] = [
        {"set": "flores-devtest/en-fr.tsv", "sentences": 1012, "metric": "BLEU", "score": 12.79}
    ]
    return service


def open_panel(page: Page) -> Locator:
    page.click("#model-panel > summary")
    expect(page.locator("#model dl")).to_be_visible()
    return page.locator("#model-install")


def accept(page: Page) -> None:
    page.get_by_role("dialog").get_by_role("button", name="Install").click()
    expect(page.get_by_role("dialog")).to_have_count(0)


# The panel


def test_a_better_model_is_shown_with_both_figures_of_the_same_set(visit: Visit, better: FakeService) -> None:
    page = better.page(visit)
    told = "A better model is published for English to French: 27.4 BLEU on FLORES-200 devtest instead of 12.8; 23 MB; "
    expect(open_panel(page).locator("p")).to_have_text(f"{told}MPL-2.0; from Mozilla.")
    link = page.get_by_role("link", name="About this model")
    expect(link).to_have_attribute("href", "https://example.org/registry")
    expect(link).to_have_attribute("rel", "noopener")


DEV, PLUS = "flores-dev/en-fr.tsv", "FLORES-200+ devtest"
BETTER, OTHER = "A better model is published for English to French", "Another model is published for English to French"


@pytest.mark.parametrize(
    ("figures", "served", "english", "chinese"),
    [
        # Related sets with the same metric
        (
            [figure(27.52, dataset=PLUS)],
            [(DEV, "BLEU", 12.79)],
            f"{BETTER}: 27.5 BLEU on {PLUS}; the model that serves has 12.8 on FLORES-200 dev; 23 MB",
            f"有更好的公开模型可用于英语译成法语：{PLUS} 上 BLEU 27.5；现用模型在 FLORES-200 dev 上为 12.8；23 MB",
        ),
        (
            [figure(27.5, dataset=PLUS)],
            [(DEV, "BLEU", 22.6)],  # not 5 points
            f"{OTHER}: 27.5 BLEU on {PLUS}; the model that serves has 22.6 on FLORES-200 dev; 23 MB",
            f"另有公开模型可用于英语译成法语：{PLUS} 上 BLEU 27.5；现用模型在 FLORES-200 dev 上为 22.6；23 MB",
        ),
        ([figure(27.5, dataset=PLUS)], [(DEV, "BLEU", 27.9)], None, None),
        (
            [figure(0.854, "COMET-22", PLUS)],
            [(SET, "COMET-22", 0.823)],
            f"{BETTER}: 0.854 COMET-22 on {PLUS}; the model that serves has 0.823 on {SET}; 23 MB",
            f"有更好的公开模型可用于英语译成法语：{PLUS} 上 COMET-22 0.854；现用模型在 {SET} 上为 0.823；23 MB",
        ),
        (
            [figure(0.854, "COMET-22", PLUS)],
            [(SET, "COMET-22", 0.825)],  # not 0.03
            f"{OTHER}: 0.854 COMET-22 on {PLUS}; the model that serves has 0.825 on {SET}; 23 MB",
            f"另有公开模型可用于英语译成法语：{PLUS} 上 COMET-22 0.854；现用模型在 {SET} 上为 0.825；23 MB",
        ),
        # The same set comes first
        (
            [figure(27.5, dataset=PLUS), figure(0.8535, "COMET-22")],
            [(DEV, "BLEU", 12.8), (SET, "COMET-22", 0.85)],
            f"{BETTER}: 0.8535 COMET-22 on {SET} instead of 0.85; 23 MB",
            f"有更好的公开模型可用于英语译成法语：{SET} 上 COMET-22 0.8535，现用模型为 0.85；23 MB",
        ),
        ([figure(27.4)], [(SET, "BLEU", 30.1)], None, None),
        # Another metric
        (
            [figure(0.8628, "COMET-22", PLUS), figure(34.34, "spBLEU", PLUS)],
            [(DEV, "chrF", 13.45), (DEV, "BLEU", 9.02)],
            f"{OTHER}: 34.3 spBLEU on {PLUS}; the model that serves has 9.0 BLEU on FLORES-200 dev, another measure; "
            "23 MB",
            f"另有公开模型可用于英语译成法语：{PLUS} 上 spBLEU 34.3；"
            "现用模型在 FLORES-200 dev 上 BLEU 9.0，标准不同；23 MB",
        ),
        # Sets that have nothing in common, or no figures
        (
            [figure(27.4)],
            [("en-fr/tatoeba.test.tsv", "BLEU", 45.6)],
            f"{OTHER}: 27.4 BLEU on {SET}; 23 MB",
            f"另有公开模型可用于英语译成法语：{SET} 上 BLEU 27.4；23 MB",
        ),
        ([], [(DEV, "BLEU", 12.8)], f"{OTHER}: 23 MB", "另有公开模型可用于英语译成法语：23 MB"),
    ],
)
def test_figures_are_shown_with_their_sets_and_compared_only_where_that_says_something(
    visit: Visit,
    better: FakeService,
    figures: list[dict[str, Any]],
    served: list[tuple[str, str, float]],
    english: str | None,
    chinese: str | None,
) -> None:
    better.catalogue[0]["figures"] = figures
    better.model["metrics"] = [
        {"set": name, "sentences": 9, "metric": metric, "score": score} for name, metric, score in served
    ]
    page = better.page(visit)
    with page.expect_response("**/catalogue?source=*"):
        place = open_panel(page)
    if english is None or chinese is None:
        expect(place).to_be_hidden()
        return
    expect(place.locator("p")).to_have_text(f"{english}; MPL-2.0; from Mozilla.")
    page.click("#interface")
    expect(place.locator("p")).to_have_text(f"{chinese}；MPL-2.0；来自 Mozilla。")


def test_an_installed_model_says_where_it_comes_from_and_is_told_only_of_a_better_one(visit: Visit) -> None:
    installed = published("en", "fr", installed=True)
    service = FakeService(visit.url, installed, published("en", "fr", model="argos:en-fr@1.9", figures=[]))
    facts = {"model": installed["model"], "page": installed["page"], "published": installed["figures"]}
    service.model["installed"] = {**facts, "downloaded": "2026-11-28", "removable": True, "replaces": None}
    page = service.page(visit)
    place = open_panel(page)
    expect(place).to_contain_text("Downloaded from Mozilla on November 28, 2026: firefox:en-fr@base-memory")
    expect(place).to_contain_text("As published: 27.4 BLEU, 0.8535 COMET-22 on FLORES-200 devtest.")
    expect(place.locator("p")).to_have_count(1)
    service.catalogue.insert(0, published("en", "fr", model="opus:en-fr@1", figures=[figure(29.0, dataset=PLUS)]))
    page.reload()
    expect(place).to_contain_text("Downloaded from Mozilla")
    expect(place.locator("p")).to_have_count(1)
    service.catalogue[0]["figures"] = [figure(32.5, dataset=PLUS)]
    page.reload()
    expect(place).to_contain_text(f"{BETTER}: 32.5 BLEU on {PLUS}; the model that serves has 27.4 on {SET}")
    service.model["installed"]["model"] = "firefox:en-fr@base"  # the catalogue has only a newer one
    page.reload()
    expect(place).to_contain_text("Downloaded from Mozilla on November 28, 2026: firefox:en-fr@base.")


# Installing


def test_licence_is_shown_first_then_progress_until_the_page_translates_with_the_new_model(
    visit: Visit, better: FakeService
) -> None:
    page = better.page(visit)
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(FRENCH)
    open_panel(page).get_by_role("button", name="Install").click()
    dialog = page.get_by_role("dialog", name="Install English to French?")
    for words in (
        "MPL-2.0",
        "Mozilla",
        "23 MB",
        f"Downloads 23 MB from {HOST}. Your text still goes only to this server",
    ):
        expect(dialog).to_contain_text(words)
    expect(dialog.get_by_role("link", name="Mozilla")).to_have_attribute("href", "https://example.org/registry")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    assert better.posted == []

    page.get_by_role("button", name="Install").click()
    accept(page)
    assert better.posted == [{"model": "firefox:en-fr@base-memory", "accept_licence": True}]
    row = page.locator(ROW)
    expect(row).to_be_focused()
    expect(row).to_contain_text("English to FrenchWaits for another installation")
    expect(page.locator("#model-install")).to_contain_text("This is being installed.")
    better.set(state="finding")
    expect(row).to_contain_text("Looking for the model")
    better.set(state="downloading", bytes=11_500_000, seconds_left=12.5)
    expect(row).to_contain_text("Downloading: 12 MB of 23 MB, about 15 seconds left")
    bar = row.get_by_role("progressbar", name="English to French")
    expect(bar).to_have_js_property("value", 11_500_000)
    for state, words in (("converting", "Converting"), ("checking", "Checking its"), ("loading", "Loading")):
        better.set(state=state)
        expect(row).to_contain_text(words)
    expect(bar).not_to_have_attribute("value", "11500000")
    better.finish()
    expect(translation(page)).to_have_text(LATER)
    expect(row).to_contain_text("Installed: en-fr@0123456789ab translates now")
    row.get_by_role("button", name="Remove from the list").click()
    expect(page.locator(ROW)).to_have_count(0)
    assert better.deleted == ["enfr"]


def test_installation_that_is_cancelled_leaves_the_button_and_its_focus(visit: Visit, better: FakeService) -> None:
    page = better.page(visit)
    open_panel(page).get_by_role("button", name="Install").click()
    accept(page)
    page.get_by_role("button", name="Cancel: English to French").click()
    expect(page.locator(ROW)).to_have_count(0)
    assert better.deleted == ["enfr"]
    expect(page.get_by_role("status").filter(has_text="Cancelled: English to French")).to_have_count(1)
    expect(page.get_by_role("button", name="Install the model from English to French")).to_be_focused()


def test_failure_says_why_and_is_tried_again_and_a_temporary_one_says_when(visit: Visit, better: FakeService) -> None:
    page = better.page(visit)
    open_panel(page).get_by_role("button", name="Install").click()
    accept(page)
    error = {
        "type": "urn:interlinear:error:install-failed",
        "title": "Failed",
        "status": 502,
        "detail": "It is not there.",
    }
    better.set(state="waiting", error=error, retry_at="2026-11-29T15:00:00Z")
    row = page.locator(ROW)
    expect(row).to_contain_text("Trying again at ")
    expect(row).to_contain_text(": It is not there.")
    expect(row.get_by_role("button", name="Cancel")).to_be_visible()
    better.set(state="failed", retry_at=None)
    expect(row.locator(".fault")).to_have_text("Not installed: It is not there.")
    expect(page.get_by_role("status").filter(has_text="Not installed: It is not there.")).to_have_count(1)
    row.get_by_role("button", name="Try again").click()
    expect(row).to_contain_text("Waits for another installation")
    expect(row.locator(".fault")).to_have_count(0)
    assert better.deleted == ["enfr"]
    assert len(better.posted) == 2


def test_refused_installation_is_explained_in_the_dialog(visit: Visit, better: FakeService) -> None:
    visit.allowed = [REFUSED]
    page = better.page(visit)
    open_panel(page)

    def answer(route: Route) -> None:
        if route.request.method == "POST":
            refuse(route, 409, "install-refused", "The folder cannot be written.")
        else:
            route.fallback()

    page.route(f"{better.url}/models", answer)
    page.get_by_role("button", name="Install").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Install").click()
    expect(dialog.get_by_role("alert")).to_have_text("install-refused: The folder cannot be written.")
    expect(dialog.get_by_role("button", name="Install")).to_be_enabled()


def test_licence_without_commercial_use_has_to_be_accepted(visit: Visit, better: FakeService) -> None:
    better.catalogue[0] |= {"licence": "CC-BY-NC-4.0", "forbids_commercial_use": True}
    page = better.page(visit)
    place = open_panel(page)
    expect(place).to_contain_text("CC-BY-NC-4.0 (no commercial use)")
    place.get_by_role("button", name="Install").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Install").click()
    expect(dialog).to_be_visible()
    assert better.posted == []
    dialog.get_by_role("checkbox", name="CC-BY-NC-4.0 forbids commercial use. I agree.").check()
    accept(page)
    assert len(better.posted) == 1


def test_jobs_started_elsewhere_are_shown_while_the_panel_is_open_and_followed_to_their_end(
    visit: Visit, better: FakeService
) -> None:
    old = job(published("en", "de"), state="done", serves="en-de@0")
    better.jobs = [old]
    page = better.page(visit)
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(FRENCH)
    assert better.asked == 0
    open_panel(page)
    expect(page.locator(ROW)).to_have_count(0)
    unknown = {"name": None, "source": None, "target": None, "total": None, "bytes": 5_000_000}
    better.jobs += [job(better.catalogue[0]), job(published("es", "en"), **unknown)]
    expect(page.locator(ROW)).to_have_count(2)
    expect(page.locator(ROW).last).to_contain_text("firefox:es-en@base-memoryDownloading: 5 MB")
    page.click("#model-panel > summary")
    better.jobs.pop()
    better.finish(1)
    expect(translation(page)).to_have_text(LATER)
    asked = better.asked  # nothing goes on any more
    page.wait_for_timeout(500)
    assert better.asked == asked


def test_what_is_being_installed_when_the_page_opens_is_shown_until_it_serves(
    visit: Visit, better: FakeService
) -> None:
    """The service says so in the page itself, which asks no more of services that install nothing."""
    better.jobs = [job(better.catalogue[0])]
    page = visit.new()
    html = httpx.get(f"{visit.url}/").text
    assert '<meta name="interlinear-installing" content="off">' in html
    busy = html.replace('installing" content="off"', 'installing" content="on"')
    page.route(f"{visit.url}/", lambda route: route.fulfill(content_type="text/html", body=busy))
    better.route(page)
    page.goto(f"{visit.url}/#en/fr/")
    type_in(page, TEXT)
    expect(page.locator(ROW)).to_contain_text("Downloading: 0 MB of 23 MB")
    better.finish()
    expect(translation(page)).to_have_text(LATER)


def test_nothing_is_loaded_or_asked_until_the_user_looks_at_languages_or_model(
    visit: Visit, better: FakeService
) -> None:
    page = better.page(visit)
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(FRENCH)
    loaded = {url.removeprefix(visit.url) for url in visit.requests}
    assert "/page/models/loader.js" in loaded
    assert not any(name in url for url in loaded for name in ("installs.js", "catalogue", "jobs"))
    with page.expect_response("**/catalogue?from_or_to=en"):
        page.locator("#target-language").focus()


# More languages


@pytest.fixture
def italian(visit: Visit) -> FakeService:
    """A service that could have Italian too, and from there French by way of English."""
    back = published("it", "en", bytes=21_000_000)
    return FakeService(visit.url, published("en", "fr"), published("en", "it"), back)


def offered(page: Page, menu: str) -> Locator:
    page.locator(menu).hover()
    return page.locator(f"{menu} {MORE}")


def test_more_languages_are_below_those_served_and_installing_one_translates_into_it(
    visit: Visit, italian: FakeService
) -> None:
    page = italian.page(visit)
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(FRENCH)
    expect(offered(page, "#target-language")).to_have_text(["Italian"])
    expect(page.locator("#source-language").locator(MORE)).to_have_text(["Italian"])
    page.select_option("#target-language", "it")
    offer = page.get_by_role("region", name="More languages")
    expect(offer).to_contain_text("No model here translates from English into Italian")
    expect(offer).to_contain_text("English to Italian 27.4 BLEU on FLORES-200 devtest; 23 MB; MPL-2.0; from Mozilla")
    expect(translation(page)).to_be_hidden()
    expect(page.locator("#copy")).to_be_disabled()
    expect(offer.get_by_role("checkbox", name="Also Italian to English")).to_be_checked()
    offer.get_by_role("button", name="Install").click()
    expect(page.get_by_role("dialog", name="Install these models?")).to_contain_text("Downloads 44 MB from")
    accept(page)
    assert [each["model"] for each in italian.posted] == ["firefox:en-it@base-memory", "firefox:it-en@base-memory"]
    expect(page.locator(ROW)).to_have_count(2)
    expect(offer).to_contain_text("This is being installed.")
    italian.finish()
    expect(translation(page)).to_have_text("[it]")
    expect(offer).to_be_hidden()
    expect(page.locator("#target-language")).to_have_value("it")
    assert page.url.endswith("#en/it")


def test_language_that_only_goes_through_english_needs_what_is_missing_and_can_be_left_again(
    visit: Visit, italian: FakeService
) -> None:
    italian.catalogue.append(published("it", "fr", model="opus:it-fr@1", bytes=None, figures=[]))  # and perhaps large
    page = italian.page(visit)
    type_in(page, TEXT)
    expect(offered(page, "#source-language")).to_have_text(["Italian"])
    page.select_option("#source-language", "it")
    expect(page.locator("#target-language option")).to_have_text(["French", "English"])
    offer = page.get_by_role("region", name="More languages")
    facts = "27.4 BLEU on FLORES-200 devtest; 21 MB; MPL-2.0; from Mozilla"
    expect(offer.get_by_role("listitem")).to_have_text([f"Italian to English {facts}"])
    expect(offer.get_by_role("checkbox")).to_have_count(0)  # from French into English there is nothing
    offer.get_by_role("button", name="Install").click()
    accept(page)
    assert [each["model"] for each in italian.posted] == ["firefox:it-en@base-memory"]
    page.select_option("#source-language", "auto")
    expect(translation(page)).to_have_text(FRENCH)
    expect(offer).to_be_hidden()
    page.reload()
    expect(translation(page)).to_have_text(FRENCH)


# Removing


def test_installed_model_is_removed_after_saying_what_serves_then(visit: Visit, better: FakeService) -> None:
    facts = {
        "model": "firefox:en-fr@base-memory",
        "page": "",
        "published": [],
        "downloaded": "2026-11-28",
        "removable": True,
    }
    better.model["installed"] = {**facts, "replaces": "en-fr@b76822bae5bf"}
    better.is_better = True
    page = better.page(visit)
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(LATER)
    open_panel(page).get_by_role("button", name="Remove").click()
    dialog = page.get_by_role("dialog", name="Remove the model from English to French?")
    expect(dialog).to_contain_text("Afterwards en-fr@b76822bae5bf translates from English to French again.")
    dialog.get_by_role("button", name="Cancel").click()
    assert better.deleted == []
    page.get_by_role("button", name="Remove").click()
    dialog.get_by_role("button", name="Remove").click()
    expect(translation(page)).to_have_text(FRENCH)
    assert better.deleted == ["en-fr"]
    expect(page.locator("#model-install")).to_contain_text("A better model is published")


# For all


def test_who_may_not_install_models_sees_how_to_ask_for_them(visit: Visit, italian: FakeService) -> None:
    italian.may_install = False
    page = italian.page(visit)
    place = open_panel(page)
    expect(place).to_contain_text("Only keys marked admin may install models.")
    expect(offered(page, "#target-language")).to_have_text(["Italian"])
    page.select_option("#target-language", "it")
    expect(page.locator("#offer")).to_contain_text("Only keys marked admin may install models.")
    expect(page.get_by_role("button", name="Install")).to_have_count(0)
    assert italian.asked == 0
    italian.may_install = True
    page.evaluate("document.dispatchEvent(new Event('keychange'))")  # another key
    expect(page.locator("#offer").get_by_role("button", name="Install")).to_be_visible()


def test_everything_is_done_by_keyboard(visit: Visit, italian: FakeService) -> None:
    page = italian.page(visit)
    page.locator("#target-language").focus()
    expect(page.locator("#target-language").locator(MORE)).to_have_count(1)
    page.keyboard.type("Ital")
    offer = page.get_by_role("region", name="More languages")
    expect(offer).to_be_visible()
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.locator("#offer input:focus").count():
            break
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    expect(offer.get_by_role("button", name="Install")).to_be_focused()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(offer.get_by_role("button", name="Install")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(dialog.get_by_role("button", name="Install")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(ROW)).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Cancel: English to Italian")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(ROW)).to_have_count(0)
    expect(offer.get_by_role("button", name="Install")).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_fits_a_phone_in_both_languages(visit: Visit, italian: FakeService, scheme: Any) -> None:
    italian.catalogue[0] |= {
        "licence": "Not stated by the index; " + 9 * "the package's own README.md names its data. "
    }
    error = {"title": "Failed", "status": 502, "detail": f"https://example.org/{40 * 'folder'}: 404 Not Found"}
    italian.jobs = [
        job(published("en", "de"), bytes=11_000_000, seconds_left=80),
        job(published("de", "en"), state="failed", error=error),
        job(published("es", "en"), state="waiting", error=error, retry_at="2026-11-29T15:00:00Z"),
    ]
    page = italian.page(visit, **PHONE, color_scheme=scheme)
    open_panel(page)
    expect(page.locator("#target-language").locator(MORE)).to_have_count(1)
    for name, words in ("Install", "Downloading: 11"), ("安装", "正在下载：11"):
        expect(page.locator(ROW)).to_have_count(3)
        expect(page.locator(ROW).first).to_contain_text(words)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        for target, place in ("fr", "#model-install"), ("it", "#offer"):
            page.select_option("#target-language", target)
            page.locator(place).get_by_role("button", name=name).click()
            dialog = page.get_by_role("dialog")
            expect(dialog).to_contain_text(HOST)
            assert dialog.evaluate("at => at.scrollWidth <= at.clientWidth")
            page.keyboard.press("Escape")
            expect(dialog).to_have_count(0)
        tree = page.locator("body").aria_snapshot()
        for part in ("button", "checkbox", "progressbar", "region", "link", "dialog", "list"):
            assert f"- {part}\n" not in tree
        names = page.locator("#installs button, #offer button, #model-install button").all_inner_texts()
        assert all(any("一" <= letter <= "鿿" for letter in each) == (name == "安装") for each in names if each)
        page.click("#interface")


def test_polling_moves_neither_panes_nor_focus(visit: Visit, better: FakeService) -> None:
    better.jobs = [job(better.catalogue[0], bytes=1_000_000)]
    page = better.page(visit)
    open_panel(page)
    row = page.locator(ROW)
    expect(row).to_contain_text("Downloading: 1 MB")
    before = page.locator(".panes").bounding_box(), row.bounding_box()
    cancel = row.get_by_role("button", name="Cancel")
    cancel.focus()
    for state in ("downloading", "converting", "loading"):
        better.set(state=state, bytes=22_000_000, seconds_left=1.0)
        expect(row).to_contain_text({"downloading": "22 MB of 23 MB, about 5 seconds"}.get(state, state.title()))
        assert (page.locator(".panes").bounding_box(), row.bounding_box()) == before
        expect(cancel).to_be_focused()


def test_names_of_models_run_no_script(visit: Visit, italian: FakeService) -> None:
    script = '"><img src=x onerror="window.ran = true">'
    for model in italian.catalogue:
        model |= {name: f"{model[name]}{script}" for name in ("model", "publisher", "licence", "host")}
        model["page"] = "javascript:window.ran=true"
        model["figures"] = [figure(1.5, f"BLEU{script}", f"set{script}")]
    italian.jobs = [job(italian.catalogue[0], source=None)]
    page = italian.page(visit)
    place = open_panel(page)
    expect(place).to_contain_text("onerror")
    expect(page.locator(ROW)).to_contain_text("onerror")
    expect(page.get_by_role("link", name="About this model")).to_have_count(0)
    page.select_option("#target-language", "it")
    page.locator("#offer").get_by_role("button", name="Install").click()
    expect(page.get_by_role("dialog")).to_contain_text("onerror")
    expect(page.locator("img:not([src='page/mark.svg'])")).to_have_count(0)
    assert page.evaluate("window.ran === undefined")
