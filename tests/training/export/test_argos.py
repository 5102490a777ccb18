"""training.export.argos: `export --to argos` writes packages that translate as the bundle does, by the steps of Argos
Translate, and that `import` reads."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from imported_models import opennmt_spec, opennmt_tokens, save_spec, translate_with_ctranslate2, unigram_pieces
from shared_fixtures import SENTENCES, make_bundle

from model.atomic_files import NotReplaceable
from model.bundle_weights import LoadedBundle, load_bundle, save_bundle
from model.decoding import beam_decode
from model.tokenizer import Tokenizer
from tests.model.test_bundle import directed
from tests.training.export.test_ctranslate2 import LIMITS, export, random_model
from tests.training.export.test_minisbd import sentences
from training.data.vocabulary import train_vocabulary
from training.export.argos import POSITIONS, argos_sentence_pieces, pack_for_argos
from training.export.ctranslate2 import ConversionError, ConvertOptions
from training.export.minisbd import splitter_model
from training.importing.command import import_model
from training.importing.options import ImportOptions
from training.importing.report import Report

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
TEXTS = [*SENTENCES, "It’s\u00a0well,  thank\u200b you.", " ﬁne\tcat ", "cafe\u0301 木村 😀", "x"]
"""As a service receives them: typographic, invisible and composed characters, and some that are spelt in bytes."""


def packed(bundle: Path, **options: Any) -> Path:
    out = bundle.parent / "packed.argosmodel"
    pack_for_argos(ConvertOptions(bundle, out, **options), lambda line: None)
    return out


def unpacked(package: Path) -> Path:
    """The package's folder, where Argos Translate installs it."""
    folder = package.parent / "packages"
    with zipfile.ZipFile(package) as archive:
        archive.extractall(folder)
    [found] = folder.iterdir()
    return found


def argos_translations(folder: Path, texts: list[str], beam_size: int) -> list[str]:
    """What Argos Translate 1.11 makes of sentences: its tokenizer's calls, and its options of CTranslate2."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.model"))
    pieces = [processor.encode(text, out_type=str) for text in texts]
    found = translate_with_ctranslate2(folder / "model", pieces, beam_size, replace_unknowns=True, length_penalty=0.2)
    return [processor.decode_pieces(tokens).replace("▁", " ").replace("_", " ").removeprefix(" ") for tokens in found]


def translations(bundle: LoadedBundle, texts: list[str], beam_size: int) -> list[str]:
    """The bundle's own, without what the service does besides; Argos Translate makes spaces of underscores."""
    sources = [bundle.source_tokenizer.encode_source(text.strip()) for text in texts]
    found = beam_decode(bundle.model, sources, LIMITS, beam_size, length_penalty=0.2)
    ids = [[id for id in one.tokens if id != bundle.model.config.eos_id] for one in found]
    return [bundle.target_tokenizer.decode(tokens).replace("▁", " ").replace("_", " ") for tokens in ids]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(train_vocabulary(SENTENCES, 400, ["en", "fr"], threads=1))


def random_bundle(folder: Path, tokenizer: Tokenizer, record: dict[str, Any] | None = None, **fields: Any) -> Path:
    """A bundle whose weights are all random."""
    known = {"source": "en", "target": "fr", "samples": [], "licence": "CC0-1.0", "attribution": ["木村"]}
    model = random_model(tokenizer, **fields)
    save_bundle(folder, model, tokenizer, LIMITS, known | (record or {}), "A card.\n", dtype="float32")
    return folder


def test_command_writes_a_package_with_what_argos_translate_reads(tmp_path: Path) -> None:
    bundle, out = make_bundle(tmp_path / "en-zh", target="zh-Hant"), tmp_path / "new" / "translate.argosmodel"
    code, said, errors = export("--to", "argos", "--bundle", bundle, "--out", out, "--dtype", "int8")
    assert (code, errors) == (0, "")
    assert "translates the 1 samples of en-zh-Hant@" in said
    assert [path.name for path in out.parent.iterdir()] == ["translate.argosmodel"]
    with zipfile.ZipFile(out) as archive:
        content = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    root = "translate-en_zt/"
    model = [f"model/{name}" for name in ("model.bin", "config.json", "shared_vocabulary.json")]
    files = ["README.md", "metadata.json", "sentencepiece.model", "minisbd/en.onnx", *model]
    assert content.keys() == {f"{root}{name}" for name in files}
    metadata = json.loads(content[f"{root}metadata.json"])
    assert metadata["bundle"].startswith("en-zh-Hant@")
    assert {name: metadata[name] for name in metadata if name not in ("bundle", "argos_version")} == {
        "type": "translate",
        "package_version": "100.0",
        "from_code": "en",
        "from_name": "English",
        "to_code": "zt",
        "to_name": "Chinese (traditional)",
        "license": "CC0-1.0",
    }
    assert content[f"{root}minisbd/en.onnx"] == splitter_model("en")
    assert "CC0-1.0" in content[f"{root}README.md"].decode()
    assert sentences("en", "Hello. You?") == ["Hello.", "You?"]


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize(
    "fields",
    [
        {"seed": 3},
        {"seed": 7, "positions": "learned", "norm": "post"},
        {"seed": 7, "output_bias": True, "source_eos": False},
    ],
    ids=str,
)
def test_package_translates_as_the_bundle_does(
    fields: dict[str, Any], beam_size: int, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    bundle = random_bundle(tmp_path / "bundle", tokenizer, **fields)
    found = argos_translations(unpacked(packed(bundle)), TEXTS, beam_size)
    assert found == translations(load_bundle(bundle, CPU), TEXTS, beam_size)
    assert len(set(found)) > len(found) // 2


def test_imported_package_has_the_same_model_and_argos_decoding(tokenizer: Tokenizer, tmp_path: Path) -> None:
    bundle = load_bundle(random_bundle(tmp_path / "bundle", tokenizer), CPU)
    options = ImportOptions(packed(bundle.folder), "en", "fr", tmp_path / "back" / "en-fr", dtype="float32", threads=1)
    import_model(options, Report(lambda line: None))
    back = load_bundle(options.folder, CPU)
    assert all(torch.equal(a, b) for a, b in zip(back.model.parameters(), bundle.model.parameters(), strict=True))
    assert (back.decoding.beam_size, back.decoding.length_penalty) == (4, 0.2)
    assert back.config["licence"] == "CC0-1.0"
    assert translations(back, TEXTS, 4) == translations(bundle, TEXTS, 4)


def test_two_vocabularies_translate_as_the_bundle_does_and_are_imported_again(tmp_path: Path) -> None:
    pieces = unigram_pieces()
    tokens = opennmt_tokens(pieces)
    folder = save_spec(opennmt_spec(tokens, source_tokens=["<unk>", *tokens[6:]]), tmp_path / "model", pieces)
    (folder / "target.spm").write_bytes(unigram_pieces(60))
    model = folder
    for number in range(2):
        options = ImportOptions(model, "en", "fr", tmp_path / f"{number}" / "en-fr", dtype="float32", threads=1)
        import_model(options, Report(lambda line: None))
        bundle = load_bundle(options.folder, CPU)
        assert not bundle.tokenizers.is_joint
        model = packed(bundle.folder)
        found = argos_translations(unpacked(model), SENTENCES, 4)
        assert found == translations(bundle, SENTENCES, 4)
        assert len(set(found)) > 3


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_long_text_without_a_sentence_end_is_translated(positions: str, tokenizer: Tokenizer, tmp_path: Path) -> None:
    bundle = random_bundle(tmp_path / "bundle", tokenizer, positions=positions)
    assert load_bundle(bundle, CPU).model.config.max_positions < POSITIONS
    [found] = argos_translations(unpacked(packed(bundle)), ["thank you " * 2_000], 1)
    assert found


def test_source_text_is_normalised_by_the_pieces_themselves(tokenizer: Tokenizer) -> None:
    argos = sentencepiece.SentencePieceProcessor(model_proto=argos_sentence_pieces(tokenizer.proto))
    for text in [*TEXTS, "a\u00adb\ufeff “c” d’e", "نمی\u200cشود", "\u3000a\u2003\u2003b"]:
        pieces = [tokenizer.piece(id) for id in tokenizer.encode_source(text.strip())]
        assert argos.encode(text, out_type=str) == pieces, text


@pytest.mark.parametrize(
    ("record", "fields", "why"),
    [
        ({}, {"decoder": "ssru"}, "CTranslate2 does not support the recurrent decoder"),
        ({}, {"norm": "residual_post"}, "CTranslate2 does not support the layer normalisation"),
        ({"text": {"punctuation": "moses"}}, {}, "Argos Translate does not normalise punctuation"),
    ],
)
def test_what_cannot_be_expressed_is_refused(
    record: dict[str, Any], fields: dict[str, Any], why: str, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    bundle = random_bundle(tmp_path / "bundle", tokenizer, record, **fields)
    with pytest.raises(ConversionError, match=f"^{why}"):
        packed(bundle)
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_prefixes_are_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    bundle = random_bundle(tmp_path / "bundle", tokenizer)
    prefix = {"source_prefix": [tokenizer.language_ids["fr"]]}
    directed(bundle, directions={"sources": {"en": []}, "targets": {"fr": prefix}})
    code, _, errors = export("--to", "argos", "--bundle", bundle, "--out", tmp_path / "a.argosmodel")
    assert (code, errors) == (1, f"error: {bundle} translates en-fr by prefixes, which is not supported here\n")


def test_text_that_argos_would_split_or_spell_differently_is_refused(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.export.argos.argos_sentence_pieces", lambda proto: unigram_pieces())
    with pytest.raises(ConversionError, match=r"^Argos Translate does not split the sample"):
        packed(make_bundle(tmp_path / "en-fr"))
    with pytest.raises(ConversionError, match=r"^Argos Translate does not spell '😀'"):
        packed(random_bundle(tmp_path / "bundle", tokenizer))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle", "en-fr"]


def test_only_a_package_is_replaced_and_only_on_request(tokenizer: Tokenizer, tmp_path: Path) -> None:
    bundle = random_bundle(tmp_path / "bundle", tokenizer)
    out = packed(bundle)
    before = out.stat().st_mtime_ns
    with pytest.raises(NotReplaceable, match="--replace swaps it for the new package"):
        packed(bundle)
    assert out.stat().st_mtime_ns == before
    packed(bundle, replace=True)
    assert out.stat().st_mtime_ns > before
    out.write_text("mine", encoding="utf-8")
    with pytest.raises(NotReplaceable, match="is not a package"):
        packed(bundle, replace=True)
    assert out.read_text(encoding="utf-8") == "mine"
    code, _, errors = export("--to", "argos", "--bundle", bundle, "--out", tmp_path / "en-fr.zip")
    assert (code, errors) == (1, "error: --out must end in .argosmodel, not 'en-fr.zip'\n")
