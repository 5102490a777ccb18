"""Models of Marian: what is read, what is refused, and what comes back after an export."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
from marian_models import INTGEMM8, as_bin, marian_folder, marian_pieces, marian_transformer, piece_count
from shared_fixtures import SENTENCES

from model.bundle_weights import load_bundle
from model.decoding import greedy_decode
from model.hypothesis import Decoding, Limits
from model.positions import marian_positions
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from training.export.ctranslate2 import ConversionError
from training.export.marian import MarianOptions, convert_for_marian, marian_arrays, write_npz
from training.importing.command import import_model
from training.importing.errors import ImportFault
from training.importing.families import FAMILIES, build_model, read_model
from training.importing.marian import ZERO_START, Side, build_sides, directions_of, is_marian
from training.importing.marian_files import read_bin, read_marian_file
from training.importing.marian_network import huggingface_positions
from training.importing.model import ImportedModel
from training.importing.model_files import Value, read_yaml
from training.importing.options import ImportOptions
from training.importing.report import Report
from training.importing.vocabulary import Specials

LIMITS = Limits(32, 32)


@pytest.fixture(scope="module")
def pieces() -> bytes:
    return marian_pieces()


def read(path: Path, **fields: Any) -> ImportedModel:
    return read_model(ImportOptions(path, "en", "fr", Path("unused"), **fields))


def tokens(model: Transformer, sources: list[list[int]]) -> list[list[int]]:
    return [hypothesis.tokens for hypothesis in greedy_decode(model, sources, LIMITS)]


def sources_of(proto: bytes) -> list[list[int]]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    return [processor.encode(text) for text in SENTENCES[:8]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        {"decoder": "ssru"},
        {"decoder": "ssru", "norm": "pre", "final_norm": True},
        {"activation": "swish", "share_embeddings": "decoder"},
        {"norm": "residual_post", "final_norm": False, "share_embeddings": "none"},
    ],
)
def test_an_imported_model_has_the_weights_and_tokens_of_the_exported_one(
    pieces: bytes, tmp_path: Path, fields: dict[str, Any]
) -> None:
    model = marian_transformer(piece_count(pieces), **fields)
    imported = read(marian_folder(tmp_path / "model", model, vocab=pieces))
    again, tokenizers = build_model(imported)
    known = piece_count(pieces)
    for name, weight in model.named_parameters():
        found = again.get_parameter(name)
        assert torch.equal(weight, found if name.startswith(("encoder", "decoder")) else found[:known]), name
    assert [tokenizers.source.encode(text) for text in SENTENCES[:8]] == sources_of(pieces)
    assert tokens(again, sources_of(pieces)) == tokens(model, sources_of(pieces))
    assert (imported.config.positions, imported.config.decoder) == ("marian", model.config.decoder)


@pytest.mark.parametrize("kind", [0x404, INTGEMM8, 0x10001])
def test_a_gzipped_bin_of_firefox_is_read(pieces: bytes, tmp_path: Path, kind: int) -> None:
    arrays = marian_arrays(marian_transformer(piece_count(pieces), decoder="ssru"))
    content = as_bin(arrays, kind)
    (tmp_path / "model.enfr.intgemm.alphas.bin.gz").write_bytes(gzip.compress(content))
    (tmp_path / "vocab.enfr.spm.gz").write_bytes(gzip.compress(pieces))
    (tmp_path / "lex.50.50.enfr.s2t.bin.gz").write_bytes(gzip.compress(b"a shortlist"))
    imported = read(tmp_path)
    for name in ("encoder_l1_self_Wo", "Wemb"):
        found = read_bin(memoryview(content)).arrays[name].numbers()
        assert np.abs(found - arrays[name]).max() <= (0 if kind == 0x404 else 0.51 * np.abs(arrays[name]).max() / 127)
    first = imported.weights["encoder.0.self_attention.output.weight"].numpy()
    assert np.array_equal(first, read_bin(memoryview(content)).arrays["encoder_l1_self_Wo"].numbers().T)
    config = imported.config
    assert (config.decoder, config.alignment_layer, config.alignment_head) == ("ssru", 1, 0)


def test_two_vocabularies_have_the_same_ids_for_symbols(pieces: bytes, tmp_path: Path) -> None:
    french = marian_pieces(40, [text.upper() for text in SENTENCES])
    sizes = piece_count(pieces), piece_count(french)
    assert sizes[0] != sizes[1]
    model = marian_transformer(*sizes, share_embeddings="decoder")
    imported = read(marian_folder(tmp_path / "model", model, srcvocab=pieces, trgvocab=french))
    again, tokenizers = build_model(imported)
    assert tokenizers.source.reserved_ids == tokenizers.target.reserved_ids
    assert tokenizers.target.encode("HELLO") == sentencepiece.SentencePieceProcessor(model_proto=french).encode("HELLO")
    assert tokens(again, sources_of(pieces)) == tokens(model, sources_of(pieces))


def opus_folder(folder: Path, source: bytes, target: bytes) -> dict[str, int]:
    """A folder as OPUS-MT releases it, with one vocabulary for two SentencePiece models; returns its ids."""
    known = [sentencepiece.SentencePieceProcessor(model_proto=proto) for proto in (target, source)]
    names = [side.id_to_piece(id) for side in known for id in range(side.get_piece_size())]
    ids = {name: id for id, name in enumerate(dict.fromkeys(["</s>", "<unk>", *reversed(names)]))}
    model = marian_transformer(len(ids), activation="swish")
    folder.mkdir()
    write_npz(folder / "opus.transformer-align.npz", marian_arrays(model))
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    (folder / "opus.vocab.yml").write_text("".join(f"{json.dumps(name)}: {id}\n" for name, id in ids.items()))
    (folder / "decoder.yml").write_text(
        "models:\n  - /somewhere/opus.transformer-align.npz\nvocabs:\n  - opus.vocab.yml\n  - opus.vocab.yml\n"
        "beam-size: 6\nnormalize: 1\n"
    )
    (folder / "preprocess.sh").write_text("normalize-punctuation.perl | spm_encode\n")
    (folder / "LICENSE").write_text("Creative Commons Attribution 4.0 International\n")
    return ids


def test_a_release_of_opus_mt_is_read_as_folder_and_as_zip(pieces: bytes, tmp_path: Path) -> None:
    french = marian_pieces(40, [text.upper() for text in SENTENCES])
    ids = opus_folder(tmp_path / "opus", pieces, french)
    with zipfile.ZipFile(tmp_path / "opus.zip", "w") as archive:
        for file in (tmp_path / "opus").iterdir():
            archive.write(file, file.name)
        archive.writestr("../escaped.spm", b"climbs")
    for path in (tmp_path / "opus", tmp_path / "opus.zip", tmp_path / "opus" / "opus.transformer-align.npz"):
        imported = read(path)
        assert (imported.decoding, imported.punctuation) == (Decoding(6, narrowing=True), "moses")
        assert imported.metadata["license"] == "CC-BY-4.0"
        assert (imported.config.activation, imported.config.alignment_layer) == ("swish", 1)
        assert imported.target_vocabulary is not None
        for side, vocabulary in ((pieces, imported.vocabulary), (french, imported.target_vocabulary)):
            expected = sentencepiece.SentencePieceProcessor(model_proto=side).encode(SENTENCES[0].upper(), out_type=str)
            found = Tokenizer(vocabulary.proto).encode(SENTENCES[0].upper())
            assert found == [ids.get(piece, ids["<unk>"]) for piece in expected]
    assert not (tmp_path.parent / "escaped.spm").exists()
    (tmp_path / "opus" / "source.bpe").write_text("#version: 0.2\n")
    with pytest.raises(ImportFault, match=r"BPE \(source.bpe\), which is not supported"):
        read(tmp_path / "opus")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("beam-size: many", "decoder.yml has beam-size: many"),
        ("beam-size: 0", "decoder.yml has beam-size: 0"),
        ("beam-size: -6", "decoder.yml has beam-size: -6"),
        ("beam-size:\n  - 4\n  - 6", r"decoder.yml has beam-size: \[4, 6\]"),
        ("normalize: often", "decoder.yml has normalize: often"),
        ("normalize: nan", "decoder.yml has normalize: nan"),
        ("normalize: -1", "decoder.yml has normalize: -1"),
        ("normalize: [0.6]", r"decoder.yml has normalize: \[0.6\]"),
        ("beam-size: &beam 6", "decoder.yml: line 1 uses a part of YAML"),
    ],
)
def test_a_setting_of_decoder_yml_that_makes_no_sense_is_refused_by_name(
    settings: str, message: str, pieces: bytes, tmp_path: Path
) -> None:
    opus_folder(tmp_path / "opus", pieces, pieces)
    (tmp_path / "opus/decoder.yml").write_text(f"{settings}\n")
    with pytest.raises(ImportFault, match=message):
        read(tmp_path / "opus")


@pytest.mark.parametrize("value", [1e38, -1e38, 2e10, float("nan"), float("inf")])
def test_a_weight_that_would_overflow_is_refused_by_name(value: float, pieces: bytes, tmp_path: Path) -> None:
    arrays = marian_arrays(marian_transformer(piece_count(pieces)))
    arrays["encoder_l1_ffn_W1"][0, 0] = value
    (tmp_path / "vocab.spm").write_bytes(pieces)
    write_npz(tmp_path / "model.npz", arrays)
    with pytest.raises(ImportFault, match=r"encoder_l1_ffn_W1 has (a|the) value "):
        read(tmp_path / "model.npz")


def test_symbols_for_target_languages_make_directions(pieces: bytes) -> None:
    names = [sentencepiece.SentencePieceProcessor(model_proto=pieces).id_to_piece(id) for id in range(4)]
    side = Side([*names, ">>fra<<", ">>deu<<", ">>oci<<", ">>cmn_Hans<<"], pieces)
    [vocabulary] = build_sides([side], (8, 8), ("en", "fr"), Specials("<unk>", ZERO_START, "</s>", ZERO_START))
    directions = directions_of(vocabulary, "en", "fr")
    assert directions is not None
    assert list(directions.targets) == ["fr", "de", "oc", "cmn-Hans"]
    assert directions.direction("en", "de").source_prefix == (5,)
    with pytest.raises(ImportFault, match="does not translate into es, but into cmn-Hans, de, fr, oc"):
        directions_of(vocabulary, "en", "es")


def test_positions_are_marians_unless_those_of_its_copies_are_wanted(pieces: bytes, tmp_path: Path) -> None:
    folder = marian_folder(tmp_path / "model", marian_transformer(piece_count(pieces)), vocab=pieces)
    table = marian_positions(8, 32)
    assert np.allclose(table[3], [f(3 * 10_000 ** (-i / 15)) for f in (np.sin, np.cos) for i in range(16)], atol=1e-6)
    imported = read(folder, positions="huggingface")
    assert imported.config.positions == "learned"
    assert np.array_equal(imported.weights["source_embedding.positions"][:8].numpy(), huggingface_positions(8, 32))
    assert np.allclose(huggingface_positions(8, 32)[3, 1], np.sin(3 * 10_000 ** (-2 / 32)), atol=1e-6)


def replaced(arrays: dict[str, Any], **options: str) -> dict[str, Any]:
    """`arrays` with other options."""
    text = arrays["special:model.yml"].tobytes().rstrip(b"\0").decode()
    said = dict(line.split(": ", 1) for line in text.splitlines()) | options
    text = "".join(f"{name}: {value}\n" for name, value in said.items())
    return {**arrays, "special:model.yml": np.frombuffer(text.encode(), np.int8)}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("type", "s2s"),
        ("dec-cell", "gru"),
        ("transformer-ffn-activation", "gelu"),
        ("transformer-decoder-autoreg", "average-attention"),
        ("transformer-postprocess-emb", "nd"),
        ("transformer-postprocess", "hn"),
        ("transformer-ffn-depth", "3"),
        ("transformer-tied-layers", "[1, 1]"),
        ("transformer-no-projection", "true"),
        ("transformer-train-position-embeddings", "true"),
        ("transformer-attention-mask", "alibi"),
        ("dim-emb", "1e9"),
        ("enc-depth", "999"),
        ("some-new-option", "true"),
    ],
)
def test_an_option_that_is_not_supported_is_refused_by_name(
    pieces: bytes, tmp_path: Path, option: str, value: str
) -> None:
    arrays = marian_arrays(marian_transformer(piece_count(pieces), decoder="ssru"))
    write_npz(tmp_path / "model.npz", replaced(arrays, **{option: value}))
    (tmp_path / "vocab.spm").write_bytes(pieces)
    with pytest.raises(ImportFault, match=option if option != "enc-depth" else "999 layers"):
        read(tmp_path)


def test_a_file_that_ends_early_is_refused_wherever_it_ends(pieces: bytes) -> None:
    content = as_bin(marian_arrays(marian_transformer(piece_count(pieces))), INTGEMM8)
    for size in range(0, len(content), 997):
        with pytest.raises(ImportFault):
            read_bin(memoryview(content[:size]))
    with pytest.raises(ImportFault, match="goes on for 1 bytes"):
        read_bin(memoryview(content + b"\0"))


def hostile_files(arrays: dict[str, Any]) -> Iterator[tuple[bytes, str]]:
    yield struct.pack("<QQ", 1, 2**60) + bytes(64), "ends in the middle"
    yield struct.pack("<QQ", 2, 0), "version 2"
    yield as_bin({"a": arrays["Wemb"]}), "has no special:model.yml"
    broken = dict(arrays)
    broken["encoder_l1_self_bq"] = np.full((1, 32), np.nan, np.float32)
    yield as_bin(broken), "not finite"

    def npz(**entries: bytes) -> bytes:
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, entry in entries.items():
                archive.writestr(f"{name}.npy", entry)
        return content.getvalue()

    yield npz(bomb=bytes(200 << 20)), "much more memory than its size"
    pickled = io.BytesIO()
    np.save(pickled, np.array([print], object), allow_pickle=True)
    yield npz(Wemb=pickled.getvalue()), "not an array of numbers"
    header = b"\x93NUMPY\1\0\x60\0{'descr': '<f4', 'fortran_order': False, 'shape': (99999, 99999)}"
    yield npz(Wemb=header.ljust(106)), "not the size of"


@pytest.mark.slow
def test_hostile_files_are_refused_in_a_line(pieces: bytes, tmp_path: Path) -> None:
    arrays = marian_arrays(marian_transformer(piece_count(pieces)))
    (tmp_path / "vocab.spm").write_bytes(pieces)
    for number, (content, message) in enumerate(hostile_files(arrays)):
        path = tmp_path / f"{number}.{'npz' if content.startswith(b'PK') else 'bin'}"
        path.write_bytes(content)
        with pytest.raises(ImportFault, match=message) as fault:
            read(path) if "finite" in message else read_marian_file(path)
        assert "\n" not in str(fault.value)
    (tmp_path / "bomb.spm.gz").write_bytes(gzip.compress(bytes(20 << 20)))
    (tmp_path / "vocab.spm").unlink()
    write_npz(tmp_path / "good.npz", arrays)
    with pytest.raises(ImportFault, match="more than 8 times its size"):
        read(tmp_path / "good.npz")


def test_yaml_is_read_in_the_forms_that_marian_writes() -> None:
    text = '---\na: true\nb:\n- 1\n- 2\nc:\n  []\nd: ""\n"\\u2581\\"x": 3\n\'it\'\'s\': 4\n? long\n: 5\ne: [x]\n'
    expected: dict[str, Value] = {"a": "true", "b": ["1", "2"], "c": [], "d": "", '▁"x': "3", "it's": "4", "long": "5"}
    assert read_yaml(text) == {**expected, "e": ["x"]}
    assert read_yaml("\u3000: 1") == {"\u3000": "1"}
    for wrong in (
        "a: 1\na: 2",
        "a: &x 1",
        "a: *x",
        "a: !!python/object 1",
        "a: {b: 1}",
        "a: [[1]]",
        "[a]: 1",
        '"open: 1',
        "a",
        '"\\q": 1',
    ):
        with pytest.raises(ImportFault, match="line"):
            read_yaml(wrong)


@pytest.mark.slow
def test_a_bundle_goes_to_marian_and_comes_back(pieces: bytes, tmp_path: Path) -> None:
    model = marian_transformer(piece_count(pieces), decoder="ssru")
    folder = marian_folder(tmp_path / "model", model, vocab=pieces)
    import_model(ImportOptions(folder, "en", "fr", tmp_path / "bundle"), Report(lambda _: None))
    convert_for_marian(MarianOptions(tmp_path / "bundle", tmp_path / "marian"), lambda _: None)
    assert is_marian(tmp_path / "marian") and not FAMILIES[-1][0](tmp_path / "marian")
    first, again = load_bundle(tmp_path / "bundle", torch.device("cpu")), read(tmp_path / "marian")
    returned, tokenizers = build_model(again)
    sources = [first.tokenizers.source.encode(text) for text in SENTENCES[:8]]
    assert [tokenizers.source.encode(text) for text in SENTENCES[:8]] == sources
    assert tokens(returned, sources) == tokens(first.model, sources)
    spaced = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "marian" / "vocab.spm"))
    assert spaced.encode(f"  {SENTENCES[0]}  ") == sources[0]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"positions": "sinusoidal"}, "--positions marian"),
        ({"zero_start": False}, "--zero-start"),
        ({"source_eos": False}, "</s>"),
    ],
)
def test_a_model_that_marian_cannot_have_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        marian_arrays(marian_transformer(20, **fields))


@pytest.mark.slow
def test_marian_finds_the_alignment_in_the_first_head(pieces: bytes, tmp_path: Path) -> None:
    model = marian_transformer(piece_count(pieces), alignment_layer=1, alignment_head=1)
    arrays = marian_arrays(model)
    write_npz(tmp_path / "model.npz", arrays)
    again, _ = build_model(read(marian_folder(tmp_path / "again", model, vocab=pieces)))
    assert (again.config.alignment_layer, again.config.alignment_head) == (1, 0)

    def aligned(model: Transformer, source: list[int]) -> list[int]:
        [found] = greedy_decode(model, [source], LIMITS)
        return list(found.aligned)

    for source in sources_of(pieces):
        assert aligned(again, source) == aligned(model, source)
    assert "guided-alignment: true" in read_marian_file(tmp_path / "model.npz").options
