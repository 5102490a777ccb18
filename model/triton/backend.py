"""The Triton engine as a Backend."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from model.decoding import decode_all
from model.decoding.torch_backend import TorchBackend
from model.hypothesis import Hypothesis, Limits
from model.triton.support import missing_support

if TYPE_CHECKING:
    from model.triton.batch import TritonBatch

log = logging.getLogger(__name__)
TOLERANCE = 0.1
"""The most that a log probability of the self-test may differ from PyTorch's, in nats, of half precision."""


class TritonBackend:
    """Decodes with our kernels, and sentences that are not plain with `other`: see `model.triton.batch`."""

    engine = "triton"

    def __init__(self, other: TorchBackend) -> None:
        """Raises ImportError without Triton; see also `missing_support`."""
        from model.triton.network import Network

        self.config, self.precision, self.device = other.config, other.precision, other.device
        self.weight_bytes = other.weight_bytes
        self._other, self._network = other, Network(other.model)

    def check_weights(self) -> None:
        """See `Backend`."""
        self._other.check_weights()

    def new_batch(self, rows: int, limits: Limits) -> TritonBatch:
        from model.triton.batch import TritonBatch

        return TritonBatch(self._network, self._other, rows, limits)

    def failure(self, limits: Limits) -> str | None:
        """Decodes a short source, and compares its log probabilities with those of the other engine at the same
        precision. Returns why this engine cannot serve; None if it can. Compiles the kernels for batches with `limits`,
        or loads them from Triton's cache, and captures nothing."""
        ids = [id_ % self.config.source_vocab_size for id_ in range(4, 9)][: limits.max_source]
        ours = Hypothesis(ids, limit=min(4, limits.max_target))
        try:
            decode_all(self.new_batch(1, limits), [ours])
        except Exception as error:  # of many kinds: no C compiler, no memory, a card that Triton does not know
            return str(error).strip().partition("\n")[0] or type(error).__name__
        forced = [token for token in ours.tokens if token != self.config.eos_id]
        theirs = Hypothesis(ids, ours.limit, forced=forced, record=True)  # which no graph is captured for
        decode_all(self._other.new_batch(1, limits), [theirs])
        pairs = list(zip(ours.log_probs, theirs.log_probs, strict=False))
        agree = all(abs(one - other) <= TOLERANCE for one, other in pairs)  # NaN does not
        return None if agree else f"its log probabilities are not PyTorch's: {pairs}"


def with_triton(other: TorchBackend, limits: Limits) -> TritonBackend | TorchBackend:
    """The Triton engine for the model of `other`, or `other` itself if that engine cannot decode it, which the log
    explains. `limits`: see `failure`."""
    reason = missing_support(other.config)
    if reason is None:
        backend = TritonBackend(other)
        reason = backend.failure(limits)
        if reason is None:
            log.warning("the Triton engine decodes, which has never run on a GPU; INTERLINEAR_GPU_ENGINE=graph has")
            return backend
    log.warning("the graph engine decodes in place of the Triton engine: %s", reason)
    return other
