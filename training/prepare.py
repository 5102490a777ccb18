"""The verb `prepare`: files of sentence pairs in, a data folder of token ids out, which `train` reads.

    python -m training prepare --pairs my.tsv --source en --target fr --out data/mine

Knows nothing of models. What makes a line usable is `training.corpus`'s, what a token is the tokenizer's.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Annotated, Any, TypeVar

import numpy as np
import typer
from numpy.typing import NDArray
from tqdm import tqdm

from model.tokenizer import Tokenizer
from training.cleaning import RULES, Cleaned, CleaningOptions, clean
from training.corpus import Corpus, CorpusSpec, Pair, Skipped, look_at, write_pairs
from training.parallel import cores
from training.pool import PIECE, Pool, PoolWriter, encode, first_of_each, hashes
from training.prepared import PreparedSummary, check_free, digests, making, write_record
from training.report import TEXT as REPORT
from training.report import CorpusReport, write_report
from training.reserved import token_copies
from training.shards import Integers, Mask, ShardWriter, undamaged
from training.sources import resolve
from training.split import SideKeys, choose_development, development_size
from training.text_file import CorpusError
from training.vocabulary import train_vocabulary

MAX_TOKENS = 256
MAX_RATIO = 4.0
RESERVED_SHARE = 0.05
TEXT = "text.tsv"
"""In the folder as long as it is being made: all that was read."""
TUNING_DEV = 100
"""Development pairs at least where a bundle is fine-tuned, if there are five times as many."""
# Sentences of this many tokens or fewer are never out of proportion: "Thanks." may well take eight.
_RATIO_FROM_TOKENS = 24
# More sentences than this hardly change a vocabulary of some thousand pieces, and take memory and minutes.
_VOCABULARY_SENTENCES = 400_000
# Fewer pairs than this are done by the time that other processes have started.
_MANY_PAIRS = 200_000
_LANGUAGE_CODE = re.compile(r"([A-Za-z]{2,8}|[xXiI](?=[-_]))([-_][A-Za-z0-9]{1,8})*")

Item = TypeVar("Item")
Say = Callable[[str], None]


@dataclass(frozen=True)
class PrepareOptions:
    """What to prepare. `columns` count from 1; None means: found out, or chosen by size. ValueError names the fault.

    `mix` are corpora beside `pairs` from which no development pair is taken; a weight there counts pairs drawn for one
    of `pairs`. `vocabulary` is a sentencepiece.model to use as it is, instead of learning one. `keep` names rules of
    `training.cleaning` that are not applied.
    """

    pairs: tuple[str, ...]
    source: str
    target: str
    out: Path
    dev: str | None = None
    dev_size: int | None = None
    vocab_size: int | None = None
    max_tokens: int = MAX_TOKENS
    max_ratio: float = MAX_RATIO
    reserved_share: float = RESERVED_SHARE
    columns: tuple[int, int] | None = None
    encoding: str | None = None
    seed: int = 1
    replace: bool = False
    mix: tuple[str, ...] = ()
    vocabulary: str | None = None
    processes: int | None = None
    keep: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _require(bool(self.pairs), "no --pairs given: name at least one file of sentence pairs")
        for option, code in (("--source", self.source), ("--target", self.target)):
            _require(bool(_LANGUAGE_CODE.fullmatch(code)), f"{option} {code!r} is no language code such as en or pt-BR")
        _require(self.source != self.target, f"--source and --target are both {self.source}")
        _require(self.dev is None or self.dev_size is None, "give --dev or --dev-size, not both")
        _require(self.dev_size is None or self.dev_size >= 1, f"--dev-size must be at least 1, not {self.dev_size}")
        _require(self.max_tokens >= 8, f"--max-tokens must be at least 8, not {self.max_tokens}")
        _require(self.max_ratio > 1, f"--max-ratio must be above 1, not {self.max_ratio}")
        _require(0 <= self.reserved_share <= 1, f"--reserved-share must be from 0 to 1, not {self.reserved_share}")
        _require(self.seed >= 0, f"--seed must be at least 0, not {self.seed}")
        _require(self.processes is None or self.processes >= 1, f"--processes must be at least 1, not {self.processes}")
        self.cleaning()

    def recipe(self) -> dict[str, Any]:
        """The options that decide what is in the folder, as JSON gives them back."""
        fields = dataclasses.asdict(self)
        fields = {name: value for name, value in fields.items() if name not in ("out", "replace", "processes")}
        return dict(json.loads(json.dumps(fields)))

    def cleaning(self) -> CleaningOptions:
        """A piece of the vocabulary is at most 16 characters long, so nothing longer can be within the tokens."""
        return CleaningOptions(self.source, self.target, self.max_ratio, 16 * self.max_tokens, frozenset(self.keep))

    def processes_for(self, pool: Pool) -> int:
        """How many processes share the work on `pool`: as many as asked for, else one a core, if there is much."""
        return self.processes or (cores() if len(pool.pairs) >= _MANY_PAIRS else 1)


def prepare_corpora(options: PrepareOptions, say: Say = print) -> PreparedSummary:
    """Read, check, split and encode the corpora of `options` into the data folder `options.out`.

    `say` gets the report, line by line. Nothing is at `out` before all is done. Raises CorpusError for a file that
    cannot be used, FileExistsError for an `out` that must not be replaced, ValueError for other options.
    """
    check_free(options.out, options.replace)
    corpora = [_looked_at(options, text) for text in (*options.pairs, *options.mix)]
    given = [_looked_at(options, options.dev)] if options.dev else []
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
    pool, keys = _read(options, folder / TEXT, corpora, skipped, mended)
    dev = [pair for corpus, lines in zip(given, skipped[len(corpora) :], strict=True) for pair in _all(corpus, lines)]
    pool, dev = _split(options, pool, keys, dev, skipped)
    corpora = _weighed(options, pool, corpora)
    tokenizer = _vocabulary(options, pool, corpora, say)
    dev = _short_enough(options, dev, tokenizer, say)
    writer = ShardWriter(folder, tokenizer.vocab_size)
    pool, kept, end_marks = _encode(options, pool, tokenizer, writer, skipped)
    copied = _reserved_copies(options, pool, tokenizer, writer)
    kept_of = [pool.count(number) for number in range(len(corpora))] + [len(dev)] * len(given)
    reports = list(map(CorpusReport, [*corpora, *given], kept_of, skipped, mended))
    _tell(options, folder, reports, say)
    files = writer.finish(
        np.append(kept, np.ones_like(copied, np.bool_)), np.append(pool.corpora, pool.corpora[copied])
    )
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
        reserved_copies=len(copied),
        sha256=_digests(options),
        options=options.recipe(),
        files=files,
        sources_with_end_marks=round(float(end_marks.mean()), 3),
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


def _spec(options: PrepareOptions, text: str) -> CorpusSpec:
    return resolve(text, options.source, options.target)


def _looked_at(options: PrepareOptions, text: str) -> Corpus:
    return look_at(_spec(options, text), options.source, options.target, options.columns, options.encoding)


def _read(
    options: PrepareOptions,
    path: Path,
    corpora: Sequence[Corpus],
    skipped: Sequence[Skipped],
    mended: Sequence[Skipped],
) -> tuple[Pool, SideKeys]:
    """All different pairs, whose text goes to the file `path`, and the keys of their sides."""
    writer = PoolWriter(path)
    for number, corpus in enumerate(corpora):
        lines = _progress(corpus.pairs(skipped[number]), f"reading {corpus.name}")
        found = Cleaned(skipped[number], mended[number])
        if not writer.add_all(number, clean(lines, options.cleaning(), found)):
            raise _unusable(corpus, skipped[number])
    pool = writer.finish()
    codes, done = np.empty((len(pool.pairs), 3), np.int64), 0
    for piece in _progress_of_pieces(hashes(pool, options.processes_for(pool)), pool, "comparing"):
        codes[done : done + len(piece)] = piece
        done += len(piece)
    first = first_of_each(codes[:, 0])
    pool, keys = pool.keep(first, skipped, "the same pair came before"), SideKeys(codes[first, 1], codes[first, 2])
    for number, corpus in enumerate(corpora):
        if not pool.count(number):
            raise _unusable(corpus, skipped[number])
    return pool, keys


def _all(corpus: Corpus, skipped: Skipped) -> list[Pair]:
    pairs = [pair for _, pair in corpus.pairs(skipped)]
    if not pairs:
        raise _unusable(corpus, skipped)
    return pairs


def _unusable(corpus: Corpus, skipped: Skipped) -> CorpusError:
    why = next(skipped.describe(), "there is only a header")
    return CorpusError(corpus.spec.paths[0], f"no usable pair: {why}")


def _split(
    options: PrepareOptions, pool: Pool, keys: SideKeys, dev: list[Pair], skipped: Sequence[Skipped]
) -> tuple[Pool, list[Pair]]:
    """Training and development pairs, no sentence in both; `dev` is empty if it is to be chosen."""
    if dev:
        dev_keys = SideKeys.of(dev)
    else:
        own = pool.corpora < len(options.pairs)  # [pairs]
        wanted = options.dev_size or development_size(int(own.sum()), TUNING_DEV if options.vocabulary else 1)
        chosen = np.zeros(len(own), np.bool_)
        chosen[own] = choose_development(keys[own], min(wanted, max(1, int(own.sum()) - 1)), options.seed)
        dev = [pool.pairs[index] for index in chosen.nonzero()[0].tolist()]
        dev_keys, keys = keys[chosen], keys[~chosen]
        pool = pool.keep(~chosen, skipped, "set apart for development")
    pool = pool.keep(~keys.touching(dev_keys), skipped, "a sentence is in the development set")
    left = pool.corpora < len(options.pairs)
    _require(bool(left.any()), "no pair is left to train on: every one shares a sentence with the development set")
    return pool, dev


def _weighed(options: PrepareOptions, pool: Pool, corpora: Sequence[Corpus]) -> list[Corpus]:
    """`corpora`, the mixed ones with the weight at which an epoch draws as many pairs as were asked for."""
    count = [pool.count(number) for number in range(len(corpora))]
    own = sum(count[number] * corpora[number].spec.weight for number in range(len(options.pairs)))
    weighed = list(corpora[: len(options.pairs)])
    for number, corpus in enumerate(corpora[len(options.pairs) :], len(options.pairs)):
        weight = corpus.spec.weight * own / max(1, count[number])
        weighed.append(dataclasses.replace(corpus, spec=dataclasses.replace(corpus.spec, weight=round(weight, 6))))
    return weighed


def _vocabulary(options: PrepareOptions, pool: Pool, corpora: Sequence[Corpus], say: Say) -> Tokenizer:
    if options.vocabulary is not None:
        return Tokenizer.load(Path(options.vocabulary))
    sentences = list(_vocabulary_sentences(pool, [corpus.spec.weight for corpus in corpora], options.seed))
    size = options.vocab_size or vocabulary_size(len(pool.pairs), len(set().union(*sentences)))
    say(f"learning a vocabulary of up to {size:,} pieces from {len(sentences):,} sentences")
    return Tokenizer(train_vocabulary(sentences, size, (options.source, options.target)))


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
    _require(bool(short), f"every development pair is longer than --max-tokens {options.max_tokens}")
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
    for piece in _progress_of_pieces(pieces, pool, "encoding"):
        fits = piece.lengths.max(1) <= options.max_tokens  # [pairs]
        writer.add(piece.ids, piece.lengths * fits[:, None])
        lengths.append(piece.lengths)
        end_marks.append(piece.end_marks)
    both = np.concatenate(lengths)  # [pairs, side]
    kept = both.max(1) <= options.max_tokens
    _require(bool(kept.any()), f"no pair is left within --max-tokens {options.max_tokens}")
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
    sound: Mask = (lengths.max(0) <= _RATIO_FROM_TOKENS) | ((odds <= max_ratio) & (odds >= 1 / max_ratio))
    return sound


def _reserved_copies(options: PrepareOptions, pool: Pool, tokenizer: Tokenizer, writer: ShardWriter) -> Integers:
    """Writes copies of pairs with reserved symbols; returns the indices of those pairs: [copies]."""
    if options.reserved_share == 0:
        return np.array([], np.int64)
    wanted = round(options.reserved_share * len(pool.pairs))
    copied: list[int] = []
    drawn = token_copies(pool.pairs, wanted, tokenizer, options.max_tokens, Random(options.seed))
    copies = iter(_progress(drawn, "copying with placeholders"))
    while some := list(islice(copies, PIECE)):
        ids = np.concatenate([side for copy in some for side in (copy.source, copy.target)])
        writer.add(ids, np.array([[len(copy.source), len(copy.target)] for copy in some], np.uint32))
        copied += [copy.pair for copy in some]
    return np.array(copied, np.int64)


def _record(number: int, corpus: Corpus, pool: Pool, skipped: Skipped) -> dict[str, Any]:
    kept = pool.count(number)
    lines = {"read": kept + skipped.counts.total(), "kept": kept, "skipped": dict(skipped.counts)}
    return {"name": corpus.name, "weight": corpus.spec.weight, **lines}


def _digests(options: PrepareOptions) -> dict[str, str]:
    given = [options.dev] if options.dev else []
    vocabulary = [Path(options.vocabulary)] if options.vocabulary else []
    paths = [path for text in [*options.pairs, *options.mix, *given] for path in _spec(options, text).paths]
    return digests([*paths, *vocabulary])


def _progress(items: Iterable[Item], what: str) -> Iterable[Item]:
    """`items` with a bar, on a terminal only."""
    progress: Iterable[Item] = tqdm(items, desc=what, unit=" pairs", unit_scale=True, leave=False, disable=None)
    return progress


def _progress_of_pieces(found: Iterable[Item], pool: Pool, what: str) -> Iterable[Item]:
    """`found`, a result for each piece of the pool, with a bar that counts pairs, on a terminal only."""
    with tqdm(desc=what, total=len(pool.pairs), unit=" pairs", unit_scale=True, leave=False, disable=None) as bar:
        for item in found:
            yield item
            bar.update(min(PIECE, len(pool.pairs) - bar.n))


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


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
        columns=None if columns is None else two_columns(columns),
        encoding=encoding,
        seed=seed,
        replace=replace,
        processes=processes,
        keep=tuple(keep or ()),
    )
    prepare_corpora(options, typer.echo)
