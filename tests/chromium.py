"""The system's Chromium, driven by Playwright, with a page that fails the test on errors of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

NAMES = "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"
# As root it has no sandbox, and in a container little shared memory.
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
PATIENCE_MS = 180_000
"""For whatever a page is expected to do, on a busy machine; only a test that fails waits to the end of it."""
REFUSED = "Failed to load resource"
"""How Chromium's console begins when an answer's status is no good one."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window. Skips the test if the machine has none."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("no Chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        expect.set_options(timeout=PATIENCE_MS)
        yield browser
        browser.close()


class Visit:
    """Pages of one browser, with a record of everything that a page must not do."""

    def __init__(self, browser: Browser, url: str) -> None:
        self.browser, self.url = browser, url
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.allowed: list[str] = []
        """Beginnings of complaints that a test brings about itself."""

    def page(self, path: str = "/", **options: Any) -> Page:
        """A new page in its own context; `options` are the context's, such as viewport and locale."""
        page = self.new(**options)
        page.goto(f"{self.url}{path}")
        return page

    def new(self, **options: Any) -> Page:
        """A new page before navigation."""
        context = self.browser.new_context(**{"locale": "en-GB", **options})
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", self._read)
        page.on("pageerror", lambda error: self.complaints.append(f"{error.name}: {error.message}"))
        return page

    def _read(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def check(self) -> None:
        """Fails if there was a request to another host, a violation of the security policy, or an error."""
        inside = f"{self.url}/", "blob:", "data:"
        assert [url for url in self.requests if not url.startswith(inside)] == []
        assert [said for said in self.complaints if not said.startswith(tuple(self.allowed))] == []

    def close(self) -> None:
        for context in self.browser.contexts:
            context.close()
