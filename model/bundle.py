"""The bundle format: a folder with everything needed to serve a model. Verifies what it contains.

Does not use PyTorch; weights are loaded by `model.bundle_weights`. `app` decides where bundles are found.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Self, get_args

import numpy as np

from model.bundle_files import (
    ALIGNMENT,
    CONFIG,
    SUMS,
    TARGET_VOCABULARY,
    VOCABULARY,
    WEIGHTS,
    BundleError,
    checksums,
    file_of,
    read_bundle,
)
from model.config import ModelConfig
from model.directions import Direction, Directions
from model.hypothesis import Decoding, Limits
from model.languages import END_MARKS_EXPECTED, is_language_code, language_alone
from model.model_spec import ModelSpec, Sample
from model.normalisation import Punctuation
from model.quality import QualityModel
from model.safetensors_format import Content, read_tensors
from model.tokenizer import Tokenizer, Tokenizers
from model.weight_shapes import Shape, weight_shapes
from model.weight_storage import SCALES, is_int8, stored_tensors


@dataclass(frozen=True)
class Record:
    """What config.json records of a bundle's training and quality, as far as present: a service needs none of it."""

    metrics: list[dict[str, Any]]
    """For each measurement the test set, the score, and how it was made."""
    corpora: list[dict[str, Any]]
    """The training corpora, with sizes."""
    licence: str | None
    end_marks: float
    """The share of training sources that end in an end mark."""

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> Record:
        """Raises ValueError and TypeError for a field of the wrong type."""
        training = _section({"training": {}, **config}, "training")
        lists = {"metrics": config.get("metrics", []), "corpora": training.get("corpora", [])}
        for name, entries in lists.items():
            if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
                raise BundleError(f"{name} in {CONFIG} is not a list of objects")
        licence = config.get("licence")
        if not isinstance(licence, str | None):
            raise BundleError(f"licence in {CONFIG} is not a string")
        return cls(**lists, licence=licence, end_marks=float(training.get("sources_with_end_marks", 0)))


@dataclass(frozen=True)
class Bundle:
    """A verified bundle, without its weights, for one of its directions. `config` is the content of config.json.

    A bundle of several directions is opened without a choice, and `in_direction` makes the others of it; all have one
    `spec`, since they have one model.
    """

    folder: Path
    config: dict[str, Any]
    architecture: ModelConfig
    tokenizers: Tokenizers
    """Both are one object if the sides share a vocabulary."""
    limits: Limits
    """Length limits of texts, to which a direction's prefixes come."""
    decoding: Decoding
    checksum: str
    """SHA-256 of the weights, in hexadecimal."""
    directions: Directions
    spec: ModelSpec
    chosen: Direction | None
    """The direction; None if there are several and none is chosen."""

    @property
    def direction(self) -> Direction:
        """Raises BundleError if there are several and none is chosen."""
        if self.chosen is None:
            raise BundleError(f"{self.folder} translates {self.directions.count:,} pairs of languages: choose one")
        return self.chosen

    def check_plain(self) -> None:
        """Raises BundleError, for those who know no prefixes, unless there is one direction without any."""
        if not self.directions.is_plain:
            raise BundleError(f"{self.folder} translates {self.pair} by prefixes, which is not supported here")

    def in_direction(self, source: str, target: str) -> Self:
        """The bundle for a pair of `directions`; `self` if it is chosen already. Raises BundleError for another."""
        if self.chosen and (self.source, self.target) == (source, target):
            return self
        if (source, target) not in self.directions:
            raise BundleError(f"{self.folder} does not translate from {source} to {target}")
        direction = self.directions.direction(source, target)
        return replace(self, chosen=direction, limits=direction.limits(self.spec.limits))

    @property
    def source_tokenizer(self) -> Tokenizer:
        return self.tokenizers.source

    @property
    def target_tokenizer(self) -> Tokenizer:
        return self.tokenizers.target

    @property
    def source(self) -> str:
        return self.direction.source

    @property
    def target(self) -> str:
        return self.direction.target

    @cached_property
    def pair(self) -> str:
        """The chosen direction's, or else that of all directions; see `Directions.pair`."""
        return self.chosen.pair if self.chosen else self.directions.pair

    @cached_property
    def record(self) -> Record:
        """Cannot fail: `checked` has already parsed it once."""
        return Record.read(self.config)

    @cached_property
    def reserved_copies(self) -> tuple[tuple[int, int], ...]:
        """For an imported model, the pieces that its first reserved symbols are copies of, as ids in the source and in
        the target: where a sentence has such a symbol, its piece is forbidden. Empty for models trained with the
        symbols."""
        return tuple(_copy_pair(copy) for copy in self.config.get("reserved_copies", ()))

    @cached_property
    def parameter_count(self) -> int:
        """Number of trained parameters, shared matrices counted once."""
        return sum(map(math.prod, weight_shapes(self.architecture).values()))

    @cached_property
    def quality(self) -> QualityModel | None:
        """Estimates the quality of translations in the chosen direction; None if that was never fitted."""
        fields = self.config.get("quality", {}).get(self.direction.pair)
        return None if fields is None else QualityModel.read(fields)

    @cached_property
    def expects_end_marks(self) -> bool:
        """Whether nearly all training sources ended in an end mark."""
        return self.record.end_marks > END_MARKS_EXPECTED

    @cached_property
    def name(self) -> str:
        """The language pair and the first 12 digits of the weights' checksum, which identify model and direction in
        responses. `spec.name` identifies the model alone."""
        return f"{self.pair}@{self.checksum[:12]}"


def open_bundle(folder: Path) -> Bundle:
    """Reads and verifies a bundle without keeping its weights. Raises BundleError."""
    return checked(folder, *read_bundle(folder))


def checked(folder: Path, config: dict[str, Any], files: Mapping[str, Any]) -> Bundle:
    """The verified bundle made from what `read_bundle` read at `folder`.

    Raises BundleError, with a one-line message, for invalid values, and for weights that do not have the architecture's
    names and shapes or are not finite.
    """
    try:
        architecture = ModelConfig.from_dict(_section(config, "architecture"))
        limits = Limits(**_section(config, "limits"))
        decoding = Decoding(**_section({"decoding": {}, **config}, "decoding"))
        punctuation = _punctuation(config)
        directions = _directions(config)
        rules = moses_language(punctuation, directions.sources)
        tokenizers = Tokenizers.of(files[VOCABULARY], files.get(TARGET_VOCABULARY), rules)
        _check_prefixes(directions, limits, tokenizers)
        Record.read(config)
        _check_samples_known(config, tokenizers, limits)
        _check_copies(config, tokenizers)
        for fields in _section({"quality": {}, **config}, "quality").values():
            QualityModel.read(fields)
        _check_weights(architecture, files)
        _check_agreement(architecture, limits, tokenizers)
    except KeyError as error:
        raise BundleError(f"{folder}: {CONFIG} lacks {error}") from None
    except (ValueError, TypeError, OverflowError, RuntimeError) as error:
        raise BundleError(f"{folder}: {(str(error) or repr(error)).splitlines()[0]}") from None
    sums = checksums(files[SUMS])  # already verified by `read_bundle`
    checksum, alignment = sums[WEIGHTS], sums.get(ALIGNMENT, "")
    name = f"{directions.pair}@{checksum[:12]}"
    spec = ModelSpec(name, str(folder.resolve()), checksum, architecture, limits, _samples(config), alignment)
    bundle = Bundle(folder, config, architecture, tokenizers, limits, decoding, checksum, directions, spec, None)
    return bundle.in_direction(*next(iter(directions))) if directions.count == 1 else bundle


def _samples(config: dict[str, Any]) -> tuple[Sample, ...]:
    return tuple(
        Sample(entry["source"], *(tuple(entry.get(name, ())) for name in ("source_ids", "target_ids", "target_prefix")))
        for entry in config["samples"]
    )


def _section(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    section = config[name]
    if not isinstance(section, dict):
        raise BundleError(f"{name} in {CONFIG} is not an object")
    return section


def _directions(config: dict[str, Any]) -> Directions:
    """Raises KeyError, ValueError and BundleError unless the directions, or source and target, are language codes."""
    if "directions" in config:
        if both := [name for name in ("source", "target") if name in config]:
            raise BundleError(f"{CONFIG} has directions and {both[0]}")
        return Directions.from_dict(config["directions"])
    for name in ("source", "target"):
        if not is_language_code(config[name]):
            raise BundleError(f"{name} in {CONFIG} is {config[name]!r}, which is not a language code like en or pt-BR")
    if config["source"] == config["target"]:
        raise BundleError(f"source and target in {CONFIG} are both {config['source']}")
    return Directions.single(config["source"], config["target"])


def _check_prefixes(directions: Directions, limits: Limits, tokenizers: Tokenizers) -> None:
    """Raises BundleError unless the prefixes are tokens of the vocabularies that leave room for others."""
    targets = directions.targets.values()
    source_prefixes = [*directions.sources.values(), *(target.source_prefix for target in targets)]
    target_prefixes = [target.target_prefix for target in targets]
    for tokenizer, side, prefixes in zip(
        tokenizers, ("source", "target"), (source_prefixes, target_prefixes), strict=True
    ):
        for id in chain.from_iterable(prefixes):
            if not _is_token(id, tokenizer) or (side == "target" and id == tokenizer.eos_id):
                raise BundleError(f"directions in {CONFIG} has the token {id} in a {side}, which cannot have it")
    for length, limit in zip(directions.longest_prefixes, (limits.max_source, limits.max_target), strict=True):
        if length >= limit:
            raise BundleError(f"directions in {CONFIG} has a prefix of {length} tokens: the limit is {limit}")


def moses_language(punctuation: Punctuation | None, sources: Iterable[str]) -> str | None:
    """The language whose rules for punctuation apply to sources: none in particular, "", if there are several. None if
    no rules apply."""
    if punctuation is None:
        return None
    languages = {language_alone(source) for source in sources}
    return languages.pop() if len(languages) == 1 else ""


def _punctuation(config: Mapping[str, Any]) -> Punctuation | None:
    """The normaliser of sources' punctuation. Raises BundleError for an unknown one."""
    text = _section({"text": {}, **config}, "text")
    if unknown := sorted(text.keys() - {"punctuation"}):
        raise BundleError(f"text in {CONFIG} has the unknown field {unknown[0]}")
    punctuation = text.get("punctuation")
    if punctuation is not None and punctuation not in get_args(Punctuation):
        raise BundleError(f"punctuation in {CONFIG} is {punctuation!r}, not {' or '.join(get_args(Punctuation))}")
    return punctuation


def _check_samples_known(config: dict[str, Any], tokenizers: Tokenizers, limits: Limits) -> None:
    """Raises KeyError, TypeError and ValueError unless the samples are tokens of the vocabularies, within the
    limits."""
    for sample in config["samples"]:
        _ = sample["source"]  # so that a KeyError names it
        source, target = tokenizers
        sides = (sample["source_ids"], source), ([*sample["target_ids"], *sample.get("target_prefix", ())], target)
        for ids, tokenizer in sides:
            for number in ids:
                if not _is_token(number, tokenizer):
                    raise BundleError(
                        f"the samples in {CONFIG} have the token {number!r}, which the vocabulary does not have"
                    )
        if not 1 <= len(sample["source_ids"]) <= limits.max_source:
            raise BundleError(
                f"a sample in {CONFIG} has {len(sample['source_ids'])} source tokens, not 1 to {limits.max_source}"
            )


def _is_token(number: object, tokenizer: Tokenizer) -> bool:
    return type(number) is int and 0 <= number < tokenizer.vocab_size


def _copy_pair(copy: Any) -> tuple[int, int]:
    """An entry of `reserved_copies`: a token, or one for each side."""
    source, target = copy if isinstance(copy, list) else (copy, copy)
    return source, target


def _check_copies(config: dict[str, Any], tokenizers: Tokenizers) -> None:
    copies = config.get("reserved_copies", [])
    if not isinstance(copies, list) or not all(
        (not isinstance(copy, list) or len(copy) == 2) and all(map(_is_token, _copy_pair(copy), tokenizers))
        for copy in copies
    ):
        raise BundleError(f"reserved_copies in {CONFIG} is not a list of the vocabulary's tokens")
    if len(copies) > len(tokenizers.source.reserved_ids):
        raise BundleError(f"reserved_copies in {CONFIG} has {len(copies)} tokens, more than there are symbols")


def _check_agreement(architecture: ModelConfig, limits: Limits, tokenizers: Tokenizers) -> None:
    sizes = architecture.source_vocab_size, architecture.target_vocab_size
    for size, tokenizer in zip(sizes, tokenizers, strict=True):
        if size != tokenizer.vocab_size:
            raise BundleError(f"the vocabulary has {tokenizer.vocab_size} pieces, the model {size}")
    source, target = tokenizers
    for name in ("pad_id", "eos_id"):
        if source is not target and not getattr(source, name) == getattr(target, name) == getattr(architecture, name):
            raise BundleError(f"{name} is not the same in both vocabularies and the architecture")
    for name in ("max_source", "max_target"):
        if getattr(limits, name) >= architecture.max_positions:  # the end symbol takes a position too
            raise BundleError(f"{name} {getattr(limits, name)} is not under max_positions {architecture.max_positions}")


def _check_weights(architecture: ModelConfig, files: Mapping[str, Content]) -> None:
    found = read_tensors(files[WEIGHTS])
    layers = architecture.encoder_layers + architecture.decoder_layers
    if layers > len(found):  # listing the shapes of very many layers would take forever
        raise BundleError(f"{WEIGHTS} has {len(found)} tensors, the architecture {layers} layers")
    if architecture.alignment_size and ALIGNMENT not in files:
        raise BundleError(f"{ALIGNMENT} is missing, though the architecture has an alignment head")
    shapes = weight_shapes(architecture)
    for file in (WEIGHTS, ALIGNMENT):
        if file in files:
            expected = {name: shape for name, shape in shapes.items() if file_of(name) == file}
            _check_tensors(file, expected, files[file])


def _check_tensors(file: str, shapes: Mapping[str, Shape], content: Content) -> None:
    """Raises BundleError unless the file has the weights of these names and shapes, and no other."""
    weights, tensors = read_tensors(content), stored_tensors(shapes, is_int8(content))
    if missing := sorted(tensors.keys() - weights.keys()):
        raise BundleError(f"{file} lacks {missing[0]}")
    if surplus := sorted(weights.keys() - tensors.keys()):
        raise BundleError(f"{file} holds {surplus[0]}, which the architecture does not have")
    for name, (types, ours) in tensors.items():
        tensor = weights[name]
        if tensor.shape != ours:
            raise BundleError(f"{name} in {file} has the shape {tensor.shape}, the architecture needs {ours}")
        if tensor.dtype not in types:
            raise BundleError(f"{name} in {file} is stored as {tensor.dtype}, not {' or '.join(types)}")
        if not _is_finite(tensor.dtype, tensor.data):
            # The result of a failed training: such a model cannot translate.
            raise BundleError(f"{name} in {file} is not finite")
        if types == SCALES and np.any(np.frombuffer(tensor.data, "<f4") < 0):
            raise BundleError(f"{name} in {file} is negative")


_INFINITY = {
    "F16": ("<u2", "<i2", 0x7C00),
    "BF16": ("<u2", "<i2", 0x7F80),
    "F32": ("<u4", "<i4", 0x7F80_0000),
    "F64": ("<u8", "<i8", 0x7FF0 << 48),
}
"""By number type: its bits as unsigned and as signed integers, and those of infinity (IEEE 754-2019, section 3.4)."""


def _is_finite(dtype: str, content: memoryview) -> bool:
    """Whether no number is infinite or NaN.

    The bits of infinity and NaN, as integers, are above those of all numbers of their sign. So the largest signed
    integer tells of the positive ones, and the largest unsigned one of the negative ones.
    """
    if dtype not in _INFINITY or not content:
        return True
    unsigned, signed, infinity = _INFINITY[dtype]
    bits = np.frombuffer(content, unsigned)
    sign = 1 << (8 * bits.itemsize - 1)
    return int(bits.view(signed).max()) < infinity and int(bits.max()) < sign | infinity
