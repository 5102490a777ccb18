"""Glossaries made over HTTP: their owners, their limits, and that a restart loses none."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples

from app.errors import InvalidFields, Unavailable
from app.settings import SettingsError
from app.storage import glossary_store
from app.storage.glossary_store import GlossaryStore, StoredGlossary
from app.storage.store_local import LocalStore
from app.text.glossary import MAX_CHARS, Glossaries, Glossary

EN_FR = ("en", "fr")
WORDS = {"cat": "matou", "house": "baraque"}


def made(name: str = "words", owner: str = "ann", **fields: Any) -> StoredGlossary:
    return StoredGlossary(name, owner, {EN_FR: WORDS}, **fields)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def opened(folder: Path | None = None, shared: Glossaries | None = None) -> GlossaryStore:
    """Raises SettingsError."""
    store = GlossaryStore(LocalStore(), folder, shared)
    run(store.open())
    return store


def test_glossary_is_visible_to_its_owner_only() -> None:
    store, one = opened(), made()
    run(store.add(one))
    assert run(store.find(one.id, "ann")) is one
    assert run(store.available_to("ann")) == [one]
    assert run(store.find(one.id, "bob")) is None
    assert run(store.available_to("bob")) == []
    assert run(store.delete(one.id, "bob")) is None
    assert run(store.change(one.id, "bob", lambda found: replace(found, name="his"))) is None
    assert run(store.delete(one.id, "ann")) is one
    assert run(store.find(one.id, "ann")) is None


def test_served_glossaries_are_visible_to_all_and_cannot_be_changed(tmp_path: Path) -> None:
    own = Glossaries({("terms", "en-US", "fr"): Glossary(WORDS, "en"), ("terms", "fr", "en-US"): Glossary({}, "fr")})
    store = opened(tmp_path, own)
    for owner in ("", "ann", "bob"):
        found = run(store.find("terms", owner))
        assert found
        assert found.dictionaries == {EN_FR: WORDS, ("fr", "en"): {}}
        assert run(store.available_to(owner)) == [found]
    with pytest.raises(InvalidFields, match="cannot be changed"):
        run(store.delete("terms", "ann"))
    with pytest.raises(InvalidFields, match="cannot be changed"):
        run(store.change("terms", "ann", lambda found: replace(found, name="mine")))
    assert list(tmp_path.iterdir()) == []


def test_search_structure_is_cached_until_the_terms_change() -> None:
    async def scenario() -> None:
        store, one = GlossaryStore(LocalStore()), made()
        await store.add(one)
        first = await store.load(one, EN_FR)
        assert [kept.raw for kept in first.find("My cat.")] == ["matou"]
        assert await store.load(one, EN_FR) is first
        changed = await store.change(one.id, "ann", lambda found: replace(found, dictionaries={EN_FR: {"cat": "chat"}}))
        assert changed
        assert [kept.raw for kept in (await store.load(changed, EN_FR)).find("My cat.")] == ["chat"]

    run(scenario())


def test_few_search_structures_are_cached() -> None:
    async def scenario() -> None:
        store = GlossaryStore(LocalStore())
        many = [made(str(number)) for number in range(20)]
        for one in many:
            await store.add(one)
        ready = [await store.load(one, EN_FR) for one in many]
        assert await store.load(many[-1], EN_FR) is ready[-1]
        assert await store.load(many[0], EN_FR) is not ready[0]

    run(scenario())


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": " "}, "1 to 1024 characters"),
        ({"name": "n" * 1_025}, "1 to 1024 characters"),
        ({"dictionaries": {EN_FR: {}}}, "at least one term"),
        ({"dictionaries": {EN_FR: {"": "a"}}}, "A term is empty"),
        ({"dictionaries": {EN_FR: {"a": "a\tb"}}}, "control character"),
        ({"dictionaries": {EN_FR: {str(n): "a" for n in range(10_001)}}}, "at most 10,000 terms"),
        ({"dictionaries": {("en", str(n)): WORDS for n in range(101)}}, "at most 100 dictionaries"),
    ],
)
def test_invalid_glossaries_are_refused(fields: dict[str, Any], said: str) -> None:
    store, one = opened(), made()
    with pytest.raises(InvalidFields, match=said):
        run(store.add(replace(one, **fields)))
    assert run(store.available_to("ann")) == []


def test_number_of_glossaries_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    store, one = opened(), made()
    run(store.add(one))
    with monkeypatch.context() as patched:
        patched.setattr(glossary_store, "MAX_GLOSSARIES", 1)
        with pytest.raises(InvalidFields, match="is reached"):
            run(store.add(made(owner="bob")))
        run(store.change(one.id, "ann", lambda found: replace(found, name="other")))
    with monkeypatch.context() as patched:
        patched.setattr(glossary_store, "MAX_TOTAL_BYTES", one.size + 1)
        with pytest.raises(InvalidFields, match="over 0 MiB"):
            run(store.add(made(owner="bob")))
        run(store.change(one.id, "ann", lambda found: replace(found, name="another")))
    assert [found.name for found in run(store.available_to("ann"))] == ["another"]


def test_restart_keeps_all_glossaries(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "by us"
    store = opened(folder)
    kept, deleted = made("Wörter"), made(owner="bob")
    run(store.add(kept))
    run(store.add(deleted))
    run(store.delete(deleted.id, "bob"))
    changed = run(store.change(kept.id, "ann", lambda found: replace(found, dictionaries={("fr", "en"): {"é": "猫"}})))
    again = opened(folder)
    assert run(again.available_to("ann")) == [changed]
    assert run(again.available_to("bob")) == []
    assert [path.name for path in folder.iterdir()] == [f"{kept.id}.json"]


@draw_examples(50)
@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=glossary_store.MAX_NAME_CHARS).filter(
        str.strip
    ),
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=MAX_CHARS).filter(
            str.strip
        ),
        st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=MAX_CHARS).filter(
            str.strip
        ),
        min_size=1,
    ),
)
def test_any_names_and_terms_are_kept(
    tmp_path_factory: pytest.TempPathFactory, name: str, terms: dict[str, str]
) -> None:
    folder = tmp_path_factory.mktemp("store")
    one = StoredGlossary(name, "ann", {EN_FR: terms})
    run(opened(folder).add(one))
    assert run(opened(folder).available_to("ann")) == [one]


def test_glossary_that_cannot_be_written_is_not_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, one = opened(tmp_path), made()

    def full(*places: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        with pytest.raises(Unavailable, match="No space"):
            run(store.add(one))
    assert run(store.available_to("ann")) == run(opened(tmp_path).available_to("ann")) == []
    assert not list(tmp_path.iterdir())


def test_concurrent_changes_are_made_one_after_another() -> None:
    def with_term(term: str) -> Callable[[StoredGlossary], StoredGlossary]:
        return lambda found: replace(found, dictionaries={EN_FR: {**found.dictionaries[EN_FR], term: "x"}})

    async def scenario() -> None:
        store, one = GlossaryStore(LocalStore()), made()
        await store.add(one)
        await asyncio.gather(*(store.change(one.id, "ann", with_term(f"term {n}")) for n in range(10)))
        (found,) = await store.available_to("ann")
        assert len(found.dictionaries[EN_FR]) == len(WORDS) + 10

    run(scenario())


GOOD: dict[str, Any] = {
    "id": "a",
    "name": "n",
    "owner": "",
    "created": "2026-01-01T00:00:00+00:00",
    "dictionaries": [{"source": "en", "target": "fr", "terms": {"a": "b"}}],
}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[]",
        b"[" * 100_000,
        *(
            json.dumps({**GOOD, **wrong}).encode()
            for wrong in (
                {"id": "b"},
                {"name": 1},
                {"owner": None},
                {"created": "yesterday"},
                {"created": "2026-01-01T00:00:00"},
                {"created": 5},
                {"dictionaries": 5},
                {"dictionaries": [{"source": "en"}]},
                {"dictionaries": [{"source": 1, "target": "fr", "terms": {}}]},
                {"dictionaries": [{"source": "en", "target": [], "terms": {}}]},
                {"dictionaries": [{"source": "en", "target": "fr", "terms": {"": "b"}}]},
                {"dictionaries": [{"source": "en", "target": "fr", "terms": {"a": 1}}]},
            )
        ),
    ],
)
def test_unreadable_file_stops_the_start(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(GOOD))
    assert len(run(opened(tmp_path).available_to(""))) == 1
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"INTERLINEAR_GLOSSARY_STORE: a\.json: ") as refused:
        opened(tmp_path)
    assert "\n" not in str(refused.value)


def test_path_that_is_no_folder_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="INTERLINEAR_GLOSSARY_STORE="):
        opened(tmp_path / "file")
