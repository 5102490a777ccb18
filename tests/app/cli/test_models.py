"""`interlinear models`, by an importer that follows a script."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from shared_fixtures import make_bundle
from typer.testing import CliRunner, Result

from app.__main__ import cli
from app.cli.offline_engine import Command, load_command_settings
from app.published.folder import ModelsFolder
from app.services.startup import load_catalogue
from tests.app.published.test_installer import COMPLETE, DONE, SCRIPTED, Site

pytestmark = pytest.mark.slow


class Commands:
    """`interlinear models` in an environment of its own."""

    def __init__(self, site: Site, patch: pytest.MonkeyPatch) -> None:
        self.site = site
        command = [sys.executable, str(SCRIPTED), str(site.script)]
        patch.setattr("app.published.importer.importer_command", lambda: command)
        patch.setattr("app.services.trainer.NICENESS", 0)  # other tests would keep it waiting
        patch.setenv("INTERLINEAR_BUNDLES", str(site.bundles))
        patch.setenv("INTERLINEAR_MODELS_DIR", str(site.models))
        patch.setenv("INTERLINEAR_MODELS", "firefox:es")  # not what the commands are for
        patch.setenv("INTERLINEAR_DEVICE", "cpu")

    def run(self, *words: str, code: int = 0) -> Result:
        result = CliRunner().invoke(cli, ["models", *words])
        assert result.exit_code == code, result.output
        return result


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    return Commands(Site(tmp_path), monkeypatch)


def rows(result: Result) -> list[list[str]]:
    return [line.split() for line in result.stdout.splitlines()]


def test_a_model_is_added_listed_and_removed(commands: Commands) -> None:
    added = commands.run("add", "firefox:en-fr")
    assert "installed firefox:en-fr@base-memory, licence MPL-2.0" in added.stdout
    listed = commands.run("list")
    assert rows(listed)[1][:2] == ["firefox:en-fr@base-memory", "served,"]
    assert "40.5" in rows(listed)[1]
    assert rows(listed)[2][:4] == ["en-fr", "replaced", "by", "firefox:en-fr@base-memory,"]
    assert "removed en-fr" in commands.run("remove", "en-fr").stdout
    assert rows(commands.run("list"))[1][:2] == ["en-fr", "served,"]
    assert "there is none" in commands.run("remove", "en-fr", code=1).stderr


def test_models_of_a_language_are_listed_with_size_licence_and_scores(commands: Commands) -> None:
    found = rows(commands.run("list", "en-es"))
    assert found[0][:4] == ["model", "state", "MB", "licence"]
    best = found[1]
    assert best[0].startswith("firefox:en-es@") and best[1] == "available" and best[3] == "MPL-2.0"
    assert float(best[2]) > 5 and 20 < float(best[4]) < 60 and 0.7 < float(best[5]) < 1
    assert {"en-es" in row[0] for row in found[1:]} == {True}
    assert len(rows(commands.run("list", "es"))) > len(found)


def test_one_language_is_both_ways_with_english(commands: Commands) -> None:
    lines = [*COMPLETE, {"copy": "fr-en"}]
    commands.site.publish("firefox:fr-en", lines)
    commands.run("add", "firefox:fr")
    assert set(ModelsFolder(commands.site.models).installed()) == {
        commands.site.models / one for one in ("en-fr", "fr-en")
    }


def test_a_failure_is_said_in_a_line_and_the_others_are_installed(commands: Commands) -> None:
    commands.site.publish("argos:en-de", [{"state": "failed", "error": "no such pair", "passes": True}, {"exit": 1}])
    result = commands.run("add", "argos:en-de", "firefox:en-fr", code=3)
    assert "interlinear: argos:en-de: no such pair" in result.stderr
    assert "installed firefox:en-fr@base-memory" in result.stdout
    assert [job.model for job in ModelsFolder(commands.site.models).jobs()] == ["firefox:en-fr"]


@pytest.mark.parametrize("name", ["nowhere:en-fr", "firefox", "en-fr"])
def test_what_is_no_name_is_refused(commands: Commands, name: str) -> None:
    assert f"{name} is no published model" in commands.run("add", name, code=2).stderr
    assert not commands.site.models.exists()


def test_a_folder_that_cannot_be_written_is_said(commands: Commands) -> None:
    commands.site.models.write_text("a file")
    assert "cannot be written" in commands.run("add", "firefox:en-fr", code=1).stderr


def test_an_accepted_licence_reaches_the_importer(commands: Commands) -> None:
    commands.run("add", "firefox:en-fr", "--accept-licence")
    assert "--accept-licence" in commands.site.runs()[0]


@pytest.mark.slow
def test_newer_weights_are_compared_and_taken_only_if_wanted(commands: Commands) -> None:
    assert "no model is installed" in commands.run("update").stdout
    commands.run("add", "firefox:en-fr")
    weights = commands.site.models / "en-fr" / "model.safetensors"
    before = weights.read_bytes()
    assert "firefox:en-fr@base-memory is what the registry has" in commands.run("update").stdout
    commands.site.publish("firefox:en-fr", [*COMPLETE, {**DONE[-1], "is_newer": True}], seed=3)
    shown = commands.run("update", "en-fr").stdout
    assert "of its 1 samples are translated alike" in shown
    assert "BLEU 40.5" in shown
    assert "left as it was" in shown
    assert weights.read_bytes() == before
    assert "replaced" in commands.run("update", "en-fr", "--yes").stdout
    assert weights.read_bytes() != before
    assert sorted(path.name for path in commands.site.models.iterdir()) == [".jobs", ".lock", "en-fr"]


def test_while_a_model_is_being_installed_none_is_removed_or_updated(commands: Commands) -> None:
    commands.run("add", "firefox:en-fr")
    with ModelsFolder(commands.site.models).lock() as is_held:
        assert is_held
        for words in (["remove", "en-fr"], ["update"]):
            assert "is being installed" in commands.run(*words, code=1).stderr


def test_named_bundles_are_not_replaced_by_installed_models(commands: Commands, tmp_path: Path) -> None:
    commands.run("add", "firefox:en-fr")
    make_bundle(tmp_path / "mine", seed=7)
    own, default = (
        load_catalogue(load_command_settings(Command("en", "fr", bundles=bundles))).find("en", "fr").folder
        for bundles in (str(tmp_path / "mine"), None)
    )
    assert (own, default) == (tmp_path / "mine", commands.site.models / "en-fr")
