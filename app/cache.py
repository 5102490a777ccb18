"""Sentences that were decoded are kept, and one that is being decoded is waited for: each is decoded once.

Knows all that shapes a sentence's answer, which is its key; nothing of texts. What becomes of an answer in one request
no other sees: each is given a copy of its own.
"""

from __future__ import annotations

import asyncio
import marshal
from array import array
from collections import OrderedDict
from functools import partial

from app.engine import Decoder
from app.errors import DeadlinePassed, Overloaded, ServiceError, TooMuchText
from app.metrics import Metrics
from app.outcome import NUMBER, become, told
from app.scheduler import Job
from model.hypothesis import Hypothesis

ENTRY_BYTES = 240
"""What an entry takes besides the bytes of its key and its answer: 190 to 240, as the table grows. (In those of
cachetools.LRUCache 380 to 540: there a third fewer sentences would have room.)"""
AT_ONCE = 32
"""Sentences looked up before the event loop has its turn: each that is found is mended then, in about 0.1 ms."""


class Cache:
    """Decodes as `decoder` does, to the bit, and asks it for no sentence that is known or being decoded.

    Keeps what takes `max_bytes`; what has not been asked for the longest goes first. Sentences whose attention is
    recorded pass by.
    """

    def __init__(self, decoder: Decoder, max_bytes: int, metrics: Metrics) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        """What is kept takes so many."""
        self._decoder = decoder
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()
        self._flights: dict[bytes, dict[Hypothesis, _Request]] = {}
        """By key, what is being decoded: for each the sentences that wait for it."""
        self._orphans: list[bytes] = []
        """What is decoded for nobody any more and waited for; by the event loop's next pass it is again."""
        self._hits, self._joined, self._misses = map(metrics.cache_sentences.labels, ("hit", "joined", "miss"))
        metrics.cache_bytes.set_function(lambda: self.bytes)

    async def decode(self, job: Job[Hypothesis]) -> None:
        """Returns when every sentence of `job` is finished or in `job.errors`. Cancelling drops the job.

        Raises TooMuchText and Unavailable, which Overloaded is.
        """
        if any(sentence.record for sentence in job.sentences):
            await self._decoder.decode(job)
            return
        request = _Request(job)
        try:
            await self._look_up(request)
            if request.following:
                await self._decode_and_wait(request)
            elif request.own:
                await self._lead(request, request.own)
        finally:
            self._leave(request)

    async def _look_up(self, request: _Request) -> None:
        """Settles what is known, follows what is being decoded, and puts together what is left for the decoder."""
        job, model = request.job, request.job.model.encode()
        for start in range(0, len(job.sentences), AT_ONCE):
            unfinished = job.unfinished
            for sentence in job.sentences[start : start + AT_ONCE]:
                self._find(request, sentence, key_of(model, sentence))
            if job.unfinished < unfinished or start + AT_ONCE < len(job.sentences):
                await asyncio.sleep(0)

    def _find(self, request: _Request, sentence: Hypothesis, key: bytes) -> None:
        if answer := self._kept.get(key):
            self._hits.inc()
            self._kept.move_to_end(key)
            become(sentence, marshal.loads(answer))
            request.job.settle(sentence)
        elif (followers := self._flights.get(key)) is not None:
            self._joined.inc()
            followers[sentence] = request
            request.following[sentence] = key
        else:
            self._misses.inc()
            self._flights[key] = {}
            request.leading[sentence] = key
            request.own.append(sentence)

    async def _decode_and_wait(self, request: _Request) -> None:
        done = asyncio.Event()
        request.job.when_done = done.set
        try:
            async with asyncio.TaskGroup() as group:
                request.inheriting = group
                try:
                    if request.own:
                        await self._lead(request, request.own)
                    await done.wait()
                finally:
                    self._leave(request)  # before the group ends: it takes no more tasks then
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _lead(self, request: _Request, sentences: list[Hypothesis]) -> None:
        """Has `sentences` decoded, for `request` and for whoever follows. Raises what the decoder does."""
        job, settled = request.job, partial(self._settled, request)
        await self._decoder.decode(
            Job(job.model, sentences, job.deadline, errors=job.errors, when_settled=settled, arrived=job.arrived)
        )
        for sentence in sentences:
            if sentence in request.leading:  # by a decoder that tells of none before the end
                settled(sentence)

    async def _take_over(self, request: _Request, sentences: list[Hypothesis]) -> None:
        """Has `sentences` decoded whose request is gone, now for `request`; refused, they alone are."""
        try:
            await self._lead(request, sentences)
        except ServiceError as error:
            for sentence in sentences:
                if sentence in request.leading:
                    request.job.errors[sentence] = error
                    self._settled(request, sentence)

    def _settled(self, request: _Request, sentence: Hypothesis) -> None:
        """The sentence was decoded, or is in its job's errors."""
        key = request.leading.pop(sentence, None)
        if key is None:
            return  # the request has left, which the decoder does not know yet
        error = request.job.errors.get(sentence)
        answer = b"" if error else marshal.dumps(told(sentence))
        request.job.settle(sentence, error)
        # What befell a request itself says nothing of others that wait for the same.
        personal = isinstance(error, Overloaded | TooMuchText | DeadlinePassed)
        followers = self._flights[key]
        for follower, other in list(followers.items()):
            if personal and other is not request:
                continue
            del followers[follower], other.following[follower]
            if not error:
                become(follower, marshal.loads(answer))
            other.job.settle(follower, error)
        if answer:
            self._keep(key, answer)
        self._abandon(key)

    def _keep(self, key: bytes, answer: bytes) -> None:
        self._kept[key] = answer
        self.bytes += _size(key, answer)
        while self.bytes > self.max_bytes:
            self.bytes -= _size(*self._kept.popitem(last=False))

    def _leave(self, request: _Request) -> None:
        """Whatever the request still waits for or has decoded, it does no more."""
        for sentence, key in request.following.items():
            del self._flights[key][sentence]
        request.following.clear()
        for key in request.leading.values():
            self._abandon(key)
        request.leading.clear()

    def _abandon(self, key: bytes) -> None:
        """Nobody has this decoded any more: whoever waits for it will, all that one request inherits together."""
        if not self._flights[key]:
            del self._flights[key]
            return
        if not self._orphans:
            asyncio.get_running_loop().call_soon(self._hand_over)
        self._orphans.append(key)

    def _hand_over(self) -> None:
        orphans, self._orphans = self._orphans, []
        heirs: dict[_Request, list[Hypothesis]] = {}
        for key in orphans:
            followers = self._flights[key]
            if not followers:  # they left as well
                del self._flights[key]
                continue
            sentence, heir = next(iter(followers.items()))
            del followers[sentence], heir.following[sentence]
            heir.leading[sentence] = key
            heirs.setdefault(heir, []).append(sentence)
        for heir, sentences in heirs.items():
            if heir.inheriting:
                heir.inheriting.create_task(self._take_over(heir, sentences))
            else:
                heir.own += sentences  # it is being looked up, and all its own will go together


class _Request:
    """A job on its way: the keys of what is decoded for it, `leading`, and of what it waits for, `following`.

    `own` is what the decoder will be given, and `inheriting` what runs the decoding of what others gave up.
    """

    def __init__(self, job: Job[Hypothesis]) -> None:
        self.job = job
        self.own: list[Hypothesis] = []
        self.leading: dict[Hypothesis, bytes] = {}
        self.following: dict[Hypothesis, bytes] = {}
        self.inheriting: asyncio.TaskGroup | None = None


def cached(decoder: Decoder, max_bytes: int, metrics: Metrics) -> Decoder:
    """`decoder` behind a cache of so many bytes; itself if they are none."""
    return Cache(decoder, max_bytes, metrics) if max_bytes else decoder


def key_of(model: bytes, sentence: Hypothesis) -> bytes:
    """All that a worker is told of a sentence: equal keys, equal answers. `model`: the name, with its checksum."""
    h, forced = sentence, sentence.forced
    lengths = len(h.source), len(h.once), len(h.never), len(h.prefix), -1 if forced is None else len(forced)
    tokens = [*h.source, *h.once, *h.never, *h.prefix, *(forced or ())]
    return array(NUMBER, [h.limit, h.width, *lengths, *tokens]).tobytes() + model


def _size(key: bytes, answer: bytes) -> int:
    return len(key) + len(answer) + ENTRY_BYTES
