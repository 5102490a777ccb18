"""Random models in the form of Hugging Face's M2M-100 and NLLB-200 folders, for the tests of their reader."""

from __future__ import annotations

import io
import json
from pathlib import Path

import sentencepiece
import torch
from safetensors.torch import save_file
from shared_fixtures import SENTENCES
from torch import Tensor

from model.config import ModelConfig
from model.transformer import Transformer
from training.importing.m2m import positions_table

NLLB_LANGUAGES = ["eng_Latn", "fra_Latn", "zho_Hans", "zho_Hant", "kas_Arab", "kas_Deva"]
POSITIONS = 40


def bpe_pieces(size: int = 200) -> bytes:
    proto = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_writer=proto, vocab_size=size, model_type="bpe",
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    return proto.getvalue()


def nllb_folder(folder: Path, licence: str = "cc-by-nc-4.0", seed: int = 0) -> tuple[Path, Transformer]:
    """An NLLB folder, and the model with the same weights."""
    folder.mkdir(parents=True)
    pieces = bpe_pieces()
    (folder / "sentencepiece.bpe.model").write_bytes(pieces)
    count = sentencepiece.SentencePieceProcessor(model_proto=pieces).get_piece_size()
    rows = count + 1 + len(NLLB_LANGUAGES) + 1 + 2
    torch.manual_seed(seed)
    config = ModelConfig(
        source_vocab_size=rows, target_vocab_size=rows, d_model=32, num_heads=2, d_ff=48, encoder_layers=2,
        decoder_layers=2, norm="pre", positions="learned", max_positions=POSITIONS, share_embeddings="all",
        pad_id=1, bos_id=2, eos_id=2,
    )  # fmt: skip
    model = Transformer(config).eval()
    with torch.no_grad():
        for embedding in (model.source_embedding, model.target_embedding):
            embedding.positions.copy_(positions_table(POSITIONS, 32))
    save_file(published_tensors(model), folder / "model.safetensors")
    settings = {
        "model_type": "m2m_100", "scale_embedding": True, "activation_function": "relu", "encoder_layers": 2,
        "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
        "max_position_embeddings": POSITIONS, "num_beams": 4,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": NLLB_LANGUAGES}))
    (folder / "README.md").write_text(f"---\nlicense: {licence}\n---\n# A model\n")
    return folder, model


def published_tensors(model: Transformer) -> dict[str, Tensor]:
    """The weights under the names of transformers' M2M100ForConditionalGeneration."""
    found = {}
    parts = {
        "self_attention.output": "self_attn.out_proj",
        "cross_attention.output": "encoder_attn.out_proj",
        "self_residual.norm": "self_attn_layer_norm",
        "cross_residual.norm": "encoder_attn_layer_norm",
        "feed_forward.inner": "fc1",
        "feed_forward.outer": "fc2",
        "feed_residual.norm": "final_layer_norm",
    }
    for name, values in model.named_parameters():
        value = values.detach().clone()
        stack, _, rest = name.partition(".")
        if name == "source_embedding.tokens.weight":
            found["model.shared.weight"] = value
        elif stack.endswith("_norm"):
            found[f"model.{stack.removesuffix('_norm')}.layer_norm.{rest}"] = value
        elif stack in ("encoder", "decoder"):
            number, part, kind = rest.split(".", 1)[0], rest.split(".", 1)[1].rsplit(".", 1)[0], rest.rsplit(".", 1)[1]
            layer = f"model.{stack}.layers.{number}"
            if part.endswith("query_key_value"):
                attention = "self_attn" if part.startswith("self") else "encoder_attn"
                for letter, each in zip("qkv", value.chunk(3), strict=True):
                    found[f"{layer}.{attention}.{letter}_proj.{kind}"] = each.clone()
            else:
                found[f"{layer}.{parts[part]}.{kind}"] = value
    return found
