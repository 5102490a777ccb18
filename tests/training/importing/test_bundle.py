"""The command `import`: from a published model to a bundle that the service measured."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from shared_fixtures import SHIPPED, make_bundle
from typer.testing import CliRunner

from model.bundle import open_bundle
from model.bundle_files import BundleError
from model.directions import Directions, TargetPrefixes
from training.__main__ import cli
from training.export.ctranslate2 import ConvertOptions, convert_bundle
from training.importing.bundle import make_bundle as make_imported
from training.importing.ctranslate2 import read_ctranslate2
from training.importing.ctranslate2_files import is_ctranslate2
from training.importing.errors import ImportFault
from training.importing.model import ImportedModel
from training.importing.options import ImportOptions
from training.importing.report import Report

pytestmark = pytest.mark.slow


def test_command_makes_a_bundle_with_the_scores_of_the_service_on_its_card(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "en-fr")
    convert_bundle(ConvertOptions(bundle, tmp_path / "ct2"), say=lambda _: None)
    pairs, out = tmp_path / "pairs.tsv", tmp_path / "imported" / "en-fr"
    pairs.write_text("I like it here.\tJ'aime être ici.\nWe like Boston.\tNous aimons Boston.\n")
    arguments = [str(tmp_path / "ct2"), "--source", "en", "--target", "fr", "--out", str(out), "--threads", "1"]
    result = CliRunner().invoke(cli, ["import", *arguments, "--check", str(pairs), "--licence", "CC0-1.0"])
    assert result.exit_code == 0, result.output
    assert "BLEU" in result.output
    assert "quality: uncalibrated" in result.output
    assert open_bundle(out).quality is None
    card, config = (out / "README.md").read_text(), json.loads((out / "config.json").read_text())
    assert "| pairs.tsv | 2 | BLEU |" in card
    assert "Names as placeholders, in 1 sentences of pairs.tsv: 1 kept" in card
    assert "CC0-1.0" in card
    assert {metric["metric"] for metric in config["metrics"]} == {"BLEU", "chrF"}
    assert config["training"]["imported"]["family"] == "CTranslate2"
    assert "tags of other languages" not in card
    again = CliRunner().invoke(cli, ["import", *arguments])
    assert again.exit_code == 1
    assert "--replace" in again.output


@pytest.mark.bundle
def test_imported_bundle_estimates_quality_if_pairs_were_given(tmp_path: Path) -> None:
    convert_bundle(ConvertOptions(SHIPPED / "en-fr", tmp_path / "ct2"), say=lambda _: None)
    pairs, out = tmp_path / "dev.tsv", tmp_path / "en-fr"
    pairs.write_text("".join(f"I have {n} small cats.\tJ'ai {n} petits chats.\n" for n in range(60)))
    arguments = [str(tmp_path / "ct2"), "--source", "en", "--target", "fr", "--out", str(out), "--threads", "1"]
    given = CliRunner().invoke(cli, ["import", *arguments, "--calibrate", str(pairs)])
    assert given.exit_code == 0, given.output
    assert "uncalibrated" not in given.output
    assert open_bundle(out).quality is not None
    assert "fitted on dev.tsv (60 pairs)" in (out / "README.md").read_text()


def test_a_model_of_several_directions_becomes_one_bundle_whose_samples_begin_with_prefixes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert_bundle(ConvertOptions(make_bundle(tmp_path / "en-fr"), tmp_path / "ct2"), say=lambda _: None)
    targets = {"fr": TargetPrefixes(target_prefix=(7,)), "de": TargetPrefixes((9,), (8,)), "en": TargetPrefixes()}
    directions = Directions({"en": (5,), "fr": (6,)}, targets)

    def read(path: Path, source: str, target: str, *_: str) -> ImportedModel:
        return dataclasses.replace(read_ctranslate2(path, source, target), directions=directions)

    monkeypatch.setattr("training.importing.families.FAMILIES", ((is_ctranslate2, read),))
    options = ImportOptions(tmp_path / "ct2", "en", "de", tmp_path / "several", threads=1)
    make_imported(options, None, Report(lambda _: None))  # checks the samples
    made = open_bundle(tmp_path / "several")
    assert (made.name, made.directions) == (f"mul-mul@{made.checksum[:12]}", directions)
    assert made.spec.samples
    for sample in made.spec.samples:
        assert (sample.source_ids[:2], sample.target_ids[0], sample.target_prefix) == ((5, 9), 8, (8,))
    assert (tmp_path / "several" / "README.md").read_text().startswith("# English, French to French, German, English")
    with pytest.raises(ImportFault, match="it does not translate from en to es"):
        make_imported(dataclasses.replace(options, target="es", out=tmp_path / "es"), None, Report(lambda _: None))
    with pytest.raises(BundleError, match="by prefixes, which is not supported here"):
        convert_bundle(ConvertOptions(tmp_path / "several", tmp_path / "again"), say=lambda _: None)


def test_command_doubts_languages_that_the_vocabulary_does_not_name(tmp_path: Path) -> None:
    convert_bundle(ConvertOptions(make_bundle(tmp_path / "en-fr"), tmp_path / "ct2"), say=lambda _: None)
    arguments = ["--source", "en", "--target", "de", "--out", str(tmp_path / "en-de"), "--threads", "1"]
    result = CliRunner().invoke(cli, ["import", str(tmp_path / "ct2"), *arguments])
    assert "tags of other languages, fr: are --source and --target right?" in result.output


def test_command_refuses_what_it_cannot_import_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"\x80\x02not a model")
    arguments = ["--source", "en", "--target", "fr", "--out", str(tmp_path / "en-fr")]
    result = CliRunner().invoke(cli, ["import", str(tmp_path), *arguments])
    assert result.exit_code == 1
    assert result.output.count("\n") == 1
    same = CliRunner().invoke(cli, ["import", str(tmp_path), "--source", "en", "--target", "en", "--out", "x"])
    assert "--source and --target are both en" in same.output
