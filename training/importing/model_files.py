"""The files of a published model that are not its weights, and zips of files: none is trusted."""

from __future__ import annotations

import errno
import json
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from training.importing.errors import ImportFault

Value = str | list[str]
"""Of a mapping in YAML."""
MAX_TEXT_BYTES = 64 << 20
"""Maximum size of a vocabulary, a setting, or a list of models."""
_ZIP_ERRORS: tuple[type[Exception], ...] = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(EOFError, NotImplementedError, OSError, RuntimeError, OverflowError, ValueError),
)
"""What zipfile raises for damaged archives."""


def read_content(path: Path) -> bytes:
    """The content of a file that is no larger than a vocabulary. Raises ImportFault, which names it."""
    try:
        if (size := path.stat().st_size) > MAX_TEXT_BYTES:
            raise ImportFault(f"{path.name} has {size:,} bytes, over {MAX_TEXT_BYTES:,}")
        return path.read_bytes()
    except FileNotFoundError:
        raise ImportFault(f"has no {path.name}") from None
    except OSError as error:
        raise ImportFault(f"{path.name} cannot be read: {error.strerror}") from None


def read_text(path: Path) -> str:
    """The text of such a file. Raises ImportFault, which names it."""
    try:
        return read_content(path).decode()
    except UnicodeDecodeError as error:
        raise ImportFault(f"{path.name} is not UTF-8: {error.reason}") from None


def read_json(path: Path) -> Any:
    """The JSON in such a file. Raises ImportFault, which names it."""
    content = read_content(path)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ImportFault(f"{path.name} is not JSON: {error}") from None


def read_json_object(path: Path) -> dict[str, Any]:
    """The JSON object in such a file. Raises ImportFault, which names it."""
    if not isinstance(found := read_json(path), dict):
        raise ImportFault(f"{path.name} is not a JSON object")
    return found


def read_yaml(text: str) -> dict[str, Value]:
    """The mapping in YAML as Marian writes it, of scalars and of lists of scalars. All scalars are strings.

    Raises ImportFault for a key that comes twice, and for more of YAML, such as tags, aliases and nesting: what is
    found is never larger than the text.
    """
    found: dict[str, Value] = {}
    containers: list[Any] = []
    """The mapping, and the list that is open in it."""
    key: str | None = None
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            line = event.start_mark.line + 1
            match event:
                case yaml.ScalarEvent(anchor=None, tag=None) if len(containers) == 2:
                    containers[-1].append(event.value)
                case yaml.ScalarEvent(anchor=None, tag=None) if key is not None:
                    found[key], key = event.value, None
                case yaml.ScalarEvent(anchor=None, tag=None) if containers:
                    key = event.value
                    if key in found:
                        raise ImportFault(f"line {line} has {key!r} again")
                case yaml.SequenceStartEvent(anchor=None, tag=None) if key is not None:
                    items: list[str] = []
                    found[key], key = items, None
                    containers.append(items)
                case yaml.MappingStartEvent(anchor=None, tag=None) if not containers:
                    containers.append(found)
                case yaml.CollectionEndEvent():
                    containers.pop()
                case yaml.NodeEvent():
                    raise ImportFault(f"line {line} uses a part of YAML that is not supported")
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1} is" if mark else "it is"
        said = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ImportFault(f"{place} not YAML: {said}") from None
    return found


def check_unicode(name: str, tokens: Iterable[str]) -> None:
    """Raises ImportFault if a token of the file `name` is not Unicode, as JSON and YAML can write it."""
    try:
        "".join(tokens).encode()
    except UnicodeEncodeError:
        raise ImportFault(f"{name} has a token that is not Unicode") from None


@contextmanager
def opened_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """A zip, open for reading. Raises ImportFault, which does not name it, if it is damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except ImportFault:
        raise
    except _ZIP_ERRORS as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # such as a full disk
            raise
        raise ImportFault(f"is a damaged zip: {(str(error) or repr(error)).splitlines()[0]}") from None


def zip_names(path: Path) -> list[str]:
    """The names in a zip; none of a damaged one."""
    try:
        with opened_zip(path) as archive:
            return archive.namelist()
    except ImportFault:
        return []
