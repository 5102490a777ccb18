"""Replaces names and numbers that both sides of a pair share, so that a model learns to copy any.

A small corpus has few names, one of them perhaps in every tenth sentence, and a model that has seen no others turns
each new name into a word. Copying is learnt from pairs that show it (Currey et al. 2017, "Copied Monolingual Data
Improves Low-Resource Neural Machine Translation"); here the pair is real and the name is made up.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from random import Random

from training.corpora.corpus import Pair
from training.data.augment.placeholder_copies import replace_at, shared_words

_MIN_NAME_CHARS, _MAX_NAME_CHARS = 3, 12
_LETTERS = re.compile(r"[^\W\d_]+")
_DIGITS = re.compile(r"\d+")
_VOWELS = frozenset("aeiouyh")
"""Before these a language may elide or choose another article: d'Anna and de Tom, an Anna and a Tom; in French h
too."""


class NameSwapper:
    """Makes new names of the beginnings and ends of a corpus's names."""

    def __init__(self, pairs: Iterable[Pair]) -> None:
        found = {shared.word for pair in pairs for shared in shared_words(pair) if _is_title_case(shared.word)}
        self._all = sorted(found)  # the order of a set differs between processes
        self._by_first_letter = {
            kind: [name for name in self._all if _starts_with_vowel(name) is kind] for kind in (True, False)
        }

    def swap(self, pair: Pair, random: Random) -> Pair | None:
        """`pair` with other names and numbers for those that both sides share once; None if there are none."""
        put = {shared: word for shared in shared_words(pair) if (word := self._replacement(shared.word, random))}
        if not put:
            return None
        source = replace_at(pair.source, [(shared.source, shared.word, [word]) for shared, word in put.items()])
        target = replace_at(pair.target, [(shared.target, shared.word, [word]) for shared, word in put.items()])
        return Pair(*("".join(map(str, parts)) for parts in (source, target)))

    def _replacement(self, word: str, random: Random) -> str | None:
        if _is_title_case(word):
            return self._new_name(word, random)
        return _other_number(word, random) if word.lower() == word.upper() else None

    def _new_name(self, name: str, random: Random) -> str | None:
        """Joins the beginning of one name and the end of another; begins with a vowel if `name` does."""
        first = self._by_first_letter[_starts_with_vowel(name)]
        if not first:
            return None
        beginning, end = random.choice(first), random.choice(self._all)
        made = beginning[: random.randint(2, len(beginning))] + end[random.randint(1, len(end)) :]
        return made if _MIN_NAME_CHARS <= len(made) <= _MAX_NAME_CHARS and made != name else None


def _is_title_case(word: str) -> bool:
    return bool(_LETTERS.fullmatch(word)) and len(word) >= _MIN_NAME_CHARS and word[0].isupper() and word[1:].islower()


def _starts_with_vowel(name: str) -> bool:
    return unicodedata.normalize("NFD", name[0].lower())[0] in _VOWELS


def _other_number(number: str, random: Random) -> str | None:
    """The same number of digits, in the same places; None for a single digit, which may decide between singular and
    plural."""
    if sum(map(str.isdigit, number)) < 2:
        return None
    digits = _DIGITS.sub(lambda run: _digits(len(run[0]), random), number)
    return None if digits == number else digits


def _digits(count: int, random: Random) -> str:
    """The first is at least 2: no leading zero, and no possible singular as in 1.5."""
    return str(random.randint(2, 9)) + "".join(str(random.randint(0, 9)) for _ in range(count - 1))
