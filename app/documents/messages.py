"""What the service and the processes that read and write documents send each other, and what a document may cost."""

from __future__ import annotations

from pathlib import PurePath
from typing import Literal

import msgspec
from msgspec import Struct

from app.formats import PACKED_SUFFIXES, TextLocation
from app.formats.units import Reviewed
from app.markup.passage import ProtectedSpan, Tag

ReviewKind = Literal["review", "xliff"]
"""A page in HTML, or XLIFF."""

SMALL_BYTES = 4_096
"""What a file of up to this size may take is the same for all."""
BASE_WORK, MAX_WORK = 1_000, 40_000
"""Units of work (app/runtime/work_unit.py) for a small file, and for any. What a kind may take is about four times what
the costliest honest files take, measured beside other work, which makes them cost up to 1.7 times as much."""
WORK_PER_MB = 60_000
"""Markdown, the costliest format of text, takes 14,000 to 18,000 where a megabyte is a list of words."""
PACKED_WORK_PER_MB = 100_000
"""For archives, which take up to 1,300 for a megabyte of text, and have up to 20 bytes of it for each of theirs."""
PDF_BASE_WORK, PDF_WORK_PER_MB = 400, 150_000
"""Sixty paragraphs of the same sentence have four kilobytes, and take 70 to 100. A megabyte of them takes 30,000 to
42,000, of other prose up to 19,000."""
BASE_BYTES, MAX_BYTES = 64 << 20, 1 << 30
"""Of memory, beside what the process itself has."""
BYTES_PER_BYTE = 400
PACKED_BYTES_PER_BYTE = 2_000
QUICK_WORK = 8_000
"""Documents that may take more are read in a process of their own."""


class Budget(Struct, frozen=True):
    """What one step with a document may take."""

    work: float
    """In units of processor time (app/runtime/work_unit.py)."""
    memory_bytes: int


class File(Struct, frozen=True):
    """A document, and how to read it: the arguments of `formats.read`."""

    name: str
    content: bytes
    target: str
    source: str
    max_chars: int
    options: tuple[tuple[str, str | bool], ...] = ()
    """FormatOptions."""

    @property
    def suffix(self) -> str:
        """In lower case."""
        return PurePath(self.name).suffix.lower()


class UnitText(Struct, frozen=True, array_like=True):
    """A unit's passage, with references to its codes, and its location."""

    text: str
    protected: tuple[ProtectedSpan, ...]
    tags: tuple[Tag, ...]
    is_whole: bool
    terms: tuple[ProtectedSpan, ...]
    location: TextLocation


class Read(Struct, frozen=True, tag=True):
    """Asks for the units of a document."""

    file: File


class Write(Struct, frozen=True, tag=True):
    """Asks for a document with a translation of each unit."""

    file: File
    targets: list[str]


class WriteReview(Struct, frozen=True, tag=True):
    """Asks for a document's review."""

    file: File
    kind: ReviewKind
    languages: tuple[str, str]
    model: str
    reviewed: list[Reviewed]


class WriteReviewed(Struct, frozen=True, tag=True):
    """Asks for a document with the translations of its review."""

    file: File
    review: bytes


Job = Read | Write | WriteReview | WriteReviewed


def budget_of(job: Job) -> Budget:
    """In proportion to the sizes of the files. Whoever writes may have to read again."""
    file, suffix = job.file, job.file.suffix
    is_packed = suffix in PACKED_SUFFIXES
    base, per_mb = BASE_WORK, PACKED_WORK_PER_MB if is_packed else WORK_PER_MB
    if suffix == ".pdf":
        base, per_mb = PDF_BASE_WORK, PDF_WORK_PER_MB
    work = base + per_mb * max(0, len(file.content) - SMALL_BYTES) / 1_000_000
    memory = BASE_BYTES + (PACKED_BYTES_PER_BYTE if is_packed else BYTES_PER_BYTE) * len(file.content)
    if not isinstance(job, Read):
        work *= 2
    if isinstance(job, WriteReviewed):
        work += WORK_PER_MB * len(job.review) / 1_000_000
        memory += BYTES_PER_BYTE * len(job.review)
    return Budget(min(work, MAX_WORK), min(memory, MAX_BYTES))


class Order(Struct, frozen=True):
    """A job and what it may take."""

    job: Job
    budget: Budget


class Texts(Struct, frozen=True, tag=True):
    """A document's units, in order."""

    units: list[UnitText]
    media_type: str
    evident_encoding: str
    """See `formats.Document`."""


class Content(Struct, frozen=True, tag=True):
    """A written file."""

    content: bytes
    media_type: str


class Refusal(Struct, frozen=True, tag=True):
    """Why a document is refused, in a line; `field`: of the request."""

    field: str
    message: str


class Failure(Struct, frozen=True, tag=True):
    """A fault of ours, which the process has logged."""

    message: str


Answer = Texts | Content | Refusal | Failure

decode_order = msgspec.msgpack.Decoder(Order).decode
_answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)
decode_answer = _answers.decode
