"""Shows the model a number where a form of a plural has a placeholder: "25 files" for "%d files".

A model takes a placeholder for a name: "%d files" became "%d de fichiers", and "25 files" becomes "25 fichiers". The
number is a required term of the translation, in which the placeholder replaces it again.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from app.markup.passage import Passage, ProtectedSpan, write_plain

_SAMPLES = {"one": "1", "two": "2", "few": "3"}
_OTHER_SAMPLE = "25"
"""A number of the category in most languages that have it."""
_PLACEHOLDER = re.compile(r"%(?:\d{1,2}\$|\(\w+\))?(?:hh?|ll?|[qjzt])?[diu](?![A-Za-z])|%arg(?!\w)")


def sample_number(category: str) -> str:
    """A number of this plural category."""
    return _SAMPLES.get(category, _OTHER_SAMPLE)


def fits_number(before: str, after: str) -> bool:
    """Whether a number between these texts is a word of its own, and their only one."""
    touches = before[-1:].isalnum() or after[:1].isalnum() or after[:1] in ("%", "'") or before[-1:] in ("#", "%", "-")
    return not touches and not any(map(str.isdigit, before + after))


def numbered_passage(text: str, category: str) -> tuple[Passage, str] | None:
    """A form of a plural with a number in place of its only placeholder for one, and that placeholder; None if it has
    none, or it is unclear which."""
    found = list(_PLACEHOLDER.finditer(text))
    if len(found) != 1 or not fits_number(text[: found[0].start()], text[found[0].end() :]):
        return None
    start, end = found[0].span()
    number = sample_number(category)
    terms = (ProtectedSpan(start, start + len(number), number),)
    write = with_placeholder(write_plain, number, found[0][0])
    return Passage(f"{text[:start]}{number}{text[end:]}", terms=terms, write=write), found[0][0]


def with_placeholder(write: Callable[[str], str], number: str, placeholder: str) -> Callable[[str], str]:
    """`write`, with `placeholder`, as it is, in place of `number`."""
    pattern = re.compile(rf"(?<![0-9]){number}(?![0-9])")
    return lambda text: placeholder.join(map(write, pattern.split(text)))


def first_only(placeholder: str, text: str) -> str:
    """`text` without repetitions of `placeholder`: a program that formats it has one number."""
    before, found, after = text.partition(placeholder)
    return f"{before}{found}{after.replace(placeholder, '')}"
