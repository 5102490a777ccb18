"""Authenticates clients by API key or address. How a key is sent depends on the API."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
from contextlib import suppress
from urllib.parse import urlsplit

from cachetools import LRUCache
from starlette.requests import HTTPConnection
from starlette.types import Scope

from app.errors import NotAllowed, NotAuthorised
from app.http.api_keys import Key, Keys
from app.runtime.rate_limits import MAX_CLIENTS, Account, Client, Meters, Rate
from app.settings import PREFIX, Settings, SettingsError
from model.machine import is_loopback

_IPV6_PREFIX_BITS = 64
"""Length of the shortest IPv6 prefix that a provider assigns to each customer (RFC 6177)."""
NO_KEY = "This service requires an API key; none was sent."


class AccessControl:
    """Knows the clients, by their keys or addresses, and their limits."""

    def __init__(self, settings: Settings, meters: Meters) -> None:
        """Raises SettingsError."""
        self._keys = Keys(settings.api_keys_file) if settings.api_keys_file else None
        self._requests_rate, self._characters_rate = settings.rate_requests, settings.rate_characters
        of_keys = [rate for key in (self._keys.all if self._keys else []) for rate in (key.requests, key.characters)]
        has_rates = any((self._requests_rate, self._characters_rate, *of_keys))
        if settings.instances > 1 and has_rates and not settings.store:
            raise SettingsError(
                f"{PREFIX}INSTANCES={settings.instances}: each instance would grant a client its whole rate; set "
                f"{PREFIX}STORE, where they count together, or remove the rates"
            )
        self._page_installs = settings.page_installs
        self._has_proxies = bool(settings.trusted_proxies or settings.root_path)
        self._meters = meters
        self._by_address: LRUCache[str, Client] = LRUCache(MAX_CLIENTS)
        self._by_key: dict[Key, Client] = {}
        self._watcher: asyncio.Task[None] | None = None

    @property
    def requires_key(self) -> bool:
        return self._keys is not None

    async def start(self) -> None:
        """Starts watching the API key file."""
        if self._keys:
            self._watcher = asyncio.create_task(self._keys.watch())

    async def stop(self) -> None:
        if self._watcher:
            self._watcher.cancel()
            with suppress(asyncio.CancelledError):
                await self._watcher

    def is_valid(self, key: str | None) -> bool:
        """Whether `key` is valid, regardless of rates."""
        return self._keys is None or (key is not None and self._keys.find(key) is not None)

    def check_may_install(self, scope: Scope, client: Client) -> None:
        """With keys, those marked `admin` may install models; without, clients on this machine. Raises NotAllowed, with
        who may."""
        if self.requires_key:
            if not client.is_admin:
                raise NotAllowed("Only keys marked `admin` in the API key file may install models.")
        elif not self._page_installs:
            raise NotAllowed(f"Only the operator installs models here, by {PREFIX}MODELS or `interlinear models`.")
        elif self._has_proxies or not is_at_this_machine(scope):
            raise NotAllowed(
                f"Models are installed on the service's own machine: by its page there, {PREFIX}MODELS or "
                "`interlinear models`."
            )

    def client_of(self, account: Account) -> Client:
        """A client that can be charged, and has no name."""
        rate = Rate.parse(account.rate) if account.rate else None
        return Client("", account.identity, self._meters, characters=rate)

    def authenticate(self, scope: Scope, key: str | None) -> Client:
        """The client that sent a request. Raises NotAuthorised."""
        if not self._keys:
            return self.client_at(scope)
        if key is None:
            raise NotAuthorised(NO_KEY)
        found = self._keys.find(key)
        if found is None:
            raise NotAuthorised("This service requires an API key; the one that was sent is unknown.")
        if found not in self._by_key:
            self._by_key[found] = Client(
                found.name,
                _hashed(f"key {found.name}"),
                self._meters,
                found.requests or self._requests_rate,
                found.characters or self._characters_rate,
                found.admin,
            )
        return self._by_key[found]

    def client_at(self, scope: Scope) -> Client:
        """Everyone at the client's address."""
        ip = address(scope)
        client = self._by_address.get(ip)
        if client is None:
            identity = _hashed(ip if self._requests_rate or self._characters_rate else "")
            client = Client("", identity, self._meters, self._requests_rate, self._characters_rate, address=ip)
            self._by_address[ip] = client
        return client


def bearer(request: HTTPConnection) -> str | None:
    """The key in the header `Authorization: Bearer KEY` (RFC 6750, section 2.1)."""
    for name, value in request.scope["headers"]:
        if name == b"authorization":
            scheme, _, key = value.partition(b" ")
            return key.strip().decode("latin-1") if scheme.lower() == b"bearer" else None
    return None


def address(scope: Scope) -> str:
    """The client's IPv4 address, or the network of its IPv6 address; "" if unknown."""
    host = scope["client"][0] if scope.get("client") else ""
    if ":" not in host:
        return host
    try:
        found = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((found, _IPV6_PREFIX_BITS), strict=False))


def is_at_this_machine(scope: Scope) -> bool:
    """Whether a client on this machine asks by itself: not through a proxy, as far as that can be seen, and not from a
    page of another site, neither by the page's own requests (Origin) nor by a name of its for this address (Host; DNS
    rebinding).

    nginx adds no header by default, but asks in HTTP/1.0.
    """
    headers: dict[bytes, bytes] = dict(scope["headers"])
    client = scope["client"][0] if scope.get("client") else ""
    is_forwarded = any(
        name in (b"forwarded", b"via", b"x-real-ip") or name.startswith(b"x-forwarded-") for name in headers
    )
    if not is_loopback(client) or is_forwarded or scope.get("http_version") == "1.0":
        return False
    host, origin = (headers.get(name, b"").decode("latin-1") for name in (b"host", b"origin"))
    try:
        asked = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return is_loopback(asked) and (not origin or origin.partition("://")[2] == host)


def _hashed(identity: str) -> str:
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:32]
