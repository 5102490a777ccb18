"""API keys: made, kept as hashes in a file, found in constant time, read again when the file changes.

Knows no requests. A key is 256 random bits, so a plain SHA-256 of it tells nothing; passwords would need more.
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

LOOK_S = 1.0
"""So often is the file looked at."""
MAX_KEY_CHARS = 512
MAX_FILE_BYTES = 1 << 22
"""About forty thousand keys."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_WORD = re.compile(r"\S+(?:\s+burst\s+\S+)?")
"""A rate may have spaces in it."""
_HASH = re.compile(r"sha256:([0-9a-f]{64})")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Key:
    """What the file says of one key. A rate that is None is as the settings say."""

    name: str
    digest: bytes
    requests: Rate | None = None
    characters: Rate | None = None
    admin: bool = False
    """Its holder may have the bundles loaded again."""


class Keys:
    """The keys of a file, which are those of its last version that could be read."""

    def __init__(self, path: Path) -> None:
        """Raises SettingsError."""
        self.path = path
        self._keys: list[Key] = []
        self._seen: object = None
        try:
            self._read()
        except (OSError, ValueError) as error:
            raise SettingsError(f"{PREFIX}API_KEYS_FILE={path}: {_said(error)}") from None

    def find(self, key: str) -> Key | None:
        """Takes as long whichever it is, and whether it is one or not."""
        digest = _digest(key[:MAX_KEY_CHARS])
        found = None
        for known in self._keys:
            if hmac.compare_digest(known.digest, digest):
                found = known
        return found

    async def watch(self, look_s: float = LOOK_S) -> None:
        """Reads the file again whenever it changes, looking every `look_s` seconds, for ever.

        Logs a file that is wrong, once.
        """
        await watch(self._look, look_s, (OSError, ValueError), self._complain)

    async def _look(self) -> None:
        if await asyncio.to_thread(self._changed):
            log.info("%d API keys are read from %s", len(self._keys), self.path)

    def _complain(self, error: Exception) -> None:
        log.error("%s: %s; the API keys stay as they were", self.path, _said(error))

    def _changed(self) -> bool:
        """Whether the file has, which is then read. Raises what `_read` does."""
        seen = self._seen
        self._read()
        return self._seen != seen

    def _read(self) -> None:
        """Reads the file unless it is as it was. Raises OSError and ValueError."""
        status = self.path.stat()  # before: what changes while it is read is read again
        seen = status.st_mtime_ns, status.st_size, status.st_ino
        if seen == self._seen:
            return
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is no file")  # of a pipe nobody knows when it ends, or begins
        if status.st_size > MAX_FILE_BYTES:
            raise ValueError(f"it has over {MAX_FILE_BYTES >> 20} MiB")
        self._keys = read_keys(self.path.read_text("utf-8-sig").splitlines())
        self._seen = seen


def new_key(name: str) -> tuple[str, str]:
    """A key and its line for the file. Raises ValueError."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"A key's name is letters, digits and . _ @ + -, at most 64; {name!r} is not.")
    key = f"il_{secrets.token_urlsafe(32)}"
    return key, f"{name} sha256:{_digest(key).hex()}"


def read_keys(lines: Iterable[str]) -> list[Key]:
    """The keys of lines such as `alice sha256:9f86... requests=600/minute characters=1000000/day`.

    Empty lines and those that begin with "#" say nothing. Raises ValueError that names the line.
    """
    keys: list[Key] = []
    names, digests = set[str](), set[bytes]()
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            key = _read_key(_WORD.findall(line))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        if key.name in names or key.digest in digests:
            raise ValueError(f"line {number}: this name or this key is there already")
        keys.append(key)
        names.add(key.name)
        digests.add(key.digest)
    if not keys:
        raise ValueError("there is no key in it: make one with `python -m app key NAME`")
    return keys


def _read_key(words: list[str]) -> Key:
    name, digest, *rates = [*words, ""][: max(2, len(words))]
    if not _NAME.fullmatch(name):
        raise ValueError("a line begins with a name: letters, digits and . _ @ + -, at most 64")
    if not (found := _HASH.fullmatch(digest)):
        # Not shown: it may be the key itself.
        raise ValueError("after the name comes `sha256:` and 64 hexadecimal digits, as `python -m app key` makes them")
    read: dict[str, Rate] = {}
    for word in rates:
        if word == "admin":
            continue
        kind, _, rate = word.partition("=")
        if kind not in ("requests", "characters") or kind in read:
            # Not shown either, for the same reason.
            raise ValueError("after the hash come requests=RATE and characters=RATE, each at most once, and admin")
        read[kind] = Rate.read(rate)
    return Key(name, bytes.fromhex(found[1]), read.get("requests"), read.get("characters"), "admin" in rates)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _said(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
