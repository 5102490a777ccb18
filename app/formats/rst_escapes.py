"""Writes a translated text of reStructuredText, so that its markup is markup and nothing else is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from docutils.parsers.rst.states import Body
from docutils.utils import escape2null, punctuation_chars

from app.formats.rst_inline import CLOSE, END, OPEN, WHOLE, Scan, boundaries, restored, unescaped

_PART = re.compile(f"([{OPEN}{CLOSE}{WHOLE}])([^{END}]*){END}")
_NO_MARKS = re.compile("(?!)")
_ALL_MARKS = re.compile(r"[*`|<>]|_(?!\w)|(?<!\w)_")
_CLASSIFIER = re.compile("(?<= ):(?= |\\Z)")
_LINE_MARK = re.compile(rf"(?:{Body.patterns['line']})\Z")
_BLOCK_MARKS = [
    re.compile(getattr(pattern, "pattern", pattern)) for name, pattern in Body.patterns.items() if name != "text"
]
_NEVER_FIRST = tuple("。，、；：？！）」』】》…")
"""Marks that begin no line; docutils would put a space before them."""
_ATTRIBUTION = re.compile(r"(?:---?(?!-)|\u2014) *(?=[^ \n])")


class _Part(NamedTuple):
    kind: str
    """OPEN, CLOSE or WHOLE, with `text` as the markup; "" if that is text."""
    text: str


class Escape(NamedTuple):
    """What has a special meaning in a text beside inline markup."""

    begins_block: bool
    is_quoted: bool
    is_term: bool


def encode_text(translation: str, source: str, escape: Escape) -> list[str] | None:
    """The lines of `translation`, whose markup is marked, in reStructuredText; None if there is no way to write it.

    `source`: the source of the text.
    """
    parts = list(_separate(_parts(translation)))
    anonymous = Scan(escape2null(source)).anonymous()
    if len(anonymous) > 1 and anonymous != [part.text for part in parts if part.text in anonymous and part.kind]:
        return None
    for marks in (_NO_MARKS, _needed_marks(), _ALL_MARKS):
        text = _joined(parts, marks, escape.is_term)
        if _is_as_expected(text, parts):
            return _with_escaped_beginnings(text, bool(parts and parts[0].kind), escape)
    return None


def _parts(translation: str) -> Iterator[_Part]:
    done = 0
    for found in _PART.finditer(translation):
        if done < found.start():
            yield _Part("", translation[done : found.start()])
        yield _Part(found[1], found[2])
        done = found.end()
    if done < len(translation):
        yield _Part("", translation[done:])


def _separate(parts: Iterator[_Part]) -> Iterator[_Part]:
    """The parts, with markup around text alone, which neither begins nor ends with white space: markup does not nest,
    so what a translation has around other markup goes around the texts beside that."""
    opening, inside = "", list[_Part]()
    for part in parts:
        if part.kind == OPEN and not opening:
            opening, inside = part.text, []
        elif not opening:
            yield part
        elif part.kind != CLOSE:
            inside.append(part)
        else:
            for inner in inside:
                if inner.kind or not inner.text.strip():
                    yield inner
                    continue
                text = inner.text
                yield _Part("", text[: len(text) - len(text.lstrip())])
                yield from _marked(opening, text.strip(), part.text)
                yield _Part("", text[len(text.rstrip()) :])
            opening = ""
    yield from inside if opening else ()


def _marked(opening: str, text: str, closing: str) -> Iterator[_Part]:
    """Text within markup; a reference to what it says needs no more than itself."""
    if closing != f" <{text}_>`__":
        yield from (_Part(OPEN, opening), _Part("", text), _Part(CLOSE, closing))
    elif text.isalpha():
        yield _Part(WHOLE, f"{text}_")
    else:
        yield from (_Part(OPEN, "`"), _Part("", text), _Part(CLOSE, "`_"))


@cache
def _needed_marks() -> re.Pattern[str]:
    """Characters that may be markup, judging by their neighbours; at its ends a piece of text may touch anything."""
    opening, delimiters = punctuation_chars.openers, punctuation_chars.delimiters
    closing = punctuation_chars.closing_delimiters + delimiters + punctuation_chars.closers
    before, after = rf"(?:(?<=[\s{opening}{delimiters}])|(?<!.))", rf"(?=[\s{closing}]|\Z)"
    return re.compile(rf"{before}(?:[*`|](?=\S|\Z)|_(?=`))|`|(?<=[\w\]|`])_(?=_?{after})", re.DOTALL)


def _joined(parts: Sequence[_Part], marks: re.Pattern[str], is_term: bool) -> str:
    """The text of the parts: escaped, and with an escaped blank where markup touches what it must not."""
    may_precede, may_follow = boundaries()
    text, is_inside, after_markup = "", False, False
    for part in parts:
        if not part.text:
            continue
        added = part.text if part.kind else _escaped(part.text, marks, is_inside, is_term)
        if part.kind in (OPEN, WHOLE) and text and not may_precede.match(text[-1]):
            text += "\\ "
        elif part.kind == WHOLE and text and punctuation_chars.match_chars(text[-1], added.lstrip("*`|_")[:1] or " "):
            text += "\\ "  # in a pair of quotation marks or brackets it would be text
        elif after_markup and not may_follow.match(added[0]):
            text += "\\ "
        text += added
        is_inside = part.kind == OPEN or (is_inside and part.kind != CLOSE)
        after_markup = part.kind in (CLOSE, WHOLE)
    return text


def _escaped(text: str, marks: re.Pattern[str], is_inside: bool, is_term: bool) -> str:
    text = text.replace("\\", "\\\\")
    if is_inside:
        return _ALL_MARKS.sub(r"\\\g<0>", text)
    text = marks.sub(r"\\\g<0>", text)
    return _CLASSIFIER.sub(r"\\:", text) if is_term else text


def _is_as_expected(text: str, parts: Sequence[_Part]) -> bool:
    """Whether docutils would find the markup and the text of the parts, and no other."""
    scan, shown, done = Scan(escape2null(text)), "", 0
    expected = [part for part in parts if part.kind in (OPEN, WHOLE)]
    if scan.failures or len(scan.found) != len(expected):
        return False
    for markup, part in zip(scan.found, expected, strict=True):
        if not restored(scan.text[markup.start : markup.end]).startswith(part.text):
            return False
        shown += unescaped(scan.text[done : markup.start])
        if part.kind == OPEN:
            shown += unescaped(scan.text[markup.inner : markup.inner_end])
        done = markup.end
    return shown + unescaped(scan.text[done:]) == "".join(part.text for part in parts if not part.kind)


def _with_escaped_beginnings(text: str, is_markup: bool, escape: Escape) -> list[str]:
    """The lines of `text`, escaped so that nothing begins another block."""
    lines = list[str]()
    for line in filter(None, map(str.strip, text.split("\n"))):
        if lines and line.startswith(_NEVER_FIRST):
            lines[-1] += line
        else:
            lines.append(line)
    for number, line in enumerate(lines):
        is_block = number == 0 and escape.begins_block and any(pattern.match(line) for pattern in _BLOCK_MARKS)
        is_attribution = number == 0 and escape.is_quoted and _ATTRIBUTION.match(line)
        if is_block or is_attribution or _LINE_MARK.match(line):
            lines[number] = f"\\ {line}" if is_markup and number == 0 else f"\\{line}"
    return lines
