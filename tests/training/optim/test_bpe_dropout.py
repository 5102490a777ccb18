"""BPE-dropout in training: every epoch tokenises the same pairs differently, and the same seed gives the same
tokens."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch
from shared_fixtures import SENTENCES, small_config

from model.tokenizer import RESERVED_SYMBOLS, Tokenizer, Tokenizers
from training.data.batches import Batch, Pairs, Position, batches_from
from training.data.vocabulary import train_vocabulary
from training.optim.bpe_dropout import BPEDropout, resegmenter
from training.optim.trainer import Recipe

TOKENIZER = Tokenizer(train_vocabulary(SENTENCES, 400, ["en", "fr"], threads=1))
CONFIG = small_config(TOKENIZER.vocab_size)
PAIRS = Pairs.of(
    [TOKENIZER.encode_parts([number % RESERVED_SYMBOLS, " ", SENTENCES[number % 6]]) for number in range(40)],
    [TOKENIZER.encode(SENTENCES[(number + 1) % 6]) for number in range(40)],
)
ROWS = np.array([7, 0, 39, 7])


def sampling(dropout: float = 0.3, seed: int = 1, longest: int = 500) -> BPEDropout:
    return BPEDropout(TOKENIZER, dropout, seed, longest)


def sides(pairs: Pairs) -> list[list[int]]:
    rows = np.arange(len(pairs))
    return pairs.source.sequences(rows) + pairs.target.sequences(rows)


def test_rehearsed_pairs_stay_marked() -> None:
    rehearsing = replace(PAIRS, rehearsed=np.arange(40) == 39)
    drawn = sampling()(rehearsing, ROWS, Position()).rehearsed
    assert drawn is not None and drawn.tolist() == [False, False, True, False]
    assert sampling()(PAIRS, ROWS, Position()).rehearsed is None


def test_pairs_are_those_of_the_rows_in_other_tokens() -> None:
    stored = PAIRS.source.sequences(ROWS) + PAIRS.target.sequences(ROWS)
    drawn = sides(sampling()(PAIRS, ROWS, Position()))
    assert drawn != stored
    assert drawn[0] != drawn[3]
    assert [TOKENIZER.decode(ids) for ids in drawn] == [TOKENIZER.decode(ids) for ids in stored]
    assert [ids[1] for ids in drawn[:4]] == [TOKENIZER.reserved_ids[number] for number in (7, 0, 39 % 32, 7)]


def test_draws_depend_on_seed_and_position_alone() -> None:
    first = sides(sampling()(PAIRS, ROWS, Position(2, 5)))
    others = [
        sides(sampling(seed=seed)(PAIRS, ROWS, Position(*at))) for seed, at in ((1, (2, 6)), (1, (3, 5)), (2, (2, 5)))
    ]
    assert first not in others
    assert sides(sampling()(PAIRS, ROWS, Position(2, 5))) == first


def test_side_that_would_be_too_long_keeps_its_stored_tokens() -> None:
    stored = PAIRS.source.sequences(ROWS) + PAIRS.target.sequences(ROWS)
    longest = max(map(len, stored))
    free, bound = (sides(sampling(0.9, longest=limit)(PAIRS, ROWS, Position())) for limit in (500, longest))
    assert max(map(len, free)) > longest >= max(map(len, bound))
    for kept, drawn, old in zip(bound, free, stored, strict=True):
        assert kept == (drawn if len(drawn) <= longest else old)


def test_segmentations_and_their_symbol_fit_the_positions() -> None:
    longest = max(map(len, PAIRS.source.sequences(ROWS) + PAIRS.target.sequences(ROWS)))
    config = small_config(TOKENIZER.vocab_size, max_positions=longest + 1)
    resegment = resegmenter(Recipe(steps=1, bpe_dropout=0.5), config, Tokenizers.joint(TOKENIZER))
    assert resegment is not None
    drawn = {len(side) for batch in range(50) for side in sides(resegment(PAIRS, ROWS, Position(0, batch)))}
    assert max(drawn) == longest
    assert resegmenter(Recipe(steps=1), config, Tokenizers.joint(TOKENIZER)) is None


def equal(ours: Batch, theirs: Batch) -> bool:
    return all(torch.equal(getattr(ours, name), getattr(theirs, name)) for name in ("src", "tgt_in", "tgt_out"))


def test_epochs_differ_and_resuming_at_a_position_draws_the_same() -> None:
    position = Position()
    batches = batches_from(PAIRS, CONFIG, 100, 1, position, resegment=sampling())
    seen = list(islice(batches, 3))
    assert position.epoch == 0
    later = batches_from(PAIRS, CONFIG, 100, 1, Position(0, 3), resegment=sampling())
    assert all(equal(ours, theirs) for ours, theirs in islice(zip(batches, later, strict=False), 40))
    assert position.epoch > 0
    again = batches_from(PAIRS, CONFIG, 100, 1, Position(), resegment=sampling())
    assert all(equal(ours, theirs) for ours, theirs in zip(seen, again, strict=False))
    plain = batches_from(PAIRS, CONFIG, 100, 1, Position())
    assert not any(equal(ours, theirs) for ours, theirs in zip(seen, plain, strict=False))


@pytest.mark.parametrize("parts", [2, 3])
def test_parts_of_a_batch_draw_the_same_segmentations(parts: int) -> None:
    whole, *some = (
        next(batches_from(PAIRS, CONFIG, 100, 1, Position(), part, count, sampling()))
        for part, count in [(0, 1), *((part, parts) for part in range(parts))]
    )
    assert {batch.target_tokens for batch in some} == {whole.target_tokens}
    drawn = sorted(ids for batch in some for ids in unpadded(batch))
    assert drawn == sorted(unpadded(whole))


def unpadded(batch: Batch) -> list[tuple[list[int], list[int]]]:
    def each(ids: torch.Tensor) -> list[list[int]]:
        return [row[row != CONFIG.pad_id].tolist() for row in ids]

    return list(zip(each(batch.src), each(batch.tgt_out), strict=True))
