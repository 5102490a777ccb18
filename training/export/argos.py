"""`export --to argos`: packs a bundle for Argos Translate, and for LibreTranslate, which translates with it.

    python -m training export --to argos --bundle bundles/en-fr --out translate-en_fr.argosmodel

A package is a zip of a CTranslate2 model, the source's SentencePiece model, and a sentence splitter, which Argos would
download otherwise. `training.importing.ctranslate2` is the inverse.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sentencepiece
import torch

from model.atomic_files import NotReplaceable, replacing_file
from model.bundle_files import CARD, TARGET_VOCABULARY, VOCABULARY
from model.bundle_weights import LoadedBundle, load_bundle
from model.languages import language_name
from model.normalisation import normalise_source
from model.positions import computed_positions
from model.tokenizer import MARK
from training.export.ctranslate2 import ConversionError, ConvertOptions, Say, check_converted, model_spec
from training.export.minisbd import splitter_model
from training.export.model_card import argos_card
from training.protobuf import encode_field

SUFFIX = ".argosmodel"
VERSION = "100.0"
"""Higher than those of Argos' own packages, by which LibreTranslate's --update-models would replace this one."""
MIN_ARGOS_VERSION = "1.9"
POSITIONS = 1_026
"""CTranslate2 cuts sources at 1,024 tokens, and fails at a position that its table does not have."""
_CODES = {"pt-BR": "pb", "zh-Hans": "zh", "zh-Hant": "zt"}
"""Codes of Argos Translate that are no tags of BCP 47."""
_NORMALISER = 3
"""The field of a SentencePiece model."""


def pack_for_argos(options: ConvertOptions, say: Say = print) -> None:
    """Writes the package `out`. Nothing appears there before CTranslate2 has reproduced the bundle's samples.

    Raises BundleError, NotReplaceable and ConversionError.
    """
    check_package(options.out, options.replace)
    bundle = load_bundle(options.bundle, torch.device("cpu"))
    bundle.check_plain()
    if bundle.source_tokenizer.moses_language is not None:
        raise ConversionError(f"Argos Translate does not normalise punctuation as {bundle.name} needs it (moses)")
    spec = model_spec(bundle)
    _lengthen_positions(spec, bundle)
    spec.validate()
    spec.optimize(options.dtype)
    codes = [_CODES.get(code, code.lower()) for code in (bundle.source, bundle.target)]
    name = f"translate-{codes[0]}_{codes[1]}"
    with TemporaryDirectory(prefix="interlinear-") as place, replacing_file(options.out) as file:
        package = Path(place, name)
        for folder in ("model", "minisbd"):
            (package / folder).mkdir(parents=True)
        spec.save(str(package / "model"))
        (package / VOCABULARY).write_bytes(argos_sentence_pieces(bundle.source_tokenizer.proto))
        if not bundle.tokenizers.is_joint:  # Argos does without, but `import` needs it
            (package / TARGET_VOCABULARY).write_bytes(bundle.target_tokenizer.proto)
        (package / "minisbd" / f"{codes[0]}.onnx").write_bytes(splitter_model(bundle.source))
        (package / "metadata.json").write_text(json.dumps(_metadata(bundle, codes), indent=2), encoding="utf-8")
        (package / CARD).write_text(argos_card(bundle.config, bundle.name), encoding="utf-8")
        check_converted(package / "model", bundle, options.dtype)
        _check_text(package / VOCABULARY, bundle)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(package.rglob("*")):
                archive.write(path, path.relative_to(place))
    count = len(bundle.config["samples"])
    say(f"CTranslate2 translates the {count} samples of {bundle.name} as the bundle does")
    say(f"{options.out} is {bundle.name} for Argos Translate, {options.out.stat().st_size / 2**20:.1f} MiB")


def check_package(out: Path, replace: bool) -> None:
    """Raises ConversionError if `out` is no name of a package, and NotReplaceable if it exists and may not be
    replaced."""
    if out.suffix != SUFFIX:
        raise ConversionError(f"--out must end in {SUFFIX}, not {out.name!r}")
    if out.exists() and not replace:
        raise NotReplaceable(f"{out} exists; --replace swaps it for the new package")
    if out.exists() and not zipfile.is_zipfile(out):
        raise NotReplaceable(f"{out} is not a package, and is left alone")


def argos_sentence_pieces(proto: bytes) -> bytes:
    """A SentencePiece model that does by itself what `Tokenizer.encode_source` does: puts a space before the text, and
    normalises it, except for what depends on the characters around."""
    sentencepiece.set_min_log_level(2)
    rules = dict(sentencepiece.SentencePieceNormalizer(model_proto=proto).Decompile())
    for character in map(chr, [*range(0xD800), *range(0xE000, 0x20000)]):
        latin, arabic = (normalise_source(f"{letter}{character}{letter}")[1:-1] for letter in "aب")
        if latin == arabic != character:
            rules.setdefault(character, latin)
    normaliser = sentencepiece.SentencePieceNormalizer(
        norm_map=list(rules.items()), add_dummy_prefix=True, remove_extra_whitespaces=True, escape_whitespaces=True
    )
    return proto + encode_field(_NORMALISER, normaliser.serialized_normalizer_spec())  # the last one counts


def _lengthen_positions(spec: Any, bundle: LoadedBundle) -> None:
    """Gives the model positions for every length. The model has seen none over its own, and translates them badly."""
    model, config = bundle.model, bundle.model.config
    for stack, embedding in ((spec.encoder, model.source_embedding), (spec.decoder, model.target_embedding)):
        table = embedding.positions.detach()
        missing = POSITIONS - len(table)
        if missing <= 0:
            continue
        if config.positions == "learned":
            more = table[-1:].expand(missing, -1)
        else:
            more = torch.from_numpy(computed_positions(replace(config, max_positions=POSITIONS))[-missing:])
        stack.position_encodings.encodings = torch.cat([table, more])


def _metadata(bundle: LoadedBundle, codes: list[str]) -> dict[str, Any]:
    return {
        "type": "translate",
        "package_version": VERSION,
        "argos_version": MIN_ARGOS_VERSION,
        "from_code": codes[0],
        "from_name": language_name(bundle.source),
        "to_code": codes[1],
        "to_name": language_name(bundle.target),
        "license": bundle.config.get("licence", "Not stated"),
        "bundle": bundle.name,
    }


def _check_text(pieces: Path, bundle: LoadedBundle) -> None:
    """Splits and joins the bundle's samples as Argos does. Raises ConversionError if a text or token differs."""
    argos = sentencepiece.SentencePieceProcessor(model_file=str(pieces))
    source, target = bundle.tokenizers
    for sample in bundle.config["samples"]:
        if argos.encode(sample["source"]) != source.encode_source(sample["source"].strip()):
            raise ConversionError(f"Argos Translate does not split the sample {sample['source']!r} as {bundle.name}")
    spelt = target.encode("\U0001f600")  # in bytes, unless it is unknown
    for ids in [*(sample["target_ids"] for sample in bundle.config["samples"]), spelt]:
        # It joins the target's tokens by the source's pieces.
        text = argos.decode_pieces(list(map(target.piece, ids))).replace(MARK, " ").removeprefix(" ")
        if target.unknown_id not in ids and text != target.decode(ids):
            raise ConversionError(f"Argos Translate does not spell {target.decode(ids)!r} as {bundle.name}")
