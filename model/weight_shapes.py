"""The names and shapes of a Transformer's weights, derived from its architecture without PyTorch."""

from __future__ import annotations

from collections.abc import Iterator

from model.config import ModelConfig

Shape = tuple[int, ...]
ALIGNMENT_HEAD = "alignment"
"""The module whose weights give the alignment and change no translation: a bundle has them in a file of their own."""


def weight_shapes(config: ModelConfig) -> dict[str, Shape]:
    """The names and shapes of `Transformer(config).named_parameters()`: a shared matrix once, under its first name."""
    return dict(_weights(config))


def _weights(config: ModelConfig) -> Iterator[tuple[str, Shape]]:
    width, sharing = config.d_model, config.share_embeddings
    for name, size in (("source", config.source_vocab_size), ("target", config.target_vocab_size)):
        if config.positions == "learned":
            yield f"{name}_embedding.positions", (config.max_positions, width)
        if name == "source" or sharing != "all":
            yield f"{name}_embedding.tokens.weight", (size, width)
    for stack, depth in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for layer in range(depth):
            for name, shape in _layer(config, is_decoder=stack == "decoder"):
                yield f"{stack}.{layer}.{name}", shape
    if config.has_final_norm:
        yield from _norm("encoder_norm", width)
        yield from _norm("decoder_norm", width)
    if sharing == "none":
        yield "output.weight", (config.target_vocab_size, width)
    if config.output_bias:
        yield "output.bias", (config.target_vocab_size,)
    if config.alignment_size:
        yield from _linear(f"{ALIGNMENT_HEAD}.query", width, config.alignment_size)
        yield from _linear(f"{ALIGNMENT_HEAD}.key", width, config.alignment_size, bias=False)


def _layer(config: ModelConfig, is_decoder: bool) -> Iterator[tuple[str, Shape]]:
    width, is_recurrent = config.d_model, is_decoder and config.decoder == "ssru"
    if is_recurrent:
        yield from _linear("recurrence.candidate", width, width, bias=False)
        yield from _linear("recurrence.forget", width, width)
        yield from _norm("recurrence_residual.norm", width)
    for name in (*([] if is_recurrent else ["self"]), *(["cross"] if is_decoder else [])):
        yield from _linear(f"{name}_attention.query_key_value", width, 3 * width, config.attention_bias)
        yield from _linear(f"{name}_attention.output", width, width, config.attention_bias)
        yield from _norm(f"{name}_residual.norm", width)
    yield from _linear("feed_forward.inner", width, config.d_ff)
    yield from _linear("feed_forward.outer", config.d_ff, width)
    yield from _norm("feed_residual.norm", width)


def _linear(name: str, inputs: int, outputs: int, bias: bool = True) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (outputs, inputs)
    if bias:
        yield f"{name}.bias", (outputs,)


def _norm(name: str, width: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (width,)
    yield f"{name}.bias", (width,)
