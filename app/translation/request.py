"""The stages of a translation request: plan its texts, decode their sentences, and render the translations."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import monotonic

from app.engine.engine import Decoder
from app.engine.registry import Catalogue
from app.engine.sequence import Decoded
from app.errors import InvalidFields, PairNotServed, ServiceError, TooMuchText
from app.markup.extract import markup_pieces
from app.markup.passage import Passage, Piece
from app.settings import Settings
from app.text.glossary import Glossaries, Glossary
from app.text.icu_messages import has_branches, message_pieces
from app.text.language_id import Detected, Detector
from app.text.mnemonics import remove_mnemonic
from app.translation.alignment import word_pairs
from app.translation.language_checks import LanguageChecks, is_suspect
from app.translation.pivot import FirstLeg
from app.translation.quality_checks import check_translation, untranslated_warning
from app.translation.sentence import Sentence
from app.translation.source_language import SourceLanguages
from app.translation.terminology import missing_terms, sequence_with_terms
from app.translation.text_plan import BudgetExceeded, Label, TextPlan, mean_score, plan_copy, plan_text
from app.translation.types import AUTO, Item, Options, TranslatedPart, TranslatedText, Translations
from model.bundle import Bundle
from model.hypothesis import FinishReason
from model.languages import is_traditional, language_name

MAX_INLINE_CHARS = 2_000
"""A request up to this size is prepared on the event loop, in about a millisecond. A larger one would delay others, and
is prepared in a thread; switching to it costs as much as a short sentence."""
UNDETERMINED = "und"
"""The language of a text without words (BCP 47)."""
MIN_BEAM_SIZE = 4
"""Minimum beam size for alternatives: a smaller beam misses good ones."""


@dataclass(frozen=True)
class Services:
    """The services that a request needs."""

    catalogue: Catalogue
    engine: Decoder
    settings: Settings
    glossaries: Glossaries
    detector: Detector
    checks: LanguageChecks


class TranslationRequest:
    """A translation request.

    Call `prepare`, then `decode`, then `finish`, or iterate over `parts` meanwhile, then `answer`. Call `cancel` at the
    end, or to abandon it earlier.

    `prepare` translates texts that need a pivot language into it; then their plans are those of the second translation.
    """

    def __init__(self, services: Services, items: Sequence[Item], options: Options, deadline: float) -> None:
        source, target = services.catalogue.codes(options.source, options.target)
        self.wanted = options.target
        if (source, target) != (options.source, options.target):
            options = options._replace(source=source, target=target)
        self.services, self.items, self.options, self.deadline = services, items, options, deadline
        self.plans: list[TextPlan | ServiceError] = []
        self.sources: list[Detected] = []
        self.sentences: list[Sentence] = []
        self._first_legs: dict[int, FirstLeg] = {}
        """By the number of the item, the translations into a pivot language."""
        self._glossaries: dict[str, Glossary] = {}
        """The request's glossary, by source language."""
        self._futures: dict[Sentence, Future[Decoded]] = {}
        """The results of sentences that are being decoded, or are not checked yet."""
        terms = 0 if isinstance(options.glossary, str | Glossary | None) else len(options.glossary)
        self._is_short = sum(map(_item_length, items)) + 40 * terms <= MAX_INLINE_CHARS

    @cached_property
    def _bundles(self) -> list[Bundle]:
        """Those that translate into the target language."""
        return [bundle for bundle in self.services.catalogue if bundle.target == self.options.target]

    @cached_property
    def _languages(self) -> SourceLanguages:
        return SourceLanguages(
            self.services.catalogue.sources(self.options.target), self.services.detector, self.options.target
        )

    async def prepare(self) -> None:
        """Plans all items: splits them into sentences."""
        if self.options.source != AUTO or not self._bundles:
            self.services.catalogue.route(self.options.source, self.options.target)
        is_quick = self._is_short and (self.options.source != AUTO or self.services.detector.ready)
        self.plans = self._plans() if is_quick else await asyncio.to_thread(self._plans)
        if self._first_legs:
            sentences = [sentence for leg in self._first_legs.values() for sentence in leg.plan.sentences]
            await self.decode(sentences)
            await self.finish(sentences)
            if self._is_short:
                self._plan_second_legs()
            else:
                await asyncio.to_thread(self._plan_second_legs)
        plans = (plan for plan in self.plans if isinstance(plan, TextPlan))
        self.sentences = [sentence for plan in plans for sentence in plan.sentences]

    async def decode(self, sentences: Sequence[Sentence]) -> None:
        """Submits the sentences to the engine."""
        sequences = [sentence.sequence for sentence in sentences]
        futures = await self.services.engine.decode(sequences, self.deadline)
        self._futures.update(zip(sentences, futures, strict=True))

    async def finish(self, sentences: Sequence[Sentence]) -> None:
        """Waits until all submitted `sentences` are checked or have an error.

        Those that lack terms are decoded again, together, until none does.
        """
        while sentences:
            again: list[Sentence] = []
            for number, sentence in enumerate(sentences):
                future = self._futures.get(sentence)
                if future is None:
                    continue
                if number and future.done():
                    await asyncio.sleep(0)  # lets other requests run between two sentences
                if await self._finish_one(sentence, future):
                    again.append(sentence)
            if again:
                await self.decode(again)
            sentences = again

    async def _finish_one(self, sentence: Sentence, future: Future[Decoded]) -> bool:
        """Waits for the sentence and checks it. Returns whether it must be decoded again."""
        try:
            decoded = await future
        except ServiceError as error:
            sentence.error = error.with_traceback(None)  # the traceback would keep its frames alive
            return False
        finally:
            self._futures.pop(sentence, None)
        sentence.set_decoded(decoded)
        if _prepare_retry(sentence):
            return True
        check_translation(sentence)
        sentence.render(sentence.best)  # cached
        return False

    def cancel(self) -> None:
        """Cancels the decoding of sentences that are not finished."""
        for future in self._futures.values():
            future.cancel()

    async def answer(self) -> Translations:
        """The translations, made in a thread if that may take long. Raises the first item's error if all have one."""
        # The alignment of a short sentence takes 0.3 ms, two hundred times as long as its rendering.
        more = self.options.alternatives or self.options.alignment
        # Loading the libraries for language detection takes most of a second.
        loads = not self.services.checks.ready and any(map(_has_suspects, self._all_plans()))
        return self._answer() if self._is_short and not (more or loads) else await asyncio.to_thread(self._answer)

    async def parts(self) -> AsyncGenerator[TranslatedPart, None]:
        """Yields the parts of each item in order, as soon as they are decoded, up to the first that failed."""
        for number, plan in enumerate(self.plans):
            if isinstance(plan, ServiceError):
                continue
            nested = [part for parts in plan.nested.values() for part in parts if isinstance(part, Sentence)]
            await self.finish_in_time(nested)
            if any(inner.error for inner in nested):
                continue
            if plan.label:  # the mark may be in any sentence
                await self.finish_in_time(plan.sentences)
                if not any(sentence.error for sentence in plan.sentences):
                    yield TranslatedPart(number, plan.render(), None, self._score(number, plan))
                continue
            text, start = "", 0
            for part in plan.parts:
                if isinstance(part, str):
                    text += part
                    continue
                await self.finish_in_time([part])
                if part.error:
                    break
                text += part.render(part.best)
                end = part.start + len(part.passage.text)
                span, score = self._origin(number, part, (start, end))
                if not self._is_plain(self.items[number]):
                    span = None
                yield TranslatedPart(number, plan.resolve_nested(text), span, score)
                await asyncio.sleep(0)  # lets other requests run, even if all parts are decoded
                text, start = "", end
            else:
                if text:
                    yield TranslatedPart(number, plan.resolve_nested(text), None, None)

    async def finish_in_time(self, sentences: Sequence[Sentence]) -> None:
        """Like `finish`; raises TimeoutError if the deadline passes first."""
        async with asyncio.timeout(self.deadline - monotonic()):
            await self.finish(sentences)

    def _origin(self, number: int, sentence: Sentence, span: tuple[int, int]) -> tuple[tuple[int, int] | None, float]:
        """The characters of the item that a sentence of its plan translates, and the score. `span`: in the plan's
        text."""
        leg = self._first_legs.get(number)
        if leg is None:
            return span, sentence.best.decoded.score
        first = leg.sentences_at(*span)
        score = mean_score([sentence.best, *(one.best for one in first)])
        return (first[0].start, first[-1].start + len(first[-1].passage.text)) if first else None, score

    def _score(self, number: int, plan: TextPlan) -> float:
        """The mean log probability of an item's tokens: in the pivot language, if it has one, and in the target."""
        first = self._first_legs[number].candidates if number in self._first_legs else []
        return mean_score([*first, *(sentence.best for sentence in plan.sentences)])

    def _is_plain(self, item: Item) -> bool:
        """Whether its sentences are slices of it."""
        return isinstance(item, str) and not self.options.html and not has_branches(item)

    def _all_plans(self) -> list[TextPlan | ServiceError]:
        return [*(leg.plan for leg in self._first_legs.values()), *self.plans]

    def _answer(self) -> Translations:
        items = [
            self._translated_text(number, plan, detected)
            for number, (plan, detected) in enumerate(zip(self.plans, self.sources, strict=True))
        ]
        errors = [item.error for item in items if item.error]
        if errors and len(errors) == len(items):
            raise errors[0]
        used = dict.fromkeys(filter(None, map(self._model_used, range(len(self.plans))))) or [self._default_model()]
        first = [sentence for leg in self._first_legs.values() for sentence in leg.plan.sentences]
        decoded = [sentence for sentence in (*first, *self.sentences) if sentence.candidates and not sentence.error]
        source_tokens = sum([len(sentence.sequence.source) + 1 for sentence in decoded])
        target_tokens = sum([len(sentence.best.decoded.tokens) for sentence in decoded])
        return Translations(items, ", ".join(used), source_tokens, target_tokens)

    def _model_used(self, number: int) -> str | None:
        """The name of the bundle that translated an item, or of the two; None if it had no sentences."""
        if leg := self._first_legs.get(number):
            return leg.model if leg.plan.sentences else None
        plan = self.plans[number]
        return plan.sentences[0].bundle.name if isinstance(plan, TextPlan) and plan.sentences else None

    def _default_model(self) -> str:
        """The model to name if there was nothing to translate."""
        if self.options.source == AUTO:
            return self._bundles[0].name
        return " + ".join(one.name for one in self.services.catalogue.route(self.options.source, self.options.target))

    # ---- An item

    def _plans(self) -> list[TextPlan | ServiceError]:
        room = self.services.settings.queue_tokens
        plans: list[TextPlan | ServiceError] = []
        for number, item in enumerate(self.items):
            try:
                plan: TextPlan | ServiceError = self._plan(number, item, room)
            except BudgetExceeded:
                raise self._too_many_tokens() from None
            except (PairNotServed, TooMuchText) as error:
                plan = error
            plans.append(plan)
            if len(self.sources) < len(plans):
                self.sources.append(Detected(self.options.source, 1.0))
            room -= plan.cost if isinstance(plan, TextPlan) else 0
        return plans

    def _plan_second_legs(self) -> None:
        """Replaces the plans of items that are now in their pivot language. Raises TooMuchText."""
        room = self.services.settings.queue_tokens
        for number, leg in self._first_legs.items():
            if error := next((sentence.error for sentence in leg.plan.sentences if sentence.error), None):
                self.plans[number] = error
                continue
            try:
                plan = plan_text(leg.second_bundle, leg.pieces(), None, self._beam_size, room)
            except BudgetExceeded:
                raise self._too_many_tokens() from None
            plan.label = leg.label
            self.plans[number] = plan
            room -= plan.cost

    def _too_many_tokens(self) -> TooMuchText:
        tokens = self.services.settings.queue_tokens
        return TooMuchText(f"The text is over {tokens} tokens, the capacity of the queue.")

    @property
    def _beam_size(self) -> int:
        alternatives = self.options.alternatives
        return max(MIN_BEAM_SIZE, alternatives + 1) if alternatives else 1

    def _plan(self, number: int, item: Item, room: int) -> TextPlan:
        """The plan of an item, into the target or a pivot language. Raises PairNotServed, TooMuchText and
        BudgetExceeded."""
        options = self.options
        check_length(_item_length(item), self.services.settings)
        label = _label(item, options)
        pieces = [Passage(label.shown)] if label else _pieces(item, options)
        source, warnings = options.source, list[str]()
        if source == AUTO:
            detected, doubts, error = self._languages.choose(_text_of(pieces))
            self.sources.append(Detected(detected.language or UNDETERMINED, detected.confidence))
            if error:
                raise error
            if detected.language is None:
                return plan_copy(_pieces(item, options))
            source = detected.language
            warnings += doubts
            if source == options.target:
                certain = f"In {language_name(source)} already, and left as it was."
                warnings.append("It was left as it was." if doubts else certain)
                return replace(plan_copy(_pieces(item, options)), warnings=[(0, warning) for warning in warnings])
        route = self.services.catalogue.route(source, options.target)
        target = route[-1].target
        if is_traditional(self.wanted) and not is_traditional(target):
            warnings.append(f"There is no bundle for {self.wanted}: the translation may be in simplified characters.")
        glossary = self._glossary(route[0].source, target)
        if len(route) > 1:
            leg = self._first_legs[number] = FirstLeg(route, pieces, glossary, room, label)
            plan = leg.plan
        else:
            plan = plan_text(route[0], pieces, glossary, self._beam_size, room)
            plan.label = label
        plan.warnings[:0] = [(0, warning) for warning in warnings]
        return plan

    def _glossary(self, source: str, target: str) -> Glossary | None:
        """The request's glossary, for this pair. Raises InvalidFields."""
        wanted = self.options.glossary
        if wanted is None or isinstance(wanted, Glossary):
            return wanted
        if source not in self._glossaries:
            self._glossaries[source] = self._find_glossary(wanted, source, target)
        return self._glossaries[source]

    def _find_glossary(self, wanted: str | Mapping[str, str], source: str, target: str) -> Glossary:
        glossaries = self.services.glossaries
        try:
            if not isinstance(wanted, str):
                return Glossary(wanted, source)
            if found := glossaries.find(wanted, source, target):
                return found
            known = ", ".join(glossaries.names) or "none"
            raise ValueError(f"There is no glossary {wanted!r} for {source}-{target}. There are: {known}.")
        except ValueError as error:
            raise InvalidFields.at("#/glossary", str(error)) from None

    def _translated_text(self, number: int, plan: TextPlan | ServiceError, detected: Detected) -> TranslatedText:
        source, confidence = detected.language or "", detected.confidence if self.options.source == AUTO else None
        if isinstance(plan, ServiceError):
            return TranslatedText(None, None, None, error=plan, source=source, confidence=confidence)
        sentences = plan.sentences
        if error := next((sentence.error for sentence in sentences if sentence.error), None):
            return TranslatedText(None, None, None, error=error, source=source, confidence=confidence)
        leg = self._first_legs.get(number)
        first = leg.candidates if leg else []
        is_given = self.options.source != AUTO
        if leg:
            self.services.checks.add_warnings(leg.plan, is_given)
        self.services.checks.add_warnings(plan, is_given=is_given and not leg)
        warnings = _warnings_of(plan)
        if leg:
            warnings = list(dict.fromkeys([*_warnings_of(leg.plan), *warnings]))
        best = [*first, *(sentence.best for sentence in sentences)]
        stopped = all(candidate.decoded.finish_reason == "stop" for candidate in best)
        reason: FinishReason = "stop" if stopped else "length"
        text = plan.render()
        pairs = (leg.align(plan) if leg else word_pairs(plan)) if self.options.alignment else None
        others = plan.alternatives(self.options.alternatives, first) if self.options.alternatives else ()
        return TranslatedText(
            text, mean_score(best), reason, warnings, None, source, confidence, plan, others, pairs, leg
        )


def _warnings_of(plan: TextPlan) -> list[str]:
    """The warnings of a plan whose sentences are checked: about the text, then about each sentence."""
    warnings = list(dict.fromkeys(warning for _, warning in plan.warnings))
    for sentence in plan.sentences:
        warnings += sentence.warnings
    if missed := [word for sentence in plan.sentences for word in sentence.untranslated_words]:
        warnings.append(untranslated_warning(missed))
    return warnings


def _has_suspects(plan: TextPlan | ServiceError) -> bool:
    return isinstance(plan, TextPlan) and plan.bundle is not None and any(map(is_suspect, plan.paragraphs()))


def _prepare_retry(sentence: Sentence) -> bool:
    """Prepares a sentence without all its terms to be decoded again; returns whether it lacks any."""
    terms = missing_terms(sentence, sentence.best)
    if not terms or set(sentence.terms) <= set(sentence.passage.protected):
        return False
    again = None if sentence.sequence.prefix else sequence_with_terms(sentence, terms)
    if again:
        sentence.sequence = again
    else:
        sentence.protect_terms()  # all, since the new translation may lack terms that this one has
    return True


def check_length(characters: int, settings: Settings) -> None:
    """Raises TooMuchText if a text of that length is over the limit."""
    limit = settings.max_text_chars
    if characters > limit:
        raise TooMuchText(f"The text has {characters} characters, over the limit of {limit}.")


def _label(item: Item, options: Options) -> Label | None:
    """`item` as a label, if it is plain text with a mnemonic. If words are aligned, offsets must stay unchanged."""
    if not isinstance(item, str) or options.html or options.alignment:
        return None
    found = remove_mnemonic(item)
    return Label(item, *found) if found else None


def _pieces(item: Item, options: Options) -> Sequence[Piece]:
    if not isinstance(item, str):
        return item
    if options.html:
        return markup_pieces(item)
    # A message whose words move into its branches cannot be aligned.
    return (None if options.alignment else message_pieces(item)) or [Passage(item)]


def _text_of(pieces: Sequence[Piece]) -> str:
    return " ".join(piece.words for piece in pieces if isinstance(piece, Passage))


def _item_length(item: Item) -> int:
    """Number of characters."""
    return len(item) if isinstance(item, str) else sum(len(p) if isinstance(p, str) else p.size for p in item)
