"""Sentences that were decoded are kept, and one that is being decoded is waited for: each is decoded once.

Knows all that shapes a sentence's answer, which is its key; nothing of texts. What becomes of an answer in one request
no other sees: each is given a copy of its own.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from functools import partial

import msgspec

from app.engine.engine import Decoder
from app.engine.hypotheses import become, decoded_of, sequence_of
from app.engine.scheduler import Job
from app.engine.sequence import Decoded
from app.errors import DeadlinePassed, Overloaded, ServiceError, TooMuchText
from app.runtime.metrics import Metrics
from model.hypothesis import Hypothesis

ENTRY_BYTES = 240
"""What an entry takes besides the bytes of its key and its answer: 190 to 240, as the table grows. (In those of
cachetools.LRUCache 380 to 540: there a third fewer sentences would have room.)"""
AT_ONCE = 32
"""Sentences looked up before the event loop has its turn: each that is found is mended then, in about 0.1 ms."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Decoded).decode


class Answers:
    """What sentences came to, as much as takes `max_bytes`; what has not been asked for the longest goes first.

    Where bundles are replaced, those that stay find theirs again: a key names the bundle with its checksum.
    """

    def __init__(self, max_bytes: int, metrics: Metrics) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        """What is kept takes so many."""
        self.hits, self.joined, self.misses = map(metrics.cache_sentences.labels, ("hit", "joined", "miss"))
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()
        metrics.cache_bytes.set_function(lambda: self.bytes)

    def find(self, key: bytes) -> bytes | None:
        """It was asked for now."""
        if answer := self._kept.get(key):
            self._kept.move_to_end(key)
        return answer

    def keep(self, key: bytes, answer: bytes) -> None:
        if key in self._kept:
            return
        # Copied: msgspec leaves room behind the end of what it encodes.
        self._kept[bytes(memoryview(key))] = bytes(memoryview(answer))
        self.bytes += _size(key, answer)
        while self.bytes > self.max_bytes:
            self.bytes -= _size(*self._kept.popitem(last=False))


class Cache:
    """Decodes as `decoder` does, to the bit, and asks it for no sentence that is known or being decoded.

    Sentences whose attention is recorded pass by. Nobody waits for more turns of another request than it needs itself:
    a sentence that a document has too, far back in the queue, is decoded twice, and does not wait for the document.
    """

    def __init__(self, decoder: Decoder, answers: Answers) -> None:
        self.answers = answers
        self._decoder = decoder
        self._flights: dict[bytes, _Flight] = {}
        """By key, what is being decoded; where it is twice, what will be there sooner."""
        self._orphans: list[_Flight] = []
        """Waited for, and decoded for nobody any more; by the event loop's next pass they are again."""

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
        job, model = request.job, request.job.model
        for start in range(0, len(job.sentences), AT_ONCE):
            unfinished = job.unfinished
            for sentence in job.sentences[start : start + AT_ONCE]:
                self._find(request, sentence, key_of(model, sentence))
            if job.unfinished < unfinished or start + AT_ONCE < len(job.sentences):
                await asyncio.sleep(0)

    def _find(self, request: _Request, sentence: Hypothesis, key: bytes) -> None:
        if answer := self.answers.find(key):
            self.answers.hits.inc()
            become(sentence, _decode(answer))
            request.job.settle(sentence)
        elif (flight := self._flights.get(key)) and flight.turns < len(request.job.sentences):
            self.answers.joined.inc()
            flight.followers[sentence] = request
            request.following[sentence] = flight
        else:
            self.answers.misses.inc()
            self._flights[key] = request.leading[sentence] = _Flight(key, len(request.own))
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
        led = Job(job.model, sentences, job.deadline, errors=job.errors, when_settled=settled, arrived=job.arrived)
        for number, sentence in enumerate(sentences):
            request.leading[sentence].queue(led, number)
        await self._decoder.decode(led)
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
        flight = request.leading.pop(sentence, None)
        if flight is None:
            return  # the request has left, which the decoder does not know yet
        error = request.job.errors.get(sentence)
        answer = b"" if error else _encode(decoded_of(sentence))
        request.job.settle(sentence, error)
        # What befell a request itself says nothing of others that wait for the same.
        personal = isinstance(error, Overloaded | TooMuchText | DeadlinePassed)
        for follower, other in list(flight.followers.items()):
            if personal and other is not request:
                continue
            del flight.followers[follower], other.following[follower]
            if not error:
                become(follower, _decode(answer))
            other.job.settle(follower, error)
        if answer:
            self.answers.keep(flight.key, answer)
        self._abandon(flight)

    def _leave(self, request: _Request) -> None:
        """Whatever the request still waits for or has decoded, it does no more."""
        for sentence, flight in request.following.items():
            del flight.followers[sentence]
        request.following.clear()
        for flight in request.leading.values():
            self._abandon(flight)
        request.leading.clear()

    def _abandon(self, flight: _Flight) -> None:
        """Nobody has this decoded any more: whoever waits for it will, all that one request inherits together."""
        if not flight.followers:
            self._forget(flight)
            return
        if not self._orphans:
            asyncio.get_running_loop().call_soon(self._hand_over)
        self._orphans.append(flight)

    def _forget(self, flight: _Flight) -> None:
        if self._flights.get(flight.key) is flight:
            del self._flights[flight.key]

    def _hand_over(self) -> None:
        orphans, self._orphans = self._orphans, []
        heirs: dict[_Request, list[Hypothesis]] = {}
        for flight in orphans:
            if not flight.followers:  # they left as well
                self._forget(flight)
                continue
            sentence, heir = next(iter(flight.followers.items()))
            del flight.followers[sentence], heir.following[sentence]
            heir.leading[sentence] = flight
            heirs.setdefault(heir, []).append(sentence)
        for heir, sentences in heirs.items():
            if heir.inheriting:
                heir.inheriting.create_task(self._take_over(heir, sentences))
            else:
                heir.own += sentences  # it is being looked up, and all its own will go together


class _Flight:
    """A sentence being decoded, and the `followers` that wait for it, each with its request."""

    __slots__ = "_job", "_number", "followers", "key"

    def __init__(self, key: bytes, number: int) -> None:
        """`number`: of how many of its request it comes behind."""
        self.key = key
        self.followers: dict[Hypothesis, _Request] = {}
        self._job: Job[Hypothesis] | None = None
        self._number = number

    def queue(self, job: Job[Hypothesis], number: int) -> None:
        """It is given to the decoder in `job`, behind so many others."""
        self._job, self._number = job, number

    @property
    def turns(self) -> int:
        """How many its request has before this sentence's is there; not over 0 once it has begun."""
        return self._number - (len(self._job.sentences) - len(self._job.waiting) if self._job else 0)


class _Request:
    """A job on its way: what is decoded for it, `leading`, and what it waits for that is others', `following`.

    `own` is what the decoder will be given, and `inheriting` what runs the decoding of what others gave up.
    """

    def __init__(self, job: Job[Hypothesis]) -> None:
        self.job = job
        self.own: list[Hypothesis] = []
        self.leading: dict[Hypothesis, _Flight] = {}
        self.following: dict[Hypothesis, _Flight] = {}
        self.inheriting: asyncio.TaskGroup | None = None


def cached(decoder: Decoder, answers: Answers) -> Decoder:
    """`decoder` behind a cache of `answers`; itself if none can be kept."""
    return Cache(decoder, answers) if answers.max_bytes else decoder


def key_of(model: str, sentence: Hypothesis) -> bytes:
    """All that a worker is told of a sentence: equal keys, equal answers. `model`: the name, with its checksum."""
    return _encode(sequence_of(model, sentence))


def _size(key: bytes, answer: bytes) -> int:
    return len(key) + len(answer) + ENTRY_BYTES
