"""Makes a bundle of a published model that is here: its samples, card and record, and what was measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch

from model.atomic_files import check_replaceable
from model.bundle_files import BundleError
from model.bundle_weights import check_samples, load_bundle, save_bundle
from model.directions import Direction, Directions
from model.published import forbids_commercial_use
from model.tokenizer import RESERVED_SYMBOLS, Tokenizers
from model.transformer import Transformer
from training.compute import use_threads
from training.corpora.general import general_pairs_of
from training.download import file_sha256
from training.evaluation.evaluate import Scoring, TestSet, evaluate_set, report
from training.evaluation.placeholders import PlaceholderResult
from training.evaluation.service_command import NotServed
from training.export.bundle import serve_command
from training.export.metrics import fit_as_served, measure_as_served, measure_placeholders
from training.export.model_card import imported_card
from training.export.samples import choose_samples, own_sentences, uncertainty_warning
from training.file_lock import lock_output
from training.importing.errors import ImportFault
from training.importing.families import build_model, read_model
from training.importing.m2m import is_m2m, licence_of
from training.importing.model import ImportedModel
from training.importing.options import ImportOptions
from training.importing.placeholders import copy_into_symbols, copyable_pieces
from training.importing.registries.offer import Figure
from training.importing.retrieve import Manifest
from training.importing.weights import lean_backend, rounded

LICENCE = "Not stated. Its publisher decides how this model may be used."
Say = Callable[[str], None]


def check_licence(name: str, licence: str, accepted: bool) -> None:
    """Raises ImportFault if the licence forbids commercial use and was not accepted."""
    if not accepted and forbids_commercial_use(licence):
        raise ImportFault(
            f"{name} has the licence {licence}, which forbids commercial use: read it, and add --accept-licence if "
            "you may use the model"
        )


def _licence(options: ImportOptions, manifest: Manifest | None, stated: object, presumed: str) -> str:
    """What the model states, or else the user, or else its registry, or else what is presumed of its family; "" if
    nothing is known."""
    listed = manifest.licence if manifest else ""
    if isinstance(stated, str) or options.licence:
        return str(stated or options.licence)
    return presumed if listed.startswith("Not stated") or not listed else listed


def _licence_of(options: ImportOptions, manifest: Manifest | None, imported: ImportedModel) -> str:
    return _licence(options, manifest, imported.metadata.get("license"), imported.presumed_licence)


def make_bundle(options: ImportOptions, manifest: Manifest | None, say: Say) -> None:
    """Writes the bundle of a model that is here, and checks its samples."""
    if not options.model.exists():
        raise ImportFault(f"{options.model}: not found")
    languages, out = options.pair, options.folder
    check_replaceable(out, options.replace)
    use_threads(options.threads)
    tests, fitted_on = (
        [TestSet.read(text, *languages) for text in texts] for texts in (options.check, options.calibrate)
    )
    with lock_output(out):
        remarks, metrics = _write_bundle(options, manifest, tests, fitted_on, say)
    bundle = load_bundle(out, torch.device("cpu"), mapped=True)
    check_samples(bundle, lean_backend(bundle.model))
    for remark in remarks:
        say(f"note: {remark}")
    if manifest is not None and tests:
        for line in compare_scores(manifest.figures, metrics):
            say(line)
    if not bundle.config.get("quality"):
        say("quality: uncalibrated, so translations come without an estimate; --calibrate FILE fits one")
    say(f"licence: {bundle.record.licence}")
    size = sum(file.stat().st_size for file in out.iterdir())
    say(f"{out} is {bundle.name}, {size / 2**20:.1f} MiB")
    say(f"next: {serve_command(out)}")


def _write_bundle(
    options: ImportOptions, manifest: Manifest | None, tests: list[TestSet], fitted_on: list[TestSet], say: Say
) -> tuple[list[str], list[dict[str, Any]]]:
    """Writes the bundle. Returns the remarks and scores of its card; the model is no longer in memory then."""
    languages = options.pair
    if is_m2m(options.model):  # the only known models that forbid commercial use: some have gigabytes to read
        known = _licence(options, manifest, *licence_of(options.model))
        check_licence(str(options.path), known, options.accept_licence)
    imported = read_model(options)
    direction = _direction(imported, languages)
    check_licence(str(options.path), _licence_of(options, manifest, imported), options.accept_licence)
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
    if fitted_on:
        record |= fit_as_served(write, fitted_on, tests, torch.device("cpu"), languages, say)
    write(options.folder)
    return imported.remarks, record["metrics"]


def _direction(imported: ImportedModel, languages: tuple[str, str]) -> Direction:
    """The direction to take samples from and to measure. Raises ImportFault if the model does not have it."""
    if imported.directions is None:
        return Direction(*languages)
    if languages not in imported.directions:
        raise ImportFault(f"it does not translate from {languages[0]} to {languages[1]}")
    return imported.directions.direction(*languages)


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
    licence = options.licence or _licence_of(options, manifest, imported) or (manifest.licence if manifest else LICENCE)
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
    try:
        samples, lead = choose_samples(*how, direction=direction, backend=lean_backend(model))
    except (ValueError, IndexError) as error:
        raise BundleError(f"no sample can be translated: {error}") from None
    if lead is not None:
        say(uncertainty_warning(lead))
    return samples


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
        decoding = imported.decoding
        beam, penalty = decoding.beam_size or 1, decoding.length_penalty
        scoring = Scoring(beam, length_penalty=penalty, narrowing=decoding.narrowing)
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
