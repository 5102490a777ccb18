"""Copies of sentence pairs as people also write: in lower case, with other quotes or names, without final mark.

None is in capitals: four epochs with such copies taught a model nothing about them (docs/training-data.md), and
the service lowers capitals. `training.data.tokenise` adds the copies to a data folder.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.languages import language_alone
from model.tokenizer import Tokenizers
from training.cleaning.holdout import comparison_key
from training.cleaning.simplified_chinese import is_chinese
from training.corpora.corpus import Pair
from training.data.augment.name_swaps import NameSwapper
from training.data.augment.placeholder_copies import TokenCopy

_SAMPLE_PAIRS = 100_000
"""Pairs from which to learn which words begin with a lower-case letter, and which names there are."""
_NAME_SWAPS_PER_CHANGE = 3
"""Copies with new names for each copy of another kind: each has another name, while the others repeat one habit."""
_MIN_CASED_SHARE = 0.5
_FIRST_WORD = re.compile(r"[\W_]*([^\W\d_]+)")
_INNER_WORDS = re.compile(r"(?<=[\w,;] )[^\W\d_]+")
"""Words after a word or a comma, which do not begin a sentence (as Moses' truecaser counts them, Koehn et al. 2007)."""
_VERBATIM = re.compile(r"[{}<>%$_@\\=/#&|~^`*\[\]]|\w\.\w|\d[^\W\d_]|[^\W\d_]\d|[a-z][A-Z]")
"""Placeholders, URLs, code: what must be copied letter by letter."""
_UNCASED_LANGUAGES = {"ka"}
"""Languages that do not use their capitals: Georgian has them in Unicode only."""
_DOTTED_I_LANGUAGES = {"tr", "az", "crh", "tt"}
"""Languages in which the lower case of I is ı, and that of İ is i."""

_FINAL_MARKS = {mark: kind for kind, marks in {".": ".。।", "?": "?？؟", "!": "!！"}.items() for mark in marks}
_OPENING = {"?": "¿", "!": "¡"}
_NOT_FINAL = re.compile(r"[.。।?？؟!！…]\s*.$|(?:^|\W)\w\.$|\.\w+\.$")
"""Ends in several marks, or in the mark of an abbreviation, as in a.m. or J."""

_TO_CURLY = [(re.compile(r"(?<=\w)'"), "’"), (re.compile(r'"([^"]*)"'), r"“\1”")]
_TO_STRAIGHT = [(re.compile("[’‘]"), "'"), (re.compile("[“”„]"), '"')]
_TO_CORNERS = [(re.compile("“"), "「"), (re.compile("”"), "」")]
_TO_CHINESE = [(re.compile("「"), "“"), (re.compile("」"), "”")]
_TO_NARROW = [(re.compile(wide), narrow) for wide, narrow in zip("，。？！：；（）", ",.?!:;()", strict=True)]
_TO_TAIWAN = [(re.compile("着"), "著")]
_TO_CLOSE = [(re.compile(r"(?<=\w)\s+(?=[?!;:])"), "")]

Integers = NDArray[np.integer[Any]]
Rewriting = list[tuple[re.Pattern[str], str]]
Change = Callable[[Pair, Random], Pair | None]


@dataclass(frozen=True)
class LanguageCasing:
    """How a language uses case; `lowercase_words` are words mostly written in lower case inside sentences."""

    language: str
    cased: bool
    lowercase_words: frozenset[str]

    @classmethod
    def of(cls, texts: Iterable[str], language: str) -> LanguageCasing:
        base = language_alone(language)
        seen: Counter[tuple[str, bool]] = Counter()
        letters = cased = 0
        for text in texts:
            letters += sum(map(str.isalpha, text))
            cased += sum(character.lower() != character.upper() for character in text)
            seen.update((word.lower(), word == word.lower()) for word in _INNER_WORDS.findall(text))
        lowercase_words = frozenset(
            word for word, is_small in seen if is_small and seen[word, True] > seen[word, False]
        )
        return cls(base, cased > _MIN_CASED_SHARE * max(1, letters) and base not in _UNCASED_LANGUAGES, lowercase_words)

    def lower(self, text: str) -> str:
        return (text.replace("İ", "i").replace("I", "ı") if self.language in _DOTTED_I_LANGUAGES else text).lower()

    def lower_first(self, text: str) -> str | None:
        """`text` with a lower-case first letter; None if the first word is a name, a noun in German, or I."""
        found = _FIRST_WORD.match(text)
        if not self.cased or not found or not found[1][:1].isupper() or found[1][1:] != found[1][1:].lower():
            return None
        at, lowered = found.start(1), self.lower(found[1])
        if lowered not in self.lowercase_words or len(lowered) != len(found[1]):
            return None
        return text[:at] + lowered[0] + text[at + 1 :]


class Augmenter:
    """The changes that can be made to a pair of these languages; each returns None where it does not apply."""

    def __init__(self, source: LanguageCasing, target: LanguageCasing, names: NameSwapper) -> None:
        self.source, self.target = source, target
        cased = [self.lower_first, self.lower_first_drop_mark, self.lower_case] if source.cased else []
        self.changes: list[Change] = [_ignoring_random(change) for change in (self.drop_final_mark, *cased)]
        self.changes += [self.rewrite_punctuation, *[names.swap] * _NAME_SWAPS_PER_CHANGE]
        self._rewritings = [_TO_CURLY, _TO_STRAIGHT]
        if is_chinese(source.language):
            self._rewritings = [_TO_CORNERS, _TO_CHINESE, _TO_NARROW, _TO_TAIWAN]
        elif source.language == "fr":
            self._rewritings.append(_TO_CLOSE)

    def lower_first(self, pair: Pair) -> Pair | None:
        source = self.source.lower_first(pair.source)
        target = self.target.lower_first(pair.target) if self.target.cased else pair.target
        return None if source is None or target is None else Pair(source, target)

    def drop_final_mark(self, pair: Pair) -> Pair | None:
        """Drops the final marks of both sides, which must be of one kind; in Spanish, also the opening mark."""
        kinds = [_FINAL_MARKS.get(side[-1:]) for side in pair]
        source, target = map(_drop_mark, pair)
        return Pair(source, target) if kinds[0] == kinds[1] and source is not None and target is not None else None

    def lower_first_drop_mark(self, pair: Pair) -> Pair | None:
        changed = self.lower_first(pair)
        return None if changed is None else self.drop_final_mark(changed)

    def lower_case(self, pair: Pair) -> Pair | None:
        """The source in lower case, except perhaps its first letter. The target changes only in its first letter, like
        the source's."""
        inside = pair.source[1:]
        if self.source.lower(inside) == inside or any(map(_VERBATIM.search, pair)):
            return None
        changed = self.lower_first(pair) or pair
        return Pair(changed.source[:1] + self.source.lower(changed.source[1:]), changed.target)

    def rewrite_punctuation(self, pair: Pair, random: Random) -> Pair | None:
        """Changes only the source: its translation does not depend on how quotes are typed."""
        if any(map(_VERBATIM.search, pair)):
            return None
        source = pair.source
        for pattern, replacement in random.choice(self._rewritings):
            source = pattern.sub(replacement, source)
        return Pair(source, pair.target)


def augmented_copies(
    pairs: Sequence[Pair],
    count: int,
    tokenizers: Tokenizers,
    languages: tuple[str, str],
    max_tokens: int,
    random: Random,
    dev: Iterable[Pair] = (),
) -> Iterator[TokenCopy]:
    """Yields `count` copies as token ids, none longer than `max_tokens` on a side; fewer if few pairs can be changed.

    Skips copies that are sentences of the development pairs `dev`, as "Page 12" may become with another number.
    """
    apart = {comparison_key(side) for pair in dev for side in pair}
    made = 0
    for index, source, target in text_copies(pairs, languages, random, tokenizers.source.has_piece):
        if made == count:
            return
        if comparison_key(source) in apart or comparison_key(target) in apart:
            continue
        ids = [array("i", ids) for ids in tokenizers.encode_pair(source, target)]
        if max(map(len, ids)) <= max_tokens and tokenizers.target.unknown_id not in ids[1]:
            yield TokenCopy(index, *ids)
            made += 1


def text_copies(
    pairs: Sequence[Pair], languages: tuple[str, str], random: Random, knows: Callable[[str], bool]
) -> Iterator[tuple[int, str, str]]:
    """Yields changed copies with the index of their pair. The kinds of change take turns; each makes one copy per pair,
    and up to three with new names.

    Skips copies with a character that the vocabulary does not know, according to `knows`.
    """
    some = pairs[:: max(1, len(pairs) // _SAMPLE_PAIRS)]
    sides = [LanguageCasing.of((pair[side] for pair in some), languages[side]) for side in (0, 1)]
    augmenter = Augmenter(sides[0], sides[1], NameSwapper(some))
    order = np.random.Generator(np.random.PCG64(random.getrandbits(64))).permutation(len(pairs))
    starts = [len(pairs) * number // len(augmenter.changes) for number in range(len(augmenter.changes))]
    kinds = deque(map(_copies_of, repeat(pairs), repeat(order), starts, augmenter.changes, repeat(random)))
    while kinds:
        copies = kinds.popleft()
        known = (copy for copy in copies if all(map(knows, set(copy[1]) - set(pairs[copy[0]].source))))
        if copy := next(known, None):
            yield copy
            kinds.append(copies)


def _copies_of(
    pairs: Sequence[Pair], order: Integers, start: int, change: Change, random: Random
) -> Iterator[tuple[int, str, str]]:
    """Yields the copies that `change` makes of the pairs, in this order from `start` on, wrapping around."""
    for index in map(int, chain(order[start:], order[:start])):
        changed = change(pairs[index], random)
        if changed is not None and changed.source != pairs[index].source:
            yield index, *changed


def _ignoring_random(change: Callable[[Pair], Pair | None]) -> Change:
    return lambda pair, _: change(pair)


def _drop_mark(text: str) -> str | None:
    kind = _FINAL_MARKS.get(text[-1:])
    if kind is None or _NOT_FINAL.search(text):
        return None
    opening, left = _OPENING.get(kind, ""), text[:-1].rstrip()
    if opening and opening in left:
        left = left[1:] if left.startswith(opening) else left
    return None if (opening and opening in left) or not any(map(str.isalnum, left)) else left
