"""The alignment head of a run's bundle, learnt from the pairs that the run was trained on."""

from __future__ import annotations

import numpy as np

from model.transformer import AlignmentHead, Transformer
from training.align.head import with_alignment_head
from training.align.learn import Aligned, Say, align
from training.align.statistical import TokenPair
from training.export.run_folder import TrainedRun

MIN_PAIRS_AGAIN = 20_000
"""Pairs from which on a fine-tuned bundle learns a new head: the one that it started with may have learnt from more."""
MAX_PAIRS = 100_000
"""Pairs to learn from, drawn as an epoch draws them."""
_SEED = 1


def align_run(run: TrainedRun, model: Transformer, initial: AlignmentHead | None, say: Say) -> Aligned:
    """`model`, which `run` trained, with an alignment head, if its pairs are enough to learn one from; else with the
    one of the bundle that it fine-tunes, `initial`, if that has one."""
    # A head for several directions would have to learn from pairs of all.
    if not any(run.direction.prefixes) and (initial is None or len(run.pairs) >= MIN_PAIRS_AGAIN):
        aligned = align(model, run.tokenizers, run.summary.target, *_pairs(run), say)
        if aligned is not None:
            return aligned
    return Aligned(with_alignment_head(model, initial), {"of_initial_bundle": True} if initial else {})


def _pairs(run: TrainedRun) -> tuple[list[TokenPair], list[TokenPair]]:
    """Pairs to learn from, and the development pairs."""
    weights = run.pairs.weights
    drawn = min(MAX_PAIRS, int(np.count_nonzero(weights)))
    rows = np.random.default_rng(_SEED).choice(len(run.pairs), drawn, replace=False, p=weights / weights.sum())
    learnt = zip(run.pairs.source.sequences(rows), run.pairs.target.sequences(rows), strict=True)
    return list(learnt), [run.tokenizers.encode_pair(pair.source, pair.target) for pair in run.development()]
