"""API keys: generated, stored as hashes in a file, looked up in constant time, and reloaded when the file changes.

A key is 256 random bits, so a plain SHA-256 hides it; passwords would need a slow hash.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import secrets
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from app.runtime.polling import watch
from app.runtime.rate_limits import Rate
from app.settings import PREFIX, SettingsError

POLL_INTERVAL_S = 1.0
"""How often to check the file for changes."""
MAX_KEY_CHARS = 512
MAX_FILE_BYTES = 1 << 22
"""About forty thousand keys."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_FIELD = re.compile(r"\S+(?:\s+burst\s+\S+)?")
"""A rate may contain spaces."""
_HASH = re.compile(r"sha256:([0-9a-f]{64})")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Key:
    """A key's entry in the file. A rate that is None defaults to the settings."""

    name: str
    digest: bytes
    requests: Rate | None = None
    characters: Rate | None = None
    admin: bool = False
    """Whether its holder may reload and adapt the bundles."""


class Keys:
    """The keys of a file, as of its last readable version."""

    def __init__(self, path: Path) -> None:
        """Raises SettingsError."""
        self.path = path
        self.all: list[Key] = []
        self._file_version: object = None
        try:
            self._read()
        except (OSError, ValueError) as error:
            raise SettingsError(f"{PREFIX}API_KEYS_FILE={path}: {_error_text(error)}") from None

    def find(self, key: str) -> Key | None:
        """Looks up `key`. Takes the same time for every key, known or not."""
        digest = _digest(key[:MAX_KEY_CHARS])
        found = None
        for known in self.all:
            if hmac.compare_digest(known.digest, digest):
                found = known
        return found

    async def watch(self, interval_s: float = POLL_INTERVAL_S) -> None:
        """Reloads the file whenever it changes, checking every `interval_s` seconds, forever.

        Logs an invalid file once.
        """
        await watch(self._poll, interval_s, (OSError, ValueError), self._log_error)

    async def _poll(self) -> None:
        if await asyncio.to_thread(self._read):
            log.info("read %d API keys from %s", len(self.all), self.path)

    def _log_error(self, error: Exception) -> None:
        log.error("%s: %s; keeping the previous API keys", self.path, _error_text(error))

    def _read(self) -> bool:
        """Reads the file if it has changed, and returns whether it has. Raises OSError and ValueError."""
        status = self.path.stat()  # before reading: a change during the read must trigger another
        file_version = status.st_mtime_ns, status.st_size, status.st_ino
        if file_version == self._file_version:
            return False
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a file")  # reading a pipe may block forever
        if status.st_size > MAX_FILE_BYTES:
            raise ValueError(f"it is over {MAX_FILE_BYTES >> 20} MiB")
        self.all = parse_keys(self.path.read_text("utf-8-sig").splitlines())
        self._file_version = file_version
        return True


def new_key(name: str) -> tuple[str, str]:
    """A new key and its line for the file. Raises ValueError."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"A key's name must be at most 64 letters, digits and . _ @ + -, not {name!r}.")
    key = f"il_{secrets.token_urlsafe(32)}"
    return key, f"{name} sha256:{_digest(key).hex()}"


def parse_keys(lines: Iterable[str]) -> list[Key]:
    """Parses lines such as `alice sha256:9f86... requests=600/minute characters=1000000/day`.

    Ignores empty lines and comments, which begin with "#". Raises ValueError that names the line.
    """
    keys: list[Key] = []
    names, digests = set[str](), set[bytes]()
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            key = _parse_key(_FIELD.findall(line))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        if key.name in names or key.digest in digests:
            raise ValueError(f"line {number}: duplicate name or key")
        keys.append(key)
        names.add(key.name)
        digests.add(key.digest)
    if not keys:
        raise ValueError("it contains no key: make one with `python -m app key NAME`")
    return keys


def _parse_key(fields: list[str]) -> Key:
    name, digest, *rates = [*fields, ""][: max(2, len(fields))]
    if not _NAME.fullmatch(name):
        raise ValueError("a line must begin with a name of at most 64 letters, digits and . _ @ + -")
    if not (found := _HASH.fullmatch(digest)):
        # Not shown, since it may be the key itself.
        raise ValueError(
            "the name must be followed by `sha256:` and 64 hexadecimal digits, as `python -m app key` prints them"
        )
    read: dict[str, Rate] = {}
    for field in rates:
        if field == "admin":
            continue
        kind, _, rate = field.partition("=")
        if kind not in ("requests", "characters") or kind in read:
            # Not shown either, for the same reason.
            raise ValueError("the hash may be followed by requests=RATE, characters=RATE and admin, each at most once")
        read[kind] = Rate.parse(rate)
    return Key(name, bytes.fromhex(found[1]), read.get("requests"), read.get("characters"), "admin" in rates)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _error_text(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
