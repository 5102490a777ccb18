"""Translates sentences with the batched greedy decoder and scores the result with sacreBLEU.

Knows nothing of bundles or runs, only of a model and what it was to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sacrebleu

from model.batch import Runner
from model.config import ModelConfig
from model.decoding import greedy_decode
from model.hypothesis import Limits
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from training.batches import Pairs

_UNSPACED = {"ja", "th", "lo", "km", "my", "bo"}
"""Languages that write no spaces and have no tokeniser in sacreBLEU without further packages: scored by character."""


@dataclass(frozen=True)
class Translations:
    """What `translate` made of each sentence; of `cut` sentences only the first `max_source` tokens were read."""

    texts: list[str]
    ids: list[list[int]]
    """Target tokens, ending in `</s>` unless a limit ended them."""
    cut: int


def translate(
    model: Runner | Transformer, tokenizer: Tokenizer, limits: Limits, sentences: Sequence[str], rows: int = 64
) -> Translations:
    """Translates every sentence greedily, `rows` at a time. One over the model's limit is cut, and counted."""
    if isinstance(model, Transformer):
        model.eval()
    encoded = [tokenizer.encode(sentence) for sentence in sentences]
    cut = sum(len(ids) > limits.max_source for ids in encoded)
    found = greedy_decode(model, [ids[: limits.max_source] for ids in encoded], limits, rows)
    return Translations([tokenizer.decode(h.tokens) for h in found], [h.tokens for h in found], cut)


@dataclass(frozen=True)
class Score:
    metric: str
    score: float
    signature: str
    """How sacreBLEU computed it, for others to repeat (Post 2018)."""


def scores(translations: Sequence[str], references: Sequence[str], target: str) -> list[Score]:
    """BLEU and chrF of translations into the language `target`, each from 0 to 100."""
    found = []
    for name, metric in (("BLEU", bleu_metric(target)), ("chrF", sacrebleu.CHRF())):
        score = metric.corpus_score(translations, [references]).score
        found.append(Score(name, float(score), str(metric.get_signature())))
    return found


def bleu_metric(target: str) -> sacrebleu.BLEU:
    """sacreBLEU as is usual for the target language: its Chinese tokeniser for Chinese, else 13a."""
    language = target.lower().split("-")[0].split("_")[0]
    return sacrebleu.BLEU(tokenize="zh" if language == "zh" else "char" if language in _UNSPACED else "13a")


@dataclass(frozen=True)
class Development:
    """The development set: its text, its tokens and how to score a translation of it."""

    sources: list[str]
    references: list[str]
    pairs: Pairs
    tokenizer: Tokenizer
    limits: Limits
    target: str

    @classmethod
    def load(cls, data: Path, tokenizer: Tokenizer, limits: Limits, target: str) -> Development:
        lines = (data / "dev.tsv").read_text(encoding="utf-8").split("\n")
        columns = [line.split("\t") for line in lines if line]
        sources, references = [column[0] for column in columns], [column[1] for column in columns]
        pairs = Pairs.of([tokenizer.encode(s) for s in sources], [tokenizer.encode(r) for r in references])
        return cls(sources, references, pairs, tokenizer, limits, target)

    def translate(self, model: Transformer, count: int | None = None) -> list[str]:
        """Greedy translations of the first `count` sentences, or of all."""
        return translate(model, self.tokenizer, self.limits, self.sources[:count]).texts

    def bleu(self, translations: Sequence[str]) -> float:
        references = [self.references[: len(translations)]]
        return float(bleu_metric(self.target).corpus_score(translations, references).score)


def limits_for(pairs: Pairs, config: ModelConfig) -> Limits:
    """Limits within which all but one in a thousand of the corpus's targets stay; see `Limits`."""
    usual, room = Limits(), config.max_positions - 1
    # Lengths in files have no sign, and most are under the margin.
    ratios = (pairs.target.lengths.astype(np.int64) - usual.margin) / np.maximum(1, pairs.source.lengths)  # [pairs]
    ratio = max(usual.ratio, round(float(np.quantile(ratios, 0.999)), 1))
    return Limits(min(usual.max_source, room), min(usual.max_target, room), ratio, usual.margin)
