"""The command `export`: which weights ship, what is recorded, and that a kill or a fault leaves a complete bundle."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shutil
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from servers import becomes
from shared_fixtures import make_bundle
from typer.testing import CliRunner
from warm import WarmProcess

from model import __version__
from model.atomic_files import NotReplaceable
from model.backends import load_backend, prepare
from model.bundle_weights import check_samples, load_bundle
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from training.__main__ import cli
from training.corpora.corpus import Pair, write_pairs
from training.data.batches import load_pairs
from training.evaluation import evaluate as evaluate_module
from training.evaluation.service_command import NotServed
from training.export import bundle as export_module
from training.export import run_folder as trained
from training.export.bundle import ExportOptions, export_run
from training.export.run_folder import INITIAL_WEIGHTS, TrainedRun
from training.file_lock import lock_output
from training.optim.checkpoint import BEST, average, load_state, save_best, save_state, save_weights, saved_weights
from training.optim.environment import commit
from training.optim.trainer import TrainingError

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
ROOT = Path(__file__).resolve().parents[3]


def options(run_folder: Path, data: Path, out: Path, **fields: Any) -> ExportOptions:
    return ExportOptions(run_folder, data, out, **{"device": "cpu", **fields})


def quiet(line: str) -> None:
    pass


@pytest.fixture(scope="module")
def exported(run_folder: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    write_pairs(folder / "held-out.tsv", [Pair("Tom has 2 dogs.", "Tom a 2 chiens."), Pair("Bo has 3 books.", "Oui.")])
    (folder / "samples.txt").write_text("Tom has 5 apples.\n\nMary has 4 dogs.\nBo has 9 chairs.\n", encoding="utf-8")
    asked = options(
        run_folder,
        data,
        folder / "en-fr",
        evaluate_on=(str(folder / "held-out.tsv"),),
        licence="CC0-1.0",
        attribution=("Jürgen", "木村"),
        remarks=("Not for contracts.",),
        samples=str(folder / "samples.txt"),
    )
    export_run(asked, quiet)
    return folder / "en-fr"


def config_of(bundle: Path) -> dict[str, Any]:
    return dict(json.loads((bundle / "config.json").read_text(encoding="utf-8")))


def test_bundle_records_what_it_was_made_from(exported: Path, data: Path) -> None:
    config = config_of(exported)
    training = config["training"]
    assert (config["source"], config["target"], config["licence"]) == ("en", "fr", "CC0-1.0")
    assert config["attribution"] == ["Jürgen", "木村"]
    assert training["corpora"] == [{"name": "pairs.tsv", "pairs": 304, "weight": 1.0}]
    assert (training["steps"], training["seed"], training["device"]) == (120, 1, "cpu")
    assert training["recipe"]["batch_tokens"] == 400
    assert training["versions"]["torch"] == torch.__version__
    assert training["versions"]["interlinear"] == __version__
    assert training["parameters"] == load_bundle(exported, CPU).model.parameter_count()
    assert 0 < training["best_development_loss"] < 1
    assert str(data) not in (exported / "config.json").read_text(encoding="utf-8")
    assert str(data.parent) not in (exported / "config.json").read_text(encoding="utf-8")


def test_token_count_is_that_of_the_trained_epochs(exported: Path, data: Path) -> None:
    pairs, _ = load_pairs(data)
    training = config_of(exported)["training"]
    an_epoch = int(pairs.target.lengths.sum()) + len(pairs)
    assert training["target_tokens"] == pytest.approx(training["epochs"] * an_epoch, rel=0.01)


def test_recorded_metrics_equal_those_of_evaluate(exported: Path, data: Path) -> None:
    recorded = config_of(exported)["metrics"]
    assert [(metric["set"], metric["metric"]) for metric in recorded] == [
        ("development set", "BLEU"),
        ("development set", "chrF"),
        ("held-out.tsv", "BLEU"),
        ("held-out.tsv", "chrF"),
    ]
    assert {metric["served"] for metric in recorded} == {True}
    command = ["evaluate", "--bundle", str(exported), "--device", "cpu", "--json"]
    sets = ["--pairs", str(data / "dev.tsv"), "--pairs", str(exported.parent / "held-out.tsv")]
    found = json.loads(CliRunner().invoke(cli, command + sets).stdout)["metrics"]
    assert [(metric["score"], metric["signature"]) for metric in found] == [
        (metric["score"], metric["signature"]) for metric in recorded
    ]
    assert recorded[0]["score"] > 20
    decoded = config_of(exported)["training"]["decoder_metrics"]
    assert [(metric["set"], metric["metric"]) for metric in decoded] == [(m["set"], m["metric"]) for m in recorded]
    assert {(metric["served"], metric["precision"]) for metric in decoded} == {(False, "float32")}


@pytest.mark.real_service
def test_scores_in_record_and_card_are_the_services(run_folder: Path, data: Path, tmp_path: Path) -> None:
    """Two sentences in one text, and one without its end mark, which the decoder would take as they are."""
    texts = [Pair("Tom has 2 dogs. Bo has 3 books.", "Tom a 2 chiens. Bo a 3 livres."), Pair("Tom has 4 dogs", "Tom")]
    write_pairs(tmp_path / "held-out.tsv", texts)
    asked = options(run_folder, data, tmp_path / "en-fr", evaluate_on=(str(tmp_path / "held-out.tsv"),))
    said: list[str] = []
    export_run(asked, said.append)
    config = config_of(tmp_path / "en-fr")
    served = config["metrics"][2]
    assert served["served"] is True
    assert config["metrics"][2]["score"] != config["training"]["decoder_metrics"][2]["score"]
    card = (tmp_path / "en-fr" / "README.md").read_text(encoding="utf-8")
    assert "Measured as the service answers" in card
    assert f"| held-out.tsv | 2 | BLEU | {served['score']:.1f} | {served['precision']} |" in card


def test_scores_are_the_decoders_and_labelled_so_if_the_service_cannot_serve_the_bundle(
    run_folder: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: Any) -> list[Any]:
        raise NotServed("the service's own command failed: no samples")

    monkeypatch.setattr(export_module, "measure_as_served", refuse)
    said: list[str] = []
    export_run(options(run_folder, data, tmp_path / "en-fr"), said.append)
    assert (
        "warning: the scores are those of the bare decoder, since the service's own command failed: no samples" in said
    )
    assert {metric["served"] for metric in config_of(tmp_path / "en-fr")["metrics"]} == {False}
    assert "bare decoder" in (tmp_path / "en-fr" / "README.md").read_text(encoding="utf-8")


def test_every_exported_bundle_has_a_sample_however_little_the_model_learnt(
    run_folder: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.export.samples.MARGIN", math.inf)
    said: list[str] = []
    export_run(options(run_folder, data, tmp_path / "en-fr"), said.append)
    (sample,) = config_of(tmp_path / "en-fr")["samples"]
    assert sample["source_ids"] and sample["target_ids"]
    warnings = [line for line in said if line.startswith("warning: no sample ")]
    assert warnings and all("the service may refuse this bundle; train for longer" in line for line in warnings)


def test_samples_are_the_requested_ones_and_translate_correctly(exported: Path) -> None:
    bundle = load_bundle(exported, CPU)
    texts = [sample["source"] for sample in bundle.config["samples"]]
    assert set(texts) <= {"Tom has 5 apples.", "Mary has 4 dogs.", "Bo has 9 chairs."}
    check_samples(bundle)


def test_card_has_scores_corpora_and_attribution(exported: Path) -> None:
    card = (exported / "README.md").read_text(encoding="utf-8")
    bleu = config_of(exported)["metrics"][2]
    assert f"| held-out.tsv | 2 | BLEU | {bleu['score']:.1f} | {bleu['precision']} |" in card
    said = ("# English to French", "pairs.tsv: 304 sentence pairs", "CC0-1.0", "- 木村", "\nNot for contracts.\n")
    for text in (*said, "tok:13a", "python -m app serve"):
        assert text in card


def test_card_names_the_machine_and_versions_of_the_training_not_of_the_export(
    run_folder: Path, data: Path, tmp_path: Path
) -> None:
    """In both sessions of a run; and without the record, as in older runs, it claims none."""
    shutil.copytree(run_folder, tmp_path / "run")
    snapshot = load_state(run_folder)
    assert snapshot is not None
    [here] = snapshot["state"]["sessions"]
    software = {"torch": "9.9+cu999", "python": "3.99.0", "sentencepiece": "0", "interlinear": "0.0.1"}
    gpu = {
        "device": "cuda",
        "device_name": "Card 3000",
        "precision": "bfloat16",
        "versions": software,
        "commit": "c0ffee",
    }

    def exported_with(sessions: list[dict[str, Any]] | None) -> tuple[dict[str, Any], str]:
        state = {name: value for name, value in snapshot["state"].items() if name != "sessions"}
        save_state(
            tmp_path / "run",
            {**snapshot, "state": state if sessions is None else state | {"sessions": sessions}},
        )
        export_run(options(tmp_path / "run", data, tmp_path / "out", replace=True), quiet)
        card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
        return config_of(tmp_path / "out")["training"], card[card.index("## Training") : card.index("## Licence")]

    training, card = exported_with([here | gpu | {"processes": 2}])
    assert "in bfloat16 on 2 processes on Card 3000 (PyTorch 9.9+cu999, Python 3.99.0), seed 1." in card
    assert (training["versions"], training["commit"]) == (software, "c0ffee")
    assert "Schedule: the learning rate rises for 30 steps to 0.016, then falls with the square root of" in card
    assert "in the last 30% of at most 120 steps linearly to zero" in card
    _, card = exported_with([here | gpu, here | {"from_step": 61}])
    assert "\n- From step 1: in bfloat16 on Card 3000 (PyTorch 9.9+cu999, Python 3.99.0)\n" in card
    assert f"\n- From step 61: in {here['precision']} on {here['device_name']} (PyTorch {torch.__version__}" in card
    training, card = exported_with(None)
    assert f"target tokens in {here['precision']} on cpu, seed 1." in card
    assert "versions" not in training and "commit" not in training and "PyTorch" not in card


@pytest.mark.real_service
def test_int8_bundle_is_measured_and_checked_with_the_weights_that_it_restores(
    run_folder: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[dict[str, torch.Tensor]] = []

    def evaluate_set(model: Transformer, *given: Any, **more: Any) -> Any:
        measured.append(dict(model.named_parameters()))
        return evaluate_module.evaluate_set(model, *given, **more)

    monkeypatch.setattr(export_module, "evaluate_set", evaluate_set)
    sizes, said, out = {}, list[str](), tmp_path / "int8"
    for dtype in ("float16", "int8"):
        measured.clear()
        export_run(options(run_folder, data, tmp_path / dtype, dtype=dtype), said.append)
        sizes[dtype] = (tmp_path / dtype / "model.safetensors").stat().st_size
    config, bundle = config_of(out), load_bundle(out, CPU)
    assert 0.5 < sizes["int8"] / sizes["float16"] < 0.65  # scales are a larger part of small matrices
    assert (config["format_version"], config["training"]["form"]["dtype"]) == (2, "int8")
    assert "Its weights are stored in int8." in (out / "README.md").read_text(encoding="utf-8")
    assert any(f"{out} is {bundle.name}, " in line and " MiB in int8, with " in line for line in said)
    restored = dict(bundle.model.named_parameters())
    assert any(all(torch.equal(weights[name], restored[name]) for name in restored) for weights in measured)
    assert {metric["served"] for metric in config["metrics"]} == {True}
    for precision in ("float32", "int8"):
        check_samples(bundle, prepare(bundle.model, precision))
    check_samples(bundle, load_backend(bundle.spec, "cpu", "auto"))


def test_weights_with_the_best_translations_are_exported(
    run_folder: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best, mean = load_file(run_folder / BEST), average(saved_weights(run_folder))
    real = evaluate_module.evaluate_set
    for wanted, name in ((mean, "average"), (best, "lowest development loss")):
        key = next(key for key in wanted if not torch.equal(best[key], mean[key]))

        def evaluate_set(*arguments: Any, key: str = key, wanted: Any = wanted, **more: Any) -> Any:
            result = real(*arguments, **more)
            ours = torch.equal(dict(arguments[0].named_parameters())[key], wanted[key].half().float())
            bleu = dataclasses.replace(result.scores[0], score=60.0 if ours else 50.0)
            return dataclasses.replace(result, scores=[bleu, result.scores[1]])

        monkeypatch.setattr(export_module, "evaluate_set", evaluate_set)
        export_run(options(run_folder, data, tmp_path / name), quiet)
        assert name in config_of(tmp_path / name)["training"]["weights"]
        assert torch.equal(load_file(tmp_path / name / "model.safetensors")[key], wanted[key].half())


def test_an_existing_bundle_is_refused_before_any_work(
    tmp_path: Path,
) -> None:
    make_bundle(tmp_path / "en-fr")
    with pytest.raises(NotReplaceable, match="--replace"):
        export_run(options(tmp_path / "no run", tmp_path / "no data", tmp_path / "en-fr"), quiet)


@pytest.mark.parametrize("made_of", [["--run", "RUN", "--data", "DATA"], ["--to", "ctranslate2", "--bundle", "x"]])
def test_a_bundle_being_written_is_locked(run_folder: Path, data: Path, tmp_path: Path, made_of: list[str]) -> None:
    given = [{"RUN": str(run_folder), "DATA": str(data)}.get(word, word) for word in made_of]
    with lock_output(tmp_path / "en-fr"):
        result = CliRunner().invoke(cli, ["export", *given, "--out", str(tmp_path / "en-fr")])
    assert (result.exit_code, "another command is running on" in result.stderr) == (1, True)


def test_run_without_weights_or_on_other_data_is_refused(run_folder: Path, data: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no weights"):
        export_run(options(tmp_path, data, tmp_path / "out"), quiet)
    shutil.copytree(data, tmp_path / "data")
    record = tmp_path / "data/prepared.json"
    record.write_text(record.read_text(encoding="utf-8").replace("360", "361"), encoding="utf-8")
    with pytest.raises(TrainingError, match="not trained on"):
        export_run(options(run_folder, tmp_path / "data", tmp_path / "out"), quiet)
    assert not (tmp_path / "out").exists()


def test_run_without_its_best_weights_is_refused_at_once(
    run_folder: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(run_folder, tmp_path / "run", ignore=shutil.ignore_patterns(BEST))
    again, load = iter(range(3)), trained.TrainedRun.load
    monkeypatch.setattr(trained.TrainedRun, "load", lambda *folders: (next(again), load(*folders))[1])
    with pytest.raises(FileNotFoundError, match=BEST):
        export_run(options(tmp_path / "run", data, tmp_path / "out"), quiet)


def test_an_unknown_dtype_is_refused(run_folder: Path, data: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--dtype"):
        options(run_folder, data, tmp_path, dtype="int4")


def test_commit_is_that_of_this_checkout(tmp_path: Path) -> None:
    assert (commit() is None) == (not (ROOT / ".git").exists())
    assert commit(tmp_path) is None


def test_killed_export_leaves_the_old_bundle(run_folder: Path, data: Path, tmp_path: Path) -> None:
    old = load_bundle(make_bundle(tmp_path / "bundles/en-fr"), CPU).name
    command = ["training", "export", "--run", str(run_folder), "--data", str(data), "--replace"]
    command += ["--out", str(tmp_path / "bundles/en-fr"), "--device", "cpu", "--threads", "1"]
    said = tmp_path / "said"
    with said.open("wb") as file:
        process = WarmProcess(command, {**os.environ, "PYTHONUNBUFFERED": "1"}, stdout=file.fileno())
    assert becomes(lambda: said.stat().st_size > 0)  # it has measured its first candidate
    time.sleep(0.05)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    left = load_bundle(tmp_path / "bundles/en-fr", CPU).name
    assert CliRunner().invoke(cli, command[1:]).exit_code == 0
    new = load_bundle(tmp_path / "bundles/en-fr", CPU).name
    assert left in (old, new)
    assert [path.name for path in (tmp_path / "bundles").iterdir()] == ["en-fr"]


def test_scores_on_test_sentences_in_the_training_data_are_marked(run_folder: Path, data: Path, tmp_path: Path) -> None:
    pairs, _ = load_pairs(data)
    tokenizer = Tokenizer.load(data / "sentencepiece.model")
    known = [tokenizer.decode(ids) for ids in pairs.source.sequences(np.arange(3))]
    write_pairs(tmp_path / "test.tsv", [*(Pair(text, "Oui.") for text in known), Pair("Tom is a stranger.", "Oui.")])
    said: list[str] = []
    asked = options(run_folder, data, tmp_path / "out", evaluate_on=(str(tmp_path / "test.tsv"),))
    export_run(asked, said.append)
    assert "  sentences of it that are in the training data: 3; its scores are too high" in said
    assert config_of(tmp_path / "out")["metrics"][-1]["sources_trained_on"] == 3
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "- Sentences of test.tsv that were trained on: 3. Its figures flatter." in card


def test_two_test_sets_with_one_name_are_refused(run_folder: Path, data: Path, tmp_path: Path) -> None:
    for folder in ("news", "law"):
        (tmp_path / folder).mkdir()
        write_pairs(tmp_path / folder / "test.tsv", [Pair("Tom has 2 dogs.", "Tom a 2 chiens.")])
    sets = tuple(str(tmp_path / folder / "test.tsv") for folder in ("news", "law"))
    with pytest.raises(ValueError, match=r"two test sets are called test\.tsv"):
        export_run(options(run_folder, data, tmp_path / "out", evaluate_on=sets), quiet)
    assert not (tmp_path / "out").exists()
    below = options(run_folder, data, tmp_path / "out", evaluate_on=sets, below=tmp_path)
    assert [test.name for test in below.tests("en", "fr")] == ["news/test.tsv", "law/test.tsv"]


def test_changed_sample_sentences_make_an_export_outdated(tmp_path: Path) -> None:
    file = tmp_path / "samples.txt"
    options = ExportOptions(tmp_path, tmp_path, tmp_path / "out", samples=str(file))
    file.write_text("Hello.\n")
    form = options.form
    assert form["samples"] == "samples.txt"
    file.write_text("Hello.\n\n")
    assert options.form == form
    file.write_text("Goodbye.\n")
    assert options.form != form


AVERAGE, STEP = "the average of the last {} evaluations", "those of step {}, of the lowest development loss"
LAST = "those of step {}, the last evaluation's"


@pytest.mark.parametrize(
    ("steps", "best", "offered"),
    [
        ([10, 20, 30, 40, 50], 20, [(AVERAGE, 3, 40), (AVERAGE, 5, 30), (STEP, 20, 20)]),
        ([10, 20], 20, [(AVERAGE, 2, 15), (STEP, 20, 20)]),
        ([10], 10, [(STEP, 10, 10)]),
        ([20], 10, [(LAST, 20, 20), (STEP, 10, 10)]),
        ([20], 0, [(LAST, 20, 20)]),  # nothing learnt was ever better than what it began with
    ],
)
def test_candidates_are_averages_of_the_last_weights_and_the_best(
    tmp_path: Path, steps: list[int], best: int, offered: list[tuple[str, int, float]]
) -> None:
    for step in steps:
        save_weights(tmp_path, step, {"w": torch.tensor([float(step)])}, keep=9)
    save_best(tmp_path, {"w": torch.tensor([float(best)])})
    unread: Any = None
    run = TrainedRun(tmp_path, tmp_path, {"state": {"best_step": best}}, *[unread] * 6)
    found = [(what, weights["w"].item()) for what, weights in run.candidates()]
    assert found == [(what.format(number), mean) for what, number, mean in offered]


@pytest.mark.parametrize(
    ("learnt", "before", "accepted", "shipped"),
    [
        ({"average": 51.05}, 51.06, 0.1, "average"),
        ({"average": 51.05}, 51.16, 0.1, INITIAL_WEIGHTS),
        ({"average": 51.05, "step 7": 51.04}, 51.16, 0.1, INITIAL_WEIGHTS),
        ({"average": 51.05}, 51.16, 0.5, "average"),
        ({"average": 51.05, "step 7": 51.06}, None, 0.5, "step 7"),
        ({"average of 3": 51.0, "average of 5": 51.2, "step 7": 51.1}, None, 0.1, "average of 5"),
        ({"average": 51.0, "step 7": 51.0}, None, 0.1, "average"),
        ({"step 7": 51.0}, None, 0.1, "step 7"),
    ],
)
def test_trained_weights_are_exported_unless_the_initial_ones_score_higher(
    learnt: dict[str, float], before: float | None, accepted: float, shipped: str
) -> None:
    scores = learnt if before is None else {**learnt, INITIAL_WEIGHTS: before}

    def evaluate(model: Any) -> Any:
        return SimpleNamespace(scores=[SimpleNamespace(score=scores[model])], metrics=lambda: [{"model": model}])

    run: Any = SimpleNamespace(
        model=lambda weights, *_: weights,
        summary=SimpleNamespace(target="fr"),
        tokenizer=None,
        limits=None,
    )
    said: list[str] = []
    offered: Any = [(what, what) for what in learnt]
    begun_with: Any = None if before is None else INITIAL_WEIGHTS
    chosen: Any = export_module.choose_weights(
        run, offered, begun_with, "float16", CPU, evaluate, accepted, said.append
    )
    assert chosen[:2] == (shipped, shipped)
    assert chosen[2].metrics() == [{"model": shipped}]
    assert [candidate["weights"] for candidate in chosen[3]] == list(scores)
    warned = [line for line in said if line.startswith("warning: what was learnt costs 0.11 BLEU")]
    assert bool(warned) == (shipped == INITIAL_WEIGHTS)
