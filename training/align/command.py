"""Aligns the tokens of a bundle: trains its alignment head, and measures it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Annotated, Any, NamedTuple

from model.bundle_files import ALIGNMENT, TARGET_VOCABULARY, WEIGHTS, format_version
from model.bundle_weights import LoadedBundle, alignment_content, load_bundle
from model.machine import keep_freed_memory
from model.tokenizer import Tokenizers
from model.transformer import Transformer
from training.align.head import accuracy, train_head, with_alignment_head
from training.align.statistical import LONGEST, TokenPair, links
from training.compute import pick_device, use_threads
from training.evaluation.calibrate import write_config
from training.evaluation.evaluate import TestSet
from training.file_lock import lock_output
from training.options import DEVICE, Option

MIN_PAIRS = 1000
"""Fewer say too little of the words for a statistical model."""
MAX_CANDIDATES = 25_000_000
"""Of two tokens of a pair that may be aligned, which take some 60 bytes each."""
_SEED = 1
Say = Callable[[str], None]


class Aligned(NamedTuple):
    """A model with an alignment head, and what config.json records of it."""

    model: Transformer
    record: dict[str, Any]


@dataclass(frozen=True)
class AlignOptions:
    """What to align, and by what."""

    bundle: Path
    """The bundle to change. Its translations stay as they are."""
    pairs: Annotated[tuple[str, ...], Option(metavar="FILE")]
    """Sentence pairs to learn from, as those that it was trained on; given as for `evaluate`. Repeat for more."""
    test: Annotated[tuple[str, ...], Option(metavar="FILE")]
    """More pairs, to measure with; repeat for more."""
    columns: tuple[int, int] | None = None
    """The columns of source and target, counted from 1. (default: detected)"""
    limit: int = 40_000
    """Use so many pairs of each file at most."""
    device: Annotated[str, DEVICE] = "auto"
    threads: int | None = None
    """CPU threads. (default: one per core)"""


def align_bundle(options: AlignOptions, say: Say = print) -> None:
    """Trains the head and writes it, completely or not at all. Raises BundleError, CorpusError and ValueError."""
    use_threads(options.threads)
    keep_freed_memory()
    with lock_output(options.bundle):
        bundle = load_bundle(options.bundle, pick_device(options.device))
        bundle.check_plain()
        learnt, tests = (_read(texts, bundle, options) for texts in (options.pairs, options.test))
        aligned = align(bundle.model, bundle.tokenizers, bundle.target, learnt, tests, say)
        if aligned is None:
            raise ValueError(f"no alignment can be learnt from these {len(learnt):,} pairs: {MIN_PAIRS:,} are needed")
        _save(bundle, aligned)
    say(f"{options.bundle} aligns the words of its translations")


def _read(texts: Iterable[str], bundle: LoadedBundle, options: AlignOptions) -> list[TokenPair]:
    found: list[TokenPair] = []
    for text in texts:
        pairs = TestSet.read(text, bundle.source, bundle.target, options.columns).pairs[: options.limit]
        encoded = (bundle.tokenizers.encode_pair(pair.source, pair.target) for pair in pairs)
        found += (pair for pair in encoded if all(0 < len(side) <= LONGEST for side in pair))
    return found


def align(
    model: Transformer,
    tokenizers: Tokenizers,
    target: str,
    pairs: Sequence[TokenPair],
    tests: Sequence[TokenPair],
    say: Say = print,
) -> Aligned | None:
    """`model` with an alignment head that learnt from `pairs`, measured on `tests`; None if the pairs are too few, or
    cross-attention finds more of what a statistical model aligns in `tests`. `target`: the targets' language."""
    pairs = _within(MAX_CANDIDATES, Random(_SEED).sample(pairs, len(pairs)))
    if len(pairs) < MIN_PAIRS or not tests:
        return None
    words = [_word_numbers(tokenizers, ids, target) for _, ids in (*pairs, *tests)]
    vocab_size = max(model.config.source_vocab_size, model.config.target_vocab_size)
    linked = links([*pairs, *tests], vocab_size, words)
    bare = with_alignment_head(model, None)
    aligned = with_alignment_head(bare, train_head(bare, pairs, linked[: len(pairs)]))
    head, attention = accuracy(aligned, tests, linked[len(pairs) :])
    say(f"alignment: {head:.1%} of the links of {len(tests):,} pairs; by cross-attention alone {attention:.1%}")
    record = {
        "learnt_from_pairs": len(pairs),
        "measured_on_pairs": len(tests),
        "links_found": round(head, 4),
        "links_found_by_attention": round(attention, 4),
    }
    return Aligned(aligned, record) if head > attention else None


def _within(most: int, pairs: Sequence[TokenPair]) -> list[TokenPair]:
    """The first pairs whose tokens are so many candidates at most."""
    found, total = [], 0
    for source, target in pairs:
        total += len(source) * len(target)
        if total > most:
            break
        found.append((source, target))
    return found


def _word_numbers(tokenizers: Tokenizers, ids: Sequence[int], language: str) -> list[int]:
    words = tokenizers.target.words(ids, [0.0] * len(ids), language)
    return [number for number, (first, end, _) in enumerate(words) for _ in range(first, end)]


def _save(bundle: LoadedBundle, aligned: Aligned) -> None:
    """The other files stay as they are, but for the fields of config.json."""
    config = {**bundle.config, "architecture": aligned.model.config.to_dict(), "alignment": aligned.record}
    contents = {ALIGNMENT: alignment_content(aligned.model.cpu())}
    files = {
        name: (bundle.folder / name).read_bytes()
        for name in (WEIGHTS, TARGET_VOCABULARY)
        if (bundle.folder / name).exists()
    }
    write_config(bundle.folder, {**config, "format_version": format_version(config, files)}, contents)
