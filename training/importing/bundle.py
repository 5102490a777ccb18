"""`import`: makes a bundle of a published model, of any family.

    python -m training import firefox:en-fr
    python -m training import translate-en_fr.argosmodel --source en --target fr

A registry's model is downloaded first (`training.importing.retrieve`). A family has a module with a test and a reader
(`FAMILIES`); what the reader returns is an `ImportedModel`, from which everything else is made here.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, get_args
from urllib.parse import urlsplit

import torch

from model.atomic_files import check_replaceable
from model.bundle import moses_language
from model.bundle_files import SUMS, BundleError
from model.bundle_weights import check_samples, load_bundle, save_bundle
from model.decoding.batch_invariance import uniform_tiles
from model.decoding.torch_backend import TorchBackend
from model.directions import Direction, Directions
from model.languages import is_language_code
from model.tokenizer import RESERVED_SYMBOLS, Tokenizer, Tokenizers
from model.transformer import Transformer
from model.weight_storage import STORAGES
from training.compute import use_threads
from training.corpora.general import general_pairs_of
from training.download import file_sha256, megabytes
from training.evaluation.evaluate import Scoring, TestSet, evaluate_set, report
from training.evaluation.placeholders import PlaceholderResult
from training.evaluation.service_command import NotServed
from training.export.bundle import serve_command
from training.export.metrics import measure_as_served, measure_placeholders
from training.export.model_card import imported_card
from training.export.samples import MARGIN, choose_samples, most_certain_sample, own_sentences
from training.file_lock import lock_output
from training.importing.ctranslate2 import read_ctranslate2
from training.importing.ctranslate2_files import is_ctranslate2
from training.importing.errors import ImportFault
from training.importing.huggingface_marian import is_huggingface_marian, read_huggingface_marian
from training.importing.m2m import is_m2m, languages_of, read_m2m
from training.importing.marian import is_marian, read_marian
from training.importing.marian_network import PositionsOf
from training.importing.model import ImportedModel
from training.importing.placeholders import copy_into_symbols, copyable_pieces
from training.importing.registries.offer import Figure, Offer
from training.importing.retrieve import (
    REGISTRIES,
    Manifest,
    ModelName,
    Source,
    offer_table,
    parse_name,
    read_manifest,
)
from training.importing.safetensors_files import is_pickle, pickle_fault
from training.importing.vocabulary import Vocabulary
from training.importing.weights import rounded
from training.optim.signals import python_command
from training.options import Option

Reader = Callable[[Path, str, str, PositionsOf], ImportedModel]
FAMILIES: tuple[tuple[Callable[[Path], bool], Reader], ...] = (
    (is_marian, read_marian),
    (is_huggingface_marian, read_huggingface_marian),
    (is_m2m, lambda path, source, target, _: read_m2m(path, source, target)),
    (is_ctranslate2, lambda path, source, target, _: read_ctranslate2(path, source, target)),
)
"""How to tell a family by a path's content, and how to read it."""
LICENCE = "Not stated. Its publisher decides how this model may be used."
Say = Callable[[str], None]


def _language_codes(text: str) -> tuple[str, ...]:
    """Parses `--languages`. Raises ValueError."""
    codes = tuple(dict.fromkeys(text.split(",")))
    if len(codes) < 2 or not all(map(is_language_code, codes)):
        raise ValueError(f"--languages must be at least two language codes, such as en,fr,de, not {text!r}")
    return codes


@dataclass(frozen=True)
class ImportOptions:
    """What to import. Raises ValueError, naming the fault."""

    path: Annotated[Path | None, Option(metavar="MODEL", is_argument=True)] = None
    """The model: firefox:en-fr, opus:en-fr, argos:en-fr, huggingface:OWNER/NAME, or a folder or file: what
    --download-only made, a CTranslate2 folder, an Argos Translate package (.argosmodel). @ and a version choose
    one: firefox:en-fr@tiny."""
    source: str | None = None
    """The language that it translates, such as en. (default: what the registry says)"""
    target: str | None = None
    """The language that it translates into. (default: what the registry says)"""
    out: Path | None = None
    """The folder to make. (default: bundles/en-fr, by the languages)"""
    languages: Annotated[tuple[str, ...] | None, Option(metavar="CODES", parse=_language_codes)] = None
    """Import only these languages of a model of many, such as en,fr,de. (default: all)"""
    list: Annotated[str | None, Option(metavar="REGISTRY", panel="Registries")] = None
    """List the models of a registry, or of one of its pairs: firefox, opus, argos, or such as firefox:en-fr."""
    download_only: Annotated[bool, Option(panel="Registries")] = False
    """Only download, into a folder that `import` takes on another machine. --out is that folder."""
    offline: Annotated[bool, Option(panel="Registries")] = False
    """Use no network, only models that were downloaded before."""
    registry: Annotated[str | None, Option(metavar="URL|FILE", panel="Registries")] = None
    """A mirror's list of models, in place of the registry's own. Addresses in it may be relative to it."""
    accept_licence: bool = False
    """Import a model although its licence forbids commercial use."""
    replace: bool = False
    """Replace an existing bundle."""
    positions: PositionsOf = "marian"
    """For a model that Marian trained, marian's own positions, or huggingface's, those of its copies in transformers
    and CTranslate2, which differ a little, for comparison."""
    dtype: str = "float32"
    """Storage type of weights. int8 takes a quarter of float32's space, float16 and bfloat16 half. (default: float32,
    which rounds nothing)"""
    licence: str | None = None
    """The model's licence, for the card. (default: what the model says)"""
    attribution: Annotated[tuple[str, ...], Option(metavar="TEXT")] = ()
    """Whom to credit, for the card; repeat for more."""
    check: Annotated[tuple[str, ...], Option(metavar="FILE")] = ()
    """Pairs to measure BLEU and chrF on, beside the published scores; as `evaluate --pairs`. Repeat for more."""
    threads: int | None = None
    """CPU threads. (default: one per core)"""

    def __post_init__(self) -> None:
        for name in ("source", "target"):
            value = getattr(self, name)
            if value is not None and not is_language_code(value):
                raise ValueError(f"--{name} must be a language code like en or pt-BR, not {value!r}")
        if self.source is not None and self.source == self.target:
            raise ValueError(f"--source and --target are both {self.source}")
        if self.positions not in get_args(PositionsOf):
            raise ValueError(f"--positions must be one of {', '.join(get_args(PositionsOf))}, not {self.positions!r}")
        if self.dtype not in STORAGES:
            raise ValueError(f"--dtype must be one of {', '.join(STORAGES)}, not {self.dtype!r}")
        if self.path is None and self.list is None:
            raise ValueError("name a model, such as firefox:en-fr, or a path; or --list firefox")
        if self.registry is not None and urlsplit(self.registry).username is not None:
            raise ValueError("--registry must not contain a password, since addresses are recorded")

    @property
    def model(self) -> Path:
        """The model to import."""
        assert self.path is not None, "__post_init__ checks it"
        return self.path

    @property
    def pair(self) -> tuple[str, str]:
        """Source and target languages. Raises ValueError if they are not known."""
        if self.source is None or self.target is None:
            raise ValueError(f"give --source and --target, the languages that {self.path} translates")
        return self.source, self.target

    @property
    def folder(self) -> Path:
        """The bundle to make."""
        return self.out or Path("bundles", "-".join(self.pair))


def import_model(options: ImportOptions, say: Say = print) -> None:
    """Lists a registry, downloads a model, or writes a bundle of it, complete or not at all, and checks its samples.

    Raises ImportFault, DownloadError, BundleError, NotReplaceable, CorpusError and BusyError.
    """
    source = Source(options.registry, options.offline, _say_progress)
    if options.list is not None:
        return _list(source, options.list, say)
    if (name := _name(options.model)) is None:
        if options.download_only:
            raise ValueError(f"--download-only needs a registry's model, such as firefox:en-fr, not {options.path}")
        manifest = read_manifest(options.model)
        if manifest is not None:
            options = replace(options, path=manifest.model_path(options.model))
    else:
        offer = source.find(name, (options.source, options.target))
        check_licence(offer.name, offer.licence, options.accept_licence)
        if options.download_only:
            return _download_only(source, offer, options, say)
        options = _with_languages(options, offer)
        if options.out is not None or name.registry != "huggingface":  # otherwise known only after the download
            check_replaceable(options.folder, options.replace)
            with lock_output(options.folder):
                pass  # a place that is read-only or in use is refused before the download
        say(f"{offer.name}: licence {offer.licence}")
        folder = source.retrieve(offer)
        manifest = read_manifest(folder)
        assert manifest is not None, "a download ends with it"
        options = replace(options, path=manifest.model_path(folder))
    if manifest is not None:
        check_licence(manifest.name, manifest.licence, options.accept_licence)
        options = _with_languages(options, manifest)
    if is_m2m(options.model):
        options = _of_many_languages(options, manifest)
    make_bundle(options, manifest, say)


def _of_many_languages(options: ImportOptions, manifest: Manifest | None) -> ImportOptions:
    """`options` with a pair to try the model with, and a folder named after it."""
    known = languages_of(options.model)
    codes = options.languages or known
    if unknown := [code for code in codes if code not in known]:
        raise ImportFault(f"{options.path}: the model does not know {unknown[0]}")
    source = options.source or ("en" if "en" in codes else codes[0])
    target = options.target or next(code for code in ("fr", *codes) if code in codes and code != source)
    name = re.split("[:/@]", manifest.name.split("@")[0])[-1] if manifest else options.model.absolute().name
    return replace(options, source=source, target=target, out=options.out or Path("bundles", name))


def _say_progress(text: str) -> None:
    """Progress is no result, which a script may read from stdout."""
    print(text, file=sys.stderr, flush=True)


def _name(path: Path) -> ModelName | None:
    """The registry's model that `path` names; None if it is a file or folder. Raises ImportFault."""
    if path.exists():
        return None
    text = str(path)
    if (name := parse_name(text)) is None and ":" in text:
        registry = text.partition(":")[0]
        raise ImportFault(f"{text}: no registry is called {registry}; there are {', '.join(REGISTRIES)}")
    return name


def _list(source: Source, text: str, say: Say) -> None:
    registry, _, pair = text.partition(":")
    if registry not in REGISTRIES:
        raise ImportFault(f"no registry is called {registry}; there are {', '.join(REGISTRIES)}")
    if pair:
        source.find(ModelName(registry, pair), (None, None))  # which says what is like it
    for line in offer_table([offer for offer in source.offers(registry) if not pair or offer.has_name(pair)]):
        say(line)


def _with_languages(options: ImportOptions, known: Offer | Manifest) -> ImportOptions:
    """`options` with the languages that the registry says, unless others were given."""
    return replace(options, source=options.source or known.source, target=options.target or known.target)


def _download_only(source: Source, offer: Offer, options: ImportOptions, say: Say) -> None:
    label = re.sub(r"[^\w.-]+", "-", f"{offer.registry}-{offer.pair}")
    out = options.out or Path("downloads", label)
    if out.exists() and (out.is_file() or any(out.iterdir())):
        raise ImportFault(f"{out} exists: choose another --out, or delete it")
    if out.exists():
        out.rmdir()
    folder = source.retrieve(offer, out)
    size = sum(file.stat().st_size for file in folder.iterdir())
    say(f"{folder} has {offer.name}, {megabytes(size)}; licence {offer.licence}")
    say(f"next, on the other machine: {python_command()} -m training import {shlex.quote(str(folder))}")


def check_licence(name: str, licence: str, accepted: bool) -> None:
    """Raises ImportFault if the licence forbids commercial use and was not accepted."""
    if not accepted and re.search(r"\bnc\b|non-?commercial", licence, re.IGNORECASE):
        raise ImportFault(
            f"{name} has the licence {licence}, which forbids commercial use: read it, and add --accept-licence if "
            "you may use the model"
        )


def _licence(options: ImportOptions, manifest: Manifest | None, imported: ImportedModel) -> str:
    """What the model says, or else the user, or else its registry, or else its family; "" if nothing is known."""
    said, listed = imported.metadata.get("license"), manifest.licence if manifest else ""
    if isinstance(said, str) or options.licence:
        return str(said or options.licence)
    return imported.presumed_licence if listed.startswith("Not stated") or not listed else listed


def make_bundle(options: ImportOptions, manifest: Manifest | None, say: Say) -> None:
    """Writes the bundle of a model that is here, and checks its samples."""
    if not options.model.exists():
        raise ImportFault(f"{options.model}: not found")
    languages, out = options.pair, options.folder
    check_replaceable(out, options.replace)
    use_threads(options.threads)
    tests = [TestSet.read(text, *languages) for text in options.check]
    with lock_output(out):
        remarks, metrics = _write_bundle(options, manifest, tests, say)
    bundle = load_bundle(out, torch.device("cpu"), mapped=True)
    check_samples(bundle, TorchBackend(bundle.model, tiles=uniform_tiles(bundle.model)))
    for remark in remarks:
        say(f"note: {remark}")
    if manifest is not None and tests:
        for line in compare_scores(manifest.figures, metrics):
            say(line)
    say(f"licence: {bundle.record.licence}")
    size = sum(file.stat().st_size for file in out.iterdir())
    say(f"{out} is {bundle.name}, {size / 2**20:.1f} MiB")
    say(f"next: {serve_command(out)}")


def _write_bundle(
    options: ImportOptions, manifest: Manifest | None, tests: list[TestSet], say: Say
) -> tuple[list[str], list[dict[str, Any]]]:
    """Writes the bundle. Returns the remarks and scores of its card; the model is no longer in memory then."""
    languages = options.pair
    imported = read_model(options)
    direction = _direction(imported, languages)
    check_licence(str(options.path), _licence(options, manifest, imported), options.accept_licence)
    model, tokenizers = build_model(imported, languages[0] or "")
    say(f"{options.path}: a {imported.family} model of {model.parameter_count():,} parameters")
    if imported.directions is not None and imported.directions.count > 1:
        imported.remarks.insert(0, _directions_remark(imported.directions))
    copied: list[tuple[int, int]] = []
    if not imported.vocabulary.has_symbols:
        copied = copyable_pieces(model, tokenizers, imported.limits, languages[0], direction)
        copy_into_symbols(model, tokenizers, copied)
        imported.remarks.append(_placeholder_remark(len(copied)))
    if options.dtype != "float32":
        model = rounded(model, options.dtype)
    if imported.directions is None and (others := sorted(imported.vocabulary.languages - set(languages))):
        imported.remarks.append(
            f"Its vocabulary has tags of other languages, {', '.join(others)}: are --source and --target right?"
        )
    record = _record(options, manifest, imported, model, tokenizers, direction, say)
    if copied:
        is_joint = tokenizers.source is tokenizers.target
        record["reserved_copies"] = [source if is_joint else [source, target] for source, target in copied]

    def write(folder: Path) -> None:
        card = imported_card(
            {"architecture": imported.config.to_dict(), "limits": dataclasses.asdict(imported.limits), **record}
        )
        how: dict[str, Any] = {"dtype": options.dtype, "replace": options.replace}
        sides = tokenizers.source, imported.limits
        save_bundle(folder, model, *sides, record, card, target_tokenizer=tokenizers.target, **how)

    if tests:
        record |= _measure(write, model, tokenizers, imported, languages, tests, say)
    write(options.folder)
    return imported.remarks, record["metrics"]


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


def _direction(imported: ImportedModel, languages: tuple[str, str]) -> Direction:
    """The direction to take samples from and to measure. Raises ImportFault if the model does not have it."""
    if imported.directions is None:
        return Direction(*languages)
    if languages not in imported.directions:
        raise ImportFault(f"it does not translate from {languages[0]} to {languages[1]}")
    return imported.directions.direction(*languages)


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


def _record(
    options: ImportOptions,
    manifest: Manifest | None,
    imported: ImportedModel,
    model: Transformer,
    tokenizers: Tokenizers,
    direction: Direction,
    say: Say,
) -> dict[str, Any]:
    """What completes config.json."""
    said: Mapping[str, Any] = imported.metadata
    source, target = options.pair
    licence = options.licence or _licence(options, manifest, imported) or (manifest.licence if manifest else LICENCE)
    attribution = options.attribution or (manifest.attribution if manifest else ())
    fields = ("package_version", "argos_version", "from_name", "to_name", "links")
    directions = {"source": source, "target": target}
    decoding, text = imported.decoding.to_dict(), {"punctuation": imported.punctuation} if imported.punctuation else {}
    return {
        **(directions if imported.directions is None else {"directions": imported.directions.to_dict()}),
        **({"decoding": decoding} if decoding else {}),
        **({"text": text} if text else {}),
        "training": {
            "corpora": [],
            "parameters": model.parameter_count(),
            "form": {"dtype": options.dtype},
            "imported": {
                "family": imported.family,
                "file": options.model.name,
                "sha256": _digest(options.model),
                **(_origin(manifest) if manifest else {}),
                **{name: said[name] for name in fields if name in said},
            },
        },
        "metrics": [],
        "licence": licence,
        "attribution": list(attribution),
        "remarks": imported.remarks,
        "samples": _samples(model, tokenizers, imported, direction, say),
        "general": [list(pair) for pair in general_pairs_of({"source": source, "target": target})],
    }


def _origin(manifest: Manifest) -> dict[str, Any]:
    """Where a downloaded model comes from, for config.json."""
    return {
        "file": Path(urlsplit(manifest.address).path).name,
        "name": manifest.name,
        "address": manifest.address,
        "page": manifest.page,
        "downloaded": manifest.downloaded,
        "published": [dataclasses.asdict(figure) for figure in manifest.figures],
    }


def compare_scores(published: Sequence[Figure], measured: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Published scores beside those measured here, which are of other sentences unless the user gave the same."""
    yield "scores, published (not measured here) and measured here (on your file, as the service translates):"
    for figure in published:
        yield f"  {figure.metric:<9} {figure.score:7.4g}  published, on {figure.dataset}, by {figure.origin}"
    if not published:
        yield "  none published"
    for metric in measured:
        yield f"  {metric['metric']:<9} {metric['score']:7.4g}  measured here, on {metric['set']}"


def _directions_remark(directions: Directions) -> str:
    return (
        f"One model for {directions.count:,} pairs of languages. Samples, and the scores of --check, are of one pair; "
        "the others were not measured here."
    )


def _placeholder_remark(copied: int) -> str:
    if not copied:
        return "Placeholders, tags and terms come out exactly once, but mostly at the end: it copies no names."
    return (
        f"Placeholders, tags and terms stand for names that it copies, the first {copied} of {RESERVED_SYMBOLS} in a "
        "sentence; others come out once as well, but mostly at the end."
    )


def _digest(path: Path) -> str:
    """SHA-256 of the file, or of a folder's weights."""
    files = (file for file in path.rglob("*") if file.is_file()) if path.is_dir() else (path,)
    return file_sha256(max(files, key=lambda file: file.stat().st_size))  # the weights are by far the largest


def _samples(
    model: Transformer, tokenizers: Tokenizers, imported: ImportedModel, direction: Direction, say: Say
) -> list[dict[str, Any]]:
    """At least one sample, since the service refuses a bundle without."""
    sentences = own_sentences(direction.source) or own_sentences("en")
    how = model, tokenizers, imported.limits, sentences
    backend = TorchBackend(model, tiles=uniform_tiles(model))
    try:
        if samples := choose_samples(*how, direction=direction, backend=backend):
            return samples
        surest, lead = most_certain_sample(*how, direction, backend)
    except (ValueError, IndexError) as error:
        raise BundleError(f"no sample can be translated: {error}") from None
    say(
        f"warning: no sample ends and leads by {MARGIN} nats at every token, the surest by {lead:.2g}: on another "
        "processor or at another precision the service may refuse this bundle"
    )
    return [surest]


def _measure(
    write: Callable[[Path], None],
    model: Transformer,
    tokenizers: Tokenizers,
    imported: ImportedModel,
    languages: tuple[str, str],
    tests: list[TestSet],
    say: Say,
) -> dict[str, Any]:
    """The record's `metrics` and `placeholders`."""
    placements: list[PlaceholderResult] = []
    try:
        results = measure_as_served(write, tests, torch.device("cpu"), languages)
        placements = measure_placeholders(write, tests, torch.device("cpu"), languages)
    except NotServed as error:
        say(f"warning: the scores are those of the bare decoder, since {error}")
        how = model, tokenizers, imported.limits, languages[1]
        scoring = Scoring(imported.decoding.beam_size or 1, length_penalty=imported.decoding.length_penalty)
        direction = _direction(imported, languages)
        results = [evaluate_set(*how, test, scoring=scoring, direction=direction) for test in tests]
    for result, test in zip(results, tests, strict=True):
        report(result, test, imported.limits, say)
    for placement in placements:
        say(str(placement))
    return {
        "metrics": [metric for result in results for metric in result.metrics()],
        "placeholders": [placement.to_dict() for placement in placements],
    }
