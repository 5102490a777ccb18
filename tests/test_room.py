"""Room for files: what all send together is bounded, and those without a key take none of those who have one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import Service, serving

from app.errors import Overloaded
from app.keys import new_key
from app.main import STRANGERS, UPLOADS
from app.room import Room

FILE = {"file": ("a.txt", b"Hello.")}
OURS, LIBRE, DEEPL = "/translate/file", "/libretranslate/translate_file", "/deepl/v2/document"
FIELDS = {OURS: {"source": "en", "target": "fr"}, LIBRE: {"source": "en", "target": "fr"}, DEEPL: {"target_lang": "fr"}}


def test_all_together_take_no_more_than_there_is() -> None:
    room = Room(10)
    with room.place() as first, room.place() as second:
        first.take(4)
        second.take(6)
        with pytest.raises(Overloaded) as refused:
            first.take(1)
        assert refused.value.retry_after_s
    assert room.taken == 0


def test_what_is_taken_is_given_back_whatever_happens() -> None:
    room = Room(10)
    with suppress(Overloaded), room.place() as place:
        place.take(8)
        assert room.taken == 8
        place.take(8)
    assert room.taken == 0


def send(service: Service, path: str, **sent: Any) -> int:
    data = {**FIELDS[path], **sent.pop("data", {})}
    return service.request("POST", path, files=FILE, data=data, **sent).status_code


@pytest.mark.parametrize("path", [OURS, LIBRE, DEEPL])
def test_a_file_for_which_there_is_no_room_is_refused_and_may_come_later(bundle_folder: Path, path: str) -> None:
    with serving(bundle_folder) as service:
        room: Room = service.state["uploads"]
        with room.place() as place:
            place.take(room.most_bytes - 5)
            assert send(service, path) == 503
        assert send(service, path) == 200
        assert room.taken == 0


def test_strangers_take_no_room_of_those_who_are_known(bundle_folder: Path, tmp_path: Path) -> None:
    key, line = new_key("alice")
    (tmp_path / "keys").write_text(line)
    with serving(bundle_folder, api_keys_file=tmp_path / "keys") as service:
        strangers: Room = service.state["strangers"]
        uploads: Room = service.state["uploads"]
        assert strangers.most_bytes * UPLOADS == uploads.most_bytes * STRANGERS
        with strangers.place() as place:
            place.take(strangers.most_bytes)
            assert send(service, LIBRE) == 503
            assert send(service, LIBRE, headers={"Authorization": "Bearer wrong"}) == 503
            assert send(service, LIBRE, data={"api_key": key}) == 503
            assert send(service, LIBRE, params={"api_key": key}) == 200
            assert send(service, LIBRE, headers={"Authorization": f"Bearer {key}"}) == 200
        assert send(service, LIBRE) == 403
        assert send(service, LIBRE, data={"api_key": key}) == 200
