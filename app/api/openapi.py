"""The OpenAPI document as a whole: everything that applies to all routes."""

from __future__ import annotations

from itertools import chain
from typing import Any

from fastapi import FastAPI

from app.api.schemas.translation import StreamedPart
from app.errors import NotAuthorised
from app.http.access_log import ID_HEADER

DESCRIPTION = """Translates text with your own models, and shows their attention. [The page](./) is its user interface.
Guides are in `docs/` of the source; `make docs` makes a site of them.

Errors are `application/problem+json` (RFC 9457); the routes of other services' APIs use the formats that their clients
expect. Unknown fields are refused, except by the routes of others' APIs, which ignore them. If the service has
API keys, the routes with a lock require one. Every response has an `X-Request-ID`, which is also in the log."""
TAGS = [
    {"name": "translation", "description": "Translate texts and documents, and inspect the attention of a sentence"},
    {"name": "translation memory", "description": "Translations that clients have approved, used before the model"},
    {"name": "what is served", "description": "Languages and models"},
    {"name": "published models", "description": "Models of Mozilla, OPUS-MT, Argos and others, to install and serve"},
    {"name": "adaptation", "description": "Bundles that learn the pairs of a file; for keys marked `admin`"},
    {"name": "operation", "description": "For operators and monitoring"},
]
_BEARER = {"type": "http", "scheme": "bearer", "description": "A key of this service: `Authorization: Bearer KEY`"}
_API_KEY = {
    "type": "apiKey",
    "in": "query",
    "name": "api_key",
    "description": "The same key, as LibreTranslate's clients send it: in the query, or in the body field of this name",
}
_DEEPL = {
    "type": "apiKey",
    "in": "header",
    "name": "Authorization",
    "description": "The same key, as DeepL's clients send it. Enter the whole header value: `DeepL-Auth-Key KEY`",
}
_SCHEMES = {"key": _BEARER, "api_key": _API_KEY, "DeepL-Auth-Key": _DEEPL}
_SCHEMES_BY_TAG: dict[str, list[str]] = {"LibreTranslate": ["api_key", "key"], "DeepL": ["DeepL-Auth-Key"]}
"""By tag: how the routes that require a key accept it."""
_ID_DESCRIPTION = {
    "description": "The request's id, as in the service's log",
    "schema": {"type": "string"},
    "example": "0123456789abcdef",
}


def complete(app: FastAPI, with_keys: bool) -> None:
    """Adds to the OpenAPI document of `app` what applies to all of its routes."""
    generate = app.openapi

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            _complete(generate(), with_keys)
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # FastAPI's own way (its "Extending OpenAPI")


def _complete(document: dict[str, Any], with_keys: bool) -> None:
    components = document["components"]
    components["headers"] = {ID_HEADER: _ID_DESCRIPTION}
    streamed = StreamedPart.model_json_schema(ref_template="#/components/schemas/{model}")
    del streamed["$defs"]  # the document has them: a Translation refers to the same
    components["schemas"]["StreamedPart"] = streamed  # FastAPI does not include events
    if with_keys:
        components["securitySchemes"] = _SCHEMES
    for operation in chain.from_iterable(path.values() for path in document["paths"].values()):
        responses = operation["responses"]
        if "HTTPValidationError" in str(responses.get("422")):  # never sent
            del responses["422"]
        _copy_examples(operation, components["schemas"])
        for response in responses.values():
            response.setdefault("headers", {})[ID_HEADER] = {"$ref": f"#/components/headers/{ID_HEADER}"}
        if with_keys and _requires_key(responses):
            operation["security"] = [{name: []} for name in _SCHEMES_BY_TAG.get(operation["tags"][0], ["key"])]
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)


def _copy_examples(operation: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Copies the examples of a body's schema to the body: the page offers a choice only of a body's own examples."""
    for content in operation.get("requestBody", {}).get("content", {}).values():
        schema = schemas.get(content["schema"].get("$ref", "").rpartition("/")[2], {})
        if "examples" in schema and "examples" not in content:
            numbered = enumerate(schema["examples"], start=1)
            content["examples"] = {f"example {number}": {"value": example} for number, example in numbered}


def _requires_key(responses: dict[str, Any]) -> bool:
    contents = [content for response in responses.values() for content in response.get("content", {}).values()]
    return any(NotAuthorised.slug in content.get("examples", {}) for content in contents)
