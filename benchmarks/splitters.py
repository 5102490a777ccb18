"""Compares our sentence segmentation with other splitters, on sentences joined into paragraphs.

    python -m benchmarks.splitters --sentences en=FILE --sentences fr=FILE:2 [--misses 20]

`en=FILE` reads the first column of a file of sentence pairs, `fr=FILE:2` the second. Skips lines without a final mark,
or with what looks like two sentences, and splitters that are not installed.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Annotated, NamedTuple

import typer

from app.text.segmentation import segments
from benchmarks.table import Table

SENTENCES_PER_PARAGRAPH = 6
LONG_CHARS = 20_000
"""Length of the single paragraph that shows how time grows."""
WITHOUT_SPACES = ("ja", "zh")
FINAL_MARK = re.compile(r"[.!?…。！？][\"'”’»)」』]*$")
TWO_SENTENCES = re.compile(
    r"[?!…][\"'”’»)]*\s+[A-ZÀ-Þ¿¡«“„\"]"
    # A word in small letters ends a sentence; an abbreviation or an initial may not.
    r"|(?P<word>[a-zà-ÿß]{3,})\.[\"'”’»)]*\s+[A-ZÀ-Þ¿¡«“„\"]"
    r"|[。！？][”’」』）]*."
)
ABBREVIATIONS = frozenset(
    [
        "approx",
        "art",
        "dept",
        "dr",
        "etc",
        "fig",
        "inkl",
        "janv",
        "max",
        "min",
        "núm",
        "nov",
        "oct",
        "pág",
        "prof",
        "sept",
        "sra",
        "tel",
        "usw",
        "vol",
    ]
)
Split = Callable[[str], Sequence[str]]
"""Splits a paragraph into its sentences, in order; unchanged except for white space if the splitter keeps the text."""


def ours(language: str) -> Split:
    def split(text: str) -> list[str]:
        """Attaches text that is copied before a sentence, such as a dash, to the sentence."""
        ends = [segment.end for segment in segments(text, language) if segment.translate]
        return [text[start:end] for start, end in pairwise([0, *ends[:-1], len(text)])]

    return split


def sentencex(language: str) -> Split:
    segment = importlib.import_module("sentencex").segment
    return lambda text: list(segment(language, text))


def pysbd(language: str) -> Split:
    segmenter = importlib.import_module("pysbd").Segmenter(language=language, clean=False)
    return lambda text: list(segmenter.segment(text))


def blingfire(language: str) -> Split:
    to_sentences = importlib.import_module("blingfire").text_to_sentences
    return lambda text: str(to_sentences(text)).split("\n")


def syntok(language: str) -> Split:
    analyse = importlib.import_module("syntok.segmenter").analyze

    def split(text: str) -> list[str]:
        sentences = (sentence for paragraph in analyse(text) for sentence in paragraph)
        return ["".join(token.spacing + token.value for token in sentence) for sentence in sentences]

    return split


def sentence_splitter(language: str) -> Split:
    splitter = importlib.import_module("sentence_splitter").SentenceSplitter(language=language)
    return lambda text: list(splitter.split(text))


def spacy(language: str) -> Split:
    pipeline = importlib.import_module("spacy").blank(language)
    pipeline.add_pipe("sentencizer")
    pipeline.max_length = 1 << 30
    return lambda text: [sentence.text for sentence in pipeline(text).sents]


SPLITTERS: dict[str, tuple[str, Callable[[str], Split]]] = {
    "interlinear": ("", ours),
    "sentencex": ("sentencex", sentencex),
    "pysbd": ("pysbd", pysbd),
    "blingfire": ("blingfire", blingfire),
    "syntok": ("syntok", syntok),
    "sentence-splitter": ("sentence-splitter", sentence_splitter),
    "spacy sentencizer": ("spacy", spacy),
}
"""The distribution and the factory of each splitter; ours, sentencex with rules of our own, has no distribution."""


class Paragraph(NamedTuple):
    """A text, and the ends of its sentences except the last."""

    text: str
    ends: frozenset[int]


@dataclass
class Result:
    """Results of one splitter in one language."""

    right: int = 0
    missed: Counter[str] = field(default_factory=Counter)
    """Contexts of ends that were not found; `invented` has those of wrong ends."""
    invented: Counter[str] = field(default_factory=Counter)
    changed: int = 0
    """Paragraphs whose characters, except white space, were changed."""
    seconds: float = 0.0
    long_seconds: float = 0.0

    @property
    def precision(self) -> float:
        return self.right / max(1, self.right + self.invented.total())

    @property
    def recall(self) -> float:
        return self.right / max(1, self.right + self.missed.total())

    @property
    def f1(self) -> float:
        return 2 * self.precision * self.recall / max(1e-9, self.precision + self.recall)


def sentences(path: Path, column: int) -> list[str]:
    """Lines of one column of a file of sentence pairs that are a single sentence each."""
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").split("\n"))
    lines = (cells[column].strip() for cells in rows if len(cells) > column)
    return [line for line in dict.fromkeys(lines) if FINAL_MARK.search(line) and not is_two(line)]


def is_two(line: str) -> bool:
    return any(found["word"] not in ABBREVIATIONS for found in TWO_SENTENCES.finditer(line))


def paragraphs(
    texts: Sequence[str], language: str, together: int = SENTENCES_PER_PARAGRAPH, seed: int = 1
) -> list[Paragraph]:
    """Joins the sentences in random order, `together` in each paragraph."""
    texts = random.Random(seed).sample(texts, len(texts))
    joint = "" if language in WITHOUT_SPACES else " "
    return [paragraph(texts[start : start + together], joint) for start in range(0, len(texts), together)]


def paragraph(texts: Sequence[str], joint: str) -> Paragraph:
    ends, end = [], 0
    for text in texts:
        end += len(text)
        ends.append(end)
        end += len(joint)
    return Paragraph(joint.join(texts), frozenset(ends[:-1]))


def ends_of(parts: Sequence[str], text: str) -> tuple[frozenset[int], bool]:
    """The ends of `parts` in `text`, except the last, and whether the parts are the whole text but for white space."""
    ends, place = [], 0
    whole = True
    for part in filter(None, map(str.strip, parts)):
        start = text.find(part, place)
        if start < 0:
            # The splitter has changed the text: assume that the part begins here.
            whole, start = False, place
        whole = whole and not text[place:start].strip()
        place = min(len(text), start + len(part))
        ends.append(place)
    return frozenset(ends[:-1]), whole and not text[place:].strip()


def measure(split: Split, texts: Sequence[Paragraph]) -> Result:
    result = Result()
    for text, ends in texts:
        began = perf_counter()
        parts = split(text)
        result.seconds += perf_counter() - began
        found, whole = ends_of(parts, text)
        result.changed += not whole
        result.right += len(found & ends)
        result.missed.update(before(text, end) for end in ends - found)
        result.invented.update(before(text, end) for end in found - ends)
    long = " ".join(text for text, _ in texts)[:LONG_CHARS]
    began = perf_counter()
    split(long)
    result.long_seconds = perf_counter() - began
    return result


def before(text: str, end: int) -> str:
    """The last word before `end` and the first word after it."""
    return f"{text[max(0, end - 24) : end].split(' ')[-1]}|{text[end : end + 12].strip().split(' ')[0]}"


def tables(results: dict[str, dict[str, Result]], chars: dict[str, int]) -> Iterator[Table]:
    """`results` by splitter and language; `chars` by language."""
    languages = list(chars)
    measures = {"F1": "f1", "Precision": "precision", "Recall": "recall"}
    for title, name in measures.items():
        table = Table(f"{title}, %", languages, note="ends of sentences within a paragraph")
        for label, of in results.items():
            table.rows[label] = [100 * getattr(of[code], name) if code in of else None for code in languages]
        yield table
    speed = Table("Cost", ["1,000 characters a second", "in one paragraph", "texts changed"])
    for label, of in results.items():
        seconds = sum(result.seconds for result in of.values())
        speed.rows[label] = [
            sum(chars[code] for code in of) / 1_000 / seconds,
            LONG_CHARS * len(of) / 1_000 / sum(result.long_seconds for result in of.values()),
            sum(result.changed for result in of.values()),
        ]
    speed.note = f"in one paragraph: of {LONG_CHARS:,} characters"
    yield speed


def worst(result: Result, count: int) -> Iterator[str]:
    for title, found in (("missed", result.missed), ("invented", result.invented)):
        yield f"  {title}, {found.total()}: " + "  ".join(f"{what} {times}" for what, times in found.most_common(count))


def make_splitter(name: str, language: str) -> Split | None:
    """The splitter `name` for a language; None if it is not installed, or does not support the language."""
    distribution, make = SPLITTERS[name]
    try:
        if distribution:
            importlib.metadata.version(distribution)
        return make(language)
    except (importlib.metadata.PackageNotFoundError, ImportError, KeyError, ValueError):
        return None
    except Exception as error:
        # Each library has its own exception for an unsupported language.
        if "anguage" in f"{type(error).__name__} {error}":
            return None
        raise


def main(
    of: Annotated[list[str], typer.Option("--sentences", help="LANGUAGE=FILE or LANGUAGE=FILE:COLUMN; repeatable")],
    misses: Annotated[int, typer.Option(help="Number of our misses to show for each language")] = 0,
) -> None:
    """Print how well splitters find the ends of sentences."""
    texts: dict[str, list[str]] = {}
    for spec in of:
        language, _, place = spec.partition("=")
        path, _, column = place.partition(":")
        texts.setdefault(language, []).extend(sentences(Path(path), int(column or 1) - 1))
    joined = {language: paragraphs(found, language) for language, found in texts.items()}
    results: dict[str, dict[str, Result]] = {}
    for name in SPLITTERS:
        splits = {language: make_splitter(name, language) for language in joined}
        of_name = {language: measure(split, joined[language]) for language, split in splits.items() if split}
        if of_name:
            results[name] = of_name
    versions = [f"{name} {importlib.metadata.version(SPLITTERS[name][0])}" for name in results if SPLITTERS[name][0]]
    counts = [f"{language} {len(found):,}" for language, found in texts.items()]
    print(f"Python {platform.python_version()}; {', '.join(versions)}; sentences: {', '.join(counts)}")
    chars = {language: sum(len(text) for text, _ in found) for language, found in joined.items()}
    for table in tables(results, chars):
        print("", *table.lines(), sep="\n")
    for language, result in results["interlinear"].items() if misses else ():
        print("", language, *worst(result, misses), sep="\n")


if __name__ == "__main__":
    typer.run(main)
