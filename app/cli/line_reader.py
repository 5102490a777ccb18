"""Reads standard input as lines, in a thread, as they come."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

T = TypeVar("T")
READ_BYTES = 1 << 16
MAX_LINE_CHARS = 20_000
"""A longer line is split into parts of at most this length."""
MAX_QUEUED_BATCHES = 4
"""Chunks of input that are read ahead."""
_SENTENCE_ENDS = (". ", "? ", "! ", "。", "？", "！")


class NotUTF8(ValueError):
    """Names the line that is not UTF-8."""


class Line(NamedTuple):
    """A line of the input, counted from 1, or a part of a very long one; then only the last part has an `end`."""

    number: int
    text: str
    end: str


class LineSplitter:
    """Assembles lines from chunks of bytes. Lines end at "\\n"; everything else is text."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._rest, self._number = "", 1

    def add(self, piece: bytes) -> Iterator[Line]:
        """The lines that `piece` completes; an empty piece flushes the rest. Raises NotUTF8 after returning the lines
        before it."""
        error_at = None
        try:
            text = self._decoder.decode(piece, final=not piece)
        except UnicodeDecodeError as error:
            error_at, text = error, error.object[: error.start].decode()
        *complete, self._rest = (self._rest + text).split("\n")
        for line in complete:
            *parts, last = split_long(line)
            yield from (Line(self._number, part, "") for part in parts)
            yield Line(self._number, last, "\n")
            self._number += 1
        if error_at:
            raise NotUTF8(f"line {self._number} of the input is not UTF-8 ({error_at.reason})")
        *parts, self._rest = split_long(self._rest)
        yield from (Line(self._number, part, "") for part in parts)
        if not piece and self._rest:
            yield Line(self._number, self._rest, "")


async def read_lines(read: Callable[[int], bytes]) -> AsyncIterator[list[Line]]:
    """Yields the lines read so far, until the end of the input. Raises NotUTF8 and what `read` raises.

    `read` takes a number of bytes and may block; it is called in a thread, which is never joined.
    """
    async for batch in read_ahead(_batches(read)):
        if batch:
            yield batch


async def read_ahead(batches: Iterable[T]) -> AsyncIterator[T]:
    """Yields what `batches` yields, in a thread, `MAX_QUEUED_BATCHES` ahead. Raises what it raises."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[tuple[T] | Exception | None] = asyncio.Queue()
    free_slots = threading.Semaphore(MAX_QUEUED_BATCHES)

    def put(batch: tuple[T] | Exception | None) -> None:
        free_slots.acquire()
        loop.call_soon_threadsafe(queue.put_nowait, batch)

    def work() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed and no longer reads
            try:
                for batch in batches:
                    put((batch,))
                put(None)
            except Exception as error:
                put(error)

    threading.Thread(target=work, daemon=True, name="read-ahead").start()
    while (batch := await queue.get()) is not None:
        free_slots.release()
        if isinstance(batch, Exception):
            raise batch
        yield batch[0]


def _batches(read: Callable[[int], bytes]) -> Iterator[list[Line]]:
    lines = LineSplitter()
    piece = b"?"
    while piece:
        piece = read(READ_BYTES)
        batch: list[Line] = []
        try:
            batch.extend(lines.add(piece))
        except NotUTF8:
            yield batch
            raise
        yield batch


def split_long(line: str) -> list[str]:
    """`line`, cut after the last sentence end that fits, else after the last space, else at the limit."""
    parts, start = [], 0
    while len(line) - start > MAX_LINE_CHARS:
        end = start + MAX_LINE_CHARS
        sentence_ends = [
            line.rfind(mark, start + 1, end) + len(mark) for mark in _SENTENCE_ENDS if mark in line[start + 1 : end]
        ]
        space = line.rfind(" ", start + 1, end) + 1
        parts.append(line[start : max(sentence_ends, default=0) or space or end])
        start += len(parts[-1])
    return [*parts, line[start:]]
