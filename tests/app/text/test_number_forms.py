"""Numbers are written as the target language writes them; what may be no number stays."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.markup.passage import ProtectedSpan, replaced
from app.text.number_forms import in_target_form, is_range, number_edits, translation_edits
from app.text.numbers import count_numbers

NARROW, NO_BREAK = "\u202f", "\u00a0"


def rewritten(text: str, pair: str) -> str:
    """`text`, its numbers as the target writes them, with visible spaces: _ is narrow, ~ the ordinary no-break one."""
    source, target = pair.split("-")
    return replaced(text, number_edits(text, source, target)).replace(NARROW, "_").replace(NO_BREAK, "~")


@pytest.mark.parametrize(
    ("pair", "text", "expected"),
    [
        # decimals
        ("de-en", "Es wiegt 12,5 kg.", "12.5 kg"),
        ("fr-en", "Il pèse 12,5 kg.", "12.5 kg"),
        ("es-en", "Pesa 12,5 kg.", "12.5 kg"),
        ("en-de", "It weighs 12.5 kg.", "12,5 kg"),
        ("en-fr", "It weighs 12.5kg.", "12,5kg"),
        ("en-es", "It weighs 12.5 kg.", "12,5 kg"),
        ("zh-de", "它重12.5公斤。", "重12,5公"),
        ("de-zh", "Es wiegt 12,5 kg.", "12.5 kg"),
        ("de-en", "Es waren -3,5 °C.", "-3.5 °C"),
        ("de-en", "Das sind 0,125 Liter.", "0.125 Liter"),
        ("de-en", "Pi ist 3,1416.", "3.1416"),
        ("en-de", "Growth was 2.75.", "2,75"),
        ("en-de", "Women have 1.2 children here.", "1,2 children"),
        ("en-fr", "A 3.5-inch disk.", "3,5-inch"),
        ("en-pl", "It has 1,234.5 litres.", "1~234,5"),
        # groups of thousands
        ("de-en", "Es kostet 2.200.112 Euro.", "2,200,112 Euro"),
        ("de-fr", "Es kostet 2.200.112,50 Euro.", "2_200_112,50"),
        ("de-en", "Dort wohnen 1.234 Menschen.", "1,234 Menschen"),
        ("en-de", "It cost $2,200,112.50.", "$2.200.112,50"),
        ("en-fr", "It has 1,234 rooms.", "1_234 rooms"),
        ("en-es", "More than 10,000 people.", "10.000 people"),
        ("fr-en", "Il y a 10 000 personnes.", "10,000 personnes"),
        ("fr-de", "Il y a 2 200 112,5 litres.", "2.200.112,5"),
        ("fr-en", "Il a 10.000 soldats.", "10,000 soldats"),
        ("de-en", "Es sind 10 000 Einwohner.", "10,000 Einwohner"),
        ("es-en", "Hay 10\u00a0000 personas.", "10,000 personas"),
        ("en-de", "There are 10\u202f000 people.", "10_000 people"),
        ("de-en", "Das Konto hat 1'234'567.50 Franken.", "1,234,567.50"),
        ("de-en", "Das Konto hat 1’234 Franken.", "1,234 Franken"),
        ("en-de", "India has 12,34,567 of them.", "1.234.567 of"),
        ("en-hi", "India has 12,34,567 of them.", "12,34,567 of"),
        # amounts, percentages, ranges
        ("en-de", "It costs €12.50.", "€12,50"),
        ("en-fr", "Up to EUR 1.8.", "EUR 1,8"),
        ("de-en", "Es kostet 12,50 €.", "12.50 €"),
        ("de-en", "Es kostet 1,5 Mio. Euro.", "1.5 Mio."),
        ("en-de", "It rose by 12.5%.", "12,5~%"),
        ("en-fr", "It rose by 12.5 %.", "12,5~%"),
        ("fr-en", "Il a augmenté de 12,5\u202f%.", "12.5%"),
        ("en-de", "100% of it.", "100~% of"),
        ("en-es", "It rose 0.5%, then 10%.", "0,5~%, then 10~%"),
        ("en-de", "It holds 10.5–12.5 litres.", "10,5–12,5 litres"),
        ("de-en", "1,5-2,5 kg je Kopf.", "1.5-2.5 kg"),
        ("en-de", "It takes 1.5 to 2.5 hours.", "1,5 to 2,5"),
        ("en-de", "It rose by 12.5% (10% before).", "12,5~% (10~%"),
        ("de-en", "Es sind 123.456.789 Menschen.", "123,456,789 M"),
        # what its own language would not write, but is clear
        ("de-fr", "Es wiegt 12.5 kg.", "12,5 kg"),
        ("fr-en", "Il coûte 2.200.112 euros.", "2,200,112 euros"),
        ("en-zh", "It weighs 2,5 kg.", "2.5 kg"),
        ("en-de", "It costs 1.234,50 or so.", "1.234,50 or"),
        ("en-fr", "It costs 1.234,50 or so.", "1_234,50 or"),
    ],
)
def test_numbers_are_written_as_the_target_writes_them(pair: str, text: str, expected: str) -> None:
    assert expected in rewritten(text, pair)


@pytest.mark.parametrize(
    ("pair", "text"),
    [
        # versions, sections, steps
        ("en-de", "Python 3.5 is out."),
        ("en-de", "Upgrade from 4.5 to 4.6 before May."),
        ("en-de", "It was deprecated in 2.1."),
        ("en-de", "The .NET Framework versions 1.0 and 1.1 are old."),
        ("en-fr", "See section 3.2 and Figure 4.1."),
        ("en-fr", "3.2 Installation"),
        ("en-fr", "the 1.4 branch"),
        ("de-en", "Version 3.5 ist da, siehe Kapitel 3.2."),
        ("de-en", "Nr. 1.234 liegt hier."),
        ("fr-en", "aux paragraphes 34.121(2) de la loi"),
        ("de-en", "Python 1.2.3 und 10.0.0.1"),
        ("en-de", "Release 2.200.112 of it."),
        # dates, times, telephone numbers, ISBN
        ("de-en", "Am 12.5. und am 12.05.2024."),
        ("de-en", "Um 10.30 Uhr, von 9,17 Uhr an."),
        ("en-de", "The train leaves at 10.30."),
        ("en-de", "From 10.30 to 11.45 there was nobody."),
        ("en-de", "The 7.45 train is late."),
        ("en-de", "Come at 10.30 am or 8.45 pm."),
        ("de-en", "Ruf 0800 123 456 an."),
        ("en-de", "Call 555.1234 now."),
        ("de-en", "ISBN 3.123.456"),
        # telephone numbers and those of registers
        ("es-en", "Llame al 912 345 678 o al 900.123.456."),
        ("es-en", "Tfno.: 12 345 678"),
        ("fr-en", "Appelez le 514 555 1234."),
        ("fr-en", "SIREN 123 456 789"),
        ("de-en", "Telefonnummer: 123 456 789"),
        ("de-en", "Steuernummer 12 345 678"),
        ("de-en", "Telefon (030) 123 456"),
        # labels after a mark, and before more than one number
        ("fr-en", "de l'article 34.121 et de l’alinéa 34.121(2)"),
        ("fr-en", "La section 34.121 est longue."),
        ("de-en", "Hier (Nr. 1.234), dort (Kapitel 1.234), „Nr. 1.234“."),
        ("de-en", "Nr. 1.234 und 1.235"),
        ("de-en", "Seiten 12,13 und Aufgaben 3,4,5 und 1,2"),
        ("fr-en", "aux articles 3,4 et 5,6"),
        ("de-en", "1,2-Dichlorethan, 2,4-D und 1,3-Butadien"),
        # versions of what has no capital, times that might be quantities
        ("en-de", "Use python 3.11 scripts."),
        ("en-de", "It has usb 2.0 cables and tls 1.2 connections."),
        ("en-de", "He has the android 4.4 phone."),
        ("en-de", "The kernel 6.1 tree is old."),
        ("en-de", "Python is 3.14 now."),
        ("en-de", "The meeting is 10.30 tomorrow."),
        ("en-de", "We met around 9.30."),
        # codes, formulas, coordinates, names with digits
        ("de-en", "Die Menge (0,1) und [1,2]."),
        ("en-de", "Let x = 3.5 and y ≤ 4.5."),
        ("en-de", "COVID-19.5 and A1.5"),
        ("en-de", "a 1.5/2.5 mix"),
        ("en-de", "the ratio 10:30.5 and 3.5e9"),
        # neither clearly thousands nor decimals
        ("fr-en", "Il y a 2,000 habitants."),
        ("en-de", "There are 2.000 people."),
        ("de-en", "Es sind 1,234 kg."),
        ("fr-en", "Cela fait 12.5 en tout."),
        ("en-fr", "In 10 000 BC there was nobody."),
        # no separators, no table, same language
        ("de-en", "Im Jahr 2024 kamen 12345 Gäste."),
        ("de-xx", "Es wiegt 12,5 kg."),
        ("xx-de", "It weighs 12.5 kg."),
        ("de-fa", "Es wiegt 12,5 kg."),
        ("en-zh", "It weighs 2,200,112.5 kg."),
        ("de-es", "Es kostet 2.200.112,50 Euro."),
        # percent signs that are no percentages, and languages in which they come first
        ("en-de", "10 % 3 = 1, 50%ig, %50, 5%(name)s"),
        ("en-de", "Set width: 50%; or {width: 12.5%} here."),
        ("en-tr", "It is 50% or 50 %."),
    ],
)
def test_what_may_be_no_number_stays(pair: str, text: str) -> None:
    assert rewritten(text, pair) == text


ORIGINAL = "Es wiegt 12,5 kg und kostet 2.200.112 Euro."


@pytest.mark.parametrize(
    ("original", "pair", "text", "expected"),
    [
        (
            ORIGINAL,
            "de-en",
            "It weighs 12,5 kg and costs 2.200.112 euros.",
            "It weighs 12.5 kg and costs 2,200,112 euros.",
        ),
        (ORIGINAL, "de-en", "It weighs 12.5 kg and costs 2,200,112 euros.", None),
        (ORIGINAL, "de-en", "It costs 2,200.112 euros.", "It costs 2,200,112 euros."),
        (ORIGINAL, "de-en", "It costs 2200112 euros.", None),
        (ORIGINAL, "de-es", "Cuesta 2 200 112 euros.", "Cuesta 2.200.112 euros."),
        (ORIGINAL, "de-es", "Cuesta 2\u00a0200\u00a0112 euros.", None),
        (ORIGINAL, "de-fr", "Il coûte 2 200 112 euros.", "Il coûte 2_200_112 euros."),
        (ORIGINAL, "de-fr", "Il coûte 2\u00a0200\u00a0112 euros.", None),
        ("Dort sind 1.234 Menschen.", "de-en", "There are 1.234 people.", "There are 1,234 people."),
        ("Python 3.5 costs 3.5 euros.", "en-de", "Python 3.5 kostet 3.5 Euro.", None),
        ("Python 3.5 is out.", "en-de", "Python 3,5 ist da.", None),
        ("At 10:30.", "en-de", "Um 10.30.", None),
        ("It costs $10.30 at 10:30.", "en-de", "Es kostet $10.30 um 10.30 Uhr.", None),
        ("It weighs 12.5 kg.", "en-de", "Es wiegt 13.5 kg.", None),
        ("About 50% of it.", "en-fr", "Environ 50% de cela.", "Environ 50~% de cela."),
        ("About 50% of it.", "en-fr", "Environ 50\u00a0% de cela.", None),
    ],
)
def test_a_translation_gets_the_numbers_of_its_source(
    original: str, pair: str, text: str, expected: str | None
) -> None:
    source, target = pair.split("-")
    edits = translation_edits(text, original, source, target)
    assert replaced(text, edits).replace(NARROW, "_").replace(NO_BREAK, "~") == (
        expected or text.replace(NO_BREAK, "~")
    )


def test_protected_numbers_and_those_of_given_texts_stay() -> None:
    text, original = "It costs 12,5 euros, 50 %.", "Es kostet 12,5 Euro, 50 %."
    assert len(translation_edits(text, original, "de", "en")) == 2
    assert translation_edits(text, original, "de", "en", given=["12,5 euros", "50 %"]) == []
    term = "10\u00a0000"
    for number in (term, "10 000"):  # models write it with a plain space
        edits = translation_edits(f"Es hat {number} Zimmer.", "It has 10,000 rooms.", "en", "de", given=[term])
        assert replaced(f"Es hat {number} Zimmer.", edits) == f"Es hat {term} Zimmer."
    [sign] = translation_edits(text, original, "de", "en", [ProtectedSpan(10, 14, "12,5")])
    assert sign[2] == ""


def test_protected_text_gets_the_numbers_within_it() -> None:
    text = "It holds 10.5–12.5 litres for $3.50 in section 3.2."
    spans = [ProtectedSpan(9, 18, "10.5–12.5"), ProtectedSpan(30, 35, "$3.50"), ProtectedSpan(47, 50, "3.2")]
    assert [one.raw for one in in_target_form(spans, text, "en", "de")] == ["10,5–12,5", "$3,50", "3.2"]
    assert is_range("10.5–12.5") and not is_range("§§ 3–5") and not is_range("10.5")


@given(st.from_regex(r"(?:Es sind |at )?[0-9., '’\u00a0\u202f%kg€–-]{1,40}(?: Uhr| kg)?", fullmatch=True))
def test_digits_stay_in_their_order_whatever_is_between_them(text: str) -> None:
    for pair in ("de-en", "en-de", "en-fr", "fr-en", "en-hi"):
        source, target = pair.split("-")
        done = replaced(text, number_edits(text, source, target))
        assert re.findall("[0-9]", done) == re.findall("[0-9]", text)
        assert re.sub("[0-9., '’\u00a0\u202f]", "", done) == re.sub("[0-9., '’\u00a0\u202f]", "", text)
        twice = translation_edits(done, text, source, target)
        assert replaced(done, twice) == done


@pytest.mark.parametrize("number", ["1.234", "2.200.112,5", "0,5", "12,50", "1'234.50", "10 000"])
def test_a_number_in_its_new_form_counts_as_the_same(number: str) -> None:
    text = f"Es sind {number} Euro."
    done = replaced(text, number_edits(text, "de", "en"))
    assert done != text
    assert count_numbers(done) == count_numbers(text)
