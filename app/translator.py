"""The translation policy: how texts become sentences to decode, and how the decoded become answers.

Knows bundles, limits and deadlines. The wire formats are the routes'; who is decoded when is the engine's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic

from app.admission import cost
from app.catalogue import Catalogue
from app.deadlines import Deadlines
from app.engine import Decoder
from app.errors import DeadlinePassed, ServiceError, TooMuchText
from app.languages import joint
from app.scheduler import Job
from app.segmentation import cut, segments
from app.settings import Settings
from model.bundle import Bundle
from model.hypothesis import FinishReason, Hypothesis

AT_ONCE = 2_000
"""Characters of a request that are prepared on the event loop, in about a millisecond; more would hold up the others,
and is done in a thread; the way there and back costs as much as a short sentence does."""


@dataclass(frozen=True)
class Translated:
    """One text's translation, or the error that this text alone ended in (then `text` and `score` are None)."""

    text: str | None
    score: float | None
    finish_reason: FinishReason | None
    warnings: Sequence[str] = ()
    error: ServiceError | None = None


@dataclass(frozen=True)
class Translations:
    """A request's translations, in order, and how many tokens they took, end symbols included."""

    items: list[Translated]
    model: str
    source_tokens: int
    target_tokens: int


@dataclass
class Draft:
    """A text on its way: what is copied, and in their places the sentences being decoded."""

    parts: list[str | Hypothesis] = field(default_factory=list)
    sentences: list[Hypothesis] = field(default_factory=list)
    """Those of the parts that are."""
    warnings: list[str] = field(default_factory=list)
    error: ServiceError | None = None
    cost: int = 0
    """Of its sentences, in the queue's tokens."""


class Translator:
    """Translates texts with the bundles of a catalogue, through one engine, within the settings' limits."""

    def __init__(self, catalogue: Catalogue, engine: Decoder, settings: Settings) -> None:
        self.catalogue, self.engine, self.settings = catalogue, engine, settings
        self._deadlines = Deadlines(settings.deadline_ms / 1000)

    async def translate(
        self, texts: Sequence[str], source: str, target: str, deadline_ms: int | None = None
    ) -> Translations:
        """Translates each text. One that fails alone has an error; if all do, the first's is raised.

        Raises PairNotServed, TooMuchText, Unavailable, StepFailed and DeadlinePassed.
        """
        bundle = self.catalogue.find(source, target)
        if len(texts) > self.settings.max_items:
            raise TooMuchText(f"{len(texts)} texts are over the limit of {self.settings.max_items}.")
        limit_ms = min(deadline_ms or self.settings.deadline_ms, self.settings.deadline_ms)
        deadline = monotonic() + limit_ms / 1000
        deadlines = self._deadlines if limit_ms == self.settings.deadline_ms else Deadlines(limit_ms / 1000)
        try:
            with deadlines.limit():
                in_turn = sum(map(len, texts)) <= AT_ONCE
                drafts = (
                    self._drafts(bundle, texts) if in_turn else await asyncio.to_thread(self._drafts, bundle, texts)
                )
                sentences = [sentence for draft in drafts for sentence in draft.sentences]
                job = Job(bundle.name, sentences, deadline)
                await self.engine.decode(job)
                return (
                    _answer(bundle, drafts, job) if in_turn else await asyncio.to_thread(_answer, bundle, drafts, job)
                )
        except TimeoutError:
            raise DeadlinePassed(f"Not finished within {limit_ms} ms.") from None

    async def decode_one(self, bundle: Bundle, hypothesis: Hypothesis) -> None:
        """Decodes one sentence as it is. Raises what `translate` does."""
        limit_ms = self.settings.deadline_ms
        job = Job(bundle.name, [hypothesis], monotonic() + limit_ms / 1000)
        try:
            with self._deadlines.limit():
                await self.engine.decode(job)
        except TimeoutError:
            raise DeadlinePassed(f"Not finished within {limit_ms} ms.") from None
        for error in job.errors.values():
            raise error

    def check_length(self, text: str) -> None:
        """Raises TooMuchText if `text` has more characters than a text may have."""
        if len(text) > self.settings.max_text_chars:
            raise TooMuchText(f"The text has {len(text)} characters, over the limit of {self.settings.max_text_chars}.")

    def _drafts(self, bundle: Bundle, texts: Sequence[str]) -> list[Draft]:
        drafts: list[Draft] = []
        room = self.settings.queue_tokens
        for text in texts:
            drafts.append(self._draft(bundle, text, room))
            room -= drafts[-1].cost
        return drafts

    def _draft(self, bundle: Bundle, text: str, room: int) -> Draft:
        """Raises TooMuchText as soon as the sentences cost over `room`: a megabyte of them takes half a minute."""
        draft = Draft()
        try:
            self.check_length(text)
        except TooMuchText as error:
            draft.error = error
            return draft
        space = joint(bundle.source, bundle.target)
        for part in _encoded(bundle, text, draft.warnings):
            if isinstance(part, str):
                draft.parts.append(part)
                continue
            if space and draft.parts and isinstance(draft.parts[-1], Hypothesis):
                draft.parts.append(space)
            sentence = Hypothesis(part, bundle.limits.target(len(part)))
            draft.parts.append(sentence)
            draft.sentences.append(sentence)
            draft.cost += cost(sentence)
            if draft.cost > room:
                raise TooMuchText(f"The text is over {self.settings.queue_tokens} tokens, all that the queue holds.")
        return draft


def _encoded(bundle: Bundle, text: str, warnings: list[str]) -> Iterator[str | list[int]]:
    """The segments of `text`, token ids for those to translate. A sentence that is too long is cut, and warned of."""
    encode, limit = bundle.tokenizer.encode, bundle.limits.max_source
    for segment in segments(text, bundle.source):
        start, end, translate = segment
        ids = encode(text[start:end]) if translate else []
        if len(ids) <= limit:
            yield ids if translate else text[start:end]
            continue
        parts = cut(text, start, end, (), lambda start, end: len(encode(text[start:end])), limit)
        count = sum(part.translate for part in parts)
        warnings.append(f"A sentence of more than {limit} tokens was translated in {count} parts.")
        yield from (encode(text[start:end]) if translate else text[start:end] for start, end, translate in parts)


def _answer(bundle: Bundle, drafts: Sequence[Draft], job: Job[Hypothesis]) -> Translations:
    items = [_translated(bundle, draft, job) for draft in drafts]
    errors = [item.error for item in items if item.error]
    if errors and len(errors) == len(items):
        raise errors[0]
    decoded = [sentence for sentence in job.sentences if sentence not in job.errors]
    return Translations(
        items, bundle.name, sum(len(s.source) + 1 for s in decoded), sum(len(s.tokens) for s in decoded)
    )


def _translated(bundle: Bundle, draft: Draft, job: Job[Hypothesis]) -> Translated:
    error = draft.error or next((job.errors[s] for s in draft.sentences if s in job.errors), None)
    if error:
        return Translated(None, None, None, error=error)
    text = "".join(part if isinstance(part, str) else bundle.tokenizer.decode(part.tokens) for part in draft.parts)
    log_probs = [value for sentence in draft.sentences for value in sentence.log_probs]
    score = sum(log_probs) / len(log_probs) if log_probs else 0.0
    stopped = all(sentence.finish_reason == "stop" for sentence in draft.sentences)
    return Translated(text, score, "stop" if stopped else "length", draft.warnings)
