"""ICU messages with branches that depend on a number or a word: {n, plural, one {# file} other {# files}}.

Implements their syntax (https://unicode-org.github.io/icu/userguide/format_parse/messages/), and Angular's {{n}}.
Anything doubtful is not treated as a message. Arguments without branches are ordinary placeholders. There may be tags
anywhere.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import NamedTuple

from app.markup.extract import MESSAGE_HEAD as _HEAD
from app.markup.passage import (
    NestedPassage,
    Passage,
    Piece,
    ProtectedSpan,
    Tag,
    masked,
    references,
    tag_pairs,
    write_plain,
)
from app.markup.render import render_source
from app.text.plural_categories import target_branches
from app.text.plural_numbers import fits_number, sample_number, with_placeholder

_ARGUMENT = re.compile(r"\{\s*[\w.-]+\s*(?:,\s*[a-z]+\s*(?:,[^{}']*)?)?\}|\{\{[^{}]*\}\}")
_PLURAL_SELECTOR = re.compile(r"\s*(=\d+|zero|one|two|few|many|other)\s*\{")
_WORD_SELECTOR = re.compile(r"\s*([\w-]+)\s*\{")
_END = re.compile(r"\s*\}")
_CLOSED = re.compile(r"\}")
_HIDDEN = "\ue000"
"""Stands for each character of protected text."""
_PLAIN = re.compile(rf"[^{{}}'#{_HIDDEN}]+")
_QUOTED = re.compile(r"'[{}#|](?:[^']|'')*'")
_QUOTES_NEXT = re.compile(r"'(?=[{}#|]|\Z)")
"""An apostrophe that would quote what follows; other apostrophes are literal."""
_MAX_DEPTH = 8
_MAX_CHARS = 50_000
"""Maximum number of characters of a message."""
_MAX_PIECES = 10_000
"""Maximum number of pieces, of which other plural categories make more."""
_MAX_REPEATED_CHARS = 10_000
"""Maximum number of characters that may be repeated in the branches of one choice."""
_MAX_GROWTH = 64
"""How many times the characters of a message its branches may have, written out: plurals in each other multiply them.
In Arabic there are 36 branches of two plurals, where English has four."""
_MAX_LONG_CHARS = 200_000
"""Of the branches of a long message, or four times its own characters."""
_BRANCH_CHARS = 10
"""What a branch counts for, besides its text."""


@dataclass(frozen=True)
class _Text:
    """Unescaped text, with two apostrophes as one."""

    text: str


@dataclass(frozen=True)
class _Raw:
    """What is kept: an argument, a quotation, the number sign of a plural, or text that the passage protects."""

    text: str
    raw: str
    """How the passage writes it."""


class _Branch(NamedTuple):
    """A branch of a choice: its `name`, the `opening` with it and the brace, as written, and the message up to the next
    brace."""

    name: str
    opening: str
    message: Message


@dataclass(frozen=True)
class _Choice:
    """An argument with branches, its `head` before them, and the `end` after the last one's brace, as written."""

    kind: str
    """`plural`, `selectordinal` or `select`."""
    head: str
    branches: Sequence[_Branch]
    end: str

    @property
    def is_plural(self) -> bool:
        return self.kind != "select"

    def branches_in(self, language: str) -> Sequence[_Branch]:
        """The branches for `language`: a plural has one for each of its categories, new ones before `other`."""
        if not self.is_plural:
            return self.branches
        by_name = {branch.name: branch for branch in self.branches}
        shows = {
            branch.name: any(isinstance(part, _Raw | _Choice) for part in branch.message) for branch in self.branches
        }
        sources = dict(target_branches(shows, language, self.kind == "selectordinal"))
        new = [
            by_name[source]._replace(name=name, opening=by_name[source].opening.replace(source, name))
            for name, source in sources.items()
            if name not in by_name
        ]
        found = list[_Branch]()
        for branch in self.branches:
            found += new if branch.name == "other" else []
            if branch.name in sources:
                found.append(branch._replace(message=by_name[sources[branch.name]].message))
        return found


Part = _Text | _Raw | _Choice | Tag
Message = Sequence[Part]


class _NotAMessage(Exception):
    """It is unclear whether this is a message."""


def has_branches(text: str) -> bool:
    """Whether the text seems to have branches."""
    return "{" in text and _HEAD.search(text) is not None


def message_pieces(source: str | Passage, target: str = "") -> list[Piece] | None:
    """The pieces of a message with branches, each translated separately; None if it is not certainly a message.

    The tags of a passage are in the branches in which they were, or count as marks if they are not paired there.

    Plurals have the categories of `target`: those that the source lacks are translated from `other`, and those that the
    target lacks are left out. Without `target`, they have the source's.

    Words beside a message's only choice move into its branches, as ICU advises, so that whole sentences are translated:
    "Delete {n, plural, one {# file} other {# files}}?" becomes {n, plural, one {Delete # file?} other {...}}. Beside
    several choices, or with a number sign that would refer to another number there, they are separate passages.
    """
    passage = Passage(source) if isinstance(source, str) else source
    text = passage.text
    if not has_branches(text) or len(text) > _MAX_CHARS:
        return None
    reader = _Reader(passage)
    try:
        message = reader.message(0, in_plural=False)
    except _NotAMessage:
        return None
    if reader.place < len(text) or not any(isinstance(part, _Choice) for part in message):
        return None
    found: list[Piece] = []
    try:
        _Writer(found, passage, target).message(message, in_plural=False)
    except _NotAMessage:
        return None
    return found


class _Reader:
    """Parses a message from left to right. Raises _NotAMessage."""

    def __init__(self, passage: Passage) -> None:
        self.passage, self.place = passage, 0
        self.text = masked(passage.text, passage.protected, _HIDDEN)
        self.hidden = {one.start: one for one in passage.protected}
        self.tags = deque(passage.tags)
        """Those after `place`."""

    def message(self, depth: int, in_plural: bool) -> Message:
        """Up to the closing brace, or the end of the text."""
        if depth > _MAX_DEPTH:
            raise _NotAMessage
        parts = [*self._tags_here()]
        while self.place < len(self.text) and self.text[self.place] != "}":
            parts += [self._part(depth, in_plural), *self._tags_here()]
        return parts

    def _tags_here(self) -> Iterator[Part]:
        while self.tags and self.tags[0].at <= self.place:
            yield self.tags.popleft()

    def _part(self, depth: int, in_plural: bool) -> Part:
        start, character = self.place, self.text[self.place]
        if hidden := self.hidden.get(start):
            self.place = hidden.end
            return _Raw(self.passage.text[start : hidden.end], hidden.raw)
        if character == "{":
            if head := _HEAD.match(self.text, start):
                return self._choice(head, depth)
            return self._take(_ARGUMENT)
        if character == "#" and in_plural:
            self.place += 1
            return _Raw(character, self.passage.write(character))
        until = self.tags[0].at if self.tags else len(self.text)
        if self.text.startswith("''", start, until):
            self.place += 2
            return _Text("'")
        if character == "'" and self.text[start + 1 : start + 2] in ("{", "}", *("#" * in_plural)):
            return self._take(_QUOTED)
        plain = _PLAIN.match(self.text, start, until)
        self.place = plain.end() if plain else start + 1
        return _Text(self.text[start : self.place])

    def _choice(self, head: re.Match[str], depth: int) -> _Choice:
        start = self._take(_HEAD).raw
        is_plural = head[1] != "select"
        selector = _PLURAL_SELECTOR if is_plural else _WORD_SELECTOR
        branches: list[_Branch] = []
        while found := selector.match(self.text, self.place):
            opening = self._take(selector).raw
            branches.append(_Branch(found[1], opening, self.message(depth + 1, is_plural)))
            self._take(_CLOSED)
        names = {branch.name for branch in branches}
        if "other" not in names or len(names) < len(branches):
            raise _NotAMessage
        return _Choice(head[1], start, branches, self._take(_END).raw)

    def _take(self, pattern: re.Pattern[str]) -> _Raw:
        """What matches, with the tags inside."""
        found = pattern.match(self.text, self.place)
        if not found:
            raise _NotAMessage
        start, self.place = self.place, found.end()
        inside = list[Tag]()
        while self.tags and self.tags[0].at < self.place:
            tag = self.tags.popleft()
            inside.append(tag._replace(at=tag.at - start))
        return _Raw(found[0], render_source(Passage(found[0], tags=tuple(inside), write=self.passage.write)))


def _size(part: Part) -> int:
    """The number of characters of a part."""
    return 0 if isinstance(part, _Choice) else len(part.text if isinstance(part, _Text) else part.raw)


def _is_number_sign(part: Part) -> bool:
    return isinstance(part, _Raw) and part.text == part.raw == "#"


class _Writer:
    """Appends the pieces of the message `passage` to `found`. Raises _NotAMessage if they are too many or too long."""

    def __init__(self, found: list[Piece], passage: Passage, target: str) -> None:
        self.found, self.source, self.target = found, passage, target
        self.doubled, size = "''" in passage.text, len(passage.text)
        self.nested = {inner.number: inner for inner in passage.nested}
        self.left = max(4 * size, min(_MAX_GROWTH * size, _MAX_LONG_CHARS))

    def message(self, message: Message, in_plural: bool, category: str = "") -> None:
        """`category`: of the branch, if it is one of a plural."""
        self.left -= _BRANCH_CHARS + sum(map(_size, message))
        if self.left < 0 or len(self.found) > _MAX_PIECES:
            raise _NotAMessage
        choices = [place for place, part in enumerate(message) if isinstance(part, _Choice)]
        if len(choices) == 1 and self._can_move_in(message, choices[0]):
            before, choice, after = message[: choices[0]], message[choices[0]], message[choices[0] + 1 :]
            assert isinstance(choice, _Choice)
            self._choice(choice, before, after)
            return
        for is_choice, parts in groupby(message, lambda part: isinstance(part, _Choice)):
            if not is_choice:
                self._passage(list(parts), in_plural, category)
                continue
            for part in parts:
                assert isinstance(part, _Choice)
                self._choice(part, (), ())

    def _choice(self, choice: _Choice, before: Message, after: Message) -> None:
        for number, branch in enumerate(choice.branches_in(self.target)):
            is_spaced = not number and choice.head[-1].isspace()  # the first branch may have been a later one
            opening = branch.opening.lstrip() if is_spaced else branch.opening
            self.found.append(("}" if number else choice.head) + opening)
            category = branch.name if choice.kind == "plural" else ""
            self.message([*before, *branch.message, *after], choice.is_plural, category)
        self.found.append("}" + choice.end)

    def _can_move_in(self, message: Message, place: int) -> bool:
        """Whether the text beside the choice has words, and means the same inside its branches."""
        others = [*message[:place], *message[place + 1 :]]
        words = "".join(part.text for part in others if isinstance(part, _Text))
        choice = message[place]
        assert isinstance(choice, _Choice)
        signs = "#" in words or any(map(_is_number_sign, others))
        repeated = sum(map(_size, others)) * len(choice.branches)
        return any(map(str.isalpha, words)) and not signs and repeated <= _MAX_REPEATED_CHARS

    def _passage(self, parts: Message, in_plural: bool, category: str) -> None:
        """A passage of `parts` without choices, without the spaces at its ends; without letters, it is copied."""
        number = sample_number(category) if category and _can_show_number(parts) else ""
        shown, length, has_letters = list[str](), 0, False
        protected, terms, tags = list[ProtectedSpan](), list[ProtectedSpan](), list[Tag]()
        for part in parts:
            assert not isinstance(part, _Choice)
            if isinstance(part, Tag):
                tags.append(part._replace(at=length))
                continue
            is_number = bool(number) and _is_number_sign(part)
            added = number if is_number else part.text
            if is_number:
                terms.append(ProtectedSpan(length, length + len(added), added))
            elif isinstance(part, _Raw):
                protected.append(ProtectedSpan(length, length + len(added), part.raw))
            else:
                has_letters = has_letters or any(map(str.isalpha, added))
            shown.append(added)
            length += len(added)
        write = self._write(in_plural)
        if number:
            write = with_placeholder(write, number, "#")
        text = "".join(shown)
        if not has_letters:
            self.found.append(render_source(Passage(text, tuple(protected), tuple(tags), write)))
            return
        start = min([len(text) - len(text.lstrip()), *(tag.at for tag in tags[:1])])
        end = max([len(text.rstrip()), *(tag.at + tag.space for tag in tags[-1:])])
        moved, moved_terms = (tuple(one.moved(-start) for one in spans) for spans in (protected, terms))
        moved_tags = tuple(tag._replace(at=tag.at - start) for tag in _paired(tags))
        nested = self._nested([*(tag.raw for tag in tags), *(one.raw for one in protected)])
        passage = Passage(text[start:end], moved, moved_tags, write, self.source.whole, nested, moved_terms)
        self.found += [write(text[:start]), passage, write(text[end:])]

    def _nested(self, raws: Sequence[str]) -> tuple[NestedPassage, ...]:
        """The nested passages that some tags and protected parts refer to."""
        found = {number for raw in raws for number in references(raw)} if self.nested else ()
        return tuple(self.nested[number] for number in found if number in self.nested)

    def _write(self, in_plural: bool) -> Callable[[str], str]:
        escape, write = partial(_escape, self.doubled, in_plural), self.source.write
        return escape if write is write_plain else lambda text: write(escape(text))


def _paired(tags: Sequence[Tag]) -> list[Tag]:
    """`tags`, where those without a counterpart are marks."""
    in_pairs = {index for pair in tag_pairs(tags) for index in pair}
    return [tag if index in in_pairs else tag._replace(kind="mark") for index, tag in enumerate(tags)]


def _can_show_number(parts: Message) -> bool:
    """Whether the only number sign of `parts` is a word of its own, and their only number."""
    places = [place for place, part in enumerate(parts) if _is_number_sign(part)]
    if len(places) != 1:
        return False
    before, after = (
        "".join(part.text if isinstance(part, _Text) else "{}" for part in some)
        for some in (parts[: places[0]], parts[places[0] + 1 :])
    )
    return fits_number(before, after)


def _escape(doubled: bool, in_plural: bool, text: str) -> str:
    """Escapes text for a message."""
    # No library treats the typographic apostrophe as ICU syntax; some display two plain ones as two.
    text = text.replace("'", "''") if doubled else _QUOTES_NEXT.sub("’", text)
    text = text.replace("{", "(").replace("}", ")")
    return text.replace("#", "'#'") if in_plural else text
