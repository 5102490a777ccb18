"""Projects a passage's tags onto its translation: assigns each to a sentence, and finds its place by word alignment."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain, groupby, zip_longest
from operator import attrgetter

from app.markup.passage import OBJECT, ProtectedSpan, Tag, tag_pairs
from app.markup.render import TagNode, tag_tree
from app.text.word_units import AlignedWords, CutWord, UnitAlignment, is_spaced, units

_MAX_OUTSIDE_CHARS = 2
"""Characters at an end of the sentence, outside an element, that may be only its punctuation: "!" after a space."""
_start_of = attrgetter("start")


def split_tags(tags: Sequence[Tag], segments: Sequence[tuple[int, int]]) -> list[list[Tag]]:
    """The tags of each of the consecutive `segments`, which cover the text; `at` counts from the segment's start.

    Where two segments meet, closing tags belong to the first and opening tags to the second, even if one of them is
    white space: they stay where they were. A mark stays with what it follows; a white-space mark goes with the space
    that it replaces. The two tags of an element may go to different segments.
    """
    found: list[list[Tag]] = [[] for _ in segments]
    sides = _tag_sides(tags)
    after = 0
    for at, group in groupby(range(len(tags)), key=lambda index: tags[index].at):
        while after + 1 < len(segments) and segments[after][1] <= at:
            after += 1
        before = after - 1 if after and segments[after][0] == at else after
        indices = list(group)
        bound = max((i + 1 for i in indices if sides[i] < 0), default=indices[0])
        bound = next((i for i in indices if i >= bound and sides[i] > 0), indices[-1] + 1)
        for i in indices:
            segment = before if i < bound else after
            found[segment].append(tags[i]._replace(at=at - segments[segment][0]))
    return found


def place_tags(
    translation: Sequence[str | ProtectedSpan], tags: Sequence[Tag], source: str, text: AlignedWords
) -> TagNode:
    """The places of `tags` in the translation of the sentence `source`: a tree with a node for each element and mark.

    `tags` are the sentence's share, so an element may have only one of its two tags. Positions in the translation count
    its joined pieces, a ProtectedSpan by its `raw`. Every tag occurs once, well nested, inside its original parent,
    around whole words, or parts of a word that has the same beginning or end as one with tags inside. An element with
    words is around a word, if need be that of an element beside it. Only a white-space mark is dropped if there is no
    space nearby.
    """
    cut_words = _cut_words(source, tags)
    if cut_words:
        text = AlignedWords(translation, text.aligned_spans, cut_words)
    root = tag_tree(tags, len(source))
    root.units, root.place = (0, len(text.units)), (0, len(text.shown))
    spaces = {tag.at for tag in tags if tag.space}
    waiting = [(root, text.alignments)]
    while waiting:
        node, alignments = waiting.pop()
        waiting += _ChildPlacer(node, alignments, text, spaces, source, cut_words).place_children()
    return root


def _cut_words(source: str, tags: Sequence[Tag]) -> list[CutWord]:
    """The words that have tags of elements inside, cut there."""
    inside = (tag.at for tag in tags if tag.kind != "mark" and 0 < tag.at < len(source))
    places = sorted({at for at in inside if not (source[at - 1].isspace() or source[at].isspace())})
    found: list[CutWord] = []
    for number, word in enumerate(units([source], ()) if places else ()):
        cuts_in_word = places[bisect_right(places, word.start) : bisect_left(places, word.end)]
        if cuts_in_word and is_spaced(source[word.start]):
            cuts = [at - word.start for at in cuts_in_word]
            found.append(CutWord(word.start, source[word.start : word.end], cuts, is_first=not number))
    return found


_NUMERAL = re.compile(r"(?<![^\W_])(?:\d+|[IVXLCDM]+)\Z")
_ORDINAL = re.compile(r"(\d+|[IVXLCDM]+)[a-zºª]{1,3}")
"""An ordinal, whose ending alone is in an element, as in the source: 21<sup>st</sup>."""


class _ChildPlacer:
    """A placed node, whose children are placed within it.

    `alignments` are those of its source characters and units. Elements with more aligned characters choose first.
    """

    def __init__(
        self,
        node: TagNode,
        alignments: list[UnitAlignment],
        text: AlignedWords,
        spaces: set[int],
        source: str,
        cut_words: Sequence[CutWord],
    ) -> None:
        self.node, self.alignments, self.text, self.spaces = node, alignments, text, spaces
        self.source, self.cut_words = source, cut_words
        self.elements = [child for child in node.children if child.end > child.start]
        self.runs: list[tuple[int, int]] = []
        self.places: list[tuple[int, int]] = []
        """Places of children that have words; both sorted."""
        self.used: set[int] = set()
        """Spaces that a mark has replaced."""
        self.low, self.high = node.place
        """Bounds for elements that are only in this sentence: after those begun earlier, before those that continue."""
        self.by_source: list[UnitAlignment] | None = None

    def place_children(self) -> Iterator[tuple[TagNode, list[UnitAlignment]]]:
        """Places the children; yields those that have children, with their alignments."""
        alignments_of = dict(zip(self.elements, self._alignments_by_element(), strict=True))
        for child in self._in_order_of_choice(alignments_of):
            run = self._choose_run(child, alignments_of[child])
            if run and not (self._needs_word(child) and self.text.is_punctuation(*run)):
                self._place_run(child, run)
        for child in self.elements:
            if child.units == (0, 0) and self._needs_word(child):
                self._place_without_alignment(child)
        for child in self.node.children:
            if child.units == (0, 0):
                self._place_mark(child)
            if child.children:
                first, end = child.units
                alignments = alignments_of.get(child, [])
                whole = child.units == self.node.units
                yield child, alignments if whole else [one for one in alignments if first <= one.unit < end]

    def _in_order_of_choice(self, alignments_of: dict[TagNode, list[UnitAlignment]]) -> list[TagNode]:
        if len(alignments_of) < 2:
            return list(alignments_of)
        weights = {child: sum(one.weight for one in alignments) for child, alignments in alignments_of.items()}
        return sorted(
            alignments_of, key=lambda child: (not (child.opened_before or child.closed_after), -weights[child])
        )

    def _alignments_by_element(self) -> list[list[UnitAlignment]]:
        """For each element, the alignments whose source is in it."""
        if len(self.elements) == 1 and self._is_whole(self.elements[0]):
            return [self.alignments]
        alignments_of: list[list[UnitAlignment]] = [[] for _ in self.elements]
        starts = [2 * child.start for child in self.elements]
        for alignment in self.alignments if starts else ():
            i = bisect_right(starts, alignment.centre) - 1
            if i >= 0 and alignment.centre < 2 * self.elements[i].end:
                alignments_of[i].append(alignment)
        return alignments_of

    def _is_whole(self, child: TagNode) -> bool:
        return (child.start, child.end) == (self.node.start, self.node.end)

    def _choose_run(self, child: TagNode, alignments: list[UnitAlignment]) -> tuple[int, int] | None:
        """The units of `child`; None if it gets no word."""
        first, end = self._all_words(child)
        if first < end and not self._is_taken(first, end):
            return first, end
        aligned = [
            (unit, sum(one.weight for one in group)) for unit, group in groupby(alignments, key=lambda one: one.unit)
        ]
        run = (
            self._best_run_at_edge(child, aligned)
            if child.opened_before or child.closed_after
            else self._best_run(aligned)
        )
        return self._with_edges(child, *run) if run else None

    def _with_edges(self, child: TagNode, start: int, end: int) -> tuple[int, int]:
        """The run, extended by punctuation at its parent's edges if the source element reaches them, otherwise without
        it."""
        first, last = self.node.units
        if child.start == self.node.start and self._is_free_punctuation(first, start):
            start = first
        if child.end == self.node.end and self._is_free_punctuation(end, last):
            end = last
        units = self.text.units
        while child.start > self.node.start and start == first and end - start > 1 and not units[start].is_word:
            start = first = start + 1
        while child.end < self.node.end and end == last and end - start > 1 and not units[end - 1].is_word:
            end = last = end - 1
        return start, end

    def _all_words(self, child: TagNode) -> tuple[int, int]:
        """The units of an element that has all words of its parent; empty for others.

        An element counts as having all words of a sentence if it leaves out only a character or two, where the
        translation has punctuation.
        """
        first, end = self.node.units
        before, after = child.start - self.node.start, self.node.end - child.end
        if max(before, after) > _MAX_OUTSIDE_CHARS:
            return 0, 0
        inner_first, inner_end = first, end
        while before and inner_first < end and not self.text.units[inner_first].is_word:
            inner_first += 1
        while after and inner_first < inner_end and not self.text.units[inner_end - 1].is_word:
            inner_end -= 1
        if (before and inner_first == first) or (after and inner_end == end):
            return 0, 0
        return inner_first, inner_end

    def _best_run_at_edge(self, child: TagNode, aligned: list[tuple[int, int]]) -> tuple[int, int] | None:
        """The best run that starts where the parent does, or ends where it does."""
        first, end = self.node.units
        best, best_score, inside = None, 0, 0
        for unit, weight in aligned if child.opened_before else reversed(aligned):
            inside += weight
            run = (first, unit + 1) if child.opened_before else (unit, end)
            score = 2 * inside - self.text.weight(*run)
            if (best is None or score >= best_score) and not self._is_taken(*run):
                best, best_score = run, score
        return best

    def _best_run(self, aligned: list[tuple[int, int]]) -> tuple[int, int] | None:
        """The free run that maximises characters aligned to the element minus those that are not (Kadane's algorithm).

        A run continues where that costs nothing: an element's words mostly stay together.
        """
        best, best_score = None, 0
        first, end, score = 0, 0, 0
        for unit, weight in aligned:
            if self._is_taken(unit, unit + 1):
                continue
            score -= self.text.weight(end, unit)
            if score < 0 or first == end or self._is_taken(first, unit):
                first, score = unit, 0
            end = unit + 1
            score += 2 * weight - self.text.weight(unit, end)
            if best is None or score > best_score or (score == best_score and first == best[0]):
                best, best_score = (first, end), score
        return best

    def _is_taken(self, first: int, end: int) -> bool:
        i = bisect_left(self.runs, (end, end))
        return i > 0 and self.runs[i - 1][1] > first

    def _is_free_punctuation(self, first: int, end: int) -> bool:
        return first < end and not self._is_taken(first, end) and self.text.is_punctuation(first, end)

    def _place_run(self, child: TagNode, run: tuple[int, int]) -> None:
        units, (low, high) = self.text.units, self.node.place
        start, end = units[run[0]].start, units[run[1] - 1].end
        if _NUMERAL.search(self.source[max(0, child.start - 9) : child.start]):
            number = _ORDINAL.fullmatch(self.text.shown, start, end)
            start = number.end(1) if number and self.source[child.start : child.end].isalpha() else start
        # A space mark that is first or last in the element needs that space inside.
        if child.start in self.spaces and start > low and self._is_space(start - 1):
            start -= 1
        if child.end - 1 in self.spaces and end < high and self._is_space(end):
            end += 1
        child.units, child.place = (
            run,
            (low if child.opened_before else start, high if child.closed_after else end),
        )
        if child.opened_before:
            self.low = end
        if child.closed_after:
            self.high = start
        i = bisect_left(self.runs, run)
        self.runs.insert(i, run)
        self.places.insert(i, child.place)

    def _needs_word(self, child: TagNode) -> bool:
        """Whether it has a word of the source, all of it in this sentence, and there are words to place it around."""
        is_whole = not (child.opened_before or child.closed_after)
        has_word = is_whole and any(map(str.isalnum, self.source[child.start : child.end]))
        return has_word and not self.text.is_punctuation(*self.node.units)

    def _place_without_alignment(self, child: TagNode) -> None:
        """Places an element with words around the nearest free word, or one of the nearest element's; or inside that
        element, if it has a single word."""
        child.is_guessed = True
        if (own := self._unit_of_its_word(child)) is not None:
            self._place_run(child, (own, own + 1))
            return
        units, (first, end) = self.text.units, self.node.units
        point = bisect_left(units, self._insertion_point(child), first, end, key=_start_of)
        outwards = chain.from_iterable(zip_longest(range(point, end), range(point - 1, first - 1, -1)))
        words = (unit for unit in outwards if unit is not None and units[unit].is_word)
        free = next((unit for unit in words if not self._is_taken(unit, unit + 1)), None)
        if free is not None:
            self._place_run(child, (free, free + 1))
        elif beside := [one for one in self.elements if one.units != (0, 0)]:
            nearest = min(beside, key=lambda one: max(one.start - child.end, child.start - one.end))
            self._place_beside(child, nearest)

    def _unit_of_its_word(self, child: TagNode) -> int | None:
        """The free unit that is best aligned to the word of which an element has a part."""
        word = next((word for word in self.cut_words if word.start <= child.start and child.end <= word.end), None)
        if word is None:
            return None
        inside = (one for one in self.alignments if 2 * word.start <= one.centre < 2 * word.end)
        free = [
            one for one in inside if self.text.units[one.unit].is_word and not self._is_taken(one.unit, one.unit + 1)
        ]
        return max(free, key=lambda one: one.weight).unit if free else None

    def _place_beside(self, child: TagNode, sibling: TagNode) -> None:
        first, end = sibling.units
        words = [unit for unit in range(first, end) if self.text.units[unit].is_word]
        if len(words) < 2:
            self.node.children = [one for one in self.node.children if one is not child]
            sibling.children = sorted([*sibling.children, child], key=_start_of)
            return
        i = bisect_left(self.runs, sibling.units)
        del self.runs[i], self.places[i]
        is_after = child.start >= sibling.end
        unit = words[-1 if is_after else 0]
        self._place_run(sibling, (first, unit) if is_after else (unit + 1, end))
        self._place_run(child, (unit, unit + 1))

    def _is_space(self, character: int) -> bool:
        """Whether it is a space outside the children."""
        return self.text.shown[character : character + 1].isspace() and self._child_around(character) is None

    def _child_around(self, character: int) -> tuple[int, int] | None:
        i = bisect_right(self.places, (character, len(self.text.shown))) - 1
        return self.places[i] if i >= 0 and self.places[i][1] > character else None

    def _place_mark(self, child: TagNode) -> None:
        """Places a mark, or an element without words, between words; against a word if it is against one."""
        point = min(max(self._insertion_point(child), self.low), self.high)
        if not child.space and child.start == child.end:
            point = self._against_word(child.start, point)
        child.place = (point, point)
        if child.space:
            found = next((c for c in self._spaces_near(point) if self._may_replace(c, child)), None)
            if found is not None:
                self.used.add(found)
                child.place = (found, found + 1)
            elif child.opening.isspace():
                child.opening = ""

    def _against_word(self, at: int, point: int) -> int:
        shown, before, after = self.text.shown, self.source[:at][-1:].strip(), self.source[at : at + 1].strip()
        if before and not after and at > self.node.start:
            first, end = self.node.units
            if point == self.low and first < end and self.text.units[first].start >= self.low:
                point = min(self._beside(first, 1), self.high)  # no word before it has a translation
            while point > self.low and shown[point - 1].isspace():
                point -= 1
        while after and not before and point < self.high and shown[point].isspace():
            point += 1
        return point

    def _insertion_point(self, child: TagNode) -> int:
        """Beside the word that its adjacent source word went to: the one before it, if it touches both or none."""
        if child.opened_before or child.start == self.node.start:
            return self.low
        if child.closed_after or child.end == self.node.end:
            return self.high
        if self.by_source is None:
            self.by_source = sorted(self.alignments, key=lambda one: (one.centre, one.unit))
        i = bisect_left(self.by_source, 2 * child.start, key=lambda one: one.centre)
        before, after = self.by_source[i - 1 : i], self.by_source[i : i + 1]
        if after and (not before or before[0].source[1] < child.start) and after[0].source[0] <= child.start:
            return self._beside(after[0].unit, 0)
        return self._beside(before[0].unit, 1) if before else self.low

    def _beside(self, unit: int, side: int) -> int:
        start, end, _ = self.text.units[unit]
        return (self._child_around(start) or (start, end))[side]

    def _spaces_near(self, point: int) -> Iterator[int]:
        """Spaces beside `point`, or after the punctuation that follows it."""
        shown = self.text.shown
        yield from (c for c in (point, point - 1) if self.low <= c < self.high)
        while point < self.high and not (shown[point].isalnum() or shown[point].isspace() or shown[point] == OBJECT):
            point += 1
        if point < self.high:
            yield point

    def _may_replace(self, character: int, mark: TagNode) -> bool:
        # A line break of the source must not replace a space that keeps a line together.
        breaks = mark.opening.isspace() and self.text.shown[character] != " "
        return self._is_space(character) and character not in self.used and not breaks


def _tag_sides(tags: Sequence[Tag]) -> list[int]:
    """For each tag, whether it belongs to the characters before it (-1), after it (1), or neither (0)."""
    sides = [1 if tag.space else {"open": 1, "close": -1, "mark": 0}[tag.kind] for tag in tags]
    for opening, closing in tag_pairs(tags):
        if tags[opening].at == tags[closing].at:
            sides[opening] = sides[closing] = 0
    return sides
