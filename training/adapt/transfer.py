"""Transfer learning: a model starts from one for other languages (Zoph et al. 2016; Kocmi and Bojar 2018).

A new token starts as the mean of the parent's tokens that translate it, if a lexicon says which (see
`training.adapt.lexicon`), or spell it (Gee et al. 2022, "Fast Vocabulary Transfer for Language Model Compression").
Everything else is as for a model trained from scratch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, get_args

import torch
from torch import Tensor

from model.bundle_files import BundleError
from model.config import ModelConfig, Sharing
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from training.adapt.base import BaseBundle
from training.adapt.lexicon import Lexicon, Translations
from training.optim.trainer import TrainingError

_VOCABULARY = re.compile(r"(?:source|target)_embedding\.tokens\.weight|output\.weight")
_SHARING = get_args(Sharing)
"""In order of how much is shared, least first."""
_FEED_FORWARD = re.compile(r"(.*feed_forward)\.(inner\.weight|inner\.bias|outer\.weight)")


class ParentBundle(BaseBundle):
    """The bundle whose weights a model for other languages starts from."""

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Raises BundleError also for an imported model, whose vocabulary cannot spell the tokens of another."""
        parent = super().load(folder)
        bundle = parent.bundle
        bundle.check_plain()
        if not bundle.tokenizers.is_joint or not bundle.source_tokenizer.can_resegment:
            raise BundleError(
                f"{folder}: has another kind of vocabulary than this trainer makes, as imported models do: it can be "
                "fine-tuned with --init, but is no parent for other languages"
            )
        return parent

    def record(self) -> dict[str, Any]:
        """The record of this bundle in the child's config.json."""
        record: dict[str, Any] = {"bundle": self.name, "source": self.bundle.source, "target": self.bundle.target}
        return record | {"licence": self.bundle.config.get("licence")} | self.lineage()

    @property
    def shape(self) -> dict[str, Any]:
        """The fields of the bundle's architecture, except vocabulary, positions and training options."""
        others = {"source_vocab_size", "target_vocab_size", "pad_id", "bos_id", "eos_id"}
        others |= {"max_positions", "dropout", "attention_dropout"}
        return {name: value for name, value in self.bundle.model.config.to_dict().items() if name not in others}

    def check(self, config: ModelConfig) -> None:
        """Raises TrainingError if a model of `config` cannot take over any weights."""
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
                f"{self.name} has separate embeddings, this model shares them: set share_embeddings = "
                f'"{theirs.share_embeddings}" in a recipe, as the parent has it'
            )

    def pieces(self, tokenizer: Tokenizer) -> dict[int, list[int]]:
        """For each token of `tokenizer`, the parent's tokens that spell it: the same one, or its parts.

        Omits tokens that the parent spells in bytes, which mean nothing by themselves, and symbols that it lacks.
        """
        theirs = self.bundle.source_tokenizer
        there = {theirs.piece(id): id for id in range(theirs.vocab_size)}
        found: dict[int, list[int]] = {}
        for id in range(tokenizer.vocab_size):
            piece = tokenizer.piece(id)
            if piece in there:
                found[id] = [there[piece]]
            elif tokenizer.is_text(id) and all(map(theirs.is_text, parts := theirs.parts(piece))):
                found[id] = parts
        return found

    def weights(
        self, config: ModelConfig, pieces: Mapping[int, Sequence[int]], seed: int, lexicon: Lexicon | None = None
    ) -> dict[str, Tensor]:
        """Initial weights for a model of `config`: the parent's where available, else random ones of `seed`.

        A token in `pieces` starts with the mean of the parent's rows for it, and one in `lexicon` with that of its
        translations, by the share of its occurrences that are translated. From a wider feed-forward layer, the units
        with the longest weights are kept, as in pruning. Raises TrainingError, see `check`.
        """
        self.check(config)
        torch.manual_seed(seed)
        ours, theirs = Transformer(config).state_dict(), self.bundle.model.state_dict()
        for name, weight in self._initial_weights(ours, theirs, pieces, lexicon or {}):
            ours[name] = weight
        return ours

    def _initial_weights(
        self,
        ours: Mapping[str, Tensor],
        theirs: Mapping[str, Tensor],
        pieces: Mapping[int, Sequence[int]],
        lexicon: Lexicon,
    ) -> Iterator[tuple[str, Tensor]]:
        here = torch.tensor(list(pieces))
        for name, fresh in ours.items():
            if name not in theirs:
                continue  # a layer beyond the parent's last
            weight = theirs[name].to(fresh.dtype)
            if _VOCABULARY.fullmatch(name):
                means = [weight[list(parts)].mean(0) for parts in pieces.values()]
                rows = fresh.index_copy(0, here, torch.stack(means))
                for token, translations in lexicon.items():
                    translated = _translated_row(weight, translations)
                    share = translations.share if token in pieces else 1.0
                    rows[token] = share * translated + (1 - share) * rows[token]
                yield name, rows
            elif match := _FEED_FORWARD.fullmatch(name):
                yield name, _strongest_units(weight, match[2], theirs, match[1], fresh)
            elif name.endswith(".positions"):  # the model may have more positions than the parent, or fewer
                yield name, torch.cat([weight[: len(fresh)], fresh[len(weight) :]])
            elif weight.shape == fresh.shape:
                yield name, weight


def _translated_row(weight: Tensor, translations: Translations) -> Tensor:
    """[d_model] the mean of the translations' rows, as long as they are on average: a mean alone is shorter."""
    rows, probabilities = weight[translations.tokens], weight.new_tensor(translations.probabilities)
    mean, length = probabilities @ rows, probabilities @ torch.linalg.vector_norm(rows, dim=1)
    unit: Tensor = torch.nn.functional.normalize(mean, dim=0)
    return torch.mul(unit, length)


def _strongest_units(weight: Tensor, part: str, theirs: Mapping[str, Tensor], layer: str, fresh: Tensor) -> Tensor:
    """The `part` of a feed-forward layer with as many units as `fresh` has; the parent's longest units are kept
    first."""
    axis = 1 if part == "outer.weight" else 0
    wanted = fresh.size(axis)
    inner = theirs[f"{layer}.inner.weight"].float()  # [units, d_model]
    outer = theirs[f"{layer}.outer.weight"].float()  # [d_model, units]
    strength = inner.norm(dim=1) * outer.norm(dim=0)  # [units]
    kept = strength.topk(min(wanted, len(strength))).indices.sort().values
    return fresh.index_copy(axis, torch.arange(len(kept)), weight.index_select(axis, kept))
