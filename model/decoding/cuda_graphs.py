"""The decoder's step on a GPU, captured as one CUDA graph with fixed shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from model.decoding.batch import DecoderState, StepOutput
from model.decoding.batch_invariance import UNTILED, Tiles
from model.decoding.kv_cache import staged
from model.decoding.torch_backend import TorchBackend, TorchDecoderState, step_logits
from model.hypothesis import Limits, TokenConstraint
from model.transformer import AttentionRecord, Transformer


class CudaGraphBackend(TorchBackend):
    """Decodes with the modules of a Transformer on a GPU, each step as a CUDA graph."""

    engine = "graph"

    def new_state(self, rows: int, limits: Limits) -> DecoderState:
        return CudaGraphDecoderState(self.model, rows, limits)


class CudaGraphDecoderState(TorchDecoderState):
    """The decoder state on a GPU: each step computes all rows and all keys, used or not, as one CUDA graph.

    One shape means one choice of kernels, so that the arithmetic of a row does not depend on the number of others. A
    step sends tokens and positions without waiting, replays the graph, and reads tokens and scores, its only
    synchronisation. Constraints are applied afterwards. Without a GPU the same step runs uncaptured.
    """

    def __init__(self, model: Transformer, rows: int, limits: Limits) -> None:
        super().__init__(model, rows, limits, Tiles(rows=rows, keys=max(limits.max_source, limits.max_target) + 1))
        self._tiles = UNTILED  # only the cache has fixed shapes; the encoder packs
        device = self._cache.device
        self._last = torch.zeros(rows, dtype=torch.int64, device=device)
        results = 3 if model.alignment is None else 4
        self._best = torch.zeros(results, rows, dtype=torch.float64, device=device)  # see `_output`
        self._log_probs = torch.zeros(rows, model.config.target_vocab_size, device=device)
        self._graph: torch.cuda.CUDAGraph | None = None

    @torch.inference_mode()
    def step(self, tokens: Sequence[int], constraints: Mapping[int, TokenConstraint], record: bool) -> StepOutput:
        if record:  # rare, and the graph does not keep the weights; shapes, and therefore kernels, are the same
            return super().step(tokens, constraints, record)
        device, live = self._cache.device, len(tokens)
        self._positions = self._cache.begin_step()
        self._last.copy_(staged(self._padded(tokens), device), non_blocking=True)
        self._replay()
        self._cache.end_step()
        return self._output(self._best[:, :live], self._log_probs, constraints, [])

    def _compute(self) -> None:
        attention = AttentionRecord()
        logits = step_logits(self._model, self._cache, self._last, self._positions, attention)
        torch.log_softmax(logits.float(), -1, out=self._log_probs)  # [rows, vocabulary]
        scores, chosen = self._log_probs.max(-1)
        for place, values in zip(self._best, (chosen, scores, *self._align(attention)), strict=True):
            place.copy_(values)

    def _replay(self) -> None:
        if self._cache.device.type != "cuda":
            self._compute()
            return
        if self._graph is None:
            self._capture()
        assert self._graph is not None
        self._graph.replay()

    def _capture(self) -> None:
        """Captures a step, after warm-up runs in which libraries initialise themselves: a graph must not contain that.
        Warm-up runs write what the graph will write again."""
        # A stream of its own: cuBLAS has a workspace per stream, which is freed with the first graph that uses it.
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), self._cache.sums_unchanged():
            for _ in range(3):
                self._compute()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            self._compute()
        self._graph = graph
