"""OPUS-MT's models as Hugging Face's transformers saves them, made here without it."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
from marian_models import marian_pieces, marian_transformer
from safetensors.numpy import save_file
from shared_fixtures import SENTENCES

from model.decoding import greedy_decode
from model.hypothesis import Limits
from model.transformer import Transformer
from training.export.marian import marian_arrays
from training.importing.errors import ImportFault
from training.importing.families import build_model, read_model
from training.importing.options import ImportOptions

pytestmark = pytest.mark.slow

LAYERS = {
    r"(\w+)_l(\d+)_self_([Wb])([qkvo])": "self_attn.{3}",
    r"(\w+)_l(\d+)_context_([Wb])([qkvo])": "encoder_attn.{3}",
    r"(\w+)_l(\d+)_self_Wo_ln_(scale|bias)()": "self_attn_layer_norm",
    r"(\w+)_l(\d+)_context_Wo_ln_(scale|bias)()": "encoder_attn_layer_norm",
    r"(\w+)_l(\d+)_ffn_ffn_ln_(scale|bias)()": "final_layer_norm",
    r"(\w+)_l(\d+)_ffn_([Wb])([12])": "fc{3}",
}
PROJECTIONS = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj"}
SETTINGS: dict[str, Any] = {
    "model_type": "marian",
    "d_model": 32,
    "activation_function": "swish",
    "scale_embedding": True,
    **{
        f"{stack}_{name}": value for stack in ("encoder", "decoder") for name, value in (("layers", 2), ("ffn_dim", 48))
    },
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "eos_token_id": 0,
}


def huggingface_name(name: str) -> str:
    for pattern, form in LAYERS.items():
        if found := re.fullmatch(pattern, name):
            stack, number, kind, letter = found.groups()
            layer = form.format("", "", "", PROJECTIONS.get(letter, letter))
            parameter = "weight" if kind in ("W", "scale") else "bias"
            return f"model.{stack}.layers.{int(number) - 1}.{layer}.{parameter}"
    return {"Wemb": "model.shared.weight", "decoder_ff_logit_out_b": "final_logits_bias"}[name]


UPPER = [text.upper() for text in SENTENCES]


def write_folder(
    folder: Path, scaled: bool = True, target: Callable[[], bytes] = lambda: marian_pieces(40, UPPER)
) -> tuple[Transformer, bytes]:
    """A folder as transformers saves it, the model in it, and the source's pieces. `target` makes the target's."""
    protos = marian_pieces(), target()
    processors = [sentencepiece.SentencePieceProcessor(model_proto=proto) for proto in protos]
    names = dict.fromkeys(side.id_to_piece(id) for side in processors for id in range(side.get_piece_size()))
    ids = {name: id for id, name in enumerate([*names, "<pad>"])}
    model = marian_transformer(len(ids), activation="swish")
    with torch.no_grad():  # the start token is <pad>
        model.target_embedding.tokens.weight[-1] = 0
        model.output.bias[-1] = -100
    tensors = {}
    for name, array in marian_arrays(model).items():
        if not name.startswith("special:"):
            stored = array.T if re.search(r"_W[qkvo12]$", name) else array
            kept = stored if name in ("Wemb", "decoder_ff_logit_out_b") or stored.shape[0] > 1 else stored[0]
            tensors[huggingface_name(name)] = np.ascontiguousarray(kept if scaled or name != "Wemb" else kept * 32**0.5)
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    (folder / "source.spm").write_bytes(protos[0])
    (folder / "target.spm").write_bytes(protos[1])
    (folder / "vocab.json").write_text(json.dumps(ids))
    settings = {**SETTINGS, "decoder_start_token_id": ids["<pad>"], "pad_token_id": ids["<pad>"]}
    (folder / "config.json").write_text(json.dumps({**settings, "scale_embedding": scaled}))
    (folder / "generation_config.json").write_text(json.dumps({"num_beams": 6, "bad_words_ids": [[ids["<pad>"]]]}))
    return model, protos[0]


def read(folder: Path) -> Any:
    return read_model(ImportOptions(folder, "en", "fr", Path("unused")))


@pytest.mark.parametrize("scaled", [True, False])
def test_a_folder_of_marian_mt_has_the_tokens_of_marians_model(tmp_path: Path, scaled: bool) -> None:
    model, pieces = write_folder(tmp_path / "model", scaled)
    imported = read(tmp_path / "model")
    again, tokenizers = build_model(imported)
    assert (imported.decoding.beam_size, imported.decoding.narrowing) == (6, True)
    sources = [sentencepiece.SentencePieceProcessor(model_proto=pieces).encode(text) for text in SENTENCES[:8]]
    assert [tokenizers.source.encode(text) for text in SENTENCES[:8]] == sources
    first, second = (
        each.hidden(torch.tensor(sources[:1]), torch.tensor([[each.config.bos_id, 4, 5]])) for each in (model, again)
    )
    assert torch.allclose(first, second, atol=1e-5)
    found = [[h.tokens for h in greedy_decode(each, sources, Limits(32, 32))] for each in (model, again)]
    assert found[0] == found[1] or not scaled  # whose output is another matrix


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("activation_function", "gelu"),
        ("activation_function", []),
        ("normalize_embedding", True),
        ("d_model", "32"),
        ("decoder_ffn_dim", 64),
    ],
)
def test_a_setting_that_is_not_supported_is_refused_by_name(tmp_path: Path, setting: str, value: Any) -> None:
    write_folder(tmp_path / "model")
    said = json.loads((tmp_path / "model" / "config.json").read_text())
    (tmp_path / "model" / "config.json").write_text(json.dumps({**said, setting: value}))
    with pytest.raises(ImportFault, match=setting.removeprefix("decoder_")):
        read(tmp_path / "model")


def test_pickles_are_refused_and_safetensors_named(tmp_path: Path) -> None:
    write_folder(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    torch.save({"a": torch.zeros(1)}, tmp_path / "model" / "pytorch_model.bin")
    (tmp_path / "old.bin").write_bytes(pickle.dumps({"a": 1}))
    for path in (tmp_path / "model", tmp_path / "model" / "pytorch_model.bin", tmp_path / "old.bin"):
        with pytest.raises(ImportFault, match=r"pickle.*convert it to safetensors"):
            read(path)


def test_a_damaged_safetensors_file_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path / "model")
    path = tmp_path / "model" / "model.safetensors"
    content = path.read_bytes()
    for damaged in (content[:1000], b"\xff" * 64, content[:-4]):
        path.write_bytes(damaged)
        with pytest.raises(ImportFault, match="no safetensors file"):
            read(tmp_path / "model")
