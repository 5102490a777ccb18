"""The architecture of a Transformer: every dimension and option, verified once, saved as JSON with the weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

NormPlacement = Literal["post", "pre", "residual_post"]
Positions = Literal["sinusoidal", "learned", "marian"]
Sharing = Literal["none", "decoder", "all"]
Activation = Literal["relu", "swish"]
Decoder = Literal["attention", "ssru"]


LATER_FIELDS: dict[str, Any] = {
    "activation": "relu",
    "output_bias": False,
    "source_eos": True,
    "decoder": "attention",
    "alignment_layer": None,
    "alignment_head": None,
    "alignment_size": 0,
    "zero_start": False,
}
"""Fields that the first version did not have, and the values that mean the same as their absence."""
_NO_DEFAULT = object()


@dataclass(frozen=True)
class ModelConfig:
    """An encoder-decoder Transformer (Vaswani et al. 2017, section 3).

    `share_embeddings`: "none", "decoder" (target embedding and output projection are one matrix) or "all" (the source
    embedding too; requires a shared vocabulary; section 3.4). `final_norm`: whether a layer normalisation ends each
    stack. None is the placement's default: the paper's `post` already ends in one, `pre` and `residual_post` do not and
    get one. `activation`: of the feed-forward networks; swish is x * sigmoid(x) (Ramachandran et al. 2017), used by
    OPUS-MT's models. These also have an `output_bias`, a number for each target token. `source_eos`: whether `eos_id`
    ends each source; models trained by OpenNMT-py do without. `decoder`: whether decoder layers read the target so far
    by self-attention or by the recurrent unit of Kim et al. 2019, as Firefox's models do. `alignment_layer` and
    `alignment_head`: the decoder layer and head, from 0, whose cross-attention was trained to be the alignment; None
    takes the mean of all. `alignment_size`: the width of the queries and keys of an `AlignmentHead`, which then gives
    the alignment; 0 for none. `positions`: "marian" are the sinusoids of Marian. `zero_start`: whether the decoder
    starts from a vector of zeros, as Marian's do, in place of the embedding of `bos_id`. `max_positions`: the longest
    sequence, in tokens, that positions, and so the key/value cache, support.

    Raises ValueError, naming the field, if the values do not describe a model.
    """

    source_vocab_size: int
    target_vocab_size: int
    d_model: int = 256
    num_heads: int = 4
    d_ff: int = 1024
    encoder_layers: int = 6
    decoder_layers: int = 2
    norm: NormPlacement = "pre"
    final_norm: bool | None = None
    positions: Positions = "sinusoidal"
    max_positions: int = 512
    share_embeddings: Sharing = "all"
    attention_bias: bool = True
    activation: Activation = "relu"
    output_bias: bool = False
    source_eos: bool = True
    decoder: Decoder = "attention"
    alignment_layer: int | None = None
    alignment_head: int | None = None
    alignment_size: int = 0
    zero_start: bool = False
    dropout: float = 0.1
    attention_dropout: float = 0.0
    pad_id: int = 0
    bos_id: int = 1
    eos_id: int = 2

    def __post_init__(self) -> None:
        self._check_types()
        for name in ("source_vocab_size", "target_vocab_size", "d_model", "num_heads", "d_ff", "max_positions"):
            _require(getattr(self, name) >= 1, f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("encoder_layers", "decoder_layers"):
            _require(getattr(self, name) >= 1, f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("dropout", "attention_dropout"):
            _require(0 <= getattr(self, name) < 1, f"{name} must lie in [0, 1), not {getattr(self, name)}")
        _require(
            self.d_model % self.num_heads == 0,
            f"d_model {self.d_model} is not divisible by num_heads {self.num_heads}",
        )
        for name in ("pad_id", "bos_id", "eos_id"):
            most = min(self.source_vocab_size, self.target_vocab_size)
            _require(0 <= getattr(self, name) < most, f"{name} must lie in [0, {most}), not {getattr(self, name)}")
        _require(self.d_model % 2 == 0, f"d_model must be even for sine and cosine pairs, not {self.d_model}")
        literals = {
            "norm": NormPlacement,
            "positions": Positions,
            "share_embeddings": Sharing,
            "activation": Activation,
            "decoder": Decoder,
        }
        for name, choices in literals.items():
            value = getattr(self, name)
            _require(value in get_args(choices), f"{name} must be one of {', '.join(get_args(choices))}, not {value!r}")
        _require(
            self.share_embeddings != "all" or self.source_vocab_size == self.target_vocab_size,
            f'share_embeddings "all" needs one vocabulary, not {self.source_vocab_size} and {self.target_vocab_size}',
        )
        _require(
            (self.alignment_layer is None) == (self.alignment_head is None),
            "alignment_layer and alignment_head must be given together",
        )
        for name, count in (("alignment_layer", self.decoder_layers), ("alignment_head", self.num_heads)):
            value = getattr(self, name)
            _require(value is None or 0 <= value < count, f"{name} must lie in [0, {count}), not {value}")
        _require(
            0 <= self.alignment_size <= self.d_model,
            f"alignment_size must lie in [0, {self.d_model}], not {self.alignment_size}",
        )

    def _check_types(self) -> None:
        """Values may come from a hand-edited JSON file, where annotations guarantee nothing."""
        kinds = {
            "int": (int,),
            "int | None": (int, type(None)),
            "float": (int, float),
            "bool": (bool,),
            "bool | None": (bool, type(None)),
        }
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if str(field.type) in kinds:
                fits = type(value) in kinds[str(field.type)]
                _require(fits, f"{field.name} must be of type {field.type}, not {value!r}")

    @property
    def head_dim(self) -> int:
        """Width of one attention head, d_k = d_v = d_model / h (section 3.2.2)."""
        return self.d_model // self.num_heads

    @property
    def has_final_norm(self) -> bool:
        return self.norm != "post" if self.final_norm is None else self.final_norm

    def source_ends(self, source_length: int) -> int:
        """The number of end symbols, 1 or 0, that a source of `source_length` tokens gets. Without any token it has
        one in any case: attention needs a key."""
        return int(self.source_eos or source_length == 0)

    def source_ids(self, source: Sequence[int]) -> tuple[int, ...]:
        """The token ids that the encoder reads: `source` and its end symbol, if it gets one."""
        return (*source, *[self.eos_id] * self.source_ends(len(source)))

    def to_dict(self) -> dict[str, Any]:
        """For JSON. Leaves out fields of later versions at their defaults, so that earlier versions can read it."""
        fields = dataclasses.asdict(self)
        return {name: value for name, value in fields.items() if LATER_FIELDS.get(name, _NO_DEFAULT) != value}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> ModelConfig:
        """The inverse of `to_dict`; raises ValueError for an unknown or missing field."""
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(fields) - known)
        _require(not unknown, f"unknown architecture field {', '.join(unknown)}")
        try:
            return cls(**fields)
        except TypeError as error:
            raise ValueError(f"incomplete architecture: {error}") from None


ARCHITECTURES: dict[str, dict[str, Any]] = {
    "toy": {"encoder_layers": 2, "decoder_layers": 2, "d_model": 128, "num_heads": 4, "d_ff": 256},
    "d2l": {"encoder_layers": 2, "decoder_layers": 2, "d_model": 32, "num_heads": 4, "d_ff": 64},
    "tiny": {"encoder_layers": 4, "decoder_layers": 4, "d_model": 128, "num_heads": 4, "d_ff": 256},
    "small": {"encoder_layers": 6, "decoder_layers": 2, "d_model": 256, "num_heads": 4, "d_ff": 1024},
    "base": {"encoder_layers": 6, "decoder_layers": 6, "d_model": 512, "num_heads": 8, "d_ff": 2048},
    "student": {
        **{"encoder_layers": 6, "decoder_layers": 2, "d_model": 256, "num_heads": 8, "d_ff": 1536},
        "decoder": "ssru",
    },
}


def named_architecture(name: str, **fields: Any) -> ModelConfig:
    """The architecture `name` of `ARCHITECTURES`; `fields` complete or override it. Raises ValueError for an unknown
    name."""
    if name not in ARCHITECTURES:
        raise ValueError(f"no architecture {name!r}; there are {', '.join(ARCHITECTURES)}")
    return ModelConfig(**{**ARCHITECTURES[name], **fields})


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
