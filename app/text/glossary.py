"""Glossaries: terms with required translations, and how they are found in a text.

The translator and the decoder enforce the translations.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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


@dataclass(slots=True)
class _Entries:
    """The terms that end at a node; they differ in case only."""

    by_spelling: dict[str, str] = field(default_factory=dict)
    """The translation of each spelling."""
    capitalised: set[str] = field(default_factory=set)
    """Spellings with a capital, as names have: they may match part of a hyphenated word."""
    anywhere: str | None = None
    """The translation of the first term that matches in any case: one without inner capitals, as acronyms have."""
    in_compound: str | None = None
    """The same of the first that also has a capital."""


@dataclass(slots=True)
class _Node:
    """A node of the radix tree over the words of the terms."""

    words: list[str]
    """The words that lead from the parent to this node: a node for each word would take 500 bytes."""
    following: dict[str, _Node] = field(default_factory=dict)
    """By first word."""
    entries: _Entries | None = None


class Glossary:
    """Terms of one language and their translations; built once, then searched in any number of texts."""

    def __init__(self, terms: Mapping[str, str], language: str) -> None:
        """Raises ValueError, with a one-line message, for invalid terms."""
        if len(terms) > MAX_TERMS:
            raise ValueError(f"A glossary has at most {MAX_TERMS:,} terms, not {len(terms):,}.")
        self.terms = terms
        self._turkic = language_alone(language) in ("az", "tr")
        self._root = _Node([])
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
        spellings = [text[start:end] for start, end in spans]
        words = list(map(self._fold, spellings))
        found: list[ProtectedSpan] = []
        place = 0
        while place < len(words):
            longest = words[place] in self._root.following and self._longest_match(text, spans, spellings, words, place)
            if longest:
                last, translation = longest
                found.append(ProtectedSpan(spans[place][0], spans[last][1], translation))
                place = last
            place += 1
        return found

    def _longest_match(
        self, text: str, spans: Sequence[tuple[int, int]], spellings: Sequence[str], words: Sequence[str], first: int
    ) -> tuple[int, str] | None:
        """The last word of the longest term that begins at word `first`, and its translation."""
        following, longest, at, spelling = self._root.following, None, first, ""
        while at < len(words) and (node := following.get(words[at])):
            following = node.following
            for word in node.words:
                if at == len(words) or words[at] != word:
                    return longest
                spelling += _normalise_word(spellings[at])
                at += 1
            if node.entries and (translation := _best(node.entries, spelling, text, spans[first][0], spans[at - 1][1])):
                longest = at - 1, translation
        return longest

    def _add(self, term: str, translation: str) -> None:
        spellings = _TOKEN.findall(term)
        node = self._node([self._fold(word) for word in spellings])
        node.entries = entries = node.entries or _Entries()
        spelling = "".join(map(_normalise_word, spellings))
        is_capitalised = term != term.lower()
        entries.by_spelling.setdefault(spelling, translation)
        if is_capitalised:
            entries.capitalised.add(spelling)
        if any(character.isupper() for word in spellings for character in word[1:]):
            return  # as acronyms have: it matches only this spelling
        if entries.anywhere is None:
            entries.anywhere = translation
        if is_capitalised and entries.in_compound is None:
            entries.in_compound = translation

    def _node(self, words: list[str]) -> _Node:
        """The node that `words` lead to, made if it is missing."""
        node, at = self._root, 0
        while at < len(words):
            child = node.following.get(words[at])
            if child is None:
                child = node.following[words[at]] = _Node(words[at:])
            same, most = 1, min(len(child.words), len(words) - at)
            while same < most and child.words[same] == words[at + same]:
                same += 1
            if same < len(child.words):
                upper = _Node(child.words[:same], {child.words[same]: child})
                child.words = child.words[same:]
                node.following[words[at]] = child = upper
            node, at = child, at + same
        return node

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


def _normalise_word(word: str) -> str:
    return " " if word.isspace() else word if word.isascii() else compose(word)


def _best(entries: _Entries, spelling: str, text: str, start: int, end: int) -> str | None:
    """The translation for [start, end): preferably of a term spelt exactly so, rather than in another case."""
    joined = (end < len(text) - 1 and text[end] in _HYPHENS and text[end + 1].isalnum()) or (
        start > 1 and text[start - 1] in _HYPHENS and text[start - 2].isalnum()
    )
    if spelling in entries.by_spelling and (not joined or spelling in entries.capitalised):
        return entries.by_spelling[spelling]
    return entries.in_compound if joined else entries.anywhere
