"""Evaluates a bundle: sacreBLEU and chrF on files of sentence pairs, as the service translates them.

With --raw the bare decoder translates each text whole, as training does with its development set: no sentence
splitting, no protected text, no added full stop and no lowered capitals.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from model.backends import prepare
from model.bundle import Bundle
from model.bundle_weights import load_bundle
from model.decoding import as_backend
from model.decoding.batch import Backend
from model.directions import Direction
from model.hypothesis import Limits
from model.machine import keep_freed_memory
from model.tokenizer import Tokenizer, Tokenizers
from model.transformer import Transformer
from training.cleaning.language_check import open_oriented_corpus
from training.cleaning.simplified_chinese import references_in_script
from training.compute import pick_device, use_threads
from training.corpora.corpus import LineTally, Pair, hash64
from training.corpora.sources import is_remote, resolve
from training.corpora.text_file import CorpusError
from training.data.dataset import dev_pairs
from training.evaluation.placeholders import evaluate_placeholders
from training.evaluation.scoring import Score, moses_tokens, scores
from training.evaluation.service_command import translate_served
from training.evaluation.translate import ROWS, Translations, translate
from training.options import DEVICE, Columns, Encoding, Option

Say = Callable[[str], None]
DEVELOPMENT = "development set"


@dataclass(frozen=True)
class TestSet:
    """The sentence pairs of a file, duplicates included, and its unusable lines.

    `swapped`: the file has the languages in the opposite order.
    """

    __test__ = False  # pytest would collect any class named Test*
    name: str
    pairs: list[Pair]
    skipped: LineTally
    swapped: bool = False

    @property
    def digest(self) -> str:
        """A digest of the pairs, in order."""
        return f"{hash64(json.dumps(self.pairs)) & (1 << 64) - 1:016x}"

    @classmethod
    def development(cls, data: Path, reverse: bool = False) -> TestSet:
        """The development set of a data folder; `reverse` swaps the sides."""
        return cls(DEVELOPMENT, dev_pairs(data, reverse), LineTally())

    @classmethod
    def read(
        cls,
        text: str,
        source: str,
        target: str,
        columns: tuple[int, int] | None = None,
        encoding: str | None = None,
        below: Path | None = None,
    ) -> TestSet:
        """Reads a test set. `text` is as for `prepare --pairs`: a TSV, or two plain files, as in a.en,b.fr.

        `columns`, counted from 1, and `encoding` are detected if None. A set in the folder `below` is named by its path
        there, others by their file's name. Raises CorpusError.
        """
        skipped = LineTally()
        corpus = open_oriented_corpus(resolve(text, source, target), source, target, columns, encoding)
        pairs = [pair for _, pair in corpus.pairs(skipped)]
        if not pairs:
            raise CorpusError(corpus.spec.paths[0], "no usable pair")
        parts = list(map(Path, text.split(",") if len(corpus.spec.paths) == 2 else [text]))
        name = corpus.name
        if below is not None and not is_remote(text) and all(part.is_relative_to(below) for part in parts):
            name = ",".join(part.relative_to(below).as_posix() for part in parts)
        return cls(name, pairs, skipped, corpus.swapped)


@dataclass(frozen=True)
class Scoring:
    """How to decode, where a beam of 1 is greedy, and which additional scores to compute; see `scores`."""

    beam: int = 1
    lowercase: bool = False
    moses: bool = False
    length_penalty: float = 1.0
    narrowing: bool = False


@dataclass(frozen=True)
class Result:
    """The result on a test set. `precision` and `device` are those of the model; a `beam` of 1 is greedy decoding."""

    set: str
    scores: list[Score]
    translations: Translations
    precision: str
    device: str
    skipped: int
    beam: int = 1
    served: bool = False
    """Whether the service translated, with all its processing, rather than the bare decoder."""
    simplified: int = 0
    """References in traditional characters that were simplified to match the model."""
    trained_on: int | None = None
    """Sources that the model was trained on, if its training data is available."""
    digest: str = ""
    """Digest of the pairs, which identifies the set."""

    def metrics(self) -> list[dict[str, Any]]:
        """One JSON object per metric, as stored in config.json."""
        return [
            {
                "set": self.set,
                "metric": score.metric,
                "score": round(score.score, 2),
                "signature": score.signature,
                "sentences": len(self.translations.texts),
                "precision": self.precision,
                "device": self.device,
                "beam": self.beam,
                "served": self.served,
                "sources_cut": self.translations.cut,
                "lines_skipped": self.skipped,
                "references_simplified": self.simplified,
                **({} if self.trained_on is None else {"sources_trained_on": self.trained_on}),
                "digest": self.digest,
            }
            for score in self.scores
        ]


def evaluate_set(
    model: Backend | Transformer,
    tokenizers: Tokenizers,
    limits: Limits,
    target: str,
    test: TestSet,
    rows: int | None = None,
    scoring: Scoring = Scoring(),
    direction: Direction | None = None,
) -> Result:
    """Translates the sources of `test` into the language `target` and scores them. `direction`: as for `translate`."""
    backend = as_backend(model)
    sources = [pair.source for pair in test.pairs]
    search = scoring.length_penalty, scoring.narrowing
    translations = translate(backend, tokenizers, limits, sources, rows, scoring.beam, direction, *search)
    how = (backend.precision, backend.device, scoring.beam)
    return _scored(test, translations, tokenizers.target, target, scoring, *how)


def evaluate_served(
    bundle: Bundle,
    tests: Sequence[TestSet],
    precision: str,
    device: str,
    workers: int | None = None,
    scoring: Scoring = Scoring(),
) -> list[Result]:
    """Translates the sources of `tests` through the service, with the bundle in `bundle.folder`, and scores them.

    `precision`, `device` and the number of `workers` are settings for the service. Raises NotServed.
    """
    sources, languages = [pair.source for test in tests for pair in test.pairs], (bundle.source, bundle.target)
    texts = iter(translate_served(bundle.folder, languages, sources, precision, device, workers))
    how = (bundle.target_tokenizer, bundle.target, scoring, precision, device, bundle.decoding.beam_size or 1)
    own = ((test, Translations(list(islice(texts, len(test.pairs))), [], cut=0)) for test in tests)
    return [_scored(test, translations, *how, served=True) for test, translations in own]


def _scored(
    test: TestSet,
    translations: Translations,
    tokenizer: Tokenizer,
    target: str,
    scoring: Scoring,
    precision: str,
    device: str,
    beam: int = 1,
    served: bool = False,
) -> Result:
    """Scores `translations` of `test` into the language `target`; the other arguments say how they were made."""
    given = [pair.target for pair in test.pairs]
    references = references_in_script(given, tokenizer)
    return Result(
        test.name,
        scores(translations.texts, references, target, scoring.lowercase, scoring.moses),
        translations,
        precision,
        device,
        test.skipped.counts.total(),
        beam,
        served,
        simplified=sum(old != new for old, new in zip(given, references, strict=True)),
        digest=test.digest,
    )


def report(result: Result, test: TestSet, limits: Limits, say: Say) -> None:
    """Prints `result` through `say`."""
    decoding = "as served" if result.served else "greedy" if result.beam == 1 else f"beam {result.beam}"
    say(f"{result.set}: {len(test.pairs):,} sentences, {decoding}, on {result.device} in {result.precision}")
    for score in result.scores:
        say(f"  {score.metric} {score.score:.2f}  {score.signature}")
    if test.swapped:
        say("  source and target are swapped in this file; they were read accordingly")
    for line in test.skipped.describe():
        say(f"  {line}")
    if result.simplified:
        say(f"  {result.simplified:,} references in traditional characters were simplified to match the model")
    if result.trained_on:
        say(f"  sentences of it that are in the training data: {result.trained_on:,}; its scores are too high")
    if result.translations.cut:
        say(f"  {result.translations.cut:,} sources over {limits.max_source} tokens: only those were translated")


def _write_lines(path: Path, texts: Sequence[str]) -> None:
    """Writes one translation per line. A line break within one, which byte tokens can spell, becomes a space."""
    path.write_text("".join(" ".join(text.splitlines()) + "\n" for text in texts), encoding="utf-8")


@dataclass(frozen=True)
class EvaluateOptions:
    """What to measure and how; None is the default. Raises ValueError, naming the option."""

    bundle: Path
    """The bundle folder to measure."""
    pairs: Annotated[tuple[str, ...], Option(metavar="FILE")]
    """A test set, one pair per line: sentence, tab, reference translation; may be compressed, as .gz or .xz. Or two
    plain files, such as a.en,b.fr. Repeat for more sets."""
    source: str | None = None
    """The language to translate from, which a bundle of several directions needs."""
    target: str | None = None
    """The language to translate into, likewise."""
    corpora: Annotated[Path | None, Option(metavar="DIR")] = None
    """Name sets in this folder by their paths in it, as `run --corpora` does."""
    columns: Columns = None
    encoding: Encoding = None
    raw: bool = False
    """Measure the bare decoder, without the service's processing before and after it."""
    precision: str | None = None
    """float32, bfloat16, float16, int8, or auto, as the service chooses. (default: auto, with --raw float32)"""
    device: Annotated[str, DEVICE] = "auto"
    threads: int | None = None
    """CPU threads: the service's workers have one each. (default: one per core)"""
    rows: int | None = None
    """With --raw: sentences decoded together, each counted --beam times; affects the speed. (default: {ROWS[cpu]}, on a
    GPU {ROWS[cuda]})"""
    beam: int | None = None
    """With --raw: beam size. (default: the bundle's, or 1, greedy, as the service decodes)"""
    placeholders: bool = False
    """Also report how placeholders are placed: names that both sides of a pair share become {{name}}."""
    lowercase: bool = False
    """Also report BLEU of lower-cased text, for comparison with papers that report it."""
    tokenize: str | None = None
    """moses: also report BLEU on tokens of Moses' tokenizer, for the same purpose; needs sacremoses."""
    out: Path | None = None
    """Also write the translations to this file, one per line, one set after another."""
    as_json: Annotated[bool, Option(names=("--json",))] = False
    """Print JSON instead of text."""

    def __post_init__(self) -> None:
        for option, value in (("--rows", self.rows), ("--beam", self.beam)):
            if value is not None and not self.raw:
                how = "greedily, or as the bundle says, and chooses its own batches"
                raise ValueError(f"{option} needs --raw: the service decodes {how}")
        if (self.source is None) != (self.target is None):
            raise ValueError("--source and --target go together")
        if self.placeholders and self.raw:
            raise ValueError("--placeholders cannot be used with --raw: the service protects them")
        if self.rows is not None and self.rows < 1:
            raise ValueError(f"--rows must be at least 1, not {self.rows}")
        if self.tokenize not in (None, "moses"):
            raise ValueError(f"--tokenize must be moses, not {self.tokenize!r}")
        if self.out is not None and self.out.resolve() in {
            Path(part).resolve() for text in self.pairs for part in (text, *text.split(","))
        }:
            raise ValueError(f"--out {self.out} is one of the test sets, and would be overwritten")


def evaluate_bundle(options: EvaluateOptions, say: Say = print) -> None:
    """Measures a bundle and reports to `say`. Raises BundleError, CorpusError, NotServed, TrainingError, ValueError."""
    keep_freed_memory()
    use_threads(options.threads)
    where, moses = pick_device(options.device), options.tokenize is not None
    if moses:
        moses_tokens([], "en", options.lowercase)  # fails early if it is missing, before hours of decoding
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.open("a").close()  # fails early if it cannot be written, before hours of decoding
    loaded = load_bundle(options.bundle, where)
    if options.source is not None and options.target is not None:
        loaded = loaded.in_direction(options.source, options.target)
    beam = loaded.decoding.beam_size or 1 if options.beam is None else options.beam
    most = options.rows or ROWS[where.type]
    if not 1 <= beam <= most:
        raise ValueError(f"--beam must be from 1 to --rows ({most}), not {beam}")
    scoring = Scoring(beam, options.lowercase, moses, loaded.decoding.length_penalty, loaded.decoding.narrowing)
    backend = prepare(loaded.model, options.precision or ("float32" if options.raw else "auto"))
    how = (loaded.source, loaded.target, options.columns, options.encoding, options.corpora)
    tests = [TestSet.read(text, *how) for text in options.pairs]
    results = []
    if not options.as_json:
        say(f"{options.bundle} is {loaded.name}")
    found: Iterator[Result] = (
        evaluate_set(
            backend,
            loaded.tokenizers,
            loaded.spec.limits,
            loaded.target,
            test,
            options.rows,
            scoring,
            loaded.direction,
        )
        for test in tests
    )
    if not options.raw:
        found = iter(evaluate_served(loaded, tests, backend.precision, backend.device, options.threads, scoring))
    for test, result in zip(tests, found, strict=True):
        results.append(result)
        if not options.as_json:
            report(result, test, loaded.limits, say)
    placed = [
        placement
        for test in tests
        if options.placeholders
        and (
            placement := evaluate_placeholders(
                loaded, test.name, test.pairs, backend.precision, backend.device, options.threads
            )
        )
    ]
    if options.as_json:
        metrics = [metric for result in results for metric in result.metrics()]
        measured: dict[str, Any] = {"model": loaded.name, "metrics": metrics}
        if options.placeholders:
            measured["placeholders"] = [placement.to_dict() for placement in placed]
        say(json.dumps(measured, ensure_ascii=False, indent=2))
    else:
        for line in placed:
            say(str(line))
    if options.out is not None:
        _write_lines(options.out, [text for result in results for text in result.translations.texts])
