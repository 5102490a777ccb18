"""Compares texts for a translation memory: what may differ between equal texts, and how a stored translation takes it.

Two texts are equal if they differ only in white space, and in the values of their slots: numbers and placeholders.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from app.markup.passage import replaced
from app.text.numbers import find_written_numbers
from app.text.placeholders import find_placeholders
from app.text.symbols import is_nesting
from model.languages import language_alone
from model.normalisation import compose

MAX_CHARS, MAX_SLOTS = 5_000, 1_000
"""A longer text, or one with more slots, equals only itself, and is similar to none: so the work for a text, and what
is kept of it, stay small."""
_BLANKS = re.compile(r"(?:[^\S\n ]| [^\S\n])[^\S\n]*")
"""A run of blanks in a line, except a single space."""
_LINE_END = re.compile(r" ?(?:\r\n?|\n) ?")
_BEGIN, _END = "\ufdd0", "\ufdd1"
"""Noncharacters, which Unicode reserves for a process's internal use: the ends of a slot. In a text, the first is
doubled."""
TOKEN = re.compile(
    "\ufdd0[^\ufdd1]*\ufdd1|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"
    r"|(?:(?![\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff])\w)+|\n|[^\w\s]"
)
"""A slot, an ideograph or a letter of a script without spaces, a word, or a mark."""
_DIGITS = re.compile(r"\d+")
_PRINTF_NUMBER = re.compile(r"%(?:\d+\$|\(\w+\))?[-+ #0']*\d*(?:\.\d+)?(?:hh|h|ll|l|z)?[diuxXofFeEgG]")
_NAME_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
"""The words of a name: `several` and `Users` of `severalUsers`."""
_GRAMMATICAL_NUMBERS = frozenset(
    ["zero", "one", "two", "few", "many", "several", "multiple", "single", "singular", "plural"]
)
_LANGUAGE = re.compile(r"\w+")
_SINGULAR_OR_PLURAL = frozenset(
    _LANGUAGE.findall("""
        af an bg ca da de el en eo es et eu fi fo fr fur fy gl gu hi hu hy is it kn ku lb ml mr nb ne nl nn no or pa pt
        sq sv sw ta te tk tr ur
    """)
)
_ONE_FORM = frozenset(["id", "ja", "ko", "lo", "ms", "my", "th", "vi", "wuu", "yue", "zh"])
"""Languages whose words do not change with a number. In a language of neither set, many forms are possible, and a
number takes another one's place only if both have the same last two digits up to 20, or the same last digit above: so
all rules of Unicode's CLDR for whole numbers give them the same form."""


class Slot(NamedTuple):
    """Characters [start, end) of a normalised text that may differ between equal texts."""

    start: int
    end: int
    value: str
    kind: str
    """Only a slot of the same kind may take its place."""


class Abstracted(NamedTuple):
    """A text whose slots are taken out."""

    text: str
    """Normalised, with the slots' values."""
    key: str
    """With the slots' kinds in place of their values. Equal texts have equal keys."""
    slots: tuple[Slot, ...]


def normalise(text: str) -> str:
    """`text` in NFC, with one space for each run of blanks in a line, and without outer blanks."""
    return _LINE_END.sub("\n", _BLANKS.sub(" ", compose(text))).strip()


def text_id(text: str) -> str:
    """Names a text among those of a direction, whatever its white space, without showing it."""
    return id_of_normalised(normalise(text)).hex()


def id_of_normalised(text: str) -> bytes:
    """`text_id` of a text that is normalised."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def abstract(text: str, language: str, other: str) -> Abstracted:
    """Takes the slots out of `text`, which is in `language`. `other`: the language of its translation or source."""
    return abstract_normalised(normalise(text), language, other)


def abstract_normalised(text: str, language: str, other: str) -> Abstracted:
    """`abstract` for a text that is normalised."""
    slots = _find_slots(text, language, other) if len(text) <= MAX_CHARS else ()
    if len(slots) > MAX_SLOTS:
        slots = ()
    key = replaced(text, ((slot.start, slot.end, f"{_BEGIN}{slot.kind}{_END}") for slot in slots), _escaped)
    return Abstracted(text, key, slots)


def substitute(stored: Abstracted, translation: Abstracted, new: Abstracted) -> str | None:
    """The translation of `new` that the `translation` of `stored` gives, whose key is the same.

    None if a value that changes does not occur in the translation as often as in the stored text, or would have to
    become two different ones, or if the translation has a number that the stored text has not.
    """
    return substitute_slots(stored, translation, list(zip(stored.slots, new.slots, strict=True)))


def substitute_slots(stored: Abstracted, translation: Abstracted, pairs: Sequence[tuple[Slot, Slot]]) -> str | None:
    """As `substitute`, for a text that has the values of other slots in the place of some of `stored`. `pairs`: of a
    slot of `stored` and the other text's; values without such a pair stay."""
    changed: dict[str, str] = {}
    paired = {old for old, _ in pairs}
    kept = {slot.value for slot in stored.slots if slot not in paired}
    for old, slot in pairs:
        if old.value == slot.value:
            kept.add(old.value)
        elif changed.setdefault(old.value, slot.value) != slot.value:
            return None
    if not changed:
        return translation.text
    if kept & changed.keys():
        return None
    before, after = (Counter(slot.value for slot in of.slots) for of in (stored, translation))
    if any(before[value] != after[value] for value in changed):
        return None
    # A number that only the translation has may depend on the others: sections 44 to 46 are 44, 45 et 46.
    if any(slot.kind[0] == "n" and after[slot.value] > before[slot.value] for slot in translation.slots):
        return None
    # A value elsewhere in the translation, as a part of a word or of another number, stays what it is. It may also be
    # what changes, in a form that is no slot: then nothing here can be told apart.
    values = _END.join(slot.value for slot in translation.slots)
    if any(translation.text.count(value) != values.count(value) for value in changed):
        return None
    edits = ((slot.start, slot.end, changed.get(slot.value, slot.value)) for slot in translation.slots)
    return replaced(translation.text, edits)


def tokens(text: Abstracted) -> Iterator[tuple[str, int, int]]:
    """The tokens of a text in order, each with its characters [start, end); a slot is its kind, whatever its value."""
    at = 0
    for slot in text.slots:
        yield from _words(text.text, at, slot.start)
        yield f"{_BEGIN}{slot.kind}{_END}", slot.start, slot.end
        at = slot.end
    yield from _words(text.text, at, len(text.text))


def _words(text: str, start: int, end: int) -> Iterator[tuple[str, int, int]]:
    return ((found[0], *found.span()) for found in TOKEN.finditer(text, start, end))


def _escaped(text: str) -> str:
    return text.replace(_BEGIN, _BEGIN * 2)


def _find_slots(text: str, language: str, other: str) -> tuple[Slot, ...]:
    protected = [one for one in find_placeholders(text, language) if not is_nesting(one.raw)]
    slots = [Slot(one.start, one.end, one.raw, _kind_of_placeholder(one.raw)) for one in protected]
    at = 0  # the first placeholder that ends after the number begins: both come in order
    for number in find_written_numbers(text, other):
        start, end = number.span()
        while at < len(protected) and protected[at].end <= start:
            at += 1
        if at == len(protected) or protected[at].start >= end:
            slots.append(Slot(start, end, number[0], _kind_of_number(number[0], language, other)))
    return tuple(sorted(slots))


def _kind_of_placeholder(raw: str) -> str:
    """By the way it is written: `{name}` takes the place of `{file}`, but not of a URL. Words beside it may depend on
    whether it is a number, or on a grammatical number that its name says."""
    kind = "p" + ("a" if raw[0].isalnum() else raw[0])
    if _PRINTF_NUMBER.fullmatch(raw):
        return f"{kind}#"
    named = sorted({word.lower() for word in _NAME_PARTS.findall(raw)} & _GRAMMATICAL_NUMBERS)
    return kind + ",".join(named)


def _kind_of_number(text: str, language: str, other: str) -> str:
    """By its notation, and by the form that words beside it have."""
    groups = _DIGITS.findall(text)
    if len(groups) > 1 or not text.isascii():  # a date, a time, a fraction, groups of thousands
        return "n" + _DIGITS.sub(lambda run: "0" * len(run[0]), text)
    leading = "0" if len(text) > 1 and text[0] == "0" else ""
    return f"n{leading}{_form(int(text[-9:]), language)}{_form(int(text[-9:]), other)}"


def _form(number: int, language: str) -> str:
    """Equal for numbers beside which a word of `language` has the same form. Very long numbers count by their end."""
    language = language_alone(language)
    if language in _ONE_FORM:
        return "."
    if language in _SINGULAR_OR_PLURAL:
        return str(number) if number < 2 else "+"
    return str(number) if number <= 20 else f"{number % 100}'" if number % 100 <= 20 else f"{number % 10}+"
