"""What a bundle's translations lose if texts are typed or pasted carelessly: one stray blank, mark or letter.

The caller supplies the translator. The noise is random, and the same in each run.
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
    typed: Callable[[str, Random], str]
    """A text with noise in it; as it was where there is no room for any."""
    asked: Callable[[str], str] = lambda text: text
    """What the noise makes of a translation, for it is to be there too."""


def somewhere(place: re.Pattern[str], put: str, text: str, random: Random) -> str:
    """`text` with `put` instead of one of the places."""
    places = [found.span() for found in place.finditer(text)]
    if not places:
        return text
    start, end = random.choice(places)
    return text[:start] + put + text[end:]


def mark_doubled(text: str) -> str:
    return _LAST_MARK.sub(lambda found: 2 * found[0], text)


NOISES = (
    Noise("a space doubled", partial(somewhere, _SPACE, "  ")),
    Noise("three for a space", partial(somewhere, _SPACE, "   ")),
    Noise("a tab for a space", partial(somewhere, _SPACE, "\t")),
    Noise("a no-break space", partial(somewhere, _SPACE, "\u00a0")),
    Noise("a thin space", partial(somewhere, _SPACE, "\u2009")),
    Noise("a space in Chinese", partial(somewhere, _BETWEEN_IDEOGRAPHS, " ")),
    Noise("a zero-width space", partial(somewhere, _BETWEEN, "\u200b")),
    Noise("a soft hyphen", partial(somewhere, _WITHIN_WORD, "\u00ad")),
    Noise("curly apostrophes", lambda text, random: text.replace("'", "’")),
    Noise("the mark doubled", lambda text, random: mark_doubled(text), mark_doubled),
    Noise("blanks around", lambda text, random: f" \u00a0{text}  "),
)


def measure_noise(pairs: Sequence[Pair], target: str, translate: Translate, seed: int = 0) -> Table:
    """Of each kind: the sentences it changes, how many of their translations change by it, and BLEU of all.

    `pairs` are translated as they are and with noise; which blanks a translation has is not compared.
    """
    plain = [pair.source for pair in pairs]
    typed = {}
    for noise in NOISES:
        random = Random(f"{noise.name} {seed}")
        typed[noise.name] = [noise.typed(text, random) for text in plain]
    found = [
        " ".join(text.split()) for text in translate([*plain, *(text for texts in typed.values() for text in texts)])
    ]
    table = Table(target, ["changed", "others %", "BLEU", "with noise", "lost"])
    metric, clean = bleu_metric(target), found[: len(plain)]
    for number, noise in enumerate(NOISES, 1):
        noisy = found[number * len(plain) : (number + 1) * len(plain)]
        changed = [one != other for one, other in zip(plain, typed[noise.name], strict=True)]
        if not any(changed):
            continue
        asked = [
            [noise.asked(text) if has_noise else text for text, has_noise in zip(texts, changed, strict=True)]
            for texts in (clean, [pair.target for pair in pairs])
        ]
        others = sum(one != other for one, other in zip(asked[0], noisy, strict=True))
        scores = [metric.corpus_score(texts, [asked[1]]).score for texts in (asked[0], noisy)]
        table.rows[noise.name] = [sum(changed), 100 * others / sum(changed), *scores, scores[0] - scores[1]]
    return table
