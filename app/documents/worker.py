"""A process that reads and writes documents, one after the other, each within its budget.

    python -m app.documents.worker DESCRIPTOR

The kernel enforces the budgets: nothing that a parser does, in Python or in C, goes on beyond them. Work is counted as
processor time, in units of what this machine takes for a fixed piece of work. When it is used up, the process ends by
SIGPROF.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cachetools import LRUCache

from app import formats
from app.documents.messages import (
    Answer,
    Budget,
    Content,
    Failure,
    File,
    Job,
    Order,
    Read,
    Refusal,
    Texts,
    UnitText,
    Write,
    WriteReview,
    decode_order,
)
from app.formats.review import read_xliff, write_xliff
from app.formats.review_html import write_html
from app.formats.units import translations_of, units_of
from app.runtime.frames import LENGTH_BYTES, encode_frame, frame_length
from app.runtime.json_logs import log_to_stderr
from app.runtime.work_unit import unit_seconds
from model.machine import give_freed_memory_back
from model.quality import DOUBTFUL

NICENESS = 5
"""Documents give way to the workers and the front, which everyone waits for."""
MAX_OPEN = 8
"""So many documents stay parsed between being read and written; others are parsed again."""
MAX_GROWTH_BYTES = 512 << 20
"""A process whose address space has grown by more ends after its job, and another takes its place."""
MAX_TAGS = 200_000
"""And protected parts, of a document. They cross to the service in one piece, which takes 2 us for each."""
LARGE_BYTES = 100_000
"""After a larger file, freed memory goes back to the system."""
TOO_MUCH_MEMORY = "The file takes too much memory for its size."
_PR_SET_PDEATHSIG = 1
"""prctl(2)."""
log = logging.getLogger(__name__)


class OpenDocument:
    """A parsed document and its units."""

    def __init__(self, file: File) -> None:
        """Raises UnreadableDocument."""
        options: Any = dict(file.options)
        self.document = formats.read(file.name, file.content, file.target, file.max_chars, file.source, **options)
        self.units = units_of(self.document.passages, self.document.locations)
        if sum(len(unit.codes) for unit in self.units) > MAX_TAGS:
            raise formats.UnreadableDocument(f"The file has over {MAX_TAGS:,} tags within its texts. Split it.")

    def write(self, targets: list[str]) -> Content:
        translations = translations_of(self.document.passages, self.units, targets)
        return Content(self.document.write(translations), self.document.media_type)


class DocumentWorker:
    """Does jobs. Documents stay open until they are written or others take their place."""

    def __init__(self) -> None:
        self._open: LRUCache[File, OpenDocument] = LRUCache(MAX_OPEN)
        self._most_bytes = _address_space() + MAX_GROWTH_BYTES
        self.is_worn_out = False
        """Whether another process should take the place of this one."""

    def answer(self, order: Order) -> bytes:
        """Does the job within its budget. Returns the answer's frame."""
        if order.job.file.suffix == ".pdf":
            import app.formats.pdf_text  # noqa: F401  # which takes 20 MB that are not the document's
        try:
            with within(order.budget):
                return encode_frame(self._do(order.job))
        except Exception as error:
            return encode_frame(self._refusal(error))
        finally:
            self.is_worn_out = self.is_worn_out or _address_space() > self._most_bytes

    def _refusal(self, error: Exception) -> Refusal | Failure:
        if isinstance(error, formats.WrongOption):
            return Refusal(error.option, str(error))
        if isinstance(error, formats.UnreadableDocument):
            return Refusal("file", str(error))
        if isinstance(error, RecursionError):
            return Refusal("file", "The file is nested too deeply.")
        if isinstance(error, MemoryError):
            self.is_worn_out = True  # libraries in C may have been left half-way
            return Refusal("file", TOO_MUCH_MEMORY)
        log.error("A document could not be read or written", exc_info=error)
        return Failure(f"{type(error).__name__} while a document was read or written")

    def _do(self, job: Job) -> Answer:
        found = self._opened(job.file)
        if isinstance(job, Read):
            return _texts(found)
        del self._open[job.file]
        if isinstance(job, Write):
            return found.write(job.targets)
        if isinstance(job, WriteReview):
            given = (job.file.name, job.languages, found.units, job.reviewed, job.model)
            return Content(write_html(*given, DOUBTFUL) if job.kind == "review" else write_xliff(*given), "")
        try:
            targets = read_xliff(job.review, found.units)
        except formats.UnreadableDocument as error:
            return Refusal("review", str(error))
        return found.write(targets)

    def _opened(self, file: File) -> OpenDocument:
        found = self._open.get(file)
        if found is None:
            found = self._open[file] = OpenDocument(file)
        return found


def _texts(found: OpenDocument) -> Texts:
    passages = ((unit.passage, unit.location) for unit in found.units)
    return Texts(
        # A reader may have given a string a subclass of its own.
        [
            UnitText(str(one.text), one.protected, one.tags, one.whole, one.terms, location)
            for one, location in passages
        ],
        found.document.media_type,
        found.document.evident_encoding,
    )


@contextmanager
def within(budget: Budget) -> Iterator[None]:
    """A context that ends the process when the work is used up, and raises MemoryError for more memory."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = _address_space() + budget.memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    signal.setitimer(signal.ITIMER_PROF, budget.work * unit_seconds())
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _address_space() -> int:
    """In bytes, of this process."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def serve(end: socket.socket) -> None:
    """Does what arrives on `end` until the service closes it."""
    worker = DocumentWorker()
    with end.makefile("rwb") as stream:
        while len(head := stream.read(LENGTH_BYTES)) == LENGTH_BYTES:
            order = decode_order(stream.read(frame_length(head)))
            stream.write(worker.answer(order))
            stream.flush()
            if len(order.job.file.content) > LARGE_BYTES:
                del order
                give_freed_memory_back()
            if worker.is_worn_out:
                return


def main(descriptor: int) -> None:
    """Serves on the socket that this process inherited."""
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to the whole process group; the front decides when to exit
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # if the front is killed, so is what runs here
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # no handler of Python's would run inside a parser
    os.nice(NICENESS)
    with suppress(OSError):  # where memory is short, the kernel ends this process rather than one with weights
        Path("/proc/self/oom_score_adj").write_text("500")
    log_to_stderr()
    for each in formats.FORMATS.values():  # before budgets count
        formats.reader_of(each)
    unit_seconds()
    gc.freeze()
    with socket.socket(fileno=descriptor) as end:
        serve(end)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
