"""The pairs of one direction of a translation memory, found by an equal text or by a similar one.

An index only grows, so that whoever reads an older version of it still finds what that version had. When it holds much
that is former, a new one takes its place.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from heapq import nsmallest
from math import ceil, floor, inf
from threading import Lock
from typing import NamedTuple
from zlib import crc32

from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from app.text.memory_difference import AlmostEqual, compare
from app.text.memory_slots import (
    MAX_CHARS,
    TOKEN,
    Abstracted,
    abstract,
    abstract_normalised,
    id_of_normalised,
    normalise,
    substitute,
)

MIN_SIMILARITY = 0.5
"""The least similarity that a search may ask for."""
MAX_COMPARED, MAX_COMPARED_BYTES = 20, 20_000
"""How many pairs that differ only in values are compared, and how much of them, but one at least."""
_FIRST_SURROGATE, _SURROGATES = 0xD800, 0x800
_CODE_POINTS = 0x110000 - _SURROGATES
_MAX_NUMBERED = 1 << 17
"""So many different tokens have a number of their own; the others share what numbers are left."""
_MAX_POSTINGS_LISTS = 1 << 16
_MAX_POSTINGS = 1_000_000
"""Of the rarest tokens of a text, which one search reads."""
_MAX_COST, _MAX_CALL_COST = 20_000_000, 200_000
"""Of the comparisons in one search, and in one call of C, which holds the interpreter: the blocks of 64 tokens of one
text times the tokens of the other, and PAIR_COST for each."""
PAIR_COST = 400
_ENTRY_BYTES, _KEY_BYTES, _TOKEN_BYTES, _POSTINGS_BYTES = 420, 300, 150, 200
"""What an entry, a key, a token and a list of postings take in memory, besides their texts and numbers."""
_MIN_FORMER_BYTES = 1 << 20
_CACHED_TEXTS = 256


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

    source: bytes
    """In UTF-8, which takes less memory than a string with a single character beyond Latin-1."""
    target: bytes
    created: float
    author: str
    key: bytes
    """The abstracted source; `source` itself if it has no slots."""
    born: int
    died: float = inf
    former: _Entry | None = None
    """The pair with the same text before it."""

    @property
    def pair(self) -> Pair:
        return Pair(self.source.decode(), self.target.decode(), self.created, self.author)

    @property
    def size(self) -> int:
        """Bytes in memory, without what finds similar texts."""
        key_size = 0 if self.key is self.source else _KEY_BYTES + len(self.key)
        return _ENTRY_BYTES + len(self.source) + len(self.target) + key_size

    def is_in(self, version: int) -> bool:
        return self.born <= version < self.died


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
    _by_id: dict[bytes, _Entry] = field(default_factory=dict)
    """The last one with each text, perhaps removed, by the text's id."""
    _by_key: dict[bytes, list[_Entry]] = field(default_factory=dict)
    """Those with slots by abstracted text, the oldest first."""
    _entries: list[_Entry] = field(default_factory=list)
    _similar: _SimilarTexts = field(default_factory=lambda: _SimilarTexts())
    _bytes: int = 0
    _former_bytes: int = 0

    def put(self, pair: Pair, version: int) -> None:
        """Adds the pair, in place of the one with the same text."""
        text = normalise(pair.source)
        abstracted, source = abstract_normalised(text, self.source, self.target), text.encode()
        key = abstracted.key.encode() if abstracted.slots else source
        entry = _Entry(source, pair.target.encode(), pair.created, sys.intern(pair.author), key, version)
        self._put(id_of_normalised(text), entry)
        self.version = version

    def _put(self, id: bytes, entry: _Entry) -> None:
        self._end(id, entry.born)
        entry.former = self._by_id.pop(id, None)  # so that they stay in the order of `_entries`
        if entry.key is not entry.source:
            of_key = self._by_key.setdefault(entry.key, [])
            if of_key:
                entry.key = of_key[0].key
            of_key.append(entry)
        self._entries.append(entry)
        self._by_id[id] = entry
        self._bytes += entry.size
        self.count += 1

    def remove(self, id: str, version: int) -> None:
        """Removes the pair whose text has this `text_id`, if there is one."""
        self._end(bytes.fromhex(id), version)
        self.version = version

    def _end(self, id: bytes, version: int) -> None:
        entry = self._by_id.get(id)
        if entry and entry.died == inf:
            entry.died = version
            self._former_bytes += entry.size
            self.count -= 1

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return self._bytes + self._similar.size

    @property
    def is_wasteful(self) -> bool:
        """Whether it holds many former pairs."""
        return self._former_bytes > (self._bytes - self._former_bytes) // 4 + _MIN_FORMER_BYTES

    def compacted(self) -> Iterator[MemoryIndex | None]:
        """Makes an index of the last version alone, which comes last; yields None after each step."""
        index = MemoryIndex(self.source, self.target)
        for id, entry in [(id, entry) for id, entry in self._by_id.items() if entry.died == inf]:
            index._put(id, replace(entry, former=None))
            yield None
        index.version = self.version
        yield index

    def pairs(self, version: int | None = None) -> Iterator[Pair]:
        """The pairs of a version, by default the last one, the oldest first."""
        version = self.version if version is None else version
        return (entry.pair for entry in self._entries if entry.is_in(version))

    def exact(self, text: str, version: int) -> str | None:
        """The translation of a text that is equal to `text` in this version, with the values of its slots.

        None if no pair's text is equal, or if several with other values, of the newest MAX_COMPARED, would translate it
        in different ways.
        """
        text = normalise(text)
        same = self._by_id.get(id_of_normalised(text))
        while same and same.born > version:
            same = same.former
        if same and same.is_in(version):
            return same.target.decode()
        new = abstract_normalised(text, self.source, self.target)
        found: str | None = None
        compared = size = 0
        for entry in reversed(self._by_key.get(new.key.encode("utf-8", "surrogatepass"), ()) if new.slots else ()):
            if not entry.is_in(version):
                continue
            compared, size = compared + 1, size + len(entry.source) + len(entry.target)
            if compared > MAX_COMPARED or (size > MAX_COMPARED_BYTES and compared > 1):
                break
            translated = self._substituted(entry, new)
            if found is not None and translated not in (None, found):
                return None
            found = found or translated
        return found

    def _substituted(self, entry: _Entry, new: Abstracted) -> str | None:
        if len(entry.target) > 4 * MAX_CHARS:
            return None  # it has no slots
        source = abstract_stored(entry.source, self.source, self.target)
        return substitute(source, abstract_stored(entry.target, self.target, self.source), new)

    @property
    def is_prepared(self) -> bool:
        """Whether `prepare_fuzzy` has nothing to do."""
        return self._similar.count == len(self._entries)

    def prepare_fuzzy(self) -> Iterator[None]:
        """Does what the first call of `fuzzy` would, two seconds' work for 100,000 pairs; yields after each entry."""
        return self._similar.add(self._entries)

    def almost_equal(self, text: str, match: FuzzyMatch) -> AlmostEqual | None:
        """See `compare`, for a match of `text`."""
        source, target = (
            abstract(match.pair.source, self.source, self.target),
            abstract(match.pair.target, self.target, self.source),
        )
        return compare(source, target, abstract(text, self.source, self.target))

    def fuzzy(self, text: str, version: int, limit: int, min_similarity: float = 0.6) -> list[FuzzyMatch]:
        """The pairs with the most similar texts in this version, the most similar first. Takes milliseconds; of very
        many that may be similar, the newest are compared.

        Similarity is 1 less the edit distance in tokens, divided by the tokens of the longer text. It is at least
        `min_similarity`, itself at least MIN_SIMILARITY.
        """
        new = abstract(text, self.source, self.target)
        for _ in self.prepare_fuzzy():
            pass
        wanted, entries = new.text.encode("utf-8", "surrogatepass"), self._entries
        found = (
            (-100 if one.source == wanted else -min(99, floor(100 * similarity)), -one.created, one.source, number)
            for number, similarity in self._similar.find(new.key, max(min_similarity, MIN_SIMILARITY))
            if (one := entries[number]).is_in(version)
        )
        return [FuzzyMatch(entries[number].pair, -rank) for rank, _, _, number in nsmallest(limit, found)]


@lru_cache(_CACHED_TEXTS)
def abstract_stored(text: bytes, language: str, other: str) -> Abstracted:
    return abstract(text.decode(), language, other)


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

    def pairs(self) -> Iterator[Pair]:
        """See `MemoryIndex.pairs`."""
        return self.memory.pairs(self.version)


class _SimilarTexts:
    """Texts as strings with one character per token, and for each token the texts that have it, and perhaps others."""

    def __init__(self) -> None:
        self.size = 0
        """Bytes in memory."""
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []
        self._having: dict[int, array[int]] = {}
        self._lock = Lock()

    @property
    def count(self) -> int:
        return len(self._texts)

    def add(self, entries: list[_Entry]) -> Iterator[None]:
        """Adds the keys of those of `entries` that it does not have yet; yields after each."""
        while len(self._texts) < len(entries):
            with self._lock:
                if (number := len(self._texts)) < len(entries):
                    self._add(number, entries[number].key)
            yield

    def _add(self, number: int, key: bytes) -> None:
        text = self._encode(_tokens(key.decode()), is_new=True)
        self._texts.append(text)
        for token in set(text):
            postings = self._having.get(place := _postings_place(token))
            if postings is None:
                postings = self._having[place] = array("I")
                self.size += _POSTINGS_BYTES
            postings.append(number)
        self.size += sys.getsizeof(text) + 5 * len(set(text)) + 9

    def find(self, key: str, min_similarity: float) -> Iterator[tuple[int, float]]:
        """The number and the similarity of every text that is similar enough, or of the newest of very many."""
        text = self._encode(_tokens(key))
        if not text:
            return
        shortest, longest = min_similarity * len(text), len(text) / min_similarity
        texts = self._texts
        numbers = [n for n in self._sharing(text, min_similarity) if shortest <= len(texts[n]) <= longest]
        cost = PAIR_COST + ceil(len(text) / 64) * min(int(longest), MAX_CHARS)  # of a comparison, at most
        if len(numbers) * cost > _MAX_COST:
            numbers = sorted(numbers, reverse=True)[: _MAX_COST // cost]
        at_once = max(1, _MAX_CALL_COST // cost)
        cutoff = min_similarity - 0.01  # with 0.6, rapidfuzz does not find 3 of 5
        for start in range(0, len(numbers), at_once):
            some = [texts[n] for n in numbers[start : start + at_once]]
            score = Levenshtein.normalized_similarity
            for _, similarity, at in process.extract(text, some, scorer=score, limit=None, score_cutoff=cutoff):
                if similarity >= min_similarity - 1e-9:
                    yield numbers[start + at], similarity

    def _sharing(self, text: str, min_similarity: float) -> set[int]:
        """The texts that have a token of those of which every similar text has one."""
        # A similar text has this many of the tokens, so it has one of any set of the others and one more.
        shared = ceil(min_similarity * len(text) - 1e-9)
        by_frequency = sorted((self._having.get(_postings_place(token), _NO_POSTINGS) for token in text), key=len)
        numbers: set[int] = set()
        read = 0
        for postings in {id(each): each for each in by_frequency[: len(text) - shared + 1]}.values():
            read += len(postings)
            if read > _MAX_POSTINGS:
                break
            numbers.update(postings)
        return numbers

    def _encode(self, tokens: Sequence[str], is_new: bool = False) -> str:
        """A character per token; of a text that is not added, tokens that no other text has become one character."""
        return "".join([_character(self._number(token, is_new)) for token in tokens])

    def _number(self, token: str, is_new: bool) -> int:
        number = self._numbers.get(token)
        if number is None and len(self._numbers) >= _MAX_NUMBERED:
            others = _CODE_POINTS - 1 - _MAX_NUMBERED
            return 1 + _MAX_NUMBERED + crc32(token.encode("utf-8", "surrogatepass")) % others
        if number is None and is_new:
            number = self._numbers[token] = len(self._numbers) + 1
            self.size += _TOKEN_BYTES + sys.getsizeof(token)
        return number or 0


_NO_POSTINGS = array("I")


def _tokens(key: str) -> Sequence[str]:
    """The tokens of a text; none if it is too long to be similar to any."""
    return TOKEN.findall(key) if len(key) <= MAX_CHARS else ()


def _postings_place(token: str) -> int:
    return ord(token) % _MAX_POSTINGS_LISTS


def _character(number: int) -> str:
    return chr(number if number < _FIRST_SURROGATE else number + _SURROGATES)
