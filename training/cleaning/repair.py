"""Repairs text in any language: wrongly decoded characters, control characters, HTML.

Leaves doubtful text alone; `training.cleaning.rules` decides which pairs to drop.
"""

from __future__ import annotations

import html
import re
from collections import Counter

import ftfy

from training.corpora.corpus import Pair

MOJIBAKE = "wrongly decoded characters repaired"
CONTROL = "control characters removed"
ENTITIES = "HTML character references resolved"
TAGS = "HTML tags removed"

_CONTROL_BLANKS = re.compile(r"[\x0b\x0c\x1c-\x1f\x85]+")
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u2060\ufeff]|(?<![\u0e00-\u109f\u1780-\u17ff])\u200b"
)
"""Except the zero-width space, which Thai, Lao, Burmese and Khmer use between words."""
_REFERENCE = re.compile(
    r"&(?:amp;)?(?:amp|quot|apos|nbsp|hellip|[lr][sd]quo|[mn]dash|laquo|raquo|#\d{2,6}|#x[\da-fA-F]{2,5});"
)
_SURROGATES = re.compile(r"&(?:amp;)?#(\d{5}|[xX][\da-fA-F]{4});&(?:amp;)?#(\d{5}|[xX][\da-fA-F]{4});")
_TAG = re.compile(
    r"</?(?:a|abbr|b|big|blockquote|br|center|code|dd|div|dl|dt|em|font|h[1-6]|hr|i|img|li|ol|p|pre|q|s|script|small"
    r"|span|strike|strong|style|sub|sup|table|tbody|td|th|thead|tr|tt|u|ul)(?:\s[^<>]{0,500})?/?>",
    re.IGNORECASE,
)
"""HTML's own tags: `<name>` or `<file>` may be a placeholder that the translation words differently."""
_NON_ASCII_RUN = re.compile(r"[^\x00-\x7f]{2}")
"""A letter read in a wrong encoding becomes at least two characters, none of them ASCII."""
_MAY_NEED_REPAIR = re.compile(r"[&<\x00-\x1f\x7f-\xad\u200b\u2060\ufeff]|[^\x00-\x7f]")


def repair(pair: Pair) -> tuple[Pair, list[str]]:
    """Returns the repaired and stripped pair, and which of the repairs above were made; a side may end up empty."""
    if not any(_MAY_NEED_REPAIR.search(side) for side in pair):
        return pair, []
    done = []
    for what, step in _REPAIRS.items():
        repaired = step(pair)
        if repaired != pair:
            pair = repaired
            done.append(what)
    return pair, done


def _fix_encoding(pair: Pair) -> Pair:
    return Pair(*(ftfy.fix_encoding(side) if _NON_ASCII_RUN.search(side) else side for side in pair))


def _remove_control_characters(pair: Pair) -> Pair:
    return Pair(*(_INVISIBLE.sub("", _CONTROL_BLANKS.sub(" ", side)).strip() for side in pair))


def _resolve_references(pair: Pair) -> Pair:
    """Resolves references if the sides differ in them; documentation of HTML has them on both sides."""
    source, target = (Counter(_REFERENCE.findall(side)) for side in pair)
    if source == target:
        return pair
    return Pair(*(_REFERENCE.sub(_resolve_reference, _SURROGATES.sub(_join_surrogates, side)).strip() for side in pair))


def _join_surrogates(halves: re.Match[str]) -> str:
    """The character of two references to UTF-16 surrogates, which some programs write for emoji."""
    high, low = (int(half[1:], 16) if half[0] in "xX" else int(half) for half in halves.groups())
    if not (0xD800 <= high < 0xDC00 <= low < 0xE000):
        return halves[0]
    return chr(0x10000 + ((high - 0xD800) << 10) + low - 0xDC00)


def _resolve_reference(reference: re.Match[str]) -> str:
    """The character that `reference` stands for; the reference itself if there is none."""
    character = html.unescape(html.unescape(reference[0]))
    if "\ufffd" in character:
        return reference[0]
    return character if character.isprintable() else " "


def _remove_tags(pair: Pair) -> Pair:
    """Removes tags if the sides differ in them; the model should learn those that both sides have."""
    source, target = (Counter(tag.casefold() for tag in _TAG.findall(side)) for side in pair)
    if source == target:
        return pair
    return Pair(*(" ".join(_TAG.sub(_tag_replacement, side).split()) for side in pair))


def _tag_replacement(tag: re.Match[str]) -> str:
    """A tag that breaks a line separates words; others may be inside words."""
    return " " if re.match(r"</?(?:br|p|div|li|td|th|tr|h\d|hr)\b", tag[0], re.IGNORECASE) else ""


_REPAIRS = {
    MOJIBAKE: _fix_encoding,
    CONTROL: _remove_control_characters,
    ENTITIES: _resolve_references,
    TAGS: _remove_tags,
}
