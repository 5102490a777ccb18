"""Measures what translations lose if texts are typed or pasted carelessly: with one stray blank, mark or letter.

The caller supplies the translator. The noise is random, with the same seed in each run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from benchmarks.table import Table
from training.corpora.corpus import Pair
from training.evaluation.scoring import bleu_metric

Translate = Callable[[Sequence[str]], Sequence[str]]

_WITHIN_WORD = re.compile(r"(?<=[^\W\d_])(?=[^\W\d_])")
_BETWEEN_IDEOGRAPHS = re.compile(r"(?<=[\u4e00-\u9fff])(?=[\u4e00-\u9fff])")
_BETWEEN = re.compile(r"(?<=\S)(?=\S)")
_SPACE = re.compile(r"(?<=\S) (?=\S)")
_LAST_MARK = re.compile(r"[.!?。！？](?=[\"'»”’)]*$)")


@dataclass(frozen=True)
class Noise:
    name: str
    add: Callable[[str, Random], str]
    """Adds the noise to a source, if it has a place for it."""
    add_to_translation: Callable[[str], str] = lambda text: text
    """Adds the noise to a translation, if the service should carry it over."""


def replace_at_random(place: re.Pattern[str], put: str, text: str, random: Random) -> str:
    """`text` with `put` in place of a random match of `place`."""
    places = [found.span() for found in place.finditer(text)]
    if not places:
        return text
    start, end = random.choice(places)
    return text[:start] + put + text[end:]


def mark_doubled(text: str) -> str:
    return _LAST_MARK.sub(lambda found: 2 * found[0], text)


NOISES = (
    Noise("a space doubled", partial(replace_at_random, _SPACE, "  ")),
    Noise("three for a space", partial(replace_at_random, _SPACE, "   ")),
    Noise("a tab for a space", partial(replace_at_random, _SPACE, "\t")),
    Noise("a no-break space", partial(replace_at_random, _SPACE, "\u00a0")),
    Noise("a thin space", partial(replace_at_random, _SPACE, "\u2009")),
    Noise("a space in Chinese", partial(replace_at_random, _BETWEEN_IDEOGRAPHS, " ")),
    Noise("a zero-width space", partial(replace_at_random, _BETWEEN, "\u200b")),
    Noise("a soft hyphen", partial(replace_at_random, _WITHIN_WORD, "\u00ad")),
    Noise("curly apostrophes", lambda text, random: text.replace("'", "’")),
    Noise("the mark doubled", lambda text, random: mark_doubled(text), mark_doubled),
    Noise("blanks around", lambda text, random: f" \u00a0{text}  "),
)


def measure_noise(pairs: Sequence[Pair], target: str, translate: Translate, seed: int = 0) -> Table:
    """For each kind of noise: the sentences with it, the share of their translations that change, and BLEU of all.

    `pairs` are translated unchanged and with noise. White space in translations is not compared.
    """
    plain = [pair.source for pair in pairs]
    noisy_sources = {}
    for noise in NOISES:
        random = Random(f"{noise.name} {seed}")
        noisy_sources[noise.name] = [noise.add(text, random) for text in plain]
    sources = [*plain, *(text for texts in noisy_sources.values() for text in texts)]
    found = [" ".join(text.split()) for text in translate(sources)]
    table = Table(target, ["changed", "others %", "BLEU", "with noise", "lost"])
    metric, clean = bleu_metric(target), found[: len(plain)]
    for number, noise in enumerate(NOISES, 1):
        noisy = found[number * len(plain) : (number + 1) * len(plain)]
        changed = [one != other for one, other in zip(plain, noisy_sources[noise.name], strict=True)]
        if not any(changed):
            continue
        expected, references = [
            [
                noise.add_to_translation(text) if has_noise else text
                for text, has_noise in zip(texts, changed, strict=True)
            ]
            for texts in (clean, [pair.target for pair in pairs])
        ]
        others = sum(one != other for one, other in zip(expected, noisy, strict=True))
        scores = [metric.corpus_score(texts, [references]).score for texts in (expected, noisy)]
        table.rows[noise.name] = [sum(changed), 100 * others / sum(changed), *scores, scores[0] - scores[1]]
    return table
