"""Replays the correction of a repetitive set: each text is translated, then its reference is remembered.

    python -m benchmarks.memory_replay --pairs laws.tsv --source en --target fr
    python -m benchmarks.memory_replay --pairs laws.tsv --source en --target fr --without trained.tsv \\
        --url http://127.0.0.1:8000

`--without` leaves out the texts of other files, such as those that the model was trained on. With the URL of a service,
its translations, made without its memory, are compared as well: the edit distance to the reference, in characters per
100 of the reference, of the model alone and of the model after the memory.

An exact answer is *verbatim* if the text came before, unchanged, and else *substituted*: numbers or placeholders are
others. One that is not the reference is *inconsistent* if it is verbatim, since the set itself translates the text in
two ways, and *other* if it is substituted: the reference has other words, perhaps only another translator's, or other
values. *Wrong values* are those among them whose numbers and placeholders are not the reference's. Which of the other
answers are wrong, only a reader can tell: `--show` prints them.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Annotated, NamedTuple

import httpx
import typer
from rapidfuzz.distance import Levenshtein

from app.text.memory_index import MemoryIndex, Pair
from app.text.memory_slots import abstract, normalise

BATCH = 50
TIMEOUT_S = 120.0


class Answer(NamedTuple):
    """An exact answer that is not the reference."""

    text: str
    answer: str
    reference: str


@dataclass
class Replay:
    """What came of a replay."""

    texts: int = 0
    exact: int = 0
    verbatim: int = 0
    inconsistent: list[Answer] = field(default_factory=list)
    other: list[Answer] = field(default_factory=list)
    wrong_values: int = 0
    reference_chars: int = 0
    edits: int = 0
    """From the answers to the references, in characters."""
    edits_without: int = 0

    @property
    def substituted(self) -> int:
        return self.exact - self.verbatim


def replay(pairs: list[tuple[str, str]], source: str, target: str, model: list[str] | None = None) -> Replay:
    """Corrects the pairs in order. `model`: the model's translation of each text."""
    index, known, done = MemoryIndex(source, target), dict[str, set[str]](), Replay()
    for number, (text, reference) in enumerate(pairs):
        reference, text = normalise(reference), normalise(text)
        answer = index.exact(text, index.version)
        done.texts += 1
        if answer is not None:
            done.exact += 1
            done.verbatim += text in known
            if answer != reference:
                if text in known:
                    done.inconsistent.append(Answer(text, answer, reference))
                else:
                    done.other.append(Answer(text, answer, reference))
                    done.wrong_values += _values(answer, target, source) != _values(reference, target, source)
        if model:
            done.reference_chars += len(reference)
            done.edits_without += Levenshtein.distance(model[number], reference)
            done.edits += Levenshtein.distance(model[number] if answer is None else answer, reference)
        known.setdefault(text, set()).add(reference)
        index.put(Pair(text, reference, float(number)), index.version + 1)
    return done


def _values(text: str, language: str, other: str) -> list[str]:
    return sorted(slot.value for slot in abstract(text, language, other).slots)


def read_pairs(path: Path) -> Iterator[tuple[str, str]]:
    """The lines of a tab-separated file, perhaps compressed (.xz)."""
    with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as lines:
        for line in lines:
            source, _, rest = line.rstrip("\n").partition("\t")
            target = rest.partition("\t")[0]
            if source.strip() and target.strip():
                yield source, target


def translations(url: str, texts: list[str], source: str, target: str) -> list[str]:
    """The service's translations, without its memory."""
    found: list[str] = []
    with httpx.Client(base_url=url, timeout=TIMEOUT_S) as client:
        for start in range(0, len(texts), BATCH):
            body = {"source": source, "target": target, "text": texts[start : start + BATCH], "memory": "off"}
            items = client.post("/translate", json=body).raise_for_status().json()["translations"]
            found += [item["text"] or "" for item in items]
    return found


def main(
    pairs: Annotated[Path, typer.Option(help="Lines of a text, a tab and its translation, perhaps .xz")],
    source: Annotated[str, typer.Option()],
    target: Annotated[str, typer.Option()],
    url: Annotated[str | None, typer.Option(help="A service whose translations to compare")] = None,
    without: Annotated[list[Path] | None, typer.Option(help="Files whose texts to leave out")] = None,
    skip: int = 0,
    count: int = 10_000,
    show: Annotated[int, typer.Option(help="Answers of each kind to print")] = 0,
) -> None:
    unwanted = {_compared(text) for path in without or () for text, _ in read_pairs(path)}
    new = (pair for pair in read_pairs(pairs) if _compared(pair[0]) not in unwanted)
    found = list(islice(new, skip, skip + count))
    model = translations(url, [text for text, _ in found], source, target) if url else None
    done = replay(found, source, target, model)
    print(
        f"{done.texts} texts: {done.exact} exact; {done.verbatim} verbatim, {len(done.inconsistent)} of them "
        f"inconsistent; {done.substituted} substituted, {len(done.other)} of them other, {done.wrong_values} with "
        "wrong values"
    )
    if model:
        chars = done.reference_chars / 100
        print(
            f"edits per 100 characters: {done.edits_without / chars:.1f} without, {done.edits / chars:.1f} with memory"
        )
    for kind, answers in (("other", done.other), ("inconsistent", done.inconsistent)):
        for text, answer, reference in answers[:show]:
            print(f"{kind}: {text}\n  {answer}\n  {reference}")


def _compared(text: str) -> str:
    """What is the same of texts that differ in case, white space and final punctuation."""
    return normalise(text).casefold().rstrip(".!?:;,… ")


if __name__ == "__main__":
    typer.run(main)
