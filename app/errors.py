"""The service's exceptions, each with its HTTP status. Independent of any web framework.

`app.http.problems` converts them to responses; the routes of other services' APIs have their own formats.

    ServiceError
    ├── WrongHost 400
    ├── NotJSON 400
    ├── NotAuthorised 401
    ├── NotAllowed 403
    ├── NoTranslationMemory 403
    ├── NoAdaptation 403
    ├── PairNotServed 404
    ├── NoSuchJob 404
    ├── ModelNotInstalled 404
    ├── BodyTooSlow 408
    ├── BundlesRefused 409
    ├── AdaptationConflict 409
    ├── InstallRefused 409
    ├── TooMuchText 413
    ├── WrongContentType 415
    ├── InvalidFields 422
    ├── TooManyRequests 429
    │   └── TooManyCharacters
    ├── ClientLeft 499
    ├── StepFailed 500
    ├── InstallFailed 502
    ├── Unavailable 503
    │   ├── Overloaded, with Retry-After
    │   └── StoreUnavailable, with Retry-After
    └── DeadlinePassed 504
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

STORE_RETRY_AFTER_S = 2.0
"""How long a client should wait before it retries what needs the store."""


class FieldFault(NamedTuple):
    """An error in one field of a request; `pointer` is a JSON Pointer as a URI fragment."""

    pointer: str
    detail: str


class ServiceError(Exception):
    """An error that the service reports to a client."""

    status: ClassVar[int]
    slug: ClassVar[str]
    title: ClassVar[str]
    example: ClassVar[str]

    def __init__(self, detail: str, errors: Sequence[FieldFault] = (), retry_after_s: float | None = None) -> None:
        super().__init__(detail)
        self.detail, self.errors, self.retry_after_s = detail, list(errors), retry_after_s


class WrongHost(ServiceError):
    status, slug, title = 400, "wrong-host", "Missing or repeated Host header"
    example = "An HTTP/1.1 request must have exactly one Host header."


class NotJSON(ServiceError):
    status, slug, title = 400, "not-json", "The body is not JSON"
    example = "Expecting ',' delimiter: line 1 column 17 (char 16)"


class NotAuthorised(ServiceError):
    status, slug, title = 401, "not-authorised", "No valid API key"
    example = "This service requires an API key; the request has none, or an unknown one."


class NotAllowed(ServiceError):
    status, slug, title = 403, "not-allowed", "Not allowed for this key"
    example = "Only keys marked `admin` in the API key file may do this."


class NoTranslationMemory(ServiceError):
    status, slug, title = 403, "no-translation-memory", "No translation memory"
    example = "This service keeps no translation memory: its operator has not set INTERLINEAR_TRANSLATION_MEMORY."


class NoAdaptation(ServiceError):
    status, slug, title = 403, "no-adaptation", "No adaptation here"
    example = "Adapting needs API keys, one of them marked `admin`: this service has no API key file."


class PairNotServed(ServiceError):
    status, slug, title = 404, "pair-not-served", "Language pair not served"
    example = "No bundle translates from en to xx. Served: en-fr."


class NoSuchJob(ServiceError):
    status, slug, title = 404, "no-such-job", "No such job"
    example = "There is no job 0123456789abcdef: it may have been forgotten after it ended."


class ModelNotInstalled(ServiceError):
    status, slug, title = 404, "model-not-installed", "Not an installed model"
    example = "No installed model is called en-es; there is en-fr."


class BodyTooSlow(ServiceError):
    status, slug, title = 408, "body-too-slow", "The body arrived too slowly"
    example = "The body did not arrive within 60000 ms."


class BundlesRefused(ServiceError):
    status, slug, title = 409, "bundles-refused", "The bundles cannot be served"
    example = "bundles/en-fr: model.safetensors does not match its checksum"


class AdaptationConflict(ServiceError):
    status, slug, title = 409, "adaptation-conflict", "Not possible in the adaptation's state"
    example = "This needs an adaptation that is planned; there is none."


class InstallRefused(ServiceError):
    status, slug, title = 409, "install-refused", "Nothing can be installed or removed now"
    example = "/models, the folder of installed models, cannot be written (Read-only file system)."


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
        """An error with one fault, at `pointer`: "#/text/3", or "#" for the body as a whole."""
        return cls.of([FieldFault(pointer=pointer, detail=detail)])


class TooManyRequests(ServiceError):
    status, slug, title = 429, "too-many-requests", "Too many requests"
    example = "Over the limit of 600/minute requests. Retry after 3 s."


class TooManyCharacters(TooManyRequests):
    slug, title = "too-many-characters", "Too many characters"
    example = "Over the limit of 100000/hour characters. Retry after 90 s."


class ClientLeft(ServiceError):
    """The client disconnected. The status, nginx's, is only for the log and the metrics."""

    status, slug, title = 499, "client-left", "The client closed the connection"


class StepFailed(ServiceError):
    status, slug, title = 500, "step-failed", "The model failed on this text"
    example = "The decoding step of this sentence failed; see the service's log."


class InstallFailed(ServiceError):
    """Never a response by itself: the error of a job."""

    status, slug, title = 502, "install-failed", "The model could not be installed"
    example = "https://example.org/model.bin.gz: the server answered 404 Not Found"


class Unavailable(ServiceError):
    status, slug, title = 503, "unavailable", "Unable to translate"
    example = "The engine has stopped: OSError: device lost"


class Overloaded(Unavailable):
    slug, title = "overloaded", "Overloaded"
    example = "The queue is full. Retry after 3 s."


class StoreUnavailable(Unavailable):
    """The store that the instances share does not answer. Only requests that need it fail."""

    slug, title = "store-unavailable", "The store does not answer"
    example = "The store that keeps glossaries, documents and downloads does not answer. Retry later."

    def __init__(self, detail: str = example) -> None:
        super().__init__(detail, (), STORE_RETRY_AFTER_S)


class DeadlinePassed(ServiceError):
    status, slug, title = 504, "deadline-passed", "The deadline passed"
    example = "Not finished within 60000 ms."
