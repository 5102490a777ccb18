"""Downloads files: resumes where it was interrupted, and puts a file in place only when complete and verified.

httpx honours HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY and SSL_CERT_FILE.
"""

from __future__ import annotations

import email.utils
import hashlib
import math
import os
import re
import shutil
import ssl
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

import httpx

from training.file_lock import lock_output

_TIMEOUT_S = 30
"""Maximum time without a byte, after which the download is resumed."""
_SHOW_EVERY_S = 0.2
_MAX_SHOWN_CHARS = 300
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
"""Statuses after which the same request may succeed."""
MAX_WAIT_S = 60
"""Maximum that a server's Retry-After is followed; if that is longer, the download is given up."""
Say = Callable[[str], None]
Progress = Callable[[int, int | None], None]
"""Is told how many bytes have arrived, and of how many if the server says so."""


class DownloadError(ValueError):
    """A file cannot be downloaded; one line says why. `status` is the server's answer, if it gave one.

    `passes`: whether the same may succeed later without anybody's doing; `retry_after_s`: when, if the server says so.
    """

    def __init__(
        self,
        url: str,
        reason: str,
        status: int | None = None,
        *,
        passes: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(f"{url}: {reason}")
        self.url, self.reason, self.status, self.passes, self.retry_after_s = url, reason, status, passes, retry_after_s


class _TransientError(Exception):
    """What may succeed if it is tried again, after `wait_s` if the server says so."""

    def __init__(self, reason: str, status: int | None = None, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.status, self.wait_s = status, wait_s


class ProgressLine:
    """Shows a download's progress in one line of a terminal, and nothing elsewhere."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stderr
        self.is_shown = self._stream.isatty()
        self._shown_s = -math.inf

    def show(self, name: str, got: int, total: int | None) -> None:
        if self.is_shown and (now := time.monotonic()) - self._shown_s >= _SHOW_EVERY_S:
            self._shown_s = now
            self._write(f"{name}: {progress_text(got, total)}")

    def clear(self) -> None:
        """Makes room for other lines."""
        if self.is_shown:
            self._write("")

    def _write(self, text: str) -> None:
        self._stream.write(f"\r{text}\x1b[K")  # erases what is left of a longer line (ECMA-48)
        self._stream.flush()


def progress_text(got: int, total: int | None) -> str:
    """How far a download is, as people read it."""
    return megabytes(got) + (f" of {megabytes(total)}" if total else "")


def download(
    url: str,
    path: Path,
    sha256: str | None = None,
    *,
    size: int | None = None,
    max_bytes: int | None = None,
    pauses_s: Sequence[float] = (),
    say: Say | None = None,
    progress: Progress | None = None,
    token: str | None = None,
    refuse: Callable[[str], str | None] | None = None,
) -> None:
    """Downloads `url`, http or https, to `path`; if that exists, only compares it with `sha256`, if given.

    An interrupted download is kept beside it, and resumed if the server says that the file has not changed. After a
    passing fault, which `say` is told, it is tried again after each of `pauses_s`. `size` is the expected size in
    bytes, `max_bytes` the maximum. `progress` is called for every piece that arrives; without it, a terminal shows a
    line. `token` is sent to the host of `url` alone, not to one that it redirects to. `refuse` is called with each
    address before it is asked, redirects included, and returns why it must not be, if so. Raises DownloadError, which
    says whether to try again, BusyError if another command is downloading the file, and OSError if it cannot be
    written; what has arrived is kept.
    """
    if not path.exists():
        with lock_output(path):
            if not path.exists():  # otherwise another command has just made it
                limit = size if max_bytes is None else max_bytes
                line = ProgressLine()
                show = progress or (lambda got, total: line.show(path.name, got, total))
                try:
                    return _Download(url, path, size, limit, say, show, token, refuse).run(sha256, pauses_s)
                finally:
                    line.clear()
    if sha256 is not None and (found := file_sha256(path)) != sha256:  # not deleted: another command may use it
        raise DownloadError(url, f"{path}, downloaded earlier, has the SHA-256 {found}, not {sha256}")


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Download:
    """One file on its way. `partial` holds what has arrived; `mark` how the server identifies the file's version."""

    def __init__(
        self,
        url: str,
        path: Path,
        size: int | None,
        max_bytes: int | None,
        say: Say | None,
        progress: Progress,
        token: str | None,
        refuse: Callable[[str], str | None] | None,
    ) -> None:
        self.url, self.path, self.size, self.max_bytes, self.say = url, path, size, max_bytes, say
        self._progress, self._token, self._refuse = progress, token, refuse
        self.partial, self.mark = path.with_name(f".{path.name}.part"), path.with_name(f".{path.name}.mark")

    def run(self, sha256: str | None, pauses_s: Sequence[float]) -> None:
        with self._client() as client:
            for pause_s in (*pauses_s, None):
                try:
                    self._fetch(client)
                    break
                except _TransientError as error:
                    if pause_s is None or (error.wait_s or 0) > MAX_WAIT_S:
                        raise self._given_up(error) from None
                    wait_s = pause_s if error.wait_s is None else error.wait_s
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

    def _given_up(self, error: _TransientError) -> DownloadError:
        reason = str(error)
        if error.status is None:
            reason = f"cannot be downloaded ({error}); run the same command again to resume"
        elif error.wait_s:
            reason += f", and asks to wait for {error.wait_s:,.0f} s"
        return DownloadError(self.url, reason, error.status, passes=True, retry_after_s=error.wait_s)

    def _client(self) -> httpx.Client:
        """Raises DownloadError if the environment's proxies or certificates cannot be used."""
        headers = {"User-Agent": "interlinear", "Accept-Encoding": "identity"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"  # httpx removes it where a redirect leaves the host
        try:
            hooks = {"request": [self._check_address]}
            return httpx.Client(timeout=_TIMEOUT_S, follow_redirects=True, headers=headers, event_hooks=hooks)
        except OSError as error:
            raise DownloadError(self.url, f"SSL_CERT_FILE or SSL_CERT_DIR cannot be used ({error.strerror})") from None
        except (ImportError, ValueError, httpx.InvalidURL) as error:
            raise DownloadError(self.url, f"a proxy of the environment cannot be used ({error})") from None

    def _check_address(self, request: httpx.Request) -> None:
        """Raises DownloadError if the address must not be asked; it may be one that another redirects to."""
        asked = _shown_address(request.url)
        redirects = "" if asked == _shown_address(httpx.URL(self.url)) else f"redirects to {asked}, which "
        if self.url.lower().startswith("https:") and request.url.scheme != "https":
            raise DownloadError(self.url, f"{redirects}is not encrypted")
        if self._refuse is not None and (reason := self._refuse(str(request.url))):
            raise DownloadError(self.url, f"{redirects}{reason}")

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
        if not response.is_success:
            reason = f"the server answered {response.status_code} {response.reason_phrase}".rstrip()
            if response.status_code not in _TRANSIENT:
                raise DownloadError(self.url, reason, response.status_code)
            raise _TransientError(reason, response.status_code, _wait_s(response.headers.get("Retry-After", "")))
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
        """Writes what comes to the partial file."""
        got, limit = offset, self.max_bytes
        if limit is not None and (total or 0) > limit:
            raise DownloadError(self.url, f"has {total:,} bytes, over the limit of {limit:,}")
        self._progress(got, total)
        with open(self.partial, "ab") as file:
            try:
                for chunk in response.iter_raw():
                    got += len(chunk)
                    if limit is not None and got > limit:
                        file.close()
                        self._delete()
                        raise DownloadError(self.url, f"goes on after {limit:,} bytes, the limit; it was deleted")
                    file.write(chunk)
                    self._progress(got, total)
            except httpx.RemoteProtocolError:  # cut off, or a wrong end: its length says more
                if total is None:
                    raise
            file.flush()
            os.fsync(file.fileno())  # otherwise a power cut may keep the name without its content


def _wait_s(retry_after: str) -> float | None:
    """The seconds that the header asks to wait, which it gives as a number or as a date (RFC 9110, section 10.2.3)."""
    if re.fullmatch(r"[0-9]{1,9}", retry_after):
        return float(retry_after)
    try:
        date = email.utils.parsedate_to_datetime(retry_after)
    except (ValueError, OverflowError):
        return None
    return max(0.0, date.timestamp() - time.time())


def _shown_address(url: httpx.URL) -> str:
    """An address as errors show it: without a query, where storages put signatures."""
    return str(url.copy_with(query=None))[:_MAX_SHOWN_CHARS]


def _is_untrusted(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


def megabytes(size: int) -> str:
    """A size in bytes, as people read it."""
    if size < 1e5:
        return f"{size:,} bytes"
    return f"{size / 1e6:,.1f} MB" if size < 1e9 else f"{size / 1e9:,.2f} GB"
