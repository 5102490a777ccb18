"""The bundle that a new model starts from: for fine-tuning (`training.adapt.finetune`) or transfer to other languages
(`training.adapt.transfer`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch

from model.bundle import Bundle
from model.bundle_weights import LoadedBundle, load_bundle
from model.transformer import AlignmentHead
from training.align.head import with_alignment_head


@dataclass(frozen=True)
class BaseBundle:
    bundle: LoadedBundle
    """Without its alignment head, which is learnt after everything else."""
    alignment: AlignmentHead | None = None
    """The head, if it has one."""

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Raises BundleError, with a one-line message, if the folder is no bundle that training can start from."""
        bundle = load_bundle(folder, torch.device("cpu"))
        bare = with_alignment_head(bundle.model, None)
        return cls(dataclasses.replace(bundle, model=bare, architecture=bare.config), bundle.model.alignment)

    @property
    def name(self) -> str:
        return self.bundle.name

    def attribution(self, given: Sequence[str]) -> tuple[str, ...]:
        """`given`, then the bundle's credits, since the new model builds on the bundle's corpora too."""
        return with_credits(given, self.bundle)

    def lineage(self) -> dict[str, Any]:
        """The bundle's training corpora and its own ancestors or origin, as its config.json records them."""
        training = self.bundle.config["training"]
        return {name: training[name] for name in ("corpora", "initial", "parent", "imported") if training.get(name)}


def with_credits(given: Sequence[str], bundle: Bundle) -> tuple[str, ...]:
    """`given`, then what `bundle` credits, each once."""
    return tuple(dict.fromkeys([*given, *bundle.config.get("attribution", ())]))
