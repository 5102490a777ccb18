"""Authentication: only holders of keys get in, each within the rates, and untrusted proxies are ignored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from shared_fixtures import Service, listening, serving
from starlette.types import Scope

from app.http.api_keys import new_key
from app.http.auth import address
from app.runtime.rate_limits import Rate

pytestmark = pytest.mark.slow

EN_FR = {"source": "en", "target": "fr"}
HELLO = {"text": "Hello.", **EN_FR}
PROTECTED = [
    ("POST", "/translate"),
    ("POST", "/translate/stream"),
    ("POST", "/translate/file"),
    ("POST", "/attention"),
    ("POST", "/score"),
    ("GET", "/metrics"),
]
OPEN = ["/health", "/ready", "/languages", "/models", "/openapi.json", "/docs"]


@contextmanager
def keyed(bundles: Path, folder: Path, rates: str = "", **settings: Any) -> Iterator[tuple[Service, str]]:
    """A service that requires keys, and a key of alice."""
    key, line = new_key("alice")
    (folder / "keys").write_text(f"{line} {rates}")
    with serving(bundles, api_keys_file=folder / "keys", **settings) as service:
        yield service, key


def with_key(key: str, scheme: str = "Bearer") -> dict[str, str]:
    return {"Authorization": f"{scheme} {key}"}


@pytest.fixture(scope="module")
def locked(bundle_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    with keyed(bundle_folder, tmp_path_factory.mktemp("keys")) as entry:
        yield entry


@pytest.mark.parametrize(("method", "path"), PROTECTED)
@pytest.mark.parametrize(
    "headers",
    [{}, with_key("wrong"), with_key(""), {"Authorization": "Bearer"}, {"Authorization": ""}, with_key("x", "Basic")],
)
def test_every_request_needs_a_valid_key(
    locked: tuple[Service, str], method: str, path: str, headers: dict[str, str]
) -> None:
    service, _ = locked
    answer = service.request(method, path, headers=headers, json=HELLO)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["type"] == "urn:interlinear:error:not-authorised"


ROUTES: dict[str, dict[str, Any]] = {
    "/translate": {"json": HELLO},
    "/translate/stream": {"json": HELLO},
    "/attention": {"json": HELLO},
    "/score": {"json": {"pairs": [{"text": "Hello.", "translation": "Bonjour."}], **EN_FR}},
    "/translate/file": {"files": {"file": ("a.txt", b"Hello.")}, "data": EN_FR},
    "/libretranslate/translate": {"json": {"q": "Hello.", **EN_FR}},
    "/libretranslate/translate_file": {"files": {"file": ("a.txt", b"Hello.")}, "data": EN_FR},
    "/deepl/v2/translate": {"json": {"text": ["Hello."], "source_lang": "EN", "target_lang": "FR"}},
}


@pytest.mark.parametrize("path", ROUTES)
def test_the_engine_knows_whose_request_it_is(
    two_keys: tuple[Service, list[str]], monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    service, keys = two_keys
    scheduler, seen = service.state.deployments.current.engine.scheduler, list[str]()
    add = scheduler.add

    def note(jobs: Any, client: str, continues: bool) -> None:
        seen.append(client)
        add(jobs, client, continues)

    monkeypatch.setattr(scheduler, "add", note)
    given = dict(ROUTES[path])
    for key in (*keys, keys[0]):
        if path.startswith("/libretranslate"):
            name = "json" if "json" in given else "data"
            given[name] = {**given[name], "api_key": key}
            answer = service.request("POST", path, **given)
        else:
            scheme = "DeepL-Auth-Key" if path.startswith("/deepl") else "Bearer"
            answer = service.request("POST", path, headers=with_key(key, scheme), **given)
        assert answer.status_code == 200, answer.text
    first, second, again = (seen[at] for at in (0, len(seen) // 3, -1))
    assert first == again != second
    assert "" not in seen


@pytest.fixture(scope="module")
def two_keys(bundle_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, list[str]]]:
    folder, made = tmp_path_factory.mktemp("keys"), [new_key(name) for name in ("alice", "bob")]
    (folder / "keys").write_text("".join(f"{line}\n" for _, line in made))
    with serving(bundle_folder, api_keys_file=folder / "keys", cache_bytes=0) as service:
        yield service, [key for key, _ in made]


def test_without_keys_an_address_is_a_client(bundle_folder: Path) -> None:
    with serving(bundle_folder) as service:
        access_control = service.state.access_control
        clients = [access_control.client_at({"client": (ip, 1)}) for ip in ("10.0.0.1", "10.0.0.2", "10.0.0.1")]
    assert clients[0] is clients[2]
    assert clients[0].scheduled_as != clients[1].scheduled_as
    assert clients[0].identity == clients[1].identity  # without rates, their characters are counted together


@pytest.mark.parametrize("path", ["/translate/", "//translate", "/Translate", "/translate/../translate"])
def test_no_spelling_of_a_path_bypasses_authentication(locked: tuple[Service, str], path: str) -> None:
    service, _ = locked
    assert service.request("POST", path, json=HELLO).status_code in (401, 404, 405)


@pytest.mark.parametrize("path", OPEN)
def test_public_routes_need_no_key(locked: tuple[Service, str], path: str) -> None:
    assert locked[0].get(path).status_code in (200, 503)  # /ready, at first


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_valid_key_is_accepted(locked: tuple[Service, str], scheme: str) -> None:
    service, key = locked
    answer = service.request("POST", "/translate", headers=with_key(key, scheme), json=HELLO)
    assert answer.status_code == 200
    assert service.request("GET", "/metrics", headers=with_key(key, scheme)).status_code == 200


def test_log_names_the_key_without_its_secret(locked: tuple[Service, str], caplog: pytest.LogCaptureFixture) -> None:
    service, key = locked
    with caplog.at_level("INFO"):
        service.request("POST", "/translate", headers=with_key(key), json=HELLO)
        service.request("POST", "/translate", headers=with_key("il_wrong"), json=HELLO)
    served, refused = [record.getMessage() for record in caplog.records if record.name == "app.http.access_log"]
    assert '"key":"alice"' in served
    assert '"key"' not in refused
    assert not any(secret in text for secret in (key, "il_wrong", "Hello") for text in caplog.messages)
    figures = service.request("GET", "/metrics", headers=with_key(key)).text
    assert 'interlinear_refusals_total{cause="not-authorised"}' in figures
    assert "alice" not in figures


def test_key_is_checked_before_the_body_is_read(locked: tuple[Service, str]) -> None:
    service, _ = locked
    answer = service.request("POST", "/translate", content=b"{", headers={"content-type": "application/json"})
    assert answer.status_code == 401


@pytest.mark.parametrize("path", ["/translate", "/attention", "/translate/stream"])
def test_requests_over_the_rate_are_refused_with_the_time_to_wait(bundle_folder: Path, path: str) -> None:
    with serving(bundle_folder, rate_requests=Rate.parse("2/hour")) as service:
        answers = [service.post(path, HELLO) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        assert answers[2].json()["type"] == "urn:interlinear:error:too-many-requests"
        assert 0 < int(answers[2].headers["retry-after"]) <= 1800
        assert service.get("/health").status_code == service.get("/languages").status_code == 200


def test_characters_are_counted_over_all_texts(bundle_folder: Path) -> None:
    with serving(bundle_folder, rate_characters=Rate.parse("20/hour")) as service:
        statuses = [service.post("/translate", {**HELLO, "text": ["Hello."] * n}).status_code for n in (2, 2, 1)]
        assert statuses == [200, 429, 200]
        never = service.post("/translate", {**HELLO, "text": "x" * 21})
        assert never.status_code == 429
        assert "retry-after" not in never.headers
        assert never.json()["type"] == "urn:interlinear:error:too-many-characters"


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/translate", {"text": ["Hello, all of you."], **EN_FR}),
        ("/translate/stream", {"text": "Hello, all of you.", **EN_FR}),
        ("/attention", {"text": "Hello.", "target_text": "Bonjour à tous.", **EN_FR}),
        ("/libretranslate/translate", {"q": ["Hello.", "Hello, all of you."], **EN_FR}),
        ("/deepl/v2/translate", {"text": ["Hello.", "Hello, all of you."], "target_lang": "FR"}),
    ],
)
def test_texts_that_are_too_long_are_not_charged(bundle_folder: Path, path: str, fields: dict[str, Any]) -> None:
    with serving(bundle_folder, rate_characters=Rate.parse("10/hour"), max_text_chars=8) as service:
        assert service.post(path, fields).status_code in (400, 413)
        assert service.post("/translate", {"text": "x" * 8, **EN_FR}).status_code == 200


def test_file_and_forced_translation_are_charged_by_their_characters(bundle_folder: Path) -> None:
    with serving(bundle_folder, rate_characters=Rate.parse("20/hour")) as service:
        fields = {"source": "en", "target": "fr"}
        files = {"file": ("a.txt", b"Hello.\nHello.\nHello.")}
        assert service.request("POST", "/translate/file", data=fields, files=files).status_code == 200
        assert service.post("/attention", {**HELLO, "target_text": "Bonjour."}).status_code == 429


def test_keys_own_rate_overrides_the_setting(bundle_folder: Path, tmp_path: Path) -> None:
    with keyed(bundle_folder, tmp_path, "requests=3/hour", rate_requests=Rate.parse("1/hour")) as (service, key):
        statuses = [
            service.request("POST", "/translate", headers=with_key(key), json=HELLO).status_code for _ in range(4)
        ]
    assert statuses == [200, 200, 200, 429]


def test_client_is_identified_by_its_address_and_untrusted_proxies_are_ignored(bundle_folder: Path) -> None:
    def statuses(url: str) -> list[int]:
        sent = [{"X-Forwarded-For": f"203.0.113.{number}"} for number in range(2)]
        return [httpx.post(f"{url}/translate", json=HELLO, headers=headers).status_code for headers in sent]

    with listening(bundle_folder, rate_requests=Rate.parse("1/hour")) as url:
        assert statuses(url) == [200, 429]
    with listening(bundle_folder, rate_requests=Rate.parse("1/hour"), trusted_proxies=["127.0.0.1"]) as url:
        assert statuses(url) == [200, 200]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("not:an:address", "not:an:address"),
    ],
)
def test_addresses_of_one_ipv6_network_share_a_rate(host: str, expected: str) -> None:
    scope: Scope = {"client": (host, 1)}
    assert address(scope) == expected
    assert address({"client": None}) == ""
