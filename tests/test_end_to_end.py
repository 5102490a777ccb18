"""training/ and app/: End to end: what was trained and exported is served, and the service reproduces what
`evaluate` measured."""

from __future__ import annotations

import re
from asyncio import Future
from pathlib import Path
from typing import Any

import pytest
import torch
from shared_fixtures import PAIRS, serving
from typer.testing import CliRunner

from app.engine.engine import Engine
from app.engine.job import Job
from app.engine.sequence import Decoded
from app.translation.quality_checks import without_loops
from model.bundle_weights import load_bundle
from training.__main__ import cli
from training.corpora.corpus import write_pairs
from training.evaluation.evaluate import TestSet, evaluate_set

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
SET = PAIRS[::3]


@pytest.fixture(scope="module")
def bundles(run_folder: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundles")
    command = ["export", "--run", run_folder, "--data", data, "--out", folder / "en-fr", "--device", "cpu"]
    assert CliRunner().invoke(cli, list(map(str, command))).exit_code == 0
    return folder


def test_service_returns_the_ids_that_evaluate_scores(
    bundles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pairs(tmp_path / "set.tsv", SET)
    bundle = load_bundle(bundles / "en-fr", CPU)
    test = TestSet.read(str(tmp_path / "set.tsv"), "en", "fr")
    measured = evaluate_set(bundle.model, bundle.tokenizers, bundle.limits, "fr", test).translations

    served: list[Future[Decoded]] = []
    submit = Engine.submit

    def record(engine: Engine, jobs: list[Job], client: str, continues: bool) -> None:
        submit(engine, jobs, client, continues)
        served.extend(job.new_future() for job in jobs)

    with serving(bundles) as service:
        monkeypatch.setattr(Engine, "submit", record)
        body = {"text": [pair.source for pair in SET], "source": "en", "target": "fr"}
        answer: dict[str, Any] = service.post("/translate", body).json()
    sources = [bundle.source_tokenizer.encode(pair.source) for pair in SET]
    said = [cut(tokens, source) for tokens, source in zip(measured.ids, sources, strict=True)]
    # The service decodes sentences again whose numbers or names the translation lacks.
    assert [list(decoded.result().tokens) for decoded in served[: len(SET)]] == measured.ids
    for pair, item, tokens in zip(SET, answer["translations"], said, strict=True):
        text = bundle.target_tokenizer.decode(tokens)
        name = pair.source.split()[0]
        assert item["text"] == text or digits(text) != digits(pair.source) or name not in text
    assert sum(text == item["text"] for text, item in zip(measured.texts, answer["translations"], strict=True)) > 66
    assert answer["model"] == bundle.name
    assert len(set(measured.texts)) > 20


def digits(text: str) -> list[str]:
    return re.findall(r"\d", text)


def cut(tokens: list[int], source: list[int]) -> list[int]:
    """The sentences without repetitions, which the service cuts and evaluation does not."""
    return [tokens[index] for index in without_loops(tokens, source)]


def test_concurrent_requests_get_the_translations_that_evaluate_writes(bundles: Path, tmp_path: Path) -> None:
    write_pairs(tmp_path / "set.tsv", SET)
    files = ["--raw", "--bundle", bundles / "en-fr", "--pairs", tmp_path / "set.tsv", "--out", tmp_path / "out.txt"]
    assert CliRunner().invoke(cli, ["evaluate", *map(str, files), "--device", "cpu"]).exit_code == 0
    with serving(bundles) as service:
        bodies = [{"text": pair.source, "source": "en", "target": "fr"} for pair in SET[::4]]
        answers = service.post_together("/translate", bodies)
    items = [answer.json()["translations"][0] for answer in answers]
    written = (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n")[:-1][::4]
    compared = [one for one in zip(SET[::4], items, written, strict=True) if digits(one[0].source) == digits(one[2])]
    unlike = [item for _, item, text in compared if item["text"] != text]
    assert all("repeated itself" in item["warnings"][0] for item in unlike)
    assert len(unlike) < len(compared) / 4


def test_bundle_passes_the_services_check_and_shows_its_scores(bundles: Path) -> None:
    config = load_bundle(bundles / "en-fr", CPU).config
    with serving(bundles) as service:
        [model] = service.get("/models").json()
    assert model["metrics"] == config["metrics"]
    assert model["corpora"] == [{"name": "pairs.tsv", "pairs": 304, "weight": 1.0}]
