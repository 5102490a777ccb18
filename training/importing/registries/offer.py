"""What a registry offers: a model with its files, licence and published figures."""

from __future__ import annotations

import hashlib
import json
import math
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urljoin, urlsplit

from model.languages import is_language_code
from model.published import plain_pair
from training.importing.errors import ImportFault

MAX_MODEL_BYTES = 32 << 30
"""Maximum size of a model's weights, where a registry does not state it."""
OTHER_CODES = {"pb": "pt-BR", "zt": "zh-Hant", "zh_hant": "zh-Hant", "zh_hans": "zh-Hans"}
"""Codes of registries that are no tags of BCP 47."""
METRICS = {"bleu": "BLEU", "spbleu": "spBLEU", "chrf": "chrF", "chrfpp": "chrF++", "comet22": "COMET-22"}
MAX_WARNINGS = 20
"""Maximum number of a list's faulty entries that are named."""
MAX_TEXT_CHARS = 2_000
"""Maximum length of a list's text, such as an address."""
FIGURES = Path(__file__).with_name("flores200_devtest.tsv")
FIGURES_SET = "FLORES-200 devtest"
FIGURES_ORIGIN = "mozilla/firefox-translations-models, evaluations until October 2025"

Entry = TypeVar("Entry")


@dataclass(frozen=True)
class Figure:
    """A published score, which was not measured here."""

    dataset: str
    metric: str
    score: float
    origin: str
    """Who published it."""


@dataclass(frozen=True)
class RemoteFile:
    """A file to download, and what is known of it."""

    url: str
    name: str
    """Its name in the folder, of letters, digits and . _ - only."""
    max_bytes: int
    size: int | None = None
    sha256: str | None = None
    packing: Literal["gzip", "zip"] | None = None
    """How `url` is packed; `size` and `sha256` are those of the unpacked file. A zip has many."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[\w-][\w.+-]{0,199}", self.name, re.ASCII):
            raise ImportFault(f"it names a file {self.name[:80]!r}, which is not a plain name")


@dataclass(frozen=True)
class Offer:
    """One model of a registry."""

    registry: str
    pair: str
    """In the registry's codes, such as en-zh_hant."""
    variant: str
    """What tells it from other models of the pair: a size, version or revision."""
    files: tuple[RemoteFile, ...]
    page: str
    """The address that describes it."""
    licence: str
    attribution: tuple[str, ...]
    source: str | None = None
    """Language tags; None if the model has several directions."""
    target: str | None = None
    size: int | None = None
    """Bytes of the weights, if the registry says."""
    figures: tuple[Figure, ...] = ()
    status: str = ""
    """Such as "Release"."""
    download_bytes: int | None = None
    """Size of all its files as they are downloaded, if somebody has measured it; lists do not say."""

    def __post_init__(self) -> None:
        if not f"{self.pair}{self.variant}{self.licence}{self.status}".isprintable():
            raise ImportFault("it has control characters, which a terminal would obey")

    @property
    def name(self) -> str:
        return f"{self.registry}:{self.pair}@{self.variant}"

    @property
    def digest(self) -> str:
        """Changes when any of its files do."""
        facts = [[file.url, file.size, file.sha256] for file in self.files]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:8]

    def has_name(self, pair: str) -> bool:
        """Whether `pair` names it, in the registry's codes or as language tags."""
        return plain_pair(pair) in (plain_pair(self.pair), plain_pair(f"{self.source}-{self.target}"))


def language_tag(code: str) -> str:
    """The tag of BCP 47 for a registry's code."""
    return OTHER_CODES.get(code.lower(), code.replace("_", "-"))


def split_pair(pair: str) -> tuple[str | None, str | None]:
    """The tags of a pair such as en-fr or en-zh_hant; None for both if it is no pair of two languages."""
    source, _, target = pair.partition("-")
    tags = language_tag(source), language_tag(target)
    return tags if all(map(is_language_code, tags)) else (None, None)


def usable_offers(
    entries: Iterable[tuple[str, Entry]],
    read: Callable[[Entry], Offer],
    address: str,
    warn: Callable[[str], None],
) -> list[Offer]:
    """What `read` makes of the entries of the list at `address`, each given with its name.

    An entry that it refuses is left out, and `warn` names it. Raises ImportFault if none is left.
    """
    offers, faults = list[Offer](), list[str]()
    for name, entry in entries:
        try:
            offers.append(read(entry))
        except ImportFault as fault:
            faults.append(f"{reprlib.repr(name)}: {fault}")
    if faults and not offers:
        raise ImportFault(f"{address} has no usable entry; the first is {faults[0]}")
    for reason in faults[:MAX_WARNINGS]:
        warn(f"warning: {address} has an entry that is left out, {reason}")
    if len(faults) > MAX_WARNINGS:
        warn(f"warning: {address} has {len(faults) - MAX_WARNINGS:,} more entries that are left out")
    return offers


def parse_json(content: bytes, address: str) -> Any:
    """A registry's list. Raises ImportFault."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        # It may be one that is just being written.
        raise ImportFault(f"{address} is not JSON: {str(error).splitlines()[0]}", passes=True) from None


def resolve_address(base: str, address: object) -> str:
    """`address`, which may be relative to the list at `base`. Only a list that is a file may name files."""
    if not isinstance(address, str):
        raise ImportFault(f"it has {reprlib.repr(address)} where an address should be")
    try:
        found = urljoin(base, address)
        scheme = urlsplit(found).scheme.lower()
    except ValueError:  # such as http://[
        found, scheme = address, ""
    if scheme not in ("http", "https") and not (scheme == "file" and base.startswith("file:")):
        raise ImportFault(f"it names {found[:200]!r}, which is no address to download from")
    return found


def text_of(entry: Mapping[str, Any], key: str) -> str:
    """The text at `key`. Raises ImportFault."""
    value = entry.get(key)
    if not isinstance(value, str) or not value or len(value) > MAX_TEXT_CHARS:
        raise ImportFault(f"its {key} is {reprlib.repr(value)}, where a text should be")
    return value


def is_score(value: object) -> bool:
    """Whether `value`, from JSON, is a score: a number that is no NaN, no infinity and not too large for a float."""
    return isinstance(value, int | float) and abs(value) < 1e6 and math.isfinite(value)


@lru_cache
def _evaluated() -> dict[str, dict[str, str]]:
    header, *rows = [line.split("\t") for line in FIGURES.read_text(encoding="utf-8").splitlines()]
    return {row[0]: dict(zip(header, row, strict=True)) for row in rows}


def evaluated_figures(system: str, source: str | None, target: str | None) -> tuple[Figure, ...]:
    """Scores of `system` (argos, opus, nllb-600m) as Mozilla measured them."""
    row = _evaluated().get(f"{source}-{target}", {})
    scores: Iterable[tuple[str, str]] = ((metric, row.get(f"{system} {metric}", "")) for metric in ("BLEU", "COMET-22"))
    return tuple(Figure(FIGURES_SET, metric, float(score), FIGURES_ORIGIN) for metric, score in scores if score)
