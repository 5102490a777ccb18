"""Translates documents, from bytes to bytes; app.documents reads and writes them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeVar

from msgspec import structs

from app import formats
from app.documents.messages import Content, File, Read, ReviewKind, Texts, Write, WriteReview, WriteReviewed
from app.documents.processes import DocumentProcesses
from app.errors import DeadlinePassed, Overloaded, TooMuchText, WrongContentType
from app.formats import TextLocation
from app.formats.units import Reviewed, escape
from app.markup.passage import Passage
from app.runtime import event_loop
from app.settings import Settings
from app.translation.translator import Translator
from app.translation.types import AUTO, Options, TranslatedText, Translations

_MAX_DETECTION_CHARS = 10_000
"""How much of a document is used to detect its language."""
_MARKUP_SUFFIXES = {*formats.PACKED_SUFFIXES, ".xliff", ".xlf"}
_MAX_TEXT_BYTES = 4 << 20
"""Limit for files that are text, rather than mostly markup or pictures; a novel has a fourth of it."""
_MAX_BATCH_CHARS = 10_000
"""Characters per request if a document is translated in several."""
MIN_PAUSE_S = 1.0
"""Minimum pause before a request that was refused as overload is repeated."""
T = TypeVar("T")


@dataclass(frozen=True)
class DocumentFile:
    """A file that a client sent, and the processes that read and write it. Coroutines raise InvalidFields."""

    file: File
    processes: DocumentProcesses
    owner: str
    """The client, for whom the file waits its turn."""

    async def read(self) -> Texts:
        answer = await self.processes.run(Read(self.file), self.owner)
        assert isinstance(answer, Texts)
        return answer

    async def write_reviewed(self, review: bytes) -> Content:
        """The document with the translations of its review in XLIFF."""
        return await self._written(WriteReviewed(self.file, review))

    async def write(self, targets: Sequence[str]) -> Content:
        """The document with a translation in the place of each text."""
        return await self._written(Write(self.file, list(targets)))

    async def write_review(
        self, kind: ReviewKind, languages: tuple[str, str], model: str, reviewed: Sequence[Reviewed]
    ) -> Content:
        """The document's review, with what is known of each text's translation."""
        return await self._written(WriteReview(self.file, kind, languages, model, list(reviewed)))

    async def _written(self, job: Write | WriteReview | WriteReviewed) -> Content:
        answer = await self.processes.run(job, self.owner)
        assert isinstance(answer, Content)
        return answer


@dataclass(frozen=True)
class Document:
    """A document to translate: its texts in order, each with references to its codes in the place of its markup."""

    file: DocumentFile
    passages: Sequence[Passage]
    locations: Sequence[TextLocation]
    media_type: str
    """Of the translated document."""
    evident_encoding: str
    """See `formats.Document`."""

    @cached_property
    def characters(self) -> int:
        """Number of characters to translate."""
        return sum(len(passage.text) for passage in self.passages)


def document_file(
    processes: DocumentProcesses,
    owner: str,
    name: str,
    content: bytes,
    target: str,
    settings: Settings,
    source: str = AUTO,
    format_options: formats.FormatOptions | None = None,
) -> DocumentFile:
    """A file to translate from `source` into `target`; the suffix of `name` decides its format.

    Raises WrongContentType, and TooMuchText for a file of text that is too large.
    """
    try:
        suffix = formats.format_suffix(name)
    except formats.UnknownFormat as error:
        raise WrongContentType(str(error)) from None
    if len(content) > _MAX_TEXT_BYTES and suffix not in _MARKUP_SUFFIXES:
        raise TooMuchText(f"The file is over the limit of {_MAX_TEXT_BYTES} bytes for text. Split it.")
    options = tuple(sorted((format_options or {}).items()))
    file = File(name, content, target, source, settings.max_text_chars, options)  # type: ignore[arg-type]
    return DocumentFile(file, processes, owner)


async def open_document(file: DocumentFile, settings: Settings) -> Document:
    """Reads a document. Raises InvalidFields, and TooMuchText if it has more text than a request may have."""
    texts = await file.read()
    document = await event_loop.run(event_loop.TAG_SIZE * len(texts.units), _document_of, file, texts)
    limit = settings.max_text_chars * settings.max_items
    if document.characters > limit:
        raise TooMuchText(f"The file has {document.characters} characters of text, over the limit of {limit}.")
    return document


def _document_of(file: DocumentFile, texts: Texts) -> Document:
    passages = [
        Passage(unit.text, unit.protected, unit.tags, escape, unit.is_whole, (), unit.terms) for unit in texts.units
    ]
    locations = [unit.location for unit in texts.units]
    return Document(file, passages, locations, texts.media_type, texts.evident_encoding)


async def in_time(settings: Settings, work: Awaitable[T]) -> T:
    """The result of `work`, which is cancelled when the service's deadline for a request passes. Raises
    DeadlinePassed."""
    try:
        async with asyncio.timeout(settings.deadline_ms / 1000):
            return await work
    except TimeoutError:
        raise DeadlinePassed(f"Not finished within {settings.deadline_ms} ms.") from None


async def translate_document(
    translator: Translator, document: Document, options: Options
) -> tuple[bytes, Translations]:
    """Returns the translated file and the translations of its passages.

    Raises the errors of Translator.translate, and the first error of a passage: a file is never returned in part.
    """
    options = await options_for(translator, document, options)
    done = await translator.translate([[passage] for passage in document.passages], options)
    return await _write(document, done.items), done


async def translate_in_batches(translator: Translator, document: Document, options: Options) -> bytes:
    """Translates like `translate_document`, but in several requests, one after another.

    Other requests are served between them. A request that is refused as overload is repeated.
    """
    options = await options_for(translator, document, options)
    items: list[TranslatedText] = []
    for part in _batches(document.passages):
        items += (await retry_while_overloaded(partial(translator.translate, part, options))).items
    return await _write(document, items)


async def retry_while_overloaded(work: Callable[[], Awaitable[T]]) -> T:
    """Returns the result of `work`, called again after a pause as long as it raises Overloaded."""
    while True:
        try:
            return await work()
        except Overloaded as error:
            await asyncio.sleep(max(MIN_PAUSE_S, error.retry_after_s or 0.0))


def _batches(passages: Sequence[Passage]) -> Iterator[list[list[Passage]]]:
    part, length = list[list[Passage]](), 0
    for passage in passages:
        if part and length + passage.size > _MAX_BATCH_CHARS:
            yield part
            part, length = [], 0
        part.append([passage])
        length += passage.size
    if part:
        yield part


async def _write(document: Document, items: Sequence[TranslatedText]) -> bytes:
    """Raises the first error of an item."""
    texts = []
    for item in items:
        if item.error:
            raise item.error
        texts.append(item.text or "")
    return (await document.file.write(texts)).content


async def options_for(translator: Translator, document: Document, options: Options) -> Options:
    """The options for all passages, with the document's language in the place of AUTO. Raises PairNotServed."""
    served, into = translator.catalogue.codes(options.source, options.target)
    if served != AUTO:
        return options
    # It may load the detector.
    language = await asyncio.to_thread(document_language, translator, document, into)
    # If there is nothing to translate, the translator finds that for each passage.
    return structs.replace(options, source=AUTO if language in (None, into) else language)


def document_language(translator: Translator, document: Document, target: str) -> str | None:
    """The language of the whole document, since a passage, such as a table's cell, may be a single word. None if it has
    no words. Raises PairNotServed if it seems to be in no served language, which a single passage often cannot show."""
    text, length = [], 0
    for passage in document.passages:
        text.append(passage.words)
        length += passage.size
        if length > _MAX_DETECTION_CHARS:
            break
    chosen = translator.languages(target).choose("\n".join(text)[:_MAX_DETECTION_CHARS])
    if chosen.error:
        raise chosen.error
    return chosen.detected.language
