"""Measures both engines on a GPU: one sentence and large batches, against the limits of its memory and arithmetic.

    python -m benchmarks.gpu --http --peer

Random weights of a named architecture and targets of equal length, so that every row of every step counts. The
roofline (Williams et al. 2009): bytes and operations of a step are counted, the two ceilings measured by a large copy
and a large product on the same device. A step's time includes the CPU's work. Then the share of each kernel of the
Triton engine; `--http` the service, and `--peer` CTranslate2 with the bundle, see `benchmarks.gpu_service`. It is to
take less than four minutes on a card. The graph engine was measured on an H100; the Triton engine has **never run on a
GPU**. All of it also runs on a CPU, as in its test: the Triton engine if TRITON_INTERPRET=1, slowly.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
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
from model.triton.backend import TritonBackend
from model.triton.support import missing_support

BUNDLE = Path(__file__).resolve().parent.parent / "bundles" / "en-fr"


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


def engines(model: Transformer, precision: str, limits: Limits) -> dict[str, Backend | str]:
    """Each engine's backend, or why there is none."""
    is_cuda = model.output.weight.is_cuda
    graph = prepare(model, precision) if is_cuda else FixedShapeBackend(model, tiled=False)
    assert isinstance(graph, TorchBackend)
    reason = missing_support(model.config)
    if not (reason or is_cuda or os.environ.get("TRITON_INTERPRET") == "1"):
        reason = "it needs a GPU, or TRITON_INTERPRET=1"
    if reason:
        return {"graph": graph, "triton": reason}
    triton = TritonBackend(graph)
    began = perf_counter()
    reason = triton.failure(limits)
    typer.echo(f"triton: self-test in {perf_counter() - began:.1f} s: {reason or 'it agrees with PyTorch'}")
    return {"graph": graph, "triton": reason or triton}


def kernel_times(backend: Backend, rows: int, length: int) -> list[tuple[str, int, float]]:
    """Name, launches and microseconds of every kernel while `rows` sentences are encoded and decoded, longest first. On
    a CPU, of every operation of PyTorch."""
    batch, is_cuda = backend.new_batch(rows, Limits(max_source=length, max_target=length)), backend.device == "cuda"
    activity = torch.profiler.ProfilerActivity.CUDA if is_cuda else torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[activity]) as profile:
        batch.admit([Hypothesis([5] * length, length) for _ in range(rows)])
        while batch.running:
            batch.step()
    found = []
    for event in profile.key_averages():
        spent = event.self_device_time_total if is_cuda else event.self_cpu_time_total
        if spent > 0:
            found.append((event.key, event.count, float(spent)))
    return sorted(found, key=lambda kernel: -kernel[2])


def main(
    architecture: Annotated[str, typer.Option(help="toy, tiny, small, base or student.")] = "small",
    vocabulary: int = 8_000,
    rows: Annotated[list[int], typer.Option(help="Batch size; repeatable.")] = [  # noqa: B006
        1,
        64,
        512,
        1024,
        4096,
    ],
    length: Annotated[int, typer.Option(help="Tokens of each source and each target.")] = 24,
    precision: Annotated[str, typer.Option(help="auto: half precision on a GPU.")] = "auto",
    rounds: int = 3,
    ceiling_size: Annotated[int, typer.Option(help="Side of the matrices for the measured peak.")] = 8_192,
    http: Annotated[bool, typer.Option("--http", help="Measure the service with lists of sentences.")] = False,
    peer: Annotated[bool, typer.Option("--peer", help="Measure CTranslate2 with the bundle.")] = False,
    bundle: Annotated[Path, typer.Option(help="What --http and --peer decode.")] = BUNDLE,
    sentences: Annotated[int, typer.Option(help="Sentences of --http and --peer.")] = 8_000,
) -> None:
    """Measure decoding of one sentence and of large batches against the roofline."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else processor()
    config = named_architecture(architecture, source_vocab_size=vocabulary, target_vocab_size=vocabulary)
    model = Transformer(config).eval().to(device)
    with torch.no_grad():  # a logit of 0 is never the highest, so every sentence reaches its limit
        model.output.weight[config.eos_id] = 0
    backends = engines(model, precision, Limits(max_source=length, max_target=length))
    graph = backends["graph"]
    assert not isinstance(graph, str)
    dtype = getattr(torch, graph.precision)
    ceilings = measured_ceilings(device, dtype, ceiling_size)
    typer.echo(f"{name}, torch {torch.__version__}; {architecture} in {graph.precision}, {length} tokens in and out")
    typer.echo(
        f"measured ceilings: {ceilings.bytes / 1e9:,.0f} GB/s, {ceilings.operations / 1e12:,.2f} T operations/s\n"
    )
    typer.echo(
        "engine    rows  target tokens/s  share decoding    all, ms    step, us  roofline, us    bound by  of roofline"
    )
    for engine, backend in backends.items():
        if isinstance(backend, str):
            typer.echo(f"{engine}: not measured: {backend}")
            continue
        for count in rows:
            typer.echo(f"{engine:6}  {measured_line(backend, count, length, rounds, ceilings, dtype.itemsize)}")
    triton = backends["triton"]
    if not isinstance(triton, str):
        for count in (1, 1024) if device.type == "cuda" else rows[:1]:
            times = kernel_times(triton, count, length)
            total = sum(spent for _, _, spent in times)
            typer.echo(f"\ntriton, {count:,} rows: kernels of one encoding and {length} steps, {total:,.0f} us")
            for kernel, launches, spent in times[:14]:
                typer.echo(f"  {kernel[:40]:40}  {launches:6,} launches  {spent:10,.0f} us  {spent / total:6.1%}")
    if http or peer:  # which need the service's dependencies, or CTranslate2
        from benchmarks import gpu_service

        gpu_service.measure(bundle, device.type, sentences, http, peer)


def measured_line(backend: Backend, rows: int, length: int, rounds: int, ceilings: Cost, item: int) -> str:
    """What one size of batch takes, beside its roofline."""
    encode_s, decode_s = decode_seconds(backend, rows, length, rounds)
    cost = step_cost(backend.config, rows, length + 1, item)
    least = cost.seconds(ceilings)
    bound = "bytes" if cost.bytes / ceilings.bytes >= least else "operations"
    both_s = encode_s + decode_s
    return (
        f"{rows:6,}  {rows * length / both_s:15,.0f}  {decode_s / both_s:14.0%}  {both_s * 1e3:9,.2f}"
        f"  {decode_s / length * 1e6:10,.0f}  {least * 1e6:12,.1f}  {bound:>10}  {least * length / decode_s:13.1%}"
    )


if __name__ == "__main__":
    typer.run(main)
