"""From files of pairs to a data folder: its contents, what is left out, and what happens if it cannot be made."""

import hashlib
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import typer
from shared_fixtures import NAMES, PAIRS
from typer.testing import CliRunner

from model.atomic_files import NotReplaceable
from model.languages import ends_sentence
from model.tokenizer import Tokenizer
from training.__main__ import VERBS
from training.cleaning.holdout import comparison_key
from training.corpora.corpus import Pair, read_pairs, write_pairs
from training.corpora.text_file import CorpusError
from training.data.batches import load_pairs
from training.data.dataset import PreparedSummary, write_record
from training.data.options import PrepareOptions
from training.data.pair_store import PairStoreWriter
from training.data.prepare import already_prepared, prepare_corpora, vocabulary_sentences, vocabulary_size
from training.data.tokenise import proportionate

pytestmark = pytest.mark.slow


def options(tmp_path: Path, *files: Path, **fields: object) -> PrepareOptions:
    chosen = {"source": "en", "target": "fr", "out": tmp_path / "data", "vocab_size": 360} | fields
    return PrepareOptions(pairs=tuple(map(str, files)), **chosen)  # type: ignore[arg-type]


def corpus(tmp_path: Path, pairs: list[Pair] = PAIRS, name: str = "pairs.tsv") -> Path:
    write_pairs(tmp_path / name, pairs)
    return tmp_path / name


def rows(data: Path) -> list[tuple[list[int], list[int]]]:
    pairs, _ = load_pairs(data)
    sides = [
        [
            side.ids[np.arange(start, start + length)].tolist()
            for start, length in zip(side.starts, side.lengths, strict=True)
        ]
        for side in (pairs.source, pairs.target)
    ]
    return list(zip(*sides, strict=True))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PreparedSummary]:
    folder = tmp_path_factory.mktemp("prepared")
    return folder / "data", prepare_corpora(options(folder, corpus(folder), reserved_share=0.2), lambda line: None)


def test_prepared_ids_decode_to_the_pairs_outside_the_development_set(prepared: tuple[Path, PreparedSummary]) -> None:
    data, summary = prepared
    tokenizer = Tokenizer.load(data / "sentencepiece.model")
    plain = rows(data)[: summary.pairs - summary.copies]
    found = Counter(Pair(tokenizer.decode(source), tokenizer.decode(target)) for source, target in plain)
    dev, _ = read_pairs(data / "dev.tsv")
    assert found + Counter(dev) == Counter(PAIRS)
    assert len(dev) == summary.dev_pairs == len(PAIRS) // 20


def test_training_and_development_share_no_sentence(prepared: tuple[Path, PreparedSummary]) -> None:
    data, _ = prepared
    tokenizer = Tokenizer.load(data / "sentencepiece.model")
    training = {comparison_key(tokenizer.decode(ids)) for pair in rows(data) for ids in pair}
    development = {comparison_key(side) for pair in read_pairs(data / "dev.tsv")[0] for side in pair}
    assert not training & development


def test_end_marks_are_counted_over_all_pairs_that_an_epoch_draws(tmp_path: Path) -> None:
    ended = corpus(tmp_path, [Pair(f"{en} {n}.", f"{fr} {n}.") for n, (en, fr) in enumerate(PAIRS)], "ended.tsv")
    unended = corpus(tmp_path, [Pair(f"so {en} {n}", f"si {fr} {n}") for n, (en, fr) in enumerate(PAIRS)], "open.tsv")
    asked = options(tmp_path, ended, reserved_share=0.2, augment_share=0.5, replace=True)
    asked = replace(asked, pairs=(f"{ended}:3", f"{unended}:0.5"))
    summary = prepare_corpora(asked, lambda line: None)
    tokenizer, (pairs, _) = Tokenizer.load(tmp_path / "data" / "sentencepiece.model"), load_pairs(tmp_path / "data")
    marked = [ends_sentence(tokenizer.decode(source)) for source, _ in rows(tmp_path / "data")]
    assert summary.sources_with_end_marks == round(float(np.average(marked, weights=pairs.weights)), 3)
    without_copies = prepare_corpora(replace(asked, reserved_share=0, augment_share=0), lambda line: None)
    assert without_copies.sources_with_end_marks > summary.sources_with_end_marks > np.mean(marked) + 0.1


def test_every_reserved_symbol_is_equally_often_on_both_sides(
    prepared: tuple[Path, PreparedSummary],
) -> None:
    data, summary = prepared
    reserved = set(Tokenizer.load(data / "sentencepiece.model").reserved_ids)
    counts = [tuple(Counter(id for id in side if id in reserved) for side in pair) for pair in rows(data)]
    assert all(source == target for source, target in counts)
    assert sum(bool(source) for source, _ in counts) == summary.reserved_copies == round(0.2 * len(PAIRS) * 0.95)
    assert set().union(*(source for source, _ in counts)) == reserved


def test_the_record_accounts_for_every_line_and_file(prepared: tuple[Path, PreparedSummary]) -> None:
    data, summary = prepared
    assert PreparedSummary.load(data) == summary
    (record,) = summary.corpora
    assert record["read"] == len(PAIRS) == record["kept"] + sum(record["skipped"].values())
    content = (data.parent / "pairs.tsv").read_bytes()
    assert summary.sha256 == {"pairs.tsv": hashlib.sha256(content).hexdigest()}
    assert summary.vocab_size == Tokenizer.load(data / "sentencepiece.model").vocab_size


def test_vocabulary_is_learnt_from_pairs_in_the_proportions_of_their_weights(tmp_path: Path) -> None:
    writer = PairStoreWriter(tmp_path / "text.tsv")
    for number, name in enumerate("abc"):
        writer.add_all(number, ((line, Pair(name, name.upper())) for line in range(2000)))
    drawn = Counter(vocabulary_sentences(writer.finish(), [0.5, 2.0, 1.0], seed=1))
    assert drawn["b"] == drawn["B"] == 2000  # none twice, however often it is drawn
    assert {name: drawn[name] / 2000 for name in "ac"} == pytest.approx({"a": 0.25, "c": 0.5}, abs=0.05)


def test_training_reads_the_folder(tmp_path: Path) -> None:
    files = corpus(tmp_path, PAIRS[:150], "a.tsv"), corpus(tmp_path, PAIRS[150:], "b.tsv")
    summary = prepare_corpora(options(tmp_path, files[0], Path(f"{files[1]}:0.25")), lambda line: None)
    pairs, record = load_pairs(tmp_path / "data")
    assert len(pairs) == summary.pairs
    assert record["vocab_size"] == summary.vocab_size
    weights = Counter(pairs.weights[: summary.pairs - summary.copies].tolist())
    assert weights == {1.0: summary.corpora[0]["kept"], 0.25: summary.corpora[1]["kept"]}


def test_swapped_development_set_is_swapped_back_unless_its_columns_are_given(
    tmp_path: Path,
) -> None:
    pairs = [Pair("Where is the red house?", "Où est la maison rouge ?"), Pair("She sleeps.", "Elle dort déjà.")]
    dev = corpus(tmp_path, [Pair(pair.target, pair.source) for pair in pairs], "turned.tsv")
    said: list[str] = []
    asked = options(tmp_path, corpus(tmp_path), dev=str(dev), replace=True)
    prepare_corpora(asked, said.append)
    assert read_pairs(tmp_path / "data" / "dev.tsv")[0] == pairs
    assert any(line.startswith("turned.tsv: ") and "source in 2 and target in 1" in line for line in said)
    prepare_corpora(replace(asked, columns=(1, 2)), said.append)
    assert read_pairs(tmp_path / "data" / "dev.tsv")[0] == [Pair(pair.target, pair.source) for pair in pairs]


def test_limit_draws_pairs_by_seed_and_a_lower_one_is_a_subset(tmp_path: Path) -> None:
    def drawn(limit: int | None, seed: int = 1) -> set[tuple[str, ...]]:
        dev = str(corpus(tmp_path, PAIRS[:9], "dev.tsv"))
        shares = {"reserved_share": 0, "augment_share": 0}
        asked = options(tmp_path, corpus(tmp_path), limit=limit, seed=seed, replace=True, dev=dev, **shares)
        summary = prepare_corpora(asked, lambda line: None)
        tokenizer = Tokenizer.load(tmp_path / "data" / "sentencepiece.model")
        found = {tuple(map(tokenizer.decode, pair)) for pair in rows(tmp_path / "data")}
        (record,) = summary.corpora
        assert record["kept"] == summary.pairs == len(found)
        assert record["read"] == record["kept"] + sum(record["skipped"].values()) == len(PAIRS)
        return found

    every = drawn(None)
    assert every == drawn(len(every)) == drawn(10**6)
    assert len(drawn(20)) == 20
    assert drawn(20) < drawn(50) < every
    assert drawn(20) != drawn(20, seed=2)


def test_limit_does_not_apply_to_mixed_in_pairs(tmp_path: Path) -> None:
    own, other = corpus(tmp_path, PAIRS[:150], "own.tsv"), corpus(tmp_path, PAIRS[150:], "other.tsv")
    summary = prepare_corpora(options(tmp_path, own, limit=30, mix=(str(other),)), lambda line: None)
    assert summary.corpora[0]["kept"] == 30
    assert summary.corpora[1]["kept"] > 100


def test_seed_determines_every_byte(tmp_path: Path) -> None:
    file = corpus(tmp_path)
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        prepare_corpora(options(tmp_path, file, out=tmp_path / name, seed=seed), lambda line: None)
    names = ["prepared.json", "sentencepiece.model", "tokens-00000.bin", "dev.tsv"]
    one, again, other = ([(tmp_path / run / name).read_bytes() for name in names] for run in ("one", "again", "other"))
    assert one == again
    assert all(mine != theirs for mine, theirs in zip(one, other, strict=True))


def test_a_given_development_set_is_used_and_kept_out_of_training(tmp_path: Path) -> None:
    dev = corpus(
        tmp_path, [Pair("TOM has 2 dogs", "Tom a deux chiens."), Pair("Two dogs.", "Bo a 9 livres !")], "d.tsv"
    )
    said: list[str] = []
    summary = prepare_corpora(options(tmp_path, corpus(tmp_path), dev=str(dev)), said.append)
    assert (tmp_path / "data" / "dev.tsv").read_bytes() == dev.read_bytes()
    lost = [n for n, pair in enumerate(PAIRS, 1) if pair in (PAIRS[1], Pair("Bo has 9 books.", "Bo a 9 livres."))]
    reason = f"a sentence is in the development set (lines {lost[0]}, {lost[1]})"
    assert f"pairs.tsv: 2 lines left out: {reason}" in said
    assert summary.corpora[0]["kept"] == len(PAIRS) - 2
    assert set(summary.sha256) == {"pairs.tsv", "d.tsv"}


def test_repaired_pair_of_the_development_set_is_not_in_training(tmp_path: Path) -> None:
    broken = Pair("Tom likes cafÃ©s.", "Tom aime les cafÃ©s.")  # read in a wrong encoding, both sides
    dev = corpus(tmp_path, [broken], "d.tsv")
    summary = prepare_corpora(options(tmp_path, corpus(tmp_path, [*PAIRS, broken]), dev=str(dev)), lambda line: None)
    assert summary.corpora[0]["kept"] == len(PAIRS)
    assert (tmp_path / "data" / "dev.tsv").read_bytes() == dev.read_bytes()


def test_too_long_and_ill_proportioned_pairs_are_reported_by_number(tmp_path: Path) -> None:
    long = Pair("Tom has " + "many books " * 60, "Tom a " + "beaucoup de livres " * 60)
    uneven = Pair("Mary has " + "9 apples and " * 8, "Mary a.")
    file = corpus(tmp_path, [*PAIRS, long, uneven])
    said: list[str] = []
    dev = corpus(tmp_path, [Pair("Dogs.", "Chiens."), long], "dev.tsv")
    summary = prepare_corpora(options(tmp_path, file, dev=str(dev), max_tokens=100), said.append)
    assert "dev.tsv: 1 line left out: longer than 100 tokens (line 2)" in said
    report = json.loads((tmp_path / "data" / "report.json").read_text())["corpora"][-1]
    assert (report["read"], report["kept"]) == (2, 1)
    assert summary.dev_pairs == 1
    assert summary.corpora[0]["skipped"] == {
        "a sentence is in the development set": 1,
        "lengths out of proportion": 1,
    }
    file = corpus(tmp_path, [*PAIRS, long])
    dev = corpus(tmp_path, [Pair("Dogs.", "Chiens.")], "dev.tsv")
    prepare_corpora(options(tmp_path, file, dev=str(dev), max_tokens=100, replace=True), said.append)
    assert f"pairs.tsv: 1 line left out: longer than 100 tokens (line {len(PAIRS) + 1})" in said
    assert max(len(side) for pair in rows(tmp_path / "data") for side in pair) <= 100


def test_length_ratio_is_judged_by_the_usual_one_of_the_two_languages() -> None:
    lengths = np.array([[30] * 9 + [30, 30, 5], [90] * 9 + [30, 400, 20]])  # [side, pairs]
    assert proportionate(lengths, 4.0).tolist() == [True] * 10 + [False, True]
    assert proportionate(np.array([[100, 100], [20, 100]]), 4.0).tolist() == [True, True]
    assert proportionate(np.array([[100] * 9 + [100], [100] * 9 + [20]]), 4.0).tolist() == [True] * 9 + [False]


def test_language_without_spaces_can_be_prepared(tmp_path: Path) -> None:
    things = ["苹果", "狗", "房子", "书", "椅子"]
    pairs = [Pair(f"{n} has {k} {t}s.", f"{n}有{k}个{t}。") for n in NAMES for k in range(2, 9) for t in things]
    chosen = options(tmp_path, corpus(tmp_path, pairs), target="zh-Hans")
    summary = prepare_corpora(chosen, lambda line: None)
    tokenizer = Tokenizer.load(chosen.out / "sentencepiece.model")
    assert "zh-Hans" in tokenizer.language_ids
    assert {Pair(*map(tokenizer.decode, row)) for row in rows(chosen.out)[: -summary.copies]} <= set(pairs)


def test_two_pairs_suffice_and_teach_all_symbols(tmp_path: Path) -> None:
    file = corpus(tmp_path, [Pair("Hello there.", "Bonjour à vous."), Pair("It is raining.", "Il pleut encore.")])
    summary = prepare_corpora(options(tmp_path, file, vocab_size=None), lambda line: None)
    assert (summary.pairs - summary.copies, summary.dev_pairs) == (1, 1)
    tokenizer = Tokenizer.load(tmp_path / "data" / "sentencepiece.model")
    assert summary.vocab_size == tokenizer.vocab_size < 1000
    assert set(tokenizer.reserved_ids) <= {id for source, _ in rows(tmp_path / "data") for id in source}


def test_no_copies_are_made_if_none_are_requested(tmp_path: Path) -> None:
    summary = prepare_corpora(
        options(tmp_path, corpus(tmp_path), reserved_share=0.0, augment_share=0.0), lambda line: None
    )
    assert summary.copies == 0
    assert len(rows(tmp_path / "data")) == summary.pairs == summary.corpora[0]["kept"]


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([Pair("One.", "Un.")], "there is only one pair"),
        ([Pair("Run!", "Cours !"), Pair("Run!", "Courez !")], "every one shares a sentence with the development set"),
    ],
)
def test_too_few_sentences_are_refused(tmp_path: Path, pairs: list[Pair], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prepare_corpora(options(tmp_path, corpus(tmp_path, pairs)), lambda line: None)
    assert not (tmp_path / "data").exists()


def test_file_without_a_usable_pair_is_refused_with_the_most_frequent_reason(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("a\t\nb\t\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"no usable pair: 2 lines left out: an empty side \(lines 1, 2\)"):
        prepare_corpora(options(tmp_path, path), lambda line: None)
    path.write_text("source\ttarget\n", encoding="utf-8")
    with pytest.raises(CorpusError, match="no usable pair: the file has only a header"):
        prepare_corpora(options(tmp_path, path), lambda line: None)


def test_all_files_are_checked_before_any_is_read(tmp_path: Path) -> None:
    bad = tmp_path / "bad.tsv"
    bad.write_text("no tab here\n", encoding="utf-8")
    said: list[str] = []
    with pytest.raises(CorpusError, match="no tab in 'no tab here'"):
        prepare_corpora(options(tmp_path, corpus(tmp_path), bad), said.append)
    assert not said


def test_limit_that_excludes_every_pair_is_named(tmp_path: Path) -> None:
    dev = corpus(tmp_path, [Pair("Hi.", "Oh.")], "dev.tsv")
    long = corpus(tmp_path, [Pair(" ".join(map(str, range(n, n + 40))), "x") for n in range(9)])
    with pytest.raises(ValueError, match="no pair is left of at most 8 tokens"):
        prepare_corpora(options(tmp_path, long, dev=str(dev), max_tokens=8), lambda line: None)
    dev = corpus(tmp_path, PAIRS[:1], "dev.tsv")
    with pytest.raises(ValueError, match="no development pair is usable: longer than 8 tokens"):
        prepare_corpora(options(tmp_path, long, dev=str(dev), max_tokens=8), lambda line: None)


def test_existing_folder_is_replaced_only_on_request_and_only_if_it_has_data(tmp_path: Path) -> None:
    chosen = options(tmp_path, corpus(tmp_path))
    prepare_corpora(chosen, lambda line: None)
    with pytest.raises(NotReplaceable, match="--replace swaps it for the new data folder"):
        prepare_corpora(chosen, lambda line: None)
    first = PreparedSummary.load(chosen.out)
    second = prepare_corpora(replace(chosen, seed=2, replace=True), lambda line: None)
    assert PreparedSummary.load(chosen.out) == second != first
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter-1").touch()
    with pytest.raises(NotReplaceable, match="not a data folder"):
        prepare_corpora(replace(chosen, out=tmp_path / "thesis", replace=True), lambda line: None)


def test_folder_with_the_input_files_is_not_replaced(tmp_path: Path) -> None:
    chosen = options(tmp_path, corpus(tmp_path))
    prepare_corpora(chosen, lambda line: None)
    inside = corpus(chosen.out, name="mine.tsv")
    for files, dev in (([inside], None), ([tmp_path / "pairs.tsv"], str(inside))):
        again = options(tmp_path, *files, dev=dev, replace=True)
        with pytest.raises(NotReplaceable, match=r"mine\.tsv would be deleted with the data folder"):
            prepare_corpora(again, lambda line: None)
    assert inside.exists()


def test_failed_replacement_keeps_the_old_folder_and_leftovers_of_a_killed_one_are_removed(tmp_path: Path) -> None:
    file = corpus(tmp_path)
    chosen = options(tmp_path, file, replace=True)
    prepare_corpora(chosen, lambda line: None)
    before = (chosen.out / "tokens-00000.bin").read_bytes()
    with pytest.raises(ValueError, match="too small"):
        prepare_corpora(replace(chosen, vocab_size=300), lambda line: None)
    assert (chosen.out / "tokens-00000.bin").read_bytes() == before
    (tmp_path / ".data.x.partial").mkdir()
    (tmp_path / ".data.x.partial" / "half").touch()
    (tmp_path / ".data.v2.x.partial").mkdir()
    prepare_corpora(chosen, lambda line: None)
    assert {path.name for path in tmp_path.iterdir()} == {"pairs.tsv", "data", ".data.v2.x.partial"}, "another's"


def test_a_vocabulary_without_room_for_bytes_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a vocabulary of 0 pieces is too small: the bytes and symbols alone are"):
        options(tmp_path, tmp_path / "none.tsv", vocab_size=0)


def test_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    file = corpus(tmp_path)

    def say(line: str) -> None:
        if line.startswith("learning a vocabulary"):
            corpus(tmp_path, [*PAIRS, Pair("More.", "Plus.")])

    with pytest.raises(ValueError, match=r"pairs.tsv changed while it was being read"):
        prepare_corpora(options(tmp_path, file), say)
    assert not (tmp_path / "data").exists()


def test_prepared_data_is_up_to_date_until_a_file_or_an_option_changes(tmp_path: Path) -> None:
    chosen = options(tmp_path, corpus(tmp_path))
    assert already_prepared(chosen) is None
    summary = prepare_corpora(chosen, lambda line: None)
    assert already_prepared(chosen) == already_prepared(replace(chosen, replace=True)) == summary
    assert already_prepared(replace(chosen, seed=2)) is None
    del summary.options["limit"]  # as a version wrote that had no such option
    write_record(chosen.out, summary)
    assert already_prepared(chosen) == summary
    assert already_prepared(replace(chosen, limit=9)) is None
    corpus(tmp_path, PAIRS[1:])
    assert already_prepared(chosen) is None


def test_files_of_the_same_name_have_a_checksum_each(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    files = corpus(tmp_path, PAIRS[:100]), corpus(tmp_path / "more", PAIRS[100:])
    summary = prepare_corpora(options(tmp_path, *files), lambda line: None)
    assert list(summary.sha256) == ["pairs.tsv", str(files[1])]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no prepared.json"),
        ("{", "is damaged"),
        ('{"format_version": 9}', "format 9, not 2"),
        ("{}", "is damaged"),
    ],
)
def test_a_folder_without_data_is_refused(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "prepared.json").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        PreparedSummary.load(tmp_path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source": "e"}, "--source 'e' is not a language code"),
        ({"target": "français!"}, "--target"),
        ({"target": "en"}, "both en"),
        ({"source": "English"}, "--source 'English': services call that language en"),
        ({"target": "fra"}, "--target 'fra': services call that language fr"),
        ({"target": "ger"}, "services call that language de"),
        ({"target": "EN"}, "services call that language en"),
        ({"target": "POR-BR"}, "services call that language pt-BR"),
        ({"dev": "a", "dev_size": 5}, "not both"),
        ({"dev_size": 0}, "--dev-size"),
        ({"limit": 0}, "--limit"),
        ({"max_tokens": 1}, "--max-tokens"),
        ({"max_ratio": 1.0}, "--max-ratio"),
        ({"reserved_share": 1.5}, "--reserved-share"),
        ({"augment_share": -0.1}, "--augment-share"),
        ({"seed": -1}, "--seed"),
        ({"pairs": ()}, "no --pairs"),
    ],
)
def test_invalid_options_are_named(tmp_path: Path, fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(options(tmp_path, Path("a.tsv")), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("code", ["en", "pt-BR", "zh_Hant", "ckb", "sr-Latn-RS"])
def test_any_language_code_is_accepted(tmp_path: Path, code: str) -> None:
    assert options(tmp_path, Path("a.tsv"), target=code + ("-x" if code == "en" else "")).target.startswith(code)


def test_fine_tuned_bundle_may_have_any_name(tmp_path: Path) -> None:
    assert options(tmp_path, Path("a.tsv"), source="ENG", vocabulary="sentencepiece.model").source == "ENG"


@pytest.mark.parametrize(
    ("pairs", "characters", "size"),
    [(600, 90, 1000), (5_000, 90, 2000), (23_000, 3_500, 11_000), (147_470, 180, 8_000)],
)
def test_vocabulary_grows_with_the_corpus_and_the_script(pairs: int, characters: int, size: int) -> None:
    assert vocabulary_size(pairs, characters) == size


def test_command_reports_its_assumptions_and_its_output(tmp_path: Path) -> None:
    verb = typer.Typer()
    verb.command()(VERBS["prepare"])
    path = tmp_path / "fr-en.tsv"
    path.write_text("".join(f"{french}\t{english}\n" for english, french in PAIRS), encoding="utf-8")
    arguments = ["--pairs", path, "--source", "en", "--target", "fr", "--columns", "2,1", "--vocab-size", 360]
    result = CliRunner().invoke(verb, [str(argument) for argument in [*arguments, "--out", tmp_path / "data"]])
    assert result.exit_code == 0, result.output
    assert "2 columns, source in 2 and target in 1 as requested" in result.output
    assert "304 sentence pairs to train on, and 32 copies" in result.output
    assert read_pairs(tmp_path / "data" / "dev.tsv")[0][0] in PAIRS
    options_given = json.loads((tmp_path / "data" / "prepared.json").read_text(encoding="utf-8"))["options"]
    assert options_given["columns"] == [2, 1]


@pytest.mark.parametrize("columns", ["2", "0,1", "1,1", "a,b"])
def test_verb_refuses_columns_that_are_not_two(tmp_path: Path, columns: str) -> None:
    verb = typer.Typer()
    verb.command()(VERBS["prepare"])
    arguments = ["--pairs", "a", "--source", "en", "--target", "fr", "--out", str(tmp_path / "d"), "--columns", columns]
    result = CliRunner().invoke(verb, arguments)
    assert "--columns must be two different numbers" in str(result.exception)
