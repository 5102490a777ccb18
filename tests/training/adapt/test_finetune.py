"""Fine-tuning: what the bundle contributes to a run, what is measured before and after, and what is recorded."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from shared_fixtures import FEW_TOKENS
from tuned import GENERAL, OWN, begin, loaded, run, ship, tune, tuned
from typer.testing import CliRunner

from model.bundle_files import VOCABULARY
from model.hypothesis import Limits
from training.__main__ import cli
from training.adapt import finetune
from training.corpora.corpus import read_pairs, write_pairs
from training.data.batches import Pairs, load_pairs
from training.data.options import PrepareOptions
from training.data.prepare import prepare_corpora
from training.optim.schedule import noam
from training.optim.trainer import Recipe

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(tmp_path, monkeypatch)


@pytest.fixture
def shipped(_files: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An untrained bundle in the format of shipped ones."""
    return ship(monkeypatch)


def options(**fields: Any) -> PrepareOptions:
    given = {
        "pairs": ("own.tsv",),
        "source": "en",
        "target": "fr",
        "out": Path("data"),
        "reserved_share": 0.0,
        "augment_share": 0.0,
    }
    return PrepareOptions(**{**given, **fields})


def silent(line: str) -> None:
    pass


def test_a_given_vocabulary_is_used_unchanged(bundle_folder: Path) -> None:
    vocabulary = bundle_folder / "en-fr" / VOCABULARY
    summary = prepare_corpora(options(vocabulary=str(vocabulary)), silent)
    assert Path("data", VOCABULARY).read_bytes() == vocabulary.read_bytes()
    assert VOCABULARY in summary.sha256


def test_mixed_in_pairs_are_never_in_the_development_set_and_are_drawn_at_the_requested_rate() -> None:
    prepare_corpora(options(mix=("general.tsv:0.5",)), silent)
    pairs, record = load_pairs(Path("data"))
    own, general = (corpus["kept"] for corpus in record["corpora"])
    assert general == 60
    assert set(read_pairs(Path("data/dev.tsv"))[0]) <= set(OWN)
    assert np.isclose(pairs.weights[own:].sum(), 0.5 * own, atol=0.01)


def test_mixing_in_other_pairs_changes_the_identity_of_the_data() -> None:
    first = prepare_corpora(options(mix=("general.tsv",)), silent)
    write_pairs(Path("general.tsv"), GENERAL[:30])
    second = prepare_corpora(options(mix=("general.tsv",), replace=True), silent)
    assert first.sha256 != second.sha256


def test_fine_tuning_is_refused_if_filtering_leaves_no_own_pairs() -> None:
    write_pairs(Path("dev.tsv"), OWN)
    with pytest.raises(ValueError, match="no pair is left to train on"):
        prepare_corpora(options(mix=("general.tsv",), dev="dev.tsv"), silent)


def test_fine_tuning_adapts_the_bundle_and_reports_gains_and_losses(shipped: Path) -> None:
    write_pairs(Path("elsewhere.tsv"), GENERAL[:20])
    output = tune("--general", "elsewhere.tsv", "--attribution", "me")
    ours, theirs = loaded("mine"), loaded("shipped")
    assert f"before fine-tuning, as {theirs.name}, and after:" in output
    assert "your pairs, held out (20 sentences)" in output
    assert "elsewhere: elsewhere.tsv (20 sentences)" in output
    initial = ours.config["training"]["initial"]
    sets = [(metric["set"], metric["metric"]) for metric in initial["metrics"]]
    assert sets == [(metric["set"], metric["metric"]) for metric in ours.config["metrics"]]
    assert sets == [(name, metric) for name in ("development set", "elsewhere.tsv") for metric in ("BLEU", "chrF")]
    before, after = (config[1]["score"] for config in (initial["metrics"], ours.config["metrics"]))
    assert f"BLEU  {initial['metrics'][0]['score']:5.1f} -> {ours.config['metrics'][0]['score']:5.1f}" in output
    assert f"| development set | 20 | chrF | {before:.1f} | {after:.1f} |" in Path("bundles/mine/README.md").read_text()


def test_fine_tuned_bundle_of_an_imported_model_is_decoded_as_that_was(monkeypatch: pytest.MonkeyPatch) -> None:
    architecture = {"decoder": "ssru", "activation": "swish", "source_eos": False, "norm": "post"}
    served: dict[str, Any] = {"decoding": {"beam_size": 2, "length_penalty": 0.2}, "reserved_copies": [40, 41]}
    ship(monkeypatch, architecture, **served)
    tune()
    ours, theirs = loaded("mine"), loaded("shipped")
    assert ours.config["architecture"] == {**theirs.config["architecture"], "dropout": finetune.DROPOUT}
    assert {name: ours.config[name] for name in served} == served
    assert (ours.decoding.beam_size, ours.reserved_copies) == (2, ((40, 40), (41, 41)))
    assert not served.keys() & ours.config["training"]["initial"].keys()
    assert any(
        not torch.equal(weight, theirs.model.state_dict()[name]) for name, weight in ours.model.state_dict().items()
    )


def test_general_test_sets_keep_their_names_if_a_recipe_gives_the_corpora_folder(shipped: Path) -> None:
    Path("field").mkdir()
    write_pairs(Path("field/elsewhere.tsv"), GENERAL[:20])
    Path("r.toml").write_text('pairs = ["own.tsv"]')
    output = run("--recipe", "r.toml", "--init", shipped, "--general", "field/elsewhere.tsv", "--out", "bundles/mine")
    assert "elsewhere: field/elsewhere.tsv (20 sentences)" in output


def test_mixing_in_a_general_test_set_causes_a_warning(shipped: Path) -> None:
    warning = "60 of the 60 sentences of general.tsv are in the training data"
    assert warning in tune("--general", "general.tsv", "--mix", "general.tsv:0.5")


@pytest.mark.usefixtures("_files")
def test_fine_tuned_bundle_keeps_shape_vocabulary_licence_and_attribution(monkeypatch: pytest.MonkeyPatch) -> None:
    ship(monkeypatch, limits=Limits(300, 310, ratio=1.5, margin=FEW_TOKENS.margin))  # over those that its pairs need
    tune("--attribution", "me")
    ours, theirs = loaded("mine"), loaded("shipped")
    assert ours.source_tokenizer.proto == theirs.source_tokenizer.proto
    assert ours.pair == theirs.pair
    assert ours.config["architecture"] == {**theirs.config["architecture"], "dropout": finetune.DROPOUT}
    assert ours.limits == theirs.limits
    assert ours.config["licence"] == "CC BY 4.0"
    assert ours.config["attribution"] == ["me", "the general pairs' makers"]
    initial = ours.config["training"]["initial"]
    assert (initial["bundle"], initial["licence"]) == (theirs.name, "CC BY 4.0")
    assert initial["corpora"] == theirs.config["training"]["corpora"]
    card = Path("bundles/mine/README.md").read_text()
    assert f"Made from {theirs.name}" in card
    assert f"\n{theirs.name} began from the weights of older@1, French to English, which was trained on" in card
    assert "\nolder@1 was made from oldest@1, which was trained on corpora that" in card


def test_recipe_sets_duration_and_dropout_of_fine_tuning_and_nothing_else(
    shipped: Path,
) -> None:
    tuned()
    usual = loaded("mine").config["training"]["recipe"]
    Path("r.toml").write_text("[model]\ndropout = 0.3\n[training]\nepochs = 4\nbpe_dropout = 0.1")
    tune("--recipe", "r.toml", "--work", "other", "--replace")
    config = loaded("mine").config
    longer = config["training"]["recipe"]
    assert config["architecture"]["dropout"] == 0.3
    assert longer["bpe_dropout"] == 0.1
    assert longer["steps"] == 2 * usual["steps"]
    assert longer["warmup"] == pytest.approx(finetune.WARMUP * longer["steps"], abs=1)
    same = {"batch_tokens", "cooldown", "patience", "keep", "label_smoothing"}
    assert {name: longer[name] for name in same} == {name: usual[name] for name in same}


def test_a_finished_fine_tuning_resumes_with_more_steps(shipped: Path) -> None:
    Path("r.toml").write_text("[training]\nepochs = 1")
    tune("--recipe", "r.toml", "--work", "work")
    log = Path("work/run/log.csv")
    before = log.read_text()
    steps = loaded("mine").config["training"]["recipe"]["steps"]
    Path("r.toml").write_text("[training]\nepochs = 2")
    tune("--recipe", "r.toml", "--work", "work", "--replace")
    assert log.read_text().startswith(before)
    assert loaded("mine").config["training"]["recipe"]["steps"] == 2 * steps


def test_given_licence_replaces_the_base_bundles_but_keeps_its_attribution(shipped: Path) -> None:
    tuned()
    tune("--licence", "ours", "--replace")
    config = loaded("mine").config
    assert (config["licence"], config["attribution"][-1]) == ("ours", "the general pairs' makers")


def test_second_export_of_a_run_still_names_its_base_bundle(shipped: Path) -> None:
    tuned("--learning-rate", "0.01")
    folders = ["--run", "runs/bundles-mine/run", "--data", "runs/bundles-mine/data"]
    again = [
        "export",
        *folders,
        "--out",
        "bundles/again",
        "--dtype",
        "float32",
        "--attribution",
        "me",
        "--device",
        "cpu",
    ]
    result = CliRunner().invoke(cli, again)
    assert result.exit_code == 0, result.output
    ours, theirs = loaded("mine").config, loaded("again").config
    assert theirs["training"]["initial"] == ours["training"]["initial"]
    assert theirs["licence"] == ours["licence"]
    assert theirs["attribution"] == ["me", *ours["attribution"]]


def test_fine_tuning_learns_new_words_from_the_users_pairs(shipped: Path) -> None:
    tuned("--learning-rate", "0.01")
    losses = [
        float(row["dev_loss"]) for row in csv.DictReader(Path("runs/bundles-mine/run/log.csv").read_text().split("\n"))
    ]
    assert min(losses[1:]) < losses[0] - 0.3


def test_weights_start_as_the_base_bundles_and_are_scored_before_the_first_step(shipped: Path) -> None:
    tune("--learning-rate", "1e-12")
    log = Path("runs/bundles-mine/run/log.csv").read_text().split("\n")
    assert log[1].startswith("0,")
    ours, theirs = (loaded(name).model.state_dict() for name in ("mine", "shipped"))
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-3) for name in ours)


def test_interpolated_weights_lie_between_base_and_trained_without_more_training(shipped: Path) -> None:
    tune("--learning-rate", "0.01", "--blend", "1")
    log = Path("runs/bundles-mine/run/log.csv").read_text()
    learnt, theirs = (loaded(name).model.state_dict() for name in ("mine", "shipped"))
    assert max((learnt[name] - theirs[name]).abs().max() for name in theirs) > 0.01
    interpolated = ("--learning-rate", "0.01", "--blend", "0.25", "--replace")
    tune(*interpolated)
    assert Path("runs/bundles-mine/run/log.csv").read_text() == log
    ours = loaded("mine")
    for name, weight in ours.model.state_dict().items():
        assert torch.allclose(weight, 0.75 * theirs[name] + 0.25 * learnt[name], atol=1e-3), name
    weights = ours.config["training"]["weights"]
    assert weights.startswith("those 0.25 of the way from where the run began to ")
    assert f"The weights are {weights}." in Path("bundles/mine/README.md").read_text()
    assert "nothing to do" in tune(*interpolated)


def test_finished_fine_tuning_prints_its_table_again_and_another_bundle_starts_a_new_run(shipped: Path) -> None:
    tuned()
    output = tune("--replace")
    assert "nothing to do" in output
    assert "your pairs, held out" in output
    shipped.rename("bundles/before")
    Path("bundles/mine").rename("bundles/shipped")
    assert "give another --work" in tune("--replace", code=1)


def test_changed_learning_rate_starts_a_new_run(shipped: Path) -> None:
    tuned("--learning-rate", "0.01")
    assert "nothing to do" in tune("--learning-rate", "0.01", "--replace")
    assert "give another --work" in tune("--learning-rate", "0.003", "--replace", code=1)


def test_general_test_set_may_be_a_url(shipped: Path) -> None:
    there = ("https://example.org/general.tsv",)
    assert finetune.FineTuning(finetune.InitialBundle.load(shipped), there).general == there


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--source", "de"], "--source de: "),
        (["--target", "en"], "has the target fr"),
        (["--architecture", "tiny"], "with --init the architecture is the bundle's"),
        (["--learning-rate", "3"], "--learning-rate must lie"),
        (["--accept-loss", "-1"], "--accept-loss must lie"),
        (["--blend", "0"], "--blend must be above 0"),
        (["--init", "nowhere"], "nowhere"),
        (["--out", "bundles/../bundles/shipped", "--replace"], "itself, which is needed to resume"),
        (["--general", "nowhere.tsv"], "nowhere.tsv"),
    ],
)
def test_options_that_contradict_the_bundle_are_refused_in_one_line(
    shipped: Path, options: list[str], said: str
) -> None:
    last = tune(*options, code=1).rstrip("\n").split("\n")[-1]
    assert last.startswith("error: ")
    assert said in last


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "give --source and --target"),
        (["--source", "en", "--target", "fr", "--mix", "general.tsv"], "--mix is for fine-tuning"),
        (["--source", "en", "--target", "fr", "--general", "general.tsv"], "--general is for fine-tuning"),
        (["--source", "en", "--target", "fr", "--accept-loss", "0"], "--accept-loss is for fine-tuning"),
        (["--source", "en", "--target", "fr", "--blend", "0.5"], "--blend is for fine-tuning"),
    ],
)
def test_fine_tuning_options_without_a_bundle_are_refused(options: list[str], said: str) -> None:
    assert said in run("--pairs", "own.tsv", "--out", "bundles/mine", *options, code=1)


def test_minutes_only_limit_the_epochs_of_fine_tuning(shipped: Path) -> None:
    tuning, pairs = finetune.FineTuning(finetune.InitialBundle.load(shipped)), Pairs.of([[5, 6]] * 400, [[7]] * 400)
    by_steps, limited = tuning.recipe(pairs, 1), tuning.recipe(pairs, 1, minutes=5.0)
    same = ("steps", "warmup", "learning_rate_factor", "cooldown", "batch_tokens")
    assert [getattr(limited, name) for name in same] == [getattr(by_steps, name) for name in same]
    assert (limited.minutes, limited.patience, limited.evaluate_every, limited.keep) == (5.0, 0, 0, 1)


def test_peak_learning_rate_is_as_requested_for_any_number_of_steps(shipped: Path) -> None:
    tuning = finetune.FineTuning(finetune.InitialBundle.load(shipped), learning_rate=0.004)
    pairs = Pairs.of([[5, 6]] * 400, [[7]] * 400)
    for recipe in (tuning.recipe(pairs, 1), tuning.with_learning_rate(Recipe(steps=1234))):
        width = tuning.initial.config.d_model
        rates = [
            noam(step, width, recipe.warmup, recipe.learning_rate_factor, recipe.steps, recipe.cooldown)
            for step in range(1, recipe.steps + 1)
        ]
        assert max(rates) == pytest.approx(0.004)
        assert rates[-1] < max(rates) / 3
