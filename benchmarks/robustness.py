"""How sensitive a bundle is to the way a sentence is typed: capitals, small letters, no last mark, other quotes, names.

    python -m benchmarks.robustness bundles/en-fr [bundles/fr-en ...] [--json]
    python -m benchmarks.robustness bundles/en-fr --pairs dev.tsv [--reverse] [--count 500]

Each of some sentences of ours is translated unchanged and in every variant. "words": the translations' words are the
same, apart from case and punctuation, or the placeholder, address, number or name is in it once. "as asked": the
variant's translation is, to the letter, the plain one's in that variant. `model` is greedy decoding alone, `served`
includes what the service does to such texts before and after. Neither says how good the translations are.

With `--pairs`, a file of sentences and their translations: what one stray blank, mark or invisible character costs in
BLEU, as served (benchmarks/noise.py). "others": translations that differ in any letter from those without it. Needs the
trainer's dependencies.
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
from training.evaluation.scoring import translate
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
"""Beside the samples that bundles carry, which are none of them a question."""
THINGS = ("{name}", "https://example.org/a?b=1", "4711", "Annika", "Kowalski")
_LAST_MARK = re.compile(r"\s*[.!?。！？]$")
_OPENING = re.compile(r"^[¿¡]")


def as_it_is(text: str) -> str:
    return text


def unmarked(text: str) -> str:
    return _OPENING.sub("", _LAST_MARK.sub("", text))


def begun_small(text: str) -> str:
    return text[:1].lower() + text[1:]


def curly(text: str) -> str:
    return text.replace("'", "’")


def holding(thing: str, text: str) -> str:
    """With `thing` as its last word."""
    end = _LAST_MARK.search(text)
    return f"{text} {thing}" if end is None else f"{text[: end.start()]} {thing}{end[0]}"


def traditional(text: str) -> str:
    import opencc

    return str(opencc.OpenCC("s2t").convert(text))


@dataclass(frozen=True)
class Variant:
    """A way to type a sentence, and what it makes of the plain one's translation."""

    name: str
    typed: Callable[[str], str]
    asked: Callable[[str], str]
    kept: str = ""
    """What is to be carried across; the words of the rest may then be others."""


VARIANTS = (
    Variant("IN CAPITALS", str.upper, str.upper),
    Variant("in small letters", str.lower, as_it_is),
    Variant("begun small", begun_small, begun_small),
    Variant("no last mark", unmarked, unmarked),
    Variant("begun small, no last mark", lambda text: begun_small(unmarked(text)), lambda t: begun_small(unmarked(t))),
    Variant("curly apostrophes", curly, as_it_is),
    Variant("traditional characters", traditional, as_it_is),
    *(Variant(f"with {thing}", partial(holding, thing), partial(holding, thing), thing) for thing in THINGS),
)


@dataclass(frozen=True)
class Agreement:
    """Of `sentences` that a variant changes, the share whose words stay (or what is to be kept), and as asked."""

    sentences: int
    words: float
    asked: float


def words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def agreement(plain: Sequence[str], varied: Sequence[str], variant: Variant) -> Agreement:
    """`plain` and `varied`: the translations of the same sentences, as they are and as typed in `variant`."""
    asked = [variant.asked(text) for text in plain]
    same = sum(
        other.count(variant.kept) == 1 if variant.kept else words(one) == words(other)
        for one, other in zip(asked, varied, strict=True)
    )
    exact = sum(one == other for one, other in zip(asked, varied, strict=True))
    return Agreement(len(plain), same / len(plain), exact / len(plain))


def probes(language: str) -> list[str]:
    """Sentences of ours in that language. Raises ValueError if there are none."""
    own = own_sentences(language)
    short = SHORT.get(language_alone(language), "")
    if not own or not short:
        raise ValueError(f"there are no sentences of ours in {language}")
    return [*(text.strip() for text in short.split("|")), *own[:40:2]]  # the samples' longer ones stand first


def alone(bundle: LoadedBundle, texts: Sequence[str]) -> list[str]:
    return translate(bundle.model, bundle.tokenizer, bundle.limits, texts).texts


def served(bundle: LoadedBundle, texts: Sequence[str], launch: Launch) -> list[str]:
    """What the service, with this bundle alone, makes of each text; what fails is empty."""

    async def all_at_once() -> list[str]:
        command = Command(bundle.source, bundle.target, bundles=str(bundle.folder), workers=1)
        async with open_session(command, launch) as session:
            return [done.text or "" for done in await session.translate(texts)]

    return asyncio.run(all_at_once())


def measure(bundle: LoadedBundle, launch: Launch = WorkerProcess) -> Table:
    plain = probes(bundle.source)
    changed = {v.name: [text for text in plain if v.typed(text) != text] for v in VARIANTS}
    typed = [v.typed(text) for v in VARIANTS for text in changed[v.name]]
    found = [alone(bundle, [*plain, *typed]), served(bundle, [*plain, *typed], launch)]
    columns = ["sentences", "model: words %", "model: as asked %", "served: words %", "served: as asked %"]
    table = Table(f"{bundle.source} to {bundle.target}", columns, note=bundle.name)
    at = len(plain)
    for variant in VARIANTS:
        texts = changed[variant.name]
        if texts:
            of = [[dict(zip(plain, all_of, strict=False))[text] for text in texts] for all_of in found]
            both = [
                agreement(one, all_of[at : at + len(texts)], variant) for one, all_of in zip(of, found, strict=True)
            ]
            table.rows[variant.name] = [len(texts), *(100 * share for a in both for share in (a.words, a.asked))]
        at += len(texts)
    return table


def noise(bundle: LoadedBundle, pairs: Sequence[Pair], launch: Launch = WorkerProcess) -> Table:
    table = measure_noise(pairs, bundle.target, lambda texts: served(bundle, texts, launch))
    return dataclasses.replace(table, title=f"{bundle.source} to {bundle.target}", note=f"{bundle.name}, BLEU")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="How much bundles mind how a sentence is typed.")
    parser.add_argument("bundles", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--pairs", type=Path, help="sentences and translations to measure noise by, tab-separated")
    parser.add_argument("--reverse", action="store_true", help="the second column is the source")
    parser.add_argument("--count", type=int, default=500, help="how many of the pairs, from the first on")
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
