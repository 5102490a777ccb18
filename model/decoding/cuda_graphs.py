"""The decoder's step on a GPU as one CUDA graph, with fixed shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from model.decoding.batch import DecoderState, Step
from model.decoding.batch_invariance import UNTILED, Tiles
from model.decoding.kv_cache import on_the_way
from model.decoding.torch_backend import TorchBackend, TorchDecoderState, step_logits
from model.hypothesis import Limits, TokenConstraint
from model.transformer import AttentionRecord, Transformer


class CudaGraphBackend(TorchBackend):
    """Decodes with the modules of a Transformer on a GPU."""

    def new_state(self, rows: int, limits: Limits) -> DecoderState:
        return CudaGraphDecoderState(self.model, rows, limits)


class CudaGraphDecoderState(TorchDecoderState):
    """The decoder state on a GPU: every step computes all rows and all keys, used or not, as one CUDA graph.

    One shape means one choice of kernels, so no row's arithmetic depends on how many others there are. A step sends
    tokens and positions without waiting, replays the graph and reads tokens and scores back, its only synchronisation.
    Constraints are applied after it. Without a GPU the same step runs uncaptured. It has **never run on a GPU**.
    """

    def __init__(self, model: Transformer, rows: int, limits: Limits) -> None:
        super().__init__(model, rows, limits, Tiles(rows=rows, keys=max(limits.max_source, limits.max_target) + 1))
        self._tiles = UNTILED  # these are the cache's shapes; the encoder packs
        device = self._cache.device
        self._last = torch.zeros(rows, dtype=torch.int64, device=device)
        self._outcome = torch.zeros(3, rows, dtype=torch.float64, device=device)  # tokens, scores, aligned
        self._log_probs = torch.zeros(rows, model.config.target_vocab_size, device=device)
        self._graph: torch.cuda.CUDAGraph | None = None

    @torch.inference_mode()
    def step(self, tokens: Sequence[int], constraints: Mapping[int, TokenConstraint], record: bool) -> Step:
        if record:  # rare, and its weights have no place in the graph; shapes, and so kernels, are the same
            return super().step(tokens, constraints, record)
        device, live = self._cache.device, len(tokens)
        self._positions = self._cache.begin_step()
        self._last.copy_(on_the_way(self._filled(tokens, self._model.config.pad_id), device), non_blocking=True)
        self._replay()
        self._cache.end_step()
        return self._made(self._outcome[:, :live], self._log_probs, constraints, [])

    def _compute(self) -> None:
        attention = AttentionRecord()
        logits = step_logits(self._model, self._cache, self._last, self._positions, attention)
        torch.log_softmax(logits.float(), -1, out=self._log_probs)  # [rows, vocabulary]
        scores, chosen = self._log_probs.max(-1)
        self._outcome[0], self._outcome[1], self._outcome[2] = (
            chosen,
            scores,
            self._cache.record_attention(attention.cross),
        )

    def _replay(self) -> None:
        if self._cache.device.type != "cuda":
            self._compute()
            return
        if self._graph is None:
            self._capture()
        assert self._graph is not None
        self._graph.replay()

    def _capture(self) -> None:
        """Libraries initialise themselves in the first runs, which a graph must not contain; warm-up runs write what it
        will."""
        # Its own stream: cuBLAS has a workspace per stream, and one that graphs share is freed with the first of them.
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), self._cache.coverage_unchanged():
            for _ in range(3):
                self._compute()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            self._compute()
        self._graph = graph
