"""Translates files: from a document's bytes to its translation's. Knows no request; formats are app.formats'."""

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
from app.translation.translator import Translator
from app.translation.types import AUTO, GlossaryOption, Options, TranslatedText, Translations

_MAX_DETECTION_CHARS = 10_000
"""Characters of a document that its language is told by."""
_MARKUP_SUFFIXES = {".docx", ".xliff", ".xlf"}
_MAX_TEXT_BYTES = 4 << 20
"""Of a file that is text, and not mostly markup or pictures: a novel has a fourth of it. While more is taken apart, in
single steps, all others would wait for seconds."""
_MAX_BATCH_CHARS = 10_000
"""Characters of a document that are one request, where it is translated in many."""
_DOCUMENT_THREADS = ThreadPoolExecutor(2, "documents")
"""Documents are taken apart and put together two at a time, for seconds each: the threads in which texts are cut, a few
times the cores, would all be taken."""
MIN_PAUSE_S = 1.0
"""The shortest, before what was refused for load is tried again."""
T = TypeVar("T")


async def open_document(
    name: str,
    content: bytes,
    target: str,
    settings: Settings,
    source: str = AUTO,
    format_options: formats.FormatOptions | None = None,
) -> Document:
    """The document in `content`, of the format that `name` ends in, which is to be translated from `source` into
    `target`.

    Raises WrongContentType, InvalidFields, and TooMuchText if there is more in it than in the texts that a request
    may have.
    """
    if len(content) > _MAX_TEXT_BYTES and PurePath(name).suffix.lower() not in _MARKUP_SUFFIXES:
        raise TooMuchText(f"The file is over the limit of {_MAX_TEXT_BYTES} bytes for text. Split it.")
    try:
        reading = partial(
            formats.read, name, content, target, settings.max_text_chars, source, **(format_options or {})
        )
        document = await _in_document_thread(reading)
    except formats.UnknownFormat as error:
        raise WrongContentType(str(error)) from None
    except formats.UnreadableDocument as error:
        raise InvalidFields.at("#/file", str(error)) from None
    limit = settings.max_text_chars * settings.max_items
    if document.characters > limit:
        raise TooMuchText(f"The file has {document.characters} characters of text, over the limit of {limit}.")
    return document


async def translate_document(
    translator: Translator, document: Document, source: str, target: str, glossary: GlossaryOption = None
) -> tuple[bytes, Translations]:
    """The translated file, and what was done for it. `source` may be AUTO. Raises what the translator does.

    A file with holes is not given: the first error of a passage is raised.
    """
    options = await _options(translator, document, source, target, glossary)
    done = await translator.translate([[passage] for passage in document.passages], options)
    return await _write(document, done.items), done


async def translate_in_batches(
    translator: Translator, document: Document, source: str, target: str, glossary: GlossaryOption
) -> bytes:
    """The translated file, as of `translate_document`, made of many requests one after another, each as long as may be.

    Others have their turn between them, and one that is refused for load is made again.
    """
    options = await _options(translator, document, source, target, glossary)
    items: list[TranslatedText] = []
    for part in _batches(document.passages):
        items += (await retry_while_overloaded(partial(translator.translate, part, options))).items
    return await _write(document, items)


async def retry_while_overloaded(work: Callable[[], Awaitable[T]]) -> T:
    """Returns what `work` returns, calling it again after a pause for as long as it is refused for load."""
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
    return await _in_document_thread(partial(document.write, texts))


async def _in_document_thread(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_DOCUMENT_THREADS, _without_stop_iteration, work)


def _without_stop_iteration(work: Callable[[], T]) -> T:
    """What `work` returns. A future takes no StopIteration, and whoever waited for it would wait for ever."""
    try:
        return work()
    except StopIteration as error:
        raise RuntimeError("A document's reader or writer stopped too early") from error


async def _options(
    translator: Translator, document: Document, source: str, target: str, glossary: GlossaryOption
) -> Options:
    served, into = translator.catalogue.codes(source, target)
    if served == AUTO:
        source = await asyncio.to_thread(_document_language, translator, document, into)
    return Options(source, target, glossary)


def _document_language(translator: Translator, document: Document, target: str) -> str:
    """The language of the document: told by all of it, since a cell of a table may be a word.

    If it has none, or the one wanted, nothing is to be translated, which the translator finds for each passage. Raises
    PairNotServed if it seems to be in no language served, which of a single passage often cannot be told.
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
    told = chosen.detected.language
    return AUTO if told is None or told == target else told
