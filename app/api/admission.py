"""Admits requests: by their key and its rate, and by how much the service has to do.

Every route but those that anyone may ask is admitted here, before its body is read where its key is not in the body.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from app.api.state import app_of, deployment_of
from app.http.auth import bearer
from app.http.forms import Fields, read_query
from app.runtime.rate_limits import Client
from app.server.state import state_of

_KEY_HEADERS = b"authorization", b"ocp-apim-subscription-key", b"x-goog-api-key", b"x-api-key", b"x-api-token"
_KEY_SCHEMES = "bearer", "deepl-auth-key"
_KEY_FIELDS = "api_key", "auth_key", "key", "token", "api_token", "Subscription-Key"


def authenticate(request: Request, key: str | None) -> Client:
    """The client, for requests that cost nothing. Raises NotAuthorised."""
    client = state_of(request).client = app_of(request).access_control.authenticate(request.scope, key)
    return client


async def admit(request: Request, key: str | None) -> Client:
    """Authenticates the client and counts a request. Raises NotAuthorised and TooManyRequests."""
    client = authenticate(request, key)
    await client.count_request()
    return client


def check_load(request: Request) -> None:
    """Refuses a request early, before its body is read, if the service is overloaded. Raises Overloaded.

    A client whose key is in the body counts as one at its address.
    """
    state = state_of(request)
    state.app.request_queue.check(state.delay_s)
    client = state.client or app_of(request).access_control.client_at(request.scope)
    deployment_of(request).engine.scheduler.check(client.scheduled_as, waited_s=state.waited_s)


async def admit_work(request: Request) -> Client:
    """Admits a request for which the engine works, with a key in the header `Authorization: Bearer KEY`.

    Raises NotAuthorised, TooManyRequests and Overloaded.
    """
    client = await admit(request, bearer(request))
    check_load(request)
    return client


async def _admit(request: Request) -> Client:
    return await admit(request, bearer(request))


AdmittedClient = Annotated[Client, Depends(_admit)]
WorkingClient = Annotated[Client, Depends(admit_work)]


# ---- APIs of others, in which a key may be anywhere


async def admit_early(request: Request) -> Client | None:
    """Admits the client before its body is read if no key is required, so that unreadable bodies count as requests too.

    A required key may be in the body: unless it is in the query or a header, the body counts against the budget of
    unauthenticated clients. Raises InvalidFields and TooManyRequests.
    """
    access_control = app_of(request).access_control
    if not access_control.requires_key:
        return await admit(request, None)
    state_of(request).is_known = access_control.is_valid(key_of(request, read_query(request)))
    return None


def key_of(request: Request, fields: Fields) -> str | None:
    """The key that a client sends, in whichever way its dialect has."""
    for name in _KEY_FIELDS:
        if (key := fields.one(name)) and isinstance(key, str):
            return key
    for name, value in request.scope["headers"]:
        if name in _KEY_HEADERS and value:
            scheme, _, key = value.decode("latin-1").partition(" ")
            return (key.strip() or None) if scheme.lower() in _KEY_SCHEMES else value.decode("latin-1")
    return None
