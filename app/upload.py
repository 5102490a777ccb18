"""Reads an uploaded file and its fields from a request's body, within the limit, and held in memory.

Knows multipart/form-data; what is in the file is app.documents'.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import NamedTuple

from fastapi import Request
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from app.deadlines import Deadlines
from app.errors import BodyTooSlow, ClientLeft, FieldError, InvalidFields, TooMuchText, WrongContentType
from app.settings import Settings

_FIELD_BYTES = 4_096
_MOST_FIELDS = 16
_AROUND_BYTES = 1 << 16
"""What a body may have beside the file: the fields, and what stands between them."""


class Upload(NamedTuple):
    """A file with the name that the client gave it, and the other fields."""

    name: str
    content: bytes
    fields: dict[str, str]


async def read_upload(request: Request) -> Upload:
    """The form with one file, `file`, in the request's body.

    Raises WrongContentType, BodyTooSlow, ClientLeft, TooMuchText (as soon as too much has arrived) and InvalidFields.
    """
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != "multipart/form-data":
        found = content_type or "of no type: the header Content-Type is missing"
        raise WrongContentType(f"The body must be multipart/form-data; it is {found}.")
    settings: Settings = request.state.settings
    deadlines: Deadlines = request.state.deadlines
    parser = MultiPartParser(
        request.headers,
        _arriving(request, settings.max_file_bytes),
        max_files=1,
        max_fields=_MOST_FIELDS,
        max_part_size=_FIELD_BYTES,
    )
    parser.spool_max_size = settings.max_file_bytes + _AROUND_BYTES  # never on disk
    try:
        with deadlines.limit():
            form = await parser.parse()
    except TimeoutError:
        raise BodyTooSlow(f"The body did not arrive within {settings.deadline_ms} ms.") from None
    except ClientDisconnect:
        raise ClientLeft("The client left while it sent the body.") from None
    except MultiPartException as error:
        raise _invalid("#", error.message) from None
    try:
        return await _upload(form, settings.max_file_bytes)
    finally:
        await form.close()


async def _upload(form: FormData, limit: int) -> Upload:
    file = form.get("file")
    if not isinstance(file, UploadFile) or not file.filename:
        raise _invalid("#/file", "A file with a name is required")
    content = await file.read()
    if len(content) > limit:
        raise _too_large(limit)
    fields = {name: value for name, value in form.items() if isinstance(value, str)}
    return Upload(file.filename, content, fields)


async def _arriving(request: Request, limit: int) -> AsyncGenerator[bytes, None]:
    length = 0
    async for chunk in request.stream():
        length += len(chunk)
        if length > limit + _AROUND_BYTES:
            raise _too_large(limit)
        yield chunk


def _too_large(limit: int) -> TooMuchText:
    return TooMuchText(f"The file is over the limit of {limit} bytes.")


def _invalid(pointer: str, detail: str) -> InvalidFields:
    return InvalidFields(f"{pointer}: {detail}", [FieldError(pointer=pointer, detail=detail)])
