"""The verb `prepare`: files of sentence pairs in, a data folder of token ids out, which `train` reads.

    python -m training prepare --pairs my.tsv --source en --target fr --out data/mine

Knows nothing of models. What makes a line usable is `training.corpus`'s, what a token is the tokenizer's.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
import typer
from numpy.typing import NDArray

from model.marks import has_end_mark
from model.tokenizer import Tokenizer
from training.augment import augmented_copies
from training.chinese import simplification_rules
from training.cleaning import RULES
from training.corpus import Corpus, Pair, Skipped, write_pairs
from training.intake import looked_at, progress, progress_of_pieces, read_all, read_corpora, set_apart, spec_of, weighed
from training.pool import PIECE, Pool, encode
from training.prepare_options import (
    AUGMENT_SHARE,
    MAX_RATIO,
    MAX_TOKENS,
    RATIO_FROM_TOKENS,
    RESERVED_SHARE,
    SCRIPTS,
    PrepareOptions,
    require,
)
from training.prepared import PreparedSummary, check_free, digests, making, write_record
from training.report import TEXT as REPORT
from training.report import CorpusReport, write_report
from training.reserved import TokenCopy, token_copies
from training.shards import Integers, Mask, ShardWriter, undamaged
from training.vocabulary import train_vocabulary

TEXT = "text.tsv"
"""In the folder as long as it is being made: all that was read."""
# More sentences than this hardly change a vocabulary of some thousand pieces, and take memory and minutes.
_VOCABULARY_SENTENCES = 400_000

Item = TypeVar("Item")
Say = Callable[[str], None]


def prepare_corpora(options: PrepareOptions, say: Say = print) -> PreparedSummary:
    """Read, check, split and encode the corpora of `options` into the data folder `options.out`.

    `say` gets the report, line by line. Nothing is at `out` before all is done. Raises CorpusError for a file that
    cannot be used, FileExistsError for an `out` that must not be replaced, ValueError for other options.
    """
    check_free(options.out, options.replace)
    corpora = [looked_at(options, text) for text in (*options.pairs, *options.mix)]
    given = [looked_at(options, options.dev)] if options.dev else []
    for corpus in [*corpora, *given]:
        say(corpus.describe())

    skipped = [Skipped() for _ in [*corpora, *given]]
    with making(options.out) as folder:
        summary = _prepare(options, folder, corpora, given, skipped, say)
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
    dev = [pair for corpus in of_given for pair in read_all(options, *corpus)]
    pool, dev = set_apart(options, pool, keys, dev, skipped)
    corpora = weighed(options, pool, corpora)
    tokenizer = _vocabulary(options, pool, corpora, say)
    dev = _short_enough(options, dev, tokenizer, say)
    writer = ShardWriter(folder, tokenizer.vocab_size)
    pool, kept, end_marks = _encode(options, pool, tokenizer, writer, skipped)
    reserved = _write_copies(_reserved_copies(options, pool, tokenizer), tokenizer, writer, "copying with placeholders")
    augmented = _write_copies(_augmented_copies(options, pool, tokenizer), tokenizer, writer, "copying in other case")
    copied = np.concatenate([reserved.pairs, augmented.pairs])
    of_corpora = np.append(pool.corpora, pool.corpora[copied])
    end_marks = np.concatenate([end_marks, reserved.end_marks, augmented.end_marks])
    share = _share_drawn(end_marks, of_corpora, [corpus.spec.weight for corpus in corpora])
    kept_of = [pool.count(number) for number in range(len(corpora))] + [len(dev)] * len(given)
    reports = list(map(CorpusReport, [*corpora, *given], kept_of, skipped, mended))
    _tell(options, folder, reports, say)
    files = writer.finish(np.append(kept, np.ones_like(copied, np.bool_)), of_corpora)
    (folder / TEXT).unlink()
    (folder / "sentencepiece.model").write_bytes(tokenizer.proto)
    write_pairs(folder / "dev.tsv", dev)
    return PreparedSummary(
        source=options.source,
        target=options.target,
        vocab_size=tokenizer.vocab_size,
        pairs=len(pool.pairs) + len(copied),
        dev_pairs=len(dev),
        seed=options.seed,
        corpora=[_record(number, corpus, pool, skipped[number]) for number, corpus in enumerate(corpora)],
        reserved_copies=len(reserved.pairs),
        augmented_copies=len(augmented.pairs),
        sha256=_digests(options),
        options=options.recipe(),
        files=files,
        sources_with_end_marks=round(share, 3),
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
    same = summary.options == options.recipe() and summary.sha256 == _digests(options)
    return summary if same and undamaged(options.out, summary.files) else None


def vocabulary_size(pairs: int, characters: int) -> int:
    """The default size: 1,000 pieces below 5,000 pairs, 2,000 below 20,000, 4,000 below 80,000, then 8,000.

    Where the text has more than 500 different characters, as Chinese does, they need places of their own on top.
    """
    size = 1000 if pairs < 5_000 else 2000 if pairs < 20_000 else 4000 if pairs < 80_000 else 8000
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


def _short_enough(options: PrepareOptions, dev: list[Pair], tokenizer: Tokenizer, say: Say) -> list[Pair]:
    short = [pair for pair in dev if max(len(tokenizer.encode(side)) for side in pair) <= options.max_tokens]
    require(bool(short), f"every development pair is longer than --max-tokens {options.max_tokens}")
    if len(short) < len(dev):
        say(f"{len(dev) - len(short):,} development pairs left out: longer than {options.max_tokens} tokens")
    return short


def _encode(
    options: PrepareOptions, pool: Pool, tokenizer: Tokenizer, writer: ShardWriter, skipped: Sequence[Skipped]
) -> tuple[Pool, Mask, Mask]:
    """Writes the tokens of the pairs; those whose lengths are not sound go to `skipped`.

    Returns the others, which they are of those written, and which of them have a source that ends as a sentence does.
    """
    lengths, end_marks = [], []
    pieces = encode(pool, tokenizer, options.max_tokens, options.processes_for(pool))
    for piece in progress_of_pieces(pieces, pool, "encoding"):
        fits = piece.lengths.max(1) <= options.max_tokens  # [pairs]
        writer.add(piece.ids, piece.lengths * fits[:, None])
        lengths.append(piece.lengths)
        end_marks.append(piece.end_marks)
    both = np.concatenate(lengths)  # [pairs, side]
    kept = both.max(1) <= options.max_tokens
    require(bool(kept.any()), f"no pair is left within --max-tokens {options.max_tokens}")
    pool = pool.keep(kept, skipped, f"longer than {options.max_tokens} tokens")
    sound = proportionate(both[kept].T, options.max_ratio if options.cleaning().applies("lengths") else np.inf)
    pool = pool.keep(sound, skipped, "lengths out of proportion")
    kept[kept] = sound
    return pool, kept, np.concatenate(end_marks)[kept]


def proportionate(lengths: NDArray[np.integer[Any]], max_ratio: float) -> Mask:
    """Which pairs are not `max_ratio` times longer on one side than is usual in this corpus: [pairs].

    `lengths`: tokens, [side, pairs], none 0. Short pairs always pass, since few words may well need many.
    """
    ratios = lengths[1] / lengths[0]  # [pairs]
    odds = ratios / np.median(ratios)
    sound: Mask = (lengths.max(0) <= RATIO_FROM_TOKENS) | ((odds <= max_ratio) & (odds >= 1 / max_ratio))
    return sound


def _reserved_copies(options: PrepareOptions, pool: Pool, tokenizer: Tokenizer) -> Iterator[TokenCopy]:
    """Copies of pairs with reserved symbols."""
    if options.reserved_share == 0:
        return iter(())
    wanted = round(options.reserved_share * len(pool.pairs))
    return token_copies(pool.pairs, wanted, tokenizer, options.max_tokens, Random(options.seed))


def _augmented_copies(options: PrepareOptions, pool: Pool, tokenizer: Tokenizer) -> Iterator[TokenCopy]:
    """Copies of pairs in other case and punctuation."""
    if options.augment_share == 0:
        return iter(())
    wanted, languages = round(options.augment_share * len(pool.pairs)), (options.source, options.target)
    random = Random(f"augmentation {options.seed}")
    return augmented_copies(pool.pairs, wanted, tokenizer, languages, options.max_tokens, random)


class _Copied(NamedTuple):
    """The copies written: of which pairs, [copies], and which of them have a source that ends as a sentence does."""

    pairs: Integers
    end_marks: Mask


def _write_copies(drawn: Iterator[TokenCopy], tokenizer: Tokenizer, writer: ShardWriter, what: str) -> _Copied:
    pairs, end_marks = array("q"), array("b")
    copies = iter(progress(drawn, what))
    while some := list(islice(copies, PIECE)):
        ids = np.concatenate([side for copy in some for side in (copy.source, copy.target)])
        writer.add(ids, np.array([[len(copy.source), len(copy.target)] for copy in some], np.uint32))
        pairs.extend(copy.pair for copy in some)
        end_marks.extend(has_end_mark(tokenizer.decode(copy.source)) for copy in some)
    return _Copied(np.array(pairs, np.int64), np.array(end_marks, np.bool_))


def _share_drawn(wanted: Mask, of_corpora: Integers, weights: Sequence[float]) -> float:
    """Which share of what an epoch draws is `wanted`, [pairs]; `weights`: how often it draws a pair of each corpus."""
    of_each = [of_corpora == number for number in range(len(weights))]
    drawn = sum(weight * np.count_nonzero(own) for weight, own in zip(weights, of_each, strict=True))
    return float(
        sum(weight * np.count_nonzero(own & wanted) for weight, own in zip(weights, of_each, strict=True)) / drawn
    )


def _record(number: int, corpus: Corpus, pool: Pool, skipped: Skipped) -> dict[str, Any]:
    kept = pool.count(number)
    lines = {"read": kept + skipped.counts.total(), "kept": kept, "skipped": dict(skipped.counts)}
    return {"name": corpus.name, "weight": corpus.spec.weight, **lines}


def _digests(options: PrepareOptions) -> dict[str, str]:
    given = [options.dev] if options.dev else []
    vocabulary = [Path(options.vocabulary)] if options.vocabulary else []
    paths = [path for text in [*options.pairs, *options.mix, *given] for path in spec_of(options, text).paths]
    return digests([*paths, *vocabulary])


def two_columns(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([1-9]\d*),([1-9]\d*)", text)
    if not match or match[1] == match[2]:
        raise typer.BadParameter("two different column numbers, counted from 1, such as 2,1")
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
            help="Copies in capitals, small letters, other quotes and without last marks, as a share; 0 for none."
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
        columns=None if columns is None else two_columns(columns),
        encoding=encoding,
        seed=seed,
        replace=replace,
        processes=processes,
        keep=tuple(keep or ()),
        script=script,
    )
    prepare_corpora(options, typer.echo)
