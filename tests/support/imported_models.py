"""Models of other programs, made by their own code, for the tests of importers."""

from __future__ import annotations

import atexit
import functools
import io
import json
import struct
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from shared_fixtures import SENTENCES

from training.importing.model_bin import DTYPES, read_model_bin

MADE_UP = ["<made-up-0>", "<made-up-1>"]
"""Tokens without a piece."""
TRANSLATE = """
import json, sys, ctranslate2
for line in sys.stdin:
    folder, sources, beam_size, compute_type, options = json.loads(line)
    translator = ctranslate2.Translator(folder, compute_type=compute_type, intra_threads=1)
    translated = translator.translate_batch(
        sources, beam_size=beam_size, max_decoding_length=24, min_decoding_length=0, return_end_token=True, **options
    )
    print(json.dumps([result.hypotheses[0] for result in translated]), flush=True)
"""


def translate_with_ctranslate2(
    folder: Path, sources: Sequence[Sequence[str]], beam_size: int = 1, compute_type: str = "float32", **options: Any
) -> list[list[str]]:
    """What CTranslate2 makes of `sources`, in another process. Without `options` never the unknown token."""
    options = options or {"disable_unk": True, "length_penalty": 1}
    process = _ctranslate2()
    assert process.stdin and process.stdout
    print(json.dumps([str(folder), sources, beam_size, compute_type, options]), file=process.stdin, flush=True)
    return list(json.loads(process.stdout.readline()))


@functools.cache
def _ctranslate2() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", TRANSLATE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.communicate)
    return process


def unigram_pieces(size: int = 300) -> bytes:
    """A SentencePiece model as OpenNMT's users train them: unigram, NFKC, no bytes, one leading space added."""
    proto = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_writer=proto, vocab_size=size, hard_vocab_limit=False, minloglevel=2
    )
    return proto.getvalue()


def opennmt_tokens(pieces: bytes) -> list[str]:
    """The vocabulary of an OpenNMT model: its own order, the special tokens first, and without some pieces."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=pieces)
    known = [processor.id_to_piece(id) for id in range(processor.get_piece_size())]
    text = [piece for piece in known if piece not in ("<unk>", "<s>", "</s>")]
    return ["<unk>", "<blank>", "<s>", "</s>", *reversed(text[:-3]), *MADE_UP]


def opennmt_spec(
    tokens: Sequence[str],
    seed: int = 0,
    *,
    source_tokens: Sequence[str] | None = None,
    pre_norm: bool = True,
    shift: float = 0,
    **fields: Any,
) -> Any:
    """A random model for CTranslate2 with the traits of OpenNMT-py's: no end symbol on the source, an output bias, the
    decoder's matrices tied, and the table of positions stored. A `shift` of it makes positions other than sinusoids."""
    from ctranslate2.specs import transformer_spec

    draw, width, inner, size = np.random.default_rng(seed), 64, 48, len(tokens)

    def numbers(*shape: int, scale: float = 0.3) -> Any:
        return draw.normal(0, scale, shape).astype(np.float32)

    def linear(spec: Any, outputs: int, inputs: int) -> None:
        spec.weight, spec.bias = numbers(outputs, inputs), numbers(outputs, scale=0.1)

    def norm(spec: Any) -> None:
        spec.gamma, spec.beta = 1 + numbers(width, scale=0.1), numbers(width, scale=0.1)

    spec = transformer_spec.TransformerSpec.from_config((3, 2), 4, pre_norm=pre_norm, **fields)
    positions = np.arange(40)[:, None] * np.exp(np.arange(0, width, 2) * -(np.log(10_000) / width))
    table = np.stack([np.sin(positions), np.cos(positions)], 2).reshape(40, width).astype(np.float32)
    for stack in (spec.encoder, spec.decoder):
        stack.position_encodings.encodings = table + np.float32(shift)
        if pre_norm:
            norm(stack.layer_norm)
        for layer in stack.layer:
            linear(layer.self_attention.linear[0], 3 * width, width)
            linear(layer.self_attention.linear[1], width, width)
            norm(layer.self_attention.layer_norm)
            if stack is spec.decoder:
                linear(layer.attention.linear[0], width, width)
                linear(layer.attention.linear[1], 2 * width, width)
                linear(layer.attention.linear[2], width, width)
                norm(layer.attention.layer_norm)
            linear(layer.ffn.linear_0, inner, width)
            linear(layer.ffn.linear_1, width, inner)
            norm(layer.ffn.layer_norm)
    source_tokens = tokens if source_tokens is None else source_tokens
    spec.encoder.embeddings[0].weight = numbers(len(source_tokens), width, scale=0.2)
    linear(spec.decoder.projection, size, width)
    spec.decoder.projection.weight = numbers(size, width, scale=0.06)
    spec.decoder.projection.bias[3] += 0.5  # the end, more often the likeliest
    spec.decoder.embeddings.weight = spec.decoder.projection.weight.copy()
    spec.register_source_vocabulary(list(source_tokens))
    spec.register_target_vocabulary(list(tokens))
    spec.config.add_source_eos = False
    return spec


def save_spec(spec: Any, folder: Path, pieces: bytes, dtype: str | None = None) -> Path:
    folder.mkdir(parents=True)
    spec.validate()
    spec.optimize(dtype)
    spec.save(str(folder))
    (folder / "sentencepiece.model").write_bytes(pieces)
    return folder


def with_older_format(folder: Path, version: int, revision: int) -> None:
    """Rewrites a folder that CTranslate2 wrote as version 4 or 5 of the format, and revision 3 to 7 of the
    specification: settings are in variables, and before revision 5 some variables are there once for both stacks."""
    parsed = read_model_bin(memoryview((folder / "model.bin").read_bytes()))
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").unlink()
    variables = {name: (v.dtype, v.shape, bytes(v.content)) for name, v in parsed.variables.items()}
    if revision < 5:
        for name in ("num_heads", "pre_norm", "activation", "embeddings_merge", "alignment_layer", "alignment_heads"):
            for stack in ("encoder", "decoder"):
                if f"{stack}/{name}" in variables:
                    variables[name] = variables.pop(f"{stack}/{name}")
    for role in ("unk_token", "bos_token", "eos_token"):
        content = settings[role].encode()
        variables[role] = "int8", (len(content),), content
    for name, value in {
        "with_source_bos": settings["add_source_bos"],
        "with_source_eos": settings["add_source_eos"],
        "with_target_bos": settings["decoder_start_token"] == settings["bos_token"],
    }.items():
        variables[name] = "int8", (), bytes([value])

    def text(name: str) -> bytes:
        return struct.pack("<H", len(name.encode()) + 1) + name.encode() + b"\0"

    written = struct.pack("<I", version) + text(parsed.spec) + struct.pack("<II", revision, len(variables))
    for name, (dtype, shape, content) in variables.items():
        number = DTYPES.index(dtype)
        written += text(name) + struct.pack(f"<B{len(shape)}IBI", len(shape), *shape, number, len(content)) + content
    (folder / "model.bin").write_bytes(written + struct.pack("<I", 0))


def argos_package(path: Path, folder: Path, **metadata: Any) -> Path:
    """`folder` as Argos Translate packs it."""
    facts = {"package_version": "1.9", "argos_version": "1.9", "from_code": "en", "to_code": "fr", **metadata}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("translate-en_fr-1_9/metadata.json", json.dumps(facts))
        archive.writestr("translate-en_fr-1_9/README.md", "# English - French\n")
        archive.writestr("translate-en_fr-1_9/stanza/en/tokenize/gum.pt", b"a pickle that nobody opens")
        archive.write(folder / "sentencepiece.model", "translate-en_fr-1_9/sentencepiece.model")
        for file in folder.iterdir():
            if file.name != "sentencepiece.model":
                archive.write(file, f"translate-en_fr-1_9/model/{file.name}")
    return path
