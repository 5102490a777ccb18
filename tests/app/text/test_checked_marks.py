"""Numbers and marks of a translation are compared with the source's in whatever way a language writes them."""

from __future__ import annotations

import pytest

from app.text.checked_marks import checked_spans, has_same_marks, without_invented


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("We met at 10:30.", "À 10 h 30."),
        ("We met at 10:30.", "À 10.30."),
        ("It has 1,000 rooms.", "Il a 1\u202f000 pièces."),
        ("It costs 1,234.56 euros.", "Das kostet 1.234,56 Euro."),
        ("the 1990s, the 21st", "les années 1990, le XXIe"),
        ("“Yes,” she said.", "« Oui », dit-elle."),
        ("It's a 'yes'.", "C'est un « oui »."),
        ("a (b) c", "a （b） c"),
        ("50%", "50 %"),
        ("５０％", "50 %"),
        ("three", "3"),
        ("I've got John's book and the dogs' bones.", "J'ai le livre de John."),
    ],
)
def test_marks_in_the_way_of_the_target_are_the_same(source: str, translation: str) -> None:
    assert has_same_marks(source, translation, "en", "fr")


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("It has 25 rooms.", "Il a 52 pièces."),
        ("It has 25 rooms.", "Il a 25 25 pièces."),
        ("It has 25 rooms.", "Il a des pièces."),
        ("It has 25 rooms.", "Il a 25 pièces et 3 lits."),
        ("It costs 283,82 €.", "Il coûte 28382 €."),
        ("It costs 283,82 €.", "Il coûte 283,82."),
        ("12 and 12", "12"),
        ("“Yes,” she said.", "« Oui, dit-elle."),
        ("a (b) c", "a (b c"),
        ("Tom & Mary", "Tom et Mary"),
        ("yes", "« oui"),
        ("the atoms", "les 3 atomes"),
    ],
)
def test_other_marks_are_not_the_same(source: str, translation: str) -> None:
    assert not has_same_marks(source, translation, "en", "fr")


@pytest.mark.parametrize(
    ("text", "target", "kept"),
    [
        ("It costs 283,82 € or $5.", "de", ["283,82 €", "$5"]),
        ("12 million people in 2024", "zh", ["2024"]),
        ("12 million people in 2024", "fr", ["12", "2024"]),
        ("12 月 25 日", "en", ["25"]),
        ("the COVID-19 and H2O", "fr", ["COVID-19", "H2O"]),
        ("“so”, 'so' and (so)", "fr", ["“", "”", "'", "'", "(", ")"]),
        ("-5 °C, 5th, 10am", "fr", ["-5 °C", "5", "10"]),
        ("John's, l'été, 'tis", "fr", []),
    ],
)
def test_checked_marks_are_found_with_what_belongs_to_them(text: str, target: str, kept: list[str]) -> None:
    found = list(checked_spans(text, "en", target))
    assert [text[one.start : one.end] for one in found] == kept


def test_checked_numbers_are_written_as_the_target_writes_them() -> None:
    found = checked_spans("It costs $2,500.50, up 12.5%, in section 3.2.", "en", "de")
    assert [one.raw for one in found] == ["$2.500,50", "12,5\u00a0%", "3.2"]


def test_symbols_that_a_model_makes_up_are_removed() -> None:
    assert without_invented("a { b ♥ 5 m² …", protects_all=False) == "a  b  5 m² …"
    assert without_invented("a 5 % b", protects_all=True) == "a   b"
