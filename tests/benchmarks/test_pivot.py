"""The pairs through English consist of the right lines, and each is scored beside its two steps."""

from __future__ import annotations

from pathlib import Path

import pytest
from shared_fixtures import make_bundle

from app.engine.launch import InProcessWorker
from benchmarks.pivot import joined, measure, read_corpora
from training.corpora.corpus import Pair, write_pairs

pytestmark = pytest.mark.slow

ENGLISH = ["Hello.", "How are you?", "The cat sleeps."]


def test_each_pair_is_scored_beside_both_of_its_steps(tmp_path: Path) -> None:
    for source, target in (("fr", "en"), ("en", "fr"), ("en", "de"), ("de", "en")):
        make_bundle(tmp_path / "bundles" / f"{source}-{target}", source, target)
    write_pairs(tmp_path / "en-fr.tsv", [Pair(line, f"f {line}") for line in ENGLISH])
    write_pairs(tmp_path / "en-de.tsv", [Pair(line, f"d {line}") for line in ENGLISH[::-1][:2]])
    corpora = read_corpora(tmp_path)
    assert joined(corpora, "fr", "de", 200) == [(f"f {line}", line, f"d {line}") for line in ENGLISH[1:]]
    assert len(joined(corpora, "de", "fr", 1)) == 1
    table = measure(str(tmp_path / "bundles"), corpora, [("fr", "de")], 2, InProcessWorker)
    [(pair, row)] = table.rows.items()
    assert (pair, len(row), row[0]) == ("fr-de", len(table.columns), 2)
