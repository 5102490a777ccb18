"""A sentence of a plan, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct, field, structs

from app.engine.sequence import Decoded
from app.errors import ServiceError
from app.translation.candidate import Candidate
from app.translation.sentence import Sentence

Origin = Literal["model", "memory", "large model", "source"]
"""Where a translation comes from: the bundle's own model, a repaired translation of the memory, a large model, or the
sentence itself, whose translation is not good enough."""


class Translation(Struct, eq=False):
    """A sentence's translation, where it comes from, and what `app.translation.policies` found in it."""

    candidates: Sequence[Candidate]
    """The best first."""
    origin: Origin = "model"
    warnings: list[str] = field(default_factory=list)
    untranslated_words: Sequence[str] = ()
    """Words to which the translation paid hardly any attention."""
    copied_words: int = 0
    """Number of words in a translation that copies the source, else 0; see `count_copied_words`."""

    @classmethod
    def of(cls, sentence: Sentence, decoded: Decoded) -> Translation:
        """The result of greedy or beam search."""
        return cls([Candidate(sentence, one) for one in (decoded, *decoded.alternatives)])

    @property
    def best(self) -> Candidate:
        return self.candidates[0]

    @property
    def sentence(self) -> Sentence:
        """The sentence as it was decoded: perhaps with more protected text than it was planned with."""
        return self.candidates[0].sentence

    @property
    def quality(self) -> float | None:
        """See `Candidate.quality`."""
        return self.candidates[0].quality

    def replaced_by(self, candidate: Candidate, origin: Origin) -> Translation:
        """A translation from elsewhere, with this one's other candidates. What was found in this one does not hold for
        it."""
        others = (each for each in self.candidates if each.decoded.tokens != candidate.decoded.tokens)
        return Translation([candidate, *others], origin)

    def left_as_source(self) -> Translation:
        """The sentence itself in the place of its translation."""
        copies = [structs.replace(candidate, is_source=True) for candidate in self.candidates]
        return structs.replace(self, candidates=copies, origin="source")


class PlannedSentence(Struct, eq=False):
    """A sentence of a plan."""

    sentence: Sentence
    outcome: Translation | ServiceError | None = None
    """None before it is translated."""

    @property
    def error(self) -> ServiceError | None:
        """The reason why it has no translation."""
        return self.outcome if isinstance(self.outcome, ServiceError) else None

    def fail(self, error: ServiceError) -> None:
        """Gives it an error instead of a translation."""
        self.outcome = error.with_traceback(None)  # the traceback would keep its frames alive

    @property
    def is_translated(self) -> bool:
        return isinstance(self.outcome, Translation)

    @property
    def translation(self) -> Translation:
        """Its translation, which it must have."""
        assert isinstance(self.outcome, Translation)
        return self.outcome

    @property
    def best(self) -> Candidate:
        return self.translation.candidates[0]


Part = str | PlannedSentence
"""A part of a plan: copied text, or a sentence."""


def sentences_of(parts: Iterable[Part]) -> list[PlannedSentence]:
    return [part for part in parts if isinstance(part, PlannedSentence)]


def rendered(part: Part) -> str:
    """The translation of a part."""
    return part if isinstance(part, str) else part.best.rendered
