"""One SentencePiece vocabulary in the order of a model's own, with the symbols that bundles need.

A SentencePiece model is a Protocol Buffers message: pieces (field 1), the trainer's settings (2), the normaliser (3).
SentencePiece's own classes are not used, for the reason in `training.data.vocabulary`. If a field occurs twice, the
last one counts, so settings are changed by appending.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sentencepiece

from model.tokenizer import control_symbols, language_tag, reserved_symbol
from training.importing.errors import ImportFault
from training.protobuf import encode_field, encode_key

_LANGUAGE_TAG = re.compile(language_tag("(.+)"))
NORMAL, UNKNOWN, CONTROL, UNUSED, BYTE = 1, 2, 3, 5, 6
_PIECES, _TRAINER, _NORMALISER = 1, 2, 3
_UNKNOWN_PENALTY = 10.0
"""SentencePiece's score of an unknown character, below that of its least likely piece."""
PADDING = "<pad>"
OTHER_CONTROLS = ("<blank>",)
"""Tokens that other programs use for padding."""


@dataclass(frozen=True)
class Piece:
    text: str
    score: float
    kind: int


class Specials(NamedTuple):
    """The tokens of a translation model that are no text."""

    unknown: str
    begin: str
    end: str
    start: str
    """The first input of the decoder."""


@dataclass(frozen=True)
class Vocabulary:
    """A vocabulary for a bundle: the model's own tokens, mostly in their order, then those that were added."""

    proto: bytes
    ids: dict[str, int]
    """By token."""
    rows: list[int]
    """For each token the row of the model's own matrices; -1 for an added one."""
    missing: int
    """Tokens of the model without a piece: text never encodes to them."""
    surplus: int
    """Pieces without a token of the model: they are left out, and text is split into smaller ones."""
    has_symbols: bool
    """Whether the model itself has the reserved symbols."""
    has_bytes: bool
    """Whether it spells characters that it lacks in bytes."""

    @property
    def size(self) -> int:
        return len(self.ids)

    @property
    def languages(self) -> set[str]:
        """The languages that have a tag, as in vocabularies that `training` makes."""
        return {match[1] for token in self.ids if (match := _LANGUAGE_TAG.fullmatch(token))}

    @property
    def pad_id(self) -> int:
        return self.ids[PADDING]


def build_vocabularies(
    source: tuple[bytes, Sequence[str]],
    target: tuple[bytes, Sequence[str]],
    languages: Sequence[str],
    specials: Specials,
) -> tuple[Vocabulary, Vocabulary]:
    """The vocabularies of a model that has two, each of a SentencePiece model and tokens as for `build_vocabulary`.

    Padding, start and end come first in both, so that their ids are the same. Raises ImportFault.
    """
    first = tuple(dict.fromkeys((PADDING, specials.start, specials.end)))
    sides = (build_vocabulary(*side, languages, specials, first) for side in (source, target))
    return next(sides), next(sides)


def build_vocabulary(
    model: bytes,
    tokens: Sequence[str],
    languages: Sequence[str],
    specials: Specials,
    first: Sequence[str] = (),
    controls: Collection[str] = (),
) -> Vocabulary:
    """`model` is the SentencePiece model that prepares the text, `tokens` the translation model's vocabulary.

    The tokens `first` take the first ids; `controls` are no text. A vocabulary that already is one for bundles stays as
    it is. Raises ImportFault.
    """
    try:
        sentencepiece.SentencePieceProcessor(model_proto=model)
    except RuntimeError as error:
        raise ImportFault(f"the SentencePiece model cannot be read: {str(error).splitlines()[0]}") from None
    known, settings = {}, {_TRAINER: b"", _NORMALISER: b""}
    for field, _, content in _fields(model):
        if field == _PIECES and isinstance(content, bytes):
            piece = _read_piece(content)
            known[piece.text] = piece
        elif field in settings and isinstance(content, bytes):
            settings[field] += content
    symbols = [
        PADDING,
        *control_symbols(languages),
        *({specials.begin, specials.end, specials.start} - {specials.unknown}),
    ]
    given = {token: row for row, token in enumerate(tokens)}
    if specials.unknown not in given:
        raise ImportFault(f"has no {specials.unknown!r} in its vocabulary")
    all_tokens = list(dict.fromkeys([*first, *tokens, *symbols]))
    ids = {token: id for id, token in enumerate(all_tokens)}
    rows = [given.get(token, -1) for token in all_tokens]
    if list(known) == all_tokens:
        return Vocabulary(model, ids, rows, 0, 0, True, any(piece.kind == BYTE for piece in known.values()))
    all_controls = {*symbols, *OTHER_CONTROLS, *controls}
    # A character that the SentencePiece model lacks comes out as itself, and other programs then find it among tokens.
    unlikely = min((piece.score for piece in known.values() if piece.kind == NORMAL), default=0.0) - _UNKNOWN_PENALTY
    pieces = []
    for token in all_tokens:
        old = known.get(token)
        if token == specials.unknown:
            pieces.append(Piece(token, 0, UNKNOWN))
        elif token in all_controls:
            pieces.append(Piece(token, 0, CONTROL))
        elif old is None and len(token) == 1:
            pieces.append(Piece(token, unlikely, NORMAL))
        elif old is None or old.kind in (UNKNOWN, CONTROL):
            pieces.append(Piece(token, 0, UNUSED))
        else:
            pieces.append(old)
    has_bytes = sum(piece.kind == BYTE for piece in pieces) == 256
    if not has_bytes:
        pieces = [Piece(piece.text, 0, UNUSED) if piece.kind == BYTE else piece for piece in pieces]
    symbol_fields = {45: specials.unknown, 46: specials.begin, 47: specials.end, 48: PADDING}
    trainer = settings[_TRAINER] + _encoded({4: len(pieces), 35: has_bytes, **symbol_fields})
    # White space is significant: the tokenizer adds the leading space itself.
    normaliser = settings[_NORMALISER] + _encoded({3: 0, 4: 0})
    proto = b"".join(map(piece_message, pieces))
    proto += encode_field(_TRAINER, trainer) + encode_field(_NORMALISER, normaliser)
    missing = sum(piece.kind == UNUSED for piece in pieces)
    surplus = sum(piece.kind not in (UNKNOWN, CONTROL, UNUSED) and piece.text not in ids for piece in known.values())
    return Vocabulary(proto, ids, rows, missing, surplus, reserved_symbol(0) in given, has_bytes)


def _fields(message: bytes) -> Iterator[tuple[int, int, bytes | int]]:
    """The number, wire type and content of each field. Raises ImportFault."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(message, at)
            yield number, wire, value
            continue
        if wire == 2:
            size, at = _varint(message, at)
        else:
            size = {1: 8, 5: 4}.get(wire, -1)
        if size < 0 or at + size > len(message):
            raise ImportFault("the SentencePiece model is damaged")
        yield number, wire, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        byte, at = message[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ImportFault("the SentencePiece model is damaged")


def _read_piece(content: bytes) -> Piece:
    text, score, kind = "", 0.0, NORMAL
    for number, wire, value in _fields(content):
        if number == 1 and isinstance(value, bytes):
            text = value.decode(errors="replace")
        elif number == 2 and wire == 5 and isinstance(value, bytes):
            score = struct.unpack("<f", value)[0]
        elif number == 3 and isinstance(value, int):
            kind = value
    return Piece(text, score, kind)


def piece_message(piece: Piece) -> bytes:
    """A piece as a part of a SentencePiece model."""
    score = encode_key(2, 5) + struct.pack("<f", piece.score)
    return encode_field(_PIECES, encode_field(1, piece.text) + score + encode_field(3, piece.kind))


def _encoded(fields: Mapping[int, str | int]) -> bytes:
    return b"".join(encode_field(number, content) for number, content in fields.items())
