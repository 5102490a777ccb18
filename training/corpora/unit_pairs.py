"""Sentence pairs of XML in two languages whose elements have the same ids, such as a textbook in CNXML and its
translation, or a manual in DocBook, DITA or HTML.

A paragraph is taken if it has as many sentences in both languages, as translators mostly leave them; these are paired
one by one.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lxml import etree

from training.corpora.corpus import hash64, letter_count
from training.corpora.sentences import in_any_namespace, parsed, split_sentences
from training.corpora.text_file import CorpusError
from training.corpora.tmx import text_below

_SUFFIXES = (".xml", ".cnxml", ".xhtml", ".html", ".htm", ".dita", ".docbook")
_MATHML = "http://www.w3.org/1998/Math/MathML"
_LISTS = {"list", "ul", "ol", "itemizedlist", "orderedlist"}
_APART = {"p", "para", "li", "item", *_LISTS, "figure", "table", "note", "equation", "exercise"}
"""Elements within a paragraph that are no part of its text; what they contain has ids of its own."""
_OBJECT = "\ue000"
"""Stands in a paragraph's text for what is no text: a formula, an image, a reference that a program fills in."""
_MIN_LETTERS = 15
_MAX_RATIO = 2.2
_WORD = re.compile(r"[^\W\d_]{3}")


@dataclass
class PairedUnits:
    """The sentence pairs of the XML files at `source` and at `target`, each one file or a folder of them.

    Only `elements` with an id are read. Iterate once; `left_out` then tells how many sentences were not taken, and why.
    """

    source: Path
    target: Path
    languages: tuple[str, str]
    elements: Sequence[str]
    max_chars: int
    left_out: Counter[str] = field(default_factory=Counter)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yields each pair once. Raises CorpusError."""
        translations, seen = self._paragraphs(self.target), set[int]()
        for identifier, texts in self._paragraphs(self.source).items():
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
        """The usable pairs of a paragraph and its translation."""
        source, target = (
            split_sentences(" ".join(text.split()), code) for text, code in zip(sides, self.languages, strict=True)
        )
        if len(source) != len(target):
            self.left_out["in paragraphs of other numbers of sentences"] += len(source)
            return
        for pair in zip(source, target, strict=True):
            if reason := self._fault(*pair):
                self.left_out[reason] += 1
            else:
                yield pair

    def _fault(self, source: str, target: str) -> str:
        """Why a pair is not to be learnt; empty if it is."""
        lengths = sorted((letter_count(source), letter_count(target)))
        if _OBJECT in source + target:
            return "with a formula, an image or a reference"
        if lengths[0] < _MIN_LETTERS or not _WORD.search(source):
            return "too short"
        if max(len(source), len(target)) > self.max_chars or lengths[1] > _MAX_RATIO * lengths[0]:
            return "too long"
        return "equal in both languages" if source == target else ""

    def _paragraphs(self, path: Path) -> dict[str, list[str]]:
        """The text of each element with an id, in the order of the files: an id may occur in several."""
        found: dict[str, list[str]] = defaultdict(list)
        for file in _files(path):
            for element in parsed(file).iter(*in_any_namespace(self.elements)):
                if identifier := element.get("id") or element.get("{http://www.w3.org/XML/1998/namespace}id"):
                    found[identifier].append(_text(element))
        return found


def _files(path: Path) -> list[Path]:
    """The file `path`, or the XML files below this folder. Raises CorpusError."""
    files = sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES) if path.is_dir() else [path]
    if not files:
        raise CorpusError(path, f"has no file that ends in {', '.join(_SUFFIXES)}")
    return files


def _text(element: etree._Element) -> str:
    parts = [element.text or ""]
    for child in element:
        if isinstance(child.tag, str):
            parts.append(_inline(child))
        parts.append(child.tail or "")
    return "".join(parts)


def _inline(child: etree._Element) -> str:
    """The text of an element within a paragraph."""
    name = etree.QName(child)
    if name.localname in ("br", "newline", "footnote"):
        return " "
    if name.localname in _APART:
        return f" {_OBJECT} "
    return _OBJECT if name.namespace == _MATHML or not "".join(text_below(child, ())).strip() else _text(child)
