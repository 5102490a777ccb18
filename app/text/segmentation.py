"""Splits text into sentences to translate and the text between them; together they equal the input, character for
character.

Callers supply the protected ranges and the model's limits.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain, pairwise
from operator import attrgetter
from typing import NamedTuple

import sentencex

from app.markup.passage import ProtectedSpan
from app.text.symbols import is_nesting, is_symbol, nesting_pairs
from model.languages import ends_sentence
from model.normalisation import INVISIBLE

MAX_WINDOW_CHARS = 2_048
"""Characters per call of the splitter, whose time is quadratic. Well over any model's limit."""

_SEPARATORS = r"\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029|"
_LINE = re.compile(rf"[^{_SEPARATORS}]++")
"""A line of text. Line ends, other control characters, bars and arrows end every sentence, and are copied."""
_GAP = re.compile(r" {3,}+(?:[ \t]++)?+| {0,2}+\t[ \t]*+")
"""Gaps between columns: a tab, or three or more spaces, which align words vertically."""
_CJK_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]{2,}")
_CJK_LIST = re.compile(rf"\s*{_CJK_WORD.pattern}(?:\s+{_CJK_WORD.pattern})+\s*")
"""A line of ideographs or kana with blanks and no punctuation: words or clauses that the blanks separate. If single
characters are between blanks ("我 喜欢 你"), the blanks separate all words."""
_MARKERS = re.compile(
    r"""
    \s* (?: (?: \ue003+ | [-*+•‣◦▪●○·] | [-–—―]{1,3} | [*\#=]{1,6} | >+ | //{1,2} | /\*{1,2} | <!-- | \[[ xX]\]
        # "4.1 The", but "2.5 litres" is a number
        | \d{1,3}(?:\.\d{1,3}){1,8} (?=\s+[A-Z])
        | \(? (?: \d{1,3}(?:\.\d{1,3}){0,8} | [A-Za-z] | [ivxIVX]{1,5} ) \)
        # "1.", but "1. Mai" is a date
        | \d{1,3}(?:\.\d{1,3}){0,8}\.
          (?! \s+(?:Januar|Februar|März|April|Mai|Ju[nl]i|August|(?:Sept|Nov|Dez)ember|Oktober)\b )
      ) (?:\s+|$) )*
    """,
    re.VERBOSE,
)
"""Line prefixes that are not part of the first sentence: marks of lists, quotations, headings and comments."""
_END_MARKER = re.compile(r"(?:\*{1,3}/|--+>)\s*$")
_PLAIN_SENTENCE = re.compile(r"[A-Za-z](?:[\w,']| (?! )){0,98}(?<! )[.!?]?", re.ASCII)
"""Most requests are a single such sentence, and the full path would take a tenth of their time."""
_FRENCH_MARKS = "!?»"
"""Punctuation with a blank before it in French, and no words after it."""
_CLOSING = re.compile(r"(?:[)\]}»”’」』）】》\ue002\ue003]|\"(?=\s|$))+\s*")
"""Belongs to the sentence that ended, though the splitter gives it to the next."""
_STRAIGHT = "\"'"
_OPENING = re.compile(r"[.!?…][\"'”’»)]?\s+(?P<mark>[\"'“«„‘])\s*$|[。！？](?P<mark_zh>[“‘])$")
"""Opens the next sentence, though the splitter gives it to the one that ended."""
_MISSED_ENDS = (
    re.compile(r"[。！？][”’」』）】》\"]*+(?=[^\s”’」』）】》\"。！？…，、；：—])"),
    re.compile(r"(?<=[a-zà-ÿß]{4})[.!?][\"”’»)]*+\s++(?=\d)"),
    re.compile(r"(?<=\betc)\.[)\"”’»]*+\s++(?=[A-ZÀ-Þ¿¡])"),
)
"""Sentence ends that the splitter misses: in Chinese before a digit, a Latin letter, a quotation; before a number."""
_NOT_AN_END = re.compile(r"\b(?:approx|sept|chap|sect|figs|vols|núms|págs|arts)\.$", re.IGNORECASE)
_DECIMAL = re.compile(r"\d[.．]$")
_TITLE = re.compile(r"\b(?:Jr|Sr|Inc|Ltd|Corp|Co)\.\s*$")
_ORDINAL = re.compile(r"(?:^|[\s(–-])\d{1,2}\.\s*$")
_BEGINS_DE = re.compile(
    r"(?:Er|Sie|Es|Das|Der|Die|Dem|Den|Eine?|Wir|Ich|Ihr|Und|Aber|In|Im|Am|An|Auf|Auch|Doch|Dann|Danach|Damit|Dies\w*"
    r"|Man|Was|Wer|Wie|Wo|Bei|Beim|Mit|Nach|Für|Zu|Zum|Als|Wenn|So|Jetzt|Heute|Seit|Nur|Hier|Dort|Sein\w*|Dabei"
    r"|Außerdem|Allerdings)\b|[\"„»]"
)
"""Words after which "am 3." ends a sentence: otherwise it is an ordinal number with its noun, "im 18. Jahrhundert"."""
_CLAUSE_MARK = re.compile(r"[,;:\u2013\u2014](?=\s)|[\u060c\u061b\u3001\uff0c\uff1a\uff1b]")
_SPACE = re.compile(r"\s+")
_IN_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_NOT_A_WORD = re.compile(r"[!-~\u00c0-\u024f]{200,}")
"""Not a word, in a script with spaces: a key, or a file as text."""
_ODD_SPACE = re.compile(r"[^\S ]")
_ABBREVIATIONS = {
    "en": re.compile(r"(?:^|\W)(?:approx|eds?|est|vol|Ft|Mt|Maj|Col|Gen|Sgt|Lt|Capt)\.\s*$"),
    "es": re.compile(r"(?:^|\W)(?:St|Ft|Mt)\.\s*$"),
    "fr": re.compile(
        r"(?:^|[\s(«“\"'’-])(?:[A-ZÉ]|MM|M[em]|Mmes?|M(?:gr|lles?)|Drs?|Prs?|Prof|Stes?|St|Sté|art|av|bd|dép|env|n[o°]"
        r"|Ft|Mt|Maj|Col|janv|févr|juill|sept|oct|nov|déc)\.\s*$"
    ),
}
"""Abbreviations whose full stop does not end a sentence, in addition to the splitter's."""

# Protected spans are masked by private-use characters, which are neither letters, white space nor sentence ends. If the
# text itself has such characters, they count as words, which is harmless.
_WORD, _END_TAG, _SYMBOL, _STOP, _ELLIPSIS = "\ue000", "\ue002", "\ue003", "\ue004", "\ue005"
_SHOWN = str.maketrans(
    dict.fromkeys(INVISIBLE, " ")
    | {_WORD: "X", "\ue001": "x", _END_TAG: "]", _SYMBOL: "]", _STOP: "。", _ELLIPSIS: "…"}
)
"""What each mask becomes for the splitter: a name; a closing mark, as after "Done.</b>"; a quoted sentence."""
_LINE_ENDS, _CHECKBOXES = ("\\n", "\\r", "\\t"), ("[ ]", "[x]", "[X]", "[]")
_TRIMMED = "".join(chr(code) for code in range(0x3001) if chr(code).isspace()) + INVISIBLE + _SYMBOL + _ELLIPSIS

_start_of = attrgetter("start")


class Segment(NamedTuple):
    """Characters [start, end) of the text: a sentence without surrounding white space, or text that is copied."""

    start: int
    end: int
    translate: bool


def segments(text: str, language: str, protected: Sequence[ProtectedSpan] = (), whole: bool = False) -> list[Segment]:
    """The segments of `text`, which cover it without gaps. Never cuts a span of `protected`; those are in order.

    Text without letters outside `protected` is copied ("***", "12345", "{name}"), and so is what surrounds sentences:
    white space, brackets, protected symbols, marks of lists, quotations and comments at the start of a line. A
    protected span in copied text still needs its `raw` written. A `whole` text is one sentence, or is copied.
    """
    if not protected and _PLAIN_SENTENCE.fullmatch(text):
        return [Segment(0, len(text), True)]
    masked = _mask_spans(text, 0, len(text), protected)
    if whole:
        return _with_gaps(filter(None, [_trimmed(masked, 0, len(text))]), 0, len(text))
    found = (
        sentence
        for column in _columns(masked)
        for sentence in _sentences(masked, *_without_markers(masked, *column), language, protected)
    )
    return _with_gaps(filter(None, (_trimmed(masked, *sentence) for sentence in found)), 0, len(text))


def split_to_fit(
    text: str,
    start: int,
    end: int,
    protected: Sequence[ProtectedSpan],
    length: Callable[[int, int], int],
    limit: int,
    terms: Sequence[ProtectedSpan] = (),
) -> list[Segment]:
    """Splits the sentence [start, end) of `text` into segments that cover it, those to translate at most `limit` long.

    `length` returns the length of the characters between its two arguments, in the unit of the limit. Cuts repeatedly
    near the middle: after a clause mark, else at a space, else anywhere outside the spans of `protected` and `terms`,
    which do not overlap. A character or span that exceeds the limit by itself is copied, and so are hundreds of
    letters without a space.
    """
    within = protected[bisect_left(protected, start, key=_start_of) : bisect_left(protected, end, key=_start_of)]
    masked = _mask_spans(text, start, end, within)

    def pieces(first: int, last: int) -> Iterator[tuple[int, int]]:
        if length(first, last) <= limit:
            yield first, last
            return
        if _NOT_A_WORD.fullmatch(masked, first - start, last - start):
            return
        place = start + _split_point(masked, first - start, last - start)
        place = _outside_spans(terms, _outside_spans(within, place, first, last), first, last)
        if place < last:
            for half in ((first, place), (place, last)):
                if trimmed := _trimmed(masked, half[0] - start, half[1] - start):
                    yield from pieces(start + trimmed[0], start + trimmed[1])

    return _with_gaps(pieces(start, end), start, end)


def _mask_spans(text: str, start: int, end: int, protected: Sequence[ProtectedSpan]) -> str:
    """The characters [start, end) with all `protected` spans masked."""
    parts: list[str] = []
    shown = [text[one.start : one.end] for one in protected]
    paired = set(chain.from_iterable(nesting_pairs(text, protected))) if any(map(is_nesting, shown)) else ()
    for number, one in enumerate(protected):
        parts += text[start : one.start], _mask(shown[number], number in paired)
        start = one.end
    return "".join([*parts, text[start:end]])


def _mask(protected: str, is_paired: bool) -> str:
    if protected[0] == "\\" and protected in _LINE_ENDS:
        return "\n" * len(protected)
    if is_paired and (protected[:2] in ("</", "[/", "](") or not protected.strip("*_~]>}】〕\u202c\u2069")):
        return _END_TAG * len(protected)
    if not protected.strip("…"):
        return _ELLIPSIS * len(protected)
    if not protected.strip("|→⇒➔➜▶►"):
        return "|" * len(protected)
    is_empty_tag = protected[0] == "<" and protected.endswith("/>")
    if not is_paired and (is_empty_tag or is_symbol(protected) or protected in _CHECKBOXES):
        return _SYMBOL * len(protected)
    if protected[-1] in "。！？":
        return _WORD * (len(protected) - 1) + _STOP
    if not protected.isascii() and not _has_letters(protected):
        return _SYMBOL * len(protected)
    return _WORD[: len(protected)] + "\ue001" * (len(protected) - 1)


def _has_letters(text: str) -> bool:
    return any(map(str.isalpha, text))


def _columns(masked: str) -> Iterator[tuple[int, int]]:
    """The spans that may contain sentences, in order: lines, or the columns of lines that have gaps.

    A gap within a sentence is an ordinary blank; so is one in a line that ends in a mark and has no neighbouring line
    with a gap, as tables have.
    """
    lines = [line.span() for line in _LINE.finditer(masked)]
    gaps = [_gaps(masked, start, end) for start, end in lines]
    for number, (start, end) in enumerate(lines):
        if not _has_letters(masked[start:end]):
            continue
        if _CJK_LIST.fullmatch(masked, start, end):
            yield from (word.span() for word in _CJK_WORD.finditer(masked, start, end))
            continue
        beside = [*gaps[max(0, number - 1) : number], *gaps[number + 1 : number + 2]]
        if gaps[number] and (any(beside) or not _is_prose(masked, start, end, gaps[number])):
            for first, last in gaps[number]:
                yield start, first
                start = last
        yield start, end


def _gaps(masked: str, start: int, end: int) -> list[tuple[int, int]]:
    """The gaps in the line [start, end), except for its indentation and trailing blanks."""
    if "\t" not in masked[start:end] and "   " not in masked[start:end]:
        return []
    line = masked[start:end]
    first, last = end - len(line.lstrip()), start + len(line.rstrip())
    return [gap.span() for gap in _GAP.finditer(masked, first, last)]


def _is_prose(masked: str, start: int, end: int, gaps: Sequence[tuple[int, int]]) -> bool:
    """Whether the line [start, end) is a sentence including its `gaps`: one gap, or several before small letters."""
    first, last = _without_markers(masked, start, end)
    within = [gap for gap in gaps if gap[0] >= first]
    columns = [masked[a:b] for a, b in pairwise([first, *chain.from_iterable(within), last])][::2]
    return (
        all(map(_has_letters, columns[:-1]))
        and (_has_letters(columns[-1]) or columns[-1][:1] in _FRENCH_MARKS)
        and ends_sentence(columns[-1].rstrip())
        and not any(ends_sentence(column) or column.endswith((":", "：")) for column in columns[:-1])
        and (len(within) < 2 or all(column[0].islower() for column in columns[1:]))
    )


def _without_markers(masked: str, start: int, end: int) -> tuple[int, int]:
    """The line [start, end) without the marks at its start and end."""
    start = end - len(masked[start:end].lstrip(INVISIBLE))
    markers = _MARKERS.match(masked, start, end)
    assert markers is not None
    start = markers.end()
    closed = _END_MARKER.search(masked, max(start, end - 16), end)
    return start, closed.start() if closed else end


def _sentences(
    masked: str, start: int, end: int, language: str, protected: Sequence[ProtectedSpan]
) -> Iterator[tuple[int, int]]:
    """The sentences of the line [start, end), each with the white space after it."""
    while start < end:
        stop = min(start + MAX_WINDOW_CHARS, end)
        lengths = _sentence_lengths(masked[start:stop], language)
        if stop < end:
            # The last one may continue; a sentence longer than the window is cut anyway.
            lengths = lengths[:-1] or [
                _outside_spans(protected, _split_point(masked, start, stop), start, stop) - start
            ]
        for length in lengths:
            yield start, start + length
            start += length


def _sentence_lengths(window: str, language: str) -> list[int]:
    # sentencex slices by bytes after white space that it assumes to be one byte, and panics at any other.
    plain = _ODD_SPACE.sub(" ", window).translate(_SHOWN)
    found = {_adjust_to_quotes(window, end) for end in accumulate(map(len, sentencex.segment(language, plain)))}
    ends = {end for end in found if not _continues(window, end, language)}
    for pattern in _MISSED_ENDS:
        ends |= {
            mark.end() for mark in pattern.finditer(window) if not _NOT_AN_END.search(window[: mark.start() + 1][-8:])
        }
    return [end - start for start, end in pairwise(sorted(ends | {0, len(window)}))]


def _adjust_to_quotes(window: str, end: int) -> int:
    """`end` moved past marks that close its sentence, and before a mark that opens the next."""
    closing = _CLOSING.match(window, end)
    if closing and end and not window[end - 1].isspace():
        return closing.end()
    opening = _OPENING.search(window, max(0, end - 8), end)
    if not opening or end == len(window):
        return end
    name = opening.lastgroup or "mark"
    mark, place = opening[name], opening.start(name)
    opens = mark not in _STRAIGHT or window.count(mark, 0, place) % 2 == 0
    return place if opens else end


def _continues(window: str, end: int, language: str) -> bool:
    """Whether the sentence continues at `end`, though the splitter says that it ends."""
    before, after = window[max(0, end - 16) : end], window[end : end + 1]
    if _DECIMAL.search(before) and after.isdigit():
        return True
    if _TITLE.search(before) and (after.islower() or after == "("):
        return True
    if language == "de" and _ORDINAL.search(before) and not _BEGINS_DE.match(window, end):
        return True
    abbreviated = _ABBREVIATIONS.get(language)
    return abbreviated is not None and abbreviated.search(before) is not None


def _trimmed(masked: str, start: int, end: int) -> tuple[int, int] | None:
    """[start, end) without the text to copy around it; None if all of it is copied."""
    sentence = masked[start:end]
    if not _has_letters(sentence):
        return None
    start, end = end - len(sentence.lstrip(_TRIMMED)), start + len(sentence.rstrip(_TRIMMED))
    sentence = masked[start:end]
    if _IN_BRACKETS.fullmatch(sentence):
        return _trimmed(masked, start + 1, end - 1)
    return start, end


def _with_gaps(sentences: Iterable[tuple[int, int]], start: int, end: int) -> list[Segment]:
    """The sentences, in order, with the copied text before, between and after them in [start, end)."""
    found: list[Segment] = []
    for first, last in sentences:
        if start < first:
            found.append(Segment(start, first, False))
        found.append(Segment(first, last, True))
        start = last
    if start < end:
        found.append(Segment(start, end, False))
    return found


def _split_point(masked: str, start: int, end: int) -> int:
    """After the clause mark nearest the middle, if in the middle half; else at a space there; else the middle."""
    middle, quarter = (start + end) // 2, (end - start) // 4
    for pattern in (_CLAUSE_MARK, _SPACE):
        places = [found.end() for found in pattern.finditer(masked, start + quarter, end - quarter)]
        if places:
            return min(places, key=lambda place: abs(place - middle))
    return max(start + 1, middle)


def _outside_spans(protected: Sequence[ProtectedSpan], place: int, start: int, end: int) -> int:
    """`place`, or if it is inside a protected span, that range's nearer end, within (start, end) if possible."""
    one = protected[bisect_right(protected, place, key=_start_of) - 1] if protected else None
    if one is None or not one.start < place < one.end:
        return place
    after = one.start <= start or (one.end < end and one.end - place < place - one.start)
    return one.end if after else one.start
