"""The ranges of letters agree with their Unicode names, and no language's own script is foreign to it."""

from __future__ import annotations

import re
import unicodedata

import pytest

from model.scripts import LATIN, SCRIPTS, foreign_letters, is_written_in, script_of

LETTERS = [chr(code) for code in range(0x370, 0x30000) if unicodedata.category(chr(code)) in ("Lu", "Ll", "Lo", "Mc")]


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "zh", "zh-Hant", "ja", "ru", "el", "ar", "hi", "ko", "th", "ka"])
def test_foreign_letters_are_determined_by_unicode_script(language: str) -> None:
    foreign = re.compile(f"[{foreign_letters(language)}]")
    code = language.split("-")[0]
    for letter in LETTERS:
        script = script_of(letter)
        if script and script != LATIN:
            home = is_written_in(code, script)
            assert not (home and foreign.match(letter)), letter


def test_nearly_all_letters_of_known_scripts_are_foreign_to_english() -> None:
    foreign = re.compile(f"[{foreign_letters('en')}]")
    known = [letter for letter in LETTERS if script_of(letter) in SCRIPTS - {LATIN}]
    missed = [letter for letter in known if not foreign.match(letter)]
    assert len(missed) < len(known) / 100


def test_latin_letters_are_foreign_to_no_language() -> None:
    for language in ("en", "zh", "ru"):
        assert re.search(f"[{foreign_letters(language)}]", "Az\u00e9\u0142\u1ea1") is None
