"""Reads a published model, whatever its family, and builds it.

A family has a module with a test and a reader (`FAMILIES`); what the reader returns is an `ImportedModel`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from model.bundle import moses_language
from model.bundle_files import SUMS
from model.directions import Directions
from model.tokenizer import Tokenizer, Tokenizers
from model.transformer import Transformer
from training.importing.ctranslate2 import read_ctranslate2
from training.importing.ctranslate2_files import is_ctranslate2
from training.importing.errors import ImportFault
from training.importing.huggingface_marian import is_huggingface_marian, read_huggingface_marian
from training.importing.m2m import is_m2m, read_m2m
from training.importing.marian import is_marian, read_marian
from training.importing.model import ImportedModel
from training.importing.options import ImportOptions, PositionsOf
from training.importing.safetensors_files import is_pickle, pickle_fault
from training.importing.vocabulary import Vocabulary

Reader = Callable[[Path, str, str, PositionsOf], ImportedModel]
FAMILIES: tuple[tuple[Callable[[Path], bool], Reader], ...] = (
    (is_marian, read_marian),
    (is_huggingface_marian, read_huggingface_marian),
    (is_m2m, lambda path, source, target, _: read_m2m(path, source, target)),
    (is_ctranslate2, lambda path, source, target, _: read_ctranslate2(path, source, target)),
)
"""How to tell a family by a path's content, and how to read it."""


def read_model(options: ImportOptions) -> ImportedModel:
    """Reads the model, whatever its family. Raises ImportFault."""
    path = options.model
    if not path.exists():
        raise ImportFault(f"{path}: not found")
    if (path / SUMS).is_file():
        raise ImportFault(f"{path} is a bundle already: serve it as it is")
    if is_pickle(path):
        raise pickle_fault(path)
    for is_family, read in FAMILIES:
        if is_family(path):
            imported = read(path, *options.pair, options.positions)
            return imported if options.languages is None else _restricted(imported, options.languages)
    raise ImportFault(
        f"{path}: no model of a known family: CTranslate2 (model.bin, .argosmodel), Marian (.npz, .bin), "
        "MarianMT, M2M-100 or NLLB-200 (a Hugging Face folder)"
    )


def _restricted(imported: ImportedModel, languages: Sequence[str]) -> ImportedModel:
    """`imported` with only those of its directions that are between `languages`. Raises ImportFault."""
    if (all_directions := imported.directions) is None:
        raise ImportFault("--languages is for models of many languages: this one translates one into another")
    for code in languages:
        if code not in all_directions.sources and code not in all_directions.targets:
            raise ImportFault(f"the model does not know {code}")
    kept = Directions(
        {code: ids for code, ids in all_directions.sources.items() if code in languages},
        {code: prefixes for code, prefixes in all_directions.targets.items() if code in languages},
    )
    return replace(imported, directions=kept)


def build_model(imported: ImportedModel, source: str = "") -> tuple[Transformer, Tokenizers]:
    """The model with its weights, and its tokenizers, for sources in the language `source` unless it has several
    directions. Raises ImportFault."""
    sources = [source] if imported.directions is None else imported.directions.sources
    rules = moses_language(imported.punctuation, sources)
    tokenizers = Tokenizers.joint(_tokenizer(imported.vocabulary, rules))
    if imported.target_vocabulary is not None:
        tokenizers = Tokenizers(tokenizers.source, _tokenizer(imported.target_vocabulary))
    return Transformer.with_weights(imported.config, imported.weights).eval(), tokenizers


def _tokenizer(vocabulary: Vocabulary, rules: str | None = None) -> Tokenizer:
    try:
        tokenizer = Tokenizer(vocabulary.proto, rules)
    except ValueError as error:
        raise ImportFault(f"its vocabulary cannot be used: {error}") from None
    if tokenizer.vocab_size != vocabulary.size:
        raise ImportFault(f"its vocabulary has {tokenizer.vocab_size} pieces, not {vocabulary.size}")
    return tokenizer
