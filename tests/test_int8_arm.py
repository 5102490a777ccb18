"""The int8 kernels on ARM, under an emulator: the same bits as on this machine."""

from __future__ import annotations

import shutil
import subprocess
from array import array
from pathlib import Path

import pytest

from model.bundle_files import WEIGHTS, read_bundle
from model.config import ModelConfig
from model.decoding import decode_all
from model.hypothesis import Hypothesis, Limits
from model.int8.backend import Int8Backend
from model.int8.isa import INSTRUCTION_SETS
from model.int8.library import FLAGS, library
from model.int8.weights import Layout, packed, read_weights

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
BUNDLE = Path(__file__).parents[1] / "bundles" / "en-fr"
HARNESS = Path(__file__).with_name("int8_harness.c")

pytestmark = [
    pytest.mark.bundle,
    pytest.mark.slow,
    pytest.mark.skipif(
        not (shutil.which(COMPILER) and shutil.which(EMULATOR)), reason=f"there is no {COMPILER} or no {EMULATOR}"
    ),
]


@pytest.mark.parametrize("name", ["i8mm", "dotprod", "generic"])
def test_arm_decodes_a_bundles_samples_to_the_same_bits(name: str, tmp_path: Path) -> None:
    config, files = read_bundle(BUNDLE)
    limits, weights = Limits(**config["limits"]), read_weights(files[WEIGHTS])
    architecture = ModelConfig.from_dict(config["architecture"])
    sources = [sample["source_ids"] for sample in config["samples"]]

    [isa] = [isa for isa in INSTRUCTION_SETS if isa.name == name]
    program = tmp_path / "harness"
    command = [
        COMPILER,
        "-static",
        *FLAGS,
        *isa.flags,
        f"-DISA_{name.upper()}",
        "-o",
        str(program),
        str(HARNESS),
        "-lm",
    ]
    command.remove("-shared")
    subprocess.run(command, check=True)
    emulated = [EMULATOR, "-cpu", "max", str(program)]
    layout = Layout(*map(int, subprocess.check_output(emulated, text=True).split()))
    (tmp_path / "weights").write_bytes(b"".join(packed(weights, architecture, layout, library("generic"))))
    lines = [" ".join(map(str, (limits.target(len(ids)), *ids, architecture.eos_id))) for ids in sources]
    (tmp_path / "sources").write_text("\n".join(lines) + "\n")
    sizes = [str(limits.max_source + 1), str(limits.max_target + 1)]
    printed = subprocess.check_output(
        [*emulated, str(tmp_path / "weights"), str(tmp_path / "sources"), *sizes], text=True
    )

    here = [Hypothesis(ids, limits.target(len(ids))) for ids in sources]
    decode_all(Int8Backend.pack(weights, architecture, "generic").new_batch(32, limits), here)
    assert printed.splitlines() == [
        " ".join((*map(str, h.tokens), *(f"{bits:08x}" for bits in array("I", array("f", h.log_probs).tobytes()))))
        + " "
        for h in here
    ]
