"""Measures what a translation through another language loses: BLEU and chrF of each pair, beside its two halves' BLEU.

    python -m benchmarks.pivot --pairs FOLDER [--bundles bundles] [--lines 200] [--only fr-de ...]

FOLDER has files of English sentences and their translations, en-fr.tsv and the like. Those of two languages are joined
by their English lines. "first": from the source into English; "second": from the corpus's English, not from the first
translation, into the target. Everything is translated as served. Needs the trainer's dependencies.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import sacrebleu

from app.cli.offline_engine import Command, open_session
from app.engine.launch import Launch, WorkerProcess
from benchmarks.table import Table
from training.corpora.corpus import read_pairs
from training.evaluation.scoring import bleu_metric

PIVOT = "en"


def read_corpora(folder: Path) -> dict[str, dict[str, str]]:
    """The translations of the English lines, by language."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(folder.glob(f"{PIVOT}-*.tsv")):
        pairs, _ = read_pairs(path, PIVOT, path.stem.removeprefix(f"{PIVOT}-"))
        found[path.stem.removeprefix(f"{PIVOT}-")] = {pair.source: pair.target for pair in pairs}
    return found


def joined(corpora: dict[str, dict[str, str]], source: str, target: str, lines: int) -> list[tuple[str, str, str]]:
    """Up to `lines` sentences that both languages have: source, English, target."""
    sources, targets = corpora[source], corpora[target]
    return [(sources[english], english, targets[english]) for english in sources if english in targets][:lines]


def translate(command: Command, texts: Sequence[str], launch: Launch) -> list[str]:
    """Each text's translation as served; a failed text is empty."""

    async def all_at_once() -> list[str]:
        async with open_session(command, launch) as session:
            return [done.text or "" for done in await session.translate(texts)]

    return asyncio.run(all_at_once())


def measure(
    bundles: str,
    corpora: dict[str, dict[str, str]],
    pairs: Sequence[tuple[str, str]],
    lines: int,
    launch: Launch = WorkerProcess,
) -> Table:
    """A row for each pair."""
    table = Table("Through English", ["sentences", "BLEU", "chrF", "first BLEU", "second BLEU"])
    for source, target in pairs:
        sentences = joined(corpora, source, target, lines)
        given, english, references = ([line[side] for line in sentences] for side in range(3))

        def translated(of: str, to: str, texts: Sequence[str]) -> list[str]:
            return translate(Command(of, to, bundles=bundles, workers=1), texts, launch)

        found = translated(source, target, given)
        table.rows[f"{source}-{target}"] = [
            len(sentences),
            bleu_metric(target).corpus_score(found, [references]).score,
            sacrebleu.CHRF().corpus_score(found, [references]).score,
            bleu_metric(PIVOT).corpus_score(translated(source, PIVOT, given), [english]).score,
            bleu_metric(target).corpus_score(translated(PIVOT, target, english), [references]).score,
        ]
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure what translations through English lose.")
    parser.add_argument("--pairs", type=Path, required=True, help="a folder of en-fr.tsv and the like")
    parser.add_argument("--bundles", default="bundles", help="folders of bundles, separated by commas")
    parser.add_argument("--lines", type=int, default=200, help="sentences of each pair, from the start of the file")
    parser.add_argument("--only", nargs="+", help="pairs to measure, such as fr-de; all by default")
    options = parser.parse_args(arguments)
    corpora = read_corpora(options.pairs)
    pairs = [pair for pair in permutations(corpora, 2) if not options.only or "-".join(pair) in options.only]
    print("\n".join(measure(options.bundles, corpora, pairs, options.lines).lines()))


if __name__ == "__main__":
    main()
