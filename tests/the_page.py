"""The page's two panes, as tests type into one and read the other."""

from __future__ import annotations

from playwright.sync_api import Locator, Page

TEXT, FRENCH = "My house is red. The cat sleeps on the table.", "Ma maison est rouge. Le chat dort sur la table."


def type_in(page: Page, text: str) -> None:
    page.locator("#source-text").fill(text)


def translation(page: Page) -> Locator:
    return page.locator("#target-text")
