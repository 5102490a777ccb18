"""The command `import`: from a published model to a bundle that the service measured."""

from __future__ import annotations

import json
from pathlib import Path

from shared_fixtures import make_bundle
from typer.testing import CliRunner

from training.__main__ import cli
from training.export.ctranslate2 import ConvertOptions, convert_bundle


def test_command_makes_a_bundle_with_the_scores_of_the_service_on_its_card(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "en-fr")
    convert_bundle(ConvertOptions(bundle, tmp_path / "ct2"), say=lambda _: None)
    pairs, out = tmp_path / "pairs.tsv", tmp_path / "imported" / "en-fr"
    pairs.write_text("I like it here.\tJ'aime être ici.\nWe like Boston.\tNous aimons Boston.\n")
    arguments = [str(tmp_path / "ct2"), "--source", "en", "--target", "fr", "--out", str(out), "--threads", "1"]
    result = CliRunner().invoke(cli, ["import", *arguments, "--check", str(pairs), "--licence", "CC0-1.0"])
    assert result.exit_code == 0, result.output
    assert "BLEU" in result.output
    card, config = (out / "README.md").read_text(), json.loads((out / "config.json").read_text())
    assert "| pairs.tsv | 2 | BLEU |" in card
    assert "Names as placeholders, in 1 sentences of pairs.tsv: 1 kept" in card
    assert "CC0-1.0" in card
    assert {metric["metric"] for metric in config["metrics"]} == {"BLEU", "chrF"}
    assert config["training"]["imported"]["family"] == "CTranslate2"
    again = CliRunner().invoke(cli, ["import", *arguments])
    assert again.exit_code == 1
    assert "--replace" in again.output


def test_command_refuses_what_it_cannot_import_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"\x80\x02not a model")
    arguments = ["--source", "en", "--target", "fr", "--out", str(tmp_path / "en-fr")]
    result = CliRunner().invoke(cli, ["import", str(tmp_path), *arguments])
    assert result.exit_code == 1
    assert result.output.count("\n") == 1
    same = CliRunner().invoke(cli, ["import", str(tmp_path), "--source", "en", "--target", "en", "--out", "x"])
    assert "--source and --target are both en" in same.output
