"""What --check and --calibrate measure, as the service translates: it needs the extra `train`, the rest does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from model.directions import Direction
from model.tokenizer import Tokenizers
from model.transformer import Transformer
from training.evaluation.evaluate import Scoring, TestSet, evaluate_set, report
from training.evaluation.placeholders import PlaceholderResult
from training.evaluation.service_command import NotServed
from training.export.metrics import fit_as_served, measure_as_served, measure_placeholders
from training.importing.model import ImportedModel
from training.importing.options import ImportOptions

Say = Callable[[str], None]
Write = Callable[[Path], None]


@dataclass(frozen=True)
class Measures:
    """The sets of --check and --calibrate."""

    languages: tuple[str, str]
    tests: list[TestSet]
    fitted_on: list[TestSet]

    @classmethod
    def read(cls, options: ImportOptions) -> Measures:
        """Raises CorpusError."""
        tests, fitted_on = (
            [TestSet.read(text, *options.pair) for text in texts] for texts in (options.check, options.calibrate)
        )
        return cls(options.pair, tests, fitted_on)

    def scores(
        self,
        write: Write,
        model: Transformer,
        tokenizers: Tokenizers,
        imported: ImportedModel,
        direction: Direction,
        say: Say,
    ) -> dict[str, Any]:
        """The record's `metrics` and `placeholders` of the bundle that `write` writes; empty without --check."""
        if not self.tests:
            return {}
        placements: list[PlaceholderResult] = []
        try:
            results = measure_as_served(write, self.tests, torch.device("cpu"), self.languages)
            placements = measure_placeholders(write, self.tests, torch.device("cpu"), self.languages)
        except NotServed as error:
            say(f"warning: the scores are those of the bare decoder, since {error}")
            how = model, tokenizers, imported.limits, self.languages[1]
            decoding = imported.decoding
            beam, penalty = decoding.beam_size or 1, decoding.length_penalty
            scoring = Scoring(beam, length_penalty=penalty, narrowing=decoding.narrowing)
            results = [evaluate_set(*how, test, scoring=scoring, direction=direction) for test in self.tests]
        for result, test in zip(results, self.tests, strict=True):
            report(result, test, imported.limits, say)
        for placement in placements:
            say(str(placement))
        return {
            "metrics": [metric for result in results for metric in result.metrics()],
            "placeholders": [placement.to_dict() for placement in placements],
        }

    def estimates(self, write: Write, say: Say) -> dict[str, Any]:
        """The record's `quality`; empty without --calibrate."""
        if not self.fitted_on:
            return {}
        return fit_as_served(write, self.fitted_on, self.tests, torch.device("cpu"), self.languages, say)
