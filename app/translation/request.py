"""A translation request: plan its texts, have their sentences decoded, decide what becomes of each, and render them."""

from __future__ import annotations

import asyncio
from asyncio import Future, Queue, Task, TaskGroup
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import chain

from app.engine import sequence as engine
from app.engine.sequence import Decoded
from app.errors import ServiceError
from app.llm.client import check_wish
from app.runtime import event_loop
from app.text.glossary import Glossary
from app.translation import policies
from app.translation.llm_questions import LargeModelQuestions
from app.translation.memory import RememberedText
from app.translation.planned_item import PlannedItem
from app.translation.planned_sentence import Part, PlannedSentence, Translation, sentences_of
from app.translation.planner import Planner, Services, item_length
from app.translation.repair import repair
from app.translation.sentence import Sentence
from app.translation.text_plan import TextPlan
from app.translation.types import AUTO, Item, Options, TranslatedPart, Translations
from app.translation.word_quality import sentence_words

NO_RULES = policies.Rules()
MAX_CONCURRENT_REPAIRS = 8
"""Of one request, since each scores up to 16 translations, and a long text must not fill the queue."""
MAX_STARTED_AHEAD = 64
"""Sentences of a stream that are begun before their turn, so that the large model is asked about all of them."""
SENTENCE_SIZE = event_loop.MAX_SIZE // 2
"""The size of a sentence's checks and its rendering: a millisecond at most."""
MAX_READ_TOGETHER = 16
"""Sentences in a pivot language that are read at once: a few milliseconds."""


class TranslationRequest:
    """A translation request; `run` is its way from texts to translations.

    A plain sentence is the bare future of its decoding. What needs more, a retry, a repair or a large model, is a task
    of the request's group, and so are the translations from a pivot language.

    `on_part` gets the parts of each item's translation, in order, as soon as they are known.
    """

    def __init__(
        self,
        services: Services,
        items: Sequence[Item],
        options: Options,
        deadline: float,
        on_part: Callable[[TranslatedPart], None] | None = None,
    ) -> None:
        self._services, self._texts, self._deadline, self._on_part = services, items, deadline, on_part
        self._planner = Planner(services, options)
        self._options = self._planner.options
        self._items: list[PlannedItem] = []
        self._rules = NO_RULES
        self._tasks = TaskGroup()
        self._futures: dict[PlannedSentence, Future[Decoded]] = {}
        """The results of sentences that are being decoded, or that no policy has seen yet."""
        self._further: dict[PlannedSentence, Task[None]] = {}
        """The sentences that need more than one decoding."""
        self._from_pivot: Task[None] | None = None
        """The translations from the pivot language."""
        self._grown: dict[PlannedItem, Queue[Part | None]] = {}
        """For items with a pivot language: the parts of the plan from it, as they are submitted, and at last None."""
        self._unserved: dict[PlannedItem, Task[None]] = {}
        """For items that no bundle serves: their translation by the large model."""
        self._repair_slots = asyncio.Semaphore(MAX_CONCURRENT_REPAIRS)
        self._is_accepted = False
        """Whether the engine has accepted sentences of it."""
        self._llm: LargeModelQuestions | None = None
        if services.large_model and (self._options.engine or services.settings.engine) != "local":
            self._llm = LargeModelQuestions(services, services.large_model, self._options, deadline, self._decode_all)
        terms = 0 if isinstance(options.glossary, str | Glossary | None) else len(options.glossary)
        self._size = sum(map(item_length, items)) + event_loop.TERM_SIZE * terms

    async def run(self) -> Translations:
        """Translates. Call once. Raises what `Translator.translate` raises, but for DeadlinePassed."""
        try:
            self._items = await self._plan()
            self._rules = self._rules_of_request()
            async with self._tasks:
                await self._submit([sentence for item in self._items for sentence in _first_sentences(item)])
                self._start_items()
                if self._on_part:
                    for number, item in enumerate(self._items):
                        await self._send_parts(number, item, self._on_part)
                await self._finish_all()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            self._planner.is_abandoned = True
            for future in self._futures.values():
                future.cancel()
        return await self._answer()

    # ---- Plan

    async def _plan(self) -> list[PlannedItem]:
        """Splits all items into sentences."""
        self._planner.check_pair()
        check_wish(self._services.large_model, self._options.engine, self._options.source, self._options.target)
        memory, plan = self._options.memory, self._planner.plan
        uses_memory = memory is not None and bool(memory.snapshots)  # what a look-up costs, the memory's pairs decide
        is_quick = not uses_memory and (self._options.source != AUTO or self._services.detector.ready)
        if is_quick and event_loop.fits(self._size):
            return plan(self._texts)
        if memory and memory.turns and uses_memory:
            turn = memory.turns.short if event_loop.fits(self._size) else memory.turns.long
            return await turn.run(plan, self._texts)
        return await asyncio.to_thread(plan, self._texts)

    def _rules_of_request(self) -> policies.Rules:
        settings = self._services.settings
        # On its way through another language a sentence cannot be left in its own.
        low_quality = "warn" if any(item.pivot for item in self._items) else settings.low_quality
        return policies.Rules(self._options.formality, settings.min_quality, low_quality)

    # ---- Decode

    async def _submit(self, sentences: Sequence[PlannedSentence]) -> None:
        """Hands the sentences to the engine."""
        if self._llm:
            self._llm.add(sentences)
        futures = await self._decode([planned.sentence.sequence for planned in sentences])
        self._futures.update(zip(sentences, futures, strict=True))
        for planned in sentences:
            if planned.sentence.similar:
                future = self._futures.pop(planned)
                self._further[planned] = self._tasks.create_task(self._repair(planned, future))

    async def _decode(self, sequences: Sequence[engine.Sequence]) -> list[Future[Decoded]]:
        client = self._options.client
        futures = await self._services.engine.decode(
            list(sequences), self._deadline, client, continues=self._is_accepted
        )
        self._is_accepted = self._is_accepted or not all(future.done() for future in futures)
        return futures

    async def _decode_all(self, sequences: Sequence[engine.Sequence]) -> list[Decoded]:
        futures = await self._decode(sequences)
        try:
            return [await future for future in futures]
        finally:
            for future in futures:
                future.cancel()

    # ---- What becomes of a sentence

    async def _start(self, planned: PlannedSentence) -> None:
        """Waits until a sentence is decoded. Most are translated then; what needs more goes on in a task."""
        future = self._futures.pop(planned, None)
        if future is None:  # it was started before
            return
        try:
            decision = await self._decide(Translation.of(planned.sentence, await future))
        except ServiceError as error:
            planned.fail(error)
            return
        if isinstance(decision, Translation) and not (self._llm and self._llm.is_for(decision)):
            planned.outcome = policies.accepted(decision, self._rules)
        else:
            self._further[planned] = self._tasks.create_task(self._translate_further(planned, decision))

    async def _repair(self, planned: PlannedSentence, future: Future[Decoded]) -> None:
        """Translates a sentence whose similar pair in the memory may be repaired for it."""
        sentence = planned.sentence
        assert sentence.similar is not None
        try:
            decoded = await future
            translation = Translation.of(sentence, decoded)
            async with self._repair_slots:
                repaired = await repair(sentence, decoded, sentence.similar, self._decode_all)
        except ServiceError as error:
            planned.fail(error)
            return
        translation = translation.replaced_by(repaired, "memory") if repaired else translation
        await self._translate_further(planned, await self._decide(translation))

    async def _translate_further(self, planned: PlannedSentence, decision: Translation | Sentence) -> None:
        """Has the sentence decoded until the policies accept its translation, and the large model asked about it."""
        while isinstance(decision, Sentence):
            [future] = await self._decode([decision.sequence])
            try:
                decoded = await future
            except ServiceError as error:
                planned.fail(error)
                return
            decision = await self._decide(Translation.of(decision, decoded))
        if self._llm and self._llm.is_for(decision):
            decision = await self._llm.improved(planned, decision)
        planned.outcome = policies.accepted(decision, self._rules)

    async def _decide(self, translation: Translation) -> Translation | Sentence:
        passage = translation.sentence.passage
        size = max(len(passage.text), event_loop.TAG_SIZE * len(passage.tags))
        decision = await event_loop.run(size, policies.decide, translation, self._rules)
        if isinstance(decision, Translation) and decision.quality is not None:
            self._services.observe_quality(decision.sentence.bundle.spec.name, decision.quality)
        return decision

    async def _start_all(self, sentences: Sequence[PlannedSentence]) -> None:
        """Starts sentences, one after another as they are decoded, and lets other requests run between them."""
        pauses = event_loop.Pauses()
        for planned in sentences:
            await self._start(planned)
            await pauses.after(SENTENCE_SIZE)

    async def _finish(self, sentences: Sequence[PlannedSentence]) -> None:
        """Waits until the sentences are translated or have an error."""
        await self._start_all(sentences)
        for planned in sentences:
            if task := self._further.pop(planned, None):
                await task

    def _is_decoded(self, planned: PlannedSentence) -> bool:
        future = self._futures.get(planned)
        return planned.outcome is not None or (future is not None and future.done())

    async def _finish_all(self) -> None:
        """Starts all sentences that are left. The group waits for those that need more."""
        if self._from_pivot:
            await self._from_pivot
        await self._start_all([each for item in self._items for each in (*item.pivot_sentences, *item.sentences)])

    # ---- Through a pivot language, and by the large model alone

    def _start_items(self) -> None:
        """Starts the tasks of items whose sentences are not all with the engine."""
        for item in self._items:
            if item.unserved and self._llm:
                self._unserved[item] = self._tasks.create_task(self._llm.translate_unserved(item))
            if item.pivot:
                self._grown[item] = Queue()
        if self._grown:
            self._from_pivot = self._tasks.create_task(self._translate_from_pivot())

    async def _translate_from_pivot(self) -> None:
        """Plans and submits the translations from the pivot language, in order: each sentence as soon as it, and all
        before it, are in that language."""
        spent = 0
        for item, grown in self._grown.items():
            pivot = item.pivot
            assert pivot is not None
            waiting = deque(pivot.into_pivot.sentences)
            while not pivot.is_read:
                ready = [waiting.popleft()] if waiting else []
                while waiting and len(ready) < MAX_READ_TOGETHER and self._is_decoded(waiting[0]):
                    ready.append(waiting.popleft())
                await self._finish(ready)
                at, added = len(pivot.from_pivot.parts), list[PlannedSentence]()
                advances = True  # once, to see an error of what it waits for
                while advances:
                    added += await event_loop.run(pivot.reading_size, self._planner.plan_from_pivot, item, spent)
                    await asyncio.sleep(0)  # lets other requests run
                    advances = pivot.can_advance
                await self._submit(added)
                for part in pivot.from_pivot.parts[at:]:
                    grown.put_nowait(part)
            spent += pivot.from_pivot.cost
            grown.put_nowait(None)

    # ---- Answer

    async def _parts(self, item: PlannedItem) -> AsyncIterator[Part]:
        """The parts of an item's plan, as soon as their sentences are submitted."""
        if grown := self._grown.get(item):
            while (part := await grown.get()) is not None:
                yield part
        elif isinstance(item.plan, TextPlan):
            for part in item.plan.parts:
                yield part

    async def _send_parts(self, number: int, item: PlannedItem, send: Callable[[TranslatedPart], None]) -> None:
        """Sends the parts of an item in order, as soon as they are translated, up to the first that failed."""
        plan = item.plan
        if isinstance(plan, ServiceError):
            return
        if plan.label or item.unserved:  # the mnemonic may be in any sentence
            await self._finish_whole(item)
            if not item.error:
                send(item.whole(number))
            return
        text, start, place = "", 0, 0
        async for part in self._parts(item):
            if place == 0 and not await self._finish_nested(plan):
                return
            place += 1
            if isinstance(part, str):
                text += part
                if isinstance(part, RememberedText) and part.end is not None:
                    span = (start, part.end) if item.has_spans else None
                    send(TranslatedPart(number, plan.resolve_nested(text), span, None))
                    text, start = "", part.end
                continue
            ahead = plan.parts[place : place + MAX_STARTED_AHEAD] if self._llm else ()
            await self._start_all([each for each in sentences_of(ahead) if self._is_decoded(each)])
            await self._finish([part])
            if part.error:
                return
            words = [word.moved(len(text)) for word in sentence_words(part.translation)]
            text += part.best.rendered
            origin, score = item.span_of(part, start)
            span = origin if item.has_spans else None
            resolved = plan.resolve_nested(text)
            send(TranslatedPart(number, resolved, span, score, item.quality(part), words, item.engine_of(part)))
            text, start = "", part.translation.sentence.end
        if text and not item.error:
            send(TranslatedPart(number, plan.resolve_nested(text), None, None))

    async def _finish_whole(self, item: PlannedItem) -> None:
        """Waits until all sentences of an item are translated or have an error."""
        if task := self._unserved.get(item):
            await task
        async for _ in self._parts(item):
            pass
        await self._finish(item.sentences)

    async def _finish_nested(self, plan: TextPlan) -> bool:
        """Waits until the nested passages are translated. Returns whether they are, without an error."""
        nested = sentences_of(chain.from_iterable(plan.nested.values()))
        await self._finish(nested)
        return not any(each.error for each in nested)

    async def _answer(self) -> Translations:
        """The translations, made in a thread if that may take long. Raises the first item's error if all have one."""
        # The alignment of a short sentence takes 0.3 ms, two hundred times as long as its rendering.
        more = self._options.alternatives or self._options.alignment
        # Loading the libraries for language detection takes most of a second.
        loads = not self._services.checks.ready and any(item.may_be_in_other_language() for item in self._items)
        if event_loop.fits(self._size) and not (more or loads):
            return self._rendered()
        return await asyncio.to_thread(self._rendered)

    def _rendered(self) -> Translations:
        items = [item.render(self._options, self._services.checks) for item in self._items]
        errors = [item.error for item in items if item.error]
        if errors and len(errors) == len(items):
            raise errors[0]
        used = dict.fromkeys(filter(None, (item.model for item in self._items)))
        used = used or dict.fromkeys([self._planner.default_model()])
        sentences = [each for item in self._items for each in (*item.pivot_sentences, *item.sentences)]
        done = [each.translation for each in sentences if each.is_translated]
        llm_sentences = sum([translation.origin == "large model" for translation in done])
        if self._llm:
            llm_sentences += sum([len(item.unserved) for item in self._items])
            used |= {self._llm.name: None} if llm_sentences else {}
        source_tokens = sum([translation.sentence.source_tokens for translation in done])
        target_tokens = sum([len(translation.best.decoded.tokens) for translation in done])
        return Translations(items, ", ".join(used), source_tokens, target_tokens, llm_sentences)


def _first_sentences(item: PlannedItem) -> Sequence[PlannedSentence]:
    """The sentences of an item that can be decoded at once."""
    return item.pivot_sentences if item.pivot else item.sentences
