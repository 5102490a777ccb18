"""The Triton engine in Triton's interpreter, and its kernels compiled for cards that are not here.

The checks are in `triton_kernel_checks` and `triton_batch_checks`; `test_cuda.py` runs them on a GPU.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from model.config import named_architecture
from model.triton.support import missing_support

TESTS = Path(__file__).resolve().parents[2] / "support"
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="needs Triton (1 GB), which PyTorch's builds for CUDA bring"
)


def run(program: str, **environment: str) -> str:
    """The output of a program in a process of its own: Triton reads the variable when a kernel is defined."""
    paths = [str(TESTS.parent.parent), str(TESTS), *sys.path]
    command, given = [sys.executable, "-W", "ignore", "-c", program], {**os.environ, **environment}
    given["PYTHONPATH"] = os.pathsep.join(paths)
    result = subprocess.run(command, env=given, capture_output=True, text=True, timeout=900)
    assert result.returncode == 0, f"{result.stdout.splitlines()[-1:]}: {result.stderr[-3000:]}"
    return result.stdout


def checks_in(module: str) -> list[str]:
    """The names in `CHECKS` of a module that cannot be imported without Triton."""
    tree = ast.parse((TESTS / f"{module}.py").read_text(encoding="utf-8"))
    [names] = [n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "CHECKS"]
    return [ast.unparse(name) for name in names.elts] if isinstance(names, ast.Tuple) else []


@needs_triton
@pytest.mark.slow
def test_kernels_compute_what_pytorch_does_in_float64_and_batches_what_decode_batch_does() -> None:
    first = int.from_bytes(os.urandom(2), "big") if "CI" not in os.environ else 1
    program = "import triton_interpreter, triton_kernel_checks, triton_batch_checks\n"
    program += "for check in triton_kernel_checks.CHECKS:\n"
    program += (
        f"    for seed in range({first}, {first} + 2): print(check.__name__, seed, flush=True); check('cpu', seed)\n"
    )
    program += "for check in triton_batch_checks.CHECKS: print(check.__name__, flush=True); check('cpu', 1)"
    done = [line.split()[0] for line in run(program, TRITON_INTERPRET="1").splitlines()]
    kernels = [name for name in checks_in("triton_kernel_checks") for _ in range(2)]
    assert done == kernels + checks_in("triton_batch_checks")


PRODUCTS = "project", "feed_forward", "recurrence", "vocabulary"
"""Kernels whose products of matrices an H100 has other instructions for; the others become the same on both."""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[int | str, str]:
    """What was compiled for an A100 and an H100, with the assembler that Triton brings."""
    program = "import triton_compilation\ntriton_compilation.main(80)\nprint('---')\n"
    program += f"triton_compilation.main(90, {PRODUCTS})\nprint('---')\ntriton_compilation.compile_loss()"
    unoptimised = {"DISABLE_PTXAS_OPT": "1", "TRITON_DISABLE_LINE_INFO": "1"}  # for nothing runs here
    a100, h100, loss = run(program, TRITON_CACHE_DIR=str(tmp_path_factory.mktemp("triton")), **unoptimised).split(
        "---\n"
    )
    return {80: a100, 90: h100, "loss": loss}


@needs_triton
@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "product"), [(80, "mma.sync"), (90, "wgmma")])
def test_kernels_compile_for_a_card(architecture: int, product: str, compiled: dict[int | str, str]) -> None:
    all_lines = [line.split() for line in compiled[architecture].splitlines()]
    counts = {words[0]: int(words[1]) for words in all_lines if words[2] == "launches"}
    assert counts == {"encoder": 33, "both": 33 + 15}, "docs/engine.md has these numbers"
    lines = [words for words in all_lines if words[0] not in counts]
    used = {name: instruction for name, _, instruction in lines}
    assert {used[name] for name in PRODUCTS} == {product}
    if architecture == 80:
        others = "embed", "combine", "encoder_attention", "self_attention", "cross_attention", "append"
        assert set(used) == {*PRODUCTS, *others}
        assert used["self_attention"] == used["cross_attention"] == "mma.sync"
    assert max(int(shared) for _, shared, _ in lines) <= 100_000  # bytes, of which a block of an A100 may have 163 KiB


@needs_triton
@pytest.mark.slow
def test_the_losss_kernel_compiles_for_an_h100(compiled: dict[int | str, str]) -> None:
    """Triton from 3.9 on reads the annotations of a kernel's parameters, which the interpreter does not."""
    name, size = compiled["loss"].split()
    assert (name, int(size) > 0) == ("cross_entropy_kernel", True)


@pytest.mark.parametrize(
    ("architecture", "fields", "reason"),
    [
        ("student", {}, None),
        ("small", {"num_heads": 1}, "its heads are 256 wide, and 128 is the most"),
        ("small", {"d_model": 8192, "num_heads": 64}, "it is 8192 wide, and 4096 is the most"),
        ("small", {}, None),
    ],
)
def test_what_does_not_fit_has_a_reason(
    architecture: str, fields: dict[str, int], reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = named_architecture(architecture, source_vocab_size=50, target_vocab_size=50, **fields)
    monkeypatch.setattr("model.triton.support.importlib.util.find_spec", lambda name: object())
    assert missing_support(config) == reason
    monkeypatch.setattr("model.triton.support.importlib.util.find_spec", lambda name: None)
    assert missing_support(config) == "Triton is not installed"
