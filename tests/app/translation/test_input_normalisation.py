"""Sentences as the model reads them: numbers for what is protected, and words in capitals."""

from __future__ import annotations

import dataclasses

import pytest
from fakes import decoded, sentence_of
from hypothesis import given
from hypothesis import strategies as st

from app.markup.passage import Passage, ProtectedSpan
from app.text.placeholders import CLASSES, TextClass, find_placeholders
from app.translation.candidate import Candidate
from app.translation.input_normalisation import (
    is_all_caps,
    is_better_lowercased,
    model_input,
    split_at_protected,
    truecased,
)
from app.translation.plain_text_tags import symbols_as_tags, with_tab_tags
from model.bundle import Bundle
from model.tokenizer import Tokenizer, Tokenizers
from training.data.vocabulary import train_vocabulary


@given(st.data())
def test_parts_of_a_passage_are_its_text_with_numbers_for_protected_spans(data: st.DataObject) -> None:
    text = data.draw(st.text("ab {}", max_size=30))
    places = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)))
    protected = [ProtectedSpan(a, b, f"<{a}>") for a, b in zip(places[::2], places[1::2], strict=False)]
    parts = split_at_protected(Passage(text, tuple(protected)))
    assert [part for part in parts if isinstance(part, int)] == list(range(len(protected)))
    assert (
        "".join(part if isinstance(part, str) else text[protected[part].start : protected[part].end] for part in parts)
        == text
    )
    assert "" not in parts


@pytest.mark.parametrize(
    ("text", "capitals"),
    [
        ("DO NOT OPEN.", True),
        ("ÉCOLE DU ÈS", True),
        ("Do NOT OPEN.", False),
        ("我在 NASA 工作，用 USB。", False),
        ("NASA USA JPL 的人", False),
        ("НЕ ОТКРЫВАТЬ", True),
        ("HELLO", True),
        ("¡HOLA!", True),
        ("BONJOUR !", True),
        ("USA", False),
        ("A.B.C.D.", False),
        ("AB1-CD2", False),
        ("Hello", False),
        ("1234", False),
    ],
)
def test_text_in_capitals_has_capitals_only(bundle: Bundle, text: str, capitals: bool) -> None:
    assert is_all_caps(Passage(text), bundle.source_tokenizer) == capitals


def test_single_piece_in_capitals_is_a_known_name(bundle: Bundle) -> None:
    tokenizer = Tokenizer(train_vocabulary(["Open the HTML.", "HTML is the HTML of HTML."] * 9, 330, ["en"], threads=1))
    assert [is_all_caps(Passage("HTML"), each) for each in (bundle.source_tokenizer, tokenizer)] == [True, False]


def test_names_and_german_nouns_in_capitals_are_read_with_one(bundle: Bundle) -> None:
    tokenizer = Tokenizer(train_vocabulary(["Die Tür ist offen.", "Anna ist da."] * 9, 330, ["de"], threads=1))
    assert truecased("¡DIE TÜR IST OFFEN, SAGT ANNA!", tokenizer, True) == "¡Die Tür ist offen, sagt Anna!"
    assert truecased(", TÜR OFFEN", tokenizer, False) == ", Tür offen"
    assert truecased("İSTANBUL", tokenizer, True) == "İSTANBUL"  # its small letters are one more


# ---- A label whose word the vocabulary has in small letters


@pytest.fixture(scope="module")
def frugal(bundle: Bundle) -> Bundle:
    """A tokenizer with few pieces, of which "cancel" is one."""
    tokenizer = Tokenizer(
        train_vocabulary(["You may cancel it.", "I cancel, they cancel."] * 9, 340, ["en"], threads=1)
    )
    assert len(tokenizer.encode("cancel")) < len(tokenizer.encode("Cancel"))
    return dataclasses.replace(bundle, tokenizers=Tokenizers.joint(tokenizer))


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("Cancel", True),
        ("cancel", False),
        ("CANCEL", False),
        ("Cancel it", False),
        ("Cancel.", False),
        ("Xylophone", False),
        ("", False),
    ],
)
def test_single_capitalised_word_may_have_fewer_pieces_lowercased(frugal: Bundle, text: str, known: bool) -> None:
    assert is_better_lowercased(Passage(text), frugal.source_tokenizer) == known


def test_such_a_word_is_translated_lowercased_and_capitalised_again(frugal: Bundle) -> None:
    assert "".join(map(str, model_input(Passage("Cancel"), frugal))).startswith("cancel")
    tokens = [*frugal.source_tokenizer.encode("they may"), frugal.source_tokenizer.eos_id]
    for passage, said in ((Passage("Cancel"), "They may"), (Passage("cancel"), "they may")):
        candidate = Candidate(sentence_of(passage, frugal, [1]), decoded(tokens))
        assert candidate.plain_text == said
        assert candidate.pieces == [said]


# ---- The table of classes

BY_MODEL = ("app.translation.input_normalisation", "app.text.punctuation_marks", "app.text.optional_endings")


@pytest.mark.parametrize("of", [one for one in CLASSES if one.module in BY_MODEL], ids=lambda one: one.name)
def test_model_reads_something_else_of_the_same_length(
    bundle: Bundle, of: TextClass, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert of.treatment == "rewritten"
    stop = of.name == "missing full stop"
    monkeypatch.setitem(vars(bundle), "expects_end_marks", stop)  # a cached property
    read = "".join(map(str, model_input(Passage(of.example), bundle)))
    assert read != of.example
    assert len(read) == len(of.example) + stop


@pytest.mark.parametrize("of", [one for one in CLASSES if one.treatment == "tag"], ids=lambda one: one.name)
def test_tags_are_not_in_what_the_model_reads(of: TextClass) -> None:
    text = f"We saw a {of.example} there."
    passage = with_tab_tags(symbols_as_tags(Passage(text, tuple(find_placeholders(text, "en"))))[0])
    assert passage.tags
    assert not passage.protected
