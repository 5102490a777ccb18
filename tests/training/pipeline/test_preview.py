"""`run --init --dry-run`: what fine-tuning would learn, hold out and measure, without learning anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tuned import GENERAL, OWN, begin, run, ship, tune

from training.corpora.corpus import write_pairs

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(tmp_path, monkeypatch)
    ship(monkeypatch)


def test_dry_run_counts_what_the_run_learns_holds_out_and_measures() -> None:
    write_pairs(Path("own.tsv"), [*OWN, *OWN[:3]])
    write_pairs(Path("elsewhere.tsv"), GENERAL[:20])
    options = ("--general", "elsewhere.tsv", "--minutes", "60", "--accept-general-loss", "1.5")
    said = tune(*options, "--dry-run")
    plan = json.loads(Path("runs/bundles-mine/preview.json").read_text())
    assert (plan["general"], plan["accepted_loss"], plan["minutes"]) == ({"elsewhere.tsv": 20}, 1.5, 60)
    assert plan["left_out"] == {"a duplicate pair": 3}
    assert f"learns {plan['pairs']} pairs, and rehearses {plan['rehearsed']} general sentences" in said
    assert f"measured before and after: {plan['held_out']} of the pairs, held out; elsewhere.tsv: 20" in said
    assert not Path("bundles/mine").exists()
    assert [path.name for path in Path("runs/bundles-mine").iterdir()] == ["preview.json"]
    tune(*options)
    record = json.loads(Path("bundles/mine/config.json").read_text())
    own = record["training"]["corpora"][0]
    assert (own["pairs"], record["metrics"][0]["sentences"]) == (plan["pairs"], plan["held_out"])


def test_dry_run_changes_nothing_of_a_run_that_has_begun() -> None:
    tune()
    before = {path: path.read_bytes() for path in Path("runs/bundles-mine").rglob("*") if path.is_file()}
    tune("--dry-run", "--rehearse", "0")
    assert {path: path.read_bytes() for path in before} == before
    assert "nothing to do" in tune("--replace")


def test_dry_run_needs_a_bundle_to_start_from() -> None:
    options = ("--pairs", "own.tsv", "--source", "en", "--target", "fr", "--out", "bundles/mine", "--dry-run")
    assert "--dry-run is for fine-tuning: give the bundle to start from with --init" in run(*options, code=1)
