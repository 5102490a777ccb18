"""What is asked of the translator, and what it answers. Knows no wire format, and not how it is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.errors import ServiceError
from app.markup.passage import Piece
from app.text.glossary import Glossary
from app.translation.alignment import WordPair
from app.translation.text_plan import TextPlan
from model.hypothesis import FinishReason
from model.languages import AUTO as AUTO

Item = str | Sequence[Piece]
"""A text, or what a format made of one."""


@dataclass(frozen=True)
class Options:
    """How to translate. `source` may be AUTO: then each item's language is told by itself.

    `glossary` is one of a request, a served one's name, or one made already.
    """

    source: str
    target: str
    glossary: Glossary | Mapping[str, str] | str | None = None
    alternatives: int = 0
    deadline_ms: int | None = None
    html: bool = False
    """The texts are HTML or XML."""
    alignment: bool = False
    """Which words became which is told as well; of plain text only."""
    waited_s: float = 0.0
    """How long the request waited before anything was done for it; it is part of the deadline."""


@dataclass(frozen=True)
class TranslatedText:
    """One text's translation, or the error that this text alone ended in (then `text` and `score` are None)."""

    text: str | None
    score: float | None
    finish_reason: FinishReason | None
    warnings: Sequence[str] = ()
    error: ServiceError | None = None
    source: str = ""
    confidence: float | None = None
    """That `source` is right, if it was told and not given."""
    plan: TextPlan | None = field(default=None, repr=False)
    """What it was made of."""
    alternatives: Sequence[tuple[str, float]] = ()
    """Other translations and their scores, the best first."""
    alignment: Sequence[WordPair] | None = None
    """Words that belong together, in the order of the translation, if they were asked for."""

    @property
    def located_warnings(self) -> list[tuple[int, str]]:
        """The warnings, of each sentence by itself, with the sentence's offset in the passage."""
        return self.plan.located_warnings() if self.plan else [(0, warning) for warning in self.warnings]


@dataclass(frozen=True)
class Translations:
    """A request's translations, in order, and how many tokens they took, end symbols included."""

    items: list[TranslatedText]
    model: str
    source_tokens: int
    target_tokens: int


@dataclass(frozen=True)
class TranslatedPart:
    """A stretch of an item's translation, as soon as it is there: a sentence, with what is copied around it."""

    item: int
    text: str
    source: tuple[int, int] | None
    """Code points of the text sent, if it is plain text; of the last part, which is only copied, None."""
    score: float | None
