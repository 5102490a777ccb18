"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017): its modules, and the parallel pass of training.

Sections and equations refer to that paper; docs/transformer.md explains each with this code beside it. Decoding token
by token over a cache is in `model.decoding`, which calls the same modules.

Names in shapes: `batch` sentences; `source` and `target` positions, padding included; `query` and `key` positions of an
attention; d_k, the width of a head.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.config import ModelConfig
from model.packing import Packing
from model.positions import computed_positions
from model.without_initialisation import WithoutInitialisation


@dataclass
class AttentionRecord:
    """The attention weights of one pass: per layer, in order, one tensor [batch, heads, query, key]. A recurrent
    decoder has no `decoder` weights. `cross_inputs`: what each decoder layer's cross-attention projects to queries,
    [batch, query, d_model]."""

    encoder: list[Tensor] = field(default_factory=list)
    decoder: list[Tensor] = field(default_factory=list)
    cross: list[Tensor] = field(default_factory=list)
    cross_inputs: list[Tensor] = field(default_factory=list)


def dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor, dropout: Callable[[Tensor], Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V (section 3.2.1, equation 1).

    query [batch, heads, query, d_k], key and value [batch, heads, key, d_k]. mask is True where a query may attend to a
    key, and broadcasts to [batch, heads, query, key]; each query needs at least one key. Returns the weighted means of
    the values, [batch, heads, query, d_k], and the weights, [batch, heads, query, key], in float32 at least. Dropout
    applies to the weights that are used, not to those returned.
    """
    scores = (query / math.sqrt(query.size(-1))) @ key.transpose(-2, -1)  # [batch, heads, query, key]
    precise = torch.promote_types(scores.dtype, torch.float32)
    weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1, dtype=precise)  # [batch, heads, query, key]
    used = weights if dropout is None else dropout(weights)
    return used.to(value.dtype) @ value, weights  # [batch, heads, query, d_k]


class Dropout(nn.Module):
    """Dropout (Srivastava et al. 2014) that on a CPU draws a random byte per element, where PyTorch draws a float.

    Random numbers take a large share of a training step on a CPU. The rate is rounded to a multiple of 1/256 there, and
    the scale uses the rounded rate, so that the expected value is exact. On other devices PyTorch's kernel runs.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.threshold = min(round(rate * 256), 255)
        """Elements with a random byte below it are dropped."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.threshold == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.rate)
        return x * self.mask(x)

    def mask(self, x: Tensor) -> Tensor:
        """A random mask of x's shape and type: 0 where an element is dropped, 1 / (1 - rate) elsewhere."""
        words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)  # 8 random bytes each
        kept = words.view(torch.uint8)[: x.numel()].view(x.shape) >= self.threshold
        return kept.to(x.dtype).mul_(256 / (256 - self.threshold))

    def extra_repr(self) -> str:
        return f"rate={self.rate}"


class Linear(nn.Linear):
    """A linear projection, y = x W^T + b, that can also compute a range of its outputs."""

    def forward_range(self, x: Tensor, first: int, last: int) -> Tensor:
        """Outputs `first` to `last` - 1 for x [..., inputs]: [..., last - first]."""
        return F.linear(x, self.weight[first:last], None if self.bias is None else self.bias[first:last])


class Attention(nn.Module):
    """Multi-head attention (section 3.2.2).

    W^Q, W^K and W^V of all heads are the rows of one matrix, `query_key_value`, so that projections of the same input
    are one product. `output` is W^O.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.num_heads, self.head_dim, self.d_model = config.num_heads, config.head_dim, config.d_model
        self.query_key_value = Linear(config.d_model, 3 * config.d_model, bias=config.attention_bias)
        self.output = Linear(config.d_model, config.d_model, bias=config.attention_bias)
        self.dropout = Dropout(config.attention_dropout)

    def project(self, x: Tensor, packing: Packing | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of x [batch, length, d_model], each [batch, heads, length, d_k]."""
        query, key, value = unpack(self.query_key_value(x), packing).chunk(3, dim=-1)  # each [batch, length, d_model]
        return self.split_heads(query), self.split_heads(key), self.split_heads(value)

    def project_query(self, x: Tensor) -> Tensor:
        """Queries of x [batch, query, d_model], the decoder's side of cross-attention: [batch, heads, query, d_k]."""
        return self.split_heads(self.query_key_value.forward_range(x, 0, self.d_model))

    def project_memory(self, memory: Tensor, packing: Packing | None = None) -> tuple[Tensor, Tensor]:
        """Keys and values of the encoder's output, the other side: each [batch, heads, source, d_k]."""
        key_value = self.query_key_value.forward_range(memory, self.d_model, 3 * self.d_model)
        key, value = unpack(key_value, packing).chunk(2, dim=-1)  # each [batch, source, d_model]
        return self.split_heads(key), self.split_heads(value)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor,
        record: list[Tensor] | None,
        packing: Packing | None = None,
    ) -> Tensor:
        """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O: [batch, query, d_model].

        Takes projected queries, keys and values, as `dot_product_attention` does. Appends the weights to `record`.
        """
        if record is None and self.training and self.is_fused(query.device):
            heads = F.scaled_dot_product_attention(query, key, value, mask, self.dropout.rate)
        else:
            heads, weights = dot_product_attention(query, key, value, mask, self.dropout)
            if record is not None:
                record.append(weights)
        return cast(Tensor, self.output(pack(self.join_heads(heads), packing)))

    def is_fused(self, device: torch.device) -> bool:
        """Whether training uses PyTorch's fused attention, which equals `dot_product_attention` but for rounding.

        On a CPU the gain is not worth different results for the same seed.
        """
        return device.type == "cuda"

    def split_heads(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape  # [batch, length, d_model]
        return x.view(batch, length, self.num_heads, self.head_dim).transpose(1, 2)  # [batch, heads, length, d_k]

    def join_heads(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).flatten(2)  # [batch, length, d_model]


def unpack(x: Tensor, packing: Packing | None) -> Tensor:
    """x [tokens, width] to [batch, length, width], as attention takes it; without a packing x has that shape."""
    return x if packing is None else packing.unpack(x)


def pack(x: Tensor, packing: Packing | None) -> Tensor:
    """The inverse of `unpack`."""
    return x if packing is None else packing.pack(x)


class SSRU(nn.Module):
    """The simpler simple recurrent unit (Kim et al. 2019, "From Research to Production and Back"):

        f_t = sigmoid(W_f x_t + b_f),  c_t = f_t * c_{t-1} + (1 - f_t) * W x_t,  h_t = max(0, c_t),  c_{-1} = 0.

    The cell c is all that a step keeps of the target so far, one vector in place of keys and values of every position.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.candidate = Linear(config.d_model, config.d_model, bias=False)
        self.forget = Linear(config.d_model, config.d_model)

    def forward(self, x: Tensor, advance: Callable[[Tensor, Tensor], Tensor] | None = None) -> Tensor:
        """x [batch, length, d_model] to h, the same shape.

        Decoding attaches its state by `advance`, which takes f_t and (1 - f_t) * W x_t of the next position and returns
        its cells. Without it the cells of all positions are computed from an empty one.
        """
        precise = torch.promote_types(x.dtype, torch.float32)  # cells sum up many steps
        forget = self.forget(x).to(precise).sigmoid()  # [batch, length, d_model]
        update = (1 - forget) * self.candidate(x).to(precise)  # [batch, length, d_model]
        cells = advance(forget, update) if advance is not None else cells_of(forget, update)
        return F.relu(cells).to(x.dtype)


def cells_of(forget: Tensor, update: Tensor) -> Tensor:
    """c_t = forget_t * c_{t-1} + update_t from c_{-1} = 0; all [batch, length, d_model]."""
    cells: Tensor = _Cells.apply(forget, update)  # type: ignore[no-untyped-call]
    return cells


class _Cells(torch.autograd.Function):
    """The recurrence of `cells_of` and its gradient, which is the same recurrence from the end.

    Position by position, since it is elementwise: forward and backward together took 14 to 20 ms for 4096 tokens of
    width 256 on a core, an associative scan (Hillis and Steele 1986) 61 to 102 ms, PyTorch's gradient of the same loop
    62 to 382 ms, for 32 to 256 positions. It multiplies by f only, and so cannot overflow as a quotient of cumulative
    products can.
    """

    @staticmethod
    def forward(ctx: Any, forget: Tensor, update: Tensor) -> Tensor:
        cells, cell = torch.empty_like(update), torch.zeros_like(update[:, 0])  # [batch, d_model]
        for t in range(update.size(1)):
            cell = cells[:, t] = torch.addcmul(update[:, t], forget[:, t], cell)
        ctx.save_for_backward(forget, cells)
        return cells

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        (forget, cells), [gradient] = ctx.saved_tensors, gradients
        by_update, carried = torch.empty_like(cells), torch.zeros_like(cells[:, 0])  # [batch, d_model]
        for t in reversed(range(cells.size(1))):
            total = by_update[:, t] = gradient[:, t] + carried
            carried = total * forget[:, t]
        before = F.pad(cells[:, :-1], (0, 0, 1, 0))  # c_{t-1}
        return by_update * before, by_update


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W1 + b1) W2 + b2 (section 3.3, equation 2), or with swish in place of max(0, ...)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = Linear(config.d_model, config.d_ff)
        self.outer = Linear(config.d_ff, config.d_model)
        self.activation = F.relu if config.activation == "relu" else F.silu

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.outer(self.activation(self.inner(x))))


class Residual(nn.Module):
    """The residual connection and layer normalisation around a sublayer f, in one of three placements.

    post: norm(x + f(x)), as in the paper (section 3.1); pre: x + f(norm(x)) (Xiong et al. 2020); residual_post:
    x + norm(f(x)) (Liu et al. 2022, section 3.2). Dropout applies to the term that is added to x (section 5.4).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.placement = config.norm
        self.norm = nn.LayerNorm(config.d_model)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.placement == "pre":
            return x + cast(Tensor, self.dropout(sublayer(self.norm(x))))
        if self.placement == "post":
            return cast(Tensor, self.norm(x + self.dropout(sublayer(x))))
        return x + cast(Tensor, self.dropout(self.norm(sublayer(x))))


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward (section 3.1)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention, self.self_residual = Attention(config), Residual(config)
        self.feed_forward, self.feed_residual = FeedForward(config), Residual(config)

    def forward(
        self, x: Tensor, mask: Tensor, record: list[Tensor] | None = None, packing: Packing | None = None
    ) -> Tensor:
        """x [batch, source, d_model], or with a packing [tokens, d_model], to the same shape."""

        def self_attend(y: Tensor) -> Tensor:
            return self.self_attention.attend(*self.self_attention.project(y, packing), mask, record, packing)

        x = self.self_residual(x, self_attend)
        return cast(Tensor, self.feed_residual(x, self.feed_forward))


Memory = tuple[Tensor, Tensor]
"""Keys and values of a decoder layer's cross-attention, each [batch, heads, source, d_k]."""


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention to the encoder's output, then feed-forward (section 3.1). In place of
    self-attention a layer can have a recurrent unit, see `SSRU`."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.is_recurrent = config.decoder == "ssru"
        if self.is_recurrent:
            self.recurrence, self.recurrence_residual = SSRU(config), Residual(config)
        else:
            self.self_attention, self.self_residual = Attention(config), Residual(config)
        self.cross_attention, self.cross_residual = Attention(config), Residual(config)
        self.feed_forward, self.feed_residual = FeedForward(config), Residual(config)

    def forward(
        self,
        x: Tensor,
        mask: Tensor,
        memory: Memory,
        memory_mask: Tensor,
        record: AttentionRecord | None = None,
        update_cache: Callable[[Tensor, Tensor], Memory] | None = None,
        advance: Callable[[Tensor, Tensor], Tensor] | None = None,
    ) -> Tensor:
        """x [batch, query, d_model] to the same shape.

        Decoding attaches its cache by `update_cache`, which takes the new keys and values of self-attention, and
        returns those of all positions so far. Without it, self-attention has only the new ones. `advance`: see `SSRU`.
        """

        def self_attend(y: Tensor) -> Tensor:
            query, key, value = self.self_attention.project(y)
            if update_cache is not None:
                key, value = update_cache(key, value)
            return self.self_attention.attend(query, key, value, mask, record.decoder if record else None)

        def cross_attend(y: Tensor) -> Tensor:
            if record:
                record.cross_inputs.append(y)
            query = self.cross_attention.project_query(y)
            return self.cross_attention.attend(query, *memory, memory_mask, record.cross if record else None)

        if self.is_recurrent:
            x = self.recurrence_residual(x, partial(self.recurrence, advance=advance))
        else:
            x = self.self_residual(x, self_attend)
        x = self.cross_residual(x, cross_attend)
        return cast(Tensor, self.feed_residual(x, self.feed_forward))


class AlignmentHead(nn.Module):
    """The source token that each target token translates (Chen et al. 2020, "Accurate Word Alignment Induction from
    Neural Machine Translation", SHIFT-AET).

    A head like those of cross-attention, without values, so that it changes no translation. Its queries are projected
    from what the first decoder layer's cross-attention reads at the step that reads the token, and not at the one that
    generates it: there the layer knows for certain which token it is.
    """

    def __init__(self, d_model: int, size: int) -> None:
        super().__init__()
        self.query, self.key = Linear(d_model, size), Linear(d_model, size, bias=False)

    def forward(self, x: Tensor, keys: Tensor) -> Tensor:
        """Scores [batch, query, source] of x [batch, query, d_model], `cross_inputs` of the first layer, for keys
        [batch, source, size]. The highest is the alignment of the token that is read; that of the end symbol
        says that it translates none."""
        return cast(Tensor, self.query(x) @ keys.transpose(1, 2))


class ZeroStartEmbedding(nn.Embedding):
    """Token embeddings of which that of `zero_id` is read as zeros; it is still a row of a shared output matrix."""

    def __init__(self, zero_id: int, vocab_size: int, d_model: int) -> None:
        super().__init__(vocab_size, d_model)
        self.zero_id = zero_id

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens).masked_fill((tokens == self.zero_id).unsqueeze(-1), 0)


class Embedding(nn.Module):
    """Token embeddings scaled by sqrt(d_model), plus positions (sections 3.4 and 3.5), then dropout."""

    def __init__(self, config: ModelConfig, vocab_size: int, zero_id: int | None = None) -> None:
        """`zero_id`: a token that is read as zeros, whatever its embedding."""
        super().__init__()
        self.scale = math.sqrt(config.d_model)
        kind = nn.Embedding if zero_id is None else partial(ZeroStartEmbedding, zero_id)
        self.tokens = kind(vocab_size, config.d_model)
        self.positions: Tensor
        if config.positions == "learned":
            self.positions = nn.Parameter(torch.empty(config.max_positions, config.d_model))
        else:
            table = torch.tensor(computed_positions(config))
            self.register_buffer("positions", table, persistent=False)
        self.dropout = Dropout(config.dropout)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """tokens [batch, length], at positions that broadcast to that shape, to [batch, length, d_model]."""
        return cast(Tensor, self.dropout(self.tokens(tokens) * self.scale + self.positions[positions]))


class Transformer(nn.Module):
    """The encoder-decoder model. Source and target are token ids, padded on the right with `config.pad_id`."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = Embedding(config, config.source_vocab_size)
        self.target_embedding = Embedding(
            config, config.target_vocab_size, config.bos_id if config.zero_start else None
        )
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.encoder_norm = nn.LayerNorm(config.d_model) if config.has_final_norm else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.d_model) if config.has_final_norm else nn.Identity()
        self.output = Linear(config.d_model, config.target_vocab_size, bias=config.output_bias)
        self.alignment = AlignmentHead(config.d_model, config.alignment_size) if config.alignment_size else None
        self._initialise()
        if config.share_embeddings != "none":
            self.output.weight = self.target_embedding.tokens.weight
        if config.share_embeddings == "all":
            self.source_embedding.tokens.weight = self.target_embedding.tokens.weight

    @classmethod
    def with_weights(cls, config: ModelConfig, weights: Mapping[str, Tensor]) -> Self:
        """A model whose parameters are `weights`, by the names of `named_parameters`: not copies, and of their types.

        Raises ValueError for one of another shape.
        """
        with torch.device("meta"), WithoutInitialisation():
            model = cls(config)
        for name, parameter in list(model.named_parameters()):
            if (weight := weights[name]).shape != parameter.shape:
                raise ValueError(f"{name} has the shape {tuple(weight.shape)}, not {tuple(parameter.shape)}")
            module, _, attribute = name.rpartition(".")
            setattr(model.get_submodule(module), attribute, nn.Parameter(weight))
        if config.share_embeddings == "all":
            model.target_embedding.tokens.weight = model.source_embedding.tokens.weight
        if config.share_embeddings != "none":
            model.output.weight = model.target_embedding.tokens.weight
        if config.positions != "learned":
            for embedding in (model.source_embedding, model.target_embedding):
                embedding.positions = torch.tensor(computed_positions(config))
        return model

    def encode(self, src: Tensor, record: AttentionRecord | None = None) -> Tensor:
        """src [batch, source] to the encoder's output, [batch, source, d_model]. No position attends to padding."""
        self.check_length(src.size(1))
        mask = self.source_mask(src)
        x = self.source_embedding(src, torch.arange(src.size(1), device=src.device))  # [batch, source, d_model]
        for layer in self.encoder:
            x = layer(x, mask, record.encoder if record else None)
        return cast(Tensor, self.encoder_norm(x))

    def memory(self, encoded: Tensor, packing: Packing | None = None) -> list[Memory]:
        """Keys and values of the encoder's output for each decoder layer, computed once per sentence."""
        return [cast(DecoderLayer, layer).cross_attention.project_memory(encoded, packing) for layer in self.decoder]

    def decode(
        self, tgt: Tensor, memory: list[Memory], memory_mask: Tensor, record: AttentionRecord | None = None
    ) -> Tensor:
        """The decoder's output for all target positions in parallel, [batch, target, d_model].

        tgt [batch, target] begins with `bos_id`. Each position attends to itself and those before it (section 3.2.3).
        Targets need no padding mask: padding is on the right, where the causal mask hides it from all real positions.
        """
        self.check_length(tgt.size(1))
        steps = torch.arange(tgt.size(1), device=tgt.device)  # [target]
        causal = steps[:, None] >= steps[None, :]  # [query, key]
        x = self.target_embedding(tgt, steps)  # [batch, target, d_model]
        for layer, layer_memory in zip(self.decoder, memory, strict=True):
            x = layer(x, causal, layer_memory, memory_mask, record)
        return cast(Tensor, self.decoder_norm(x))

    def hidden(self, src: Tensor, tgt: Tensor, record: AttentionRecord | None = None) -> Tensor:
        """The decoder's output before the vocabulary projection, [batch, target, d_model]."""
        memory = self.memory(self.encode(src, record))
        return self.decode(tgt, memory, self.source_mask(src), record)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Logits of the token after each target position, [batch, target, target_vocab_size]."""
        return cast(Tensor, self.output(self.hidden(src, tgt)))

    def source_mask(self, src: Tensor) -> Tensor:
        """True at source tokens that are not padding, [batch, 1, 1, source]."""
        return (src != self.config.pad_id)[:, None, None, :]

    def parameter_count(self) -> int:
        """Number of trainable parameters; a shared matrix counts once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def check_length(self, tokens: int) -> None:
        """Raises ValueError if the model has fewer positions than `tokens`."""
        if tokens > self.config.max_positions:
            raise ValueError(f"{tokens} tokens are over the model's limit of {self.config.max_positions}")

    def _initialise(self) -> None:
        """Initialises projections after Glorot and Bengio (2010), query, key and value each as a matrix of its own.

        Embeddings are normal with variance 1 / d_model, so that scaled ones have variance 1, and tied logits start
        small.
        """
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, Embedding):
                nn.init.normal_(module.tokens.weight, std=self.config.d_model**-0.5)
                if self.config.positions == "learned":
                    nn.init.normal_(module.positions, std=0.02)
        for module in self.modules():
            if isinstance(module, Attention):
                for projection in module.query_key_value.weight.chunk(3):
                    nn.init.xavier_uniform_(projection)


def replace_linears(model: Transformer, replacement: Callable[[Linear], nn.Module]) -> Transformer:
    """A copy of `model` that shares its tensors, with each linear replaced by `replacement(linear)`."""
    copies = {
        module: replacement(module) if isinstance(module, Linear) else copy.copy(module) for module in model.modules()
    }
    for module, new in copies.items():
        if not isinstance(module, Linear):
            new._parameters, new._buffers = dict(module._parameters), dict(module._buffers)
            new._modules = {name: child and copies[child] for name, child in module._modules.items()}
    return cast(Transformer, copies[model])
