"""What one request asks the large model: about its sentences, and for those that no bundle serves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic

from app.engine import sequence as engine
from app.engine.sequence import Decoded
from app.errors import ServiceError, Unavailable
from app.llm.client import LargeModel, NoAnswer
from app.translation.llm_alone import UnservedSentence, translate_alone
from app.translation.llm_answers import ask
from app.translation.planned_item import PlannedItem
from app.translation.planned_sentence import PlannedSentence, Translation
from app.translation.planner import Services
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
        decode: Callable[[Sequence[engine.Sequence]], Awaitable[list[Decoded]]],
    ) -> None:
        self.name = large_model.name
        self._services, self._large_model, self._target = services, large_model, options.target
        self._deadline, self._decode = deadline, decode
        self._asks_all = (options.engine or services.settings.engine) == "llm"
        self._below = services.settings.llm_below if options.llm_below is None else options.llm_below
        self._slots = asyncio.Semaphore(max(1, large_model.parallel // 2))
        """Half of the large model's, so that a long text leaves some to others."""
        self._order: list[PlannedSentence] = []
        """The sentences as they follow each other: the model is told a sentence's neighbours."""
        self._places: dict[PlannedSentence, int] = {}

    def add(self, sentences: Sequence[PlannedSentence]) -> None:
        """Notes the sentences in their order."""
        for sentence in sentences:
            self._places[sentence] = len(self._order)
            self._order.append(sentence)

    def is_for(self, translation: Translation) -> bool:
        """Whether to ask the large model for a better translation than this one, which the policies accept."""
        sentence = translation.sentence
        if sentence.begun or translation.origin == "memory":  # as the user or the memory has it
            return False
        if not self._large_model.serves(sentence.bundle.source, sentence.bundle.target):
            return False
        return self._asks_all or (translation.quality is not None and translation.quality < self._below)

    async def improved(self, planned: PlannedSentence, translation: Translation) -> Translation:
        """The large model's translation of a sentence. If there is none that is fit, its own, with a warning."""
        place, around = self._places[planned], self._order
        before = around[place - 1].sentence.passage.text if place else ""
        after = around[place + 1].sentence.passage.text if place + 1 < len(around) else ""
        until = self._end_of_wait()
        try:
            async with asyncio.timeout(until - monotonic()), self._slots:
                checks, sentence = self._services.checks, translation.sentence
                answer = await ask(sentence, before, after, self._large_model, checks, self._decode, until)
        except TimeoutError:
            fault = "did not answer in time"
        except NoAnswer as error:
            fault = str(error)
        except ServiceError as error:  # of our engine
            fault = f"could not be checked: {error.detail}"
        else:
            return translation.replaced_by(answer, "large model")
        translation.warnings.append(f"Translated without the large model, which {fault}.")
        return translation

    async def translate_unserved(self, item: PlannedItem) -> None:
        """Translates the sentences of an item that no bundle serves. If some fail, the item has the error of the
        first."""
        async with asyncio.TaskGroup() as tasks:
            done = [tasks.create_task(self._translate_unserved(item, sentence)) for sentence in item.unserved]
        if error := next(filter(None, (task.result() for task in done)), None):
            item.plan = error

    async def _translate_unserved(self, item: PlannedItem, sentence: UnservedSentence) -> Unavailable | None:
        pair = item.source.language or "", self._target
        until = self._end_of_wait()
        try:
            async with asyncio.timeout(until - monotonic()), self._slots:
                sentence.parts[sentence.place] = await translate_alone(
                    sentence.passage, pair, item.glossary, self._large_model, self._services.checks, until
                )
        except (TimeoutError, NoAnswer) as error:
            fault = str(error) or "did not answer in time"
            return Unavailable(f"The large model {fault}, and no bundle translates from {pair[0]} to {pair[1]}.")
        return None

    def _end_of_wait(self) -> float:
        """Until when a question that is asked now may take."""
        return min(monotonic() + self._large_model.limit_s, self._deadline - RENDERING_S)
