"""Numbers as a language writes them: 2.200.112,5 in German is 2,200,112.5 in English.

A number is read by the conventions of its own language. What may be a version, a section or a time stays as it is.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from app.markup.passage import OBJECT, ProtectedSpan, overlaps, replaced
from app.text.numbers import AS_WRITTEN, LETTERS, normal_number
from app.text.punctuation_marks import Edit
from model.languages import language_alone


class Notation(NamedTuple):
    """The decimal sign of a language, what it writes between groups of thousands, and before a percent sign."""

    decimal: str
    group: str
    percent: str | None = ""
    """None if the sign precedes its number."""


class Number(NamedTuple):
    """The digits before and after the decimal sign, and whether the first are in groups of thousands."""

    whole: str
    fraction: str
    is_grouped: bool


_POINT, _COMMA, _SPACE = Notation(".", ","), Notation(",", "."), Notation(",", "\u00a0")
_NOTATIONS = {
    language: notation
    for notation, languages in (
        (_POINT, "am cy en ga gu ha he hi ja km kn ko mn ms ml mt pa si so sw ta te th tl ur yo yue zh zu"),
        (_COMMA, "az bs el id is it lo nl pt sr vi"),
        (_COMMA._replace(percent="\u00a0"), "ca da de es gl hr mk ro sl"),
        (_COMMA._replace(percent=None), "eu tr"),
        (_SPACE, "af bg eo et hu hy ka kab kk ky lv pl sq tg uk uz"),
        (_SPACE._replace(percent="\u00a0"), "be br cs fi lt nb nn no ru sk sv tk"),
        (_SPACE._replace(group="\u202f", percent="\u00a0"), "fr"),
    )
    for language in languages.split()
}
"""From Unicode's CLDR (as in Babel 2.18), without languages that have digits of their own there, such as Persian, or
no data. Regions may differ, as Mexico does; a bundle is for a language."""
_BLANKS = " \u00a0\u2009\u202f"
_ANYWHERE = "'’\u00a0\u2009\u202f"
"""What separates groups in any language: in Switzerland, and where a writer follows SI."""
_UNIT_WORDS = (
    r"[kcmµμn]?m|[kmµμ]?g|[mc]?[lL]|[kMGT](?:Wh?|Hz|B|iB|bit|V|J)|[WVJ]|Hz|k?Pa|hPa|ha|k?cal|px|mph|km/h|m/s|lbs?|oz"
    r"|EUR|USD|GBP|CHF|CNY|JPY|[Ee]uros?|[Dd]oll?ars?|dólar(?:es)?|yuan|yen|[Pp]fund|pounds?|pesos?|[Ff]ranken|francs?"
    r"|Mio|Mrd|(?:[Mm]il|[Bb]il|[Tt]ril)(?:l?i(?:ons?|onen|ards?|arden)|l[oó]n(?:es)?)|[Pp]rozent(?:punkten?)?"
    r"|per ?cent|pour cent|por ciento|[Kk]ilom\w+|[Kk]ilog\w+|[Zz]entim\w+|centim\w+|[Mm][eèé]t(?:er|re|ro)[ns]?"
    r"|degr\w+|[Gg]rad|grados|[Ll]it(?:er|re|ro)s?|mil[el]\w*|inch(?:es)?|feet|Zoll|pouces?|pulgadas|[Tt]on(?:s|nes?|nen|eladas)"
    r"|[Hh]e[ck]t\w+"
)
_UNITS = rf"[%‰€$£¥°′″℃℉]|(?:{_UNIT_WORDS})(?![^\W\d_])|[元万亿美欧英日港公千厘毫平立米升克吨度倍个]"
_UNIT = re.compile(rf"[{_BLANKS}-]?(?:{_UNITS})")
_CURRENCY = re.compile(rf"(?:[$€£¥]|\b(?:EUR|USD|GBP|CHF))[{_BLANKS}]?\Z")
_REST_OF_RANGE = re.compile(
    rf"(?:[{_BLANKS}]?[-–—][{_BLANKS}]?| (?:to|or|and|bis|oder|und|à|ou|et|a|o|y) )[0-9][0-9.,]*"
)
"""It is between a number and its unit."""
_NUMBER = re.compile(
    rf"(?<![{LETTERS}.,:/\\#@&~^*'’])(?<![^\W\d_][-–+])[0-9]++(?:[.,'’][0-9]++|[{_BLANKS}][0-9]{{3}}(?![0-9]))*+"
    rf"(?:(?![{LETTERS}]|[:/'’]\w|[.,][0-9])|(?={_UNITS}))"
)
_RANGE = re.compile(r"[0-9][0-9.,]*[–—][0-9.,]*[0-9]")
_SEPARATED = re.compile(rf"[0-9][.,'’{_BLANKS}][0-9]")
_PERCENT = re.compile(rf"(?<![a-z-])[a-z-]++: ?[0-9.]++%[;}}]|(?<=[0-9])([{_BLANKS}]?)%(?![\w(]|[{_BLANKS}]?[0-9])")
"""A percent sign and the blank before it, or a declaration of CSS."""
_OPERATORS = frozenset("=<>≤≥≈*/^×÷" + OBJECT)
_LABEL = re.compile(
    r"(?:v|vers\w+|rev|release|build|ch|cap|kap|chap\w*|kapiteln?|cap[ií]tulos?|sect(?:ions?)?|secc?i[oó]n(?:es)?|abs"
    r"|abschnitt\w*|abs[aä]tz\w*|ziffern?|art|arti[ck]\w+|art[ií]culos?|alinéas?|para\w*|fig|figur\w*|abb|abbildung\w*|tab"
    r"|tab[le]\w+|nrn?|no|n[oº°]|num|numbers?|\w*nummern?|num[eé]ros?|n[uú]meros?|steps?|schritte?n?|[eé]tapes?|pasos?|pp?"
    r"|pages?|seiten?|p[aá]ginas?|items?|punkte?n?|puntos?|points?|rules?|e?x[ae]mpl\w+|ejemplos?|beispiel\w*|aufgaben?"
    r"|übung(?:en)?|exerci[cs]\w+|ejercicios?|equations?|port|\w*phone|tel|\w*telefon|tel[eé]fono|t[eé]l|t[eé]l[eé]phone|tfno"
    r"|tlf|m[oó]vil|handy|fax|call|siren|siret|isbn|issn|rfc|iso|din|level|appendix|anhang|anne\w+|anexos?|parts?|teile?n?"
    r"|parties?|partes?|see|siehe|voir|v[eé]ase)[.:]*",
    re.IGNORECASE,
)
"""The word before a number that names something."""
_OPENING_MARKS = re.compile("[(\\[{„“”\"'‘’«]")
_REST_OF_LIST = re.compile(
    rf"[0-9][0-9.,]*(?:[{_BLANKS}]?[-–—,;][{_BLANKS}]?| (?:to|or|and|bis|oder|und|à|ou|et|a|o|y|e) )\Z"
)
"""It is between a label and a number."""
_QUANTIFIER = re.compile(
    r"about|around|nearly|almost|over|only|than|roughly|approximately|by|average|averag(?:ed|es|ing)", re.IGNORECASE
)
_COUNTING = re.compile(
    r"ha(?:ve|s|d|ving)|of|every|per|another|(?:need|take|last|contain|hold|get|give|produce|score|eat|drink)s?|took|lasted"
    r"|contained|held|needed|scored|got|gave|produced",
    re.IGNORECASE,
)
"""A word before a number and its noun; others, such as an article or a name, also are before versions."""
_MEASURED = re.compile(
    r"\b(?:growth|rate|ratio|average|mean|median|score|index|magnitude|density|distance|height|weight|length) "
    r"(?:is|was|were|are) \Z",
    re.IGNORECASE,
)
_NOUN = re.compile(
    r"[ -](?!(?:and|or|was|is|are|were|to|in|of|has|have|had|will|for|with|by|on|from|the|that|which|who|if|when|but|as"
    r"|at|can|may|must|should|would|only|also|because|then|so|not|via|how|where|before|after|since|until|into|branch|series"
    r"|include|[ap]m)\b)[a-z]{3,}"
)
"""What follows a quantity: a word in small letters, which mostly is its noun."""
_VERSION = re.compile(
    r"\b(?:version|release|upgrad|updat|deprecat|compatib|support|install|migrat|framework|beta|alpha|rc\d|later\b|earlier"
    r"|higher|newer)",
    re.IGNORECASE,
)
_NEAR = 100
"""Characters before and after a number in which a word may say that it is a version."""
_TIME = re.compile(r"(?!0\.)(?:[01]?[0-9]|2[0-4])\.[0-5][0-9]")
_TELEPHONE = re.compile(rf"[0-9]{{3}}(?:[.{_BLANKS}][0-9]{{3}}){{2}}")
_COUNTED = re.compile(
    rf"[{_BLANKS}](?:Einwohner\w*|Menschen|Personen|habitant\w*|inhabitants|people|person\w+|hombres|hommes)\b"
)
"""What a number of nine digits counts, which might be that of a telephone."""
_GOES_ON = re.compile(rf"[{_BLANKS}][0-9]")
_BEGAN = re.compile(rf"[0-9)][{_BLANKS}]\Z")
_THOUSANDS_OR_DECIMALS = re.compile(r"[1-9][0-9]{0,2}[.,][0-9]{3}")


def may_differ(text: str) -> bool:
    """Whether a number of `text` may have another form in another language."""
    return "%" in text or _SEPARATED.search(text) is not None


def number_edits(text: str, source: str, target: str) -> list[Edit]:
    """The numbers of `text`, which is in `source`, that `target` writes in another way."""
    wanted = _NOTATIONS.get(language_alone(target))
    if wanted is None:
        return []
    edits = _percent_edits(text, wanted)
    for found, number in _numbers(text, source):
        if number and not _is_written(found[0], number, wanted):
            edits += _edits(found, _write(number, wanted))
    return sorted(edits)


def translation_edits(
    text: str,
    original: str,
    source: str,
    target: str,
    protected: Sequence[ProtectedSpan] = (),
    given: Sequence[str] = (),
) -> list[Edit]:
    """The numbers of `text`, a translation of `original`, that `target` writes in another way. Those of `given` texts
    stay, and so does what the original has more than once with different meanings. `protected`: spans of the original,
    whose numbers do not count."""
    wanted = _NOTATIONS.get(language_alone(target))
    if wanted is None:
        return []
    meant: dict[str, Number | None] = {}
    starts = set[int]()
    for found, number in _numbers(original, source):
        if not overlaps(protected, *found.span()):
            key = normal_number(found[0])
            meant[key] = number if meant.setdefault(key, number) == number else None
            starts.add(found.start())
    for other in AS_WRITTEN.finditer(original) if meant else ():  # such as a time
        if other.start() not in starts and not overlaps(protected, *other.span()):
            meant[normal_number(other[0])] = None
    edits = [] if any("%" in each for each in given) else _percent_edits(text, wanted)
    for found in _NUMBER.finditer(text) if any(meant.values()) else ():
        number = meant.get(normal_number(found[0]))
        if number and _SEPARATED.search(found[0]) and not _is_written(found[0], number, wanted):
            edits += _edits(found, _as_given(found[0], given) or _write(number, wanted))
    return sorted(edits)


def _as_given(number: str, given: Sequence[str]) -> str | None:
    """The number as a given text has it, whose spaces may be others."""
    plain = with_plain_spaces(number)
    for each in given:
        if (at := with_plain_spaces(each).find(plain)) >= 0:
            return each[at : at + len(plain)]
    return None


def with_plain_spaces(number: str) -> str:
    """A number as models write it: no-break spaces are rare in what they learn from."""
    return re.sub(f"[{_BLANKS}]", " ", number)


def in_target_form(spans: Iterable[ProtectedSpan], text: str, source: str, target: str) -> Iterator[ProtectedSpan]:
    """The spans of `text` whose `raw` is what it has there, with their numbers as `target` writes them."""
    edits = number_edits(text, source, target)
    for one in spans:
        within = edits[bisect_left(edits, (one.start,)) : bisect_left(edits, (one.end,))]
        raw = replaced(one.raw, ((start - one.start, end - one.start, form) for start, end, form in within))
        yield one._replace(raw=raw)


def is_range(text: str) -> bool:
    """Whether it is two numbers with a dash between them."""
    return _RANGE.fullmatch(text) is not None


def _edits(found: re.Match[str], form: str) -> Iterator[Edit]:
    """The edits that give a number another form: of what is between its digits, so that these keep their places."""
    at = found.start()
    for old, new in zip(re.split("[0-9]", found[0]), re.split("[0-9]", form), strict=True):
        if old != new:
            yield at, at + len(old), new
        at += len(old) + 1


def _percent_edits(text: str, notation: Notation) -> list[Edit]:
    """Adds or removes the space before a percent sign."""
    space = notation.percent
    if space is None or "%" not in text:
        return []
    found = (sign.span(1) for sign in _PERCENT.finditer(text))
    return [
        (start, end, space)
        for start, end in found
        if start >= 0 and (text[start:end] in ("", " ") if space else start < end)
    ]


def _numbers(text: str, language: str) -> Iterator[tuple[re.Match[str], Number | None]]:
    """The numbers of `text` in digits, each with its value where that is certain and another language may write it in
    another way."""
    own = _NOTATIONS.get(language_alone(language))
    if own and _SEPARATED.search(text):  # rarely so
        for found in _NUMBER.finditer(text):
            yield found, _meaning(found, own) if _SEPARATED.search(found[0]) else None


def _meaning(found: re.Match[str], own: Notation) -> Number | None:
    written, text, end = found[0], found.string, found.end()
    before = text[max(0, found.start() - 40) : found.start()]
    word = before.split()[-1] if before.strip() else ""
    if _is_part_of_code(written, before, word, text, end):
        return None
    rest = _REST_OF_RANGE.match(text, end)
    has_unit = bool(_UNIT.match(text, end) or (rest and _UNIT.match(text, rest.end())) or _CURRENCY.search(before))
    after = text[end : end + 2]
    is_bracketed = before[-1:] in ("(", "[", "{") and after[:1] in (")", "]", "}")
    is_formula = {word[-1:], after.strip()[:1]} & _OPERATORS
    if (is_formula or is_bracketed) and not has_unit:
        return None
    number = _read(written, own, ("." if own.decimal == "," else "") + own.group)
    if number is None:
        return _foreign_meaning(written, has_unit)
    if number.fraction and _THOUSANDS_OR_DECIMALS.fullmatch(written):
        return None
    if has_unit:
        return number
    word = _word_before(before)
    if _LABEL.fullmatch(_OPENING_MARKS.split(word)[-1]) or re.match(r"[ \u00a0]Uhr\b", text[end : end + 5]):
        return None
    if _TELEPHONE.fullmatch(written) and not _COUNTED.match(text, end):
        return None
    if own.decimal == "," and number.fraction and after[:1] == "-" and after[1:].isalpha():  # 1,2-Dichlorethan
        return None
    if own.decimal == "," or number.is_grouped:
        return number
    return number if _is_quantity(written, before, word, text, rest.end() if rest else end) else None


def _is_part_of_code(written: str, before: str, word: str, text: str, end: int) -> bool:
    """Whether it is certainly part of something longer: a telephone number, or a declaration of CSS."""
    if any(blank in written for blank in _BLANKS) and (_GOES_ON.match(text, end) or _BEGAN.search(before)):
        return True
    return word[-1:] == ":" and text[end : end + 2] in ("%;", "%}")


def _word_before(before: str) -> str:
    """The last word, before any numbers of the same list."""
    while rest := _REST_OF_LIST.search(before):
        before = before[: rest.start()]
    return before.split()[-1] if before.strip() else ""


def _foreign_meaning(written: str, has_unit: bool) -> Number | None:
    """What a number means that its language would not write like this."""
    meant = {
        number for notation in (_POINT, _COMMA) if (number := _read(written, notation, notation.group + _ANYWHERE))
    }
    marks = set(re.sub("[0-9]", "", written))
    is_clear = has_unit or len(marks) > 1 or not marks.isdisjoint(_ANYWHERE)
    return meant.pop() if len(meant) == 1 and is_clear else None


def _is_quantity(written: str, before: str, word: str, text: str, end: int) -> bool:
    """Whether a number with a decimal point and without a unit is no version, section or time."""
    if written.endswith(".0") or _VERSION.search(text, max(0, end - _NEAR), end + _NEAR):
        return False
    if _MEASURED.search(before):
        return True
    if _TIME.fullmatch(written):
        return False
    return bool(_QUANTIFIER.fullmatch(word) or (_COUNTING.fullmatch(word) and _NOUN.match(text, end)))


def _is_written(written: str, number: Number, notation: Notation) -> bool:
    """Whether a language with this notation reads the number as it is written."""
    if " " in written:  # a line may end there
        return False
    read = _read(written, notation, notation.group)
    return read is not None and read[:2] == number[:2]


def _read(written: str, notation: Notation, groups: str) -> Number | None:
    found = _pattern(notation, groups).fullmatch(written)
    return Number(re.sub(r"\D", "", found[1]), found[3] or "", not found[1].isdigit()) if found else None


@cache
def _pattern(notation: Notation, groups: str) -> re.Pattern[str]:
    marks = re.escape(groups + _BLANKS * (notation.decimal == ","))
    indian = r"|[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}" if "," in groups else ""
    whole = rf"[1-9][0-9]{{0,2}}([{marks}])[0-9]{{3}}(?:\2[0-9]{{3}})*{indian}|[0-9]+"
    return re.compile(rf"({whole})(?:{re.escape(notation.decimal)}([0-9]+))?")


def _write(number: Number, notation: Notation) -> str:
    whole = number.whole
    if number.is_grouped:
        first = len(whole) % 3
        groups = [whole[:first], *(whole[at : at + 3] for at in range(first, len(whole), 3))]
        whole = notation.group.join(filter(None, groups))
    return whole + (notation.decimal + number.fraction if number.fraction else "")
