"""Which characters a translation keeps as they are, which of them belong together, and which chunks of text are codes.

A chunk is what stands between blanks. The model reads words, and the punctuation that the target's writing changes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from app.markup.passage import ProtectedSpan

PICTURES = (
    r"©®\u2103\u2109\u2117\u2120\u2122\u212e\u2190-\u21ff\u2300-\u2426\u249c-\u24e9\u2500-\u2767\u2794-\u27bf"
    r"\u2800-\u297f\u2b00-\u2bff\u3020\ufffc\ufffd\U0001f000-\U0001f0ff\U0001f10d-\U0001fbef"
)
"""Emoji, arrows, boxes, dingbats: Unicode's other symbols, except "°" and "№", which are used like letters."""
DIRECTION = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Marks of the direction of writing, and isolates."""
_SCRIPTED = r"²³¹\u2070-\u209c"
KEPT = (
    rf"*#@^|\\\[\]<>{{}}_~`¦§¨¬¯±´¶¸†‡•…【】〔〕\u2038\u203b\u203f-\u2046\u204a-\u205e{_SCRIPTED}\u2200-\u2211\u2213-\u22ff"
    rf"{DIRECTION}"
)
"""Always kept, for a character class of `re`, and so are `PICTURES`."""
_CODE_MARK = re.compile(rf"[{KEPT}{PICTURES}]")
_ALONE = rf"\[\]<>{{}}【】〔〕{DIRECTION}"
_BRACKETS = "[]<>{}【】〔〕" + "".join(chr(c) for c in range(0x2100) if re.match(f"[{DIRECTION}]", chr(c)))
KEPT_RUN = re.compile(rf"[{_ALONE}]|…+|(?:(?![{_ALONE}…])[{KEPT}])++")
"""Brackets one by one, since each may have a counterpart; other symbols together."""
_SEPARATED_WORDS = re.compile(r"[^\W\d_]{2,}+(?:['’-][^\W\d_]++)*+(?:[|>→←↔⇒…~][^\W\d_]{2,}+(?:['’-][^\W\d_]++)*+)++")
_WORDS = re.compile(r"[-(]?[^\W\d_]++(?:[-'’.,;:!?/()&+‐‑–—]{1,3}[^\W\d_]++)*+[-.,;:!?)]*+")
_MIN_SCRIPTED_CHARS, _MIN_MARKED_CHARS = 4, 2
"""A word with a footnote's number has as many letters as the first, "m²" has fewer; "Name*" has more than the second,
"A*" has not."""
_NAMED = re.compile(r"(?:[#@$%^|<\[{=!+~]{2,}|[#@$%^|!])[\w.:-]++(?:[#@$%^|>\]}=!+~]{2,}|[#@$%^|!])", re.ASCII)
"""A name between marks, ###name###: one that a program replaces."""
_DATE = r"(?:d{1,4}+|D{2,4}+|M{1,4}+|m{1,2}+|y{2,4}+|Y{2,4}+|[Hh]{1,2}+|[Ss]{1,3}+|a|[zZ]{1,3}+|'?T'?)"
_DATE_PATTERN = re.compile(rf"(?=[^y]*y|[^Y]*Y|[^:]*:)(?=.*(?:[dDMm]{{2}}|[Hh])){_DATE}(?:[-/.:]?{_DATE})++")
_JOINED = re.compile(r"[^\W_]*+(?:[.:/+-]+[^\W_]*+)*+")
_MEASURE = re.compile(r"[\d.,:/-]*\d[^\W\d_]{1,3}(?:/[^\W\d_]{1,3})?|[^\W\d_]+[.:]?[\d.,:/-]+|\d+[.:][^\W\d_]{2,}")
"""A number with its unit or its noun: 10:30pm, 3.5km/h, No.5; and "3.Then"."""
_MIXED = re.compile(r"\d[^\W\d_]|[^\W\d_]\d")
_PARTS = re.compile(r"[.:]+")
_KEYS = re.compile(r"[A-Z][a-z]+(?:\+[A-Z0-9]\w*)+", re.ASCII)
"""Keys to press together: Ctrl+C."""

_CLOSED_BY = {
    **{"]": "[", ">": "<", "}": "{", ")": "(（", "）": "(（", "】": "【", "〕": "〔", "»": "«", "›": "‹"},
    **{"」": "「", "』": "『", "》": "《", "〉": "〈", "’": "‘", "”": "“„", "“": "„", "«": "»", "‘": "‚"},
    **{"\u2069": "\u2066\u2067\u2068", "\u202c": "\u202a\u202b\u202d\u202e"},
}
"""Closing marks, and what each may close. Straight quotation marks close each other, and so do marks of emphasis."""
_OPENS = frozenset("".join(_CLOSED_BY.values())) | {"“", "‘"}
_NESTING_STARTS = frozenset("*_~\\\"'![]<")
"""What the marks that the patterns below match begin with."""
_SAME = re.compile(r"[*_~]+|\\?[\"']")
_TAG = re.compile(r"<(?P<end>/?)(?P<name>[\w:.-]*)(?:[\s=][^<>]*[^<>/])?>", re.DOTALL)
_BBCODE = re.compile(r"\[(?P<end>/?)(?P<name>[A-Za-z][\w-]*)(?:=[^\[\]]*)?\]")
_LINK_BEGIN, _LINK_END = re.compile(r"!?\["), re.compile(r"\]\(.*", re.DOTALL)


def is_code(chunk: str) -> bool:
    """Whether a chunk, without the punctuation around it, is kept as a whole.

    It is not if all that it has besides words are symbols before, after or between them: these are kept alone.
    """
    first, last = 0, len(chunk)
    while first < last and _CODE_MARK.match(chunk, first):
        first += 1
    while first < last and _CODE_MARK.match(chunk, last - 1):
        last -= 1
    inner = chunk[first:last]
    if _NAMED.fullmatch(chunk):
        return True
    if not any(map(str.isalnum, inner)):
        return _CODE_MARK.search(chunk) is not None
    if _CODE_MARK.search(inner):
        return not _SEPARATED_WORDS.fullmatch(inner)
    if len(inner) < len(chunk):
        marks = chunk[:first] + chunk[last:]
        least = _MIN_SCRIPTED_CHARS if re.search(rf"[{_SCRIPTED}]", marks) else _MIN_MARKED_CHARS
        if marks[0] in "[<" and marks[-1] in "]>":
            return not inner[-1].isalpha() or (inner.isupper() and len(inner) > 1) or not _WORDS.fullmatch(inner)
        if not marks.strip(_BRACKETS):
            return is_code(inner)
        return len(inner) < least or not _WORDS.fullmatch(inner)
    if _DATE_PATTERN.fullmatch(inner) or ("=" in inner[1:-1] and "==" not in inner) or inner.endswith("()"):
        return True
    if ("::" in inner and len(inner) > 2) or _KEYS.fullmatch(inner) or re.fullmatch(r"\.[^\W\d_]{2,}", inner):
        return True
    parts = _PARTS.split(inner)
    if len(parts) < 2 or not _JOINED.fullmatch(inner) or _MEASURE.fullmatch(inner):
        return False
    has_both = any(map(str.isdigit, inner)) and any(map(str.isalpha, inner))
    return has_both and (len(parts) > 2 or "+" in inner or any(map(_MIXED.search, parts)) or len(parts[-1]) == 1)


def nesting_pairs(text: str, spans: Sequence[ProtectedSpan]) -> list[tuple[int, int]]:
    """The indices of `spans` that belong together: a tag and its end, both marks of emphasis, brackets, isolates.

    Pairs do not overlap. What nests but has no counterpart is left out.
    """
    pairs: list[tuple[int, int]] = []
    opened: list[tuple[int, str]] = []
    counts = Counter[str]()
    for index, span in enumerate(spans):
        mark = text[span.start : span.end]
        name, opens, closes = _role(mark)
        if mark in "«»":  # French has blanks within the pair, and German turns it round
            closes = tuple(one for one in closes if counts[one])
            opens = not closes
        elif opens and closes:  # the same mark may do both
            before, after = text[span.start - 1 : span.start], text[span.end : span.end + 1]
            opens = not after.isspace() and not before.isalnum()
            closes = () if not before.strip() or (after.isascii() and after.isalnum()) else closes
        elif mark in "<>":  # "5 < 6"
            opens = opens and not text[span.end : span.end + 1].isspace()
            closes = () if text[span.start - 1 : span.start].isspace() else closes
        if any(counts[one] for one in closes):
            found, begun = -1, ""
            while begun not in closes:  # what was opened within the pair has no counterpart
                found, begun = opened.pop()
                counts[begun] -= 1
            pairs.append((found, index))
        elif opens:
            opened.append((index, name))
            counts[name] += 1
    return pairs


def is_nesting(mark: str) -> bool:
    """Whether it nests: a mark of emphasis, the beginning or end of a Markdown link, or an opening or closing tag."""
    _, opens, closes = _role(mark)
    return opens or bool(closes)


def _role(mark: str) -> tuple[str, bool, Sequence[str]]:
    """The name of what the mark opens or closes, whether it opens it, and the names that it may close."""
    if mark in _OPENS or mark in _CLOSED_BY:
        return mark, mark in _OPENS, tuple(_CLOSED_BY.get(mark, ""))
    if mark[:1] not in _NESTING_STARTS:  # as for most marks
        return "", False, ()
    if _SAME.fullmatch(mark):
        return mark, True, [mark]
    if _LINK_BEGIN.fullmatch(mark):
        return "[", True, ()
    if _LINK_END.fullmatch(mark):
        return "[", False, ["["]
    if tag := _TAG.fullmatch(mark) or _BBCODE.fullmatch(mark):
        name = f"{mark[0]}{tag['name']}"
        return name, not tag["end"], [name] if tag["end"] else ()
    return "", False, ()


def is_symbol(text: str) -> bool:
    """Whether it is nothing but symbols that are always kept."""
    return _CODE_MARK.search(text) is not None and not any(map(str.isalnum, text))


def is_direction(text: str) -> bool:
    """Whether it is a mark of the direction of writing."""
    return re.fullmatch(rf"[{DIRECTION}]", text) is not None
