"""Trains a Transformer's alignment head, after everything else, on what a statistical model aligns.

Chen et al. 2020, "Accurate Word Alignment Induction from Neural Machine Translation" (SHIFT-AET): the other weights
are frozen, so that no translation changes. The statistical model knows each word only by those that it occurs with;
the head learns from what the Transformer knows of it in its sentence, and so aligns rare words too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from model.bundle_files import WEIGHTS, file_of
from model.config import ModelConfig
from model.transformer import AlignmentHead, AttentionRecord, Transformer
from model.weight_shapes import ALIGNMENT_HEAD
from training.align.statistical import NO_WORD, UNKNOWN, Integers, TokenPair

SIZE = 64
"""Width of queries and keys."""
MAX_TOKENS = 600_000
"""Tokens of either side to learn from: what the model knows of each is kept in memory, d_model numbers of 2 bytes."""
_EPOCHS, _MIN_STEPS, _PEAK_RATE, _WARMUP = 5, 600, 2e-3, 50
_BATCH = 128
_NO_WORD_WEIGHT = 0.15
"""Weight of a token that translates none: the statistical model leaves out some that translate one. With 0.05 an
article goes with its noun more often, and with 1 a word of the text has no translation more often."""


class _Known(NamedTuple):
    """What the frozen model makes of a pair, in half precision."""

    source: Tensor
    """[source, d_model]: the encoder's output, the end symbol's last if there is one."""
    target: Tensor
    """[target, d_model]: what the first decoder layer's cross-attention reads at the step that reads each token."""


def with_alignment_head(model: Transformer, head: AlignmentHead | None) -> Transformer:
    """A model that shares the weights of `model`, with this head in place of its own; None: without any."""
    size = head.query.out_features if head else 0
    weights = {name: weight for name, weight in model.named_parameters() if file_of(name) == WEIGHTS}
    weights |= head_weights(head)
    config = dataclasses.replace(model.config, alignment_size=size)
    return Transformer.with_weights(config, weights).to(model.output.weight.device).eval()


def head_weights(head: AlignmentHead | None) -> dict[str, nn.Parameter]:
    """The weights of a head by the names that a model has them under."""
    return {f"{ALIGNMENT_HEAD}.{name}": weight for name, weight in head.named_parameters()} if head else {}


def head_of(weights: Mapping[str, Tensor]) -> AlignmentHead | None:
    """The alignment head among a model's weights, if it has one."""
    its = {name.removeprefix(f"{ALIGNMENT_HEAD}."): weights[name] for name in weights if file_of(name) != WEIGHTS}
    if not its:
        return None
    size, width = its["query.weight"].shape
    head = AlignmentHead(width, size)
    head.load_state_dict(its)
    return head.requires_grad_(False)


def train_head(
    model: Transformer, pairs: Sequence[TokenPair], links: Sequence[Integers], seed: int = 1
) -> AlignmentHead:
    """Learns `links`, as `statistical.links` returns them for `pairs`, on the device of `model`. The end symbol stands
    for no word."""
    device, random = model.output.weight.device, np.random.default_rng(seed)
    chosen = _up_to(MAX_TOKENS, pairs, random.permutation(len(pairs)).tolist())
    pairs, links = [pairs[row] for row in chosen], [links[row] for row in chosen]
    known = _known(model, pairs)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        width = model.config.d_model
        head = AlignmentHead(width, min(SIZE, width)).to(device)
    optimizer = torch.optim.Adam(head.parameters(), lr=_PEAK_RATE)
    batches = list(_batches(pairs))
    epochs = max(_EPOCHS, -(-_MIN_STEPS // len(batches)))
    steps = epochs * len(batches)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / _WARMUP) * (1 - step / (steps + 1))
    )
    for _ in range(epochs):
        for number in random.permutation(len(batches)):
            rows = batches[number]
            scores, wanted = _scores(head, [known[row] for row in rows], [links[row] for row in rows])
            ends = torch.tensor([len(known[row].source) - 1 for row in rows], device=device)[:, None]
            if not model.config.source_eos:
                wanted = wanted.where(wanted != NO_WORD, UNKNOWN)
            weights = torch.where(wanted == NO_WORD, _NO_WORD_WEIGHT, (wanted != UNKNOWN).float())
            places = wanted.where(wanted != NO_WORD, ends).clamp_min(0)
            losses = F.cross_entropy(scores.flatten(0, 1), places.flatten(), reduction="none")
            loss = (losses * weights.flatten()).sum() / weights.sum().clamp_min(1)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    return head.requires_grad_(False)


def accuracy(model: Transformer, pairs: Sequence[TokenPair], links: Sequence[Integers]) -> tuple[float, float]:
    """The share of `links` that the model's alignment head gives as well, and that its cross-attention does without:
    at the step that generates the token, in the head that was trained to align, or the mean over all."""
    assert model.alignment is not None
    right = np.zeros(2)
    count = 0
    for rows in _batches(pairs):
        encoded, record = _record(model, [pairs[row] for row in rows])
        attention = _attention(model.config, record)  # [pairs, 1 + target, source]
        known = _known_of(encoded, record, [pairs[row] for row in rows], int(model.config.source_eos))
        scores, wanted = _scores(model.alignment, known, [links[row] for row in rows])
        for place, row in enumerate(rows):
            source, target = pairs[row]
            linked = wanted[place, : len(target)] >= 0
            ours = scores[place, : len(target)].argmax(-1)
            theirs = attention[place, : len(target), : len(source)].argmax(-1)
            right += [(found == wanted[place, : len(target)])[linked].sum().item() for found in (ours, theirs)]
            count += int(linked.sum())
    return float(right[0] / max(1, count)), float(right[1] / max(1, count))


def _attention(config: ModelConfig, record: AttentionRecord) -> Tensor:
    """The cross-attention that aligns without an alignment head, as `KVCache.record_attention` takes it."""
    if config.alignment_layer is not None:
        return record.cross[config.alignment_layer][:, config.alignment_head].float()
    return torch.stack([layer.float().mean(1) for layer in record.cross]).mean(0)


def _up_to(tokens: int, pairs: Sequence[TokenPair], order: Sequence[int]) -> list[int]:
    """The first of `order` that have so many tokens in either side together, at least one."""
    longest = np.cumsum([max(map(len, pairs[row])) for row in order])
    return [row for row, total in zip(order, longest, strict=True) if total <= tokens] or [order[0]]


def _batches(pairs: Sequence[TokenPair]) -> Iterator[list[int]]:
    """Rows of pairs that are about as long."""
    order = sorted(range(len(pairs)), key=lambda row: (len(pairs[row][0]), len(pairs[row][1])))
    for first in range(0, len(order), _BATCH):
        yield order[first : first + _BATCH]


@torch.inference_mode()
def _record(model: Transformer, pairs: Sequence[TokenPair]) -> tuple[Tensor, AttentionRecord]:
    """The encoder's output for these pairs, and what the model records of them, as a batch."""
    config, device = model.config, model.output.weight.device
    src = _padded([config.source_ids(source) for source, _ in pairs], config.pad_id).to(device)
    tgt = _padded([(config.bos_id, *target) for _, target in pairs], config.pad_id).to(device)
    record = AttentionRecord()
    encoded = model.encode(src)
    model.decode(tgt, model.memory(encoded), model.source_mask(src), record)
    return encoded, record


def _known_of(encoded: Tensor, record: AttentionRecord, pairs: Sequence[TokenPair], ends: int) -> list[_Known]:
    """`ends`: 1 if an end symbol follows the sources, else 0."""
    read = record.cross_inputs[0]
    return [
        _Known(encoded[row, : len(source) + ends].half(), read[row, 1 : 1 + len(target)].half())
        for row, (source, target) in enumerate(pairs)
    ]


def _known(model: Transformer, pairs: Sequence[TokenPair]) -> list[_Known]:
    found: dict[int, _Known] = {}
    for rows in _batches(pairs):
        some = [pairs[row] for row in rows]
        # Copies: otherwise each would keep the memory of its whole batch.
        made = _known_of(*_record(model, some), some, int(model.config.source_eos))
        parts = [_Known(*(part.clone() for part in known)) for known in made]
        found.update(zip(rows, parts, strict=True))
    return [found[row] for row in range(len(pairs))]


def _scores(head: AlignmentHead, known: Sequence[_Known], links: Sequence[Integers]) -> tuple[Tensor, Tensor]:
    """Scores of a batch [pairs, target, source], and the links as one tensor [pairs, target]; padding has none."""
    source, target = (pad_sequence([pair[side] for pair in known], batch_first=True).float() for side in (0, 1))
    scores = head(target, head.key(source)) / head.query.out_features**0.5
    lengths = torch.tensor([len(pair.source) for pair in known], device=scores.device)
    is_padding = torch.arange(scores.size(2), device=scores.device) >= lengths[:, None, None]
    wanted = _padded([link.tolist() for link in links], UNKNOWN).to(scores.device)
    return scores.masked_fill(is_padding, -1e9), wanted


def _padded(sequences: Sequence[Sequence[int]], value: int) -> Tensor:
    return pad_sequence([torch.tensor(ids) for ids in sequences], batch_first=True, padding_value=value)
