"""The int8 runner in C (model/kernels.c): compiles it where there is a compiler, lays the weights out, and calls it.

    python -m model.kernels     compiles it beside its source, for where there will be no compiler

Knows pointers and the layout of the weights. What the arithmetic is, the C file says and `model.quantised` shows.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import shutil
import subprocess
import sys
import tempfile
from array import array
from collections.abc import Sequence
from ctypes import POINTER, Structure, c_float, c_int, c_int32, c_void_p
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.batch import rows_taken
from model.beam import Beam, Candidates, copied
from model.config import ModelConfig
from model.hypothesis import Hypothesis, Limits
from model.quantised import quantise_rows
from model.transformer import Attention, DecoderLayer, Embedding, EncoderLayer, Transformer

SOURCE = Path(__file__).with_name("kernels.c")
INSTRUCTIONS = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni")
"""What the processor must have, as /proc/cpuinfo names it."""
FLAGS = (
    *("-std=gnu11", "-O3", "-shared", "-fPIC", "-ffp-contract=off", "-mfma"),
    *(f"-m{name.replace('_', '')}" for name in INSTRUCTIONS),
)
COMPILERS = ("cc", "gcc", "clang")
PANEL, LANES, DEMANDS = 64, 16, 64  # as in the C file
PLACEMENTS = ("pre", "post", "residual_post")


class KernelsUnavailable(Exception):
    """Why the C kernels cannot serve here, in one line."""


# ---- The library


def library_path(folder: Path) -> Path:
    """Where the library compiled from this very source with these flags lies in `folder`."""
    digest = hashlib.sha256(SOURCE.read_bytes() + " ".join(FLAGS).encode()).hexdigest()[:16]
    return folder / f"kernels-{digest}.so"


def cache_folder() -> Path:
    """Where a library compiled at start-up is kept for the next start. Raises KernelsUnavailable."""
    try:
        return Path.home() / ".cache" / "interlinear"
    except RuntimeError as error:
        raise KernelsUnavailable(f"there is no folder to keep them in: {error}") from None


def compile_library(folder: Path) -> Path:
    """Compiles the library into `folder`, put in place whole; any x86-64 machine can. Raises KernelsUnavailable."""
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
        raise KernelsUnavailable(f"they are for Linux, not {sys.platform}") from None
    flags = next((set(line.split(":")[1].split()) for line in lines if line.startswith("flags")), set[str]())
    missing = [name for name in INSTRUCTIONS if name not in flags]
    if missing:
        raise KernelsUnavailable(f"this processor has no {', '.join(missing)}")


@cache
def library() -> ctypes.CDLL:
    """The compiled kernels: those beside the source, those of an earlier start, or compiled now (seconds).

    Raises KernelsUnavailable.
    """
    check_processor()
    path = library_path(SOURCE.parent)
    if not path.exists():
        path = library_path(cache_folder())
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


# ---- The structures of the C file, in its order


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


class _Arena:
    """One stretch of memory for all weights, in huge pages where the system has them: a step reads every weight."""

    def __init__(self, size: int) -> None:
        self._memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._used = 0
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self._memory.madvise(mmap.MADV_HUGEPAGE)

    def keep(self, tensor: Tensor) -> int:
        """Copies `tensor` in; returns its address, a multiple of 64."""
        flat = tensor.detach().flatten()
        place = torch.frombuffer(self._memory, dtype=flat.dtype, count=flat.numel(), offset=self._used)
        place.copy_(flat)
        self._used += -(-flat.numel() * flat.element_size() // 64) * 64
        return place.data_ptr()


class _Layout:
    """Makes the C structures of a model."""

    def __init__(self, model: Transformer) -> None:
        config = model.config
        floats = sum(parameter.numel() for parameter in model.parameters())
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


# ---- The runner


class KernelRunner:
    """A Transformer's weights in int8, decoded by the C kernels on one core. See `model.decoding.Runner`.

    Raises KernelsUnavailable, on this machine or for a model whose widths do not fill vectors.
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

    def new_batch(self, rows: int, limits: Limits) -> KernelBatch:
        return KernelBatch(self, rows, limits)


class KernelBatch:
    """The sentences being decoded together, as `model.batch.DecodeBatch`; MemoryError if there is no room.

    The kernels keep a sentence's tokens and choose them; of a beam, its tokens are also here and are chosen here.
    """

    def __init__(self, runner: KernelRunner, rows: int, limits: Limits) -> None:
        self.rows = rows
        self._runner, self._library, self._config = runner, runner.library, runner.config
        self._limits, longest = limits, limits.max_target + 1
        self._sentences: dict[int, Hypothesis] = {}  # by the number that C gave them; branches in place of beams
        self._beams: dict[Hypothesis, Beam] = {}
        self._records: dict[int, tuple[Tensor, Tensor]] = {}
        self._finished = (c_int32 * rows)()
        self._tokens, self._log_probs = (c_int32 * longest)(), (c_float * longest)()
        self._aligned, self._looked = (c_int32 * longest)(), (c_float * (limits.max_source + 1))()
        self._aligned_bytes, self._looked_bytes = (memoryview(a).cast("B") for a in (self._aligned, self._looked))
        structure = ctypes.byref(runner.layout.structure)
        self._batch = self._library.batch_new(structure, rows, limits.max_source + 1, longest)
        if not self._batch:
            raise MemoryError(f"no memory for {rows} sentences of up to {limits.max_source} tokens")

    def __del__(self) -> None:
        self._library.batch_free(self._batch)

    @property
    def running(self) -> list[Hypothesis]:
        return [*(h for h in self._sentences.values() if h.width == 1), *self._beams]

    @property
    def free(self) -> int:
        """Rows that are not taken. A sentence takes as many as its beam is wide."""
        branches = sum(len(beam.branches) for beam in self._beams.values())
        return self.rows - (len(self._sentences) - branches) - rows_taken(list(self._beams))

    def admit(self, hypotheses: Sequence[Hypothesis]) -> None:
        """Encodes `hypotheses` and gives them rows. They must fit: see `free`. ValueError for what C must not see."""
        self._check(hypotheses)
        count, eos = len(hypotheses), self._config.eos_id
        for hypothesis in hypotheses:
            if hypothesis.record:
                length = len(hypothesis.source) + 1
                hypothesis.encoder_attention = torch.empty(
                    self._config.encoder_layers, self._config.num_heads, length, length
                )
        numbers = (c_int32 * count)()
        self._library.batch_admit(
            self._batch,
            count,
            _integers([id for h in hypotheses for id in (*h.source, eos)]),
            _integers([len(h.source) + 1 for h in hypotheses]),
            _integers([h.limit for h in hypotheses]),
            _integers([id for h in hypotheses for id in h.forced or h.prefix]),
            _integers([len(h.prefix) or -1 if h.forced is None else len(h.forced) for h in hypotheses]),
            _integers([h.forced is None for h in hypotheses]),
            _integers([id for h in hypotheses for id in (*h.once, *h.never)]),
            _integers([len(h.once) for h in hypotheses]),
            _integers([len(h.never) for h in hypotheses]),
            _integers([h.width > 1 for h in hypotheses]),
            _addresses([h.encoder_attention for h in hypotheses]),
            numbers,
        )
        for number, hypothesis in zip(numbers, hypotheses, strict=True):
            if hypothesis.width > 1:
                self._beams[hypothesis] = Beam(hypothesis, eos)
                hypothesis = self._beams[hypothesis].branches[0]
            self._sentences[number] = hypothesis

    def step(self) -> list[Hypothesis]:
        """One token for every running sentence; returns those that it finished, which have left the batch.

        What is not finished has its tokens here and not yet in the hypothesis.
        """
        recorded = self._room_for_records()
        count = self._library.batch_step(self._batch, *recorded, self._finished)
        for number, (decoder, cross) in self._records.items():
            self._sentences[number].decoder_rows.append(decoder)
            self._sentences[number].cross_rows.append(cross)
        # All candidates before anybody leaves: until then the kernels still have everyone's logits.
        candidates = [[self._candidates(b) for b in beam.branches] for beam in self._beams.values()]
        finished = [self._finish(number) for number in self._finished[:count]]
        for beam, found in zip(list(self._beams.values()), candidates, strict=True):
            beam.advance(found, self)
            if beam.over:
                del self._beams[beam.sentence]
                finished.append(beam.sentence)
        return finished

    def remove(self, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Takes running sentences out, finished or abandoned; returns them."""
        if hypotheses:
            beams = [self._beams.pop(h) for h in hypotheses if h in self._beams]
            alone = [h for h in hypotheses if h.width == 1]
            self.drop([*alone, *(branch for beam in beams for branch in beam.branches)])
        return list(hypotheses)

    def _check(self, hypotheses: Sequence[Hypothesis]) -> None:
        """C trusts what it is given: a length or an id too large would be a place outside its memory."""
        assert rows_taken(hypotheses) <= self.free
        limits, config = self._limits, self._config
        for hypothesis in hypotheses:
            source, forced = hypothesis.source, hypothesis.forced or hypothesis.prefix
            lengths = (len(source), limits.max_source), (max(hypothesis.limit, len(forced)), limits.max_target)
            if any(length > limit for length, limit in lengths):
                raise ValueError(f"{len(source)} source tokens and a target of {lengths[1][0]} are beyond {limits}")
            if max(len(hypothesis.once), len(hypothesis.never)) > DEMANDS:
                raise ValueError(f"at most {DEMANDS} tokens can be demanded, and as many forbidden")
            asked = (*forced, *hypothesis.once, *hypothesis.never)
            for ids, size in ((source, config.source_vocab_size), (asked, config.target_vocab_size)):
                if ids and not 0 <= min(ids) <= max(ids) < size:
                    raise ValueError(f"token ids must be under {size} and not negative: {min(ids)} to {max(ids)}")

    def _finish(self, number: int) -> Hypothesis:
        hypothesis = self._sentences[number]
        count = self._read(number, hypothesis)
        self._drop(number)
        hypothesis.tokens, hypothesis.log_probs = self._tokens[:count], self._log_probs[:count]
        hypothesis.finish_reason = "stop" if hypothesis.tokens[-1] == self._config.eos_id else "length"
        return hypothesis

    def _read(self, number: int, hypothesis: Hypothesis) -> int:
        places = self._tokens, self._log_probs, self._aligned, self._looked
        count: int = self._library.batch_read(self._batch, number, *places)
        aligned, looked = count + (hypothesis.width > 1), len(hypothesis.source) + 1
        hypothesis.aligned = array("i", self._aligned_bytes[: 4 * aligned].tobytes())
        hypothesis.looked = array("f", self._looked_bytes[: 4 * looked].tobytes())
        return count

    def _drop(self, number: int) -> None:
        del self._sentences[number]
        self._library.batch_drop(self._batch, number)

    def _candidates(self, branch: Hypothesis) -> Candidates:
        demand = branch.demand(self._config.eos_id)
        assert demand is not None
        tokens, log_probs = (c_int32 * demand.count)(), (c_float * demand.count)()
        lists = [part for ids in (demand.only, demand.owed, demand.never) for part in (_integers(ids), len(ids))]
        count = self._library.batch_candidates(
            self._batch, self._number_of(branch), *lists, demand.count, tokens, log_probs
        )
        return list(zip(tokens[:count], log_probs[:count], strict=True))

    def _number_of(self, branch: Hypothesis) -> int:
        return next(number for number, other in self._sentences.items() if other is branch)

    # ---- What beams ask for; see `model.beam.Rows`

    def read(self, branch: Hypothesis) -> None:
        self._read(self._number_of(branch), branch)

    def fork(self, branch: Hypothesis) -> Hypothesis:
        number = self._library.batch_fork(self._batch, self._number_of(branch))
        self._sentences[number] = copied(branch)
        return self._sentences[number]

    def extend(self, branch: Hypothesis, token: int, log_prob: float) -> None:
        branch.extend(token, log_prob, self._config.eos_id)
        self._library.batch_extend(self._batch, self._number_of(branch), token)

    def drop(self, branches: Sequence[Hypothesis]) -> None:
        for branch in branches:
            self._drop(self._number_of(branch))

    def _room_for_records(self) -> tuple[ctypes.Array[c_void_p] | None, ctypes.Array[c_void_p] | None]:
        layers, heads = self._config.decoder_layers, self._config.num_heads
        self._records = {}
        for number, hypothesis in self._sentences.items():
            if hypothesis.record:
                lengths = len(hypothesis.decoder_rows) + 1, len(hypothesis.source) + 1
                decoder, cross = (torch.empty(layers, heads, length) for length in lengths)
                self._records[number] = decoder, cross
        if not self._records:
            return None, None
        pairs = [self._records.get(number, (None, None)) for number in range(self.rows)]
        return _addresses([decoder for decoder, _ in pairs]), _addresses([cross for _, cross in pairs])


def _integers(values: Sequence[int]) -> ctypes.Array[c_int32]:
    return (c_int32 * len(values))(*values)


def _addresses(tensors: Sequence[Tensor | None]) -> ctypes.Array[c_void_p] | None:
    """Their addresses, NULL for None; None if all are."""
    if not any(tensor is not None for tensor in tensors):
        return None
    return (c_void_p * len(tensors))(*(None if tensor is None else tensor.data_ptr() for tensor in tensors))


if __name__ == "__main__":  # python -m model.kernels: compiles them beside the source, as a container image wants it
    print(compile_library(SOURCE.parent))
