"""Resolves the sources of `--pairs`, such as archives and downloads, to text files, cached where necessary.

TMX is read in `training.corpora.tmx`, text files in `training.corpora.corpus`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import lzma
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

from model.atomic_files import replacing_file
from model.languages import TWO_LETTERS, language_alone
from model.machine import cache_folder
from training.corpora.corpus import WEIGHT_SUFFIX, CorpusSpec, parse_spec, parse_weight
from training.corpora.text_file import CorpusError
from training.corpora.tmx import is_tmx, tmx_lines
from training.download import DownloadError, download
from training.file_lock import lock_output

_URL = re.compile(r"https?://", re.IGNORECASE)
_MTDATA_ID = re.compile(r"mtdata:(\w[\w.]*(?:-[\w.]+){2}-(\w+)-(\w+))", re.ASCII)
_CHECKSUM = re.compile(r"sha256=([0-9a-fA-F]{64})")
_TAR = re.compile(r"\.(?:tar|tgz|tar\.(?:gz|xz|bz2))$", re.IGNORECASE)
_MACOS_METADATA = re.compile(r"(?:^|/)(?:__MACOSX/|\._)")
"""Files that macOS's Finder adds to archives."""
_ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    tarfile.TarError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    RuntimeError,
    NotImplementedError,
)


def resolve(text: str, source: str, target: str) -> CorpusSpec:
    """The text files that `text` names, downloaded and unpacked if necessary; `source` and `target` are language codes.

    `text` is one or two files as for `training.corpora.corpus.parse_spec`; an archive (zip or tar) with one file per
    language, or one file of both; a TMX file; the URL of any of these, with `#sha256=...` to verify it; or `mtdata:ID`.
    Each may have a weight. Raises CorpusError.
    """
    name, weight = text, 1.0
    remote = is_remote(text)
    if remote and (match := WEIGHT_SUFFIX.fullmatch(text)) and (urlsplit(match[1]).path or not _URL.match(text)):
        name, weight = match[1], parse_weight(match[1], match[2])
    try:
        text.encode()
    except UnicodeEncodeError:
        raise CorpusError(text, "its name is not UTF-8 and cannot be recorded: rename it") from None
    if text.startswith("mtdata:"):
        return CorpusSpec((_from_mtdata(name),), weight, is_utf8=True)
    spec = CorpusSpec((_downloaded(name),), weight) if remote else parse_spec(text)
    if len(spec.paths) == 2:
        return spec
    found = _unpack(spec.paths[0], source, target)
    if len(found) == 1 and found[0].is_file() and is_tmx(found[0]):
        folder = found[0].parent if found != spec.paths else _cache_entry_of(found[0], source, target)
        lines = partial(tmx_lines, found[0], source, target)
        made = _write_once(folder / f"{found[0].name}.tsv", lambda file: file.writelines(lines()))
        return CorpusSpec((made,), spec.weight, source_first=True, is_utf8=True)
    return CorpusSpec(found, spec.weight, source_first=len(found) == 2)


def is_remote(text: str) -> bool:
    """Whether `text` is a URL or an mtdata ID, which is never relative to a folder."""
    return bool(_URL.match(text)) or text.startswith("mtdata:")


def _downloaded(address: str) -> Path:
    parts = urlsplit(address)
    given = _CHECKSUM.fullmatch(parts.fragment)
    if parts.fragment and not given:
        raise CorpusError(address, "expected sha256= and 64 hexadecimal digits after the #")
    if parts.username or parts.password:
        raise CorpusError(parts.hostname or "", "URLs with passwords are refused, since URLs are recorded")
    name = re.sub(r"[^\w.-]", "_", unquote(parts.path).rsplit("/", 1)[-1]).lstrip(".") or "pairs"
    path = _cache_entry(parts._replace(fragment="").geturl()) / name
    try:
        download(parts._replace(fragment="").geturl(), path, given[1].lower() if given else None)
    except DownloadError as error:
        raise CorpusError(error.url, error.reason) from None
    return path


def _cache_entry(key: str) -> Path:
    return cache_folder() / hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()[:16]


def _from_mtdata(name: str) -> Path:
    """Runs mtdata's command line, which prints the pairs of a data set."""
    match = _MTDATA_ID.fullmatch(name)
    if not match:
        raise CorpusError(
            name, "expected mtdata:GROUP-NAME-VERSION-LANGUAGE-LANGUAGE, as `mtdata list -id` prints them"
        )
    path = _cache_entry(name) / f"{match[1]}.tsv"
    if not path.exists() and importlib.util.find_spec("mtdata") is None:
        raise CorpusError(name, "mtdata is not installed: pip install mtdata")

    def write(file: IO[bytes]) -> None:
        if match[2] in TWO_LETTERS and match[3] in TWO_LETTERS:
            file.write(f"{TWO_LETTERS[match[2]]}\t{TWO_LETTERS[match[3]]}\n".encode())
            file.flush()
        command = [sys.executable, "-m", "mtdata", "echo", match[1]]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.PIPE, check=False)
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines() or ["it gave no reason"]
            why = "it has no such data set" if said[-1] == "AssertionError" else said[-1][:300]
            raise CorpusError(name, f"mtdata failed: {why}")

    return _write_once(path, write)


def _unpack(path: Path, source: str, target: str) -> tuple[Path, ...]:
    """Unpacks the archive `path`, and returns its files; or `path` itself if it is not an archive."""
    if not path.is_file():
        return (path,)
    folder = _cache_entry_of(path, source, target)
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                sizes = {info.filename: info.file_size for info in archive.infolist() if not info.is_dir()}
                return _extract(path, folder, sizes, archive.open, (source, target))
        if _TAR.search(path.name):
            with tarfile.open(path) as tar:
                members = {member.name: member for member in tar if member.isreg()}
                sizes = {name: member.size for name, member in members.items()}
                return _extract(path, folder, sizes, lambda name: _open_member(tar, members[name]), (source, target))
    except _ARCHIVE_ERRORS as error:
        raise CorpusError(path, f"the archive cannot be read: {error}") from None
    return (path,)


def _cache_entry_of(path: Path, source: str, target: str) -> Path:
    """The cache folder for what is made of the file `path` in its current version."""
    return _cache_entry(f"{path.resolve()} {path.stat().st_size} {path.stat().st_mtime_ns} {source} {target}")


def _open_member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    file = archive.extractfile(member)
    assert file is not None  # a regular file
    return file


def _extract(
    path: Path, folder: Path, sizes: dict[str, int], opened: Callable[[str], IO[bytes]], languages: tuple[str, str]
) -> tuple[Path, ...]:
    """Copies the files with the pairs out of an archive, never to a path that the archive chooses."""
    if "xl/workbook.xml" in sizes:
        raise CorpusError(path, "this is a spreadsheet; save it as tab-separated text")
    names = _choose_members(path, list(sizes), languages)
    copies = [folder / re.sub(r"[^\w.-]", "_", name.rsplit("/", 1)[-1]).lstrip(".") for name in names]
    missing = sum(size for size, copy in zip(map(sizes.__getitem__, names), copies, strict=True) if not copy.exists())
    folder.mkdir(parents=True, exist_ok=True)
    if missing > shutil.disk_usage(folder).free:
        raise CorpusError(path, f"unpacked, it takes {missing / 1e9:.1f} GB, and {folder} has less")

    def copy_of(name: str) -> Callable[[IO[bytes]], None]:
        def write(file: IO[bytes]) -> None:
            with opened(name) as packed:
                shutil.copyfileobj(packed, file, 1 << 20)

        return write

    return tuple(_write_once(copy, copy_of(name)) for name, copy in zip(names, copies, strict=True))


def _choose_members(path: Path, names: list[str], languages: tuple[str, str]) -> list[str]:
    """Two names that differ in the language suffix, such as `x.en` and `x.fr`, or the only TSV or TMX file."""
    names = [name for name in names if not _MACOS_METADATA.search(name)]
    sides = [
        {name[: -len(end)]: name for end in reversed(_language_suffixes(code)) for name in names if name.endswith(end)}
        for code in languages
    ]
    both = [[sides[0][stem], sides[1][stem]] for stem in sides[0] if stem in sides[1]]
    texts = [[name] for name in names if re.search(r"\.(?:tsv|tmx)(?:\.gz|\.xz)?$", name)]
    if len(found := both or texts) == 1:
        return found[0]
    what = "several corpora" if found else f"no files x.{languages[0]} and x.{languages[1]}, no .tsv and no .tmx"
    shown = ", ".join(sorted([name for pair in found for name in pair] or names)[:6])
    raise CorpusError(path, f"it contains {what} ({shown}); unpack it and name the files")


def _language_suffixes(code: str) -> list[str]:
    """Suffixes of file names in a language, the most specific first."""
    return list(dict.fromkeys([f".{code}", f".{code.replace('-', '_')}", f".{language_alone(code)}"]))


def _write_once(path: Path, write: Callable[[IO[bytes]], None]) -> Path:
    """Writes `path` atomically if it does not exist, and returns it."""
    if not path.exists():
        with lock_output(path), replacing_file(path) as file:
            write(file)
    return path
