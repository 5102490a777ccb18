"""Requests and responses of /catalogue and of installing models."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from app.api.schemas.fields import Body
from app.http.problems import Problem
from app.published.jobs import State


class PublishedFigure(BaseModel):
    """A score that its publisher measured, not this service."""

    dataset: str = Field(examples=["FLORES-200 devtest"], description="The test set")
    metric: str = Field(examples=["BLEU"], description="What was measured")
    score: float = Field(examples=[27.4], description="The score")
    origin: str = Field(examples=["Mozilla's registry"], description="Who published it")


class CatalogueModel(BaseModel):
    """A published model."""

    model: str = Field(examples=["firefox:en-es@base-memory"], description="The name to install it by")
    registry: str = Field(examples=["firefox"], description="Whose list it is in: firefox, opus or argos")
    publisher: str = Field(examples=["Mozilla"], description="Who publishes it")
    source: str = Field(examples=["en"], description="Source language")
    target: str = Field(examples=["es"], description="Target language")
    variant: str | None = Field(
        examples=["base-memory"], description="What tells it from others of the pair: a size or version"
    )
    bytes: int | None = Field(
        examples=[23_000_000], description="Size of the download; null if the registry does not say"
    )
    sha256: str | None = Field(examples=[None], description="SHA-256 of the weights, where the registry states it")
    is_released: bool = Field(description="Whether its publisher uses it, as Firefox does; others are for trying")
    licence: str = Field(examples=["MPL-2.0"], description="Licence of the model")
    forbids_commercial_use: bool = Field(
        description="Whether the licence does; such a model is installed only if that is accepted"
    )
    page: str = Field(
        examples=["https://mozilla.github.io/translations/model-registry"], description="Where it is described"
    )
    host: str = Field(
        examples=["storage.googleapis.com"], description="From which it is downloaded: the registry's, or a mirror's"
    )
    figures: list[PublishedFigure] = Field(description="Its scores as published")
    installed: bool = Field(description="Whether it serves here already")


class CatalogueAnswer(BaseModel):
    """Published models, from a list that comes with the service."""

    dated: str = Field(examples=["2026-11-29"], description="When the list was made")
    may_install: bool = Field(description="Whether this client may install models")
    how_to_install: str = Field(examples=[""], description="If it may not: who may, as a sentence")
    models: list[CatalogueModel] = Field(description="By registry and pair, the best of each first")


class InstallRequest(Body):
    """A published model to install."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"model": "firefox:en-es"}]})

    model: str = Field(
        max_length=300,
        description="A name of the catalogue, or firefox:en-es, opus:en-es, argos:en-es, huggingface:OWNER/NAME; @ and "
        "a version choose one",
    )
    accept_licence: bool = Field(default=False, description="Accept a licence that forbids commercial use")


class InstallStatus(BaseModel):
    """The progress of an installation."""

    id: str = Field(examples=["0123456789abcdef"], description="The job's id")
    model: str = Field(examples=["firefox:en-es"], description="As it was asked for")
    name: str | None = Field(examples=["firefox:en-es@base-memory"], description="The model that was found")
    source: str | None = Field(examples=["en"], description="Source language, once the model is found")
    target: str | None = Field(examples=["es"], description="Target language")
    licence: str | None = Field(examples=["MPL-2.0"], description="Licence of the model")
    state: State = Field(
        description="`queued`, `finding` it in the registry's list, `downloading`, `converting`, `checking` its "
        "samples, `loading` it into the service; `waiting`: it failed, and is tried again; `done`, `failed`, "
        "`cancelled`",
        examples=["downloading"],
    )
    bytes: int = Field(examples=[12_000_000], description="Bytes that have arrived")
    total: int | None = Field(examples=[23_000_000], description="Bytes to download, as far as they are known")
    seconds_left: float | None = Field(examples=[4.2], description="Estimated seconds left of the download")
    error: Problem | None = Field(examples=[None], description="Why the last attempt failed")
    retry_at: datetime | None = Field(examples=[None], description="When a model that is `waiting` is tried again")
    attempts: int = Field(examples=[1], description="How often it was tried")
    serves: str | None = Field(examples=[None], description="The model that serves, once it does")


class InstalledModel(BaseModel):
    """The published model that a bundle was made of."""

    model: str = Field(examples=["firefox:en-es@base-memory"], description="The name that it was installed by")
    page: str = Field(
        examples=["https://mozilla.github.io/translations/model-registry"], description="Where it is described"
    )
    published: list[dict[str, Any]] = Field(description="Its scores as published: dataset, metric, score, origin")
    downloaded: str = Field(examples=["2026-11-29"], description="When it was downloaded")
    removable: bool = Field(description="Whether DELETE /models/DIRECTION removes it")
    replaces: str | None = Field(
        examples=["en-es@0123456789ab"], description="The model that serves once it is removed; null if there is none"
    )
