"""Consults the translation memory of a request, for whole texts and for sentences, before anything is decoded."""

from __future__ import annotations

from asyncio import Lock, get_running_loop
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple, ParamSpec, TypeVar

from app.markup.passage import Passage, Piece
from app.text.glossary import Glossary
from app.text.memory_difference import AlmostEqual
from app.text.memory_index import FuzzyMatch, MemorySnapshot
from app.text.memory_slots import normalise

P = ParamSpec("P")
T = TypeVar("T")
MemoryMode = Literal["exact", "fuzzy", "repair"]
MAX_SUGGESTIONS = 5
"""For each sentence, and for a text of several."""
MIN_REPAIRABLE_PERCENTAGE = 70


class Similar(NamedTuple):
    """A pair whose text is similar to a sentence's, and how to compare both."""

    match: FuzzyMatch
    difference: AlmostEqual
    tolerance: float
    """See `MemoryOption.repair_tolerance`."""


class Suggestion(NamedTuple):
    """A pair whose text is similar to a part of the item."""

    match: FuzzyMatch
    span: tuple[int, int] | None
    """The characters of the item that it is similar to; None if they are no slice of it."""
    is_repaired: bool = False
    """Whether the translation of that part is this pair's, repaired."""


class Turn:
    """One piece of an owner's work at a time, in threads for all owners."""

    def __init__(self, threads: Executor) -> None:
        self._threads, self._lock = threads, Lock()

    async def run(self, work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        async with self._lock:
            return await get_running_loop().run_in_executor(self._threads, partial(work, *arguments, **options))


class Turns(NamedTuple):
    """An owner's work outside the event loop: one piece of each kind at a time, so that threads are left for others."""

    short: Turn
    long: Turn
    writing: Lock
    indexing: Lock

    @classmethod
    def of(cls, threads: Executor) -> Turns:
        return cls(Turn(threads), Turn(threads), Lock(), Lock())


class Abandoned(Exception):
    """The request is over; nobody waits for its plan."""


class MemoryOption(NamedTuple):
    """The memories that a request may use."""

    snapshots: Mapping[tuple[str, str], MemorySnapshot]
    """By source and target; a direction that is missing is empty."""
    mode: MemoryMode = "exact"
    repair_tolerance: float = 0.0
    """How much lower than its own translation the model may score a repaired one."""
    turns: Turns | None = None
    """None if nobody else waits."""


class RememberedText(str):
    """Copied text of a plan that is a translation from the memory, and not in the item's language."""

    __slots__ = ("end",)
    end: int | None
    """The offset in the item where what it translates ends; None if it is no slice of the item."""

    def __new__(cls, translation: str, end: int | None = None) -> RememberedText:
        made = super().__new__(cls, translation)
        made.end = end
        return made


@dataclass(eq=False)
class MemoryLookup:
    """The memory for one item of a request, and what the item has taken from it."""

    snapshot: MemorySnapshot | None
    mode: MemoryMode
    glossary: Glossary | None
    """A translation without the terms that the request requires is not used."""
    repair_tolerance: float = 0.0
    is_abandoned: Callable[[], bool] = lambda: False
    """Whether nobody waits for the plan any more; then look-ups raise Abandoned."""
    used: int = 0
    """How many texts or sentences have an exact translation."""
    suggestions: list[Suggestion] = field(default_factory=list)
    _absent: set[str] = field(default_factory=set)
    """Texts without a translation: a text may be all of its only paragraph, and that of its only sentence."""
    _searched: set[str] = field(default_factory=set)
    """Sentences for which similar texts were looked for, normalised."""

    @property
    def version(self) -> int:
        return self.snapshot.version if self.snapshot else 0

    def text(self, text: str) -> str | None:
        """The translation of a whole plain text, with its outer blanks."""
        self._check()
        bare = text.strip()
        found = self.snapshot.exact(bare) if self.snapshot and bare and bare not in self._absent else None
        if found is None or not self._has_terms(text, found):
            self._absent.add(bare)
            return None
        self.used += 1
        start = len(text) - len(text.lstrip())
        return text[:start] + found + text[len(text.rstrip()) :]

    def passage(self, passage: Passage) -> str | None:
        """The written translation of a whole passage whose markup is around its text."""
        text = passage.text
        if self.snapshot is None or passage.nested or passage.terms:
            return None
        if any(one.raw != passage.write(text[one.start : one.end]) for one in passage.protected):
            return None
        start, end = len(text) - len(text.lstrip()), len(text.rstrip())
        if any(start < tag.at < end or tag.space for tag in passage.tags):
            return None
        found = self.text(text[start:end])
        if found is None:
            return None
        return _written(passage, 0, start) + passage.write(found) + _written(passage, end, len(text))

    def pieces(self, pieces: Sequence[Piece]) -> list[Piece]:
        """`pieces`, with every passage that the memory has as a copied piece."""
        found = ((piece, None if isinstance(piece, str) else self.passage(piece)) for piece in pieces)
        return [piece if text is None else RememberedText(text) for piece, text in found]

    def similar(self, passage: Passage, start: int) -> Similar | None:
        """Suggests pairs for a sentence that begins at `start` in its text, if the request wants suggestions. Returns
        the most similar one if it can be repaired and the request wants that."""
        if self.snapshot is None or self.mode == "exact":
            return None
        self._check()
        text = passage.text
        found = self.snapshot.fuzzy(text, MAX_SUGGESTIONS)
        self._searched.add(normalise(text))
        self.suggestions += [Suggestion(match, (start, start + len(text))) for match in found]
        is_plain = all(one.raw == passage.write(text[one.start : one.end]) for one in passage.protected)
        if self.mode == "fuzzy" or not found or found[0].percentage < MIN_REPAIRABLE_PERCENTAGE or not is_plain:
            return None
        difference = self.snapshot.memory.almost_equal(text, found[0])
        return Similar(found[0], difference, self.repair_tolerance) if difference else None

    def suggest_whole(self, text: str) -> None:
        """Suggests pairs for a whole plain text, if the request wants suggestions and the text is no single sentence:
        first, since they replace all others."""
        if self.snapshot and self.mode != "exact" and normalise(text) not in self._searched:
            found = self.snapshot.fuzzy(text, MAX_SUGGESTIONS)
            self.suggestions[:0] = [Suggestion(match, (0, len(text))) for match in found]

    def _check(self) -> None:
        if self.is_abandoned():
            raise Abandoned

    def _has_terms(self, text: str, translation: str) -> bool:
        if self.glossary is None:
            return True
        shown = translation.casefold()
        return all(term.raw.casefold() in shown for term in self.glossary.find(text))


def _written(passage: Passage, start: int, end: int) -> str:
    """The blanks [start, end) at an edge of the passage, with their tags."""
    written, at = "", start
    is_first = start == 0
    for tag in passage.tags:
        if (tag.at <= end) if is_first else (tag.at >= start):
            written += passage.write(passage.text[at : tag.at]) + tag.raw
            at = tag.at
    return written + passage.write(passage.text[at:end])
