"""The bundle of `--lexicon`: its translations of the pairs say which of the parent's tokens translate the new ones.

The tokens are aligned in `training.adapt.lexicon`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from model.bundle import Bundle, open_bundle
from model.tokenizer import Tokenizer
from training.adapt.base import with_credits
from training.adapt.lexicon import AlignedPair, Translations, lexicon
from training.adapt.transfer import ParentBundle
from training.corpora.monolingual import Text
from training.data.batches import Pairs
from training.data.dataset import PreparedSummary
from training.data.options import MAX_RATIO
from training.evaluation.translate import ROWS
from training.synthetic.teacher import Teacher
from training.synthetic.translate import in_batches

SAMPLE = 60_000
"""Pairs that are translated and aligned: about four minutes of two cores for a bundle of 21 million parameters."""


@dataclass(frozen=True)
class LexiconBundle:
    """A bundle from the language `shared` by a parent and its child to the parent's other one."""

    folder: Path
    bundle: Bundle
    shared: str

    @classmethod
    def load(cls, folder: Path, parent: ParentBundle | None, languages: tuple[str, str]) -> Self:
        """`languages`: the child's. Raises BundleError, and ValueError if the bundle cannot make the lexicon."""
        if parent is None:
            raise ValueError("--lexicon is for new tokens of a model that starts from --parent: give that too")
        theirs = {parent.bundle.source, parent.bundle.target}
        shared, others = theirs & {*languages}, theirs - {*languages}
        if len(shared) != 1 or len(others) != 1:
            raise ValueError(
                f"--lexicon is for a parent that has one of the languages {' and '.join(languages)}, "
                f"not {'both' if shared else 'neither'}: leave it out"
            )
        bundle = open_bundle(folder)
        bundle.check_plain()
        [ours], [other] = shared, others
        if (bundle.source, bundle.target) != (ours, other):
            raise ValueError(
                f"--lexicon {folder} translates {bundle.source} to {bundle.target}, but with the parent {parent.name} "
                f"it must translate {ours} to {other}"
            )
        return cls(folder, bundle, ours)

    def record(self) -> dict[str, Any]:
        """The record of this bundle in the child's, beside the parent's."""
        return {"lexicon": self.bundle.name}

    def attribution(self, given: Sequence[str]) -> tuple[str, ...]:
        """`given`, then the bundle's credits, since the child learns from its translations."""
        return with_credits(given, self.bundle)

    def make(
        self, parent: ParentBundle, tokenizer: Tokenizer, pairs: Pairs, summary: PreparedSummary, device: str, seed: int
    ) -> dict[int, Translations]:
        """The lexicon of the vocabulary of `tokenizer`, from a sample of its `pairs`, which `summary` describes.

        Deterministic for a `seed`. Raises ValueError if the bundle was replaced meanwhile.
        """
        theirs = parent.bundle.source_tokenizer
        rows = _sample(pairs.weights[: summary.own_pairs], seed)
        sides = pairs.source.sequences(rows), pairs.target.sequences(rows)
        known, new = sides if summary.source == self.shared else sides[::-1]
        texts = [tokenizer.decode(ids) for ids in known]
        translations = self._translate(sorted(set(texts), key=lambda text: (len(text), text)), device)
        aligned = [
            AlignedPair(other, ids, theirs.encode(translations[text]))
            for text, ids, other in zip(texts, known, new, strict=True)
            if text in translations
        ]
        return lexicon(aligned, tokenizer.vocab_size, theirs.vocab_size)

    def _translate(self, texts: Sequence[str], device: str) -> dict[str, str]:
        """The translations, by text; those that would be of no use for training are left out."""
        teacher = Teacher(
            self.folder,
            self.bundle.name,
            device,
            "auto",
            beam=1,
            rows=ROWS[device],
            nearest=False,
            sample=None,
            seed=1,
            max_ratio=MAX_RATIO,
            threads=None,
        )
        done = in_batches(teacher, (Text(line, text) for line, text in enumerate(texts, 1)), len(texts))
        return {pair.source: pair.target for batch in done for pair in batch.pairs}


def _sample(weights: NDArray[np.float64], seed: int) -> NDArray[np.int64]:
    """Up to SAMPLE rows, likelier ones of a larger weight, in ascending order."""
    drawn = np.flatnonzero(weights)
    random = np.random.default_rng(seed)
    if len(drawn) > SAMPLE:
        share = weights[drawn] / weights[drawn].sum()
        drawn = random.choice(drawn, SAMPLE, replace=False, p=share)
    return np.sort(drawn)
