"""How well a bundle places what the service protects: names of a test set become placeholders, and are looked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from model.bundle import Bundle
from model.languages import WITHOUT_SPACES, language_alone
from training.corpora.corpus import Pair
from training.evaluation.scoring import BLEU, scores
from training.evaluation.service_command import translate_served

PLACEHOLDER = "{name}"
MAX_SENTENCES = 250
_WORD = re.compile(r"[^\W\d_]+")
_MIN_LETTERS = 3


@dataclass(frozen=True)
class PlaceholderResult:
    """The result on the sentences of a test set in which both sides share a name."""

    set: str
    sentences: int
    kept: int
    """Translations with the placeholder exactly once."""
    moved_to_end: int
    """Translations with no word after the placeholder where the reference has some: the model did not place it."""
    bleu: float
    """BLEU of these translations with the name put back."""
    bleu_of_names: float
    """BLEU of the translations of the sentences with their names."""

    def to_dict(self) -> dict[str, Any]:
        """For config.json."""
        return {**asdict(self), "bleu": round(self.bleu, 2), "bleu_of_names": round(self.bleu_of_names, 2)}

    def __str__(self) -> str:
        return (
            f"placeholders in {self.sentences:,} sentences of {self.set}: {self.kept:,} kept, {self.moved_to_end:,} "
            f"moved to the end; BLEU {self.bleu:.1f}, with the names themselves {self.bleu_of_names:.1f}"
        )


@dataclass(frozen=True)
class NamedPair:
    """A sentence pair whose sides share `name`, each once, and not as the source's first word."""

    pair: Pair
    name: str

    @property
    def with_placeholder(self) -> Pair:
        return Pair(*(side.replace(self.name, PLACEHOLDER) for side in self.pair))


def named_pairs(pairs: Sequence[Pair], target: str, most: int = MAX_SENTENCES) -> list[NamedPair]:
    """The first `most` of `pairs` whose sides share a capitalised word of three letters or more."""
    is_spaced = language_alone(target) not in WITHOUT_SPACES
    found = (NamedPair(pair, name) for pair in pairs if (name := _shared_name(pair, is_spaced)))
    return [named for named, _ in zip(found, range(most), strict=False)]


def _shared_name(pair: Pair, is_spaced: bool) -> str | None:
    words: list[str] = _WORD.findall(pair.source)
    of_target = set(_WORD.findall(pair.target))
    for word in words[1:]:
        is_name = word[0].isupper() and len(word) >= _MIN_LETTERS
        # One that is a part of another word as well could not be put back.
        if is_name and (not is_spaced or word in of_target) and pair.source.count(word) == 1 == pair.target.count(word):
            return word
    return None


def evaluate_placeholders(
    bundle: Bundle, set_name: str, pairs: Sequence[Pair], precision: str, device: str, workers: int | None = None
) -> PlaceholderResult | None:
    """Translates sentences of a test set through the service, with a name and with a placeholder in its place.

    None if no sentence has a name that both sides share. Raises NotServed.
    """
    named = named_pairs(pairs, bundle.target)
    if not named:
        return None
    sources = [*(each.with_placeholder.source for each in named), *(each.pair.source for each in named)]
    texts = translate_served(bundle.folder, (bundle.source, bundle.target), sources, precision, device, workers)
    return placeholder_result(set_name, bundle.target, named, texts[: len(named)], texts[len(named) :])


def placeholder_result(
    name: str, target: str, named: Sequence[NamedPair], held: Sequence[str], plain: Sequence[str]
) -> PlaceholderResult:
    """The result for the translations `held`, with placeholders, and `plain`, with names."""
    references = [each.pair.target for each in named]
    restored = [text.replace(PLACEHOLDER, each.name) for text, each in zip(held, named, strict=True)]
    of_held, of_plain = (
        next(score.score for score in scores(texts, references, target) if score.metric == BLEU)
        for texts in (restored, plain)
    )
    ends = [
        (_ends_in_placeholder(text), _ends_in_placeholder(each.with_placeholder.target))
        for text, each in zip(held, named, strict=True)
    ]
    return PlaceholderResult(
        name,
        len(named),
        kept=sum(text.count(PLACEHOLDER) == 1 for text in held),
        moved_to_end=sum(ours and not theirs for ours, theirs in ends),
        bleu=of_held,
        bleu_of_names=of_plain,
    )


def _ends_in_placeholder(text: str) -> bool:
    _, found, rest = text.rpartition(PLACEHOLDER)
    return bool(found) and not _WORD.search(rest)
