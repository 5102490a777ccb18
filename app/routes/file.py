"""POST /translate/file."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import Field, ValidationError

from app import documents, errors
from app.body import while_connected
from app.door import Client
from app.engine import Engine
from app.errors import invalid_fields
from app.fields import Fields, File, read_upload
from app.files import download_headers, open_document, translate_document
from app.routes.dependencies import KnownClient
from app.routes.translate import FAILURES
from app.schemas import Body, Language
from app.translation import Translations
from app.translator import Translator

router = APIRouter()


class FileFields(Body):
    """What is sent beside the file."""

    source: Language
    target: Language
    glossary: str | None = Field(None, max_length=200)


_CODE = {"type": "string", "minLength": 1, "maxLength": 35}
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
                    "source": {**_CODE, "description": "The language of the document, or `auto`"},
                    "target": {**_CODE, "description": "The language to translate into"},
                    "glossary": {
                        "type": "string",
                        "maxLength": 200,
                        "description": "The name of a glossary that the service has",
                    },
                },
            },
            "example": {"file": "Hello.", "source": "en", "target": "fr"},
        }
    },
}
_ANSWER: dict[str, Any] = {
    "description": "The translated file, of the media type of its format",
    "content": {
        media_type: {"schema": {"type": "string", "format": "binary"}} for _, media_type in documents.FORMATS.values()
    },
    "headers": {
        "Content-Disposition": {
            "description": "The file's new name",
            "schema": {"type": "string"},
            "example": 'attachment; filename="report.fr.docx"',
        },
        "X-Interlinear-Model": {
            "description": "The bundle, and the checksum of its weights",
            "schema": {"type": "string"},
            "example": "en-fr@0123456789ab",
        },
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
async def translate_file(request: Request, client: KnownClient) -> Response:
    """Translates the text of a document, and gives it back with all else as it was: layout, markup, code, numbers.

    Catalogues (.po, .xliff) are filled in where they have no translation yet, and say that a machine did it. If any
    part of the document cannot be translated, the answer is why.
    """
    engine: Engine = request.state.engine
    engine.scheduler.check()  # before the body is read: refusing must cost little
    file, sent = await read_upload(request)
    fields = _fields(sent)
    content, media_type, done = await while_connected(request, _translated(request, client, file, fields))
    headers = {
        "X-Interlinear-Model": done.model,
        "X-Interlinear-Warnings": str(sum(len(item.warnings) for item in done.items)),
        **download_headers(documents.translated_name(file.name, fields.target)),
    }
    return Response(content, media_type=media_type, headers=headers)


async def _translated(
    request: Request, client: Client, file: File, fields: FileFields
) -> tuple[bytes, str, Translations]:
    document, characters = await open_document(file.name, file.content, fields.target, request.state.settings)
    client.charge(characters)
    translator: Translator = request.state.translator
    glossary = fields.glossary or None
    content, done = await translate_document(translator, document, fields.source, fields.target, glossary)
    return content, document.media_type, done


def _fields(sent: Fields) -> FileFields:
    fields = sent.by_name()
    try:
        return FileFields.model_validate(fields)
    except ValidationError as error:
        raise invalid_fields(error.errors(include_url=False), fields) from None
