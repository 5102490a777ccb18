"""POST /translate/file."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from app import documents
from app.body import check_load, while_connected
from app.door import Client
from app.errors import validated
from app.fields import PARTS, File, read_upload
from app.files import download_headers, open_document, translate_document
from app.manual_parts import ENTERING, READING_FORM, TRANSLATING, documented, fetched, with_file
from app.routes.dependencies import KnownClient, PlaceForFile
from app.schemas import Body, Language
from app.translation import Translations
from app.translator import Translator

router = APIRouter()


class FileFields(Body):
    """What is sent beside the file."""

    source: Language = Field(description="The language of the document, or `auto`")
    target: Language = Field(description="The language to translate into")
    glossary: str | SkipJsonSchema[None] = Field(
        None, max_length=200, description="The name of a glossary that the service has"
    )


_FORM = {
    "schema": with_file(FileFields.model_json_schema()),
    "example": {"file": "Hello.", "source": "en", "target": "fr"},
}
_FETCHED = fetched(
    "The translated file",
    **{
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
)


@router.post(
    "/translate/file",
    summary="Translate a document",
    response_class=Response,
    openapi_extra={"requestBody": {"required": True, "content": {PARTS: _FORM}}},
    responses={200: _FETCHED, **documented(*ENTERING, *READING_FORM, *TRANSLATING)},
    tags=["translation"],
)
async def translate_file(request: Request, client: KnownClient, place: PlaceForFile) -> Response:
    """Translates the text of a document, and gives it back with all else as it was: layout, markup, code, numbers.

    Catalogues (.po, .xliff) are filled in where they have no translation yet, and say that a machine did it. If any
    part of the document cannot be translated, the answer is why.
    """
    check_load(request)
    file, sent = await read_upload(request, place)
    fields = validated(FileFields, sent.by_name())
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
