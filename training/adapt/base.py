"""A bundle that a new model begins from: adapted to other pairs (`training.adapt.finetune`), or for other languages
(`training.adapt.transfer`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch

from model.bundle_weights import LoadedBundle, load_bundle


@dataclass(frozen=True)
class Origin:
    bundle: LoadedBundle

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Raises BundleError, in one line, for a folder that is no whole bundle."""
        return cls(load_bundle(folder, torch.device("cpu")))

    @property
    def name(self) -> str:
        return self.bundle.name

    def attribution(self, given: Sequence[str]) -> tuple[str, ...]:
        """`given`, then the bundle's lines: what was learnt from its corpora is in the new model too."""
        return tuple(dict.fromkeys([*given, *self.bundle.config.get("attribution", ())]))

    def lineage(self) -> dict[str, Any]:
        """What it was trained on and what it began from in turn, as its config.json tells of it."""
        training = self.bundle.config["training"]
        return {name: training[name] for name in ("corpora", "initial", "parent") if training.get(name)}
