"""Scores translations with sacreBLEU, among them those of the development set."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import sacrebleu

from model.config import ModelConfig
from model.directions import Direction
from model.hypothesis import Limits
from model.languages import WITHOUT_SPACES, language_alone
from model.tokenizer import Tokenizers
from model.transformer import Transformer
from training.data.batches import Pairs
from training.data.dataset import dev_pairs, load_direction, load_tokenizers
from training.evaluation.translate import translate

BLEU = "BLEU"
"""The metric's name in scores."""
MIN_BLEU_DIFFERENCE = 0.1
"""The smallest difference in BLEU that reports show."""


@dataclass(frozen=True)
class Score:
    metric: str
    score: float
    signature: str
    """sacreBLEU's signature, for reproduction (Post 2018)."""


def scores(
    translations: Sequence[str], references: Sequence[str], target: str, lowercase: bool = False, moses: bool = False
) -> list[Score]:
    """BLEU and chrF of translations into the language `target`, each from 0 to 100.

    With `lowercase` or `moses` a third score follows, only for comparison with papers: BLEU of text in lower case, or
    of Moses' tokens, see `moses_tokens`.
    """
    found = [
        _scored(BLEU, bleu_metric(target), translations, references),
        _scored("chrF", sacrebleu.CHRF(), translations, references),
    ]
    if moses:
        found.append(_moses_bleu(translations, references, target, lowercase))
    elif lowercase:
        found.append(_scored("BLEU in lower case", bleu_metric(target, lowercase), translations, references))
    return found


def _scored(name: str, metric: Any, translations: Sequence[str], references: Sequence[str]) -> Score:
    score = metric.corpus_score(translations, [references]).score
    return Score(name, float(score), str(metric.get_signature()))


def _moses_bleu(translations: Sequence[str], references: Sequence[str], target: str, lowercase: bool) -> Score:
    metric = sacrebleu.BLEU(tokenize="none", force=True, lowercase=lowercase)
    sides = (moses_tokens(texts, target, lowercase) for texts in (translations, references))
    name = "BLEU in lower case, tokens of Moses" if lowercase else "BLEU, tokens of Moses"
    score = _scored(name, metric, *sides)
    tokeniser = f"tok:moses-{target}-norm-sacremoses-{importlib.metadata.version('sacremoses')}"
    return replace(score, signature=score.signature.replace("tok:none", tokeniser))


def moses_tokens(texts: Sequence[str], language: str, lowercase: bool) -> list[str]:
    """The tokens separated by spaces, as in Multi30k's own files: lower-cased if requested, then Moses'
    normalize-punctuation.perl and tokenizer.perl, as ported by sacremoses. Raises ValueError if that is missing."""
    try:
        from sacremoses import MosesPunctNormalizer, MosesTokenizer
    except ImportError:
        raise ValueError("--tokenize moses needs sacremoses: pip install sacremoses") from None
    normaliser, tokeniser = MosesPunctNormalizer(language), MosesTokenizer(language)
    cased = (text.lower() if lowercase else text for text in texts)
    return [tokeniser.tokenize(normaliser.normalize(text), return_str=True, escape=False) for text in cased]


def bleu_metric(target: str, lowercase: bool = False, by_sentence: bool = False) -> sacrebleu.BLEU:
    """sacreBLEU with the usual tokeniser for the target language: its own for Chinese, else 13a; by character for
    languages without spaces, for which sacreBLEU has no other tokeniser without further packages.

    `by_sentence`: for scoring sentences, where n-grams longer than the sentence do not count.
    """
    language = language_alone(target)
    tokeniser = "zh" if language == "zh" else "char" if language in WITHOUT_SPACES else "13a"
    return sacrebleu.BLEU(tokenize=tokeniser, lowercase=lowercase, effective_order=by_sentence)


@dataclass(frozen=True)
class Development:
    """The development set: its text, its tokens and how to score a translation of it."""

    sources: list[str]
    references: list[str]
    pairs: Pairs
    tokenizers: Tokenizers
    limits: Limits
    direction: Direction

    @classmethod
    def load(cls, data: Path, limits: Limits, reverse: bool = False) -> Development:
        """The development set of a data folder; `reverse` swaps the sides. Raises ValueError if that is not one of this
        version."""
        found, tokenizers, direction = dev_pairs(data, reverse), load_tokenizers(data), load_direction(data, reverse)
        sources, references = [pair.source for pair in found], [pair.target for pair in found]
        encoded = [tokenizers.encode_pair(*pair) for pair in found]
        pairs = Pairs.of([source for source, _ in encoded], [target for _, target in encoded])
        pairs = replace(pairs, source_prefix=direction.source_prefix, target_prefix=direction.target_prefix)
        return cls(sources, references, pairs, tokenizers, limits, direction)

    def translate(self, model: Transformer, count: int | None = None) -> list[str]:
        """Greedy translations of the first `count` sentences, or of all."""
        return translate(model, self.tokenizers, self.limits, self.sources[:count], direction=self.direction).texts

    def bleu(self, translations: Sequence[str]) -> float:
        references = [self.references[: len(translations)]]
        return float(bleu_metric(self.direction.target).corpus_score(translations, references).score)


def limits_for(pairs: Pairs, config: ModelConfig) -> Limits:
    """Limits that all the corpus's sources meet, and all but one in a thousand of its targets; see `Limits`."""
    usual, room = Limits(), config.max_positions - 1
    # Lengths in files are unsigned, and most are below the margin.
    ratios = (pairs.target.lengths.astype(np.int64) - usual.margin) / np.maximum(1, pairs.source.lengths)  # [pairs]
    ratio = max(usual.ratio, round(float(np.quantile(ratios, 0.999)), 1))
    sides = (pairs.source, pairs.source_prefix), (pairs.target, pairs.target_prefix)
    longest = max(int(side.lengths.max(initial=0)) + len(prefix) for side, prefix in sides)
    most = min(max(usual.max_source, longest), room)
    return Limits(most, most, ratio, usual.margin)
