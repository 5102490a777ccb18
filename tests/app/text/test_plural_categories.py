"""Plural categories agree with CLDR, as Babel has it, and every category of the target gets a branch."""

from __future__ import annotations

import pytest
from babel import Locale
from babel.localedata import exists
from babel.messages.plurals import PLURALS

from app.text import plural_categories as ours
from app.text.plural_categories import CATEGORIES, Branch, gettext_header, plural_categories, target_branches
from model.languages import NAMES

pytestmark = pytest.mark.slow


def in_order(tags: frozenset[str]) -> tuple[str, ...]:
    return tuple(name for name in CATEGORIES if name in tags or name == "other")


@pytest.mark.parametrize("ordinal", [False, True])
def test_categories_are_those_of_cldr(ordinal: bool) -> None:
    codes = [code for code in {*ours.CARDINALS, *ours.ORDINALS} if exists(code)]
    assert len(codes) > 180
    for code in codes:
        locale = Locale(code)
        rule = locale.ordinal_form if ordinal else locale.plural_form
        assert plural_categories(code, ordinal) == in_order(rule.tags), code


def test_every_named_language_with_rules_is_in_the_table() -> None:
    with_rules = {code for code in NAMES if exists(code) and Locale(code).plural_form.tags}
    assert with_rules - ours.CARDINALS.keys() == set()


def test_languages_whose_one_counts_more_are_those_of_cldr() -> None:
    rules = {code: Locale(code).plural_form for code in ours.CARDINALS if exists(code)}
    repeated = {code for code, rule in rules.items() if any(rule(n) == "one" for n in range(2, 200))}
    assert repeated == ours.REPEATED_ONE


def test_headers_of_gettext_are_those_of_babel() -> None:
    # Babel has one form for Hungarian, which CLDR and gettext's manual give two.
    for code in ours.GETTEXT_HEADERS.keys() & PLURALS.keys() - {"hu"}:
        count, expression = PLURALS[code]
        assert gettext_header(code) == f"nplurals={count}; plural={expression};"
    assert gettext_header("pt_BR") == gettext_header("fr") and gettext_header("xx") == ""


def test_variants_and_unknown_languages() -> None:
    assert plural_categories("pt-BR") == ("one", "many", "other")
    assert plural_categories("zh_Hans") == ("other",)
    assert plural_categories("xx") == plural_categories("") == ()


ENGLISH = {"one": True, "other": True}


@pytest.mark.parametrize(
    ("source", "language", "expected"),
    [
        (ENGLISH, "de", ["one", "other"]),
        (ENGLISH, "fr", ["one", "many<other", "other"]),
        (ENGLISH, "zh", ["other"]),
        (ENGLISH, "ru", ["one", "few<other", "many<other", "other"]),
        ({"one": False, "other": True}, "ru", ["one<other", "few<other", "many<other", "other"]),
        ({"one": False, "other": True}, "fr", ["one", "many<other", "other"]),
        ({"=0": False, "one": True, "other": True}, "zh", ["=0", "other"]),
        ({"one": True, "few": True, "many": True, "other": True}, "en", ["one", "other"]),
        (ENGLISH, "xx", ["one", "other"]),
        ({"one": True}, "fr", ["one"]),
    ],
)
def test_each_category_of_the_target_has_a_branch(source: dict[str, bool], language: str, expected: list[str]) -> None:
    found = target_branches(source, language)
    assert [b.name if b.name == b.source else f"{b.name}<{b.source}" for b in found] == expected


def test_ordinals_have_categories_of_their_own() -> None:
    english = dict.fromkeys(["one", "two", "few", "other"], True)
    assert target_branches(english, "fr", ordinal=True) == [Branch("one", "one"), Branch("other", "other")]
    assert target_branches(english, "de", ordinal=True) == [Branch("other", "other")]
    assert target_branches({"zero": True, "other": True}, "de", kept=("zero",))[0] == Branch("zero", "zero")
