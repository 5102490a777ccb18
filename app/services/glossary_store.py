"""Glossaries that clients make over HTTP, each its owner's: kept in memory, and in a folder if there is one.

Knows names, owners and files; how a term is found in a text is app/text/glossary.py's, and no wire format is known
here. The glossaries that the service itself has are shown among everybody's, and nobody may change them.
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

MOST = 1_000
"""Glossaries in all."""
MOST_BYTES = 1 << 26
"""About what they all take, with what finds the terms of those used last not counted."""
MOST_PAIRS = 100
"""Dictionaries of one glossary."""
MAX_NAME = 1_024
_AN_ENTRY = 200
"""Bytes that a term takes beside its characters."""
_KEPT_READY = 8
"""Of those used last, what finds their terms: it takes many times the room of the terms themselves."""

log = logging.getLogger(__name__)
Pair = tuple[str, str]
"""Source and target: languages alone, in small letters, so that a glossary for en is one for en-US."""
Terms = Mapping[str, str]


@dataclass(frozen=True)
class StoredGlossary:
    """A glossary with a dictionary for each of some pairs of languages. Never changed, but replaced."""

    name: str
    owner: str | None
    """None: the service's own, which everybody has."""
    dictionaries: Mapping[Pair, Terms]
    id: str = field(default_factory=lambda: str(uuid4()))
    created: datetime = field(default_factory=lambda: datetime.now(UTC))

    @cached_property
    def size(self) -> int:
        """In bytes, roughly."""
        return sum(_AN_ENTRY + len(s) + len(t) for terms in self.dictionaries.values() for s, t in terms.items())


class GlossaryStore:
    """All glossaries. Who asks for another's is told that there is none."""

    def __init__(self, folder: Path | None = None, shared: Glossaries | None = None) -> None:
        """Raises SettingsError, in one line, for what in `folder` cannot be read."""
        self._folder = folder
        self._by_id = {one.id: one for one in _shared(shared or Glossaries())}
        self._ready: OrderedDict[tuple[str, Pair], Glossary] = OrderedDict()
        self._changing = asyncio.Lock()
        if folder:
            self._by_id |= {one.id: one for one in _load(folder)}

    def of(self, owner: str) -> list[StoredGlossary]:
        """Those that `owner` may use, the oldest first."""
        return sorted((one for one in self._by_id.values() if one.owner in (None, owner)), key=lambda one: one.created)

    def find(self, id: str, owner: str) -> StoredGlossary | None:
        """None also if it is another's."""
        found = self._by_id.get(id)
        return found if found and found.owner in (None, owner) else None

    async def ready(self, found: StoredGlossary, pair: Pair) -> Glossary:
        """What finds the terms of one of its dictionaries."""
        terms, key = found.dictionaries[pair], (found.id, pair)
        known = self._ready.get(key)
        if known is None or known.terms is not terms:
            known = await asyncio.to_thread(Glossary, terms, pair[0])  # a tenth of a second for ten thousand
        self._ready[key] = known
        self._ready.move_to_end(key)
        while len(self._ready) > _KEPT_READY:
            self._ready.popitem(last=False)
        return known

    async def add(self, new: StoredGlossary) -> None:
        """Raises InvalidFields, and Unavailable if it cannot be written."""
        async with self._changing:
            await self._put(new)

    async def change(
        self, id: str, owner: str, changed: Callable[[StoredGlossary], StoredGlossary]
    ) -> StoredGlossary | None:
        """Replaces a glossary by what is `changed` of it; None if there is none. Raises what `add` does."""
        async with self._changing:
            found = self.find(id, owner)
            if found is None:
                return None
            new = changed(found)
            await self._put(new)
            return new

    async def delete(self, id: str, owner: str) -> StoredGlossary | None:
        """What is deleted; None if there is none. Raises what `add` does."""
        async with self._changing:
            found = self.find(id, owner)
            if found:
                _check_owner(found)
                await self._in_folder(_remove, found)
                del self._by_id[id]
            return found

    async def _put(self, new: StoredGlossary) -> None:
        self._check(new)
        known = self._by_id.get(new.id)
        await asyncio.to_thread(_check_terms, new, known.dictionaries if known else {})
        await self._in_folder(_save, new)
        self._by_id[new.id] = new

    async def _in_folder(self, done: Callable[[Path, StoredGlossary], None], glossary: StoredGlossary) -> None:
        """Raises Unavailable."""
        try:
            if self._folder:
                await asyncio.to_thread(done, self._folder, glossary)
        except OSError as error:
            log.error("Glossaries cannot be written: %s", error)
            raise Unavailable(f"Glossaries cannot be written: {error.strerror}") from None

    def _check(self, new: StoredGlossary) -> None:
        _check_owner(new)
        others = [one for one in self._by_id.values() if one.id != new.id and one.owner is not None]
        if not new.name.strip() or len(new.name) > MAX_NAME:
            raise _refused("name", f"A glossary's name has 1 to {MAX_NAME} characters")
        if len(new.dictionaries) > MOST_PAIRS:
            raise _refused("dictionaries", f"A glossary has at most {MOST_PAIRS} dictionaries")
        if len(others) >= MOST:
            raise _refused("name", f"There are {MOST} glossaries here, which is all there may be: delete one first")
        if new.size + sum(one.size for one in others) > MOST_BYTES:
            raise _refused("entries", f"All glossaries together would be over {MOST_BYTES >> 20} MiB: delete one first")


def _check_terms(new: StoredGlossary, known: Mapping[Pair, Terms]) -> None:
    """Raises InvalidFields."""
    for pair, terms in new.dictionaries.items():
        if terms is known.get(pair):
            continue
        if not terms:
            raise _refused("entries", "A dictionary has at least one term")
        try:
            Glossary(terms, pair[0])
        except ValueError as error:
            raise _refused("entries", str(error).rstrip(".")) from None


def _check_owner(found: StoredGlossary) -> None:
    if found.owner is None:
        raise _refused("glossary_id", f"The glossary {found.name} is the service's own, and stays as it is")


def _shared(shared: Glossaries) -> list[StoredGlossary]:
    found: dict[str, dict[Pair, Terms]] = {}
    for (name, source, target), glossary in shared.by_pair.items():
        found.setdefault(name, {})[language_alone(source), language_alone(target)] = glossary.terms
    return [StoredGlossary(name, None, dictionaries, id=name) for name, dictionaries in found.items()]


# ---- In a folder


def _load(folder: Path) -> list[StoredGlossary]:
    """Raises SettingsError: to begin without one that is there would be to lose it."""
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
            said = error.strerror if isinstance(error, OSError) else f"not a glossary of ours: {error}"
            raise SettingsError(f"{PREFIX}GLOSSARY_STORE: {path.name}: {said}") from None
    return found


def _read(path: Path) -> StoredGlossary:
    """Raises OSError, and for what is not as `_save` wrote it ValueError, KeyError, TypeError and AttributeError."""
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
    """Beside its place first, and then there at once: nobody sees half of it, whatever happens meanwhile."""
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


def _refused(place: str, detail: str) -> InvalidFields:
    return InvalidFields.at(f"#/{place}", f"{detail}.")
