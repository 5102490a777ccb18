"""Glossaries: terms with required translations, and how they are found in a text.

The translator and the decoder enforce the translations.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from app.markup.passage import ProtectedSpan
from model.languages import language_alone
from model.normalisation import compose

MAX_TERMS = 10_000
MAX_CHARS = 200
"""For a term and for its translation; limits the search cost per word of a text."""

_SINGLE_LETTER_WORDS = (
    r"\u0e00-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3041-\u318f\u31f0-\u31ff\u3400-\u9fff"
    r"\uac00-\ud7ff\uf900-\ufaff\U00020000-\U000323af"
)
"""Letters that count as words by themselves: those of scripts without spaces between words, and of Korean, whose
particles follow a word without a space."""
_COMBINING_MARKS = r"\u0300-\u036f\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0970-\u0df3\u200c\u200d"
"""Combining marks."""
_LETTER = rf"[^\W{_SINGLE_LETTER_WORDS}]"
_TOKEN = re.compile(
    rf"{_LETTER}++(?:[{_COMBINING_MARKS}]++{_LETTER}*+)*+|[^\S\n\v\f\r\x1c-\x1e\x85\u2028\u2029]++|.", re.DOTALL
)
"""A word, white space within a line, or any other character."""
_HYPHENS = "-\u2010\u2011"


class _Entry(NamedTuple):
    """A term that ends at this node."""

    spelling: str
    translation: str
    is_case_sensitive: bool
    """It has inner capitals, as acronyms have, and matches only that spelling."""
    is_capitalised: bool
    """It has a capital, as names have, and may match part of a hyphenated word."""


@dataclass
class _Node:
    """A node of the trie over the words of the terms."""

    following: dict[str, _Node] = field(default_factory=dict)
    entries: list[_Entry] = field(default_factory=list)


class Glossary:
    """Terms of one language and their translations; built once, then searched in any number of texts."""

    def __init__(self, terms: Mapping[str, str], language: str) -> None:
        """Raises ValueError, with a one-line message, for invalid terms."""
        if len(terms) > MAX_TERMS:
            raise ValueError(f"A glossary has at most {MAX_TERMS:,} terms, not {len(terms):,}.")
        self.terms = terms
        self._turkic = language_alone(language) in ("az", "tr")
        self._root = _Node()
        for term, translation in terms.items():
            if error := entry_error(term, translation):
                raise ValueError(error)
            self._add(term.strip(), translation.strip())

    def find(self, text: str) -> list[ProtectedSpan]:
        """The terms in `text`, in order, with their translations; of overlapping ones the leftmost, then the longest.

        Terms match whole words, or anywhere in scripts without spaces, in any case; a term with capitals inside a word,
        such as "US", matches only as written. Any white space within a line matches a space.
        """
        if not self._root.following:
            return []
        spans = [token.span() for token in _TOKEN.finditer(text)]
        words = [self._fold(text[start:end]) for start, end in spans]
        found: list[ProtectedSpan] = []
        place = 0
        while place < len(words):
            if words[place] in self._root.following and (longest := self._longest_match(text, spans, words, place)):
                last, translation = longest
                found.append(ProtectedSpan(spans[place][0], spans[last][1], translation))
                place = last
            place += 1
        return found

    def _longest_match(
        self, text: str, spans: Sequence[tuple[int, int]], words: Sequence[str], first: int
    ) -> tuple[int, str] | None:
        """The last word of the longest term that begins at word `first`, and its translation."""
        node, longest = self._root, None
        for last in range(first, len(words)):
            if not (following := node.following.get(words[last])):
                break
            node = following
            if node.entries and (entry := _best_entry(node.entries, text, spans[first][0], spans[last][1])):
                longest = last, entry.translation
        return longest

    def _add(self, term: str, translation: str) -> None:
        node = self._root
        for word in _TOKEN.findall(term):
            node = node.following.setdefault(self._fold(word), _Node())
        is_case_sensitive = any(character.isupper() for word in _TOKEN.findall(term) for character in word[1:])
        node.entries.append(_Entry(_normalise_spaces(term), translation, is_case_sensitive, term != term.lower()))

    def _fold(self, word: str) -> str:
        if word.isspace():
            return " " if word.splitlines() == [word] else word
        if self._turkic:
            word = word.replace("I", "ı").replace("İ", "i")
        return word.casefold() if word.isascii() else compose(word).casefold()


class GlossaryChain(Glossary):
    """Several glossaries as one; the first that has a term, in any case, decides its translation."""

    def __init__(self, glossaries: Sequence[Glossary]) -> None:
        super().__init__({}, "")
        self._glossaries = glossaries

    def find(self, text: str) -> list[ProtectedSpan]:
        """Like `Glossary.find`; where terms of two glossaries overlap, the first glossary wins."""
        found: list[ProtectedSpan] = []
        for glossary in self._glossaries:
            found = merge_spans(found, glossary.find(text))
        return found


@dataclass(frozen=True)
class Glossaries:
    """Named glossaries, each for one or more language pairs."""

    by_pair: Mapping[tuple[str, str, str], Glossary] = field(default_factory=dict)
    """By name, source and target."""

    @property
    def names(self) -> list[str]:
        return sorted({name for name, _, _ in self.by_pair})

    def find(self, name: str, source: str, target: str) -> Glossary | None:
        return self.by_pair.get((name, source, target))


def merge_spans(first: Sequence[ProtectedSpan], second: Sequence[ProtectedSpan]) -> list[ProtectedSpan]:
    """The spans of both, in order, without those of `second` that overlap a span of `first`."""
    found: list[ProtectedSpan] = []
    index = 0
    for one in second:
        while index < len(first) and first[index].end <= one.start:
            found.append(first[index])
            index += 1
        if index == len(first) or one.end <= first[index].start:
            found.append(one)
    return [*found, *first[index:]]


def entry_error(term: str, translation: str) -> str | None:
    """The error in an entry, as one line; None if it is valid."""
    if not term.strip():
        return "A term is empty."
    if not translation.strip():
        return f"The translation of {term[:MAX_CHARS]!r} is empty."
    for what, text in (("term", term.strip()), ("translation", translation.strip())):
        if len(text) > MAX_CHARS:
            return f"The {what} {text[:40]!r}... has {len(text):,} characters, over the limit of {MAX_CHARS}."
        if any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in text):
            return f"The {what} {text!r} contains a control character or a line end."
    return None


def _normalise_spaces(text: str) -> str:
    return compose(" ".join(text.split()))


def _best_entry(entries: Sequence[_Entry], text: str, start: int, end: int) -> _Entry | None:
    """The entry for [start, end): preferably one spelt exactly so, rather than in another case."""
    joined = (end < len(text) - 1 and text[end] in _HYPHENS and text[end + 1].isalnum()) or (
        start > 1 and text[start - 1] in _HYPHENS and text[start - 2].isalnum()
    )
    found = [entry for entry in entries if entry.is_capitalised or not joined]
    spelling = _normalise_spaces(text[start:end])
    same = [entry for entry in found if entry.spelling == spelling]
    return next(iter(same + [entry for entry in found if not entry.is_case_sensitive]), None)
