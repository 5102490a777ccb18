"""model/int8/: the int8 kernels on ARM, under an emulator: the same bits as on this machine."""

from __future__ import annotations

import shutil
import subprocess
from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest

from model.bundle_files import ALIGNMENT, WEIGHTS, read_bundle
from model.config import ModelConfig
from model.decoding import decode_all
from model.hypothesis import Hypothesis, Limits
from model.int8.backend import Int8Backend
from model.int8.isa import INSTRUCTION_SETS
from model.int8.library import FLAGS, library
from model.int8.weights import Layout, Weights, packed, read_weights
from tests.model.int8.test_kernels import LIMITS, RECURRENT, make_model, random_sources

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
BUNDLE = Path(__file__).parents[3] / "bundles" / "en-de"
Ids = Sequence[int]
HARNESS = Path(__file__).parents[2] / "support" / "int8_harness.c"

pytestmark = [
    pytest.mark.bundle,
    pytest.mark.slow,
    pytest.mark.skipif(
        not (shutil.which(COMPILER) and shutil.which(EMULATOR)), reason=f"there is no {COMPILER} or no {EMULATOR}"
    ),
]


@pytest.fixture(scope="module", params=["i8mm", "dotprod", "generic"])
def harness(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the harness for an instruction set, under the emulator."""
    [isa] = [isa for isa in INSTRUCTION_SETS if isa.name == request.param]
    program = str(tmp_path_factory.mktemp("harness") / isa.name)
    flags = [flag for flag in (*FLAGS, *isa.flags, "-fwhole-program") if flag != "-shared"]
    if isa.name == "generic":  # no service on ARM runs plain C, and optimising it takes six times as long
        flags.append("-O0")
    command = [COMPILER, "-static", *flags, f"-DISA_{isa.name.upper()}", "-o", program, str(HARNESS), "-lm"]
    subprocess.run(command, check=True)
    return [EMULATOR, "-cpu", "max", program]


def check_same_bits(
    harness: list[str], weights: Weights, config: ModelConfig, sources: Sequence[Ids], limits: Limits, folder: Path
) -> None:
    """Compares the emulated kernels with those in plain C on this machine."""
    layout = Layout(*map(int, subprocess.check_output(harness, text=True).split()))
    (folder / "weights").write_bytes(b"".join(packed(weights, config, layout, library("generic"))))
    lines = [" ".join(map(str, (limits.target(len(ids)), *config.source_ids(ids)))) for ids in sources]
    (folder / "sources").write_text("\n".join(lines) + "\n")
    sizes = [str(limits.max_source + 1), str(limits.max_target + 1)]
    files = [str(folder / "weights"), str(folder / "sources")]
    printed = subprocess.check_output([*harness, *files, *sizes], text=True)

    here = [Hypothesis(ids, limits.target(len(ids))) for ids in sources]
    decode_all(Int8Backend.pack(weights, config, "generic").new_batch(32, limits), here)
    assert printed.splitlines() == [
        " ".join((*map(str, h.tokens), *(f"{bits:08x}" for bits in array("I", array("f", h.log_probs).tobytes()))))
        + " "
        for h in here
    ]
    assert len({tuple(h.tokens) for h in here}) > len(here) // 2


def test_arm_decodes_a_bundles_sample_to_the_same_bits(harness: list[str], tmp_path: Path) -> None:
    config, files = read_bundle(BUNDLE)
    architecture = ModelConfig.from_dict(config["architecture"])
    sources = [min((sample["source_ids"] for sample in config["samples"]), key=len)]  # an emulator is slow
    weights = {**read_weights(files[WEIGHTS]), **read_weights(files[ALIGNMENT])}
    check_same_bits(harness, weights, architecture, sources, Limits(**config["limits"]), tmp_path)


def test_arm_decodes_with_a_recurrent_decoder_to_the_same_bits(harness: list[str], tmp_path: Path) -> None:
    model = make_model(**RECURRENT)
    weights = {name: weight.detach().numpy() for name, weight in model.named_parameters()}
    check_same_bits(harness, weights, model.config, random_sources(12), LIMITS, tmp_path)
