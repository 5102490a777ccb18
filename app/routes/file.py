"""POST /translate/file."""

from __future__ import annotations

import asyncio
import re
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from pydantic import Field, ValidationError

from app import documents, errors
from app.body import while_connected
from app.documents import Document
from app.engine import Engine
from app.errors import FieldError, InvalidFields, TooMuchText, WrongContentType, invalid_fields
from app.routes.translate import FAILURES
from app.schemas import Body, Language
from app.settings import Settings
from app.translation import AUTO, Options, Translations
from app.translator import Translator
from app.upload import Upload, read_upload

router = APIRouter()
_UNSAFE = re.compile(r'[^ !#-\[\]-~]|["\\]')
_LONGEST_NAME = 150
_BY_WHICH_TO_TELL = 10_000
"""Characters of a document that its language is told by."""


class FileFields(Body):
    """What is sent beside the file."""

    source: Language
    target: Language
    glossary: str | None = Field(None, max_length=200)


_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["file", "source", "target"],
                "properties": {
                    "file": {
                        "type": "string",
                        "format": "binary",
                        "description": f"Its name tells the format: {', '.join(documents.FORMATS)}",
                    },
                    "source": {"type": "string", "description": "The language of the document, or `auto`"},
                    "target": {"type": "string", "description": "The language to translate into"},
                    "glossary": {"type": "string", "description": "The name of a glossary that the service has"},
                },
            },
            "example": {"file": "Hello.", "source": "en", "target": "fr"},
        }
    },
}
_ANSWER: dict[str, Any] = {
    "description": "The translated file, of the media type of its format",
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    "headers": {
        "Content-Disposition": {
            "description": "The file's new name",
            "schema": {"type": "string"},
            "example": 'attachment; filename="report.fr.docx"',
        },
        "X-Interlinear-Model": {"schema": {"type": "string"}, "example": "en-fr@0123456789ab"},
        "X-Interlinear-Warnings": {"description": "How many there were", "schema": {"type": "integer"}},
    },
}


@router.post(
    "/translate/file",
    summary="Translate a document",
    response_class=Response,
    openapi_extra={"requestBody": _BODY},
    responses={200: _ANSWER, **errors.documented(*(kind for kind in FAILURES if kind is not errors.NotJSON))},
    tags=["translation"],
)
async def translate_file(request: Request) -> Response:
    """Translates the text of a document, and gives it back with all else as it was: layout, markup, code, numbers.

    Catalogues (.po, .xliff) are filled in where they have no translation yet, and say that a machine did it. If any
    part of the document cannot be translated, the answer is why.
    """
    engine: Engine = request.state.engine
    engine.scheduler.check()  # before the body is read: refusing must cost little
    upload = await read_upload(request)
    fields = _fields(upload)
    content, media_type, done = await while_connected(request, _translated(request, upload, fields))
    headers = {
        "Content-Disposition": _attachment(documents.translated_name(upload.name, fields.target)),
        "X-Interlinear-Model": done.model,
        "X-Interlinear-Warnings": str(sum(len(item.warnings) for item in done.items)),
        # Another's file, shown by a browser as one of ours, could do in our name what it likes.
        "X-Content-Type-Options": "nosniff",
    }
    return Response(content, media_type=media_type, headers=headers)


async def _translated(request: Request, upload: Upload, fields: FileFields) -> tuple[bytes, str, Translations]:
    translator: Translator = request.state.translator
    document = await asyncio.to_thread(_document, upload, fields.target)
    _check_size(document, request.state.settings)
    source = await asyncio.to_thread(_source, translator, document, fields)
    options = Options(source, fields.target, fields.glossary or None)
    done = await translator.translate([[passage] for passage in document.passages], options)
    texts = []
    for item in done.items:
        if item.error:
            raise item.error
        texts.append(item.text or "")
    return await asyncio.to_thread(document.write, texts), document.media_type, done


def _fields(upload: Upload) -> FileFields:
    try:
        return FileFields.model_validate(upload.fields)
    except ValidationError as error:
        raise invalid_fields(error.errors(include_url=False), upload.fields) from None


def _document(upload: Upload, target: str) -> Document:
    try:
        return documents.read(upload.name, upload.content, target)
    except documents.UnknownFormat as error:
        raise WrongContentType(str(error)) from None
    except documents.UnreadableDocument as error:
        raise InvalidFields(f"#/file: {error}", [FieldError(pointer="#/file", detail=str(error))]) from None


def _check_size(document: Document, settings: Settings) -> None:
    """Raises TooMuchText if there is more in it than in the texts that a request may have."""
    characters = sum(len(passage.text) for passage in document.passages)
    limit = settings.max_text_chars * settings.max_items
    if characters > limit:
        raise TooMuchText(f"The file has {characters} characters of text, over the limit of {limit}.")


def _source(translator: Translator, document: Document, fields: FileFields) -> str:
    """The language of the document: told by all of it, since a cell of a table may be a word.

    If it has none, or the one wanted, nothing is to be translated, which the translator finds for each passage.
    """
    if fields.source != AUTO:
        return fields.source
    text, length = [], 0
    for passage in document.passages:
        text.append(passage.text)
        length += len(passage.text)
        if length > _BY_WHICH_TO_TELL:
            break
    language = translator.detect("\n".join(text)[:_BY_WHICH_TO_TELL]).language
    return AUTO if language in (None, fields.target) else str(language)


def _attachment(name: str) -> str:
    """The header Content-Disposition (RFC 6266), which names a file in any characters."""
    name = name[-_LONGEST_NAME:]
    plain = _UNSAFE.sub("_", name)
    header = f'attachment; filename="{plain}"'
    return header if plain == name else f"{header}; filename*=UTF-8''{quote(name, safe='', errors='replace')}"
