"""Recipe files: what they may contain, which command-line options override it, and a run that one file describes."""

from __future__ import annotations

import dataclasses
import json
import sys
import tomllib
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from finished import finished
from shared_fixtures import PAIRS
from typer.testing import CliRunner

from model.bundle_weights import load_bundle
from model.config import ModelConfig
from model.transformer import Transformer
from training.__main__ import cli
from training.adapt.finetune import FineTuning, InitialBundle
from training.corpora.corpus import Pair, read_pairs, write_pairs
from training.data.options import PrepareOptions
from training.export.bundle import ExportOptions
from training.optim.checkpoint import STATE
from training.optim.defaults import SIZES, architecture_for
from training.optim.trainer import Trainer
from training.pipeline.options import RunOptions
from training.pipeline.recipe_file import RecipeFile, RecipeFileError, below

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
COMMITTED = sorted([*(ROOT / "recipes").glob("*-*.toml"), *(ROOT / "recipes" / "cpu").glob("*.toml")])
SHIPPED = {"en-fr": 24, "fr-en": 16, "en-de": 24, "de-en": 24, "en-zh": 24, "zh-en": 24, "en-es": 24, "es-en": 24}
"""MiB of each bundle at most."""
BESIDE_WEIGHTS = 0.6
"""MiB: vocabulary, card and samples."""
NOT_TO_SHIP = ("multi30k", "captions-3am", "d2l")
RECIPE = """
source = "en"
target = "fr"
pairs = ["en-fr/train.tsv"]
dev = "en-fr/dev.tsv"
test = ["en-fr/test.tsv", "flores/test.tsv"]
seed = 3

[prepare]
vocab_size = 400
reserved_share = 0

[model]
architecture = "d2l"
dropout = 0.2

[training]
steps = 4
batch_tokens = 256
evaluate_every = 2

[export]
licence = "CC0-1.0"
attribution = ["we", "you"]
"""


def said(text: str, corpora: Path = Path("c")) -> RecipeFile:
    return RecipeFile.of(tomllib.loads(text), Path("r.toml"), corpora)


def test_recipe_accepts_what_the_options_accept() -> None:
    recipe = said(RECIPE)
    assert (recipe.pairs, recipe.dev) == (("c/en-fr/train.tsv",), "c/en-fr/dev.tsv")
    assert recipe.test == ("c/en-fr/test.tsv", "c/flores/test.tsv")
    assert recipe.prepare == {"vocab_size": 400, "reserved_share": 0}
    assert recipe.export == {"licence": "CC0-1.0", "attribution": ("we", "you")}
    assert said("[prepare]\ncolumns = [2, 1]\nkeep = ['copies']").prepare == {"columns": (2, 1), "keep": ("copies",)}
    assert said("") == RecipeFile()


def test_either_language_may_be_left_to_the_command_line(tmp_path: Path) -> None:
    for name, code in (("source", "en"), ("target", "en"), ("source", "fr"), ("target", "fr"), ("target", "zh")):
        assert getattr(RecipeFile.of({name: code}, tmp_path, tmp_path), name) == code


def test_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text("seed = 3", encoding="utf-8-sig")
    assert RecipeFile.load(tmp_path / "r.toml", tmp_path).seed == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour = 1", "colour is unknown here: there are dev, lexicon, pairs, parent, seed, source, target, test"),
        ("warmup = 1", "warmup is unknown here: it belongs to [training]"),
        ("[training]\nseed = 1", "[training] seed is unknown here: it belongs to the top"),
        ("[training]\nwarm_up = 1", "[training] warm_up is unknown here: there are accumulate, "),
        ("[training]\nwarmup = '1'", "[training] warmup must be a whole number, not '1'"),
        ("[training]\nwarmup = true", "[training] warmup must be a whole number, not True"),
        ("[training]\nwarmup = 1.5", "[training] warmup must be a whole number, not 1.5"),
        ("[training]\nwarmup = 0", "[training] warmup must be at least 1, not 0"),
        ("[training]\nsteps = 1\nepochs = 1", "[training] has both steps and epochs: keep one"),
        ("[training]\nepochs = 0", "[training] epochs must be above 0, not 0"),
        ("[training]\nepochs = inf", "[training] epochs must be above 0, not inf"),
        ("[prepare]\ncolumns = [0, 1]", "[prepare] expected two columns, counted from 1, not (0, 1)"),
        ("[prepare]\ncolumns = [2, 2]", "[prepare] expected two columns, counted from 1, not (2, 2)"),
        ("[prepare]\nvocab_size = 0", "[prepare] a vocabulary of 0 pieces is too small"),
        ("[model]\nnorm = 'none'", "[model] norm must be one of post, pre, residual_post, not 'none'"),
        ("[model]\narchitecture = 'huge'", "[model] no architecture 'huge'"),
        ("[model]\nnum_heads = 7", "[model] d_model 256 is not divisible by num_heads 7"),
        ("[prepare]\nmax_ratio = 0.5", "[prepare] --max-ratio must be above 1"),
        ("[prepare]\ncolumns = [1]", "[prepare] columns must be a list of 2 numbers, not [1]"),
        ("dev = 'd.tsv'\n[prepare]\ndev_size = 5", "[prepare] give --dev or --dev-size, not both"),
        ("source = 'fr'\ntarget = 'fr'", "[prepare] --source and --target are both fr"),
        ("[export]\ndtype = 'int4'", "[export] --dtype must be one of"),
        ("[export]\nblend = 0.5", "[export] blend is unknown here: there are attribution, dtype, licence, remarks, "),
        ("[export]\naccept_loss = 1.0", "[export] accept_loss is unknown here: there are "),
        ("[export]\nencoding = 'cp1252'", "[export] encoding is unknown here: it belongs to [prepare]"),
        ("[export]\nattribution = 'me'", "[export] attribution must be a list of texts, not 'me'"),
        ("pairs = 'a.tsv'", "pairs must be a list of texts, not 'a.tsv'"),
        ("model = 'small'", "model must be a section, as in [model]"),
        ("synthetic = 'a'", "synthetic must be tables, each as in [[synthetic]]"),
        ("[[synthetic]]\nprogram = ['cat']", "each [[synthetic]] needs a name"),
        ("[[synthetic]]\nname = '../a'", "each [[synthetic]] needs a name"),
        ("[[synthetic]]\nname = 'a'\nprogram = ['cat']", "[[synthetic]] a: give either --pairs or --texts"),
        ("[[synthetic]]\nname = 'a'\nout = 'b'", "[[synthetic]] out is unknown here: there are back, beam, bundle, "),
        ("[[synthetic]]\nname = 'a'\nbundle = 1", "[[synthetic]] bundle must be a text"),
        ("[[synthetic]]\nname = 'a'\nweight = 0.0", "[[synthetic]] a: the weight must be above 0"),
        (
            2 * "[[synthetic]]\nname = 'a'\nprogram = ['b']\npairs = 'c'\n",
            "two tables [[synthetic]] have the same name",
        ),
    ],
)
def test_invalid_values_are_reported_in_one_line_with_file_and_key(text: str, message: str) -> None:
    with pytest.raises(RecipeFileError) as error:
        said(text)
    assert str(error.value).startswith(f"r.toml: {message}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"pairs = [", b"\xff\xfe", b"a = 1\na = 2"])
def test_invalid_toml_is_reported_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "r.toml").write_bytes(content)
    with pytest.raises(RecipeFileError, match=r"r\.toml: this is not TOML") as error:
        RecipeFile.load(tmp_path / "r.toml", tmp_path)
    assert "\n" not in str(error.value)


def test_relative_paths_are_below_the_corpora_folder_and_absolute_ones_are_kept(tmp_path: Path) -> None:
    (tmp_path / "a,b.tsv").touch()
    assert below(tmp_path, "x.tsv:0.5") == f"{tmp_path}/x.tsv:0.5"
    assert below(tmp_path, "x.en,x.fr:2") == f"{tmp_path}/x.en,{tmp_path}/x.fr:2"
    assert below(tmp_path, "a,b.tsv:2") == f"{tmp_path}/a,b.tsv:2"
    assert below(tmp_path, "/x.tsv") == "/x.tsv"
    for remote in ("https://a.example/x.tsv:2", "mtdata:A-b-1-eng-fra"):
        assert below(tmp_path, remote) == remote


def test_paths_that_begin_with_a_dot_are_relative_to_the_recipe(tmp_path: Path) -> None:
    path = tmp_path / "recipes" / "mine.toml"
    path.parent.mkdir()
    path.write_text(
        'pairs = ["a.tsv", "./b.tsv:5", "../c.tsv"]\ndev = "./d.tsv"\ntest = ["../e.tsv"]', encoding="utf-8"
    )
    recipe = RecipeFile.load(path, tmp_path / "corpora")
    assert recipe.pairs == (f"{tmp_path}/corpora/a.tsv", f"{path.parent}/b.tsv:5", f"{path.parent}/../c.tsv")
    assert (recipe.dev, recipe.test) == (f"{path.parent}/d.tsv", (f"{path.parent}/../e.tsv",))


def test_given_options_override_the_recipe_and_others_are_kept() -> None:
    recipe = said(RECIPE).overridden(dev=None, pairs=("mine.tsv",), test=(), seed=9, prepare={"keep": None})
    assert recipe == said(RECIPE.replace("seed = 3", "seed = 9")).overridden(pairs=("mine.tsv",))
    assert recipe.pairs == ("mine.tsv",)
    assert recipe.overridden(export={"licence": "MIT"}).export == {"licence": "MIT", "attribution": ("we", "you")}


def test_given_architecture_replaces_the_shape_and_a_development_set_its_size() -> None:
    recipe = said("[model]\nd_model = 320\nnum_heads = 5\ndropout = 0.3\n[prepare]\ndev_size = 5\nvocab_size = 400")
    given = recipe.overridden(dev="d.tsv", model={"architecture": "tiny"})
    assert given.model == {"dropout": 0.3, "architecture": "tiny"}
    assert given.prepare == {"vocab_size": 400}


@pytest.fixture
def corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_training: None) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "corpora"
    for name in ("en-fr", "flores"):
        (folder / name).mkdir(parents=True)
    write_pairs(
        folder / "en-fr" / "train.tsv", [Pair(f"{pair.source} {n}", pair.target) for n, pair in enumerate(PAIRS)]
    )
    for number, name in enumerate(("en-fr/dev.tsv", "en-fr/test.tsv", "flores/test.tsv")):
        write_pairs(folder / name, PAIRS[number * 10 : number * 10 + 5])
    Path("r.toml").write_text(RECIPE)
    return folder


def run(*options: object, code: int = 0) -> str:
    command = ["run", "--recipe", "r.toml", "--corpora", "corpora", "--out", "bundles/b", "--device", "cpu"]
    result = CliRunner().invoke(cli, [*command, "--threads", "1", *map(str, options)])
    assert result.exit_code == code, result.output
    return result.output


def finished_run() -> str:
    """`run()` in a folder in which nothing has changed since `corpora`."""
    return finished("recipe", run)


def config_of(name: str) -> dict[str, Any]:
    return load_bundle(Path("bundles", name), torch.device("cpu")).config


def test_run_follows_its_recipe_and_measures_its_test_sets(corpora: Path) -> None:
    finished_run()
    config = config_of("b")
    recipe = config["training"]["recipe"]
    assert {name: recipe[name] for name in ("steps", "batch_tokens", "evaluate_every", "seed")} == {
        "steps": 4,
        "batch_tokens": 256,
        "evaluate_every": 2,
        "seed": 3,
    }
    assert (config["architecture"]["dropout"], config["architecture"]["d_model"]) == (0.2, 32)
    assert config["training"]["of_which_copies_with_symbols"] == 0
    sets = [(metric["set"], metric["sentences"]) for metric in config["metrics"] if metric["metric"] == "BLEU"]
    assert sets == [("development set", 5), ("en-fr/test.tsv", 5), ("flores/test.tsv", 5)]
    assert (config["licence"], config["attribution"]) == ("CC0-1.0", ["we", "you"])
    candidates = config["training"]["candidates"]
    assert len(candidates) == 2
    assert max(candidate["development_bleu"] for candidate in candidates) == config["metrics"][0]["score"]


def test_same_recipe_is_up_to_date_and_a_changed_one_is_detected(corpora: Path) -> None:
    finished_run()
    weights = load_bundle(Path("bundles/b"), torch.device("cpu")).name
    assert "nothing to do" in run()
    Path("r.toml").write_text(RECIPE.replace("dropout = 0.2", "dropout = 0.3"))
    assert "and another model.dropout: give another --work" in run("--replace", code=1)
    Path("r.toml").write_text(RECIPE.replace("vocab_size = 400", "vocab_size = 380"))
    assert "was started with other pairs or options" in run("--replace", code=1)
    Path("r.toml").write_text(RECIPE.replace('"CC0-1.0"', '"MIT"'))
    assert "--replace" in run(code=1)
    run("--replace", "--test", "corpora/en-fr/dev.tsv")
    assert (config_of("b")["licence"], load_bundle(Path("bundles/b"), torch.device("cpu")).name) == ("MIT", weights)
    assert [metric["set"] for metric in config_of("b")["metrics"]][2:] == ["en-fr/dev.tsv"] * 2


def test_finished_run_resumes_if_its_recipe_requires_more(corpora: Path) -> None:
    finished_run()
    begun, shorter = (
        Path("runs/bundles-b/run/log.csv").read_text(),
        load_bundle(Path("bundles/b"), torch.device("cpu")).name,
    )
    Path("r.toml").write_text(RECIPE.replace("steps = 4", "steps = 8"))
    assert "at most 8 steps of 256 tokens" in run("--replace")
    assert Path("runs/bundles-b/run/log.csv").read_text().startswith(begun)
    training = config_of("b")["training"]
    assert (training["steps"], training["recipe"]["steps"], training["recipe"]["evaluate_every"]) == (8, 8, 2)
    assert load_bundle(Path("bundles/b"), torch.device("cpu")).name != shorter
    assert "nothing to do" in run()


def test_early_stopped_run_is_finished_unless_more_is_requested(corpora: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trainer, "development_loss", lambda trainer, pairs: 1.0)
    once = RECIPE.replace("every = 2", "every = 1").replace("test = [", "test = []  # [")
    for steps, patience, stopped in ((9, 1, 2), (8, 1, 2), (8, 2, 3), (12, 2, 6)):
        Path("r.toml").write_text(once.replace("steps = 4", f"steps = {steps}\npatience = {patience}"))
        evaluations = f"{patience} evaluation{'s' * (patience > 1)}"
        assert f"stopped early: {evaluations} without a better development loss" in run("--replace")
        assert config_of("b")["training"]["steps"] == stopped
        assert "nothing to do" in run("--replace")


def test_recipe_changed_before_training_is_planned_again(corpora: Path) -> None:
    finished_run()
    Path("runs/bundles-b/run", STATE).unlink()
    Path("r.toml").write_text(RECIPE.replace("steps = 4", "steps = 2"))
    run("--replace")
    assert json.loads(Path("runs/bundles-b/plan.json").read_text())["recipe"]["steps"] == 2


def test_columns_apply_to_pairs_development_and_test_sets(corpora: Path) -> None:
    turned = RECIPE.replace('"en"', '"x"').replace('"fr"', '"en"').replace('"x"', '"fr"')
    Path("r.toml").write_text(turned.replace("[prepare]", "[prepare]\ncolumns = [2, 1]"))
    run()
    assert config_of("b")["source"] == "fr"
    assert Path("runs/bundles-b/data/dev.tsv").read_text().split("\t")[0] == PAIRS[0].target


SYNTHETIC = """
[[synthetic]]
name = "made"
weight = 0.5
program = ["PROGRAM"]
pairs = "flores/general.tsv"
like = ["en-fr/dev.tsv"]
limit = 12
pivot = true
columns = [2, 1]
"""


def test_synthetic_corpora_are_made_once_and_without_sentences_of_test_sets(corpora: Path) -> None:
    """A program "translates" the German side of English and German: its French goes in the German's place."""
    program = Path("upper.py")
    program.write_text("import sys\nfor line in sys.stdin: print(line.rstrip().upper())\n", encoding="utf-8")
    general = [Pair(f"{pair.source} {n + 70}", f"deutsch {n}") for n, pair in enumerate(PAIRS[:20])]
    write_pairs(corpora / "flores" / "general.tsv", [*general, Pair(PAIRS[10].source, "im Test")])
    made = SYNTHETIC.replace("PROGRAM", f"{sys.executable} -I -S {program.resolve()}")
    Path("r.toml").write_text(RECIPE + made)
    assert "making made.tsv ..." in run()
    pairs, _ = read_pairs(Path("runs/bundles-b/synthetic/made.tsv"))
    assert {*pairs} <= {Pair(source, target.upper()) for source, target in general}
    assert len(pairs) in (11, 12)  # of those chosen, the test set's sentence may be one
    corpora_of = {one["name"]: one for one in config_of("b")["training"]["corpora"]}
    assert (corpora_of["made.tsv"]["weight"], corpora_of["made.tsv"]["pairs"]) == (0.5, len(pairs))
    program.unlink()
    assert "nothing to do" in run()
    Path("r.toml").write_text(RECIPE + made.replace("limit = 12", "limit = 13"))
    assert "--replace" in run(code=1)
    assert "failed with the status" in run("--replace", code=1)


def test_a_recipe_with_a_parent_can_go_on_from_a_bundle() -> None:
    text = RECIPE + '[[synthetic]]\nname = "m"\nprogram = ["cat"]\npairs = "p.tsv"'
    recipe = said(f'parent = "../p"\nlexicon = "../p"{text}').continued()
    assert (recipe.parent, recipe.lexicon, recipe.pairs) == (None, None, ("c/en-fr/train.tsv",))
    assert recipe.prepare == {"reserved_share": 0}
    assert recipe.model == {"dropout": 0.2}
    assert recipe.training == {"steps": 4, "batch_tokens": 256, "evaluate_every": 2}
    assert recipe.synthetic == ({"name": "m", "program": ("cat",), "pairs": "c/p.tsv"},)


def test_paths_of_a_synthetic_corpus_are_below_the_corpora_folder_and_its_bundle_beside_the_recipe() -> None:
    [table] = said(
        '[[synthetic]]\nname = "m"\nbundle = "../b"\npairs = "p.tsv"\nlimit = 9\nlike = ["l.tsv"]\nwithout = ["w.tsv"]'
    ).synthetic
    assert {name: table[name] for name in ("bundle", "pairs", "like", "without")} == {
        "bundle": "../b",
        "pairs": "c/p.tsv",
        "like": ("c/l.tsv",),
        "without": ("c/w.tsv",),
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--test", "none.tsv"], "none.tsv: no such file"),
        (["--recipe", "none.toml"], "none.toml"),
        (["--corpora", "elsewhere"], "no such file"),
        (["--recipe", "samples.toml"], "none.txt: no such file"),
        (["--recipe", "empty.toml"], "empty.txt: it contains only white space"),
    ],
)
def test_missing_options_are_reported_before_any_work(corpora: Path, options: list[str], message: str) -> None:
    (corpora / "empty.txt").write_text("\n \n")
    for name, file in (("samples.toml", "none.txt"), ("empty.toml", "empty.txt")):
        Path(name).write_text(RECIPE.replace("[export]", f'[export]\nsamples = "{file}"'))
    assert message in run(*options, code=1)
    assert not Path("runs").exists()


def test_corpora_without_a_recipe_and_missing_pairs_are_refused(corpora: Path) -> None:
    command = ["run", "--source", "en", "--target", "fr", "--out", "bundles/b"]
    assert "give --recipe too" in CliRunner().invoke(cli, [*command, "--corpora", "corpora"]).output
    assert "no --pairs given" in CliRunner().invoke(cli, command).output


@pytest.mark.parametrize(
    ("prepare", "more", "message"),
    [
        ({}, {"model": {"architecture": "tiny"}}, "with --init the architecture is the bundle's"),
        ({}, {"model": {"d_model": 64, "dropout": 0.2}}, "with --init, the bundle decides d_model"),
        ({}, {"training": {"epochs": 3, "warmup": 9}}, "with --init, --learning-rate replaces warmup"),
        ({"vocab_size": 500}, {}, "with --init, the bundle decides vocab_size"),
    ],
)
def test_recipe_for_fine_tuning_takes_the_bundles_settings(
    prepare: dict[str, Any], more: dict[str, Any], message: str
) -> None:
    here, tuning = Path(), FineTuning(cast(InitialBundle, None))
    asked = PrepareOptions(("-",), "en", "fr", here, **prepare)
    RunOptions(here, PrepareOptions(("-",), "en", "fr", here), ExportOptions(here, here, here), tuning=tuning)
    with pytest.raises(ValueError, match=message):
        RunOptions(here, asked, ExportOptions(here, here, here), **more, tuning=tuning)


def test_model_with_too_few_positions_for_the_longest_pair_is_refused_before_any_work() -> None:
    here = Path()
    asked = PrepareOptions(("-",), "en", "fr", here, max_tokens=99)
    RunOptions(here, asked, ExportOptions(here, here, here), model={"max_positions": 100})
    with pytest.raises(ValueError, match="max_positions 99 must be more than max_tokens, 99"):
        RunOptions(here, asked, ExportOptions(here, here, here), model={"max_positions": 99})


@pytest.mark.parametrize("path", COMMITTED, ids=[path.relative_to(ROOT / "recipes").as_posix() for path in COMMITTED])
def test_every_committed_recipe_is_valid_and_its_bundle_within_its_size_limit(path: Path) -> None:
    recipe = RecipeFile.load(path, Path())
    name = f"{recipe.source}-{recipe.target}"
    assert path.stem.endswith(name)
    assert f"--recipe {path.relative_to(ROOT).as_posix()} " in path.read_text(encoding="utf-8")
    assert ("columns" in recipe.prepare) == (recipe.target == "en")  # the files have English first
    if not path.stem.startswith("multi30k."):
        assert mebibytes(recipe) + BESIDE_WEIGHTS <= SHIPPED[name]
        assert not any(
            corpus.startswith(NOT_TO_SHIP) or ".dev." in corpus or ".test." in corpus for corpus in recipe.pairs
        )
        assert recipe.export["licence"] and recipe.export["attribution"]
        assert recipe.test


def test_everyday_phrases_are_pairs_and_in_every_bundles_recipe(tmp_path: Path) -> None:
    RecipeFile.load(ROOT / "recipes" / "everyday.toml", tmp_path)
    english = list[set[str]]()
    for language in ("de", "es", "fr", "zh"):
        pairs, skipped = read_pairs(ROOT / "recipes" / f"everyday.en-{language}.tsv", "en", language)
        assert len(pairs) > 100
        assert not skipped.counts
        english.append({pair.source for pair in pairs})
    assert max(len(set().union(*english) - one) for one in english) <= 5  # sentences of that language's test sets
    for path in COMMITTED:
        if not path.stem.startswith("multi30k."):
            phrases = [
                text for text in RecipeFile.load(path, tmp_path).pairs if Path(text).name.startswith("everyday.")
            ]
            assert [Path(text.rpartition(":")[0]).exists() for text in phrases] == [True]


def test_each_shipped_bundle_has_a_recipe_of_its_own() -> None:
    names = {path.stem for path in COMMITTED if path.parent.name == "recipes"}
    assert names == {*SHIPPED, "multi30k.en-de", "multi30k.en-fr", "multi30k.adapted.en-de"}


def mebibytes(recipe: RecipeFile) -> float:
    """The size of the bundle's weights in its form."""
    vocabulary = recipe.prepare["vocab_size"]
    if recipe.parent is None or "architecture" in recipe.model:
        config = architecture_for(SIZES[0], vocabulary, 256, **recipe.model)
    else:
        parent = ModelConfig.from_dict(json.loads(Path(recipe.parent, "config.json").read_text())["architecture"])
        config = dataclasses.replace(parent, source_vocab_size=vocabulary, target_vocab_size=vocabulary)
    with torch.device("meta"):
        return Transformer(config).parameter_count() * (1 if recipe.export.get("dtype") == "int8" else 2) / 2**20
