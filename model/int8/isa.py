"""Instruction sets that the int8 kernels are compiled for, and which of them this processor has."""

from __future__ import annotations

import platform
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path


class KernelsUnavailable(Exception):
    """Why the C kernels cannot run here, in one line."""


@dataclass(frozen=True)
class InstructionSet:
    """One variant of the kernels. All variants compute the same bits."""

    name: str
    machine: str
    """As `platform.machine()` names it; empty for any."""
    features: tuple[str, ...]
    """What the processor must have, as named in /proc/cpuinfo."""
    flags: tuple[str, ...]
    """The compiler's, besides those that all variants share."""

    def runs_on(self, machine: str, features: Collection[str]) -> bool:
        return self.machine in ("", machine) and set(self.features) <= set(features)


_AVX512_FEATURES = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni")
_AVX512_FLAGS = ("-mfma", "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni")

INSTRUCTION_SETS = (
    InstructionSet(
        "amx", "x86_64", (*_AVX512_FEATURES, "amx_tile", "amx_int8"), (*_AVX512_FLAGS, "-mamx-tile", "-mamx-int8")
    ),
    InstructionSet("avx512vnni", "x86_64", _AVX512_FEATURES, _AVX512_FLAGS),
    InstructionSet(
        "avxvnni", "x86_64", ("avx2", "fma", "f16c", "avx_vnni"), ("-mavx2", "-mfma", "-mf16c", "-mavxvnni")
    ),
    InstructionSet("avx2", "x86_64", ("avx2", "fma", "f16c"), ("-mavx2", "-mfma", "-mf16c")),
    InstructionSet("i8mm", "aarch64", ("asimddp", "i8mm"), ("-march=armv8.2-a+dotprod+i8mm",)),
    InstructionSet("dotprod", "aarch64", ("asimddp",), ("-march=armv8.2-a+dotprod",)),
    InstructionSet("generic", "", (), ()),
)
"""The fastest first. "generic" is plain C, the readable reference of the others; it is slow and runs only on demand."""


def processor_features() -> frozenset[str]:
    """The processor's features as /proc/cpuinfo names them. Raises KernelsUnavailable where there is no such file."""
    # XGETBV need not be asked: where Linux does not save the registers of AVX (noxsave), it removes AVX, FMA, AVX2 and
    # all of AVX-512 from the flags (arch/x86/kernel/cpu/cpuid-deps.c), and each variant for x86 needs one of these.
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        raise KernelsUnavailable(f"they support Linux only, not {sys.platform}") from None
    listed = (line.split(":", 1)[1] for line in lines if line.startswith(("flags", "Features")))
    return frozenset(next(listed, "").split())


def choose(name: str = "auto") -> tuple[InstructionSet, ...]:
    """The instruction sets to try, the best first: all that this processor has, or the one called `name`.

    Raises KernelsUnavailable if the processor has none of them, and ValueError for an unknown name.
    """
    machine, features = platform.machine(), processor_features()
    if name == "auto":
        fast = [isa for isa in INSTRUCTION_SETS if isa.name != "generic"]
        if found := tuple(isa for isa in fast if isa.runs_on(machine, features)):
            return found
        known = " or ".join(isa.name for isa in fast if isa.machine == machine)
        raise KernelsUnavailable(f"this processor has no {known or 'instruction set that they know'}")
    for isa in INSTRUCTION_SETS:
        if isa.name == name:
            if isa.runs_on(machine, features):
                return (isa,)
            raise KernelsUnavailable(f"this processor has no {name}")
    names = ", ".join(isa.name for isa in INSTRUCTION_SETS)
    raise ValueError(f"the instruction set must be auto or one of {names}, not {name!r}")
