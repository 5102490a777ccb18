"""Input, options and results of the translator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from msgspec import Struct

from app.errors import ServiceError
from app.markup.passage import Piece
from app.text.glossary import Glossary
from app.translation.alignment import WordPair
from app.translation.formality import Formality
from app.translation.memory import MemoryOption, Suggestion
from app.translation.pivot import PivotPlan
from app.translation.text_plan import TextPlan
from app.translation.word_quality import DoubtfulWord
from model.hypothesis import FinishReason
from model.languages import AUTO as AUTO

EngineOption = Literal["auto", "local", "llm"]
"""Which model translates: `local`, the bundles' own; `llm`, a large model; `auto`, that for what the own is bad at."""
GlossaryOption = Glossary | Mapping[str, str] | str | None
"""A Glossary, the terms of a request, or the name of a glossary that is served."""
EngineUsed = Literal["local", "llm", "both"]
Item = str | Sequence[Piece]
"""A text, or the pieces that a format split it into."""


class _Languages(Struct, frozen=True):
    """Two languages. If `source` is AUTO, the language of each item is detected separately."""

    source: str
    target: str


class Options(_Languages, frozen=True, kw_only=True):
    """How to translate."""

    glossary: GlossaryOption = None
    alternatives: int = 0
    deadline_ms: int | None = None
    html: bool = False
    """Whether the texts are HTML or XML."""
    alignment: bool = False
    """Whether to align words; for plain text only."""
    waited_s: float = 0.0
    """How long the request has already waited; counts towards the deadline."""
    client: str = ""
    """Whose request it is: clients take turns."""
    prefix: str = ""
    """How the translation of the only item begins; see `app.translation.completion`."""
    memory: MemoryOption | None = None
    """The translation memory to consult first; None: none."""
    engine: EngineOption | None = None
    """None: as the settings say."""
    llm_below: float | None = None
    """The quality below which a sentence goes to the large model, with `auto`; None: as the settings say."""
    formality: Formality | None = None
    """How the translation addresses its reader, where the language and the beam have a choice; None: as it comes."""


class TranslatedText(Struct, kw_only=True):
    """One text's translation, or the error that only this text caused; then `text` and `score` are None."""

    text: str | None = None
    score: float | None = None
    finish_reason: FinishReason | None = None
    warnings: Sequence[str] = ()
    error: ServiceError | None = None
    source: str = ""
    confidence: float | None = None
    """The probability that `source` is right; None unless it was detected."""
    plan: TextPlan | None = None
    """The plan that the translation was rendered from."""
    alternatives: Sequence[tuple[str, float]] = ()
    """Other translations and their scores, the best first."""
    alignment: Sequence[WordPair] | None = None
    """Aligned words, in target order; None unless requested."""
    quality: float | None = None
    """The probability that the translation is good enough to use as it is: the lowest of its sentences'. None if no
    bundle estimates it, or nothing was translated."""
    words: Sequence[DoubtfulWord] = ()
    """The words that are likeliest wrong, in order."""
    pivot: PivotPlan | None = None
    """The translation through a pivot language, which `plan` is part of; None if there was none."""
    memory: Literal["exact", "repaired"] | None = None
    """What the translation, or a sentence of it, has from the translation memory; "repaired" if a sentence is."""
    memory_version: int | None = None
    """The version of the memory that was consulted; None if none was."""
    from_memory: int = 0
    """How many texts, paragraphs or sentences of it were taken from the memory."""
    engine: EngineUsed | None = None
    """Which model made it; None if nothing was translated."""
    suggestions: Sequence[Suggestion] = ()
    """Similar texts in the memory, if they were requested: for the whole text, then for each sentence, best first."""

    @property
    def via(self) -> list[str] | None:
        """The pivot language, if the text was translated through one."""
        return self.pivot.via if self.pivot else None

    @property
    def located_warnings(self) -> list[tuple[int, str]]:
        """The warnings of each sentence, each with the sentence's offset in the passage."""
        if not self.plan:
            return [(0, warning) for warning in self.warnings]
        found = self.plan.located_warnings()
        if self.pivot:
            moved = ((self.pivot.source_offset(offset), warning) for offset, warning in found)
            found = list(dict.fromkeys([*self.pivot.into_pivot.located_warnings(), *moved]))
        return found


class Translations(NamedTuple):
    """A request's translations, in order, and the number of their tokens, including end symbols."""

    items: list[TranslatedText]
    model: str
    source_tokens: int
    target_tokens: int
    llm_sentences: int = 0
    """How many sentences a large model translated."""


@dataclass(frozen=True)
class TranslatedPart:
    """The next part of an item's translation: a sentence, decoded or remembered, with the copied text before it."""

    item: int
    text: str
    source: tuple[int, int] | None
    """The code points [start, end) of a plain text that the part translates; None for copied text at the end."""
    score: float | None
    """None for a sentence from the memory and for copied text."""
    quality: float | None = None
    """The probability that the sentence is good enough to use as it is; None if its bundle does not estimate it."""
    words: Sequence[DoubtfulWord] = ()
    """The words that are likeliest wrong, in order, with offsets in `text`."""
    engine: EngineUsed | None = None
    """Which model made it; None for copied and remembered text."""
