"""One item of a request: its plan, and the translation that its decoded sentences make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from app.errors import ServiceError
from app.text.glossary import Glossary
from app.text.icu_messages import has_branches
from app.text.language_id import Detected
from app.translation.alignment import word_pairs
from app.translation.language_checks import LanguageChecks, is_suspect
from app.translation.llm_alone import UnservedSentence
from app.translation.memory import MemoryLookup, Suggestion
from app.translation.pivot import FirstLeg
from app.translation.quality_checks import untranslated_warning
from app.translation.sentence import Candidate, Sentence
from app.translation.text_plan import TextPlan, mean_score
from app.translation.types import AUTO, EngineUsed, Item, Options, TranslatedText
from app.translation.word_quality import doubtful_words
from model.hypothesis import FinishReason


@dataclass
class PlannedItem:
    """An item and its plan, or the reason why it cannot be translated.

    `plan` translates into the target.

    If the item needs a pivot language, the plan starts from `first_leg` and grows with it.
    """

    item: Item
    source: Detected
    plan: TextPlan | ServiceError = field(init=False)
    first_leg: FirstLeg | None = None
    """The translation into the pivot language."""
    memory: MemoryLookup | None = None
    """The translation memory, if one was consulted."""
    unserved: Sequence[UnservedSentence] = ()
    """The sentences, if no bundle serves the pair and the large model does."""
    glossary: Glossary | None = None
    """For `unserved`."""
    grows: bool = False
    """Whether more parts of the plan will come."""
    submitted: int = 0
    """The number of parts of a growing plan whose sentences the engine has."""

    @property
    def first_plan(self) -> TextPlan | ServiceError:
        """The plan that translates the item itself, into the pivot language if there is one."""
        return self.first_leg.plan if self.first_leg else self.plan

    @property
    def error(self) -> ServiceError | None:
        """The reason why the item has no translation. The sentences must be decoded."""
        if isinstance(self.plan, ServiceError):
            return self.plan
        return next((sentence.error for sentence in self.plan.sentences if sentence.error), None)

    @property
    def sentences(self) -> Sequence[Sentence]:
        """The sentences of `plan`."""
        return self.plan.sentences if isinstance(self.plan, TextPlan) else ()

    @property
    def pivot_sentences(self) -> Sequence[Sentence]:
        """The sentences that are translated into the pivot language."""
        return self.first_leg.plan.sentences if self.first_leg else ()

    @property
    def model(self) -> str | None:
        """The name of the bundle that translated the item, or of the two; None if it had no sentences."""
        if self.first_leg:
            return self.first_leg.model if self.pivot_sentences else None
        return self.sentences[0].bundle.name if self.sentences else None

    @property
    def engine(self) -> EngineUsed | None:
        """Which model made the translation."""
        if self.unserved:
            return "llm"
        found = {sentence.is_by_large_model for sentence in (*self.pivot_sentences, *self.sentences)}
        return None if not found else "both" if len(found) > 1 else "llm" if found.pop() else "local"

    def engine_of(self, sentence: Sentence) -> EngineUsed:
        """Which model made the translation of a sentence of `plan`."""
        first = self.first_leg.find_origin(sentence) if self.first_leg else None
        found = {sentence.is_by_large_model, first.is_by_large_model if first else sentence.is_by_large_model}
        return "both" if len(found) > 1 else "llm" if sentence.is_by_large_model else "local"

    @property
    def score(self) -> float:
        """The mean log probability of the tokens: in the pivot language, if there is one, and in the target."""
        return mean_score(self._best())

    def may_be_in_other_language(self) -> bool:
        """Whether the language of a paragraph must be examined."""
        plans = (self.plan, self.first_leg and self.first_leg.plan)
        with_bundle = (plan for plan in plans if isinstance(plan, TextPlan) and plan.bundle)
        return any(is_suspect(paragraph) for plan in with_bundle for paragraph in plan.paragraphs())

    def has_spans(self, options: Options) -> bool:
        """Whether its sentences are slices of it."""
        return isinstance(self.item, str) and not options.html and not has_branches(self.item)

    def origin(self, sentence: Sentence, start: int) -> tuple[tuple[int, int], float]:
        """The characters of the item that a sentence of its plan translates, and the score.

        `start`: where the sentence before it ended. What is copied from there on is part of it, unless it was
        translated through a pivot language.
        """
        if self.first_leg is None:
            return (start, sentence.end), sentence.best.decoded.score
        first = self.first_leg.origin(sentence)
        return (first.start, first.end), mean_score([sentence.best, first.best])

    def render(self, options: Options, checks: LanguageChecks) -> TranslatedText:
        """The translation. The sentences must be decoded and checked."""
        plan, leg, memory = self.plan, self.first_leg, self.memory
        source, confidence = self.source.language or "", self.source.confidence if options.source == AUTO else None
        if self.error or isinstance(plan, ServiceError):
            failed = TranslatedText(None, None, None, error=self.error, source=source, confidence=confidence)
            return failed._replace(memory_version=memory.version if memory else None)
        is_given = options.source != AUTO
        if leg:
            checks.add_warnings(leg.plan, is_given)
        checks.add_warnings(plan, is_given=is_given and not leg)
        warnings = _warnings_of(plan)
        if leg:
            warnings = list(dict.fromkeys([*_warnings_of(leg.plan), *warnings]))
        best = self._best()
        stopped = all(candidate.decoded.finish_reason == "stop" for candidate in best)
        reason: FinishReason = "stop" if stopped else "length"
        text = plan.render()
        pairs = (leg.align(plan) if leg else word_pairs(plan)) if options.alignment else None
        pivot = [sentence.best for sentence in self.pivot_sentences]
        others = plan.alternatives(options.alternatives, pivot) if options.alternatives else ()
        done = TranslatedText(
            text,
            mean_score(best),
            reason,
            warnings,
            None,
            source,
            confidence,
            plan,
            others,
            pairs,
            quality=self.lowest_quality,
            words=() if plan.label or plan.nested else doubtful_words(plan),
            first_leg=leg,
            engine=self.engine,
        )
        if memory is None:
            return done
        return done._replace(
            memory=self._origin(memory),
            memory_version=memory.version,
            from_memory=memory.used + sum(sentence.is_repaired for sentence in self.sentences),
            suggestions=self._suggestions(memory, self.has_spans(options)),
        )

    def _origin(self, memory: MemoryLookup) -> Literal["exact", "repaired"] | None:
        if any(sentence.is_repaired for sentence in self.sentences):
            return "repaired"
        return "exact" if memory.used else None

    def _suggestions(self, memory: MemoryLookup, has_spans: bool) -> list[Suggestion]:
        used = {id(sentence.similar.match) for sentence in self.sentences if sentence.is_repaired and sentence.similar}
        return [
            each._replace(span=each.span if has_spans else None, is_repaired=id(each.match) in used)
            for each in memory.suggestions
        ]

    @property
    def lowest_quality(self) -> float | None:
        """The lowest quality of the decoded sentences; None if none is known."""
        return min((q for sentence in self.sentences if (q := self.quality(sentence)) is not None), default=None)

    def quality(self, sentence: Sentence) -> float | None:
        """The quality of a decoded sentence of `plan`. Through a pivot language it is the product of the qualities of
        both translations, as if they failed independently."""
        if self.first_leg is None:
            return sentence.quality
        first, second = self.first_leg.find_origin(sentence), sentence.quality
        return None if first is None or first.quality is None or second is None else first.quality * second

    def _best(self) -> list[Candidate]:
        return [sentence.best for sentence in (*self.pivot_sentences, *self.sentences)]


def _warnings_of(plan: TextPlan) -> list[str]:
    """The warnings of a plan whose sentences are checked: about the text, then about each sentence."""
    warnings = list(dict.fromkeys(warning for _, warning in plan.warnings))
    for sentence in plan.sentences:
        warnings += sentence.warnings
    if missed := [word for sentence in plan.sentences for word in sentence.untranslated_words]:
        warnings.append(untranslated_warning(missed))
    return warnings
