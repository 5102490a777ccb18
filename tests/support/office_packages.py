"""Packages of parts in tests: what is in them, what changed between two of them, and hostile ones."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence

from lxml import etree

LAUGHS = "<!DOCTYPE a [<!ENTITY a0 'ha'>{}]>".format(
    "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 12))
)
"""Entities that expand to gigabytes."""


def parts_of(content: bytes) -> dict[str, bytes]:
    """The parts by name, in order; every checksum is verified."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def changed_parts(before: bytes, after: bytes) -> set[str]:
    """The names of the parts that differ. The list of parts, with their times and compressions, must not."""
    with zipfile.ZipFile(io.BytesIO(before)) as old, zipfile.ZipFile(io.BytesIO(after)) as new:
        listed = [
            [(info.filename, info.date_time, info.compress_type, info.external_attr) for info in archive.infolist()]
            for archive in (old, new)
        ]
        assert listed[0] == listed[1]
        return {name for name in old.namelist() if old.read(name) != new.read(name)}


def canonical(part: bytes, change: Callable[[str], str] = str, names: Sequence[str] = ()) -> bytes:
    """The part as canonical XML, with the texts of elements with these names changed."""
    root = etree.fromstring(part)
    for element in root.iter(etree.Element):
        if etree.QName(element).localname in names and element.text:
            element.text = change(element.text)
    written: bytes = etree.tostring(root, method="c14n2")
    return written


def with_parts(content: bytes, parts: Mapping[str, bytes | str | None]) -> bytes:
    """The package with parts replaced, added at its end or, for None, left out."""
    packed, old = io.BytesIO(), parts_of(content)
    with zipfile.ZipFile(packed, "w") as archive:
        for name in {**old, **parts}:
            new = parts[name] if name in parts else old[name]
            compression = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            if new is not None:
                archive.writestr(zipfile.ZipInfo(name, (2020, 2, 2, 2, 2, 2)), new, compression)
    return packed.getvalue()


def with_claimed_size(content: bytes, name: str, size: int) -> bytes:
    """The package, whose directory claims that a part has that size unpacked."""
    found = bytearray(content)
    at = found.rindex(b"PK\1\2", 0, found.rindex(name.encode()))
    found[at + 24 : at + 28] = struct.pack("<I", size)
    return bytes(found)


def nested_zip(levels: int) -> bytes:
    """A zip file in a zip file, and so on, around megabytes of nothing."""
    content = bytes(8 << 20)
    for _ in range(levels):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("inner.zip", content)
        content = packed.getvalue()
    return content
