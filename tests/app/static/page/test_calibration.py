"""app/static/: the page shows how well a model's estimates of quality hold: a calibration plot and figures of each
test set."""

from __future__ import annotations

import re
from typing import Any, Literal

import httpx
import pytest
from chromium import Visit
from playwright.sync_api import Locator, Page, expect

pytestmark = pytest.mark.browser

PLOT = ".calibration svg"


def calibrated(bins: list[list[float]], error: float = 0.1, auroc: float | None = 0.5) -> dict[str, Any]:
    """A direction's calibration, as in GET /models."""
    measured = {"sentences": 30, "error": error, "auroc": auroc, "bins": bins}
    return {"fitted_on": [{"set": "dev"}], "measured": [{"set": "dev", **measured}, {"set": "test", **measured}]}


def centre(dots: Locator, number: int) -> list[float]:
    return [float(dots.nth(number).get_attribute(name) or "") for name in ("cx", "cy", "r")]


def test_the_plot_its_text_and_its_figures_are_those_of_the_chosen_direction(visit: Visit, shipped_url: str) -> None:
    [model] = httpx.get(f"{shipped_url}/models").json()
    quality = {
        "en-fr": calibrated([[10, 0.0, 0.5], [40, 0.5, 0.5], [10, 1.0, 0.0]], 0.054, 0.876),
        "en-de": calibrated([[9, 0.1, 0.1]], 0.022, None),
    }
    several = {**model, "sources": ["en"], "targets": ["fr", "de"], "quality": quality}
    other = {**model, "model": "en-es@0", "target": "es", "targets": ["es"], "quality": {}}
    served = [{"code": "en", "name": "", "targets": ["fr", "de", "es"]}]
    page = visit.new()
    page.route("**/languages", lambda route: route.fulfill(json=served))
    page.route("**/models", lambda route: route.fulfill(json=[several, other]))
    page.goto(f"{visit.url}/#en/fr/")
    page.click("#model-panel summary")
    expect_three_dots(page)
    told = "Calibration plot. Estimated 0%: 50% good, Estimated 50%: 50% good, Estimated 100%: 0% good."
    expect(page.get_by_role("img", name=told)).to_be_visible()
    expect(page.locator(".calibration figcaption")).to_contain_text("test: calibration error 0.054, AUROC 0.88.")
    expect(page.locator(f"{PLOT} title").first).to_have_text("Estimated 0%: 50% of 10 good")
    page.click("#interface")
    told = "校准图。估计 0%，合格 50%；估计 50%，合格 50%；估计 100%，合格 0%。"
    expect(page.get_by_role("img", name=told)).to_be_visible()
    page.click("#interface")
    page.select_option("#target-language", "de")
    expect(page.locator("figcaption")).to_contain_text("calibration error 0.022, AUROC –")
    page.select_option("#target-language", "es")
    expect(page.locator("#model dl")).to_contain_text("not calibrated")
    expect(page.locator(".calibration")).to_have_count(0)


def expect_three_dots(page: Page) -> None:
    """Each where its estimate and its share of good ones are."""
    dots = page.locator(f"{PLOT} circle")
    expect(dots).to_have_count(3)
    frame = page.locator(f"{PLOT} rect").evaluate("at => ['x', 'y', 'width', 'height'].map((n) => +at.getAttribute(n))")
    left, top, width, height = frame
    places = [centre(dots, number) for number in range(3)]
    assert [place[:2] for place in places] == [
        [left, top + height / 2],
        [left + width / 2, top + height / 2],
        [left + width, top + height],
    ]
    assert places[1][2] == 2 * places[0][2]  # four times the area


def test_figures_are_those_of_the_bundle_and_the_plot_has_the_themes_colours_on_a_phone(
    visit: Visit, shipped_url: str
) -> None:
    [model] = httpx.get(f"{shipped_url}/models").json()
    [entry] = model["quality"].values()
    page = visit.page(viewport={"width": 390, "height": 844}, color_scheme="light")
    page.click("#model-panel summary")
    rows = page.locator(".calibration tbody tr")
    expect(rows).to_have_count(len(entry["measured"]))
    fitted = {one["set"] for one in entry["fitted_on"]}
    for row, one in zip(rows.all(), entry["measured"], strict=True):
        name = f"{one['set']} (fitted)" if one["set"] in fitted else one["set"]
        cells = [name, f"{one['sentences']:,}", f"{one['error']:.3f}", f"{one['auroc']:.2f}"]
        assert row.locator("th, td").all_inner_texts() == cells
    shown = next(one for one in entry["measured"] if one["set"] not in fitted)
    expect(page.locator("figcaption")).to_contain_text(shown["set"])
    expect(page.locator(f"{PLOT} circle")).to_have_count(len(shown["bins"]))

    themes: list[Literal["light", "dark"]] = ["light", "dark"]
    for theme in themes:
        page.emulate_media(color_scheme=theme)
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        accent = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--accent')").strip()
        red, green, blue = (int(part, 16) for part in re.findall(r"\w\w", accent))
        expect(page.locator(f"{PLOT} circle").first).to_have_css("fill", f"rgb({red}, {green}, {blue})")
        for part in page.locator(f"{PLOT} text").all():
            expect(part).to_have_css("stroke", "none")
    box, window = page.locator(PLOT).bounding_box(), page.locator("#model").bounding_box()
    assert box is not None and window is not None
    assert window["x"] <= box["x"] and box["x"] + box["width"] <= window["x"] + window["width"]
    cut = """svg => [...svg.querySelectorAll('text')].filter((part) => {
        const [inner, outer] = [part.getBoundingClientRect(), svg.getBoundingClientRect()];
        return !(outer.left <= inner.left && inner.right <= outer.right && inner.bottom <= outer.bottom);
    }).map((part) => [part.textContent, part.getBoundingClientRect(), svg.getBoundingClientRect()])"""
    assert page.locator(PLOT).evaluate(cut) == []
