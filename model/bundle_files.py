"""The files of a bundle, which is a folder: reads them whole and verifies their checksums and the format's version.

What they contain is verified in `model.bundle`.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from model.config import LATER_FIELDS
from model.safetensors_format import Content
from model.weight_shapes import ALIGNMENT_HEAD
from model.weight_storage import is_int8

T = TypeVar("T")
CONFIG, WEIGHTS, VOCABULARY, SUMS, CARD = (
    "config.json",
    "model.safetensors",
    "sentencepiece.model",
    "SHA256SUMS",
    "README.md",
)
TARGET_VOCABULARY = "sentencepiece.target.model"
"""The target's vocabulary, if it is not that of the source. The bundle has it if its checksum is in SHA256SUMS."""
ALIGNMENT = "alignment.safetensors"
"""The weights of the alignment head. The bundle has it if its checksum is in SHA256SUMS. In a file of its own it can be
made again, or left out, while the other weights, and by them the model's name, stay."""
LATER_SECTIONS = ("directions", "decoding", "text")
"""Sections of config.json that the first version did not have."""


class BundleError(ValueError):
    """A bundle cannot be read or written; one line says why."""


def format_version(config: Mapping[str, Any], files: Mapping[str, Content]) -> int:
    """The version of the format of a bundle with this config.json and these files by name. The header of the weights is
    enough.

    What version 1 did not have makes it 2, so that readers of version 1 refuse the bundle.
    """
    architecture = config.get("architecture")
    fields = architecture if isinstance(architecture, dict) else {}
    later = (
        is_int8(files[WEIGHTS])
        or TARGET_VOCABULARY in files
        or any(name in config for name in LATER_SECTIONS)
        or fields.get("positions") == "marian"
        or any(fields.get(name, default) != default for name, default in LATER_FIELDS.items())
    )
    return 2 if later else 1


def file_of(weight: str) -> str:
    """The file of a bundle that has this weight."""
    return ALIGNMENT if weight.startswith(f"{ALIGNMENT_HEAD}.") else WEIGHTS


def read_bundle(folder: Path, mapped: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """The configuration and the files of a bundle, with verified versions and checksums. Raises BundleError.

    `mapped`: maps the weights from their file instead of reading them. They are writable, and the file does not change.
    If it shrinks meanwhile, the process is killed.
    """
    return _read_whole(folder, partial(_read, mapped=mapped))


def read_file(folder: Path, name: str) -> bytes:
    """The content of one file of a bundle. Raises BundleError."""
    return _read_whole(folder, partial(_read_file, name=name))


def _read_whole(folder: Path, read: Callable[[Path, int], T]) -> T:
    """The result of `read`, called with a folder and its descriptor. If the folder is swapped meanwhile, reads the new
    one."""
    while True:
        with _opened(folder) as descriptor:
            try:
                return read(folder, descriptor)
            except BundleError:
                # An open folder keeps its inode number even when deleted; otherwise the next folder could get the same
                # one.
                if _is_at(folder, descriptor):
                    raise


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        raise BundleError(f"{folder}: bundle folder not found") from None
    except OSError as error:
        raise BundleError(f"{folder} cannot be read ({error.strerror})") from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_at(folder: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(folder.stat(), os.fstat(descriptor))
    except OSError:
        return False


def _read_file(folder: Path, descriptor: int, name: str) -> bytes:
    return bytes(_read_or_map(folder, descriptor, name, False))


def _read_or_map(folder: Path, descriptor: int, name: str, mapped: bool) -> bytes | mmap.mmap:
    try:
        with open(name, "rb", opener=partial(os.open, dir_fd=descriptor)) as file:
            if mapped and os.fstat(file.fileno()).st_size:  # an empty file cannot be mapped
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            return file.read()
    except OSError as error:  # a failing disk does not say which file it was
        raise BundleError(f"{folder}: {name} cannot be read ({error.strerror})") from None


def _read(folder: Path, descriptor: int, mapped: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    sums = _read_file(folder, descriptor, SUMS)
    expected = checksums(sums)
    names = [CONFIG, VOCABULARY, *(name for name in (TARGET_VOCABULARY, ALIGNMENT) if name in expected), WEIGHTS]
    files: dict[str, Any] = {SUMS: sums}
    files |= {name: _read_or_map(folder, descriptor, name, mapped and name == WEIGHTS) for name in names}
    for name in names:
        if hashlib.sha256(files[name]).hexdigest() != expected.get(name):
            raise BundleError(f"{folder}: {name} does not match its checksum")
    config = _parsed(folder, files[CONFIG])
    found = config.get("format_version")
    readable = format_version(config, files)
    if type(found) is not int or found != readable:
        raise BundleError(f"{folder}: bundle format {found!r} is not the one this version reads ({readable})")
    return config, files


def checksums(sums: bytes) -> dict[str, str]:
    """SHA-256 by file name, from SHA256SUMS."""
    return dict(line.split("  ", 1)[::-1] for line in sums.decode(errors="replace").splitlines() if "  " in line)


def _parsed(folder: Path, content: bytes) -> dict[str, Any]:
    try:
        config = json.loads(content)
        json.dumps(config, ensure_ascii=False).encode()  # an escaped lone surrogate could not be encoded in a response
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise BundleError(f"{folder}: {CONFIG} is not a JSON object")
    return config
