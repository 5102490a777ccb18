"""The manifest beside the output: what all its files were made with. Another command must not add to them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from app.bulk import places
from app.bulk.places import Place, first_line
from app.cli.exit_codes import UNREADABLE, WRONG_USAGE
from app.cli.offline_engine import CommandError, Prepared
from app.services.startup import decodes_in_int8, device_of
from model import __version__
from model.bundle_files import SUMS, read_file

MANIFEST, INPUTS = "_manifest.json", "_inputs.json"
Content = dict[str, Any]


def describe(prepared: Prepared, column: str) -> Content:
    """All that decides on a translation. Bundles are named by the SHA-256 of their lists of checksums."""
    command, settings = prepared.command, prepared.settings
    device = device_of(settings)
    precision = settings.precision
    if precision == "auto":
        in_int8 = decodes_in_int8(settings, prepared.needed)
        precision = "int8" if in_int8 else "float16" if device == "cuda" else "float32"
    bundles = {bundle.pair: hashlib.sha256(read_file(bundle.folder, SUMS)).hexdigest() for bundle in prepared.needed}
    return {
        "interlinear": __version__,
        "source": command.source,
        "target": command.target,
        "bundles": dict(sorted(bundles.items())),
        "device": device,
        "precision": precision,
        "glossary": _glossary_hash(prepared),
        "memory": _memory_hash(prepared),
        "format": "html" if command.markup else "text",
        "column": column,
    }


def _glossary_hash(prepared: Prepared) -> str:
    """The SHA-256 of the glossary's file, or files if it is a served one; empty without a glossary."""
    name, folder = prepared.command.glossary, prepared.settings.glossaries
    if not name:
        return ""
    served = sorted(folder.glob(f"{name}.*.tsv")) if folder and name in prepared.glossaries.names else [Path(name)]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in served)).hexdigest()


def _memory_hash(prepared: Prepared) -> str:
    """The SHA-256 of the pairs of the translation memory; empty if it has none."""
    snapshots = prepared.options.memory.snapshots if prepared.options.memory else {}
    pairs = [[*pair, *map(list, sorted(of.memory.pairs()))] for pair, of in sorted(snapshots.items())]
    if not any(of.memory.count for of in snapshots.values()):
        return ""
    return hashlib.sha256(json.dumps(pairs).encode()).hexdigest()


def claim(target: Place, wanted: Content) -> None:
    """Makes the manifest, or checks that the one that is there is the same. Raises CommandError."""
    try:
        if places.read(target, MANIFEST) is None:
            foreign = next((path for path, _ in target.files() if not path.rpartition("/")[2].startswith(".")), None)
            if foreign is not None and places.read(target, MANIFEST) is None:
                raise CommandError(UNREADABLE, f"{target.name} has no {MANIFEST} but {foreign}: choose an empty --out")
            target.create(MANIFEST, (json.dumps(wanted, indent=2) + "\n").encode())
    except OSError as error:
        raise CommandError(UNREADABLE, f"{target.name} cannot be written: {first_line(error)}") from None
    check(target, wanted)


def check(target: Place, wanted: Content) -> None:
    """Raises CommandError unless the manifest is `wanted`."""
    try:
        content = json.loads(places.read(target, MANIFEST) or b"null")
    except (OSError, ValueError) as error:
        raise CommandError(UNREADABLE, f"{target.name}/{MANIFEST} cannot be read: {first_line(error)}") from None
    if not isinstance(content, dict):
        raise CommandError(UNREADABLE, f"{target.name}/{MANIFEST} is gone or no manifest")
    check_same(content, wanted, f"{target.name} was made", ": choose another --out")


def check_same(made: Content, wanted: Content, what: str, advice: str = "") -> None:
    """Raises CommandError, which says what differs."""
    for name in dict.fromkeys([*wanted, *made]):
        if made.get(name) != wanted.get(name):
            differs = f"with {name} {_brief(made.get(name))}, not {_brief(wanted.get(name))}"
            raise CommandError(WRONG_USAGE, f"{what} {differs}{advice}")


def _brief(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}@{str(each)[:12]}" for key, each in value.items())
    return (str(value)[:12] if len(str(value)) == 64 else str(value)) or "none"


def check_inputs(target: Place, sizes: dict[str, int]) -> None:
    """Notes the sizes of the input's files. Raises CommandError if one has changed since another run: the output would
    mix translations of both. New files are welcome."""
    try:
        noted = json.loads(places.read(target, INPUTS) or b"{}")
        for path, size in sizes.items():
            if noted.get(path, size) != size:
                raise CommandError(
                    WRONG_USAGE, f"{path} had {noted[path]:,} bytes and has {size:,}: choose another --out"
                )
        if noted.keys() < {**noted, **sizes}.keys():
            places.write(target, INPUTS, json.dumps({**noted, **sizes}, ensure_ascii=False).encode("utf-8", "replace"))
    except (OSError, ValueError) as error:
        raise CommandError(UNREADABLE, f"{target.name}/{INPUTS}: {first_line(error)}") from None
