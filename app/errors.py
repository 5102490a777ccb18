"""What can go wrong: one exception a kind, with its status of HTTP. Knows no web framework.

`app.http.problems` puts them on the wire; how other services' APIs word a problem is their routes'.

    ServiceError
    ├── WrongHost 400
    ├── NotJSON 400
    ├── NotAuthorised 401
    ├── NotAllowed 403
    ├── PairNotServed 404
    ├── BodyTooSlow 408
    ├── BundlesRefused 409
    ├── TooMuchText 413
    ├── WrongContentType 415
    ├── InvalidFields 422
    ├── TooManyRequests 429
    │   └── TooManyCharacters
    ├── ClientLeft 499
    ├── StepFailed 500
    ├── Unavailable 503
    │   └── Overloaded, with Retry-After
    └── DeadlinePassed 504
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple


class FieldFault(NamedTuple):
    """What is wrong with one field of what was sent; `pointer` is a JSON Pointer as a URI fragment."""

    pointer: str
    detail: str


class ServiceError(Exception):
    """Anything that the service tells a client instead of an answer."""

    status: ClassVar[int]
    slug: ClassVar[str]
    title: ClassVar[str]
    example: ClassVar[str]

    def __init__(self, detail: str, errors: Sequence[FieldFault] = (), retry_after_s: float | None = None) -> None:
        super().__init__(detail)
        self.detail, self.errors, self.retry_after_s = detail, list(errors), retry_after_s


class WrongHost(ServiceError):
    status, slug, title = 400, "wrong-host", "No host, or more than one"
    example = "A request over HTTP/1.1 has one header Host."


class NotJSON(ServiceError):
    status, slug, title = 400, "not-json", "The body is not JSON"
    example = "Expecting ',' delimiter: line 1 column 17 (char 16)"


class NotAuthorised(ServiceError):
    status, slug, title = 401, "not-authorised", "No valid API key"
    example = "This service wants an API key, and got none or one that it does not know."


class NotAllowed(ServiceError):
    status, slug, title = 403, "not-allowed", "Not for this key"
    example = "This is for keys with the word `admin` in the file of keys."


class PairNotServed(ServiceError):
    status, slug, title = 404, "pair-not-served", "Language pair not served"
    example = "No bundle translates from en to xx. Served: en-fr."


class BodyTooSlow(ServiceError):
    status, slug, title = 408, "body-too-slow", "The body came too slowly"
    example = "The body did not arrive within 60000 ms."


class BundlesRefused(ServiceError):
    status, slug, title = 409, "bundles-refused", "The bundles cannot be served"
    example = "bundles/en-fr: model.safetensors does not match its checksum"


class TooMuchText(ServiceError):
    status, slug, title = 413, "too-much-text", "Too much text"
    example = "The text has 120000 characters, over the limit of 50000."


class WrongContentType(ServiceError):
    status, slug, title = 415, "wrong-content-type", "Wrong content type"
    example = "The body must be application/json; it is text/plain."


class InvalidFields(ServiceError):
    status, slug, title = 422, "invalid-fields", "Wrong fields"
    example = "#/target: Field required"

    @classmethod
    def of(cls, faults: Sequence[FieldFault]) -> InvalidFields:
        return cls("; ".join(f"{fault.pointer}: {fault.detail}" for fault in faults[:3]), faults)

    @classmethod
    def at(cls, pointer: str, detail: str) -> InvalidFields:
        """With one fault, at `pointer`: "#/text/3", or "#" for the body as a whole."""
        return cls.of([FieldFault(pointer=pointer, detail=detail)])


class TooManyRequests(ServiceError):
    status, slug, title = 429, "too-many-requests", "Too many requests"
    example = "Over the limit of 600/minute requests. Retry after 3 s."


class TooManyCharacters(TooManyRequests):
    slug, title = "too-many-characters", "Too many characters"
    example = "Over the limit of 100000/hour characters. Retry after 90 s."


class ClientLeft(ServiceError):
    """Nobody reads this answer; the status, nginx's, is for the log and the metrics."""

    status, slug, title = 499, "client-left", "The client closed the connection"


class StepFailed(ServiceError):
    status, slug, title = 500, "step-failed", "The model failed on this text"
    example = "The step that this sentence was in failed; the service's log says why."


class Unavailable(ServiceError):
    status, slug, title = 503, "unavailable", "Not able to translate"
    example = "The engine has stopped: OSError: device lost"


class Overloaded(Unavailable):
    slug, title = "overloaded", "Too much to do"
    example = "The queue is full. Retry after 3 s."


class DeadlinePassed(ServiceError):
    status, slug, title = 504, "deadline-passed", "The deadline passed"
    example = "Not finished within 60000 ms."
