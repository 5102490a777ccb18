"""Converts files of sentence pairs to a data folder of token ids, which `train` reads.

Usable lines are defined in `training.corpora.corpus`, what is written in `training.data.tokenise`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from model.atomic_files import check_replaceable, replacing_folder
from model.bundle import moses_language
from model.tokenizer import Tokenizer, Tokenizers
from training.cleaning.report import TEXT_FILE as REPORT
from training.cleaning.report import CorpusReport, write_report
from training.cleaning.simplified_chinese import simplification_rules
from training.corpora.corpus import Corpus, LineTally, Pair, write_pairs
from training.data.dataset import PreparedSummary, digests, write_record, write_vocabularies
from training.data.ingest import (
    apply_limit,
    hold_out_dev,
    open_dev_corpus,
    open_training_corpus,
    read_corpora,
    read_dev_corpus,
    reweight_mixed,
    spec_of,
)
from training.data.options import PrepareOptions, require
from training.data.pair_store import PairStore
from training.data.token_shards import is_intact
from training.data.tokenise import UNKNOWN, write_tokens
from training.data.vocabulary import train_vocabulary
from training.file_lock import lock_output

TEXT_FILE = "text.tsv"
"""All text that was read; exists only while the folder is being made."""
# More sentences than this hardly change a vocabulary of a few thousand pieces, and cost memory and minutes.
_MAX_VOCABULARY_SENTENCES = 400_000

Say = Callable[[str], None]


def prepare_corpora(options: PrepareOptions, say: Say = print) -> PreparedSummary:
    """Reads, cleans, splits and encodes the corpora of `options` into the data folder `options.out`.

    Passes the report to `say`, line by line. `out` appears only when it is complete. Raises CorpusError for an unusable
    file, NotReplaceable if `out` must not be replaced, BusyError if it is being made, ValueError for invalid options.
    """
    with lock_output(options.out):
        return _prepare_corpora(options, say)


def _prepare_corpora(options: PrepareOptions, say: Say) -> PreparedSummary:
    check_replaceable(options.out, options.replace, "data folder", "prepared.json", input_files(options))
    corpora = [open_training_corpus(options, text) for text in (*options.pairs, *options.mixed)]
    dev_corpora = [open_dev_corpus(options, options.dev)] if options.dev else []
    for corpus in [*corpora, *dev_corpora]:
        say(corpus.describe())

    digests_before = _digests(options)
    skipped = [LineTally() for _ in [*corpora, *dev_corpora]]
    with replacing_folder(options.out) as folder:
        summary = _prepare(options, folder, corpora, dev_corpora, skipped, say)
        for name, digest in digests_before.items():
            require(summary.sha256.get(name) == digest, f"{name} changed while it was being read: try again")
        write_record(folder, summary)
    for line in summary.describe(options.out):
        say(line)
    return summary


def _prepare(
    options: PrepareOptions,
    folder: Path,
    corpora: Sequence[Corpus],
    dev_corpora: Sequence[Corpus],
    skipped: Sequence[LineTally],
    say: Say,
) -> PreparedSummary:
    """Writes everything but the record to `folder`, which meanwhile also contains the text read."""
    repaired = [LineTally() for _ in skipped]
    store, keys = read_corpora(options, folder / TEXT_FILE, corpora, skipped, repaired)
    tallied_dev = zip(dev_corpora, skipped[len(corpora) :], repaired[len(corpora) :], strict=True)
    numbered = [pair for corpus in tallied_dev for pair in read_dev_corpus(options, *corpus)]
    store, dev = hold_out_dev(options, store, keys, [pair for _, pair in numbered], skipped)
    store = apply_limit(options, store, skipped)
    corpora = reweight_mixed(options, store, corpora)
    tokenizers = _make_tokenizers(options, store, corpora, say)
    dev = _usable_dev(options, dev, tokenizers, [line for line, _ in numbered], skipped[-1], say)
    weights = [corpus.spec.weight for corpus in corpora]
    written = write_tokens(options, store, tokenizers, weights, folder, skipped, dev)
    store = written.store
    kept_of = [store.count(number) for number in range(len(corpora))] + [len(dev)] * len(dev_corpora)
    reports = list(map(CorpusReport, [*corpora, *dev_corpora], kept_of, skipped, repaired))
    _report(options, folder, reports, say)
    (folder / TEXT_FILE).unlink()
    write_vocabularies(folder, tokenizers)
    write_pairs(folder / "dev.tsv", dev)
    records = [_record(number, corpus, store, skipped[number]) for number, corpus in enumerate(corpora)]
    if options.rehearsal:
        records[-1]["rehearsed"] = True
    return PreparedSummary(
        source=options.source,
        target=options.target,
        vocab_size=max(tokenizer.vocab_size for tokenizer in tokenizers),
        pairs=len(store.pairs) + written.reserved_copies + written.augmented_copies,
        dev_pairs=len(dev),
        seed=options.seed,
        corpora=records,
        reserved_copies=written.reserved_copies,
        augmented_copies=written.augmented_copies,
        sha256=_digests(options),
        options=options.content_options(),
        files=written.files,
        sources_with_end_marks=round(written.sources_with_end_marks, 3),
    )


def _report(options: PrepareOptions, folder: Path, reports: Sequence[CorpusReport], say: Say) -> None:
    write_report(folder, reports)
    for report in reports:
        for line in report.summary_lines():
            say(line)
    if any(report.dropped.counts or report.repaired.counts for report in reports):
        say(f"more examples of each are in {options.out / REPORT}")


def already_prepared(options: PrepareOptions) -> PreparedSummary | None:
    """The record of `options.out`, if `prepare_corpora` would make the same data of the same files again.

    None if it would not, or if the data is damaged or in an older format.
    """
    try:
        summary = PreparedSummary.load(options.out)
    except ValueError:
        return None
    same = options.matches(summary.options) and summary.sha256 == _digests(options)
    return summary if same and is_intact(options.out, summary.files) else None


def damage_message(folder: Path) -> str | None:
    """Why the data in `folder` cannot be used, whatever it was made of; None if it can."""
    try:
        summary = PreparedSummary.load(folder)
    except ValueError as error:
        return str(error)
    return None if is_intact(folder, summary.files) else f"files in {folder} are missing or damaged"


def vocabulary_size(pairs: int, characters: int) -> int:
    """The default size: 1,000 pieces below 5,000 pairs, 2,000 below 20,000, then 8,000.

    Text with more than 500 distinct characters, such as Chinese, gets additional pieces for them. On Multi30k, 29,000
    pairs, 10,000 pieces were better than 4,000 (docs/recipes-multi30k.md).
    """
    size = 1000 if pairs < 5_000 else 2000 if pairs < 20_000 else 8000
    return size + max(0, characters - 500)


def _make_tokenizers(options: PrepareOptions, store: PairStore, corpora: Sequence[Corpus], say: Say) -> Tokenizers:
    if options.vocabulary is not None:
        target = Path(options.target_vocabulary).read_bytes() if options.target_vocabulary else None
        moses = moses_language(options.punctuation, [options.source])
        return Tokenizers.of(Path(options.vocabulary).read_bytes(), target, moses)
    sentences = list(vocabulary_sentences(store, [corpus.spec.weight for corpus in corpora], options.seed))
    size = options.vocab_size or vocabulary_size(len(store.pairs), len(set().union(*sentences)))
    say(f"learning a vocabulary of up to {size:,} pieces from {len(sentences):,} sentences")
    rules = simplification_rules() if options.normalises_characters() else None
    proto = train_vocabulary(sentences, size, (options.source, options.target), rules=rules)
    return Tokenizers.joint(Tokenizer(proto))


def vocabulary_sentences(store: PairStore, weights: Sequence[float], seed: int) -> Iterator[str]:
    """Both sides of a sample of the pairs, in the proportions in which training draws them."""
    random = Random(seed)
    drawn = [store.count(number) * weight for number, weight in enumerate(weights)]
    highest = max(weight for weight, pairs in zip(weights, drawn, strict=True) if pairs)
    scale = min(1 / highest, _MAX_VOCABULARY_SENTENCES / (2 * sum(drawn)))
    for row, corpus in enumerate(store.corpora):
        if random.random() < scale * weights[corpus]:
            yield from store.pairs[row]


def _usable_dev(
    options: PrepareOptions, dev: list[Pair], tokenizers: Tokenizers, lines: Sequence[int], skipped: LineTally, say: Say
) -> list[Pair]:
    """The pairs of `dev` that fit the token limit, without unknown characters in the target. Counts the others in
    `skipped` if they come from a file, so that their `lines` are known."""
    faults = []
    for pair in dev:
        source, target = tokenizers.encode_pair(*pair)
        long = max(len(source), len(target)) > options.max_tokens
        unknown = tokenizers.target.unknown_id in target
        faults.append(f"longer than {options.max_tokens} tokens" if long else UNKNOWN if unknown else "")
    reasons = Counter(filter(None, faults))
    require("" in faults, f"no development pair is usable: {', '.join(reasons)}")
    for line, pair, fault in zip(lines, dev, faults, strict=False):
        if fault:
            skipped.add(fault, line, pair)
    for fault, count in reasons.items() if not lines else ():
        say(f"{count:,} development pairs left out: {fault}")
    return [pair for pair, fault in zip(dev, faults, strict=True) if not fault]


def _record(number: int, corpus: Corpus, store: PairStore, skipped: LineTally) -> dict[str, Any]:
    kept = store.count(number)
    lines = {"read": kept + skipped.counts.total(), "kept": kept, "skipped": dict(skipped.counts)}
    return {"name": corpus.name, "weight": corpus.spec.weight, **lines}


def input_files(options: PrepareOptions) -> Iterator[Path]:
    """All files to read, downloaded if necessary. Raises CorpusError."""
    for text in (*options.pairs, *options.mixed, *([options.dev] if options.dev else [])):
        yield from spec_of(options, text).paths
    if options.vocabulary:
        yield Path(options.vocabulary)
    if options.target_vocabulary:
        yield Path(options.target_vocabulary)


def _digests(options: PrepareOptions) -> dict[str, str]:
    return digests(input_files(options))
