"""Translates texts with a bundle for a student model: chooses a hypothesis, or says why none is usable.

`training.synthetic.translate` handles files and resuming.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import sacrebleu
import torch

from model.backends import prepare
from model.bundle import Bundle
from model.bundle_weights import load_bundle
from model.decoding import beam_decode
from model.decoding.batch import Backend
from model.hypothesis import Hypothesis
from model.machine import keep_freed_memory
from training.cleaning.holdout import sentence_key
from training.cleaning.simplified_chinese import references_in_script
from training.compute import use_threads
from training.corpora.corpus import Pair
from training.corpora.monolingual import Text
from training.data.options import RATIO_FROM_TOKENS
from training.evaluation.scoring import bleu_metric
from training.synthetic.sampling_decoder import SamplingBackend, sampling_precision

BATCH_TEXTS = {"cpu": 256, "cuda": 8192}
"""Texts per task of a process; a kill loses at most one task per process."""
_UNWRITABLE = re.compile(r"[\t\n\r\ufffd]")


class TranslatedBatch(NamedTuple):
    """The results for a batch of texts: pairs for the student, and the lines and reasons of failures."""

    pairs: list[Pair]
    failed: list[tuple[int, str]]
    last_line: int


@dataclass(frozen=True)
class StudentPairs:
    """How a text and its translation become a pair.

    `back`: the translation is the student's source, not its target. `pivot`: it replaces the text, so that the other
    half is what the text was paired with. `held_out`: keys of sentences of which no pair may have one.
    """

    back: bool = False
    pivot: bool = False
    held_out: frozenset[int] = frozenset()

    def add(self, text: Text, translation: str, reason: str, pairs: list[Pair], failed: list[tuple[int, str]]) -> None:
        """Appends the pair to `pairs`; or, if there is none for a `reason`, the line to `failed`."""
        kept = text.reference if self.pivot else text.text
        if not reason and self.held_out and not self.held_out.isdisjoint(map(sentence_key, (kept, translation))):
            reason = "a sentence is held out"
        if reason:
            failed.append((text.line, reason))
        else:
            pairs.append(Pair(translation, kept) if self.back else Pair(kept, translation))


@dataclass(frozen=True)
class Teacher:
    """A bundle, and how it translates. `name` identifies the weights expected in the folder `bundle`.

    `nearest`: choose the beam's hypothesis nearest to the reference, instead of the best. `sample`: draw each token
    from this many of the best, by `seed`. `min_chrf`: the least chrF of the choice against the reference.
    """

    bundle: Path
    name: str
    device: str
    precision: str
    beam: int
    rows: int
    nearest: bool
    sample: int | None
    seed: int
    max_ratio: float
    threads: int | None
    min_chrf: float = 0.0
    student: StudentPairs = StudentPairs()

    @property
    def batch_texts(self) -> int:
        """Texts that `translate` takes at a time."""
        return BATCH_TEXTS[self.device]

    def translate(self, texts: Sequence[Text]) -> TranslatedBatch:
        """Raises ValueError if the folder now has another bundle."""
        bundle, backend = load_teacher(self)
        encoded = [(text, bundle.source_tokenizer.encode_source(text.text)) for text in texts]
        longest = bundle.limits.max_source
        failed = [(text.line, f"longer than {longest} tokens") for text, ids in encoded if len(ids) > longest]
        encoded = [(text, ids) for text, ids in encoded if len(ids) <= longest]
        pairs: list[Pair] = []
        if isinstance(backend, SamplingBackend):
            backend.start(self.seed, texts[0].line)
        found = beam_decode(
            backend,
            [ids for _, ids in encoded],
            bundle.limits,
            self.beam,
            self.rows,
            length_penalty=bundle.decoding.length_penalty,
            narrowing=bundle.decoding.narrowing,
        )
        for (text, _), hypothesis in zip(encoded, found, strict=True):
            self.student.add(text, *self.choose(bundle, hypothesis, text.reference), pairs, failed)
        return TranslatedBatch(pairs, sorted(failed), texts[-1].line)

    def choose(self, bundle: Bundle, decoded: Hypothesis, reference: str) -> tuple[str, str]:
        """The best usable hypothesis, or the nearest to `reference`; and why there is none, or "".

        The nearest is by sentence BLEU, as in sequence-level interpolation (Kim & Rush 2016, section 3.3).
        """
        reasons, sound = [], []
        for hypothesis in decoded.finished or [decoded]:
            text = bundle.target_tokenizer.decode(hypothesis.tokens).strip()
            if reason := rejection_reason(hypothesis, text, self.max_ratio):
                reasons.append(reason)
            else:
                sound.append(text)
        if not sound:
            return "", reasons[0]
        chosen, references = sound[0], references_in_script([reference], bundle.target_tokenizer)
        if self.nearest:
            metric = bleu_metric(bundle.target, by_sentence=True)
            chosen = max(sound, key=lambda text: metric.sentence_score(text, references).score)
        if self.min_chrf and sacrebleu.CHRF().sentence_score(chosen, references).score < self.min_chrf:
            return "", f"a chrF below {self.min_chrf:g}"
        return chosen, ""


def rejection_reason(hypothesis: Hypothesis, text: str, max_ratio: float) -> str:
    """Why a hypothesis, with decoded `text`, is unusable for training; "" if it is usable."""
    if hypothesis.finish_reason != "stop" or math.isnan(hypothesis.score):
        return "the translation does not end"
    if not text:
        return "an empty translation"
    if _UNWRITABLE.search(text):
        return "a tab, line end or broken character in the translation"
    shorter, longer = sorted((len(hypothesis.source), len(hypothesis.tokens) - 1))
    return "lengths out of proportion" if longer > RATIO_FROM_TOKENS and longer > max_ratio * shorter else ""


@lru_cache(maxsize=1)
def load_teacher(teacher: Teacher) -> tuple[Bundle, Backend]:
    """The bundle, ready to translate in this process; cached between batches."""
    keep_freed_memory()
    use_threads(teacher.threads)
    device, dtype = torch.device(teacher.device), torch.float32
    if teacher.sample is not None:
        dtype = sampling_precision(teacher.precision, device)
    bundle = load_bundle(teacher.bundle, device, dtype)
    if bundle.name != teacher.name:
        raise ValueError(f"{teacher.bundle} is now {bundle.name}; at the start, it was {teacher.name}")
    if teacher.sample is not None:
        return bundle, SamplingBackend(bundle.model, teacher.sample)
    return bundle, prepare(bundle.model, teacher.precision)
