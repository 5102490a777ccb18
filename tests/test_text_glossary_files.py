"""Round trips of glossary entries, and errors for invalid ones."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.text.glossary_files import read_csv, read_tsv, write_tsv

TERM = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1).filter(
    lambda term: term == term.strip("\ufeff").strip()
)


@given(st.dictionaries(TERM, TERM))
def test_what_is_written_is_read(entries: dict[str, str]) -> None:
    assert read_tsv(write_tsv(entries)) == entries


@given(st.dictionaries(TERM, TERM), st.booleans())
def test_csv_is_read_with_the_codes_and_without(entries: dict[str, str], with_codes: bool) -> None:
    written = io.StringIO()
    codes = ["EN", "fr"] if with_codes else []
    csv.writer(written).writerows([term, translation, *codes] for term, translation in entries.items())
    assert read_csv(written.getvalue(), "en", "fr") == entries


def fault(read: Callable[[str], object], text: str) -> str | None:
    try:
        read(text)
    except ValueError as error:
        return str(error)
    return None


@given(st.text())
def test_no_text_breaks_it(text: str) -> None:
    for said in (fault(read_tsv, text), fault(lambda text: read_csv(text, "en", "fr"), text)):
        assert said is None or (said.startswith("line ") and "\n" not in said)


def test_line_ends_and_marks_of_other_systems_are_none_of_the_entries() -> None:
    assert read_tsv("\ufeffcat\tchat \r\n\r\n dog\tchien") == {"cat": "chat", "dog": "chien"}
    assert read_csv("\ufeffcat,chat\r\ndog , chien\r\n", "en", "fr") == {"cat": "chat", "dog": "chien"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\tb\nc", "line 2: it must be a term and its translation, but has 1 parts"),
        ("a\tb\tc", "line 1: it must be a term and its translation, but has 3 parts"),
        ("a\tb\n\na\tc", "line 3: the term 'a' is given twice"),
    ],
)
def test_the_line_that_is_wrong_is_named(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_tsv(text)
