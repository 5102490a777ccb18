"""A unit of work: how much processor time one fixed piece of work takes on this machine.

Limits of work in this unit are the same on a slow machine as on a fast one. A unit takes a millisecond on an AMD EPYC
of the Zen 4 generation.
"""

from __future__ import annotations

import re
from functools import cache
from time import thread_time

_ROUNDS = 20
_ELEMENT = re.compile(r'<(\w+)(?:\s+(\w+)="([^"]*)")?>([^<]*)</\1>')
_TEXT = '<p class="first">The cat sleeps on the table.</p><b>House</b> and <i id="7">river &amp; door</i>\n' * 240
_MAX_LETTERS = 3_000


class _Element:
    def __init__(self, name: str, text: str, start: int) -> None:
        self.name, self.text, self.start = name, text, start


@cache
def unit_seconds() -> float:
    """Processor seconds of a unit in this process. The first call measures it, in some twenty units.

    The fastest of several rounds counts: what else the machine does only ever adds to a round.
    """
    return min(_seconds() for _ in range(_ROUNDS))


def _seconds() -> float:
    began = thread_time()
    _work()
    return thread_time() - began


def _work() -> int:
    """Does what readers of documents do: searches text, slices it, looks at letters, makes objects and dictionaries."""
    elements, places = list[_Element](), dict[str, list[int]]()
    for found in _ELEMENT.finditer(_TEXT):
        element = _Element(found[1], found[4].replace("&amp;", "&"), found.start())
        elements.append(element)
        for word in element.text.lower().split():
            places.setdefault(word, []).append(element.start)
    letters, at = list[str](), 0
    while at < _MAX_LETTERS:
        letter = _TEXT[at]
        if letter == "&":
            at = _TEXT.index(";", at)
        elif letter.isalpha():
            letters.append(letter)
        at += 1
    return len("".join(letters)) + len(places) + len(elements)
