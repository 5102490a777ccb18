"""Measures how sensitive a bundle is to typing: capitals, small letters, no final mark, other quotes, names.

    python -m benchmarks.robustness bundles/en-fr [bundles/fr-en ...] [--json]
    python -m benchmarks.robustness bundles/en-fr --pairs dev.tsv [--reverse] [--count 500]

Sentences of ours are translated unchanged and in every variant. "words": translations whose words are the same, apart
from case and punctuation, or that contain the placeholder, address, number or name once. "as expected": translations
that equal, to the letter, the unchanged sentence's in that variant. `model` is greedy decoding alone, `served` includes
the service's processing before and after. Neither says how good the translations are.

With `--pairs`, a file of sentences and their translations: the BLEU that one stray blank, mark or invisible character
costs, as served (benchmarks/noise.py). "others": translations that differ from those without it. Needs the trainer's
dependencies.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from app.cli.offline_engine import Command, open_session
from app.engine.launch import Launch, WorkerProcess
from benchmarks.noise import measure_noise
from benchmarks.table import Table
from model.bundle_weights import LoadedBundle, load_bundle
from model.languages import language_alone
from training.corpora.corpus import Pair, read_pairs
from training.evaluation.translate import translate
from training.export.samples import own_sentences

SHORT = {
    "en": "Hello! | Thank you! | Good morning! | Where is the station? | Is it raining again? | It's too late. | Wait! "
    "| Who's there? | Don't open the window! | What's her name?",
    "fr": "Bonjour ! | Merci ! | Où est la gare ? | Est-ce qu'il pleut encore ? | Il est trop tard. | Attends ! "
    "| Qui est là ? | N'ouvre pas la fenêtre ! | Comment s'appelle-t-elle ?",
    "de": "Hallo! | Danke! | Guten Morgen! | Wo ist der Bahnhof? | Regnet es schon wieder? | Es ist zu spät. | Warte! "
    "| Wer ist da? | Öffne das Fenster nicht! | Wie heißt sie?",
    "es": "¡Hola! | ¡Gracias! | ¡Buenos días! | ¿Dónde está la estación? | ¿Llueve otra vez? | Es demasiado tarde. "
    "| ¡Espera! | ¿Quién es? | ¡No abras la ventana! | ¿Cómo se llama ella?",
    "zh": "你好！ | 谢谢！ | 早上好！ | 车站在哪里？ | 又下雨了吗？ | 太晚了。 | 等一下！ | 谁在那里？ | 别开窗户！ "
    "| 她叫什么名字？ | 我在看着你。 | 我们的计划是什么？",
}
"""Added to the samples that bundles carry, none of which is a question."""
THINGS = ("{name}", "https://example.org/a?b=1", "4711", "Annika", "Kowalski")
_LAST_MARK = re.compile(r"\s*[.!?。！？]$")
_OPENING = re.compile(r"^[¿¡]")


def unchanged(text: str) -> str:
    return text


def without_final_mark(text: str) -> str:
    return _OPENING.sub("", _LAST_MARK.sub("", text))


def small_initial(text: str) -> str:
    return text[:1].lower() + text[1:]


def small_and_unmarked(text: str) -> str:
    return small_initial(without_final_mark(text))


def curly(text: str) -> str:
    return text.replace("'", "’")


def ending_with(thing: str, text: str) -> str:
    """The text with `thing` as its last word."""
    end = _LAST_MARK.search(text)
    return f"{text} {thing}" if end is None else f"{text[: end.start()]} {thing}{end[0]}"


def traditional(text: str) -> str:
    import opencc

    return str(opencc.OpenCC("s2t").convert(text))


@dataclass(frozen=True)
class Variant:
    """A way to type a sentence, and the expected change of its translation."""

    name: str
    apply: Callable[[str], str]
    expect: Callable[[str], str]
    kept: str = ""
    """A text that the translation must contain once; its other words may then differ."""


VARIANTS = (
    Variant("IN CAPITALS", str.upper, str.upper),
    Variant("small letters", str.lower, unchanged),
    Variant("small initial", small_initial, small_initial),
    Variant("no final mark", without_final_mark, without_final_mark),
    Variant("small initial, no final mark", small_and_unmarked, small_and_unmarked),
    Variant("curly apostrophes", curly, unchanged),
    Variant("traditional characters", traditional, unchanged),
    *(Variant(f"with {thing}", partial(ending_with, thing), partial(ending_with, thing), thing) for thing in THINGS),
)


@dataclass(frozen=True)
class Agreement:
    """The number of sentences that a variant changes, and the shares with the right words and exactly as expected."""

    sentences: int
    words: float
    exact: float


def words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def agreement(plain: Sequence[str], varied: Sequence[str], variant: Variant) -> Agreement:
    """Compares translations of the same sentences: `plain` of the unchanged ones, `varied` of those in `variant`."""
    expected = [variant.expect(text) for text in plain]
    same = sum(
        other.count(variant.kept) == 1 if variant.kept else words(one) == words(other)
        for one, other in zip(expected, varied, strict=True)
    )
    exact = sum(one == other for one, other in zip(expected, varied, strict=True))
    return Agreement(len(plain), same / len(plain), exact / len(plain))


def probes(language: str) -> list[str]:
    """Our test sentences in a language. Raises ValueError if there are none."""
    own = own_sentences(language)
    short = SHORT.get(language_alone(language), "")
    if not own or not short:
        raise ValueError(f"the repository has no sentences in {language}")
    return [*(text.strip() for text in short.split("|")), *own[:40:2]]  # the longer samples come first


def alone(bundle: LoadedBundle, texts: Sequence[str]) -> list[str]:
    return translate(bundle.model, bundle.tokenizers, bundle.limits, texts).texts


def served(bundle: LoadedBundle, texts: Sequence[str], launch: Launch) -> list[str]:
    """Translates each text with a service that has only this bundle; a failed text is empty."""

    async def all_at_once() -> list[str]:
        command = Command(bundle.source, bundle.target, bundles=str(bundle.folder), workers=1)
        async with open_session(command, launch) as session:
            return [done.text or "" for done in await session.translate(texts)]

    return asyncio.run(all_at_once())


def measure(bundle: LoadedBundle, launch: Launch = WorkerProcess) -> Table:
    plain = probes(bundle.source)
    changed = {v.name: [text for text in plain if v.apply(text) != text] for v in VARIANTS}
    varied = [v.apply(text) for v in VARIANTS for text in changed[v.name]]
    found = [alone(bundle, [*plain, *varied]), served(bundle, [*plain, *varied], launch)]
    columns = ["sentences", "model: words %", "model: as expected %", "served: words %", "served: as expected %"]
    table = Table(f"{bundle.source} to {bundle.target}", columns, note=bundle.name)
    at = len(plain)
    for variant in VARIANTS:
        texts = changed[variant.name]
        if texts:
            of = [[dict(zip(plain, all_of, strict=False))[text] for text in texts] for all_of in found]
            both = [
                agreement(one, all_of[at : at + len(texts)], variant) for one, all_of in zip(of, found, strict=True)
            ]
            table.rows[variant.name] = [len(texts), *(100 * share for a in both for share in (a.words, a.exact))]
        at += len(texts)
    return table


def noise(bundle: LoadedBundle, pairs: Sequence[Pair], launch: Launch = WorkerProcess) -> Table:
    table = measure_noise(pairs, bundle.target, lambda texts: served(bundle, texts, launch))
    return dataclasses.replace(table, title=f"{bundle.source} to {bundle.target}", note=f"{bundle.name}, BLEU")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure how sensitive bundles are to typing.")
    parser.add_argument("bundles", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--pairs", type=Path, help="tab-separated sentence pairs, to measure the effect of noise")
    parser.add_argument("--reverse", action="store_true", help="the second column is the source")
    parser.add_argument("--count", type=int, default=500, help="number of pairs, from the start of the file")
    options = parser.parse_args(arguments)
    bundles = [load_bundle(folder, torch.device("cpu")) for folder in options.bundles]
    if options.pairs:
        pairs = read_pairs(options.pairs)[0][: options.count]
        pairs = [Pair(pair.target, pair.source) for pair in pairs] if options.reverse else pairs
        tables = [noise(bundle, pairs) for bundle in bundles]
    else:
        tables = list(map(measure, bundles))
    if options.json:
        print(json.dumps([table.as_json() for table in tables], ensure_ascii=False, indent=2))
        return
    for table in tables:
        print("\n".join(table.lines()))


if __name__ == "__main__":
    main()
