"""Round trips of glossary entries, and errors for invalid ones."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.settings import SettingsError
from app.text.glossary_files import load_glossaries, read_csv, read_tsv, write_tsv

TERM = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1).filter(
    lambda term: term == term.strip("\ufeff").strip()
)


@given(st.dictionaries(TERM, TERM))
def test_written_files_are_read_back(entries: dict[str, str]) -> None:
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
def test_no_text_crashes_the_parser(text: str) -> None:
    for said in (fault(read_tsv, text), fault(lambda text: read_csv(text, "en", "fr"), text)):
        assert said is None or (said.startswith("line ") and "\n" not in said)


def test_line_ends_and_byte_order_marks_are_not_part_of_entries() -> None:
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
def test_invalid_line_is_named(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_tsv(text)


def test_glossaries_are_read_from_a_folder(tmp_path: Path) -> None:
    (tmp_path / "it.en-fr.tsv").write_bytes(b"\xef\xbb\xbf# terms\r\n\r\ncat\tchat\r\nhard disk\tdisque dur\r\n")
    (tmp_path / "it.zh-Hans-pt-BR.tsv").write_text("猫\tgato\n", "utf-8")
    (tmp_path / "my.own.en-fr.tsv").write_text("", "utf-8")
    (tmp_path / "notes.txt").write_text("not a glossary", "utf-8")
    glossaries = load_glossaries(tmp_path)
    assert glossaries.names == ["it", "my.own"]
    one = glossaries.find("it", "en", "fr")
    assert one is not None
    assert [protected.raw for protected in one.find("A cat on a hard disk.")] == ["chat", "disque dur"]
    assert glossaries.find("it", "zh-Hans", "pt-BR") is not None
    assert glossaries.find("it", "fr", "en") is None
    assert glossaries.find("else", "en", "fr") is None


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", b"", "a.tsv needs a name like terms.en-fr.tsv"),
        ("a.en-fr.tsv", b"cat\tchat\ncat\n", "a.en-fr.tsv: line 2: A line must be a term, a tab and its translation."),
        ("a.en-fr.tsv", b"a\tb\tc\n", "a.en-fr.tsv: line 1: A line must be a term, a tab and its translation."),
        ("a.en-fr.tsv", b"#\n\ncat\t\n", "a.en-fr.tsv: line 3: The translation of 'cat' is empty."),
        ("a.en-fr.tsv", b"cat\tchat\ncat\tchatte\n", "a.en-fr.tsv: line 2: The term 'cat' is given twice."),
        ("a.en-fr.tsv", b"cat\tchat\n\xff\tx\n", "a.en-fr.tsv: line 2: not UTF-8"),
    ],
)
def test_file_that_is_no_glossary_is_named_with_its_line(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SettingsError) as error:
        load_glossaries(tmp_path)
    assert str(error.value) == f"INTERLINEAR_GLOSSARIES: {message}"


def test_without_a_folder_there_are_no_glossaries(tmp_path: Path) -> None:
    assert load_glossaries(None).names == []
    with pytest.raises(SettingsError, match="there is no such folder"):
        load_glossaries(tmp_path / "missing")
