"""Rehearsal: general sentences with a bundle's current translations, mixed into the user's pairs during fine-tuning so
that the bundle keeps translating them.

Pseudo-rehearsal (Robins 1995, "Catastrophic forgetting, rehearsal and pseudorehearsal") by sequence-level distillation
(Kim & Rush 2016) from the model itself; needs no pairs. `training.data.prepare` mixes them in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from model.atomic_files import write_atomically
from model.backends import prepare
from model.bundle_weights import LoadedBundle
from model.decoding import beam_decode
from model.decoding.batch import Runner
from training.corpora.corpus import Pair, write_pairs
from training.corpora.general import general_sentences
from training.corpora.monolingual import Texts
from training.corpora.text_file import look_at_text
from training.data.options import MAX_RATIO
from training.evaluation.scoring import ROWS
from training.synthetic.teacher import fault

REHEARSAL, RECORD = "rehearsal.tsv", "rehearsal.json"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Rehearsal:
    """The `sentences` that `bundle` rehearses, with its translations, in the folder `work`."""

    bundle: LoadedBundle
    sentences: Sequence[str]
    work: Path

    @classmethod
    def of(cls, bundle: LoadedBundle, texts: Sequence[str], work: Path) -> Rehearsal:
        """From the distinct lines of the files `texts`, or from our own sentences. Raises CorpusError."""
        if not texts:
            return cls(bundle, general_sentences(bundle.source), work)
        lines = (text.text for path in texts for text in Texts(look_at_text(Path(path))))
        return cls(bundle, list(dict.fromkeys(lines)), work)

    @property
    def path(self) -> Path:
        return self.work / REHEARSAL

    @property
    def is_made(self) -> bool:
        record = self.work / RECORD
        if not (self.path.exists() and record.exists()):
            return False
        return bool(json.loads(record.read_text(encoding="utf-8")) == self._record())

    @property
    def is_empty(self) -> bool:
        """Whether the bundle has no sound translation of any of them."""
        return not self.path.stat().st_size

    def make(self, say: Say) -> None:
        """Translates the sentences and writes the file."""
        say(f"{self.bundle.name} translates {len(self.sentences):,} general sentences, to train on them too ...")
        self.work.mkdir(parents=True, exist_ok=True)
        write_pairs(self.path, translated(self.bundle, prepare(self.bundle.model, "auto"), self.sentences))
        write_atomically(self.work / RECORD, (json.dumps(self._record(), indent=2) + "\n").encode())

    def _record(self) -> dict[str, str]:
        texts = {"sentences": "\n".join(self.sentences), "pairs": self.path.read_text(encoding="utf-8")}
        digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
        return {"bundle": self.bundle.name, **digests}


def translated(bundle: LoadedBundle, runner: Runner, sentences: Sequence[str]) -> list[Pair]:
    """The sentences for which `bundle` has a sound translation, decoded greedily, with these translations."""
    encoded = [(text, ids) for text in sentences if len(ids := bundle.tokenizer.encode_source(text)) > 0]
    encoded = [(text, ids) for text, ids in encoded if len(ids) <= bundle.limits.max_source]
    rows = ROWS[runner.device.type]
    found = beam_decode(runner, [ids for _, ids in encoded], bundle.limits, 1, rows)
    texts = [bundle.tokenizer.decode(hypothesis.tokens).strip() for hypothesis in found]
    return [
        Pair(text, translation)
        for (text, _), hypothesis, translation in zip(encoded, found, texts, strict=True)
        if not fault(hypothesis, translation, MAX_RATIO)
    ]
