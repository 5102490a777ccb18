"""The page's two panes, for tests that type into one and read the other; and a service that refuses requests."""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Locator, Page, Route

TEXT, FRENCH = "My house is red. The cat sleeps on the table.", "Ma maison est rouge. Le chat dort sur la table."
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def type_in(page: Page, text: str) -> None:
    page.locator("#source-text").fill(text)


def translation(page: Page) -> Locator:
    return page.locator("#target-text")


def refuse(route: Route, status: int, slug: str, detail: str, **headers: str) -> None:
    problem = {"type": f"urn:interlinear:error:{slug}", "title": slug, "status": status, "detail": detail}
    route.fulfill(status=status, headers=headers, content_type="application/problem+json", body=json.dumps(problem))
