"""The sentences of news that show what a bundle can do: in every language, and of no corpus."""

from __future__ import annotations

import pytest

from benchmarks.news import news, table

LANGUAGES = ("en", "fr", "de", "es", "zh")


@pytest.mark.parametrize("language", LANGUAGES)
def test_there_are_twenty_whole_sentences_in_each_language(language: str) -> None:
    sentences = news(language)
    assert len({*sentences}) == 20
    assert all(
        sentence.endswith(("。" if language == "zh" else ".",)) and "\t" not in sentence for sentence in sentences
    )


def test_table_has_a_row_for_each_sentence() -> None:
    assert table(["es", "now"], [["Uno | dos.", "Tres."], ["One.", "Three."]]) == [
        "| es | now |",
        "| --- | --- |",
        r"| Uno \| dos. | One. |",
        "| Tres. | Three. |",
    ]
