"""Requests and responses of /translate, /translate/stream and /translate/file."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from app.api.schemas.fields import Body, Engine, Glossary, Language, LlmBelow, Text, Texts
from app.http.problems import LIBRETRANSLATE_HINT, Problem
from app.text.line_breaks import LineBreaks


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
    memory: Literal["exact", "off", "fuzzy", "repair"] | None = Field(
        None,
        description="The use of the translation memory. `exact`, the default where the service keeps one: a text or a "
        "sentence equal to one in the memory gets the translation there, and the model is not asked; `fuzzy`: "
        "also suggests the translations of similar texts and sentences; `repair`: also translates a sentence as the "
        "memory translates a similar one, but for what differs, if the model scores that no lower than its own "
        "translation; `off`",
    )
    repair_tolerance: float = Field(
        0.0,
        ge=0,
        le=10,
        description="With `memory` `repair`: how much lower than its own translation the model may score a repaired "
        "one, in mean log probability (`score`)",
    )
    engine: Engine = None
    llm_below: LlmBelow = None
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
                {"text": "I live in a small house.", "source": "en", "target": "fr", "prefix": "Je vis dans une pet"},
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
    prefix: Text = Field(
        "",
        description="How the translation begins, exactly; it may end within a word. For a single plain text of one "
        "sentence without placeholders and tags, with `line_breaks` `keep` and no glossary",
    )
    line_breaks: LineBreaks = Field(
        "keep",
        description="For plain text: `keep` translates each line separately; `join` translates a paragraph as a whole "
        "and wraps it again; `auto` joins where the text looks wrapped",
    )


class Suggestion(BaseModel):
    """A similar text in the translation memory."""

    text: str = Field(examples=["Open the files"], description="The text in the memory")
    translation: str = Field(examples=["Ouvrir les fichiers"], description="Its translation, unchanged")
    percentage: int = Field(examples=[66], description="How similar the text is; see GET /memory/search")
    source: tuple[int, int] | None = Field(
        default=None,
        examples=[[0, 14]],
        description="What it is similar to, as a code point span of the text sent: the text or a sentence of it; null "
        "for HTML and for joined lines",
    )
    repaired: bool = Field(default=False, description="Whether that sentence has this translation, repaired")


class Alternative(BaseModel):
    """Another translation."""

    text: str = Field(examples=["Salut."], description="An alternative translation of the whole text")
    score: float = Field(examples=[-0.42], description="Computed in the same way as the translation's score")


class DoubtfulWord(BaseModel):
    """A word of the translation that may be wrong."""

    span: tuple[int, int] = Field(examples=[[17, 21]], description="Its code points [start, end) in the text returned")
    probability: float = Field(
        examples=[0.3], description="The probability that a reference translation has this word, always under 0.35"
    )


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
    quality: float | None = Field(
        default=None,
        examples=[0.74],
        description="The probability that the translation is good enough to use as it is: that its chrF against a "
        "reference is at least 75, or 50 in languages without spaces. Of several sentences the lowest; with `via`, the "
        "product of both translations'. Calibrated by the bundle on pairs that it was not trained on: see `quality` of "
        "`/models`. null if the bundle is not calibrated",
    )
    words: list[DoubtfulWord] = Field(
        default=[], description="The words that are likeliest wrong, in order; only for plain text, and not for labels"
    )
    engine: Literal["local", "llm", "both"] | None = Field(
        default=None,
        examples=["local"],
        description="Which model translated: the bundle's, a large one, or both, for a sentence each; null if nothing "
        "was translated. With `llm`, `score` and `quality` are what the bundle's model thinks of it",
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
    memory: Literal["exact", "repaired"] | None = Field(
        default=None,
        description="`exact`: the text, or at least a sentence of it, has its translation from the translation memory; "
        "`repaired`: at least one has the translation of a similar sentence, but for what differs; its suggestion is "
        "marked `repaired`",
    )
    memory_version: int | None = Field(
        default=None,
        description="The version of the memory that was consulted, which every change raises; null if none was. Same "
        "request, same model and same version: same translation",
    )
    suggestions: list[Suggestion] = Field(
        default=[],
        description="With `memory` `fuzzy` or `repair`: pairs whose text is similar to the whole text, then to each "
        "sentence that is not in the memory, in order; for each the best first",
    )
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


class FileSentence(BaseModel):
    """One of a file's texts, and how good its translation is."""

    line: int | None = Field(examples=[12], description="As in a FileWarning")
    name: str | None = Field(examples=["$.menu.open"], description="As in a FileWarning")
    text: str = Field(examples=["The old house"], description="The beginning of the text")
    quality: float = Field(examples=[0.2], description="As in a Translation")


class FileReport(BaseModel):
    """The warnings about a translated file."""

    file: str = Field(examples=["report.fr.docx"], description="Its name")
    model: str = Field(examples=["en-fr@0123456789ab"], description="As in a TranslateResponse")
    texts: int = Field(examples=[120], description="Number of passages translated")
    llm_sentences: int = Field(default=0, examples=[3], description="How many sentences a large model translated")
    from_memory: int = Field(
        default=0,
        examples=[12],
        description="How many paragraphs and sentences have their translation from the translation memory",
    )
    memory_version: int | None = Field(
        default=None, examples=[7], description="As in a Translation; of several memories, the highest"
    )
    encoding: str | None = Field(
        default=None,
        examples=["windows-1251"],
        description="The encoding that its bytes showed; null if it is Unicode, or it was declared",
    )
    warnings: list[FileWarning] = Field(description="In file order")
    check_first: list[FileSentence] = Field(
        default=[], description="The texts with a quality under 0.5, the lowest first; at most 1,000"
    )


class StreamedPart(BaseModel):
    """The event `part`: the next part of an item's translation. The joined parts of an item are its translation."""

    item: int = Field(examples=[0], description="Index of the text, from 0")
    text: str = Field(examples=["Bonjour."], description="A sentence, preceded by any text that is copied")
    source: tuple[int, int] | None = Field(
        examples=[[0, 6]], description="Its code point span in a plain text; null for HTML and for copied ends"
    )
    score: float | None = Field(examples=[-0.21], description="null if the part is copied or from the memory")
    quality: float | None = Field(
        default=None, examples=[0.74], description="As in a Translation; null if the part is copied or from the memory"
    )
    words: list[DoubtfulWord] = Field(default=[], description="As in a Translation, with offsets in this part's text")
    engine: Literal["local", "llm", "both"] | None = Field(default=None, description="As in a Translation")
