"""`export --to ctranslate2`: CTranslate2, in a separate process, reproduces the bundle's translations."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from shared_fixtures import SENTENCES, make_bundle, small_config
from typer.testing import CliRunner

from model.atomic_files import NotReplaceable, check_replaceable
from model.bundle_weights import LoadedBundle, load_bundle, save_bundle
from model.decoding import greedy_decode
from model.hypothesis import Limits
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from training.__main__ import cli
from training.data.vocabulary import train_vocabulary
from training.export.ctranslate2 import ConversionError, ConvertOptions, convert_bundle, model_spec

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
LIMITS = Limits(max_source=24, max_target=24, ratio=0, margin=24)
CONFIGS: dict[str, dict[str, Any]] = {
    "pre": {},
    "pre, learned positions, nothing shared": {
        "positions": "learned",
        "share_embeddings": "none",
    },
    "pre, not closed, no attention bias": {"final_norm": False, "attention_bias": False},
    "post, target embeddings shared": {"norm": "post", "share_embeddings": "decoder"},
    "post, closed, learned positions, no attention bias": {
        "norm": "post",
        "final_norm": True,
        "positions": "learned",
        "attention_bias": False,
    },
    "swish, output bias": {"activation": "swish", "output_bias": True},
    "no source end": {"source_eos": False},
    "deeper encoder, one head": {"encoder_layers": 3, "decoder_layers": 1, "num_heads": 1},
}
DECODE = """
import json, sys, ctranslate2
for folder, sources, targets in json.load(sys.stdin):
    translator = ctranslate2.Translator(folder, compute_type="float32", intra_threads=1)
    translated = translator.translate_batch(
        sources, beam_size=1, max_decoding_length=24, min_decoding_length=0, return_end_token=True
    )
    scored = translator.score_batch(sources, targets)
    print(json.dumps([[result.hypotheses[0] for result in translated], [result.log_probs for result in scored]]))
"""


@dataclass(frozen=True)
class Both:
    """Our results and CTranslate2's for the same sources: tokens, and log probabilities of given targets."""

    finish_reasons: list[str | None]
    ours: list[list[str]]
    theirs: list[list[str]]
    our_scores: list[list[float]]
    their_scores: list[list[float]]


def random_model(tokenizer: Tokenizer, seed: int = 0, **fields: Any) -> Transformer:
    """Every parameter is random, including those initialised with 0 or 1, so that swapped ones would be noticed."""
    shape = {"d_model": 32, "num_heads": 4, "encoder_layers": 2, "decoder_layers": 2, "max_positions": 26}
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        model = Transformer(small_config(tokenizer.vocab_size, **{**shape, **fields})).eval()
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
        model.output.weight[model.config.eos_id] *= 2  # more often the likeliest, so that sentences end
    return model


def random_bundle(folder: Path, tokenizer: Tokenizer, **fields: Any) -> Path:
    record = {"source": "en", "target": "fr", "samples": [], "licence": "CC0-1.0", "attribution": ["木村"]}
    model = random_model(tokenizer, **fields)
    save_bundle(folder, model, tokenizer, LIMITS, record, "A card.\n", dtype="float32")
    return folder


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(train_vocabulary(SENTENCES, 400, ["en", "fr"], threads=1))


def random_tokens(tokenizer: Tokenizer, lengths: Iterable[int], seed: int) -> list[list[int]]:
    random = torch.Generator().manual_seed(seed)
    return [torch.randint(3, tokenizer.vocab_size, (n,), generator=random).tolist() for n in lengths]


def log_probs(model: Transformer, source: list[int], target: list[int]) -> list[float]:
    """The log probabilities of the tokens of `target` and its end."""
    eos = model.config.eos_id
    logits = model(torch.tensor([model.config.source_ids(source)]), torch.tensor([[model.config.bos_id, *target]]))[0]
    return list(logits.log_softmax(-1).gather(-1, torch.tensor([[*target, eos]]).T)[:, 0].tolist())


@pytest.fixture(scope="module")
def results(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Both]:
    folder = tmp_path_factory.mktemp("converted")
    # CTranslate2 answers an empty source by itself, so there is none.
    sources = random_tokens(tokenizer, [*range(1, 25), 24, 7, 7, 1], seed=3)
    targets = random_tokens(tokenizer, [*range(24, 0, -1), 24, 3, 7, 1], seed=4)
    pieces = [[[tokenizer.piece(id) for id in ids] for ids in side] for side in (sources, targets)]
    for number, fields in enumerate(CONFIGS.values()):
        convert_bundle(ConvertOptions(random_bundle(folder / f"b{number}", tokenizer, **fields), folder / f"c{number}"))
    asked = json.dumps([[str(folder / f"c{number}"), *pieces] for number in range(len(CONFIGS))])
    decoded = subprocess.run([sys.executable, "-c", DECODE], input=asked, capture_output=True, text=True, check=True)
    both = []
    for number, line in enumerate(decoded.stdout.splitlines()):
        model = load_bundle(folder / f"b{number}", CPU).model
        found = greedy_decode(model, sources, LIMITS)
        ours = [[tokenizer.piece(id) for id in one.tokens] for one in found]
        with torch.inference_mode():
            scores = [log_probs(model, *pair) for pair in zip(sources, targets, strict=True)]
        theirs, their_scores = json.loads(line)
        both.append(Both([one.finish_reason for one in found], ours, theirs, scores, their_scores))
    return dict(zip(CONFIGS, both, strict=True))


@pytest.mark.parametrize("name", CONFIGS)
def test_ctranslate2_returns_the_same_tokens(results: dict[str, Both], name: str) -> None:
    assert results[name].theirs == results[name].ours


@pytest.mark.parametrize("name", CONFIGS)
def test_ctranslate2_gives_our_log_probability_for_every_token_of_any_target(
    results: dict[str, Both], name: str
) -> None:
    for ours, theirs in zip(results[name].our_scores, results[name].their_scores, strict=True):
        assert theirs == pytest.approx(ours, rel=1e-5, abs=1e-4)


def test_compared_translations_include_ended_and_truncated_ones(results: dict[str, Both]) -> None:
    assert {reason for both in results.values() for reason in both.finish_reasons} == {"stop", "length"}


@pytest.mark.parametrize(("field", "value"), [("norm", "residual_post"), ("decoder", "ssru")])
def test_models_that_ctranslate2_does_not_support_are_refused(
    field: str, value: str, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    bundle = random_bundle(tmp_path / "bundle", tokenizer, **{field: value})
    with pytest.raises(ConversionError, match=rf"^CTranslate2 does not support .*{value}\)$"):
        convert_bundle(ConvertOptions(bundle, tmp_path / "out"))
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_quantising_leaves_the_bundle_unchanged(bundle: LoadedBundle) -> None:
    before = {name: parameter.clone() for name, parameter in bundle.model.named_parameters()}
    spec = model_spec(bundle)
    spec.validate()
    spec.optimize("int8")
    assert all(torch.equal(before[name], parameter) for name, parameter in bundle.model.named_parameters())


@pytest.fixture
def sampled(tmp_path: Path, bundle: LoadedBundle) -> Path:
    """A bundle with the given samples."""
    sources = [bundle.source_tokenizer.encode(text) for text in SENTENCES[:3]]
    found = greedy_decode(bundle.model, sources, bundle.limits)
    samples = [
        {"source": text, "source_ids": one.source, "target_ids": one.tokens}
        for text, one in zip(SENTENCES[:3], found, strict=True)
    ]
    return make_bundle(tmp_path / "bundles" / "en-fr", samples=samples)


def export(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["export", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_command_converts_a_bundle_and_checks_its_samples(sampled: Path, tmp_path: Path) -> None:
    out = tmp_path / "ct2" / "en-fr"
    code, said, errors = export("--to", "ctranslate2", "--bundle", sampled, "--out", out)
    assert (code, errors) == (0, "")
    assert "translates the 3 samples of en-fr@" in said
    assert (out / "sentencepiece.model").read_bytes() == (sampled / "sentencepiece.model").read_bytes()
    assert [path.name for path in out.parent.iterdir()] == ["en-fr"]


def test_model_that_translates_a_sample_differently_is_not_written(bundle: LoadedBundle, tmp_path: Path) -> None:
    ids = bundle.source_tokenizer.encode(SENTENCES[0])
    wrong = {"source": SENTENCES[0], "source_ids": ids, "target_ids": [*ids, bundle.model.config.eos_id]}
    made = make_bundle(tmp_path / "bundle", samples=[wrong])
    code, _, errors = export("--to", "ctranslate2", "--bundle", made, "--out", tmp_path / "out")
    assert (code, errors.count("\n")) == (1, 1)
    assert f"does not translate the sample {SENTENCES[0]!r}" in errors
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_smaller_types_make_smaller_files(bundle: LoadedBundle, tmp_path: Path) -> None:
    sizes = []
    for dtype in ("float32", "float16", "int8"):
        convert_bundle(ConvertOptions(bundle.folder, tmp_path / dtype, dtype=dtype))
        sizes.append((tmp_path / dtype / "model.bin").stat().st_size)
    assert sizes[0] > sizes[1] > sizes[2]


def test_only_a_ctranslate2_model_is_replaced_and_only_on_request(sampled: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    convert_bundle(ConvertOptions(sampled, out))
    (out / "mine.txt").write_text("x", encoding="utf-8")
    with pytest.raises(NotReplaceable, match="--replace swaps it for the new CTranslate2 model"):
        convert_bundle(ConvertOptions(sampled, out))
    assert (out / "mine.txt").exists()
    convert_bundle(ConvertOptions(sampled, out, replace=True))
    assert not (out / "mine.txt").exists()
    with pytest.raises(NotReplaceable, match="is not a CTranslate2 model"):
        convert_bundle(ConvertOptions(sampled, sampled, replace=True))
    load_bundle(sampled, CPU)
    with pytest.raises(NotReplaceable, match="is not a bundle"):
        check_replaceable(out, replace=True)


def test_missing_library_is_reported_in_one_line_with_the_package(
    sampled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2.specs", None)
    code, _, errors = export("--to", "ctranslate2", "--bundle", sampled, "--out", tmp_path / "out")
    assert (code, errors) == (1, "error: CTranslate2 is not installed: pip install ctranslate2\n")


def test_card_explains_how_to_translate_as_the_bundle_does(sampled: Path, tmp_path: Path, bundle: LoadedBundle) -> None:
    out = tmp_path / "out"
    convert_bundle(ConvertOptions(sampled, out))
    card = (out / "README.md").read_text(encoding="utf-8")
    program = card.split("```python\n")[1].split("```")[0]
    decoded = subprocess.run([sys.executable, "-c", program], cwd=out, capture_output=True, check=True)
    [expected] = greedy_decode(bundle.model, [bundle.source_tokenizer.encode("Hello.")], bundle.limits)
    assert decoded.stdout.decode().removesuffix("\n") == bundle.target_tokenizer.decode(expected.tokens)
    assert "CC0-1.0" in card
    assert "\n## What it cannot do\n\nIt knows nothing.\n" in card


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("--to onnx", "--to must be one of bundle, ctranslate2, argos, marian, not 'onnx'"),
        ("--run r", "--to bundle needs --data"),
        ("--run r --data d --bundle b", "--to bundle takes no --bundle"),
        ("--to ctranslate2 --run r --data d", "--to ctranslate2 needs --bundle and takes no --data, --run"),
        ("--to ctranslate2 --bundle b --evaluate-on f", "--to ctranslate2 takes no --evaluate-on"),
        (
            "--to ctranslate2 --bundle b --dtype int4",
            "--dtype must be one of float32, float16, bfloat16, int8, not 'int4'",
        ),
        ("--to ctranslate2 --bundle nowhere", "nowhere: bundle folder not found"),
    ],
)
def test_incompatible_options_are_refused_in_one_line(tmp_path: Path, given: str, why: str) -> None:
    assert export("--out", tmp_path / "out", *given.split()) == (1, "", f"error: {why}\n")
    assert not (tmp_path / "out").exists()
