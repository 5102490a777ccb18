"""Makes the catalogue of published models that ships with the service, from the registries' lists.

    python -m training.importing.catalogue --out app/published/catalogue.json \\
        --firefox models.json --argos index.json --opus OPUS-MT-train/models --dated argos=2025-06-21 opus=2026-01-17

Each list is an address or a file. For `--opus` it may be the folder models/ of Helsinki-NLP/OPUS-MT-train, whose
READMEs say how text is split: models that `import` does not read are left out.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from model.atomic_files import write_atomically
from model.languages import NAMES
from training.importing.errors import ImportFault
from training.importing.registries import argos, firefox, opus
from training.importing.registries.offer import Figure, Offer
from training.importing.report import Report
from training.importing.retrieve import LISTS, Source

PUBLISHERS = {
    "firefox": ("Mozilla", firefox.LICENCE, firefox.PAGE),
    "opus": ("Helsinki-NLP", opus.LICENCE, "https://github.com/Helsinki-NLP/OPUS-MT-train"),
    "argos": ("Argos Open Technologies", argos.LICENCE, argos.PAGE),
}
LEFT_OUT = {"argos:es-en@1.9"}
"""Split by bpe.model, which `import` refuses: seen by others in the package, while the index does not say."""
_DESCRIPTION = "Makes the catalogue of published models that ships, from the registries' lists."
_PAGES = {registry: page for registry, (_, _, page) in PUBLISHERS.items()}
_RELEASE = re.compile(r"^# (\S+\.zip)\s*$(.*?)(?=^# |\Z)", re.MULTILINE | re.DOTALL)
_PRE_PROCESSING = re.compile(r"^\* pre-processing: .*SentencePiece", re.MULTILINE)


def opus_index(models: Path) -> str:
    """index.txt of OPUS-MT's storage, as far as the READMEs in `models` tell: releases split by SentencePiece."""
    lines = []
    for page in models.glob("*-*/README.md"):
        for name, text in _RELEASE.findall(page.read_text(encoding="utf-8")):
            if _PRE_PROCESSING.search(text):
                lines.append(f"{page.parent.name}/{name}\n")
    if not lines:
        raise ImportFault(f"{models} is not the folder models/ of OPUS-MT-train: no README.md there names a release")
    return "".join(sorted(lines))


def read_lists(lists: Mapping[str, str]) -> dict[str, list[Offer]]:
    """The offers of each registry, whose list is an address, a file or, for opus, a folder. Raises ImportFault."""
    found = {}
    for registry, address in lists.items():
        with tempfile.TemporaryDirectory() as folder:
            if registry == "opus" and Path(address).is_dir():
                index = Path(folder, "index.txt")
                index.write_text(opus_index(Path(address)), encoding="utf-8")
                address = str(index)
            found[registry] = Source(address, report=Report(_warn)).offers(registry)
    return found


def chosen(offers: Iterable[Offer]) -> Iterator[Offer]:
    """The best offer of each pair of two named languages; of Firefox's models all, which differ in size."""
    seen = set[tuple[str | None, str | None]]()
    for offer in offers:
        pair = offer.source, offer.target
        if offer.name in LEFT_OUT or not all(tag in NAMES for tag in pair) or pair[0] == pair[1]:
            continue
        if offer.registry == "firefox" or pair not in seen:
            yield offer
        seen.add(pair)


def catalogue_text(lists: Mapping[str, list[Offer]], dated: Mapping[str, str]) -> str:
    """The content of catalogue.json: sorted, with a line for each model."""
    registries = {}
    for registry in (name for name in LISTS if name in lists):
        publisher, licence, page = PUBLISHERS[registry]
        facts = {"publisher": publisher, "licence": licence, "page": page, "address": LISTS[registry][0]}
        addresses = [LISTS[registry][0], *(file.url for offer in lists[registry] for file in offer.files)]
        hosts = dict.fromkeys(urlsplit(address).hostname for address in reversed(addresses))  # None: of a local list
        registries[registry] = facts | {"host": next(filter(None, hosts)), "dated": dated[registry]}
    models = (_row(offer) for registry in registries for offer in chosen(lists[registry]))
    lines = [json.dumps(row, ensure_ascii=False) for row in models]
    heads = [f"{json.dumps(name)}: {json.dumps(facts, ensure_ascii=False)}" for name, facts in registries.items()]
    return f'{{"format": 1,\n "registries": {{\n{_joined(heads)}}},\n "models": [\n{_joined(lines)}\n]}}\n'


def _joined(lines: Iterable[str]) -> str:
    return ",\n".join(f"  {line}" for line in lines)


def _row(offer: Offer) -> dict[str, Any]:
    """What the catalogue says of a model; what is not known is left out."""
    weights = offer.files[0]
    facts = {
        "model": offer.name,
        "source": offer.source,
        "target": offer.target,
        "bytes": offer.download_bytes,
        "weights_bytes": offer.size,
        "sha256": weights.sha256,
        "is_released": None if offer.registry != "firefox" or offer.status.startswith("Release") else False,
        "page": offer.page if offer.page != _PAGES[offer.registry] else None,
        "figures": [dataclasses.asdict(figure) for figure in _shown(offer.figures)] or None,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _shown(figures: Sequence[Figure]) -> list[Figure]:
    """BLEU, or spBLEU where there is none, and COMET-22."""
    metrics = {figure.metric for figure in figures}
    wanted = ("BLEU" if "BLEU" in metrics else "spBLEU", "COMET-22")
    return [figure for figure in figures if figure.metric in wanted]


def _date_of(registry: str, address: str, given: Mapping[str, str]) -> str:
    """The date of a list: the one given, or what Mozilla's says of itself, or today for one that is asked for now."""
    if registry in given:
        return datetime.date.fromisoformat(given[registry]).isoformat()
    if urlsplit(address).scheme in ("http", "https"):
        return datetime.datetime.now(datetime.UTC).date().isoformat()
    if registry == "firefox":
        try:
            stated = json.loads(Path(address).read_bytes())["generated"]
            return datetime.datetime.fromisoformat(stated).date().isoformat()
        except (ValueError, KeyError, TypeError):
            pass
    raise ValueError(f"say of which date {address} is: --dated {registry}=2026-01-31")


def _warn(text: str) -> None:
    print(text, file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the catalogue. Raises ImportFault, DownloadError, ValueError and OSError."""
    parser = argparse.ArgumentParser(prog="python -m training.importing.catalogue", description=_DESCRIPTION)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the catalogue to write")
    for registry in LISTS:
        parser.add_argument(f"--{registry}", metavar="URL|FILE", help=f"the list of {registry}")
    parser.add_argument("--dated", nargs="*", default=[], metavar="REGISTRY=DATE", help="the date of a list in a file")
    options = parser.parse_args(arguments)
    addresses = {registry: getattr(options, registry) for registry in LISTS if getattr(options, registry)}
    if not addresses:
        parser.error(f"give a list: {', '.join(f'--{registry}' for registry in LISTS)}")
    given = dict(text.partition("=")[::2] for text in options.dated)
    dated = {registry: _date_of(registry, address, given) for registry, address in addresses.items()}
    text = catalogue_text(read_lists(addresses), dated)
    write_atomically(options.out, text.encode())
    _warn(f"{options.out}: {len(text.splitlines())} lines, {len(text.encode()):,} bytes")


if __name__ == "__main__":
    main()
