"""Reads corpora into a pool: cleaned, deduplicated, with development pairs held out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from tqdm import tqdm

from training.cleaning.holdout import SideKeys, choose_dev_pairs, default_dev_size
from training.cleaning.language_check import open_oriented_corpus
from training.cleaning.rules import CleaningTally, clean, repaired_pairs
from training.cleaning.simplified_chinese import simplify_pairs
from training.corpora.corpus import Corpus, CorpusSpec, LineTally, NumberedPair, Pair, open_corpus
from training.corpora.sources import resolve
from training.corpora.text_file import CorpusError
from training.data.options import REHEARSED, PrepareOptions, require
from training.data.pair_store import PIECE, Pool, PoolWriter, first_of_each, hashes

IN_DEVELOPMENT = "a sentence is in the development set"
TUNING_DEV = 100
"""Minimum number of development pairs in fine-tuning, if there are five times as many pairs."""
Item = TypeVar("Item")


def spec_of(options: PrepareOptions, text: str) -> CorpusSpec:
    """The corpus that `text` of --pairs or --dev names, downloaded if necessary. Raises CorpusError."""
    spec = resolve(text, options.source, options.target)
    return dataclasses.replace(spec, source_first=True, is_utf8=True) if text == options.rehearsal else spec


def open_training_corpus(options: PrepareOptions, text: str) -> Corpus:
    """The corpus of that name, with encoding and columns as given or detected. Raises CorpusError."""
    return open_corpus(spec_of(options, text), options.source, options.target, options.columns, options.encoding)


def open_dev_corpus(options: PrepareOptions, text: str) -> Corpus:
    """The same for pairs that are not cleaned. Raises CorpusError."""
    spec = spec_of(options, text)
    return open_oriented_corpus(spec, options.source, options.target, options.columns, options.encoding)


def read_corpora(
    options: PrepareOptions,
    path: Path,
    corpora: Sequence[Corpus],
    skipped: Sequence[LineTally],
    repaired: Sequence[LineTally],
) -> tuple[Pool, SideKeys]:
    """All distinct pairs, whose text goes to the file `path`, and the keys of their sides. Raises CorpusError."""
    writer = PoolWriter(path)
    may_be_empty = {len(corpora) - 1} if options.rehearsal else set()  # none of a bundle's translations may be usable
    for number, corpus in enumerate(corpora):
        pairs = simplify_pairs(corpus.pairs(skipped[number]), options.simplified_sides(), repaired[number])
        lines = progress(pairs, f"reading {corpus.name}")
        found, cleaning = CleaningTally(skipped[number], repaired[number]), options.cleaning()
        if number in may_be_empty:  # no rule fits variants, which are in no language
            cleaning = dataclasses.replace(cleaning, keep=frozenset({"all"}))
        kept = writer.add_all(number, clean(lines, cleaning, found, options.processes))
        if not kept and number not in may_be_empty:
            raise _unusable(corpus, skipped[number])
    pool = writer.finish()
    codes, done = np.empty((len(pool.pairs), 3), np.int64), 0
    for piece in progress_of_pieces(hashes(pool, options.processes_for(pool)), pool, "comparing"):
        codes[done : done + len(piece)] = piece
        done += len(piece)
    first = first_of_each(codes[:, 0])
    pool, keys = pool.keep(first, skipped, "a duplicate pair"), SideKeys(codes[first, 1], codes[first, 2])
    for number, corpus in enumerate(corpora):
        if not pool.count(number) and number not in may_be_empty:
            raise _unusable(corpus, skipped[number])
    return pool, keys


def read_all(options: PrepareOptions, corpus: Corpus, skipped: LineTally, repaired: LineTally) -> list[NumberedPair]:
    """Every pair with its line, without cleaning, in the script of training. Raises CorpusError if there is none."""
    pairs = list(simplify_pairs(corpus.pairs(skipped), options.simplified_sides(), repaired))
    if not pairs:
        raise _unusable(corpus, skipped)
    return pairs


def _unusable(corpus: Corpus, skipped: LineTally) -> CorpusError:
    why = next(skipped.describe(), "the file has only a header")
    return CorpusError(corpus.spec.paths[0], f"no usable pair: {why}")


def set_apart(
    options: PrepareOptions, pool: Pool, keys: SideKeys, dev: list[Pair], skipped: Sequence[LineTally]
) -> tuple[Pool, list[Pair]]:
    """Training and development pairs, with no sentence in both; chooses `dev` if it is empty. Raises ValueError."""
    if dev:
        # Training pairs have been cleaned, and these have not: both forms of a pair count as known.
        dev_keys = SideKeys.of([*dev, *repaired_pairs(dev, options.cleaning())])
    else:
        own = pool.corpora < len(options.pairs)  # [pairs]
        require(int(own.sum()) > 1, "there is only one pair: holding it out leaves none to train on")
        wanted = options.dev_size or default_dev_size(int(own.sum()), TUNING_DEV if options.vocabulary else 1)
        chosen = np.zeros(len(own), np.bool_)
        chosen[own] = choose_dev_pairs(keys[own], min(wanted, max(1, int(own.sum()) - 1)), options.seed)
        dev = [pool.pairs[index] for index in chosen.nonzero()[0].tolist()]
        dev_keys, keys = keys[chosen], keys[~chosen]
        pool = pool.keep(~chosen, skipped, "held out for development")
    pool = pool.keep(~keys.sharing_a_side(dev_keys), skipped, IN_DEVELOPMENT)
    left = pool.corpora < len(options.pairs)
    require(bool(left.any()), "no pair is left to train on: every one shares a sentence with the development set")
    return pool, dev


def limited(options: PrepareOptions, pool: Pool, skipped: Sequence[LineTally]) -> Pool:
    """`options.limit` of the pairs, separately for mixed ones; a lower limit's pairs are among a higher limit's."""
    own = (pool.corpora < len(options.pairs)).nonzero()[0]
    if options.limit is None or len(own) <= options.limit:
        return pool
    kept = np.ones(len(pool.pairs), np.bool_)
    kept[np.random.default_rng(options.seed).permutation(own)[options.limit :]] = False
    return pool.keep(kept, skipped, "beyond --limit")


def weighed(options: PrepareOptions, pool: Pool, corpora: Sequence[Corpus]) -> list[Corpus]:
    """`corpora`, with each mixed one weighted so that an epoch draws as many pairs as requested."""
    count = [pool.count(number) for number in range(len(corpora))]
    own = sum(count[number] * corpora[number].spec.weight for number in range(len(options.pairs)))
    weighed = list(corpora[: len(options.pairs)])
    for number, corpus in enumerate(corpora[len(options.pairs) :], len(options.pairs)):
        weight = corpus.spec.weight * own / max(1, count[number])
        if options.rehearsal and number == len(corpora) - 1:
            weight = min(weight, REHEARSED)
        weighed.append(dataclasses.replace(corpus, spec=dataclasses.replace(corpus.spec, weight=round(weight, 6))))
    return weighed


def progress(items: Iterable[Item], what: str) -> Iterable[Item]:
    """`items` with a progress bar, on a terminal only."""
    progress: Iterable[Item] = tqdm(items, desc=what, unit=" pairs", unit_scale=True, leave=False, disable=None)
    return progress


def progress_of_pieces(found: Iterable[Item], pool: Pool, what: str) -> Iterable[Item]:
    """`found`, one result per piece of the pool, with a progress bar that counts pairs, on a terminal only."""
    with tqdm(desc=what, total=len(pool.pairs), unit=" pairs", unit_scale=True, leave=False, disable=None) as bar:
        for item in found:
            yield item
            bar.update(min(PIECE, len(pool.pairs) - bar.n))
