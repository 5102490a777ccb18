"""Aligns the tokens of a bundle: trains its alignment head, and measures it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from model.bundle_files import ALIGNMENT, TARGET_VOCABULARY, WEIGHTS, format_version
from model.bundle_weights import LoadedBundle, alignment_content, load_bundle
from model.machine import keep_freed_memory
from training.align.learn import MIN_PAIRS, Aligned, Say, align
from training.align.statistical import TokenPair
from training.compute import pick_device, use_threads
from training.evaluation.calibrate import write_config
from training.evaluation.evaluate import TestSet
from training.file_lock import lock_output
from training.options import DEVICE, Columns, Option


@dataclass(frozen=True)
class AlignOptions:
    """What to align, and by what."""

    bundle: Path
    """The bundle to change. Its other weights stay as they are."""
    pairs: Annotated[tuple[str, ...], Option(metavar="FILE")]
    """Sentence pairs to learn from, as those that it was trained on; given as for `evaluate`. Repeat for more."""
    test: Annotated[tuple[str, ...], Option(metavar="FILE")]
    """More pairs, to measure with; repeat for more."""
    columns: Columns = None
    limit: int = 40_000
    """Maximum number of pairs of each file."""
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
        if bundle.decoding.replace_unknowns:  # in an unknown token's place comes the word that it attends to most
            raise ValueError(f"{options.bundle} replaces unknown tokens by attention: a head could change translations")
        learnt, tests = (_read(texts, bundle, options) for texts in (options.pairs, options.test))
        if len(learnt) < MIN_PAIRS:
            raise ValueError(f"{len(learnt):,} pairs say too little of the words: {MIN_PAIRS:,} are needed")
        aligned = align(bundle.model, bundle.tokenizers, bundle.target, learnt, tests, say)
        if aligned is None:
            say(f"{options.bundle} stays as it is: nothing better than its cross-attention can be learnt")
            return
        _save(bundle, aligned)
    say(f"{options.bundle} aligns the words of its translations by what it has learnt")


def _read(texts: Iterable[str], bundle: LoadedBundle, options: AlignOptions) -> list[TokenPair]:
    found: list[TokenPair] = []
    for text in texts:
        pairs = TestSet.read(text, bundle.source, bundle.target, options.columns).pairs[: options.limit]
        found += (bundle.tokenizers.encode_pair(pair.source, pair.target) for pair in pairs)
    return found


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
