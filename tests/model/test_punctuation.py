"""Moses' punctuation rules: their results, and the characters that each token of a normalised source covers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples
from shared_fixtures import SENTENCES

from model.punctuation import normalise_punctuation
from model.tokenizer import Tokenizer
from training.data.vocabulary import train_vocabulary


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "Hello , world.", "Hello , world."),
        ("en", "He said “yes”, and left…", 'He said "yes," and left...'),
        ("fr", "Il dit «\u00a0oui\u00a0», puis 1\u00a0000\u00a0!", 'Il dit "oui", puis 1,000!'),
        ("ru", "1\u00a0000", "1.000"),
        ("de", "Er sagte: „Ja.“ Dann ging er.", 'Er sagte: "Ja". Dann ging er.'),
        ("en", "a( b )c", "a (b) c"),
        ("en", "l’homme — ``so''", 'l\'homme - " so "'),
    ],
)
def test_punctuation_is_what_moses_makes_of_it(language: str, text: str, expected: str) -> None:
    """The expected texts are those of sacremoses 0.2.0."""
    assert normalise_punctuation(text, language)[0] == expected


@draw_examples(200)
@given(
    st.text(st.sampled_from("ab 1,.;:?!%\u00a0()\"'`´‘’„“”«»…–—"), max_size=16),
    st.sampled_from(["en", "fr", "cs", ""]),
)
def test_the_tokens_of_a_normalised_source_cover_the_text_in_order(text: str, language: str) -> None:
    new, offsets = normalise_punctuation(text, language)
    assert len(offsets) == len(new) + 1
    assert offsets == sorted(offsets)
    assert (offsets[0], offsets[-1]) == (0, len(text)) or not new
    pieces = TOKENIZER.source_pieces(text)
    assert [piece.id for piece in pieces] == TOKENIZER.encode_source(text)
    ends = [0, *(piece.end for piece in pieces)]
    assert ends == sorted(ends)
    assert ends[-1] <= len(text)


TOKENIZER = Tokenizer(train_vocabulary(SENTENCES, 400, ["en", "fr"]), "en")
