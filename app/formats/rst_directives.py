"""What is text in the directives of docutils, Sphinx and its usual extensions; unknown ones are kept, unless they are
evidently prose."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import dropwhile, takewhile
from typing import Literal, NamedTuple

from docutils.parsers.rst.states import Body

from app.formats.rst_lines import Line, Lines

ContentIs = Literal["body", "tree", "glossary", "kept"]


def _names(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_NO_ARGUMENT = _names(
    """
    attention caution danger error hint important note tip warning seealso todo epigraph highlights pull-quote
    compound header footer hlist impl-detail grid grid-item tab-set tabs note-box margin aside
    """
)
"""Their content may begin beside their name."""
_TITLED = _names(
    """
    admonition topic sidebar rubric table list-table flat-table contents centered tab tab-item group-tab
    dropdown card grid-item-card collapse details panels toggle-header
    """
)
"""Their argument is text, and so is their content."""
_VERSIONED = {
    **dict.fromkeys(("versionadded", "versionchanged", "deprecated", "versionremoved", "soft-deprecated"), 1),
    "deprecated-removed": 2,
}
"""Their argument is as many versions, and text."""
_WITH_BODY = _names(
    """
    figure kernel-figure container class only ifconfig tab-item-label describe object function method
    staticmethod classmethod decorator decoratormethod attribute property data exception module type variable
    macro struct union enum enumerator member concept alias signature const attr interface trait opcode
    cmdoption option envvar confval program availability pdbcommand monitoring-event toggle div rst-class
    automodule autoclass autofunction automethod autodata autoattribute autoexception autoproperty directive role
    """
)
"""Their argument is kept, or an expression."""
_DOMAIN = re.compile(r"(?:py|c|cpp|js|rst|std|envoy|http|bash|ruby|php):([\w-]+)")
_TITLE_ONLY = frozenset({"csv-table"})
_FIELD = re.compile(Body.patterns["field_marker"])
_TEXT_OPTION = re.compile(r":(?:alt|caption):(?: +|\Z)")
_TITLE_IN_TREE = re.compile(r"(?P<title>[^<>]*[^<>\s])\s*<[^<>]+>")
_MARKUP = re.compile(r"``[^`]+``|(?::[\w:+.-]+:)?`[^`]+`_{0,2}|[*|]")
_SENTENCE = re.compile(r"[^\W\d_a-z][^{}=;$\\#@<>]*[.!?:]", re.DOTALL)
_CODE = re.compile(r"\w\(|--|//")
_MIN_WORDS = 5


class Directive(NamedTuple):
    """The lines of a directive's title, of its options and of its content."""

    title: Sequence[Line]
    options: Sequence[Line]
    content: Lines
    content_is: ContentIs


def directive_of(name: str, block: Lines) -> Directive:
    """The parts of a directive; `block` is what follows its name, without indentation."""
    name = name.lower()
    if domain := _DOMAIN.fullmatch(name):
        name = domain[1]
    head, options, rest = _split(list(block))
    if name in _NO_ARGUMENT:
        return Directive([], options, Lines([*head, *rest]), "body")
    if name in _TITLED:
        return Directive([line.strip() for line in head], options, Lines(rest), "body")
    if name in _VERSIONED:
        return Directive(_after_words(head, _VERSIONED[name]), options, Lines(rest), "body")
    if name in _WITH_BODY:
        return Directive([], options, Lines(rest), "body")
    if name in _TITLE_ONLY:
        return Directive([line.strip() for line in head], options, Lines([]), "kept")
    if name == "toctree":
        return Directive([], options, Lines(rest), "tree")
    if name == "glossary":
        return Directive([], options, Lines([*head, *rest]), "glossary")
    return Directive([], options, Lines(rest), "body" if _is_prose(rest) else "kept")


def _split(lines: list[Line]) -> tuple[list[Line], list[Line], list[Line]]:
    """The lines of a directive up to its options, these, and all after them. After an empty line there is neither."""
    start = int(bool(lines) and not lines[0])
    end = next((number for number in range(start, len(lines)) if not lines[number]), len(lines))
    first_option = next((number for number in range(start, end) if _FIELD.match(lines[number])), end)
    return lines[start:first_option], lines[first_option:end], lines[end:]


def _after_words(lines: Sequence[Line], words: int) -> list[Line]:
    """The lines after the first words of the first one."""
    if not lines:
        return []
    found = re.match(rf"(?:\S+(?:\s+|\Z)){{{words}}}", lines[0])
    rest = Lines(list(lines))
    first = lines[0][found.end() :] if found else lines[0][len(lines[0]) :]
    return [line.strip() for line in (first, *rest[1:]) if isinstance(line, Line) and line.strip()]


def options_of(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """The lines of the value of each option that is text."""
    value: list[Line] | None = None
    for line in lines:
        if not line[:1].isspace():
            if value:
                yield value
            found = _TEXT_OPTION.match(line)
            value = [] if found else None
            line = line[found.end() :] if found else line  # type: ignore[assignment]
        if value is not None and line.strip():
            value.append(line.strip())
    if value:
        yield value


def titles_of_tree(content: Lines) -> Iterator[Line]:
    """The titles of the entries of a tree of contents."""
    for line in content:
        stripped = line.strip()
        if found := _TITLE_IN_TREE.fullmatch(stripped):
            yield stripped[: found.end("title")]


def _is_prose(lines: Sequence[Line]) -> bool:
    """Whether lines begin with a paragraph of sentences."""
    paragraph = list(takewhile(bool, dropwhile(lambda line: not line, lines)))
    text = _MARKUP.sub("", "\n".join(paragraph))
    is_flush = not any(line.startswith(" ") for line in paragraph)
    return bool(is_flush and len(text.split()) >= _MIN_WORDS and _SENTENCE.fullmatch(text) and not _CODE.search(text))
