"""Mnemonics: the model reads the label without its mark, which is restored; other text is unchanged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.text.mnemonics import mnemonic_marks, remove_mnemonic

BOTH = frozenset("&_")


@pytest.mark.parametrize(
    ("label", "shown", "letter"),
    [
        ("&Open", "Open", "O"),
        ("_Open", "Open", "O"),
        ("&File...", "File...", "F"),
        ("Save &As…", "Save As…", "A"),
        ("Open _With", "Open With", "W"),
        ("E&xit", "Exit", "x"),
        ("Cu&t", "Cut", "t"),
        ("&&New File", "New File", "N"),
        ("Find && &Replace", "Find & Replace", "R"),
        ("&Do not ask me again.", "Do not ask me again.", "D"),
        ("&1 recent file", "1 recent file", "1"),
    ],
)
def test_label_is_shown_without_its_mnemonic_mark(label: str, shown: str, letter: str) -> None:
    found = remove_mnemonic(label)
    assert found
    assert (found[0], found[1].letter) == (shown, letter)
    assert found[1].insert_into(shown, "en") == label


def test_mark_after_the_words_belongs_to_one_of_them() -> None:
    found = remove_mnemonic("打开(&O)...")
    assert found
    assert found[0] == "打开..."
    assert found[1].insert_into("Open...", "en") == "&Open..."
    assert found[1].insert_into("開く...", "ja") == "開く(&O)..."


@pytest.mark.parametrize(
    "text",
    [
        "R&D",
        "AT&T",
        "Q&A",
        "&amp;",
        "&nbsp;",
        "&c.",
        "a_b",
        "snake_case",
        "__init__",
        "_(text)",
        "_private",
        "x?a=1&b=2",
        "$_GET",
        "{_name}",
        "&",
        "_",
        "&%s",
        "black&white",
        "Drag&drop",
        "_Open_",
        "&copy",
    ],
)
def test_ampersands_that_mark_no_mnemonic_are_unchanged(text: str) -> None:
    assert remove_mnemonic(text) is None


@pytest.mark.parametrize(
    "text",
    ["Tom & Jerry", "Fish &amp; chips", "a &lt; b", "&copy 2024", "a _Markdown_ word", "&One &Two", "Save && Exit"],
)
def test_marks_in_several_words_are_unchanged(text: str) -> None:
    assert remove_mnemonic(text) is None


def test_a_label_is_a_short_line_without_tags() -> None:
    for text in ("<b>&Open</b>", "&Open\nit", "&Open " + "it" * 60):
        assert remove_mnemonic(text) is None


def test_mark_within_a_word_counts_if_the_file_has_certain_ones() -> None:
    assert mnemonic_marks(["&Open", "a & b"]) == {"&"}
    assert mnemonic_marks(["_Open", "&amp;"]) == {"_"}
    assert mnemonic_marks(["_private", "a_b", "R&D", "_(x)"]) == frozenset()
    assert remove_mnemonic("Prefere&nces", frozenset("&"))
    assert remove_mnemonic("E_xit", frozenset("_"))
    assert remove_mnemonic("Zoom _in", frozenset("_"))
    for text in ("R&D", "a_b", "__init__", "snake_case_name", "&amp;"):
        assert remove_mnemonic(text, BOTH) is None


@pytest.mark.parametrize(
    ("label", "translation", "language", "expected"),
    [
        ("&File", "Le fichier", "fr", "Le &fichier"),
        ("E&xit", "Quitter", "fr", "&Quitter"),
        ("&Save", "Ne pas", "fr", "Ne pa&s"),
        ("&Open...", "打开...", "zh", "打开(&O)..."),
        ("_Open:", "打开：", "zh", "打开(_O)："),
        ("&Open", "開く", "ja", "開く(&O)"),
        ("&Open %s", "%s ouvrir", "fr", "%s &ouvrir"),
        ("&File {f}", "{f} Datei", "de", "{f} &Datei"),
        ("Find && &Replace", "Chercher & remplacer", "fr", "Chercher && &remplacer"),
        ("&Open", "打开…", "fr", "打开(&O)…"),
    ],
)
def test_mark_is_put_back_on_a_letter(label: str, translation: str, language: str, expected: str) -> None:
    found = remove_mnemonic(label)
    assert found
    assert found[1].insert_into(translation, language) == expected


@given(st.text(st.sampled_from("aB&_ ().;é打%s{}")), st.sampled_from([frozenset(), BOTH]))
def test_removed_mark_is_put_back_exactly_once(text: str, marks: frozenset[str]) -> None:
    found = remove_mnemonic(text, marks)
    if found:
        shown, mnemonic = found
        for language in ("fr", "zh"):
            written = mnemonic.insert_into(shown, language)
            sign = mnemonic.mark[0]
            assert written.count(sign) == text.count(sign)
