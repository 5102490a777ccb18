"""Shows twenty sentences of news, which are ours, as two bundles of a direction translate them.

    python -m benchmarks.news bundles/es-en [--before FOLDER]       a Markdown table: source, before, now

The service translates, as `evaluate` measures. No score: read them.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from model.bundle import open_bundle
from training.evaluation.service_command import translate_served

SENTENCES = Path(__file__).resolve().parent.parent / "recipes" / "news.tsv"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--before", type=Path, help="another bundle of the same direction")
    options = parser.parse_args()
    bundles = [bundle for bundle in (options.before, options.bundle) if bundle]
    source, target = (getattr(open_bundle(options.bundle), name) for name in ("source", "target"))
    sentences = news(source)
    columns = [sentences, *(translate_served(bundle, (source, target), sentences) for bundle in bundles)]
    print("\n".join(table([source, *(open_bundle(bundle).name for bundle in bundles)], columns)))


def news(language: str) -> list[str]:
    """The sentences in `language`. Raises KeyError if they are not in it."""
    with SENTENCES.open(encoding="utf-8", newline="") as file:
        return [row[language] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def table(names: list[str], columns: list[list[str]]) -> list[str]:
    """Markdown, a row for each sentence."""
    rows = [names, ["---"] * len(names), *map(list, zip(*columns, strict=True))]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]


if __name__ == "__main__":
    main()
