"""Removes blanks that a model leaves where no writer would: two in a row, before a full stop, at the ends.

A symbol that is forced or forbidden leaves behind the space that the model wrote for it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from app.text.repeated_punctuation import apply_edits
from app.text.word_units import OPAQUE
from model.languages import WITHOUT_SPACES, language_alone

_NARROW = r"[\u00a0\u202f]"
_RUNS = rf" (?<=\A ) *|  *\Z| (?=\s)| (?<={_NARROW} )"
"""Each alternative, here and below, begins with its space: `re` then skips other characters."""
_STOPS, _OTHER_MARKS = r"[.,]", r"[.,;:!?]"
_AFTER = r"(?=[\s\"'»”’)\]]|\Z)"
"""After a mark that ends something: .NET and :id begin with one."""
_WIDE_MARKS = r"[\u3001\u3002\uff01\uff09\uff0c\uff1a\uff1b\uff1f]"
_IDEOGRAPH = r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
_BRACKETS = r" (?<=[(\[] )| (?=[)\]])"
_SPACED_MARK = re.compile(rf"\s(?:{_OTHER_MARKS}{_AFTER}|[)\]]|{_WIDE_MARKS})|[(\[]\s")


def _stray(marks: str, more: str = "") -> re.Pattern[str]:
    return re.compile(rf"{_RUNS}| (?={marks}{_AFTER})| (?={_WIDE_MARKS})|{_BRACKETS}{more}")


_ALWAYS = re.compile(_RUNS)
_SPACED, _PLAIN = _stray(_STOPS), _stray(_OTHER_MARKS)
_UNSPACED = _stray(_OTHER_MARKS, rf"| (?<={_IDEOGRAPH} )(?={_IDEOGRAPH}|\Z)")


def without_stray_blanks(
    texts: Sequence[str], protected: Collection[int], source: str, source_language: str, language: str
) -> list[str]:
    """`texts`, which together translate `source` into `language`, without stray blanks.

    `protected`: the indices of texts that are followed by protected text. If the source itself has a blank before a
    mark or inside a bracket, the translation keeps its own; likewise between ideographs, if the source is in such a
    language.
    """
    if " " not in "".join(texts):
        return list(texts)
    shown = [text + OPAQUE if number in protected else text for number, text in enumerate(texts)]
    stray = _pattern(source, source_language, language).finditer("".join(shown))
    if not (edits := [(*found.span(), "") for found in stray]):
        return list(texts)
    kept = apply_edits(shown, edits)
    return [text[:-1] if number in protected else text for number, text in enumerate(kept)]


def _pattern(source: str, source_language: str, language: str) -> re.Pattern[str]:
    if _SPACED_MARK.search(source):
        return _ALWAYS
    language = language_alone(language)
    if language in WITHOUT_SPACES and language_alone(source_language) not in WITHOUT_SPACES:
        return _UNSPACED
    return _SPACED if language == "fr" else _PLAIN
