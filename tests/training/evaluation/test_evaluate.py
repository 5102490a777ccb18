"""The command `evaluate`: its output, files and refusals. Most tests use --raw, since then no service has to start."""

import json
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import torch
from shared_fixtures import SHIPPED, Service
from typer.testing import CliRunner

from model.bundle_weights import LoadedBundle, load_bundle, save_bundle
from model.decoding import beam_decode, greedy_decode
from training.__main__ import cli
from training.corpora.corpus import Pair, write_pairs
from training.evaluation.evaluate import TestSet
from training.export.bundle import ExportOptions

pytestmark = pytest.mark.slow

PAIRS = [Pair("Hello.", "Bonjour."), Pair("How are you?", "Comment vas-tu ?"), Pair("The cat sleeps.", "Le chat dort.")]


@pytest.fixture
def test_set(tmp_path: Path) -> Path:
    write_pairs(tmp_path / "set.tsv", PAIRS)
    return tmp_path / "set.tsv"


def evaluate(*options: object) -> str:
    return evaluate_served("--raw", *options)


def evaluate_served(*options: object) -> str:
    result = CliRunner().invoke(cli, ["evaluate", "--device", "cpu", *map(str, options)])
    assert result.exit_code == 0, result.output
    return result.output


def ours(bundle: LoadedBundle, sources: list[str]) -> list[str]:
    encoded = [bundle.source_tokenizer.encode(source) for source in sources]
    return [bundle.target_tokenizer.decode(h.tokens) for h in greedy_decode(bundle.model, encoded, bundle.limits)]


def metrics(bundle: LoadedBundle, *options: object) -> list[dict[str, Any]]:
    found = json.loads(evaluate("--bundle", bundle.folder, "--json", *options))
    assert found["model"] == bundle.name
    return list(found["metrics"])


def test_scores_are_sacrebleus_for_the_bundles_greedy_translations(bundle: LoadedBundle, test_set: Path) -> None:
    translations = ours(bundle, [pair.source for pair in PAIRS])
    references = [[pair.target for pair in PAIRS]]
    bleu, chrf = metrics(bundle, "--pairs", test_set)
    assert bleu["score"] == round(sacrebleu.corpus_bleu(translations, references).score, 2)
    assert chrf["score"] == round(sacrebleu.corpus_chrf(translations, references).score, 2)
    assert (bleu["metric"], chrf["metric"]) == ("BLEU", "chrF")
    assert bleu["set"] == "set.tsv"
    assert (bleu["sentences"], bleu["precision"], bleu["device"]) == (3, "float32", "cpu")


@pytest.mark.parametrize("narrowing", [False, True])
def test_raw_decodes_with_the_bundles_beam_and_length_penalty(tmp_path: Path, narrowing: bool) -> None:
    bundle = load_bundle(SHIPPED / "en-fr", torch.device("cpu"))
    names = ("source", "target", "training", "metrics", "licence", "samples")
    decoding = {"beam_size": 5, "length_penalty": 10.0, "narrowing": narrowing}
    record = {name: bundle.config[name] for name in names} | {"decoding": decoding}
    save_bundle(tmp_path / "other", bundle.model, bundle.source_tokenizer, bundle.limits, record, "")
    sources = ["I see the cat of my house.", "I see the house of my cat."]
    write_pairs(tmp_path / "set.tsv", [Pair(source, "Bonjour.") for source in sources])
    encoded = [bundle.source_tokenizer.encode(source) for source in sources]

    def translated(beam_size: int, length_penalty: float) -> list[str]:
        search: Any = {"length_penalty": length_penalty, "narrowing": narrowing}
        found = beam_decode(bundle.model, encoded, bundle.limits, beam_size, **search)
        return [bundle.target_tokenizer.decode(h.tokens) for h in found]

    def measured(*options: object) -> tuple[int, list[str]]:
        given = ("--bundle", tmp_path / "other", "--pairs", tmp_path / "set.tsv", "--json")
        found = json.loads(evaluate(*given, "--out", tmp_path / "out.txt", *options))
        return found["metrics"][0]["beam"], (tmp_path / "out.txt").read_text().splitlines()

    assert measured() == (5, translated(5, 10.0))
    assert measured("--beam", 2) == (2, translated(2, 10.0))
    assert translated(5, 10.0) != translated(5, 1.0)


def test_without_raw_the_scores_are_those_of_the_service(
    bundle: LoadedBundle, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On texts that the service changes before decoding: two sentences, no end mark, capitals."""
    typed = ["Hello. How are you?", "How are you", "HELLO.", "The cat sleeps.\u2028Hello."]
    write_pairs(tmp_path / "set.tsv", [Pair(source, "Bonjour.") for source in typed])
    sources = [pair.source for pair in TestSet.read(str(tmp_path / "set.tsv"), "en", "fr").pairs]
    asked = {"text": sources, "source": "en", "target": "fr"}
    answers = [item["text"] for item in service.post("/translate", asked).json()["translations"]]
    assert answers != ours(bundle, sources)
    monkeypatch.setenv("INTERLINEAR_BUNDLES", "nowhere")
    monkeypatch.setenv("INTERLINEAR_MAX_ITEMS", "none")
    options = ("--pairs", tmp_path / "set.tsv", "--precision", "float32", "--threads", 1)
    found = json.loads(evaluate_served("--bundle", bundle.folder, "--json", "--out", tmp_path / "out.txt", *options))
    bleu, chrf = found["metrics"]
    references = [["Bonjour."] * len(sources)]
    assert bleu["score"] == round(sacrebleu.corpus_bleu(answers, references).score, 2)
    assert chrf["score"] == round(sacrebleu.corpus_chrf(answers, references).score, 2)
    assert (bleu["served"], bleu["precision"], bleu["device"], bleu["beam"]) == (True, "float32", "cpu", 1)
    assert (tmp_path / "out.txt").read_text().split("\n")[:-1] == [" ".join(text.splitlines()) for text in answers]
    assert {metric["served"] for metric in metrics(bundle, *options)} == {False}


def test_table_shows_model_precision_device_and_signature(bundle: LoadedBundle, test_set: Path) -> None:
    output = evaluate("--bundle", bundle.folder, "--pairs", test_set, "--precision", "bfloat16")
    assert bundle.name in output
    assert "set.tsv: 3 sentences, greedy, on cpu in bfloat16" in output
    assert "tok:13a" in output
    assert "over" not in output


def test_a_swapped_test_set_is_swapped_back_and_reported(bundle: LoadedBundle, test_set: Path, tmp_path: Path) -> None:
    turned = tmp_path / "turned.tsv"
    write_pairs(turned, [Pair(pair.target, pair.source) for pair in PAIRS])
    sources = [pair.source for pair in PAIRS]
    for options, read in (([], sources), (["--columns", "1,2"], [pair.target for pair in PAIRS])):
        evaluate("--bundle", bundle.folder, "--pairs", turned, "--out", tmp_path / "out.txt", *options)
        assert (tmp_path / "out.txt").read_text().split("\n")[:-1] == [
            " ".join(text.splitlines()) for text in ours(bundle, read)
        ]
    said = "source and target are swapped in this file"
    assert said in evaluate("--bundle", bundle.folder, "--pairs", turned)
    assert said not in evaluate("--bundle", bundle.folder, "--pairs", turned, "--columns", "1,2")
    assert said not in evaluate("--bundle", bundle.folder, "--pairs", test_set)


def test_beam_scores_are_those_of_beam_search_and_name_the_beam_size(
    bundle: LoadedBundle, test_set: Path, tmp_path: Path
) -> None:
    sources = [bundle.source_tokenizer.encode(pair.source) for pair in PAIRS]
    expected = [bundle.target_tokenizer.decode(h.tokens) for h in beam_decode(bundle.model, sources, bundle.limits, 4)]
    given = ["--pairs", test_set, "--out", tmp_path / "out.txt", "--rows", 9]
    assert {metric["beam"] for metric in metrics(bundle, *given, "--beam", 4)} == {4}
    assert (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n")[:-1] == [
        " ".join(text.splitlines()) for text in expected
    ]
    assert {metric["beam"] for metric in metrics(bundle, *given)} == {1}
    assert "beam 4, on cpu" in evaluate("--bundle", bundle.folder, *given, "--beam", 4)


def test_lowercased_score_is_added_and_changes_no_other(bundle: LoadedBundle, test_set: Path) -> None:
    plain = metrics(bundle, "--pairs", test_set)
    *same, lower = metrics(bundle, "--pairs", test_set, "--lowercase")
    assert same == plain
    assert lower["metric"] == "BLEU in lower case"
    assert "case:lc" in lower["signature"]


def test_broken_lines_and_truncated_sources_are_counted(bundle: LoadedBundle, tmp_path: Path) -> None:
    long = "How are you? " * 40
    (tmp_path / "set.tsv").write_text(f"Hello.\tBonjour.\nonly one column\n{long}\tTrop long.\n\tx\n", encoding="utf-8")
    output = evaluate("--bundle", bundle.folder, "--pairs", tmp_path / "set.tsv")
    assert "2 sentences" in output
    assert "1 line left out: 1 instead of 2 columns (line 2)" in output
    assert "1 line left out: an empty side (line 4)" in output
    assert "1 sources over 32 tokens: only those were translated" in output
    bleu, _ = metrics(bundle, "--pairs", tmp_path / "set.tsv")
    assert (bleu["sources_cut"], bleu["lines_skipped"]) == (1, 2)


def test_several_sets_are_scored_and_their_translations_written_in_order(
    bundle: LoadedBundle, test_set: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.en").write_text("Hello.\nHello.\n", encoding="utf-8")
    (tmp_path / "b.fr").write_text("Bonjour.\nSalut.\n", encoding="utf-8")
    plain, out = f"{tmp_path / 'a.en'},{tmp_path / 'b.fr'}", tmp_path / "out.txt"
    found = metrics(bundle, "--pairs", test_set, "--pairs", plain, "--out", out)
    assert [(metric["set"], metric["sentences"]) for metric in found[::2]] == [("set.tsv", 3), ("a.en,b.fr", 2)]
    expected = ours(bundle, [pair.source for pair in PAIRS] + ["Hello.", "Hello."])
    assert out.read_text(encoding="utf-8").split("\n")[:-1] == [" ".join(text.splitlines()) for text in expected]


def test_evaluate_and_export_name_a_set_by_its_path_below_the_corpora(bundle: LoadedBundle, tmp_path: Path) -> None:
    corpora = tmp_path / "corpora"
    for folder in (corpora / "flores", corpora / "news", tmp_path / "elsewhere"):
        folder.mkdir(parents=True)
        write_pairs(folder / "set.tsv", PAIRS)
    for number, code in enumerate(("en", "fr")):
        text = "".join(f"{pair[number]}\n" for pair in PAIRS)
        (corpora / "news" / f"set.{code}").write_text(text, encoding="utf-8")
    two = f"{corpora}/news/set.en,{corpora}/news/set.fr"
    sets = [f"{corpora}/flores/set.tsv", f"{corpora}/news/set.tsv", two, f"{tmp_path}/elsewhere/set.tsv"]
    given = [word for text in sets for word in ("--pairs", text)]
    names = [metric["set"] for metric in metrics(bundle, *given, "--corpora", corpora) if metric["metric"] == "BLEU"]
    assert names == ["flores/set.tsv", "news/set.tsv", "news/set.en,news/set.fr", "set.tsv"]
    exported = ExportOptions(tmp_path, tmp_path, tmp_path, evaluate_on=tuple(sets), below=corpora)
    assert [test.name for test in exported.tests("en", "fr")] == names


def test_a_test_set_is_not_overwritten(bundle: LoadedBundle, test_set: Path) -> None:
    before = test_set.read_bytes()
    given = ["evaluate", "--bundle", bundle.folder, "--pairs", test_set, "--out", test_set]
    result = CliRunner().invoke(cli, list(map(str, given)))
    assert (result.exit_code, "would be overwritten" in result.stderr) == (1, True)
    assert test_set.read_bytes() == before


def test_output_folder_is_created(bundle: LoadedBundle, test_set: Path, tmp_path: Path) -> None:
    evaluate("--bundle", bundle.folder, "--pairs", test_set, "--out", tmp_path / "new" / "out.txt")
    assert (tmp_path / "new" / "out.txt").read_text(encoding="utf-8").count("\n") == 3


def test_a_development_set_round_trips(tmp_path: Path) -> None:
    pairs = [Pair('"Yes, sir."', '"Oui, monsieur."'), Pair("source", "target")] * 3
    write_pairs(tmp_path / "dev.tsv", pairs)
    assert TestSet.development(tmp_path).pairs == pairs


def test_line_break_in_a_translation_does_not_break_the_file(
    bundle: LoadedBundle, test_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(bundle.source_tokenizer), "decode", lambda tokenizer, ids: "one\ntwo\u2028three")
    evaluate("--bundle", bundle.folder, "--pairs", test_set, "--out", tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == "one two three\n" * 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--precision", "int4"], "precision must be one of"),
        (["--raw", "--rows", "0"], "--rows must be at least 1"),
        (["--raw", "--beam", "0"], "--beam must be from 1 to --rows (64)"),
        (["--raw", "--beam", "9", "--rows", "8"], "--beam must be from 1 to --rows (8)"),
        (["--beam", "4"], "--beam needs --raw: the service decodes greedily"),
        (["--rows", "8"], "--rows needs --raw"),
        (["--tokenize", "spacy"], "--tokenize must be moses"),
        (["--bundle", "nowhere"], "nowhere: bundle folder not found"),
        (["--pairs", "nowhere.tsv"], "nowhere.tsv: no such file"),
    ],
)
def test_invalid_options_are_reported_in_one_line(
    bundle: LoadedBundle, test_set: Path, options: list[str], said: str
) -> None:
    given = ["--bundle", str(bundle.folder), "--pairs", str(test_set), *options]
    result = CliRunner().invoke(cli, ["evaluate", *given])
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert said in result.stderr
