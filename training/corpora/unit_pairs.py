"""Sentence pairs of files in two languages whose units have the same ids, such as a textbook in CNXML and its
translation, a manual in DocBook or HTML, or the strings of a program in JSON.

A unit is taken if it has as many sentences in both languages, as translators mostly leave them; these are paired one by
one.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from training.corpora.corpus import hash64, letter_count
from training.corpora.sentences import split_sentences
from training.corpora.text_file import CorpusError
from training.corpora.units import OBJECT, SUFFIXES, units

_MAX_RATIO = 2.2
_WORD = re.compile(r"[^\W\d_]{3}")


@dataclass
class PairedUnits:
    """The sentence pairs of the files at `source` and at `target`, each one file or a folder of them, with at least
    `min_letters` letters and at most `max_chars` characters a side.

    Iterate once; `left_out` then tells how many sentences were not taken, and why.
    """

    source: Path
    target: Path
    languages: tuple[str, str]
    elements: Sequence[str]
    min_letters: int
    max_chars: int
    left_out: Counter[str] = field(default_factory=Counter)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yields each pair once. Raises CorpusError."""
        shared = {*_files(self.source).values()} & {*_files(self.target).values()}
        translations, seen = self._units(self.target, self.languages[1], shared), set[int]()
        for identifier, texts in self._units(self.source, self.languages[0], shared).items():
            translated = translations.get(identifier, [])
            if len(translated) != len(texts):
                self.left_out["in one language only"] += len(texts)
                continue
            for sides in zip(texts, translated, strict=True):
                for pair in self._pairs(sides):
                    if (key := hash64("\t".join(pair))) not in seen:
                        seen.add(key)
                        yield pair

    def _pairs(self, sides: tuple[str, str]) -> Iterator[tuple[str, str]]:
        """The usable pairs of a unit and its translation."""
        source, target = (
            split_sentences(" ".join(text.split()), code) for text, code in zip(sides, self.languages, strict=True)
        )
        if len(source) != len(target):
            self.left_out["in units of other numbers of sentences"] += len(source)
            return
        for pair in zip(source, target, strict=True):
            if reason := self._fault(*pair):
                self.left_out[reason] += 1
            else:
                yield pair

    def _fault(self, source: str, target: str) -> str:
        """Why a pair is not to be learnt; empty if it is."""
        lengths = sorted((letter_count(source), letter_count(target)))
        if OBJECT in source + target:
            return "with a formula, an image or a placeholder"
        if lengths[0] < self.min_letters or not _WORD.search(source):
            return "too short"
        if max(len(source), len(target)) > self.max_chars or lengths[1] > _MAX_RATIO * lengths[0]:
            return "too long"
        return "equal in both languages" if source == target else ""

    def _units(self, path: Path, language: str, shared: Collection[Path]) -> dict[tuple[Path, str], list[str]]:
        """The texts of each id, in the order of the files. An id is that of a file if both folders have this file; else
        it may occur in several."""
        found: dict[tuple[Path, str], list[str]] = defaultdict(list)
        for file, place in _files(path).items():
            for identifier, text in units(file, self.elements, language):
                found[place if place in shared else Path(), identifier].append(text)
        return found


def _files(path: Path) -> dict[Path, Path]:
    """The file `path`, or those below this folder, each with its path in it. Raises CorpusError."""
    if not path.is_dir():
        return {path: Path()}
    files = {file: file.relative_to(path) for file in sorted(path.rglob("*")) if file.suffix in SUFFIXES}
    if not files:
        raise CorpusError(path, f"has no file that ends in {', '.join(SUFFIXES)}")
    return files
