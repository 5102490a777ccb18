"""Downloads files: resumes where it was interrupted, and puts a file in place only when complete and verified.

httpx honours HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY and SSL_CERT_FILE.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import ssl
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import httpx
from tqdm import tqdm

from training.file_lock import lock_output

_TIMEOUT_S = 60
_SAY_EVERY_S = 10
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
"""Statuses after which the same request may succeed."""
MAX_WAIT_S = 60
"""Maximum that a server's Retry-After is followed."""
Say = Callable[[str], None]


class DownloadError(ValueError):
    """A file cannot be downloaded; one line says why. `status` is the server's answer, if it gave one."""

    def __init__(self, url: str, reason: str, status: int | None = None) -> None:
        super().__init__(f"{url}: {reason}")
        self.url, self.reason, self.status = url, reason, status


class _TransientError(Exception):
    """What may succeed if it is tried again, after `wait_s` if the server says so."""

    def __init__(self, reason: str, status: int | None = None, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.status, self.wait_s = status, wait_s


def download(
    url: str,
    path: Path,
    sha256: str | None = None,
    *,
    size: int | None = None,
    max_bytes: int | None = None,
    pauses_s: Sequence[float] = (),
    say: Say | None = None,
    token: str | None = None,
) -> None:
    """Downloads `url`, http or https, to `path`; if that exists, only compares it with `sha256`, if given.

    An interrupted download is kept beside it, and resumed if the server says that the file has not changed. After a
    passing fault it is tried again after each of `pauses_s`. `size` is the expected size in bytes, `max_bytes` the
    maximum. Progress goes to a terminal, or else to `say`, one line every 10 s. `token` is sent to the host of `url`
    alone, not to one that it redirects to. Raises DownloadError, which says whether to try again, BusyError if another
    command is downloading the file, and OSError if it cannot be written; what has arrived is kept.
    """
    if not path.exists():
        with lock_output(path):
            if not path.exists():  # otherwise another command has just made it
                limit = size if max_bytes is None else max_bytes
                return _Download(url, path, size, limit, say, token).run(sha256, pauses_s)
    if sha256 is not None and (found := file_sha256(path)) != sha256:  # not deleted: another command may use it
        raise DownloadError(url, f"{path}, downloaded earlier, has the SHA-256 {found}, not {sha256}")


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Download:
    """One file on its way. `partial` holds what has arrived; `mark` how the server identifies the file's version."""

    def __init__(
        self, url: str, path: Path, size: int | None, max_bytes: int | None, say: Say | None, token: str | None
    ) -> None:
        self.url, self.path, self.size, self.max_bytes, self.say = url, path, size, max_bytes, say
        self._token = token
        self.partial, self.mark = path.with_name(f".{path.name}.part"), path.with_name(f".{path.name}.mark")

    def run(self, sha256: str | None, pauses_s: Sequence[float]) -> None:
        with self._client() as client:
            for pause_s in (*pauses_s, None):
                try:
                    self._fetch(client)
                    break
                except _TransientError as error:
                    if pause_s is None:
                        advice = "" if error.status else "; run the same command again to resume"
                        reason = str(error) if error.status else f"cannot be downloaded ({error})"
                        raise DownloadError(self.url, f"{reason}{advice}", error.status) from None
                    wait_s = min(MAX_WAIT_S, pause_s if error.wait_s is None else error.wait_s)
                    if self.say:
                        self.say(f"{self.url}: {error}; trying again in {wait_s:g} s")
                    time.sleep(wait_s)
                except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
                    raise DownloadError(self.url, f"is no address to download from ({error})") from None
        if sha256 is not None and (found := file_sha256(self.partial)) != sha256:
            self._delete()
            raise DownloadError(self.url, f"the downloaded file has the SHA-256 {found}, not {sha256}; it was deleted")
        os.replace(self.partial, self.path)
        self.mark.unlink(missing_ok=True)

    def _client(self) -> httpx.Client:
        """Raises DownloadError if the environment's proxies or certificates cannot be used."""
        headers = {"User-Agent": "interlinear", "Accept-Encoding": "identity"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"  # httpx removes it where a redirect leaves the host
        try:
            return httpx.Client(timeout=_TIMEOUT_S, follow_redirects=True, headers=headers)
        except OSError as error:
            raise DownloadError(self.url, f"SSL_CERT_FILE or SSL_CERT_DIR cannot be used ({error.strerror})") from None
        except (ImportError, ValueError, httpx.InvalidURL) as error:
            raise DownloadError(self.url, f"a proxy of the environment cannot be used ({error})") from None

    def _delete(self) -> None:
        self.partial.unlink(missing_ok=True)
        self.mark.unlink(missing_ok=True)

    def _fetch(self, client: httpx.Client) -> None:
        """Appends the missing part. Raises _TransientError and DownloadError."""
        offset = self.partial.stat().st_size if self.partial.exists() and self.mark.exists() else 0
        headers = {}
        if offset:
            headers = {"Range": f"bytes={offset}-", "If-Range": self.mark.read_text(encoding="latin-1")}
        try:
            with client.stream("GET", self.url, headers=headers) as response:
                if response.status_code != httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE or not offset:
                    return self._save(response, offset)
        except httpx.UnsupportedProtocol:
            raise
        except httpx.HTTPError as error:
            if _is_untrusted(error):
                reason = f"its certificate is not trusted ({error}): SSL_CERT_FILE may name a company's own"
                raise DownloadError(self.url, reason) from None
            # httpx says "" where a timeout has no cause.
            raise _TransientError(str(error).partition("\n")[0] or type(error).__name__) from None
        self._delete()
        self._fetch(client)

    def _save(self, response: httpx.Response, offset: int) -> None:
        if self.url.lower().startswith("https:") and response.url.scheme != "https":
            raise DownloadError(self.url, f"redirects to {response.url}, which is not encrypted")
        if not response.is_success:
            reason = f"the server answered {response.status_code} {response.reason_phrase}".rstrip()
            if response.status_code not in _TRANSIENT:
                raise DownloadError(self.url, reason, response.status_code)
            wait = response.headers.get("Retry-After", "")
            raise _TransientError(reason, response.status_code, float(wait) if wait.isdecimal() else None)
        resumed = response.status_code == httpx.codes.PARTIAL_CONTENT
        if resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {offset}-"):
            raise _TransientError("the server sent a different range than requested")
        if not resumed:
            offset = 0
            self._delete()
        left = response.headers.get("Content-Length", "")
        total = offset + int(left) if left.isdecimal() else None
        if total is not None and total - offset > (free := shutil.disk_usage(self.partial.parent).free):
            place = f"{self.partial.parent} has {megabytes(free)} free"
            raise DownloadError(self.url, f"{megabytes(total - offset)} are missing, and {place}")
        if not resumed:
            validator = response.headers.get("ETag") or response.headers.get("Last-Modified")
            if validator and not validator.startswith("W/"):
                self.mark.write_text(validator, encoding="latin-1")
        if self.size is not None and total is not None and total != self.size:
            self._delete()
            raise DownloadError(self.url, f"has {total:,} bytes on the server, where its list says {self.size:,}")
        self._write(response, offset, total)
        if total is not None and (got := self.partial.stat().st_size) != total:
            raise _TransientError(f"cut off after {got:,} of {total:,} bytes")
        if self.size is not None and (got := self.partial.stat().st_size) != self.size:
            self._delete()
            raise DownloadError(self.url, f"has {got:,} bytes, where its list says {self.size:,}; it was deleted")

    def _write(self, response: httpx.Response, offset: int, total: int | None) -> None:
        """Writes what comes to the partial file, and shows the progress."""
        name, got, said_s = self.path.name, offset, time.monotonic()
        limit = self.max_bytes
        if limit is not None and (total or 0) > limit:
            raise DownloadError(self.url, f"has {total:,} bytes, over the limit of {limit:,}")
        bar = tqdm(desc=name, total=total, initial=offset, unit="B", unit_scale=True, leave=False, disable=None)
        if self.say and not sys.stderr.isatty():
            verb = "resuming" if offset else "downloading"
            self.say(f"{verb} {self.url}" + (f" ({megabytes(total)})" if total else ""))
        with open(self.partial, "ab") as file, bar:
            try:
                for chunk in response.iter_raw():
                    got += len(chunk)
                    if limit is not None and got > limit:
                        file.close()
                        self._delete()
                        raise DownloadError(self.url, f"goes on after {limit:,} bytes, the limit; it was deleted")
                    file.write(chunk)
                    bar.update(len(chunk))
                    if self.say and not sys.stderr.isatty() and time.monotonic() - said_s > _SAY_EVERY_S:
                        said_s = time.monotonic()
                        self.say(f"{name}: {megabytes(got)}" + (f" of {megabytes(total)}" if total else ""))
            except httpx.RemoteProtocolError:  # cut off, or a wrong end: its length says more
                if total is None:
                    raise
            file.flush()
            os.fsync(file.fileno())  # otherwise a power cut may keep the name without its content


def _is_untrusted(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


def megabytes(size: int) -> str:
    """A size in bytes, as people read it."""
    if size < 1e5:
        return f"{size:,} bytes"
    return f"{size / 1e6:,.1f} MB" if size < 1e9 else f"{size / 1e9:,.2f} GB"
