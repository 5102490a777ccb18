"""The GPU benchmark at a size for a processor: it runs, and its roofline equals one counted by hand."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from benchmarks.gpu import Cost, main, step_cost
from benchmarks.gpu_service import measure
from model.bundle_weights import LoadedBundle, save_bundle
from model.config import ModelConfig
from model.hypothesis import Limits

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def test_step_reads_its_weights_once_and_each_rows_keys() -> None:
    config = ModelConfig(10, 10, d_model=4, num_heads=2, d_ff=8, encoder_layers=1, decoder_layers=3)
    weights = 3 * (6 * 16 + 2 * 32) + 40
    cached = 3 * 4 * 5 * 4  # layers; keys and values, target and source; positions; width
    cost = step_cost(config, rows=7, keys=5, item=2)
    assert cost == Cost(2 * (weights + 7 * cached), 2 * 7 * (weights + cached))


def test_slower_of_two_limits_bounds_a_step() -> None:
    assert Cost(100, 30).seconds(Cost(50, 60)) == pytest.approx(2.0)
    assert Cost(10, 300).seconds(Cost(50, 60)) == pytest.approx(5.0)


OPTIONS = "--architecture toy --vocabulary 50 --length 3 --rounds 1 --ceiling-size 32 --rows 1 --rows 4"


def test_command_prints_a_line_for_each_number_of_rows_and_why_an_engine_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr("benchmarks.gpu.missing_support", lambda config: None)
    app = Typer()
    app.command()(main)
    result = CliRunner().invoke(app, OPTIONS.split(), catch_exceptions=False)
    assert result.exit_code == 0
    *lines, last = result.output.splitlines()[-3:]
    assert [line.split()[:2] for line in lines] == [["graph", "1"], ["graph", "4"]]
    assert last == "triton: not measured: it needs a GPU, or TRITON_INTERPRET=1"


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton, as PyTorch's builds for CUDA do")
def test_command_measures_the_triton_engine_and_its_kernels() -> None:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": paths}
    options = OPTIONS.replace("--length 3", "--length 1").replace("--rows 4", "").replace("toy", "d2l").split()
    program = "import triton_interpreter, runpy; from model.triton import batch\n"
    program += "batch.TritonBatch.__init__.__defaults__ = (1,)\n"  # a step a round: each target has one token
    program += "runpy.run_module('benchmarks.gpu', run_name='__main__')"
    command = [sys.executable, "-W", "ignore", "-c", program, *options]
    result = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]
    lines = result.stdout.splitlines()
    assert re.fullmatch(r"triton: self-test in [\d.]+ s: it agrees with PyTorch", lines[0])
    measured = [line.split() for line in lines if line.startswith("triton ")]
    assert [words[1] for words in measured] == ["1"]
    assert "triton, 1 rows: kernels of one encoding and 1 steps" in result.stdout


@pytest.mark.slow
def test_bundle_is_measured_over_http_and_beside_ctranslate2(
    bundle: LoadedBundle, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, few in (("LIST", 6), ("ALONE", 4), ("BATCHES", (4,))):
        monkeypatch.setattr(f"benchmarks.gpu_service.{name}", few)
    monkeypatch.setenv("INTERLINEAR_WORKERS", "1")
    record = {name: bundle.config[name] for name in ("source", "target", "samples")}
    save_bundle(tmp_path / "en-fr", bundle.model, bundle.source_tokenizer, Limits(128, 32), record, "")
    measure(tmp_path / "en-fr", "cpu", 8, http=True, peer=True)
    title, service, ours, theirs = capfd.readouterr().out.strip().splitlines()
    assert title.endswith("8 sentences of random words")
    assert re.fullmatch(r"cpu, over HTTP: answers .*target tokens/s; .*; 0 of 4 sentences differ from alone", service)
    assert re.fullmatch(r"Interlinear \(cpu, \w+, 64 rows\): [\d,]+ target tokens/s; alone [\d.]+ ms", ours)
    assert re.match(r"CTranslate2 .*: [\d,]+ target tokens/s; alone [\d.]+ ms", theirs)
