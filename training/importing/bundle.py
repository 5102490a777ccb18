"""Makes a bundle of a published model that is here: its samples, card and record, and what was measured."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import torch

from model.atomic_files import check_replaceable, replacing_folder
from model.bundle_files import BundleError
from model.bundle_weights import check_samples, load_bundle, save_bundle
from model.directions import Direction, Directions
from model.tokenizer import RESERVED_SYMBOLS, Tokenizers
from model.transformer import Transformer
from training.compute import use_threads
from training.corpora.general import general_pairs_of
from training.download import file_sha256
from training.export.model_card import imported_card
from training.export.samples import choose_samples, own_sentences, uncertainty_warning
from training.file_lock import lock_output
from training.importing.errors import ImportFault
from training.importing.families import build_model, read_model
from training.importing.licence import check_licence
from training.importing.m2m import is_m2m, languages_of, licence_of
from training.importing.model import ImportedModel
from training.importing.options import ImportOptions
from training.importing.placeholders import copy_into_symbols, copyable_pieces
from training.importing.registries.offer import Figure
from training.importing.report import Report
from training.importing.retrieve import Manifest
from training.importing.weights import lean_backend, restored_on_disk, rounded

if TYPE_CHECKING:
    from training.importing.measures import Measures

LICENCE = "Not stated. Its publisher decides how this model may be used."


def _licence(options: ImportOptions, manifest: Manifest | None, stated: object, presumed: str) -> str:
    """What the model states, or else the user, or else its registry, or else what is presumed of its family; "" if
    nothing is known."""
    listed = manifest.licence if manifest else ""
    if isinstance(stated, str) or options.licence:
        return str(stated or options.licence)
    return presumed if listed.startswith("Not stated") or not listed else listed


def _licence_of(options: ImportOptions, manifest: Manifest | None, imported: ImportedModel) -> str:
    return _licence(options, manifest, imported.metadata.get("license"), imported.presumed_licence)


def make_bundle(options: ImportOptions, manifest: Manifest | None, report: Report) -> None:
    """Makes the bundle of a model that is here, and puts it in its place once its samples came out right."""
    if not options.model.exists():
        raise ImportFault(f"{options.model}: not found")
    if is_m2m(options.model):
        options = _of_many_languages(options, manifest)
    out = options.folder
    check_replaceable(out, options.replace)
    use_threads(options.threads)
    measures = _measures(options)
    with lock_output(out), replacing_folder(out) as unchecked:
        remarks, metrics = _write_bundle(options, unchecked, manifest, measures, report)
        report.emit("checking")
        bundle = load_bundle(unchecked, torch.device("cpu"), mapped=True, restore=restored_on_disk)
        check_samples(bundle, lean_backend(bundle.model))
    for remark in remarks:
        report.result(f"note: {remark}")
    if manifest is not None and options.check:
        for line in compare_scores(manifest.figures, metrics):
            report.result(line)
    if not bundle.config.get("quality"):
        report.result("quality: uncalibrated, so translations come without an estimate; --calibrate FILE fits one")
    report.result(f"licence: {bundle.record.licence}")
    report.done(out, bundle.name, manifest.name if manifest else None)


def _of_many_languages(options: ImportOptions, manifest: Manifest | None) -> ImportOptions:
    """`options` with a pair to try the model with, and a folder named after it."""
    known = languages_of(options.model)
    codes = options.languages or known
    if unknown := [code for code in codes if code not in known]:
        raise ImportFault(f"{options.path}: the model does not know {unknown[0]}")
    source = options.source or ("en" if "en" in codes else codes[0])
    target = options.target or next(code for code in ("fr", *codes) if code in codes and code != source)
    name = re.split("[:/@]", manifest.name.split("@")[0])[-1] if manifest else options.model.absolute().name
    out, into = options.out or options.default_folder(name), None
    return dataclasses.replace(options, source=source, target=target, out=out, into=into)


def _measures(options: ImportOptions) -> Measures | None:
    """What --check and --calibrate ask for, whose files are read first. Raises ImportFault, CorpusError."""
    if not options.check and not options.calibrate:
        return None
    try:
        from training.importing.measures import Measures  # which needs packages that an import does without
    except ImportError as error:
        raise ImportFault(
            f"--check and --calibrate need the extra `train`, of which {error.name} is missing: "
            "pip install 'interlinear[train]'"
        ) from None
    return Measures.read(options)


def _write_bundle(
    options: ImportOptions, folder: Path, manifest: Manifest | None, measures: Measures | None, report: Report
) -> tuple[list[str], list[dict[str, Any]]]:
    """Writes the files of the bundle into `folder`. Returns the remarks and scores of its card; the model is no longer
    in memory then."""
    languages = options.pair
    if is_m2m(options.model):  # the only known models that forbid commercial use: some have gigabytes to read
        known = _licence(options, manifest, *licence_of(options.model))
        check_licence(str(options.path), known, options.accept_licence)
    imported = read_model(options)
    direction = _direction(imported, languages)
    check_licence(str(options.path), _licence_of(options, manifest, imported), options.accept_licence)
    model, tokenizers = build_model(imported, languages[0] or "")
    report.result(f"{options.path}: a {imported.family} model of {model.parameter_count():,} parameters")
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
    record = _record(options, manifest, imported, model, tokenizers, direction, report)
    if copied:
        is_joint = tokenizers.source is tokenizers.target
        record["reserved_copies"] = [source if is_joint else [source, target] for source, target in copied]

    def write(folder: Path, in_place: bool = False) -> None:
        card = imported_card(
            {"architecture": imported.config.to_dict(), "limits": dataclasses.asdict(imported.limits), **record}
        )
        how: dict[str, Any] = {"target_tokenizer": tokenizers.target, "dtype": options.dtype, "in_place": in_place}
        save_bundle(folder, model, tokenizers.source, imported.limits, record, card, **how)

    if measures is not None:
        record |= measures.scores(write, model, tokenizers, imported, direction, report.result)
        record |= measures.estimates(write, report.result)
    write(folder, in_place=True)
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
    report: Report,
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
        "samples": _samples(model, tokenizers, imported, direction, report),
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
    model: Transformer, tokenizers: Tokenizers, imported: ImportedModel, direction: Direction, report: Report
) -> list[dict[str, Any]]:
    """At least one sample, since the service refuses a bundle without."""
    sentences = own_sentences(direction.source) or own_sentences("en")
    how = model, tokenizers, imported.limits, sentences
    try:
        samples, lead = choose_samples(*how, direction=direction, backend=lean_backend(model))
    except (ValueError, IndexError) as error:
        raise BundleError(f"no sample can be translated: {error}") from None
    if lead is not None:
        report.result(uncertainty_warning(lead))
    return samples
