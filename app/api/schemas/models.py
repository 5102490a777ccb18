"""Responses of /languages, /models and /models/reload."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from app.api.schemas.health import InstallingModel
from app.api.schemas.installs import InstalledModel


class ServedLanguage(BaseModel):
    """A source language and its targets."""

    code: str = Field(examples=["en"], description="Language code, as in requests")
    name: str = Field(examples=["English"], description="In English")
    targets: list[str] = Field(
        examples=[["fr"]], description="Codes of its target languages, those with a bundle of their own first"
    )


class DecodingDefaults(BaseModel):
    """How a bundle is decoded unless a request asks for something else."""

    beam_size: int | None = Field(description="Hypotheses of beam search; null: the service's default, which is 1")
    length_penalty: float = Field(
        description="Ranks hypotheses by the sum of their log probabilities divided by their length to this power",
        examples=[1.0],
    )
    narrowing: bool = Field(
        description="Whether beam search narrows with each hypothesis that ends, until none is left, as Marian's does"
    )
    replace_unknowns: bool = Field(
        description="Whether text that the vocabulary lacks is copied to where the model generates its unknown symbol"
    )


class ServedModel(BaseModel):
    """A bundle, as described by its record."""

    model: str = Field(
        examples=["en-fr@0123456789ab"],
        description="Its languages, and the checksum of its weights. Answers name the pair in place of `mul`",
    )
    source: str = Field(examples=["en"], description="The source language; `mul` if there are several")
    target: str = Field(examples=["fr"], description="The target language; `mul` if there are several")
    sources: list[str] = Field(examples=[["en"]], description="All source languages")
    targets: list[str] = Field(
        examples=[["fr"]], description="All target languages: each source is translated into every other language"
    )
    architecture: dict[str, Any] = Field(description="Architecture settings: sizes and numbers of layers")
    parameters: int = Field(description="Number of trained parameters")
    metrics: list[dict[str, Any]] = Field(description="Quality: test set, scores and precision")
    corpora: list[dict[str, Any]] = Field(description="Training corpora, with sizes")
    quality: dict[str, dict[str, Any]] = Field(
        description="How its estimates of quality were calibrated, for each pair of languages: coefficients, the chrF "
        "of good translations, the sets they were fitted on, and measurements. `error` is the expected calibration "
        "error; `bins` are the points of the calibration plot, each with sentences, mean estimate and share of good "
        "ones; `risks` is the risk-coverage curve, shares of bad translations among the best rated tenth, two tenths, "
        "and so on. Empty if it is not calibrated",
    )
    licence: str | None = Field(description="Licence of the weights; null if the bundle names none")
    installed: InstalledModel | None = Field(
        description="The published model that it was made of; null for a model that was trained or shipped"
    )
    installing: InstallingModel | None = Field(
        description="The published model that is being installed in its place, and how far it is; null if there is none"
    )
    decoding: DecodingDefaults = Field(
        description="The bundle's decoding defaults. What a request asks for goes first, then these, then the "
        "service's defaults"
    )
    checksum: str = Field(description="SHA-256 of the weights, in hexadecimal digits", examples=["0123456789ab..."])
    device: str = Field(description="Device that it runs on", examples=["cpu"])
    precision: str = Field(description="Numeric precision that it runs in", examples=["int8"])
    loaded: bool = Field(description="Whether it is in memory; if not, the next request for it loads it")
    tokens_per_second: float = Field(
        description="Target tokens decoded per second over the last ten seconds; cache hits do not count",
        examples=[1234.5],
    )


class Reloaded(BaseModel):
    """The result of a reload."""

    changed: bool = Field(description="Whether the models changed", examples=[True])
    models: list[str] = Field(description="The bundles served now", examples=[["en-fr@0123456789ab"]])
