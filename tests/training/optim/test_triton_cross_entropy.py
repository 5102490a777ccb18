"""The loss's Triton kernel in Triton's interpreter, against float64 and against PyTorch's way. `test_triton.py`
compiles it.

Triton comes with PyTorch's builds for CUDA; elsewhere `pip install triton` has these tests run. It weighs 1 GB, and is
therefore not among the dependencies of `make test`.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PATHS = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support"), *sys.path])
pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton (1 GB)")

SETUP = """
import math, random, triton_interpreter
import torch
from torch.nn import functional as F
from training.optim import triton_cross_entropy as kernel
from training.optim.loss import Projection, projected_loss

def wanted(logits, targets, smoothing):
    exact = logits.double().requires_grad_()
    log_probs = torch.log_softmax(exact, -1)
    nll = -log_probs.gather(-1, targets[:, None])[:, 0]
    loss = (1 - smoothing) * nll + (-log_probs.mean(-1) * smoothing if smoothing else 0)
    probs = log_probs.exp().detach()
    gradient = probs - smoothing / logits.size(1)
    gradient.scatter_add_(-1, targets[:, None], torch.full_like(nll[:, None].detach(), smoothing - 1))
    return loss.detach(), nll.detach(), gradient

def check(logits, targets, smoothing):
    expected = wanted(logits, targets, smoothing)
    untouched = logits.clone()
    for with_gradient in (False, True):
        loss, nll = kernel.cross_entropy_(logits, targets, smoothing, with_gradient)
        torch.testing.assert_close(loss.double(), expected[0], rtol=1e-5, atol=1e-5, equal_nan=True)
        torch.testing.assert_close(nll.double(), expected[1], rtol=1e-5, atol=1e-5, equal_nan=True)
        if not with_gradient:
            torch.testing.assert_close(logits, untouched, rtol=0, atol=0, equal_nan=True)
    # The interpreter cuts the last bits off to make bfloat16, where a GPU rounds. Of large logits, a difference has an
    # error of its own in float32, which the probability keeps.
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if logits.dtype == torch.float32 else {"rtol": 2**-7, "atol": 1e-6}
    torch.testing.assert_close(logits.double(), expected[2], **tolerance, equal_nan=True)

chooser = random.Random(SEED)
torch.manual_seed(SEED)
"""

RANDOM_SHAPES = """
kernel.MAX_BLOCK = 64  # several blocks a row, without the interpreter's taking minutes
for _ in range(12):
    tokens, vocabulary = chooser.randint(1, 9), chooser.randint(1, 300)
    dtype = chooser.choice([torch.bfloat16, torch.bfloat16, torch.float32])
    wide = torch.randn(tokens, vocabulary + chooser.randint(0, 5)) * chooser.choice([0.1, 3, 30])
    logits = wide.to(dtype)[:, :vocabulary]  # rows that do not follow each other in memory
    check(logits, torch.randint(vocabulary, (tokens,)), chooser.choice([0.0, 0.1]))
kernel.cross_entropy_(torch.empty(0, 7), torch.empty(0, dtype=torch.int64), 0.1, True)
"""

NOT_FINITE = """
kernel.MAX_BLOCK = 16
for smoothing in (0.0, 0.1):
    for value in (math.nan, math.inf, -math.inf):
        logits = torch.randn(6, 50).bfloat16()
        for row, places in enumerate(([3], [40], [0, 20, 49], range(16), range(50))):
            logits[row, list(places)] = value
        check(logits, torch.tensor([3, 9, 9, 20, 9, 9]), smoothing)
"""

PROJECTED = """
for smoothing in (0.0, 0.1):
    hidden = torch.randn(37, 12).bfloat16().requires_grad_()
    weight = torch.randn(50, 12).requires_grad_()
    targets = torch.randint(50, (37,))
    results = []
    for fused in (False, True):
        loss, nll = projected_loss(hidden, Projection(weight), targets, smoothing, chunk_logits=500, fused=fused)
        results.append((loss, nll, *torch.autograd.grad(loss * 0.25, [hidden, weight])))
    for plain, ours in zip(*results, strict=True):
        assert plain.dtype == ours.dtype
        torch.testing.assert_close(ours.float(), plain.float(), rtol=1e-2, atol=1e-2)
    with torch.no_grad():
        loss, _ = projected_loss(hidden, Projection(weight), targets, smoothing, fused=True)
    torch.testing.assert_close(loss, results[0][0].detach())
"""

TRUST = """
from training.optim import loss as loss_module
assert loss_module.kernel_works(torch.device("cpu"))
"""

PADDED_BATCH = """
import numpy as np
from model.config import ModelConfig
from training.data.batches import Pairs
from training.optim import loss as loss_module
from training.optim.trainer import Recipe, Trainer
config = ModelConfig(40, 40, d_model=16, num_heads=2, d_ff=32, encoder_layers=1, decoder_layers=1, dropout=0.0)
lengths = [1, 9, 4, 7]
pairs = Pairs.of([[5 + n % 30] * n for n in lengths], [[6 + n % 30] * (10 - n) for n in lengths])
trainer = Trainer(config, Recipe(steps=1, precision="bfloat16"), torch.device("cpu"))
batch = pairs.batch(np.arange(4), config)
plain = trainer.loss(batch, 0.1)
loss_module._is_fused = lambda hidden, output: hidden.dtype == torch.bfloat16
ours = trainer.loss(batch, 0.1)
assert (batch.tgt_out == config.pad_id).any()
for one, other in zip(ours, plain, strict=True):
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-4)
"""


CASES = {
    "random shapes": RANDOM_SHAPES,
    "not finite": NOT_FINITE,
    "projected": PROJECTED,
    "trust": TRUST,
    "padded batch": PADDED_BATCH,
}


@pytest.mark.slow
def test_kernel_gives_the_loss_and_gradient_of_float64() -> None:
    """In a process of its own: Triton reads the variable when a kernel is defined."""
    seed = int.from_bytes(os.urandom(2), "big") if "CI" not in os.environ else 1
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": PATHS}
    program = f"SEED = {seed}\n{SETUP}whole_block = kernel.MAX_BLOCK\n"
    for name, case in CASES.items():
        program += f"print({name!r}, flush=True)\nkernel.MAX_BLOCK = whole_block\n{case}"
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=900
    )
    assert result.returncode == 0, f"seed {seed}, {result.stdout.splitlines()[-1:]}: {result.stderr[-3000:]}"
    assert result.stdout.splitlines() == list(CASES)
