"""The whole line: what was trained and exported is served, and the service gives what `evaluate` measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import PAIRS, serving
from typer.testing import CliRunner

from model.bundle import load_bundle
from model.tokenizer import Tokenizer
from training.__main__ import cli
from training.corpus import write_pairs
from training.evaluate import TestSet, evaluate_set

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def bundles(run_folder: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundles")
    command = ["export", "--run", run_folder, "--data", data, "--out", folder / "en-fr", "--device", "cpu"]
    assert CliRunner().invoke(cli, list(map(str, command))).exit_code == 0
    return folder


def test_the_service_returns_the_ids_that_evaluate_scores(
    bundles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pairs(tmp_path / "set.tsv", PAIRS)
    bundle = load_bundle(bundles / "en-fr", CPU)
    test = TestSet.read(str(tmp_path / "set.tsv"), "en", "fr")
    measured = evaluate_set(bundle.model, bundle.tokenizer, bundle.limits, "fr", test).translations

    served: list[list[int]] = []
    decode = Tokenizer.decode

    def record(tokenizer: Tokenizer, ids: list[int]) -> str:
        served.append(list(ids))
        return decode(tokenizer, ids)

    with serving(bundles) as service:
        monkeypatch.setattr(Tokenizer, "decode", record)
        body = {"text": [pair.source for pair in PAIRS], "source": "en", "target": "fr"}
        answer: dict[str, Any] = service.post("/translate", body).json()
    assert served == measured.ids
    assert [item["text"] for item in answer["translations"]] == measured.texts
    assert answer["model"] == bundle.name
    assert len(set(measured.texts)) > 20


def test_requests_that_come_together_get_what_evaluate_writes(bundles: Path, tmp_path: Path) -> None:
    write_pairs(tmp_path / "set.tsv", PAIRS)
    files = ["--bundle", bundles / "en-fr", "--pairs", tmp_path / "set.tsv", "--out", tmp_path / "out.txt"]
    assert CliRunner().invoke(cli, ["evaluate", *map(str, files), "--device", "cpu"]).exit_code == 0
    with serving(bundles) as service:
        bodies = [{"text": pair.source, "source": "en", "target": "fr"} for pair in PAIRS[::8]]
        answers = service.post_together("/translate", bodies)
    texts = [answer.json()["translations"][0]["text"] for answer in answers]
    assert texts == (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n")[:-1][::8]


def test_the_bundle_passes_the_services_check_and_shows_its_figures(bundles: Path) -> None:
    config = load_bundle(bundles / "en-fr", CPU).config
    with serving(bundles) as service:
        [model] = service.get("/models").json()
    assert model["metrics"] == config["metrics"]
    assert model["corpora"] == [{"name": "pairs.tsv", "pairs": 304, "weight": 1.0}]
