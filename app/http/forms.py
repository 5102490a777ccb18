"""Reads a request's fields however they come: as JSON, as a form, as a form with a file, and in the query.

Knows bytes, names and limits; what the fields mean is the schemas'.
"""

from __future__ import annotations

import asyncio
import json
import re
from base64 import b64decode
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
from app.http.json_body import JSONRequest, arriving, check_uncompressed, too_large, was_read, wrong_type
from app.runtime.byte_budgets import Place
from app.settings import Settings

JSON, FORM, PARTS = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
_MORE_FIELDS = 32
"""That a form may have beside as many texts as a request may have."""
AROUND_BYTES = 1 << 16
"""What a body may have beside its file: the fields, and what stands between them."""
_LONG = 1 << 14
_ENCODED_WORD = re.compile(r"=\?utf-8\?b\?(.*)\?=", re.IGNORECASE)
"""RFC 2047, which has no place in a form."""
_CHARSETS = {b"", b"utf-8", b"utf8", b"us-ascii", b"ascii"}

Texts = dict[str, list[str]]
"""Fields of a form, in which a name may stand more than once."""


class File(NamedTuple):
    """A file, with the name that the client gave it."""

    name: str
    content: bytes


@dataclass(frozen=True)
class Fields:
    """What was sent. A field of the body hides one of the same name in the query; JSON's null is no field."""

    typed: Mapping[str, Any] = field(default_factory=dict)
    """Of a JSON object."""
    texts: Mapping[str, list[str]] = field(default_factory=dict)
    """Of a form, and of the query."""
    files: Mapping[str, File] = field(default_factory=dict)
    """Of a form, beside the one that it is about."""

    def one(self, name: str) -> Any | None:
        """The field's value: of any type if it came in JSON, else the first string of that name."""
        if name in self.typed:
            return self.typed[name]
        return self.texts[name][0] if name in self.texts else None

    def all(self, name: str) -> list[Any]:
        """The items of a JSON list, or all strings of that name; a value alone is a list of one."""
        value = self.typed[name] if name in self.typed else self.texts.get(name, [])
        return value if isinstance(value, list) else [value]

    def by_name(self) -> dict[str, Any]:
        """All of them, as JSON would have them: a string that stands alone, and a list of those that do not."""
        return {**{name: texts[0] if len(texts) == 1 else texts for name, texts in self.texts.items()}, **self.typed}


async def read_fields(request: Request) -> Fields:
    """The fields of the request's query and of its body, which may also be that of a GET.

    Raises NotJSON, WrongContentType, BodyTooSlow, ClientLeft, TooMuchText (as soon as too much has arrived) and
    InvalidFields, and Overloaded if too much is being sent at once.
    """
    most = _most(request)
    query = _form(request.scope["query_string"], most)
    kind = _content_type(request)
    if kind == PARTS:
        settings: Settings = request.state.settings
        limit = settings.max_body_bytes
        parts = await _parts(request, limit, too_large("body", limit))
        return Fields(texts={**query, **_texts(parts)})
    reader = JSONRequest(request.scope, request.receive)  # which reads any body as it should be read
    body = await reader.body()
    if not body:
        return Fields(texts=query)
    if kind == FORM:
        # A hundred thousand percent signs take a tenth of a second, in which the others would wait.
        form = _form(body, most) if len(body) < _LONG else await asyncio.to_thread(_form, body, most)
        return Fields(texts={**query, **form})
    if kind != JSON:
        raise wrong_type(f"{JSON}, {FORM} or {PARTS}", kind)
    return Fields(_object(await reader.json()), query)


def read_query(request: Request) -> Fields:
    """The fields of the query alone, for which no body is waited for. Raises InvalidFields."""
    return Fields(texts=_form(request.scope["query_string"], _most(request)))


async def read_upload(request: Request, beside: Mapping[str, int] | None = None) -> tuple[File, Fields]:
    """The form with one file, `file`, in the request's body, and its other fields with those of the query.

    `beside`: names of other fields that may be files or long, each with the bytes that it may have. Raises what
    `read_fields` does.
    """
    kind = _content_type(request)
    if kind != PARTS:
        raise wrong_type(PARTS, kind)
    query = _form(request.scope["query_string"], _most(request))
    settings: Settings = request.state.settings
    limits = {"file": settings.max_file_bytes, **(beside or {})}
    parts = await _parts(request, sum(limits.values()) + AROUND_BYTES, too_large("form", sum(limits.values())), limits)
    files: dict[str, File] = {}
    wrong: list[str] = []
    try:
        for name, sent in parts.multi_items():
            if isinstance(sent, UploadFile) and (name not in limits or name in files):
                wrong.append(_utf8(name))
            elif isinstance(sent, UploadFile):
                files[name] = File(_file_name(sent.filename or ""), await sent.read())
    finally:
        await parts.close()
    file = files.pop("file", None)
    if file is None or not file.name:
        raise InvalidFields.at("#/file", "A file with a name is required")
    if wrong:
        raise InvalidFields.at(f"#/{wrong[0]}", "No file is expected here")
    return file, Fields(texts={**query, **_texts(parts)}, files=files)


async def _parts(
    request: Request, limit: int, too_much: TooMuchText, limits: Mapping[str, int] | None = None
) -> FormData:
    """A form of at most `limit` bytes in parts. Those that `limits` names may be files, of so many bytes each.

    Its texts are not decoded yet: see `_utf8`.
    """
    # Told that they are in latin-1, the parser leaves the bytes as they are; otherwise it would take them for that
    # where they are not UTF-8, and say nothing.
    headers = Headers({"content-type": request.headers["content-type"] + "; charset=latin-1"})
    try:
        with arriving(request) as place:
            stream = _chunks(request, limit, too_much, place)
            most = _most(request)
            parser = _Parser(headers, stream, max_files=len(limits or ()), max_fields=most, max_part_size=limit)
            parser.limits = limits or {}
            parser.spool_max_size = limit + 1  # never on disk
            found = await parser.parse()
    except MultiPartException as error:
        raise InvalidFields.at("#", error.message) from None
    if parser.is_cut_off:
        raise InvalidFields.at("#", "The form is cut off: the boundary at its end is missing")
    return found


class _Parser(MultiPartParser):
    """Knows whether the form came to its end: a part that is cut off is otherwise left out, and nothing said.

    Raises TooMuchText as soon as a part is over its own limit.
    """

    is_cut_off = False
    limits: Mapping[str, int] = {}
    _size = 0

    def on_part_begin(self) -> None:
        super().on_part_begin()
        self.is_cut_off, self._size = True, 0

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        super().on_part_data(data, start, end)
        self._size += end - start
        name = self._current_part.field_name
        if self._size > self.limits.get(name, self._size):
            raise too_large(name, self.limits[name])

    def on_end(self) -> None:
        self.is_cut_off = False


async def _chunks(request: Request, limit: int, too_much: TooMuchText, place: Place) -> AsyncGenerator[bytes, None]:
    length = 0
    async for chunk in request.stream():
        was_read(request.scope, len(chunk))
        length += len(chunk)
        if length > limit:
            raise too_much
        place.take(len(chunk))
        yield chunk


def _texts(parts: FormData) -> Texts:
    found: Texts = {}
    for name, value in parts.multi_items():
        if isinstance(value, str):
            found.setdefault(_utf8(name), []).append(_utf8(value))
    return found


def _file_name(text: str) -> str:
    """`text`, in UTF-8 or as .NET's HttpClient writes what is not in ASCII."""
    name = _utf8(text)
    if encoded := _ENCODED_WORD.fullmatch(name):
        with suppress(ValueError):
            return b64decode(encoded[1], validate=True).decode()
    return name


def _utf8(text: str) -> str:
    """`text`, whose characters are bytes, in UTF-8."""
    try:
        return text.encode("latin-1").decode()
    except UnicodeError:
        raise InvalidFields.at("#", "The form is not in UTF-8") from None


def _form(sent: bytes, most: int) -> Texts:
    """The fields of a form in one piece, percent-encoded or in UTF-8 as it is."""
    found: Texts = {}
    try:
        for name, value in parse_qsl(sent.decode(), keep_blank_values=True, max_num_fields=most, errors="strict"):
            found.setdefault(name, []).append(value)
    except UnicodeDecodeError:
        raise InvalidFields.at("#", "The form is not in UTF-8") from None
    except ValueError:
        raise InvalidFields.at("#", f"The form has more than {most} fields") from None
    return found


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidFields.at("#", "The body must be a JSON object")
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidFields.at("#", "The body holds a lone surrogate, which is no character") from None
    except RecursionError:
        raise InvalidFields.at("#", "The JSON is nested too deeply") from None
    return {name: field for name, field in value.items() if field is not None}


def _content_type(request: Request) -> str:
    """The media type alone, in small letters. Raises WrongContentType if the body could not be read as one of it."""
    headers = dict(request.scope["headers"])
    check_uncompressed(headers)
    kind, options = parse_options_header(headers.get(b"content-type", b"").decode("latin-1"))
    charset = options.get(b"charset", b"").strip().lower()
    if kind != JSON.encode() and charset not in _CHARSETS:  # JSON shows in which encoding of Unicode it is
        raise WrongContentType(f"The body must be in UTF-8; its charset is {charset.decode('latin-1')}.")
    return kind.decode("latin-1").strip()


def _most(request: Request) -> int:
    settings: Settings = request.state.settings
    return settings.max_items + _MORE_FIELDS
