"""Starting from a model for other languages: what is copied, what is not, and what is recorded."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from shared_fixtures import PAIRS, train_quickly
from typer.testing import CliRunner

from model.bundle_weights import load_bundle, save_bundle
from model.config import ModelConfig
from model.hypothesis import Limits
from model.tokenizer import Tokenizer
from model.transformer import EncoderLayer, Transformer
from training.__main__ import cli
from training.adapt.lexicon import Translations
from training.adapt.transfer import ParentBundle
from training.corpora.corpus import Pair, write_pairs
from training.data.batches import load_pairs
from training.data.dataset import PreparedSummary, load_tokenizers
from training.data.vocabulary import train_vocabulary
from training.optim.trainer import TrainingError
from training.pipeline.lexicon import LexiconBundle
from training.pipeline.plan import Timings

pytestmark = pytest.mark.slow

SHAPE: dict[str, Any] = {
    "d_model": 32,
    "num_heads": 2,
    "d_ff": 24,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "dropout": 0.1,
}


def vocabulary(sentences: list[str], target: str) -> Tokenizer:
    return Tokenizer(train_vocabulary(sentences, 400, ["en", target], threads=1))


@pytest.fixture
def parent(tmp_path: Path) -> ParentBundle:
    tokenizer = vocabulary([side for pair in PAIRS for side in pair], "fr")
    size = tokenizer.vocab_size
    torch.manual_seed(5)
    model = Transformer(ModelConfig(size, size, **SHAPE))
    record: dict[str, Any] = {"source": "en", "target": "fr", "metrics": [], "samples": [], "licence": "CC BY 4.0"}
    record |= {"attribution": ["the parent's makers"]}
    older = {"bundle": "older@1", "source": "fr", "target": "en", "corpora": []}
    record |= {"training": {"corpora": [{"name": "theirs.tsv", "pairs": 60, "weight": 1.0}], "parent": older}}
    save_bundle(tmp_path / "parent", model, tokenizer, Limits(), record, "", dtype="float32")
    return ParentBundle.load(tmp_path / "parent")


@pytest.fixture
def german() -> Tokenizer:
    return vocabulary([f"{pair.source} {number} zwei Häuser" for number, pair in enumerate(PAIRS)], "de")


def child(tokenizer: Tokenizer, **fields: Any) -> ModelConfig:
    return ModelConfig(tokenizer.vocab_size, tokenizer.vocab_size, **SHAPE | fields)


def test_embeddings_start_as_the_parents_or_the_mean_of_its_pieces_and_symbols_start_fresh(
    parent: ParentBundle, german: Tokenizer
) -> None:
    config = child(german)
    shared, theirs = parent.pieces(german), parent.bundle.source_tokenizer
    weights = parent.weights(config, shared, seed=7)
    torch.manual_seed(7)
    fresh, rows = Transformer(config).state_dict(), parent.bundle.model.state_dict()
    whole = {id for id, parts in shared.items() if len(parts) == 1}
    assert 256 < len(whole) < len(shared) < german.vocab_size  # the bytes at least
    assert all(german.piece(id) == "".join(map(theirs.piece, parts)) for id, parts in shared.items())
    left = {german.piece(id) for id in range(german.vocab_size) if id not in shared}
    assert "<to_de>" in left
    assert "ä" in left  # in bytes
    for name in ("source_embedding.tokens.weight", "target_embedding.tokens.weight", "output.weight"):
        for id in range(german.vocab_size):
            row = rows[name][shared[id]].mean(0) if id in shared else fresh[name][id]
            torch.testing.assert_close(weights[name][id], row)


def test_translated_token_starts_between_its_translations_and_its_spelling(
    parent: ParentBundle, german: Tokenizer
) -> None:
    pieces, theirs = parent.pieces(german), parent.bundle.model.state_dict()["target_embedding.tokens.weight"]
    spelt, new = next(iter(pieces)), next(id for id in range(german.vocab_size) if id not in pieces)
    lexicon = {spelt: Translations([40, 41], [0.75, 0.25], 0.6), new: Translations([42], [1.0], 0.6)}
    before = parent.weights(child(german), pieces, seed=7)["target_embedding.tokens.weight"]
    rows = parent.weights(child(german), pieces, 7, lexicon)["target_embedding.tokens.weight"]
    mean = 0.75 * theirs[40] + 0.25 * theirs[41]
    mean *= (0.75 * theirs[40].norm() + 0.25 * theirs[41].norm()) / mean.norm()
    torch.testing.assert_close(rows[spelt], 0.6 * mean + 0.4 * before[spelt])
    torch.testing.assert_close(rows[new], theirs[42])  # how it is spelt says nothing
    others = [id for id in range(german.vocab_size) if id not in lexicon]
    assert torch.equal(rows[others], before[others])


def test_all_other_weights_are_copied_if_the_shapes_are_equal(parent: ParentBundle, german: Tokenizer) -> None:
    weights, theirs = parent.weights(child(german), parent.pieces(german), seed=7), parent.bundle.model.state_dict()
    others = [name for name in theirs if "tokens" not in name and name != "output.weight"]
    assert len(others) > 20
    assert all(torch.equal(weights[name], theirs[name]) for name in others)
    Transformer(child(german)).load_state_dict(weights)


def test_same_vocabulary_and_shape_copy_the_parent_exactly(parent: ParentBundle) -> None:
    tokenizer, config = parent.bundle.source_tokenizer, parent.bundle.model.config
    model = Transformer(dataclasses.replace(config, dropout=0.3))
    model.load_state_dict(parent.weights(config, parent.pieces(tokenizer), seed=1))
    src, tgt = torch.tensor([[40, 41, 2]]), torch.tensor([[1, 50]])
    assert torch.equal(model.eval()(src, tgt), parent.bundle.model.eval()(src, tgt))


def test_narrower_feed_forward_layer_keeps_the_units_with_the_largest_norms(
    parent: ParentBundle, german: Tokenizer
) -> None:
    layer = cast(EncoderLayer, parent.bundle.model.encoder[0]).feed_forward
    with torch.no_grad():
        for unit in (3, 17):
            layer.inner.weight[unit] *= 100
    weights = parent.weights(child(german, d_ff=2), parent.pieces(german), seed=1)
    name = "encoder.0.feed_forward."
    assert torch.equal(weights[name + "inner.weight"], layer.inner.weight[[3, 17]])
    assert torch.equal(weights[name + "inner.bias"], layer.inner.bias[[3, 17]])
    assert torch.equal(weights[name + "outer.weight"], layer.outer.weight[:, [3, 17]])


def test_wider_or_deeper_model_has_fresh_weights_where_the_parent_has_none(
    parent: ParentBundle, german: Tokenizer
) -> None:
    config = child(german, d_ff=40, encoder_layers=3)
    weights, theirs = parent.weights(config, parent.pieces(german), seed=3), parent.bundle.model.state_dict()
    torch.manual_seed(3)
    fresh = Transformer(config).state_dict()
    inner = "encoder.1.feed_forward.inner.weight"
    assert torch.equal(weights[inner][:24], theirs[inner])
    assert torch.equal(weights[inner][24:], fresh[inner][24:])
    assert torch.equal(
        weights["encoder.2.self_attention.output.weight"], fresh["encoder.2.self_attention.output.weight"]
    )


@pytest.mark.parametrize("positions", [30, 50])
def test_learned_positions_are_copied_up_to_the_shorter_limit(
    parent: ParentBundle, german: Tokenizer, positions: int
) -> None:
    config = dataclasses.replace(parent.bundle.model.config, positions="learned", max_positions=40)
    learned = ParentBundle(dataclasses.replace(parent.bundle, model=Transformer(config)))
    theirs = learned.bundle.model.state_dict()
    weights = learned.weights(child(german, positions="learned", max_positions=positions), {5: [5]}, seed=1)
    for name in ("source_embedding.positions", "target_embedding.positions"):
        assert len(weights[name]) == positions
        assert torch.equal(weights[name][:40], theirs[name][:positions])


def test_parent_with_separate_embeddings_cannot_start_a_model_that_shares_them(
    parent: ParentBundle, german: Tokenizer
) -> None:
    untied = dataclasses.replace(parent.bundle.model.config, share_embeddings="none")
    other = ParentBundle(dataclasses.replace(parent.bundle, model=Transformer(untied)))
    with pytest.raises(TrainingError, match='set share_embeddings = "none" in a recipe'):
        other.check(child(german))
    other.check(child(german, share_embeddings="none"))
    parent.check(child(german, share_embeddings="decoder"))


@pytest.mark.parametrize(("name", "value"), [("d_model", 64), ("num_heads", 4), ("norm", "post")])
def test_a_parent_of_another_width_is_refused(parent: ParentBundle, german: Tokenizer, name: str, value: Any) -> None:
    with pytest.raises(TrainingError, match=f"has the {name} .*this model {value}: a parent must have the same"):
        parent.weights(child(german, **{name: value}), parent.pieces(german), seed=1)


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, parent: ParentBundle) -> None:
    monkeypatch.chdir(tmp_path)
    train_quickly(monkeypatch, lambda *_: Timings(step=0.01, evaluation=0.1))
    write_pairs(
        Path("own.tsv"), [Pair(pair.source, f"{number} {pair.target}") for number, pair in enumerate(PAIRS[:80])]
    )
    Path("child.toml").write_text(
        'source = "en"\ntarget = "de"\npairs = ["own.tsv"]\nparent = "parent"\n'
        "[prepare]\nvocab_size = 400\nreserved_share = 0\n"
        "[model]\nd_model = 32\nnum_heads = 2\nd_ff = 24\nencoder_layers = 2\ndecoder_layers = 1\n"
        "[training]\nsteps = 2\nbatch_tokens = 256\n"
        '[export]\nattribution = ["we"]\nlicence = "CC0-1.0"\n'
    )


def run(*options: str, code: int = 0) -> str:
    words = ["run", "--recipe", "child.toml", "--out", "bundles/child", "--device", "cpu", "--threads", "1", *options]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == code, result.output
    return result.output + (result.stderr if code else "")


@pytest.mark.usefixtures("_quick")
def test_run_records_its_parent_and_the_parents_attribution(parent: ParentBundle) -> None:
    said = run()
    assert f"starting from {parent.name}, which has " in said
    bundle = load_bundle(Path("bundles/child"), torch.device("cpu"))
    record = bundle.config["training"]["parent"]
    assert (record["bundle"], record["source"], record["target"]) == (parent.name, "en", "fr")
    assert record["corpora"] == [{"name": "theirs.tsv", "pairs": 60, "weight": 1.0}]
    assert bundle.config["attribution"] == ["we", "the parent's makers"]
    card = (bundle.folder / "README.md").read_text(encoding="utf-8")
    for line in (
        f"It began from the weights of {parent.name}, English to French, which was trained on theirs.tsv (60 pairs).",
        f"\n{parent.name} began from the weights of older@1, French to English, which was trained on corpora that",
    ):
        assert line in card
    assert "nothing to do" in run()


@pytest.mark.usefixtures("_quick")
def test_a_child_inherits_the_shape_of_its_parent(parent: ParentBundle) -> None:
    recipe = Path("child.toml").read_text()
    begin, end = recipe.index("[model]"), recipe.index("[training]")
    recipe = recipe[:begin] + "[model]\nd_ff = 20\n" + recipe[end:]
    Path("child.toml").write_text(recipe.replace("vocab_size = 400", "vocab_size = 390"))
    assert f"the plan: architecture of {parent.name}" in run()
    config, theirs = load_bundle(Path("bundles/child"), torch.device("cpu")).model.config, parent.bundle.model.config
    assert config == dataclasses.replace(theirs, source_vocab_size=390, target_vocab_size=390, d_ff=20)
    assert "nothing to do" in run()


@pytest.mark.usefixtures("_quick")
def test_run_started_from_another_parent_is_not_resumed() -> None:
    run()
    Path("child.toml").write_text(Path("child.toml").read_text().replace('parent = "parent"\n', ""))
    assert "and another parent: give another --work" in run("--replace", code=1)


@pytest.mark.usefixtures("_quick")
def test_starting_from_two_bundles_is_refused() -> None:
    both = ("--init", "parent", "--parent", "parent", "--source", "en", "--target", "fr")
    assert "give --init or --parent, not both" in run(*both, code=1)


@pytest.mark.usefixtures("_quick")
def test_run_starts_new_tokens_from_translations_and_records_by_which_bundle(
    parent: ParentBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def translate(self: LexiconBundle, texts: list[str], device: str) -> dict[str, str]:
        seen.extend(texts)
        return {text: f"Traduction : {text}" for text in texts}

    monkeypatch.setattr(LexiconBundle, "_translate", translate)
    said = run("--lexicon", "parent")
    # The shared side is translated, each text once.
    assert sorted(seen) == sorted({*seen} & {pair.source for pair in PAIRS[:80]})
    assert len(seen) > 50
    [count] = re.findall(r"(\d+) of the tokens start from translations by", said)
    assert int(count) > 10
    bundle = load_bundle(Path("bundles/child"), torch.device("cpu"))
    assert bundle.config["training"]["parent"]["lexicon"] == parent.name
    assert bundle.config["attribution"] == ["we", "the parent's makers"]
    card = (bundle.folder / "README.md").read_text(encoding="utf-8")
    assert f"New tokens began as the mean of those that translate them, by translations of {parent.name}." in card
    assert "nothing to do" in run("--lexicon", "parent")
    assert "and another lexicon: give another --work" in run("--replace", code=1)


@pytest.mark.usefixtures("_quick")
def test_lexicon_names_the_tokens_of_the_translations(parent: ParentBundle, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new language is the parent's own here, so that a noun's translation is the noun."""
    run()
    data, made = Path("runs/bundles-child/data"), LexiconBundle.load(Path("parent"), parent, ("en", "de"))
    french = {pair.source: pair.target for pair in PAIRS}
    monkeypatch.setattr(LexiconBundle, "_translate", lambda self, texts, device: {t: french[t] for t in texts})
    ours, theirs = load_tokenizers(data).source, parent.bundle.source_tokenizer

    def lexicon(reverse: bool) -> dict[int, Translations]:
        (pairs, _), summary = load_pairs(data, reverse), PreparedSummary.load(data, reverse)
        return made.make(parent, ours, pairs, summary, "cpu", 1)

    found = lexicon(reverse=False)
    nouns = [id for id in found if ours.piece(id)[1:] in ("pommes", "chiens", "maisons", "chaises")]
    assert len(nouns) == 4
    for id in nouns:
        assert found[id].tokens[0] in theirs.parts(ours.piece(id))
    assert lexicon(reverse=True).keys() == found.keys()  # the other direction has the same pairs


def test_bundle_of_the_lexicon_translates_what_pairs_and_parent_share(parent: ParentBundle, tmp_path: Path) -> None:
    made = LexiconBundle.load(tmp_path / "parent", parent, ("de", "en"))
    assert made._translate(["Go.", "I am here."], "cpu").keys() <= {"Go.", "I am here."}  # it was never trained
    for given, languages, message in (
        (None, ("en", "de"), "give that too"),
        (parent, ("fr", "en"), "has one of the languages fr and en, not both: leave it out"),
        (parent, ("de", "es"), "has one of the languages de and es, not neither: leave it out"),
        (
            parent,
            ("fr", "de"),
            f"parent translates en to fr, but with the parent {parent.name} it must translate fr to en",
        ),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            LexiconBundle.load(tmp_path / "parent", given, languages)
