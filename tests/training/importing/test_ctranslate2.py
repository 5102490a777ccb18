"""`import` of CTranslate2's models: the same tokens as CTranslate2, and refusals by name."""

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from imported_models import (
    MADE_UP,
    argos_package,
    opennmt_spec,
    opennmt_tokens,
    save_spec,
    translate_with_ctranslate2,
    unigram_pieces,
    with_older_format,
)
from shared_fixtures import SENTENCES, make_bundle

from model.bundle_weights import load_bundle
from model.decoding import as_backend, beam_decode, decode_all
from model.hypothesis import Hypothesis, Limits
from model.int8.backend import Int8Backend
from training.export.ctranslate2 import ConvertOptions, convert_bundle
from training.importing.command import import_model
from training.importing.errors import ImportFault
from training.importing.families import build_model, read_model
from training.importing.marian_files import read_marian_file
from training.importing.options import ImportOptions
from training.importing.placeholders import copy_into_symbols
from training.importing.report import Report

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
LIMITS = Limits(max_source=30, max_target=24, ratio=0, margin=24)


@pytest.fixture(scope="module")
def pieces() -> bytes:
    return unigram_pieces()


@pytest.fixture(scope="module")
def tokens(pieces: bytes) -> list[str]:
    return opennmt_tokens(pieces)


def options(path: Path, **fields: Any) -> ImportOptions:
    return ImportOptions(path, "en", "fr", path.parent / "imported" / "en-fr", threads=1, **fields)


def assert_same_tokens(
    folder: Path, known: int, beam_size: int, count: int = 25, compute_type: str = "float32"
) -> None:
    """`count` random sources give CTranslate2's tokens."""
    draw = random.Random(7)
    sources = [[draw.randrange(4, known) for _ in range(draw.randint(1, 30))] for _ in range(count)]
    model, tokenizers = build_model(read_model(options(folder)))
    ours = beam_decode(model, sources, LIMITS, beam_size)
    theirs = translate_with_ctranslate2(
        folder, [[tokenizers.source.piece(id) for id in source] for source in sources], beam_size, compute_type
    )
    assert len({tuple(found) for found in theirs}) > count // 10
    assert [[tokenizers.target.piece(id) for id in h.tokens] for h in ours] == theirs


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize(
    ("fields", "dtype"),
    [
        ({}, "float32"),
        ({"pre_norm": False}, "float32"),
        ({"shift": 0.125}, "float16"),
        ({"shift": 0.125, "seed": 1}, "bfloat16"),
        ({}, "int8_float32"),
        ({}, "int16"),
    ],
    ids=str,
)
def test_an_opennmt_model_translates_as_with_ctranslate2(
    beam_size: int, fields: dict[str, Any], dtype: str, pieces: bytes, tokens: list[str], tmp_path: Path
) -> None:
    folder = save_spec(opennmt_spec(tokens, **fields), tmp_path / "model", pieces, dtype)
    assert_same_tokens(folder, len(tokens), beam_size)


@pytest.mark.parametrize("penalty", [0, 0.2, 1])
def test_a_length_penalty_ranks_as_with_ctranslate2(
    penalty: float, pieces: bytes, tokens: list[str], tmp_path: Path
) -> None:
    folder = save_spec(opennmt_spec(tokens), tmp_path / "model", pieces)
    draw = random.Random(7)
    sources = [[draw.randrange(4, len(tokens)) for _ in range(draw.randint(1, 30))] for _ in range(60)]
    model, tokenizers = build_model(read_model(options(folder)))
    ours = beam_decode(model, sources, LIMITS, 4, length_penalty=penalty)
    given = [[tokenizers.source.piece(id) for id in source] for source in sources]
    theirs = translate_with_ctranslate2(folder, given, 4, disable_unk=True, length_penalty=penalty)
    assert [[tokenizers.target.piece(id) for id in h.tokens] for h in ours] == theirs


def test_swish_learned_positions_a_zero_start_and_other_scales_are_read(
    pieces: bytes, tokens: list[str], tmp_path: Path
) -> None:
    from ctranslate2.specs import common_spec

    spec = opennmt_spec(tokens, shift=0.01, activation=common_spec.Activation.SWISH)
    spec.decoder.start_from_zero_embedding = True
    spec.encoder.scale_embeddings = False
    folder = save_spec(spec, tmp_path / "model", pieces)
    imported = read_model(options(folder))
    assert imported.config.activation == "swish"
    assert imported.config.positions == "learned"
    assert not imported.config.source_eos
    assert_same_tokens(folder, len(tokens), 1)


@pytest.mark.parametrize("dtype", ["float32", "int8_float32"])
def test_a_model_with_two_vocabularies_translates_as_with_ctranslate2_and_is_exported_again(
    dtype: str, pieces: bytes, tokens: list[str], tmp_path: Path
) -> None:
    source_tokens = ["<unk>", *tokens[6:], "<blank>"]  # another order, and neither start nor end, as in OpenNMT-py
    folder = save_spec(opennmt_spec(tokens, source_tokens=source_tokens), tmp_path / "model", pieces, dtype)
    (folder / "sentencepiece.model").rename(folder / "source.spm")
    (folder / "target.spm").write_bytes(unigram_pieces(60))
    import_model(options(folder), Report(lambda _: None))
    bundle = load_bundle(tmp_path / "imported" / "en-fr", CPU)
    source, target = bundle.tokenizers
    assert (source.pad_id, source.eos_id) == (target.pad_id, target.eos_id) == (0, bundle.architecture.eos_id)
    assert source.reserved_ids != target.reserved_ids
    assert bundle.config["format_version"] == 2
    draw = random.Random(5)
    known = [source_tokens.index(token) for token in source_tokens[1:-1]]
    given = [[source_tokens[draw.choice(known)] for _ in range(draw.randint(1, 30))] for _ in range(25)]
    ids = {source.piece(id): id for id in range(source.vocab_size)}
    theirs = translate_with_ctranslate2(folder, given, 4)
    ours = beam_decode(bundle.model, [[ids[token] for token in one] for one in given], LIMITS, 4)
    assert [[target.piece(id) for id in h.tokens] for h in ours] == theirs
    convert_bundle(ConvertOptions(bundle.folder, tmp_path / "back"), say=lambda _: None)
    assert translate_with_ctranslate2(tmp_path / "back", given, 4) == theirs
    assert 'model_file="sentencepiece.target.model"' in (tmp_path / "back" / "README.md").read_text()
    again, tokenizers = build_model(read_model(options(tmp_path / "back")))
    assert [one.proto for one in tokenizers] == [source.proto, target.proto]
    weights = dict(bundle.model.named_parameters())
    assert all(torch.equal(weight, weights[name]) for name, weight in again.named_parameters())


def test_a_symbol_of_two_vocabularies_is_required_in_the_target_by_its_own_id(
    pieces: bytes, tokens: list[str], tmp_path: Path
) -> None:
    spec = opennmt_spec(tokens, source_tokens=["<unk>", *tokens[6:]])
    folder = save_spec(spec, tmp_path / "model", pieces)
    model, (source, target) = build_model(read_model(options(folder)))
    asked = Hypothesis(source.encode_source_parts(["I like ", 1]), 24, required=target.reserved_ids[1:2])
    for backend in (as_backend(model), Int8Backend.of(model)):
        once = asked.without_result()
        decode_all(backend.new_batch(1, LIMITS), [once])
        assert once.tokens.count(target.reserved_ids[1]) == 1


@pytest.mark.parametrize(("version", "revision"), [(5, 5), (4, 4), (4, 3)])
def test_an_older_model_bin_that_ctranslate2_still_reads_is_read(
    version: int, revision: int, pieces: bytes, tokens: list[str], tmp_path: Path
) -> None:
    spec = opennmt_spec(tokens, pre_norm=False)
    spec.config.add_source_eos = True
    folder = save_spec(spec, tmp_path / "model", pieces)
    before = read_model(options(folder))
    with_older_format(folder, version, revision)
    after = read_model(options(folder))
    assert (after.config, after.vocabulary) == (before.config, before.vocabulary)
    assert after.config.source_eos
    assert_same_tokens(folder, len(tokens), 1)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_a_bundle_that_was_converted_comes_back(dtype: str, tmp_path: Path) -> None:
    bundle = load_bundle(make_bundle(tmp_path / "en-fr"), CPU)
    convert_bundle(ConvertOptions(bundle.folder, tmp_path / "ct2", dtype=dtype), say=lambda _: None)
    import_model(options(tmp_path / "ct2", licence="CC0-1.0"), Report(lambda _: None))
    back = load_bundle(tmp_path / "imported" / "en-fr", CPU)
    assert back.model.config == bundle.model.config
    assert back.source_tokenizer.proto == bundle.source_tokenizer.proto
    assert back.config["licence"] == "CC0-1.0"
    if dtype != "int8":  # the bundle's own weights are float16
        assert all(torch.equal(a, b) for a, b in zip(back.model.parameters(), bundle.model.parameters(), strict=True))
    draw = random.Random(1)
    sources = [
        [draw.randrange(4, bundle.source_tokenizer.vocab_size) for _ in range(draw.randint(1, 20))] for _ in range(25)
    ]
    limits = Limits(20, 24)
    first, second = (beam_decode(one.model, sources, limits, 1) for one in (bundle, back))
    same = [a.tokens == b.tokens for a, b in zip(first, second, strict=True)]
    assert all(same) if dtype != "int8" else sum(same) > 12


def test_an_argos_package_becomes_a_bundle_that_is_served(pieces: bytes, tokens: list[str], tmp_path: Path) -> None:
    folder = save_spec(opennmt_spec(tokens), tmp_path / "model", pieces, "int8")
    package = argos_package(tmp_path / "translate-en_fr-1_9.argosmodel", folder, license="CC0")
    said: list[str] = []
    import_model(options(package, attribution=("Argos Open Technologies",)), Report(said.append))
    bundle = load_bundle(tmp_path / "imported" / "en-fr", CPU)
    assert said[-1].startswith("next: INTERLINEAR_BUNDLES=")
    assert bundle.config["licence"] == "CC0"
    assert bundle.config["training"]["imported"]["file"] == package.name
    assert bundle.config["format_version"] == 2
    card = (bundle.folder / "README.md").read_text()
    assert "Nothing was measured." in card
    assert "Argos Open Technologies" in card
    assert f"has no such piece: {len(MADE_UP)}." in card
    assert "3 pieces of its SentencePiece model are not its tokens" in card


def test_text_is_split_as_its_own_sentencepiece_model_splits_it(
    pieces: bytes, tokens: list[str], tmp_path: Path
) -> None:
    import sentencepiece

    theirs = sentencepiece.SentencePieceProcessor(model_proto=pieces)
    folder = save_spec(opennmt_spec(tokens), tmp_path / "model", pieces)
    _, (tokenizer, _) = build_model(read_model(options(folder)))
    compared = 0
    for text in (*SENTENCES[:40], "木村 ▁ x", "ﬁne"):
        expected = theirs.encode(text, out_type=str)
        if all(piece in tokens for piece in expected):
            compared += 1
            assert [tokenizer.piece(id) for id in tokenizer.encode(text)] == expected
        spans = tokenizer.pieces(text)
        assert [piece.id for piece in spans] == tokenizer.encode(text)
        assert max(piece.end for piece in spans) <= len(text)
    assert compared > 2


def test_required_symbols_come_exactly_once(pieces: bytes, tokens: list[str], tmp_path: Path) -> None:
    folder = save_spec(opennmt_spec(tokens), tmp_path / "model", pieces)
    model, (tokenizer, _) = build_model(read_model(options(folder)))
    source = tokenizer.encode_source_parts(["I like ", 0, " and ", 1])
    symbols = tokenizer.reserved_ids
    assert sum(source.count(symbol) for symbol in symbols) == 2
    for backend in (as_backend(model), Int8Backend.of(model)):
        batch = backend.new_batch(8, LIMITS)
        asked = [Hypothesis(source, 24, required=symbols[:2], forbidden=symbols[2:], beam_size=n) for n in (1, 4)]
        decode_all(batch, asked[:1])
        decode_all(batch, asked[1:])
        for hypothesis in asked:
            assert [hypothesis.tokens.count(symbol) for symbol in symbols[:3]] == [1, 1, 0]


def test_a_symbol_takes_the_place_of_the_piece_that_it_copies_and_never_comes_unasked(
    pieces: bytes, tokens: list[str], tmp_path: Path
) -> None:
    folder = save_spec(opennmt_spec(tokens), tmp_path / "model", pieces)
    model, tokenizers = build_model(read_model(options(folder)))
    draw = random.Random(3)
    sources = [[draw.randrange(4, len(tokens)) for _ in range(draw.randint(1, 30))] for _ in range(20)]
    before = beam_decode(model, sources, LIMITS, 1)
    symbol, *others = tokenizers.target.reserved_ids
    replaced = 0
    for source, hypothesis in zip(sources, before, strict=True):
        once = [token for token in hypothesis.tokens[:-1] if hypothesis.tokens.count(token) == 1 and token > 3]
        if not once:
            continue
        copy_into_symbols(model, tokenizers, [(once[0], once[0])])
        assert beam_decode(model, [source], LIMITS, 1)[0].tokens == hypothesis.tokens
        asked = Hypothesis(source, 24, required=[symbol], forbidden=[*others, once[0]])
        decode_all(as_backend(model).new_batch(1, LIMITS), [asked])
        assert asked.tokens.index(symbol) == hypothesis.tokens.index(once[0])
        replaced += 1
    assert replaced > 5


def _drop_pieces(folder: Path) -> None:
    (folder / "sentencepiece.model").rename(folder / "bpe.model")


def _change_config(**fields: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | fields))

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_drop_pieces, "bpe.model, which is not supported"),
        (_change_config(quantization_type=1), "quantisation such as AWQ"),
        (_change_config(decoder_start_token=None), "decoder_start_token None"),
        (_change_config(add_source_bos=True), "adds a start token to the source"),
        (lambda folder: (folder / "shared_vocabulary.json").write_text('["a", "a"]'), "a token twice"),
        (lambda folder: (folder / "shared_vocabulary.json").write_text("[1]"), "not a list of tokens"),
        (lambda folder: (folder / "shared_vocabulary.json").unlink(), "no vocabulary"),
        (lambda folder: (folder / "sentencepiece.model").unlink(), "no SentencePiece model"),
        (lambda folder: (folder / "sentencepiece.model").write_bytes(b"\x0a\xff"), "SentencePiece model"),
        (lambda folder: (folder / "model.bin").write_bytes(b""), "is empty"),
        (lambda folder: (folder / "config.json").write_text("["), "is not JSON"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(
    change: Callable[[Path], Any], message: str, pieces: bytes, tokens: list[str], tmp_path: Path
) -> None:
    folder = save_spec(opennmt_spec(tokens), tmp_path / "model", pieces)
    change(folder)
    with pytest.raises(ImportFault, match=message) as caught:
        read_model(options(folder))
    assert "\n" not in str(caught.value)


def test_vocabularies_in_two_equal_files_or_in_text_are_read(pieces: bytes, tokens: list[str], tmp_path: Path) -> None:
    folder = save_spec(opennmt_spec(tokens), tmp_path / "model", pieces)
    before = read_model(options(folder)).vocabulary
    (folder / "shared_vocabulary.json").unlink()
    for side in ("source", "target"):
        (folder / f"{side}_vocabulary.txt").write_text("\n".join(tokens) + "\n")
    assert read_model(options(folder)).vocabulary == before


def _relative(spec: Any) -> None:
    for layer in spec.encoder.layer:
        object.__setattr__(layer.self_attention, "relative_position_keys", np.ones((41, 8), np.float32))


def _gated(spec: Any) -> None:
    from ctranslate2.specs import common_spec

    for layer in spec.encoder.layer:
        linear = common_spec.LinearSpec()
        linear.weight = np.ones((48, 64), np.float32)
        object.__setattr__(layer.ffn, "linear_0_noact", linear)


def _rms(spec: Any) -> None:
    for stack in (spec.encoder, spec.decoder):
        del stack.layer_norm.beta


def _rotary(spec: Any) -> None:
    object.__setattr__(spec.decoder.layer[0].self_attention, "rotary_dim", np.dtype("int32").type(8))


def _multi_query(spec: Any) -> None:
    object.__setattr__(spec.decoder.layer[0].self_attention, "num_heads_kv", np.dtype("int32").type(1))


def _alibi(spec: Any) -> None:
    spec.decoder.alibi = True


def _without_positions(spec: Any) -> None:
    del spec.encoder.position_encodings
    del spec.decoder.position_encodings


def _gelu(spec: Any) -> None:
    from ctranslate2.specs import common_spec

    spec.encoder.activation = spec.decoder.activation = np.dtype("int8").type(common_spec.Activation.GELU)


def _zero_point(spec: Any) -> None:
    spec.encoder.layer[0].ffn.linear_0.weight_zero = np.ones((48,), np.float32)


def _surplus(spec: Any) -> None:
    object.__setattr__(spec.decoder, "project_somewhere", np.ones((2, 2), np.float32))


def _not_finite(spec: Any) -> None:
    spec.decoder.layer[1].ffn.linear_1.bias[3] = np.nan


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_relative, "relative positions"),
        (_gated, "gated feed-forward"),
        (_rms, "RMS normalisation"),
        (_rotary, "rotary positions"),
        (_multi_query, "multi-query attention"),
        (_alibi, "ALiBi"),
        (_without_positions, "no table of positions"),
        (_gelu, "the activation GELU,"),
        (_zero_point, "quantisation such as AWQ"),
        (_surplus, "decoder/project_somewhere"),
        (_not_finite, "decoder/layer_1/ffn/linear_1/bias has a value that is not finite"),
    ],
)
def test_parts_of_other_architectures_are_refused_by_name(
    change: Callable[[Any], None], message: str, pieces: bytes, tokens: list[str], tmp_path: Path
) -> None:
    spec = opennmt_spec(tokens)
    change(spec)
    folder = save_spec(spec, tmp_path / "model", pieces)
    with pytest.raises(ImportFault, match=message):
        read_model(options(folder))


def test_a_symbol_with_half_a_character_is_refused(pieces: bytes, tokens: list[str], tmp_path: Path) -> None:
    folder = save_spec(opennmt_spec(tokens), tmp_path / "model", pieces, "int8")
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**settings, "bos_token": "\ud800"}))
    with pytest.raises(ImportFault, match="bos_token"):
        read_model(ImportOptions(folder, "en", "fr", tmp_path / "out"))


def test_another_model_than_a_translator_is_refused(pieces: bytes, tokens: list[str], tmp_path: Path) -> None:
    folder = save_spec(opennmt_spec(tokens), tmp_path / "model", pieces)
    content = (folder / "model.bin").read_bytes()
    (folder / "model.bin").write_bytes(content.replace(b"TransformerSpec\0", b"TransformerLanS\0", 1))
    with pytest.raises(ImportFault, match="only encoder-decoder Transformers"):
        read_model(options(folder))


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"to_code": "de"}, "translates en to de, not en to fr"),
        ({"type": "sbd"}, "type 'sbd'"),
        ({"target_prefix": "__fr__"}, "target prefix '__fr__'"),
    ],
)
def test_an_argos_package_for_something_else_is_refused(
    metadata: dict[str, str], message: str, pieces: bytes, tokens: list[str], tmp_path: Path
) -> None:
    folder = save_spec(opennmt_spec(tokens), tmp_path / "model", pieces)
    with pytest.raises(ImportFault, match=message):
        read_model(options(argos_package(tmp_path / "x.argosmodel", folder, **metadata)))


def test_a_zip_that_grows_or_climbs_is_refused(tmp_path: Path) -> None:
    bomb, climbing = tmp_path / "bomb.argosmodel", tmp_path / "climbing.argosmodel"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/model/model.bin", bytes(70 << 20))
    with pytest.raises(ImportFault, match="would take 73,400,320 bytes"):
        read_model(options(bomb))
    with zipfile.ZipFile(climbing, "w") as archive:
        archive.writestr("../model.bin", b"x")
        archive.writestr("a/../../model.bin", b"x")
    with pytest.raises(ImportFault, match=r"a zip without model\.bin"):
        read_model(options(climbing))
    assert not (tmp_path.parent / "model.bin").exists()


def test_a_fault_of_a_package_names_the_package(tmp_path: Path) -> None:
    package = tmp_path / "a.argosmodel"
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("a/model/model.bin", b"x")
        archive.writestr("a/metadata.json", json.dumps({"from_code": "en", "to_code": "de"}))
    with pytest.raises(ImportFault, match=f"{package}: translates en to de, not en to fr"):
        read_model(options(package))


def test_positions_of_no_known_program_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--positions must be one of marian, huggingface, not 'foo'"):
        options(tmp_path, positions="foo")


def test_a_bundle_is_not_imported_again(tmp_path: Path) -> None:
    with pytest.raises(ImportFault, match="is a bundle already"):
        read_model(options(make_bundle(tmp_path / "en-fr")))


def test_a_part_of_an_npz_is_refused_as_such(tmp_path: Path) -> None:
    (tmp_path / "model.npz").write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(ImportFault, match=r"is no \.npz file, or a part of one"):
        read_marian_file(tmp_path / "model.npz")


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    for path, message in ((tmp_path / "notes.txt", "no model of a known family"), (tmp_path / "none", "not found")):
        with pytest.raises(ImportFault, match=message):
            read_model(options(path))
