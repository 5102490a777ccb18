"""Measures target tokens a second on a GPU at large batches, against the limits of its memory and arithmetic.

    python -m benchmarks.gpu --rows 256 --rows 1024

Random weights of a named architecture, forced targets of equal length, so that every row of every step counts. The
roofline (Williams et al. 2009): bytes and operations of a step are counted, the two ceilings measured by a large copy
and a large product on the same device. A step's time includes the CPU's work for each row, about a microsecond of
Python, which may bound a small model from some hundred rows on. **It has never run on a GPU**; it also runs on a CPU,
as in its test.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Annotated

import torch
import typer

from benchmarks.cores import processor
from model.backends import prepare
from model.config import ModelConfig, named_architecture
from model.decoding.batch import Backend
from model.decoding.cuda_graphs import CudaGraphDecoderState
from model.decoding.torch_backend import TorchBackend
from model.hypothesis import Hypothesis, Limits
from model.transformer import Transformer


@dataclass(frozen=True)
class Cost:
    """Bytes and operations of a decoding step, or of a second at the ceilings."""

    bytes: float
    operations: float

    def seconds(self, ceilings: Cost) -> float:
        """The minimum duration of a step, given the `ceilings` of a second."""
        return max(self.bytes / ceilings.bytes, self.operations / ceilings.operations)


def step_cost(config: ModelConfig, rows: int, keys: int, item: int) -> Cost:
    """Cost of a decoding step of `rows` rows with `keys` target keys and as many source keys.

    Weights are read once per step, keys and values once per row; a multiplication and an addition are two operations.
    """
    layer = 3 * config.d_model**2 + config.d_model**2 + 2 * config.d_model**2 + 2 * config.d_model * config.d_ff
    weights = config.decoder_layers * layer + config.d_model * config.target_vocab_size
    cached = config.decoder_layers * 2 * 2 * keys * config.d_model  # keys and values, of target and source
    return Cost(item * (weights + rows * cached), 2.0 * rows * (weights + cached))


def timed(work: Callable[[], object], device: torch.device, repeats: int = 5) -> float:
    """Seconds of `work`: the median of `repeats` runs after a warm-up."""
    seconds = []
    for _ in range(repeats + 1):
        began = perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds.append(perf_counter() - began)
    return statistics.median(seconds[1:])


def measured_ceilings(device: torch.device, dtype: torch.dtype, size: int) -> Cost:
    """Bytes a second of a copy, read and written, and operations a second of a product of matrices with side `size`."""
    x = torch.randn(size, size, device=device).to(dtype)
    large = x.repeat(16, 1)  # not zeros, which hardware may copy faster
    target = torch.empty_like(large)
    copy_s = timed(lambda: target.copy_(large), device)
    product_s = timed(lambda: x @ x, device)
    return Cost(2 * large.numel() * large.element_size() / copy_s, 2.0 * size**3 / product_s)


def decode_seconds(backend: Backend, rows: int, length: int, rounds: int) -> tuple[float, float]:
    """Seconds to encode `rows` sentences of `length` tokens, and to decode `length` tokens for each; medians.

    Decoding is greedy, as in serving, since forced decoding is another, slower path. The model never ends a sentence
    early.
    """
    limits = Limits(max_source=length, max_target=length)
    batch = backend.new_batch(rows, limits)
    encode, decode = [], []
    for _ in range(rounds + 1):
        hypotheses = [Hypothesis([5] * length, length) for _ in range(rows)]
        began = perf_counter()
        batch.admit(hypotheses)
        if backend.device == "cuda":
            torch.cuda.synchronize(backend.device)
        encoded = perf_counter()
        while batch.running:
            batch.step()
        encode.append(encoded - began)
        decode.append(perf_counter() - encoded)
    return statistics.median(encode[1:]), statistics.median(decode[1:])


class FixedShapeBackend(TorchBackend):
    """Decodes with a GPU's fixed shapes on a CPU too, so that the benchmark measures the same code everywhere."""

    def new_state(self, rows: int, limits: Limits) -> CudaGraphDecoderState:
        return CudaGraphDecoderState(self.model, rows, limits)


def main(
    architecture: Annotated[str, typer.Option(help="toy, tiny, small, base or student.")] = "small",
    vocabulary: int = 8_000,
    rows: Annotated[list[int], typer.Option(help="Batch size; repeatable.")] = [  # noqa: B006
        64,
        256,
        1024,
        4096,
    ],
    length: Annotated[int, typer.Option(help="Tokens of each source and each target.")] = 24,
    precision: Annotated[str, typer.Option(help="auto: half precision on a GPU.")] = "auto",
    rounds: int = 3,
    ceiling_size: Annotated[int, typer.Option(help="Side of the matrices for the measured peak.")] = 8_192,
) -> None:
    """Measure decoding at large batches against the roofline."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else processor()
    config = named_architecture(architecture, source_vocab_size=vocabulary, target_vocab_size=vocabulary)
    model = Transformer(config).eval().to(device)
    with torch.no_grad():  # a logit of 0 is never the highest, so every sentence reaches its limit
        model.output.weight[config.eos_id] = 0
    backend = prepare(model, precision) if device.type == "cuda" else FixedShapeBackend(model, tiled=False)
    dtype = getattr(torch, backend.precision)
    ceilings = measured_ceilings(device, dtype, ceiling_size)
    typer.echo(f"{name}, torch {torch.__version__}; {architecture} in {backend.precision}, {length} tokens in and out")
    typer.echo(
        f"measured ceilings: {ceilings.bytes / 1e9:,.0f} GB/s, {ceilings.operations / 1e12:,.2f} T operations/s\n"
    )
    typer.echo("  rows  target tokens/s  share decoding    step, us  roofline, us  bound by    % of roofline")
    for count in rows:
        encode_s, decode_s = decode_seconds(backend, count, length, rounds)
        cost = step_cost(config, count, length + 1, dtype.itemsize)
        least = cost.seconds(ceilings)
        bound = "bytes" if cost.bytes / ceilings.bytes >= least else "operations"
        tokens = count * length
        typer.echo(
            f"{count:6,}  {tokens / (encode_s + decode_s):15,.0f}  {decode_s / (encode_s + decode_s):14.0%}"
            f"  {decode_s / length * 1e6:10,.0f}  {least * 1e6:12,.1f}  {bound:>8}  {least * length / decode_s:15.1%}"
        )


if __name__ == "__main__":
    typer.run(main)
