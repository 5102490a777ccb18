"""Request and response of /score."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from app.api.schemas.attention import Token
from app.api.schemas.fields import Body, Language, SourceLanguage, Text
from app.api.schemas.translation import Usage
from app.http.problems import Problem


class Pair(Body):
    """A text and a translation of it."""

    text: Text = Field(description="In the language `source`", examples=["Hello."])
    translation: Text = Field(description="In the language `target`", examples=["Bonjour."])


def _shape(value: object) -> str:
    return "list" if isinstance(value, list) else "object"


Pairs = Annotated[
    Annotated[Pair, Tag("object")] | Annotated[list[Pair], Field(fail_fast=True), Tag("list")],
    Discriminator(_shape),
]


class ScoreRequest(Body):
    """Translations to score."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"pairs": {"text": "Hello.", "translation": "Bonjour."}, "source": "en", "target": "fr"},
                {
                    "pairs": [
                        {"text": "The cat sleeps.", "translation": "Le chat dort."},
                        {"text": "The cat sleeps.", "translation": "Le chien dort."},
                    ],
                    "source": "en",
                    "target": "fr",
                },
            ]
        }
    )

    pairs: Pairs = Field(
        description="One pair or a list of pairs. Each is scored as one sequence, however many sentences it has, "
        "and must be within the model's token limits"
    )
    source: SourceLanguage = Field(description="The language of the texts; it is not detected")
    target: Language = Field(description="The language of the translations")
    deadline_ms: int | None = Field(
        None, ge=1, le=86_400_000, description="Give up after this time. The service's own limit applies as well."
    )


class ScoredToken(Token):
    """A token of the translation, with the code points that it covers there.

    `</s>`, the last, and what only the model reads cover none.
    """

    piece: str = Field(examples=["▁Bonjour"], description="The vocabulary's spelling; `▁` is a space")
    log_prob: float | None = Field(
        examples=[-0.12], description="Natural logarithm of the probability of the token after those before it"
    )


class PairScore(BaseModel):
    """The score of one pair."""

    score: float | None = Field(
        examples=[-0.21],
        description="Mean log probability of the tokens, the end symbol included, as in /translate; null if this pair "
        "failed: see `error`",
    )
    log_prob: float | None = Field(
        examples=[-0.63], description="Sum of the tokens' log probabilities; null if this pair failed"
    )
    quality: float | None = Field(
        default=None, examples=[0.74], description="As in a Translation, of these tokens; null if it is not calibrated"
    )
    tokens: list[ScoredToken] = Field(description="The tokens of the translation; empty if this pair failed")
    error: Problem | None = Field(default=None, description="Why this pair failed; null if it did not")


class ScoreResponse(BaseModel):
    """One entry for each pair, in order."""

    scores: list[PairScore] = Field(description="One for each pair, in order")
    model: str = Field(examples=["en-fr@0123456789ab"], description="The bundle, and the checksum of its weights")
    usage: Usage
