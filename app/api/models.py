"""GET /languages and /models: what is served."""

from __future__ import annotations

from fastapi import APIRouter, Request

from app import errors
from app.api.dependencies import EngineState, KnownClient, TranslatorState
from app.api.openapi_parts import ENTERING, documented
from app.api.schemas import Reloaded, ServedLanguage, ServedModel
from app.engine.engine import Engine
from app.services.reload import Fleet
from model.bundle import Bundle
from model.languages import language_name

router = APIRouter(tags=["what is served"])


@router.get("/languages", summary="Languages, and what each is translated into")
async def languages(translator: TranslatorState) -> list[ServedLanguage]:
    """The source languages, and what each is translated into."""
    targets: dict[str, list[str]] = {}
    for bundle in translator.catalogue:
        targets.setdefault(bundle.source, []).append(bundle.target)
    return [ServedLanguage(code=code, name=language_name(code), targets=to) for code, to in targets.items()]


@router.get("/models", summary="Models, their training and their quality")
async def models(translator: TranslatorState, engine: EngineState) -> list[ServedModel]:
    """The bundles, as their own records describe them, and how they are computed here."""
    return [_served(bundle, engine) for bundle in translator.catalogue]


@router.post(
    "/models/reload",
    summary="Serve the bundles that are there now",
    responses=documented(*ENTERING, errors.NotAllowed, errors.BundlesRefused),
)
async def reload(request: Request, client: KnownClient) -> Reloaded:
    """Looks into the folder of bundles again, and serves what is there if it is not served yet.

    New bundles are loaded and check their samples while the old ones serve; requests that have begun end with those.
    If anything is wrong with a new one, all stays as it was. It wants a key with the word `admin` in the file of keys.
    """
    client.check_admin()
    fleet: Fleet = request.state.fleet
    changed = await fleet.reload()
    return Reloaded(changed=changed, models=[bundle.name for bundle in fleet.current.translator.catalogue])


def _served(bundle: Bundle, engine: Engine) -> ServedModel:
    return ServedModel(
        model=bundle.name,
        source=bundle.source,
        target=bundle.target,
        architecture=bundle.config["architecture"],
        parameters=bundle.parameter_count,
        metrics=bundle.record.metrics,
        corpora=bundle.record.corpora,
        licence=bundle.record.licence,
        checksum=bundle.checksum,
        device=engine.device,
        precision=engine.precisions.get(bundle.name, "not known yet"),
        tokens_per_second=engine.speed(bundle.name),
    )
