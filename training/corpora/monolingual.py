"""Reads the distinct texts of a file to translate, with their lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from training.corpora.corpus import Corpus, LineTally, hash64
from training.corpora.text_file import TextFile


class Text(NamedTuple):
    """A sentence to translate, its line in the file (from 1), and a reference translation, if there is one."""

    line: int
    text: str
    reference: str = ""


class Texts:
    """Iterates over the distinct texts in a file of pairs or of plain text, as often as needed. After each pass,
    `skipped` and `count` describe it. With `references`, equal texts with different references are distinct."""

    def __init__(self, of: Corpus | TextFile, back: bool = False, references: bool = False) -> None:
        """For pairs, reads the source side, or with `back` the target side; the other side is the reference."""
        self._of, self._back, self._references = of, back, references
        self.files = (of.path,) if isinstance(of, TextFile) else of.spec.paths
        self.skipped, self.count = LineTally(), 0

    def describe(self) -> str:
        """One line about what was assumed of the file."""
        if isinstance(self._of, TextFile):
            return f"{self._of.path.name}: a sentence a line; {self._of.describe()}"
        return self._of.describe()

    def __iter__(self) -> Iterator[Text]:
        self.skipped, self.count = LineTally(), 0
        seen: set[int] = set()
        for text in self._read():
            key = hash64(f"{text.text}\t{text.reference}" if self._references else text.text)
            if key in seen:
                self.skipped.add("a duplicate", text.line)
            else:
                seen.add(key)
                self.count += 1
                yield text

    def _read(self) -> Iterator[Text]:
        if isinstance(self._of, Corpus):
            for number, pair in self._of.pairs(self.skipped):
                yield Text(number, pair.target, pair.source) if self._back else Text(number, *pair)
            return
        for number, line in enumerate(self._of.lines(), 1):
            text = line.strip()
            reason = "an empty line" if not text else "undecodable bytes" if "\ufffd" in text else ""
            reason = reason or ("a tab or line end in it" if set(text) & {"\t", "\n", "\r"} else "")
            if reason:
                self.skipped.add(reason, number)
            else:
                yield Text(number, text)


@dataclass(frozen=True)
class NumberedTexts:
    """The lines of `texts` and their texts, or with `references` what they are paired with, as often as needed."""

    texts: Texts
    references: bool

    def __iter__(self) -> Iterator[tuple[int, str]]:
        for text in self.texts:
            yield text.line, text.reference if self.references else text.text
