"""Compiles the kernels of `model.triton`, and that of the training loss, for a card that is not here.

Runs the encoder and a step with every launch replaced by a compilation of the kernel for the arguments that it is
launched with. Prints a line for each: name, bytes of shared memory, instruction of its products; and the number of
launches of the encoder, and with those of a step.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from model.config import ModelConfig
from model.hypothesis import Limits
from model.transformer import Transformer
from model.triton.network import Network, StepBuffers
from model.triton.state import DeviceState
from training.optim import triton_cross_entropy

KINDS = {
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.float32: "*fp32",
    torch.int32: "*i32",
    torch.int64: "*i64",
}
LAUNCH_OPTIONS = ("num_warps", "num_stages")


def compile_launch(kernel: Any, target: GPUTarget, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Compiles `kernel` as the first launch with these arguments would."""
    options = {name: named.pop(name) for name in LAUNCH_OPTIONS if name in named}
    given = {**dict(zip(kernel.arg_names, arguments, strict=False)), **named}
    signature: dict[str, str] = {}
    constants: dict[str, Any] = {}
    divisible = {}
    for number, (name, parameter) in enumerate(zip(kernel.arg_names, kernel.params, strict=True)):
        value = given[name]
        if parameter.is_constexpr or value is None:
            signature[name], constants[name] = "constexpr", value
        elif isinstance(value, torch.Tensor):
            signature[name], divisible[number,] = KINDS[value.dtype], [["tt.divisibility", 16]]
        else:
            signature[name] = "i32" if isinstance(value, int) else "fp32"
    source = ASTSource(kernel, signature=signature, constexprs=constants, attrs=divisible)
    return triton.compile(source, target=target, options=options)


def main(architecture: int, kernels: Collection[str] = ()) -> None:
    """`kernels`: the names of those to compile, each once; empty for all, for all kinds of arguments."""
    target, done, launches = GPUTarget("cuda", architecture, 32), set(), 0
    left = set(kernels)

    def run(kernel: Any, *arguments: Any, grid: Any, warmup: bool, **named: Any) -> None:
        nonlocal launches
        launches += 1
        if kernels and kernel.__name__ not in left:
            return
        left.discard(kernel.__name__)
        compiled = compile_launch(kernel, target, arguments, named)
        if compiled.hash not in done:
            done.add(compiled.hash)
            found = next((name for name in ("wgmma", "mma.sync") if name in compiled.asm["ptx"]), "none")
            print(kernel.__name__, compiled.metadata.shared, found, flush=True)

    JITFunction.run = run
    shape: dict[str, Any] = {"d_model": 128, "num_heads": 2, "d_ff": 256, "encoder_layers": 6, "decoder_layers": 2}
    model = Transformer(ModelConfig(300, 300, **shape)).eval().half()
    network = Network(model)
    state = DeviceState(model.config, 64, Limits(max_source=20, max_target=20), torch.device("cpu"), torch.float16)
    network.encode([[5, 6, 7]], [0], state)
    print("encoder", launches, "launches")
    network.step(state, StepBuffers(network, state), 64)
    print("both", launches, "launches")
    recurrent = Transformer(replace(model.config, decoder="ssru")).eval().half()
    network = Network(recurrent)
    state = DeviceState(recurrent.config, 64, Limits(max_source=20, max_target=20), state.device, torch.float16)
    network.step(state, StepBuffers(network, state), 64)


def compile_loss() -> None:
    """Compiles the training loss's kernel for an H100; prints its name and the size of its machine code."""
    rows = torch.zeros(3, 70, dtype=torch.bfloat16), torch.zeros(3, dtype=torch.int64), torch.zeros(3), torch.zeros(3)
    options = {"WITH_GRADIENT": True, "BLOCK": 128, "num_warps": 8}
    target = GPUTarget("cuda", 90, 32)
    compiled = compile_launch(triton_cross_entropy.cross_entropy_kernel, target, (*rows, 70, 70, 0.1), options)
    print(triton_cross_entropy.cross_entropy_kernel.__name__, len(compiled.asm["cubin"]))
