"""Files as parts of a given size that travel: compressed on all cores, with checksums.

    parts.json       what the parts are, their sizes and SHA-256, and how each file lies in them
    part-00000.bin   the compressed blocks of all files, one after another, cut at the size of a part
    ...

What to pack is decided by the callers, `training.data.packed_data` and `training.export.packed_run`.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from model.atomic_files import replacing_folder
from model.machine import usable_cores

MANIFEST = "parts.json"
FORMAT_VERSION = 1
BLOCK_BYTES = 1 << 25
"""Bytes compressed at a time, each on a core of its own. Smaller blocks would find fewer repetitions."""
_DICTIONARY_BYTES = BLOCK_BYTES
MIB = 1 << 20

Bytes = NDArray[np.uint8]


class PartsError(ValueError):
    """Parts are missing or damaged, or this is none; one line names them."""


@dataclass(frozen=True)
class PackedFile:
    """A file to pack. `record_bytes`: the size of the numbers, or rows of numbers, of which it consists; 1: text.

    `planes` compresses the first byte of each number, then the second, and so on: in weights these have little to do
    with each other. In token ids they belong together.
    """

    name: str
    content: Bytes
    record_bytes: int = 1
    planes: bool = False

    @classmethod
    def of(cls, path: Path, record_bytes: int = 1, planes: bool = False) -> PackedFile:
        """The file `path`, mapped into memory."""
        content = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.zeros(0, np.uint8)
        return cls(path.name, content, record_bytes, planes)


@dataclass(frozen=True)
class Parts:
    """Verified parts. `kind`: what they were made of; `record`: what their maker stored besides."""

    folder: Path
    kind: str
    record: dict[str, Any]
    files: list[dict[str, Any]]
    parts: list[dict[str, Any]]

    @classmethod
    def open(cls, folder: Path) -> Parts:
        """Reads the list of the parts, and all of them. Raises PartsError, which names missing and damaged ones."""
        path = folder / MANIFEST
        try:
            fields = json.loads(path.read_bytes())
            version, content = fields["format_version"], fields.get("content")
            if version != FORMAT_VERSION:
                raise PartsError(f"{path} has format {version}, not {FORMAT_VERSION}: pack it again")
            is_whole = fields["sha256"] == digest_of(content)
        except FileNotFoundError:
            raise PartsError(f"{folder} has no {MANIFEST}: it is no folder of parts, or has not all") from None
        except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError, AttributeError):
            is_whole = False
        if not is_whole:
            raise PartsError(f"{path} is damaged: fetch it again")
        found = cls(folder, **content)
        for name in (entry["name"] for entry in (*found.files, *found.parts)):
            if name in ("", "..") or Path(name).name != name:
                raise PartsError(f"{path} is damaged: {name!r} is no file's name")
        faults = [f"{part['name']} {fault}" for part in found.parts if (fault := _fault(folder / part["name"], part))]
        if faults:
            raise PartsError(f"{folder}: {', '.join(faults)}; fetch these again")
        return found

    def unpack(self, out: Path) -> None:
        """Writes the files into the folder `out`. Raises PartsError if they do not come out as they were."""
        with ThreadPoolExecutor(usable_cores()) as threads:
            for file, blocks in zip(self.files, self._packed_blocks(), strict=True):
                digest = hashlib.sha256()
                sizes = [min(BLOCK_BYTES, file["bytes"] - start) for start in range(0, file["bytes"], BLOCK_BYTES)]
                layout = repeat((file["record_bytes"], file["planes"]))
                with open(out / file["name"], "wb") as opened:
                    for content in threads.map(_decompressed, blocks, sizes, layout):
                        digest.update(content)
                        opened.write(content)
                if digest.hexdigest() != file["sha256"]:
                    raise PartsError(f"{self.folder}: {file['name']} does not come out as it was packed: pack it again")

    def _packed_blocks(self) -> Iterator[list[bytes]]:
        """The compressed blocks of each file."""
        reader = _PartReader([self.folder / part["name"] for part in self.parts])
        for file in self.files:
            yield [reader.read(size) for size in file["blocks"]]

    @property
    def packed_bytes(self) -> int:
        return sum(int(part["bytes"]) for part in self.parts)


def pack_files(out: Path, kind: str, files: Iterable[PackedFile], record: Mapping[str, Any], part_bytes: int) -> Parts:
    """Packs `files` into parts of at most `part_bytes`, in the folder `out`, which it makes or replaces."""
    listed = []
    with replacing_folder(out) as folder, ThreadPoolExecutor(usable_cores()) as threads:
        writer = _PartWriter(folder, part_bytes)
        for file in files:
            digest, sizes = hashlib.sha256(), []
            blocks = [file.content[start : start + BLOCK_BYTES] for start in range(0, len(file.content), BLOCK_BYTES)]
            for block, packed in zip(blocks, threads.map(_compressed, blocks, repeat(file)), strict=True):
                digest.update(block.data)
                writer.write(packed)
                sizes.append(len(packed))
            fields = {"name": file.name, "bytes": len(file.content), "sha256": digest.hexdigest(), "blocks": sizes}
            listed.append({**fields, "record_bytes": file.record_bytes, "planes": file.planes})
        made: dict[str, Any] = {"kind": kind, "record": dict(record), "files": listed, "parts": writer.finish()}
        manifest = {"format_version": FORMAT_VERSION, "sha256": digest_of(made), "content": made}
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return Parts(out, **made)


def digest_of(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def describe(parts: Parts) -> str:
    """How many parts there are, and of what size."""
    count = len(parts.parts)
    return f"{count} part{'s' * (count != 1)}, {parts.packed_bytes / MIB:,.1f} MiB in all, and {MANIFEST}"


def _filters(record_bytes: int, planes: bool) -> list[dict[str, int]]:
    """LZMA's, for a stream of numbers of this size: which bits of the position, and of the byte before, predict."""
    position = 0 if planes else min(record_bytes, 16).bit_length() - 1
    how = {"lc": min(3, 4 - position), "lp": position, "pb": position}  # lc and lp are 4 at most together
    return [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": _DICTIONARY_BYTES, **how}]


def _compressed(block: Bytes, file: PackedFile) -> bytes:
    whole = len(block) // file.record_bytes * file.record_bytes
    if file.planes:
        planes = block[:whole].reshape(-1, file.record_bytes).T
        block = np.concatenate([planes.ravel(), block[whole:]])
    return lzma.compress(block.tobytes(), lzma.FORMAT_RAW, filters=_filters(file.record_bytes, file.planes))


def _decompressed(packed: bytes, size: int, layout: tuple[int, bool]) -> bytes:
    """The block of `size` bytes. Raises PartsError if it is none of these."""
    record_bytes, planes = layout
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=_filters(record_bytes, planes))
    try:
        content = decompressor.decompress(packed, size)
    except lzma.LZMAError as error:
        raise PartsError(f"a block cannot be decompressed ({error}): pack it again") from None
    if not planes or len(content) != size:
        return content  # if the size is wrong, so is the digest
    whole = size // record_bytes * record_bytes
    table = np.frombuffer(content, np.uint8)
    return table[:whole].reshape(record_bytes, -1).T.tobytes() + content[whole:]


def _fault(path: Path, part: Mapping[str, Any]) -> str:
    """What is wrong with a part; empty if nothing is."""
    if not path.exists():
        return "is missing"
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    size = path.stat().st_size
    if size != part["bytes"]:
        return f"has {size:,} bytes instead of {part['bytes']:,}"
    return "" if digest == part["sha256"] else "is damaged"


class _PartWriter:
    """Writes a stream into files of at most `part_bytes`."""

    def __init__(self, folder: Path, part_bytes: int) -> None:
        self._folder, self._part_bytes = folder, part_bytes
        self._parts: list[dict[str, Any]] = []
        self._file: BinaryIO | None = None
        self._digest = hashlib.sha256()
        self._written = 0

    def write(self, content: bytes) -> None:
        rest = memoryview(content)
        while len(rest):
            if self._file is None:
                name = f"part-{len(self._parts):05d}.bin"
                self._file, self._digest, self._written = open(self._folder / name, "wb"), hashlib.sha256(), 0  # noqa: SIM115
            some = rest[: self._part_bytes - self._written]
            self._file.write(some)
            self._digest.update(some)
            self._written += len(some)
            rest = rest[len(some) :]
            if self._written == self._part_bytes:
                self.finish()

    def finish(self) -> list[dict[str, Any]]:
        """Closes the part being written. Returns the name, size and digest of each."""
        if self._file is not None:
            self._file.close()
            self._file = None
            name = f"part-{len(self._parts):05d}.bin"
            self._parts.append({"name": name, "bytes": self._written, "sha256": self._digest.hexdigest()})
        return self._parts


class _PartReader:
    """Reads parts as one stream."""

    def __init__(self, paths: list[Path]) -> None:
        self._paths = iter(paths)
        self._left = memoryview(b"")

    def read(self, size: int) -> bytes:
        pieces = []
        while size:
            if not len(self._left):
                path = next(self._paths, None)
                if path is None:
                    raise PartsError("the parts end before the files do: pack them again")
                self._left = memoryview(path.read_bytes())
            pieces.append(self._left[:size])
            self._left, size = self._left[size:], size - len(pieces[-1])
        return b"".join(pieces)
