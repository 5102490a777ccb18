"""Which columns of which files are sentence pairs, which lines are skipped, and that written files are read back."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.corpora.corpus import CorpusSpec, LineTally, Pair, open_corpus, parse_spec, read_pairs, write_pairs
from training.corpora.text_file import CorpusError

# What a TSV in UTF-8 can hold: U+FEFF would be a byte order mark, U+FFFD and zero are signs of damage.
SENTENCES = (
    st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\0\ufeff\ufffd"), min_size=1, max_size=30
    )
    .map(str.strip)
    .filter(bool)
)
PAIRS = st.builds(Pair, SENTENCES, SENTENCES)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


def read(*paths: Path, **options: object) -> tuple[list[Pair], LineTally]:
    skipped = LineTally()
    corpus = open_corpus(CorpusSpec(paths), **options)  # type: ignore[arg-type]
    return [pair for _, pair in corpus.pairs(skipped)], skipped


@given(st.lists(PAIRS, max_size=20), st.sampled_from(["tsv", "tsv.gz", "tsv.xz"]))
def test_written_files_are_read_back(pairs: list[Pair], suffix: str) -> None:
    pairs = [Pair("No header.", "Aucun en-tête."), *pairs]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"pairs.{suffix}")
        assert write_pairs(path, pairs) == len(pairs)
        found, skipped = read_pairs(path)
    assert found == pairs
    assert not skipped.counts


@pytest.mark.parametrize("mark", ["\t", "\n", "\r"])
def test_sentence_that_would_break_the_file_is_refused(tmp_path: Path, mark: str) -> None:
    with pytest.raises(ValueError, match="tab or line end"):
        write_pairs(tmp_path / "a.tsv", [Pair(f"a{mark}b", "c")])


def test_two_plain_files_equal_one_tsv(tmp_path: Path) -> None:
    english = write(tmp_path / "a.en", "Hello.\nGood, thanks.\n")
    french = write(tmp_path / "a.fr", "Bonjour.\nBien, merci.\n")
    spec = parse_spec(f"{english},{french}:2")
    assert spec == CorpusSpec((english, french), 2.0)
    assert read(*spec.paths)[0] == [("Hello.", "Bonjour."), ("Good, thanks.", "Bien, merci.")]


def test_two_plain_files_are_columns_1_and_2(tmp_path: Path) -> None:
    spec = CorpusSpec((write(tmp_path / "a.en", "Hello.\n"), write(tmp_path / "a.fr", "Bonjour.\n")))
    for columns, pair in (((1, 2), ("Hello.", "Bonjour.")), ((2, 1), ("Bonjour.", "Hello."))):
        assert [found for _, found in open_corpus(spec, columns=columns).pairs(LineTally())] == [pair]
    assert "source in the second as requested" in open_corpus(spec, columns=(2, 1)).describe()
    with pytest.raises(CorpusError, match="no column 3"):
        open_corpus(spec, columns=(1, 3))


@pytest.mark.parametrize("longer", ["en", "fr"])
def test_plain_files_of_different_length_are_refused_and_the_shorter_is_named(tmp_path: Path, longer: str) -> None:
    paths = [write(tmp_path / f"a.{code}", "One.\nTwo.\n" + "Three.\n" * (code == longer)) for code in ("en", "fr")]
    with pytest.raises(CorpusError, match="ends after line 2") as caught:
        read(*paths)
    assert caught.value.path.suffix == {"en": ".fr", "fr": ".en"}[longer]


@pytest.mark.parametrize("name", ["a:b.tsv", "a,b.tsv", "a.tsv:2", "C:0.5", "a b.tsv"])
def test_existing_file_is_used_whatever_its_name_looks_like(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, "a\tb\n")
    assert parse_spec(str(path)) == CorpusSpec((path,), 1.0)
    assert parse_spec(f"{path}:.25") == CorpusSpec((path,), 0.25)


def test_plain_files_with_commas_in_their_names_are_found(tmp_path: Path) -> None:
    paths = (write(tmp_path / "a,b.en", "x"), write(tmp_path / "a,b.fr", "y"))
    assert parse_spec(f"{paths[0]},{paths[1]}").paths == paths


@pytest.mark.parametrize("name", ["none.tsv", "none.tsv:2", "C:\\none.tsv", "none,nor,this"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(CorpusError, match="no such file") as caught:
        parse_spec(str(tmp_path / name))
    assert caught.value.path == tmp_path / name.removesuffix(":2")


def test_missing_one_of_two_plain_files_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.en", "x")
    with pytest.raises(CorpusError, match="no such file") as caught:
        parse_spec(f"{path},{tmp_path}/a.fr")
    assert caught.value.path == tmp_path / "a.fr"


def test_zero_weight_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "x\ty")
    with pytest.raises(CorpusError, match="weight must be above 0"):
        parse_spec(f"{path}:0")


def test_broken_lines_are_skipped_and_reported_by_number_and_reason(tmp_path: Path) -> None:
    lines = ["Hello.\tBonjour.", "one column", "", "a\t", "\tb", "a\tb\tc", "Yes.\tÇa oui."]
    path = tmp_path / "a.tsv"
    path.write_bytes("\n".join(lines).encode() + b"\nCaf\xe9.\tx\nA\rb\tc\nNo.\tNon. \n")
    pairs, skipped = read(path)
    assert pairs == [("Hello.", "Bonjour."), ("Yes.", "Ça oui."), ("No.", "Non.")]
    assert skipped.first_lines == {
        "1 instead of 2 columns": [2],
        "an empty line": [3],
        "an empty side": [4, 5],
        "3 instead of 2 columns": [6],
        "undecodable bytes": [8],
        "a tab or line end inside a sentence": [9],
    }
    assert next(skipped.describe()) == "2 lines left out: an empty side (lines 4, 5)"


def test_the_report_gives_the_total_and_the_first_numbers() -> None:
    skipped = LineTally()
    for number in range(1, 2001):
        skipped.add("an empty side", number)
    assert list(skipped.describe()) == ["2,000 lines left out: an empty side (lines 1, 2, 3, 4, 5, ...)"]


@pytest.mark.parametrize("header", ["source\ttarget", "en\tfr", "English\tFrench", "EN-GB\tTranslation"])
def test_header_is_recognised_and_skipped(tmp_path: Path, header: str) -> None:
    path = write(tmp_path / "a.tsv", f"{header}\nHello.\tBonjour.\n")
    corpus = open_corpus(CorpusSpec((path,)), "en-GB", "fr")
    assert corpus.header
    assert "the first line is a header" in corpus.describe()
    assert list(corpus.pairs(LineTally())) == [(2, ("Hello.", "Bonjour."))]


def test_header_may_name_any_language(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "Hungarian\tEnglish\nSzia.\tHello.\n")
    assert read(path, source="en", target="hu")[0] == [("Hello.", "Szia.")]


@pytest.mark.parametrize("line", ["Text\tText", "English\tAnglais", "Hello.\tBonjour.", "en\ten"])
def test_ordinary_first_line_is_not_a_header(tmp_path: Path, line: str) -> None:
    path = write(tmp_path / "a.tsv", f"{line}\nHello.\tBonjour.\n")
    assert len(read(path, source="en", target="fr")[0]) == 2


def test_a_header_that_names_the_languages_chooses_the_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "id\tfr\ten\n1\tBonjour.\tHello.\n")
    corpus = open_corpus(CorpusSpec((path,)), "en", "fr")
    assert (corpus.source, corpus.target) == (2, 1)
    assert "source in 3 and target in 2, by the header" in corpus.describe()
    assert read(path, source="en", target="fr")[0] == [("Hello.", "Bonjour.")]


def test_an_attribution_in_a_third_column_is_accepted_and_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "Hi.\tSalut !\tCC-BY 2.0 #1\nRun!\tCours !\tCC-BY 2.0 #2\n")
    assert (
        "3 columns, source in 1 and target in 2; column 3 is ignored (an attribution?)"
        in open_corpus(CorpusSpec((path,))).describe()
    )
    assert read(path)[0] == [("Hi.", "Salut !"), ("Run!", "Cours !")]


@pytest.mark.parametrize(
    ("lines", "note"),
    [
        ("1000\tHi.\tSalut !\n1001\t1984\tCours !\n", "source in 2 and target in 3; the numbers in 1 are ignored"),
        ("0.93\tHi.\tSalut !\ta\n-1e-3\t1984\tCours !\tb\n", "numbers in 1 are ignored, and everything after both"),
        ("id\tsource\ttarget\n7\tHi.\tSalut !\n8\t1984\tCours !\n", "source in 2 and target in 3; the numbers in 1"),
        ("Hi.\tSalut !\t0.5\n1984\tCours !\t0.7\n", "source in 1 and target in 2; column 3 is ignored"),
    ],
)
def test_identifiers_and_scores_are_not_taken_for_sentences(tmp_path: Path, lines: str, note: str) -> None:
    corpus = open_corpus(CorpusSpec((write(tmp_path / "a.tsv", lines),)), "en", "id")
    assert note in corpus.describe()
    assert [pair for _, pair in corpus.pairs(LineTally())] == [("Hi.", "Salut !"), ("1984", "Cours !")]


def test_columns_of_numbers_are_the_sentences_if_there_are_no_others(tmp_path: Path) -> None:
    assert read(write(tmp_path / "a.tsv", "1\t2\n3\t4\n"))[0] == [("1", "2"), ("3", "4")]


def test_numbered_sentences_in_four_columns_are_accepted_and_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "1276\tHi.\t988\tSalut !\n1277\tRun!\t989\tCours !\n")
    assert "the numbers in 1 and 3 are ignored" in open_corpus(CorpusSpec((path,))).describe()
    assert read(path)[0] == [("Hi.", "Salut !"), ("Run!", "Cours !")]


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("s{n}\t{english}\t{french}", "the identifiers in 1 are ignored"),
        ("https://a.b/c\t{english}\t{french}", "the identifiers in 1 are ignored"),
        ("{n}\teng\t{english}\t{n}\tfra\t{french}", "the identifiers in 1 and 2 and 4 and 5 are ignored"),
        ("Europarl v7\t{english}\t0.5\t{french}\tx", "the identifiers in 1 and 3 are ignored, and everything after"),
        ("{english}\t{french}\ts{n}", "column 3 is ignored"),
    ],
)
def test_first_text_columns_are_chosen_among_several(tmp_path: Path, line: str, note: str) -> None:
    pairs = [Pair(f"Sentence {n % 15}.", f"Phrase {n % 20}.") for n in range(100, 140)]
    lines = (line.format(n=n, english=pair.source, french=pair.target) for n, pair in enumerate(pairs))
    path = write(tmp_path / "a.tsv", "".join(f"{each}\n" for each in lines))
    assert note in open_corpus(CorpusSpec((path,)), "en", "fr").describe()
    assert read(path, source="en", target="fr")[0] == pairs


def test_columns_can_be_chosen(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "Bonjour.\tx\tHello.\n")
    assert read(path, columns=(3, 1))[0] == [("Hello.", "Bonjour.")]
    with pytest.raises(CorpusError, match="there are 3 columns, not 4"):
        read(path, columns=(4, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Hello.\nBonjour.\n", "line 1: no tab in 'Hello.'; expected a source sentence, a tab"),
        ("\nHello,Bonjour\nYes,Oui\n", "line 2: no tab in 'Hello,Bonjour'.*is this CSV, separated by ','"),
        ("Hello;Bonjour\nYes;Oui\n", "is this CSV, separated by ';'"),
        ("a\tb\na\tb\tc\na\tb\tc\td\nx\n", r"line 1: lines differ in columns; the first is 'a\\tb'"),
    ],
)
def test_a_file_without_pairs_is_refused_with_its_first_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        open_corpus(CorpusSpec((write(tmp_path / "a.tsv", text),)))


def test_very_long_first_line_is_shortened_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(CorpusError) as caught:
        open_corpus(CorpusSpec((write(tmp_path / "a.tsv", "word " * 10000),)))
    assert len(str(caught.value)) < 250 + len(str(tmp_path))


def test_spreadsheet_quotes_are_removed_and_those_of_sentences_kept(tmp_path: Path) -> None:
    sheet = [
        '"Well, the cat sleeps."\t"Alors, le chat dort."',
        '"He said ""no""."\tIl a dit non.',
        "Plain.\tSimple.",
        '"""Yes,"" he said."\t"« Oui », dit-il, vite."',
    ]
    assert read(write(tmp_path / "sheet.tsv", "\n".join([*sheet, ""])))[0] == [
        ("Well, the cat sleeps.", "Alors, le chat dort."),
        ('He said "no".', "Il a dit non."),
        ("Plain.", "Simple."),
        ('"Yes," he said.', "« Oui », dit-il, vite."),
    ]
    everything = '"en"\t"fr"\n"Plain."\t"Simple."\n"Help!"\t"À l\'aide !"\n'
    look = open_corpus(CorpusSpec((write(tmp_path / "all.tsv", everything),)), "en", "fr")
    assert look.header
    assert "quotes around cells are removed" in look.describe()
    assert [pair for _, pair in look.pairs(LineTally())] == [("Plain.", "Simple."), ("Help!", "À l'aide !")]
    for own in ('"Help!"\t"À l\'aide !"', '"Yes," he said.\tOui.'):
        text = "\n".join([own, '"Stop!"\t"Arrête !"', "Plain.\tSimple.", ""])
        found = [f"{a}\t{b}" for a, b in read(write(tmp_path / "own.tsv", text))[0]]
        assert found == text.splitlines()
