"""What `run --init --dry-run` finds out: what fine-tuning would learn, hold out and measure. It trains nothing."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from model.atomic_files import write_atomically
from training.data.ingest import HELD_OUT
from training.data.prepare import prepare_corpora
from training.export.tradeoff import ACCEPTED
from training.pipeline.options import RunOptions

PREVIEW = "preview.json"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Preview:
    """A fine-tuning before it begins. `general`: the number of sentences of each set that shows losses elsewhere."""

    bundle: str
    pairs: int
    """To train on."""
    held_out: int
    left_out: dict[str, int]
    """Lines that are neither, by reason."""
    rehearsed: int
    """General sentences that the bundle translates first."""
    general: dict[str, int]
    accepted_loss: float
    """BLEU that each general set may lose."""
    minutes: float | None

    @classmethod
    def of(cls, options: RunOptions, say: Say) -> Preview:
        """Reads and cleans the pairs, in a temporary folder. Raises CorpusError, TrainingError and ValueError."""
        tuning = options.tuning
        if tuning is None:
            raise ValueError("--dry-run is for fine-tuning: give the bundle to start from with --init")
        tests = options.export.tests(options.prepare.source, options.prepare.target)
        general = tuning.general_sets(tests)
        rehearsal = tuning.rehearsal(options.work)
        with TemporaryDirectory(dir=options.work) as folder:
            # Without the rehearsal, which takes minutes and changes none of these figures.
            summary = prepare_corpora(dataclasses.replace(options.prepare, out=Path(folder, "data")), say)
        own = summary.corpora[: len(options.prepare.pairs)]
        skipped = Counter[str]()
        for corpus in own:
            skipped.update(corpus["skipped"])
        del skipped[HELD_OUT]
        return cls(
            bundle=tuning.initial.name,
            pairs=sum(corpus["kept"] for corpus in own),
            held_out=summary.dev_pairs,
            left_out=dict(skipped),
            rehearsed=max(len(rehearsal.sentences), rehearsal.min_sentences) if rehearsal else 0,
            general={test.name: len(test.pairs) for test in general},
            accepted_loss=ACCEPTED if tuning.accept_general_loss is None else tuning.accept_general_loss,
            minutes=options.minutes,
        )

    def save(self, folder: Path) -> None:
        write_atomically(folder / PREVIEW, (json.dumps(dataclasses.asdict(self), indent=2) + "\n").encode())

    def describe(self) -> Iterator[str]:
        """The lines that a person reads."""
        length = "until it stops improving" if self.minutes is None else f"for at most {self.minutes:g} minutes"
        rehearsed = f", and rehearses {self.rehearsed:,} general sentences" if self.rehearsed else ""
        yield f"the plan: {self.bundle} learns {self.pairs:,} pairs{rehearsed}, {length}"
        sets = "".join(f"; {name}: {count:,}" for name, count in self.general.items())
        yield f"measured before and after: {self.held_out:,} of the pairs, held out{sets}"
        if self.general:
            yield f"nothing is exported if one of the general sets loses more than {self.accepted_loss:g} BLEU"
