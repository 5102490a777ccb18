"""training/importing/m2m.py: M2M-100 and NLLB-200: folders of Hugging Face's form become bundles of many
directions, or are refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from m2m_models import NLLB_LANGUAGES, nllb_folder
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from model.bundle import open_bundle
from model.decoding import beam_decode
from model.hypothesis import Limits
from training.__main__ import cli
from training.importing.errors import ImportFault
from training.importing.families import build_model
from training.importing.m2m import NLLB_LICENCE, is_m2m, read_m2m, read_tokens

LIMITS = Limits(max_source=39, max_target=20, ratio=0, margin=20)


def test_imported_model_gives_the_tokens_of_the_model_that_was_published(tmp_path: Path) -> None:
    folder, published = nllb_folder(tmp_path / "nllb")
    assert is_m2m(folder)
    imported = read_m2m(folder, "en", "fr")
    model, tokenizers = build_model(imported)
    assert imported.directions is not None
    direction = imported.directions.direction("en", "zh-Hant")
    assert set(imported.directions.sources) == {"en", "fr", "zh", "zh-Hant", "kas", "kas-Deva"}
    assert [tokenizers.source.piece(id) for id in direction.source_prefix + direction.target_prefix] == [
        "eng_Latn",
        "zho_Hant",
    ]
    sources = [
        [*direction.source_prefix, *tokenizers.source.encode_source(text)]
        for text in ("I like it here.", "Hello.", "The old bridge.")
    ]
    text_ids = {id for id in range(published.config.target_vocab_size) if tokenizers.target.is_text(id)}
    with torch.no_grad():
        hidden = [each.weight for each in (published.output, model.output)]
        assert torch.equal(hidden[0], hidden[1][: len(hidden[0])])
    for beam_size in (1, 4):
        found = beam_decode(model, sources, LIMITS, beam_size, target_prefix=direction.target_prefix)
        assert all(set(hypothesis.tokens[1:]) <= text_ids | {2} for hypothesis in found)
    one = torch.tensor([[*sources[0], 2]])
    start = torch.tensor([[2, *direction.target_prefix]])
    with torch.inference_mode():
        theirs, ours = (each(one, start) for each in (published, model))
    known = sorted(text_ids)
    torch.testing.assert_close(theirs[..., known], ours[..., known])


@pytest.mark.slow
def test_command_limits_the_directions_and_asks_to_accept_the_licence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder, _ = nllb_folder(tmp_path / "nllb-tiny")
    arguments = ["import", str(folder), "--languages", "en,fr,zh", "--threads", "1"]
    refused = CliRunner().invoke(cli, arguments)
    assert refused.exit_code == 1
    assert "cc-by-nc-4.0, which forbids commercial use" in refused.output
    result = CliRunner().invoke(cli, [*arguments, "--accept-licence"])
    assert result.exit_code == 0, result.output
    assert "note: One model for 6 pairs of languages." in result.output
    assert "\nlicence: cc-by-nc-4.0\n" in result.output
    bundle = open_bundle(Path("bundles/nllb-tiny"))
    assert sorted(bundle.directions.sources) == ["en", "fr", "zh"]
    assert bundle.record.licence == "cc-by-nc-4.0"
    assert Path("bundles/nllb-tiny/README.md").read_text().startswith("# English, French, Chinese to English, ")
    unknown = CliRunner().invoke(cli, ["import", str(folder), "--languages", "en,xx", "--out", "other"])
    assert "the model does not know xx" in unknown.output
    assert unknown.exit_code == 1


@pytest.mark.slow
def test_an_nllb_folder_that_states_no_licence_needs_acceptance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder, _ = nllb_folder(tmp_path / "nllb-tiny")
    (folder / "README.md").unlink()
    arguments = ["import", str(folder), "--languages", "en,fr", "--threads", "1"]
    refused = CliRunner().invoke(cli, arguments)
    assert refused.exit_code == 1
    assert "has the licence CC-BY-NC-4.0 (it states none, and Meta publishes NLLB-200 under this one)" in refused.output
    assert "add --accept-licence" in refused.output
    assert not Path("bundles").exists() or not any(Path("bundles").iterdir())
    assert CliRunner().invoke(cli, [*arguments, "--accept-licence", "--out", "accepted"]).exit_code == 0
    assert open_bundle(Path("accepted")).record.licence == NLLB_LICENCE
    assert CliRunner().invoke(cli, [*arguments, "--licence", "MIT", "--out", "stated"]).exit_code == 0
    assert open_bundle(Path("stated")).record.licence == "MIT"


@pytest.mark.parametrize("has_readme", [True, False])
def test_a_licence_that_is_not_accepted_is_refused_before_weights_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_readme: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    folder, _ = nllb_folder(tmp_path / "nllb-tiny")
    tensor("model.decoder.layers.0.fc2.bias", lambda bias: bias * torch.nan)(folder)
    if not has_readme:
        (folder / "README.md").unlink()
    arguments = ["import", str(folder), "--threads", "1"]
    assert "add --accept-licence" in CliRunner().invoke(cli, arguments).output
    assert "a value that is not finite" in CliRunner().invoke(cli, [*arguments, "--accept-licence"]).output


@pytest.mark.parametrize(("name", "presumed"), [("facebook/m2m100_418M", ""), ("facebook/NLLB-200", NLLB_LICENCE)])
def test_a_model_is_taken_for_nllb_by_its_recorded_name(tmp_path: Path, name: str, presumed: str) -> None:
    folder, _ = nllb_folder(tmp_path / "model")
    settings(_name_or_path=name)(folder)
    (folder / "README.md").unlink()
    listed = json.loads((folder / "special_tokens_map.json").read_text())
    codes = [f"__{code}__" for code in ("en", "fr", "de", "es", "zh", "ru")][: len(NLLB_LANGUAGES)]
    (folder / "special_tokens_map.json").write_text(json.dumps({**listed, "additional_special_tokens": codes}))
    assert read_m2m(folder, "en", "fr").presumed_licence == presumed


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def settings(**fields: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **fields}))

    return change


def tensor(name: str, change: Callable[[torch.Tensor], torch.Tensor | None]) -> Callable[[Path], None]:
    def work(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        value = change(tensors.pop(name, torch.zeros(2)))
        save_file(tensors if value is None else {**tensors, name: value}, folder / "model.safetensors")

    return work


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def truncated(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (pickled, "only pytorch_model.bin, a pickle, which is not read"),
        (without("model.safetensors"), "no model.safetensors"),
        (without("sentencepiece.bpe.model"), "has no sentencepiece.bpe.model"),
        (without("special_tokens_map.json"), "no tokens of languages"),
        (truncated, "damaged safetensors"),
        (settings(activation_function="gelu"), "the activation 'gelu'"),
        (settings(activation_function=["relu"]), "the activation ['relu']"),
        (settings(scale_embedding=False), "has scale_embedding False"),
        (settings(encoder_layers=3), "has no model.encoder.layers.2"),
        (settings(encoder_layers=1), "has model.encoder.layers.1"),
        (settings(encoder_layers=10**9), "is not from 1 to 200"),
        (settings(max_position_embeddings="x"), "max_position_embeddings 'x'"),
        (settings(encoder_attention_heads=5), "heads"),
        (tensor("model.shared.weight", lambda table: table[:100].clone()), "more tokens than its matrix has rows"),
        (tensor("model.shared.weight", lambda table: table[0].clone()), "has model.shared.weight of shape"),
        (tensor("lm_head.weight", lambda _: torch.ones(3, 3)), "has lm_head.weight unlike"),
        (tensor("model.encoder.layers.0.fc1.weight", lambda matrix: matrix[:, :-1].clone()), "of shape (48, 31)"),
        (tensor("model.decoder.layers.0.fc2.bias", lambda bias: bias * torch.nan), "a value that is not finite"),
        (tensor("model.decoder.layers.0.fc2.bias", lambda bias: bias.int()), "as torch.int32"),
        (tensor("model.extra.weight", lambda _: torch.ones(2)), "has model.extra.weight"),
    ],
)
def test_folder_that_is_wrong_is_refused_by_name(tmp_path: Path, change: Callable[[Path], None], message: str) -> None:
    folder, _ = nllb_folder(tmp_path / "nllb")
    change(folder)
    with pytest.raises(ImportFault) as caught:
        build_model(read_m2m(folder, "en", "fr"))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_language_that_the_model_lacks_is_refused_with_those_it_has(tmp_path: Path) -> None:
    folder, _ = nllb_folder(tmp_path / "nllb")
    with pytest.raises(ImportFault, match="does not translate de; it has en, fr, kas"):
        read_m2m(folder, "en", "de")


def test_m2m_languages_are_numbered_after_the_vocabulary(tmp_path: Path) -> None:
    vocabulary = {token: id for id, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", "▁a", "b"])}
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    tokens, languages = read_tokens(tmp_path, 6 + 100 + 8)
    assert (tokens.index("__af__"), tokens.index("__zu__")) == (6, 105)
    assert languages["en"] == "__en__"
    assert tokens[-1] == "<unused-113>"
