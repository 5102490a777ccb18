"""Translates documents, from bytes to bytes; app.formats reads and writes them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import PurePath
from typing import TypeVar

from app import formats
from app.errors import InvalidFields, Overloaded, TooMuchText, WrongContentType
from app.formats import Document
from app.markup.passage import Passage
from app.settings import Settings
from app.translation.memory import MemoryOption
from app.translation.translator import Translator
from app.translation.types import AUTO, GlossaryOption, Options, TranslatedText, Translations

_MAX_DETECTION_CHARS = 10_000
"""How much of a document is used to detect its language."""
_MARKUP_SUFFIXES = {".docx", ".pdf", ".pptx", ".xlsx", ".odt", ".ods", ".odp", ".epub", ".xliff", ".xlf"}
_MAX_TEXT_BYTES = 4 << 20
"""Limit for files that are text, rather than mostly markup or pictures; a novel has a fourth of it. Parsing a larger
file, in single steps, would delay all other requests by seconds."""
_MAX_BATCH_CHARS = 10_000
"""Characters per request if a document is translated in several."""
_DOCUMENT_THREADS = ThreadPoolExecutor(2, "documents")
"""Reading or writing a document can take seconds. With threads of their own, two at a time, documents cannot occupy all
the threads that prepare texts."""
MIN_PAUSE_S = 1.0
"""Minimum pause before a request that was refused as overload is repeated."""
T = TypeVar("T")


async def open_document(
    name: str,
    content: bytes,
    target: str,
    settings: Settings,
    source: str = AUTO,
    format_options: formats.FormatOptions | None = None,
    read: Callable[..., Document] = formats.read,
) -> Document:
    """Reads `content` as a document to translate from `source` into `target`; the suffix of `name` decides its format.

    Raises WrongContentType, InvalidFields, and TooMuchText if it has more text than a request may have.
    """
    if len(content) > _MAX_TEXT_BYTES and PurePath(name).suffix.lower() not in _MARKUP_SUFFIXES:
        raise TooMuchText(f"The file is over the limit of {_MAX_TEXT_BYTES} bytes for text. Split it.")
    try:
        reading = partial(read, name, content, target, settings.max_text_chars, source, **(format_options or {}))
        document = await in_document_thread(reading)
    except formats.UnknownFormat as error:
        raise WrongContentType(str(error)) from None
    except formats.WrongOption as error:
        raise InvalidFields.at(f"#/{error.option}", str(error)) from None
    except formats.UnreadableDocument as error:
        raise InvalidFields.at("#/file", str(error)) from None
    limit = settings.max_text_chars * settings.max_items
    if document.characters > limit:
        raise TooMuchText(f"The file has {document.characters} characters of text, over the limit of {limit}.")
    return document


async def translate_document(
    translator: Translator,
    document: Document,
    source: str,
    target: str,
    glossary: GlossaryOption = None,
    memory: MemoryOption | None = None,
) -> tuple[bytes, Translations]:
    """Returns the translated file and the translations of its passages. `source` may be AUTO.

    Raises the errors of Translator.translate, and the first error of a passage: a file is never returned in part.
    """
    options = await options_for(translator, document, source, target, glossary, memory)
    done = await translator.translate([[passage] for passage in document.passages], options)
    return await _write(document, done.items), done


async def translate_in_batches(
    translator: Translator,
    document: Document,
    source: str,
    target: str,
    glossary: GlossaryOption,
    memory: MemoryOption | None = None,
) -> bytes:
    """Translates like `translate_document`, but in several requests, one after another.

    Other requests are served between them. A request that is refused as overload is repeated.
    """
    options = await options_for(translator, document, source, target, glossary, memory)
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
    return await in_document_thread(partial(document.write, texts))


async def in_document_thread(work: Callable[[], T]) -> T:
    """The result of `work`, which reads or writes a document."""
    return await asyncio.get_running_loop().run_in_executor(_DOCUMENT_THREADS, _without_stop_iteration, work)


def _without_stop_iteration(work: Callable[[], T]) -> T:
    """Calls `work`. A future does not accept StopIteration: a task that awaits it would wait for ever."""
    try:
        return work()
    except StopIteration as error:
        raise RuntimeError("a document's reader or writer stopped early") from error


async def options_for(
    translator: Translator,
    document: Document,
    source: str,
    target: str,
    glossary: GlossaryOption,
    memory: MemoryOption | None,
) -> Options:
    """The options for all passages; `source` may be AUTO. Raises PairNotServed."""
    served, into = translator.catalogue.codes(source, target)
    if served == AUTO:
        source = await asyncio.to_thread(_document_language, translator, document, into)
    return Options(source, target, glossary, memory=memory)


def _document_language(translator: Translator, document: Document, target: str) -> str:
    """The language of the whole document, since a passage, such as a table's cell, may be a single word.

    AUTO if it has no words, or is in `target`: then the translator finds for each passage that there is nothing to
    translate. Raises PairNotServed if it seems to be in no served language, which a single passage often cannot show.
    """
    text, length = [], 0
    for passage in document.passages:
        text.append(passage.words)
        length += passage.size
        if length > _MAX_DETECTION_CHARS:
            break
    chosen = translator.languages(target).choose("\n".join(text)[:_MAX_DETECTION_CHARS])
    if chosen.error:
        raise chosen.error
    language = chosen.detected.language
    return AUTO if language is None or language == target else language
