"""What one request asks the large model: about its sentences, and for those that no bundle serves."""

from __future__ import annotations

import asyncio
from asyncio import Task
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic

from app.engine.sequence import Decoded
from app.engine.sequence import Sequence as EngineSequence
from app.errors import ServiceError, Unavailable
from app.llm.client import LargeModel, NoAnswer
from app.translation.llm_alone import UnservedSentence, translate_alone
from app.translation.llm_answers import ask
from app.translation.planned_item import PlannedItem
from app.translation.planner import Services
from app.translation.sentence import Sentence
from app.translation.types import Options

RENDERING_S = 0.2
"""How long before its deadline a request stops waiting for the large model."""


class LargeModelQuestions:
    """The questions of a request with these `options`; `decode` is its bundles' engine."""

    def __init__(
        self,
        services: Services,
        large_model: LargeModel,
        options: Options,
        deadline: float,
        decode: Callable[[Sequence[EngineSequence]], Awaitable[list[Decoded]]],
    ) -> None:
        self.name = large_model.name
        self._services, self._large_model, self._target = services, large_model, options.target
        self._deadline, self._decode = deadline, decode
        self._asks_all = (options.engine or services.settings.engine) == "llm"
        self._below = services.settings.llm_below if options.llm_below is None else options.llm_below
        self._asked: dict[Sentence, Task[bool]] = {}
        """Questions under way; whether the sentence still has its own translation."""
        self.alone: list[Task[None]] = []
        """Translations of sentences that no bundle serves."""
        self._slots = asyncio.Semaphore(max(1, large_model.parallel // 2))
        """Half of the large model's, so that a long text leaves some to others."""
        self._order: list[Sentence] = []
        """The sentences as they follow each other: the model is told a sentence's neighbours."""
        self._places: dict[Sentence, int] = {}

    def add(self, sentences: Sequence[Sentence]) -> None:
        """Notes the sentences in their order. Those that are known keep their places."""
        for sentence in sentences:
            if self._places.setdefault(sentence, len(self._order)) == len(self._order):
                self._order.append(sentence)

    def ask(self, sentence: Sentence) -> bool:
        """Begins to ask about a checked sentence; returns whether it is one for the large model."""
        if sentence.begun or sentence.is_repaired:  # as the user or the memory has it
            return False
        if not self._large_model.serves(sentence.bundle.source, sentence.bundle.target):
            return False
        if self._asks_all or (sentence.quality is not None and sentence.quality < self._below):
            self._asked[sentence] = asyncio.create_task(self._ask(sentence))
        return sentence in self._asked

    async def finish(self, sentence: Sentence) -> bool:
        """Waits for the answer about a sentence, if it was asked about. Returns whether there was none that is fit."""
        asked = self._asked.pop(sentence, None)
        if asked is None:
            return False
        try:
            return await asked
        finally:
            asked.cancel()

    def translate_alone(self, item: PlannedItem) -> None:
        """Begins to translate the sentences of an item that no bundle serves."""
        self.alone += [asyncio.create_task(self._translate_alone(item, one)) for one in item.unserved]

    async def finish_alone(self) -> None:
        """Waits for the sentences that no bundle serves."""
        for task in self.alone:
            await task

    def cancel(self) -> None:
        for task in (*self._asked.values(), *self.alone):
            task.cancel()

    def _end_of_wait(self) -> float:
        """Until when a question that is asked now may take."""
        return min(monotonic() + self._large_model.limit_s, self._deadline - RENDERING_S)

    async def _ask(self, sentence: Sentence) -> bool:
        """Translates a sentence. If that fails, its own translation stays, with a warning, and this returns True."""
        place, around = self._places[sentence], self._order
        before = around[place - 1].passage.text if place else ""
        after = around[place + 1].passage.text if place + 1 < len(around) else ""
        until = self._end_of_wait()
        try:
            async with asyncio.timeout(until - monotonic()), self._slots:
                checks = self._services.checks
                answer = await ask(sentence, before, after, self._large_model, checks, self._decode, until)
        except TimeoutError:
            fault = "did not answer in time"
        except NoAnswer as error:
            fault = str(error)
        except ServiceError as error:  # of our engine
            fault = f"could not be checked: {error.detail}"
        else:
            sentence.set_answer(answer)
            sentence.estimate_quality()
            return False
        sentence.warnings.append(f"Translated without the large model, which {fault}.")
        return True

    async def _translate_alone(self, item: PlannedItem, sentence: UnservedSentence) -> None:
        """Translates a sentence that no bundle serves. If that fails, the item has an error."""
        pair = item.source.language or "", self._target
        until = self._end_of_wait()
        try:
            async with asyncio.timeout(until - monotonic()), self._slots:
                sentence.parts[sentence.place] = await translate_alone(
                    sentence.passage, pair, item.glossary, self._large_model, self._services.checks, until
                )
        except (TimeoutError, NoAnswer) as error:
            fault = str(error) or "did not answer in time"
            item.plan = Unavailable(f"The large model {fault}, and no bundle translates from {pair[0]} to {pair[1]}.")
