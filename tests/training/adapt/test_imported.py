"""training/adapt/ and training/importing/: fine-tuning of imported models: a small real one of each family, from
its own files to a bundle that serves."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from finished import finished
from imported_families import (
    FAMILIES,
    Make,
    ctranslate2_of_two_vocabularies,
    firefox,
    import_model,
    limit_translations,
    nllb,
    opus,
)
from shared_fixtures import SENTENCES
from tuned import begin, loaded, run, tune_quickly

from model.bundle_weights import check_samples
from model.config import ModelConfig
from model.directions import Direction
from training.adapt.finetune import InitialBundle, learnable_symbols
from training.corpora.corpus import Pair, write_pairs
from training.data.batches import Pairs
from training.data.dataset import PreparedSummary
from training.importing import placeholders
from training.optim.checkpoint import load_state
from training.optim.loss import EXCLUDED_BIAS

pytestmark = pytest.mark.slow

WORDS = sorted({word.strip(",.?!") for text in SENTENCES for word in text.split()})
"""What the vocabularies of tiny models spell without unknown characters."""
PAIRS = [
    Pair(f"{one} {two} {three}.", f"{three} {two} {one}.")
    for one, two, three in zip(WORDS, WORDS[7:], WORDS[3:], strict=False)
]


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(tmp_path, monkeypatch)
    write_pairs(Path("own.tsv"), PAIRS)
    tune_quickly(monkeypatch)
    monkeypatch.setattr(placeholders, "CARRIERS", 1)
    limit_translations(monkeypatch)


def imported(make: Make) -> None:
    """The bundle of a model, in a folder that has what `_files` writes."""
    finished(("imported", make), lambda: import_model(make))


def tune(*options: object, code: int = 0) -> str:
    given = ["--pairs", "own.tsv", "--init", "bundles/imported", "--out", "bundles/tuned", "--work", "work"]
    given += ["--accept-loss", "100"]
    return run(*given, "--source", "en", "--target", "fr", "--accept-general-loss", "100", *options, code=code)


@pytest.mark.parametrize("make", FAMILIES)
def test_an_imported_model_of_each_family_is_fine_tuned(make: Make) -> None:
    imported(make)
    before = loaded("imported")
    tune("--blend", "1")
    after = loaded("tuned")
    check_samples(after)
    ours, theirs = (config.config["architecture"] for config in (after, before))
    assert {**ours, "dropout": theirs["dropout"]} == theirs
    assert before.tokenizers.is_joint == (make not in (ctranslate2_of_two_vocabularies, opus))
    direction = before.in_direction("en", "fr").direction
    assert (after.direction, after.tokenizers.is_joint) == (direction, before.tokenizers.is_joint)
    assert [t.proto for t in after.tokenizers] == [t.proto for t in before.tokenizers]
    for name in ("decoding", "text", "reserved_copies"):
        assert after.config.get(name) == before.config.get(name)
    state = load_state(Path("work/run"))
    assert state is not None
    losses = [evaluation["dev_loss"] for evaluation in state["state"]["history"]]
    assert losses[-1] < losses[0] - 0.1
    text = [id for id in range(after.target_tokenizer.vocab_size) if after.target_tokenizer.is_text(id)]
    biases = [bundle.model.output.bias.detach() for bundle in (before, after)]
    assert not torch.allclose(biases[0][text], biases[1][text])
    excluded = (InitialBundle(before.in_direction("en", "fr")).weights["output.bias"] < EXCLUDED_BIAS).nonzero()[:, 0]
    torch.testing.assert_close(biases[1][excluded], biases[0][excluded], atol=0.05, rtol=0)  # float16
    assert (biases[1][torch.tensor(after.target_tokenizer.reserved_ids)] > EXCLUDED_BIAS).all()
    card = Path("bundles/tuned/README.md").read_text()
    assert f"{before.in_direction('en', 'fr').name} was imported from a" in card


def test_a_direction_of_an_imported_model_must_be_chosen() -> None:
    imported(nllb)
    given = ["--pairs", "own.tsv", "--init", "bundles/imported", "--out", "bundles/tuned", "--work", "work"]
    assert "choose the one to adapt with --source and --target" in run(*given, code=1)
    assert "does not translate from en to de" in run(*given, "--source", "en", "--target", "de", code=1)
    assert not Path("work").exists()


def test_pairs_whose_translation_has_unknown_characters_are_left_out() -> None:
    imported(firefox)
    write_pairs(Path("dev.tsv"), PAIRS[:8])
    snow = [Pair("the snow man.", "the ☃ man."), Pair("the ☃ man.", "the man.")]
    write_pairs(Path("own.tsv"), [*PAIRS[8:], *snow])
    tune("--dev", "dev.tsv")
    skipped = PreparedSummary.load(Path("work/data")).corpora[0]["skipped"]
    assert skipped["a character in the translation that the vocabulary lacks"] == 1


def test_bpe_dropout_is_refused_for_an_imported_vocabulary_before_any_work() -> None:
    imported(firefox)
    Path("r.toml").write_text("[training]\nbpe_dropout = 0.1")
    assert "bpe_dropout needs a vocabulary of byte pairs" in tune("--recipe", "r.toml", code=1)
    assert not Path("work").exists()


def test_an_imported_model_is_refused_as_a_parent_before_any_work() -> None:
    imported(firefox)
    Path("r.toml").write_text('parent = "bundles/imported"')
    given = ["--recipe", "r.toml", "--pairs", "own.tsv", "--source", "en", "--target", "de", "--out", "bundles/child"]
    assert "it can be fine-tuned with --init, but is no parent" in run(*given, code=1)
    assert not Path("work").exists()


@pytest.mark.parametrize("copied", [0, 3])
def test_symbols_that_an_imported_model_excludes_become_learnable(copied: int) -> None:
    imported(firefox)
    bundle = loaded("imported")
    ids, weights = torch.tensor(bundle.target_tokenizer.reserved_ids), dict(bundle.model.state_dict())
    weights["output.bias"] = weights["output.bias"].clone()
    weights["output.bias"][ids] = torch.tensor([0.5] * copied + [-100.0] * (len(ids) - copied))
    changed = learnable_symbols(weights, bundle.tokenizers)
    assert (changed["output.bias"][ids] > EXCLUDED_BIAS).all()
    assert torch.equal(changed["output.weight"], changed["source_embedding.tokens.weight"])  # one matrix, still
    if copied:
        assert torch.equal(changed["output.weight"][ids[3:6]], weights["output.weight"][ids[:3]])
    others = [id for id in range(bundle.target_tokenizer.vocab_size) if id not in ids]
    assert torch.equal(changed["output.weight"][others], weights["output.weight"][others])


def test_a_target_prefix_is_read_but_not_learnt() -> None:
    config = ModelConfig(20, 20, d_model=8, num_heads=2, d_ff=8)
    direction = Direction("en", "fr", (7, 8), (9,))
    pairs = Pairs.of([[10, 11], [12]], [[13], [14, 15]])
    pairs = dataclasses.replace(pairs, source_prefix=direction.source_prefix, target_prefix=direction.target_prefix)
    batch = pairs.batch(np.arange(2), config)
    assert batch.src.tolist() == [[7, 8, 10, 11, 2], [7, 8, 12, 2, 0]]
    assert batch.tgt_in.tolist() == [[1, 9, 13, 0], [1, 9, 14, 15]]
    assert batch.tgt_out.tolist() == [[0, 13, 2, 0], [0, 14, 15, 2]]
    assert batch.target_positions is not None
    assert batch.target_tokens == len(batch.target_positions) == 5
