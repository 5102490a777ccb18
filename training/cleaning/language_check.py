"""Whether the two sides of a pair are in the languages they should be in, the other way round, or in others.

Knows letters and statistics (py3langid's, 140 languages); what is done about it is `training.cleaning.rules`'s to say.
Short sentences are hard, so it only speaks when it is sure: docs/training.md has how often that is wrong.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple

from model.languages import language_alone
from training.corpora.corpus import Corpus, CorpusSpec, Pair, Skipped, look_at

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_NO_WORDS = re.compile(r"<[^<>]{0,500}>|&#?\w{1,20};|\S*[\d_@/\\{}$%=()]\S*")
"""Mark-up, placeholders, addresses, paths and code: in no language, or in English anyway."""
_LOOKED_AT = 200
"""Characters of a side that are looked at: more make nothing surer, and take longer."""
_SWAPPED = 3.0
"""How much more probable the pair must be the other way round, in nats (flattened, as py3langid's are, over both)."""
VOTING = 1000
_MOST_SWAPPED = 0.5
"""Above this share of the first pairs that are sure, all are taken for swapped that are not sure."""
_SURE = ((40, 2.0), (20, 3.0), (10, 4.5))
"""From so many letters on, how much more probable another language must be than the one expected, in nats."""
_RARE = 2.0
"""And how many times as much if that is none of these, which lists of names are taken for."""
_MUCH_WRITTEN = {
    *("ar", "bg", "bn", "ca", "cs", "da", "de", "el", "en", "es", "et", "fa", "fi", "fr", "he", "hi", "hr", "hu", "id"),
    *("it", "ja", "ko", "lt", "lv", "ms", "nl", "no", "pl", "pt", "ro", "ru", "sk", "sl", "sr", "sv", "ta", "th", "tr"),
    *("uk", "ur", "vi", "zh"),
}
_OWN_LETTERS = {"zh": "[\u3400-\u9fff]", "ja": "[\u3040-\u30ff]", "ko": "[\uac00-\ud7af]", "ru": "[\u0400-\u04ff]"}
_FEW_LETTERS = 4
"""A side with so many letters of its language's own is in it, whatever names of functions stand among them."""
_LABELS = {"nb": "no", "nn": "no", "iw": "he", "in": "id", "cmn": "zh", "zsm": "ms", "fil": "tl"}
_SAME = {"wuu": "zh", "yue": "zh", "nn": "no", "nb": "no", "arz": "ar", "ary": "ar"}
"""What is written in these is taken for the other."""


class Verdict(NamedTuple):
    """`swapped`: each side is in the other's language; else which `side`, if any, is in which `other` language."""

    order: Literal["straight", "swapped", "unsure"]
    side: Literal["source", "target"] | None = None
    other: str = ""


class LanguageCheck:
    """Judges pairs of one source and one target language; a language that py3langid does not know is never judged."""

    def __init__(self, source: str, target: str) -> None:
        self._identifier = _identifier()
        known = set(self._identifier.labels)
        self.source, self.target = (label if label in known else None for label in (_label(source), _label(target)))
        self._ordered = self.source is not None and self.target is not None and self.source != self.target

    @property
    def unknown(self) -> bool:
        """Whether there is nothing to judge by."""
        return self.source is None and self.target is None

    def judge(self, pair: Pair) -> Verdict:
        """What the languages of `pair` say; "unsure" where they say nothing certain."""
        words = [_words(side) for side in pair]
        best = [self._best(side) for side in words]
        if best[0] == self.source and best[1] == self.target:
            return Verdict("straight")
        shares = [self._shares(side) for side in words]
        if self._ordered and self._are_swapped(shares):
            return Verdict("swapped")
        other = self._other("source", self.source, words[0], shares[0])
        return other or self._other("target", self.target, words[1], shares[1]) or Verdict("unsure")

    def mostly_swapped(self, pairs: Iterable[Pair]) -> bool:
        """Whether a corpus that begins with `pairs` stands the other way round, single pairs apart."""
        if not self._ordered:  # then none is found to be
            return False
        votes = Counter(self.judge(pair).order for pair in pairs)
        return votes["swapped"] > _MOST_SWAPPED * (votes["swapped"] + votes["straight"])

    def _best(self, text: str) -> str | None:
        if not text:
            return None
        label: str = self._identifier.classify(text)[0]
        return _SAME.get(label, label)

    def _shares(self, text: str) -> dict[str, float]:
        """The probability of each language, none 0: of those that are taken for one, the highest."""
        shares: dict[str, float] = {}
        for label, share in self._identifier.rank(text) if text else ():
            shares.setdefault(_SAME.get(label, label), max(share, 1e-30))
        return shares

    def _are_swapped(self, shares: list[dict[str, float]]) -> bool:
        assert self.source and self.target
        if not all(shares):
            return False
        odds = (
            math.log(shares[0][self.target] / shares[0][self.source]),
            math.log(shares[1][self.source] / shares[1][self.target]),
        )
        return min(odds) > 0 and sum(odds) > _SWAPPED

    def _other(
        self, side: Literal["source", "target"], expected: str | None, words: str, shares: dict[str, float]
    ) -> Verdict | None:
        if expected is None or not shares:
            return None
        best = max(shares, key=shares.__getitem__)
        own = _OWN_LETTERS.get(expected)
        if own and best not in _OWN_LETTERS and len(re.findall(own, words)) >= _FEW_LETTERS:
            return None
        letters = sum(map(str.isalpha, words))
        needed = next((odds for least, odds in _SURE if letters >= least), math.inf)
        needed *= 1 if best in _MUCH_WRITTEN else _RARE
        return Verdict("unsure", side, best) if math.log(shares[best] / shares[expected]) > needed else None


def look_at_facing(
    spec: CorpusSpec, source: str, target: str, columns: tuple[int, int] | None = None, encoding: str | None = None
) -> Corpus:
    """`look_at`, and where no `columns` are given, those of source and target, or the two files, by their languages.

    For what is measured or translated as it is; of what is trained on, `training.cleaning.rules` judges every pair.
    Raises CorpusError.
    """
    corpus = look_at(spec, source, target, columns, encoding)
    check = LanguageCheck(source, target)
    if columns is not None and not spec.ordered:
        return corpus
    if not check.mostly_swapped(pair for _, pair in islice(corpus.pairs(Skipped()), VOTING)):
        return corpus
    return dataclasses.replace(corpus, source=corpus.target, target=corpus.source, turned=True)


def _words(text: str) -> str:
    words = " ".join(_NO_WORDS.sub(" ", text[:_LOOKED_AT]).split())
    return words if any(map(str.isalpha, words)) else ""


def _label(code: str) -> str:
    base = language_alone(code)
    label = _LABELS.get(base, base)
    return _SAME.get(label, label)


@cache
def _identifier() -> LanguageIdentifier:
    """Takes half a second, once."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
