"""The pairs of one direction of a translation memory, found by an equal text or by a similar one.

An index only grows, so that whoever reads an older version of it still finds what that version had.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil, floor, inf
from threading import Lock
from typing import NamedTuple

from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from app.text.memory_difference import AlmostEqual, compare
from app.text.memory_slots import TOKEN, Abstracted, abstract, substitute, text_id

MIN_SIMILARITY = 0.5
"""The least similarity that a search may ask for."""
_FIRST_SURROGATE, _SURROGATES = 0xD800, 0x800
_MAX_TOKENS = 0x110000 - _SURROGATES


MAX_COMPARED = 20


class Pair(NamedTuple):
    """A text and its translation."""

    source: str
    target: str
    created: float = 0.0
    """Seconds since 1970."""
    author: str = ""
    """The name of the API key that sent it."""


@dataclass(eq=False, slots=True)
class _Entry:
    """A pair, which is in the memory from version `born` until before version `died`."""

    pair: Pair
    source: Abstracted
    born: int
    died: float = inf
    target: Abstracted | None = None
    """None until a slot's value has to be replaced."""


class FuzzyMatch(NamedTuple):
    """A pair whose text is similar to another one."""

    pair: Pair
    percentage: int
    """100 only if the texts differ in nothing but white space."""


@dataclass(eq=False)
class MemoryIndex:
    """The pairs of one direction in memory."""

    source: str
    target: str
    version: int = 0
    """Of the last change."""
    count: int = 0
    """Number of pairs in the last version."""
    _alive: dict[str, _Entry] = field(default_factory=dict)
    """Those of the last version, by their text's id."""
    _by_key: dict[str, list[_Entry]] = field(default_factory=dict)
    """By abstracted text, the oldest first."""
    _entries: list[_Entry] = field(default_factory=list)
    _similar: _SimilarTexts = field(default_factory=lambda: _SimilarTexts())

    def put(self, pair: Pair, version: int) -> None:
        """Adds the pair, in place of the one with the same text."""
        source, id = abstract(pair.source, self.source, self.target), text_id(pair.source)
        self._end(id, version)
        entry = _Entry(pair, source, version)
        self._entries.append(entry)
        self._by_key.setdefault(source.key, []).append(entry)
        self._alive[id] = entry
        self.count, self.version = len(self._alive), version

    def remove(self, id: str, version: int) -> None:
        """Removes the pair whose text has this `text_id`, if there is one."""
        self._end(id, version)
        self.count, self.version = len(self._alive), version

    def _end(self, id: str, version: int) -> None:
        entry = self._alive.pop(id, None)
        if entry:
            entry.died = version

    @property
    def is_wasteful(self) -> bool:
        """Whether it holds more former pairs than present ones."""
        return len(self._entries) > 2 * len(self._alive) + 1_000

    def compacted(self) -> MemoryIndex:
        """An index of the last version alone."""
        index = MemoryIndex(self.source, self.target)
        for entry in self._alive.values():
            index.put(entry.pair, entry.born)
        index.version = self.version
        return index

    def pairs(self) -> list[Pair]:
        """The pairs of the last version, the oldest first."""
        return [entry.pair for entry in self._alive.values()]

    def exact(self, text: str, version: int) -> str | None:
        """The translation of a text that is equal to `text` in this version, with the values of its slots.

        None if no pair's text is equal, or if several with other values, of the newest MAX_COMPARED, would translate it
        in different ways.
        """
        new = abstract(text, self.source, self.target)
        entries = [each for each in self._by_key.get(new.key, ()) if each.born <= version < each.died]
        for entry in entries:
            if entry.source.text == new.text:
                return entry.pair.target
        found = {self._substituted(entry, new) for entry in entries[-MAX_COMPARED:]} - {None}
        return found.pop() if len(found) == 1 else None

    def _substituted(self, entry: _Entry, new: Abstracted) -> str | None:
        if entry.target is None:
            entry.target = abstract(entry.pair.target, self.target, self.source)
        return substitute(entry.source, entry.target, new)

    def prepare_fuzzy(self) -> None:
        """Does what the first call of `fuzzy` would: two seconds for 100,000 pairs."""
        self._similar.add(self._entries)

    def almost_equal(self, text: str, match: FuzzyMatch) -> AlmostEqual | None:
        """See `compare`, for a match of `text`."""
        source, target = (
            abstract(match.pair.source, self.source, self.target),
            abstract(match.pair.target, self.target, self.source),
        )
        return compare(source, target, abstract(text, self.source, self.target))

    def fuzzy(self, text: str, version: int, limit: int, min_similarity: float = 0.6) -> list[FuzzyMatch]:
        """The pairs with the most similar texts in this version, the most similar first. Takes milliseconds.

        Similarity is 1 less the edit distance in tokens, divided by the tokens of the longer text. It is at least
        `min_similarity`, itself at least MIN_SIMILARITY.
        """
        new = abstract(text, self.source, self.target)
        self.prepare_fuzzy()
        found: list[FuzzyMatch] = []
        for number, similarity in self._similar.find(new.key, max(min_similarity, MIN_SIMILARITY)):
            entry = self._entries[number]
            if not entry.born <= version < entry.died:
                continue
            same = entry.source.text == new.text
            found.append(FuzzyMatch(entry.pair, 100 if same else min(99, floor(100 * similarity))))
        found.sort(key=lambda match: (-match.percentage, -match.pair.created, match.pair.source))  # never by its number
        return found[:limit]


class MemorySnapshot(NamedTuple):
    """An index as of one version, whatever is added to it later."""

    memory: MemoryIndex
    version: int

    def exact(self, text: str) -> str | None:
        """See `MemoryIndex.exact`."""
        return self.memory.exact(text, self.version)

    def fuzzy(self, text: str, limit: int, min_similarity: float = 0.6) -> list[FuzzyMatch]:
        """See `MemoryIndex.fuzzy`."""
        return self.memory.fuzzy(text, self.version, limit, min_similarity)


class _SimilarTexts:
    """Texts as strings with one character per token, and for each token the texts that have it."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []
        self._having: dict[str, array[int]] = {}
        self._lock = Lock()

    def add(self, entries: list[_Entry]) -> None:
        """Adds the keys of those of `entries` that it does not have yet."""
        with self._lock:
            for number in range(len(self._texts), len(entries)):
                text = self._encode(entries[number].source.key, is_new=True)
                self._texts.append(text)
                for token in set(text):
                    self._having.setdefault(token, array("I")).append(number)

    def find(self, key: str, min_similarity: float) -> Iterator[tuple[int, float]]:
        """The number and the similarity of every text that is similar enough."""
        text = self._encode(key)
        if not text:
            return
        # A similar text has this many of the tokens, so it has one of any set of the others and one more.
        shared = ceil(min_similarity * len(text) - 1e-9)
        by_frequency = sorted(text, key=lambda token: len(self._having.get(token, ())))
        shortest, longest = min_similarity * len(text), len(text) / min_similarity
        numbers = {n for token in set(by_frequency[: len(text) - shared + 1]) for n in self._having.get(token, ())}
        texts = {n: other for n in numbers if shortest <= len(other := self._texts[n]) <= longest}
        cutoff = min_similarity - 0.01  # with 0.6, rapidfuzz does not find 3 of 5
        found = process.extract(text, texts, scorer=Levenshtein.normalized_similarity, limit=None, score_cutoff=cutoff)
        for _, similarity, number in found:
            if similarity >= min_similarity - 1e-9:
                yield number, similarity

    def _encode(self, key: str, is_new: bool = False) -> str:
        """A character per token; of a text that is not added, tokens that no other text has become one character."""
        return "".join(_character(self._number(token, is_new)) for token in TOKEN.findall(key))

    def _number(self, token: str, is_new: bool) -> int:
        number = self._numbers.get(token)
        if number is None and is_new and len(self._numbers) + 1 < _MAX_TOKENS:
            number = self._numbers[token] = len(self._numbers) + 1
        return number or 0


def _character(number: int) -> str:
    return chr(number if number < _FIRST_SURROGATE else number + _SURROGATES)
