"""Measures what the heads of a bundle attend to, and whether attention says which source tokens matter.

    python -m benchmarks.heads --bundle bundles/en-fr

The model translates general sentences of its source language greedily, and is measured on its own translations.
docs/transformer-heads.md has results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.cores import processor
from benchmarks.table import Table
from model.bundle_weights import LoadedBundle, load_bundle
from model.decoding import greedy_decode
from model.transformer import AttentionRecord, Memory, Transformer
from training.corpora.general import general_sentences

PLACES = ("same", "previous", "next", "first", "last")
"""Keys relative to a query: at its own position, one before, one after; and the first and the last key of all."""
Weights = NDArray[np.float64]
"""[layer, head, query, key]"""


@dataclass
class Means:
    """Means over everything that is added."""

    total: NDArray[np.float64] | float = 0.0
    count: float = 0.0

    def add(self, values: NDArray[np.float64]) -> None:
        """Adds the values along the last axis."""
        self.total = self.total + values.sum(-1)
        self.count += values.shape[-1]

    @property
    def mean(self) -> NDArray[np.float64]:
        return np.asarray(self.total) / self.count


def places_of(weights: Weights) -> NDArray[np.float64]:
    """The weight that each query gives to each of PLACES, 0 where there is no such key, and the exponential of its
    entropy: the number of keys that it attends to, if it did so equally. [layer, head, place, query]"""
    queries, keys = weights.shape[2:]
    rows = np.arange(queries)
    found = []
    for columns in (rows, rows - 1, rows + 1, np.zeros_like(rows), np.full_like(rows, keys - 1)):
        there = (columns >= 0) & (columns < keys)
        found.append(np.where(there, weights[:, :, rows, np.where(there, columns, 0)], 0.0))
    logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    return np.stack([*found, np.exp(-(weights * logs).sum(-1))], axis=2)


def kendall(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Kendall's tau of two rankings without ties: 1 if they are the same, 0 if unrelated, -1 if reversed."""
    pairs = np.triu_indices(len(one), 1)
    signs = [np.sign(values[:, None] - values[None, :])[pairs] for values in (one, other)]
    return float((signs[0] * signs[1]).mean())


@dataclass
class Measured:
    """Figures of a model, summed up sentence by sentence."""

    heads: dict[str, Means] = field(default_factory=dict)
    """By kind of attention: means of `places_of` by layer and head."""
    end_values: Means = field(default_factory=Means)
    """Length of the value of `</s>` in cross-attention, relative to the mean of the others, by layer and head."""
    tau: Means = field(default_factory=Means)
    """Kendall's tau between attention and influence, per target token."""
    agreed: Means = field(default_factory=Means)
    """Whether the source token with the most attention has the most influence, per target token."""
    chance: Means = field(default_factory=Means)
    """The same for a source token drawn at random."""
    kept: dict[str, Means] = field(default_factory=dict)
    """By change of the cross-attention: whether a target token remains the most probable one."""


@torch.inference_mode()
def add_sentence(measured: Measured, model: Transformer, source: Sequence[int], target: Sequence[int]) -> None:
    """Measures one sentence, `source` with its end symbol, and its greedy translation `target` with its own."""
    src, out = torch.tensor([list(source)]), torch.tensor(list(target))
    tgt = torch.tensor([[model.config.bos_id, *target[:-1]]])
    record = AttentionRecord()
    logits = model.output(model.hidden(src, tgt, record))[0]  # [target, vocabulary]
    for kind, layers in (("encoder", record.encoder), ("decoder", record.decoder), ("cross", record.cross)):
        if layers:
            weights = torch.cat(layers).double().numpy()  # [layer, head, query, key]
            measured.heads.setdefault(kind, Means()).add(places_of(weights))

    attention = torch.cat(record.cross).mean((0, 1))[:, :-1].double().numpy()  # [target, source], without `</s>`
    influence = influences(model, src, tgt, out, logits)[:, :-1].double().numpy()  # [target, source]
    words = attention.shape[1]
    if words > 1:
        measured.tau.add(np.array([kendall(*rows) for rows in zip(attention, influence, strict=True)]))
        measured.agreed.add((attention.argmax(1) == influence.argmax(1)).astype(float))
        measured.chance.add(np.full(len(attention), 1 / words))

    encoded, mask = model.memory(model.encode(src)), model.source_mask(src)
    lengths = torch.cat([value for _, value in encoded]).norm(dim=-1).double().numpy()  # [layer, head, source]
    measured.end_values.add(lengths[:, :, -1:] / lengths[:, :, :-1].mean(-1, keepdims=True))
    for name, memory in changed(encoded).items():
        found = model.output(model.decode(tgt, memory, mask))[0].argmax(-1)
        measured.kept.setdefault(name, Means()).add((found == out).double().numpy())


def influences(model: Transformer, src: Tensor, tgt: Tensor, out: Tensor, logits: Tensor) -> Tensor:
    """By how many nats each target token is less probable if a source token is hidden from every attention, as padding
    is: [target, source]. This is leave-one-out, as Jain and Wallace (2019) measure influence."""
    length = src.size(1)
    hidden = src.repeat(length, 1).masked_fill(torch.eye(length, dtype=torch.bool), model.config.pad_id)
    without = model(hidden, tgt.repeat(length, 1)).log_softmax(-1)  # [source, target, vocabulary]
    before = logits.log_softmax(-1)
    places = torch.arange(len(out))
    lost: Tensor = (before[places, out] - without[:, places, out]).T  # [target, source]
    return lost


def changed(memory: Sequence[Memory]) -> dict[str, list[Memory]]:
    """The memory of each decoder layer such that cross-attention weights are other ones: equal, for keys of 0; or
    those of a permutation of the source, for permuted values."""
    uniform = [(torch.zeros_like(key), value) for key, value in memory]
    order = torch.randperm(memory[0][1].size(2), generator=torch.Generator().manual_seed(1))
    permuted = [(key, value[:, :, order]) for key, value in memory]
    found = {"unchanged": list(memory), "equal in all layers": uniform, "permuted in all layers": permuted}
    for number, layer in enumerate(uniform):
        found[f"equal in layer {number}"] = [*memory[:number], layer, *memory[number + 1 :]]
    return found


def measure(bundle: LoadedBundle, texts: Sequence[str]) -> Measured:
    measured = Measured()
    encoded = [bundle.source_tokenizer.encode_source(text) for text in texts]
    for hypothesis in greedy_decode(bundle.model, encoded, bundle.limits):
        source = bundle.architecture.source_ids(hypothesis.source)
        add_sentence(measured, bundle.model, source, hypothesis.tokens)
    return measured


def tables(measured: Measured) -> list[Table]:
    found = []
    for kind, means in measured.heads.items():
        table = Table(f"{kind}: mean weights of a query", [*PLACES, "keys"], note="keys is the exponential of entropy")
        for layer, heads in enumerate(means.mean):
            for head, places in enumerate(heads):
                table.rows[f"layer {layer}, head {head}"] = [round(float(place), 2) for place in places]
        found.append(table)
    ends = Table("length of the value of </s> in cross-attention, the others' being 1", ["value"])
    for layer, heads in enumerate(measured.end_values.mean):
        ends.rows.update({f"layer {layer}, head {head}": [float(length)] for head, length in enumerate(heads)})
    influence = Table("cross-attention against influence", ["value"], note=f"{measured.tau.count:,.0f} target tokens")
    influence.rows["Kendall's tau"] = [float(measured.tau.mean)]
    influence.rows["most attention has most influence"] = [float(measured.agreed.mean)]
    influence.rows["a random source token has"] = [float(measured.chance.mean)]
    kept = Table("target tokens that remain the best with other cross-attention weights", ["share"])
    kept.rows.update({name: [float(share.mean)] for name, share in measured.kept.items()})
    return [*found, ends, influence, kept]


def main(
    bundle: Annotated[Path, typer.Option(help="A bundle of one direction.")] = Path("bundles/en-fr"),
    sentences: Annotated[int, typer.Option(help="Number of general sentences.")] = 200,
    threads: Annotated[int, typer.Option(help="CPU threads.")] = 1,
) -> None:
    """Print what each head attends to, and how attention compares with the influence of source tokens."""
    torch.set_num_threads(threads)
    loaded = load_bundle(bundle, torch.device("cpu"))
    texts = general_sentences(loaded.source)[:sentences]
    print(f"{loaded.name}, {len(texts)} sentences, float32, {processor()}")
    for table in tables(measure(loaded, texts)):
        print("\n".join(table.lines()))


if __name__ == "__main__":
    typer.run(main)
