"""Inline markup of reStructuredText: finds it by the patterns of docutils' own parser, and makes passages of text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, NamedTuple

from docutils import nodes
from docutils.parsers.rst import states
from docutils.utils import punctuation_chars

from app.formats.passage_builder import PassageBuilder
from app.markup.passage import Passage

OPEN, CLOSE, WHOLE, END = "\ufdd6", "\ufdd7", "\ufdd8", "\ufdd9"
"""Around markup in a passage, so that it can be told from what looks like it in a translation. Noncharacters, which
Unicode reserves for a process's internal use."""
MARKERS = re.compile(f"[{OPEN}-{END}]")
_NOT_TEXT = re.compile(f"[\0{OPEN}-{END}]")
_LINE_END = re.compile(r"\r\n?|[\n\v\f\x1c-\x1e\x85\u2028\u2029]")
_NAME = r"(?:(?!_)\w){1,100}(?:[-._+:](?:(?!_)\w){1,100}){0,20}"
"""docutils' own takes the square of the time for `a-a-a-a`."""
_ESCAPE = re.compile("\0[ \n]?")
_TITLED = re.compile(r"(?P<title>.+?)(?P<target>\s*(?<!\0)<[^<]*?>)", re.DOTALL)
_TITLE_ROLE_NAMES = ("ref", "doc", "numref", "term", "any", "download")
_TITLE_ROLES = frozenset(f"{domain}{role}" for domain in ("", "std:") for role in _TITLE_ROLE_NAMES)
"""Whose explicit titles are words even if they are only one; that of another role may be code."""
_CODE_ROLES = frozenset(["option", "program", "command", "envvar", "samp", "kbd", "code", "file", "math"])
_TITLE_REFERENCES = frozenset(["ref", "std:ref"])
"""Whose text may be a title (`sphinx.ext.autosectionlabel`). In small letters it is a label, maybe of another file."""
_TAG_ROLES = frozenset(["emphasis", "strong", "dfn", "title-reference", "title", "t"])
"""Around words; that of all others may be code, or a name."""

Kind = Literal["emphasis", "strong", "title", "whole"]


class Markup(NamedTuple):
    """Characters [start, end) of a text, of which [inner, inner_end) are what is displayed."""

    start: int
    end: int
    inner: int
    inner_end: int
    kind: Kind
    opening: str | None = None
    closing: str | None = None
    """What opens and closes the translation of a title, if that is something else."""
    refers: str = ""
    """The name that it refers to."""
    defines: str = ""
    """The name that its title defines: others may refer to it."""
    is_code: bool = False
    """Whether its title is probably code."""
    is_anonymous: bool = False
    """Whether it refers to the next target without a name."""


@cache
def _patterns() -> Any:
    """docutils' patterns; `here` matches where `initial` does at the beginning of a text."""
    inliner = states.Inliner()
    inliner.simplename = _NAME
    inliner.init_customizations(_Settings)
    name, _, suffix, parts = inliner.parts
    inliner.patterns.here = states.build_regexp((name, "", suffix, parts))
    return inliner.patterns


class _Settings:
    character_level_inline_markup = pep_references = rfc_references = False


@cache
def boundaries() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What may come before the beginning of markup, and after its end; an empty text may, too."""
    opening = punctuation_chars.openers + punctuation_chars.delimiters
    closing = punctuation_chars.closing_delimiters + punctuation_chars.delimiters + punctuation_chars.closers
    return re.compile(rf"[\s{opening}]"), re.compile(rf"[\s\0\\{closing}]")


class Scan:
    """The markup of a text with nulls in the place of escaping backslashes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.failures = 0
        """How often markup begins and does not end."""
        self.found = list(self._found())

    def anonymous(self) -> list[str]:
        """The references that are matched with their targets in order."""
        return [restored(self.text[one.start : one.end]) for one in self.found if one.is_anonymous]

    def displayed(self) -> str:
        """The text without its markup."""
        shown, done = "", 0
        for one in self.found:
            shown += unescaped(self.text[done : one.start]) + unescaped(self.text[one.inner : one.inner_end])
            done = one.end
        return shown + unescaped(self.text[done:])

    def _found(self) -> Iterator[Markup]:
        patterns, text, place = _patterns(), self.text, 0
        hopeless = set[str]()
        while match := (patterns.here.match(text, place) or patterns.initial.search(text, place)):
            start, mark = match.start("initial_inline"), match["start"] or match["backquote"]
            if match["refend"] or match["fnend"]:
                place = match.end("whole")
                yield _label(match, start, place)
                continue
            key = "`" if match["backquote"] else mark
            after = match.end("backquote") if match["backquote"] else match.end("start")
            is_quoted = start > place and punctuation_chars.match_chars(text[start - 1], text[after : after + 1] or " ")
            place = after
            if (is_quoted and not match["role"]) or after == len(text):
                continue
            ending = None if key in hopeless else self._ending(key, after)
            if ending is None:
                hopeless.add(key)
                self.failures += 1
            elif ending.start(1) == after:
                self.failures += 1
            else:
                yield self._markup(key, match["role"] or "", start, after, ending)
                place = ending.end(1)

    def _ending(self, key: str, after: int) -> re.Match[str] | None:
        patterns = _patterns()
        pattern = {
            "*": patterns.emphasis,
            "**": patterns.strong,
            "``": patterns.literal,
            "_`": patterns.target,
            "|": patterns.substitution_ref,
            "`": patterns.interpreted_or_phrase_ref,
        }[key]
        found: re.Match[str] | None = pattern.search(self.text, after)
        return found

    def _markup(self, key: str, role: str, start: int, inner: int, ending: re.Match[str]) -> Markup:
        inner_end, end = ending.start(1), ending.end(1)
        if key in "**":
            return Markup(start, end, inner, inner_end, "emphasis" if key == "*" else "strong")
        if key != "`":
            refers = self.text[inner:inner_end] if ending[1].endswith("|_") else ""
            return Markup(start, end, inner, inner_end, "whole", refers=normalised(refers))
        if ending["refend"] and not role and not ending["role"]:
            return self._phrase(start, inner, inner_end, end, ending["refend"])
        role = (role or ending["role"] or "").strip(":").lower()
        content = self.text[inner:inner_end]
        titled = _TITLED.fullmatch(content) if role and not content.startswith("!") else None
        if titled and not ending["refend"]:
            is_code = role in _CODE_ROLES or (role not in _TITLE_ROLES and " " not in titled["title"])
            return Markup(start, end, inner, inner + titled.end("title"), "title", is_code=is_code)
        kind: Kind = "title" if role in _TAG_ROLES and not titled else "whole"
        refers = normalised(content) if role in _TITLE_REFERENCES and not content.islower() else ""
        return Markup(start, end, inner, inner_end, kind, refers=refers)

    def _phrase(self, start: int, inner: int, inner_end: int, end: int, mark: str) -> Markup:
        """A reference. `__` ends its translation, which must not become a name."""
        content = self.text[inner:inner_end]
        if embedded := _patterns().embedded_link.search(content):
            title, alias = content[: embedded.start()], embedded[2]
            if not title:
                return Markup(start, end, inner, inner_end, "whole")
            closing = restored(content[embedded.start() :]) + "`__"
            refers = normalised(alias[:-1]) if alias.endswith("_") else ""
            defines = normalised(title) if mark == "_" else ""
            return Markup(start, end, inner, inner + len(title), "title", None, closing, refers, defines)
        name = normalised(content)
        if mark == "__":
            return Markup(start, end, inner, inner_end, "title", is_anonymous=True)
        if "<" in content or ">" in content:
            return Markup(start, end, inner, inner_end, "whole", refers=name)
        return Markup(start, end, inner, inner_end, "title", None, f" <{restored(content)}_>`__", name)


def _label(match: re.Match[str], start: int, end: int) -> Markup:
    """A footnote's label, or a reference that is a word."""
    if match["fnend"]:
        return Markup(start, end, start, end, "whole")
    name, mark = match["refname"], match["refend"]
    refers = normalised(name) if mark == "_" else ""
    if not name.isalpha():
        return Markup(start, end, start, start + len(name), "whole", refers=refers, is_anonymous=mark == "__")
    closing = "`__" if mark == "__" else f" <{name}_>`__"
    return Markup(start, end, start, start + len(name), "title", "`", closing, refers, is_anonymous=mark == "__")


def passage_of(scan: Scan, references: frozenset[str] | set[str]) -> Passage | None:
    """The passage of a text, or None if it has no words. `references`: names that the file refers to."""
    builder, done, is_ordered = PassageBuilder(), 0, len(scan.anonymous()) > 1
    for number, markup in enumerate(scan.found):
        _add_text(builder, scan.text[done : markup.start])
        done = markup.end
        raw = restored(scan.text[markup.start : done])
        is_kept = markup.is_code or markup.defines in references or (markup.is_anonymous and is_ordered)
        if markup.kind == "whole" or is_kept:
            shown = unescaped(scan.text[markup.inner : markup.inner_end]).replace("\n", " ")
            builder.add_protected(shown or " ", f"{WHOLE}{raw}{END}")
            continue
        opening = raw[: markup.inner - markup.start] if markup.opening is None else markup.opening
        closing = raw[markup.inner_end - markup.start :] if markup.closing is None else markup.closing
        builder.open_tag(f"{OPEN}{opening}{END}", number)
        _add_text(builder, scan.text[markup.inner : markup.inner_end])
        builder.close_tag(f"{CLOSE}{closing}{END}", number)
    _add_text(builder, scan.text[done:])
    return builder.build_translatable(without_markers)


def _add_text(builder: PassageBuilder, text: str) -> None:
    """Adds text with nulls in the place of escaping backslashes; an end of a line is white space."""
    first, *others = re.split(r"(?<!\0)\n", text)
    builder.add_text(unescaped(first))
    for line in others:
        builder.add_mark("\n", space=True)
        builder.add_text(f" {unescaped(line)}")


def plain_passage(text: str) -> Passage | None:
    """The passage of a text without markup."""
    builder = PassageBuilder()
    for number, line in enumerate(text.split("\n")):
        if number:
            builder.add_mark("\n", space=True)
        builder.add_text(f" {line}" if number else line)
    return builder.build_translatable(without_markers)


def without_markers(text: str) -> str:
    """Translated text in one line, without what marks markup. It is escaped with what is around it: rst_escapes.py."""
    return _LINE_END.sub(" ", _NOT_TEXT.sub("", text))


def normalised(name: str) -> str:
    """A name as references are compared."""
    found: str = nodes.fully_normalize_name(unescaped(name))
    return found


def unescaped(text: str) -> str:
    """`text` as it is displayed."""
    return _ESCAPE.sub("", text)


def restored(text: str) -> str:
    """`text` with its backslashes."""
    return text.replace("\0", "\\")
