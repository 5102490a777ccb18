"""Top-k sampling: draws each token from the best ones by the model's probabilities, instead of taking the best.

For back-translation of much text, where the best translations are too uniform (Edunov et al. 2018, section 3). Limited
to the best tokens, since label smoothing makes all others likelier than they should be (Graça et al. 2019). Services
never decode this way.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from model.decoding.torch_backend import TorchBackend, TorchDecoderState
from model.hypothesis import Limits
from model.transformer import Transformer


class SamplingBackend(TorchBackend):
    """Samples from the `best` tokens, with the modules of a Transformer, at the precision of its weights."""

    def __init__(self, model: Transformer, best: int) -> None:
        super().__init__(model)
        self._best = min(best, model.config.target_vocab_size)
        self._generator = torch.Generator(self.device)

    def start(self, seed: int, place: int) -> None:
        """Seeds the following draws by `seed` and `place`: the same sentences decoded together give the same result."""
        digest = hashlib.sha256(f"{seed} {place}".encode()).digest()
        self._generator.manual_seed(int.from_bytes(digest[:7], "big"))

    def new_state(self, rows: int, limits: Limits) -> SamplingDecoderState:
        state = SamplingDecoderState(self.model, rows, limits, self.tiles)
        state.generator, state.best = self._generator, self._best
        return state


class SamplingDecoderState(TorchDecoderState):
    """A decoder state that samples from the `best` tokens with `generator`."""

    generator: torch.Generator
    best: int

    def choose(self, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        """Draws one token per row from the `best` ones, by the Gumbel-max trick (Maddison et al. 2014).

        The maximum of log p - log e, with e from the exponential distribution, is at token i with probability p_i.
        """
        scores, tokens = log_probs.topk(self.best)  # [rows, best]
        noise = torch.empty_like(scores).exponential_(generator=self.generator)
        drawn = (scores - noise.log()).argmax(-1, keepdim=True)  # [rows, 1]
        return scores.gather(-1, drawn)[:, 0], tokens.gather(-1, drawn)[:, 0]


def sampling_precision(precision: str, device: torch.device) -> torch.dtype:
    """The precision of the weights; "auto" is float16 on a GPU, else float32. Raises ValueError for one that cannot
    sample."""
    offered = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if precision == "auto":
        precision = "float16" if device.type == "cuda" else "float32"
    if precision not in offered:
        raise ValueError(f"--sample works in {', '.join(offered)}, not in {precision}")
    return offered[precision]
