"""Glossaries that clients create over HTTP, each with an owner; kept in the store, and in a folder if one is set.

Includes the service's own glossaries, which are read-only. `app.text.glossary` finds the terms in a text.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from cachetools import LRUCache

from app.errors import InvalidFields, Overloaded, Unavailable
from app.runtime.event_loop import TERM_SIZE, run
from app.settings import PREFIX, SettingsError
from app.storage.protocols import Kind, Store, StoreFull
from app.text.glossary import Glossaries, Glossary
from model.atomic_files import write_atomically
from model.languages import language_alone

MAX_GLOSSARIES = 1_000
"""Maximum number of glossaries."""
MAX_TOTAL_BYTES = 1 << 26
"""Approximate limit on their total size, without the cached search structures."""
_BYTES_PER_CHAR = 100
"""Bytes of JSON that are written or read in the time that planning a character takes."""
MAX_DICTIONARIES = 100
"""Maximum number of dictionaries per glossary."""
MAX_NAME_CHARS = 1_024
_TERM_OVERHEAD_BYTES = 200
"""Bytes that a term takes besides its characters."""
_MAX_CACHED = 8
"""Maximum number of cached search structures, each of which takes many times the memory of its terms."""

_MAX_CONFLICTS = 20
"""How often a change is made again because another instance has changed the same glossary meanwhile."""

log = logging.getLogger(__name__)
LanguagePair = tuple[str, str]
"""Source and target: languages without variants, in lower case, so that a glossary for en also serves en-US."""
Terms = Mapping[str, str]


@dataclass(frozen=True)
class StoredGlossary:
    """A glossary, with one dictionary per language pair. Immutable; changes replace it."""

    name: str
    owner: str | None
    """None if it is the service's own, available to everyone."""
    dictionaries: Mapping[LanguagePair, Terms]
    id: str = field(default_factory=lambda: str(uuid4()))
    created: datetime = field(default_factory=lambda: datetime.now(UTC))

    @cached_property
    def size(self) -> int:
        """Approximate size in bytes."""
        return sum(
            _TERM_OVERHEAD_BYTES + len(s) + len(t) for terms in self.dictionaries.values() for s, t in terms.items()
        )


class _Copy(NamedTuple):
    """A glossary of the store as it was at this version."""

    version: int
    glossary: StoredGlossary


class GlossaryStore:
    """All glossaries. A client sees only its own and those of the service. All coroutines raise StoreUnavailable."""

    def __init__(self, store: Store, folder: Path | None = None, shared: Glossaries | None = None) -> None:
        """`folder`: only for a store that no other instance uses. Raises SettingsError if a file in it cannot be
        read."""
        self._store, self._folder = store, folder
        self._shared = {one.id: one for one in _shared(shared or Glossaries())}
        self._in_folder = _load(folder) if folder else []
        self._copies: dict[str, _Copy] = {}
        """By key in the store; those that are in use here, decoded."""
        self._cache: LRUCache[tuple[str, LanguagePair], Glossary] = LRUCache(_MAX_CACHED)
        self._lock = asyncio.Lock()

    async def open(self) -> None:
        """Puts the glossaries of the folder into the store."""
        kind = replace(_kind(), max_records=1 << 40, max_bytes=1 << 40)
        while self._in_folder:
            one = self._in_folder.pop()
            version = await self._store.put(kind, _key(one.owner, one.id), {"glossary": _encode(one)}, one.size)
            if version:
                self._copies[_key(one.owner, one.id)] = _Copy(version, one)

    async def available_to(self, owner: str) -> list[StoredGlossary]:
        """The glossaries that `owner` may use, oldest first."""
        versions = await self._store.versions(_kind())
        for key in self._copies.keys() - versions.keys():
            del self._copies[key]
        copies = [await self._copy(key, version) for key, version in versions.items() if key.startswith(_key(owner))]
        found = [*self._shared.values(), *(copy.glossary for copy in copies if copy)]
        return sorted(found, key=lambda one: one.created)

    async def find(self, id: str, owner: str) -> StoredGlossary | None:
        """The glossary; None if it does not exist or belongs to another owner."""
        if id in self._shared:
            return self._shared[id]
        copy = await self._latest(_key(owner, id))
        return copy.glossary if copy else None

    async def load(self, stored: StoredGlossary, pair: LanguagePair) -> Glossary:
        """Returns the search structure of a dictionary of `stored`, from the cache if possible."""
        terms, key = stored.dictionaries[pair], (stored.id, pair)
        glossary = self._cache.get(key)
        if glossary is None or glossary.terms is not terms:
            glossary = self._cache[key] = await run(TERM_SIZE * len(terms), Glossary, terms, pair[0])
        return glossary

    async def add(self, new: StoredGlossary) -> None:
        """Stores a new glossary. Raises InvalidFields, and Unavailable if it cannot be written."""
        async with self._lock:
            await self._put(new, None)

    async def change(
        self, id: str, owner: str, changed: Callable[[StoredGlossary], StoredGlossary]
    ) -> StoredGlossary | None:
        """Replaces a glossary with the result of `changed`; returns None if it does not exist. Raises like `add`.

        `changed` is called again if another instance has changed the glossary meanwhile, so that no change is lost.
        """
        self._refuse_shared(id)
        async with self._lock:
            for _ in range(_MAX_CONFLICTS):
                copy = await self._latest(_key(owner, id))
                if copy is None:
                    return None
                new = changed(copy.glossary)
                if await self._put(new, copy):
                    return new
        raise Overloaded("Too many changes of this glossary at once.", (), 1.0)

    async def delete(self, id: str, owner: str) -> StoredGlossary | None:
        """Returns the deleted glossary; None if it does not exist. Raises like `add`."""
        self._refuse_shared(id)
        async with self._lock:
            key = _key(owner, id)
            copy = await self._latest(key)
            if copy is None:
                return None
            await self._write(copy.glossary, is_deleted=True)
            self._copies.pop(key, None)
            return copy.glossary if await self._store.delete(_kind(), key) else None

    async def _latest(self, key: str) -> _Copy | None:
        return await self._copy(key, await self._store.version(_kind(), key))

    async def _copy(self, key: str, version: int) -> _Copy | None:
        """The glossary, read from the store only if it is not at hand in this version. `version`: 0 if it is gone."""
        copy = self._copies.get(key)
        if copy is None or copy.version != version:
            record = await self._store.get(_kind(), key, "glossary") if version else None
            if record is None:
                self._copies.pop(key, None)
                return None
            content = record.fields["glossary"]
            copy = _Copy(record.version, await run(len(content) // _BYTES_PER_CHAR, _decode, content))
            self._copies[key] = copy
        return copy

    async def _put(self, new: StoredGlossary, known: _Copy | None) -> bool:
        """Returns False if the store has another version than `known` by now, and then changes nothing."""
        terms = sum(map(len, new.dictionaries.values()))
        await run(TERM_SIZE * terms, _check, new, known.glossary.dictionaries if known else {})
        encoded, key = await run(new.size // _BYTES_PER_CHAR, _encode, new), _key(new.owner, new.id)
        try:
            version = await self._store.put(
                _kind(), key, {"glossary": encoded}, new.size, known.version if known else 0
            )
        except StoreFull as full:
            if full.scarce == "records":
                raise _invalid(
                    "name", f"The limit of {MAX_GLOSSARIES} glossaries is reached: delete one first"
                ) from None
            raise _invalid(
                "entries", f"All glossaries together would be over {MAX_TOTAL_BYTES >> 20} MiB: delete one first"
            ) from None
        if version is None:
            return False
        self._copies[key] = _Copy(version, new)
        try:
            await self._write(new)
        except Unavailable:  # the store takes back a change of which the folder knows nothing
            del self._copies[key]
            if known is None:
                await self._store.delete(_kind(), key)
            else:
                fields = {"glossary": _encode(known.glossary)}
                await self._store.put(_kind(), key, fields, known.glossary.size, version)
            raise
        return True

    async def _write(self, glossary: StoredGlossary, is_deleted: bool = False) -> None:
        """Writes the glossary's file if there is a folder, or removes it. Raises Unavailable."""
        try:
            if self._folder:
                path = self._folder / f"{glossary.id}.json"
                await asyncio.to_thread(_save, path, None if is_deleted else glossary)
        except OSError as error:
            log.error("Glossaries cannot be written: %s", error)
            raise Unavailable(f"Glossaries cannot be written: {error.strerror}") from None

    def _refuse_shared(self, id: str) -> None:
        """Raises InvalidFields."""
        if found := self._shared.get(id):
            raise _invalid("glossary_id", f"The glossary {found.name} belongs to the service and cannot be changed")


def _kind() -> Kind:
    return Kind("glossaries", MAX_GLOSSARIES, MAX_TOTAL_BYTES)


def _key(owner: str | None, id: str = "") -> str:
    """A glossary's key in the store: nobody else's begins with `owner` and a slash, which no key's name contains."""
    return f"{owner}/{id}"


def _check(new: StoredGlossary, known: Mapping[LanguagePair, Terms]) -> None:
    """Raises InvalidFields. `known`: dictionaries that have been checked."""
    if not new.name.strip() or len(new.name) > MAX_NAME_CHARS:
        raise _invalid("name", f"A glossary's name must have 1 to {MAX_NAME_CHARS} characters")
    if len(new.dictionaries) > MAX_DICTIONARIES:
        raise _invalid("dictionaries", f"A glossary may have at most {MAX_DICTIONARIES} dictionaries")
    for pair, terms in new.dictionaries.items():
        if terms is known.get(pair):
            continue
        if not terms:
            raise _invalid("entries", "A dictionary must have at least one term")
        try:
            Glossary(terms, pair[0])
        except ValueError as error:
            raise _invalid("entries", str(error).rstrip(".")) from None


def _shared(shared: Glossaries) -> list[StoredGlossary]:
    found: dict[str, dict[LanguagePair, Terms]] = {}
    for (name, source, target), glossary in shared.by_pair.items():
        found.setdefault(name, {})[language_alone(source), language_alone(target)] = glossary.terms
    return [StoredGlossary(name, None, dictionaries, id=name) for name, dictionaries in found.items()]


def _encode(glossary: StoredGlossary, **style: Any) -> bytes:
    """In JSON; `style`: arguments of `json.dumps`."""
    record = {
        "id": glossary.id,
        "name": glossary.name,
        "owner": glossary.owner,
        "created": glossary.created.isoformat(),
        "dictionaries": [
            {"source": source, "target": target, "terms": dict(terms)}
            for (source, target), terms in glossary.dictionaries.items()
        ],
    }
    return json.dumps(record, **style).encode()


def _decode(content: str | bytes) -> StoredGlossary:
    """Of what `_encode` has made. Of anything else, raises ValueError, KeyError, TypeError and AttributeError."""
    record = json.loads(content)
    dictionaries = {(each["source"], each["target"]): dict[str, str](each["terms"]) for each in record["dictionaries"]}
    return StoredGlossary(
        record["name"], record["owner"], dictionaries, record["id"], datetime.fromisoformat(record["created"])
    )


# ---- In a folder


def _load(folder: Path) -> list[StoredGlossary]:
    """Raises SettingsError for any unreadable file: starting without it would lose it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths = sorted(folder.glob("*.json"))
    except OSError as error:
        raise SettingsError(f"{PREFIX}GLOSSARY_STORE={folder}: {error.strerror}") from None
    found = []
    for path in paths:
        try:
            found.append(_read(path))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) else f"not a stored glossary: {error}"
            raise SettingsError(f"{PREFIX}GLOSSARY_STORE: {path.name}: {reason}") from None
    return found


def _read(path: Path) -> StoredGlossary:
    """Raises OSError, and like `_decode`."""
    found = _decode(path.read_text("utf-8"))
    for (source, _), terms in found.dictionaries.items():
        Glossary(terms, source)
    texts = (found.name, found.owner, *(code for pair in found.dictionaries for code in pair))
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a name is not a string")
    if found.created.tzinfo is None or found.id != path.stem:
        raise ValueError("its id is not the file's name" if found.created.tzinfo else "its time has no zone")
    return found


def _save(path: Path, glossary: StoredGlossary | None) -> None:
    """Writes to a temporary file and renames it, so that no reader ever sees a partial file. None: removes the file."""
    if glossary is None:
        path.unlink(missing_ok=True)
    else:
        write_atomically(path, _encode(glossary, ensure_ascii=False, indent=1))


def _invalid(place: str, detail: str) -> InvalidFields:
    return InvalidFields.at(f"#/{place}", f"{detail}.")
