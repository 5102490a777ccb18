"""DeepL's own client against the service on a real socket: helpers for tests of DeepL's API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import deepl
import deepl.http_client
import httpx
from servers import WAIT_S

deepl.http_client.min_connection_timeout = WAIT_S
EN_FR: dict[str, Any] = {"source_lang": "EN", "target_lang": "FR"}


@contextmanager
def client_of(url: str, key: str = "any key") -> Iterator[deepl.DeepLClient]:
    client = deepl.DeepLClient(key, server_url=f"{url}/deepl/")
    yield client
    client._client._session.close()


def plainly(url: str, *texts: str, **fields: Any) -> list[str]:
    """The translation by our own API."""
    body = {"text": list(texts), "source": "en", "target": "fr", **fields}
    return [item["text"] for item in httpx.post(f"{url}/translate", json=body).json()["translations"]]
