"""Shared by DeepL's routes: keys, errors, language codes, and how fields are read and written.

The format follows DeepL's published API and its Python client, `deepl` 1.32.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.exceptions import HTTPException

from app import errors
from app.api import openapi_parts
from app.api.admission import admit, key_of
from app.api.openapi_parts import schema_of
from app.engine.registry import Catalogue
from app.errors import InvalidFields, ServiceError
from app.http import problems
from app.http.forms import FORM, JSON, MULTIPART, Fields, read_query
from app.http.problems import ASCIIResponse, M, Problem
from app.runtime.rate_limits import Client
from app.storage.glossary_store import GlossaryStore, LanguagePair, StoredGlossary
from app.text.glossary import Glossary, GlossaryChain
from model.languages import language_alone, language_name, served_code

MAX_GLOSSARIES = 5
"""Per request."""
QUOTA_EXCEEDED = 456
_STATUS_OF_STATUS = {401: 403, 408: 400, 415: 400, 422: 400}
_STATUS_OF_SLUG = {errors.PairNotServed.slug: 400, errors.TooManyCharacters.slug: QUOTA_EXCEEDED}
_VARIANTS = {
    "en": {"en-GB": "English (British)", "en-US": "English (American)"},
    "pt": {"pt-BR": "Portuguese (Brazilian)", "pt-PT": "Portuguese (European)"},
    "zh": {"zh": "Chinese", "zh-Hans": "Chinese (simplified)"},
}
"""Codes under which a language served without a variant is offered as a target: the client sends no others."""
_ERROR = {"$ref": "#/components/schemas/DeepLError"}
_PARTS_OF_NAME = re.compile(r"[^.\[\]]+")
_MAX_NESTING = 3


# ---- Authentication


async def _caller(request: Request) -> Client:
    """Raises NotAuthorised and TooManyRequests."""
    return await admit(request, key_of(request, read_query(request)))


Caller = Annotated[Client, Depends(_caller)]
"""The client with the key in the header `Authorization: DeepL-Auth-Key KEY` or the query, or any client if the service
has no keys. Resolved before the body is read."""


# ---- Errors


class DeepLError(BaseModel):
    """The error of a request."""

    message: str = Field(description="What went wrong; some clients show this alone", examples=["No such glossary."])
    detail: str = Field(description="The kind of error", examples=["Not Found"])


def render_problem(problem: Problem, headers: dict[str, str]) -> Response:
    """Converts a problem to DeepL's format, with its status codes."""
    status = _STATUS_OF_SLUG.get(problem.type.rpartition(":")[2]) or _STATUS_OF_STATUS.get(
        problem.status, problem.status
    )
    return ASCIIResponse({"message": problem.detail, "detail": problem.title}, status, headers)


def invalid_field(field: str, detail: str) -> InvalidFields:
    """An InvalidFields error about `field`."""
    return InvalidFields.at(f"#/{field}", detail)


def not_found(what: str) -> HTTPException:
    return HTTPException(404, f"No such {what}.")


def error_responses(
    *kinds: type[ServiceError], missing: Sequence[str] = (), not_ready: str | None = None
) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that may end in these errors, each with an example.

    `missing`: kinds of resources that may not exist; `not_ready`: the detail of a 503.
    """
    others = {f"no-{what}": example_problem(404, "Not Found", not_found(what).detail) for what in missing}
    if not_ready:
        others["not-ready"] = example_problem(503, "Service Unavailable", not_ready)
    found = openapi_parts.error_responses(
        *openapi_parts.ADMISSION_ERRORS, *kinds, renderer=render_problem, schema=_ERROR, others=others
    )
    return {status: {**response, "model": DeepLError} for status, response in found.items()}


def example_problem(status: int, title: str, detail: str) -> Problem:
    return Problem(type="", title=title, status=status, detail=detail)


# ---- Fields


class Body(BaseModel):
    """A request. Ignores unknown fields, as DeepL does."""

    model_config = ConfigDict(extra="ignore")


def _split_names(value: object) -> object:
    """Converts a single text, or texts separated by commas, to a list."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return [part.strip() for text in value for part in text.split(",") if part.strip()]
    return value


Strings = Annotated[list[str], Field(fail_fast=True)]
"""Reports only the first error; listing a hundred thousand would take seconds."""
Names = Annotated[Strings, BeforeValidator(_split_names, json_schema_input_type=str | list[str])]
"""In a form, separated by commas."""


def validated(model: type[M], fields: Fields) -> M:
    """Validates `fields` as a `model`. JSON is read as a form is: clients send `"0"`, `0` and `false` alike, and empty
    strings for what they leave open. Raises InvalidFields."""
    return problems.validated(model, _nested(fields.by_name()))


def _nested(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields in the shape of the models: `a[0].b`, `a[0][b]` and `a.0.b` are the field `b` of the first item of the
    list `a`. Empty fields but texts are left out. Raises InvalidFields."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        *path, last = _PARTS_OF_NAME.findall(name) or [name]
        if value == "" and (path or [last])[0] != "text":
            continue
        if len(path) > _MAX_NESTING:
            raise invalid_field(name[:100], f"The name is nested over {_MAX_NESTING} levels deep")
        place: Any = found
        for part in path:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                break
        if not isinstance(place, dict) or last in place:
            raise invalid_field(name[:100], "Another field of the form contradicts this one")
        place[last] = value
    return {name: _as_in_form(value) for name, value in found.items()}


def _as_in_form(value: Any, depth: int = _MAX_NESTING) -> Any:
    """`value`, with strings for numbers and truth values, and lists for the dicts whose names are all numbers."""
    if isinstance(value, bool | int | float):
        return str(int(value) if isinstance(value, bool) else value)
    if not depth:
        return value
    if isinstance(value, list):
        return [_as_in_form(each, depth - 1) for each in value]
    if not isinstance(value, dict):
        return value
    names = sorted(value, key=lambda name: (len(name), name))
    within = {name: _as_in_form(value[name], depth - 1) for name in names}
    return list(within.values()) if within and all(map(str.isdecimal, within)) else within


def request_body(model: type[BaseModel], *examples: dict[str, Any]) -> dict[str, Any]:
    """For `openapi_extra`: a body that is JSON or a form."""
    schema = schema_of(model)
    numbered_examples = {f"example {number}": {"value": example} for number, example in enumerate(examples, 1)}
    content = {media_type: {"schema": schema, "examples": numbered_examples} for media_type in (JSON, FORM, MULTIPART)}
    return {"requestBody": {"required": True, "content": content}}


# ---- Languages


def pair_of(catalogue: Catalogue, source_lang: str | None, target_lang: str) -> tuple[str | None, str]:
    """The served codes for DeepL's codes, in any case; the source is None if it is to be detected. Raises
    InvalidFields."""
    source = source_lang and _served(source_lang, catalogue.source_languages, "source_lang")
    everywhere = catalogue.target_languages
    targets = everywhere if source is None else catalogue.targets(source)
    target = served_code(target_lang, targets) or _served(target_lang, everywhere, "target_lang")
    return source, target


def _served(code: str, codes: Sequence[str], field: str) -> str:
    found = served_code(code, codes)
    if found is None:
        supported = ", ".join(sorted({code.upper() for code in codes}))
        raise invalid_field(field, f"Value for '{field}' not supported. Supported: {supported}.")
    return found


def source_languages(catalogue: Catalogue) -> dict[str, str]:
    """Names by code."""
    return {code: language_name(code) for code in map(language_alone, catalogue.source_languages)}


def target_languages(catalogue: Catalogue) -> dict[str, str]:
    """Names by code, with the variants that the client requires."""
    names: dict[str, str] = {}
    for code in catalogue.target_languages:
        names |= _VARIANTS.get(code.lower(), {code: language_name(code)})
    return names


# ---- Glossaries


async def glossary_of(
    store: GlossaryStore, owner: str, ids: Sequence[str], source: str | None, target: str
) -> Glossary | None:
    """Merges the glossaries of a request; for each term, the first that has it decides. Raises like
    `dictionaries_of`."""
    found = [await store.load(*each) for each in await dictionaries_of(store, owner, ids, source, target)]
    return GlossaryChain(found) if len(found) > 1 else found[0] if found else None


async def dictionaries_of(
    store: GlossaryStore, owner: str, ids: Sequence[str], source: str | None, target: str
) -> list[tuple[StoredGlossary, LanguagePair]]:
    """The glossaries of a request, each with the pair of its dictionary.

    Raises InvalidFields and StoreUnavailable, and HTTPException if an id is unknown.
    """
    if not ids:
        return []
    if source is None:
        raise invalid_field("source_lang", "With a glossary, source_lang must be given")
    if len(ids) > MAX_GLOSSARIES:
        raise invalid_field("glossary_ids", f"A request may have at most {MAX_GLOSSARIES} glossaries")
    pair = language_alone(source), language_alone(target)
    found = []
    for id in ids:
        glossary = await store.find(id, owner)
        if glossary is None:
            raise not_found("glossary")
        if pair not in glossary.dictionaries:
            raise invalid_field(
                "glossary_id", f"The glossary {glossary.name} has no dictionary from {source} to {target}"
            )
        found.append((glossary, pair))
    return found
