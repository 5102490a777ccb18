"""The sentences that servers translate in benchmarks: short ones, and ones of all lengths."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from model.bundle_files import read_bundle
from model.tokenizer import Tokenizer
from training.corpora.corpus import read_pairs

SHORT_TOKENS = 12
"""Maximum source tokens, end symbol included, of a sentence in the short workload."""
LENGTHS = (8, 16, 32, 64, 128)
"""Upper bounds, in source tokens, of the length classes of the mixed workload, which are equally frequent."""
NEWS_TOKENS = range(20, 65)
"""Source tokens of a sentence of news."""
PARAGRAPH_SENTENCES = 5
SENTENCES = 1_000


@dataclass(frozen=True)
class Workload:
    """Sentences to translate, and the file of requests with them."""

    name: str
    texts: list[str]
    tokens: float
    """Mean source tokens of a sentence, end symbol included."""
    bodies: Path

    @classmethod
    def of(cls, name: str, texts: list[str], tokenizer: Tokenizer, pair: tuple[str, str], folder: Path) -> Workload:
        bodies = folder / f"{name}.jsonl"
        source, target = pair
        bodies.write_text("".join(request(text, source, target) + "\n" for text in texts), encoding="utf-8")
        return cls(name, texts, statistics.mean(len(tokenizer.encode_source(text)) + 1 for text in texts), bodies)


def request(text: str, source: str, target: str) -> str:
    return json.dumps({"text": text, "source": source, "target": target})


def short_sentences(texts: Sequence[str], tokenizer: Tokenizer) -> list[str]:
    return [text for text in texts if len(tokenizer.encode_source(text)) < SHORT_TOKENS][:SENTENCES]


def mixed_sentences(texts: Sequence[str], tokenizer: Tokenizer) -> list[str]:
    """The same number of each length class, as far as `texts` suffice, in their order."""
    share = SENTENCES // len(LENGTHS)
    kept: list[str] = []
    taken = dict.fromkeys(LENGTHS, 0)
    for text in texts:
        size = next((size for size in LENGTHS if len(tokenizer.encode_source(text)) < size), None)
        if size and taken[size] < share:
            taken[size] += 1
            kept.append(text)
    return kept


def news_sentences(texts: Sequence[str], tokenizer: Tokenizer) -> list[str]:
    """Those that are as long as sentences of news."""
    return [text for text in texts if len(tokenizer.encode_source(text)) + 1 in NEWS_TOKENS][:SENTENCES]


def paragraphs(sentences: Sequence[str]) -> list[str]:
    """Sentences joined to paragraphs."""
    starts = range(0, len(sentences) - PARAGRAPH_SENTENCES + 1, PARAGRAPH_SENTENCES)
    return [" ".join(sentences[at : at + PARAGRAPH_SENTENCES]) for at in starts]


def random_sentences(count: int = 4 * SENTENCES, seed: int = 1) -> list[str]:
    """Sentences of 2 to 60 everyday words in random order, mostly short."""
    words = "the a my your old new big dog house man woman train water book day time good two red open here now with in"
    verbs = "is was has sees takes wants likes finds gives opens reads"
    choose = random.Random(seed)
    made = []
    for _ in range(count):
        length = min(60, max(2, round(choose.lognormvariate(2.2, 0.8))))
        sentence = " ".join(choose.choice((verbs if place % 4 == 1 else words).split()) for place in range(length))
        made.append(sentence.capitalize() + ".")
    return made


def workloads(bundle: Path, pairs: Sequence[Path] | None, folder: Path) -> dict[str, Workload]:
    """The workloads `short`, `mixed`, `news` and `paragraphs` from files, or from random sentences; omits one without
    texts."""
    config, files = read_bundle(bundle)
    tokenizer = Tokenizer(files["sentencepiece.model"])
    texts = [pair.source for file in pairs for pair in read_pairs(file)[0]] if pairs else random_sentences()
    random.Random(1).shuffle(texts)
    languages = str(config["source"]), str(config["target"])
    news = news_sentences(texts, tokenizer)
    named = {
        "short": short_sentences(texts, tokenizer),
        "mixed": mixed_sentences(texts, tokenizer),
        "news": news,
        "paragraphs": paragraphs(news),
    }
    return {name: Workload.of(name, kept, tokenizer, languages, folder) for name, kept in named.items() if kept}
