"""Downloads files: resumes where it was interrupted, and puts a file in place only when complete and verified."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from pathlib import Path

from tqdm import tqdm

from training.corpora.text_file import CorpusError
from training.file_lock import alone_making

_PIECE = 1 << 20
_TIMEOUT_S = 60


def download(address: str, path: Path, sha256: str | None = None) -> None:
    """Makes `path` the file at `address`, http or https; an existing file is only compared with `sha256`, if given.

    A partial download is kept beside it, and resumed if the server says that its file has not changed. Raises
    CorpusError, which says whether to try again, and BusyError if another command is downloading it.
    """
    if not path.exists():
        with alone_making(path):
            if not path.exists():  # otherwise another command has just made it
                return _download(address, path, sha256)
    if sha256 is not None and (found := _sha256(path)) != sha256:  # it may be right: other commands use it
        raise CorpusError(address, f"{path}, which came before, has the SHA-256 {found}, not {sha256}")


def _download(address: str, path: Path, sha256: str | None) -> None:
    partial = path.with_name(f".{path.name}.part")
    try:
        _fetch(address, partial, path.with_name(f".{path.name}.mark"))
    except urllib.error.HTTPError as error:
        error.close()
        raise CorpusError(address, f"the server answered {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise CorpusError(address, f"cannot be downloaded ({reason}); run the same command again to resume") from None
    if sha256 is not None and (found := _sha256(partial)) != sha256:
        partial.unlink()
        path.with_name(f".{path.name}.mark").unlink(missing_ok=True)
        raise CorpusError(address, f"the file that came has the SHA-256 {found}, not {sha256}; it was thrown away")
    os.replace(partial, path)
    path.with_name(f".{path.name}.mark").unlink(missing_ok=True)


def _fetch(address: str, partial: Path, mark: Path) -> None:
    """Appends the missing part to `partial`; `mark` records how the server identifies the file's version."""
    have = partial.stat().st_size if partial.exists() and mark.exists() else 0
    request = urllib.request.Request(address, headers={"User-Agent": "interlinear", "Accept-Encoding": "identity"})
    if have:
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", mark.read_text(encoding="latin-1"))
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
            _save(response, partial, mark, have)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        error.close()
        partial.unlink()
        mark.unlink()
        _fetch(address, partial, mark)


def _save(response: http.client.HTTPResponse, partial: Path, mark: Path, have: int) -> None:
    goes_on = response.status == http.HTTPStatus.PARTIAL_CONTENT
    if goes_on and not (response.headers.get("Content-Range") or "").startswith(f"bytes {have}-"):
        raise OSError("the server sent a different range than requested")
    known_by = response.headers.get("ETag") or response.headers.get("Last-Modified")
    if not goes_on:
        mark.unlink(missing_ok=True)
        partial.unlink(missing_ok=True)
        if known_by and not known_by.startswith("W/"):
            mark.write_text(known_by, encoding="latin-1")
    left = response.headers.get("Content-Length")
    whole = (have if goes_on else 0) + int(left) if left and left.isdecimal() else None
    bar = tqdm(total=whole, initial=have if goes_on else 0, unit="B", unit_scale=True, leave=False, disable=None)
    with open(partial, "ab") as file, bar:
        while piece := response.read1(_PIECE):
            file.write(piece)
            bar.update(len(piece))
        os.fsync(file.fileno())  # otherwise a power cut may keep the name without its content
    if whole is not None and partial.stat().st_size != whole:
        raise OSError(f"cut off after {partial.stat().st_size:,} of {whole:,} bytes")


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
