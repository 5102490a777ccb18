"""Checks whether the two sides of a pair are in the expected languages, swapped, or in other languages.

Decides by letters and by py3langid's statistics (140 languages); `training.cleaning.rules` acts on the result. Short
sentences are hard, so it decides only when it is sure: docs/training-data.md has its error rates.
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
from training.corpora.corpus import Corpus, CorpusSpec, LineTally, Pair, open_corpus

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_NON_TEXT = re.compile(r"<[^<>]{0,500}>|&#?\w{1,20};|\S*[\d_@/\\{}$%=()]\S*")
"""Markup, placeholders, URLs, paths and code: not in any language, or always English."""
_MAX_EXAMINED_CHARS = 200
"""Characters examined on each side: more add no certainty, and take longer."""
_MIN_SWAPPED_NATS = 3.0
"""How much more probable the swapped order must be, in nats over both sides (py3langid flattens its probabilities)."""
SAMPLE_PAIRS = 1000
_MIN_SWAPPED_SHARE = 0.5
"""If more of the first pairs are swapped than this, among those with a known order, unsure pairs count as swapped."""
_MIN_NATS_BY_LETTERS = ((40, 2.0), (20, 3.0), (10, 4.5))
"""For each minimum number of letters, how much more probable another language must be than the expected, in nats."""
_RARE_LANGUAGE_FACTOR = 2.0
"""Factor on these nats for languages other than the following, for which lists of names are mistaken."""
_COMMON_LANGUAGES = {
    *("ar", "bg", "bn", "ca", "cs", "da", "de", "el", "en", "es", "et", "fa", "fi", "fr", "he", "hi", "hr", "hu", "id"),
    *("it", "ja", "ko", "lt", "lv", "ms", "nl", "no", "pl", "pt", "ro", "ru", "sk", "sl", "sr", "sv", "ta", "th", "tr"),
    *("uk", "ur", "vi", "zh"),
}
_SCRIPT_LETTERS = {"zh": "[\u3400-\u9fff]", "ja": "[\u3040-\u30ff]", "ko": "[\uac00-\ud7af]", "ru": "[\u0400-\u04ff]"}
_MIN_SCRIPT_LETTERS = 4
"""A side with this many letters of its language's own script is in it, whatever Latin words it contains."""
_LABEL_OF_CODE = {"nb": "no", "nn": "no", "iw": "he", "in": "id", "cmn": "zh", "zsm": "ms", "fil": "tl"}
_MERGED_LABELS = {"wuu": "zh", "yue": "zh", "nn": "no", "nb": "no", "arz": "ar", "ary": "ar"}
"""Text in these languages counts as text in the others."""


class PairLanguages(NamedTuple):
    """`swapped`: each side is in the other's language; else `wrong_side`, if any, is in the language `detected`."""

    order: Literal["expected", "swapped", "unsure"]
    wrong_side: Literal["source", "target"] | None = None
    detected: str = ""


class LanguageCheck:
    """Identifies the languages of pairs from one source to one target language, where py3langid knows them."""

    def __init__(self, source: str, target: str) -> None:
        self._identifier = _identifier()
        known = set(self._identifier.labels)
        self.source, self.target = (label if label in known else None for label in (_label(source), _label(target)))
        self._ordered = self.source is not None and self.target is not None and self.source != self.target

    @property
    def unknown(self) -> bool:
        """Whether py3langid knows neither language, so that nothing can be checked."""
        return self.source is None and self.target is None

    def identify(self, pair: Pair) -> PairLanguages:
        """The order of languages in `pair`, and the wrong side if any; "unsure" without clear evidence."""
        words = [_words(side) for side in pair]
        best = [self._best(side) for side in words]
        if best[0] == self.source and best[1] == self.target:
            return PairLanguages("expected")
        shares = [self._shares(side) for side in words]
        if self._ordered and self._are_swapped(shares):
            return PairLanguages("swapped")
        other = self._wrong_language("source", self.source, words[0], shares[0])
        return other or self._wrong_language("target", self.target, words[1], shares[1]) or PairLanguages("unsure")

    def mostly_swapped(self, pairs: Iterable[Pair]) -> bool:
        """Whether a corpus that begins with `pairs` has its languages swapped throughout, not just in single pairs."""
        if not self._ordered:  # otherwise, no pair is ever found swapped
            return False
        votes = Counter(self.identify(pair).order for pair in pairs)
        return votes["swapped"] > _MIN_SWAPPED_SHARE * (votes["swapped"] + votes["expected"])

    def _best(self, text: str) -> str | None:
        if not text:
            return None
        label: str = self._identifier.classify(text)[0]
        return _MERGED_LABELS.get(label, label)

    def _shares(self, text: str) -> dict[str, float]:
        """The probability of each language, never 0: for languages treated as one, the highest."""
        shares: dict[str, float] = {}
        for label, share in self._identifier.rank(text) if text else ():
            shares.setdefault(_MERGED_LABELS.get(label, label), max(share, 1e-30))
        return shares

    def _are_swapped(self, shares: list[dict[str, float]]) -> bool:
        assert self.source and self.target
        if not all(shares):
            return False
        odds = (
            math.log(shares[0][self.target] / shares[0][self.source]),
            math.log(shares[1][self.source] / shares[1][self.target]),
        )
        return min(odds) > 0 and sum(odds) > _MIN_SWAPPED_NATS

    def _wrong_language(
        self, side: Literal["source", "target"], expected: str | None, words: str, shares: dict[str, float]
    ) -> PairLanguages | None:
        if expected is None or not shares:
            return None
        best = max(shares, key=shares.__getitem__)
        own = _SCRIPT_LETTERS.get(expected)
        if own and best not in _SCRIPT_LETTERS and len(re.findall(own, words)) >= _MIN_SCRIPT_LETTERS:
            return None
        letters = sum(map(str.isalpha, words))
        needed = next((odds for least, odds in _MIN_NATS_BY_LETTERS if letters >= least), math.inf)
        needed *= 1 if best in _COMMON_LANGUAGES else _RARE_LANGUAGE_FACTOR
        return PairLanguages("unsure", side, best) if math.log(shares[best] / shares[expected]) > needed else None


def open_oriented_corpus(
    spec: CorpusSpec, source: str, target: str, columns: tuple[int, int] | None = None, encoding: str | None = None
) -> Corpus:
    """Like `open_corpus`, but without `columns` finds source and target, or the order of two files, by language.

    For pairs that are measured or translated without cleaning; `training.cleaning.rules` checks each training pair.
    Raises CorpusError.
    """
    corpus = open_corpus(spec, source, target, columns, encoding)
    check = LanguageCheck(source, target)
    if columns is not None and not spec.source_first:
        return corpus
    if not check.mostly_swapped(pair for _, pair in islice(corpus.pairs(LineTally()), SAMPLE_PAIRS)):
        return corpus
    return dataclasses.replace(corpus, source=corpus.target, target=corpus.source, swapped=True)


def _words(text: str) -> str:
    words = " ".join(_NON_TEXT.sub(" ", text[:_MAX_EXAMINED_CHARS]).split())
    return words if any(map(str.isalpha, words)) else ""


def _label(code: str) -> str:
    base = language_alone(code)
    label = _LABEL_OF_CODE.get(base, base)
    return _MERGED_LABELS.get(label, label)


@cache
def _identifier() -> LanguageIdentifier:
    """py3langid's model; loading takes half a second, once."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
