"""The object storage of OPUS-MT (Helsinki-NLP): Marian models as zips, of which index.txt is the list.

A line is a path such as en-fr/opus-2020-02-26.zip, relative to the list. It has no sizes and no checksums. The storage
of the Tatoeba Challenge, https://object.pouta.csc.fi/Tatoeba-MT-models/index.txt, has the same form.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from training.importing.errors import ImportFault
from training.importing.registries.offer import (
    MAX_MODEL_BYTES,
    Offer,
    RemoteFile,
    evaluated_figures,
    resolve_address,
    split_pair,
    usable_offers,
)

ADDRESS = "https://object.pouta.csc.fi/OPUS-MT-models/index.txt"
HOSTS = ("object.pouta.csc.fi",)
PAGE = "https://github.com/Helsinki-NLP/OPUS-MT-train/tree/master/models/{pair}"
LICENCE = "CC-BY-4.0"
ATTRIBUTION = (
    "Jörg Tiedemann and others, University of Helsinki, OPUS-MT: https://github.com/Helsinki-NLP/Opus-MT",
    "Tiedemann et al. 2023, Democratizing neural machine translation with OPUS-MT, doi:10.1007/s10579-023-09704-w",
)
_LINE = re.compile(r"([\w+.-]+)/([\w+.-]+)\.zip", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def read_offers(content: bytes, address: str, warn: Callable[[str], None] = print) -> list[Offer]:
    """The models in the list, of each pair the newest first. Those left out are named to `warn`. Raises ImportFault."""
    lines = (_LINE.fullmatch(line.strip().removeprefix("./")) for line in content.decode(errors="replace").splitlines())
    entries = ((match[0], (match[1], match[2])) for match in lines if match)  # others: scores, sample translations
    offers = usable_offers(entries, lambda entry: _offer(*entry, address), address, warn)
    if not offers:
        raise ImportFault(f"{address} is not a list of OPUS-MT's models: no line is like en-fr/opus-2020-02-26.zip")
    offers.sort(key=lambda offer: (_DATE.search(offer.variant) or [""])[0], reverse=True)
    return sorted(offers, key=lambda offer: offer.pair)


def _offer(pair: str, release: str, address: str) -> Offer:
    url = resolve_address(address, f"{pair}/{release}.zip".replace("+", "%2B"))
    file = RemoteFile(url, f"{release}.zip", MAX_MODEL_BYTES, packing="zip")
    tags = split_pair(pair)
    page, figures = PAGE.format(pair=pair), evaluated_figures("opus", *tags)
    return Offer("opus", pair, release, (file,), page, LICENCE, ATTRIBUTION, *tags, figures=figures)
