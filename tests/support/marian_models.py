"""Models in Marian's formats, for the tests of its importer and exporter."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import torch
from numpy.typing import NDArray
from shared_fixtures import SENTENCES

from model.config import ModelConfig
from model.transformer import Transformer
from training.export.marian import OPTIONS, marian_arrays, write_npz

INTGEMM8 = 0x4101


def marian_pieces(size: int = 300, sentences: list[str] | None = None) -> bytes:
    """A SentencePiece model as Marian trains them: </s> is 0, <unk> is 1, and there is no <s>."""
    proto = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences or SENTENCES),
        model_writer=proto,
        vocab_size=size,
        hard_vocab_limit=False,
        minloglevel=2,
        bos_id=-1,
        eos_id=0,
        unk_id=1,
    )
    return proto.getvalue()


def piece_count(proto: bytes) -> int:
    return int(sentencepiece.SentencePieceProcessor(model_proto=proto).get_piece_size())


def marian_transformer(source: int, target: int | None = None, seed: int = 0, **fields: Any) -> Transformer:
    """A random model of Marian's kind. Its start token is not read."""
    torch.manual_seed(seed)
    shape = {"d_model": 32, "num_heads": 2, "d_ff": 48, "encoder_layers": 2, "decoder_layers": 2, "norm": "post"}
    kind = {"positions": "marian", "zero_start": True, "output_bias": True}
    sizes = {"source_vocab_size": source, "target_vocab_size": target or source}
    model = Transformer(ModelConfig(**{**sizes, **shape, **kind, **fields}, pad_id=1, bos_id=1, eos_id=0)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1 if parameter.dim() == 1 else 0.5 * parameter)
        model.output.bias[1] = -100  # <unk>, which an imported model never generates
    return model


def marian_folder(folder: Path, model: Transformer, **protos: bytes) -> Path:
    """The folder with `model.npz` and SentencePiece models by their names without .spm."""
    folder.mkdir(parents=True)
    write_npz(folder / "model.npz", marian_arrays(model))
    for name, proto in protos.items():
        (folder / f"{name}.spm").write_bytes(proto)
    return folder


def is_product(name: str) -> bool:
    """Whether an array of this name is the matrix of a product, or the embeddings."""
    return "_W" in name[-3:] or "Wemb" in name


def as_bin(arrays: Mapping[str, NDArray[Any]], kind: int = 0x404) -> bytes:
    """A .bin as Marian and Bergamot write it, with matrices of products in intgemm8 if `kind` is its type."""
    headers, names, shapes, contents = b"", b"", b"", b""
    for name, array in arrays.items():
        if name == OPTIONS:
            number, content = 0x101, array.tobytes()
        elif kind != 0x404 and is_product(name):
            number, multiplier = kind, np.float32(127 / np.abs(array).max())
            stored = array if "Wemb" in name else array.T
            content = np.rint(stored * multiplier).astype(np.int8).tobytes() + multiplier.tobytes()
        else:
            number, content = 0x404, array.tobytes()
        content += bytes(-len(content) % 256)
        headers += struct.pack("<QQQQ", len(name) + 1, number, array.ndim, len(content))
        names += name.encode() + b"\0"
        shapes += struct.pack(f"<{array.ndim}i", *array.shape)
        contents += content
    start = struct.pack("<QQ", 1, len(arrays)) + headers + names + shapes
    gap = -(len(start) + 8) % 256
    return start + struct.pack("<Q", gap) + bytes(gap) + contents
