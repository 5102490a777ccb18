"""Which addresses an import may ask: a closed list for each registry, and what the user adds to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from model.machine import is_loopback

SETTING = "--host, or for the service INTERLINEAR_REGISTRY_HOSTS,"
_PORTS = {"http": 80, "https": 443}
_PLACE = re.compile(r"(?P<host>(\*\.)?[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{1,5}))?(?P<path>/.*)?")


@dataclass(frozen=True)
class Place:
    """Addresses that may be asked: of a host, or if it begins with "*." of all its subdomains; below a path, if given.

    By https; a loopback host also by http.
    """

    host: str
    port: int | None = None
    path: str = "/"

    @classmethod
    def parse(cls, text: str) -> Place:
        """Such as models.example, *.models.example, models.example:8443 or models.example/en/. Raises ValueError."""
        match = _PLACE.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is no host, such as models.example or models.example:8443")
        port = int(match["port"]) if match["port"] else None
        return cls(match["host"].strip("[]").lower(), port, match["path"] or "/")

    def contains(self, url: SplitResult) -> bool:
        host = (url.hostname or "").rstrip(".")
        is_host = host.endswith(self.host[1:]) if self.host.startswith("*.") else host == self.host
        is_safe = url.scheme == "https" or (url.scheme == "http" and is_loopback(host))
        is_port = _port(url) == (self.port or _PORTS.get(url.scheme))
        return is_host and is_safe and is_port and (url.path or "/").startswith(self.path)


@dataclass(frozen=True)
class AllowedAddresses:
    """The addresses that may be asked for the models of a registry."""

    registry: str
    places: tuple[Place, ...]
    origin: str | None = None
    """The address of a list that the user gave: whatever has its scheme, host and port."""

    def refuse(self, address: str) -> str | None:
        """Why `address` must not be asked; None if it may be."""
        url = urlsplit(address)
        if any(place.contains(url) for place in self.places):
            return None
        if self.origin is not None and _origin(url) == _origin(urlsplit(self.origin)):
            return None
        if url.scheme == "http" and not is_loopback(url.hostname or ""):
            return "is not encrypted"
        return f"is none of the addresses of {self.registry}: {SETTING} allows {url.netloc.rpartition('@')[2]}"


def _port(url: SplitResult) -> int | None:
    return url.port or _PORTS.get(url.scheme)


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    return url.scheme, url.hostname, _port(url)
