"""Measures the memory and the time that importing takes, for large random models of every family.

    PYTHONPATH=.:tests/support python -m benchmarks.importing_memory
    PYTHONPATH=.:tests/support python -m benchmarks.importing_memory nllb-1024 --folder models --dtype int8

Each model is made, and imported, in a process of its own. Memory is that process's resident set, less what it was once
all modules were imported: the peak of all of it, and that of the anonymous part, which the system cannot take back. The
rest are pages of files. It is compared with twice the size of the model's file and 100 MB. The models end each
translation at once, since random ones would go on to their limits.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import islice, product
from pathlib import Path
from string import ascii_lowercase
from types import SimpleNamespace
from typing import Any

import sentencepiece
import torch
from imported_models import unigram_pieces
from marian_models import as_bin, marian_pieces, marian_transformer
from safetensors.torch import save_file

from model.config import ModelConfig
from model.tokenizer import Tokenizer, Tokenizers
from model.transformer import Transformer
from training.export.ctranslate2 import model_spec
from training.export.marian import marian_arrays, write_npz
from training.importing.command import import_model
from training.importing.options import ImportOptions
from training.importing.report import Report
from training.importing.vocabulary import NORMAL, Piece, Specials, build_vocabulary, piece_message

NLLB_ROWS = 256_206
INTGEMM8 = 0x4101
END = 40.0
"""How much likelier the end symbol is, in nats, than it would be."""


def grown(proto: bytes, size: int, name_every: int = 3) -> bytes:
    """A SentencePiece model of `size` pieces: those of `proto` and made-up words, of which each `name_every`th is like
    a name, and may be tried for a symbol."""
    count = sentencepiece.SentencePieceProcessor(model_proto=proto).get_piece_size()
    words = ("".join(letters) for letters in product(ascii_lowercase, repeat=5))
    texts = (f"▁{word.capitalize()}" if number % name_every == 0 else word for number, word in enumerate(words))
    pieces = (Piece(text, -20 - number * 1e-4, NORMAL) for number, text in enumerate(islice(texts, size - count)))
    return proto + b"".join(map(piece_message, pieces))


def make_nllb(folder: Path, width: int, layers: int, dtype: torch.dtype = torch.float32) -> None:
    languages = ["eng_Latn", "fra_Latn", *(f"{a}{b}x_Latn" for a, b in islice(product(ascii_lowercase, repeat=2), 200))]
    pieces = NLLB_ROWS - 1 - len(languages) - 4
    (folder / "sentencepiece.bpe.model").write_bytes(grown(unigram_pieces(), pieces))
    added = {str(pieces + 1 + number): {"content": code} for number, code in enumerate(languages)}
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))
    heads, inner = width // 64, 4 * width
    settings = {"model_type": "m2m_100", "max_position_embeddings": 1024}
    for stack in ("encoder", "decoder"):
        settings |= {f"{stack}_layers": layers, f"{stack}_attention_heads": heads}
    (folder / "config.json").write_text(json.dumps(settings))
    tensors: dict[str, torch.Tensor] = {}

    def put(name: str, outputs: int, inputs: int | None = None) -> None:
        shape = (outputs, inputs) if inputs else (outputs,)
        tensors[f"{name}.weight"] = torch.randn(shape).mul_(width**-0.5).to(dtype)
        tensors[f"{name}.bias"] = torch.zeros(outputs, dtype=dtype)

    for stack in ("encoder", "decoder"):
        put(f"model.{stack}.layer_norm", width)
        for number in range(layers):
            layer = f"model.{stack}.layers.{number}"
            for kind in ("self_attn", "encoder_attn")[: 1 + (stack == "decoder")]:
                for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    put(f"{layer}.{kind}.{part}", width, width)
                put(f"{layer}.{kind}_layer_norm", width)
            put(f"{layer}.fc1", inner, width)
            put(f"{layer}.fc2", width, inner)
            put(f"{layer}.final_layer_norm", width)
    tensors["model.shared.weight"] = torch.randn(NLLB_ROWS, width).mul_(width**-0.5).to(dtype)
    end = tensors["model.shared.weight"][2].float()
    tensors["model.decoder.layer_norm.bias"] = (END * end / (end @ end)).to(dtype)
    save_file(tensors, folder / "model.safetensors")


def make_marian(folder: Path, kind: str, size: int, width: int, inner: int, layers: tuple[int, int]) -> None:
    """An .npz as OPUS-MT's, or an intgemm8 .bin as Firefox's."""
    proto = grown(marian_pieces(), size)
    (folder / "vocab.spm").write_bytes(proto)
    fields: dict[str, Any] = {
        "d_model": width,
        "d_ff": inner,
        "num_heads": 8,
        "decoder": "ssru" if kind == "bin" else "attention",
    }
    model = marian_transformer(
        size, encoder_layers=layers[0], decoder_layers=layers[1], share_embeddings="all", **fields
    )
    with torch.no_grad():
        model.output.bias[0] = END
    arrays = marian_arrays(model)
    if kind == "npz":
        write_npz(folder / "model.npz", arrays)
    else:
        (folder / "model.bin").write_bytes(as_bin(arrays, INTGEMM8))


def make_ctranslate2(folder: Path, dtype: str, size: int = 50_000, layers: int = 6, name_every: int = 3) -> None:
    """As Argos' packages, which have 6 layers on each side, width 512, and up to 50,000 tokens."""
    proto = grown(unigram_pieces(), size, name_every)
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    tokens = [processor.id_to_piece(id) for id in range(processor.get_piece_size())]
    vocabulary = build_vocabulary(proto, tokens, ("en", "fr"), Specials("<unk>", "<s>", "</s>", "<s>"))
    ids: dict[str, Any] = {
        "pad_id": vocabulary.pad_id,
        "bos_id": vocabulary.ids["<s>"],
        "eos_id": vocabulary.ids["</s>"],
    }
    sizes: dict[str, Any] = {"source_vocab_size": vocabulary.size, "target_vocab_size": vocabulary.size}
    shape: dict[str, Any] = {
        "d_model": 512,
        "num_heads": 8,
        "d_ff": 2048,
        "encoder_layers": layers,
        "decoder_layers": layers,
    }
    model = Transformer(
        ModelConfig(**sizes, **shape, **ids, source_eos=False, output_bias=True, share_embeddings="decoder")
    ).eval()
    with torch.no_grad():
        model.output.bias[vocabulary.ids["</s>"]] = END
    tokenizers = Tokenizers.joint(Tokenizer(vocabulary.proto))
    bundle: Any = SimpleNamespace(model=model, tokenizers=tokenizers, target_tokenizer=tokenizers.target, name="made")
    spec = model_spec(bundle)
    spec.validate()
    spec.optimize(dtype)
    spec.save(str(folder))
    (folder / "sentencepiece.model").write_bytes(proto)
    listed = folder / "shared_vocabulary.json"
    listed.write_text(re.sub(r'"<r(\d+)>"', r'"<other-\1>"', listed.read_text()))


MODELS: dict[str, Callable[[Path], None]] = {
    "nllb-512": partial(make_nllb, width=512, layers=2),
    "nllb-1024": partial(make_nllb, width=1024, layers=2),
    "nllb-512-float16": partial(make_nllb, width=512, layers=2, dtype=torch.float16),
    "opus-npz": partial(make_marian, kind="npz", size=60_000, width=512, inner=2048, layers=(6, 6)),
    "firefox-tiny": partial(make_marian, kind="bin", size=32_000, width=256, inner=1536, layers=(6, 2)),
    "firefox-base-memory": partial(make_marian, kind="bin", size=32_000, width=384, inner=1536, layers=(6, 4)),
    "firefox-base": partial(make_marian, kind="bin", size=32_000, width=512, inner=2048, layers=(6, 2)),
    "firefox-64k": partial(make_marian, kind="bin", size=64_000, width=384, inner=1536, layers=(6, 4)),
    "ctranslate2-int8": partial(make_ctranslate2, dtype="int8"),
    "ctranslate2-float32": partial(make_ctranslate2, dtype="float32"),
    # For a test: little is translated.
    "ctranslate2-shallow": partial(make_ctranslate2, dtype="int8", size=60_000, layers=1, name_every=1_000),
}


def memory_kb() -> tuple[int, int]:
    """Resident memory of this process: all of it, and what is no page of a file."""
    with open("/proc/self/status") as file:
        said = dict(line.split(":", 1) for line in file)
    whole, files, shared = (int(said[name].split()[0]) for name in ("VmRSS", "RssFile", "RssShmem"))
    return whole, whole - files - shared


def import_and_measure(folder: Path, dtype: str) -> None:
    """Imports the model, stores it as `dtype`, and prints what it took as JSON."""
    importlib.import_module("training.importing.bundle")  # which `import` loads late
    import training.importing.bundle  # noqa: F401  which the command loads only once a model is here

    before, peak = memory_kb(), [0, 0]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.002):
            peak[:] = map(max, zip(peak, memory_kb(), strict=True))

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        how: dict[str, Any] = {"accept_licence": True, "dtype": dtype, "threads": 1}
        options = ImportOptions(folder, "en", "fr", Path(place, "bundle"), **how)
        import_model(options, Report(lambda text: print(text, file=sys.stderr)))
    took = time.monotonic() - began
    done.set()
    watcher.join()
    print(json.dumps({"seconds": took, "peak_mb": [(b - a) * 1024 / 1e6 for a, b in zip(before, peak, strict=True)]}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)} (default: all)")
    parser.add_argument("--folder", type=Path, help="where the models are made, or already are")
    parser.add_argument("--dtype", default="float32", help="as of `import`")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--import", type=Path, dest="imported", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.make is not None:
        torch.manual_seed(0)
        given.make.mkdir(parents=True)
        return MODELS[given.make.name](given.make)
    if given.imported is not None:
        return import_and_measure(given.imported, given.dtype)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        for name in given.models or MODELS:
            folder = (given.folder or Path(place)) / name
            command = [sys.executable, "-m", "benchmarks.importing_memory"]
            if not folder.exists():
                subprocess.run([*command, "--make", str(folder)], check=True)
            done = subprocess.run(
                [*command, "--dtype", given.dtype, "--import", str(folder)], capture_output=True, text=True
            )
            if done.returncode:
                raise SystemExit(f"{name}: {done.stderr[-2000:]}")
            found = json.loads(done.stdout.splitlines()[-1])
            size = max(file.stat().st_size for file in folder.iterdir()) / 1e6
            whole, own = found["peak_mb"]
            limit = 2 * size + 100
            print(
                f"{name}: {size:,.0f} MB, limit {limit:,.0f}; peak {own:,.0f} MB, with pages of files {whole:,.0f} MB; "
                f"{found['seconds']:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
