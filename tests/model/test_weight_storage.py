"""The types in which a bundle stores its weights: what is restored is what was measured, and damage is reported."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples
from safetensors.torch import load, save
from torch import Tensor

from model.bundle_files import WEIGHTS, BundleError
from model.bundle_weights import load_bundle, restored, save_bundle, stored
from model.config import ModelConfig
from model.hypothesis import Limits
from model.int8.weights import quantise_rows, read_weights
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from model.weight_shapes import weight_shapes
from model.weight_storage import STORAGES, is_int8, is_int8_matrix, scale_name
from training.data.vocabulary import train_vocabulary

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
LIMITS = Limits(max_source=20, max_target=24, ratio=1.5, margin=4)
RECORD = {"source": "en", "target": "fr", "samples": [], "training": {"form": {"dtype": "int8"}}}
MATRIX, VECTOR = "encoder.0.feed_forward.inner.weight", "encoder.0.feed_forward.inner.bias"
SCALE = scale_name(MATRIX)
SHAPES = st.fixed_dictionaries(
    {
        "share_embeddings": st.sampled_from(["none", "decoder", "all"]),
        "positions": st.sampled_from(["sinusoidal", "learned"]),
        "norm": st.sampled_from(["post", "pre", "residual_post"]),
        "attention_bias": st.booleans(),
        "output_bias": st.booleans(),
        "encoder_layers": st.integers(1, 2),
    }
)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(train_vocabulary(("The kettle is on the stove.", "La bouilloire est sur le feu."), 400, ["en"]))


def random_model(vocab_size: int, seed: int = 0, **fields: Any) -> Transformer:
    """Every parameter is random, those too that training begins with at 0 or 1; a row of a matrix is zero."""
    shape = {"d_model": 8, "num_heads": 2, "d_ff": 12, "encoder_layers": 1, "decoder_layers": 1, "max_positions": 32}
    vocabularies = {"source_vocab_size": vocab_size, "target_vocab_size": vocab_size}
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        model = Transformer(ModelConfig.from_dict({**vocabularies, **shape, **fields})).eval()
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
        dict(model.named_parameters())[MATRIX][3] = 0
    return model


def parameters(model: Transformer) -> dict[str, Tensor]:
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


@pytest.fixture
def folder(tmp_path: Path, tokenizer: Tokenizer) -> Path:
    folder = tmp_path / "en-fr"
    save_bundle(folder, random_model(tokenizer.vocab_size), tokenizer, LIMITS, RECORD, "", dtype="int8")
    return folder


def change_weights(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    weights = load((folder / WEIGHTS).read_bytes())
    change(weights)
    (folder / WEIGHTS).write_bytes(save(weights))
    sign(folder)


def sign(folder: Path) -> None:
    names = ("config.json", WEIGHTS, "sentencepiece.model")
    lines = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (folder / "SHA256SUMS").write_text("".join(lines))


@pytest.mark.parametrize("storage", STORAGES)
@draw_examples(20)
@given(fields=SHAPES, seed=st.integers(0, 2**32))
def test_restored_weights_are_the_same_in_numpy_and_stay_the_same(
    storage: str, fields: dict[str, Any], seed: int
) -> None:
    weights = parameters(random_model(40, seed, **fields))
    content = save(stored(weights, storage))
    assert is_int8(content) == (storage == "int8")
    once, numpy = restored(load(content)), read_weights(content)
    assert once.keys() == numpy.keys() == weights.keys()
    for name, weight in once.items():
        assert numpy[name].dtype == np.float32
        assert np.array_equal(weight.float().numpy().view(np.uint32), numpy[name].view(np.uint32)), name
    assert save(stored(once, storage)) == content


@draw_examples(20)
@given(fields=SHAPES, seed=st.integers(0, 2**32))
def test_int8_weights_are_within_half_a_step_and_what_the_kernels_quantise_to(
    fields: dict[str, Any], seed: int
) -> None:
    weights = parameters(random_model(40, seed, **fields))
    tensors = stored(weights, "int8")
    for name, weight in restored(tensors).items():
        if weights[name].dim() == 1 or name.endswith(".positions"):
            assert torch.equal(weight, weights[name].half())
            continue
        scale = tensors[scale_name(name)]
        assert torch.equal(tensors[name].abs().amax(1), torch.where(scale > 0, 127, 0))
        assert ((weight - weights[name]).abs() <= 0.5001 * scale[:, None]).all()
        for unpacked in (
            weights[name],
            weight,
        ):  # stored in float32 or in int8, the kernels get
            rows, its_scale = quantise_rows(unpacked.numpy())
            assert np.array_equal(rows, tensors[name].numpy())
            assert np.array_equal(its_scale, scale.numpy())


@pytest.mark.parametrize("sharing", ["none", "decoder", "all"])
def test_int8_bundle_loads_as_the_weights_that_it_was_rounded_to(
    tmp_path: Path, tokenizer: Tokenizer, sharing: str
) -> None:
    model = random_model(tokenizer.vocab_size, share_embeddings=sharing, positions="learned")
    for place in ("once", "twice"):
        save_bundle(tmp_path / place, model, tokenizer, LIMITS, RECORD, "", dtype="int8")
        loaded = load_bundle(tmp_path / place, CPU).model
        expected = restored(stored(parameters(model), "int8"))
        assert all(torch.equal(weight, expected[name]) for name, weight in parameters(loaded).items())
        model = loaded
    once, twice = ((tmp_path / place / WEIGHTS).read_bytes() for place in ("once", "twice"))
    assert once == twice
    matrices = [name for name, shape in weight_shapes(model.config).items() if is_int8_matrix(name, shape)]
    assert {name for name, tensor in load(once).items() if tensor.dtype == torch.int8} == set(matrices)
    assert not any(name.endswith(".positions") for name in matrices)


def test_versions_that_do_not_know_int8_refuse_it_by_its_format_version(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    assert config["format_version"] == 2
    (folder / "config.json").write_text(json.dumps({**config, "format_version": 1}))
    sign(folder)
    with pytest.raises(BundleError, match=r"bundle format 1 is not the one this version reads \(2\)"):
        load_bundle(folder, CPU)


DAMAGE: list[tuple[Callable[[dict[str, Tensor]], object], str]] = [
    (lambda weights: weights.pop(SCALE), f"{WEIGHTS} lacks {SCALE}"),
    (lambda weights: weights.pop(MATRIX), f"{WEIGHTS} lacks {MATRIX}"),
    (lambda weights: weights.update({"encoder.0.self_residual.norm.weight.scale": torch.ones(8)}), "holds encoder.0"),
    (lambda weights: weights.update({"encoder.7.scale": torch.ones(8)}), "holds encoder.7.scale, which the architect"),
    (lambda weights: weights.update({SCALE: torch.ones(11)}), rf"{SCALE} in {WEIGHTS} has the shape \(11,\), the arch"),
    (lambda weights: weights.update({SCALE: torch.ones(12, 1)}), rf"{SCALE} in {WEIGHTS} has the shape \(12, 1\), the"),
    (lambda weights: weights.update({MATRIX: weights[MATRIX].T.contiguous()}), rf"{MATRIX} in {WEIGHTS} has the shape"),
    (lambda weights: weights.update({SCALE: weights[SCALE].half()}), f"{SCALE} in {WEIGHTS} is stored as F16, not F32"),
    (
        lambda weights: weights.update({MATRIX: weights[MATRIX].half()}),
        f"{MATRIX} in {WEIGHTS} is stored as F16, not I8",
    ),
    (
        lambda weights: weights.update({MATRIX: weights[MATRIX].byte()}),
        f"{MATRIX} in {WEIGHTS} is stored as U8, not I8",
    ),
    (
        lambda weights: weights.update({VECTOR: weights[VECTOR].char()}),
        f"{VECTOR} in {WEIGHTS} is stored as I8, not F16",
    ),
    (lambda weights: weights[SCALE][2].fill_(math.nan), f"{SCALE} in {WEIGHTS} is not finite"),
    (lambda weights: weights[SCALE][2].fill_(math.inf), f"{SCALE} in {WEIGHTS} is not finite"),
    (lambda weights: weights[SCALE][2].fill_(-0.01), f"{SCALE} in {WEIGHTS} is negative"),
    (lambda weights: weights[VECTOR][2].fill_(math.nan), f"{VECTOR} in {WEIGHTS} is not finite"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGE, ids=[message for _, message in DAMAGE])
def test_damaged_int8_weights_are_refused_in_a_line(
    folder: Path, damage: Callable[[dict[str, Tensor]], object], message: str
) -> None:
    change_weights(folder, damage)
    with pytest.raises(BundleError, match=message) as error:
        load_bundle(folder, CPU)
    assert str(error.value).startswith(f"{folder}: ")
    assert "\n" not in str(error.value)


def test_integers_in_place_of_floats_are_refused(tmp_path: Path, tokenizer: Tokenizer) -> None:
    folder = tmp_path / "en-fr"
    save_bundle(folder, random_model(tokenizer.vocab_size), tokenizer, LIMITS, RECORD, "")
    change_weights(folder, lambda weights: weights.update({MATRIX: weights[MATRIX].int()}))
    with pytest.raises(BundleError, match=f"{MATRIX} in {WEIGHTS} is stored as I32, not F16 or BF16 or F32 or F64"):
        load_bundle(folder, CPU)


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x02" + bytes(7) + b"[]", b"\x09" + bytes(7) + b'{"a": []}'])
def test_file_that_is_no_safetensors_has_no_int8_weights(content: bytes) -> None:
    assert not is_int8(content)


@pytest.mark.parametrize("storage", STORAGES)
def test_weights_are_written_as_safetensors_library_writes_them(
    storage: str, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    model = random_model(tokenizer.vocab_size)
    save_bundle(tmp_path / "b", model, tokenizer, LIMITS, RECORD, "", dtype=storage)
    assert (tmp_path / "b" / WEIGHTS).read_bytes() == save(stored(parameters(model), storage))


@pytest.mark.parametrize("storage", STORAGES)
def test_mapped_weights_are_those_that_are_read_and_leave_the_file_as_it_is(
    storage: str, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    save_bundle(tmp_path / "b", random_model(tokenizer.vocab_size), tokenizer, LIMITS, RECORD, "", dtype=storage)
    content = (tmp_path / "b" / WEIGHTS).read_bytes()
    read, mapped = (load_bundle(tmp_path / "b", torch.device("cpu"), mapped=mapped).model for mapped in (False, True))
    assert all(torch.equal(a, b) for a, b in zip(read.parameters(), mapped.parameters(), strict=True))
    with torch.no_grad():
        for parameter in mapped.parameters():
            parameter.zero_()
    assert (tmp_path / "b" / WEIGHTS).read_bytes() == content
