"""Finds text that must not be translated: placeholders, tags, URLs, code, symbols, words in a foreign script.

Most patterns are in `app.text.placeholder_patterns`; symbols, and what is a code, in `app.text.symbols`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache, cached_property

from app.markup.passage import ProtectedSpan
from app.text.placeholder_patterns import (
    CHUNK,
    EMPHASIS,
    FILE_NAME,
    GLUE,
    LATIN,
    LINK_TARGET,
    PATH,
    PLACEHOLDER,
    TEXT_EMOJI,
    URL,
)
from app.text.symbols import KEPT, KEPT_RUN, PICTURES, is_code, is_nesting, nesting_pairs
from model.languages import language_alone
from model.scripts import foreign_letters

_ROOT_FOLDERS = frozenset(
    ["bin", "boot", "dev", "etc", "home", "lib", "mnt", "opt", "proc", "root", "run", "srv", "sys", "tmp", "usr", "var"]
)
_WORD_BEFORE, _CHUNK_BEFORE = re.compile(rf"[{LATIN}]"), re.compile(rf"[{LATIN}.+~-]")
_FORMATTED_ARGUMENT = re.compile(
    r"\s*[\w.-]*\s*,\s*(?:plural|select|selectordinal|number|date|time|spellout|ordinal|duration)\b"
)
"""The beginning of an argument of ICU's MessageFormat."""
_MAX_BRACE_CHARS, _MAX_BRACE_WORDS = 120, 4
"""Maximum characters and words in braces: more is a sentence that happens to be in braces."""
_BRACES, _BRACKETS = re.compile(r"[{}]"), re.compile(r"[\[\]]")
_DELIMITERS = {"<!--": "-->", "<![CDATA[": "]]>", "<?": "?>", "<%": "%>"}
_CAMEL_CASE_LANGUAGES = {"ga", "gd", "xh", "zu"}
"""Languages whose ordinary words have inner capitals: "bhFuil", "isiZulu"."""
_PERCENT_FIRST_LANGUAGES = {"eu", "tr"}
"""Languages that write %50."""
_TRAILING_PUNCTUATION = ".,;:!?'*~"


def find_placeholders(text: str, language: str) -> list[ProtectedSpan]:
    """The parts of `text`, which is in `language`, to keep unchanged: in order, not overlapping, each its own `raw`."""
    trigger, foreign = _triggers(language)
    if not trigger.search(text):  # as for most sentences
        return []
    found = _joined(text, _Scan(text, language, foreign).matches(trigger))
    return [ProtectedSpan(start, end, text[start:end]) for start, end in found]


def _joined(text: str, found: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """What is `found`, with codes that touch, or have only punctuation between them, as one: "{a}-{b}", "#{n}"."""
    start = end = 0
    nests = False
    for first, last in found:
        is_mark = is_nesting(text[first:last])
        if end and not (nests or is_mark) and GLUE.fullmatch(text, end, first):
            end = last
            continue
        if end:
            yield start, end
        start, end, nests = first, last, is_mark
    if end:
        yield start, end


@cache
def _triggers(language: str) -> tuple[re.Pattern[str], re.Pattern[str] | None]:
    """Finds candidates to examine: a character class, or a run of letters in a foreign script."""
    letters = foreign_letters(language)
    always = rf"{KEPT}{{\[%$&`\\/:{TEXT_EMOJI}{PICTURES}{letters}"
    # If a pattern begins with a single class, `re` skips other characters without attempting a match.
    trigger = (
        rf"[.(+\-=A-Z0-9{always}](?:(?<=[{always}])|(?<=\+)(?=\d)|(?<=\w\+)(?=[A-Za-z])|(?<=\.)(?=\w)|(?<=[\w\]]\()"
        r"|(?<![\w-]-)(?<=-)(?=-?[A-Za-z])|(?<=-)(?=>[A-Za-z]|[dDmM]{2}\b)|(?<=[a-z][A-Z])|(?<=\w=)(?=[\w\"'])"
        r"|(?<=[0-9])(?:(?<=[A-Za-z-].)|(?=[A-Za-z\-\ufe0f\u20e3])|(?=\.\d)|(?=[,;]? \d|[\u00a0;]\d)))"
    )
    between = r"[ \u00a0\u200c\u200d\u0300-\u036f.,;:!?'’\-–—·•、。，；：？！「」『』（）《》0-9\u0660-\u0669]"
    run = rf"[{letters}]++(?:{between}{{1,4}}+[{letters}]++)*+[、。，；：？！」』）》]*"
    return re.compile(trigger), re.compile(run) if letters else None


class _Scan:
    """One scan of a text from left to right; properties of the whole text are computed once."""

    def __init__(self, text: str, language: str, foreign: re.Pattern[str] | None) -> None:
        self.text, self.foreign = text, foreign
        self.camel = language_alone(language) not in _CAMEL_CASE_LANGUAGES
        self.percent_first = language_alone(language) in _PERCENT_FIRST_LANGUAGES
        self._closings: dict[str, int] = {}
        self._no_path_before = self._no_chunk_before = 0

    def matches(self, trigger: re.Pattern[str]) -> Iterator[tuple[int, int]]:
        """The texts to keep, in order."""
        search, place = trigger.search, 0
        while hit := search(self.text, place):
            if found := self._match_at(hit.start(), place):
                yield found
                place = found[1]
            else:
                place = hit.end()

    def _match_at(self, place: int, floor: int) -> tuple[int, int] | None:
        """The text to keep around the character at `place`, beginning at `floor` or later."""
        character = self.text[place]
        if character == "[" and (link := self._link(place, floor)):
            return link
        if character == "]" and (target := LINK_TARGET.match(self.text, place)):
            return target.span()
        if character > "\u036f" and self.foreign and (run := self.foreign.match(self.text, place)):
            return place - (place > floor and self.text[place - 1] in "「『（《"), run.end()
        end = 0
        if character in "{$#%@":
            end = self._braced(place)
        elif character in "`~":
            end = self._code(place)
        elif character == "<":
            end = self._delimited(place)
        if end:
            return place, end
        joins = character.isalnum() or (character in ".:/+-=%" and not self.text.startswith(":\\", place))
        found = self._chunk(place, floor) if joins else None
        found = found or (None if character in "{`" else self._word(place, floor))
        found = found or (self._emphasis.get(place) if character in "*_~\\" else None) or self._chunk(place, floor)
        run = None if found else KEPT_RUN.match(self.text, place)
        return run.span() if run else found

    def _chunk(self, place: int, floor: int) -> tuple[int, int] | None:
        """The code around the character at `place`, without the punctuation around it."""
        if place < self._no_chunk_before:
            return None
        start = self._extend_left(CHUNK, place, floor)
        end = found.end() if (found := CHUNK.match(self.text, start)) else start
        chunk = self.text[start:end]
        first = len(chunk) - len(chunk.lstrip("('‘’¿¡"))
        last = len(chunk.rstrip(").,;!?'’" + ":" * (chunk[:2] != "::")))
        last += chunk[last : last + 1] == ")" and chunk.count("(", first, last) > chunk.count(")", first, last)
        is_part = "</" in chunk or "](" in chunk or chunk.count("{") != chunk.count("}")
        if first >= last or is_part or not is_code(chunk[first:last]):
            self._no_chunk_before = end
            return None
        return (start + first, start + last) if start + first <= place < start + last else None

    def _link(self, place: int, floor: int) -> tuple[int, int] | None:
        """The bracket that begins a Markdown link's text."""
        if place not in self._links:
            return None
        return place - (place > floor and self.text[place - 1] == "!"), place + 1

    def _braced(self, place: int) -> int:
        """The end of a placeholder in braces, which may nest, or 0."""
        opening = place + (self.text[place] != "{")
        end = self._braces.get(opening, 0)
        if not end or self.text[opening + 1] in "{%#" or _FORMATTED_ARGUMENT.match(self.text, opening + 1):
            return end
        name = self.text[opening + 1 : end - 1] if end - opening <= _MAX_BRACE_CHARS else "\n"
        return end if not name or ("\n" not in name and 1 <= len(name.split()) <= _MAX_BRACE_WORDS) else 0

    def _code(self, place: int) -> int:
        """The end of Markdown code, or 0. Backticks as quotation marks (`so' or ``so'') begin none."""
        if self.text.startswith("~~~", place):
            return self._end_of_next("\n~~~", place) if place == 0 or self.text[place - 1] == "\n" else 0
        start, stop, end = self._ticks.get(place, (0, 0, 0))
        if start - place >= 3 or not end:
            return end
        first, last = self.text[start], self.text[stop - 1]
        quoted = last.isspace() and not first.isspace()
        return 0 if quoted or self.text.find("\n\n", start, stop) >= 0 else end

    def _delimited(self, place: int) -> int:
        for opening, closing in _DELIMITERS.items():
            if self.text.startswith(opening, place):
                return self._end_of_next(closing, place + len(opening))
        return 0

    def _end_of_next(self, mark: str, place: int) -> int:
        """The end of the next `mark`, or 0. Places come in order, so no stretch is searched twice."""
        found = self._closings.get(mark, 0)
        if 0 <= found <= place:
            found = self._closings[mark] = self.text.find(mark, place)
        return found + len(mark) if found >= 0 else 0

    def _word(self, place: int, floor: int) -> tuple[int, int] | None:
        word = self._extend_left(_WORD_BEFORE, place, floor)
        for start in dict.fromkeys((self._extend_left(_CHUNK_BEFORE, word, floor), word, place)):
            end = self._address(start) or self._path(start) or self._placeholder(start)
            if end > place:
                return start, end
        return None

    def _extend_left(self, character: re.Pattern[str], place: int, floor: int) -> int:
        while place > floor and character.match(self.text[place - 1]):
            place -= 1
        return place

    def _address(self, start: int) -> int:
        found = URL.match(self.text, start)
        return _trimmed(self.text, start, found.end()) if found else 0

    def _placeholder(self, start: int) -> int:
        found = PLACEHOLDER.match(self.text, start)
        if not found or (found["camel"] and not self.camel) or (found["place"] and self.percent_first):
            return 0
        return _trimmed(self.text, start, found.end()) if found["file"] else found.end()

    def _path(self, start: int) -> int:
        found = PATH.match(self.text, start) if start >= self._no_path_before else None
        if not found:
            return 0
        end = _trimmed(self.text, start, found.end())
        if _is_path(self.text[start:end]):
            return end
        self._no_path_before = found.end()
        return 0

    @cached_property
    def _braces(self) -> dict[int, int]:
        """The end of each opening brace's group."""
        return {first.start: last.end for first, last in self._pairs(_BRACES)}

    @cached_property
    def _links(self) -> set[int]:
        """The opening brackets of Markdown links."""
        pairs = self._pairs(_BRACKETS)
        return {first.start for first, last in pairs if LINK_TARGET.match(self.text, last.start)}

    @cached_property
    def _emphasis(self) -> dict[int, tuple[int, int]]:
        """The marks of Markdown emphasis, which are paired within a line, by position."""
        lines = (self._pairs(EMPHASIS, *line.span()) for line in re.finditer(".+", self.text))
        return {mark.start: mark[:2] for pairs in lines for pair in pairs for mark in pair}

    def _pairs(
        self, marks: re.Pattern[str], start: int = 0, end: int = sys.maxsize
    ) -> Iterator[tuple[ProtectedSpan, ProtectedSpan]]:
        spans = [ProtectedSpan(*mark.span(), "") for mark in marks.finditer(self.text, start, end)]
        return ((spans[first], spans[last]) for first, last in nesting_pairs(self.text, spans))

    @cached_property
    def _ticks(self) -> dict[int, tuple[int, int, int]]:
        """For each run of backticks with a matching later run: its end, and the other's start and end."""
        following: dict[int, tuple[int, int]] = {}
        ticks: dict[int, tuple[int, int, int]] = {}
        for start, end in reversed([run.span() for run in re.finditer("`+", self.text)]):
            if end - start in following:
                ticks[start] = (end, *following[end - start])
            following[end - start] = start, end
        return ticks


def _trimmed(text: str, start: int, end: int) -> int:
    """The end of a URL without trailing punctuation and the bracket that encloses it."""
    excess = {close: text.count(close, start, end) - text.count(open, start, end) for open, close in ("()", "[]", "{}")}
    while end > start and (text[end - 1] in _TRAILING_PUNCTUATION or excess.get(text[end - 1], 0) > 0):
        end -= 1
        if text[end] in excess:
            excess[text[end]] -= 1
    return end


def _is_path(path: str) -> bool:
    """Whether it is a path, and not "and/or", "km/h" or "a.m./p.m"."""
    parts = path.split("/")
    names = [part for part in parts if part]
    if not names or "//" in path:
        return False
    if not parts[0]:
        return len(names) > 1 or names[0] in _ROOT_FOLDERS or not parts[-1]
    if parts[0] in (".", "..", "~") or parts[0][0] == "$":
        return True
    return bool(FILE_NAME.search(parts[-1])) or any("_" in name for name in names) or (len(names) > 1 and not parts[-1])
