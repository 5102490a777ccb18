"""model/bundle.py: bundles on disk: complete or absent, with a one-line error for whatever is wrong. Run as a
program, this file is the process that the tests kill: see `kill_at_every_moment`."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import io
import json
import math
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples
from safetensors.torch import load, save
from warm import run_warm

from model import atomic_files, bundle_files
from model.atomic_files import NotReplaceable, check_replaceable
from model.bundle import open_bundle
from model.bundle_files import ALIGNMENT, BundleError, checksums, read_bundle, read_file
from model.bundle_weights import alignment_content, check_samples, load_bundle, save_bundle
from model.config import ModelConfig
from model.decoding import beam_decode, greedy_decode
from model.directions import Direction
from model.hypothesis import Limits
from model.tokenizer import Tokenizer
from model.transformer import AlignmentHead, Transformer
from training.align.head import with_alignment_head
from training.data.vocabulary import train_vocabulary

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
SIGNED = ("config.json", "model.safetensors", "sentencepiece.model")
SENTENCES = ("The kettle is on the stove.", "La bouilloire est sur le feu.")
LIMITS = Limits(max_source=20, max_target=24, ratio=1.5, margin=4)
RECORD = {
    "source": "en",
    "target": "fr",
    "training": {"steps": 3},
    "metrics": [],
    "licence": "CC0-1.0",
    "attribution": ["Jürgen, 木村"],
    "samples": [],
}


def make_model(vocab_size: int, seed: int = 0, **fields: Any) -> Transformer:
    torch.manual_seed(seed)
    shape = {"d_model": 8, "num_heads": 2, "d_ff": 12, "encoder_layers": 1, "decoder_layers": 1, "max_positions": 32}
    vocabularies = {"source_vocab_size": vocab_size, "target_vocab_size": vocab_size}
    return Transformer(ModelConfig.from_dict({**vocabularies, **shape, **fields})).eval()


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(train_vocabulary(SENTENCES, 400, ["en", "fr"]))


@pytest.fixture
def model(tokenizer: Tokenizer) -> Transformer:
    return make_model(tokenizer.vocab_size)


@pytest.fixture
def folder(tmp_path: Path, model: Transformer, tokenizer: Tokenizer) -> Path:
    """A bundle of this model, alone in its parent folder."""
    folder = tmp_path / "bundles" / "en-fr"
    save_bundle(folder, model, tokenizer, LIMITS, RECORD, "# A card\n")
    return folder


def sign(folder: Path) -> None:
    """Updates the checksums, so that errors inside must be detected by themselves."""
    lines = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in SIGNED]
    (folder / "SHA256SUMS").write_text("".join(lines))


def change_config(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    change(config)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def change_weights(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    weights = load((folder / "model.safetensors").read_bytes())
    change(weights)
    (folder / "model.safetensors").write_bytes(save(weights))


def assert_refused(folder: Path, message: str) -> None:
    with pytest.raises(BundleError, match=message) as error:
        load_bundle(folder, CPU)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"{folder}: ")


# ---- There and back


def test_a_bundle_round_trips(folder: Path, model: Transformer, tokenizer: Tokenizer) -> None:
    loaded = load_bundle(folder, CPU)
    assert loaded.folder == folder
    assert loaded.model.config == model.config
    assert loaded.source_tokenizer.proto == tokenizer.proto
    assert loaded.limits == LIMITS
    assert {name: loaded.config[name] for name in RECORD} == RECORD
    assert (loaded.source, loaded.target, loaded.pair) == ("en", "fr", "en-fr")
    assert not loaded.model.training
    ours, theirs = dict(model.named_parameters()), dict(loaded.model.named_parameters())
    assert ours.keys() == theirs.keys()
    for name, parameter in ours.items():
        assert torch.equal(theirs[name], parameter.half().float()), name


def test_bundle_name_has_the_pair_and_a_hash_of_the_weights(folder: Path, tmp_path: Path, tokenizer: Tokenizer) -> None:
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert load_bundle(folder, CPU).name == f"en-fr@{digest[:12]}"
    other = tmp_path / "other"
    save_bundle(other, make_model(tokenizer.vocab_size, seed=1), tokenizer, LIMITS, RECORD, "")
    assert load_bundle(other, CPU).name != load_bundle(folder, CPU).name


@pytest.mark.parametrize("sharing", ["none", "decoder", "all"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_bundle_translates_like_the_model_it_was_made_from(
    tmp_path: Path, tokenizer: Tokenizer, sharing: str, norm: str
) -> None:
    model = make_model(tokenizer.vocab_size, share_embeddings=sharing, norm=norm, attention_bias=False)
    save_bundle(tmp_path / "b", model, tokenizer, LIMITS, RECORD, "", dtype="float32")
    loaded = load_bundle(tmp_path / "b", CPU)
    sources = [tokenizer.encode(sentence)[:20] for sentence in SENTENCES]
    found, expected = (greedy_decode(m, sources, LIMITS) for m in (loaded.model, model))
    assert [h.log_probs for h in found] == [h.log_probs for h in expected]
    assert loaded.model.parameter_count() == model.parameter_count()


def test_shared_matrix_is_written_once(tmp_path: Path, tokenizer: Tokenizer) -> None:
    for sharing, matrices in (("all", 1), ("decoder", 2), ("none", 3)):
        save_bundle(
            tmp_path / sharing,
            make_model(tokenizer.vocab_size, share_embeddings=sharing),
            tokenizer,
            LIMITS,
            RECORD,
            "",
        )
        weights = load((tmp_path / sharing / "model.safetensors").read_bytes())
        assert [tensor.shape[0] for tensor in weights.values()].count(tokenizer.vocab_size) == matrices


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_weights_are_loaded_in_the_requested_type(folder: Path, dtype: torch.dtype) -> None:
    assert {parameter.dtype for parameter in load_bundle(folder, CPU, dtype).model.parameters()} == {dtype}


def test_writing_a_bundle_leaves_five_files_and_nothing_beside_it(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == sorted([*SIGNED, "SHA256SUMS", "README.md"])
    assert [path.name for path in folder.parent.iterdir()] == ["en-fr"]
    assert (folder / "README.md").read_text() == "# A card\n"
    assert "木村" in (folder / "config.json").read_text(encoding="utf-8")
    sums = (folder / "SHA256SUMS").read_text()
    sign(folder)
    assert (folder / "SHA256SUMS").read_text() == sums


def test_an_alignment_head_is_in_a_file_of_its_own_and_the_name_stays(
    folder: Path, model: Transformer, tokenizer: Tokenizer
) -> None:
    other = folder.with_name("aligned")
    aligned = with_alignment_head(model, AlignmentHead(model.config.d_model, 4))
    save_bundle(other, aligned, tokenizer, LIMITS, RECORD, "# A card\n", dtype="float16")
    plain, loaded = load_bundle(folder, CPU), load_bundle(other, CPU)
    assert {path.name for path in other.iterdir()} - {path.name for path in folder.iterdir()} == {ALIGNMENT}
    assert (other / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    assert (loaded.name, loaded.spec.name) == (plain.name, plain.spec.name)
    assert plain.spec.alignment_checksum == ""
    assert loaded.spec.alignment_checksum == hashlib.sha256((other / ALIGNMENT).read_bytes()).hexdigest()
    assert loaded.model.alignment is not None and aligned.alignment is not None
    for name in ("query", "key"):
        ours, theirs = (getattr(head, name).weight for head in (aligned.alignment, loaded.model.alignment))
        assert torch.equal(theirs, ours.half().float())
    assert loaded.parameter_count == plain.parameter_count + 4 * 8 + 4 + 4 * 8
    assert json.loads((other / "config.json").read_text())["format_version"] == 2


def test_an_alignment_head_without_its_file_is_refused_and_the_other_way_round(
    folder: Path, model: Transformer, tokenizer: Tokenizer
) -> None:
    change_config(folder, lambda config: config.update(format_version=2))
    change_config(folder, lambda config: config["architecture"].update(alignment_size=4))
    sign(folder)
    assert_refused(folder, f"{ALIGNMENT} is missing, though the architecture has an alignment head")
    aligned = with_alignment_head(model, AlignmentHead(model.config.d_model, 4))
    save_bundle(folder, aligned, tokenizer, LIMITS, RECORD, "", replace=True)
    load_bundle(folder, CPU)
    (folder / ALIGNMENT).write_bytes(b"")
    assert_refused(folder, f"{ALIGNMENT} does not match its checksum")
    changes: dict[str, Callable[[dict[str, Any]], object]] = {
        "lacks alignment.query.bias": lambda weights: weights.pop("alignment.query.bias"),
        "holds another": lambda weights: weights.update(another=torch.zeros(1)),
    }
    for name, change in changes.items():
        content = load(alignment_content(aligned))
        change(content)
        (folder / ALIGNMENT).write_bytes(save(content))
        sums = {**checksums((folder / "SHA256SUMS").read_bytes())}
        sums[ALIGNMENT] = hashlib.sha256((folder / ALIGNMENT).read_bytes()).hexdigest()
        (folder / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))
        assert_refused(folder, f"{ALIGNMENT} {name}")


def test_the_same_model_gives_the_same_files(folder: Path, model: Transformer, tokenizer: Tokenizer) -> None:
    again = folder.with_name("again")
    save_bundle(again, model, tokenizer, LIMITS, RECORD, "# A card\n")
    for path in folder.iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes()


def test_model_card_may_be_edited(folder: Path) -> None:
    (folder / "README.md").write_text("Other words.")
    load_bundle(folder, CPU)
    (folder / "README.md").unlink()
    load_bundle(folder, CPU)


def test_bundle_is_refused_unless_its_samples_translate_as_recorded(folder: Path, tokenizer: Tokenizer) -> None:
    bundle = load_bundle(folder, CPU)
    sources = [tokenizer.encode("the stove"), tokenizer.encode("on")]
    samples = [
        {"source_ids": h.source, "target_ids": h.tokens, "source": "the stove", "target": ""}
        for h in greedy_decode(bundle.model, sources, LIMITS)
    ]
    change_config(folder, lambda config: config.update(samples=samples))
    sign(folder)
    check_samples(load_bundle(folder, CPU))
    samples[1]["target_ids"] = [*samples[1]["target_ids"][:-1], 7]
    change_config(folder, lambda config: config.update(samples=samples))
    sign(folder)
    with pytest.raises(BundleError, match="sample 'the stove' is not translated as on export"):
        check_samples(load_bundle(folder, CPU))


# ---- Whatever is wrong is said in a line


@pytest.mark.parametrize("name", [*SIGNED, "SHA256SUMS"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert_refused(folder, rf"{name} cannot be read \(No such file or directory\)")


def test_unreadable_file_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(bundle_files, "open", lambda *_, **options: Failing(), raising=False)
        assert_refused(folder, r"SHA256SUMS cannot be read \(Input/output error\)")


@pytest.mark.parametrize("name", SIGNED)
@pytest.mark.parametrize(
    "spoil",
    [lambda content: b"", lambda content: content[:-1], lambda content: content + b"\n", lambda content: b"garbage"],
    ids=["empty", "cut", "longer", "garbage"],
)
def test_a_changed_file_is_named(folder: Path, name: str, spoil: Callable[[bytes], bytes]) -> None:
    path = folder / name
    path.write_bytes(spoil(path.read_bytes()))
    assert_refused(folder, f"{name} does not match its checksum")


@draw_examples(40)
@given(name=st.sampled_from(SIGNED), place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_any_flipped_bit_is_detected(whole: Path, name: str, place: float, bit: int) -> None:
    path = whole / name
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[int(place * len(content))] ^= 1 << bit
    path.write_bytes(flipped)
    try:
        with pytest.raises(BundleError, match=f"{name} does not match its checksum"):
            read_bundle(whole)
    finally:
        path.write_bytes(content)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "en-fr"
    save_bundle(folder, make_model(tokenizer.vocab_size), tokenizer, LIMITS, RECORD, "")
    return folder


@pytest.mark.parametrize("kept", [[], [0], [1, 2], [0, 2], [0, 0, 1]])
def test_file_without_a_checksum_is_refused(folder: Path, kept: list[int]) -> None:
    lines = (folder / "SHA256SUMS").read_text().splitlines(keepends=True)
    (folder / "SHA256SUMS").write_text("".join(lines[number] for number in kept))
    assert_refused(folder, "checksum|SHA256SUMS")


@pytest.mark.parametrize("text", ["", "garbage", "\n\n", "\x00\xff", "0" * 64 + "  /etc/hostname\n", "  \n  "])
def test_malformed_checksums_are_refused(folder: Path, text: str) -> None:
    (folder / "SHA256SUMS").write_bytes(text.encode("latin-1"))
    assert_refused(folder, "config.json does not match its checksum")


@pytest.mark.parametrize("version", [0, 2, "1", None, True])
def test_another_format_version_is_refused(folder: Path, version: object) -> None:
    change_config(folder, lambda config: config.update(format_version=version))
    sign(folder)
    assert_refused(folder, rf"bundle format {version!r} is not the one this version reads \(1\)")


@pytest.mark.parametrize("fields", [{"activation": "swish"}, {"output_bias": True}, {"source_eos": False}], ids=str)
def test_a_bundle_that_earlier_versions_cannot_read_has_another_format_version(
    fields: dict[str, Any], tmp_path: Path, tokenizer: Tokenizer
) -> None:
    model, folder = make_model(tokenizer.vocab_size, **fields), tmp_path / "en-fr"
    save_bundle(folder, model, tokenizer, LIMITS, RECORD, "# A card\n", dtype="float32")
    assert json.loads((folder / "config.json").read_text())["format_version"] == 2
    loaded = load_bundle(folder, CPU).model
    assert loaded.config == model.config
    assert all(torch.equal(a, b) for a, b in zip(loaded.parameters(), model.parameters(), strict=True))
    change_config(folder, lambda config: config.update(format_version=1))
    sign(folder)
    assert_refused(folder, r"bundle format 1 is not the one this version reads \(2\)")


DIRECTIONS = {
    "sources": {"en": [5], "fr": [], "pt-BR": []},
    "targets": {"en": {"target_prefix": [7, 8]}, "fr": {"source_prefix": [6, 6], "target_prefix": [7]}},
}


def directed(folder: Path, **change: Any) -> None:
    """Gives the bundle directions instead of its source and target."""

    def edit(config: dict[str, Any]) -> None:
        del config["source"], config["target"]
        config.update({"directions": DIRECTIONS, "format_version": 2} | change)

    change_config(folder, edit)
    sign(folder)


def test_a_bundle_of_several_directions_translates_every_source_into_every_other_target(folder: Path) -> None:
    directed(folder)
    bundle = open_bundle(folder)
    assert list(bundle.directions) == [("en", "fr"), ("fr", "en"), ("pt-BR", "en"), ("pt-BR", "fr")]
    assert (bundle.name, bundle.directions.to_dict()) == (f"mul-mul@{bundle.checksum[:12]}", DIRECTIONS)
    chosen = bundle.in_direction("en", "fr")
    assert chosen.chosen == Direction("en", "fr", source_prefix=(5, 6, 6), target_prefix=(7,))
    assert (chosen.source, chosen.target, chosen.name) == ("en", "fr", f"en-fr@{bundle.checksum[:12]}")
    assert chosen.limits == dataclasses.replace(
        LIMITS, max_source=LIMITS.max_source - 3, max_target=LIMITS.max_target - 1
    )
    assert chosen.spec is bundle.spec and bundle.spec.limits == LIMITS
    for pair in (("en", "en"), ("en", "pt-BR"), ("de", "fr")):
        with pytest.raises(BundleError, match="does not translate"):
            bundle.in_direction(*pair)
    with pytest.raises(BundleError, match="translates 4 pairs of languages: choose one"):
        _ = bundle.source


@pytest.mark.parametrize(
    ("directions", "message"),
    [
        ([], "directions is not an object of sources and targets"),
        ({"sources": {"en": []}}, "directions is not an object of sources and targets"),
        ({"sources": {}, "targets": {"fr": {}}}, "sources of directions is not an object with a language"),
        ({"sources": {"en": []}, "targets": ["fr"]}, "targets of directions is not an object with a language"),
        ({"sources": {"en": []}, "targets": {"auto": {}}}, "'auto' is not a language code"),
        ({"sources": {"en": []}, "targets": {"en": {}}}, "directions has no source with a target in another language"),
        ({"sources": {"en": [True]}, "targets": {"fr": {}}}, r"has \[True\] for en, which is not a list of tokens"),
        ({"sources": {"en": 4}, "targets": {"fr": {}}}, "has 4 for en, which is not a list of tokens"),
        ({"sources": {"en": []}, "targets": {"fr": []}}, "the target fr of directions is not an object of"),
        ({"sources": {"en": []}, "targets": {"fr": {"prefix": []}}}, "the target fr of directions is not an object of"),
        ({"sources": {"en": [10**9]}, "targets": {"fr": {}}}, "the token 1000000000 in a source, which cannot have it"),
        ({"sources": {"en": [-1]}, "targets": {"fr": {}}}, "the token -1 in a source"),
        ({"sources": {"en": []}, "targets": {"fr": {"target_prefix": [2]}}}, "the token 2 in a target, which cannot"),
        ({"sources": {"en": [4] * 20}, "targets": {"fr": {}}}, "a prefix of 20 tokens: the limit is 20"),
    ],
)
def test_directions_that_cannot_be_served_are_refused(folder: Path, directions: object, message: str) -> None:
    directed(folder, directions=directions)
    assert_refused(folder, message)


def test_directions_beside_a_source_are_refused(folder: Path) -> None:
    directed(folder, source="en")
    assert_refused(folder, "config.json has directions and source")


def test_samples_of_a_bundle_of_several_directions_begin_with_its_prefixes(folder: Path, model: Transformer) -> None:
    [found] = beam_decode(model.half().float(), [[5, 6, 6, 9]], LIMITS, 1, target_prefix=[7])
    sample = {"source": "a", "source_ids": list(found.source), "target_ids": found.tokens, "target_prefix": [7]}
    assert found.tokens[0] == 7
    directed(folder, samples=[sample])
    check_samples(load_bundle(folder, CPU))
    change_config(folder, lambda config: config.update(samples=[{**sample, "target_prefix": [8]}]))
    sign(folder)
    with pytest.raises(BundleError, match="not translated as on export"):
        check_samples(load_bundle(folder, CPU))


def test_a_bundle_without_such_fields_stays_readable_to_earlier_versions(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    assert config["format_version"] == 1
    assert not {"activation", "output_bias", "source_eos"} & set(config["architecture"])


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '"text"', "{}{}", r'{"licence": "\ud800"}', pytest.param("[" * 100_000, id="deep")]
)
def test_config_that_is_no_json_object_is_refused(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text, encoding="utf-8")
    sign(folder)
    assert_refused(folder, "config.json is not a JSON object")


@pytest.mark.parametrize("field", ["source", "target", "architecture", "limits", "samples"])
def test_a_missing_field_is_named(folder: Path, field: str) -> None:
    change_config(folder, lambda config: config.pop(field))
    sign(folder)
    assert_refused(folder, f"config.json lacks '{field}'")


@pytest.mark.parametrize(
    ("field", "name", "value"),
    [
        ("architecture", "d_model", 7),
        ("architecture", "d_model", "8"),
        ("architecture", "num_heads", 0),
        ("architecture", "norm", "after"),
        ("architecture", "heads", 2),
        ("limits", "max_source", "20"),
        ("limits", "max_target", 0),
        ("limits", "margin", -1),
        ("limits", "ratio", None),
        ("limits", "longest", 3),
        # The model has 32 positions, of which the end symbol takes one.
        ("limits", "max_source", 32),
        ("limits", "max_target", 32),
    ],
)
def test_a_wrong_value_is_named(folder: Path, field: str, name: str, value: object) -> None:
    change_config(folder, lambda config: config[field].update({name: value}))
    sign(folder)
    assert_refused(folder, name)


@pytest.mark.parametrize("value", [None, [], "x", 3])
@pytest.mark.parametrize("field", ["architecture", "limits"])
def test_field_of_another_type_is_refused(folder: Path, field: str, value: object) -> None:
    change_config(folder, lambda config: config.update({field: value}))
    sign(folder)
    assert_refused(folder, field)


@pytest.mark.parametrize("name", ["d_model", "d_ff", "encoder_layers", "decoder_layers"])
def test_model_without_limits_is_refused(folder: Path, name: str) -> None:
    change_config(folder, lambda config: config["architecture"].update({name: 1 << 50}))
    sign(folder)
    assert_refused(folder, ".")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("training", {"sources_with_end_marks": "x"}, "float"),
        ("training", {"sources_with_end_marks": None}, "float"),
        ("training", None, "training"),
        ("training", {"corpora": 3}, "corpora"),
        ("metrics", {}, "metrics"),
        ("metrics", ["BLEU"], "metrics"),
        ("licence", 3, "licence"),
        ("samples", None, "iterable"),
        ("samples", [{"source": "a", "source_ids": [4]}], "target_ids"),
        ("samples", [{"source_ids": [4], "target_ids": [4]}], "lacks 'source'"),
        ("samples", [{"source": "a", "source_ids": [4], "target_ids": [10**9]}], "token 1000000000"),
        ("samples", [{"source": "a", "source_ids": [-1], "target_ids": []}], "token -1"),
        ("samples", [{"source": "a", "source_ids": ["4"], "target_ids": []}], "token '4'"),
        ("samples", [{"source": "a", "source_ids": [], "target_ids": [4]}], "0 source tokens, not 1 to 20"),
        ("samples", [{"source": "a", "source_ids": [4] * 21, "target_ids": [4]}], "21 source tokens"),
        ("reserved_copies", [10**9], "reserved_copies in config.json is not a list of the vocabulary's tokens"),
        ("reserved_copies", "4", "reserved_copies"),
        ("reserved_copies", [4] * 33, "reserved_copies in config.json has 33 tokens"),
        ("source", "English language", "'English language', which is not a language code like en or pt-BR"),
        ("source", "auto", "not a language code"),
        ("target", "../fr", "not a language code"),
        ("target", ["fr"], "not a language code"),
        ("target", "en", "source and target in config.json are both en"),
    ],
)
def test_record_that_cannot_be_served_is_refused(folder: Path, field: str, value: object, message: str) -> None:
    change_config(folder, lambda config: config.update({field: value}))
    sign(folder)
    assert_refused(folder, message)


@pytest.mark.parametrize("name", ["pad_id", "bos_id", "eos_id"])
@pytest.mark.parametrize("value", [-1, 10**6])
def test_symbol_missing_from_the_vocabulary_is_refused(folder: Path, name: str, value: int) -> None:
    change_config(folder, lambda config: config["architecture"].update({name: value}))
    sign(folder)
    assert_refused(folder, rf"{name} must lie in \[0, ")


def test_bundle_without_a_training_record_expects_no_end_marks(folder: Path) -> None:
    change_config(folder, lambda config: config.pop("training"))
    sign(folder)
    assert not load_bundle(folder, CPU).expects_end_marks


def test_weights_of_another_shape_are_refused(folder: Path) -> None:
    name = "encoder.0.feed_forward.inner.weight"
    change_weights(folder, lambda weights: weights.update({name: torch.zeros(12, 9)}))
    sign(folder)
    assert_refused(folder, rf"{name} in model.safetensors has the shape \(12, 9\), the architecture needs \(12, 8\)")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_not_finite_are_refused(folder: Path, value: float) -> None:
    name = "encoder.0.feed_forward.inner.weight"
    change_weights(folder, lambda weights: weights[name][1].fill_(value))
    sign(folder)
    assert_refused(folder, rf"{name} in model.safetensors is not finite")


def test_missing_and_unexpected_weights_are_named(folder: Path) -> None:
    change_weights(folder, lambda weights: weights.update({"decoder.5.extra": torch.zeros(1)}))
    sign(folder)
    assert_refused(folder, r"model.safetensors holds decoder\.5\.extra, which the architecture does not have")
    change_weights(folder, lambda weights: weights.pop("decoder.5.extra") is weights.pop("decoder_norm.bias"))
    sign(folder)
    assert_refused(folder, r"model.safetensors lacks decoder_norm\.bias")


@pytest.mark.parametrize("name", ["model.safetensors", "sentencepiece.model"])
@pytest.mark.parametrize("content", [b"", b"garbage", b"\x80\x02}q\x00.", bytes(1000)])
def test_file_of_another_format_is_refused(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    sign(folder)
    assert_refused(folder, ".")


def test_a_vocabulary_of_another_size_is_refused(folder: Path) -> None:
    (folder / "sentencepiece.model").write_bytes(train_vocabulary(SENTENCES, 390, ["en", "fr"]))
    sign(folder)
    assert_refused(folder, r"the vocabulary has 390 pieces, the model \d+")


def test_missing_folder_is_not_a_bundle(tmp_path: Path) -> None:
    assert_refused(tmp_path / "nothing", "bundle folder not found")
    (tmp_path / "file").write_text("x")
    assert_refused(tmp_path / "file", "bundle folder not found")


# ---- Replacing


def test_an_existing_bundle_is_refused_without_replace(folder: Path, tokenizer: Tokenizer) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(NotReplaceable, match=r"en-fr exists; --replace swaps it"):
        save_bundle(folder, make_model(tokenizer.vocab_size, seed=1), tokenizer, LIMITS, RECORD, "")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_replacing_leaves_only_the_new_bundle(folder: Path, tokenizer: Tokenizer) -> None:
    new = make_model(tokenizer.vocab_size, seed=1)
    save_bundle(folder, new, tokenizer, LIMITS, RECORD, "", replace=True)
    assert torch.equal(load_bundle(folder, CPU).model.output.weight, new.output.weight.half().float())
    assert [path.name for path in folder.parent.iterdir()] == ["en-fr"]


def test_replacing_works_where_folders_cannot_be_exchanged(
    folder: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic_files, "_exchange", lambda first, second: False)
    test_replacing_leaves_only_the_new_bundle(folder, tokenizer)


def test_without_folder_exchange_the_old_bundle_survives_failures_and_kills(
    folder: Path, model: Transformer, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, name = Path.rename, load_bundle(folder, CPU).name

    def rename_but_not_in(path: Path, target: Path) -> Path:
        if path.suffix == ".partial":
            raise PermissionError(13, "in use", str(path))
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(atomic_files, "_exchange", lambda first, second: False)
        patched.setattr(Path, "rename", rename_but_not_in)
        with pytest.raises(PermissionError):
            save_bundle(folder, model, tokenizer, LIMITS, RECORD, "", replace=True)
    assert [path.name for path in folder.parent.iterdir()] == ["en-fr"]
    folder.rename(folder.with_name(".en-fr.x.partial.old"))  # as one leaves it that is killed there
    with pytest.raises(RuntimeError), atomic_files.replacing_folder(folder):
        raise RuntimeError
    assert [path.name for path in folder.parent.iterdir()] == ["en-fr"]
    assert load_bundle(folder, CPU).name == name


@pytest.mark.parametrize("replace", [True, False])
def test_a_folder_that_is_not_a_bundle_is_not_replaced(
    tmp_path: Path, model: Transformer, tokenizer: Tokenizer, replace: bool
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    (tmp_path / "note").write_text("remember")
    for place in (precious, tmp_path / "note"):
        with pytest.raises(NotReplaceable, match=r"exists; --replace|is not a bundle, and is left alone"):
            save_bundle(place, model, tokenizer, LIMITS, RECORD, "", replace=replace)
    assert (precious / "thesis.txt").read_text() == "years of work"
    assert (tmp_path / "note").read_text() == "remember"


def test_a_bundle_with_foreign_files_is_not_replaced(folder: Path, model: Transformer, tokenizer: Tokenizer) -> None:
    """Such as those of a training run or a repository."""
    check_replaceable(folder, replace=True, needed=[folder.with_name("my.tsv")])
    with pytest.raises(NotReplaceable, match=r"my\.tsv would be deleted with the bundle .*: move it elsewhere"):
        check_replaceable(folder, replace=True, needed=[folder / "my.tsv"])
    (folder / ".git").mkdir()
    with pytest.raises(NotReplaceable, match=r"\.git would be deleted with the bundle"):
        save_bundle(folder, model, tokenizer, LIMITS, RECORD, "", replace=True)
    assert (folder / ".git").is_dir()


def test_failed_write_leaves_nothing_behind(
    folder: Path, model: Transformer, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_files, "_flush", full)
    for place, replace in ((folder, True), (folder.with_name("new"), False)):
        with pytest.raises(OSError, match=f"No space left on device: '{place}'"):
            save_bundle(place, model, tokenizer, LIMITS, RECORD, "", replace=replace)
    assert [path.name for path in folder.parent.iterdir()] == ["en-fr"]
    load_bundle(folder, CPU)


@pytest.mark.slow
def test_reader_sees_either_the_old_or_the_new_bundle_whole(folder: Path, tokenizer: Tokenizer) -> None:
    models = [make_model(tokenizer.vocab_size, seed=seed) for seed in (0, 1)]
    stop, seen, failures = threading.Event(), set[str](), list[str]()

    def read() -> None:
        while not stop.is_set():
            try:
                config, files = read_bundle(folder)
            except BundleError as error:
                failures.append(str(error))
            else:
                seen.add(hashlib.sha256(files["model.safetensors"]).hexdigest() + config["licence"])

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(40):
            licence = f"licence {number % 2}"
            save_bundle(
                *(folder, models[number % 2], tokenizer, LIMITS, {**RECORD, "licence": licence}, ""), replace=True
            )
    finally:
        stop.set()
        reader.join()
    assert failures == []
    assert 2 <= len(seen) <= 3  # the first one has the licence it was made with


@pytest.mark.parametrize("name", ["SHA256SUMS", "config.json", "sentencepiece.model", "model.safetensors"])
def test_bundle_swapped_twice_while_it_is_read_is_read_again(
    folder: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Many file systems give the second swap the inode number of the folder that the first one deleted."""
    swaps = iter((1, 2))

    def opened(path: str, mode: str, **options: Any) -> Any:
        if path == name:
            for seed in swaps:
                save_bundle(folder, make_model(tokenizer.vocab_size, seed), tokenizer, LIMITS, RECORD, "", replace=True)
        return open(path, mode, **options)

    with monkeypatch.context() as patch:
        patch.setattr(bundle_files, "open", opened, raising=False)
        _, files = read_bundle(folder)
    assert list(swaps) == []
    assert files["model.safetensors"] == (folder / "model.safetensors").read_bytes()


def test_single_file_of_a_swapped_bundle_is_the_new_one(
    folder: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    swaps = iter((1, 2))

    def opened(path: str, mode: str, **options: Any) -> Any:
        for seed in swaps:
            save_bundle(folder, make_model(tokenizer.vocab_size, seed), tokenizer, LIMITS, RECORD, "", replace=True)
        return open(path, mode, **options)

    with monkeypatch.context() as patch:
        patch.setattr(bundle_files, "open", opened, raising=False)
        content = read_file(folder, "SHA256SUMS")
    assert content == (folder / "SHA256SUMS").read_bytes()


# ---- Killed


def kill_at_every_moment(parent: Path, replace: bool) -> int:
    """In a separate process: saves a bundle repeatedly, each time in a child that kills itself with SIGKILL one file
    operation later than the last, until one finishes. Leaves each result in a folder of `parent`. Returns the number of
    killed children."""
    tokenizer = Tokenizer((parent / "sentencepiece.model").read_bytes())
    model = make_model(tokenizer.vocab_size, seed=1)
    moment = 0
    while True:
        scene = parent / f"{moment:03}"
        if replace:
            shutil.copytree(parent / "old", scene / "en-fr")
        else:
            scene.mkdir()
        child = os.fork()
        if child == 0:
            kill_before(moment)
            save_bundle(scene / "en-fr", model, tokenizer, LIMITS, RECORD, "", replace=replace)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            return moment
        assert os.WTERMSIG(status) == signal.SIGKILL
        moment += 1


def kill_before(moment: int) -> None:
    """Makes this process kill itself just before its file operation with that number, counted from 0."""
    left = moment

    def on_event(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "ctypes.dlsym"):
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

    sys.addaudithook(on_event)
    # A write is no audited event: the content goes out in two halves, with a moment before each.
    write = os.write
    del write


@pytest.mark.slow
@pytest.mark.parametrize("replace", [False, True], ids=["new", "replacing"])
def test_save_killed_at_any_moment_leaves_no_partial_bundle(tmp_path: Path, whole: Path, replace: bool) -> None:
    shutil.copytree(whole, tmp_path / "old")
    shutil.copy(whole / "sentencepiece.model", tmp_path)
    done = run_warm(["test_bundle", str(tmp_path), "replace" if replace else "new"], cwd=Path(__file__).parent)
    assert done.returncode == 0, done.stderr
    killed = int(done.stdout)
    assert killed > 10
    old = load_bundle(whole, CPU).name
    seen = []
    for scene in sorted(path for path in tmp_path.glob("[0-9]*")):
        visible = [path.name for path in scene.iterdir() if not path.name.startswith(".")]
        if replace and not visible and sys.platform != "linux":  # there the old one may be caught between two renames
            [aside] = scene.glob(".*.old")
            aside.rename(scene / "en-fr")
            visible = ["en-fr"]
        assert visible == ["en-fr"] if replace else visible in ([], ["en-fr"])
        seen.append(load_bundle(scene / "en-fr", CPU).name if visible else None)
    assert len(seen) == killed + 1
    # First what was there before, then, from one moment on, what was saved.
    before, after = (old if replace else None), seen[-1]
    assert after not in (None, old)
    turn = seen.index(after)
    assert turn > 0
    assert seen == [before] * turn + [after] * (len(seen) - turn)


if __name__ == "__main__":
    print(kill_at_every_moment(Path(sys.argv[1]), sys.argv[2] == "replace"))
