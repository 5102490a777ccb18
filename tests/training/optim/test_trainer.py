"""One training step against the same arithmetic by hand."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from shared_fixtures import small_config
from torch.nn import functional as F

from training.data.batches import Batch, Pairs
from training.optim.trainer import Recipe, Trainer, TrainingError, resolve_precision

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
# Without biases: that of the keys has no gradient but rounding, which Adam makes as large as any.
CONFIG = small_config(60, dropout=0.0, attention_bias=False)


def make_pairs(count: int = 24) -> Pairs:
    random = np.random.default_rng(5)
    sides = [[random.integers(4, 60, random.integers(1, 9)).tolist() for _ in range(count)] for _ in ("src", "tgt")]
    return Pairs.of(*sides)


def batch_of(rows: range) -> Batch:
    return make_pairs().batch(np.array(rows), CONFIG)


def trainer(**recipe: Any) -> Trainer:
    return Trainer(CONFIG, Recipe(**{"steps": 10, "precision": "float32", **recipe}), CPU)


def by_hand(model: torch.nn.Module, batch: Batch, smoothing: float) -> torch.Tensor:
    logits = model(batch.src, batch.tgt_in)  # [batch, target, vocabulary]
    return F.cross_entropy(
        logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=0, label_smoothing=smoothing, reduction="sum"
    )


@pytest.mark.slow
def test_accumulated_batches_update_the_weights_like_one_batch() -> None:
    whole, parts = trainer(), trainer()
    nats = whole.step([batch_of(range(24))], 0.01)
    nats_of_parts = parts.step([batch_of(range(5)), batch_of(range(5, 24))], 0.01)
    torch.testing.assert_close(nats, nats_of_parts)
    for ours, theirs in zip(whole.model.parameters(), parts.model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=2e-5)


def test_step_is_adam_on_the_clipped_gradient_of_the_mean_loss() -> None:
    ours = trainer(clip_norm=0.05, label_smoothing=0.2)
    theirs = trainer().model
    adam = torch.optim.Adam(theirs.parameters(), lr=0.003, betas=(0.9, 0.98), eps=1e-9)
    for rows in (range(12), range(12, 24)):
        batch = batch_of(rows)
        nats = ours.step([batch], 0.003)
        torch.testing.assert_close(nats, by_hand(theirs, batch, 0.0).detach())
        adam.zero_grad()
        torch.autograd.backward(by_hand(theirs, batch, 0.2) / batch.target_tokens)
        assert torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.05) > 0.05
        adam.step()
    for mine, other in zip(ours.model.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=2e-5)


def test_bfloat16_training_is_close_to_float32() -> None:
    exact, rounded = trainer(precision="float32"), trainer(precision="bfloat16")
    batch = batch_of(range(24))
    nats, rounded_nats = exact.step([batch], 0.001), rounded.step([batch], 0.001)
    torch.testing.assert_close(nats, rounded_nats, rtol=0.02, atol=0.0)
    assert all(parameter.dtype == torch.float32 for parameter in rounded.model.parameters())


def test_r_drop_compares_two_passes_that_dropout_makes_differ() -> None:
    drunk = Trainer(dataclasses.replace(CONFIG, dropout=0.3), Recipe(10, label_smoothing=0.2, precision="float32"), CPU)
    batch = batch_of(range(24))
    torch.manual_seed(3)
    loss, nats = drunk.loss(batch, 0.2, 5.0)
    torch.manual_seed(3)
    both = drunk.model(batch.src.repeat(2, 1), batch.tgt_in.repeat(2, 1))  # [2 batch, target, vocabulary]
    real = batch.tgt_out != CONFIG.pad_id
    first, second = (torch.log_softmax(logits, -1)[real] for logits in both.chunk(2))
    agreement = ((first.exp() - second.exp()) * (first - second)).sum()  # KL(P || Q) + KL(Q || P)
    targets = batch.tgt_out[real]
    entropy = sum_of_entropies(first, second, targets, 0.2)
    assert agreement > 0.1
    torch.testing.assert_close(loss, (entropy + 5.0 * agreement / 2) / 2)
    torch.testing.assert_close(nats, sum_of_entropies(first, second, targets, 0.0) / 2)


def sum_of_entropies(
    first: torch.Tensor, second: torch.Tensor, targets: torch.Tensor, smoothing: float
) -> torch.Tensor:
    each = [F.cross_entropy(p, targets, label_smoothing=smoothing, reduction="sum") for p in (first, second)]
    return each[0] + each[1]


def test_without_dropout_r_drop_takes_the_steps_of_one_pass() -> None:
    one, two = trainer(), trainer(r_drop=5.0)
    for rows in (range(12), range(12, 24)):
        nats, same_nats = (each.step([batch_of(rows)], 0.003) for each in (one, two))
        torch.testing.assert_close(nats, same_nats)
    for mine, other in zip(one.model.parameters(), two.model.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=2e-5)


def rehearsing(rows: range, rehearsed: list[int]) -> Batch:
    """Pairs, some of which are rehearsed."""
    flags = np.isin(np.arange(24), rehearsed)
    return dataclasses.replace(make_pairs(), rehearsed=flags).batch(np.array(rows), CONFIG)


def test_rehearsed_pairs_learn_the_teachers_predictions_and_others_their_targets() -> None:
    torch.manual_seed(9)
    weights = Trainer(CONFIG, Recipe(10, seed=7, precision="float32"), CPU).model.state_dict()
    taught = Trainer(CONFIG, Recipe(10, precision="float32", distil=2.0), CPU, teacher=weights)
    batch, chosen = rehearsing(range(24), [3, 8, 21]), torch.tensor([3, 8, 21])
    loss, nats = taught.loss(batch, 0.2)
    teacher = trainer().model
    teacher.load_state_dict(weights)
    others = torch.tensor([row for row in range(24) if row not in (3, 8, 21)])
    own = sum_of_entropy(taught.model, batch, others, 0.2)
    real = (batch.tgt_out != CONFIG.pad_id)[chosen]
    logits, wanted = (model(batch.src, batch.tgt_in)[chosen][real] for model in (taught.model, teacher))
    distilled = F.cross_entropy(logits, wanted.softmax(-1), reduction="sum")
    torch.testing.assert_close(loss, own + 2 * distilled)
    torch.testing.assert_close(nats, by_hand(taught.model, batch, 0.0))
    taught.step([batch], 0.01)
    assert all(torch.equal(weights[name], held) for name, held in teacher.state_dict().items())


def sum_of_entropy(model: torch.nn.Module, batch: Batch, rows: torch.Tensor, smoothing: float) -> torch.Tensor:
    targets = batch.tgt_out[rows]
    logits = model(batch.src, batch.tgt_in)[rows]
    return F.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=0, label_smoothing=smoothing, reduction="sum"
    )


def test_batch_may_be_rehearsed_entirely_or_not_at_all() -> None:
    weights = trainer(seed=7).model.state_dict()
    for rehearsed in (list(range(24)), []):
        taught = Trainer(CONFIG, Recipe(10, precision="float32", distil=1.0), CPU, teacher=weights)
        assert taught.step([rehearsing(range(24), rehearsed)], 0.01).isfinite()


def test_model_that_is_its_own_teacher_does_not_change() -> None:
    same = trainer().model.state_dict()
    kept = Trainer(CONFIG, Recipe(10, precision="float32", distil=1.0), CPU, teacher=same)
    loss, _ = kept.loss(rehearsing(range(24), list(range(24))), 0.1)
    for gradient in torch.autograd.grad(loss, list(kept.model.parameters()), allow_unused=True):
        torch.testing.assert_close(gradient, torch.zeros_like(gradient), atol=1e-3, rtol=0)


def test_r_drop_and_distillation_exclude_each_other() -> None:
    with pytest.raises(TrainingError, match="r_drop and distil cannot be used together"):
        Recipe(10, r_drop=5.0, distil=1.0)


def test_sampled_softmax_is_for_training_alone_and_not_for_r_drop() -> None:
    with pytest.raises(TrainingError, match="r_drop and sampled_softmax cannot be used together"):
        Recipe(10, r_drop=5.0, sampled_softmax=10)
    whole, sampled = trainer(), trainer(sampled_softmax=2)
    losses = [each.loss(batch_of(range(4)), 0.1)[1].item() for each in (whole, sampled)]
    assert losses[1] < losses[0] - 0.01
    pairs = make_pairs(20)
    assert sampled.development_loss(pairs) == whole.development_loss(pairs)


def test_frozen_encoder_keeps_its_weights_and_what_it_reads() -> None:
    whole, frozen = trainer(), trainer(freeze_encoder=1.0)
    frozen.encoder_learns = False
    before = {name: parameter.clone() for name, parameter in frozen.model.named_parameters()}
    batch = batch_of(range(4))
    assert torch.equal(frozen.step([batch], 0.01), whole.step([batch], 0.01))
    unchanged = {name for name, parameter in frozen.model.named_parameters() if torch.equal(parameter, before[name])}
    assert unchanged == {name for name in before if name.startswith("encoder")}
    shared = frozen.model.source_embedding.tokens.weight
    learnt = (shared != before["source_embedding.tokens.weight"]).any(1)
    assert learnt.nonzero()[:, 0].tolist() == sorted({*batch.tgt_out.flatten().tolist()})
    frozen.encoder_learns = True
    frozen.step([batch_of(range(4, 8))], 0.01)
    assert not any(torch.equal(parameter, before[name]) for name, parameter in frozen.model.named_parameters())


def test_non_finite_gradient_stops_training_before_any_weight_changes() -> None:
    broken = trainer()
    with torch.no_grad():
        broken.model.output.weight[7, 3] = torch.nan
    before = [parameter.clone() for parameter in broken.model.parameters()]
    with pytest.raises(TrainingError, match="gradient is not finite"):
        broken.step([batch_of(range(4))], 0.01)
    for parameter, old in zip(broken.model.parameters(), before, strict=True):
        torch.testing.assert_close(parameter, old, rtol=0, atol=0, equal_nan=True)


def test_given_target_positions_equal_those_looked_up() -> None:
    batch = batch_of(range(24))
    for known in (batch, batch.doubled()):
        looked_up = dataclasses.replace(known, target_positions=None)
        one, other = (trainer().loss(each, 0.1) for each in (known, looked_up))
        assert torch.equal(one[0], other[0])


def test_development_loss_is_the_mean_over_tokens_without_dropout_or_smoothing() -> None:
    pairs = make_pairs(100)
    sober = trainer()
    drunk = Trainer(dataclasses.replace(CONFIG, dropout=0.5), Recipe(10, precision="float32"), CPU)
    drunk.model.load_state_dict(sober.model.state_dict())
    batch = pairs.batch(np.arange(100), CONFIG)
    expected = by_hand(sober.model.eval(), batch, 0.0).item() / batch.target_tokens
    assert drunk.development_loss(pairs) == pytest.approx(expected, rel=1e-5)


def test_equal_seeds_give_equal_initial_weights_and_others_do_not() -> None:
    one, same, other = (trainer(seed=seed).model.output.weight for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("steps", 0),
        ("warmup", 0),
        ("keep", -1),
        ("cooldown", 1.0),
        ("label_smoothing", -0.1),
        ("precision", "int8"),
        ("learning_rate_factor", 0.0),
        ("learning_rate_factor", float("nan")),
        ("clip_norm", -1.0),
        ("bpe_dropout", 1.0),
        ("r_drop", -1.0),
        ("r_drop", float("nan")),
        ("sampled_softmax", -1),
        ("freeze_encoder", -0.1),
        ("freeze_encoder", 1.1),
    ],
)
def test_impossible_recipe_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(TrainingError, match=field):
        Recipe(**{"steps": 10, field: value})  # type: ignore[arg-type]


def test_requested_precision_is_used_and_a_gpu_defaults_to_bfloat16() -> None:
    assert resolve_precision("float32", torch.device("cuda")) == "float32"
    assert resolve_precision("bfloat16", CPU) == "bfloat16"
    if not torch.cuda.is_available():
        assert resolve_precision("auto", torch.device("cuda")) == "bfloat16"


@pytest.mark.parametrize(("native", "precision"), [(True, "bfloat16"), (False, "float32")])
def test_gpu_that_would_emulate_bfloat16_uses_float32(
    native: bool, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda including_emulation=True: including_emulation or native)
    assert resolve_precision("auto", torch.device("cuda")) == precision


@pytest.mark.parametrize(
    ("vendor", "flag", "amx", "precision"),
    [
        ("AuthenticAMD", "avx512_bf16", False, "bfloat16"),
        ("AuthenticAMD", "avx512f", False, "float32"),
        ("GenuineIntel", "avx512_bf16", False, "float32"),
        ("GenuineIntel", "avx512_bf16", True, "bfloat16"),
    ],
)
def test_processor_uses_bfloat16_if_it_is_faster(
    vendor: str, flag: str, amx: bool, precision: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cpuinfo").write_text(f"vendor_id\t: {vendor}\nflags\t\t: avx2 {flag}\n")
    monkeypatch.setattr("torch.cpu._is_amx_tile_supported", lambda: amx)
    assert resolve_precision("auto", CPU, tmp_path / "cpuinfo") == precision
