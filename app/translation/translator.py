"""Translates texts within the settings' limits and deadlines; the interface for routes and the command line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from time import monotonic

from app.engine import sequence as engine
from app.engine.engine import Decoder
from app.engine.registry import Catalogue
from app.engine.sequence import Decoded
from app.errors import DeadlinePassed, ServiceError, TooMuchText
from app.llm.client import LargeModel
from app.runtime.timeouts import SharedTimeout
from app.settings import Settings
from app.text.glossary import Glossaries
from app.text.language_id import Detected, Detector, Libraries
from app.translation.language_checks import LanguageChecks
from app.translation.planner import ObserveQuality, Services, check_length
from app.translation.request import TranslationRequest
from app.translation.source_language import SourceLanguages
from app.translation.types import Item, Options, TranslatedPart, Translations

MIN_SHARED_FRACTION = 0.95
"""A deadline of at least this share of the setting's shares its timer, since a timer of its own costs more."""


class Translator:
    """Translates texts with the bundles of a catalogue, through one engine, within the settings' limits."""

    def __init__(
        self,
        catalogue: Catalogue,
        engine: Decoder,
        settings: Settings,
        glossaries: Glossaries | None = None,
        libraries: Libraries | None = None,
        observe_quality: ObserveQuality = lambda model, quality: None,
        large_model: LargeModel | None = None,
    ) -> None:
        self.catalogue, self.engine, self.settings, self.large_model = catalogue, engine, settings, large_model
        self.detector = Detector({*catalogue.source_languages, *catalogue.target_languages}, libraries)
        checks = LanguageChecks(self.detector)
        self._services = Services(
            catalogue, engine, settings, glossaries or Glossaries(), self.detector, checks, observe_quality, large_model
        )
        self._timeout = SharedTimeout(settings.deadline_ms / 1000)

    async def translate(
        self, items: Sequence[Item], options: Options, on_part: Callable[[TranslatedPart], None] | None = None
    ) -> Translations:
        """Translates each item. An item that fails has an error; if all fail, raises the first error.

        `on_part` gets the parts of each item's translation, as `stream` yields them. Raises PairNotServed,
        InvalidFields, TooMuchText, Unavailable, StepFailed and DeadlinePassed.
        """
        limit_ms = self._limit_ms(options.deadline_ms)
        left_s = limit_ms / 1000 - options.waited_s
        request = TranslationRequest(self._services, items, options, monotonic() + left_s, on_part)
        try:
            with self._deadline_timer(left_s).limit():
                return await request.run()
        except TimeoutError:
            raise _deadline_passed(limit_ms) from None

    async def stream(
        self, items: Sequence[Item], options: Options
    ) -> AsyncGenerator[TranslatedPart | Translations, None]:
        """Yields the parts of each item's translation, in order, as they arrive, and finally what `translate` returns.

        The joined parts of an item are its translation. Raises the errors of `translate`; those of the request itself
        come before the first part.
        """
        arrived = asyncio.Queue[TranslatedPart | Translations | Exception]()

        async def work() -> None:
            try:
                arrived.put_nowait(await self.translate(items, options, arrived.put_nowait))
            except Exception as error:  # raised where the stream is read
                arrived.put_nowait(error)

        task = asyncio.create_task(work())
        try:
            while not isinstance(part := await arrived.get(), Translations):
                if isinstance(part, Exception):
                    raise part
                yield part
            yield part
        finally:
            task.cancel()

    async def decode_one(self, sequence: engine.Sequence, client: str = "") -> Decoded:
        """Decodes one sequence of the client without any checks. Raises the errors of `translate`."""
        limit_ms = self.settings.deadline_ms
        try:
            with self._timeout.limit():
                [future] = await self.engine.decode([sequence], monotonic() + limit_ms / 1000, client)
                return await future
        except TimeoutError:
            raise _deadline_passed(limit_ms) from None

    async def decode_all(
        self, sequences: Sequence[engine.Sequence], deadline_ms: int | None, waited_s: float, client: str = ""
    ) -> list[Decoded | ServiceError]:
        """Decodes sequences together; each has a result or its error. Raises the errors of `translate`."""
        limit_ms = self._limit_ms(deadline_ms)
        left_s = limit_ms / 1000 - waited_s
        futures: list[asyncio.Future[Decoded]] = []
        results: list[Decoded | ServiceError] = []
        try:
            with self._deadline_timer(left_s).limit():
                futures = await self.engine.decode(list(sequences), monotonic() + left_s, client)
                for future in futures:
                    try:
                        results.append(await future)
                    except ServiceError as error:
                        results.append(error.with_traceback(None))  # the traceback would keep its frames alive
                return results
        except TimeoutError:
            raise _deadline_passed(limit_ms) from None
        finally:
            for future in futures:
                future.cancel()

    def check_length(self, characters: int) -> None:
        """Raises TooMuchText if a text of that length is over the limit."""
        check_length(characters, self.settings)

    def check_count(self, items: int) -> None:
        """Raises TooMuchText if a request with that many texts is over the limit."""
        if items > self.settings.max_items:
            raise TooMuchText(f"{items} texts are over the limit of {self.settings.max_items}.")

    def check(self, texts: Sequence[str]) -> None:
        """Raises TooMuchText if there are too many texts, or one of them is too long."""
        self.check_count(len(texts))
        for text in texts:
            self.check_length(len(text))

    def cost(self, texts: Sequence[str]) -> int:
        """The characters to charge a client for: those of all texts except texts too long to be translated."""
        return sum(len(text) for text in texts if len(text) <= self.settings.max_text_chars)

    def languages(self, target: str) -> SourceLanguages:
        """The languages that texts for `target`, the code of a served language, may be in."""
        return SourceLanguages(self.catalogue.sources(target), self.detector, target)

    def detect(self, text: str) -> Detected:
        """The served language that `text` is in."""
        return self.detector.detect(text)

    def _limit_ms(self, deadline_ms: int | None) -> int:
        return min(deadline_ms or self.settings.deadline_ms, self.settings.deadline_ms)

    def _deadline_timer(self, left_s: float) -> SharedTimeout:
        """The shared timer if it fits, else one with `left_s` seconds."""
        shared = MIN_SHARED_FRACTION * self._timeout.seconds <= left_s <= self._timeout.seconds
        return self._timeout if shared else SharedTimeout(max(0.0, left_s))


def _deadline_passed(limit_ms: int) -> DeadlinePassed:
    return DeadlinePassed(f"Not finished within {limit_ms} ms.")
