"""What changes when a data folder's pairs are read in the other direction, besides the places of the two sides.

A source is normalised before it becomes tokens, and a target is not; and some copies of a pair change its source alone,
in ways that nobody wants of a target. `training.data.batches` reads the pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from model.normalisation import normalise_source
from model.tokenizer import SPACE, Tokenizer
from training.data.token_shards import Integers, Mask, TokenFiles

_CHUNK_PAIRS = 1 << 16
_MULTIPLIER = 0x9E3779B97F4A7C15
"""An odd number, whose powers weigh the tokens of a hashed sequence (Knuth 1998, section 6.4)."""
_SURROUNDINGS = ("a", "中")
"""A blank goes between ideographs, and becomes a plain one elsewhere."""


def as_sources(
    tokens: TokenFiles, starts: Integers, lengths: Integers, tokenizer: Tokenizer, max_tokens: int
) -> tuple[TokenFiles, Integers, Integers]:
    """The sequences of a target side as sources: tokens, starts and lengths, [pairs] each.

    Those that a source would not be spelt like are encoded again, and appended to `tokens`. A sequence that would then
    have more than `max_tokens` stays as it is.
    """
    doubtful = _doubtful(tokenizer)
    found = [
        first + np.flatnonzero(np.logical_or.reduceat(doubtful[ids], offsets))
        for first, ids, offsets in _chunks(tokens, starts, lengths)
        if len(offsets)
    ]
    rows = np.concatenate([np.zeros(0, np.int64), *found])
    changed, sequences = [], []
    for row in rows.tolist():
        stored = tokens[np.arange(lengths[row]) + starts[row]].tolist()
        encoded = encode_as_source(stored, tokenizer)
        if encoded != stored and 0 < len(encoded) <= max_tokens:
            changed.append(row)
            sequences.append(encoded)
    if not changed:
        return tokens, starts, lengths
    new_lengths = np.array(list(map(len, sequences)), np.int64)
    starts, lengths = starts.copy(), lengths.copy()
    starts[changed] = len(tokens) + new_lengths.cumsum() - new_lengths
    lengths[changed] = new_lengths
    return tokens.extended(np.concatenate([np.array(ids, np.int64) for ids in sequences])), starts, lengths


def encode_as_source(ids: list[int], tokenizer: Tokenizer) -> list[int]:
    """The tokens, as a source, of the text and symbols that `ids` spell as a target."""
    numbers = {id: number for number, id in enumerate(tokenizer.reserved_ids)}
    parts: list[str | int] = []
    for are_symbols, run in groupby(ids, numbers.__contains__):
        if are_symbols:
            parts += [numbers[id] for id in run]
        else:
            parts.append("".join(tokenizer.token_texts(list(run))))
    if parts and isinstance(parts[0], str):
        parts[0] = parts[0].removeprefix(SPACE)
    return tokenizer.encode_source_parts(parts)


def changed_sources(
    tokens: TokenFiles, starts: Integers, lengths: Integers, originals: int, copies: int
) -> NDArray[np.int64]:
    """The rows of those of the last `copies` pairs that have the target of one of the first `originals`.

    They are copies with another source. starts, lengths [pairs]: those of the targets.
    """
    first = len(starts) - copies
    hashes = [_hashes(tokens, starts[part], lengths[part]) for part in (slice(originals), slice(first, None)) if copies]
    return first + np.flatnonzero(np.isin(hashes[1], hashes[0])) if hashes else np.zeros(0, np.int64)


def _doubtful(tokenizer: Tokenizer) -> Mask:
    """The tokens that may occur in a target but not in a source, whatever is around them: [vocabulary]."""

    def is_doubtful(id: int) -> bool:
        if not tokenizer.is_text(id):
            return id not in tokenizer.reserved_ids
        text = tokenizer.piece(id).replace("▁", SPACE)
        around = (f"{edge}{text}{edge}" for edge in _SURROUNDINGS)
        return text == SPACE or any(normalise_source(each) != each for each in around)

    return np.array(list(map(is_doubtful, range(tokenizer.vocab_size))), np.bool_)


def _hashes(tokens: TokenFiles, starts: Integers, lengths: Integers) -> NDArray[np.uint64]:
    """A hash of each sequence: [pairs]."""
    powers = np.full(int(lengths.max(initial=0)) + 1, _MULTIPLIER, np.uint64).cumprod(dtype=np.uint64)
    found = [np.zeros(0, np.uint64)]
    for first, ids, offsets in _chunks(tokens, starts, lengths):
        counts = lengths[first : first + len(offsets)].astype(np.int64)
        within = np.arange(len(ids)) - np.repeat(offsets, counts)
        found.append(np.add.reduceat((ids + 1).astype(np.uint64) * powers[within], offsets))
    return np.concatenate(found)


def _chunks(tokens: TokenFiles, starts: Integers, lengths: Integers) -> Iterator[tuple[int, Integers, Integers]]:
    """Yields the sequences some at a time: the first's row, the ids of all, and where each begins among them."""
    for first in range(0, len(starts), _CHUNK_PAIRS):
        some = slice(first, first + _CHUNK_PAIRS)
        counts = lengths[some].astype(np.int64)
        offsets = counts.cumsum() - counts
        positions = np.repeat(starts[some] - offsets, counts) + np.arange(counts.sum())
        yield first, tokens[positions], offsets
