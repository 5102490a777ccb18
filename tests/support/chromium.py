"""The system's Chromium, driven by Playwright, with a page that fails the test on errors of its own."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

NAMES = "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"
# As root it has no sandbox, and in a container little shared memory.
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-site-isolation-trials", "--disable-gpu"]
ARGUMENTS += ["--in-process-gpu"]  # a process less to hand frames to
PATIENCE_MS = 180_000
"""For whatever a page is expected to do, on a busy machine; only a test that fails waits to the end of it."""
HURRY = """(() => {
    const usual = window.setTimeout;
    window.setTimeout = (run, ms = 0, ...more) => usual(run, ms > 3000 ? ms : ms / 10, ...more);
})()"""
"""Makes a page wait a tenth of the times for which it waits for its user: to stop typing, or to look again.

Where something must be seen before such a time is over, a test installs Playwright's clock, which restores them.
"""
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


class SharedBrowser:
    """A browser for all modules. Its event loop, which runs in this thread, allows others while it is left."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.kept: Visit | None = None
        """Of the fixture `kept_visit`."""
        self._loop = asyncio.get_running_loop()

    def enter(self) -> Browser:
        asyncio._set_running_loop(self._loop)
        return self.browser

    def leave(self) -> None:
        asyncio._set_running_loop(None)


# Playwright for Node runs tests in one context, which it empties for each: storage, routes, scripts, the clock. For
# Python it has no public name. A context of its own, whose process is new, takes half a second of processor time more.


def emptied_tab(browser: Browser, options: dict[str, Any]) -> Page:
    context = BrowserContext(browser._sync(browser._impl_obj._new_context_for_reuse(options)))
    return context.pages[0] if context.pages else context.new_page()


def leave_tab(browser: Browser, page: Page) -> None:
    page.context.clear_permissions()  # which emptying leaves
    if not page.is_closed():
        page.goto("about:blank")
    browser._sync(browser._impl_obj._disconnect_from_reused_context("The test ended."))


class Visit:
    """Pages of one browser, with a record of everything that a page must not do."""

    def __init__(self, browser: Browser, url: str, shares_tab: bool = True) -> None:
        self.browser, self.url, self.shares_tab = browser, url, shares_tab
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.allowed: list[str] = []
        """Beginnings of complaints that a test brings about itself."""
        self.pages: list[Page] = []

    def page(self, path: str = "/", **options: Any) -> Page:
        """A new page in its own context; `options` are the context's, such as viewport and locale."""
        page = self.new(**options)
        page.goto(f"{self.url}{path}")
        return page

    def new(self, **options: Any) -> Page:
        """A new page before navigation: the tab that visits share, unless it is in use or not the device asked for."""
        options = {"locale": "en-GB", "viewport": {"width": 1280, "height": 720}, **options}
        is_like_the_tab = options.keys() <= {"locale", "viewport", "color_scheme", "reduced_motion"}
        is_used = any(context._impl_obj._for_reuse for context in self.browser.contexts)
        if self.shares_tab and not is_used and is_like_the_tab and options["locale"] == "en-GB":
            page = emptied_tab(self.browser, options)
        else:
            page = self.browser.new_context(**options).new_page()
        self.pages.append(page)
        page.context.set_default_timeout(PATIENCE_MS)
        page.add_init_script(HURRY)
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

    def end(self) -> None:
        """Closes the pages, and fails as `check` does."""
        try:
            self.check()
        finally:
            self.close()

    def close(self) -> None:
        for page in self.pages:
            leave_tab(self.browser, page) if page.context._impl_obj._for_reuse else page.context.close()
        self.pages.clear()
