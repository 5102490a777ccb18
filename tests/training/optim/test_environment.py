"""What a session of training records about where it ran."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from shared_fixtures import TRAINING_LIMITS, small_config

from model import __version__
from model.tokenizer import Tokenizer
from training.optim import loop
from training.optim.checkpoint import load_state, save_state
from training.optim.environment import device_name, session_record
from training.optim.loop import State, train
from training.optim.trainer import Recipe

CPU = torch.device("cpu")


def test_processor_is_named_as_the_system_names_it(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: AMD EPYC 9B14\nmodel name\t: another\n")
    assert device_name(CPU, tmp_path / "cpuinfo") == "AMD EPYC 9B14"
    assert device_name(CPU, tmp_path / "missing")


def test_gpu_is_named_as_the_driver_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"card of {device}")
    record = session_record(torch.device("cuda", 1), "bfloat16", 2)
    assert (record["device"], record["device_name"], record["processes"]) == ("cuda", "card of cuda:1", 2)
    assert (record["versions"]["torch"], record["versions"]["interlinear"]) == (torch.__version__, __version__)


@pytest.mark.slow
def test_state_has_each_session_that_differs_from_the_one_before(
    data: Path, tmp_path: Path, quick_training: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "BLEU_SENTENCES", 1)
    config = small_config(Tokenizer.load(data / "sentencepiece.model").vocab_size)

    def run(steps: int) -> State:
        recipe = Recipe(steps, batch_tokens=300, evaluate_every=100)
        return train(data, tmp_path / "run", config, recipe, CPU, TRAINING_LIMITS, 100)

    run(2)
    snapshot = load_state(tmp_path / "run")
    assert snapshot is not None
    snapshot["state"]["sessions"][0]["device_name"] = "a processor elsewhere"
    save_state(tmp_path / "run", snapshot)
    for steps in (4, 4, 6):
        sessions = run(steps).sessions
    assert [(session["from_step"], session["device_name"]) for session in sessions] == [
        (1, "a processor elsewhere"),
        (3, device_name(CPU)),
    ]
    snapshot = load_state(tmp_path / "run")
    assert snapshot is not None
    for name in ("sessions", "time"):  # as of an older version
        snapshot["state"].pop(name, None)
    save_state(tmp_path / "run", snapshot)
    assert [session["from_step"] for session in run(7).sessions] == [7]
