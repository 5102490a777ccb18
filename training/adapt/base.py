"""The bundle that a new model starts from: for fine-tuning (`training.adapt.finetune`) or transfer to other languages
(`training.adapt.transfer`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch

from model.bundle_files import BundleError
from model.bundle_weights import LoadedBundle, load_bundle


@dataclass(frozen=True)
class BaseBundle:
    bundle: LoadedBundle

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Raises BundleError, with a one-line message, if the folder is no bundle that training can start from."""
        bundle = load_bundle(folder, torch.device("cpu"))
        bundle.check_plain()
        if bundle.source_tokenizer is not bundle.target_tokenizer:
            raise BundleError(f"{folder}: has a vocabulary for each side, and training makes models with one for both")
        if bundle.architecture.output_bias:  # `training.optim.trainer.Trainer` refuses it too, but late
            raise BundleError(f"{folder}: has an output bias, as imported models do, which training does not support")
        return cls(bundle)

    @property
    def name(self) -> str:
        return self.bundle.name

    def attribution(self, given: Sequence[str]) -> tuple[str, ...]:
        """`given`, then the bundle's credits, since the new model builds on the bundle's corpora too."""
        return tuple(dict.fromkeys([*given, *self.bundle.config.get("attribution", ())]))

    def lineage(self) -> dict[str, Any]:
        """The bundle's training corpora and its own ancestors, as its config.json records them."""
        training = self.bundle.config["training"]
        return {name: training[name] for name in ("corpora", "initial", "parent") if training.get(name)}
