"""Byte budgets: the total is bounded, and clients without a key take none of the budget of those with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from shared_fixtures import Service, serving

from app.errors import Overloaded
from app.http.api_keys import new_key
from app.runtime.byte_budgets import MAX_LARGE_SHARE, SMALL_BYTES, ByteBudget, Reservation

pytestmark = pytest.mark.slow

FILE = {"file": ("a.txt", b"Hello.")}
OURS, LIBRE, DEEPL = "/translate/file", "/libretranslate/translate_file", "/deepl/v2/document"
FIELDS = {OURS: {"source": "en", "target": "fr"}, LIBRE: {"source": "en", "target": "fr"}, DEEPL: {"target_lang": "fr"}}
TEXTS: dict[str, dict[str, Any]] = {
    "/translate": {"text": "Hello.", "source": "en", "target": "fr"},
    "/libretranslate/translate": {"q": "Hello.", "source": "en", "target": "fr"},
    "/libretranslate/detect": {"q": "Hello."},
    "/deepl/v2/translate": {"text": ["Hello."], "target_lang": "FR"},
}


def test_reservations_together_stay_within_the_budget() -> None:
    budget = ByteBudget(10)
    first, second = Reservation(budget), Reservation(budget)
    first.grow(4)
    second.grow(6)
    with pytest.raises(Overloaded) as refused:
        first.grow(1)
    assert refused.value.retry_after_s
    second.release()
    first.grow(1)
    first.release()
    assert budget.used == 0


def test_large_reservations_leave_room_for_small_ones() -> None:
    budget = ByteBudget(100 * SMALL_BYTES)
    for _ in range(int(100 * MAX_LARGE_SHARE) // 2):
        Reservation(budget).grow(2 * SMALL_BYTES)
    with pytest.raises(Overloaded):
        Reservation(budget).grow(2 * SMALL_BYTES)
    Reservation(budget).grow(SMALL_BYTES)


def test_a_sole_reservation_may_have_any_size() -> None:
    Reservation(ByteBudget(10)).grow(100)


def send(service: Service, path: str, **sent: Any) -> int:
    if path in TEXTS:
        body = {**TEXTS[path], **sent.pop("data", {})}
        return service.request("POST", path, json=body, **sent).status_code
    data = {**FIELDS[path], **sent.pop("data", {})}
    return service.request("POST", path, files=FILE, data=data, **sent).status_code


@pytest.mark.parametrize("path", [*FIELDS, *TEXTS])
def test_body_without_room_is_refused_and_accepted_later(bundle_folder: Path, path: str) -> None:
    with serving(bundle_folder) as service:
        budget = service.state.budgets.bodies
        reservation = Reservation(budget)
        reservation.grow(budget.max_bytes - 5)
        assert send(service, path) == 503
        reservation.release()
        assert send(service, path) == 200
        assert budget.used == 0


def test_unauthenticated_clients_use_no_budget_of_authenticated_ones(bundle_folder: Path, tmp_path: Path) -> None:
    key, line = new_key("alice")
    (tmp_path / "keys").write_text(line)
    with serving(bundle_folder, api_keys_file=tmp_path / "keys") as service:
        unauthenticated = service.state.budgets.unauthenticated
        for path in LIBRE, "/libretranslate/translate":
            reservation = Reservation(unauthenticated)
            reservation.grow(unauthenticated.max_bytes)
            assert send(service, path) == 503
            assert send(service, path, headers={"Authorization": "Bearer wrong"}) == 503
            assert send(service, path, data={"api_key": key}) == 503
            assert send(service, path, params={"api_key": key}) == 200
            assert send(service, path, headers={"Authorization": f"Bearer {key}"}) == 200
            reservation.release()
            assert send(service, path) == 403
            assert send(service, path, data={"api_key": key}) == 200
            assert unauthenticated.used == 0
