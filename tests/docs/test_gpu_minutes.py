"""docs/gpu-minutes.md: followed by its own commands: on a CPU, with a small corpus and a small model."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
import warm
from quick_trainer import COMMAND
from shared_fixtures import PAIRS

from model.bundle_weights import load_bundle
from training.corpora.corpus import write_pairs

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "gpu-minutes.md"
SMALLER = {
    "python -m training": shlex.join(COMMAND),
    "--vocab-size 16000": "--vocab-size 360",
    "--part-mib 16": "--part-mib 0.01",
    "--encoder-layers 6 --decoder-layers 2 --d-model 384 --num-heads 6 --d-ff 1536": (
        "--encoder-layers 1 --decoder-layers 1 --d-model 32 --num-heads 2 --d-ff 64 --device cpu --threads 1"
    ),
    "--minutes 8 --batch-tokens 36864 --warmup 500": "--minutes 0.02 --batch-tokens 400 --warmup 30",
    "--dtype int8": "--dtype int8 --device cpu --threads 1",
    "evaluate --bundle": "evaluate --device cpu --bundle",
}
"""What the test replaces in the page's commands: sizes, and the device."""


def blocks() -> list[str]:
    """The page's three blocks of commands, with small sizes."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for ours, theirs in SMALLER.items():
        assert any(ours in block for block in found), ours
        found = [block.replace(ours, theirs) for block in found]
    return found


def follow(block: str, folder: Path) -> str:
    """Runs a block of commands in `folder`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    environment[warm.VARIABLE] = warm.server_address()
    done = subprocess.run(
        ["bash", "-e", "-c", block], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    logs = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.log"))
    assert done.returncode == 0, done.stderr + logs
    return done.stdout


def carry(name: str, start: Path, end: Path) -> None:
    shutil.copytree(start / "parts" / name, end / "parts" / name)


@pytest.mark.slow
def test_pages_commands_lead_from_a_corpus_to_a_bundle_for_each_direction(tmp_path: Path) -> None:
    home, card = tmp_path / "home", tmp_path / "card"
    home.mkdir()
    card.mkdir()
    for name, some in (("train", PAIRS[20:]), ("dev", PAIRS[:10]), ("test", PAIRS[10:20])):
        write_pairs(home / f"{name}.tsv", some)
    at_home, on_the_card, at_home_again = blocks()
    assert "pairs of en and fr" in follow(at_home, home)
    carry("data", home, card)
    said = follow(on_the_card, card)
    assert said.count("weights of its last evaluation in float16") == 2
    for direction in ("en-fr", "fr-en"):
        carry(direction, card, home)
    measured = follow(at_home_again, home)
    assert measured.count("BLEU") >= 2
    for direction in ("en-fr", "fr-en"):
        bundle = load_bundle(home / "mine" / direction, torch.device("cpu"))
        assert bundle.pair == direction
        assert bundle.config["training"]["steps"] > 0


def test_page_is_short() -> None:
    assert len(PAGE.read_text(encoding="utf-8").splitlines()) <= 100
