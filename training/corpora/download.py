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
from training.file_lock import lock_output

_CHUNK_BYTES = 1 << 20
_TIMEOUT_S = 60


def download(url: str, path: Path, sha256: str | None = None) -> None:
    """Downloads `url`, http or https, to `path`; if that exists, only compares it with `sha256`, if given.

    An interrupted download is kept beside it, and resumed if the server says that the file has not changed. Raises
    CorpusError, which says whether to try again, and BusyError if another command is downloading it.
    """
    if not path.exists():
        with lock_output(path):
            if not path.exists():  # otherwise another command has just made it
                return _download(url, path, sha256)
    if sha256 is not None and (found := _sha256(path)) != sha256:  # not deleted: another command may use it
        raise CorpusError(url, f"{path}, downloaded earlier, has the SHA-256 {found}, not {sha256}")


def _download(url: str, path: Path, sha256: str | None) -> None:
    partial = path.with_name(f".{path.name}.part")
    try:
        _fetch(url, partial, path.with_name(f".{path.name}.mark"))
    except urllib.error.HTTPError as error:
        error.close()
        raise CorpusError(url, f"the server answered {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise CorpusError(url, f"cannot be downloaded ({reason}); run the same command again to resume") from None
    if sha256 is not None and (found := _sha256(partial)) != sha256:
        partial.unlink()
        path.with_name(f".{path.name}.mark").unlink(missing_ok=True)
        raise CorpusError(url, f"the downloaded file has the SHA-256 {found}, not {sha256}; it was deleted")
    os.replace(partial, path)
    path.with_name(f".{path.name}.mark").unlink(missing_ok=True)


def _fetch(url: str, partial: Path, mark: Path) -> None:
    """Appends the missing part to `partial`; `mark` records how the server identifies the file's version."""
    offset = partial.stat().st_size if partial.exists() and mark.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "interlinear", "Accept-Encoding": "identity"})
    if offset:
        request.add_header("Range", f"bytes={offset}-")
        request.add_header("If-Range", mark.read_text(encoding="latin-1"))
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
            _save(response, partial, mark, offset)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        error.close()
        partial.unlink()
        mark.unlink()
        _fetch(url, partial, mark)


def _save(response: http.client.HTTPResponse, partial: Path, mark: Path, offset: int) -> None:
    resumed = response.status == http.HTTPStatus.PARTIAL_CONTENT
    if resumed and not (response.headers.get("Content-Range") or "").startswith(f"bytes {offset}-"):
        raise OSError("the server sent a different range than requested")
    validator = response.headers.get("ETag") or response.headers.get("Last-Modified")
    if not resumed:
        mark.unlink(missing_ok=True)
        partial.unlink(missing_ok=True)
        if validator and not validator.startswith("W/"):
            mark.write_text(validator, encoding="latin-1")
    left = response.headers.get("Content-Length")
    total_bytes = (offset if resumed else 0) + int(left) if left and left.isdecimal() else None
    bar = tqdm(
        total=total_bytes, initial=offset if resumed else 0, unit="B", unit_scale=True, leave=False, disable=None
    )
    with open(partial, "ab") as file, bar:
        while chunk := response.read1(_CHUNK_BYTES):
            file.write(chunk)
            bar.update(len(chunk))
        os.fsync(file.fileno())  # otherwise a power cut may keep the name without its content
    if total_bytes is not None and partial.stat().st_size != total_bytes:
        raise OSError(f"cut off after {partial.stat().st_size:,} of {total_bytes:,} bytes")


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
