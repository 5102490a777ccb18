"""Translates files: from a document's bytes to its translation's. Knows no request; formats are app.documents'."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import PurePath
from typing import NamedTuple, TypeVar
from urllib.parse import quote

from app import documents
from app.documents import Document
from app.errands import patiently
from app.errors import InvalidFields, TooMuchText, WrongContentType
from app.glossary import Glossary
from app.passage import Passage
from app.settings import Settings
from app.translation import AUTO, Options, Translated, Translations
from app.translator import Translator
from app.work import check_likely

_UNSAFE = re.compile(r'[^ !#-\[\]-~]|["\\]')
_LONGEST_NAME = 150
_BY_WHICH_TO_TELL = 10_000
"""Characters of a document that its language is told by."""
_MARKED = {".docx", ".xliff", ".xlf"}
_MOST_TEXT_BYTES = 4 << 20
"""Of a file that is text, and not mostly markup or pictures: a novel has a fourth of it. While more is taken apart, in
single steps, all others would wait for seconds."""
_AT_ONCE = 10_000
"""Characters of a document that are one request, where it is translated in many."""
_TWO = ThreadPoolExecutor(2, "documents")
"""Documents are taken apart and put together two at a time, for seconds each: the threads in which texts are cut, a few
times the cores, would all be taken."""
T = TypeVar("T")
Given = Glossary | Mapping[str, str] | str | None
"""A glossary, as Options have it."""


class Opened(NamedTuple):
    """A document to translate, and how many characters of text there are in it."""

    document: Document
    characters: int


async def open_document(name: str, content: bytes, target: str, settings: Settings) -> Opened:
    """The document in `content`, of the format that `name` ends in, which is to be translated into `target`.

    Raises WrongContentType, InvalidFields, and TooMuchText if there is more in it than in the texts that a request
    may have.
    """
    if len(content) > _MOST_TEXT_BYTES and PurePath(name).suffix.lower() not in _MARKED:
        raise TooMuchText(f"The file is over the limit of {_MOST_TEXT_BYTES} bytes for text. Split it.")
    try:
        document = await _in_turn(partial(documents.read, name, content, target, settings.max_text_chars))
    except documents.UnknownFormat as error:
        raise WrongContentType(str(error)) from None
    except documents.UnreadableDocument as error:
        raise InvalidFields.at("#/file", str(error)) from None
    characters = sum(len(passage.text) for passage in document.passages)
    limit = settings.max_text_chars * settings.max_items
    if characters > limit:
        raise TooMuchText(f"The file has {characters} characters of text, over the limit of {limit}.")
    return Opened(document, characters)


async def translate_document(
    translator: Translator, document: Document, source: str, target: str, glossary: Given = None
) -> tuple[bytes, Translations]:
    """The translated file, and what was done for it. `source` may be AUTO. Raises what the translator does.

    A file with holes is not given: the first error of a passage is raised.
    """
    options = Options(await _source(translator, document, source, target), target, glossary)
    done = await translator.translate([[passage] for passage in document.passages], options)
    return await _written(document, done.items), done


async def translate_at_leisure(
    translator: Translator, document: Document, source: str, target: str, glossary: Given
) -> bytes:
    """The translated file, as of `translate_document`, made of many requests one after another, each as long as may be.

    Others have their turn between them, and one that is refused for load is made again.
    """
    options = Options(await _source(translator, document, source, target), target, glossary)
    items: list[Translated] = []
    for part in _parts(document.passages):
        items += (await patiently(partial(translator.translate, part, options))).items
    return await _written(document, items)


def _parts(passages: Sequence[Passage]) -> Iterator[list[list[Passage]]]:
    part, length = list[list[Passage]](), 0
    for passage in passages:
        if part and length + len(passage.text) > _AT_ONCE:
            yield part
            part, length = [], 0
        part.append([passage])
        length += len(passage.text)
    if part:
        yield part


async def _written(document: Document, items: Sequence[Translated]) -> bytes:
    """Raises the first error of an item."""
    texts = []
    for item in items:
        if item.error:
            raise item.error
        texts.append(item.text or "")
    return await _in_turn(partial(document.write, texts))


async def _in_turn(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_TWO, _without_stop, work)


def _without_stop(work: Callable[[], T]) -> T:
    """What `work` returns. A future takes no StopIteration, and whoever waited for it would wait for ever."""
    try:
        return work()
    except StopIteration as error:
        raise RuntimeError("A document's reader or writer stopped too early") from error


async def _source(translator: Translator, document: Document, source: str, target: str) -> str:
    return await asyncio.to_thread(_told, translator, document, target) if source == AUTO else source


def _told(translator: Translator, document: Document, target: str) -> str:
    """The language of the document: told by all of it, since a cell of a table may be a word.

    If it has none, or the one wanted, nothing is to be translated, which the translator finds for each passage. Raises
    PairNotServed if it seems to be in no language served, which of a single passage often cannot be told.
    """
    text, length = [], 0
    for passage in document.passages:
        text.append(passage.text)
        length += len(passage.text)
        if length > _BY_WHICH_TO_TELL:
            break
    detected = translator.detect("\n".join(text)[:_BY_WHICH_TO_TELL])
    if detected.language is None:
        return AUTO
    check_likely(detected, target)
    return AUTO if detected.language == target else detected.language


def download_headers(name: str) -> dict[str, str]:
    """Of an answer that is a file: Content-Disposition (RFC 6266), which names it in any characters, and its safety."""
    name = name[-_LONGEST_NAME:]
    plain = _UNSAFE.sub("_", name)
    disposition = f'attachment; filename="{plain}"'
    if plain != name:
        disposition += f"; filename*=UTF-8''{quote(name, safe='', errors='replace')}"
    # Another's file, shown by a browser as one of ours, could do in our name what it likes.
    return {"Content-Disposition": disposition, "X-Content-Type-Options": "nosniff"}
