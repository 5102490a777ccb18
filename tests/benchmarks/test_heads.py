"""What heads attend to, and what is measured of attention's influence, on weights that are known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.heads import PLACES, Measured, add_sentence, changed, influences, kendall, measure, places_of, tables
from model.bundle_weights import LoadedBundle
from model.transformer import AttentionRecord

pytestmark = pytest.mark.slow

SENTENCES = ["Hello.", "How are you?", "The cat sleeps."]


def test_weights_are_sorted_by_the_place_of_the_key() -> None:
    previous = np.diag(np.ones(3), -1)
    previous[0, 3] = 1.0  # the first query has none before it
    uniform = np.full((4, 4), 0.25)
    found = places_of(np.stack([previous, uniform])[None])  # [1, 2, place, query]
    assert found.shape == (1, 2, len(PLACES) + 1, 4)
    means = found.mean(-1)[0]
    assert means[0] == pytest.approx([0, 0.75, 0, 0.25, 0.25, 1])
    assert means[1] == pytest.approx([0.25, 0.1875, 0.1875, 0.25, 0.25, 4])


def test_kendalls_tau_is_that_of_equal_reversed_and_half_reversed_rankings() -> None:
    ranks = np.array([1.0, 2.0, 3.0, 4.0])
    assert kendall(ranks, 10 * ranks) == 1
    assert kendall(ranks, -ranks) == -1
    assert kendall(ranks, np.array([2.0, 1.0, 4.0, 3.0])) == pytest.approx(1 / 3)


def test_influence_is_that_of_a_source_without_the_token(bundle: LoadedBundle) -> None:
    model, source, target = bundle.model, [10, 11, 12, 2], [20, 21, 2]
    src, out, tgt = torch.tensor([source]), torch.tensor(target), torch.tensor([[1, *target[:-1]]])
    with torch.inference_mode():
        found = influences(model, src, tgt, out, model(src, tgt)[0])
        without_last = torch.tensor([source[:-1]])
        expected = (model(src, tgt).log_softmax(-1) - model(without_last, tgt).log_softmax(-1))[0, range(3), out]
    assert found.shape == (3, 4)
    # Without the last token the others keep their positions, as they do when it is hidden.
    torch.testing.assert_close(found[:, -1], expected)


def test_changed_memories_have_equal_and_permuted_weights(bundle: LoadedBundle) -> None:
    model, src, tgt = bundle.model, torch.tensor([[10, 11, 12, 2]]), torch.tensor([[1, 20]])
    with torch.inference_mode():
        memories = changed(model.memory(model.encode(src)))
        records = {name: AttentionRecord() for name in memories}
        for name, memory in memories.items():
            model.decode(tgt, memory, model.source_mask(src), records[name])
    assert [name for name in memories if "layer 0" in name] == ["equal in layer 0"]
    for layer in range(2):
        equal = records["equal in all layers"].cross[layer]
        torch.testing.assert_close(equal, torch.full_like(equal, 0.25))
    before, after = memories["unchanged"][0][1][0, 0], memories["permuted in all layers"][0][1][0, 0]
    assert not after.equal(before)
    assert sorted(map(tuple, after.tolist())) == sorted(map(tuple, before.tolist()))


def test_a_bundle_is_measured_in_every_layer_and_head(bundle: LoadedBundle) -> None:
    measured = measure(bundle, SENTENCES)
    assert measured.kept["unchanged"].mean == 1
    assert {kind: means.mean.shape for kind, means in measured.heads.items()} == dict.fromkeys(
        ("encoder", "decoder", "cross"), (2, 2, len(PLACES) + 1)
    )
    assert -1 <= measured.tau.mean <= 1
    lines = [line for table in tables(measured) for line in table.lines()]
    assert sum("layer 1, head 1" in line for line in lines) == 4


def test_a_source_of_one_token_has_no_ranking(bundle: LoadedBundle) -> None:
    measured = Measured()
    add_sentence(measured, bundle.model, [10, 2], [20, 2])
    assert measured.tau.count == 0
    assert measured.kept["unchanged"].count == 2
