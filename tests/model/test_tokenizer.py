"""Any Unicode text round-trips through ids; symbols come from the caller only; every piece has its position."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import unicodedata
from itertools import groupby
from pathlib import Path
from random import Random
from weakref import ref

import pytest
import sentencepiece
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples

from model.bundle import Bundle
from model.normalisation import normalise_source
from model.tokenizer import MARK, RESERVED_SYMBOLS, SPACE, Tokenizer, Tokenizers
from training.data.vocabulary import train_vocabulary

SENTENCES = (
    "The ferry leaves the harbour at seven, rain or shine.",
    "Le ferry quitte le port à sept heures, qu'il pleuve ou non.",
    "My neighbour's dog barks at the moon!",
    "Le chien de ma voisine aboie à la lune !",
    "Café, crème brûlée; « très bon » (12 €).",
    "我们明天去图书馆，好吗？当然！",
    "这本书（很厚）：值得一读；真的。",
)
TOKENIZER = Tokenizer(train_vocabulary(SENTENCES, 480, ["en", "fr", "zh"]))
UNKNOWN = 3

AWKWARD = (
    "\u2581_ \u00a0\u3000\u2009\u202f\t\r\n\v\f\x00\x1c\x7f\x85\u2028\u2029\ufeff\ufffd\uffff"  # marks and spaces
    "e\u0301\u0302\u0308\u0323\u0327a\u030aÅ\u212b\u1e9b\ufb01\u0958\u1100\u1161\u11a8가"  # what composes or must not
    "，。！？；：（）「」『』【】、～“”‘’①Ａ１ｱ"  # full width
    "👨\u200d👩\u200d👧🏽🇫🇷❤\ufe0f\u200c"  # joined emoji
    "עבר\u05b8ית\u200f\u200eالعر\u064eبية\u202e\u202c"  # right to left
    "<>/rsto_fenu0123x"  # what symbols are spelt with
)
UNICODE = st.text(max_size=40)
TARGETED = st.text(st.sampled_from(AWKWARD), max_size=30)
SYMBOL_LIKE = st.lists(
    st.sampled_from(
        ["<r0>", "<r31>", "</s>", "<s>", "<unk>", "<pad>", "<to_fr>", "<to_en>", "<0x41>", "<0xE2>", "\u2581", " ", "a"]
    ),
    max_size=8,
).map("".join)
TEXT = st.one_of(UNICODE, TARGETED, SYMBOL_LIKE, st.sampled_from(SENTENCES))
THOROUGH = draw_examples(400)


def is_text(id: int) -> bool:
    """Neither a symbol nor unknown: a piece of text or a byte."""
    return id not in {
        *(TOKENIZER.pad_id, TOKENIZER.bos_id, TOKENIZER.eos_id, UNKNOWN),
        *TOKENIZER.reserved_ids,
        *TOKENIZER.language_ids.values(),
    }


# ---- There and back


@THOROUGH
@given(text=TEXT)
@example("")
@example(" ")
@example(MARK)
@example(f" {MARK} {MARK}{MARK}")
@example("\x00")
@example("e\u0301")
@example("\u0301")
@example("<r0></s><to_fr>")
@example("".join(map(chr, range(0xD7FF, 0x2000, -37))))
def test_decoding_an_encoding_gives_the_normalised_text(text: str) -> None:
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.decode(ids) == TOKENIZER.normalise(text)
    assert all(is_text(id) for id in ids)


@THOROUGH
@given(text=TEXT)
def test_normalisation_is_canonical_and_idempotent(text: str) -> None:
    normalised = TOKENIZER.normalise(text)
    assert unicodedata.normalize("NFC", normalised) == unicodedata.normalize("NFC", text)
    assert TOKENIZER.encode(normalised) == TOKENIZER.encode(text)


@THOROUGH
@given(text=TEXT)
def test_composed_text_is_unchanged(text: str) -> None:
    composed = unicodedata.normalize("NFC", text)
    assert TOKENIZER.normalise(composed) == composed


@pytest.mark.slow
def test_every_unicode_character_round_trips() -> None:
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    for first in range(0, len(characters), 4096):
        # A space between them, so that no two compose.
        text = " ".join(characters[first : first + 4096])
        ids = TOKENIZER.encode(text)
        assert UNKNOWN not in ids
        assert TOKENIZER.decode(ids) == TOKENIZER.normalise(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "你好，世界。真的吗？是！（对）；“引”：【一】、～",
        "①②③ ⅷ ﬁ ½ ² ™ ㎏ Ａｂ１ ｱ",
        "no\u00a0break, thin\u2009, narrow\u202f!, ideographic\u3000, zero\u200bwidth",
        "tab\there\r\nnew line\n\n  indented  twice  ",
        "“curly” ‘quotes’ — dashes – and… dots",
    ],
)
def test_compatibility_characters_are_not_rewritten(text: str) -> None:
    assert TOKENIZER.normalise(text) == text
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@pytest.mark.parametrize("letter", ["é", "ế", "ǖ", "ḱ", "ñ", "й", "が", "ά"])
def test_letter_is_the_same_composed_or_decomposed(letter: str) -> None:
    for typed in {letter, *(unicodedata.normalize(form, letter) for form in ("NFD", "NFC"))}:
        assert TOKENIZER.normalise(typed) == letter
        assert TOKENIZER.encode(typed) == TOKENIZER.encode(letter)


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\ude00\ud83d", f"\udc80{MARK}"])
def test_lone_surrogate_is_refused(text: str) -> None:
    for method in (TOKENIZER.encode, TOKENIZER.pieces, TOKENIZER.normalise):
        with pytest.raises(ValueError, match="surrogate"):
            method(text)
    with pytest.raises(ValueError, match="surrogate"):
        TOKENIZER.encode_parts(["fine ", 0, text])


# ---- Symbols and parts


def test_symbols_have_their_own_ids() -> None:
    symbols = [*TOKENIZER.reserved_ids, *TOKENIZER.language_ids.values()]
    assert len(TOKENIZER.reserved_ids) == RESERVED_SYMBOLS == 32
    assert list(TOKENIZER.language_ids) == ["en", "fr", "zh"]
    assert len({0, 1, 2, 3, *symbols}) == 4 + 32 + 3
    assert [TOKENIZER.piece(id) for id in TOKENIZER.reserved_ids] == [f"<r{number}>" for number in range(32)]
    assert [TOKENIZER.piece(id) for id in TOKENIZER.language_ids.values()] == ["<to_en>", "<to_fr>", "<to_zh>"]
    assert (TOKENIZER.pad_id, TOKENIZER.bos_id, TOKENIZER.eos_id) == (0, 1, 2)


@pytest.mark.parametrize("text", ["<r0>", "</s>", "<to_fr>", "<pad>", "<unk>", "a<r31>b", "<r0> </s>\n<s>"])
def test_symbol_typed_by_a_user_is_text(text: str) -> None:
    ids = TOKENIZER.encode(text)
    assert all(is_text(id) for id in ids)
    assert TOKENIZER.decode(ids) == text
    assert "".join(text[p.start : p.end] for p in TOKENIZER.pieces(text)) == text


def test_symbols_have_no_text() -> None:
    symbols = [TOKENIZER.bos_id, *TOKENIZER.reserved_ids, *TOKENIZER.language_ids.values(), TOKENIZER.eos_id, 0, 0]
    assert TOKENIZER.decode(symbols) == ""
    assert TOKENIZER.decode([1, *TOKENIZER.encode("the moon"), 2, 0]) == "the moon"


@pytest.mark.slow
@THOROUGH
@given(parts=st.lists(st.one_of(TEXT, st.integers(0, 31)), max_size=8))
@example([""])
@example(["", 0])
@example([0, ""])
@example([0, " a"])
@example([" ", 31, " "])
@example([MARK, 1, MARK])
def test_parts_keep_symbols_in_place_and_the_text_between(parts: list[str | int]) -> None:
    ids = TOKENIZER.encode_parts(parts)
    numbers = {id: number for number, id in enumerate(TOKENIZER.reserved_ids)}
    assert [numbers[id] for id in ids if id in numbers] == [part for part in parts if isinstance(part, int)]
    assert all(is_text(id) for id in ids if id not in numbers)
    # Between two symbols is the text that was given there: the first run alone has the tokenizer's space before it.
    runs, expected = [list[int]()], [""]
    for id in ids:
        if id in numbers:
            runs.append([])
        else:
            runs[-1].append(id)
    for part in parts:
        if isinstance(part, int):
            expected.append("")
        else:
            expected[-1] += TOKENIZER.normalise(part)
    space = TOKENIZER.encode("x")[:1] if ids else []
    texts = [TOKENIZER.decode([*(space if number and run else []), *run]) for number, run in enumerate(runs)]
    assert texts[0] == expected[0]
    assert "".join(texts) == "".join(expected)
    assert TOKENIZER.decode(ids) == "".join(expected)


@THOROUGH
@given(text=TEXT)
def test_one_part_is_the_plain_encoding(text: str) -> None:
    assert TOKENIZER.encode_parts([text]) == TOKENIZER.encode_parts([text, ""]) == TOKENIZER.encode(text)


def test_empty_text_has_no_tokens() -> None:
    assert TOKENIZER.encode("") == TOKENIZER.encode_parts([]) == TOKENIZER.encode_parts(["", ""]) == []
    assert TOKENIZER.decode([]) == ""
    assert TOKENIZER.pieces("") == []


def test_symbol_adds_no_space() -> None:
    pieces = [TOKENIZER.piece(id) for id in TOKENIZER.encode_parts(["at ", 3, "."])]
    assert pieces[-3:] == ["▁", "<r3>", "."]


# ---- Other tokens for the same


def symbols_and_text(ids: list[int]) -> list[int | str]:
    """The content of `ids` however the text is tokenised: symbols, and the text between them with its leading
    spaces."""
    found: list[int | str] = []
    for are_text, group in groupby(ids, is_text):
        run = list(group)
        found += ["".join(TOKENIZER.token_texts(run))] if are_text else run
    return found


SEQUENCES = st.lists(st.lists(st.one_of(TEXT, st.integers(0, 31)), max_size=5), max_size=4).map(
    lambda sequences: [TOKENIZER.encode_parts(parts) for parts in sequences]
)


@pytest.mark.slow
@THOROUGH
@given(sequences=SEQUENCES, dropout=st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), seed=st.integers(0, 2**31 - 1))
@example([], 0.1, 0)
@example([[]], 0.1, 0)
@example([TOKENIZER.encode_parts([0, MARK, 1, f" {MARK}a", 31])], 0.5, 1)
@example([[TOKENIZER.language_ids["fr"], *TOKENIZER.encode("the moon"), TOKENIZER.reserved_ids[3]]], 0.5, 1)
def test_resegmented_tokens_have_the_same_text_and_symbols(
    sequences: list[list[int]], dropout: float, seed: int
) -> None:
    drawn = TOKENIZER.resegment(sequences, dropout, Random(seed))
    assert len(drawn) == len(sequences)
    for ours, stored in zip(drawn, sequences, strict=True):
        assert symbols_and_text(ours) == symbols_and_text(stored)


@THOROUGH
@given(text=TEXT)
def test_dropout_0_gives_the_encoding_and_dropout_1_gives_characters_and_bytes(text: str) -> None:
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.resegment([ids], 0.0, Random(1)) == [ids]
    pieces = map(TOKENIZER.piece, TOKENIZER.resegment([ids], 1.0, Random(1))[0])
    assert all(len(piece) == 1 or re.fullmatch("<0x..>", piece) for piece in pieces)


def test_equal_seeds_draw_equal_tokens_in_another_process() -> None:
    def drawn(seed: int) -> list[list[int]]:
        return TOKENIZER.resegment(list(map(TOKENIZER.encode, SENTENCES)), 0.3, Random(seed))

    program = f"""
import random, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from model.bundle import Bundle
from model.tokenizer import Tokenizer
tokenizer = Tokenizer(sys.stdin.buffer.read())
print(tokenizer.resegment({list(map(TOKENIZER.encode, SENTENCES))}, 0.3, random.Random(5)))
"""
    other = subprocess.run([sys.executable, "-c", program], input=TOKENIZER.proto, capture_output=True, check=True)
    assert json.loads(other.stdout) == drawn(5) == drawn(5) != drawn(6)


def test_merges_are_dropped_at_the_requested_rate() -> None:
    one_merge = next(id for id in range(TOKENIZER.vocab_size) if re.fullmatch("[a-z]{2}", TOKENIZER.piece(id)))
    drawn = TOKENIZER.resegment([[one_merge]] * 4000, 0.25, Random(1))
    assert sum(len(ids) == 2 for ids in drawn) / 4000 == pytest.approx(0.25, abs=0.03)


# ---- Where the pieces are


@THOROUGH
@given(text=TEXT)
@example(f"{MARK}a{MARK}")
@example("e\u0301\u0301e")
def test_pieces_tile_the_text(text: str) -> None:
    pieces = TOKENIZER.pieces(text)
    assert [piece.id for piece in pieces] == TOKENIZER.encode(text)
    assert [piece.piece for piece in pieces] == [TOKENIZER.piece(piece.id) for piece in pieces]
    end = 0
    for piece in pieces:
        assert piece.start == end
        assert piece.end >= piece.start
        end = piece.end
    assert end == len(text)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_piece_covers_the_characters_it_spells(sentence: str) -> None:
    for piece in TOKENIZER.pieces(sentence):
        if not re.fullmatch("<0x..>", piece.piece):
            assert (
                piece.piece.replace("▁", " ").removeprefix(" " if piece.start == 0 else "")
                == (sentence[piece.start : piece.end])
            )


def test_last_byte_piece_covers_the_whole_character() -> None:
    assert [(p.piece, p.start, p.end) for p in TOKENIZER.pieces("🚢")] == [
        ("▁", 0, 0),
        ("<0xF0>", 0, 0),
        ("<0x9F>", 0, 0),
        ("<0x9A>", 0, 0),
        ("<0xA2>", 0, 1),
    ]


def test_composed_letter_covers_the_characters_that_were_typed() -> None:
    [*_, last] = TOKENIZER.pieces("caf" + "e\u0301")
    assert (last.end, last.piece[-1]) == (5, "é")


@pytest.mark.slow
@THOROUGH
@given(text=TEXT)
@example("")
@example(MARK)
@example(" a")
def test_pieces_after_a_symbol_have_no_space_added_and_tile_the_text(text: str) -> None:
    pieces = TOKENIZER.pieces(text, before="")
    assert [piece.id for piece in pieces] == TOKENIZER.encode_parts([0, text])[len(TOKENIZER.encode_parts([0])) :]
    end = 0
    for piece in pieces:
        assert piece.start == end <= piece.end
        end = piece.end
    assert end == len(text)


# ---- What each token adds

BYTES = [id for id in range(TOKENIZER.vocab_size) if re.fullmatch("<0x..>", TOKENIZER.piece(id))]
IDS = st.lists(st.one_of(st.integers(0, TOKENIZER.vocab_size - 1), st.sampled_from(BYTES)), max_size=16)


@pytest.mark.slow
@THOROUGH
@given(ids=st.one_of(IDS, TEXT.map(TOKENIZER.encode)))
@example([])
@example([UNKNOWN, 1, 2, 0])
@example(TOKENIZER.encode("🚢")[:-1])
@example([*TOKENIZER.encode("🚢")[:3], TOKENIZER.reserved_ids[0], *TOKENIZER.encode("猫")[-2:]])
def test_token_texts_join_to_the_whole_text(ids: list[int]) -> None:
    spelt = TOKENIZER.token_texts(ids)
    assert len(spelt) == len(ids)
    assert "".join(spelt).removeprefix(" ") == TOKENIZER.decode(ids)


def test_each_token_adds_its_own_characters_and_a_symbol_none() -> None:
    ids = [*TOKENIZER.encode("the moon"), TOKENIZER.reserved_ids[4], *TOKENIZER.encode("🚢"), TOKENIZER.eos_id]
    spelt = TOKENIZER.token_texts(ids)
    texts = [piece.replace(MARK, " ") for piece in map(TOKENIZER.piece, ids)]
    assert all(added in ("", "🚢") or added == text for added, text in zip(spelt, texts, strict=True))
    assert spelt[-6:] == [" ", "", "", "", "🚢", ""]


def test_invalid_bytes_affect_no_other_token() -> None:
    word = TOKENIZER.encode("moon")
    spelt = TOKENIZER.token_texts([*word, BYTES[0xFF], BYTES[0xC3], *word])
    assert "".join(spelt[: len(word)]) == "".join(spelt[-len(word) :]) == " moon"
    assert spelt[len(word) : len(word) + 2] == ["", "\ufffd\ufffd"]


# ---- Where it comes from


def test_tokenizers_with_equal_bytes_are_equal(tmp_path: Path) -> None:
    path = tmp_path / "sentencepiece.model"
    path.write_bytes(TOKENIZER.proto)
    loaded = Tokenizer.load(path)
    assert loaded.proto == TOKENIZER.proto
    assert loaded.vocab_size == TOKENIZER.vocab_size == 480
    assert loaded.encode(SENTENCES[0]) == TOKENIZER.encode(SENTENCES[0])


@pytest.mark.parametrize("proto", [b"", b"garbage", b"\x00" * 100])
def test_an_invalid_sentencepiece_model_is_refused(proto: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        Tokenizer(proto)


def test_foreign_vocabulary_is_refused_with_what_it_lacks() -> None:
    other = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_writer=other,
        vocab_size=110,
        model_type="bpe",
        minloglevel=2,
        character_coverage=0.98,
    )
    with pytest.raises(ValueError, match="the vocabulary lacks <r0>"):
        Tokenizer(other.getvalue())


@THOROUGH
@given(text=st.text(" \t\u00a0\u3000\u200b\u00ad’'ab.é▁你") | TEXT)
@example("\u200b")
def test_source_pieces_tile_the_text_as_written(text: str) -> None:
    pieces = TOKENIZER.source_pieces(text)
    assert [piece.id for piece in pieces] == TOKENIZER.encode_source(text)
    plain = normalise_source(SPACE + text).removeprefix(SPACE)
    assert not plain or TOKENIZER.encode_source(text) == TOKENIZER.encode(plain)
    end = 0
    for piece in pieces:
        assert piece.start == end <= piece.end
        end = piece.end
    assert end == len(text)


def test_target_keeps_its_blanks() -> None:
    both = Tokenizers.joint(TOKENIZER)
    assert both.encode_pair("10\u202f000  €", "10\u202f000  €")[0] == TOKENIZER.encode("10 000 €")
    assert TOKENIZER.decode(both.encode_pair("", "10\u202f000  €")[1]) == "10\u202f000  €"


def test_source_parts_are_normalised_separately_and_symbols_kept() -> None:
    parts: list[str | int] = ["pay  ", 3, "\u00a0 now\u200b."]
    assert TOKENIZER.encode_source_parts(parts) == TOKENIZER.encode_parts(["pay ", 3, " now."])


def test_words_are_runs_of_letters_and_digits_with_the_sums_of_their_tokens(bundle: Bundle) -> None:
    tokenizer = bundle.target_tokenizer
    ids = [*tokenizer.encode("le chat dort, 2024 \U0001f600."), tokenizer.eos_id]
    texts = tokenizer.token_texts(ids)
    found = tokenizer.words(ids, [-1.0] * len(ids), "fr")
    assert [first for first, _, _ in found] == [0, *(end for _, end, _ in found[:-1])]
    assert found[-1][1] == len(ids)
    assert all(log_prob == first - end for first, end, log_prob in found)
    words = ["".join(texts[first:end]).strip() for first, end, _ in found]
    assert words[:2] == ["le", "chat"]
    assert "2024" in words
    assert len(tokenizer.words(ids, [-1.0] * len(ids), "zh")) == len(ids)
    assert tokenizer.words([], [], "fr") == []


def test_equal_models_share_tokenizers_as_long_as_they_are_used() -> None:
    other = bytes(bytearray(TOKENIZER.proto))
    tokenizers = Tokenizers.of(TOKENIZER.proto, other, "en")
    assert Tokenizers.of(other, TOKENIZER.proto, "en") == tokenizers
    assert tokenizers.source is not tokenizers.target and not tokenizers.is_joint
    assert Tokenizers.of(other).source not in tokenizers
    gone = ref(tokenizers.source)
    del tokenizers
    assert gone() is None
