"""Mozilla's registry: the students that Firefox translates with.

The list is written by db/updater.py of mozilla/translations: `models` has by pair one model of each architecture, with
the SHA-256 and size of its unpacked weights and its scores. Files are packed by gzip.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from training.importing.errors import ImportFault
from training.importing.model_files import MAX_TEXT_BYTES
from training.importing.registries.offer import (
    MAX_MODEL_BYTES,
    METRICS,
    Figure,
    Offer,
    RemoteFile,
    is_score,
    parse_json,
    resolve_address,
    split_pair,
    text_of,
    usable_offers,
)

ADDRESS = "https://storage.googleapis.com/moz-fx-translations-data--303e-prod-translations-data/db/models.json"
HOSTS = ("storage.googleapis.com/moz-fx-translations-data--303e-prod-translations-data/",)
"""That host serves everybody's files, so it is allowed only with the path of Mozilla's."""
PAGE = "https://mozilla.github.io/translations/model-registry"
LICENCE = "MPL-2.0"
ATTRIBUTION = ("Mozilla, Firefox Translations: https://github.com/mozilla/translations",)
VOCABULARIES = ("vocab", "srcVocab", "trgVocab")
SIZES = ("base", "base-memory", "tiny")
"""Architectures, the best first where no scores say otherwise."""
DATASETS = {"flores200-plus": "FLORES-200+ devtest"}
"""The list's names of test sets (pipeline/eval/eval_datasets.py of mozilla/translations)."""
DOWNLOADS = Path(__file__).with_name("firefox_downloads.tsv")
"""Sizes of models as downloaded, packed, with their vocabularies, by the path of the weights (docs/registries.md)."""


def read_offers(content: bytes, address: str, warn: Callable[[str], None] = print) -> list[Offer]:
    """The models in Mozilla's list, of each pair the best first: released ones, then by COMET-22 and BLEU.

    Those left out are named to `warn`. Raises ImportFault.
    """
    listed = parse_json(content, address)
    models = listed.get("models") if isinstance(listed, dict) else None
    if not isinstance(models, dict):
        raise ImportFault(f"{address} is not Mozilla's list of models: it has no `models`")
    base = listed.get("baseUrl", "..")
    entries = (
        (pair, (pair, entry))
        for pair, found in models.items()
        for entry in (found if isinstance(found, list) else [found])
    )

    def read(entry: tuple[str, object]) -> Offer:
        return _offer(*entry, resolve_address(address, base).rstrip("/") + "/")

    return sorted(usable_offers(entries, read, address, warn), key=_rank)


def _rank(offer: Offer) -> tuple[Any, ...]:
    scores = {figure.metric: figure.score for figure in offer.figures}
    size = SIZES.index(offer.variant) if offer.variant in SIZES else len(SIZES)
    is_released = offer.status.startswith("Release")
    return offer.pair, not is_released, -scores.get("COMET-22", 0), -scores.get("BLEU", 0), size


def _offer(pair: str, entry: object, base: str) -> Offer:
    files = entry.get("files") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(files, dict) or not isinstance(files.get("model"), dict):
        raise ImportFault("it has no files")
    weights = files["model"]
    size, sha256 = weights.get("uncompressedSize"), weights.get("uncompressedHash")
    if not (size is None or (isinstance(size, int) and 0 < size <= MAX_MODEL_BYTES)):
        raise ImportFault(f"its size is {reprlib.repr(size)}")
    if not (sha256 is None or (isinstance(sha256, str) and re.fullmatch(r"[0-9a-fA-F]{64}", sha256))):
        raise ImportFault(f"its SHA-256 is {reprlib.repr(sha256)}")
    source, target = split_pair(pair)
    wanted = [_file(base, weights, MAX_MODEL_BYTES, size, sha256 and sha256.lower())]
    wanted += [_file(base, files[name], MAX_TEXT_BYTES) for name in VOCABULARIES if name in files]
    scores = entry.get("metrics")
    figures = tuple(
        Figure(DATASETS.get(dataset, str(dataset)), METRICS[metric], float(score), "Mozilla's registry")
        for dataset, found in (scores.items() if isinstance(scores, dict) else ())
        if isinstance(found, dict)
        for metric, score in found.items()
        if metric in METRICS and is_score(score)
    )
    variant = text_of(entry, "architecture")
    status = entry.get("releaseStatus")
    return Offer(
        "firefox", pair, variant, tuple(wanted), PAGE, LICENCE, ATTRIBUTION, source, target, size, figures,
        status if isinstance(status, str) else "not released", _download_bytes().get(weights["path"]),
    )  # fmt: skip


@lru_cache
def _download_bytes() -> dict[str, int]:
    _, *rows = [line.split("\t") for line in DOWNLOADS.read_text(encoding="utf-8").splitlines()]
    return {path: int(size) for path, size in rows}


def _file(base: str, entry: object, max_bytes: int, size: int | None = None, sha256: str | None = None) -> RemoteFile:
    if not isinstance(entry, dict):
        raise ImportFault(f"it has {reprlib.repr(entry)} where a file should be")
    url = resolve_address(base, text_of(entry, "path"))
    name = url.rsplit("/", 1)[-1]
    packing = "gzip" if name.endswith(".gz") else None
    return RemoteFile(url, name.removesuffix(".gz"), max_bytes, size, sha256, packing)  # type: ignore[arg-type]
