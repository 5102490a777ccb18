"""Schemas of requests and responses, as the OpenAPI page shows them."""

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

from app.http.problems import LIBRETRANSLATE_HINT, Problem
from app.text.line_breaks import LineBreaks
from app.translation.attention import Kind
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


class StreamRequest(Body):
    """Text to translate, with the translation streamed."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"text": "Hello. How are you?", "source": "en", "target": "fr"}]}
    )

    @model_validator(mode="before")
    @classmethod
    def _not_libretranslates(cls, value: object) -> object:
        if isinstance(value, dict) and "q" in value and "text" not in value:
            raise ValueError(f"the text belongs in `text`; `q` is a field of {LIBRETRANSLATE_HINT}")
        return value

    text: Texts = Field(
        description="One text or a list of texts, of any length within the limits; paragraphs are preserved"
    )
    source: Language = Field(description="The language of the text; `auto`: detected for each text separately")
    target: Language = Field(description="The language to translate into")
    format: Literal["text", "html"] = Field(
        "text", description="`html`: the text is HTML or XML, and its markup is preserved"
    )
    glossary: Glossary | None = Field(
        None,
        description="Terms with their required translations, or the name of one of the service's glossaries",
        examples=[{"loss": "fonction de perte"}],
    )
    deadline_ms: int | None = Field(
        None, ge=1, le=86_400_000, description="Give up after this time. The service's own limit applies as well."
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
        description="Maximum number of alternative translations, best first. Uses beam search, which takes several "
        "times as long, with at least as many hypotheses as the bundle's `decoding` of `/models` says",
    )
    alignment: bool = Field(
        False, description="Return which words were translated by which; plain text with `line_breaks` `keep` only"
    )
    line_breaks: LineBreaks = Field(
        "keep",
        description="For plain text: `keep` translates each line separately; `join` translates a paragraph as a whole "
        "and wraps it again; `auto` joins where the text looks wrapped",
    )


class Alternative(BaseModel):
    """Another translation."""

    text: str = Field(examples=["Salut."], description="An alternative translation of the whole text")
    score: float = Field(examples=[-0.42], description="Computed in the same way as the translation's score")


class AlignedWords(BaseModel):
    """Aligned words of the source and the translation, as code point spans [start, end)."""

    source: tuple[int, int] = Field(examples=[[0, 5]], description="In the text sent")
    target: tuple[int, int] = Field(examples=[[0, 7]], description="In the text returned")


class Translation(BaseModel):
    """The result of one text."""

    text: str | None = Field(examples=["Bonjour."], description="null if this text failed: see `error`")
    source: str = Field(
        examples=["en"], description="The language given or detected; `und`: the text contains no words"
    )
    via: list[str] | None = Field(
        default=None,
        examples=[None],
        description="The language in between, if the text was translated into that language first; null if not",
    )
    confidence: float | None = Field(
        examples=[None], description="The probability that the language is `source`, if it was detected"
    )
    score: float | None = Field(
        examples=[-0.21],
        description="Mean log probability of the target tokens, ends of sentences included; 0 if there are none. With "
        "`via`: of the tokens of both translations together",
    )
    finish_reason: Literal["stop", "length"] | None = Field(
        examples=["stop"], description="`length`: a sentence's translation was stopped at the length limit"
    )
    warnings: list[str] = Field(
        default=[],
        description="Suspected errors: repetitions, which are cut; words copied, made up or left out; a sentence cut "
        "in two; a text that seems to be in another language",
    )
    alternatives: list[Alternative] = Field(
        default=[], description="As many as requested, or fewer if there are no more"
    )
    alignment: list[AlignedWords] | None = Field(default=None, description="In target order")
    error: Problem | None = Field(default=None, description="Why this text failed; null if it did not")


class Usage(BaseModel):
    """Tokens, end symbols included."""

    source_tokens: int = Field(examples=[3], description="Source tokens that were translated; with `via`, twice")
    target_tokens: int = Field(examples=[4], description="Tokens of the translations; with `via`, of both")


class TranslateResponse(BaseModel):
    """One entry for each text, in order."""

    translations: list[Translation] = Field(description="One for each text, in order")
    model: str = Field(
        examples=["en-fr@0123456789ab"],
        description="The bundle, and the checksum of its weights. ` + ` joins two that translated one after the other, "
        "a comma any others",
    )
    usage: Usage


class FileWarning(BaseModel):
    """A suspected error in one of a file's texts."""

    line: int | None = Field(
        examples=[12], description="Line of the uploaded file, from 1; null if the format has no lines"
    )
    name: str | None = Field(
        examples=["$.menu.open"],
        description="The location in the format's own terms: a path, a unit, a cue, a paragraph",
    )
    text: str = Field(examples=["The old house"], description="The beginning of the text")
    warning: str = Field(examples=["Perhaps not translated: “old”."], description="As in `warnings` of a Translation")


class FileReport(BaseModel):
    """The warnings about a translated file."""

    file: str = Field(examples=["report.fr.docx"], description="Its name")
    model: str = Field(examples=["en-fr@0123456789ab"], description="As in a TranslateResponse")
    texts: int = Field(examples=[120], description="Number of passages translated")
    warnings: list[FileWarning] = Field(description="In file order")


class StreamedPart(BaseModel):
    """The event `part`: the next part of an item's translation. The joined parts of an item are its translation."""

    item: int = Field(examples=[0], description="Index of the text, from 0")
    text: str = Field(examples=["Bonjour."], description="A sentence, preceded by any text that is copied")
    source: tuple[int, int] | None = Field(
        examples=[[0, 6]], description="Its code point span in a plain text; null for HTML and for copied ends"
    )
    score: float | None = Field(examples=[-0.21], description="null if the whole part is copied")


class AttentionRequest(Body):
    """A sentence to translate, and which attention weights to return."""

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

    text: Text = Field(description="One sentence, within the model's token limit; it is not split")
    source: SourceLanguage = Field(description="The language of the text")
    target: Language = Field(description="The language to translate into")
    target_text: Text | None = Field(None, description="Force this translation; null uses the model's own")
    kinds: list[Kind] = Field(
        ["encoder", "decoder", "cross"],
        min_length=1,
        max_length=3,
        description="Which attention to return: encoder self-attention, decoder self-attention, cross-attention",
    )
    layers: Indices | None = Field(None, description="null: all; the first is 0")
    heads: Indices | None = Field(None, description="null: all; the first is 0")
    form: Literal["json", "bertviz", "svg"] = Field(
        "json",
        alias="as",
        description="`json`: an AttentionResponse; `bertviz`: a list of AttentionView, the attention format of "
        "BertViz; `svg`: a picture",
    )


class Token(BaseModel):
    """A token and the code points [start, end) that it covers; `</s>`, the last, covers none."""

    piece: str = Field(examples=["▁Hello"], description="The vocabulary's spelling; `▁` is a space")
    start: int = Field(examples=[0], description="Its first code point")
    end: int = Field(examples=[5], description="The code point after its last")


class AttentionResponse(BaseModel):
    """The attention weights of the decoding pass that produced the tokens.

    Rows of `decoder` and `cross` are the target tokens as they were generated. The decoder's keys are the same tokens
    shifted right by one, `start` first, so it is square and lower triangular. A model of several directions also reads
    and generates tokens that name the languages: they are among both tokens, with empty spans, but aligned to none. A
    model whose decoder is recurrent has no decoder self-attention: its `decoder` is an empty list.
    """

    translation: str = Field(examples=["Bonjour."], description="The model's raw output: repetitions are not cut")
    source_tokens: list[Token] = Field(description="Spans refer to the text sent")
    target_tokens: list[Token] = Field(description="Spans refer to the translation")
    attention: dict[Kind, list[list[list[list[float]]]]] = Field(
        description="[layer][head][query][key], by kind; `decoder` is empty if the model's decoder is recurrent"
    )
    alignment: list[tuple[int, int]] = Field(
        description="[source index, target index]: for each target token the source token of the text "
        "with the highest cross-attention, averaged over all layers and heads, or that of the head that the model was "
        "trained to align with"
    )
    start: str = Field(
        examples=["<s>"], description="The token that the decoder starts from; `<s>` if it starts from zeros"
    )
    model: str = Field(examples=["en-fr@0123456789ab"], description="The bundle, and the checksum of its weights")


class AttentionView(BaseModel):
    """One kind of attention in BertViz's format: an entry of the list `attention` of its page's `params`."""

    name: Literal["Encoder", "Decoder", "Cross"] = Field(description="What BertViz calls this kind")
    attn: list[list[list[list[float]]]] = Field(description="[layer][head][query][key]")
    left_text: list[str] = Field(examples=[["▁Bonjour", ".", "</s>"]], description="The queries: tokens that attend")
    right_text: list[str] = Field(examples=[["▁Hello", ".", "</s>"]], description="The keys: tokens attended to")


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
    licence: str | None = Field(description="Licence of the weights; null if the bundle names none")
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


class Health(BaseModel):
    """The process is responding."""

    status: Literal["ok"] = Field(default="ok", description="The only value")


class Ready(BaseModel):
    """The service can translate: every bundle has passed its sample check."""

    status: Literal["ready"] = Field(default="ready", description="The only value; anything else is an error")
    models: list[str] = Field(examples=[["en-fr@0123456789ab"]], description="Models that are ready")
