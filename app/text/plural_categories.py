"""Plural categories by language (Unicode CLDR 48, plurals and ordinals), and which branch of the source fills each.

Babel has the same data in 33 MB; a test compares them. A language without rules in CLDR keeps the source's branches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from model.languages import language_alone

CATEGORIES = ("zero", "one", "two", "few", "many", "other")
"""In CLDR's order."""
_CARDINAL = {
    "other": "bm bo dz id ig ii ja jbo jv kde kea km ko lkt lo ms my nqo osa sah ses sg su th to tpi vi wo yo yue zh",
    "one other": "af ak am an as asa ast az bal bem bez bg bho bn brx ce ceb cgg chr ckb csw da de doi dv ee el en eo"
    " et eu fa ff fi fil fo fur fy gl gsw gu ha haw hi hu hy ia io is jgo jmc ka kab kaj kcg kk kkj kl kn ks ksb ku ky"
    " lb lg lij ln mas mg mgo mk ml mn mr nb nd ne nl nn nnh no nr nso ny nyn om or os pa pap pcm ps rm rof rwk saq sc"
    " sd sdh seh si sn so sq ss ssy st sv sw syr ta te teo ti tig tk tn tr ts tzm ug ur uz ve vo vun wa wae xh xog yi"
    " zu",
    "one two other": "he iu naq sat se sma smj smn sms",
    "one few other": "bs hr ro shi sr",
    "one many other": "ca es fr ht it lld pt scn vec",
    "zero one other": "blo ksh lag lv prg",
    "one two few other": "dsb gd hsb sl",
    "one few many other": "be cs lt pl ru sk uk",
    "one two few many other": "br ga gv mt",
    "zero one two few many other": "ar cy kw",
}
_ORDINAL = {
    "one other": "bal fil fr ga ht hu hy lo ms ne ro sv vi",
    "few other": "be tk uk",
    "many other": "it kk lij lld sc scn vec",
    "one two few other": "ca en gd mr",
    "one many other": "ka kw sq",
    "one two many other": "mk",
    "zero one few other": "blo",
    "one few many other": "az",
    "one two few many other": "as bn gu hi or",
    "zero one two few many other": "cy",
}
"""The other languages of the first table have one category."""
_REPEATED = "be br bs ceb dsb fil gd gv hr hsb is lt lv mk prg ru sl sr tzm uk"
"""Languages whose category `one` also has numbers greater than 1, such as 21."""
REPEATED_ONE = frozenset(_REPEATED.split())
CARDINALS = {code: tuple(names.split()) for names, codes in _CARDINAL.items() for code in codes.split()}
ORDINALS = {code: tuple(names.split()) for names, codes in _ORDINAL.items() for code in codes.split()}


_GETTEXT = {
    "nplurals=1; plural=0;": "id ja km ko lo ms th vi zh",
    "nplurals=2; plural=(n != 1);": "af bg bn ca da de el en eo es et eu fi gl ha he hu it ku nb nl nn no pt sv sw",
    "nplurals=2; plural=(n > 1);": "fr",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);": "be bs hr"
    " ru sr uk",
    "nplurals=3; plural=((n==1) ? 0 : (n>=2 && n<=4) ? 1 : 2);": "cs sk",
    "nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);": "pl",
    "nplurals=3; plural=(n==1 ? 0 : (n==0 || (n%100 > 0 && n%100 < 20)) ? 1 : 2);": "ro",
}
"""The header Plural-Forms, as gettext's manual has it, for the most frequent languages."""
GETTEXT_HEADERS = {code: header for header, codes in _GETTEXT.items() for code in codes.split()}


class Branch(NamedTuple):
    """A branch of a translated plural, and the `source` branch that it translates."""

    name: str
    source: str


def plural_categories(language: str, ordinal: bool = False) -> tuple[str, ...]:
    """The categories that `language` distinguishes, in CLDR's order; () if CLDR has no rules for it."""
    code = language_alone(language)
    cardinal = CARDINALS.get(code, ())
    return ORDINALS.get(code, ("other",) if cardinal else ()) if ordinal else cardinal


def gettext_header(language: str) -> str:
    """The value of Plural-Forms in a gettext catalogue of `language`; "" if it is not known."""
    is_brazilian = language.replace("_", "-").lower() == "pt-br"
    return GETTEXT_HEADERS.get("fr" if is_brazilian else language_alone(language), "")


def counts_more_with_one(language: str) -> bool:
    """Whether the category `one` of `language` also has numbers greater than 1, such as 21."""
    return language_alone(language) in REPEATED_ONE


def target_branches(
    source: Mapping[str, bool], language: str, ordinal: bool = False, kept: tuple[str, ...] = ()
) -> list[Branch]:
    """The branches of a plural in `language`, for a source with these branches; each says whether it shows the number.

    Branches that are no category, such as =0, and those of `kept` stay. A category that the source lacks is translated
    from its `other`; so is a `one` without the number, such as "A file", in languages where it also counts 21 files.
    A source without `other`, or a language without rules, keeps its branches.
    """
    wanted = plural_categories(language, ordinal)
    if "other" not in source or not wanted:
        return [Branch(name, name) for name in source]
    found = [Branch(name, name) for name in source if name not in CATEGORIES or (name in kept and name not in wanted)]
    for name in wanted:
        is_wrong = name == "one" and not source.get(name) and source["other"] and counts_more_with_one(language)
        found.append(Branch(name, name if name in source and not is_wrong else "other"))
    return found
