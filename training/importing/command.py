"""`import`: makes a bundle of a published model, of any family.

    python -m training import firefox:en-fr
    python -m training.importing translate-en_fr.argosmodel --source en --target fr

A registry's model is downloaded first (`training.importing.retrieve`), without PyTorch, which takes seconds to load;
`training.importing.families` reads it, and `training.importing.bundle` makes the bundle.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

from model.atomic_files import check_replaceable
from model.bundle_files import read_bundle
from model.published import REGISTRIES, ModelName, parse_name
from training.download import megabytes
from training.file_lock import lock_output
from training.importing.errors import ImportFault
from training.importing.licence import check_licence
from training.importing.options import ImportOptions
from training.importing.registries.offer import Offer
from training.importing.report import Report
from training.importing.retrieve import Manifest, Source, offer_table, read_manifest
from training.launch import python_command


def import_model(options: ImportOptions, report: Report | None = None) -> None:
    """Lists a registry, downloads a model, or writes a bundle of it, complete or not at all, and checks its samples.

    Raises ImportFault, DownloadError, BundleError, NotReplaceable, CorpusError and BusyError.
    """
    report = report or Report()
    source = Source(options.registry, options.offline, options.host, options.downloads, report)
    if options.list is not None:
        return _list(source, options.list, report)
    if (name := _name(options.model)) is None:
        if options.download_only:
            raise ValueError(f"--download-only needs a registry's model, such as firefox:en-fr, not {options.path}")
        manifest = read_manifest(options.model)
        if manifest is not None:
            options = replace(options, path=manifest.model_path(options.model))
    else:
        report.emit("finding")
        offer = source.find(name, (options.source, options.target))
        if options.unless is not None and _is_made_of(options.unless, offer):
            return report.emit("unchanged", f"{options.unless} is {offer.name} already", is_result=True)
        check_licence(offer.name, offer.licence, options.accept_licence)
        if options.download_only:
            return _download_only(source, offer, options, report)
        options = _with_languages(options, offer)
        if options.out is not None or name.registry != "huggingface":  # otherwise known only after the download
            check_replaceable(options.folder, options.replace)
            with lock_output(options.folder):
                pass  # a place that is read-only or in use is refused before the download
        report.result(f"{offer.name}: licence {offer.licence}")
        folder = source.retrieve(offer)
        manifest = read_manifest(folder)
        assert manifest is not None, "a download ends with it"
        options = replace(options, path=manifest.model_path(folder))
    if manifest is not None:
        check_licence(manifest.name, manifest.licence, options.accept_licence)
        options = _with_languages(options, manifest)
    report.emit("converting")
    from training.importing.bundle import make_bundle

    make_bundle(options, manifest, report)


def _is_made_of(bundle: Path, offer: Offer) -> bool:
    """Whether a bundle was made of the model that a registry offers, with the same weights as far as it says. Raises
    BundleError."""
    imported = read_bundle(bundle)[0].get("training", {}).get("imported", {})
    return bool(imported.get("name") == offer.name and offer.files[0].sha256 in (None, imported.get("sha256")))


def _name(path: Path) -> ModelName | None:
    """The registry's model that `path` names; None if it is a file or folder. Raises ImportFault."""
    if path.exists():
        return None
    text = str(path)
    if (name := parse_name(text)) is None and ":" in text:
        registry = text.partition(":")[0]
        raise ImportFault(f"{text}: no registry is called {registry}; there are {', '.join(REGISTRIES)}")
    return name


def _list(source: Source, text: str, report: Report) -> None:
    registry, _, pair = text.partition(":")
    if registry not in REGISTRIES:
        raise ImportFault(f"no registry is called {registry}; there are {', '.join(REGISTRIES)}")
    if pair:
        source.find(ModelName(registry, pair), (None, None))  # which says what is like it
    for line in offer_table([offer for offer in source.offers(registry) if not pair or offer.has_name(pair)]):
        report.result(line)


def _with_languages(options: ImportOptions, known: Offer | Manifest) -> ImportOptions:
    """`options` with the languages that the registry says, unless others were given."""
    return replace(options, source=options.source or known.source, target=options.target or known.target)


def _download_only(source: Source, offer: Offer, options: ImportOptions, report: Report) -> None:
    label = re.sub(r"[^\w.-]+", "-", f"{offer.registry}-{offer.pair}")
    out = options.out or Path("downloads", label)
    if out.exists() and (out.is_file() or any(out.iterdir())):
        raise ImportFault(f"{out} exists: choose another --out, or delete it")
    if out.exists():
        out.rmdir()
    folder = source.retrieve(offer, out)
    size = sum(file.stat().st_size for file in folder.iterdir())
    report.result(f"{folder} has {offer.name}, {megabytes(size)}; licence {offer.licence}")
    report.result(f"next, on the other machine: {python_command()} -m training import {shlex.quote(str(folder))}")
