"""The Transformer against PyTorch's own, against its formulas written out, and properties of its parts."""

from __future__ import annotations

import gc
import math
import weakref
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.config import ModelConfig, NormPlacement, named_architecture
from model.positions import sinusoidal_positions
from model.transformer import Attention, AttentionRecord, Dropout, Embedding, Transformer, cells_of, replace_linears

NORMS: tuple[NormPlacement, ...] = ("post", "pre", "residual_post")
VOCABULARY = 50
PAD = 0


def make_model(*, seed: int = 0, **fields: Any) -> Transformer:
    """A small model in evaluation mode. Norms and biases are random too: at their initial 1 and 0 they hide errors."""
    torch.manual_seed(seed)
    shape = {"d_model": 32, "num_heads": 4, "d_ff": 48, "encoder_layers": 2, "decoder_layers": 2}
    vocabularies = {"source_vocab_size": VOCABULARY, "target_vocab_size": VOCABULARY}
    model = Transformer(ModelConfig.from_dict({**vocabularies, **shape, **fields})).eval()
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            nn.init.normal_(parameter, mean=1.0 if name.endswith("norm.weight") else 0.0, std=0.2)
    return model


def random_tokens(*lengths: int, seed: int = 1) -> Tensor:
    """A sentence for each length, padded on the right to the longest: [batch, length]."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(3, VOCABULARY, (len(lengths), max(lengths)), generator=generator)
    return tokens.masked_fill(torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None], PAD)


def real(tokens: Tensor) -> Tensor:
    return tokens != PAD


# ---- The independent implementation: torch.nn.Transformer


def torch_transformer(config: ModelConfig) -> nn.Transformer:
    """PyTorch's own Transformer in the same shape. Its `bias` removes all biases, so attention without them is inserted
    here."""
    shape: dict[str, Any] = {"dropout": 0.0, "batch_first": True, "norm_first": config.norm == "pre"}
    shape["activation"] = nn.functional.silu if config.activation == "swish" else "relu"
    encoder_layer = nn.TransformerEncoderLayer(config.d_model, config.num_heads, config.d_ff, **shape)
    decoder_layer = nn.TransformerDecoderLayer(config.d_model, config.num_heads, config.d_ff, **shape)

    def final_norm() -> nn.LayerNorm | None:
        return nn.LayerNorm(config.d_model) if config.has_final_norm else None

    encoder = nn.TransformerEncoder(encoder_layer, config.encoder_layers, final_norm(), enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(decoder_layer, config.decoder_layers, final_norm())
    model = nn.Transformer(
        config.d_model, config.num_heads, custom_encoder=encoder, custom_decoder=decoder, batch_first=True
    )
    if not config.attention_bias:
        for layer in [*encoder.layers, *decoder.layers]:
            for name in [name for name, _ in layer.named_children() if name in ("self_attn", "multihead_attn")]:
                attention = nn.MultiheadAttention(config.d_model, config.num_heads, bias=False, batch_first=True)
                setattr(layer, name, attention)
    return model


def torch_name(name: str) -> str:
    """The name in PyTorch's own Transformer of the parameter that ours calls `name`."""
    stack = name[: len("encoder")]
    for ours, theirs in {
        f"{stack}.": f"{stack}.layers.",
        f"{stack}_norm.": f"{stack}.norm.",
        "self_attention.": "self_attn.",
        "cross_attention.": "multihead_attn.",
        "query_key_value.": "in_proj_",
        "attn.output.": "attn.out_proj.",
        "feed_forward.inner.": "linear1.",
        "feed_forward.outer.": "linear2.",
        "self_residual.norm.": "norm1.",
        "cross_residual.norm.": "norm2.",
        "feed_residual.norm.": "norm2." if stack == "encoder" else "norm3.",
    }.items():
        name = name.replace(ours, theirs)
    return name


def torch_hidden(model: Transformer, src: Tensor, tgt: Tensor) -> Tensor:
    """The output of PyTorch's own Transformer for the same embeddings and weights: [batch, target, d_model]."""
    reference = torch_transformer(model.config).to(model.output.weight.dtype).eval()
    weights = {name: value for name, value in model.state_dict().items() if name.startswith(("encoder", "decoder"))}
    # Strict: every weight of theirs must have been given one of ours.
    reference.load_state_dict({torch_name(name): value for name, value in weights.items()}, strict=True)
    hidden = reference(
        model.source_embedding(src, torch.arange(src.size(1))),
        model.target_embedding(tgt, torch.arange(tgt.size(1))),
        tgt_mask=torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool).triu(1),
        src_key_padding_mask=~real(src),
        tgt_key_padding_mask=~real(tgt),
        memory_key_padding_mask=~real(src),
    )
    return cast(Tensor, hidden)


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"d_model": 64, "num_heads": 1, "d_ff": 256, "encoder_layers": 1, "decoder_layers": 3},
        {"d_model": 48, "num_heads": 8, "d_ff": 16, "encoder_layers": 6, "decoder_layers": 2},
        {"activation": "swish"},
    ],
    ids=["square", "one head", "six and two", "swish"],
)
@pytest.mark.parametrize("attention_bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize(
    ("norm", "final_norm"), [("post", False), ("post", True), ("pre", True)], ids=["post", "post closed", "pre"]
)
@torch.no_grad()
def test_equal_weights_give_the_outputs_of_torch_nn_transformer(
    norm: str, final_norm: bool, attention_bias: bool, shape: dict[str, Any]
) -> None:
    model = make_model(norm=norm, final_norm=final_norm, attention_bias=attention_bias, **shape)
    src, tgt = random_tokens(9, 1, 5, 12), random_tokens(3, 10, 1, 7, seed=2)
    assert_same_as_torch(model, src, tgt, atol=1e-5)
    # What is left is rounding: in double precision it is gone.
    assert_same_as_torch(model.double(), src, tgt, atol=1e-12)


@torch.no_grad()
def test_an_output_bias_is_added_to_the_logits() -> None:
    for sharing in ("all", "decoder", "none"):
        model = make_model(output_bias=True, share_embeddings=sharing)
        src, tgt = random_tokens(9, 3), random_tokens(4, 7, seed=2)
        logits = model(src, tgt)
        bias = model.output.bias.clone()
        model.output.bias.zero_()
        assert bias.abs().min() > 0
        assert torch.allclose(logits, model(src, tgt) + bias, atol=1e-6)


def test_a_copy_with_other_linears_is_freed_without_the_garbage_collector() -> None:
    """A worker freezes what it has loaded: a cycle around a model would keep its weights for ever."""
    model = make_model()
    gc.disable()
    try:
        changed = replace_linears(model, lambda linear: nn.Identity())
        assert not any(isinstance(module, nn.Linear) for module in changed.modules())
        freed = weakref.ref(changed), weakref.ref(model)
        del changed, model
        assert [reference() for reference in freed] == [None, None]
    finally:
        gc.enable()


def assert_same_as_torch(model: Transformer, src: Tensor, tgt: Tensor, atol: float) -> None:
    torch.testing.assert_close(
        model.hidden(src, tgt)[real(tgt)], torch_hidden(model, src, tgt)[real(tgt)], rtol=0, atol=atol
    )


def test_logits_are_hidden_states_times_the_output_matrix() -> None:
    model = make_model()
    src, tgt = random_tokens(4, 6), random_tokens(5, 2)
    torch.testing.assert_close(model(src, tgt), model.hidden(src, tgt) @ model.output.weight.T)


# ---- The formulas written out: one sentence, a loop over heads and queries, no masks


def written_out_attention(layer: Attention, queries: Tensor, keys: Tensor, causal: bool) -> Tensor:
    """queries [query, d_model] attend to keys [key, d_model], of which a causal one sees those up to its own place."""
    width, head_dim = queries.size(-1), layer.head_dim
    matrices, biases = layer.query_key_value.weight.chunk(3), layer.query_key_value.bias.chunk(3)
    q, k, v = (x @ m.T + b for x, m, b in zip((queries, keys, keys), matrices, biases, strict=True))
    rows = []
    for position in range(len(queries)):
        seen = position + 1 if causal else len(keys)
        heads = []
        for first in range(0, width, head_dim):
            head = slice(first, first + head_dim)
            exponentials = torch.exp(k[:seen, head] @ q[position, head] / math.sqrt(head_dim))
            heads.append((exponentials / exponentials.sum()) @ v[:seen, head])
        rows.append(layer.output.weight @ torch.cat(heads) + layer.output.bias)
    return torch.stack(rows)


def written_out_norm(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)
    return (x - mean) / torch.sqrt(variance + norm.eps) * norm.weight + norm.bias


def written_out_hidden(model: Transformer, src: Tensor, tgt: Tensor) -> Tensor:
    """The whole of `hidden` for one sentence, src [source] and tgt [target], all three placements of the norm."""
    placement = model.config.norm

    def sublayer(residual: Any, x: Tensor, f: Any) -> Tensor:
        norm = residual.norm
        if placement == "post":
            return written_out_norm(norm, x + f(x))
        if placement == "pre":
            return x + cast(Tensor, f(written_out_norm(norm, x)))
        return x + written_out_norm(norm, f(x))

    def feed_forward(layer: Any) -> Any:
        inner, outer = layer.feed_forward.inner, layer.feed_forward.outer
        return lambda y: torch.clamp(y @ inner.weight.T + inner.bias, min=0) @ outer.weight.T + outer.bias

    def recurrence(layer: Any) -> Any:
        """Marian's cell (`dec-cell: ssru`), one position after another."""

        def f(y: Tensor) -> Tensor:
            cell, outputs = torch.zeros_like(y[0]), []
            for u in y:
                gate = 1 / (1 + torch.exp(-(layer.forget.weight @ u + layer.forget.bias)))
                cell = gate * cell + (1 - gate) * (layer.candidate.weight @ u)
                outputs.append(torch.clamp(cell, min=0))
            return torch.stack(outputs)

        return f

    def embed(embedding: Embedding, tokens: Tensor) -> Tensor:
        return embedding.tokens.weight[tokens] * math.sqrt(model.config.d_model) + embedding.positions[: len(tokens)]

    x = embed(model.source_embedding, src)
    for layer in cast(Any, model.encoder):
        x = sublayer(layer.self_residual, x, lambda y, a=layer.self_attention: written_out_attention(a, y, y, False))
        x = sublayer(layer.feed_residual, x, feed_forward(layer))
    memory = written_out_norm(cast(nn.LayerNorm, model.encoder_norm), x) if model.config.has_final_norm else x
    x = embed(model.target_embedding, tgt)
    for layer in cast(Any, model.decoder):
        if model.config.decoder == "ssru":
            x = sublayer(layer.recurrence_residual, x, recurrence(layer.recurrence))
        else:
            x = sublayer(layer.self_residual, x, lambda y, a=layer.self_attention: written_out_attention(a, y, y, True))
        x = sublayer(
            layer.cross_residual, x, lambda y, a=layer.cross_attention: written_out_attention(a, y, memory, False)
        )
        x = sublayer(layer.feed_residual, x, feed_forward(layer))
    return written_out_norm(cast(nn.LayerNorm, model.decoder_norm), x) if model.config.has_final_norm else x


@pytest.mark.parametrize("decoder", ["attention", "ssru"])
@pytest.mark.parametrize("final_norm", [True, False])
@pytest.mark.parametrize("norm", NORMS)
@torch.no_grad()
def test_every_norm_placement_equals_its_formula(norm: str, final_norm: bool, decoder: str) -> None:
    model = make_model(norm=norm, final_norm=final_norm, decoder=decoder, share_embeddings="none").double()
    src, tgt = random_tokens(7), random_tokens(5, seed=2)
    torch.testing.assert_close(model.hidden(src, tgt)[0], written_out_hidden(model, src[0], tgt[0]), rtol=0, atol=1e-12)


def test_the_gradient_of_the_recurrence_is_that_of_its_steps() -> None:
    generator = torch.Generator().manual_seed(0)
    shape = (2, 7, 3)
    forget = torch.rand(shape, generator=generator, dtype=torch.float64).requires_grad_()
    update = torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(cells_of, (forget, update))


@torch.no_grad()
def test_a_recurrence_that_forgets_nothing_or_all_stays_exact_over_many_positions() -> None:
    update = torch.randn(1, 1000, 4)
    assert torch.equal(cells_of(torch.zeros_like(update), update), update)
    torch.testing.assert_close(cells_of(torch.ones_like(update), update), update.cumsum(1), rtol=1e-4, atol=1e-4)


# ---- Masks


@pytest.mark.parametrize("norm", [*NORMS, "ssru"])
@torch.no_grad()
def test_padding_never_changes_a_sentence(norm: str) -> None:
    model = make_model(decoder="ssru") if norm == "ssru" else make_model(norm=norm)
    src_lengths, tgt_lengths = (9, 1, 5), (2, 6, 4)
    src, tgt = random_tokens(*src_lengths), random_tokens(*tgt_lengths, seed=2)
    together = model(F.pad(src, (0, 6)), F.pad(tgt, (0, 3)))
    for row, (source, target) in enumerate(zip(src_lengths, tgt_lengths, strict=True)):
        alone = model(src[row : row + 1, :source], tgt[row : row + 1, :target])
        torch.testing.assert_close(together[row, :target], alone[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("decoder", ["attention", "ssru"])
@torch.no_grad()
def test_no_position_attends_to_a_later_target_token(decoder: str) -> None:
    model = make_model(decoder=decoder)
    src, tgt = random_tokens(6), random_tokens(8, seed=2)
    before = model(src, tgt)
    for position in range(1, 8):
        changed = tgt.clone()
        changed[0, position] = 3 + (tgt[0, position] - 2) % (VOCABULARY - 3)
        after = model(src, changed)
        assert torch.equal(after[0, :position], before[0, :position])
        assert not torch.allclose(after[0, position], before[0, position])


@torch.no_grad()
def test_every_source_token_affects_every_target_position() -> None:
    model = make_model()
    src, tgt = random_tokens(6), random_tokens(4, seed=2)
    before = model(src, tgt)
    for position in range(6):
        changed = src.clone()
        changed[0, position] = 3 + (src[0, position] - 2) % (VOCABULARY - 3)
        assert (model(changed, tgt) - before).abs().amax(-1).min() > 1e-4


@pytest.mark.parametrize("norm", NORMS)
@torch.no_grad()
def test_attention_rows_sum_to_one_over_visible_positions(norm: str) -> None:
    model = make_model(norm=norm, encoder_layers=3)
    src, tgt = random_tokens(9, 1, 5), random_tokens(2, 6, 4, seed=2)
    record = AttentionRecord()
    hidden = model.hidden(src, tgt, record)
    assert torch.equal(hidden, model.hidden(src, tgt))
    assert (len(record.encoder), len(record.decoder), len(record.cross)) == (3, 2, 2)
    causal = torch.ones(6, 6, dtype=torch.bool).tril()
    for weights, visible, queries in [
        *[(w, real(src)[:, None, None, :].expand(3, 4, 9, 9), 9) for w in record.encoder],
        *[(w, causal.expand(3, 4, 6, 6), 6) for w in record.decoder],
        *[(w, real(src)[:, None, None, :].expand(3, 4, 6, 9), 6) for w in record.cross],
    ]:
        torch.testing.assert_close(weights.sum(-1), torch.ones(3, 4, queries))
        assert (weights[~visible] == 0).all()
        assert (weights[visible] > 0).all()


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_sequence_longer_than_the_positions_is_refused(positions: str) -> None:
    model = make_model(positions=positions, max_positions=8)
    model(random_tokens(8), random_tokens(8))
    for src, tgt in ((9, 8), (8, 9)):
        with pytest.raises(ValueError, match="9 tokens are over the model's limit of 8"):
            model(random_tokens(src), random_tokens(tgt))


# ---- Embeddings and positions


def test_sinusoidal_positions_are_the_papers() -> None:
    table = torch.tensor(sinusoidal_positions(40, 12))
    expected = [
        [
            value
            for pair in range(6)
            for value in (
                math.sin(position / 10000 ** (2 * pair / 12)),
                math.cos(position / 10000 ** (2 * pair / 12)),
            )
        ]
        for position in range(40)
    ]
    assert table.dtype == torch.float32
    torch.testing.assert_close(table, torch.tensor(expected, dtype=torch.float64).float(), rtol=0, atol=1e-7)


def test_embeddings_are_scaled_before_positions_are_added() -> None:
    embedding = make_model().source_embedding
    tokens, positions = torch.tensor([[4, 7]]), torch.tensor([[5, 2]])
    expected = embedding.tokens.weight[[4, 7]] * math.sqrt(32) + torch.tensor(sinusoidal_positions(6, 32))[[5, 2]]
    torch.testing.assert_close(embedding(tokens, positions)[0], expected)


def test_learned_positions_are_trained_and_sinusoidal_ones_are_not_parameters() -> None:
    learned, fixed = make_model(positions="learned", max_positions=20), make_model(max_positions=20)
    assert {"source_embedding.positions", "target_embedding.positions"} <= set(dict(learned.named_parameters()))
    assert not [name for name in fixed.state_dict() if "positions" in name]
    # Four tokens long: the first four positions learn, the others stay.
    learned(random_tokens(4), random_tokens(4)).sum().backward()
    gradient = learned.source_embedding.positions.grad
    assert gradient is not None
    assert gradient[:4].abs().sum(-1).min() > 0
    assert gradient[4:].abs().max() == 0


# ---- Sharing, size and initial values


def addresses(model: Transformer) -> list[int]:
    return [
        matrix.data_ptr()
        for matrix in (model.source_embedding.tokens.weight, model.target_embedding.tokens.weight, model.output.weight)
    ]


@pytest.mark.parametrize(("sharing", "matrices"), [("none", 3), ("decoder", 2), ("all", 1)])
def test_shared_matrices_are_one_tensor(sharing: str, matrices: int) -> None:
    model = make_model(share_embeddings=sharing)
    source, target, output = addresses(model)
    assert len({source, target, output}) == matrices
    assert (target == output) == (sharing != "none")
    others = make_model(share_embeddings="none").parameter_count() - 3 * VOCABULARY * 32
    assert model.parameter_count() == others + matrices * VOCABULARY * 32


def test_shared_matrices_stay_one_after_loading_and_conversion() -> None:
    model, other = make_model(), make_model(seed=1)
    other.load_state_dict(model.state_dict())
    assert len(set(addresses(other))) == 1
    assert len(set(addresses(other.to(torch.float16)))) == 1


def test_shared_matrix_accumulates_the_gradients_of_its_uses() -> None:
    shared, apart = make_model(share_embeddings="all"), make_model(share_embeddings="none")
    apart.load_state_dict(shared.state_dict())
    src, tgt = random_tokens(5, 3), random_tokens(4, 6, seed=2)
    for model in (shared, apart):
        model(src, tgt).square().mean().backward()
    parts = [apart.source_embedding.tokens.weight, apart.target_embedding.tokens.weight, apart.output.weight]
    gradients = [cast(Tensor, part.grad) for part in parts]
    assert all(gradient.abs().max() > 0 for gradient in gradients)
    torch.testing.assert_close(shared.output.weight.grad, sum(gradients))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["toy", "d2l", "tiny", "small", "base"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_parameter_count_is_the_papers(name: str, norm: str) -> None:
    config = named_architecture(name, source_vocab_size=37000, target_vocab_size=37000, norm=norm)
    with torch.device("meta"):
        model = Transformer(config)
    d, d_ff = config.d_model, config.d_ff
    attention, feed_forward, layer_norm = 4 * (d * d + d), 2 * d * d_ff + d_ff + d, 2 * d
    encoder = attention + feed_forward + 2 * layer_norm
    decoder = 2 * attention + feed_forward + 3 * layer_norm
    closing = 2 * layer_norm if norm == "pre" else 0
    layers = config.encoder_layers * encoder + config.decoder_layers * decoder
    assert model.parameter_count() == layers + closing + 37000 * d
    if name == "base":  # table 3 has 65 million
        assert model.parameter_count() == pytest.approx(65e6, rel=0.04)


def test_attention_without_biases_has_none() -> None:
    names = dict(make_model(attention_bias=False).named_parameters())
    assert not [name for name in names if "attention" in name and name.endswith("bias")]
    assert [name for name in names if "feed_forward" in name and name.endswith("bias")]


@pytest.mark.parametrize("bias", [True, False])
def test_initial_projections_are_within_glorots_bound(bias: bool) -> None:
    torch.manual_seed(0)
    config = ModelConfig(90, 70, d_model=64, num_heads=4, d_ff=200, share_embeddings="none", attention_bias=bias)
    model = Transformer(config)
    matrices = []
    for module in model.modules():
        if isinstance(module, Attention):
            # Query, key and value are each a matrix, not a third of one: the bound of 64 by 64.
            matrices += [*module.query_key_value.weight.chunk(3), module.output.weight]
        elif isinstance(module, nn.Linear) and module.weight.shape in ((200, 64), (64, 200), (70, 64)):
            matrices.append(module.weight)
    assert len(matrices) == 6 * (4 + 2) + 2 * (8 + 2) + 1
    for matrix in matrices:
        bound = math.sqrt(6 / sum(matrix.shape))
        assert 0.98 * bound < matrix.abs().max() <= bound
        assert matrix.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
        assert abs(matrix.mean()) < 0.05 * bound


def test_initial_norms_are_neutral_and_biases_zero() -> None:
    torch.manual_seed(0)
    model = Transformer(ModelConfig(VOCABULARY, VOCABULARY, d_model=32, d_ff=64))
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            assert (parameter == (1 if name.endswith("norm.weight") else 0)).all(), name


@pytest.mark.parametrize("sharing", ["none", "decoder", "all"])
def test_initial_scaled_embeddings_have_unit_variance(sharing: str) -> None:
    torch.manual_seed(0)
    config = ModelConfig.from_dict(
        {"source_vocab_size": 2000, "target_vocab_size": 2000, "d_model": 64, "share_embeddings": sharing}
    )
    model = Transformer(config)
    for embedding in (model.source_embedding, model.target_embedding):
        assert (embedding.tokens.weight * embedding.scale).std().item() == pytest.approx(1, rel=0.02)


def test_initial_learned_positions_are_small_compared_with_the_embeddings() -> None:
    torch.manual_seed(0)
    shape = {"d_model": 64, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1, "max_positions": 200}
    model = Transformer(
        ModelConfig.from_dict({"source_vocab_size": 50, "target_vocab_size": 50, **shape, "positions": "learned"})
    )
    for embedding in (model.source_embedding, model.target_embedding):
        assert embedding.positions.std().item() == pytest.approx(0.02, rel=0.05)


def fuse(model: Transformer) -> None:
    """Has `model` use PyTorch's fused attention, as on a GPU."""
    for module in model.modules():
        if isinstance(module, Attention):
            module.is_fused = lambda device: True  # type: ignore[method-assign]


def test_fused_attention_equals_explicit_attention() -> None:
    model = make_model(dropout=0.0).train()
    src, tgt = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]]), torch.tensor([[1, 8, 9], [1, 4, 0]])

    def outcome() -> list[torch.Tensor]:
        model.zero_grad()
        hidden = model.hidden(src, tgt)
        torch.autograd.backward(hidden.square().sum())
        return [hidden, *(parameter.grad for parameter in model.parameters() if parameter.grad is not None)]

    explicit = outcome()
    fuse(model)
    for fused, other in zip(outcome(), explicit, strict=True):
        torch.testing.assert_close(fused, other, rtol=1e-4, atol=1e-5)


def test_fused_attention_drops_weights_too() -> None:
    model = make_model(dropout=0.0, attention_dropout=0.5).train()
    fuse(model)
    src, tgt = random_tokens(6), random_tokens(6, seed=2)
    assert not torch.allclose(model(src, tgt), model(src, tgt))


# ---- Dropout


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_dropout_keeps_the_expectation_and_the_rate(rate: float) -> None:
    torch.manual_seed(0)
    count = 800_000
    dropped = Dropout(rate)(torch.ones(count))
    actual = round(rate * 256) / 256
    assert abs(actual - rate) <= 1 / 512
    assert sorted(set(dropped.tolist())) == pytest.approx([0, 1 / (1 - actual)], rel=1e-6)
    tolerance = 5 * math.sqrt(actual * (1 - actual) / count)  # five standard deviations
    assert (dropped == 0).float().mean().item() == pytest.approx(actual, abs=tolerance)
    assert dropped.double().mean().item() == pytest.approx(1, abs=tolerance / (1 - actual))


def test_every_byte_of_a_random_word_drops_at_the_same_rate() -> None:
    torch.manual_seed(0)
    zeros = (Dropout(0.25)(torch.ones(100_000, 8)) == 0).double()
    tolerance = 5 * math.sqrt(0.25 * 0.75 / 100_000)
    assert zeros.mean(0).tolist() == pytest.approx([0.25] * 8, abs=tolerance)
    # Nor does one element's fate tell another's: no two of the eight are correlated.
    correlation = torch.corrcoef(zeros.T).fill_diagonal_(0)
    assert correlation.abs().max() < 5 / math.sqrt(100_000)


def test_dropout_is_off_in_evaluation_and_at_rate_zero() -> None:
    x = torch.randn(100)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0).train()(x) is x


@pytest.mark.parametrize("rate", [0.998, 0.9999])
def test_highest_dropout_rates_stay_finite(rate: float) -> None:
    torch.manual_seed(0)
    dropped = Dropout(rate)(torch.ones(10_000))
    assert dropped.isfinite().all()
    assert (dropped == 0).any()


def test_dropout_follows_manual_seed() -> None:
    x, dropout = torch.ones(3, 5, 7), Dropout(0.5)

    def drawn(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return cast(Tensor, dropout(x))

    assert torch.equal(drawn(7), drawn(7))
    assert not torch.equal(drawn(7), drawn(8))
    torch.manual_seed(7)
    assert not torch.equal(dropout(x), dropout(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_gradient_of_dropout_is_its_mask(dtype: torch.dtype) -> None:
    x = torch.randn(4, 33, dtype=dtype).requires_grad_()
    dropout = Dropout(0.25)
    torch.manual_seed(3)
    mask = dropout.mask(x)
    torch.manual_seed(3)
    dropped = dropout(x)
    dropped.sum().backward()
    assert dropped.dtype == mask.dtype == dtype
    assert torch.equal(dropped, x * mask)
    assert x.grad is not None
    assert torch.equal(x.grad, mask)


@pytest.mark.parametrize("field", ["dropout", "attention_dropout"])
def test_model_is_random_only_in_training(field: str) -> None:
    model = make_model(**dict[str, Any]({"dropout": 0.0, "attention_dropout": 0.0} | {field: 0.3}))
    src, tgt = random_tokens(6), random_tokens(6, seed=2)
    assert torch.equal(model(src, tgt), model(src, tgt))
    quiet = model(src, tgt)
    model.train()
    assert not torch.allclose(model(src, tgt), model(src, tgt))
    still = make_model(dropout=0.0, attention_dropout=0.0).train()
    torch.testing.assert_close(still(src, tgt), quiet)


@pytest.mark.parametrize("norm", NORMS)
def test_dropout_applies_to_embeddings_and_all_residuals(norm: str) -> None:
    model = make_model(norm=norm, dropout=0.5).train()
    for module in model.modules():
        if isinstance(module, Dropout):
            module.mask = torch.zeros_like  # type: ignore[method-assign, assignment]
    hidden = model.hidden(random_tokens(6), random_tokens(4))
    # With everything dropped, only a zero goes down the residual path, through the norms that stand in it.
    norms = [n for name, n in model.decoder.named_modules() if name.endswith("_residual.norm") and norm == "post"]
    expected = torch.zeros(1, 4, 32)
    for layer in [*norms, model.decoder_norm]:
        expected = layer(expected)
    torch.testing.assert_close(hidden, expected)


@pytest.mark.parametrize("decoder", ["attention", "ssru"])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("sharing", ["none", "all"])
def test_every_parameter_gets_a_gradient(norm: str, sharing: str, decoder: str) -> None:
    model = make_model(norm=norm, share_embeddings=sharing, decoder=decoder).train()
    logits = model(random_tokens(6, 4), random_tokens(5, 7, seed=2))
    logits.log_softmax(-1)[..., 5].mean().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name
