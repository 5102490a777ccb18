"""Trains the SentencePiece vocabulary of a bundle, including its normalisation.

`model.tokenizer` applies it.
"""

from __future__ import annotations

import io
import re
import tempfile
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import sentencepiece

from model.tokenizer import SPACE, control_symbols
from training.protobuf import encode_varint, read_varint

CHARACTER_COVERAGE = 0.9995
"""Share of the characters that become pieces. Byte fallback spells the rest in bytes, without loss."""
LARGE_CHARACTER_SET, LARGE_CHARACTER_SET_COVERAGE = 1000, 0.9999
"""For text with more distinct characters, such as Chinese: with 0.9995 every twelfth Chinese sentence of Tatoeba has
one spelt in three bytes, with 0.9999 every fortieth, for 700 more pieces."""


def train_vocabulary(
    sentences: Iterable[str],
    vocab_size: int,
    languages: Sequence[str],
    threads: int = 2,
    rules: Mapping[str, str] | None = None,
) -> bytes:
    """Trains a joint byte-pair vocabulary (Sennrich et al. 2016) of at most `vocab_size` pieces, as a SentencePiece
    model.

    `sentences` are of all `languages`, in any order. `rules`: normalisation in addition to canonical composition, such
    as `training.cleaning.simplified_chinese.simplification_rules()`.

    A corpus too small for `vocab_size` gets the largest vocabulary that it supports. Raises ValueError if there is no
    text or `vocab_size` has no room for the bytes and symbols.
    """
    lines = [SPACE + sentence for sentence in sentences if sentence.strip()]
    if not lines:
        raise ValueError("there is no text to learn a vocabulary from")
    check_size(vocab_size, languages)
    try:
        return _train(lines, vocab_size, languages, threads, rules or {})
    except RuntimeError as error:
        possible = re.search(r"Vocabulary size too high \(\d+\).*<= (\d+)", str(error), re.DOTALL)
        if possible:
            return _train(lines, int(possible[1]), languages, threads, rules or {})
        needed = re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error))
        if needed:
            raise ValueError(f"a vocabulary of {vocab_size} pieces is too small: this text needs {needed[1]}") from None
        raise


def check_size(vocab_size: int, languages: Sequence[str]) -> None:
    """Raises ValueError if `vocab_size` has no room for the bytes and symbols."""
    fixed = 4 + 256 + len(control_symbols(languages))  # padding, start, end and unknown; the bytes; ours
    if vocab_size < fixed:
        raise ValueError(f"a vocabulary of {vocab_size} pieces is too small: the bytes and symbols alone are {fixed}")


def _train(
    lines: list[str], vocab_size: int, languages: Sequence[str], threads: int, extra_rules: Mapping[str, str]
) -> bytes:
    proto = io.BytesIO()
    has_many_characters = len(set().union(*lines)) > LARGE_CHARACTER_SET
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder, "rules.tsv")
        rules.write_text(normalisation_rules(extra_rules), encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=proto,
            model_type="bpe",
            vocab_size=vocab_size,
            character_coverage=LARGE_CHARACTER_SET_COVERAGE if has_many_characters else CHARACTER_COVERAGE,
            byte_fallback=True,
            normalization_rule_tsv=str(rules),
            # White space is significant: nothing is collapsed, and the tokenizer adds the leading space itself.
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            split_digits=True,
            pad_id=0,
            bos_id=1,
            eos_id=2,
            unk_id=3,
            pad_piece="<pad>",
            control_symbols=control_symbols(languages),
            max_sentence_length=1 << 16,
            num_threads=threads,
            minloglevel=2,
        )
    return _without_path(proto.getvalue(), str(rules))


def _without_path(model: bytes, path: str) -> bytes:
    """Removes the path of the rules, a temporary file, from the model, so that equal texts give equal models.

    A SentencePiece model is a Protocol Buffers message of messages: each field is a tag, a length and that many bytes.
    SentencePiece's own classes for it cannot be imported if protobuf is older than the version that generated them
    (7.36.1 for 0.2.3), which none of its requirements says.
    """
    entry = (
        b"\x32" + encode_varint(len(path.encode())) + path.encode()
    )  # NormalizerSpec.normalization_rule_tsv, field 6
    kept, at = bytearray(), 0
    while at < len(model):
        tag, (length, start) = model[at : at + 1], read_varint(model, at + 1)
        content = model[start : start + length].replace(entry, b"")
        kept += tag + encode_varint(len(content)) + content
        at = start + length
    return bytes(kept)


def normalisation_rules(extra_rules: Mapping[str, str] | None = None) -> str:
    """Canonical composition, and `extra_rules`: one rule per line, the source's code points in hexadecimal, a tab, the
    target's.

    SentencePiece applies the longest matching rule, from left to right, once.
    """
    rules = composition_rules() | dict(extra_rules or {})
    return "".join(f"{_hexadecimal(parts)}\t{_hexadecimal(letter)}\n" for parts, letter in sorted(rules.items()))


def composition_rules() -> dict[str, str]:
    """The normalisation: canonical composition (Unicode UAX #15, NFC) of a letter and its marks, and nothing else.

    Text typed on some systems holds é as e and a combining acute; without this it would be spelt in bytes. NFKC, the
    stock rule, also rewrites "，" to "," and "①" to "1", which a translator must not.
    """
    rules = {}
    for code in range(0x80, 0x20000):
        letter = chr(code)
        parts = unicodedata.normalize("NFD", letter)
        if 0xAC00 <= code <= 0xD7A3 or parts == letter or unicodedata.normalize("NFC", parts) != letter:
            continue
        rules[parts] = letter
        # The same letter with only its last mark decomposed: ế may come as ê and an acute.
        rules[unicodedata.normalize("NFC", parts[:-1]) + parts[-1]] = letter
    return rules


def _hexadecimal(text: str) -> str:
    return " ".join(f"{ord(character):04X}" for character in text)
