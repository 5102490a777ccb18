"""The int8 backend in C (model/int8/kernels.c): compiles it if there is a compiler, lays out weights, and calls it.

    python -m model.int8.library     compiles it beside its source, for machines without a compiler

The arithmetic is documented in the C file and in `model.int8.reference`.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from ctypes import POINTER, Structure, c_float, c_int, c_int32, c_void_p
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.config import ModelConfig
from model.hypothesis import Limits
from model.int8.batch import Int8Batch
from model.int8.reference import quantise_rows
from model.machine import cache_folder
from model.transformer import Attention, DecoderLayer, Embedding, EncoderLayer, Transformer

SOURCE = Path(__file__).with_name("kernels.c")
INSTRUCTIONS = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni")
"""Instructions that the processor must have, as named in /proc/cpuinfo."""
FLAGS = (
    *("-std=gnu11", "-O3", "-shared", "-fPIC", "-ffp-contract=off", "-mfma"),
    *(f"-m{name.replace('_', '')}" for name in INSTRUCTIONS),
)
COMPILERS = ("cc", "gcc", "clang")
PANEL, LANES = 64, 16  # as in the C file
PLACEMENTS = ("pre", "post", "residual_post")


class KernelsUnavailable(Exception):
    """Why the C kernels cannot run here, in one line."""


# ---- The library


def library_path(folder: Path) -> Path:
    """The path in `folder` of the library compiled from this exact source with these flags."""
    digest = hashlib.sha256(SOURCE.read_bytes() + " ".join(FLAGS).encode()).hexdigest()[:16]
    return folder / f"kernels-{digest}.so"


def compile_library(folder: Path) -> Path:
    """Compiles the library into `folder` atomically, which any x86-64 machine can do. Raises KernelsUnavailable."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise KernelsUnavailable("there is no C compiler")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            built = Path(temporary) / "kernels.so"
            command = [compiler, *FLAGS, "-o", str(built), str(SOURCE), "-lm"]
            subprocess.run(command, check=True, capture_output=True, text=True)
            return built.rename(library_path(folder))
    except subprocess.CalledProcessError as error:
        raise KernelsUnavailable(f"{compiler} failed: {error.stderr.strip().splitlines()[-1:]}") from None
    except OSError as error:
        raise KernelsUnavailable(f"they cannot be compiled into {folder}: {error}") from None


def check_processor() -> None:
    """Raises KernelsUnavailable unless this is Linux on a processor that has the instructions."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        raise KernelsUnavailable(f"they support Linux only, not {sys.platform}") from None
    flags = next((set(line.split(":")[1].split()) for line in lines if line.startswith("flags")), set[str]())
    missing = [name for name in INSTRUCTIONS if name not in flags]
    if missing:
        raise KernelsUnavailable(f"this processor lacks {', '.join(missing)}")


@cache
def library() -> ctypes.CDLL:
    """The compiled kernels: those beside the source, those of an earlier start, or newly compiled (seconds).

    Raises KernelsUnavailable.
    """
    check_processor()
    path = library_path(SOURCE.parent)
    if not path.exists():
        try:
            path = library_path(cache_folder())
        except RuntimeError as error:
            raise KernelsUnavailable(f"there is no folder to keep them in: {error}") from None
    if not path.exists():
        path = compile_library(path.parent)
    try:
        kernels = ctypes.CDLL(str(path))
    except OSError as error:
        raise KernelsUnavailable(f"{path} cannot be loaded: {error}") from None
    kernels.batch_new.restype = c_void_p
    kernels.batch_new.argtypes = (c_void_p, c_int, c_int, c_int)
    kernels.batch_free.argtypes = (c_void_p,)
    kernels.batch_admit.argtypes = (c_void_p, c_int, *(c_void_p,) * 12)
    kernels.batch_admit.restype = None
    kernels.batch_step.argtypes = (c_void_p,) * 4
    kernels.batch_read.argtypes = (c_void_p, c_int32, *(c_void_p,) * 4)
    kernels.batch_candidates.argtypes = (c_void_p, c_int32, *(c_void_p, c_int) * 3, c_int, c_void_p, c_void_p)
    kernels.batch_extend.argtypes = (c_void_p, c_int32, c_int32)
    kernels.batch_extend.restype = None
    kernels.batch_fork.argtypes = (c_void_p, c_int32)
    kernels.batch_fork.restype = c_int32
    kernels.batch_drop.argtypes = (c_void_p, c_int32)
    kernels.batch_drop.restype = None
    return kernels


# ---- The structures of the C file, in the same order


class _Linear(Structure):
    _fields_ = (
        ("weight", c_void_p),
        ("scale", c_void_p),
        ("bias", c_void_p),
        ("inputs", c_int32),
        ("outputs", c_int32),
    )


class _Norm(Structure):
    _fields_ = (("weight", c_void_p), ("bias", c_void_p))


_LINEARS = ("query_key_value", "self_output", "cross_query", "cross_memory", "cross_output", "inner", "outer")
_NORMS = ("self_norm", "cross_norm", "feed_norm")


class _Layer(Structure):
    _fields_ = (*((name, _Linear) for name in _LINEARS), *((name, _Norm) for name in _NORMS))


class _Embedding(Structure):
    _fields_ = (("tokens", c_void_p), ("positions", c_void_p), ("scale", c_float))


_NUMBERS = ("d_model", "heads", "d_ff", "placement", "encoder_layers", "decoder_layers", "bos", "eos")


class _Model(Structure):
    _fields_ = (
        *((name, c_int32) for name in _NUMBERS),
        ("source", _Embedding),
        ("target", _Embedding),
        ("encoder", POINTER(_Layer)),
        ("decoder", POINTER(_Layer)),
        ("encoder_norm", _Norm),
        ("decoder_norm", _Norm),
        ("output", _Linear),
    )
    arena: _Arena
    """Keeps alive the memory that the pointers point into."""


class _Arena:
    """One block of memory for all weights, in huge pages where supported: a step reads every weight."""

    def __init__(self, size: int) -> None:
        self._memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._used = 0
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # not supported by the system
                self._memory.madvise(mmap.MADV_HUGEPAGE)

    def keep(self, tensor: Tensor) -> int:
        """Copies `tensor` in; returns its address, a multiple of 64."""
        flat = tensor.detach().flatten()
        place = torch.frombuffer(self._memory, dtype=flat.dtype, count=flat.numel(), offset=self._used)
        place.copy_(flat)
        self._used += -(-flat.numel() * flat.element_size() // 64) * 64
        return place.data_ptr()


class _Layout:
    """Builds the C structures of a model."""

    def __init__(self, model: Transformer) -> None:
        config = model.config
        # Each user of a shared matrix gets its own copy. Unused memory is never allocated.
        floats = sum(parameter.numel() for _, parameter in model.named_parameters(remove_duplicate=False))
        self._arena = _Arena(4 * floats + 4 * 2 * config.max_positions * config.d_model + (1 << 21))
        self.structure = _Model(
            d_model=config.d_model,
            heads=config.num_heads,
            d_ff=config.d_ff,
            placement=PLACEMENTS.index(config.norm),
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            bos=config.bos_id,
            eos=config.eos_id,
            source=self._embedding(model.source_embedding),
            target=self._embedding(model.target_embedding),
            encoder=self._layers(model.encoder),
            decoder=self._layers(model.decoder),
            encoder_norm=self._norm(model.encoder_norm),
            decoder_norm=self._norm(model.decoder_norm),
            output=self._linear(model.output.weight, None),
        )
        self.structure.arena = self._arena

    def _keep(self, tensor: Tensor) -> int:
        return self._arena.keep(tensor)

    def _embedding(self, embedding: Embedding) -> _Embedding:
        tokens, positions = self._keep(embedding.tokens.weight), self._keep(embedding.positions)
        return _Embedding(tokens, positions, embedding.scale)

    def _norm(self, norm: nn.Module) -> _Norm:
        return _Norm(self._keep(norm.weight), self._keep(norm.bias)) if isinstance(norm, nn.LayerNorm) else _Norm()

    def _linear(self, weight: Tensor, bias: Tensor | None) -> _Linear:
        """weight [outputs, inputs] in panels: [outputs / PANEL, inputs / 4, PANEL, 4], unsigned."""
        outputs, inputs = weight.shape
        spare = -outputs % PANEL
        signed, scale = quantise_rows(weight.detach())
        unsigned = F.pad((signed.to(torch.int16) + 128).to(torch.uint8), (0, 0, 0, spare))
        panels = unsigned.view(-1, PANEL, inputs // 4, 4).transpose(1, 2)  # [panels, inputs / 4, PANEL, 4]
        padded = [self._keep(F.pad(x, (0, spare))) if x is not None else None for x in (scale, bias)]
        return _Linear(self._keep(panels), *padded, inputs, outputs)

    def _rows(self, attention: Attention, first: int, last: int) -> _Linear:
        """The projections of queries (0), keys (1) and values (2) from `first` up to `last`."""
        weight, bias = attention.query_key_value.weight, attention.query_key_value.bias
        rows = slice(first * weight.size(1), last * weight.size(1))
        return self._linear(weight[rows], None if bias is None else bias[rows])

    def _layers(self, layers: nn.ModuleList) -> ctypes.Array[_Layer]:
        return (_Layer * len(layers))(*(self._layer(layer) for layer in layers))

    def _layer(self, layer: nn.Module) -> _Layer:
        assert isinstance(layer, EncoderLayer | DecoderLayer)
        own, feed = layer.self_attention, layer.feed_forward
        structure = _Layer(
            query_key_value=self._rows(own, 0, 3),
            self_output=self._linear(own.output.weight, own.output.bias),
            inner=self._linear(feed.inner.weight, feed.inner.bias),
            outer=self._linear(feed.outer.weight, feed.outer.bias),
            self_norm=self._norm(layer.self_residual.norm),
            feed_norm=self._norm(layer.feed_residual.norm),
        )
        if isinstance(layer, DecoderLayer):
            cross = layer.cross_attention
            structure.cross_query, structure.cross_memory = self._rows(cross, 0, 1), self._rows(cross, 1, 3)
            structure.cross_output = self._linear(cross.output.weight, cross.output.bias)
            structure.cross_norm = self._norm(layer.cross_residual.norm)
        return structure


# ---- The backend


class Int8Backend:
    """A Transformer's weights in int8, decoded by the C kernels on one core. See `model.decoding.Backend`.

    Raises KernelsUnavailable, for this machine or for a model whose widths are not multiples of the vector width.
    """

    precision = "int8"
    device = torch.device("cpu")

    def __init__(self, model: Transformer) -> None:
        config = model.config
        if config.head_dim % LANES or config.d_ff % LANES:
            widths = f"{config.head_dim} and {config.d_ff}"
            raise KernelsUnavailable(f"widths of heads and feed-forward must be multiples of {LANES}, not {widths}")
        self.config: ModelConfig = config
        self.library = library()
        self.layout = _Layout(model)

    def new_batch(self, rows: int, limits: Limits) -> Int8Batch:
        return Int8Batch(self.library, self.layout.structure, self.config, rows, limits)


if __name__ == "__main__":  # compiles them beside the source, for container images
    print(compile_library(SOURCE.parent))
