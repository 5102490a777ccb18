"""Which weights of a fine-tuned bundle are exported: those that keep general quality, or none."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tuned import GENERAL, OWN, REHEARSED, begin, loaded, run, ship, tune, tuned
from typer.testing import CliRunner

from model.bundle_weights import load_bundle
from training.__main__ import cli
from training.adapt import finetune
from training.corpora import general
from training.corpora.corpus import write_pairs
from training.corpora.general import general_pairs, general_pairs_of
from training.data.batches import load_pairs
from training.evaluation.evaluate import DEVELOPMENT, TestSet
from training.evaluation.evaluate import evaluate_set as scored
from training.export import interpolation
from training.export.bundle import ExportOptions

pytestmark = pytest.mark.slow

RUINOUS = ("--learning-rate", "0.9")
RUN = Path("runs/bundles-mine/run")


@pytest.fixture(autouse=True)
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    begin(tmp_path, monkeypatch)
    return ship(monkeypatch)


def know(monkeypatch: pytest.MonkeyPatch, own: int = 1) -> None:
    """Scores of a bundle that is good elsewhere: its general BLEU falls with each step away from it, and rises on the
    user's pairs, or falls there too if `own` is -1."""
    begun = load_bundle(Path("bundles/shipped"), torch.device("cpu")).model.state_dict()

    def evaluate_set(model: Any, tokenizer: Any, limits: Any, target: str, test: TestSet, **more: Any) -> Any:
        result, ours = scored(model, tokenizer, limits, target, test, **more), model.state_dict()
        away = sum(float((ours[name] - begun[name]).norm()) for name in begun)
        lost = 40 * away / (50 + away)
        score = 10 + own * lost if test.name == DEVELOPMENT else 40 - lost
        bleu, *others = result.scores
        return dataclasses.replace(result, scores=[dataclasses.replace(bleu, score=score), *others])

    for module in ("export.interpolation", "adapt.finetune"):
        monkeypatch.setattr(f"training.{module}.evaluate_set", evaluate_set)


@pytest.fixture
def knowing(monkeypatch: pytest.MonkeyPatch) -> None:
    know(monkeypatch)


def chosen() -> dict[str, Any]:
    return dict(loaded("mine").config["training"]["tradeoff"])


@pytest.mark.usefixtures("knowing")
def test_nothing_is_exported_if_every_choice_loses_too_much_and_the_error_says_what_to_do() -> None:
    output = tune(*RUINOUS, code=1)
    last = output.rstrip("\n").split("\n")[-1]
    assert last.startswith("error: nothing is exported: elsewhere it would lose ")
    assert "--accept-general-loss" in last
    assert not Path("bundles/mine").exists()
    assert (RUN / "tradeoff.png").exists()
    log = (RUN / "log.csv").read_text()
    assert "gained" in tune(*RUINOUS, "--accept-general-loss", "100")
    assert (RUN / "log.csv").read_text() == log
    assert "nothing to do" in tune(*RUINOUS, "--accept-general-loss", "100", "--replace")


@pytest.mark.usefixtures("knowing")
def test_the_best_weights_within_the_accepted_loss_are_exported() -> None:
    tune("--learning-rate", "0.01", "--accept-general-loss", "100")
    points = chosen()["points"]
    assert [point["blend"] for point in points] == sorted(point["blend"] for point in points)
    before = points[0]["general_bleu"]["general set"]
    accepted = before - points[1]["general_bleu"]["general set"]
    tune("--learning-rate", "0.01", "--accept-general-loss", str(accepted + 0.01), "--replace")
    best = chosen()["blend"]
    assert 0 < best < 1
    ours, theirs = (loaded(name).model.state_dict() for name in ("mine", "shipped"))
    assert not any(torch.equal(ours[name], theirs[name]) for name in ours if ours[name].dim() > 1)
    losses = {point["blend"]: before - point["general_bleu"]["general set"] for point in chosen()["points"]}
    assert losses[best] <= accepted + 0.01
    assert best == max(share for share, loss in losses.items() if loss <= accepted + 0.01)


def test_weights_that_lose_too_much_are_exported_without_more_training_once_that_is_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    know(monkeypatch, own=-1)
    ruinous = (*RUINOUS, "--accept-general-loss", "100")
    assert "the bundle has the weights that the run began with" in tune(*ruinous)
    ours, theirs = (loaded(name).model.state_dict() for name in ("mine", "shipped"))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    log = (RUN / "log.csv").read_text()
    accepting = (*ruinous, "--accept-loss", "100", "--replace")
    assert "the bundle has the weights" not in tune(*accepting)
    ours = loaded("mine").model.state_dict()
    assert not any(torch.allclose(ours[name], theirs[name]) for name in ours)
    assert (RUN / "log.csv").read_text() == log
    assert "nothing to do" in tune(*accepting)


def test_final_report_has_a_table_of_gains_and_losses_advice_and_a_plot() -> None:
    output = tuned()
    assert "your pairs, held out (20 sentences)" in output
    assert "elsewhere: general set (4 sentences)" in output
    table, advice = output.index("before fine-tuning, as en-fr@"), output.index("\ngained ")
    assert table < advice < output.index("\nto serve it:")
    assert f"is drawn in {RUN}/tradeoff.png" in output
    assert chosen()["advice"] in output


def test_bundles_translations_of_general_sentences_are_rehearsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("training.adapt.rehearsal.translate_greedily", lambda *_: general_pairs("en", "fr")[100:108])
    assert f"translates {REHEARSED} general sentences, for rehearsal" in tune()
    corpora = loaded("mine").config["training"]["corpora"]
    assert [corpus["name"] for corpus in corpora] == ["own.tsv", "rehearsal.tsv"]
    assert loaded("mine").config["training"]["recipe"]["distil"] == finetune.DISTIL_WEIGHT
    pairs, _ = load_pairs(Path("runs/bundles-mine/data"))
    assert pairs.rehearsed is not None and 0 < pairs.rehearsed.sum() < len(pairs)


def test_users_text_is_rehearsed_instead_or_nothing() -> None:
    Path("text.txt").write_text("One sentence.\nAnother one.\n", encoding="utf-8")
    assert "translates 2 general sentences" in tune("--general-text", "text.txt")
    assert "general sentences" not in tune("--rehearse", "0", "--work", "other", "--replace")
    training = loaded("mine").config["training"]
    assert [corpus["name"] for corpus in training["corpora"]] == ["own.tsv"]
    assert training["recipe"]["distil"] == 0


def test_bundle_is_measured_on_the_general_pairs_it_carries_and_passes_them_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    carried = [["The bridge is closed.", "Le pont est fermé."], ["It is raining.", "Il pleut."]]
    Path("bundles/shipped").rename("bundles/before")
    ship(monkeypatch, general=carried)
    assert "elsewhere: general set (2 sentences)" in tune()
    assert loaded("mine").config["general"] == carried
    assert "general" not in loaded("mine").config["training"]["initial"]


def test_bundle_without_general_pairs_gets_ours_or_some_to_measure_by(small_default_size: None) -> None:
    tuned()
    assert loaded("mine").config["general"] == [list(pair) for pair in general_pairs("en", "fr")]
    run("--pairs", "own.tsv", "--source", "sv", "--target", "da", "--out", "bundles/swedish", "--keep", "all")
    pairs = loaded("swedish").config["general"]
    assert 0 < len(pairs) <= len(OWN) and set(map(tuple, pairs)) <= set(OWN)


def test_missing_general_pairs_are_requested_before_any_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("training.adapt.finetune.general_pairs_of", lambda config: [])
    assert "give some with --general FILE" in tune(code=1).rstrip("\n").split("\n")[-1]
    assert not Path("runs/bundles-mine/data").exists()
    write_pairs(Path("elsewhere.tsv"), GENERAL[:9])
    assert "elsewhere: elsewhere.tsv (9 sentences)" in tune("--general", "elsewhere.tsv")
    assert "elsewhere:" not in tune("--accept-general-loss", "100", "--work", "other", "--replace")


def test_run_killed_before_its_export_makes_the_same_choice() -> None:
    tuned("--learning-rate", "0.01")
    before, first = loaded("mine"), chosen()
    record = (RUN / interpolation.CHOICE).read_text()
    Path("bundles/mine").rename("elsewhere")
    (RUN / interpolation.CHOICE).unlink()
    assert "general sentences, for rehearsal" not in tune("--learning-rate", "0.01")
    assert (loaded("mine").checksum, chosen()) == (before.checksum, first)
    assert (RUN / interpolation.CHOICE).read_text() == record


def test_second_export_has_the_chosen_weights_and_one_before_the_choice_fails() -> None:
    tuned("--learning-rate", "0.01")
    export = ["export", "--run", str(RUN), "--data", str(RUN.parent / "data"), "--device", "cpu"]
    assert CliRunner().invoke(cli, [*export, "--out", "bundles/again"]).exit_code == 0
    assert loaded("again").checksum == loaded("mine").checksum
    assert loaded("again").config["training"]["tradeoff"] == chosen()
    (RUN / interpolation.CHOICE).unlink()
    refused = CliRunner().invoke(cli, [*export, "--out", "bundles/third"])
    assert refused.exit_code == 1
    assert "has not chosen its weights yet" in refused.stderr


def test_columns_option_applies_only_to_the_users_pairs() -> None:
    write_pairs(Path("own.tsv"), [pair._replace(source=pair.target, target=pair.source) for pair in OWN])
    tune("--columns", "2,1")
    rehearsed = Path("runs/bundles-mine/rehearsal.tsv").read_text(encoding="utf-8").splitlines()
    ours = set(general.general_sentences("en")[:REHEARSED])
    assert {line.split("\t")[0] for line in rehearsed} <= ours


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--accept-general-loss", "-1"], "--accept-general-loss must lie"),
        (["--rehearse", "-1"], "--rehearse must be at least 0"),
        (["--general-text", "nowhere.txt"], "nowhere.txt"),
    ],
)
def test_invalid_options_are_reported_in_one_line_before_any_work(options: list[str], said: str) -> None:
    last = tune(*options, code=1).rstrip("\n").split("\n")[-1]
    assert last.startswith("error: ") and said in last
    assert not Path("runs/bundles-mine/data").exists()


def test_changed_accepted_loss_makes_an_export_outdated() -> None:
    usual, accepting = (
        ExportOptions(Path("r"), Path("d"), Path("o"), accept_general_loss=loss).form for loss in (None, 5.0)
    )
    assert "accept_general_loss" not in usual
    assert accepting["accept_general_loss"] == 5.0
    assert json.dumps(accepting)


def test_our_general_pairs_are_carried_in_our_languages() -> None:
    assert general_pairs_of({"source": "de", "target": "zh"}) == general_pairs("de", "zh")
