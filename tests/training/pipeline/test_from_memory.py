"""`adapt --from-memory`: a bundle replaced in its place by one that has learnt what users corrected."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import tuned
from tuned import OWN, begin, loaded, ship
from typer.testing import CliRunner

from model.quality import LogisticModel, QualityModel
from training.__main__ import cli
from training.corpora.corpus import Pair
from training.evaluation.calibrate import write_config

pytestmark = pytest.mark.slow


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    begin(tmp_path, monkeypatch)
    return ship(monkeypatch)


def _tmx(pairs: list[Pair]) -> str:
    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>{pair.source}</seg></tuv><tuv xml:lang="fr"><seg>{pair.target}</seg></tuv></tu>'
        for pair in pairs
    )
    header = '<header srclang="en" segtype="sentence" datatype="plaintext" adminlang="en" creationtool="x"/>'
    return f'<?xml version="1.0"?><tmx version="1.4">{header}<body>{units}</body></tmx>'


def _adapt(*options: str) -> tuple[int, str]:
    given = ["--from-memory", "corrections.tmx", "--bundle", "bundles/shipped", "--device", "cpu", "--threads", "1"]
    result = CliRunner().invoke(cli, ["adapt", *given, *options], catch_exceptions=False)
    return result.exit_code, result.output


def test_adapting_replaces_the_bundle_and_shows_both_sets_before_and_after(shipped: Path) -> None:
    Path("corrections.tmx").write_text(_tmx(OWN))
    before = loaded("shipped")
    code, said = _adapt("--accept-general-loss", "100", "--accept-loss", "100")
    assert code == 0, said
    after = loaded("shipped")
    assert after.checksum != before.checksum
    assert f"bundles/shipped was {before.name} and is {after.name}" in said
    assert after.config["training"]["initial"]["bundle"] == before.name
    assert "before" in said and "after" in said
    assert not Path("runs/adapt-bundles-shipped").exists()


def test_an_adapted_bundle_keeps_its_estimates_of_quality_where_corrections_say_nothing(
    shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This untrained model completes no translation, so that nothing could be fitted."""
    monkeypatch.setattr(tuned, "END_BIAS", -9)
    shutil.rmtree(shipped)
    tuned.save_shipped(shipped)
    estimates = QualityModel(LogisticModel(-1.9, (3.6, -1.4, 0.5, 0.0, 0.0, 0.0)), LogisticModel(0.3, (0.5, -0.7)))
    measured = {"set": "dev", "sentences": 9, "good": 0.5, "error": 0.1, "auroc": None, "bins": [], "risks": [0.5] * 10}
    entry = {**estimates.to_dict(), "good_chrf": 75.0, "fitted_on": [], "measured": [measured]}
    before = loaded("shipped")
    write_config(before.folder, {**before.config, "quality": {before.direction.pair: entry}})
    Path("corrections.tmx").write_text(_tmx(OWN))
    code, said = _adapt("--accept-general-loss", "100", "--accept-loss", "100")
    assert code == 0, said
    after = loaded("shipped")
    assert after.checksum != before.checksum
    assert after.quality == estimates
    assert "quality" not in after.config["training"]["initial"]


def test_a_file_that_is_no_memory_changes_nothing(shipped: Path) -> None:
    Path("corrections.tmx").write_text("not a memory")
    before = loaded("shipped").checksum
    code, said = _adapt()
    assert code == 1
    assert "error: " in said
    assert loaded("shipped").checksum == before
