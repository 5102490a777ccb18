"""An optional ending in brackets is passed to the model as part of its word; other brackets are kept."""

from __future__ import annotations

import pytest
from fakes import CannedDecoder, translated

from app.text.optional_endings import join_endings
from model.bundle import Bundle
from model.normalisation import normalise_source


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("3 file(s) deleted", "en", "3 files deleted"),
        ("Class(es), FILE(S)?", "en-GB", "Classes, FILES?"),
        ("Datei(en) der Benutzer(innen)", "de", "Dateien der Benutzerinnen"),
        ("Le(s) utilisateur(e)s, jeu(x)", "fr", "Les utilisateures, jeux"),
        ("Sus archivo(s).", "es", "Sus archivos."),
    ],
)
def test_model_reads_the_longer_word(text: str, language: str, expected: str) -> None:
    (part,) = join_endings([text], language)
    assert len(str(part)) == len(text)
    assert normalise_source(str(part)) == expected


@pytest.mark.parametrize("text", ["f(s)", "the cat (s)", "He(she) came", "sin(x)", "cat()", "call(s).run", "alumno(a)"])
def test_other_brackets_are_kept(text: str) -> None:
    assert join_endings([text, 0], "es") == [text, 0]


def test_no_part_of_such_a_word_is_reported_as_missing(bundle: Bundle) -> None:
    heard: list[str] = []

    def listen(text: str) -> str:
        heard.append(text)
        return "va bien"

    (item,) = translated(bundle, CannedDecoder(bundle, listen), ["The cat(s) sleeps."])
    assert heard == ["The cats sleeps."]
    assert not any("s”" in warning and "not translated" in warning for warning in item.warnings)
