"""Early warnings: signs in the data, the model's size or the first evaluations that training will disappoint.

Each function yields nothing if all is well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from model.config import ModelConfig, named_architecture
from training.cleaning.rules import COPIED
from training.data.batches import Pairs
from training.data.dataset import PreparedSummary
from training.data.ingest import IN_DEVELOPMENT
from training.optim.defaults import SIZES, size_for
from training.optim.trainer import Recipe

_SAMPLED_PAIRS = 2000
_ROWS_PER_READ = 1 << 16
_MIN_TOKENS_PER_PIECE = 20
"""Minimum tokens per vocabulary piece, below which most pieces occur only a few times. Gowda & May (2020, "Finding the
Optimal Vocabulary Size", section 4) recommend a hundred for 95 % of them."""
_SMALLEST_VOCABULARY = 1000
_MAX_LOSS_RATIO = 0.995
_MIN_DEV_PAIRS = 200
"""Minimum development pairs for a difference of some BLEU to tell models apart."""


def before_training(
    record: Mapping[str, Any], pairs: Pairs, config: ModelConfig, recipe: Recipe, tuned: bool
) -> Iterator[str]:
    """Warnings about prepared data (`record` is its prepared.json), the model to train on them and how."""
    yield from development_in_training(record)
    yield from small_development_set(record)
    yield from identical_sides(record, pairs)
    yield from r_drop_without_dropout(config, recipe)
    if not tuned:
        yield from too_few_pairs(PreparedSummary(**record).own_pairs, config)
        yield from vocabulary_too_large(pairs, record["vocab_size"])


def development_in_training(record: Mapping[str, Any]) -> Iterator[str]:
    """Warns if many training pairs share sentences with a given development file."""
    if record["options"].get("dev") is None:
        return
    shared = sum(corpus["skipped"].get(IN_DEVELOPMENT, 0) for corpus in record["corpora"])
    if shared >= max(2, record["dev_pairs"] / 10):
        yield (
            f"the development set is inside the training pairs: {shared:,} of them shared a sentence with its "
            f"{record['dev_pairs']:,} pairs and were left out. Is it another field's, or the same file?"
        )


def small_development_set(record: Mapping[str, Any]) -> Iterator[str]:
    """Warns if a given development file is too small for what it decides."""
    if record["options"].get("dev") is not None and record["dev_pairs"] < _MIN_DEV_PAIRS:
        yield (
            f"the development set has {record['dev_pairs']:,} pairs, by which the end of training and the weights that "
            f"ship are chosen: with fewer than {_MIN_DEV_PAIRS}, differences are mostly chance; give more"
        )


def overlap(name: str, sources: Sequence[list[int]], pairs: Pairs) -> Iterator[str]:
    """Warns if a twentieth or more of a test set's `sources`, as tokens, are in the training data."""
    count = trained_on(sources, pairs)
    if 20 * count >= max(20, len(sources)):
        yield f"{count:,} of the {len(sources):,} sentences of {name} are in the training data: its scores are too high"


def trained_on(sources: Sequence[list[int]], pairs: Pairs) -> int:
    """How many of `sources`, as tokens, are in the training data."""
    wanted = {tuple(ids) for ids in sources}
    rows = np.isin(pairs.source.lengths, [len(ids) for ids in wanted]).nonzero()[0]
    seen: set[tuple[int, ...]] = set()
    for begin in range(0, len(rows), _ROWS_PER_READ):
        seen |= wanted.intersection(map(tuple, pairs.source.sequences(rows[begin : begin + _ROWS_PER_READ])))
    return sum(tuple(ids) in seen for ids in sources)


def identical_sides(record: Mapping[str, Any], pairs: Pairs) -> Iterator[str]:
    """Warns if most pairs have the same text on both sides."""
    rows = np.linspace(0, len(pairs) - 1, min(len(pairs), _SAMPLED_PAIRS)).astype(np.int64)
    sides = zip(pairs.source.sequences(rows), pairs.target.sequences(rows), strict=True)
    same = sum(source == target for source, target in sides) / len(rows)
    dropped = sum(corpus["skipped"].get(COPIED, 0) for corpus in record["corpora"])
    kept = sum(corpus["kept"] for corpus in record["corpora"])
    if dropped + same * kept > (dropped + kept) / 2:
        yield "source and target are the same in most pairs: are these the right columns, and translations?"


def r_drop_without_dropout(config: ModelConfig, recipe: Recipe) -> Iterator[str]:
    """Warns if R-Drop's two passes are equal, and only double the time."""
    if recipe.r_drop and not (config.dropout or config.attention_dropout):
        yield "R-Drop compares two passes with different dropout, and there is none: both are equal; set a dropout"


def too_few_pairs(pairs: int, config: ModelConfig) -> Iterator[str]:
    """Warns if a model trained from scratch has more to learn than `pairs` can teach it."""
    suited, pieces = size_for(pairs, gpu=True), config.target_vocab_size
    largest = named_architecture(suited.architecture, source_vocab_size=pieces, target_vocab_size=pieces)
    if _weights(config) > 1.5 * _weights(largest):
        yield (
            f"{pairs:,} pairs are too few for a model of this size, which will learn them by heart: "
            f"{suited.architecture} suits them better"
        )
    elif pairs < SIZES[0].pairs:
        yield (
            f"{pairs:,} pairs are few to learn a language from: if there is a bundle of these languages, "
            "`run --init` adapts it to yours"
        )


def _weights(config: ModelConfig) -> int:
    """The approximate number of weights, without embeddings."""
    layer = 4 * config.d_model**2 + 2 * config.d_model * config.d_ff
    return config.encoder_layers * layer + config.decoder_layers * (layer + 4 * config.d_model**2)


def vocabulary_too_large(pairs: Pairs, vocab_size: int) -> Iterator[str]:
    """Warns if a vocabulary larger than the smallest has pieces that hardly ever occur."""
    tokens = int(pairs.source.lengths.sum()) + int(pairs.target.lengths.sum())
    if vocab_size > _SMALLEST_VOCABULARY and tokens < _MIN_TOKENS_PER_PIECE * vocab_size:
        yield (
            f"a vocabulary of {vocab_size:,} pieces is large for {tokens:,} tokens: most occur too rarely to be "
            "learnt; a smaller one (vocab_size) translates better"
        )


def while_training(history: Sequence[Mapping[str, float]]) -> Iterator[str]:
    """Warns, after the third evaluation, if those in `history` show that the model learns nothing."""
    measured = [row for row in history if not math.isnan(row["train_loss"])]
    begun = history[0]["step"] == 0  # started from a bundle's weights
    # The training loss need not fall if the model knows its training pairs already.
    learns = begun and history[-1]["dev_loss"] < _MAX_LOSS_RATIO * history[0]["dev_loss"]
    if len(measured) == 3 and not learns and measured[-1]["train_loss"] > _MAX_LOSS_RATIO * measured[0]["train_loss"]:
        yield (
            f"the training loss has not fallen in {measured[-1]['step']:,.0f} steps "
            f"({measured[0]['train_loss']:.3f} to {measured[-1]['train_loss']:.3f}): are source and "
            "target each other's translations, line by line? or else the learning rate is too high, or far too low"
        )
    losses = [row["dev_loss"] for row in history]
    if len(losses) == 3 and losses[0] < losses[1] < losses[2]:
        option = "--learning-rate (with --parent: learning_rate_factor)" if begun else "learning_rate_factor"
        yield (
            f"the development loss rises from the start ({losses[0]:.3f}, {losses[1]:.3f}, {losses[2]:.3f}): the "
            f"learning rate is too high, or these pairs are of another kind than the training's; try a lower {option}"
        )
