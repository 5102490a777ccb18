"""Numbers, signs, quotation marks and brackets, which a model may write in the target's way, but must not lose or add.

The model sees them. Where its translation has others, or fewer, they are protected, and the sentence is decoded again.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator

from app.markup.passage import ProtectedSpan
from app.text.number_forms import in_target_form
from app.text.numbers import AS_WRITTEN, count_numbers, is_counted, normal_number
from app.text.symbols import KEPT, PICTURES
from model.languages import language_alone
from model.normalisation import INVISIBLE

_SIGNS = "%‰°&€£¥¢₹₽₩$+=/×÷½¼¾№µ′″" + "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳"
QUOTES = '"“”„‟«»‹›「」『』《》〈〉〝〞＂'
_SINGLE = r"(?<![^\W\d_])['‘‚](?=\S)[^'‘’]{1,200}?(?<=\S)['’‘](?![^\W\d_])"
"""A quotation between single marks; an apostrophe has letters on both sides, or on the left alone."""
_ANY = re.compile(rf"[\d{_SIGNS}{QUOTES}()（）％＄＆＋＝／'‘‚](?<![^\W\d_]['‘‚])")
_ANY_SIGN = re.compile(rf"[{_SIGNS}{QUOTES}()'‘‚−–-]")
"""Without any, `_signs` finds none."""
_NOT_PLAIN = re.compile(rf"[{INVISIBLE}\uff01-\ufffb\ufffd-\U0010ffff]")
_SINGLES = re.compile(_SINGLE)
_SIGN = re.compile(rf"[{_SIGNS}]+[CF]?")
_SIGN_OR_BRACKET, _QUOTE = re.compile(rf"[{_SIGNS}()]"), re.compile(rf"[{QUOTES}]")
_MINUS = re.compile(r"(?<![\w.,)])[-−–](?=\d)")
_ORDINAL = re.compile(r"(?:st|[nr]d|th|s|er|re|nde?|e|ème|[ºª])\b")
_CODES = re.compile(
    rf"(?:(?<![^\W_])[A-Z][A-Za-z]*+-?|(?<![\w.,])[-+−])?(?:[$€£¥][ \u00a0]?)?{AS_WRITTEN.pattern}"
    rf"(?:[ \u00a0]?(?:[%‰€£¥$]|°[CF]?))?(?:[A-Z]\w*+)?|[{_SIGNS}]++|[{QUOTES}()（）]"
)
"""Amounts, with their currency, and marks."""
_INVENTED = re.compile(rf"(?![²³…])[{KEPT}{PICTURES}]")
_INVENTED_TOO = re.compile(rf"(?![²³…])[{KEPT}{PICTURES}{_SIGNS}{QUOTES}()（）\d]")


_COUNTS = {
    "de": "zwei|drei|vier|fünf|sech|sieb|acht|neun|zehn|elf|zwölf|zig|ßig|hundert|tausend|illi|dutzend|halb|erste"
    "|mittag|mitternacht|uar|märz|april|mai|juni|juli|august|ember|oktober",
    "en": r"\b(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twel\w+|dozen|half|quarter|first|second"
    r"|third|fifth|once|twice|noon|midnight|may|june|july|march|april|august|october)\b|teen|ty\b|tieth|hundred"
    r"|thousand|illion|\wth\b|uary|ember",
    "es": r"\b(?:uno|dos|tres|seis|once|doce|mil|cien|dieci\w+|veint\w+)\b|cuatr|cinc|siete|ocho|nueve|diez|trece"
    r"|catorce|quince|nta\b|cient|illon|docena|medi|cuart|primer|segund|tercer|enero|febrero|marzo|abril|mayo|junio"
    r"|julio|agosto|embre|octubre",
    "fr": r"\b(?:deux|trois|six|sept|huit|neuf|dix|onze|cent|mille?)|quatr|cinq|douz|treiz|quinz|seiz|vingt|rente"
    r"|rante|quante|xante|illi|demi|quart|premi|second|ième|midi|minuit|janv|févr|mars|avril|\bmai\b|juin|juil|août"
    r"|embre|octobre",
    "zh": "[零一二两兩三四五六七八九十百千万萬亿億半几幾]",
}
"""Words of a number, a time or a month, which a translation may write in digits."""
_NUMBER_WORDS = {language: re.compile(words, re.IGNORECASE) for language, words in _COUNTS.items()}


def checked_spans(text: str, source: str, target: str) -> Iterator[ProtectedSpan]:
    """What a translation into `target` must have as often as `text`, which is in `source`, in order and as `target`
    writes it."""
    singles = [place for found in _SINGLES.finditer(text) for place in (found.start(), found.end() - 1)]
    found = [match.span() for match in _CODES.finditer(text) if not is_counted(text, match.end(), target)]
    spans = sorted([*found, *((place, place + 1) for place in singles)])
    return in_target_form((ProtectedSpan(start, end, text[start:end]) for start, end in spans), text, source, target)


def may_have_marks(text: str) -> bool:
    """Whether there is anything to compare."""
    return _ANY.search(text) is not None


def is_sign(text: str) -> bool:
    """Whether `checked_spans` finds it by itself."""
    return _SIGN.fullmatch(text) is not None


def has_same_marks(source: str, translation: str, source_language: str, target: str) -> bool:
    """Whether a translation into `target` has the numbers and marks of `source`, each as often."""
    source, translation = _plain(source), _plain(translation)
    if _ANY_SIGN.search(source + translation) and _signs(source) != _signs(translation):
        return False
    given = [(match, is_counted(source, match.end(), target)) for match in AS_WRITTEN.finditer(source)]
    required = [
        normal_number(match[0]) for match, counted in given if not counted and not _ORDINAL.match(source, match.end())
    ]
    if required and Counter(required) - count_numbers(translation):
        return False
    words = _NUMBER_WORDS.get(language_alone(source_language))
    if any(counted for _, counted in given) or words is None or words.search(source):  # "three" may become 3
        return True
    return all(translation.count(digit) <= source.count(digit) for digit in set(filter(str.isdecimal, translation)))


def without_invented(text: str, protects_all: bool) -> str:
    """A model's text without symbols, which it can only have made up: those of the source are protected.

    `protects_all`: so are its numbers and signs.
    """
    return (_INVENTED_TOO if protects_all else _INVENTED).sub("", text)


def _plain(text: str) -> str:
    return _NOT_PLAIN.sub(lambda found: "" if found[0] in INVISIBLE else unicodedata.normalize("NFKC", found[0]), text)


def _signs(text: str) -> Counter[str]:
    signs = Counter(_SIGN_OR_BRACKET.findall(text))
    signs['"'] = len(_QUOTE.findall(text)) + 2 * len(_SINGLES.findall(text))
    signs["-"] = len(_MINUS.findall(text))
    return +signs
