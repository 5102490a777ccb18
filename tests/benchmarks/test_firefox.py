"""The benchmark against fxtranslate: its model is ours, and both engines are asked the same. A stand-in answers for
fxtranslate, which is not installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from shared_fixtures import SENTENCES, make_bundle

from benchmarks.firefox import ROWS, Ours, Peer, compare, firefox_model
from model.bundle_weights import LoadedBundle, load_bundle
from training.export.marian import marian_arrays, marian_vocabulary
from training.importing.marian_files import StoredArray, read_bin

STAND_IN = """
class Translator:
    def __init__(self, model, source, target):
        assert model[:8] == b"\\1" + bytes(7) and source == target
    def backend(self):
        return "none"
    def translate(self, text):
        return text.upper()
"""


@pytest.fixture
def bundle(tmp_path: Path) -> LoadedBundle:
    kind: dict[str, Any] = {"norm": "post", "positions": "marian", "decoder": "ssru"}
    kind |= {"zero_start": True, "output_bias": True}
    return load_bundle(make_bundle(tmp_path / "en-fr", **kind), torch.device("cpu"))


def test_the_model_has_our_weights_and_the_largest_input_of_each_product(bundle: LoadedBundle) -> None:
    arrays, ours = read_bin(memoryview(firefox_model(bundle, SENTENCES))).arrays, marian_arrays(bundle.model)
    stored = {name: array for name, array in arrays.items() if isinstance(array, StoredArray)}
    products = {name for name, array in stored.items() if array.dtype == "intgemm8"}
    multipliers = {name.removesuffix("_QuantMultA") for name in stored if name.endswith("_QuantMultA")}
    assert multipliers == products - {"Wemb"} | {"none"}
    for name in products:
        scale = np.abs(ours[name]).max() / 127
        np.testing.assert_allclose(stored[name].numbers(), ours[name], atol=0.51 * scale)
    normalised = [stored[f"encoder_l1_self_W{letter}_QuantMultA"].numbers().item() for letter in "qkv"]
    assert len(set(normalised)) == 1 and 127 / normalised[0] > 1  # of embeddings, which are scaled


def test_engines_are_compared_on_all_texts(
    bundle: LoadedBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fxtranslate.py").write_text(STAND_IN)
    (tmp_path / "model.bin").write_bytes(firefox_model(bundle, SENTENCES))
    (tmp_path / "vocab.spm").write_bytes(marian_vocabulary(bundle.source_tokenizer))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    ours, core = Ours(bundle), min(os.sched_getaffinity(0))
    with Peer(Path(sys.executable), tmp_path / "model.bin", tmp_path / "vocab.spm", core) as peer:
        assert peer.about == "fxtranslate, none"
        assert peer.translate(["a", "b"])[1] == ["A", "B"]
        speed, alone = compare(ours, peer, SENTENCES, 2)
    assert len(speed.rows) == len(ROWS) + 2 and len(alone.rows) == 3
    assert ours.translate(SENTENCES, 16) == [ours.translate([text], 1)[0] for text in SENTENCES]


def test_an_engine_that_ends_is_an_error(bundle: LoadedBundle, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="fxtranslate ended with status 1"):
        Peer(Path(sys.executable), tmp_path / "none", tmp_path / "none", min(os.sched_getaffinity(0)))
