"""BPE-dropout (Provilkov et al. 2020): tokenises the same pairs differently in every epoch.

The random merges are in `model.tokenizer`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from model.config import ModelConfig
from model.tokenizer import Tokenizer, Tokenizers
from training.data.batches import Integers, Pairs, Position, Resegment
from training.optim.trainer import Recipe, TrainingError

NO_MERGES = "bpe_dropout needs a vocabulary of byte pairs that this trainer made, which imported models do not have"


@dataclass(frozen=True)
class BPEDropout:
    """Draws the tokens of both sides of a batch's pairs; a `training.data.batches.Resegment`.

    They depend only on the seed and the batch's position, not on earlier draws, nor on which process takes which part
    of the batch.
    """

    tokenizer: Tokenizer
    dropout: float
    seed: int
    longest: int
    """Maximum tokens of a side; if more are drawn, the stored ones are kept."""

    def __call__(self, pairs: Pairs, rows: Integers, position: Position) -> Pairs:
        stored = pairs.source.sequences(rows) + pairs.target.sequences(rows)
        random = Random(f"{self.seed} {position.epoch} {position.batch}")
        drawn = self.tokenizer.resegment(stored, self.dropout, random)
        sides = [new if len(new) <= self.longest else old for new, old in zip(drawn, stored, strict=True)]
        resegmented = Pairs.of(sides[: len(rows)], sides[len(rows) :])
        rehearsed = None if pairs.rehearsed is None else pairs.rehearsed[rows]
        return replace(pairs, source=resegmented.source, target=resegmented.target, rehearsed=rehearsed)


def resegmenter(recipe: Recipe, config: ModelConfig, tokenizers: Tokenizers) -> Resegment | None:
    """The recipe's function that segments pairs again; None if tokens stay the same. Raises TrainingError if the
    vocabulary was not made by merges."""
    if not recipe.bpe_dropout:
        return None
    if not (tokenizers.is_joint and tokenizers.source.can_resegment):
        raise TrainingError(NO_MERGES)
    longest = config.max_positions - 1  # the start or end symbol takes one
    return BPEDropout(tokenizers.source, recipe.bpe_dropout, recipe.seed, longest)
