"""Finds a model in a registry and downloads it into a folder, with a manifest of where each file comes from."""

from __future__ import annotations

import dataclasses
import datetime
import difflib
import gzip
import hashlib
import json
import os
import re
import shutil
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from model.atomic_files import naming_in_errors
from model.machine import cache_folder
from model.published import ModelName
from training.download import DownloadError, Progress, Say, download, file_sha256, megabytes
from training.file_lock import BusyError, lock_output
from training.importing.errors import ImportFault
from training.importing.model_files import MAX_TEXT_BYTES, opened_zip, read_content
from training.importing.registries import argos, firefox, huggingface, opus
from training.importing.registries.hosts import AllowedAddresses, Place
from training.importing.registries.offer import Figure, Offer, RemoteFile
from training.importing.report import Report

MANIFEST = "interlinear-download.json"
"""Says where the files of a folder come from; a download is complete once it is there."""
LISTS: dict[str, tuple[str, Callable[[bytes, str, Say], list[Offer]]]] = {
    "firefox": (firefox.ADDRESS, firefox.read_offers),
    "opus": (opus.ADDRESS, opus.read_offers),
    "argos": (argos.ADDRESS, argos.read_offers),
}
"""The registries that have one list of all their models: its address, and what reads it."""
HOSTS = {"firefox": firefox.HOSTS, "opus": opus.HOSTS, "argos": argos.HOSTS, "huggingface": huggingface.HOSTS}
"""The addresses that may be asked, by registry: see `Place.parse`."""
_ZIP_WANTED = re.compile(r".*\.(npz|bin|spm|yml|yaml|json|txt|sh|bpe)|README\.md|LICENSE", re.ASCII)
_PAUSES_S = (1, 2, 4, 8)
"""Between attempts to download the same file."""
_NEAREST = 6
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Manifest:
    """What a registry says of the downloaded model, for the model card."""

    name: str
    address: str
    """Where the weights come from."""
    page: str
    licence: str
    attribution: tuple[str, ...]
    source: str | None
    target: str | None
    figures: tuple[Figure, ...]
    downloaded: str
    """The date, in ISO 8601."""
    files: tuple[dict[str, Any], ...]
    """Name, address, size and SHA-256 of each."""

    def model_path(self, folder: Path) -> Path:
        """What the reader of the model's family takes: the folder, or its only file if that is a package."""
        packages = [file["name"] for file in self.files if file["name"].endswith((".argosmodel", ".zip"))]
        return folder / packages[0] if packages else folder


@dataclass
class _Arrivals:
    """How many bytes of an offer's files have arrived, and how many are expected."""

    offer: Offer
    report: Report
    arrived: dict[str, int] = field(default_factory=dict)
    expected: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A packed file's size is known once its server says it: the list has that of its content.
        self.expected = {file.name: file.size for file in self.offer.files if file.size and file.packing is None}
        self._report()

    def of(self, file: RemoteFile) -> Progress:
        def show(arrived: int, total: int | None) -> None:
            self.arrived[file.name] = arrived
            if total is not None:
                self.expected[file.name] = total
            self._report()

        return show

    def _report(self) -> None:
        total = sum(self.expected.values()) or None
        if len(self.expected) < len(self.offer.files):
            total = self.offer.download_bytes or total
        self.report.download(self.offer, sum(self.arrived.values()), total)


@dataclass(frozen=True)
class Source:
    """Where lists and models come from."""

    registry: str | None = None
    """A mirror's list, URL or file, in place of the registry's own."""
    offline: bool = False
    """Whether only what is in the cache is used."""
    hosts: tuple[str, ...] = ()
    """Hosts that may be asked besides the registry's own and that of `registry`."""
    downloads: Path | None = None
    """The folder of what was downloaded; by default in the cache."""
    report: Report = field(default_factory=Report)

    def find(self, name: ModelName, languages: tuple[str | None, str | None]) -> Offer:
        """The best model of that name. `languages` are those that the user gave. Raises ImportFault, DownloadError."""
        if name.registry == "huggingface":
            base = self.registry or huggingface.ADDRESS
            address = huggingface.list_address(base, name.model, name.variant)
            content, _ = self._list(name.registry, address)
            return huggingface.read_offer(content, base, name.model, languages)
        offers = self.offers(name.registry)
        found = [offer for offer in offers if offer.has_name(name.model)]
        if not found:
            raise ImportFault(f"{name.registry} has no {name.model}{_nearest(name, offers)}")
        if name.variant is None:
            return found[0]
        for offer in found:
            if offer.variant.casefold() == name.variant.casefold():
                return offer
        variants = ", ".join(offer.variant for offer in found)
        raise ImportFault(f"{name.registry}:{name.model} has no {name.variant}: there is {variants}")

    def offers(self, registry: str) -> list[Offer]:
        """All models of a registry, by pair, the best first. Raises ImportFault, DownloadError."""
        if registry not in LISTS:
            raise ImportFault(f"{registry} has no list of models: look at {huggingface.ADDRESS}, or list {_or(LISTS)}")
        address, read = LISTS[registry]
        with _saying_it_moved(registry):
            return read(*self._list(registry, self.registry or address), self.report.warn)

    def _list(self, registry: str, address: str) -> tuple[bytes, str]:
        """The content of a list, and its address. What was downloaded is kept for `offline`."""
        if urlsplit(address).scheme not in ("http", "https"):
            path = Path(address)
            if not path.is_file():
                raise ImportFault(f"{address} is neither an address, http or https, nor a file")
            return read_content(path), path.absolute().as_uri()
        kept = self.folder / "lists" / hashlib.sha256(address.encode()).hexdigest()[:16]
        if not self.offline:
            kept.parent.mkdir(parents=True, exist_ok=True)
            with _alone(kept):  # other commands read it as well
                new = kept.with_name(f"{kept.name}.new")
                new.unlink(missing_ok=True)  # that of a command that was killed
                how: dict[str, Any] = {"max_bytes": MAX_TEXT_BYTES, "pauses_s": _PAUSES_S[:2]}
                self._get(registry, address, new, progress=lambda *_: None, **how)
                os.replace(new, kept)
        elif not kept.exists():
            raise ImportFault(f"{address} is not in the cache: run the command once without --offline")
        return kept.read_bytes(), address

    @property
    def folder(self) -> Path:
        """Where downloads are kept. Raises ImportFault."""
        try:
            return self.downloads or cache_folder() / "models"
        except RuntimeError as error:
            raise ImportFault(f"no place to keep downloads ({error}): set XDG_CACHE_HOME to a folder") from None

    def retrieve(self, offer: Offer, folder: Path | None = None) -> Path:
        """The folder with the files of `offer` and their manifest: `folder`, or one in the cache.

        Files that are there stay; a download that was interrupted is resumed. Raises ImportFault, DownloadError and
        BusyError.
        """
        if folder is None:
            label = re.sub(r"[^\w.+-]", "_", f"{offer.pair}@{offer.variant[:40]}")
            folder = self.folder / offer.registry / f"{label}-{offer.digest}"
            _delete_abandoned(folder, label)
        if (folder / MANIFEST).exists():
            with suppress(BusyError, OSError), lock_output(folder):
                pass  # deletes the lock of a command that was killed
            size = sum(file.stat().st_size for file in folder.iterdir())
            self.report.download(offer, size, size)
            return folder
        if self.offline:
            raise ImportFault(f"{offer.name} is not in the cache: run the command once without --offline")
        with lock_output(folder), naming_in_errors(folder):
            if not (folder / MANIFEST).exists():  # otherwise another command has just made it
                self._download(_Arrivals(offer, self.report), folder)
        return folder

    def _download(self, arrivals: _Arrivals, folder: Path) -> None:
        offer, partial = arrivals.offer, folder.with_name(f".{folder.name}.partial")
        partial.mkdir(parents=True, exist_ok=True)
        files = [entry for file in offer.files for entry in self._fetch(arrivals, file, partial)]
        facts = {
            "format": 1,
            "name": offer.name,
            "address": offer.files[0].url,
            "page": offer.page,
            "licence": offer.licence,
            "attribution": offer.attribution,
            "source": offer.source,
            "target": offer.target,
            "figures": [dataclasses.asdict(figure) for figure in offer.figures],
            "downloaded": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "files": files,
        }
        for path in partial.iterdir():
            if path.name not in {entry["name"] for entry in files}:
                path.unlink()  # a command that was killed left it
        (partial / MANIFEST).write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        os.rename(partial, folder)

    def _fetch(self, arrivals: _Arrivals, file: RemoteFile, folder: Path) -> list[dict[str, Any]]:
        """Downloads and unpacks a file; the entries of the manifest for what came out."""
        path = folder / file.name
        if path.exists():
            arrivals.of(file)(path.stat().st_size, path.stat().st_size)
        if file.packing == "zip":
            self._transfer(arrivals, file, path, None, None)
            entries = [_entry(part, file.url) for part in _unzip(path, folder)]
            path.unlink()
            return entries
        if file.packing == "gzip":
            if not path.exists():
                packed = folder / f"{file.name}.gz"
                self._transfer(arrivals, file, packed, None, None)
                _unpack(file, packed, path)
                packed.unlink()
        else:
            self._transfer(arrivals, file, path, file.sha256, file.size)
        return [_entry(path, file.url)]

    def _transfer(
        self, arrivals: _Arrivals, file: RemoteFile, path: Path, sha256: str | None, size: int | None
    ) -> None:
        address = urlsplit(file.url)
        if address.scheme == "file":
            shutil.copyfile(unquote(address.path), path)
            arrivals.of(file)(path.stat().st_size, path.stat().st_size)
            if sha256 is not None and file_sha256(path) != sha256:
                path.unlink()
                raise ImportFault(f"{file.url} has not the SHA-256 {sha256}")
            return
        limit = file.max_bytes if file.size is None else file.size + MAX_TEXT_BYTES
        how: dict[str, Any] = {"max_bytes": limit, "pauses_s": _PAUSES_S, "progress": arrivals.of(file)}
        self._get(arrivals.offer.registry, file.url, path, sha256=sha256, size=size, **how)

    def _get(self, registry: str, url: str, path: Path, **how: Any) -> None:
        """Downloads a file of a registry, from the Hub with the user's token. Raises DownloadError and BusyError."""
        token = self._hub_token(url) if registry == "huggingface" else None
        try:
            with naming_in_errors(path):
                download(url, path, say=self.report.warn, token=token, refuse=self._addresses(registry).refuse, **how)
        except DownloadError as error:
            if registry == "huggingface" and error.status in (401, 403):
                advice = (
                    "HF_TOKEN's account may not read it" if token else "it is gated, needs HF_TOKEN, or does not exist"
                )
                raise DownloadError(url, f"{error.reason}: {advice} (docs/models.md)", error.status) from None
            raise

    def _addresses(self, registry: str) -> AllowedAddresses:
        places = map(Place.parse, (*HOSTS[registry], *self.hosts))
        return AllowedAddresses(registry, tuple(places), self.registry)

    def _hub_token(self, url: str) -> str | None:
        """HF_TOKEN, if `url` is the Hub's own and nobody on the way can read it. Raises ImportFault."""
        token = os.environ.get("HF_TOKEN", "").strip()
        if not re.fullmatch(r"[!-~]*", token):
            raise ImportFault("HF_TOKEN is no token: it has blanks or characters that are not ASCII")
        hub, asked = urlsplit(self.registry or huggingface.ADDRESS), urlsplit(url)
        is_private = asked.scheme == "https" or asked.hostname in ("localhost", "127.0.0.1", "::1")
        return token if token and is_private and asked[:2] == hub[:2] else None


def _delete_abandoned(folder: Path, label: str) -> None:
    """Deletes what an interrupted download of another version of the same model left beside `folder`."""
    abandoned = re.compile(rf"\.({re.escape(label)}-[0-9a-f]{{8}})\.partial")
    for path in folder.parent.glob(".*.partial"):
        match = abandoned.fullmatch(path.name)
        if match is not None and match[1] != folder.name:
            with suppress(BusyError), lock_output(folder.with_name(match[1])):
                shutil.rmtree(path)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Waits for other commands that write `path`, and holds its lock."""
    while True:
        try:
            with lock_output(path):
                yield
                return
        except BusyError:
            time.sleep(0.1)


@contextmanager
def _saying_it_moved(registry: str) -> Iterator[None]:
    """Adds to an error of a registry's list which setting takes its address."""
    setting = f"--registry, or for the service INTERLINEAR_REGISTRIES={registry}=URL,"
    advice = f"; if the list has moved, {setting} takes its new address"
    try:
        yield
    except ImportFault as fault:
        raise ImportFault(f"{fault}{advice}", fault.passes) from None
    except DownloadError as error:
        if error.passes:
            raise
        raise DownloadError(error.url, f"{error.reason}{advice}", error.status) from None


def _nearest(name: ModelName, offers: list[Offer]) -> str:
    """What the registry has that is like `name`, for an error message."""
    pairs = list(dict.fromkeys(offer.pair for offer in offers))
    source, _, target = name.model.casefold().partition("-")
    near = difflib.get_close_matches(name.model, pairs, _NEAREST, 0.7)
    near += [pair for pair in pairs if pair.casefold().startswith(f"{source}-")]
    near += [pair for pair in pairs if pair.casefold().endswith(f"-{target}")]
    shown = ", ".join(list(dict.fromkeys(near))[:_NEAREST])
    hint = f": it has {shown}" if shown else ""
    if {f"{source}-en", f"en-{target}"} <= set(pairs):
        hint += f". With {name.registry}:{source}-en and {name.registry}:en-{target} the service goes through English"
    return f"{hint}; `import --list {name.registry}` shows all"


def _or(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}"


def _entry(path: Path, url: str) -> dict[str, Any]:
    return {"name": path.name, "url": url, "size": path.stat().st_size, "sha256": file_sha256(path)}


def _unpack(file: RemoteFile, packed: Path, path: Path) -> None:
    """Unpacks a gzip file, and compares the content with what the registry says. A file that its server has unpacked
    already is taken as it is."""
    limit = file.max_bytes if file.size is None else file.size
    temporary = path.with_name(f".{path.name}.unpacked")
    try:
        with open(packed, "rb") as raw, open(temporary, "wb") as out:
            is_packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            if is_packed:
                with gzip.GzipFile(fileobj=raw) as content:
                    _copy(content, out, limit, file.url)
            else:
                _copy(raw, out, limit, file.url)
        found = temporary.stat().st_size, file_sha256(temporary)
        for what, expected, got in zip(("bytes", "as SHA-256"), (file.size, file.sha256), found, strict=True):
            if expected is not None and got != expected:
                raise ImportFault(f"{file.url} has {got} {what} unpacked, where its list says {expected}")
        os.replace(temporary, path)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        packed.unlink()
        raise ImportFault(f"{file.url} is damaged ({error}); it was deleted") from None
    except ImportFault as error:
        packed.unlink()
        raise ImportFault(f"{error}; it was deleted") from None
    finally:
        temporary.unlink(missing_ok=True)


def _copy(content: IO[bytes] | gzip.GzipFile, out: IO[bytes], limit: int, name: str) -> None:
    left = limit
    while chunk := content.read(min(_CHUNK_BYTES, left + 1)):
        left -= len(chunk)
        if left < 0:
            raise ImportFault(f"{name} takes more than {limit:,} bytes unpacked")
        out.write(chunk)


def _unzip(package: Path, folder: Path) -> Iterator[Path]:
    """Unpacks the files of a Marian model, all into one folder."""
    try:
        with opened_zip(package) as archive:
            taken = set[str]()
            for entry in archive.infolist():
                name = PurePosixPath(entry.filename).name
                if entry.is_dir() or name in taken or not _ZIP_WANTED.fullmatch(name) or name.startswith("."):
                    continue
                taken.add(name)
                is_text = not name.endswith((".npz", ".bin"))
                limit = MAX_TEXT_BYTES if is_text else 20 * package.stat().st_size + MAX_TEXT_BYTES
                with archive.open(entry) as content, open(folder / name, "wb") as out:
                    _copy(content, out, limit, name)
                yield folder / name
    except ImportFault as error:
        package.unlink()
        raise ImportFault(f"{package.name} {error}; it was deleted") from None


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a downloaded folder, whose files it verifies; None if there is none. Raises ImportFault."""
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        facts = json.loads(path.read_bytes())
        figures = tuple(Figure(**figure) for figure in facts["figures"])
        manifest = Manifest(
            facts["name"], facts["address"], facts["page"], facts["licence"], tuple(facts["attribution"]),
            facts["source"], facts["target"], figures, facts["downloaded"], tuple(facts["files"]),
        )  # fmt: skip
        texts = [manifest.name, manifest.address, manifest.page, manifest.licence, manifest.downloaded]
        texts += [file["name"] for file in manifest.files] + list(manifest.attribution)
        texts += [text for text in (manifest.source, manifest.target) if text is not None]
        if facts["format"] != 1 or not all(isinstance(text, str) for text in texts):
            raise ValueError
        if not all(isinstance(figure.score, int | float) for figure in figures):
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ImportFault(f"{path} is damaged: download the model again") from None
    for file in manifest.files:
        part = folder / Path(file["name"]).name
        if not part.is_file():
            raise ImportFault(f"{part} is missing: download the model again")
        if file_sha256(part) != file.get("sha256"):
            raise ImportFault(f"{part} is not the file that was downloaded: download the model again")
    return manifest


def offer_table(offers: list[Offer]) -> Iterator[str]:
    """A line for each model: its name, size, licence and published figures."""
    rows = [("model", "version", "MB", "licence", "published figures", "status")]
    for offer in offers:
        figures = ", ".join(f"{figure.metric} {_shown(figure)}" for figure in offer.figures)
        if figures:
            figures += f" ({offer.figures[0].dataset})"
        size = "" if offer.size is None else megabytes(offer.size).removesuffix(" MB")
        licence = offer.licence.partition(".")[0] if offer.licence.startswith("Not stated") else offer.licence
        rows.append((f"{offer.registry}:{offer.pair}", offer.variant, size, licence, figures, offer.status))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _shown(figure: Figure) -> str:
    return f"{figure.score:.4f}" if figure.metric.startswith("COMET") else f"{figure.score:.1f}"
