"""Documents that are packages of XML parts: their paragraphs, and properties that are text, in the order of the parts.

A part is parsed for its passages and again to be written, since its tree takes ten times the memory of its text.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple, Protocol

from app.formats.document import Content, TextLocation, UnreadableDocument
from app.formats.package import Package
from app.formats.xml_parts import Element, alternatives, clean, local_name, parse_xml, serialize
from app.markup.passage import Passage
from app.markup.render import render_source

CORE_PROPERTIES = "package.core-properties+xml"
_PROPERTIES = {"title", "subject", "description"}
"""Document properties that are text for readers (ECMA-376, part 2, chapter 11)."""
_PICTURE_ATTRIBUTES = ("title", "descr")


class Item(Protocol):
    """A part of a tree that is a passage."""

    @property
    def passage(self) -> Passage: ...

    @property
    def element(self) -> Element: ...

    @property
    def may_have_copy(self) -> bool:
        """Whether its text may be in the file twice, for newer and older readers."""

    def fill(self, translation: str) -> None:
        """Replaces the content by the translation's."""


class Property(NamedTuple):
    """An attribute of an element, or its text, without markup."""

    element: Element
    attribute: str = ""

    @property
    def passage(self) -> Passage:
        text = self.element.get(self.attribute) if self.attribute else self.element.text
        return Passage(text or "", write=clean)

    @property
    def may_have_copy(self) -> bool:
        return False

    def fill(self, translation: str) -> None:
        if self.attribute:
            self.element.set(self.attribute, clean(translation))
        else:
            self.element.text = clean(translation)


def core_properties(root: Element) -> list[Item]:
    """The texts of the part that describes an Office document."""
    return with_letters(Property(e) for e in root if local_name(e) in _PROPERTIES and not len(e))


def picture_descriptions(root: Element, name: str) -> list[Item]:
    """The descriptions of pictures and shapes; `name`: that of their elements."""
    pictures = root.iter("{*}" + name)
    return with_letters(Property(e, attribute) for e in pictures for attribute in _PICTURE_ATTRIBUTES)


def with_letters(items: Iterator[Property]) -> list[Item]:
    """Those of `items` that have something to translate."""
    return [item for item in items if any(map(str.isalpha, item.passage.text))]


class Part(NamedTuple):
    """A part to translate."""

    name: str
    items: Callable[[Element], Sequence[Item]]
    """Finds its items in its tree; the same ones in each. Raises UnreadableDocument."""
    finish: Callable[[Sequence[Item]], object] = len
    """Adapts the tree to the items that were filled."""
    label: str = ""
    """Its name for a reader; empty for the main text."""
    counted: str = "paragraph"
    """What its items are called."""


class Parts:
    """The texts of a package's parts, each of which counts where it comes first. Raises UnreadableDocument."""

    def __init__(self, package: Package, parts: Sequence[Part]) -> None:
        self._parts = list({part.name: part for part in reversed(parts)}.values())[::-1]  # a relationship may lead back
        self._contents = {part.name: package.read(part.name) for part in self._parts}
        package.check()  # before the work rather than after it
        self.passages: list[Passage] = []
        self.locations: list[TextLocation] = []
        self.owners: list[str] = []
        """For each passage, the name of its part."""
        for part in self._parts:
            items = part.items(self._parse(part))
            numbered = zip(_translation_numbers(items), (item.passage for item in items), strict=True)
            passages = list(dict(numbered).values())
            self.passages += passages
            self.owners += [part.name] * len(passages)
            before = f"{part.label}, " if part.label else ""
            self.locations += (
                TextLocation(name=f"{before}{part.counted} {number}") for number in range(1, len(passages) + 1)
            )
            package.check_texts(len(self.passages))

    def filled(self, translations: Sequence[str]) -> dict[str, bytes]:
        """The parts that these translations change, by name, each as it will be."""
        assert len(translations) == len(self.passages)
        remaining = iter(translations)
        changed = {}
        for part in self._parts:
            root = self._parse(part)
            if filled := _fill_part(part.items(root), remaining):
                part.finish(filled)
                changed[part.name] = serialize(root)
        return changed

    def content(self, package: Package) -> Content:
        """The document, if nothing depends on these parts."""
        return Content(self.passages, lambda texts: package.with_parts(self.filled(texts)), self.locations)

    def _parse(self, part: Part) -> Element:
        return parse_xml(self._contents[part.name], f"The part {part.name}")


def office_types(package: Package, main: str, kind: str) -> dict[str, str]:
    """The content types of an Office document's parts. Raises UnreadableDocument if none ends in `main`; `kind`: what
    the document then is not."""
    types = package.content_types()
    if not any(each.endswith(main) for each in types.values()):
        has_macros = any("macroEnabled" in each for each in types.values())
        raise UnreadableDocument(
            f"The file has macros; save it as {package.suffix}."
            if has_macros
            else f"The file is not {kind}: it has no main part."
        )
    return types


def _translation_numbers(items: Sequence[Item]) -> list[int]:
    """Numbers the translations; both copies of a text get the same one."""
    numbers: dict[Hashable, int] = {}
    around = alternatives(item.element for item in items)
    keys = (
        (copies, item.passage) if item.may_have_copy and copies is not None else object()
        for item, copies in zip(items, around, strict=True)
    )
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _fill_part(items: Sequence[Item], remaining: Iterator[str]) -> list[Item]:
    """Inserts the part's translations, and returns the items that these changed."""
    filled = list[Item]()
    translations: list[str] = []
    for number, item in zip(_translation_numbers(items), items, strict=True):
        if number == len(translations):
            translations.append(next(remaining))
        if translations[number] != render_source(item.passage):
            item.fill(translations[number])
            filled.append(item)
    return filled
