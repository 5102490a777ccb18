"""Compares imported M2M-100 and NLLB-200 models with transformers, which made them at random.

    python -m benchmarks.importing_m2m --oracle PYTHON --sentences FILE.tsv --count 200 --lines 10000

PYTHON is the interpreter of an environment with transformers and sentencepiece, which are no dependencies of this
project. FILE.tsv has a sentence and its translation a line. Counts lines that are split into other tokens, and
sentences with another token, greedily and with a beam of 4, in float32.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import lzma
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from model.decoding import beam_decode
from model.hypothesis import Hypothesis, Limits
from model.normalisation import normalise_source
from model.transformer import Transformer
from training.importing.families import build_model
from training.importing.m2m import read_m2m

LONGEST = 24
TRAINED_LINES = 8_000
PROGRAM = """
import json, os, sys
import sentencepiece, torch
from transformers import M2M100Config, M2M100ForConditionalGeneration, M2M100Tokenizer, NllbTokenizer
from transformers.convert_slow_tokenizer import generate_merges

asked = json.load(sys.stdin)
folder, is_nllb = asked["folder"], asked["kind"] == "nllb"
sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(asked["train"]), model_prefix=f"{folder}/sentencepiece.bpe", vocab_size=2000,
    model_type="bpe", minloglevel=2, normalization_rule_name="identity" if is_nllb else "nmt_nfkc",
)
pieces = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/sentencepiece.bpe.model")
texts = [pieces.id_to_piece(id) for id in range(3, pieces.get_piece_size())]
ids = {token: id for id, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", *texts])}
if is_nllb:
    scores = {text: pieces.get_score(id) for id, text in enumerate(texts, 3)}
    tokenizer = NllbTokenizer(vocab=dict(ids), merges=generate_merges({text: ids[text] for text in texts}, scores))
    source, target = (tokenizer.convert_tokens_to_ids(code) for code in ("eng_Latn", "fra_Latn"))
    tokenizer.src_lang = "eng_Latn"
else:
    with open(f"{folder}/vocab.json", "w") as file:
        json.dump(ids, file)
    tokenizer = M2M100Tokenizer(f"{folder}/vocab.json", f"{folder}/sentencepiece.bpe.model")
    source, target = tokenizer.get_lang_id("en"), tokenizer.get_lang_id("fr")
    tokenizer.src_lang = "en"
tokenizer.save_pretrained(folder)
split = [tokenizer(line)["input_ids"] for line in asked["lines"]]
torch.manual_seed(asked["seed"])
rows = len(ids) + 212
config = M2M100Config(
    vocab_size=rows, d_model=64, encoder_layers=3, decoder_layers=2, encoder_ffn_dim=96, decoder_ffn_dim=96,
    encoder_attention_heads=4, decoder_attention_heads=4, max_position_embeddings=300, init_std=0.2, dropout=0.0,
)
model = M2M100ForConditionalGeneration(config).eval()
with torch.no_grad():
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            parameter.add_(torch.randn_like(parameter) * 0.05)
        else:
            parameter.mul_(0.2 if "shared" in name else 3 if "attn" in name else 1)
model.save_pretrained(folder)
bias = torch.full((rows,), -100.0)  # as the importer forbids what is no text
bias[[ids[text] for text in texts] + [2]] = 0
model.lm_head.bias = torch.nn.Parameter(bias)
found = {}
for beam_size in (1, 4):
    found[beam_size] = []
    for line in split[: asked["count"]]:
        with torch.no_grad():
            tokens = model.generate(
                torch.tensor([line]), decoder_input_ids=torch.tensor([[2, target]]), num_beams=beam_size,
                do_sample=False, max_new_tokens=asked["longest"] - 1, length_penalty=1.0,
                early_stopping="never" if beam_size > 1 else False,
            )
        found[beam_size].append(tokens[0, 1:].tolist())
print(json.dumps({"split": split, "source": source, "target": target, "found": found}))
"""


def make_model(python: str, folder: Path, **asked: Any) -> dict[str, Any]:
    """Writes a random model into `folder`, and returns what transformers makes of the lines."""
    asked["folder"] = str(folder)
    done = subprocess.run([python, "-c", PROGRAM], input=json.dumps(asked), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{python} failed: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@torch.inference_mode()
def score(model: Transformer, source: Sequence[int], target: Sequence[int]) -> float:
    """The log probability of `target`, of which the first token is given."""
    ours = model(torch.tensor([[*source, 2]]), torch.tensor([[2, *target[:-1]]]))[0].log_softmax(-1)
    return sum(float(ours[step, token]) for step, token in enumerate(target) if step)


def compare(python: str, kind: str, lines: Sequence[str], count: int, seed: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        theirs = make_model(
            python, folder, kind=kind, train=lines[:TRAINED_LINES], lines=lines, count=count, seed=seed, longest=LONGEST
        )
        imported = read_m2m(folder, "en", "fr")
        model, tokenizers = build_model(imported)
        assert imported.directions is not None
        direction = imported.directions.direction("en", "fr")
        assert direction.source_prefix == (theirs["source"],)
        assert direction.target_prefix == (theirs["target"],)
        other = sum(
            [*direction.source_prefix, *tokenizers.source.encode_source(line), 2] != ids
            for line, ids in zip(lines, theirs["split"], strict=True)
        )
        print(f"{kind}: of {len(lines)} lines, split into other tokens: {other}", flush=True)
        sources = [ids[:-1] for ids in theirs["split"][:count]]
        limits = Limits(max_source=256, max_target=LONGEST, ratio=0, margin=LONGEST)
        for beam_size in (1, 4):
            found = beam_decode(model, sources, limits, beam_size, target_prefix=direction.target_prefix)
            _report(kind, model, sources, found, theirs["found"][str(beam_size)], beam_size)


def _report(
    kind: str,
    model: Transformer,
    sources: Sequence[list[int]],
    found: Sequence[Hypothesis],
    theirs: Sequence[list[int]],
    beam_size: int,
) -> None:
    different = [
        (source, ours.tokens, other)
        for source, ours, other in zip(sources, found, theirs, strict=True)
        if ours.tokens != other
    ]
    gains = [score(model, source, ours) - score(model, source, other) for source, ours, other in different]
    ended = sum(hypothesis.tokens[-1] == 2 for hypothesis in found)
    kinds = len({tuple(hypothesis.tokens) for hypothesis in found})
    print(
        f"{kind}, beam {beam_size}: of {len(found)} sentences ({kinds} different outputs, {ended} with an end), "
        f"different: {len(different)}; our gain in log probability there: {[round(gain, 4) for gain in gains]}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oracle", required=True, metavar="PYTHON")
    parser.add_argument("--sentences", type=Path, required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    content = lzma.decompress(given.sentences.read_bytes()) if given.sentences.suffix == ".xz" else None
    with io.StringIO(content.decode()) if content else open(given.sentences, encoding="utf-8") as file:
        columns = (side for line in file for side in line.rstrip("\n").split("\t")[:2])
        # The service normalises a source before any model reads it.
        lines = [normalise_source(line).strip() for line in itertools.islice(columns, given.lines)]
    for kind in ("m2m", "nllb"):
        compare(given.oracle, kind, lines, given.count, given.seed)


if __name__ == "__main__":
    main()
