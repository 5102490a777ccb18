"""/adaptation: a bundle adapted to a file of pairs, for holders of a key marked `admin`."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from app import errors
from app.api.admission import AdmittedClient
from app.api.openapi_parts import ADMISSION_ERRORS, FORM_ERRORS, error_responses, form_with_file
from app.api.schemas.adaptation import AdaptationFields, AdaptationStatus
from app.api.state import app_of, translator_of
from app.errors import InvalidFields
from app.formats.document import UnreadableDocument
from app.formats.memory_files import read_pairs
from app.http.forms import MULTIPART, read_upload
from app.http.problems import validated
from app.services.adaptation import Adaptations

router = APIRouter(tags=["adaptation"])
_ERRORS = (*ADMISSION_ERRORS, errors.NotAllowed, errors.NoAdaptation)
_BODY = {
    "required": True,
    "content": {
        MULTIPART: {
            "schema": form_with_file(
                AdaptationFields.model_json_schema(),
                "The pairs: TMX, whose name ends in `.tmx`; or lines of a text, a tab and its translation",
            ),
            "example": {"file": "Open\tOuvrir", "source": "en", "target": "fr"},
        }
    },
}


async def _adaptations(request: Request, client: AdmittedClient) -> Adaptations:
    """Raises NoAdaptation and NotAllowed."""
    found = app_of(request).adaptations
    found.check()
    client.check_admin()
    return found


AdaptationsState = Annotated[Adaptations, Depends(_adaptations)]


@router.post(
    "/adaptation",
    summary="Plan to adapt a bundle",
    status_code=202,
    openapi_extra={"requestBody": _BODY},
    responses=error_responses(
        *_ERRORS, errors.PairNotServed, errors.AdaptationConflict, *FORM_ERRORS, errors.Overloaded
    ),
)
async def plan(request: Request, adaptations: AdaptationsState) -> AdaptationStatus:
    """Read the pairs that a bundle shall learn, and find out what it would learn from them; training begins with
    /adaptation/start.

    The service has one adaptation at a time, for all holders of a key marked `admin`. A new plan takes the place of one
    that was not started. All that is known of it is lost when the service ends.
    """
    file, form = await read_upload(request)
    fields: AdaptationFields = validated(AdaptationFields, form.by_name(), strict=False)
    catalogue = translator_of(request).catalogue
    bundle = catalogue.find(*catalogue.codes(fields.source, fields.target))
    if bundle.directions.count > 1:
        reason = f"{bundle.name} translates {bundle.directions.count:,} pairs of languages, and would translate one"
        raise InvalidFields.at("#/source", reason)
    try:
        pairs = await asyncio.to_thread(read_pairs, file.name, file.content, bundle.source, bundle.target)
    except UnreadableDocument as error:
        raise InvalidFields.at("#/file", str(error)) from None
    if not pairs:
        raise InvalidFields.at("#/file", "The file has no pairs")
    await adaptations.plan(bundle, pairs, fields.minutes, fields.accept_general_loss)
    return _status(adaptations)


@router.get("/adaptation", summary="Ask how far the adaptation is", responses=error_responses(*_ERRORS))
async def status(adaptations: AdaptationsState) -> AdaptationStatus:
    """Return the adaptation's state, the plan, the trainer's last lines and, at the end, scores and translations before
    and after."""
    return _status(adaptations)


@router.post(
    "/adaptation/start",
    summary="Start the planned adaptation",
    status_code=202,
    responses=error_responses(*_ERRORS, errors.AdaptationConflict),
)
async def start(adaptations: AdaptationsState) -> AdaptationStatus:
    """Start to train, in a process of low priority. The bundle goes on serving."""
    adaptations.start()
    return _status(adaptations)


@router.post(
    "/adaptation/accept",
    summary="Serve the adapted bundle",
    responses=error_responses(*_ERRORS, errors.AdaptationConflict, errors.BundlesRefused),
)
async def accept(request: Request, adaptations: AdaptationsState) -> AdaptationStatus:
    """Put the adapted bundle in the place of the one that it came from, on the disk, and serve it.

    If the service cannot serve it, the old one is put back.
    """
    await adaptations.accept(app_of(request).deployments.reload)
    return _status(adaptations)


@router.delete("/adaptation", summary="Discard the adaptation", status_code=204, responses=error_responses(*_ERRORS))
async def discard(adaptations: AdaptationsState) -> Response:
    """Stop the training, if it is in progress, and delete its files. The served bundle stays as it is."""
    await adaptations.discard()
    return Response(status_code=204)


def _status(adaptations: Adaptations) -> AdaptationStatus:
    current = adaptations.current
    if current is None:
        return AdaptationStatus(state="none")
    return AdaptationStatus(source=current.bundle.source, target=current.bundle.target, **vars(current))
