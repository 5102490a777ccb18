"""model/int8/: products of the int8 kernels are exact, whatever the weights and inputs, for every instruction set."""

from __future__ import annotations

import platform
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from model.int8.isa import INSTRUCTION_SETS, InstructionSet, processor_features
from model.int8.library import FLAGS

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parents[2] / "support" / "int8_products.c"
ARM_COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
HERE = [isa for isa in INSTRUCTION_SETS if isa.runs_on(platform.machine(), processor_features())]
# AVX-VNNI, with its instruction in AVX-512's encoding.
if {"avx512vl", "avx512_vnni"} <= processor_features():
    HERE += [
        replace(isa, flags=(*isa.flags, "-DVNNI_AS_AVX512"))
        for isa in INSTRUCTION_SETS
        if isa.name == "avxvnni" and isa not in HERE
    ]
EMULATED = [isa for isa in INSTRUCTION_SETS if isa.machine == "aarch64"]


def run(isa: InstructionSet, compiler: str, folder: Path, emulator: tuple[str, ...] = ()) -> tuple[int, str]:
    """The program's exit status and output: 0 and nothing if all products are right."""
    # The rest of the kernels, which the program does not call, need not be compiled.
    flags = [flag for flag in (*FLAGS, *isa.flags, "-fwhole-program") if flag != "-shared"]
    program = folder / "products"
    compiled = [compiler, *flags, f"-DISA_{isa.name.upper()}", "-static", "-o", str(program), str(PROGRAM), "-lm"]
    subprocess.run(compiled, check=True)
    done = subprocess.run([*emulator, str(program)], stdout=subprocess.PIPE, text=True)
    return done.returncode, done.stdout


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize("isa", HERE, ids=lambda isa: isa.name)
def test_products_are_exact(isa: InstructionSet, tmp_path: Path) -> None:
    assert run(isa, "cc", tmp_path) == (0, "")


@pytest.mark.skipif(
    not (shutil.which(ARM_COMPILER) and shutil.which(EMULATOR)), reason=f"there is no {ARM_COMPILER} or no {EMULATOR}"
)
@pytest.mark.parametrize("isa", EMULATED, ids=lambda isa: isa.name)
def test_products_are_exact_on_arm(isa: InstructionSet, tmp_path: Path) -> None:
    assert run(isa, ARM_COMPILER, tmp_path, (EMULATOR, "-cpu", "max")) == (0, "")
