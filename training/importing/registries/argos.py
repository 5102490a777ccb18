"""The package index of Argos Translate (argosopentech/argospm-index): a list of packages with their addresses.

It has no sizes and no checksums.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

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
    usable_offers,
)

ADDRESS = "https://raw.githubusercontent.com/argosopentech/argospm-index/main/index.json"
HOSTS = (
    "raw.githubusercontent.com/argosopentech/argospm-index/",
    "argos-net.com",
    "data.argosopentech.com",
    "www.argosopentech.com",
)
PAGE = "https://www.argosopentech.com/argospm/index/"
LICENCE = "Not stated by the index; the package's own README.md names its data. Argos Translate itself is MIT or CC0."
ATTRIBUTION = ("Argos Open Technologies: https://github.com/argosopentech/argos-translate",)


def read_offers(content: bytes, address: str, warn: Callable[[str], None] = print) -> list[Offer]:
    """The translation packages of the index, of each pair the newest first. Those left out are named to `warn`.

    Raises ImportFault.
    """
    listed = parse_json(content, address)
    if not isinstance(listed, list):
        raise ImportFault(f"{address} is not a package index of Argos Translate: it is no list of objects")
    offers = usable_offers(_packages(listed), lambda entry: _offer(entry, address), address, warn)
    # By pair, and the newest first.
    offers.sort(key=lambda offer: [int(number) for number in re.findall(r"\d{1,9}", offer.variant)], reverse=True)
    return sorted(offers, key=lambda offer: offer.pair)


def _packages(listed: list[object]) -> Iterator[tuple[str, object]]:
    """The entries of translation packages, by name."""
    for number, entry in enumerate(listed, 1):
        if not isinstance(entry, dict):
            yield f"entry {number}", entry
        elif entry.get("type", "translate") == "translate":
            yield f"{entry.get('from_code')}-{entry.get('to_code')}", entry


def _offer(entry: object, address: str) -> Offer:
    if not isinstance(entry, dict):
        raise ImportFault("it is no object")
    source, target, version = (text_of(entry, key) for key in ("from_code", "to_code", "package_version"))
    links = entry.get("links")
    found = [link for link in links if str(link).startswith("ipfs:") is False] if isinstance(links, list) else []
    if not found:
        raise ImportFault("it has no address")
    url = resolve_address(address, found[0])
    file = RemoteFile(url, url.rsplit("/", 1)[-1], MAX_MODEL_BYTES)
    tags = language_tag(source), language_tag(target)
    figures = evaluated_figures("argos", *tags)
    return Offer("argos", f"{source}-{target}", version, (file,), PAGE, LICENCE, ATTRIBUTION, *tags, figures=figures)
