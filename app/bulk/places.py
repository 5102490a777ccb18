"""Where shards are read from and written to: a folder, or a place in object storage by pyarrow.

What is written appears complete or not at all: by renaming in a folder, by finishing the upload in object storage.
"""

from __future__ import annotations

import io
import mmap
import os
import re
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from app.cli.exit_codes import UNREADABLE, WRONG_USAGE
from app.cli.offline_engine import CommandError

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://")
NEEDS_PYARROW = "needs pyarrow: pip install pyarrow"


class Place(Protocol):
    """A folder of files, named by paths with "/" relative to it. Methods raise OSError."""

    name: str
    """For messages: without passwords."""
    uri: str
    """Opens the same place in another process."""

    def files(self) -> Iterator[tuple[str, int]]:
        """Yields the path and the size of each file, hidden ones as well; nothing if the folder does not exist."""

    def is_file(self, path: str) -> bool: ...

    def open(self, path: str) -> BinaryIO:
        """A file to read and to seek in."""

    def draft(self, path: str) -> Path:
        """A new local file to write before it is published as `path`."""

    def publish(self, draft: Path, path: str) -> None:
        """Moves `draft` to `path`, whole and at once; a file that is there is replaced."""

    def create(self, path: str, content: bytes) -> None:
        """Writes a small file unless it exists. Of two runs at once, one wins; in object storage the later one."""


_DRAFT = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{32}\.partial")


class Folder:
    """A local folder; or of a single file, the folder with this file alone."""

    def __init__(self, path: Path) -> None:
        self.name, self.uri = str(path), str(path.absolute())
        self.path, self.only = (path.parent, path.name) if path.is_file() else (path, "")

    def files(self) -> Iterator[tuple[str, int]]:
        if self.only:
            yield self.only, (self.path / self.only).stat().st_size
            return
        seen = set[str]()
        for folder, folders, names in os.walk(self.path, onerror=_raise, followlinks=True):
            if (real := os.path.realpath(folder)) in seen:  # a link to a folder above it
                folders.clear()
                continue
            seen.add(real)
            for name in names:
                path = Path(folder, name)
                if path.is_file():  # no pipe, no broken link
                    yield path.relative_to(self.path).as_posix(), path.stat().st_size

    def is_file(self, path: str) -> bool:
        return (self.path / path).is_file()

    def open(self, path: str) -> BinaryIO:
        return open(self.path / path, "rb")

    def draft(self, path: str) -> Path:
        final = self.path / path
        final.parent.mkdir(parents=True, exist_ok=True)
        return final.with_name(f".{final.name}.{uuid.uuid4().hex}.partial")

    def publish(self, draft: Path, path: str) -> None:
        final = self.path / path
        with open(draft, "rb") as file:
            os.fsync(file.fileno())  # otherwise a power cut may keep the new name without its content
        try:
            os.replace(draft, final)
        except FileNotFoundError:
            if not final.is_file():  # else another run was faster, and deleted our draft
                raise

    def drop_drafts(self) -> None:
        """Deletes what killed runs left of files that are finished now."""
        for path, _ in list(self.files()):
            draft = self.path / path
            if (named := _DRAFT.fullmatch(draft.name)) and draft.with_name(named["name"]).is_file():
                draft.unlink(missing_ok=True)

    def create(self, path: str, content: bytes) -> None:
        draft = self.draft(path)
        try:
            draft.write_bytes(content)
            with suppress(FileExistsError):
                os.link(draft, self.path / path)
        except PermissionError:  # a file system without links
            os.replace(draft, self.path / path)
        finally:
            draft.unlink(missing_ok=True)


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


class ObjectStorage:
    """A place by pyarrow.fs, such as s3://bucket/folder, gs:// or hdfs://."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.name = re.sub(r"//[^/@]*@", "//", uri.partition("?")[0])
        try:
            import pyarrow as pa
            from pyarrow import fs
        except ImportError:
            raise CommandError(WRONG_USAGE, f"{self.name} {NEEDS_PYARROW}") from None
        self._arrow, self._fs = pa, fs
        try:
            self.system, path = fs.FileSystem.from_uri(uri)
        except (OSError, ValueError) as error:
            raise CommandError(UNREADABLE, f"{self.name} cannot be opened: {first_line(error)}") from None
        self.root = path.rstrip("/")
        self.is_single = self._type(self.root) == fs.FileType.File

    def _type(self, path: str) -> Any:
        return self.system.get_file_info(path).type

    def _at(self, path: str) -> str:
        return self.root if self.is_single else f"{self.root}/{path}"

    def files(self) -> Iterator[tuple[str, int]]:
        if self.is_single:
            yield self.root.rpartition("/")[2], self.system.get_file_info(self.root).size
            return
        selector = self._fs.FileSelector(self.root, recursive=True, allow_not_found=True)
        for info in self.system.get_file_info(selector):
            if info.is_file:
                yield info.path[len(self.root) :].lstrip("/"), info.size

    def is_file(self, path: str) -> bool:
        return bool(self._type(self._at(path)) == self._fs.FileType.File)

    def open(self, path: str) -> BinaryIO:
        return io.BufferedReader(self.system.open_input_file(self._at(path)))  # pyarrow's own files have no readline

    def draft(self, path: str) -> Path:
        descriptor, name = tempfile.mkstemp(prefix="interlinear-", suffix=".partial")
        os.close(descriptor)
        return Path(name)

    def publish(self, draft: Path, path: str) -> None:
        # In one call: when Python stops in between, pyarrow finishes the upload with what it has. Unless told not
        # to, it compresses whatever goes to a name that ends in .gz, and the draft is compressed already.
        with open(draft, "rb") as file, _mapped(file) as content:
            upload = self.system.open_output_stream(self._at(path), compression=None)
            upload.write(content)
            upload.close()
        draft.unlink()

    def create(self, path: str, content: bytes) -> None:
        write(self, path, content)


@contextmanager
def _mapped(file: BinaryIO) -> Iterator[Any]:
    """The content of `file`, which need not fit in memory."""
    if not os.fstat(file.fileno()).st_size:
        yield b""
        return
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        yield content


def place(name: str) -> Place:
    """The place of a command line's argument. Raises CommandError."""
    return ObjectStorage(name) if _SCHEME.match(name) else Folder(Path(name))


def read(place: Place, path: str) -> bytes | None:
    """The content of a small file; None if there is none. Raises OSError."""
    try:
        with place.open(path) as file:
            return file.read()
    except FileNotFoundError:
        return None


def write(place: Place, path: str, content: bytes) -> None:
    """Raises OSError."""
    with publishing(place, path) as (file, publish):
        file.write(content)
        publish()


@contextmanager
def publishing(place: Place, path: str) -> Iterator[tuple[BinaryIO, Callable[[], None]]]:
    """A file to write, and a function that closes and publishes it; without this, nothing of it remains."""
    draft = place.draft(path)
    try:
        with open(draft, "wb") as file:

            def publish() -> None:
                file.close()
                place.publish(draft, path)

            yield file, publish
    finally:
        draft.unlink(missing_ok=True)


def check_apart(source: Place, target: Place) -> None:
    """Raises CommandError if one place contains the other: translations would be translated, or texts overwritten."""
    if isinstance(source, Folder) and isinstance(target, Folder):
        one, other = (source.path / source.only).resolve(), target.path.resolve()
        is_within = one.is_relative_to(other) or other.is_relative_to(one)
    elif isinstance(source, ObjectStorage) and isinstance(target, ObjectStorage):
        one_root, other_root = f"{source.root}/", f"{target.root}/"
        is_same = source.system.type_name == target.system.type_name
        is_within = is_same and (one_root.startswith(other_root) or other_root.startswith(one_root))
    else:
        is_within = False
    if isinstance(target, Folder) and target.only:
        raise CommandError(WRONG_USAGE, f"{target.name} is a file: --out must be a folder")
    if isinstance(source, Folder) and not source.path.exists():
        raise CommandError(UNREADABLE, f"there is no {source.name}")
    if is_within:
        raise CommandError(WRONG_USAGE, f"{source.name} and {target.name} contain one another: choose another --out")


def first_line(error: BaseException) -> str:
    """An error's message on one line; pyarrow's have several."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.strip().partition("\n")[0] or type(error).__name__
