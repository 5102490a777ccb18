"""The package index of Argos Translate (argosopentech/argospm-index): a list of packages with their addresses.

It has no sizes and no checksums.
"""

from __future__ import annotations

import re

from training.importing.errors import ImportFault
from training.importing.registries.offer import (
    MAX_MODEL_BYTES,
    Offer,
    RemoteFile,
    evaluated_figures,
    language_tag,
    parse_json,
    resolve_address,
    text_of,
)

ADDRESS = "https://raw.githubusercontent.com/argosopentech/argospm-index/main/index.json"
PAGE = "https://www.argosopentech.com/argospm/index/"
LICENCE = "Not stated by the index; the package's own README.md names its data. Argos Translate itself is MIT or CC0."
ATTRIBUTION = ("Argos Open Technologies: https://github.com/argosopentech/argos-translate",)


def read_offers(content: bytes, address: str) -> list[Offer]:
    """The translation packages of the index, of each pair the newest first."""
    listed = parse_json(content, address)
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise ImportFault(f"{address} is not a package index of Argos Translate: it is no list of objects")
    offers = []
    for entry in listed:
        if entry.get("type", "translate") != "translate":
            continue
        source, target, version = (text_of(entry, key, address) for key in ("from_code", "to_code", "package_version"))
        links = entry.get("links")
        found = [link for link in links if str(link).startswith("ipfs:") is False] if isinstance(links, list) else []
        if not found:
            raise ImportFault(f"{address} has no address for {source}-{target}")
        url = resolve_address(address, found[0])
        file = RemoteFile(url, url.rsplit("/", 1)[-1], MAX_MODEL_BYTES)
        tags = language_tag(source), language_tag(target)
        figures = evaluated_figures("argos", *tags)
        pair = f"{source}-{target}"
        offers.append(Offer("argos", pair, version, (file,), PAGE, LICENCE, ATTRIBUTION, *tags, figures=figures))
    # By pair, and the newest first.
    offers.sort(key=lambda offer: [int(number) for number in re.findall(r"\d+", offer.variant)], reverse=True)
    return sorted(offers, key=lambda offer: offer.pair)
