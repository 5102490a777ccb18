"""Transfer learning: a model begins from one for other languages (Zoph et al. 2016; Kocmi and Bojar 2018).

A token that is new begins as the mean of those that spelt it (Gee et al. 2022, "Fast Vocabulary Transfer for Language
Model Compression").

Knows which weights of the parent stand for what in the child. All else is as for a model that begins with nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

import torch
from torch import Tensor

from model.config import ModelConfig, Sharing
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from training.adapt.base import Origin
from training.optim.trainer import TrainingError

_VOCABULARY = re.compile(r"(?:source|target)_embedding\.tokens\.weight|output\.weight")
_SHARING = get_args(Sharing)
"""The more is shared, the later."""
_FEED_FORWARD = re.compile(r"(.*feed_forward)\.(inner\.weight|inner\.bias|outer\.weight)")


class Parent(Origin):
    """The bundle whose weights a model for other languages begins from."""

    def record(self) -> dict[str, Any]:
        """What config.json of the child tells of it."""
        record: dict[str, Any] = {"bundle": self.name, "source": self.bundle.source, "target": self.bundle.target}
        return record | {"licence": self.bundle.config.get("licence")} | self.lineage()

    @property
    def shape(self) -> dict[str, Any]:
        """The fields of its architecture, but for the vocabulary, the positions and how it is trained."""
        others = {"source_vocab_size", "target_vocab_size", "pad_id", "bos_id", "eos_id"}
        others |= {"max_positions", "dropout", "attention_dropout"}
        return {name: value for name, value in self.bundle.model.config.to_dict().items() if name not in others}

    def check(self, config: ModelConfig) -> None:
        """Raises TrainingError if a model of `config` has nothing to take over."""
        theirs = self.bundle.model.config
        for name in ("d_model", "num_heads", "norm"):
            ours = getattr(config, name)
            if ours != getattr(theirs, name):
                raise TrainingError(
                    f"{self.name} has the {name} {getattr(theirs, name)}, this model {ours}: "
                    "a parent must have the same"
                )
        if _SHARING.index(config.share_embeddings) > _SHARING.index(theirs.share_embeddings):
            raise TrainingError(
                f"{self.name} has different embeddings, this model shares them: say share_embeddings = "
                f'"{theirs.share_embeddings}" in a recipe, as the parent has it'
            )

    def pieces(self, tokenizer: Tokenizer) -> dict[int, list[int]]:
        """Of the tokens of `tokenizer`, which of the parent's spell each: the same one, or its parts.

        Those are missing that the parent spells in bytes, which mean nothing by themselves, and symbols that it lacks.
        """
        theirs = self.bundle.tokenizer
        there = {theirs.piece(id): id for id in range(theirs.vocab_size)}
        found: dict[int, list[int]] = {}
        for id in range(tokenizer.vocab_size):
            piece = tokenizer.piece(id)
            if piece in there:
                found[id] = [there[piece]]
            elif tokenizer.is_text(id) and all(map(theirs.is_text, parts := theirs.parts(piece))):
                found[id] = parts
        return found

    def weights(self, config: ModelConfig, pieces: Mapping[int, Sequence[int]], seed: int) -> dict[str, Tensor]:
        """What a model of `config` begins with: the parent's weights where there are any, else those of `seed`.

        A token of `pieces` begins with the mean of the rows that stand for it in the parent. Of a wider feed-forward
        layer, the units with the longest weights go over, as they are in pruning. Raises TrainingError, see `check`.
        """
        self.check(config)
        torch.manual_seed(seed)
        ours, theirs = Transformer(config).state_dict(), self.bundle.model.state_dict()
        for name, weight in self._taken(ours, theirs, pieces):
            ours[name] = weight
        return ours

    def _taken(
        self, ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], pieces: Mapping[int, Sequence[int]]
    ) -> Iterator[tuple[str, Tensor]]:
        here = torch.tensor(list(pieces))
        for name, fresh in ours.items():
            if name not in theirs:
                continue  # a layer more than the parent has
            weight = theirs[name].to(fresh.dtype)
            if _VOCABULARY.fullmatch(name):
                means = [weight[list(parts)].mean(0) for parts in pieces.values()]
                yield name, fresh.index_copy(0, here, torch.stack(means))
            elif match := _FEED_FORWARD.fullmatch(name):
                yield name, _units(weight, match[2], theirs, match[1], fresh)
            elif name.endswith(".positions"):  # the model may reach further than the parent, or not as far
                yield name, torch.cat([weight[: len(fresh)], fresh[len(weight) :]])
            elif weight.shape == fresh.shape:
                yield name, weight


def _units(weight: Tensor, part: str, theirs: Mapping[str, Tensor], layer: str, fresh: Tensor) -> Tensor:
    """The `part` of a feed-forward layer for as many units as `fresh` has, the longest of the parent's first kept."""
    axis = 1 if part == "outer.weight" else 0
    wanted = fresh.size(axis)
    inner = theirs[f"{layer}.inner.weight"].float()  # [units, d_model]
    outer = theirs[f"{layer}.outer.weight"].float()  # [d_model, units]
    strength = inner.norm(dim=1) * outer.norm(dim=0)  # [units]
    kept = strength.topk(min(wanted, len(strength))).indices.sort().values
    return fresh.index_copy(axis, torch.arange(len(kept)), weight.index_select(axis, kept))
