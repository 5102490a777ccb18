"""Replays the correction of a repetitive set: each text is translated, then its reference is remembered.

    python -m benchmarks.memory_replay --pairs laws.tsv --source en --target fr
    python -m benchmarks.memory_replay --pairs laws.tsv --source en --target fr --url http://127.0.0.1:8000

With the URL of a service without a translation memory, its translations are compared as well: the edit distance to the
reference, in characters per 100 of the reference, of the model alone and of the model after the memory.

An exact answer that is not the reference is *inconsistent* if the text came before, unchanged: then the set itself
translates it in two ways. Otherwise it is *other*: the text differs from an earlier one in numbers or placeholders, and
the reference has other words, perhaps only another translator's, or other values. *Wrong values* are those among them
whose numbers and placeholders are not the reference's.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Annotated

import httpx
import typer
from rapidfuzz.distance import Levenshtein

from app.text.memory_index import MemoryIndex, Pair
from app.text.memory_slots import abstract, normalise

BATCH = 50
TIMEOUT_S = 120.0


@dataclass
class Replay:
    """What came of a replay."""

    texts: int = 0
    exact: int = 0
    same_text: int = 0
    """Exact answers to a text that came before, unchanged; the others have other numbers or placeholders."""
    inconsistent: int = 0
    other: list[tuple[str, str, str]] = field(default_factory=list)
    """Text, answer and reference."""
    wrong_values: int = 0
    reference_chars: int = 0
    edits: int = 0
    """From the answers to the references, in characters."""
    edits_without: int = 0


def replay(pairs: list[tuple[str, str]], source: str, target: str, model: list[str] | None = None) -> Replay:
    """Corrects the pairs in order. `model`: the model's translation of each text."""
    index, known, done = MemoryIndex(source, target), dict[str, set[str]](), Replay()
    for number, (text, reference) in enumerate(pairs):
        reference, text = normalise(reference), normalise(text)
        answer = index.exact(text, index.version)
        done.texts += 1
        if answer is not None:
            done.exact += 1
            done.same_text += text in known
            if answer != reference:
                if text in known:
                    done.inconsistent += 1
                else:
                    done.other.append((text, answer, reference))
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
    skip: int = 0,
    count: int = 10_000,
    show: Annotated[int, typer.Option(help="Other answers to print")] = 0,
) -> None:
    found = list(islice(read_pairs(pairs), skip, skip + count))
    model = translations(url, [text for text, _ in found], source, target) if url else None
    done = replay(found, source, target, model)
    print(
        f"{done.texts} texts: {done.exact} exact, of which {done.same_text} came before; {done.inconsistent} "
        f"inconsistent; {len(done.other)} other ({len(done.other) / done.texts:.2%} of all texts); "
        f"{done.wrong_values} with wrong values"
    )
    if model:
        chars = done.reference_chars / 100
        print(
            f"edits per 100 characters: {done.edits_without / chars:.1f} without, {done.edits / chars:.1f} with memory"
        )
    for text, answer, reference in done.other[:show]:
        print(f"{text}\n  {answer}\n  {reference}")


if __name__ == "__main__":
    typer.run(main)
