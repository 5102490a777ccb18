"""Compares imported models with the programs that they are of: Marian (pymarian) and Hugging Face's transformers.

    python -m benchmarks.importing marian --oracle PYTHON --sentences FILE.tsv
    python -m benchmarks.importing huggingface --oracle PYTHON --sentences FILE.tsv
    python -m benchmarks.importing tokens --oracle PYTHON --sentences FILE.tsv --count 10000
    python -m benchmarks.importing trained --oracle PYTHON --sentences FILE.tsv --count 2000 --bundle mine/student

PYTHON is the interpreter of an environment with pymarian 1.12, transformers and sentencepiece, which are no
dependencies of this project. FILE.tsv has a sentence and its translation a line. `marian` exports random models, of all
shapes that are supported, to Marian's format, has Marian translate, score and convert them, imports what Marian read
and wrote, and counts sentences with another token. `huggingface` does so with models that transformers made. `tokens`
counts lines that the imported vocabularies split into other tokens than the program does. `trained` exports a bundle,
imports it, and compares tokens and BLEU of the bundle, its import and Marian.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import lzma
import math
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import sacrebleu
import sentencepiece
import torch

from model.backends import prepare
from model.bundle_weights import load_bundle
from model.config import ModelConfig
from model.decoding import as_backend, beam_decode, decode_all
from model.hypothesis import Hypothesis, Limits
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from training.export.marian import MarianOptions, convert_for_marian, marian_arrays, write_npz
from training.importing.families import build_model, read_model
from training.importing.marian import ZERO_START, Side, build_sides
from training.importing.options import ImportOptions
from training.importing.vocabulary import Specials, build_vocabulary

LIMITS = Limits(ratio=1.5, margin=4)
FACTOR = 2
MARIAN_LIMITS = Limits(max_target=1000, ratio=FACTOR, margin=FACTOR)
"""Those of Marian with this --max-length-factor, which counts the source's end symbol, if it decodes sentences alone:
else a batch ends with the longest of its sentences."""
TRANSLATE = """
import json, sys
from pymarian import Translator
asked = json.load(sys.stdin)
translator = Translator(asked["options"])
print(json.dumps(translator.translate(asked["sentences"])))
"""
RUN = "import sys, _pymarian; sys.exit(_pymarian.main(sys.argv[1:]))"
"""Runs a command of Marian."""


def ask(python: str, program: str, **asked: Any) -> Any:
    """What `program` prints as JSON, given `asked`, in the environment of the interpreter `python`."""
    done = subprocess.run([python, "-c", program], input=json.dumps(asked), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{python} failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def translate_with_marian(
    python: str,
    model: Path,
    vocabularies: Sequence[Path],
    sentences: Sequence[str],
    beam_size: int,
    alone: bool = False,
) -> list[list[str]]:
    """The pieces of Marian's translations, without the end symbol, under LIMITS; or MARIAN_LIMITS and each `alone`."""
    options = (
        f"--models {model} --vocabs {vocabularies[0]} {vocabularies[-1]} --beam-size {beam_size} --quiet "
        f"--cpu-threads 1 --normalize 1 --max-length-factor {FACTOR if alone else 1.5} "
        f"--mini-batch {1 if alone else 16} --no-spm-decode"
    )
    return [line.split(" ") for line in ask(python, TRANSLATE, options=options, sentences=list(sentences))]


def score_with_marian(
    python: str, model: Path, vocabularies: Sequence[Path], pairs: Sequence[tuple[str, str]], place: Path
) -> list[float]:
    """The log probability of each target, by `marian score`, which computes all positions together as training does."""
    files = [place / "score.source", place / "score.target"]
    for side, file in enumerate(files):
        file.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    given = ["--train-sets", *files, "--vocabs", vocabularies[0], vocabularies[-1], "--mini-batch", 16]
    command = ["score", "--model", model, *given, "--cpu-threads", 1, "--quiet", "--max-length", 1000]
    done = subprocess.run([python, "-c", RUN, *map(str, command)], check=True, capture_output=True, text=True)
    return [float(line) for line in done.stdout.splitlines()]


def convert_with_marian(python: str, model: Path, out: Path, kind: str) -> Path:
    """`model` as a .bin that Marian wrote."""
    command = [python, "-c", RUN, "convert", "-f", str(model), "-t", str(out), "--gemm-type", kind]
    subprocess.run(command, check=True, capture_output=True)
    return out


MAKE_AND_GENERATE = """
import json, sys, torch
from transformers import MarianConfig, MarianMTModel, MarianTokenizer
asked = json.load(sys.stdin)
torch.manual_seed(asked["seed"])
torch.set_num_threads(1)
model = MarianMTModel(MarianConfig(**asked["config"])).eval()
with torch.no_grad():
    for name, parameter in model.named_parameters():
        if "embed_positions" not in name:
            parameter.add_(torch.randn_like(parameter) * (0.1 if parameter.dim() == 1 else 0.12))
    for stack in (model.model.encoder, model.model.decoder):
        stack.embed_tokens.weight[asked["config"]["pad_token_id"]] = 0
    model.final_logits_bias.normal_(0, 0.5)
    model.final_logits_bias[0, 0] += 2
model.save_pretrained(asked["folder"])
model.generation_config.forced_eos_token_id = None  # else a sentence at its limit ends with it
tokenizer = MarianTokenizer.from_pretrained(asked["folder"])
found = []
for beams in (1, 4):
    found.append([])
    for text in asked["sentences"]:
        ids = tokenizer([text], return_tensors="pt")
        longest = int(1.5 * (ids["input_ids"].shape[1] - 1)) + 4
        made = model.generate(
            **ids, num_beams=beams, do_sample=False, max_new_tokens=longest, length_penalty=1.0, early_stopping=True,
            bad_words_ids=[[tokenizer.unk_token_id], [tokenizer.pad_token_id]], renormalize_logits=True,
        )
        found[-1].append(tokenizer.convert_ids_to_tokens(made[0][1:].tolist()))
print(json.dumps(found))
"""
TOKENISE = """
import json, sys
from transformers import MarianTokenizer
asked = json.load(sys.stdin)
tokenizer = MarianTokenizer.from_pretrained(asked["folder"])
print(json.dumps([tokenizer(text)["input_ids"] for text in asked["sentences"]]))
"""
SPECIALS = Specials("<unk>", ZERO_START, "</s>", ZERO_START)


def read_sentences(path: Path, count: int) -> list[tuple[str, str]]:
    with lzma.open(path, "rt") if path.suffix == ".xz" else open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t")[:2] for line in itertools.islice(file, count)]
    return [(line[0], line[1]) for line in lines if len(line) == 2]


def train_pieces(sentences: Sequence[str], size: int = 2000, **settings: Any) -> bytes:
    """A SentencePiece model as Marian trains them."""
    proto = io.BytesIO()
    settings = {"bos_id": -1, "eos_id": 0, "unk_id": 1} | settings
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=proto, vocab_size=size, minloglevel=2, **settings
    )
    return proto.getvalue()


def random_model(source: int, target: int, seed: int, **fields: Any) -> Transformer:
    """A model of Marian's kind with weights large enough for tokens to be decided clearly."""
    torch.manual_seed(seed)
    shape = {"d_model": 128, "num_heads": 8, "d_ff": 192, "encoder_layers": 3, "decoder_layers": 2}
    config = ModelConfig(
        source_vocab_size=source,
        target_vocab_size=target,
        **{**shape, "positions": "marian", "zero_start": True, "output_bias": True, "norm": "post", **fields},
        pad_id=1,
        bos_id=1,  # in Marian no token: the start is a vector of zeros
        eos_id=0,
    )
    model = Transformer(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1 if parameter.dim() == 1 else 0.5 * parameter)
        model.output.bias.mul_(5)
        model.output.bias[0] += 2  # or no sentence would end
    return model


def different(
    found: Sequence[Hypothesis], expected: Sequence[Sequence[str]], tokenizer: Tokenizer, ids: dict[str, int]
) -> list[int]:
    """The numbers of the sentences with another token. Sentences that ran into a limit are compared up to it."""
    wrong = []
    for number, (hypothesis, pieces) in enumerate(zip(found, expected, strict=True)):
        ours = [tokenizer.piece(id) for id in hypothesis.tokens if id != ids["</s>"]]
        theirs = [piece for piece in pieces if piece]
        if hypothesis.finish_reason == "length":
            shortest = min(len(ours), len(theirs))
            ours, theirs = ours[:shortest], theirs[:shortest]
        if ours != theirs:
            wrong.append(number)
    return wrong


RULES = {"": False, ", Marian's rule": True}
"""Whether the beam is narrowing, by what to call the search."""


class Imported:
    """A model as imported, in memory."""

    def __init__(self, path: Path, positions: Any = "marian") -> None:
        options = ImportOptions(path, "en", "fr", Path("unused"), positions=positions)
        self.imported = read_model(options)
        self.model, self.tokenizers = build_model(self.imported)
        self.target = self.imported.target_vocabulary or self.imported.vocabulary

    def translate(
        self,
        sentences: Sequence[str],
        beam_size: int,
        int8: bool = False,
        limits: Limits = LIMITS,
        narrowing: bool = False,
    ) -> list[Hypothesis]:
        sources = [self.tokenizers.source.encode(text) for text in sentences]
        backend = prepare(self.model, "int8") if int8 else self.model
        return beam_decode(backend, sources, limits, beam_size, narrowing=narrowing)

    def has_no_unknown(self, target: str) -> bool:
        return self.target.ids["<unk>"] not in self.tokenizers.target.encode(target)

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The log probability of each target."""
        forced = []
        for source, target in pairs:
            ids = [*self.tokenizers.target.encode(target), self.model.config.eos_id]
            forced.append(Hypothesis(self.tokenizers.source.encode(source), len(ids), forced=ids))
        decode_all(as_backend(self.model).new_batch(64, MARIAN_LIMITS), forced)
        return [math.fsum(hypothesis.log_probs) for hypothesis in forced]

    def different(self, found: Sequence[Hypothesis], expected: Sequence[Sequence[str]]) -> list[int]:
        return different(found, expected, self.tokenizers.target, self.target.ids)


def marian_shapes() -> Iterator[tuple[str, dict[str, Any], bool]]:
    """A name, the fields of a ModelConfig, and whether each side has its own vocabulary."""
    yield "ssru, post, relu, all tied", {"decoder": "ssru"}, False
    yield "ssru, post, two vocabularies", {"decoder": "ssru", "share_embeddings": "decoder"}, True
    yield "ssru, pre", {"decoder": "ssru", "norm": "pre", "final_norm": True}, False
    yield "attention, post, swish, all tied", {"activation": "swish"}, False
    yield "attention, pre without final norm", {"norm": "pre", "final_norm": False}, False
    yield "attention, not tied", {"share_embeddings": "none"}, True
    yield "attention, residual_post", {"norm": "residual_post", "final_norm": False}, False


def compare_with_marian(python: str, pairs: Sequence[tuple[str, str]], count: int, place: Path) -> None:
    sources = [source for source, _ in pairs[:count]]
    both = train_pieces([text for pair in pairs for text in pair])
    french = train_pieces([target for _, target in pairs], 1500)
    for number, (name, fields, has_two) in enumerate(marian_shapes()):
        folder = place / str(number)
        folder.mkdir()
        protos = {"srcvocab.spm": both, "trgvocab.spm": french} if has_two else {"vocab.spm": both}
        for file, proto in protos.items():
            (folder / file).write_bytes(proto)
        sizes = [sentencepiece.SentencePieceProcessor(model_proto=proto).get_piece_size() for proto in protos.values()]
        write_npz(folder / "model.npz", marian_arrays(random_model(sizes[0], sizes[-1], number, **fields)))
        vocabularies = [folder / file for file in protos]
        imported = Imported(folder / "model.npz")
        greedy = translate_with_marian(python, folder / "model.npz", vocabularies, sources, 1)
        counts: dict[str, float] = {"beam 1": len(imported.different(imported.translate(sources, 1), greedy))}
        beam = translate_with_marian(python, folder / "model.npz", vocabularies, sources, 4, alone=True)
        for rule, narrowing in RULES.items():
            found = imported.translate(sources, 4, limits=MARIAN_LIMITS, narrowing=narrowing)
            counts[f"beam 4{rule}"] = len(wrong := imported.different(found, beam))
            counts[f"of these ours scores less{rule}"] = _count_worse(imported, sources, found, beam, wrong)
        known = [pair for pair in pairs[:count] if imported.has_no_unknown(pair[1])]  # which the importer forbids
        scores = score_with_marian(python, folder / "model.npz", vocabularies, known, folder)
        apart = [abs(a - b) for a, b in zip(imported.score(known), scores, strict=True)]
        counts[f"log probability of {len(known)} references, at most by"] = round(max(apart), 4)
        theirs = Imported(folder / "model.npz", positions="huggingface")
        counts["Hugging Face's positions"] = len(theirs.different(theirs.translate(sources, 1), greedy))
        counts["our int8"] = len(imported.different(imported.translate(sources, 1, int8=True), greedy))
        tied = fields.get("share_embeddings") != "none"  # else Marian aborts on its own intgemm8
        for kind in ("float32", "intgemm8") if tied else ("float32",):
            made = convert_with_marian(python, folder / "model.npz", folder / f"model.{kind}.bin", kind)
            again = Imported(made)
            theirs_of_bin = translate_with_marian(python, made, vocabularies, sources, 1)
            counts[f"{kind} .bin"] = len(again.different(again.translate(sources, 1), theirs_of_bin))
            if kind == "intgemm8":
                counts["Marian's intgemm8 v. its float32"] = sum(map(list.__ne__, theirs_of_bin, greedy))
                counts["our int8 of it"] = len(again.different(again.translate(sources, 1, int8=True), theirs_of_bin))
        median = statistics.median(map(len, greedy))
        print(f"{name}: of {len(sources)} sentences of {median:g} tokens, different: {counts}", flush=True)


def _count_worse(
    imported: Imported,
    sources: Sequence[str],
    found: Sequence[Hypothesis],
    expected: Sequence[Sequence[str]],
    numbers: Sequence[int],
) -> int:
    """Of the sentences `numbers`, those where the other program's translation has the better score here as well."""
    worse = 0
    for number in numbers:
        ids = [imported.target.ids.get(piece, 0) for piece in expected[number] if piece]
        ids.append(imported.model.config.eos_id)
        source = imported.tokenizers.source.encode(sources[number])
        forced = Hypothesis(source, len(ids), forced=ids)
        decode_all(as_backend(imported.model).new_batch(1, Limits()), [forced])
        ours = found[number].finished[0].log_probs
        worse += math.fsum(forced.log_probs) / len(ids) > math.fsum(ours) / len(ours) + 1e-4
    return worse


def huggingface_vocabulary(folder: Path, pairs: Sequence[tuple[str, str]], size: int = 2000) -> dict[str, int]:
    """Writes a tokenizer as OPUS-MT's repositories have it, one vocabulary for two SentencePiece models."""
    names: list[str] = []
    for side, name in enumerate(("source.spm", "target.spm")):
        (folder / name).write_bytes(proto := train_pieces([pair[side] for pair in pairs], size))
        names += _pieces(proto)
    ids = {name: id for id, name in enumerate([*dict.fromkeys(["</s>", "<unk>", *reversed(names)]), "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(ids))
    settings = {"source_lang": "en", "target_lang": "fr", "tokenizer_class": "MarianTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return ids


def _pieces(proto: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    return [processor.id_to_piece(id) for id in range(processor.get_piece_size())]


def compare_with_huggingface(python: str, pairs: Sequence[tuple[str, str]], count: int, place: Path) -> None:
    sources = [source for source, _ in pairs[:count]]
    kinds: list[dict[str, Any]] = [{"activation_function": "swish", "scale_embedding": True}]
    for number, fields in enumerate([*kinds, {"activation_function": "relu"}]):
        (folder := place / str(number)).mkdir()
        ids = huggingface_vocabulary(folder, pairs)
        shape = {"d_model": 128, "encoder_layers": 3, "decoder_layers": 2, "max_position_embeddings": 512}
        shape |= {f"{stack}_attention_heads": 8 for stack in ("encoder", "decoder")}
        shape |= {f"{stack}_ffn_dim": 192 for stack in ("encoder", "decoder")}
        shape |= {"vocab_size": len(ids), "eos_token_id": 0}
        shape |= {"pad_token_id": ids["<pad>"], "decoder_start_token_id": ids["<pad>"]}
        # The importer forbids tokens by their biases, so that their probability goes to the others.
        asked = {"config": {**shape, **fields}, "folder": str(folder), "seed": number, "sentences": sources}
        made = ask(python, MAKE_AND_GENERATE, **asked)
        greedy, beam = (
            [[piece for piece in line if piece not in ("</s>", "<pad>")] for line in lines] for lines in made
        )
        theirs, ours = Imported(folder, positions="huggingface"), Imported(folder)
        found = theirs.translate(sources, 4)
        wrong = theirs.different(found, beam)
        counts = {
            "beam 1": len(theirs.different(theirs.translate(sources, 1), greedy)),
            "beam 4": len(wrong),
            "of these ours scores less": _count_worse(theirs, sources, found, beam, wrong),
            "our int8": len(theirs.different(theirs.translate(sources, 1, int8=True), greedy)),
            "Marian's positions": len(ours.different(ours.translate(sources, 1), greedy)),
        }
        print(f"Hugging Face, {fields}: of {len(sources)} sentences, different: {counts}", flush=True)


def compare_tokens(python: str, pairs: Sequence[tuple[str, str]], count: int, place: Path) -> None:
    sources = [source for source, _ in pairs[:count]]
    tokens = list(huggingface_vocabulary(place, pairs[: count // 2], 4000))
    expected = ask(python, TOKENISE, folder=str(place), sentences=sources)
    sides = [Side(tokens, (place / name).read_bytes()) for name in ("source.spm", "target.spm")]
    tokenizer = Tokenizer(build_sides(sides, (len(tokens), len(tokens)), ("en", "fr"), SPECIALS)[0].proto)
    differs = [text for text, line in zip(sources, expected, strict=True) if [*tokenizer.encode(text), 0] != line]
    print(f"MarianTokenizer: of {len(sources)} lines, {len(differs)} have other tokens: {differs[:3]}", flush=True)
    proto = train_pieces(sources[: count // 2], 4000)
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    [side] = build_sides([Side(_pieces(proto), proto)], (4000, 4000), ("en", "fr"), SPECIALS)
    tokenizer = Tokenizer(side.proto)
    differs = [text for text in sources if tokenizer.encode(text) != processor.encode(text)]
    print(f"SentencePiece: of {len(sources)} lines, {len(differs)} have other tokens: {differs[:3]}", flush=True)
    compare_opennmt_tokens(sources)


def compare_opennmt_tokens(sources: Sequence[str]) -> None:
    """As Argos' models: SentencePiece splits text, and pieces that the model's vocabulary lacks are unknown to it."""
    for kind in ("unigram", "bpe"):
        proto = train_pieces(sources[: len(sources) // 2], 4000, model_type=kind, unk_id=0, bos_id=1, eos_id=2)
        tokens = ["<unk>", "<blank>", "<s>", "</s>", *reversed(_pieces(proto)[3:])]
        vocabulary = build_vocabulary(proto, tokens, ("en", "fr"), Specials("<unk>", "<s>", "</s>", "<s>"))
        tokenizer, ids = Tokenizer(vocabulary.proto), vocabulary.ids
        processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
        split = (processor.encode(text, out_type=str) for text in sources)
        expected = [[ids.get(piece, ids["<unk>"]) for piece in pieces] for pieces in split]
        differs = [text for text, line in zip(sources, expected, strict=True) if tokenizer.encode(text) != line]
        print(f"Argos, {kind}: of {len(sources)} lines, {len(differs)} have other tokens: {differs[:3]}", flush=True)


class Translations(NamedTuple):
    pieces: list[list[str]]
    texts: list[str]


def as_translations(found: Sequence[Hypothesis], tokenizer: Tokenizer, end: int) -> Translations:
    pieces = [[tokenizer.piece(id) for id in hypothesis.tokens if id != end] for hypothesis in found]
    return Translations(pieces, [tokenizer.decode(hypothesis.tokens) for hypothesis in found])


def compare_trained(python: str, pairs: Sequence[tuple[str, str]], count: int, place: Path, bundle: Path) -> None:
    sources, references = ([pair[side] for pair in pairs[:count]] for side in (0, 1))
    original = load_bundle(bundle, torch.device("cpu"))
    encoded = [original.source_tokenizer.encode(text) for text in sources]
    convert_for_marian(MarianOptions(bundle, place / "marian"), lambda line: None)
    npz, vocabulary = place / "marian" / "model.npz", place / "marian" / "vocab.spm"
    converted = convert_with_marian(python, npz, place / "marian" / "model.intgemm8.bin", "intgemm8")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(vocabulary))
    imports = {"its import": Imported(npz), "its import from intgemm8": Imported(converted)}
    for beam_size in (1, 4):
        made: dict[str, Translations] = {}
        for rule, narrowing in list(RULES.items())[: 2 if beam_size > 1 else 1]:
            search: Any = {"narrowing": narrowing}
            for precision in ("float32", "int8"):
                found = beam_decode(prepare(original.model, precision), encoded, MARIAN_LIMITS, beam_size, **search)
                name = f"the bundle, {precision}{rule}"
                made[name] = as_translations(found, original.target_tokenizer, original.model.config.eos_id)
                for name, imported in imports.items():
                    found = imported.translate(sources, beam_size, precision == "int8", MARIAN_LIMITS, **search)
                    name = f"{name}, {precision}{rule}"
                    made[name] = as_translations(found, imported.tokenizers.target, imported.model.config.eos_id)
        for name, model in (("Marian, float32", npz), ("Marian, intgemm8", converted)):
            lines = translate_with_marian(python, model, [vocabulary], sources, beam_size, alone=True)
            pieces = [[piece for piece in line if piece] for line in lines]
            made[name] = Translations(pieces, [processor.decode_pieces(line) for line in pieces])
        for name, (pieces, texts) in made.items():
            bleu = sacrebleu.corpus_bleu(texts, [references]).score
            against = ("the bundle, float32", "Marian, float32")
            other = {peer: sum(map(list.__ne__, pieces, made[peer].pieces)) for peer in against}
            print(f"beam {beam_size}, {name}: BLEU {bleu:.3f}; of {len(texts)}, with other tokens: {other}", flush=True)


COMPARISONS = {"marian": compare_with_marian, "huggingface": compare_with_huggingface, "tokens": compare_tokens}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*COMPARISONS, "trained"])
    parser.add_argument("--oracle", required=True, help="the interpreter of the environment with the other programs")
    parser.add_argument("--sentences", type=Path, required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--bundle", type=Path, help="what `trained` compares")
    given = parser.parse_args()
    if given.what == "trained" and not given.bundle:
        parser.error("`trained` needs --bundle")
    torch.set_num_threads(1)
    pairs = read_sentences(given.sentences, max(1000, given.count))
    with tempfile.TemporaryDirectory() as place:
        if given.what == "trained":
            compare_trained(given.oracle, pairs, given.count, Path(place), given.bundle)
        else:
            COMPARISONS[given.what](given.oracle, pairs, given.count, Path(place))


if __name__ == "__main__":
    main()
