"""The int8 kernels in C (model/int8/kernels.c): compiles them if there is a compiler, and loads them.

    python -m model.int8.library     compiles all variants of this architecture beside the source, for container images

The arithmetic is documented in the C file and in `model.int8.reference`.
"""

from __future__ import annotations

import ctypes
import hashlib
import platform
import shutil
import subprocess
import tempfile
from ctypes import c_int, c_int32, c_size_t, c_void_p
from functools import cache
from pathlib import Path

from model.int8.isa import INSTRUCTION_SETS, InstructionSet, KernelsUnavailable, choose
from model.machine import cache_folder

SOURCES = tuple(Path(__file__).with_name(name) for name in ("kernels.c", "vectors.h", "layout.h"))
FLAGS = ("-std=gnu11", "-O3", "-shared", "-fPIC", "-ffp-contract=off")
COMPILERS = ("cc", "gcc", "clang")


def library_path(folder: Path, isa: InstructionSet) -> Path:
    """The path in `folder` of the library compiled for `isa` from these exact sources with these flags."""
    flags = " ".join((*FLAGS, *isa.flags)).encode()
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES) + flags).hexdigest()[:16]
    return folder / f"kernels-{isa.name}-{digest}.so"


def compile_library(folder: Path, isa: InstructionSet) -> Path:
    """Compiles the library into `folder` atomically. Raises KernelsUnavailable."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise KernelsUnavailable("there is no C compiler")
    macro = f"-DISA_{isa.name.upper()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            built = Path(temporary) / "kernels.so"
            command = [compiler, *FLAGS, *isa.flags, macro, "-o", str(built), str(SOURCES[0]), "-lm"]
            subprocess.run(command, check=True, capture_output=True, text=True)
            return built.rename(library_path(folder, isa))
    except subprocess.CalledProcessError as error:
        raise KernelsUnavailable(f"{compiler} failed: {error.stderr.strip().splitlines()[-1:]}") from None
    except OSError as error:
        raise KernelsUnavailable(f"they cannot be compiled into {folder}: {error}") from None


@cache
def library(name: str = "auto") -> ctypes.CDLL:
    """The kernels for the best instruction set of this processor, or for the one called `name`: compiled beside the
    source, or at an earlier start, or now (seconds).

    Raises KernelsUnavailable, and ValueError for an unknown name.
    """
    reasons = []
    for isa in choose(name):
        try:
            return load_library(isa)
        except KernelsUnavailable as reason:  # an older compiler may know the next one
            reasons.append(str(reason))
    raise KernelsUnavailable(reasons[-1])


def load_library(isa: InstructionSet) -> ctypes.CDLL:
    path = library_path(SOURCES[0].parent, isa)
    if not path.exists():
        try:
            path = library_path(cache_folder(), isa)
        except RuntimeError as error:
            raise KernelsUnavailable(f"there is no folder to keep them in: {error}") from None
    if not path.exists():
        path = compile_library(path.parent, isa)
    try:
        kernels = ctypes.CDLL(str(path))
    except OSError as error:
        raise KernelsUnavailable(f"{path} cannot be loaded: {error}") from None
    if not kernels.kernels_usable():
        raise KernelsUnavailable(f"the system does not let this process use {isa.name}")
    kernels.model_open.restype = c_void_p
    kernels.model_open.argtypes = (c_void_p,)
    kernels.model_close.argtypes = (c_void_p,)
    kernels.model_close.restype = None
    kernels.packed_bytes.restype = c_size_t
    kernels.packed_bytes.argtypes = (c_void_p, c_int, c_int, c_int)
    kernels.pack_matrix.restype = None
    kernels.pack_matrix.argtypes = (c_void_p, c_void_p, c_int, c_int, c_int, c_void_p)
    kernels.batch_new.restype = c_void_p
    kernels.batch_new.argtypes = (c_void_p, c_int, c_int, c_int)
    kernels.batch_free.argtypes = (c_void_p,)
    kernels.batch_admit.argtypes = (c_void_p, c_int, *(c_void_p,) * 13)
    kernels.batch_admit.restype = None
    kernels.batch_steps.argtypes = (c_void_p, c_int, c_int, *(c_void_p,) * 4)
    kernels.batch_read.argtypes = (c_void_p, c_int32, *(c_void_p,) * 4)
    kernels.batch_candidates.argtypes = (c_void_p, c_int32, *(c_void_p, c_int) * 3, c_int, c_void_p, c_void_p)
    kernels.batch_extend.argtypes = (c_void_p, c_int32, c_int32)
    kernels.batch_extend.restype = None
    kernels.batch_fork.argtypes = (c_void_p, c_int32)
    kernels.batch_fork.restype = c_int32
    kernels.batch_drop.argtypes = (c_void_p, c_int32)
    kernels.batch_drop.restype = None
    return kernels


def instruction_set(kernels: ctypes.CDLL) -> str:
    """The name of the instruction set that `kernels`, of `library`, were compiled for."""
    return Path(kernels._name).name.split("-")[1]


if __name__ == "__main__":
    for isa in INSTRUCTION_SETS:
        if isa.machine in ("", platform.machine()):
            print(compile_library(SOURCES[0].parent, isa))
