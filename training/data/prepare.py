"""The verb `prepare`: files of sentence pairs in, a data folder of token ids out, which `train` reads.

    python -m training prepare --pairs my.tsv --source en --target fr --out data/mine

Knows nothing of models. What makes a line usable is `training.corpora.corpus`'s, what is written of it
`training.data.tokenise`'s.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer

from model.atomic_files import check_replaceable, written_whole
from model.tokenizer import Tokenizer
from training.cleaning.report import TEXT as REPORT
from training.cleaning.report import CorpusReport, write_report
from training.cleaning.rules import RULES
from training.cleaning.simplified_chinese import simplification_rules
from training.corpora.corpus import Corpus, Pair, Skipped, write_pairs
from training.data.dataset import PreparedSummary, digests, write_record
from training.data.ingest import (
    limited,
    looked_at,
    looked_at_for_measuring,
    read_all,
    read_corpora,
    set_apart,
    spec_of,
    weighed,
)
from training.data.options import (
    AUGMENT_SHARE,
    MAX_RATIO,
    MAX_TOKENS,
    RESERVED_SHARE,
    SCRIPTS,
    PrepareOptions,
    require,
)
from training.data.pair_store import Pool
from training.data.token_shards import undamaged
from training.data.tokenise import write_tokens
from training.data.vocabulary import train_vocabulary
from training.file_lock import alone_making

TEXT = "text.tsv"
"""In the folder as long as it is being made: all that was read."""
# More sentences than this hardly change a vocabulary of some thousand pieces, and take memory and minutes.
_VOCABULARY_SENTENCES = 400_000

Say = Callable[[str], None]


def prepare_corpora(options: PrepareOptions, say: Say = print) -> PreparedSummary:
    """Read, check, split and encode the corpora of `options` into the data folder `options.out`.

    `say` gets the report, line by line. Nothing is at `out` before all is done. Raises CorpusError for a file that
    cannot be used, NotReplaceable for an `out` that must not be replaced, BusyError for one that is being made,
    ValueError for other options.
    """
    with alone_making(options.out):
        return _prepare_corpora(options, say)


def _prepare_corpora(options: PrepareOptions, say: Say) -> PreparedSummary:
    check_replaceable(options.out, options.replace, "data folder", "prepared.json", input_files(options))
    corpora = [looked_at(options, text) for text in (*options.pairs, *options.mixed)]
    given = [looked_at_for_measuring(options, options.dev)] if options.dev else []
    for corpus in [*corpora, *given]:
        say(corpus.describe())

    begun = _digests(options)
    skipped = [Skipped() for _ in [*corpora, *given]]
    with written_whole(options.out) as folder:
        summary = _prepare(options, folder, corpora, given, skipped, say)
        for name, digest in begun.items():
            require(summary.sha256.get(name) == digest, f"{name} has changed while it was read: try again")
        write_record(folder, summary)
    for line in summary.describe(options.out):
        say(line)
    return summary


def _prepare(
    options: PrepareOptions,
    folder: Path,
    corpora: Sequence[Corpus],
    given: Sequence[Corpus],
    skipped: Sequence[Skipped],
    say: Say,
) -> PreparedSummary:
    """Writes all but the record into `folder`; the text read lies there meanwhile."""
    mended = [Skipped() for _ in skipped]
    pool, keys = read_corpora(options, folder / TEXT, corpora, skipped, mended)
    of_given = zip(given, skipped[len(corpora) :], mended[len(corpora) :], strict=True)
    numbered = [pair for corpus in of_given for pair in read_all(options, *corpus)]
    pool, dev = set_apart(options, pool, keys, [pair for _, pair in numbered], skipped)
    pool = limited(options, pool, skipped)
    corpora = weighed(options, pool, corpora)
    tokenizer = _vocabulary(options, pool, corpora, say)
    dev = _short_enough(options, dev, tokenizer, [line for line, _ in numbered], skipped[-1], say)
    weights = [corpus.spec.weight for corpus in corpora]
    written = write_tokens(options, pool, tokenizer, weights, folder, skipped, dev)
    pool = written.pool
    kept_of = [pool.count(number) for number in range(len(corpora))] + [len(dev)] * len(given)
    reports = list(map(CorpusReport, [*corpora, *given], kept_of, skipped, mended))
    _tell(options, folder, reports, say)
    (folder / TEXT).unlink()
    (folder / "sentencepiece.model").write_bytes(tokenizer.proto)
    write_pairs(folder / "dev.tsv", dev)
    return PreparedSummary(
        source=options.source,
        target=options.target,
        vocab_size=tokenizer.vocab_size,
        pairs=len(pool.pairs) + written.reserved_copies + written.augmented_copies,
        dev_pairs=len(dev),
        seed=options.seed,
        corpora=[_record(number, corpus, pool, skipped[number]) for number, corpus in enumerate(corpora)],
        reserved_copies=written.reserved_copies,
        augmented_copies=written.augmented_copies,
        sha256=_digests(options),
        options=options.recipe(),
        files=written.files,
        sources_with_end_marks=round(written.sources_with_end_marks, 3),
    )


def _tell(options: PrepareOptions, folder: Path, reports: Sequence[CorpusReport], say: Say) -> None:
    write_report(folder, reports)
    for report in reports:
        for line in report.on_screen():
            say(line)
    if any(report.left_out.counts or report.mended.counts for report in reports):
        say(f"more examples of each are in {options.out / REPORT}")


def already_prepared(options: PrepareOptions) -> PreparedSummary | None:
    """What `options.out` holds, if that is what `prepare_corpora` would make of the same files again.

    None of what is damaged, or in a format of before.
    """
    try:
        summary = PreparedSummary.load(options.out)
    except ValueError:
        return None
    same = options.are(summary.options) and summary.sha256 == _digests(options)
    return summary if same and undamaged(options.out, summary.files) else None


def damage(folder: Path) -> str | None:
    """What keeps the data in `folder` from being used, whatever they were made of; None if nothing does."""
    try:
        summary = PreparedSummary.load(folder)
    except ValueError as error:
        return str(error)
    return None if undamaged(folder, summary.files) else f"files in {folder} are missing or damaged"


def vocabulary_size(pairs: int, characters: int) -> int:
    """The default size: 1,000 pieces below 5,000 pairs, 2,000 below 20,000, then 8,000.

    Where the text has more than 500 different characters, as Chinese does, they need places of their own on top. On
    Multi30k, 29,000 pairs, 10,000 pieces were better than 4,000 (docs/recipes.md).
    """
    size = 1000 if pairs < 5_000 else 2000 if pairs < 20_000 else 8000
    return size + max(0, characters - 500)


def _vocabulary(options: PrepareOptions, pool: Pool, corpora: Sequence[Corpus], say: Say) -> Tokenizer:
    if options.vocabulary is not None:
        return Tokenizer.load(Path(options.vocabulary))
    sentences = list(_vocabulary_sentences(pool, [corpus.spec.weight for corpus in corpora], options.seed))
    size = options.vocab_size or vocabulary_size(len(pool.pairs), len(set().union(*sentences)))
    say(f"learning a vocabulary of up to {size:,} pieces from {len(sentences):,} sentences")
    rules = simplification_rules() if options.normalises_characters() else None
    return Tokenizer(train_vocabulary(sentences, size, (options.source, options.target), rules=rules))


def _vocabulary_sentences(pool: Pool, weights: Sequence[float], seed: int) -> Iterator[str]:
    """Both sides of a sample of the pairs, in the proportions in which training will draw them."""
    random = Random(seed)
    drawn = [pool.count(number) * weight for number, weight in enumerate(weights)]
    highest = max(weight for weight, pairs in zip(weights, drawn, strict=True) if pairs)
    scale = min(1 / highest, _VOCABULARY_SENTENCES / (2 * sum(drawn)))
    for row, corpus in enumerate(pool.corpora):
        if random.random() < scale * weights[corpus]:
            yield from pool.pairs[row]


def _short_enough(
    options: PrepareOptions, dev: list[Pair], tokenizer: Tokenizer, lines: Sequence[int], skipped: Skipped, say: Say
) -> list[Pair]:
    """Those of `dev` that fit the limit on tokens; the others, whose `lines` are known if a file was given, go to
    `skipped` then."""
    fits = [max(map(len, tokenizer.encode_pair(*pair))) <= options.max_tokens for pair in dev]
    require(any(fits), f"every development pair has a side of more than {options.max_tokens} tokens (max_tokens)")
    long = f"longer than {options.max_tokens} tokens"
    for line, pair, short in zip(lines, dev, fits, strict=False):
        if not short:
            skipped.add(long, line, pair)
    if not all(fits) and not lines:
        say(f"{len(dev) - sum(fits):,} development pairs left out: {long}")
    return [pair for pair, short in zip(dev, fits, strict=True) if short]


def _record(number: int, corpus: Corpus, pool: Pool, skipped: Skipped) -> dict[str, Any]:
    kept = pool.count(number)
    lines = {"read": kept + skipped.counts.total(), "kept": kept, "skipped": dict(skipped.counts)}
    return {"name": corpus.name, "weight": corpus.spec.weight, **lines}


def input_files(options: PrepareOptions) -> Iterator[Path]:
    """All that is read, each fetched if it is not here. Raises CorpusError."""
    for text in (*options.pairs, *options.mixed, *([options.dev] if options.dev else [])):
        yield from spec_of(options, text).paths
    if options.vocabulary:
        yield Path(options.vocabulary)


def _digests(options: PrepareOptions) -> dict[str, str]:
    return digests(input_files(options))


def two_columns(text: str | None) -> tuple[int, int] | None:
    """What `--columns` says. Raises ValueError."""
    if text is None:
        return None
    match = re.fullmatch(r"([1-9]\d*),([1-9]\d*)", text)
    if not match or match[1] == match[2]:
        raise ValueError(f"--columns must be two different numbers, counted from 1, such as 2,1, not {text!r}")
    return int(match[1]), int(match[2])


def prepare(
    pairs: Annotated[
        list[str],
        typer.Option(
            "--pairs",
            "--from",
            metavar="FILE",
            help="A file of sentence pairs, one a line: source, tab, translation; .gz and .xz too. Or two plain files, "
            "as a.en,b.fr. Give the option again for more corpora. A number after a colon is a weight: big.tsv:0.25 "
            "draws a quarter of its pairs each epoch, clean.tsv:2 draws each twice. A pair in several counts in the "
            "first. Also a zip or tar of these, a TMX, the address of any, as https://.../file.tsv.gz#sha256=..., and "
            "mtdata:ID if mtdata is installed.",
        ),
    ],
    source: Annotated[str, typer.Option(metavar="CODE", help="The language to translate from, such as en or pt-BR.")],
    target: Annotated[str, typer.Option(metavar="CODE", help="The language to translate into.")],
    out: Annotated[Path, typer.Option(help="The data folder to make.")],
    dev: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Pairs to measure by during training; what shares a sentence with them is not trained on. "
            "Without it, some pairs are set apart.",
        ),
    ] = None,
    dev_size: Annotated[
        int | None, typer.Option(help="How many pairs to set apart; without it, a twentieth, at most 1,000.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="Learn from so many of the pairs at most, drawn from all of them.")
    ] = None,
    vocab_size: Annotated[
        int | None,
        typer.Option(
            help="Pieces in the vocabulary; without it, 1,000 to 8,000 by the pairs, more for Chinese and its like."
        ),
    ] = None,
    max_tokens: Annotated[int, typer.Option(help="Leave out pairs with a side longer than this.")] = MAX_TOKENS,
    max_ratio: Annotated[
        float, typer.Option(help="Leave out longer pairs this many times out of the usual proportion of lengths.")
    ] = MAX_RATIO,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE",
            help="Do not apply a rule of cleaning; again for more. " + "; ".join(f"{n}: {w}" for n, w in RULES.items()),
        ),
    ] = None,
    reserved_share: Annotated[
        float,
        typer.Option(help="Copies of pairs with placeholders for names and numbers, as a share of all; 0 for none."),
    ] = RESERVED_SHARE,
    augment_share: Annotated[
        float,
        typer.Option(
            help="Copies in small letters, other quotes, without last marks, of other names: a share; 0 for none."
        ),
    ] = AUGMENT_SHARE,
    script: Annotated[
        str,
        typer.Option(
            metavar="|".join(SCRIPTS),
            help="Of Chinese text: made simplified; kept as it is; or, auto, the former for zh, the latter for zh-TW.",
        ),
    ] = "auto",
    columns: Annotated[
        str | None,
        typer.Option(metavar="N,N", help="The columns of source and target, such as 2,1; without it, found out."),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Such as cp1252 or gb18030; without it, found out, UTF-8 most likely.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws the pairs set apart and those copied; the same, the same data.")] = 1,
    processes: Annotated[
        int | None, typer.Option(help="That share the work; the result is the same. (default: one a core, for much)")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the data folder, if there is one.")] = False,
) -> None:
    """Check and split sentence pairs, learn a vocabulary, and write a folder that `train` reads."""
    options = PrepareOptions(
        pairs=tuple(pairs),
        source=source,
        target=target,
        out=out,
        dev=dev,
        dev_size=dev_size,
        vocab_size=vocab_size,
        max_tokens=max_tokens,
        max_ratio=max_ratio,
        reserved_share=reserved_share,
        augment_share=augment_share,
        columns=two_columns(columns),
        encoding=encoding,
        seed=seed,
        replace=replace,
        processes=processes,
        keep=tuple(keep or ()),
        script=script,
        limit=limit,
    )
    prepare_corpora(options, typer.echo)
