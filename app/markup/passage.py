"""What is handed to the translator: text, what in it is no text, and how its format writes characters.

Knows no format and no model. Offsets are code points of the passage's text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

_BEGIN, _END = "\ufdd2", "\ufdd3"
"""Noncharacters, which Unicode leaves to a process's own use."""
_REFERENCE = re.compile(f"{_BEGIN}([0-9]+){_END}")
VALUE = "{x}"
"""What a passage's text has for a value that has no text of its own: a name, a number that a program puts in."""
OBJECT = "\ufffc"
"""The same for a picture, a form's field, half of a pair of codes: at the edge of a sentence it is no part of it."""


class Kept(NamedTuple):
    """Characters [start, end) that the model does not see: the translation has `raw`, as it is, in their place, once.

    A placeholder, whose `raw` is itself; a glossary's term, with the translation demanded; an element not to be
    translated, with its tags.
    """

    start: int
    end: int
    raw: str


class Tag(NamedTuple):
    """Markup that stands before the character `at`; the text does not hold it, and the translation has `raw`, once.

    An `open` and its `close` nest as in HTML and go around the words that translate those between them; a `mark`, such
    as a line break or a comment, stands by itself and goes where the words beside it go.
    """

    at: int
    raw: str
    kind: Literal["open", "close", "mark"] = "mark"
    space: bool = False
    """Of a mark: it is white space itself (`&nbsp;`), and takes the place of a space that is beside it there."""


class Inset(NamedTuple):
    """A passage within the `raw` of another one, where `reference(number)` stands for it: a picture's description.

    No two of a text have the same number.
    """

    number: int
    passage: Passage


def reference(number: int) -> str:
    """What stands for the inset of that number."""
    return f"{_BEGIN}{number}{_END}"


def can_refer(text: str) -> bool:
    """Whether `text` has nothing that would be taken for a reference."""
    return _BEGIN not in text


def filled(text: str, inset: Callable[[int], str | None]) -> str:
    """`text` with what `inset` gives for each number in the place of its reference; of None the reference stays."""

    def named(found: re.Match[str]) -> str:
        inside = inset(int(found[1]))
        return found[0] if inside is None else inside

    return text if can_refer(text) else _REFERENCE.sub(named, text)


def as_it_is(text: str) -> str:
    """How plain text writes text."""
    return text


@dataclass(frozen=True)
class Passage:
    """Text that is translated as a whole: a paragraph, a heading, a string of a catalogue.

    `kept` ranges do not overlap, and are in order; `tags` are in the order in which they stand, well nested, every
    `open` with its `close`, and none inside a kept range. `write` gives translated text, in pieces, the spelling of the
    format: escapes. It is not asked about what `raw` says. One that is `whole` is a sentence, whatever ends are in it.
    """

    text: str
    kept: tuple[Kept, ...] = ()
    tags: tuple[Tag, ...] = ()
    write: Callable[[str], str] = as_it_is
    whole: bool = False
    insets: tuple[Inset, ...] = ()

    @property
    def size(self) -> int:
        """Characters to translate."""
        return len(self.text) + sum(inset.passage.size for inset in self.insets)

    @property
    def words(self) -> str:
        """All its text, for its language to be told by."""
        return "\n".join([self.text, *(inset.passage.words for inset in self.insets)])


Piece = str | Passage
"""Of something to translate, in order: what is copied as it is, and passages."""


class Link(NamedTuple):
    """Characters [start, end) of a sentence and of its translation that belong together: mostly parts of words.

    Links are in the order of the translation, where they do not overlap, and together cover it.
    """

    source: tuple[int, int]
    target: tuple[int, int]
