"""Samples are our own sentences, and their margin is that of a plain pass."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from shared_fixtures import TRAINING_LIMITS, make_bundle, small_config

from model.bundle_weights import LoadedBundle, check_samples, load_bundle
from model.decoding import greedy_decode
from model.tokenizer import Tokenizer, Tokenizers
from model.transformer import Transformer
from training.export import samples as samples_module
from training.export.samples import MARGIN, SENTENCES, choose_samples, margins, own_sentences
from training.optim.checkpoint import average, saved_weights

pytestmark = pytest.mark.real_service


@pytest.mark.parametrize("language", sorted(SENTENCES))
def test_each_language_has_at_least_fifty_distinct_sentences(language: str) -> None:
    assert len(set(own_sentences(language))) == len(own_sentences(language)) >= 50
    assert own_sentences(f"{language}-XX") == own_sentences(f"{language.upper()}_xx") == own_sentences(language)
    assert all(sentence == sentence.strip() for sentence in own_sentences(language))


def test_language_without_sentences_has_none() -> None:
    assert own_sentences("tlh") == []


def test_margin_is_the_smallest_lead_of_the_target_over_any_other_token(bundle: LoadedBundle) -> None:
    model = bundle.model
    pairs = [([9, 8, 7], [20, 21]), ([30], [31, 32, 33, 34])]
    expected = []
    for source, target in pairs:
        with torch.inference_mode():
            logits = model(torch.tensor([[*source, 2]]), torch.tensor([[1, *target]]))[0].log_softmax(-1)
        leads = []
        for row, token in zip(logits, [*target, 2], strict=True):
            others = row.clone()
            others[token] = -torch.inf
            leads.append(float(row[token] - others.max()))
        expected.append(min(leads))
    assert margins(model, pairs) == pytest.approx(expected, abs=1e-4)


def trained(data: Path, run_folder: Path) -> tuple[Transformer, Tokenizer]:
    tokenizer = Tokenizer.load(data / "sentencepiece.model")
    model = Transformer(small_config(tokenizer.vocab_size, d_model=32, d_ff=64))
    model.load_state_dict(average(saved_weights(run_folder)), strict=False)
    return model.eval(), tokenizer


def test_samples_keep_the_margin_and_translate_alike_in_half_precision(
    data: Path, run_folder: Path, tmp_path: Path
) -> None:
    model, tokenizer = trained(data, run_folder)
    with torch.no_grad():
        next(model.decoder_norm.parameters()).mul_(4)  # surer than it has a right to be
    sentences = [f"{name} has {number} dogs." for name in ("Tom", "Bo") for number in range(2, 9)]
    samples, lead = choose_samples(model, Tokenizers.joint(tokenizer), TRAINING_LIMITS, sentences, wanted=3)
    assert (len(samples), lead) == (3, None)
    for sample in samples:
        source, target = sample["source_ids"], sample["target_ids"]
        assert source == tokenizer.encode(sample["source"])
        assert tokenizer.decode(target) == sample["target"]
        assert target[-1] == model.config.eos_id
        assert margins(model, [(source, target[:-1])])[0] >= MARGIN
    order = [sentences.index(sample["source"]) for sample in samples]
    assert order == sorted(order)


def test_only_as_many_sentences_as_needed_are_translated(
    data: Path, run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def sure(model: Transformer, pairs: Sequence[Any], *_: object) -> list[float]:
        asked.append(len(pairs))
        return [9.0] * len(pairs)

    monkeypatch.setattr(samples_module, "margins", sure)
    sentences = [f"Tom has {number} dogs." for number in range(1000)]
    model, tokenizer = trained(data, run_folder)
    samples, _ = choose_samples(model, Tokenizers.joint(tokenizer), TRAINING_LIMITS, sentences, wanted=3)
    assert len(samples) == 3
    assert sum(asked) <= 64


def test_unsure_model_has_no_certain_sample(bundle: LoadedBundle) -> None:
    with torch.no_grad():
        vague = load_bundle(bundle.folder, torch.device("cpu")).model
        vague.output.weight *= 0.001
    samples, lead = choose_samples(vague, bundle.tokenizers, bundle.limits, ["Hello.", "How are you?", ""])
    assert len(samples) == 1
    assert lead is not None and lead < MARGIN


def test_fallback_sample_is_the_sentence_with_the_largest_margin_even_if_unfinished(bundle: LoadedBundle) -> None:
    sentences = ["Hello.", "How are you?", "", "The cat sleeps."]
    (sample,), lead = choose_samples(bundle.model, bundle.tokenizers, bundle.limits, sentences)
    leads = []
    for source in (bundle.source_tokenizer.encode_source(text) for text in sentences if text):
        (found,) = greedy_decode(bundle.model, [source], bundle.limits)
        ended = found.tokens[-1] == 2
        leads += margins(bundle.model, [(source, found.tokens[:-1] if ended else found.tokens)], ended)
    assert lead == pytest.approx(max(leads), abs=1e-4)
    assert sample["source_ids"] == bundle.source_tokenizer.encode_source(sample["source"])
    with pytest.raises(ValueError, match="none of the sentences"):
        choose_samples(bundle.model, bundle.tokenizers, bundle.limits, [""])


def test_a_bundle_without_samples_passes_its_check(tmp_path: Path) -> None:
    check_samples(load_bundle(make_bundle(tmp_path / "en-fr", samples=[]), torch.device("cpu")))
