"""Measures on which words a tag ends up: one word of a sentence is bold, and its translation is known.

    python -m benchmarks.bold --corpora DIR                     a table of the directions in bundles/
    python -m benchmarks.bold --corpora DIR --pair en-fr --show 20

The words are pairs of single words from user-interface strings, word lists and names; the sentences are those of the
development sets in which the word occurs once, and whose translation has one of the word's translations once. A
language of ideographs is compared by characters. It counts how often exactly that translation is bold, how often not
a letter of it, and how often a neighbour is bold too.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from html import escape, unescape
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from benchmarks.cores import processor
from benchmarks.kept_text import Direction, directions, translating
from benchmarks.table import Table
from training.corpora.corpus import read_pairs

WORDS = ("ui.train.tsv.xz", "wordnet.train.tsv.xz", "names.train.tsv.xz", "tatoeba.train.tsv.xz")
"""Files of a folder of a pair of languages that have pairs of single words, where they exist."""
DEVELOPMENT = ("tatoeba.dev.tsv", "newstest*.dev.tsv")
MIN_LETTERS = 3
MAX_EACH = 3
"""How many sentences one word may have."""
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_BOLD = re.compile(r"<b>(.*?)</b>", re.DOTALL)

Lexicon = dict[str, set[str]]
"""The translations of a word, all in small letters."""


class Case(NamedTuple):
    """A sentence, the place of its word, and the translations of that."""

    text: str
    start: int
    end: int
    translations: frozenset[str]

    @property
    def html(self) -> str:
        before, word, after = self.text[: self.start], self.text[self.start : self.end], self.text[self.end :]
        return f"{escape(before, quote=False)}<b>{escape(word, quote=False)}</b>{escape(after, quote=False)}"


class Counts(NamedTuple):
    exact: int = 0
    missed: int = 0
    with_neighbour: int = 0

    @property
    def total(self) -> int:
        return sum(self)


def words_of(text: str, language: str) -> list[str]:
    """The words of a text in small letters; ideographs have no blanks between words, so a text of them is one."""
    return [text.casefold()] if language == "zh" and text.isalpha() else _WORD.findall(text.casefold())


def lexicon(pairs: Iterable[tuple[str, str]], source: str, target: str) -> Lexicon:
    """The translations of single words by single words."""
    found: Lexicon = defaultdict(set)
    for one, other in pairs:
        word, translation = words_of(one.rstrip(" .!。！"), source), words_of(other.rstrip(" .!。！"), target)
        if len(word) == len(translation) == 1:
            found[word[0]].add(translation[0])
    return found


def places(text: str, word: str, language: str) -> list[tuple[int, int]]:
    """Where `text` has the word, in any case."""
    edge = "" if language == "zh" else r"\b"
    return [found.span() for found in re.finditer(f"{edge}{re.escape(word)}{edge}", text, re.IGNORECASE)]


def cases(texts: Iterable[str], known: Lexicon, source: str) -> Iterator[Case]:
    """The sentences with a known word that they have once; few for each word, so that no word decides the figure."""
    used: dict[str, int] = defaultdict(int)
    longest_first = sorted(known, key=len, reverse=True)
    for text in texts:
        candidates = words_of(text, source) if source != "zh" else (word for word in longest_first if word in text)
        for word in candidates:
            is_long = len(word) >= (2 if source == "zh" else MIN_LETTERS)
            if not is_long or word not in known or used[word] >= MAX_EACH:
                continue
            if len(found := places(text, word, source)) == 1:
                used[word] += 1
                yield Case(text, *found[0], frozenset(known[word]))
                break


def judge(case: Case, translation: str, target: str) -> Counts | None:
    """What is bold in the translation of a case; None if it does not have one of the translations exactly once."""
    plain = _plain(translation)
    found = [span for word in case.translations for span in places(plain, word, target)]
    if len(found) != 1:
        return None
    bold = {place for span in _bold_spans(translation) for place in range(*span) if plain[place].isalnum()}
    wanted = {place for place in range(*found[0]) if plain[place].isalnum()}
    if not bold & wanted:
        return Counts(missed=1)
    return Counts(exact=1) if bold == wanted else Counts(with_neighbour=1)


def _plain(html: str) -> str:
    return unescape(re.sub(r"</?b>", "", html))


def _bold_spans(translation: str) -> Iterator[tuple[int, int]]:
    """The characters of the text without tags and entities that are bold."""
    for found in _BOLD.finditer(translation):
        start = len(_plain(translation[: found.start()]))
        yield start, start + len(_plain(found[1]))


async def measure(direction: Direction, chosen: Sequence[Case], show: int = 0) -> Counts:
    """Prints up to `show` translations whose tag is not on the word alone."""
    async with translating(direction, markup=True) as session:
        done = await session.translate([case.html for case in chosen])
    total = Counts()
    for case, one in zip(chosen, done, strict=True):
        if (counts := judge(case, one.text or "", direction.target)) is None:
            continue
        total = Counts(*map(sum, zip(total, counts, strict=True)))
        if show and not counts.exact:
            print(f"{case.html}\n  {one.text}")
            show -= 1
    return total


def cases_of(direction: Direction, corpora: Path) -> list[Case]:
    """The cases that the public corpora of a direction have."""
    is_reversed = direction.source != "en"
    names = (direction.source, direction.target)
    folder = corpora / "-".join(reversed(names) if is_reversed else names)
    words = [pair for name in WORDS if (folder / name).exists() for pair in read_pairs(folder / name)[0]]
    files = [path for pattern in DEVELOPMENT for path in sorted(folder.glob(pattern))]
    files.append(corpora / "flores-dev" / f"{folder.name}.tsv")
    texts = [pair for path in files for pair in read_pairs(path)[0]]
    sided = [(target, source) if is_reversed else (source, target) for source, target in words]
    known = lexicon(sided, *names)
    return list(cases(dict.fromkeys(pair[is_reversed] for pair in texts), known, direction.source))


def main(
    corpora: Annotated[Path, typer.Option(help="the folder of public corpora")],
    pair: Annotated[list[str] | None, typer.Option(help="such as en-fr; repeat for more; default: all")] = None,
    bundles: Path = Path("bundles"),
    limit: int = 600,
    show: int = 0,
) -> None:
    served = [one for one in directions(bundles) if not pair or f"{one.source}-{one.target}" in pair]
    table = Table("a bold word", ["sentences", "exactly, %", "not at all, %"], note=processor())
    for direction in served:
        chosen = cases_of(direction, corpora)[:limit]
        counts = asyncio.run(measure(direction, chosen, show))
        shares = [100 * part / counts.total if counts.total else None for part in counts[:2]]
        table.rows[f"{direction.source}-{direction.target}"] = [counts.total, *shares]
    print("\n".join(table.lines()))


if __name__ == "__main__":
    typer.run(main)
