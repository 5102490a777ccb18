"""Learning a vocabulary: what it always contains, its minimum size, and that it depends on the text only."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import pytest
import sentencepiece

from model.tokenizer import RESERVED_SYMBOLS, Tokenizer
from training.data.vocabulary import composition_rules, train_vocabulary

pytestmark = pytest.mark.slow

LANGUAGES = ("en", "fr")
SENTENCES = (
    "The baker opens his shop before the sun is up.",
    "Le boulanger ouvre sa boutique avant le lever du soleil.",
    "Where did you leave the blue umbrella?",
    "Où as-tu laissé le parapluie bleu ?",
    "She counted 1234 stars, then fell asleep.",
    "Elle a compté 1234 étoiles, puis s'est endormie.",
    "船明天早上到港，请早点来。",
)
FIXED = 4 + 256 + RESERVED_SYMBOLS + len(LANGUAGES)
"""Padding, start, end and unknown; the bytes; the reserved symbols; the language tags."""


def train(sentences: Sequence[str] = SENTENCES, vocab_size: int = 450) -> bytes:
    return train_vocabulary(sentences, vocab_size, LANGUAGES)


def pieces_of(proto: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    return [processor.id_to_piece(id) for id in range(processor.get_piece_size())]


def test_first_ids_are_padding_start_end_and_unknown() -> None:
    assert pieces_of(train())[:4] == ["<pad>", "<s>", "</s>", "<unk>"]


def test_vocabulary_has_the_requested_size() -> None:
    for size in (400, 450):
        assert len(pieces_of(train(vocab_size=size))) == size


def test_every_byte_and_symbol_has_a_piece() -> None:
    pieces = pieces_of(train())
    assert {f"<0x{byte:02X}>" for byte in range(256)} <= set(pieces)
    assert {f"<r{number}>" for number in range(RESERVED_SYMBOLS)} | {"<to_en>", "<to_fr>"} <= set(pieces)
    assert len(set(pieces)) == len(pieces)


def test_the_same_text_gives_the_same_bytes() -> None:
    assert train() == train()
    assert train(iter(SENTENCES)) == train()  # type: ignore[arg-type]
    assert train(SENTENCES[:-1]) != train()


def test_vocabulary_contains_no_path_of_this_machine(tmp_path_factory: pytest.TempPathFactory) -> None:
    proto = train()
    assert b"rules.tsv" not in proto
    assert str(tmp_path_factory.getbasetemp().parent.parent).encode() not in proto
    # Nor has taking it out lost the rules: SentencePiece itself still reads them.
    assert sentencepiece.SentencePieceProcessor(model_proto=proto).normalize("e\u0301") == "é"


@pytest.mark.parametrize("sentences", [["a"], ["aaaa", "aaaa"], ["a b c"], SENTENCES[:1], SENTENCES[-1:], ["\u2581"]])
def test_a_corpus_too_small_gets_the_largest_vocabulary_it_supports(sentences: list[str]) -> None:
    tokenizer = Tokenizer(train(sentences, 8000))
    assert FIXED < tokenizer.vocab_size <= FIXED + 3 * sum(map(len, sentences))
    for sentence in SENTENCES:
        assert tokenizer.decode(tokenizer.encode(sentence)) == sentence


@pytest.mark.parametrize("size", [-1, 0, 1, 3, 50, FIXED - 1])
def test_a_size_without_room_for_bytes_and_symbols_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"vocabulary of {size} pieces is too small.* {FIXED}") as error:
        train(vocab_size=size)
    assert "\n" not in str(error.value)


def test_a_size_without_room_for_the_characters_is_refused_with_the_size_needed() -> None:
    with pytest.raises(ValueError, match=r"vocabulary of \d+ pieces is too small: this text needs (\d+)") as error:
        train(vocab_size=FIXED)
    needed = int(str(error.value).split()[-1])
    assert len(pieces_of(train(vocab_size=needed))) == needed
    with pytest.raises(ValueError, match="too small"):
        train(vocab_size=needed - 1)


@pytest.mark.parametrize("sentences", [[], [""], ["", "  ", "\t", "\u3000"]])
def test_empty_text_is_refused(sentences: list[str]) -> None:
    with pytest.raises(ValueError, match="no text"):
        train(sentences)


def test_any_language_code_is_accepted() -> None:
    codes = ["zh-Hant", "pt-BR", "tlh", "x-klingon", "日本"]
    tokenizer = Tokenizer(train_vocabulary(SENTENCES, 450, codes))
    assert list(tokenizer.language_ids) == codes
    assert len(set(tokenizer.language_ids.values())) == len(codes)


def test_digits_are_separate_pieces() -> None:
    assert not [
        piece
        for piece in pieces_of(train())
        if sum(character.isdigit() for character in piece) > 1 and not piece.startswith("<")
    ]


def test_first_word_of_a_sentence_has_the_piece_it_has_elsewhere() -> None:
    tokenizer = Tokenizer(train(["the sea and the sea and the sea"] * 20, 400))
    first, *_, last = tokenizer.encode("sea and sea")
    assert first == last
    assert tokenizer.piece(first) == "▁sea"


def test_unicode_composition_is_nfc_for_letters_with_marks_only() -> None:
    rules = composition_rules()
    assert rules["e\u0301"] == "é"
    assert rules["ê\u0301"] == "ế"
    assert rules["e\u0302\u0301"] == "ế"
    for parts, letter in rules.items():
        assert len(letter) == 1 < len(parts)
        assert unicodedata.normalize("NFC", parts) == letter


@pytest.mark.parametrize(("characters", "has_a_place"), [(110, False), (1100, True)])
def test_rare_character_has_a_piece_in_a_large_corpus(characters: int, has_a_place: bool) -> None:
    common = "".join(chr(code) for code in range(0x4E00, 0x4E00 + characters))
    proto = train([*([common] * (6600 // characters)), "龘"], 1500)
    assert Tokenizer(proto).has_piece("龘") == has_a_place
