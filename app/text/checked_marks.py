"""Numbers, signs, quotation marks and brackets, which a model may write in the target's way, but must not lose or add.

The model sees them. Where its translation has others, or fewer, they are protected, and the sentence is decoded again.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator

from app.markup.passage import ProtectedSpan
from app.text.numbers import is_counted
from app.text.symbols import KEPT, PICTURES
from model.languages import language_alone
from model.normalisation import INVISIBLE

_SIGNS = "%‰°&€£¥¢₹₽₩$+=/×÷½¼¾№µ′″"
_QUOTES = '"“”„‟«»‹›「」『』《》〈〉'
_SINGLE = r"(?<![^\W\d_])['‘‚](?=\S)[^'‘’]{1,200}?(?<=\S)['’‘](?![^\W\d_])"
"""A quotation between single marks; an apostrophe has letters on both sides, or on the left alone."""
_ANY = re.compile(rf"[\d{_SIGNS}{_QUOTES}()（）％＄＆＋＝／'‘‚](?<![^\W\d_]['‘‚])")
_ANY_SIGN = re.compile(rf"[{_SIGNS}{_QUOTES}()'‘‚−–-]")
"""Without any, `_signs` finds none."""
_NOT_PLAIN = re.compile(rf"[{INVISIBLE}\uff01-\ufffb\ufffd-\U0010ffff]")
_SINGLES = re.compile(_SINGLE)
_SIGN = re.compile(rf"[{_SIGNS}]+[CF]?")
_MINUS = re.compile(r"(?<![\w.,)])[-−–](?=\d)")
_AS_WRITTEN = re.compile(
    r"\d++(?:(?:[.,:/'’-]|[ \u00a0\u2009\u202f](?=\d{3}(?!\d))|[ \u00a0\u202f]?h[ \u00a0\u202f]?)\d++)*+"
)
"""A number as a translation may write it: 4 h 30 for 4:30, 1 000 for 1,000."""
_GROUPED = re.compile(r"(\d{1,3}(?:([.,'’\s])\d{3}(?!\d))+|\d+)(?:([.,])(\d+))?")
_ORDINAL = re.compile(r"(?:st|[nr]d|th|s|er|re|nde?|e|ème|[ºª])\b")
_NON_DIGIT = re.compile(r"\D+")
_NUMBER = r"\d++(?:[.,:/'’\u00a0\u202f-]\d++)*+"
_CODES = re.compile(
    rf"(?:(?<![^\W_])[A-Z][A-Za-z]*+-?|(?<![\w.,])[-+−])?(?:[$€£¥][ \u00a0]?)?{_NUMBER}"
    rf"(?:[ \u00a0]?(?:[%‰€£¥$]|°[CF]?))?(?:[A-Z]\w*+)?|[{_SIGNS}]++|[{_QUOTES}()（）]"
)
"""Amounts, with their currency, and marks."""
_INVENTED = re.compile(rf"(?![²³…])[{KEPT}{PICTURES}]")
_INVENTED_TOO = re.compile(rf"(?![²³…])[{KEPT}{PICTURES}{_SIGNS}{_QUOTES}()（）\d]")


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


def checked_spans(text: str, target: str) -> Iterator[ProtectedSpan]:
    """What a translation into `target` must have as often as `text`, in order."""
    singles = [place for found in _SINGLES.finditer(text) for place in (found.start(), found.end() - 1)]
    found = [match.span() for match in _CODES.finditer(text) if not is_counted(text, match.end(), target)]
    for start, end in sorted([*found, *((place, place + 1) for place in singles)]):
        yield ProtectedSpan(start, end, text[start:end])


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
    given = [(match, is_counted(source, match.end(), target)) for match in _AS_WRITTEN.finditer(source)]
    required = [
        _normal(match[0]) for match, counted in given if not counted and not _ORDINAL.match(source, match.end())
    ]
    written = list(map(_normal, _AS_WRITTEN.findall(translation)))
    if required != written and Counter(required) - Counter(written):
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
    signs = Counter(filter((_SIGNS + "()").__contains__, text))
    signs['"'] = sum(map(_QUOTES.__contains__, text)) + 2 * len(_SINGLES.findall(text))
    signs["-"] = len(_MINUS.findall(text))
    return +signs


def _normal(number: str) -> str:
    """A number, the same whatever separates its groups and its decimals."""
    grouped = _GROUPED.fullmatch(number)
    if grouped and grouped[2] != grouped[3] and len(grouped[4] or "") != 3:
        return "-".join(filter(None, (_NON_DIGIT.sub("", grouped[1]), grouped[4])))
    return _NON_DIGIT.sub("-", number)
