"""Reads corpora into a pair store: cleans and deduplicates them, and holds out development pairs."""

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
from training.data.options import MAX_REHEARSAL_WEIGHT, PrepareOptions, require
from training.data.pair_store import CHUNK_PAIRS, PairStore, PairStoreWriter, hashes, is_first

HELD_OUT = "held out for development"
IN_DEVELOPMENT = "a sentence is in the development set"
MIN_FINETUNING_DEV_PAIRS = 100
"""Minimum number of development pairs in fine-tuning, if there are five times as many pairs."""
Item = TypeVar("Item")


def spec_of(options: PrepareOptions, text: str) -> CorpusSpec:
    """The corpus that `text` names, a value of --pairs or --dev; downloads it if necessary. Raises CorpusError."""
    spec = resolve(text, options.source, options.target)
    made_here = text == options.rehearsal or text in options.made
    return dataclasses.replace(spec, source_first=True, is_utf8=True) if made_here else spec


def open_training_corpus(options: PrepareOptions, text: str) -> Corpus:
    """Opens the corpus that `text` names, with encoding and columns as given or detected. Raises CorpusError."""
    return open_corpus(spec_of(options, text), options.source, options.target, options.columns, options.encoding)


def open_dev_corpus(options: PrepareOptions, text: str) -> Corpus:
    """Likewise for pairs that are not cleaned: finds their order of languages. Raises CorpusError."""
    spec = spec_of(options, text)
    return open_oriented_corpus(spec, options.source, options.target, options.columns, options.encoding)


def read_corpora(
    options: PrepareOptions,
    path: Path,
    corpora: Sequence[Corpus],
    skipped: Sequence[LineTally],
    repaired: Sequence[LineTally],
) -> tuple[PairStore, SideKeys]:
    """Reads all distinct pairs, with their text in the file `path`, and the keys of their sides. Raises CorpusError."""
    writer = PairStoreWriter(path)
    may_be_empty = {len(corpora) - 1} if options.rehearsal else set()  # perhaps no translation by the bundle is usable
    for number, corpus in enumerate(corpora):
        pairs = simplify_pairs(corpus.pairs(skipped[number]), options.simplified_sides(), repaired[number])
        lines = progress(pairs, f"reading {corpus.name}")
        found, cleaning = CleaningTally(skipped[number], repaired[number]), options.cleaning()
        if number in may_be_empty:  # variants are in no language, so no rule suits them
            cleaning = dataclasses.replace(cleaning, keep=frozenset({"all"}))
        kept = writer.add_all(number, clean(lines, cleaning, found, options.processes))
        if not kept and number not in may_be_empty:
            raise _unusable(corpus, skipped[number])
    store = writer.finish()
    codes, done = np.empty((len(store.pairs), 3), np.int64), 0
    for chunk in chunk_progress(hashes(store, options.processes_for(store)), store, "comparing"):
        codes[done : done + len(chunk)] = chunk
        done += len(chunk)
    first = is_first(codes[:, 0])
    store, keys = store.keep(first, skipped, "a duplicate pair"), SideKeys(codes[first, 1], codes[first, 2])
    for number, corpus in enumerate(corpora):
        if not store.count(number) and number not in may_be_empty:
            raise _unusable(corpus, skipped[number])
    return store, keys


def read_dev_corpus(
    options: PrepareOptions, corpus: Corpus, skipped: LineTally, repaired: LineTally
) -> list[NumberedPair]:
    """Reads every pair with its line, uncleaned, in the script of training. Raises CorpusError if there is none."""
    pairs = list(simplify_pairs(corpus.pairs(skipped), options.simplified_sides(), repaired))
    if not pairs:
        raise _unusable(corpus, skipped)
    return pairs


def _unusable(corpus: Corpus, skipped: LineTally) -> CorpusError:
    why = next(skipped.describe(), "the file has only a header")
    return CorpusError(corpus.spec.paths[0], f"no usable pair: {why}")


def hold_out_dev(
    options: PrepareOptions, store: PairStore, keys: SideKeys, dev: list[Pair], skipped: Sequence[LineTally]
) -> tuple[PairStore, list[Pair]]:
    """Separates training and development pairs, with no sentence in both; chooses `dev` if it is empty.

    Raises ValueError if no pair is left for training.
    """
    if dev:
        # Training pairs have been cleaned and these have not, so both forms of a pair count as known.
        dev_keys = SideKeys.of([*dev, *repaired_pairs(dev, options.cleaning())])
    else:
        own = store.corpora < len(options.pairs)  # [pairs]
        require(int(own.sum()) > 1, "there is only one pair: holding it out leaves none to train on")
        wanted = options.dev_size or default_dev_size(
            int(own.sum()), MIN_FINETUNING_DEV_PAIRS if options.vocabulary else 1
        )
        chosen = np.zeros(len(own), np.bool_)
        chosen[own] = choose_dev_pairs(keys[own], min(wanted, max(1, int(own.sum()) - 1)), options.seed)
        dev = [store.pairs[index] for index in chosen.nonzero()[0].tolist()]
        dev_keys, keys = keys[chosen], keys[~chosen]
        store = store.keep(~chosen, skipped, HELD_OUT)
    store = store.keep(~keys.sharing_a_side(dev_keys), skipped, IN_DEVELOPMENT)
    left = store.corpora < len(options.pairs)
    require(bool(left.any()), "no pair is left to train on: every one shares a sentence with the development set")
    return store, dev


def apply_limit(options: PrepareOptions, store: PairStore, skipped: Sequence[LineTally]) -> PairStore:
    """Keeps `options.limit` of the user's pairs, and all mixed ones. A lower limit keeps a subset of a higher one."""
    own = (store.corpora < len(options.pairs)).nonzero()[0]
    if options.limit is None or len(own) <= options.limit:
        return store
    kept = np.ones(len(store.pairs), np.bool_)
    kept[np.random.default_rng(options.seed).permutation(own)[options.limit :]] = False
    return store.keep(kept, skipped, "beyond --limit")


def reweight_mixed(options: PrepareOptions, store: PairStore, corpora: Sequence[Corpus]) -> list[Corpus]:
    """`corpora`, with each mixed one weighted so that an epoch draws as many pairs as requested."""
    count = [store.count(number) for number in range(len(corpora))]
    own = sum(count[number] * corpora[number].spec.weight for number in range(len(options.pairs)))
    weighted = list(corpora[: len(options.pairs)])
    for number, corpus in enumerate(corpora[len(options.pairs) :], len(options.pairs)):
        weight = corpus.spec.weight * own / max(1, count[number])
        if options.rehearsal and number == len(corpora) - 1:
            weight = min(weight, MAX_REHEARSAL_WEIGHT)
        weighted.append(dataclasses.replace(corpus, spec=dataclasses.replace(corpus.spec, weight=round(weight, 6))))
    return weighted


def progress(items: Iterable[Item], what: str) -> Iterable[Item]:
    """`items`, with a progress bar if the output is a terminal."""
    progress: Iterable[Item] = tqdm(items, desc=what, unit=" pairs", unit_scale=True, leave=False, disable=None)
    return progress


def chunk_progress(found: Iterable[Item], store: PairStore, what: str) -> Iterable[Item]:
    """`found`, one result per chunk of the store, with a progress bar in pairs if the output is a terminal."""
    with tqdm(desc=what, total=len(store.pairs), unit=" pairs", unit_scale=True, leave=False, disable=None) as bar:
        for item in found:
            yield item
            bar.update(min(CHUNK_PAIRS, len(store.pairs) - bar.n))
