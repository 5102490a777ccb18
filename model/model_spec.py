"""What decoding needs to know of a bundle. Frozen values, which the front sends to its workers as they are."""

from __future__ import annotations

from dataclasses import dataclass

from model.bundle_files import ALIGNMENT, BundleError
from model.config import ModelConfig
from model.decoding import decode_all
from model.decoding.batch import Batch
from model.hypothesis import Hypothesis, Limits


@dataclass(frozen=True)
class Sample:
    """A sentence stored in a bundle, as token ids, with its translation on export.

    It was chosen so that no precision or processor changes the translation: a difference means that the model computes
    something else than it did.
    """

    source: str
    source_ids: tuple[int, ...]
    """What the encoder reads, a direction's prefix included and the end symbol excluded."""
    target_ids: tuple[int, ...]
    target_prefix: tuple[int, ...] = ()
    """The first of `target_ids`, which the direction gives."""

    def hypothesis(self, limits: Limits) -> Hypothesis:
        limit = limits.target(len(self.source_ids), len(self.target_prefix))
        return Hypothesis(self.source_ids, limit, prefix=self.target_prefix)


@dataclass(frozen=True)
class ModelSpec:
    """The model of a verified bundle: where its weights are, how they are arranged, and what they must compute."""

    name: str
    """The language pair, of several directions as `Directions.pair` says, and the first digits of `checksum`."""
    folder: str
    checksum: str
    """SHA-256 of the weights, in hexadecimal."""
    architecture: ModelConfig
    limits: Limits
    samples: tuple[Sample, ...]
    alignment_checksum: str = ""
    """SHA-256 of the alignment head's weights, in hexadecimal; empty without one."""

    def replaced_by(self, name: str) -> BundleError:
        """The error for a folder whose bundle is `name` now."""
        return BundleError(f"{self.folder} is {name} now, and was {self.name} when the service read it")

    def realigned(self) -> BundleError:
        """The error for a folder whose bundle has another alignment head now."""
        return BundleError(f"{self.folder} aligns by another {ALIGNMENT} now than when the service read it")

    def check_samples(self, batch: Batch) -> None:
        """Translates the samples in `batch`, which is empty. Raises BundleError if a token differs, or if anything
        fails."""
        found = [sample.hypothesis(self.limits) for sample in self.samples]
        decode_all(batch, found)
        for sample, hypothesis in zip(self.samples, found, strict=True):
            if hypothesis.tokens != list(sample.target_ids):
                raise BundleError(f"{self.folder}: the sample {sample.source!r} is not translated as on export")
