"""/docs, the API reference, in a real Chromium: it contacts only the service, and its examples run."""

from __future__ import annotations

from pathlib import Path

import pytest
from chromium import Visit
from playwright.sync_api import Browser, Locator, Page, Route
from shared_fixtures import Service, listening

from app.http.api_keys import new_key

pytestmark = pytest.mark.browser

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


def test_reference_needs_no_key_where_the_service_needs_none_and_its_example_works(service: Service) -> None:
    described = service.get("/openapi.json").json()
    assert "securitySchemes" not in described["components"]  # for which Swagger UI has a button
    body = described["paths"]["/attention"]["post"]["requestBody"]["content"]["application/json"]
    example = next(iter(body["examples"].values()))["value"]
    assert service.post("/attention", example).status_code == 200


def test_every_page_has_a_security_policy_without_scripts_of_its_own(service: Service) -> None:
    body = {"text": "Hello.", "source": "en", "target": "fr", "as": "svg"}
    for answer in (service.get("/docs"), service.get("/"), service.post("/attention", body)):
        policy = answer.headers["content-security-policy"]
        assert answer.status_code == 200
        assert "default-src 'none'" in policy
        assert "unsafe-inline" not in "".join(part for part in policy.split(";") if "script-src" in part)
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_docs_page_loads_nothing_from_other_hosts_and_sends_the_key_behind_a_proxy_that_adds_a_path(
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
        assert page.locator(".opblock").count() > 30
        assert status(operation) == "401"
        page.get_by_role("button", name="Authorize").first.click()
        page.get_by_label("auth-bearer-value").fill(key)
        page.get_by_role("button", name="Apply credentials").first.click()
        page.get_by_role("button", name="Close").first.click()
        with page.expect_response(lambda response: response.url.endswith("/translate")):
            operation.get_by_role("button", name="Execute").click()
        operation.locator(".live-responses-table .response .response-col_status", has_text="200").wait_for()
        visit.end()
