"""Splits HTML and XML into passages to translate, with their tags, and the untouched markup between them.

Tag boundaries are in app/markup/html_tokenizer.py, the meaning of elements in app/markup/html_elements.py, and the
encoding of characters in app/markup/char_refs.py.

- A passage ends at every tag of a block, of a form's field and of a line break (`<br>`), and where an inline element
  holds one of these, but not within the braces of an ICU message with branches. An element that HTML does not know is
  inline if there is text beside it, else a block.
  Each link of a line that consists only of links is a passage. Text without letters and digits is copied.
- Text attributes (app/markup/html_attributes.py) are passages, and nested passages if their tag is in another passage.
- Copied: other attributes; comments, declarations, CDATA sections, processing instructions; script, style, template,
  svg, pre and textarea (they hold code, or what a user typed); elements with translate="no" or class="notranslate",
  except for translate="yes" within them. Within a sentence, these and code, kbd, samp, var and math are protected as a
  word if they display one, and so are pictures and form fields between words; otherwise, and readings (rt), as a mark.
- Text is decoded to characters. White space that displays as one space becomes one; other spellings (a line break with
  the next line's indentation, `&nbsp;`) are marks in the place of a space, so that they come back. `&shy;` and the like
  are marks within a word.
- Lines that begin with a bullet, or several with a dash or a number, are separate sentences.
- References are preserved, but if a passage writes a character in two ways, either may come back. A stray "<" may come
  back as `&lt;`, and `&copy` as `&copy;`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import NamedTuple

from app.markup.char_refs import Spellings, TextPart, Writer, split_references
from app.markup.html_attributes import text_attributes
from app.markup.html_elements import (
    HIDDEN,
    NO_RULES,
    OBJECTS,
    VALUES,
    Element,
    MarkupTree,
    Rules,
    local_name,
    parse_elements,
    passage_boundaries,
)
from app.markup.html_tokenizer import Token, tokens
from app.markup.inline_text import SPACE, InlineItem, inline_items
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

MESSAGE_HEAD = re.compile(r"\{\s*[\w.-]+\s*,\s*(plural|selectordinal|select)\s*,\s*(?:offset:\s*\d+(?=\s))?")
"""Begins an ICU message with branches."""
_BRACE = re.compile(r"[{}]")
_ANCHOR = re.compile(r"<a\b", re.IGNORECASE)
_BULLET = re.compile(r"(?:(?P<bullet>[*+•‣⁃◦▪●○])|[-–—]|\d{1,2}[.)])(?:[ \t\u00a0]|\Z)")
"""Begins an item of a list that is written as plain text."""
_TEMPLATE_CODE = ("<%=", "<?=", "<?php")
"""Begins a value that a template inserts: counts as a word."""


_SUMS = (["protected", "text", "protected"], ["protected", "space", "text", "space", "protected"])
_MAX_KEYS_CHARS = 1_000
"""Of keys with a plus sign between them, which are written as one value."""


class LocatedPassage(NamedTuple):
    """A passage and its characters [start, end) in the markup, regardless of how it would be written."""

    start: int
    end: int
    passage: Passage


def markup_pieces(markup: str, rules: Rules = NO_RULES) -> list[Piece]:
    """The pieces of an HTML or XML document or fragment, however broken, in linear time.

    Written unchanged they equal `markup`, except for references as described above.
    """
    found: list[Piece] = []
    done = 0
    for start, end, passage in locate_passages(markup, rules):
        if done < start:
            found.append(markup[done:start])
        found.append(passage)
        done = end
    return [*found, markup[done:]] if done < len(markup) else found


def locate_passages(markup: str, rules: Rules = NO_RULES) -> list[LocatedPassage]:
    """The passages of `markup_pieces(markup)`, each with its place."""
    found = list(tokens(markup))
    elements = parse_elements(found, rules)
    elements.attributes = elements.attributes and has_no_references(markup)
    ends = passage_boundaries(found, elements)
    for first, last in _messages(found) if MESSAGE_HEAD.search(markup) else ():
        tags = (elements.owners[i] for i in range(first + 1, last) if found[i].name)
        if all(first < owner.first and owner.last is not None and owner.last < last for owner in tags):
            ends[first + 1 : last] = [False] * (last - first - 1)
    return list(_locate(found, elements, ends))


def _messages(found: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """The tokens in which an ICU message with branches begins and ends, if these are not the same."""
    first = depth = 0
    for number, token in enumerate(found):
        if token.kind != "text":
            continue
        at = 0
        while True:
            if not depth:
                head = MESSAGE_HEAD.search(token.raw, at)
                if not head:
                    break
                first, at, depth = number, head.start() + 1, 1
            brace = _BRACE.search(token.raw, at)
            if not brace:
                break
            at, depth = brace.end(), depth + (1 if brace[0] == "{" else -1)
            if not depth and first < number:
                yield first, number


def inline_pieces(markup: str) -> list[Piece]:
    """The pieces of a catalogue's string: like `markup_pieces`, but every element is inline. Usually it is one
    passage."""
    return markup_pieces(markup, Rules(outline=False))


def _locate(found: Sequence[Token], elements: MarkupTree, ends: Sequence[bool]) -> Iterator[LocatedPassage]:
    document = Spellings()
    for token in found:
        if token.kind == "text":
            for part in split_references(token.raw):
                document.add(part)
    values = deque(_attribute_passages(found, elements, document))
    at = 0
    for line in _lines(found, elements, ends):
        if isinstance(line, str):
            at += len(line)
            continue
        first, end = _trimmed_bounds(line)
        places = list(accumulate((len(item.raw) for item in line), initial=at))
        at = places[-1]
        if first < end:
            yield from _take_before(places[first], values)
            inside = list(_take_before(places[end], values))
            nested = tuple(NestedPassage(value.start, value.passage) for value in inside)
            referring = _joined_keys(_with_references(line[first:end], places[first], inside))
            yield LocatedPassage(
                places[first], places[end], replace(_build_passage(referring, document), nested=nested)
            )
    yield from values


def _attribute_passages(found: Sequence[Token], elements: MarkupTree, document: Spellings) -> Iterator[LocatedPassage]:
    """The values of text attributes."""
    at = 0
    for i, (token, owner) in enumerate(zip(found, elements.owners, strict=True)):
        if elements.attributes and owner.first == i and owner.attributes:
            for value in text_attributes(token):
                shown = list(inline_items(token.raw[value.start : value.end]))
                first, end = _trimmed_bounds(shown)
                places = list(accumulate((len(item.raw) for item in shown), initial=at + value.start))
                if first < end:
                    passage = _build_passage(shown[first:end], document, value.quote)
                    yield LocatedPassage(places[first], places[end], passage)
        at += len(token.raw)


def _take_before(place: int, values: deque[LocatedPassage]) -> Iterator[LocatedPassage]:
    """Takes those of `values` that end before `place`."""
    while values and values[0].end <= place:
        yield values.popleft()


def _with_references(line: Sequence[InlineItem], at: int, values: Sequence[LocatedPassage]) -> Iterator[InlineItem]:
    """`line`, whose first item is at `at`, with references in the places of `values`."""
    waiting = deque(values)
    for item in line:
        slices, done = list[str](), at
        at += len(item.raw)
        for value in _take_before(at, waiting):
            slices += [item.raw[done - at : value.start - at], reference(value.start)]
            done = value.end
        yield item._replace(raw="".join([*slices, item.raw[done - at :]])) if slices else item


def _joined_keys(line: Iterable[InlineItem]) -> list[InlineItem]:
    """`line`, in which codes and keys with a plus sign between them are one: <kbd>Ctrl</kbd> + <kbd>C</kbd>."""
    joined = list[InlineItem]()
    for item in line:
        joined.append(item)
        for parts in (joined[-3:], joined[-5:]) if item.kind == "protected" else ():
            is_sum = [one.kind for one in parts] in _SUMS and parts[len(parts) // 2].text == "+"
            if is_sum and OBJECT not in (parts[0].text, item.text) and len(parts[0].raw) <= _MAX_KEYS_CHARS:
                shown = "".join(" " if one.kind == "space" else one.text for one in parts)
                joined[-len(parts) :] = [InlineItem("protected", "".join(one.raw for one in parts), shown)]
                break
    return joined


def _lines(found: Sequence[Token], elements: MarkupTree, ends: Sequence[bool]) -> Iterator[str | list[InlineItem]]:
    """Copied markup, alternating with the items of one passage each."""
    line: list[InlineItem] = []
    i = 0
    while i < len(found):
        token, owner = found[i], elements.owners[i]
        if ends[i] or (token.kind == "text" and not owner.is_translated):
            yield from _split_links(line)
            line = []
            yield token.raw
        elif token.kind == "open" and not owner.is_translated and owner.last is not None:
            line.append(_untranslated_item(owner, found[i : owner.last + 1]))
            i = owner.last
        elif token.kind == "text":
            line += inline_items(token.raw)
        else:
            line.append(_tag_item(i, token, owner))
        i += 1
    yield from _split_links(line)


def _split_links(line: list[InlineItem]) -> Iterator[list[InlineItem]]:
    """Splits a line that consists only of links, such as a menu, into one line per link; other lines stay whole."""
    counterparts = _counterparts(line)
    cuts = [0]
    i = 0
    while i < len(line):
        item, counterpart = line[i], counterparts[i]
        if counterpart is not None and _ANCHOR.match(item.raw):
            cuts += [i, counterpart + 1]
        elif counterpart is not None or _has_letters_or_digits(item.text):
            yield line
            return
        i = i + 1 if counterpart is None else counterpart + 1
    for start, end in pairwise([*cuts, len(line)]):
        yield line[start:end]


def _tag_item(i: int, token: Token, owner: Element) -> InlineItem:
    if token.kind == "open" and owner.last not in (None, i):
        return InlineItem("open", token.raw)
    if token.kind == "close" and owner.last == i:
        return InlineItem("close", token.raw)
    if token.kind in ("open", "empty") and owner.last == i:
        return _protected_item(token.raw, _placeholder(owner.name))
    return _protected_item(token.raw, token.raw if token.raw.startswith(_TEMPLATE_CODE) else _displayed(token))


def _untranslated_item(element: Element, inside: Sequence[Token]) -> InlineItem:
    shown = _placeholder(element.name)
    if shown != OBJECT and local_name(element.name) not in HIDDEN:
        shown = "".join(map(_displayed, inside)).strip() or shown
    return _protected_item("".join(token.raw for token in inside), shown)


def _placeholder(name: str) -> str:
    """The placeholder that an element without text displays."""
    return OBJECT if local_name(name) in OBJECTS else VALUE if local_name(name) in VALUES else ""


def _protected_item(raw: str, shown: str) -> InlineItem:
    """A word of the sentence, if it displays one."""
    shown = SPACE.sub(" ", shown).strip()
    return InlineItem("protected", raw, shown) if shown else InlineItem("mark", raw)


def _displayed(token: Token) -> str:
    if token.kind == "text":
        return "".join(part.raw if part.text is None else part.text for part in split_references(token.raw))
    if token.raw.startswith("<![CDATA["):
        return token.raw[len("<![CDATA[") :].removesuffix("]]>")
    return ""


def _has_letters_or_digits(text: str) -> bool:
    return any(map(str.isalnum, text))


def _trimmed_bounds(line: Sequence[InlineItem]) -> tuple[int, int]:
    """The items [first, end) that form a passage; None if there is nothing to translate.

    Excludes white space and marks at the edges, and tags there that enclose nothing or everything.
    """
    if not any(item.kind == "text" and _has_letters_or_digits(item.text) for item in line):
        return 0, 0
    counterparts = _counterparts(line)
    seen = [0, *accumulate(item.kind in ("text", "protected") and item.text != OBJECT for item in line)]
    first, end = 0, len(line)
    while seen[first + 1] == seen[first]:
        counterpart = counterparts[first]
        if counterpart is not None and seen[counterpart] > seen[first]:
            if seen[end] > seen[counterpart]:
                break
            end = counterpart
        elif counterpart is not None:
            first = counterpart
        first += 1
    while seen[end - 1] == seen[end]:
        counterpart = counterparts[end - 1]
        if counterpart is not None and seen[counterpart] < seen[end]:
            break
        end = end - 1 if counterpart is None else counterpart
    return first, end


def _counterparts(line: Sequence[InlineItem]) -> list[int | None]:
    """For each paired tag, its counterpart."""
    counterparts: list[int | None] = [None] * len(line)
    opened: list[int] = []
    for i, item in enumerate(line):
        if item.kind == "open":
            opened.append(i)
        elif item.kind == "close":
            counterpart = opened.pop()
            counterparts[i], counterparts[counterpart] = counterpart, i
    return counterparts


def _bulleted(line: Sequence[InlineItem]) -> set[int]:
    """The white space before an item of a list that is written as plain text."""
    found = [_BULLET.match(line[0].text)] if line else []
    certain, others = set[int](), set[int]()
    for number, (item, following) in enumerate(pairwise(line)):
        if item.kind == "space" and "\n" in item.raw and (bullet := _BULLET.match(following.text)):
            found.append(bullet)
            (certain if bullet["bullet"] else others).add(number)
    return certain | others if sum(1 for bullet in found if bullet and not bullet["bullet"]) > 1 else certain


def _build_passage(line: Sequence[InlineItem], document: Spellings, quote: str | None = None) -> Passage:
    text, size = list[str](), 0
    protected: list[ProtectedSpan] = []
    tags: list[Tag] = []
    spellings = Spellings()
    bulleted = _bulleted(line)
    for number, item in enumerate(line):
        shown = item.text
        if item.kind == "protected":
            protected.append(ProtectedSpan(size, size + len(shown), item.raw))
        elif item.kind == "space":
            # Consecutive white space is not displayed, but it is written.
            shown = "" if not text or text[-1][-1].isspace() else "\n" if number in bulleted else " "
            if item.raw != shown:
                tags.append(Tag(size, item.raw, space=True))
        elif item.kind == "text":
            spellings.add(TextPart(item.raw, item.text))
        else:
            tags.append(Tag(size, item.raw, item.kind))
        if shown:
            text.append(shown)
            size += len(shown)
    return Passage("".join(text), tuple(protected), tuple(tags), Writer(spellings, document, quote))
