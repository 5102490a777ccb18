"""Mnemonics of labels, which mark the key to press: "&Open", "Save &As...", "_Open", "打开(&O)".

A label is translated without its mark, which is then put before a letter of the translation. Decides, for all formats
with labels, which characters are mnemonic marks and which are not ("R&D", "&amp;", "a_b", "__init__").
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html.entities import html5
from typing import NamedTuple

from app.text.placeholders import find_placeholders
from model.languages import language_alone

_MAX_LABEL_CHARS = 100
"""Maximum number of characters in a label."""
_AT_WORD_START = re.compile(
    r"(?:\A|(?<=[\s(\[\"'«“„/]))(?P<mark>&&?(?!c\.)|_(?=[^\W\d_](?![^\W_]*_)))(?=(?P<word>\w*))(?P<letter>[^\W_])"
)
_IN_WORD = re.compile(r"\b(?P<before>[^\W\d_]+)(?P<mark>[&_])(?P<after>(?P<letter>[^\W\d_])[^\W\d_]*)\b")
_IN_BRACKETS = re.compile(r"\s?[(（](?P<mark>&&?|_)(?P<letter>[^\W_])[)）](?=[\s.…:：。]*\Z)")
"""Used in languages whose words have no letters to press."""
_ENTITY = re.compile(r"&#?\w+;|<[A-Za-z/!][^<>]*>")
_LITERAL = re.compile(r"&&(?=\s|\Z)")
_END_MARKS = " \n\t\u00a0\u202f\u3000.…:：。"
_BRACKET_LANGUAGES = {"zh", "ja", "ko"}


class Mnemonic(NamedTuple):
    """A `mark` that was before a `letter`."""

    mark: str
    letter: str
    is_doubled: bool = False
    """Whether a literal "&" is written as two."""

    def insert_into(self, translation: str, language: str) -> str:
        """`translation`, in `language`, with the mark before the same letter, or else the first.

        If words have no letters to press, or there are none, both are appended in brackets.
        """
        literal = "&&" if self.is_doubled else "&"
        protected = {at for one in find_placeholders(translation, language) for at in range(one.start, one.end)}
        free = [at for at, character in enumerate(translation) if character.isalnum() and at not in protected]
        if not free or language_alone(language) in _BRACKET_LANGUAGES:
            place = len(translation.rstrip(_END_MARKS))
            return f"{translation[:place].replace('&', literal)}({self.mark}{self.letter.upper()}){translation[place:]}"
        same = [place for place in free if translation[place].casefold() == self.letter.casefold()]
        begins = [place for place in same if not translation[place - 1 : place].isalpha()]
        place = (begins or same or [place for place in free if translation[place].isalpha()] or free)[0]
        return self.mark.join(part.replace("&", literal) for part in (translation[:place], translation[place:]))


def mnemonic_marks(texts: Iterable[str]) -> frozenset[str]:
    """The marks that a catalogue certainly uses, "&" and "_": there they may also occur within a word."""
    labels = (text for text in texts if len(text) <= _MAX_LABEL_CHARS and not _ENTITY.search(text))
    found = filter(None, map(_AT_WORD_START.search, labels))
    return frozenset(one["mark"][0] for one in found if one["mark"] != "_" or one["word"][0].isupper())


def remove_mnemonic(text: str, marks: frozenset[str] = frozenset()) -> tuple[str, Mnemonic] | None:
    """A label without its mnemonic, and the mnemonic; None if it has none. `marks`: those of its catalogue.

    A label is a short line without tags and entities, and has one mark.
    """
    if len(text) > _MAX_LABEL_CHARS or not ("&" in text or "_" in text) or "\n" in text or _ENTITY.search(text):
        return None
    found = _IN_BRACKETS.search(text) or _AT_WORD_START.search(text) or _IN_WORD.search(text)
    if found is None or not _is_mnemonic(found, marks):
        return None
    mark, (start, end) = found["mark"], found.span(0 if found.re is _IN_BRACKETS else "mark")
    shown, others = text[:start] + text[end:], text if mark == "_" else _LITERAL.sub("", text)
    if others.count(mark[0]) != len(mark) or not any(map(str.isalpha, shown)):
        return None
    is_doubled = mark == "&" and _LITERAL.search(text) is not None
    return _LITERAL.sub("&", shown) if is_doubled else shown, Mnemonic(mark, found["letter"], is_doubled)


def _is_mnemonic(found: re.Match[str], marks: frozenset[str]) -> bool:
    """Whether a mark is a mnemonic, which one in brackets always is."""
    if found.re is _IN_BRACKETS:
        return True
    if found.re is _AT_WORD_START:
        if found["mark"] != "_":
            return found["word"] not in html5  # browsers read "&copy 2024" as HTML
        return found["word"][0].isupper() or "_" in marks
    before, after = found["before"], found["after"]
    if not after[0].islower():
        return False  # R&D, Tom&Jerry
    if found["mark"] == "_":
        return "_" in marks and before[0].isupper()
    return "&" in marks or (min(len(before), len(after)) < 3 <= len(before + after))
