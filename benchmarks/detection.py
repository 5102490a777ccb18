"""Compares language detection with other libraries: accuracy by text length, and for texts in languages not served.

    python -m benchmarks.detection --pairs en-fr=FILE --pairs en-de=FILE

Measures the other libraries that are installed: py3langid and eld alone, lingua, fasttext-predict (with --fasttext
MODEL), pycld2, cld3-py. First all languages of the files are served, then every two of them, so that most texts are in
neither.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import json
import multiprocessing
import platform
import random
import re
import resource
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from time import perf_counter
from typing import Annotated, NamedTuple

import typer

from app.text.language_id import Detector
from benchmarks.cores import processor
from benchmarks.table import Table
from training.corpora.corpus import read_pairs

LENGTHS = (10, 20, 40, 80)
"""Bounds of the length classes, in characters."""
CLASSES = ("< 10", "10-19", "20-39", "40-79", "80 +")
PARTS = ("1 word", "2 words")
"""Parts of sentences, in languages with spaces."""
SENTENCE = "sentence"
WITHOUT_SPACES = ("ja", "km", "lo", "my", "th", "zh")
UNSERVED = 0.1
"""The assumed share of texts in a language not served, for the evaluation of confidence."""
OURS = "interlinear"
FASTTEXT = "fasttext lid.176"
BINS = (0.0, 0.2, 0.5, 0.8, 0.95, 0.99)
Answer = tuple[str | None, float]
Detect = Callable[[str], Answer]


class Sample(NamedTuple):
    """A text, its language, and its kind: a sentence, or a number of words of one."""

    text: str
    language: str
    kind: str


def ours(languages: Sequence[str], model: str) -> Detect:
    return Detector(languages).detect


def py3langid(languages: Sequence[str], model: str) -> Detect:
    module = importlib.import_module("py3langid.langid")
    identifier = module.LanguageIdentifier.from_model_file(module.MODEL_FILE, norm_probs=True)
    return among(languages, lambda text: dict(identifier.rank(text)))


def eld(languages: Sequence[str], model: str) -> Detect:
    detector = importlib.import_module("eld").LanguageDetector()
    return among(languages, lambda text: detector.detect(text).scores())


def lingua(languages: Sequence[str], model: str) -> Detect:
    module = importlib.import_module("lingua")
    codes = [getattr(module.IsoCode639_1, language.upper()) for language in languages]
    detector = module.LanguageDetectorBuilder.from_iso_codes_639_1(*codes).build()

    def detect(text: str) -> Answer:
        best = detector.compute_language_confidence_values(text)[0]
        return best.language.iso_code_639_1.name.lower(), best.value

    return detect


def fasttext(languages: Sequence[str], model: str) -> Detect:
    loaded = importlib.import_module("fasttext").load_model(model)

    def scores(text: str) -> dict[str, float]:
        labels, shares = loaded.predict(text.replace("\n", " "), k=176)
        return {label.removeprefix("__label__"): share for label, share in zip(labels, shares, strict=True)}

    return among(languages, scores)


def pycld2(languages: Sequence[str], model: str) -> Detect:
    module = importlib.import_module("pycld2")

    def scores(text: str) -> dict[str, float]:
        found = module.detect(text, isPlainText=True, bestEffort=True)[2]
        return {code.split("-")[0]: percent / 100 for _, code, percent, _ in found}

    return among(languages, scores)


def cld3(languages: Sequence[str], model: str) -> Detect:
    identifier = importlib.import_module("gcld3").NNetLanguageIdentifier(0, 4_000)

    def scores(text: str) -> dict[str, float]:
        found = identifier.FindLanguage(text)
        return {found.language.split("-")[0]: found.probability}

    return among(languages, scores)


def among(languages: Sequence[str], scores: Callable[[str], dict[str, float]]) -> Detect:
    """The best of `languages` with its own score, as what a user of the library would write."""

    def detect(text: str) -> Answer:
        found = scores(text)
        best = max(languages, key=lambda language: found.get(language, 0.0))
        return (best, min(1.0, found[best])) if found.get(best) else (None, 0.0)

    return detect


RIVALS: dict[str, tuple[str, Callable[[Sequence[str], str], Detect]]] = {
    OURS: (OURS, ours),
    "py3langid": ("py3langid", py3langid),
    "eld": ("eld", eld),
    "lingua": ("lingua-language-detector", lingua),
    FASTTEXT: ("fasttext-predict", fasttext),
    "pycld2": ("pycld2", pycld2),
    "cld3": ("cld3-py", cld3),
}
"""Each with the name of its distribution."""


@dataclass
class Result:
    """The results of one detector for all samples, and its cost."""

    start_s: float
    memory_mb: float
    seconds: float
    closed: list[Answer] = field(default_factory=list)
    """Results with all languages served."""
    pairs: dict[str, list[Answer]] = field(default_factory=dict)
    """Results with two languages served, for a part of the samples."""


def samples(files: Sequence[tuple[str, str, Path]], most: int, seed: int = 1) -> list[Sample]:
    """Sentences of files (source, target, path), up to `most` pairs of each, and a word and two words of each sentence.

    Texts that are the same in two languages are left out.
    """
    draw = random.Random(seed)
    languages: dict[tuple[str, str], set[str]] = {}
    for source, target, path in files:
        pairs = list(read_pairs(path)[0])
        for pair in draw.sample(pairs, min(most, len(pairs))):
            for text, language in zip(pair, (source, target), strict=True):
                for kind, part in ((SENTENCE, text), *parts(text, language, draw)):
                    languages.setdefault((part, kind), set()).add(language)
    found = [Sample(text, next(iter(of)), kind) for (text, kind), of in languages.items() if len(of) == 1]
    draw.shuffle(found)
    return found


def parts(text: str, language: str, draw: random.Random) -> Iterator[tuple[str, str]]:
    """A random word of the text, and two random consecutive ones."""
    words = [] if language in WITHOUT_SPACES else re.findall(r"[^\W\d_]+(?:['’-][^\W\d_]+)*", text)
    for number, kind in enumerate(PARTS, start=1):
        if len(words) > number:
            start = draw.randrange(len(words) - number + 1)
            part = " ".join(words[start : start + number])
            if len(part) > number:
                yield kind, part


def measure(name: str, languages: Sequence[str], texts: Sequence[str], few: Sequence[str], model: str) -> Result:
    """Measures one detector; runs in a separate process. `few`: the texts for every pair of languages."""
    make = RIVALS[name][1]
    before, began = memory_mb(), perf_counter()
    detect = make(languages, model)
    detect("The first text takes longer than all others.")
    start_s, began = perf_counter() - began, perf_counter()
    for text in texts[:2_000]:
        detect(text)
    result = Result(start_s, memory_mb() - before, (perf_counter() - began) / len(texts[:2_000]))
    result.closed = [detect(text) for text in texts]
    for pair in combinations(languages, 2):
        detect = make(pair, model)
        result.pairs["-".join(pair)] = [detect(text) for text in few]
    return result


def memory_mb() -> float:
    """Resident memory of this process; where the system does not report it, the maximum so far."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def kind_of(sample: Sample) -> str:
    return CLASSES[sum(len(sample.text) >= bound for bound in LENGTHS)] if sample.kind == SENTENCE else sample.kind


def accuracy(said: Sequence[Sample], results: dict[str, Result]) -> Table:
    columns = [*CLASSES, *PARTS]
    counts = {column: sum(kind_of(sample) == column for sample in said) for column in columns}
    table = Table(
        "Accuracy, %, all languages served",
        [f"{column} ({counts[column]:,})" for column in columns],
        note="by length of the sentence in characters; one or two words of a sentence",
    )
    for name, result in results.items():
        right = {
            column: [
                answer[0] == sample.language
                for sample, answer in zip(said, result.closed, strict=True)
                if kind_of(sample) == column
            ]
            for column in columns
        }
        table.rows[name] = [100 * statistics.mean(right[column]) if right[column] else None for column in columns]
    return table


class Judged(NamedTuple):
    """A result: its confidence, whether it is right, whether the text's language is served, and its weight."""

    confidence: float
    right: bool
    served: bool
    weight: float


def judge(few: Sequence[Sample], result: Result) -> list[Judged]:
    """All results with two languages served, weighted so that `UNSERVED` of the texts are in neither."""
    found = []
    for pair, answers in result.pairs.items():
        for sample, (best, confidence) in zip(few, answers, strict=True):
            found.append(Judged(confidence, best == sample.language, sample.language in pair.split("-"), 1.0))
    without = sum(not judgement.served for judgement in found)
    weight = UNSERVED / (1 - UNSERVED) * (len(found) - without) / max(1, without)
    return [judgement if judgement.served else judgement._replace(weight=weight) for judgement in found]


def mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float | None:
    return statistics.fmean(values, weights) if values else None


def brier(judgement: Judged) -> float:
    """Squared distance between the truth and the result, over the languages and "none of them". From 0 to 2."""
    if judgement.right:
        return (1 - judgement.confidence) ** 2
    return float(judgement.served) + judgement.confidence**2


def honesty(few: Sequence[Sample], results: dict[str, Result]) -> Table:
    table = Table(
        "Confidence, two languages served",
        ["Brier score", "served: mean", "over 0.8, %", "not served: mean", "over 0.8, %"],
        note=f"every two; Brier: 0 is best, with {UNSERVED:.0%} of the texts in neither language",
    )
    for name, result in results.items():
        found = judge(few, result)
        row = [mean([brier(j) for j in found], [j.weight for j in found])]
        for served in (True, False):
            of = [j.confidence for j in found if j.served == served]
            row += [mean(of), mean([100.0 * (confidence > 0.8) for confidence in of])]
        table.rows[name] = list(row)
    return table


def reliability(few: Sequence[Sample], result: Result) -> Table:
    table = Table(
        "Confidence of ours and how often it is right",
        ["of the texts, %", "confidence", "right"],
        note=f"two languages served, {UNSERVED:.0%} of the texts in neither",
    )
    found = judge(few, result)
    whole = sum(j.weight for j in found)
    for low, high in zip(BINS, [*BINS[1:], 1.01], strict=True):
        inside = [j for j in found if low <= j.confidence < high]
        weights = [j.weight for j in inside]
        table.rows[f"{low:.2f} to {min(high, 1):.2f}"] = [
            100 * sum(weights) / whole,
            mean([j.confidence for j in inside], weights),
            mean([float(j.right) for j in inside], weights),
        ]
    return table


def cost(results: dict[str, Result]) -> Table:
    table = Table("Cost", ["a text, us", "start, s", "memory, MB"])
    for name, result in results.items():
        table.rows[name] = [result.seconds * 1e6, result.start_s, result.memory_mb]
    return table


def versions(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        yield f"{name} {importlib.metadata.version(RIVALS[name][0])}"


def installed_detectors(model: str) -> list[str]:
    """The installed detectors; fasttext only with its model."""
    found = []
    for name, (distribution, _) in RIVALS.items():
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            importlib.metadata.version(distribution)
            if model or name != FASTTEXT:
                found.append(name)
    return found


def tables(said: Sequence[Sample], names: Sequence[str], model: str, part: int) -> list[Table]:
    """Measures all detectors. `part`: pairs of languages use every part-th sample."""
    languages = sorted({sample.language for sample in said})
    few = said[::part]
    results = {}
    for name in names:
        texts, few_texts = ([sample.text for sample in some] for some in (said, few))
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            results[name] = pool.submit(measure, name, languages, texts, few_texts, model).result()
    return [accuracy(said, results), honesty(few, results), reliability(few, results[OURS]), cost(results)]


def main(
    pairs: Annotated[list[str], typer.Option(help="LANGUAGE-LANGUAGE=FILE, sentence pairs; may be repeated")],
    most: Annotated[int, typer.Option(help="Maximum sentence pairs of a file")] = 5_000,
    part: Annotated[int, typer.Option(help="Serve two languages only for every part-th text")] = 10,
    fasttext: Annotated[str, typer.Option(help="lid.176.ftz, the model for fasttext-predict")] = "",
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """Print the accuracy and cost of language detectors."""
    files = []
    for spec in pairs:
        languages, _, path = spec.partition("=")
        source, _, target = languages.partition("-")
        files.append((source, target, Path(path)))
    said = samples(files, most)
    names = installed_detectors(fasttext)
    made = tables(said, names, fasttext, part)
    if as_json:
        print(json.dumps([table.as_json() for table in made]))
        return
    print(f"{processor()}; Python {platform.python_version()}; {', '.join(versions(names))}")
    for table in made:
        print("", *table.lines(), sep="\n")


if __name__ == "__main__":
    typer.run(main)
