"""/docs, the API reference, in a real Chromium: it contacts only the service, and its examples run."""

from __future__ import annotations

from pathlib import Path

import httpx
from chromium import Visit
from playwright.sync_api import Browser, Locator, Page, Route
from servers import WAIT_S
from shared_fixtures import listening

from app.http.api_keys import new_key

ROOT = "/mt"


def opened(page: Page, path: str) -> Locator:
    """Expands an operation of the reference, ready to send its first example."""
    operation = page.locator(".opblock", has=page.locator(f".opblock-summary-path[data-path='{path}']")).first
    operation.locator(".opblock-summary-control").click()
    operation.get_by_role("button", name="Try it out").click()
    return operation


def status(operation: Locator) -> str:
    """Executes the operation, and returns the status of the response."""
    operation.get_by_role("button", name="Execute").click()
    return operation.locator(".live-responses-table .response .response-col_status").inner_text()


def test_docs_page_loads_nothing_from_other_hosts_and_its_example_works(browser: Browser, bundle_folder: Path) -> None:
    with listening(bundle_folder) as url:
        visit = Visit(browser, url)
        page = visit.page("/docs")
        assert status(opened(page, "/translate")) == "200"
        assert status(opened(page, "/attention")) == "200"
        assert page.locator(".opblock").count() > 30
        assert page.get_by_role("button", name="Authorize").count() == 0
        assert f"{url}/translate" in visit.requests
        visit.end()
        expect_security_policies(url)


def expect_security_policies(url: str) -> None:
    """Every page has one without scripts of its own."""
    with httpx.Client(base_url=url, timeout=WAIT_S) as client:
        body = {"text": "Hello.", "source": "en", "target": "fr", "as": "svg"}
        for answer in (client.get("/docs"), client.get("/"), client.post("/attention", json=body)):
            policy = answer.headers["content-security-policy"]
            assert answer.status_code == 200
            assert "default-src 'none'" in policy
            assert "unsafe-inline" not in "".join(part for part in policy.split(";") if "script-src" in part)
            assert answer.headers["x-content-type-options"] == "nosniff"


def test_docs_page_sends_the_api_key_that_is_entered_behind_a_proxy_that_adds_a_path(
    browser: Browser, bundle_folder: Path, tmp_path: Path
) -> None:
    key, line = new_key("reader")
    (tmp_path / "keys").write_text(line)
    with listening(bundle_folder, api_keys_file=tmp_path / "keys", root_path=ROOT) as url:

        def take_off(route: Route) -> None:
            """Strips the path, as a proxy does."""
            asked = route.request.url
            if asked.startswith(f"{url}{ROOT}/"):
                route.continue_(url=asked.replace(ROOT, "", 1))
            else:
                route.abort()

        visit = Visit(browser, url)
        visit.allowed.append("Failed to load resource: the server responded with a status of 401")
        page = visit.new()
        page.route("**/*", take_off)
        page.goto(f"{url}{ROOT}/docs")
        operation = opened(page, "/translate")
        assert status(operation) == "401"
        page.get_by_role("button", name="Authorize").first.click()
        page.get_by_label("auth-bearer-value").fill(key)
        page.get_by_role("button", name="Apply credentials").first.click()
        page.get_by_role("button", name="Close").first.click()
        with page.expect_response(lambda response: response.url.endswith("/translate")):
            operation.get_by_role("button", name="Execute").click()
        operation.locator(".live-responses-table .response .response-col_status", has_text="200").wait_for()
        visit.end()
