"""GET /languages and /models, and POST /reload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from app import errors
from app.api.admission import AdmittedClient
from app.api.openapi_parts import ADMISSION_ERRORS, error_responses
from app.api.schemas.health import InstallingModel
from app.api.schemas.installs import InstalledModel
from app.api.schemas.models import DecodingDefaults, Reloaded, ServedLanguage, ServedModel
from app.api.state import app_of, deployment_of, translator_of
from app.engine.engine import Engine
from app.published.folder import name_in_record
from app.services.reload import reload_everywhere
from model.bundle import Bundle
from model.languages import language_name

router = APIRouter(tags=["what is served"])


@router.get("/languages", summary="List languages, with the targets of each")
async def languages(request: Request) -> list[ServedLanguage]:
    """List the source languages, each with its targets, including those reached through another language, and those
    that the large model is named for."""
    targets = translator_of(request).catalogue.targets_by_source
    return [ServedLanguage(code=code, name=language_name(code), targets=[*to]) for code, to in targets.items()]


@router.get("/models", summary="List models, with their training and quality")
async def models(request: Request) -> list[ServedModel]:
    """List the bundles: training and quality from their records, and how they run on this machine."""
    app, deployment = app_of(request), deployment_of(request)
    catalogue, folder = deployment.translator.catalogue, app.settings.models_folder
    replaced = {new.spec.name: old.name for old, new in catalogue.replaced}
    coming = {job.pair: InstallingModel(**job.summary()) for job in app.installer.seen if not job.has_ended}
    return [
        _served_model(
            bundle,
            deployment.engine,
            _installed_model(bundle, bundle.folder.parent == folder, replaced.get(bundle.spec.name)),
            coming.get(bundle.pair),
        )
        for bundle in catalogue
    ]


@router.post(
    "/models/reload",
    summary="Reload the bundles from disk",
    responses=error_responses(*ADMISSION_ERRORS, errors.NotAllowed, errors.BundlesRefused),
)
async def reload(request: Request, client: AdmittedClient) -> Reloaded:
    """Scan the bundle folders again, and serve what has changed.

    New bundles load and check their samples while the old ones serve; requests in progress finish with the old ones. If
    anything is wrong with a new bundle, nothing changes. This requires a key marked `admin` in the API key file.
    """
    client.check_admin()
    app = app_of(request)
    changed = await reload_everywhere(app.deployments, app.peers)
    return Reloaded(changed=changed, models=[bundle.name for bundle in app.deployments.current.translator.catalogue])


def _served_model(
    bundle: Bundle, engine: Engine, installed: InstalledModel | None, installing: InstallingModel | None
) -> ServedModel:
    source, target = bundle.directions.sides
    return ServedModel(
        model=bundle.name,
        source=source,
        target=target,
        sources=list(bundle.directions.sources),
        targets=list(bundle.directions.targets),
        architecture=bundle.config["architecture"],
        parameters=bundle.parameter_count,
        metrics=bundle.record.metrics,
        corpora=bundle.record.corpora,
        quality=bundle.config.get("quality", {}),
        licence=bundle.record.licence,
        installed=installed,
        installing=installing,
        decoding=DecodingDefaults(**asdict(bundle.decoding)),
        checksum=bundle.checksum,
        device=engine.device,
        precision=engine.precisions.get(bundle.spec.name, "not known yet"),
        loaded=engine.scheduler.models.is_loaded(bundle.spec.name),
        tokens_per_second=engine.tokens_per_second(bundle.spec.name),
    )


def _installed_model(bundle: Bundle, is_removable: bool, replaces: str | None) -> InstalledModel | None:
    """From a bundle's record, which anybody may have edited; None if it is not a published model."""
    if (name := name_in_record(bundle.config)) is None:
        return None
    imported: Mapping[str, Any] = bundle.config["training"]["imported"]
    published = imported.get("published")
    return InstalledModel(
        model=str(name),
        page=str(imported.get("page", "")),
        published=[figure for figure in published if isinstance(figure, dict)] if isinstance(published, list) else [],
        downloaded=str(imported.get("downloaded", "")),
        removable=is_removable,
        replaces=replaces,
    )
