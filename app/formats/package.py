"""A package of parts: a zip file that is read within limits, and written back with some parts replaced."""

from __future__ import annotations

import copy
import io
import posixpath
import re
import shutil
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import unquote

from app.formats.document import UnreadableDocument, check_count
from app.formats.xml_parts import Element, local_name, parse_xml

MAX_UNPACKED_BYTES, _MAX_EXPANSION = 256 << 20, 1_100
"""All parts together, unpacked, and how many times as large they may be; deflate reaches 1,032. Parts that are not text
are copied one by one, never held together."""
_MAX_PARTS = 10_000
MAX_TEXT_BYTES = 48 << 20
"""For parsed parts, whose trees take ten times as much memory."""
MAX_TAGS = 1_500_000
"""For parsed parts: an element of four bytes takes up to 700 in a paragraph, and 9 us. A sheet of 375,000 numbers has
as many."""
_SMALL_BYTES = 4_096
_MIN_TEXT_BYTES, _MAX_TEXT_EXPANSION = 128 << 10, 160
_MIN_TAGS, _MAX_TAGS_PER_BYTE = 8_000, 12
_MIN_TEXTS, _MAX_TEXTS_PER_BYTE = 2_000, 2
"""Bytes of text, tags, and texts to translate that a file of 4 KB may have, and how many more for each further byte.
Files of office programs have 20 bytes of text and two tags for each of theirs; tables of a few different answers have
90."""
_CHUNK_BYTES = 1 << 16
"""Chunk size in bytes for parts that are only copied."""
_COMPRESSIONS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
"""ECMA-376, part 2, OpenDocument and EPUB allow no others; zipfile would unpack others without limit: a kilobyte of
bzip2 to gigabytes."""
_OLE_SIGNATURE = b"\xd0\xcf\x11\xe0"
_ENTRY_SIGNATURE = b"PK\1\2"
_OUTSIDE = re.compile(r"[\\/]|[A-Za-z]:|(?:.*[\\/])?\.\.(?:[\\/]|\Z)", re.DOTALL)
"""A part's name that would leave the folder in which a program unpacks the file."""
_NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]{1,1000}")


class Relationship(NamedTuple):
    """A reference from one part to another (ECMA-376, part 2, chapter 6.5)."""

    id: str
    kind: str
    """The last segment of its type."""
    target: str
    """The name of the other part."""


class Package:
    """The zip file in `content`, which a file with this `suffix` is. Raises UnreadableDocument."""

    def __init__(
        self,
        content: bytes,
        suffix: str,
        max_unpacked_bytes: int = MAX_UNPACKED_BYTES,
        max_text_bytes: int = MAX_TEXT_BYTES,
    ) -> None:
        self.suffix = suffix
        further = max(0, len(content) - _SMALL_BYTES)
        self._max_scanned_bytes = _MIN_TEXT_BYTES + _MAX_TEXT_EXPANSION * further
        self._max_text_bytes = min(max_text_bytes, self._max_scanned_bytes)
        self._max_tags = min(MAX_TAGS, _MIN_TAGS + _MAX_TAGS_PER_BYTE * further)
        self._max_texts = int(_MIN_TEXTS + _MAX_TEXTS_PER_BYTE * further)
        self._scanned = Counter[re.Pattern[bytes]]()
        if content.startswith(_OLE_SIGNATURE):
            raise UnreadableDocument(
                f"The file is password-protected, or from an Office version before 2007; save it as {suffix}."
            )
        if content.count(_ENTRY_SIGNATURE) > 2 * _MAX_PARTS:  # zipfile would take seconds to list them
            raise UnreadableDocument(f"The file has over {_MAX_PARTS} parts.")
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(content))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
            raise UnreadableDocument(f"The file is not {suffix}: {error}.") from None
        self.parts = {info.filename: info for info in self._archive.infolist()}
        repeated = Counter(info.filename for info in self._archive.infolist()).most_common(1)
        if repeated and repeated[0][1] > 1:
            raise UnreadableDocument(f"The file has two parts with the same name, {repeated[0][0][:100]!a}.")
        if outside := next(filter(_OUTSIDE.match, self.parts), None):
            raise UnreadableDocument(f"The part {outside[:100]!a} has a name that leads out of the file.")
        if unfit := next((name for name in self.parts if not _NAME.fullmatch(name)), None):
            raise UnreadableDocument(f"The part {unfit[:100]!a} has a name that no part can have.")
        if unsupported := next((info for info in self.parts.values() if info.compress_type not in _COMPRESSIONS), None):
            raise UnreadableDocument(
                f"The part {unsupported.filename} cannot be unpacked: {suffix} does not allow its compression."
            )
        unpacked = sum(info.file_size for info in self.parts.values())
        if len(self.parts) > _MAX_PARTS or unpacked > min(max_unpacked_bytes, _MAX_EXPANSION * len(content)):
            raise UnreadableDocument(
                f"Unpacked, the file is over {max_unpacked_bytes >> 20} MiB or {_MAX_PARTS} parts, or"
                f" {_MAX_EXPANSION} times as large."
            )
        self._text_bytes = self._tags = 0
        self._is_checked = False

    def read(self, name: str) -> bytes:
        """The part with this name, for parsing. Raises UnreadableDocument."""
        if name not in self.parts:
            raise UnreadableDocument(f"The file is not {self.suffix}: it has no part {name[:100]!a}.")
        self._text_bytes += self.parts[name].file_size
        _check_text(self._text_bytes, self._max_text_bytes, name)
        info = self.parts[name]
        with _unpacking_errors(info), self._archive.open(info) as part:
            # At most the size in the directory. `archive.read` returns no more either, but unpacks up to 2 GiB first.
            content = part.read(info.file_size)
        self._tags += content.count(b"<")
        if self._tags > self._max_tags:
            raise UnreadableDocument(
                f"The text of the file has over {self._max_tags} tags with its part {name}: too many for its size."
            )
        return content

    def check_texts(self, count: int) -> None:
        """Raises UnreadableDocument if these are too many texts for the file."""
        check_count(count)
        if count > self._max_texts:
            raise UnreadableDocument(f"The file has over {self._max_texts} texts to translate: too many for its size.")

    def check(self) -> None:
        """Raises UnreadableDocument if any part cannot be unpacked; this reads the parts that are only copied."""
        if self._is_checked:
            return
        for info in self.parts.values():
            with _unpacking_errors(info), self._archive.open(info) as part:
                while part.read(_CHUNK_BYTES):
                    pass
        self._is_checked = True

    def parse(self, name: str) -> Element:
        """The root of the part with this name. Raises UnreadableDocument."""
        return parse_xml(self.read(name), f"The part {name}")

    def holds(self, name: str, pattern: re.Pattern[bytes]) -> bool:
        """Whether the part has a match of at most 1,024 bytes, without holding it. The part must have been
        `check`ed."""
        return next(self.matches(name, pattern), None) is not None

    def matches(self, name: str, pattern: re.Pattern[bytes]) -> Iterator[bytes]:
        """The matches of at most 1,024 bytes in a part, some of them twice. The part must have been `check`ed. Raises
        UnreadableDocument if the parts searched for a pattern are too large for the file."""
        self._scanned[pattern] += self.parts[name].file_size
        _check_text(self._scanned[pattern], self._max_scanned_bytes, name)
        with self._archive.open(self.parts[name]) as part:
            before = b""
            while chunk := part.read(_CHUNK_BYTES):
                chunk = before + chunk
                yield from (found[0] for found in pattern.finditer(chunk))
                before = chunk[-1_024:]

    def relationships(self, name: str, kinds: Container[str]) -> list[Relationship]:
        """The relationships of these kinds from a part to others, in order. Raises UnreadableDocument."""
        folder, _, file = name.rpartition("/")
        listed = posixpath.join(folder, "_rels", f"{file}.rels")
        if listed not in self.parts:
            return []
        found = []
        for element in self.parse(listed):
            kind = (element.get("Type") or "").rpartition("/")[2]
            if kind in kinds and element.get("TargetMode") != "External":
                target = self.resolve(name, element.get("Target") or "")
                found.append(Relationship(element.get("Id") or "", kind, target))
        return found

    def resolve(self, name: str, reference: str) -> str:
        """The part to which `reference`, in the part with this name, refers. Raises UnreadableDocument."""
        path = unquote(reference.partition("#")[0])
        found = posixpath.normpath(posixpath.join("/", posixpath.dirname(name), path)).lstrip("/")
        if found not in self.parts:
            raise UnreadableDocument(f"The part {name} refers to {reference[:200]!a}, which the file does not have.")
        return found

    def content_types(self) -> dict[str, str]:
        """The content type of each part that has its own, in package order."""
        types = parse_xml(self.read("[Content_Types].xml"), "The list of parts")
        named = {
            (e.get("PartName") or "").lstrip("/"): e.get("ContentType") or ""
            for e in types
            if local_name(e) == "Override"
        }
        return {name: named[name] for name in self.parts if name in named}

    def with_parts(self, parts: Mapping[str, bytes]) -> bytes:
        """The package with these parts replaced. All parts must have been `check`ed."""
        package = io.BytesIO()
        with zipfile.ZipFile(package, "w") as copied:
            for name, info in self.parts.items():
                source = io.BytesIO(parts[name]) if name in parts else self._archive.open(info)
                written = copy.copy(info)
                with source, copied.open(written, "w") as part:
                    shutil.copyfileobj(source, part)
                written.external_attr = info.external_attr  # zipfile fills in permissions
        return package.getvalue()


def _check_text(size: int, limit: int, name: str) -> None:
    if size > limit:
        raise UnreadableDocument(
            f"Unpacked, the text of the file is over {limit >> 10} KiB with its part {name}: too much for its size."
        )


@contextmanager
def _unpacking_errors(info: zipfile.ZipInfo) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, struct.error, ValueError, RuntimeError, EOFError, OSError) as error:
        raise UnreadableDocument(f"The part {info.filename} cannot be unpacked: {error}.") from None
