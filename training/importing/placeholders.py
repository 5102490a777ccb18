"""Reserved symbols for a model that was trained without: they become copies of pieces that it copies into translations.

A name such as "Boston" is copied to where it belongs. A symbol with the embedding of that piece goes there as well, if
the piece itself is forbidden; its output bias is a little lower, so that it never comes unasked.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from model.decoding import beam_decode
from model.decoding.batch_invariance import UNIFORM_ROWS
from model.directions import Direction
from model.hypothesis import Limits
from model.tokenizer import MARK, RESERVED_SYMBOLS, Tokenizer, Tokenizers
from model.transformer import Transformer
from training.export.samples import own_sentences
from training.importing.weights import quick_backend

BELOW = 1e-3
"""How much lower a symbol's output bias is than its piece's: more than rounding, less than any other difference."""
MAX_CANDIDATES = 400
MAX_WEIGHTS_TRIED = 25_000_000_000
"""Maximum of candidates times parameters: with 400 candidates, a model of 600 million would take an hour."""
MIN_LETTERS = 3
"""Shorter pieces are rather the beginnings of words."""
CARRIERS = 6
"""Sentences in which each candidate takes the place of the last word."""


def copyable_pieces(
    model: Transformer, tokenizers: Tokenizers, limits: Limits, source: str, direction: Direction | None = None
) -> list[tuple[int, int]]:
    """The pieces that the model copies most reliably from sentences in the language `source`, the best first, as ids in
    the source and in the target: at most one for each reserved symbol, and none that it does not copy from most
    sentences."""
    target_ids = _text_pieces(tokenizers.target)
    names = [
        (id, target_ids[piece])
        for piece, id in _text_pieces(tokenizers.source).items()
        if piece in target_ids and _is_like_a_name(piece)
    ]
    most = max(len(tokenizers.target.reserved_ids), min(MAX_CANDIDATES, MAX_WEIGHTS_TRIED // model.parameter_count()))
    names = names[:: -(-len(names) // most) or 1]
    carriers = [_around_last_word(tokenizers.source, sentence) for sentence in own_sentences(source)[:CARRIERS]]
    carriers = carriers or [([], [])]
    source_prefix, target_prefix = direction.prefixes if direction else ((), ())
    sources = [[*source_prefix, *first, name, *last] for name, _ in names for first, last in carriers]
    shorter = limits.for_sources(max(map(len, sources), default=1), len(target_prefix))
    found = iter(beam_decode(quick_backend(model), sources, shorter, 1, UNIFORM_ROWS, target_prefix))
    rated = []
    for name, target_name in names:
        chances = [
            hypothesis.log_probs[hypothesis.tokens.index(target_name)]
            for hypothesis in (next(found) for _ in carriers)
            if _is_copied(tokenizers.target, hypothesis.tokens, target_name)
        ]
        if 2 * len(chances) > len(carriers):
            rated.append((len(chances), sum(chances), name, target_name))
    return [(name, target_name) for *_, name, target_name in sorted(rated, reverse=True)[:RESERVED_SYMBOLS]]


@torch.no_grad()
def copy_into_symbols(model: Transformer, tokenizers: Tokenizers, pieces: Sequence[tuple[int, int]]) -> None:
    """Gives the first reserved symbols the weights of `pieces`, source and target ids. The model has an output bias."""
    symbols = zip(tokenizers.source.reserved_ids, tokenizers.target.reserved_ids, strict=True)
    for (symbol, target_symbol), (piece, target_piece) in zip(symbols, pieces, strict=False):
        model.source_embedding.tokens.weight[symbol] = model.source_embedding.tokens.weight[piece]
        for matrix in (model.target_embedding.tokens, model.output):
            matrix.weight[target_symbol] = matrix.weight[target_piece]
        model.output.bias[target_symbol] = model.output.bias[target_piece] - BELOW


def _text_pieces(tokenizer: Tokenizer) -> dict[str, int]:
    return {tokenizer.piece(id): id for id in range(tokenizer.vocab_size) if tokenizer.is_text(id)}


def _is_like_a_name(piece: str) -> bool:
    word = piece.removeprefix(MARK)
    return piece != word and word.isalpha() and word[0].isupper() and len(word) >= MIN_LETTERS


def _is_copied(tokenizer: Tokenizer, tokens: list[int], name: int) -> bool:
    """Whether `tokens` have `name` once, as a whole word."""
    if tokens.count(name) != 1:
        return False
    following = [tokenizer.piece(id) for id in tokens[tokens.index(name) + 1 :] if tokenizer.is_text(id)]
    return not following or not following[0][0].isalnum()


def _around_last_word(tokenizer: Tokenizer, sentence: str) -> tuple[list[int], list[int]]:
    """The tokens of `sentence` before its last word, and those of its end mark, if it has one."""
    start, _, last = sentence.rpartition(" ")
    mark = last[-1:] if not last[-1:].isalnum() else ""
    return tokenizer.encode_source(start), tokenizer.encode_source_parts([0, mark])[2:] if mark else []
