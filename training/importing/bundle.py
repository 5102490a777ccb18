"""`import`: makes a bundle of a published model, of any family.

    python -m training import translate-en_fr.argosmodel --source en --target fr --out bundles/en-fr

A family has a module with a test and a reader (`FAMILIES`); what the reader returns is an `ImportedModel`, from which
everything else is made here.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch

from model.atomic_files import check_replaceable
from model.bundle_files import BundleError
from model.bundle_weights import check_samples, load_bundle, save_bundle
from model.languages import is_language_code
from model.tokenizer import RESERVED_SYMBOLS, Tokenizer, Tokenizers
from model.transformer import Transformer
from training.compute import use_threads
from training.corpora.general import general_pairs_of
from training.evaluation.evaluate import TestSet, evaluate_set, report
from training.evaluation.service_command import NotServed
from training.export.bundle import serve_command
from training.export.metrics import measure_as_served
from training.export.model_card import imported_card
from training.export.samples import MARGIN, choose_samples, most_certain_sample, own_sentences
from training.file_lock import lock_output
from training.importing.ctranslate2 import is_ctranslate2, read_ctranslate2
from training.importing.errors import ImportFault
from training.importing.model import ImportedModel
from training.importing.placeholders import copy_into_symbols, copyable_pieces
from training.importing.vocabulary import Vocabulary
from training.options import Option

FAMILIES: tuple[tuple[Callable[[Path], bool], Callable[[Path, str, str], ImportedModel]], ...] = (
    (is_ctranslate2, read_ctranslate2),
)
"""How to tell a family by a path's content, and how to read it."""
LICENCE = "Not stated. Its publisher decides how this model may be used."
STORAGE = "float32"
"""Type of the stored weights: float16 would round what int8 weights and their scales stand for."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class ImportOptions:
    """What to import. Raises ValueError, naming the fault."""

    path: Annotated[Path, Option(metavar="PATH", is_argument=True)]
    """The model: a CTranslate2 folder, or an Argos Translate package (.argosmodel)."""
    source: str
    """The language that it translates, such as en."""
    target: str
    """The language that it translates into."""
    out: Path
    """The bundle folder to make, such as bundles/en-fr."""
    replace: bool = False
    """Replace an existing bundle."""
    licence: str | None = None
    """The model's licence, for the card. (default: what the model says)"""
    attribution: Annotated[tuple[str, ...], Option(metavar="TEXT")] = ()
    """Whom to credit, for the card; repeat for more."""
    check: Annotated[tuple[str, ...], Option(metavar="FILE")] = ()
    """Sentence pairs to measure BLEU and chrF on, for the card; as `evaluate --pairs`. Repeat for more."""
    threads: int | None = None
    """CPU threads. (default: one per core)"""

    def __post_init__(self) -> None:
        for name in ("source", "target"):
            if not is_language_code(getattr(self, name)):
                raise ValueError(f"--{name} must be a language code like en or pt-BR, not {getattr(self, name)!r}")
        if self.source == self.target:
            raise ValueError(f"--source and --target are both {self.source}")


def import_model(options: ImportOptions, say: Say = print) -> None:
    """Writes a bundle of the model at `options.path`, complete or not at all, and then checks its samples.

    Raises ImportFault, BundleError, NotReplaceable, CorpusError and BusyError.
    """
    check_replaceable(options.out, options.replace)
    use_threads(options.threads)
    tests = [TestSet.read(text, options.source, options.target) for text in options.check]
    with lock_output(options.out):
        imported = read_model(options)
        model, tokenizers = build_model(imported)
        say(f"{options.path}: a {imported.family} model of {model.parameter_count():,} parameters")
        copied: list[tuple[int, int]] = []
        if not imported.vocabulary.has_symbols:
            copied = copyable_pieces(model, tokenizers, imported.limits, options.source)
            copy_into_symbols(model, tokenizers, copied)
            imported.remarks.append(_placeholder_remark(len(copied)))
        record = _record(options, imported, model, tokenizers, say)
        if copied:
            is_joint = tokenizers.source is tokenizers.target
            record["reserved_copies"] = [source if is_joint else [source, target] for source, target in copied]

        def write(folder: Path) -> None:
            card = imported_card(
                {"architecture": imported.config.to_dict(), "limits": dataclasses.asdict(imported.limits), **record}
            )
            how: dict[str, Any] = {"dtype": STORAGE, "replace": options.replace}
            sides = tokenizers.source, imported.limits
            save_bundle(folder, model, *sides, record, card, target_tokenizer=tokenizers.target, **how)

        if tests:
            record["metrics"] = _measure(write, model, tokenizers, imported, options.target, tests, say)
        write(options.out)
    bundle = load_bundle(options.out, torch.device("cpu"))
    check_samples(bundle)
    for remark in imported.remarks:
        say(f"note: {remark}")
    size = sum(file.stat().st_size for file in options.out.iterdir())
    say(f"{options.out} is {bundle.name}, {size / 2**20:.1f} MiB")
    say(f"next: {serve_command(options.out)}")


def read_model(options: ImportOptions) -> ImportedModel:
    """Reads the model, whatever its family. Raises ImportFault."""
    path = options.path
    if not path.exists():
        raise ImportFault(f"{path}: not found")
    for is_family, read in FAMILIES:
        if is_family(path):
            return read(path, options.source, options.target)
    raise ImportFault(f"{path}: neither a CTranslate2 folder, with model.bin, nor an .argosmodel package")


def build_model(imported: ImportedModel) -> tuple[Transformer, Tokenizers]:
    """The model with its weights, and its tokenizers. Raises ImportFault."""
    tokenizers = Tokenizers.joint(_tokenizer(imported.vocabulary))
    if imported.target_vocabulary is not None:
        tokenizers = Tokenizers(tokenizers.source, _tokenizer(imported.target_vocabulary))
    model = Transformer(imported.config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(imported.weights[name])
    return model, tokenizers


def _tokenizer(vocabulary: Vocabulary) -> Tokenizer:
    try:
        tokenizer = Tokenizer(vocabulary.proto)
    except ValueError as error:
        raise ImportFault(f"its vocabulary cannot be used: {error}") from None
    if tokenizer.vocab_size != vocabulary.size:
        raise ImportFault(f"its vocabulary has {tokenizer.vocab_size} pieces, not {vocabulary.size}")
    return tokenizer


def _record(
    options: ImportOptions, imported: ImportedModel, model: Transformer, tokenizers: Tokenizers, say: Say
) -> dict[str, Any]:
    """What completes config.json."""
    said: Mapping[str, Any] = imported.metadata
    licence = options.licence or (said["license"] if isinstance(said.get("license"), str) else LICENCE)
    fields = ("package_version", "argos_version", "from_name", "to_name", "links")
    directions = {"source": options.source, "target": options.target}
    decoding, text = imported.decoding.to_dict(), {"punctuation": imported.punctuation} if imported.punctuation else {}
    return {
        **(directions if imported.directions is None else {"directions": imported.directions.to_dict()}),
        **({"decoding": decoding} if decoding else {}),
        **({"text": text} if text else {}),
        "training": {
            "corpora": [],
            "parameters": model.parameter_count(),
            "form": {"dtype": STORAGE},
            "imported": {
                "family": imported.family,
                "file": options.path.name,
                "sha256": _digest(options.path),
                **{name: said[name] for name in fields if name in said},
            },
        },
        "metrics": [],
        "licence": licence,
        "attribution": list(options.attribution),
        "remarks": imported.remarks,
        "samples": _samples(model, tokenizers, imported, options.source, say),
        "general": [list(pair) for pair in general_pairs_of({"source": options.source, "target": options.target})],
    }


def _placeholder_remark(copied: int) -> str:
    if not copied:
        return "Placeholders, tags and terms come out exactly once, but mostly at the end: it copies no names."
    return (
        f"Placeholders, tags and terms stand for names that it copies, the first {copied} of {RESERVED_SYMBOLS} in a "
        "sentence; others come out once as well, but mostly at the end. How well they are placed was not measured."
    )


def _digest(path: Path) -> str:
    """SHA-256 of the file, or of a folder's weights."""
    file = next((file for file in (path / "model.bin", path / "model" / "model.bin") if file.is_file()), path)
    with open(file, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _samples(
    model: Transformer, tokenizers: Tokenizers, imported: ImportedModel, source: str, say: Say
) -> list[dict[str, Any]]:
    """At least one sample, since the service refuses a bundle without."""
    sentences = own_sentences(source) or own_sentences("en")
    try:
        if samples := choose_samples(model, tokenizers, imported.limits, sentences):
            return samples
        surest, lead = most_certain_sample(model, tokenizers, imported.limits, sentences)
    except (ValueError, IndexError) as error:
        raise BundleError(f"no sample can be translated: {error}") from None
    say(
        f"warning: no sample leads by {MARGIN} nats at every token, the surest by {lead:.2g}: on another processor or "
        "at another precision the service may refuse this bundle"
    )
    return [surest]


def _measure(
    write: Callable[[Path], None],
    model: Transformer,
    tokenizers: Tokenizers,
    imported: ImportedModel,
    target: str,
    tests: list[TestSet],
    say: Say,
) -> list[dict[str, Any]]:
    try:
        results = measure_as_served(write, tests, torch.device("cpu"))
    except NotServed as error:
        say(f"warning: the scores are those of the bare decoder, since {error}")
        results = [evaluate_set(model, tokenizers, imported.limits, target, test) for test in tests]
    for result, test in zip(results, tests, strict=True):
        report(result, test, imported.limits, say)
    return [metric for result in results for metric in result.metrics()]
