"""One item of a request: its plan, and the translation that its decoded sentences make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from app.errors import ServiceError
from app.text.glossary import Glossary
from app.text.language_id import Detected
from app.translation.alignment import WordPair, word_pairs
from app.translation.language_checks import LanguageChecks, is_suspect
from app.translation.llm_alone import UnservedSentence
from app.translation.memory import MemoryLookup, Suggestion
from app.translation.pivot import PivotPlan
from app.translation.planned_sentence import PlannedSentence, Translation
from app.translation.quality_checks import untranslated_warning
from app.translation.text_plan import TextPlan, mean_score
from app.translation.types import AUTO, EngineUsed, Item, Options, TranslatedPart, TranslatedText
from app.translation.word_quality import doubtful_words


@dataclass(eq=False)
class PlannedItem:
    """An item and its plan, or the reason why it cannot be translated.

    `plan` translates into the target.

    If the item needs a pivot language, that is `pivot.from_pivot`, which grows.
    """

    item: Item
    source: Detected
    plan: TextPlan | ServiceError = field(init=False)
    has_spans: bool = False
    """Whether its sentences are slices of it."""
    pivot: PivotPlan | None = None
    """The translation through a pivot language."""
    memory: MemoryLookup | None = None
    """The translation memory, if one was consulted."""
    unserved: Sequence[UnservedSentence] = ()
    """The sentences, if no bundle serves the pair and the large model does."""
    glossary: Glossary | None = None
    """For `unserved`."""

    @property
    def first_plan(self) -> TextPlan | ServiceError:
        """The plan that translates the item itself, into the pivot language if there is one."""
        return self.pivot.into_pivot if self.pivot else self.plan

    @property
    def error(self) -> ServiceError | None:
        """The reason why the item has no translation. The sentences must be translated, or have errors."""
        if isinstance(self.plan, ServiceError):
            return self.plan
        return next((sentence.error for sentence in self.plan.sentences if sentence.error), None)

    @property
    def sentences(self) -> Sequence[PlannedSentence]:
        """The sentences of `plan`."""
        return self.plan.sentences if isinstance(self.plan, TextPlan) else ()

    @property
    def pivot_sentences(self) -> Sequence[PlannedSentence]:
        """The sentences that are translated into the pivot language."""
        return self.pivot.into_pivot.sentences if self.pivot else ()

    @property
    def model(self) -> str | None:
        """The name of the bundle that translated the item, or of the two; None if it had no sentences."""
        plan = self.first_plan
        if isinstance(plan, ServiceError) or plan.bundle is None or not plan.cost:
            return None
        return self.pivot.model if self.pivot else plan.bundle.name

    def engine_of(self, sentence: PlannedSentence) -> EngineUsed | None:
        """Which model made the translation of a sentence of `plan`."""
        first = self.pivot.origin(sentence) if self.pivot else None
        return _engine_of([sentence, first] if first else [sentence])

    def may_be_in_other_language(self) -> bool:
        """Whether the language of a paragraph must be examined."""
        plans = (self.plan, self.pivot and self.pivot.into_pivot)
        with_bundle = (plan for plan in plans if isinstance(plan, TextPlan) and plan.bundle)
        return any(is_suspect(paragraph) for plan in with_bundle for paragraph in plan.paragraphs())

    def span_of(self, sentence: PlannedSentence, start: int) -> tuple[tuple[int, int], float]:
        """The characters of the item that a sentence of its plan translates, and the score.

        `start`: where the sentence before it ended. What is copied from there on is part of it, unless it was
        translated through a pivot language.
        """
        first = self.pivot.origin(sentence) if self.pivot else None
        if first is None:
            return (start, sentence.translation.sentence.end), sentence.best.decoded.score
        source = first.translation.sentence
        return (source.start, source.end), mean_score([sentence.best, first.best])

    def render(self, options: Options, checks: LanguageChecks) -> TranslatedText:
        """The translation. The sentences must be decoded and checked."""
        plan, pivot, memory = self.plan, self.pivot, self.memory
        source, confidence = self.source.language or "", self.source.confidence if options.source == AUTO else None
        if (error := self.error) or isinstance(plan, ServiceError):
            version = memory.version if memory else None
            return TranslatedText(error=error, source=source, confidence=confidence, memory_version=version)
        is_given = options.source != AUTO
        if pivot:
            checks.add_warnings(pivot.into_pivot, is_given)
        checks.add_warnings(plan, is_given=is_given and not pivot)
        warnings = _warnings_of(plan)
        if pivot:
            warnings = list(dict.fromkeys([*_warnings_of(pivot.into_pivot), *warnings]))
        first, sentences = self.pivot_sentences, self.sentences
        into_pivot = [each.best for each in first]
        best = [*into_pivot, *[each.best for each in sentences]]
        stopped = all(candidate.decoded.finish_reason == "stop" for candidate in best)
        pairs = self._word_pairs(plan) if options.alignment else None
        done = TranslatedText(
            text=plan.render(),
            score=mean_score(best),
            finish_reason="stop" if stopped else "length",
            warnings=warnings,
            source=source,
            confidence=confidence,
            plan=plan,
            pivot=pivot,
            alternatives=plan.alternatives(options.alternatives, into_pivot) if options.alternatives else (),
            alignment=pairs,
            quality=self._lowest_quality(sentences),
            words=() if plan.label or plan.nested else doubtful_words(plan),
            engine=self._engine(first, sentences),
        )
        if memory:
            repaired = [each.translation for each in sentences if each.translation.origin == "memory"]
            done.memory = "repaired" if repaired else "exact" if memory.used else None
            done.memory_version = memory.version
            done.from_memory = memory.used + len(repaired)
            done.suggestions = _suggestions(memory, repaired, self.has_spans)
        return done

    def _word_pairs(self, plan: TextPlan) -> list[WordPair]:
        """The aligned words; none of a text in JSON, whose sentences are no slices of it."""
        if not self.has_spans:
            return []
        return self.pivot.align(plan) if self.pivot else word_pairs(plan)

    def whole(self, number: int) -> TranslatedPart:
        """The translation as the only part of item `number`. The sentences must be translated."""
        assert isinstance(self.plan, TextPlan)
        first, sentences = self.pivot_sentences, self.sentences
        score = mean_score([each.best for each in (*first, *sentences)])
        quality, used = self._lowest_quality(sentences), self._engine(first, sentences)
        return TranslatedPart(number, self.plan.render(), None, score, quality, engine=used)

    def _lowest_quality(self, sentences: Sequence[PlannedSentence]) -> float | None:
        return min([q for each in sentences if (q := self.quality(each)) is not None], default=None)

    def _engine(self, first: Sequence[PlannedSentence], second: Sequence[PlannedSentence]) -> EngineUsed | None:
        return "llm" if self.unserved else _engine_of([*first, *second])

    def quality(self, sentence: PlannedSentence) -> float | None:
        """The quality of a translated sentence of `plan`. Through a pivot language it is the product of the qualities
        of both translations, as if they failed independently."""
        second = sentence.best.quality
        if self.pivot is None or second is None:
            return second
        first = self.pivot.origin(sentence)
        return None if first is None or first.best.quality is None else first.best.quality * second


def _suggestions(memory: MemoryLookup, repaired: Iterable[Translation], has_spans: bool) -> list[Suggestion]:
    used = {id(one.sentence.similar.match) for one in repaired if one.sentence.similar}
    return [
        each._replace(span=each.span if has_spans else None, is_repaired=id(each.match) in used)
        for each in memory.suggestions
    ]


def _engine_of(sentences: Iterable[PlannedSentence]) -> EngineUsed | None:
    """Which model made the translations; None if there are none."""
    found = {sentence.translation.origin == "large model" for sentence in sentences}
    return None if not found else "both" if len(found) > 1 else "llm" if found.pop() else "local"


def _warnings_of(plan: TextPlan) -> list[str]:
    """The warnings of a plan whose sentences are checked: about the text, then about each sentence."""
    warnings = list(dict.fromkeys(warning for _, warning in plan.warnings))
    done = [sentence.translation for sentence in plan.sentences]
    for translation in done:
        warnings += translation.warnings
    if missed := [word for translation in done for word in translation.untranslated_words]:
        warnings.append(untranslated_warning(missed))
    return warnings
