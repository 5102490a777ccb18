"""Learning an alignment head from token pairs, and `interlinear align` on a bundle: training/align/command.py."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
import torch
from shared_fixtures import make_bundle
from typer.testing import CliRunner

from model.bundle_files import ALIGNMENT, CONFIG, WEIGHTS
from model.bundle_weights import load_bundle
from training.__main__ import cli
from training.align import learn
from training.align.command import AlignOptions, align_bundle
from training.align.learn import MIN_PAIRS, align
from training.align.statistical import LONGEST

pytestmark = pytest.mark.slow
CPU = torch.device("cpu")
WORDS = {"the": "le", "cat": "chat", "dog": "chien", "sleeps": "dort", "eats": "mange", "red": "rouge", "and": "et"}


def texts(count: int, seed: int) -> list[tuple[str, str]]:
    random = Random(seed)
    chosen = (random.sample(sorted(WORDS), k=random.randint(2, 6)) for _ in range(count))
    return [(" ".join(words), " ".join(WORDS[word] for word in words)) for words in chosen]


def write(path: Path, pairs: list[tuple[str, str]]) -> str:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    return str(path)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return make_bundle(tmp_path / "en-fr")


def test_a_bundle_learns_a_head_and_keeps_its_weights(bundle: Path, tmp_path: Path) -> None:
    weights, said = (bundle / WEIGHTS).read_bytes(), list[str]()
    train = write(tmp_path / "train.tsv", texts(MIN_PAIRS + 100, 1))
    align_bundle(AlignOptions(bundle, (train,), (write(tmp_path / "dev.tsv", texts(100, 2)),), threads=1), said.append)
    assert (bundle / WEIGHTS).read_bytes() == weights
    loaded, config = load_bundle(bundle, CPU), json.loads((bundle / CONFIG).read_text())
    assert loaded.model.alignment is not None
    record = config["alignment"]
    assert record["learnt_from_pairs"] == MIN_PAIRS + 100
    assert record["measured_on_pairs"] == 100
    assert record["links_found"] > 0.9 > record["links_found_by_attention"]
    assert f"alignment: {record['links_found']:.1%} of the links of 100 pairs" in said[0]
    again = (bundle / ALIGNMENT).read_bytes()
    align_bundle(AlignOptions(bundle, (train,), (str(tmp_path / "dev.tsv"),), threads=1), said.append)
    assert (bundle / ALIGNMENT).read_bytes() == again


def test_the_command_takes_columns_in_any_order(bundle: Path, tmp_path: Path) -> None:
    swapped = [(target, source) for source, target in texts(MIN_PAIRS + 100, 1)]
    path = write(tmp_path / "swapped.tsv", swapped)
    given = ["--bundle", str(bundle), "--pairs", path, "--test", path, "--limit", "1050", "--threads", "1"]
    done = CliRunner().invoke(cli, ["align", *given, "--columns", "2,1"])
    assert done.exit_code == 0, done.output
    assert json.loads((bundle / CONFIG).read_text())["alignment"]["learnt_from_pairs"] == 1050
    refused = CliRunner().invoke(cli, ["align", *given, "--columns", "2,2"])
    assert refused.exit_code != 0
    assert "must be two different numbers" in refused.output


def test_too_few_pairs_change_nothing(bundle: Path, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in bundle.iterdir()}
    pairs = write(tmp_path / "few.tsv", texts(MIN_PAIRS - 1, 1))
    with pytest.raises(ValueError, match="999 pairs say too little of the words: 1,000 are needed"):
        align_bundle(AlignOptions(bundle, (pairs,), (pairs,), threads=1))
    assert {path.name: path.read_bytes() for path in bundle.iterdir()} == before


def test_a_limit_leaves_out_the_rest_of_each_file(bundle: Path, tmp_path: Path) -> None:
    parts = [write(tmp_path / f"{seed}.tsv", texts(700, seed)) for seed in (1, 2)]
    align_bundle(AlignOptions(bundle, tuple(parts), (parts[0],), limit=600, threads=1))
    record = json.loads((bundle / CONFIG).read_text())["alignment"]
    assert (record["learnt_from_pairs"], record["measured_on_pairs"]) == (1200, 600)


def test_pairs_that_need_more_memory_are_left_out_the_long_ones_first(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load_bundle(bundle, CPU)
    pairs = [loaded.tokenizers.encode_pair(*pair) for pair in texts(3000, 1)]
    pairs += [([5] * 60, [6] * 60)] * 300 + [([5] * (LONGEST + 1), [6])] * 300
    tests = [loaded.tokenizers.encode_pair(*pair) for pair in texts(50, 2)]
    monkeypatch.setattr(learn, "MAX_CANDIDATES", sum(len(source) * len(target) for source, target in pairs[:2000]))
    aligned = align(loaded.model, loaded.tokenizers, "fr", pairs, tests)
    assert aligned is not None
    assert 1500 < aligned.record["learnt_from_pairs"] < 2900


def test_a_head_that_finds_no_more_than_attention_is_not_kept(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_bundle(bundle, CPU)
    pairs = [loaded.tokenizers.encode_pair(*pair) for pair in texts(MIN_PAIRS, 1)]
    monkeypatch.setattr(learn, "accuracy", lambda *_: (0.7, 0.7))
    assert align(loaded.model, loaded.tokenizers, "fr", pairs, pairs[:50]) is None
