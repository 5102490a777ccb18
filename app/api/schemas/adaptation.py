"""Requests and responses of /adaptation."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from app.api.schemas.fields import Body, SourceLanguage

_STATES = (
    "none: there is no adaptation; planning: reading the pairs; planned: waiting for the start; training; comparing: "
    "translating pairs that were held out; trained: waiting to be accepted; accepting; accepted: served; failed: see "
    "`error`"
)


class AdaptationFields(Body):
    """The direction and the limits."""

    source: SourceLanguage = Field(description="The language of the texts")
    target: SourceLanguage = Field(description="The language of the translations")
    minutes: float | SkipJsonSchema[None] = Field(
        default=None,
        gt=0,
        le=100_000,
        allow_inf_nan=False,
        description="Time limit for the training; without it, the bundle learns until it stops improving",
    )
    accept_general_loss: float | SkipJsonSchema[None] = Field(
        default=None,
        ge=0,
        le=100,
        allow_inf_nan=False,
        description="BLEU that each general set may lose; 2 without it",
    )


class AdaptationPlan(BaseModel):
    """What the bundle would learn, and what is measured before and after."""

    bundle: str = Field(examples=["en-fr@578fa20b999b"], description="The bundle to adapt")
    pairs: int = Field(examples=[2376], description="Pairs to learn from")
    held_out: int = Field(examples=[124], description="Pairs that are not learnt from, but measured")
    left_out: dict[str, int] = Field(examples=[{"a duplicate pair": 3}], description="The other lines, by reason")
    rehearsed: int = Field(
        examples=[25_000], description="General sentences that are learnt too, so that less is lost elsewhere"
    )
    general: dict[str, int] = Field(
        examples=[{"general set": 160}], description="Sentences of each set that shows what is lost elsewhere"
    )
    accepted_loss: float = Field(examples=[2.0], description="BLEU that each general set may lose")
    minutes: float | None = Field(examples=[30.0], description="Time limit; null: until it stops improving")


class AdaptationScore(BaseModel):
    """A score before and after, by the bare decoder."""

    set: str = Field(examples=["general set"], description="The set's name")
    held_out: bool = Field(examples=[False], description="Whether its pairs are of the file, and not general ones")
    sentences: int = Field(examples=[160], description="Number of pairs")
    metric: str = Field(examples=["BLEU"], description="BLEU or chrF")
    before: float = Field(examples=[42.5], description="The score of the bundle that is served")
    after: float = Field(examples=[41.9], description="The score of the adapted one")


class ComparedTranslation(BaseModel):
    """A pair that was held out, and the translations of its text, as the service makes them."""

    text: str = Field(examples=["Open the valve."], description="The text")
    reference: str = Field(examples=["Ouvrir la vanne."], description="The file's translation")
    before: str = Field(examples=["Ouvrez la valve."], description="The translation of the bundle that is served")
    after: str = Field(examples=["Ouvrir la vanne."], description="The translation of the adapted one")


class AdaptationStatus(BaseModel):
    """How far the adaptation is, and what is known of it."""

    state: Literal[
        "none", "planning", "planned", "training", "comparing", "trained", "accepting", "accepted", "failed"
    ] = Field(examples=["planned"], description=_STATES)
    source: str | None = Field(default=None, examples=["en"], description="The language of the texts")
    target: str | None = Field(default=None, examples=["fr"], description="The language of the translations")
    plan: AdaptationPlan | None = Field(default=None, description="From `planned` on")
    lines: list[str] = Field(
        default=[], examples=[["timing a few steps ..."]], description="The last lines that the trainer has printed"
    )
    scores: list[AdaptationScore] = Field(default=[], description="From `comparing` on")
    advice: str = Field(default="", description="The trainer's advice, in a sentence")
    comparison: list[ComparedTranslation] = Field(default=[], description="From `trained` on: at most 100 pairs")
    model: str = Field(default="", examples=["en-fr@0a1b2c3d4e5f"], description="The adapted bundle, once it is made")
    error: str = Field(default="", description="Why it failed")
