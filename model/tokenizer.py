"""Converts text to token ids and back, and maps each token to the characters that it covers.

Vocabularies are trained in `training.data.vocabulary`; long text is cut in `app.text.segmentation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple
from weakref import WeakValueDictionary

import sentencepiece

from model.bpe_dropout import MergeDropout, Merges
from model.languages import WITHOUT_SPACES, language_alone
from model.normalisation import is_normal, normalise_source, source_offsets
from model.punctuation import normalise_punctuation
from model.spelling import SpellingIndex

SPACE = " "
"""Prepended to every text, so that its first word is the same piece as elsewhere; removed again on decoding."""
MARK = "\u2581"
"""SentencePiece's stand-in for a space. The character itself, in a text, is spelt in bytes to preserve it."""
RESERVED_SYMBOLS = 32
"""Symbols for placeholders, protected terms and tags; text never encodes to them, only their number does."""

MAX_CACHED_WORDS, MAX_CACHED_CHARS = 8_192, 256
"""Words whose tokens are remembered, and the longest text that they are taken from."""
_LONGEST_CHARACTER = 4
"""Maximum bytes of a character in UTF-8."""
_tokenizers: WeakValueDictionary[tuple[str, bytes, str | None], Tokenizer] = WeakValueDictionary()
"""Those of `Tokenizers.of`, by the arguments that made them."""
_MARK_PIECES = [f"<0x{byte:02X}>" for byte in MARK.encode()]


def control_symbols(languages: Iterable[str]) -> list[str]:
    """The symbols besides text in every vocabulary: a target tag per language, and the reserved ones."""
    return [language_tag(code) for code in languages] + [reserved_symbol(n) for n in range(RESERVED_SYMBOLS)]


def language_tag(code: str) -> str:
    return f"<to_{code}>"


def reserved_symbol(number: int) -> str:
    return f"<r{number}>"


class Piece(NamedTuple):
    """A token and the code points [start, end) of the text that it covers. If a character is spelt in several byte
    tokens, the last covers it and the others are empty at its start."""

    id: int
    piece: str
    start: int
    end: int


class Tokenizers(NamedTuple):
    """The source's tokenizer, and the target's. Reserved symbols have other ids in one than in the other."""

    source: Tokenizer
    target: Tokenizer

    @classmethod
    def joint(cls, tokenizer: Tokenizer) -> Tokenizers:
        """One vocabulary for both sides, as all that `training` trains are."""
        return cls(tokenizer, tokenizer)

    @classmethod
    def of(cls, source: bytes, target: bytes | None = None, moses_language: str | None = None) -> Tokenizers:
        """The tokenizers of one SentencePiece model, or of one for each side; the rest as in `Tokenizer`.

        The two bundles of a pair mostly have the same models: then they share tokenizers, of 3 MiB each.
        """
        tokenizer = cls._shared("source", source, moses_language)
        return cls(tokenizer, tokenizer if target is None else cls._shared("target", target, None))

    @staticmethod
    def _shared(side: str, proto: bytes, moses_language: str | None) -> Tokenizer:
        """Made once for as long as somebody has it. Not for both sides: `is_joint` would change."""
        if (tokenizer := _tokenizers.get(key := (side, proto, moses_language))) is None:
            tokenizer = _tokenizers[key] = Tokenizer(proto, moses_language)
        return tokenizer

    @property
    def is_joint(self) -> bool:
        return self.source is self.target

    def encode_pair(self, source: str, target: str) -> tuple[list[int], list[int]]:
        """The tokens of a sentence and of its translation."""
        return self.source.encode_source(source), self.target.encode(target)


class Tokenizer:
    """A SentencePiece vocabulary. With byte fallback, as all that `training` trains have, `decode(encode(x)) ==
    normalise(x)` for any Unicode text.

    A vocabulary of an imported model may be without: then a character that it lacks becomes the unknown symbol.
    Normalisation is inside the SentencePiece model, so that training and serving cannot differ. Surrogates are not
    Unicode scalar values and are rejected with ValueError.
    """

    def __init__(self, proto: bytes, moses_language: str | None = None) -> None:
        """`moses_language`: sources pass Moses' punctuation rules for this language first; None: they do not.

        Raises ValueError if `proto` is not a SentencePiece model as made by `training`.
        """
        self.moses_language = moses_language
        if not proto:  # SentencePiece treats an empty model as not loaded yet
            raise ValueError("not a SentencePiece model: it is empty")
        self.proto = proto
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
        except RuntimeError as error:
            raise ValueError(f"not a SentencePiece model: {error}") from None
        self.vocab_size: int = self._processor.get_piece_size()
        self.pad_id: int = self._processor.pad_id()
        self.bos_id: int = self._processor.bos_id()
        self.eos_id: int = self._processor.eos_id()
        self.unknown_id: int = self._processor.unk_id()
        self.reserved_ids = [self._id(reserved_symbol(number)) for number in range(RESERVED_SYMBOLS)]
        # Either each byte has a piece, spelt like this, or none has: SentencePiece refuses others.
        spelt = [self._processor.piece_to_id(f"<0x{byte:02X}>") for byte in range(256)]
        self._byte_values = {id: byte for byte, id in enumerate(spelt) if self._processor.is_byte(id)}
        self._bytes = set(self._byte_values)
        self._mark_ids = list(map(self._id, _MARK_PIECES)) if self._bytes else [self.unknown_id]
        self._unlike_text = self._bytes | {self.unknown_id}
        """Tokens whose own text is not that which they stand for."""
        pieces = [self._processor.id_to_piece(id) for id in range(self.vocab_size)]
        # Unknown characters in a row are one token, which crosses a space that is unknown itself.
        self._splits_at_spaces = (bool(self._bytes) or MARK in pieces) and not any(
            MARK in piece[1:] for piece in pieces
        )
        encode = self._processor.encode  # not of `self`: a cycle would keep the tokenizer until a full collection
        self._word_ids = lru_cache(MAX_CACHED_WORDS)(lambda word: encode(SPACE + word))
        self.language_ids = {
            piece.removeprefix("<to_").removesuffix(">"): id
            for id, piece in enumerate(pieces)
            if piece.startswith("<to_") and self._processor.is_control(id)
        }

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        return cls(path.read_bytes())

    def encode(self, text: str) -> list[int]:
        """The tokens of `text`, without start or end symbols; none for empty text."""
        return self._encode_text(SPACE + text) if text else []

    def encode_parts(self, parts: Sequence[str | int]) -> list[int]:
        """The tokens of `parts`, text in which each integer n represents reserved symbol number n.

        Adds nothing around a symbol: ["pay ", 3, "."] keeps its space and its full stop.
        """
        return self._encode_parts(parts, lambda text: text)

    def encode_source(self, text: str) -> list[int]:
        """The tokens of `text` as a source, normalised by `normalise_source`."""
        return self.encode_source_parts([text])

    def encode_source_parts(self, parts: Sequence[str | int]) -> list[int]:
        """The tokens of a source given as for `encode_parts`."""
        return self._encode_parts(parts, self._normalise_source)

    @property
    def can_resegment(self) -> bool:
        """Whether `resegment` and `parts` work: the pieces were made by merges, in the order of their scores, which
        are then whole numbers (a unigram model has logarithms), and bytes spell what they cannot."""
        scores = map(self._processor.get_score, filter(self.is_text, range(self.vocab_size)))
        return bool(self._bytes) and all(float(score).is_integer() for score in scores)

    def resegment(self, sequences: Sequence[Sequence[int]], dropout: float, random: Random) -> list[list[int]]:
        """Tokenises the text of each of `sequences`, made by `encode_parts`, again at random; symbols stay in place.

        Uses BPE-dropout: each of the merges that make tokens out of characters is skipped with probability `dropout`,
        in [0, 1]. With 0 the result is that of `encode`, with 1 it is characters and bytes.
        """
        drops = MergeDropout(dropout, random)

        def resegmented(span: str | list[int]) -> list[int]:
            return self._resegment_text(span, drops) if isinstance(span, str) else span

        return [[id for span in self._spans(ids) for id in resegmented(span)] for ids in sequences]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`. Start, end, padding and reserved symbols have none; invalid bytes become U+FFFD."""
        if self._bytes.isdisjoint(ids):  # then joining takes a tenth of the time
            return "".join([self._texts[id] for id in ids]).removeprefix(SPACE)
        return str(self._processor.decode(list(ids))).removeprefix(SPACE)

    def piece(self, id: int) -> str:
        """The token as the vocabulary spells it, such as "▁the"."""
        return str(self._processor.id_to_piece(id))

    def is_text(self, id: int) -> bool:
        """Whether the token represents characters: it is neither a symbol nor a byte."""
        return id not in self._symbols and id not in self._bytes

    def parts(self, piece: str) -> list[int]:
        """The tokens that spell the token `piece` of another vocabulary, with bytes for characters that this one
        lacks."""
        return self._merges.encode(piece, MergeDropout(0, Random(0)))

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        """The text that each token adds, including the space before it, which `decode` removes.

        For characters spelt in several byte tokens, the last adds them. Joined, without the first space, they are the
        text.
        """
        if self._bytes.isdisjoint(ids):
            return [self._texts[id] for id in ids]
        found: list[str] = []
        for in_bytes, run in groupby(ids, self._bytes.__contains__):
            if in_bytes:
                found += self._byte_texts(list(run))
            else:
                found += [self._texts[id] for id in run]
        return found

    def words(self, ids: Sequence[int], log_probs: Sequence[float], language: str) -> list[tuple[int, int, float]]:
        """The tokens [first, end) of each word, and the sum of their log probabilities.

        A word begins after a space, and after or with another character than letters and digits. In languages without
        spaces each token is a word. Symbols are words of their own.
        """
        if language_alone(language) in WITHOUT_SPACES:
            return [(number, number + 1, log_prob) for number, log_prob in enumerate(log_probs)]
        begins, ends, joins = self._word_edges
        found = []
        first, total, ended = 0, 0.0, False
        for number, id in enumerate(ids):  # in one pass, since the service does this for every sentence
            if number and (begins[id] or (ended and not joins[id])):
                found.append((first, number, total))
                first, total = number, 0.0
            total += log_probs[number]
            ended = ends[id]
        if ids:
            found.append((first, len(ids), total))
        return found

    def pieces(self, text: str, before: str = SPACE) -> list[Piece]:
        """The tokens of `text` with the code points each covers; none covers the space that is put `before` it."""
        if not text:
            return []
        if text.isascii() and self._unlike_text.isdisjoint(ids := self._encode_text(before + text)):  # nothing composes
            places = accumulate([len(self._texts[id]) for id in ids], initial=-len(before))
            spans = pairwise(max(0, place) for place in places)
            return [Piece(id, self.piece(id), start, end) for id, (start, end) in zip(ids, spans, strict=True)]
        found: list[Piece] = []
        offset = -len(before)
        for number, run in enumerate(_reject_surrogates(before + text).split(MARK)):
            if number:
                ends = [offset] * (len(self._mark_ids) - 1) + [offset + 1]
                found.extend(map(Piece, self._mark_ids, map(self.piece, self._mark_ids), [offset] * len(ends), ends))
                offset += len(MARK)
            mapping = self._processor.encode(run, return_type="offset_mapping")
            for id, piece, (start, end) in zip(mapping["ids"], mapping["pieces"], mapping["offsets"], strict=True):
                found.append(Piece(id, piece, max(0, offset + start), max(0, offset + end)))
            offset += len(run)
        return found

    def source_pieces(self, text: str, before: str = SPACE) -> list[Piece]:
        """The tokens of `text` as a source, with the code points of the original `text` that each covers."""
        if not text:
            return []
        if self.moses_language is None and is_normal(before + text):
            return self.pieces(text, before)
        plain, offsets = before + text, list(range(len(before + text) + 1))
        if self.moses_language is not None:
            plain, offsets = normalise_punctuation(plain, self.moses_language)
        plain, later = source_offsets(plain)
        at = [max(0, offsets[offset] - len(before)) for offset in later]
        return [Piece(piece.id, piece.piece, at[piece.start], at[piece.end]) for piece in self.pieces(plain, "")]

    def normalise(self, text: str) -> str:
        """`text` as the model sees it and `decode` returns it: canonically composed, otherwise unchanged."""
        return MARK.join(
            self._processor.normalize(run).replace(MARK, SPACE) if run else ""
            for run in _reject_surrogates(text).split(MARK)
        )

    def _spans(self, ids: Sequence[int]) -> Iterator[str | list[int]]:
        """Splits `ids` into text, and the ids of symbols and of MARK, which are kept."""
        for are_symbols, run in groupby(ids, self._symbols.__contains__):
            if are_symbols:
                yield list(run)
                continue
            for number, text in enumerate(str(self._processor.decode(list(run))).split(MARK)):
                if number:
                    yield self._mark_ids
                if text:
                    yield text

    def _resegment_text(self, text: str, drops: MergeDropout) -> list[int]:
        return self._merges.encode(text.replace(SPACE, MARK), drops)

    @cached_property
    def _symbols(self) -> set[int]:
        """Tokens without characters: control symbols and the unknown symbol."""
        return {id for id in range(self.vocab_size) if self._processor.is_control(id)} | {self.unknown_id}

    @cached_property
    def _merges(self) -> Merges:
        text = filter(self.is_text, range(self.vocab_size))
        pieces = {self.piece(id): (id, float(self._processor.get_score(id))) for id in text}
        return Merges(pieces, [self._id(f"<0x{byte:02X}>") for byte in range(256)], MARK)

    @cached_property
    def _word_edges(self) -> tuple[list[bool], list[bool], list[bool]]:
        """For each token, whether a word begins with it whatever comes before, whether one ends with it, and whether it
        belongs to the word before it whatever that ends with."""
        joins = [id in self._bytes for id in range(self.vocab_size)]
        begins = [not (joined or text[:1].isalnum()) for joined, text in zip(joins, self._texts, strict=True)]
        ends = [
            not (joined or text.isspace() or text[-1:].isalnum())
            for joined, text in zip(joins, self._texts, strict=True)
        ]
        return begins, ends, joins

    @cached_property
    def spellings(self) -> SpellingIndex:
        """The tokens by what they spell: text, or a byte."""
        found = [b"" if id in self._symbols else text.encode() for id, text in enumerate(self._texts)]
        for byte in range(256) if self._bytes else ():
            found[self._processor.piece_to_id(f"<0x{byte:02X}>")] = bytes([byte])
        return SpellingIndex(found)

    @cached_property
    def _texts(self) -> list[str]:
        """The text of each token but those of bytes, which have one only together."""
        texts = [self.piece(id).replace(MARK, SPACE) for id in range(self.vocab_size)]
        for id in self._symbols:
            texts[id] = str(self._processor.decode([id]))
        return texts

    def _byte_texts(self, ids: list[int]) -> list[str]:
        """The text that each of a run of byte tokens adds; if some are not valid characters, the last adds all of
        it."""
        spelt = bytes([self._byte_values[id] for id in ids]).decode(errors="replace")
        if "\ufffd" not in spelt:
            return [text for character in spelt for text in (*[""] * (len(character.encode()) - 1), character)]
        found: list[str] = []
        spelling: list[int] = []
        for id in ids:
            spelling.append(id)
            text = str(self._processor.decode(spelling))
            if text.endswith("\ufffd") and len(spelling) < _LONGEST_CHARACTER:
                text = ""
            else:
                spelling = []
            found.append(text)
        text = str(self._processor.decode(ids))
        return found if "".join(found) == text else [""] * (len(ids) - 1) + [text]

    def has_piece(self, character: str) -> bool:
        """Whether the vocabulary has a piece for `character`; otherwise it is spelt in bytes, or unknown."""
        return not self._processor.is_unknown(self._processor.piece_to_id(character))

    def _encode_parts(self, parts: Sequence[str | int], rule: Callable[[str], str]) -> list[int]:
        if not any(part != "" for part in parts):
            return []
        ids: list[int] = []
        before = SPACE
        for part in parts:
            if isinstance(part, int):
                ids.extend([*self._encode_text(before), self.reserved_ids[part]])
            else:
                ids.extend(self._encode_text(rule(before + part)))
            before = ""
        return ids

    def _normalise_source(self, text: str) -> str:
        if self.moses_language is not None:
            text, _ = normalise_punctuation(text, self.moses_language)
        return normalise_source(text)

    def _encode_text(self, text: str) -> list[int]:
        if self._splits_at_spaces and len(text) <= MAX_CACHED_CHARS and text.isascii():
            # No token crosses a space and no character composes with one: words are encoded independently.
            start, *words = text.split(SPACE)
            ids: list[int] = self._processor.encode(start) if start else []
            for word in words:
                ids += self._word_ids(word)
            return ids
        if MARK not in text:
            return list(self._processor.encode(_reject_surrogates(text))) if text else []
        ids = []
        for number, run in enumerate(_reject_surrogates(text).split(MARK)):
            if number:
                ids.extend(self._mark_ids)
            if run:
                ids.extend(self._processor.encode(run))
        return ids

    def _id(self, piece: str) -> int:
        id = int(self._processor.piece_to_id(piece))
        if id == self.unknown_id:
            raise ValueError(f"the vocabulary lacks {piece}: this trainer did not make it")
        return id


def _reject_surrogates(text: str) -> str:
    """Returns `text`. Raises ValueError if it has a lone surrogate."""
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("the text contains a lone surrogate, which is not a Unicode character")
    return text
