"""What is handed to the translator: text, what in it is no text, and how its format writes characters.

Knows no format and no model. Offsets are code points of the passage's text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple


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


Piece = str | Passage
"""Of something to translate, in order: what is copied as it is, and passages."""


class Link(NamedTuple):
    """Characters [start, end) of a sentence and of its translation that belong together: mostly parts of words.

    Links are in the order of the translation, where they do not overlap, and together cover it.
    """

    source: tuple[int, int]
    target: tuple[int, int]
