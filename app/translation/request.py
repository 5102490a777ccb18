"""The stages of a translation request: plan its texts, decode their sentences, and render the translations."""

from __future__ import annotations

import asyncio
from asyncio import Event, Future, Task
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from time import monotonic

from app.engine.sequence import Decoded
from app.engine.sequence import Sequence as EngineSequence
from app.errors import ServiceError
from app.llm.client import check_wish
from app.text.glossary import Glossary
from app.translation import formality, kept_marks
from app.translation.llm_questions import LargeModelQuestions
from app.translation.memory import RememberedText
from app.translation.planned_item import PlannedItem
from app.translation.planner import Planner, Services, item_length
from app.translation.quality_checks import check_translation
from app.translation.repair import repair
from app.translation.sentence import Candidate, Sentence
from app.translation.terminology import missing_terms, sequence_with_terms
from app.translation.text_plan import TextPlan
from app.translation.types import AUTO, Item, Options, TranslatedPart, Translations
from app.translation.word_quality import sentence_words

MAX_INLINE_CHARS = 2_000
"""A request up to this size is prepared on the event loop, in about a millisecond. A larger one would delay others, and
is prepared in a thread; switching to it costs as much as a short sentence."""
MAX_CONCURRENT_REPAIRS = 8
"""Of one request, since each scores up to 16 translations, and a long text must not fill the queue."""
MAX_CHECKED_AHEAD = 64
"""Sentences of a stream that are checked before their turn, so that the large model is asked about all of them."""
MAX_DECODED_TOGETHER = 64
"""Sentences that are submitted again at once: a millisecond."""
MAX_READ_TOGETHER = 16
"""Sentences in a pivot language that are read at once: a few milliseconds."""


class TranslationRequest:
    """A translation request.

    Call `prepare`, then `start`, then `finish_all`, or iterate over `parts` before, then `answer`. Call `cancel` at the
    end, or to abandon it earlier.

    Of texts that need a pivot language, each sentence is translated on as soon as it, and all before it, are in that
    language.
    """

    def __init__(self, services: Services, items: Sequence[Item], options: Options, deadline: float) -> None:
        self._services, self._texts, self.deadline = services, items, deadline
        self._planner = Planner(services, options)
        self._options = self._planner.options
        self._items: list[PlannedItem] = []
        self._second_legs: Task[None] | None = None
        """Translates sentences on from the pivot language."""
        self._second_cost = 0
        """The cost of second translations that are complete."""
        self._grown = Event()
        """Set when the plan of an item has grown, or no plan will grow any more."""
        self._repairs: dict[Sentence, Task[Candidate | None]] = {}
        """Repairs of similar translations from the memory, under way."""
        self._repair_slots = asyncio.Semaphore(MAX_CONCURRENT_REPAIRS)
        self._is_accepted = False
        """Whether the engine has accepted sentences of it."""
        self._futures: dict[Sentence, Future[Decoded]] = {}
        """The results of sentences that are being decoded, or are not checked yet."""
        self._llm: LargeModelQuestions | None = None
        if services.large_model and (self._options.engine or services.settings.engine) != "local":
            self._llm = LargeModelQuestions(services, services.large_model, self._options, deadline, self._decode_all)
        terms = 0 if isinstance(options.glossary, str | Glossary | None) else len(options.glossary)
        self._is_short = sum(map(item_length, items)) + 40 * terms <= MAX_INLINE_CHARS

    async def prepare(self) -> None:
        """Plans all items: splits them into sentences."""
        self._planner.check_pair()
        check_wish(self._services.large_model, self._options.engine, self._options.source, self._options.target)
        memory = self._options.memory
        uses_memory = memory is not None and bool(memory.snapshots)  # what a look-up costs, the memory's pairs decide
        is_quick = (
            self._is_short and not uses_memory and (self._options.source != AUTO or self._services.detector.ready)
        )
        plan = self._planner.plan
        if is_quick:
            self._items = plan(self._texts)
        elif memory and memory.turns and uses_memory:
            turn = memory.turns.short if self._is_short else memory.turns.long
            self._items = await turn.run(plan, self._texts)
        else:
            self._items = await asyncio.to_thread(plan, self._texts)

    async def start(self) -> None:
        """Submits the first sentences of all items to the engine."""
        plans = [item.first_plan for item in self._items]
        await self.decode([sentence for plan in plans if isinstance(plan, TextPlan) for sentence in plan.sentences])
        for item in self._items:
            if self._llm:
                self._llm.translate_alone(item)
        if any(item.first_leg for item in self._items):
            self._second_legs = asyncio.create_task(self._translate_second_legs())

    async def finish_all(self) -> None:
        """Waits until all sentences of all items are checked or have an error."""
        if self._second_legs:
            await self._second_legs
        if self._llm:
            await self._llm.finish_alone()
        await self.finish([sentence for item in self._items for sentence in item.sentences])

    async def _translate_second_legs(self) -> None:
        """Submits the second translations of all sentences, in order, as soon as they are in the pivot language."""
        growing = deque(item for item in self._items if item.grows)
        waiting = [sentence for item in growing for sentence in item.pivot_sentences]
        at = 0
        try:
            while growing:
                end = at + 1
                while end < min(at + MAX_READ_TOGETHER, len(waiting)) and self._is_decoded(waiting[end]):
                    end += 1
                await self.finish(waiting[at:end])
                at = end
                await self._advance(growing)
            await self.finish(waiting[at:])  # those of items that failed
        finally:
            self._grown.set()

    async def _advance(self, growing: deque[PlannedItem]) -> None:
        """Plans and submits what can be translated on, and removes items that are complete from `growing`."""
        advanced, added = list[PlannedItem](), list[Sentence]()
        for item in growing:
            while leg := item.first_leg:
                if leg.reads_much:
                    added += await asyncio.to_thread(self._planner.plan_second_leg, item, self._second_cost)
                else:
                    added += self._planner.plan_second_leg(item, self._second_cost)
                    await asyncio.sleep(0)  # lets other requests run
                if not leg.can_advance:
                    break
            advanced.append(item)
            if leg and not leg.is_read:
                break
            self._second_cost += leg.second.cost if leg else 0
        if added:
            await self.decode(added)
        for item in advanced:
            if item.first_leg:
                item.submitted, item.grows = len(item.first_leg.second.parts), not item.first_leg.is_read
            if not item.grows:
                growing.popleft()
        self._grown.set()

    def _is_decoded(self, sentence: Sentence) -> bool:
        future = self._futures.get(sentence)
        return future is None or future.done()

    async def decode(self, sentences: Sequence[Sentence]) -> None:
        """Submits the sentences to the engine."""
        if self._llm:
            self._llm.add(sentences)
        sequences = [sentence.sequence for sentence in sentences]
        client, engine = self._options.client, self._services.engine
        futures = await engine.decode(sequences, self.deadline, client, continues=self._is_accepted)
        self._is_accepted = self._is_accepted or not all(future.done() for future in futures)
        self._futures.update(zip(sentences, futures, strict=True))
        for sentence, future in zip(sentences, futures, strict=True):
            if sentence.similar and not sentence.candidates:
                self._repairs[sentence] = asyncio.create_task(self._repair(sentence, future))

    async def _repair(self, sentence: Sentence, future: Future[Decoded]) -> Candidate | None:
        """The repaired translation of the pair that is similar to the sentence, if it is good enough."""
        await asyncio.wait([future])
        if future.cancelled() or future.exception() or sentence.similar is None:
            return None
        async with self._repair_slots:
            return await repair(sentence, future.result(), sentence.similar, self._decode_all)

    async def _decode_all(self, sequences: Sequence[EngineSequence]) -> list[Decoded]:
        futures = await self._services.engine.decode(
            list(sequences), self.deadline, self._options.client, continues=self._is_accepted
        )
        try:
            return [await future for future in futures]
        finally:
            for future in futures:
                future.cancel()

    async def finish(self, sentences: Sequence[Sentence]) -> None:
        """Waits until all submitted `sentences` are checked or have an error.

        Those that lack terms, numbers, marks or names are decoded again, until none does.
        """
        await self._finish_own(sentences)
        if self._llm:
            for sentence in sentences:
                if await self._llm.finish(sentence):
                    self._check_quality(sentence)

    async def _finish_own(self, sentences: Sequence[Sentence]) -> None:
        """Finishes the translations of the bundles' own models, and asks the large model for some others."""
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
            for start in range(0, len(again), MAX_DECODED_TOGETHER):
                await self.decode(again[start : start + MAX_DECODED_TOGETHER])
                await asyncio.sleep(0)
            sentences = again

    async def _finish_one(self, sentence: Sentence, future: Future[Decoded]) -> bool:
        """Waits for the sentence and checks it. Returns whether it must be decoded again."""
        repairing = self._repairs.pop(sentence, None)
        try:
            decoded = await future
            repaired = await repairing if repairing else None
        except ServiceError as error:
            sentence.error = error.with_traceback(None)  # the traceback would keep its frames alive
            return False
        finally:
            self._futures.pop(sentence, None)
        sentence.set_decoded(decoded)
        if self._options.formality:
            formality.prefer(self._options.formality, sentence)
        if repaired:
            sentence.set_repaired(repaired)
        is_long = max(len(sentence.passage.text), 20 * len(sentence.passage.tags)) > MAX_INLINE_CHARS
        if await asyncio.to_thread(_check, sentence) if is_long else _check(sentence):
            return True
        sentence.estimate_quality()
        if sentence.quality is not None:
            self._services.observe_quality(sentence.bundle.spec.name, sentence.quality)
        if not (self._llm and self._llm.ask(sentence)):
            self._check_quality(sentence)
        return False

    def _check_quality(self, sentence: Sentence) -> None:
        """Where the quality of a checked translation is too low, adds a warning, or leaves the sentence
        untranslated."""
        quality, settings = sentence.quality, self._services.settings
        if quality is None or settings.min_quality is None or quality >= settings.min_quality:
            return
        # On its way through another language a sentence cannot be left in its own.
        if settings.low_quality == "source" and not self._second_legs:
            sentence.leave_untranslated()
            sentence.warnings.append(f"Left as it was: its translation has a quality of {quality:.2f}.")
        else:
            sentence.warnings.append(f"Check this sentence: its translation has a quality of {quality:.2f}.")

    def cancel(self) -> None:
        """Cancels the decoding of sentences that are not finished."""
        self._planner.is_abandoned = True
        if self._second_legs and self._second_legs.done():
            self._second_legs.cancelled() or self._second_legs.exception()  # which nobody may have awaited
        elif self._second_legs:
            self._second_legs.cancel()
        for future in self._futures.values():
            future.cancel()
        if self._llm:
            self._llm.cancel()
        for repairing in self._repairs.values():
            if not repairing.cancel() and not repairing.cancelled():
                repairing.exception()  # which nobody has awaited

    async def answer(self) -> Translations:
        """The translations, made in a thread if that may take long. Raises the first item's error if all have one."""
        # The alignment of a short sentence takes 0.3 ms, two hundred times as long as its rendering.
        more = self._options.alternatives or self._options.alignment
        # Loading the libraries for language detection takes most of a second.
        loads = not self._services.checks.ready and any(item.may_be_in_other_language() for item in self._items)
        return self._answer() if self._is_short and not (more or loads) else await asyncio.to_thread(self._answer)

    async def parts(self) -> AsyncGenerator[TranslatedPart, None]:
        """Yields the parts of each item in order, as soon as they are decoded, up to the first that failed."""
        for number, item in enumerate(self._items):
            plan = item.plan
            if isinstance(plan, ServiceError):
                continue
            while item.grows and not item.submitted:
                await self._wait_for_growth()
            nested = [part for parts in plan.nested.values() for part in parts if isinstance(part, Sentence)]
            await self.finish_in_time(nested)
            if any(inner.error for inner in nested):
                continue
            if plan.label or item.unserved:  # the mark may be in any sentence
                if self._llm:
                    async with asyncio.timeout(self.deadline - monotonic()):
                        await self._llm.finish_alone()
                while item.grows:
                    await self._wait_for_growth()
                await self.finish_in_time(item.sentences)
                if not item.error:
                    score, quality, engine = item.score, item.lowest_quality, item.engine
                    yield TranslatedPart(number, plan.render(), None, score, quality, engine=engine)
                continue
            text, place, start = "", 0, 0
            while True:
                while item.grows and place == item.submitted:
                    await self._wait_for_growth()
                if place == len(plan.parts) or isinstance(item.plan, ServiceError):
                    break
                part = plan.parts[place]
                place += 1
                if isinstance(part, str):
                    text += part
                    if isinstance(part, RememberedText) and part.end is not None:
                        span = (start, part.end) if item.has_spans(self._options) else None
                        yield TranslatedPart(number, plan.resolve_nested(text), span, None)
                        text, start = "", part.end
                    continue
                ahead = plan.parts[place : place + MAX_CHECKED_AHEAD] if self._llm else ()
                await self.finish_in_time([part], [p for p in ahead if isinstance(p, Sentence) and self._is_decoded(p)])
                if part.error:
                    break
                words = [word.moved(len(text)) for word in sentence_words(part)]
                text += part.render(part.best)
                origin, score = item.origin(part, start)
                span = origin if item.has_spans(self._options) else None
                yield TranslatedPart(
                    number, plan.resolve_nested(text), span, score, item.quality(part), words, item.engine_of(part)
                )
                await asyncio.sleep(0)  # lets other requests run, even if all parts are decoded
                text, start = "", part.end
            if text and not item.error:
                yield TranslatedPart(number, plan.resolve_nested(text), None, None)

    async def _wait_for_growth(self) -> None:
        """Waits until a plan has grown. Raises TimeoutError if the deadline passes first, and the error that ended the
        second translations."""
        assert self._second_legs is not None
        if self._second_legs.done():
            self._second_legs.result()
        self._grown.clear()
        async with asyncio.timeout(self.deadline - monotonic()):
            await self._grown.wait()

    async def finish_in_time(self, sentences: Sequence[Sentence], ahead: Sequence[Sentence] = ()) -> None:
        """Like `finish`; raises TimeoutError if the deadline passes first.

        `ahead`: decoded sentences about which the large model may be asked already.
        """
        async with asyncio.timeout(self.deadline - monotonic()):
            await self._finish_own(ahead)
            await self.finish(sentences)

    def _answer(self) -> Translations:
        items = [item.render(self._options, self._services.checks) for item in self._items]
        errors = [item.error for item in items if item.error]
        if errors and len(errors) == len(items):
            raise errors[0]
        used = dict.fromkeys(filter(None, (item.model for item in self._items)))
        used = used or dict.fromkeys([self._planner.default_model()])
        sentences = [sentence for item in self._items for sentence in (*item.pivot_sentences, *item.sentences)]
        llm_sentences = sum([sentence.is_by_large_model for sentence in sentences])
        if self._llm:
            llm_sentences += len(self._llm.alone)
            used |= {self._llm.name: None} if llm_sentences else {}
        decoded = [sentence for sentence in sentences if sentence.candidates and not sentence.error]
        source_tokens = sum([sentence.source_tokens for sentence in decoded])
        target_tokens = sum([len(sentence.best.decoded.tokens) for sentence in decoded])
        return Translations(items, ", ".join(used), source_tokens, target_tokens, llm_sentences)


def _check(sentence: Sentence) -> bool:
    """Checks and renders the sentence, unless it must be decoded again; returns whether it must."""
    if _prepare_retry(sentence):
        return True
    check_translation(sentence)
    sentence.render(sentence.best)  # cached
    return False


def _prepare_retry(sentence: Sentence) -> bool:
    """Prepares a sentence without all its terms to be decoded again; returns whether it lacks any."""
    terms = missing_terms(sentence, sentence.best)
    if not (terms and sentence.protectable_terms()):
        return kept_marks.prepare_retry(sentence)
    again = None if sentence.sequence.prefix else sequence_with_terms(sentence, terms)
    if again:
        sentence.sequence = again
    else:
        sentence.protect_terms()  # all, since the new translation may lack terms that this one has
    return True
