"""The types of fields that several requests have, and the base of all requests."""

from __future__ import annotations

from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    model_validator,
)

from app.translation.types import EngineOption
from model.languages import AUTO


def _unicode(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("contains a lone surrogate, which is not a character") from None
    return text


def _not_auto(code: str) -> str:
    if code.lower() == AUTO:
        raise ValueError("this route does not detect the language; name it")
    return code


def _distinct(numbers: list[int]) -> list[int]:
    if len(set(numbers)) < len(numbers):
        raise ValueError("contains a duplicate number")
    return numbers


def _terms(value: object) -> object:
    """Reports only the first error, not each of ten thousand."""
    if isinstance(value, dict):
        wrong = next((term for term, translation in value.items() if not isinstance(translation, str)), None)
        if wrong is not None:
            raise ValueError(f"the translation of {wrong[:50]!r} is not a string")
    return value


def _glossary_shape(value: object) -> str:
    return "object" if isinstance(value, dict) else "string"


def _shape(value: object) -> str:
    return "list" if isinstance(value, list) else "string"


Text = Annotated[str, AfterValidator(_unicode)]
Language = Annotated[str, StringConstraints(min_length=1, max_length=35)]
"""Not a Text: pydantic itself checks strings with length limits for surrogates."""
Texts = Annotated[
    Annotated[Text, Tag("string")] | Annotated[list[Text], Field(fail_fast=True), Tag("list")],
    Discriminator(_shape),
]
OneOrSeveral = Annotated[
    list[Text],
    Field(fail_fast=True),  # listing a hundred thousand errors would take seconds
    BeforeValidator(
        lambda texts: texts if isinstance(texts, list) else [texts], json_schema_input_type=str | list[str]
    ),
]
Glossary = Annotated[
    Annotated[Text, Tag("string")] | Annotated[dict[str, str], Tag("object")],
    Discriminator(_glossary_shape),
    BeforeValidator(_terms),
]
SourceLanguage = Annotated[Language, AfterValidator(_not_auto)]
Engine = Annotated[
    EngineOption | None,
    Field(
        description="Which model translates, if the service has a large one: `local`, the bundle; `llm`, the large "
        "model; `auto`, the large model those sentences whose `quality` would be low. Default: as the service is set up"
    ),
]
LlmBelow = Annotated[
    float | None,
    Field(
        ge=0,
        le=1,
        description="With `auto`: sentences go to the large model if their `quality` is below. Default: as the service "
        "is set up",
    ),
]
Indices = Annotated[
    list[Annotated[int, Field(ge=0, lt=1_000)]], Field(min_length=1, fail_fast=True), AfterValidator(_distinct)
]


class Body(BaseModel):
    """A request. Refuses unknown fields and values of another type.

    Reports only the first error of a list, and stops early if there are thousands of fields: listing all errors could
    keep the service busy for seconds.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, value: object) -> object:
        if isinstance(value, dict) and len(value) > 3 * len(cls.__pydantic_fields__):
            raise ValueError(f"has {len(value)} fields, of which at most {len(cls.model_fields)} are known")
        return value
