"""Rehearsal: general sentences with a bundle's current translations, mixed into the user's pairs during fine-tuning so
that the bundle keeps translating them.

Pseudo-rehearsal (Robins 1995, "Catastrophic forgetting, rehearsal and pseudorehearsal") by distillation (Kim & Rush
2016) from the model itself; needs no pairs. A few thousand sentences contain few of the vocabulary's words, so variants
of them are rehearsed too, with some words replaced. That these make no sense does not matter: the aim is to preserve a
function, and many varied inputs preserve it best (Beyer et al. 2022, "Knowledge distillation: A good teacher is patient
and consistent").

`training.data.prepare` mixes the pairs in; `training.optim.trainer` trains on the model's whole distribution over them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from random import Random

from model.atomic_files import write_atomically
from model.backends import prepare
from model.bundle_weights import LoadedBundle
from model.decoding import beam_decode
from model.decoding.batch import Backend
from model.languages import WITHOUT_SPACES, language_alone
from model.scripts import script_of
from model.tokenizer import MARK, Tokenizer
from training.corpora.corpus import Pair, write_pairs
from training.corpora.general import general_sentences
from training.corpora.monolingual import Texts
from training.corpora.text_file import open_text
from training.data.options import MAX_RATIO
from training.evaluation.translate import ROWS
from training.synthetic.teacher import rejection_reason

REHEARSAL_FILE, RECORD_FILE = "rehearsal.tsv", "rehearsal.json"
MIN_SENTENCES = 25_000
"""Sentences to rehearse; if there are fewer, variants make up the number."""
SWAP_SHARE, JOIN_SHARE = 0.25, 0.3
"""Share of a variant's words that are replaced, and of variants with another sentence appended."""
Say = Callable[[str], None]


def translate_greedily(bundle: LoadedBundle, backend: Backend, sentences: Sequence[str]) -> list[Pair]:
    """Translates `sentences` greedily; returns pairs for those whose translation is usable."""
    encoded = [(text, ids) for text in sentences if len(ids := bundle.source_tokenizer.encode_source(text)) > 0]
    encoded = [(text, ids) for text, ids in encoded if len(ids) <= bundle.limits.max_source]
    source_prefix, target_prefix = bundle.direction.prefixes
    sources = [[*source_prefix, *ids] for _, ids in encoded]
    found = beam_decode(backend, sources, bundle.spec.limits, 1, ROWS[backend.device], target_prefix)
    texts = [bundle.target_tokenizer.decode(hypothesis.tokens[len(target_prefix) :]).strip() for hypothesis in found]
    return [
        Pair(text, translation)
        for (text, _), hypothesis, translation in zip(encoded, found, texts, strict=True)
        if not rejection_reason(hypothesis, translation, MAX_RATIO)
    ]


@dataclass(frozen=True)
class Rehearsal:
    """The `sentences` that `bundle` rehearses, with its translations, in the folder `work`. If there are fewer than
    `min_sentences`, variants make up the number."""

    bundle: LoadedBundle
    sentences: Sequence[str]
    work: Path
    min_sentences: int
    translate: Callable[[LoadedBundle, Backend, Sequence[str]], list[Pair]]

    @classmethod
    def of(cls, bundle: LoadedBundle, texts: Sequence[str], work: Path) -> Rehearsal:
        """A rehearsal of the distinct lines of the files `texts`, or else of our own sentences. Raises CorpusError."""
        if not texts:
            return cls(bundle, general_sentences(bundle.source), work, MIN_SENTENCES, translate_greedily)
        lines = (text.text for path in texts for text in Texts(open_text(Path(path))))
        return cls(bundle, list(dict.fromkeys(lines)), work, MIN_SENTENCES, translate_greedily)

    @property
    def path(self) -> Path:
        return self.work / REHEARSAL_FILE

    @property
    def is_up_to_date(self) -> bool:
        record = self.work / RECORD_FILE
        if not (self.path.exists() and record.exists()):
            return False
        return bool(json.loads(record.read_text(encoding="utf-8")) == self._record())

    @property
    def is_empty(self) -> bool:
        """Whether the bundle has no usable translation of any of them."""
        return not self.path.stat().st_size

    def make(self, say: Say) -> None:
        """Translates the sentences and their variants and writes the file."""
        variants = make_variants(
            self.sentences, self.bundle.source_tokenizer, self.bundle.source, self.min_sentences - len(self.sentences)
        )
        count, more = len(self.sentences), f" and {len(variants):,} variants of them" if variants else ""
        say(f"{self.bundle.name} translates {count:,} general sentences{more}, for rehearsal ...")
        self.work.mkdir(parents=True, exist_ok=True)
        pairs = self.translate(self.bundle, prepare(self.bundle.model, "auto"), [*self.sentences, *variants])
        write_pairs(self.path, pairs)
        write_atomically(self.work / RECORD_FILE, (json.dumps(self._record(), indent=2) + "\n").encode())

    def _record(self) -> dict[str, str | int]:
        texts = {"sentences": "\n".join(self.sentences), "pairs": self.path.read_text(encoding="utf-8")}
        digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
        return {"bundle": self.bundle.name, "enough": self.min_sentences, **digests}


def make_variants(sentences: Sequence[str], tokenizer: Tokenizer, language: str, count: int) -> list[str]:
    """Makes `count` variants of `sentences`, which are in `language`, cycling through them; none if `count` is below 1.

    Replaces a quarter of the words that are a single token by other words of the vocabulary in the same script. Appends
    another sentence to some variants, because long sentences are rare.
    """
    if not sentences:
        return []
    spaced = language_alone(language) not in WITHOUT_SPACES
    kinds = {id: kind for id in range(tokenizer.vocab_size) if (kind := _word_kind(tokenizer, id, spaced))}
    words: dict[tuple[bool, str | None], list[int]] = {}
    for id, kind in kinds.items():
        words.setdefault(kind, []).append(id)
    draw, joint = Random("variants"), " " if spaced else ""

    def variant(sentence: str) -> str:
        ids = tokenizer.encode_source(sentence)
        goes_on = [spaced and tokenizer.piece(id)[:1].isalpha() for id in ids[1:]] + [False]
        text = tokenizer.decode(
            [
                draw.choice(words[kinds[id]]) if id in kinds and not more and draw.random() < SWAP_SHARE else id
                for id, more in zip(ids, goes_on, strict=True)
            ]
        )
        return joint.join([text, draw.choice(sentences)]) if draw.random() < JOIN_SHARE else text

    return [variant(sentence) for sentence in islice(cycle(sentences), max(0, count))]


def _word_kind(tokenizer: Tokenizer, id: int, spaced: bool) -> tuple[bool, str | None] | None:
    """Whether the token is a word after a space, and its script; None if it is not a word, or may be part of one."""
    piece = tokenizer.piece(id)
    word = piece.removeprefix(MARK)
    if not (tokenizer.is_text(id) and word.isalpha()) or (spaced and (word == piece or len(word) == 1)):
        return None
    return word != piece, script_of(word[0])
