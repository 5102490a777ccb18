"""/catalogue, /models/jobs, and installing and removing published models."""

from __future__ import annotations

import asyncio
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi import Path as PathParameter
from starlette.convertors import StringConvertor, register_url_convertor

from app import errors
from app.api.admission import AdmittedClient, authenticate
from app.api.openapi_parts import ADMISSION_ERRORS, BODY_ERRORS, error_responses, schema_of
from app.api.schemas.installs import CatalogueAnswer, CatalogueModel, InstallRequest, InstallStatus, PublishedFigure
from app.api.state import app_of
from app.errors import InstallFailed, InvalidFields, NotAllowed, NotAuthorised
from app.http.auth import bearer
from app.http.forms import JSON
from app.http.json_body import read_json
from app.http.problems import problem_of, validated
from app.published.catalogue import PublishedModel, load_catalogue
from app.published.installer import Installer
from app.published.jobs import InstallJob
from model.published import REGISTRIES, forbids_commercial_use, parse_name

router = APIRouter(tags=["published models"])
_ERRORS = (*ADMISSION_ERRORS, errors.NotAllowed)
Language = Annotated[str | None, Query(max_length=35)]
JobId = Annotated[str, PathParameter(description="The job's id", examples=["0123456789abcdef"])]
DirectionName = Annotated[
    str, PathParameter(description="Its pair of languages, or the name of a model of several", examples=["en-es"])
]


class InstalledName(StringConvertor):
    """Any name but those of other paths under /models."""

    regex = "(?!(?:reload|jobs)$)[^/]+"


register_url_convertor("installed", InstalledName())


async def _installer(request: Request, client: AdmittedClient) -> Installer:
    """Raises NotAllowed."""
    app = app_of(request)
    app.access_control.check_may_install(request.scope, client)
    return app.installer


InstallerState = Annotated[Installer, Depends(_installer)]


@router.get(
    "/catalogue",
    summary="List published models",
    responses=error_responses(errors.InvalidFields),
)
async def catalogue(
    request: Request,
    source: Annotated[Language, Query(description="Only models that translate from this language")] = None,
    target: Annotated[Language, Query(description="Only models that translate into this language")] = None,
    from_or_to: Annotated[
        str, Query(max_length=500, description="Only models from or into one of these languages, such as en,fr")
    ] = "",
) -> CatalogueAnswer:
    """List the published models that this service could serve, with their licences and scores as published.

    The list comes with the service: no registry is contacted until a model is installed. This requires no key; with
    one, it says whether that may install models.
    """
    installer, known = app_of(request).installer, await asyncio.to_thread(load_catalogue)
    obstacle = installer.obstacle or _obstacle(request)
    installed, mirrors = installer.served_names(), app_of(request).settings.registries
    languages = frozenset(from_or_to.split(",")) - {""}
    return CatalogueAnswer(
        dated=known.dated,
        may_install=obstacle is None,
        how_to_install=obstacle or "",
        models=[
            _catalogue_model(model, model.name in installed, mirrors.get(model.name.registry))
            for model in known.matching(source, target, languages)
        ],
    )


def _obstacle(request: Request) -> str | None:
    """Why this client may not install models, or None."""
    try:
        client = authenticate(request, bearer(request))
        app_of(request).access_control.check_may_install(request.scope, client)
    except (NotAllowed, NotAuthorised) as error:
        return error.detail
    return None


@router.post(
    "/models",
    summary="Install a published model",
    status_code=202,
    openapi_extra={"requestBody": {"required": True, "content": {JSON: {"schema": schema_of(InstallRequest)}}}},
    responses=error_responses(*_ERRORS, *BODY_ERRORS, errors.InstallRefused, errors.Overloaded),
)
async def install(response: Response, request: Request, installer: InstallerState) -> InstallStatus:
    """Ask for a model: it is downloaded from its registry, checked, converted to int8, and then serves in place of
    what served its direction before, while requests continue.

    Returns a job to follow; the same model asked for again is the same job. This requires a key marked `admin`; without
    any keys, a client on the service's own machine.
    """
    wanted = validated(InstallRequest, await read_json(request))  # FastAPI would read it before it asks for the key
    name = parse_name(wanted.model)
    if name is None:
        raise InvalidFields.at("#/model", f"A model's name begins with {', '.join(REGISTRIES)} and a colon")
    if not name.is_complete:
        raise InvalidFields.at("#/model", "Name one direction, such as firefox:en-es, or huggingface:OWNER/NAME")
    job = await asyncio.to_thread(installer.add, name, wanted.accept_licence)
    response.headers["Location"] = f"{request.url.path.rstrip('/')}/jobs/{job.id}"
    return _status(job)


@router.get("/models/jobs", summary="List installations", responses=error_responses(*_ERRORS))
async def jobs(installer: InstallerState) -> list[InstallStatus]:
    """List all jobs, in the order in which they were asked for; those that have ended stay until they are forgotten."""
    return [_status(job) for job in await asyncio.to_thread(installer.jobs)]


@router.get(
    "/models/jobs/{id}",
    summary="Get the progress of an installation",
    responses=error_responses(*_ERRORS, errors.NoSuchJob),
)
async def job(id: JobId, installer: InstallerState) -> InstallStatus:
    """Return the state of a job: how much has arrived, and how it ended."""
    return _status(await asyncio.to_thread(installer.job, id))


@router.delete(
    "/models/jobs/{id}",
    summary="Cancel an installation",
    status_code=204,
    responses=error_responses(*_ERRORS, errors.NoSuchJob, errors.InstallRefused),
)
async def cancel(id: JobId, installer: InstallerState) -> Response:
    """Stop a job, or forget one that has ended. A model that is being loaded already goes on."""
    await asyncio.to_thread(installer.cancel, id)
    return Response(status_code=204)


@router.delete(
    "/models/{direction:installed}",
    summary="Remove an installed model",
    status_code=204,
    responses=error_responses(*_ERRORS, errors.ModelNotInstalled, errors.InstallRefused, errors.BundlesRefused),
)
async def remove(direction: DirectionName, installer: InstallerState) -> Response:
    """Remove an installed model from the disk. The model that it replaced serves again; bundles that were not installed
    stay as they are."""
    await installer.remove(direction)
    return Response(status_code=204)


def _catalogue_model(model: PublishedModel, is_installed: bool, mirror: str | None) -> CatalogueModel:
    host = model.host if mirror is None else urlsplit(mirror).hostname or "a list of the service's operator"
    figures = [PublishedFigure(**msgspec.structs.asdict(figure)) for figure in model.figures]
    return CatalogueModel(
        **{**msgspec.structs.asdict(model), "model": str(model.name), "host": host, "figures": figures},
        registry=model.name.registry,
        variant=model.name.variant,
        bytes=model.size,
        forbids_commercial_use=forbids_commercial_use(model.licence),
        installed=is_installed,
    )


def _status(job: InstallJob) -> InstallStatus:
    error = problem_of(InstallFailed(job.error)) if job.error else None
    return InstallStatus(**{**msgspec.structs.asdict(job), "error": error, "retry_at": job.retry_time})
