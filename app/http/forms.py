"""Reads a request's fields in any encoding: JSON, form, multipart form with a file, and query.

Handles bytes, names and limits; the schemas define the fields.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from codecs import BOM_UTF8
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from fastapi import Request
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from app.errors import InvalidFields, TooMuchText, WrongContentType
from app.http.json_body import (
    check_uncompressed,
    decoded_json,
    mark_read,
    read_body,
    receiving_body,
    too_large,
    wrong_type,
)
from app.runtime.byte_budgets import FORM_OVERHEAD_BYTES, Reservation
from app.runtime.event_loop import run
from app.server.state import state_of

JSON, FORM, MULTIPART = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
_MAX_EXTRA_FIELDS = 32
"""Additional fields that a form may have, beyond the maximum number of texts."""
_BYTES_PER_CHAR = 8
"""Bytes of a form that are decoded, with their percent signs, in the time that planning a character takes."""
_ENCODED_WORD = re.compile(r"=\?utf-8\?b\?(.*)\?=", re.IGNORECASE)
"""An RFC 2047 encoded word, which is not valid in a form but does occur."""
_CHARSETS = {b"", b"utf-8", b"utf8", b"us-ascii", b"ascii"}

FormValues = dict[str, list[str]]
"""Fields of a form, in which names may repeat."""


class Upload(NamedTuple):
    """A file, with the name that the client gave it."""

    name: str
    content: bytes
    charset: str = ""
    """The encoding that its part of the form declares."""


@dataclass(frozen=True)
class Fields:
    """The fields of a request. A field in the body hides one with the same name in the query; a JSON null counts as
    absent."""

    typed: Mapping[str, Any] = field(default_factory=dict)
    """From a JSON object."""
    strings: Mapping[str, list[str]] = field(default_factory=dict)
    """From a form, and from the query."""
    files: Mapping[str, Upload] = field(default_factory=dict)
    """From a form, other than its main file."""

    def one(self, name: str) -> Any | None:
        """The field's value: of any type from JSON, else the first string with that name."""
        if name in self.typed:
            return self.typed[name]
        return self.strings[name][0] if name in self.strings else None

    def all(self, name: str) -> list[Any]:
        """The items of a JSON list, or all strings with that name; a single value becomes a list of one."""
        value = self.typed[name] if name in self.typed else self.strings.get(name, [])
        return value if isinstance(value, list) else [value]

    def by_name(self) -> dict[str, Any]:
        """All fields, shaped like JSON: a single string, or a list of several."""
        strings = {name: values[0] if len(values) == 1 else values for name, values in self.strings.items()}
        return {**strings, **self.typed}


async def read_fields(request: Request, list_field: str | None = None) -> Fields:
    """Reads the fields of the request's query and body; a GET may have a body too.

    A body that begins like JSON is JSON, whatever its type: many clients send none, or a form's. `list_field`: the
    field that a JSON list is. Raises NotJSON, WrongContentType, BodyTooSlow, ClientLeft, TooMuchText (as soon as too
    much has arrived), InvalidFields, and Overloaded if too much is being uploaded at once.
    """
    max_fields = _max_fields(request)
    query = _parse_form(request.scope["query_string"], max_fields)
    media_type = _content_type(request)
    if media_type == MULTIPART and request.headers.get("content-length") != "0":
        limit = state_of(request).app.settings.max_body_bytes
        parts = await _read_multipart(request, limit, too_large("body", limit))
        return Fields(strings={**query, **_form_values(parts)})
    body = await read_body(request)
    if not body:
        return Fields(strings=query)
    if media_type == JSON or body.removeprefix(BOM_UTF8).lstrip()[:1] in (b"{", b"["):
        return Fields(_json_fields(decoded_json(body), list_field), query)
    if media_type not in ("", FORM):
        raise wrong_type(f"{JSON}, {FORM} or {MULTIPART}", media_type)
    body = body.removeprefix(BOM_UTF8)
    form = await run(len(body) // _BYTES_PER_CHAR, _parse_form, body, max_fields)
    return Fields(strings={**query, **form})


def read_query(request: Request) -> Fields:
    """Reads the fields of the query only, without waiting for a body. Raises InvalidFields."""
    return Fields(strings=_parse_form(request.scope["query_string"], _max_fields(request)))


async def read_upload(request: Request, other_files: Mapping[str, int] | None = None) -> tuple[Upload, Fields]:
    """Reads the form with one file, `file`, in the request's body, and its other fields together with the query's.

    `other_files`: names of other fields that may be files or long, each with its limit in bytes. Raises what
    `read_fields` raises.
    """
    media_type = _content_type(request)
    if media_type != MULTIPART:
        raise wrong_type(MULTIPART, media_type)
    query = _parse_form(request.scope["query_string"], _max_fields(request))
    limits = {"file": state_of(request).app.settings.max_file_bytes, **(other_files or {})}
    limit = sum(limits.values())
    parts = await _read_multipart(request, limit + FORM_OVERHEAD_BYTES, too_large("form", limit), limits)
    files: dict[str, Upload] = {}
    wrong: list[str] = []
    try:
        for name, sent in parts.multi_items():
            if isinstance(sent, UploadFile) and (name not in limits or name in files):
                wrong.append(_utf8(name))
            elif isinstance(sent, UploadFile):
                _, options = parse_options_header(sent.content_type or "")
                charset = options.get(b"charset", b"").decode("latin-1")
                files[name] = Upload(_file_name(sent.filename or ""), await sent.read(), charset)
    finally:
        await parts.close()
    file = files.pop("file", None)
    if file is None or not file.name:
        raise InvalidFields.at("#/file", "A file with a name is required")
    if wrong:
        raise InvalidFields.at(f"#/{wrong[0]}", "This field does not take a file")
    return file, Fields(strings={**query, **_form_values(parts)}, files=files)


async def _read_multipart(
    request: Request, limit: int, too_much: TooMuchText, limits: Mapping[str, int] | None = None
) -> FormData:
    """Reads a multipart form of at most `limit` bytes. Fields named in `limits` may be files, up to their own limit in
    bytes.

    Does not decode its values; see `_utf8`.
    """
    # Declared as latin-1, bytes pass through the parser unchanged; otherwise it would silently fall back to latin-1
    # when they are not UTF-8.
    headers = Headers({"content-type": request.headers["content-type"] + "; charset=latin-1"})
    try:
        with receiving_body(request) as reservation:
            stream = _read_chunks(request, limit, too_much, reservation)
            max_fields = _max_fields(request)
            parser = _MultipartParser(
                headers, stream, max_files=len(limits or ()), max_fields=max_fields, max_part_size=limit
            )
            parser.limits = limits or {}
            parser.spool_max_size = limit + 1  # never write to disk
            found = await parser.parse()
    except MultiPartException as error:
        raise InvalidFields.at("#", error.message) from None
    if parser.is_truncated:
        raise InvalidFields.at("#", "The form is truncated: its closing boundary is missing")
    return found


class _MultipartParser(MultiPartParser):
    """Notices whether the form is complete: the parser would silently drop a truncated part.

    Raises TooMuchText as soon as a part exceeds its own limit.
    """

    is_truncated = False
    limits: Mapping[str, int] = {}
    _size = 0

    def on_part_begin(self) -> None:
        super().on_part_begin()
        self.is_truncated, self._size = True, 0

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        super().on_part_data(data, start, end)
        self._size += end - start
        name = self._current_part.field_name
        if self._size > self.limits.get(name, self._size):
            raise too_large(name, self.limits[name])

    def on_end(self) -> None:
        self.is_truncated = False


async def _read_chunks(
    request: Request, limit: int, too_much: TooMuchText, reservation: Reservation
) -> AsyncGenerator[bytes, None]:
    length = 0
    async for chunk in request.stream():
        mark_read(request.scope, len(chunk))
        length += len(chunk)
        if length > limit:
            raise too_much
        reservation.grow(len(chunk))
        yield chunk


def _form_values(parts: FormData) -> FormValues:
    found: FormValues = {}
    for name, value in parts.multi_items():
        if isinstance(value, str):
            found.setdefault(_utf8(name), []).append(_utf8(value))
    return found


def _file_name(text: str) -> str:
    """`text`, in UTF-8, or in the encoding that .NET's HttpClient uses for non-ASCII names."""
    name = _utf8(text)
    if encoded := _ENCODED_WORD.fullmatch(name):
        with suppress(ValueError):
            return b64decode(encoded[1], validate=True).decode()
    return name


def _utf8(text: str) -> str:
    """Decodes `text`, whose characters are bytes, as UTF-8."""
    try:
        return text.encode("latin-1").decode()
    except UnicodeError:
        raise InvalidFields.at("#", "The form is not in UTF-8") from None


def _parse_form(sent: bytes, max_fields: int) -> FormValues:
    """The fields of a URL-encoded form: percent-encoded, or plain UTF-8."""
    found: FormValues = {}
    try:
        for name, value in parse_qsl(sent.decode(), keep_blank_values=True, max_num_fields=max_fields, errors="strict"):
            found.setdefault(name, []).append(value)
    except UnicodeDecodeError:
        raise InvalidFields.at("#", "The form is not in UTF-8") from None
    except ValueError:
        raise InvalidFields.at("#", f"The form has more than {max_fields} fields") from None
    return found


def _json_fields(value: Any, list_field: str | None) -> dict[str, Any]:
    if list_field is not None and isinstance(value, list):
        value = {list_field: value}
    if not isinstance(value, dict):
        raise InvalidFields.at("#", "The body must be a JSON object")
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidFields.at("#", "The body contains a lone surrogate, which is not a character") from None
    except RecursionError:
        raise InvalidFields.at("#", "The JSON is nested too deeply") from None
    return {name: field for name, field in value.items() if field is not None}


def _content_type(request: Request) -> str:
    """The media type without parameters, in lower case. Raises WrongContentType if the body cannot be read as that
    type."""
    headers = dict(request.scope["headers"])
    check_uncompressed(headers)
    media_type, options = parse_options_header(headers.get(b"content-type", b"").decode("latin-1"))
    charset = options.get(b"charset", b"").strip().lower()
    if media_type != JSON.encode() and charset not in _CHARSETS:  # JSON's Unicode encoding can be detected
        raise WrongContentType(f"The body must be in UTF-8; its charset is {charset.decode('latin-1')}.")
    return media_type.decode("latin-1").strip()


def _max_fields(request: Request) -> int:
    return state_of(request).app.settings.max_items + _MAX_EXTRA_FIELDS
