"""OPUS-MT's models as Hugging Face's transformers saves them, `MarianMTModel`: a folder with model.safetensors.

Names are as read in `models/marian/modeling_marian.py`. They become Marian's, so that one module knows the network.
Tried on models that transformers made; never on a published file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.hypothesis import MAX_BEAM_SIZE, Decoding, Limits
from training.importing.errors import ImportFault
from training.importing.marian import (
    ZERO_START,
    Side,
    build_sides,
    checked_tokens,
    directions_of,
    sizes_of,
    vocabulary_remarks,
)
from training.importing.marian_network import VocabularySizes, assemble
from training.importing.model import MAX_SENTENCE, ImportedModel
from training.importing.model_files import Value, read_content, read_json_object
from training.importing.options import PositionsOf
from training.importing.safetensors_files import StoredTensors, weight_files
from training.importing.vocabulary import Specials

CONFIG, GENERATION, MODEL_TYPE = "config.json", "generation_config.json", "marian"
_ACTIVATIONS = {"swish": "swish", "silu": "swish", "relu": "relu"}
_LINEARS = {"q_proj": "q", "k_proj": "k", "v_proj": "v", "out_proj": "o"}


def is_huggingface_marian(path: Path) -> bool:
    """Whether `path` has the form of this family."""
    try:
        return path.is_dir() and read_json_object(path / CONFIG).get("model_type") == MODEL_TYPE
    except ImportFault:
        return False


def read_huggingface_marian(path: Path, source: str, target: str, positions: PositionsOf) -> ImportedModel:
    """Reads the model in the folder `path`, which translates `source` into `target`. Raises ImportFault."""
    try:
        return _read(path, source, target, positions)
    except ImportFault as error:
        raise ImportFault(f"{path}: {error}") from None


def _read(folder: Path, source: str, target: str, positions: PositionsOf) -> ImportedModel:
    settings = read_json_object(folder / CONFIG)
    generation = read_json_object(folder / GENERATION) if (folder / GENERATION).exists() else settings
    weight_files(folder)  # before anything else: most old folders have a pickle only
    tensors = StoredTensors(folder)
    sides = _sides(folder)
    rows = _embedding_shape(tensors, "encoder")[0], _embedding_shape(tensors, "decoder")[0]
    vocabularies = build_sides(sides, rows, (source, target), Specials("<unk>", ZERO_START, "</s>", ZERO_START))
    sizes = sizes_of(vocabularies)
    start = _number(settings, "decoder_start_token_id", _number(settings, "pad_token_id", rows[1] - 1))
    if start >= rows[1]:
        raise ImportFault(f"has decoder_start_token_id {start}, over its {rows[1]} tokens")
    never = sorted({*sizes.never, start, *_forbidden(generation, rows[1])} - {sizes.end_id})
    sizes = VocabularySizes(**{**vars(sizes), "never": never})
    is_guided = (folder / "README.md").is_file() and b"transformer-align" in read_content(folder / "README.md")
    options, arrays = _as_marian(settings, tensors)
    first = arrays["decoder_Wemb" if "decoder_Wemb" in arrays else "Wemb"].numbers()[start]
    config, weights = assemble(options, arrays, sizes, positions, is_guided, torch.from_numpy(first.copy()))
    remarks = []
    if positions == "huggingface":
        remarks.append("Its positions are those of Hugging Face's copy, not those of Marian, which trained it.")
    else:
        remarks.append("Its positions are those of Marian, which trained it, not those of Hugging Face's copy.")
    remarks += vocabulary_remarks(vocabularies, [len(side.tokens) for side in sides])
    beams = generation.get("num_beams")
    beam_size = min(beams, MAX_BEAM_SIZE) if type(beams) is int and beams > 0 else None
    return ImportedModel(
        family="Hugging Face MarianMT",
        config=config,
        weights=weights,
        vocabulary=vocabularies[0],
        directions=directions_of(vocabularies[0], source, target),
        target_vocabulary=vocabularies[1] if len(vocabularies) > 1 else None,
        limits=Limits(MAX_SENTENCE, MAX_SENTENCE),
        remarks=remarks,
        metadata={},
        decoding=Decoding(beam_size=beam_size, narrowing=True),  # as Marian, which trained it, searches
        punctuation="moses",
    )


def _sides(folder: Path) -> list[Side]:
    """One vocabulary with two SentencePiece models, or two vocabularies. Raises ImportFault."""
    for name in ("source.spm", "target.spm", "vocab.json"):
        if not (folder / name).is_file():
            raise ImportFault(f"has no {name}")
    names = ["vocab.json", "target_vocab.json" if (folder / "target_vocab.json").is_file() else "vocab.json"]
    tokens = [checked_tokens(name, read_json_object(folder / name)) for name in names]
    protos = [read_content(folder / name) for name in ("source.spm", "target.spm")]
    if names[0] == names[1] and protos[0] == protos[1]:
        return [Side(tokens[0], protos[0])]
    return [Side(*side) for side in zip(tokens, protos, strict=True)]


def _number(settings: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = settings.get(name, default)
    if type(value) is not int or value < 0:
        raise ImportFault(f"has {name}: {value!r}, which is not a number")
    return value


def _flag(settings: Mapping[str, Any], name: str, default: bool) -> bool:
    value = settings.get(name, default)
    if type(value) is not bool:
        raise ImportFault(f"has {name}: {value!r}, which is neither true nor false")
    return value


def _forbidden(generation: Mapping[str, Any], size: int) -> Iterator[int]:
    """The tokens that `bad_words_ids` forbids by themselves."""
    words = generation.get("bad_words_ids") or []
    for word in words if isinstance(words, list) else []:
        if isinstance(word, list) and len(word) == 1 and type(word[0]) is int and 0 <= word[0] < size:
            yield word[0]


@dataclass(frozen=True)
class _Renamed:
    """A tensor of Hugging Face's under Marian's name: a matrix transposed, a vector as a row."""

    tensors: StoredTensors
    name: str
    is_linear: bool = False
    factor: float = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        shape = self.tensors.shape(self.name)
        return (1, *shape) if len(shape) == 1 else shape[::-1] if self.is_linear else shape

    def numbers(self) -> NDArray[np.float32]:
        values: Tensor = self.tensors[self.name]
        shaped = values[None] if values.dim() == 1 else values.T if self.is_linear else values
        return np.asarray((shaped * self.factor).numpy(), np.float32)


def _embedding_name(tensors: StoredTensors, stack: str) -> str:
    own = f"model.{stack}.embed_tokens.weight"
    return own if own in tensors else "model.shared.weight"


def _embedding_shape(tensors: StoredTensors, stack: str) -> tuple[int, int]:
    shape = tensors.shape(name := _embedding_name(tensors, stack))
    if len(shape) != 2:
        raise ImportFault(f"has {name} of shape {shape}, not a matrix")
    return shape[0], shape[1]


def _as_marian(settings: Mapping[str, Any], tensors: StoredTensors) -> tuple[dict[str, Value], dict[str, _Renamed]]:
    """The options and arrays that Marian would have. Raises ImportFault for what is not supported, by name."""
    for name in ("normalize_embedding", "add_bias_logits", "normalize_before", "add_final_layer_norm"):
        if _flag(settings, name, False):
            raise ImportFault(f"has {name}, which is not supported")
    activation = settings.get("activation_function", "gelu")
    if not isinstance(activation, str) or activation not in _ACTIVATIONS:
        raise ImportFault(f"has activation_function: {activation!r}, which is not supported")
    is_shared = _flag(settings, "share_encoder_decoder_embeddings", True)
    is_tied = _flag(settings, "tie_word_embeddings", True)
    width = _number(settings, "d_model")
    factor = 1.0 if _flag(settings, "scale_embedding", False) else 1 / math.sqrt(max(width, 1))  # for our scale
    pairs = {"heads": "attention_heads", "inner": "ffn_dim"}
    both = {
        ours: [_number(settings, f"{stack}_{name}") for stack in ("encoder", "decoder")] for ours, name in pairs.items()
    }
    for ours, numbers in both.items():
        if numbers[0] != numbers[1]:
            raise ImportFault(f"has another {pairs[ours]} in the decoder than in the encoder, which is not supported")
    can_tie = is_tied and factor == 1
    options: dict[str, Value] = {
        "dim-emb": str(width),
        "enc-depth": str(_number(settings, "encoder_layers")),
        "dec-depth": str(_number(settings, "decoder_layers")),
        "transformer-heads": str(both["heads"][0]),
        "transformer-dim-ffn": str(both["inner"][0]),
        "transformer-ffn-activation": _ACTIVATIONS[activation],
        "tied-embeddings-all": str(is_shared and can_tie).lower(),
        "tied-embeddings": str(not is_shared and can_tie).lower(),
    }
    arrays = dict(_layers(tensors))
    names = {stack: _embedding_name(tensors, stack) for stack in ("encoder", "decoder")}
    if is_shared and can_tie:
        arrays["Wemb"] = _Renamed(tensors, names["decoder"])
    else:
        arrays |= {f"{stack}_Wemb": _Renamed(tensors, name, factor=factor) for stack, name in names.items()}
    if not can_tie:
        output = names["decoder"] if is_tied else "lm_head.weight"
        arrays["decoder_ff_logit_out_Wt"] = _Renamed(tensors, output)
    arrays["decoder_ff_logit_out_b"] = _Renamed(tensors, "final_logits_bias")
    return options, arrays


def _layers(tensors: StoredTensors) -> Iterator[tuple[str, _Renamed]]:
    """The arrays of all layers. A name that is not known is refused later, as an array that nothing read."""
    known = ("model.shared.weight", "lm_head.weight", "final_logits_bias")
    for name in tensors:
        if name in known or name.endswith((".embed_tokens.weight", ".embed_positions.weight")):
            continue
        _, stack, *parts = [*name.split("."), *[""] * 6][:7]
        if (
            name.startswith("model.")
            and stack in ("encoder", "decoder")
            and parts[0] == "layers"
            and parts[1].isdigit()
        ):
            yield (
                _layer_name(stack, int(parts[1][:6]) + 1, [part for part in parts[2:] if part]),
                _Renamed(tensors, name, is_linear=True),
            )
        else:
            yield name, _Renamed(tensors, name)


def _layer_name(stack: str, number: int, parts: list[str]) -> str:
    layer, kind = f"{stack}_l{number}", parts[-1]
    attention = {"self_attn": "self", "encoder_attn": "context"}
    norm = {"weight": "scale", "bias": "bias"}.get(kind, kind)
    if len(parts) == 3 and parts[0] in attention and parts[1] in _LINEARS:
        return f"{layer}_{attention[parts[0]]}_{'W' if kind == 'weight' else 'b'}{_LINEARS[parts[1]]}"
    if len(parts) == 2 and parts[0] in ("fc1", "fc2"):
        return f"{layer}_ffn_{'W' if kind == 'weight' else 'b'}{parts[0][-1]}"
    if len(parts) == 2 and parts[0] == "final_layer_norm":
        return f"{layer}_ffn_ffn_ln_{norm}"
    if len(parts) == 2 and parts[0].removesuffix("_layer_norm") in attention:
        return f"{layer}_{attention[parts[0].removesuffix('_layer_norm')]}_Wo_ln_{norm}"
    return ".".join([layer, *parts])
