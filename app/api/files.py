"""POST /translate/file."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, HTTPException, Path, Request, Response
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from app import formats
from app.api.admission import AdmittedClient, WorkingClient
from app.api.file_report import report_of
from app.api.memory_option import memory_option, note_engine
from app.api.openapi_parts import (
    ADMISSION_ERRORS,
    FORM_ERRORS,
    TRANSLATION_ERRORS,
    error_responses,
    file_response,
    form_with_file,
)
from app.api.schemas.fields import Body, Engine, Glossary, Language
from app.api.schemas.translation import FileReport
from app.api.state import app_of, translator_of
from app.errors import InvalidFields, NoTranslationMemory, StoreUnavailable
from app.formats.encodings import Encoding
from app.http.download_headers import download_headers
from app.http.forms import JSON, MULTIPART, Fields, Upload, read_upload
from app.http.json_body import while_connected
from app.http.problems import Problem, validated
from app.runtime.event_loop import run
from app.runtime.rate_limits import Client
from app.storage.downloads import Download
from app.text.glossary_files import read_file
from app.text.line_breaks import LineBreaks
from app.translation.documents import DocumentFile, document_file, in_time, open_document, translate_document
from app.translation.review import review_document, write_review
from app.translation.types import Options

router = APIRouter()


class FileFields(Body):
    """Fields sent along with the file."""

    source: Language = Field(description="The language of the document, or `auto`")
    target: Language = Field(description="The language to translate into")
    glossary: Glossary | SkipJsonSchema[None] = Field(
        None,
        description="The name of one of the service's glossaries; or terms with their required translations, as JSON "
        "or as a file: `.tsv` (a term, a tab and its translation on each line) or `.csv`",
    )
    engine: Engine = None
    line_breaks: LineBreaks = Field(
        "auto",
        description="For .txt: `keep` translates each line separately; `join` translates a paragraph as a whole and "
        "wraps it again; `auto` joins where the text looks wrapped",
    )
    memory: Literal["exact", "off"] | SkipJsonSchema[None] = Field(
        None, description="The use of the translation memory, as in a TranslateRequest"
    )
    as_: Literal["document", "review", "xliff"] = Field(
        "document",
        alias="as",
        description="`document`: the translated document. `review`: a page with each text beside its translation, "
        "those to check first at the top. `xliff`: the same as XLIFF 1.2, to change and send back as `review`",
    )
    sheet_names: bool = Field(
        False, strict=False, description="For .xlsx: translate the names of sheets, except those that a formula uses"
    )
    redo_fuzzy: bool = Field(False, strict=False, description="For .po: translate fuzzy entries again")
    encoding: Encoding = Field(
        "auto",
        description="For texts and pages that are not Unicode: `auto` gives UTF-8, `keep` their own encoding, with "
        "references in HTML for what it lacks",
    )
    charset: str = Field(
        "",
        max_length=100,
        description="For texts and pages: their encoding, such as windows-1252, if it is not Unicode, they do not "
        "declare it, and their bytes and `source` leave it in doubt; the same as the `charset` of the part",
    )
    paths: str = Field(
        "",
        max_length=2_000,
        description="For .json, .yaml and .toml: the paths of the values to translate, or of what contains them, "
        'separated by commas: `$.menu.*, $..title, $["a b"][0]`; without them, all values are',
    )
    columns: str = Field(
        "",
        max_length=2_000,
        description="For .csv and .tsv: names or numbers of the columns to translate, separated by commas: "
        "`text, title`; `en=fr` fills in the column fr where it is empty. Without them, the file needs columns named "
        "like both languages",
    )


_REVIEW = (
    "The document's review, as `xliff` gave it and somebody changed it: its translations are written into the "
    "document, and nothing is translated"
)
_FORM = {
    "schema": form_with_file(FileFields.model_json_schema(), other_files={"review": _REVIEW}),
    "example": {"file": "Hello.", "source": "en", "target": "fr"},
}
_FILE_RESPONSE = file_response(
    "The translated file",
    **{
        "Content-Disposition": {
            "description": "The file's new name",
            "schema": {"type": "string"},
            "example": 'attachment; filename="report.fr.docx"',
        },
        "X-Interlinear-Model": {
            "description": "As `model` in a TranslateResponse",
            "schema": {"type": "string"},
            "example": "en-fr@0123456789ab",
        },
        "X-Interlinear-Warnings": {"description": "Number of warnings", "schema": {"type": "integer"}},
        "X-Interlinear-Report": {
            "description": (
                "The path of a FileReport, which lists the warnings with their locations; it is kept for ten minutes"
            ),
            "schema": {"type": "string"},
            "example": "/translate/file/report/0123456789abcdef0123456789abcdef.report.fr.docx.json",
        },
    },
)
_NO_REPORT = "There is no such report. Reports are kept for ten minutes at most."
_NOT_FOUND = Problem(type="urn:interlinear:error:not-found", title="Not Found", status=404, detail=_NO_REPORT)


@router.post(
    "/translate/file",
    summary="Translate a document",
    response_class=Response,
    openapi_extra={"requestBody": {"required": True, "content": {MULTIPART: _FORM}}},
    responses={
        200: _FILE_RESPONSE,
        **error_responses(*ADMISSION_ERRORS, NoTranslationMemory, *FORM_ERRORS, *TRANSLATION_ERRORS),
    },
    tags=["translation"],
)
async def translate_file(request: Request, client: WorkingClient) -> Response:
    """Translate the text of a document, and preserve everything else: layout, markup, code, numbers.

    Catalogues (.po, .xliff) get translations where they have none yet, marked as machine translated. If any part of the
    document cannot be translated, the response is an error.

    To review first: ask for the document `as` `xliff`, change translations, and send the document again with the result
    as `review`.
    """
    settings = app_of(request).settings
    limits = {"glossary": settings.max_body_bytes, "review": settings.max_file_bytes}
    file, form = await read_upload(request, limits)
    fields = validated(FileFields, form.by_name() | _glossary(form))
    document = _document_file(request, client, file, fields)
    if review := form.files.get("review"):
        written = await while_connected(request, in_time(settings, document.write_reviewed(review.content)))
        headers = download_headers(formats.translated_name(file.name, document.file.target))
        return Response(written.content, media_type=written.media_type, headers=headers)
    work = in_time(settings, _translate(request, client, document, fields))
    content, media_type, report = await while_connected(request, work)
    report_name = None
    with suppress(StoreUnavailable):  # the translation does not need it
        report_name = await app_of(request).downloads.add(
            Download(f"{report.file}.json", report.model_dump_json().encode(), JSON)
        )
    headers = {
        "X-Interlinear-Model": report.model,
        "X-Interlinear-Warnings": str(len(report.warnings)),
        **({"X-Interlinear-Report": f"{request.scope['path']}/report/{report_name}"} if report_name else {}),
        **download_headers(report.file),
    }
    return Response(content, media_type=media_type, headers=headers)


async def _translate(
    request: Request, client: Client, file: DocumentFile, fields: FileFields
) -> tuple[bytes, str, FileReport]:
    translator = translator_of(request)
    document = await open_document(file, app_of(request).settings)
    name = formats.translated_name(file.file.name, file.file.target)
    await client.charge(document.characters)
    memory = await memory_option(request, fields.source, fields.target, fields.memory)
    glossary = fields.glossary or None
    options = Options(
        fields.source,
        fields.target,
        glossary=glossary,
        client=client.scheduled_as,
        memory=memory,
        engine=fields.engine,
    )
    if fields.as_ == "document":
        content, done = await translate_document(translator, document, options)
        note_engine(request, done)
        report = await run(document.characters, report_of, name, document, done)
        return content, document.media_type, report
    review = await review_document(translator, document, options)
    note_engine(request, review.done)
    suffix = ".html" if fields.as_ == "review" else ".xliff"
    name += suffix
    report = await run(document.characters, report_of, name, document, review.done)
    return await write_review(document, review, fields.as_), formats.MEDIA_TYPES[suffix], report


def _document_file(request: Request, client: Client, file: Upload, fields: FileFields) -> DocumentFile:
    # Named alike.
    given = fields.model_dump(include=set(formats.FormatOptions.__annotations__))
    format_options = cast(formats.FormatOptions, given | {"charset": file.charset or fields.charset})
    _, target = translator_of(request).catalogue.codes(fields.source, fields.target)
    app = app_of(request)
    return document_file(
        app.documents, client.identity, file.name, file.content, target, app.settings, fields.source, format_options
    )


def _glossary(form: Fields) -> dict[str, Any]:
    """The field's glossary, if its terms came with the request. Raises InvalidFields."""
    text = form.one("glossary")
    try:
        if file := form.files.get("glossary"):
            if text is not None:
                raise ValueError("Given twice, as a file and as a field")
            return {"glossary": read_file(file.name, file.content, form.one("source") or "", form.one("target") or "")}
        if isinstance(text, str) and text.lstrip().startswith("{"):
            return {"glossary": json.loads(text)}
    except RecursionError:
        raise InvalidFields.at("#/glossary", "The JSON is nested too deeply") from None
    except ValueError as error:
        raise InvalidFields.at("#/glossary", str(error)) from None
    return {}


@router.get(
    "/translate/file/report/{name}",
    summary="List the warnings about a translated document",
    response_model=FileReport,
    responses=error_responses(*ADMISSION_ERRORS, StoreUnavailable, others={"not-found": _NOT_FOUND}),
    tags=["translation"],
)
async def file_report(
    name: Annotated[str, Path(description="The last part of the path in X-Interlinear-Report")],
    request: Request,
    client: AdmittedClient,
) -> Response:
    """Return the report about a file that was translated in the last ten minutes."""
    found = await app_of(request).downloads.find(name)
    if found is None or found.media_type != JSON:
        raise HTTPException(404, _NO_REPORT)
    return Response(found.content, media_type=JSON)
