"""EPUB books: every page of the reading order, the tables of contents (navigation document and NCX), and the book's
title and description; its language becomes the target's.

Pages are read as app/formats/html.py reads them. Other parts stay as they are. EPUB 3.3; OPF 2.0.1 for the NCX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from urllib.parse import unquote

from app.formats import html
from app.formats.document import Content, Slot, TextLocation, UnreadableDocument, content_of_slots
from app.formats.encodings import XML_ENCODING, check_declared_encoding, decode
from app.formats.package import Package
from app.markup.extract import locate_passages
from app.markup.html_tokenizer import Token, tokens
from app.markup.passage import Passage
from model.languages import language_alone

_TYPE = b"application/epub+zip"
_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_PAGES = {"application/xhtml+xml", "text/html"}
_NCX = "application/x-dtbncx+xml"
_MAX_PART_BYTES = 2 << 20
"""For a page, whose tags may take two hundred times as much memory. Programs cut books into pages of a tenth of it."""
_MAX_TEXT_BYTES = 8 << 20
"""For all pages; the longest novels have half of it."""
_LABELS = {"navlabel", "doctitle"}
_ABOUT = {"title", "description"}
_Reader = Callable[[bytes], Content]


def read(content: bytes, target: str = "", source: str = "") -> Content:
    """Reads a book. It will declare `target` as its language where it declares `source`, or if that is "" or auto.

    Raises UnreadableDocument.
    """
    package = Package(content, ".epub", max_text_bytes=_MAX_TEXT_BYTES)
    if package.read("mimetype").strip() != _TYPE:
        raise UnreadableDocument("The file is not .epub: its type is another.")
    package.check()
    parts: dict[str, _Reader] = {}
    for name, reader in _parts(package, target, source):
        parts.setdefault(name, reader)
    if encrypted := next((name for name in _encrypted(package) if name in parts), None):
        raise UnreadableDocument(f"The part {encrypted} is encrypted.")
    passages: list[Passage] = []
    locations: list[TextLocation] = []
    contents: dict[str, Content] = {}
    for name, reader in parts.items():
        found = contents[name] = _read_part(package, name, reader)
        passages += found.passages
        locations += (location._replace(name=name) for location in found.locations)
        package.check_texts(len(passages))

    def write(translations: Sequence[str]) -> bytes:
        assert len(translations) == len(passages)
        remaining = iter(translations)
        written = {name: found.write([next(remaining) for _ in found.passages]) for name, found in contents.items()}
        return package.with_parts(written)

    return Content(passages, write, locations)


def _parts(package: Package, target: str, source: str) -> Iterator[tuple[str, _Reader]]:
    """The names of the parts to translate, in the order in which one reads them, and their readers. Raises
    UnreadableDocument."""
    roots = [e.get("full-path") or "" for e in package.parse(_CONTAINER).iter("{*}rootfile")]
    page = partial(html.read, target=target, source=source)
    if not roots:
        raise UnreadableDocument(f"The part {_CONTAINER} names no book.")
    for opf in dict.fromkeys(roots):
        root = package.parse(opf)
        items = {e.get("id"): e for e in root.iter("{*}item")}
        yield opf, lambda content: _marked_texts(content, _is_about, target, source)
        for item in items.values():
            if "nav" in (item.get("properties") or "").split():
                yield package.resolve(opf, item.get("href") or ""), page
            elif item.get("media-type") == _NCX:
                yield package.resolve(opf, item.get("href") or ""), partial(_marked_texts, is_text=_is_label)
        for reference in root.iter("{*}itemref"):
            found = items.get(reference.get("idref"))
            if found is None:
                idref = (reference.get("idref") or "")[:100]
                raise UnreadableDocument(f"The part {opf} lists {idref!a}, which it does not describe.")
            if found.get("media-type") in _PAGES:
                yield package.resolve(opf, found.get("href") or ""), page


def _encrypted(package: Package) -> list[str]:
    """The parts that a reader has to decrypt: often only fonts."""
    if _ENCRYPTION not in package.parts:
        return []
    return [unquote(e.get("URI") or "") for e in package.parse(_ENCRYPTION).iter("{*}CipherReference")]


def _read_part(package: Package, name: str, reader: _Reader) -> Content:
    if package.parts[name].file_size > _MAX_PART_BYTES:
        raise UnreadableDocument(f"The part {name} is over {_MAX_PART_BYTES >> 20} MiB. Split it.")
    content = package.read(name)
    try:
        return reader(content)
    except UnreadableDocument as error:
        raise UnreadableDocument(f"The part {name} cannot be read: {error}") from None


def _marked_texts(
    content: bytes, is_text: Callable[[Sequence[str]], bool], target: str = "", source: str = ""
) -> Content:
    """The texts of an XML part whose elements, by their names from the root, `is_text` accepts.

    Its text is not parsed as XML, since nothing else of it may change, and an NCX has a DOCTYPE.
    """
    text, encode = decode(content)
    check_declared_encoding(XML_ENCODING.match(text))
    text = "".join(_with_language(text, target, source))
    slots = []
    for at, token, path in _with_paths(text):
        if token.kind == "text" and is_text(path):
            slots += [Slot(at + start, at + end, passage) for start, end, passage in locate_passages(token.raw)]
    return content_of_slots(text, slots, encode)


def _with_language(text: str, target: str, source: str) -> Iterator[str]:
    """The text, with `target` as the book's language if that was `source`."""
    for _, token, path in _with_paths(text):
        if target and token.kind == "text" and path[-2:] == ["metadata", "language"]:
            declared = language_alone(token.raw.strip())
            if declared and language_alone(source) in ("", "auto", declared):
                yield token.raw.replace(token.raw.strip(), target)
                continue
        yield token.raw


def _with_paths(text: str) -> Iterator[tuple[int, Token, list[str]]]:
    """The tokens of XML, with their places and the names of the elements around each, without prefixes."""
    at, path = 0, list[str]()
    for token in tokens(text):
        name = token.name.rpartition(":")[2]
        if token.kind == "close" and name in path[-1:]:
            path.pop()
        yield at, token, path
        if token.kind == "open":
            path.append(name)
        at += len(token.raw)


def _is_label(path: Sequence[str]) -> bool:
    return len(path) > 1 and path[-1] == "text" and path[-2] in _LABELS


def _is_about(path: Sequence[str]) -> bool:
    return len(path) > 1 and path[-2] in ("metadata", "dc-metadata") and path[-1] in _ABOUT
