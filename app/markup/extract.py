"""Splits HTML and XML into passages to translate, with their tags, and the untouched markup between them.

Tag boundaries are in app/markup/html_tokenizer.py, the meaning of elements in app/markup/html_elements.py, and the
encoding of characters in app/markup/char_refs.py.

- A passage ends at every tag of a block, of a form's field and of a line break (`<br>`), and where an inline element
  holds one of these. An element that HTML does not know is inline if there is text beside it, else a block.
  Each link of a line that consists only of links is a passage. Text without letters and digits is copied.
- Text attributes (app/markup/html_attributes.py) are passages, and nested passages if their tag is in another passage.
- Copied: other attributes; comments, declarations, CDATA sections, processing instructions; script, style, template,
  svg, pre and textarea (they hold code, or what a user typed); elements with translate="no" or class="notranslate",
  except for translate="yes" within them. Within a sentence, these and code, kbd, samp, var and math are kept as a word
  if they display one, and so are pictures and form fields between words; otherwise as a mark.
- Text is decoded to characters. White space that displays as one space becomes one; other spellings (a line break with
  the next line's indentation, `&nbsp;`) are marks in the place of a space, so that they come back. `&shy;` and the like
  are marks within a word.
- References are preserved, but if a passage writes a character in two ways, either may come back. A stray "<" may come
  back as `&lt;`, and `&copy` as `&copy;`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import NamedTuple

from app.markup.char_refs import Part, Spellings, Writer, parts
from app.markup.html_attributes import text_attributes
from app.markup.html_elements import (
    NO_RULES,
    OBJECTS,
    UNSEEN,
    VALUES,
    Element,
    Rules,
    Structure,
    boundaries,
    local,
    structure,
)
from app.markup.html_tokenizer import Token, tokens
from app.markup.inline_text import SPACE, Item, items
from app.markup.passage import (
    OBJECT,
    VALUE,
    NestedPassage,
    Passage,
    Piece,
    ProtectedSpan,
    Tag,
    has_no_references,
    reference,
)

_LINK = re.compile(r"<a\b", re.IGNORECASE)
_CODE = ("<%=", "<?=", "<?php")
"""Begins a value that a template inserts: counts as a word."""


class Located(NamedTuple):
    """A passage and its characters [start, end) in the markup, regardless of how it would be written."""

    start: int
    end: int
    passage: Passage


def pieces(markup: str, rules: Rules = NO_RULES) -> list[Piece]:
    """The pieces of an HTML or XML document or fragment, however broken, in linear time.

    Written unchanged they equal `markup`, except for references as described above.
    """
    found: list[Piece] = []
    done = 0
    for start, end, passage in located(markup, rules):
        if done < start:
            found.append(markup[done:start])
        found.append(passage)
        done = end
    return [*found, markup[done:]] if done < len(markup) else found


def located(markup: str, rules: Rules = NO_RULES) -> list[Located]:
    """The passages of `pieces(markup)`, each with its place."""
    found = list(tokens(markup))
    elements = structure(found, rules)
    elements.attributes = elements.attributes and has_no_references(markup)
    return list(_located(found, elements, boundaries(found, elements)))


def phrase(markup: str) -> list[Piece]:
    """The pieces of a catalogue's string: like `pieces`, but every element is inline. Usually it is one passage."""
    return pieces(markup, Rules(outline=False))


def _located(found: Sequence[Token], elements: Structure, ends: Sequence[bool]) -> Iterator[Located]:
    document = Spellings()
    for token in found:
        if token.kind == "text":
            for part in parts(token.raw):
                document.add(part)
    values = deque(_values(found, elements, document))
    at = 0
    for line in _lines(found, elements, ends):
        if isinstance(line, str):
            at += len(line)
            continue
        first, end = _bounds(line)
        places = list(accumulate((len(item.raw) for item in line), initial=at))
        at = places[-1]
        if first < end:
            yield from _before(places[first], values)
            inside = list(_before(places[end], values))
            nested = tuple(NestedPassage(value.start, value.passage) for value in inside)
            referring = list(_referring(line[first:end], places[first], inside))
            yield Located(places[first], places[end], replace(_passage(referring, document), nested=nested))
    yield from values


def _values(found: Sequence[Token], elements: Structure, document: Spellings) -> Iterator[Located]:
    """The values of text attributes."""
    at = 0
    for i, (token, owner) in enumerate(zip(found, elements.owners, strict=True)):
        if elements.attributes and owner.first == i and owner.attributes:
            for value in text_attributes(token):
                shown = list(items(token.raw[value.start : value.end]))
                first, end = _bounds(shown)
                places = list(accumulate((len(item.raw) for item in shown), initial=at + value.start))
                if first < end:
                    passage = _passage(shown[first:end], document, value.quote)
                    yield Located(places[first], places[end], passage)
        at += len(token.raw)


def _before(place: int, values: deque[Located]) -> Iterator[Located]:
    """Takes those of `values` that end before `place`."""
    while values and values[0].end <= place:
        yield values.popleft()


def _referring(line: Sequence[Item], at: int, values: Sequence[Located]) -> Iterator[Item]:
    """`line`, whose first item is at `at`, with references in the places of `values`."""
    waiting = deque(values)
    for item in line:
        pieces, done = list[str](), at
        at += len(item.raw)
        for value in _before(at, waiting):
            pieces += [item.raw[done - at : value.start - at], reference(value.start)]
            done = value.end
        yield item._replace(raw="".join([*pieces, item.raw[done - at :]])) if pieces else item


def _lines(found: Sequence[Token], elements: Structure, ends: Sequence[bool]) -> Iterator[str | list[Item]]:
    """Copied markup, alternating with the items of one passage each."""
    line: list[Item] = []
    i = 0
    while i < len(found):
        token, owner = found[i], elements.owners[i]
        if ends[i] or (token.kind == "text" and not owner.on):
            yield from _entries(line)
            line = []
            yield token.raw
        elif token.kind == "open" and not owner.on and owner.last is not None:
            line.append(_untouched(owner, found[i : owner.last + 1]))
            i = owner.last
        elif token.kind == "text":
            line += items(token.raw)
        else:
            line.append(_tag(i, token, owner))
        i += 1
    yield from _entries(line)


def _entries(line: list[Item]) -> Iterator[list[Item]]:
    """Splits a line that consists only of links, such as a menu, into one line per link; other lines stay whole."""
    mates = _mates(line)
    cuts = [0]
    i = 0
    while i < len(line):
        item, mate = line[i], mates[i]
        if mate is not None and _LINK.match(item.raw):
            cuts += [i, mate + 1]
        elif mate is not None or _is_speech(item.text):
            yield line
            return
        i = i + 1 if mate is None else mate + 1
    for start, end in pairwise([*cuts, len(line)]):
        yield line[start:end]


def _tag(i: int, token: Token, owner: Element) -> Item:
    if token.kind == "open" and owner.last not in (None, i):
        return Item("open", token.raw)
    if token.kind == "close" and owner.last == i:
        return Item("close", token.raw)
    if token.kind in ("open", "empty") and owner.last == i:
        return _protected(token.raw, _thing(owner.name))
    return _protected(token.raw, token.raw if token.raw.startswith(_CODE) else _shown(token))


def _untouched(element: Element, inside: Sequence[Token]) -> Item:
    shown = _thing(element.name)
    if shown != OBJECT and local(element.name) not in UNSEEN:
        shown = "".join(map(_shown, inside)).strip() or shown
    return _protected("".join(token.raw for token in inside), shown)


def _thing(name: str) -> str:
    """The placeholder that an element without text displays."""
    return OBJECT if local(name) in OBJECTS else VALUE if local(name) in VALUES else ""


def _protected(raw: str, shown: str) -> Item:
    """A word of the sentence, if it displays one."""
    shown = SPACE.sub(" ", shown).strip()
    return Item("protected", raw, shown) if shown else Item("mark", raw)


def _shown(token: Token) -> str:
    if token.kind == "text":
        return "".join(part.raw if part.text is None else part.text for part in parts(token.raw))
    if token.raw.startswith("<![CDATA["):
        return token.raw[len("<![CDATA[") :].removesuffix("]]>")
    return ""


def _is_speech(text: str) -> bool:
    return any(map(str.isalnum, text))


def _bounds(line: Sequence[Item]) -> tuple[int, int]:
    """The items [first, end) that form a passage; None if there is nothing to translate.

    Excludes white space and marks at the edges, and tags there that enclose nothing or everything.
    """
    if not any(item.kind == "text" and _is_speech(item.text) for item in line):
        return 0, 0
    mates = _mates(line)
    seen = [0, *accumulate(item.kind in ("text", "protected") and item.text != OBJECT for item in line)]
    first, end = 0, len(line)
    while seen[first + 1] == seen[first]:
        mate = mates[first]
        if mate is not None and seen[mate] > seen[first]:
            if seen[end] > seen[mate]:
                break
            end = mate
        elif mate is not None:
            first = mate
        first += 1
    while seen[end - 1] == seen[end]:
        mate = mates[end - 1]
        if mate is not None and seen[mate] < seen[end]:
            break
        end = end - 1 if mate is None else mate
    return first, end


def _mates(line: Sequence[Item]) -> list[int | None]:
    """For each paired tag, its counterpart."""
    mates: list[int | None] = [None] * len(line)
    opened: list[int] = []
    for i, item in enumerate(line):
        if item.kind == "open":
            opened.append(i)
        elif item.kind == "close":
            mate = opened.pop()
            mates[i], mates[mate] = mate, i
    return mates


def _passage(line: Sequence[Item], document: Spellings, quote: str | None = None) -> Passage:
    text, size = list[str](), 0
    protected: list[ProtectedSpan] = []
    tags: list[Tag] = []
    spellings = Spellings()
    for item in line:
        shown = item.text
        if item.kind == "protected":
            protected.append(ProtectedSpan(size, size + len(shown), item.raw))
        elif item.kind == "space":
            # Consecutive white space is not displayed, but it is written.
            shown = "" if not text or text[-1][-1].isspace() else " "
            if item.raw != shown:
                tags.append(Tag(size, item.raw, space=True))
        elif item.kind == "text":
            spellings.add(Part(item.raw, item.text))
        else:
            tags.append(Tag(size, item.raw, item.kind))
        if shown:
            text.append(shown)
            size += len(shown)
    return Passage("".join(text), tuple(protected), tuple(tags), Writer(spellings, document, quote))
