"""Strings of catalogues in any format: messages with branches, labels with mnemonics, or plain text; and plurals."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from app.formats.document import Content, Slot, check_branches, check_count, content_of_slots
from app.markup.passage import Passage, Piece
from app.text import icu_messages, mnemonics
from app.text.plural_categories import target_branches
from app.text.plural_numbers import first_only, numbered_passage

_SHOWN_NUMBER = re.compile(r"[%#{]")
"""What a string that displays its number has."""


class CatalogueString(NamedTuple):
    """`pieces` to translate, and `finish`, which completes the string once they are joined."""

    pieces: Sequence[Piece]
    finish: Callable[[str], str] = str

    @property
    def passages(self) -> list[Passage]:
        return [piece for piece in self.pieces if isinstance(piece, Passage)]


class Value(NamedTuple):
    """Characters [start, end) of a file that hold a string: its `text`, and how the file writes a translation.

    `pieces`: what to translate, if it is not `text`; they are already in the file's spelling. `adds`: see Slot.
    `category`: of a form of a plural.
    """

    start: int
    end: int
    text: str
    encode: Callable[[str], str]
    name: str = ""
    adds: bool = False
    pieces: Sequence[Piece] | None = None
    category: str = ""


class PluralItem(NamedTuple):
    """One form of a plural, characters [start, end) of a file, for a `category`, whose name is at `name`.

    `opening`: what is before the name of a new form, if it is not what is before this one.
    """

    category: str
    name: tuple[int, int]
    start: int
    end: int
    value: Value
    opening: str = ""


def read_string(text: str, target: str, marks: frozenset[str]) -> CatalogueString:
    """`target`: the language to translate into; `marks`: the mnemonic marks that its catalogue certainly uses."""
    if (pieces := icu_messages.message_pieces(text, target)) is not None:
        return CatalogueString(pieces)
    if labelled := mnemonics.remove_mnemonic(text, marks):
        label, mnemonic = labelled
        return CatalogueString([Passage(label)], lambda translation: mnemonic.insert_into(translation, target))
    return CatalogueString([Passage(text)])


def read_form(text: str, category: str) -> CatalogueString | None:
    """A form of a plural that shows a number; None if it shows none, or `category` is ""."""
    if not category or not (found := numbered_passage(text, category)):
        return None
    passage, placeholder = found
    return CatalogueString([passage], partial(first_only, placeholder))


def catalogue_content(
    text: str,
    values: Iterable[Value],
    target: str,
    encode: Callable[[str], bytes],
    read: Callable[[str, str, frozenset[str]], CatalogueString] = read_string,
) -> Content:
    """The catalogue `text`, of which only these values may change. `read` finds what to translate in each."""
    found = sorted(_bounded(one for one in values if one.adds or _has_letters(one)), key=lambda value: value.start)
    marks = mnemonics.mnemonic_marks(value.text for value in found if value.pieces is None)
    slots, count = list[Slot](), 0
    for value in found:
        check_branches(count, len(text))
        if value.pieces is not None or not _has_letters(value):
            pieces = [value.text] if value.pieces is None else value.pieces
            slots.append(Slot(value.start, value.end, pieces, value.encode, value.name, adds=value.adds))
            count += len(slots[-1].passages)
            continue
        string = read_form(value.text, value.category) or read(value.text, target, marks)
        encoded = partial(_encode, string, value.encode)
        slots.append(Slot(value.start, value.end, string.pieces, encoded, value.name, adds=value.adds))
        count += len(string.passages)
    check_branches(count, len(text))
    return content_of_slots(text, slots, encode)


def plural_values(text: str, items: Sequence[PluralItem], target: str, kept: tuple[str, ...] = ()) -> Iterator[Value]:
    """The values of a plural with one form for each category of `target`; forms are added and removed.

    `kept`: categories that readers use in every language.
    """
    by_category = {item.category: item for item in items}
    if len(by_category) < len(items):
        yield from (item.value for item in items)
        return
    shows = {category: _SHOWN_NUMBER.search(item.value.text) is not None for category, item in by_category.items()}
    branches = target_branches(shows, target, kept=kept)
    names = {branch.name for branch in branches}
    for item in items:
        if item.category not in names:
            yield Value(_before_space(text, item.start), item.end, "", str, adds=True, pieces=())
    for number, (name, source) in enumerate(branches):
        model = by_category[source]
        if name == source:
            yield model.value._replace(category=name)
        elif name in by_category:
            own = by_category[name].value
            value = model.value._replace(start=own.start, end=own.end, name=own.name, adds=True)
            yield value._replace(category="many")  # the number is not 1
        else:
            following = next(by_category[one.name] for one in branches[number + 1 :] if one.name in by_category)
            yield _new_form(text, name, model, following.start)


def _new_form(text: str, category: str, model: PluralItem, place: int) -> Value:
    """A form of `category` before the one at `place`, written like `model`."""
    gap = text[_before_space(text, place) : place]
    (name_start, name_end), value = model.name, model.value
    before = f"{model.opening or text[model.start : name_start]}{category}{text[name_end : value.start]}"
    encode = partial(written, before, text[value.end : model.end] + gap, value.encode)
    name = f"{value.name.removesuffix(model.category)}{category}"
    return Value(place, place, value.text, encode, name, True, value.pieces, category)


def written(opening: str, closing: str, encode: Callable[[str], str], content: str) -> str:
    """Encoded `content` between what is around it in the file."""
    return f"{opening}{encode(content)}{closing}"


def _before_space(text: str, place: int) -> int:
    """Where the white space before `place` begins."""
    while place and text[place - 1].isspace():
        place -= 1
    return place


def _bounded(values: Iterable[Value]) -> Iterator[Value]:
    """`values`, as long as those with text are not too many. Raises UnreadableDocument."""
    count = 0
    for value in values:
        count += _has_letters(value)
        check_count(count)
        yield value


def _has_letters(value: Value) -> bool:
    if value.pieces is not None:
        return any(isinstance(piece, Passage) for piece in value.pieces)
    return any(map(str.isalpha, value.text))


def _encode(string: CatalogueString, encode: Callable[[str], str], translation: str) -> str:
    return encode(string.finish(translation))
