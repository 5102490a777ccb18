"""Glossaries that clients create over HTTP, each with an owner; kept in memory, and in a folder if one is set.

Includes the service's own glossaries, which are read-only. `app.text.glossary` finds the terms in a text.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

from app.errors import InvalidFields, Unavailable
from app.settings import PREFIX, SettingsError
from app.text.glossary import Glossaries, Glossary
from model.atomic_files import write_atomically
from model.languages import language_alone

MAX_GLOSSARIES = 1_000
"""Maximum number of glossaries."""
MAX_TOTAL_BYTES = 1 << 26
"""Approximate limit on their total size, without the cached search structures."""
MAX_DICTIONARIES = 100
"""Maximum number of dictionaries per glossary."""
MAX_NAME_CHARS = 1_024
_TERM_OVERHEAD_BYTES = 200
"""Bytes that a term takes besides its characters."""
_MAX_CACHED = 8
"""Maximum number of cached search structures, each of which takes many times the memory of its terms."""

log = logging.getLogger(__name__)
Pair = tuple[str, str]
"""Source and target: languages without variants, in lower case, so that a glossary for en also serves en-US."""
Terms = Mapping[str, str]


@dataclass(frozen=True)
class StoredGlossary:
    """A glossary, with one dictionary per language pair. Immutable; changes replace it."""

    name: str
    owner: str | None
    """None if it is the service's own, available to everyone."""
    dictionaries: Mapping[Pair, Terms]
    id: str = field(default_factory=lambda: str(uuid4()))
    created: datetime = field(default_factory=lambda: datetime.now(UTC))

    @cached_property
    def size(self) -> int:
        """Approximate size in bytes."""
        return sum(
            _TERM_OVERHEAD_BYTES + len(s) + len(t) for terms in self.dictionaries.values() for s, t in terms.items()
        )


class GlossaryStore:
    """All glossaries. A client sees only its own and those of the service."""

    def __init__(self, folder: Path | None = None, shared: Glossaries | None = None) -> None:
        """Raises SettingsError if a file in `folder` cannot be read."""
        self._folder = folder
        self._by_id = {one.id: one for one in _shared(shared or Glossaries())}
        self._cache: OrderedDict[tuple[str, Pair], Glossary] = OrderedDict()
        self._lock = asyncio.Lock()
        if folder:
            self._by_id |= {one.id: one for one in _load(folder)}

    def available_to(self, owner: str) -> list[StoredGlossary]:
        """The glossaries that `owner` may use, oldest first."""
        return sorted((one for one in self._by_id.values() if one.owner in (None, owner)), key=lambda one: one.created)

    def find(self, id: str, owner: str) -> StoredGlossary | None:
        """The glossary; None if it does not exist or belongs to another owner."""
        found = self._by_id.get(id)
        return found if found and found.owner in (None, owner) else None

    async def load(self, stored: StoredGlossary, pair: Pair) -> Glossary:
        """Returns the search structure of a dictionary of `stored`, from the cache if possible."""
        terms, key = stored.dictionaries[pair], (stored.id, pair)
        glossary = self._cache.get(key)
        if glossary is None or glossary.terms is not terms:
            glossary = await asyncio.to_thread(Glossary, terms, pair[0])  # 0.1 s for 10,000 terms
        self._cache[key] = glossary
        self._cache.move_to_end(key)
        while len(self._cache) > _MAX_CACHED:
            self._cache.popitem(last=False)
        return glossary

    async def add(self, new: StoredGlossary) -> None:
        """Stores a new glossary. Raises InvalidFields, and Unavailable if it cannot be written."""
        async with self._lock:
            await self._put(new)

    async def change(
        self, id: str, owner: str, changed: Callable[[StoredGlossary], StoredGlossary]
    ) -> StoredGlossary | None:
        """Replaces a glossary with the result of `changed`; returns None if it does not exist. Raises like `add`."""
        async with self._lock:
            found = self.find(id, owner)
            if found is None:
                return None
            new = changed(found)
            await self._put(new)
            return new

    async def delete(self, id: str, owner: str) -> StoredGlossary | None:
        """Returns the deleted glossary; None if it does not exist. Raises like `add`."""
        async with self._lock:
            found = self.find(id, owner)
            if found:
                _check_owner(found)
                await self._write(_remove, found)
                del self._by_id[id]
            return found

    async def _put(self, new: StoredGlossary) -> None:
        self._check(new)
        known = self._by_id.get(new.id)
        await asyncio.to_thread(_check_terms, new, known.dictionaries if known else {})
        await self._write(_save, new)
        self._by_id[new.id] = new

    async def _write(self, action: Callable[[Path, StoredGlossary], None], glossary: StoredGlossary) -> None:
        """Raises Unavailable."""
        try:
            if self._folder:
                await asyncio.to_thread(action, self._folder, glossary)
        except OSError as error:
            log.error("Glossaries cannot be written: %s", error)
            raise Unavailable(f"Glossaries cannot be written: {error.strerror}") from None

    def _check(self, new: StoredGlossary) -> None:
        _check_owner(new)
        others = [one for one in self._by_id.values() if one.id != new.id and one.owner is not None]
        if not new.name.strip() or len(new.name) > MAX_NAME_CHARS:
            raise _invalid("name", f"A glossary's name must have 1 to {MAX_NAME_CHARS} characters")
        if len(new.dictionaries) > MAX_DICTIONARIES:
            raise _invalid("dictionaries", f"A glossary may have at most {MAX_DICTIONARIES} dictionaries")
        if len(others) >= MAX_GLOSSARIES:
            raise _invalid("name", f"The limit of {MAX_GLOSSARIES} glossaries is reached: delete one first")
        if new.size + sum(one.size for one in others) > MAX_TOTAL_BYTES:
            raise _invalid(
                "entries", f"All glossaries together would be over {MAX_TOTAL_BYTES >> 20} MiB: delete one first"
            )


def _check_terms(new: StoredGlossary, known: Mapping[Pair, Terms]) -> None:
    """Raises InvalidFields."""
    for pair, terms in new.dictionaries.items():
        if terms is known.get(pair):
            continue
        if not terms:
            raise _invalid("entries", "A dictionary must have at least one term")
        try:
            Glossary(terms, pair[0])
        except ValueError as error:
            raise _invalid("entries", str(error).rstrip(".")) from None


def _check_owner(found: StoredGlossary) -> None:
    if found.owner is None:
        raise _invalid("glossary_id", f"The glossary {found.name} belongs to the service and cannot be changed")


def _shared(shared: Glossaries) -> list[StoredGlossary]:
    found: dict[str, dict[Pair, Terms]] = {}
    for (name, source, target), glossary in shared.by_pair.items():
        found.setdefault(name, {})[language_alone(source), language_alone(target)] = glossary.terms
    return [StoredGlossary(name, None, dictionaries, id=name) for name, dictionaries in found.items()]


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
    """Raises OSError, and for files not in the format of `_save` ValueError, KeyError, TypeError and AttributeError."""
    record: dict[str, Any] = json.loads(path.read_text("utf-8"))
    dictionaries = {(each["source"], each["target"]): dict[str, str](each["terms"]) for each in record["dictionaries"]}
    for (source, _), terms in dictionaries.items():
        Glossary(terms, source)
    texts = (record["name"], record["owner"], *(code for pair in dictionaries for code in pair))
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a name is not a string")
    created = datetime.fromisoformat(record["created"])
    if created.tzinfo is None or record["id"] != path.stem:
        raise ValueError("its id is not the file's name" if created.tzinfo else "its time has no zone")
    return StoredGlossary(record["name"], record["owner"], dictionaries, record["id"], created)


def _save(folder: Path, changed: StoredGlossary) -> None:
    """Writes to a temporary file and renames it, so that no reader ever sees a partial file."""
    record = {
        "id": changed.id,
        "name": changed.name,
        "owner": changed.owner,
        "created": changed.created.isoformat(),
        "dictionaries": [
            {"source": source, "target": target, "terms": dict(terms)}
            for (source, target), terms in changed.dictionaries.items()
        ],
    }
    write_atomically(_path(folder, changed), json.dumps(record, ensure_ascii=False, indent=1).encode())


def _remove(folder: Path, glossary: StoredGlossary) -> None:
    _path(folder, glossary).unlink(missing_ok=True)


def _path(folder: Path, glossary: StoredGlossary) -> Path:
    return folder / f"{glossary.id}.json"


def _invalid(place: str, detail: str) -> InvalidFields:
    return InvalidFields.at(f"#/{place}", f"{detail}.")
