"""The shapes of requests and answers: what the OpenAPI page shows. Knows no model."""

from __future__ import annotations

from typing import Annotated, Any, Literal

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

from app.http.problems import LIBRETRANSLATES, Problem
from app.text.line_breaks import LineBreaks
from app.translation.attention import Kind
from model.languages import AUTO


def _unicode(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("holds a lone surrogate, which is no character") from None
    return text


def _not_auto(code: str) -> str:
    if code.lower() == AUTO:
        raise ValueError("the language is not detected here; name it")
    return code


def _distinct(numbers: list[int]) -> list[int]:
    if len(set(numbers)) < len(numbers):
        raise ValueError("a number is given twice")
    return numbers


def _terms(value: object) -> object:
    """Tells the first fault alone, and not each of ten thousand."""
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
"""Not a Text: what has a length to be checked is checked for surrogates by pydantic itself."""
Texts = Annotated[
    Annotated[Text, Tag("string")] | Annotated[list[Text], Field(fail_fast=True), Tag("list")],
    Discriminator(_shape),
]
Glossary = Annotated[
    Annotated[Text, Tag("string")] | Annotated[dict[str, str], Tag("object")],
    Discriminator(_glossary_shape),
    BeforeValidator(_terms),
]
SourceLanguage = Annotated[Language, AfterValidator(_not_auto)]
Indices = Annotated[
    list[Annotated[int, Field(ge=0, lt=1_000)]], Field(min_length=1, fail_fast=True), AfterValidator(_distinct)
]


class Body(BaseModel):
    """A request: no field that we do not know, no value of another type.

    Of a list, the first fault is told and no more, and so it is with fields by the thousand: listing them all could
    keep the service busy for seconds.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, value: object) -> object:
        if isinstance(value, dict) and len(value) > 3 * len(cls.model_fields):
            raise ValueError(f"has {len(value)} fields, of which at most {len(cls.model_fields)} are known")
        return value


class StreamRequest(Body):
    """Text to translate, whose translation is sent as it comes."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"text": "Hello. How are you?", "source": "en", "target": "fr"}]}
    )

    @model_validator(mode="before")
    @classmethod
    def _not_libretranslates(cls, value: object) -> object:
        if isinstance(value, dict) and "q" in value and "text" not in value:
            raise ValueError(f"the text belongs into `text`; `q` is a field of {LIBRETRANSLATES}")
        return value

    text: Texts = Field(description="One text or several, of any length within the limits, in paragraphs or not")
    source: Language = Field(description="The language of the text; `auto`: each text's is detected by itself")
    target: Language = Field(description="The language to translate into")
    format: Literal["text", "html"] = Field(
        "text", description="`html`: the text is HTML or XML, whose markup stays as it is"
    )
    glossary: Glossary | None = Field(
        None,
        description="Terms and the translations that they must have, or the name of a glossary of the service",
        examples=[{"loss": "fonction de perte"}],
    )
    deadline_ms: int | None = Field(
        None, ge=1, le=86_400_000, description="Give up after this time. The service's own limit holds as well."
    )


class TranslateRequest(StreamRequest):
    """Text to translate."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"text": "Hello.", "source": "en", "target": "fr"},
                {"text": ["Hello.", "How are you? I am well."], "source": "en", "target": "fr", "deadline_ms": 10000},
                {"text": "<p>Hello, <b>my friend</b>!</p>", "source": "auto", "target": "fr", "format": "html"},
                {"text": "My house.", "source": "en", "target": "fr", "alternatives": 2, "alignment": True},
                {"text": "Hello, {name}.", "source": "en", "target": "fr", "glossary": {"hello": "salut"}},
                {"text": "I live in a small\nhouse.\n", "source": "en", "target": "fr", "line_breaks": "join"},
            ]
        }
    )

    alternatives: int = Field(
        0,
        ge=0,
        le=8,
        description="So many other translations at most, the best first. The translation is then the best of a beam "
        "search, and takes several times as long",
    )
    alignment: bool = Field(False, description="Which words became which; of plain text whose lines are kept only")
    line_breaks: LineBreaks = Field(
        "keep",
        description="Of plain text: `keep` translates each line by itself; `join` the lines of a paragraph together, "
        "which is then wrapped again; `auto`: the same, where the text looks as if it was wrapped",
    )


class Alternative(BaseModel):
    """Another translation."""

    text: str = Field(examples=["Salut."], description="The whole text, translated otherwise")
    score: float = Field(examples=[-0.42], description="As the translation's own")


class AlignedWords(BaseModel):
    """Words of the text sent and of the text returned, as code point spans [start, end)."""

    source: tuple[int, int] = Field(examples=[[0, 5]], description="In the text sent")
    target: tuple[int, int] = Field(examples=[[0, 7]], description="In the text returned")


class Translation(BaseModel):
    """What became of one text."""

    text: str | None = Field(examples=["Bonjour."], description="null if this text failed alone: see `error`")
    source: str = Field(examples=["en"], description="As given, or as detected; `und`: the text holds no words")
    confidence: float | None = Field(
        examples=[None], description="If the language was to be detected: the probability that it is `source`"
    )
    score: float | None = Field(
        examples=[-0.21],
        description="Mean log probability of the target tokens, ends of sentences included; 0 if there are none",
    )
    finish_reason: Literal["stop", "length"] | None = Field(
        examples=["stop"], description="`length`: a sentence's translation was stopped where it seemed to have no end"
    )
    warnings: list[str] = Field(
        default=[],
        description="What seems wrong: repetitions, which are cut; words copied, made up or left out; a sentence cut "
        "in two; a text that looks to be in another language",
    )
    alternatives: list[Alternative] = Field(default=[], description="As many as were asked for, or as there are")
    alignment: list[AlignedWords] | None = Field(default=None, description="In the order of the translation")
    error: Problem | None = Field(default=None, description="Why this text failed alone; null: it did not")


class Usage(BaseModel):
    """Tokens, end symbols included."""

    source_tokens: int = Field(examples=[3], description="Of the texts sent, as they were translated")
    target_tokens: int = Field(examples=[4], description="Of their translations")


class TranslateResponse(BaseModel):
    """One entry for each text, in order."""

    translations: list[Translation] = Field(description="One for each text, in order")
    model: str = Field(examples=["en-fr@0123456789ab"], description="The bundle, and the checksum of its weights")
    usage: Usage


class FileWarning(BaseModel):
    """What seems wrong with one of a file's texts."""

    line: int | None = Field(examples=[12], description="Of the file that was sent, from 1; null: it has no lines")
    name: str | None = Field(
        examples=["$.menu.open"], description="What the format calls the place: a path, a unit, a cue, a paragraph"
    )
    text: str = Field(examples=["The old house"], description="How it begins")
    warning: str = Field(examples=["Perhaps not translated: “old”."], description="As in the warnings of a Translation")


class FileReport(BaseModel):
    """What is to be looked at in a translated file."""

    file: str = Field(examples=["report.fr.docx"], description="Its name")
    model: str = Field(examples=["en-fr@0123456789ab"], description="The bundle, and the checksum of its weights")
    texts: int = Field(examples=[120], description="Passages that were translated")
    warnings: list[FileWarning] = Field(description="In the order of the file")


class StreamedPart(BaseModel):
    """The event `part`: what follows of an item's translation. An item's parts, joined, are its translation."""

    item: int = Field(examples=[0], description="Which text it is of, from 0")
    text: str = Field(examples=["Bonjour."], description="A sentence, and before it what is copied")
    source: tuple[int, int] | None = Field(
        examples=[[0, 6]], description="Its code points in a plain text; null in HTML and for copied ends"
    )
    score: float | None = Field(examples=[-0.21], description="null if all of it is copied")


class AttentionRequest(Body):
    """A sentence to translate, and what to show of how."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"text": "Hello.", "source": "en", "target": "fr"},
                {"text": "Hello.", "source": "en", "target": "fr", "target_text": "Bonjour.", "kinds": ["cross"]},
                {"text": "Hello.", "source": "en", "target": "fr", "layers": [0], "heads": [0, 1], "as": "bertviz"},
                {"text": "Hello.", "source": "en", "target": "fr", "kinds": ["cross"], "as": "svg"},
            ]
        }
    )

    text: Text = Field(description="One sentence, within the model's limit in tokens; it is not split")
    source: SourceLanguage = Field(description="The language of the text")
    target: Language = Field(description="The language to translate into")
    target_text: Text | None = Field(None, description="Force this translation; null: the model's own")
    kinds: list[Kind] = Field(
        ["encoder", "decoder", "cross"],
        min_length=1,
        max_length=3,
        description="Whose attention: the source tokens' to each other, the target tokens' to those before them, the "
        "target tokens' to the source's",
    )
    layers: Indices | None = Field(None, description="null: all; the first is 0")
    heads: Indices | None = Field(None, description="null: all; the first is 0")
    form: Literal["json", "bertviz", "svg"] = Field(
        "json",
        alias="as",
        description="`json`: an AttentionResponse; `bertviz`: what BertViz takes as its attention, a list of "
        "AttentionView; `svg`: a picture",
    )


class Token(BaseModel):
    """A token and the code points [start, end) that it covers; `</s>`, the last, covers none."""

    piece: str = Field(examples=["▁Hello"], description="As the vocabulary spells it; `▁` is a space")
    start: int = Field(examples=[0], description="Its first code point")
    end: int = Field(examples=[5], description="The code point after its last")


class AttentionResponse(BaseModel):
    """Attention weights: the very ones of the pass that produced the tokens.

    Rows of `decoder` and `cross` are the target tokens as they were generated. The decoder's keys are the same tokens
    shifted right by one, `<s>` first, so it is square and lower triangular.
    """

    translation: str = Field(examples=["Bonjour."], description="As the model wrote it: repetitions are not cut")
    source_tokens: list[Token] = Field(description="Spans are of the text sent")
    target_tokens: list[Token] = Field(description="Spans are of the translation")
    attention: dict[Kind, list[list[list[list[float]]]]] = Field(description="[layer][head][query][key], by kind")
    alignment: list[tuple[int, int]] = Field(
        description="[source index, target index]: for each target token the source token, but for the end symbol, "
        "with the highest cross-attention, averaged over all layers and heads"
    )
    model: str = Field(examples=["en-fr@0123456789ab"], description="The bundle, and the checksum of its weights")


class AttentionView(BaseModel):
    """One kind of attention as BertViz keeps it: an entry of the list `attention` of its page's `params`."""

    name: Literal["Encoder", "Decoder", "Cross"] = Field(description="What BertViz calls this kind")
    attn: list[list[list[list[float]]]] = Field(description="[layer][head][query][key]")
    left_text: list[str] = Field(examples=[["▁Bonjour", ".", "</s>"]], description="The queries: tokens that look")
    right_text: list[str] = Field(examples=[["▁Hello", ".", "</s>"]], description="The keys: tokens looked at")


class ServedLanguage(BaseModel):
    """A source language and what it is translated into."""

    code: str = Field(examples=["en"], description="As requests name it")
    name: str = Field(examples=["English"], description="In English")
    targets: list[str] = Field(examples=[["fr"]], description="Codes of the languages it is translated into")


class ServedModel(BaseModel):
    """A bundle, as its own record describes it."""

    model: str = Field(examples=["en-fr@0123456789ab"], description="Its name, and the checksum of its weights")
    source: str = Field(examples=["en"], description="The language that it translates")
    target: str = Field(examples=["fr"], description="The language that it translates into")
    architecture: dict[str, Any] = Field(description="Sizes and numbers of its parts")
    parameters: int = Field(description="Numbers that were learnt")
    metrics: list[dict[str, Any]] = Field(description="How well it does: test set, figures, and at which precision")
    corpora: list[dict[str, Any]] = Field(description="What it was trained on, with sizes")
    licence: str | None = Field(description="Of its weights; null: its record names none")
    checksum: str = Field(description="SHA-256 of the weights, in hexadecimal digits", examples=["0123456789ab..."])
    device: str = Field(description="Where it is computed", examples=["cpu"])
    precision: str = Field(description="In which numbers it is computed", examples=["int8"])
    tokens_per_second: float = Field(
        description="Target tokens decoded, a second, over the last ten; not those that were found finished",
        examples=[1234.5],
    )


class Reloaded(BaseModel):
    """What is served now."""

    changed: bool = Field(description="Whether that is something else than before", examples=[True])
    models: list[str] = Field(description="The bundles", examples=[["en-fr@0123456789ab"]])


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"] = Field(default="ok", description="There is no other answer")


class Ready(BaseModel):
    """Every bundle's samples came out right."""

    status: Literal["ready"] = Field(default="ready", description="Any other is an error")
    models: list[str] = Field(examples=[["en-fr@0123456789ab"]], description="Those that translate")
