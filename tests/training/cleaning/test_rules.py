"""What is repaired and what is dropped, for each kind of mess in files; good pairs are unchanged."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared_fixtures import PAIRS
from typer.testing import CliRunner

from training.__main__ import cli
from training.cleaning import rules
from training.cleaning.language_check import LanguageCheck
from training.cleaning.misalignment import MIN_PAIRS, drop_misaligned
from training.cleaning.repair import CONTROL, ENTITIES, MOJIBAKE, TAGS, repair
from training.cleaning.rules import RULES, SWAPPED, CleaningOptions, CleaningTally, clean
from training.corpora.corpus import LineTally, Pair, read_pairs, write_pairs
from training.corpora.text_file import CorpusError
from training.data.options import PrepareOptions
from training.data.prepare import prepare_corpora

GOOD = [
    Pair("I would like a cup of coffee.", "Je voudrais une tasse de café."),
    Pair("The children are playing in the garden.", "Les enfants jouent dans le jardin."),
    Pair("Where did you put the keys?", "Où as-tu mis les clés ?"),
    Pair("It was built in 1889.", "Elle a été construite en 1889."),
    Pair("The town has 1,500,000 inhabitants.", "La ville compte 1,5 million d'habitants."),
    Pair("Tom!", "Tom !"),
    Pair("Yes.", "Oui."),
    Pair("OK", "OK"),
    Pair("Paris, Texas", "Paris, Texas"),
    Pair("Press <b>Enter</b>.", "Appuyez sur <b>Entrée</b>."),
    Pair("Give <name>, please.", "Donnez <nom>, s'il vous plaît."),
    Pair("See &amp; in the manual.", "Voyez &amp; dans le manuel."),
    Pair("x < y and y > z", "x < y et y > z"),
]


def cleaned(
    pairs: list[Pair], source: str = "en", target: str = "fr", keep: tuple[str, ...] = ()
) -> tuple[list[Pair], CleaningTally]:
    found = CleaningTally()
    options = CleaningOptions(source, target, keep=frozenset(keep))
    return [pair for _, pair in clean(enumerate(pairs, 1), options, found)], found


@pytest.mark.slow
def test_good_pairs_are_unchanged() -> None:
    kept, found = cleaned(GOOD + PAIRS)
    assert kept == GOOD + PAIRS
    assert not found.repaired.counts
    assert not found.dropped.counts


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (Pair("The weather is fine today.", "Das Wetter ist heute sehr schön."), "the target is not fr but de"),
        (Pair("¿Dónde está la biblioteca nacional?", "Où est la bibliothèque ?"), "the source is not en but es"),
        (Pair("This was never translated.", "This was not translated at all."), "the target is not fr but en"),
        (Pair("It opened in 1950, with 300 seats.", "Il a ouvert en 1972, avec 4500 places."), "the numbers differ"),
        (Pair("Good morning.", "..."), "a side has no letters or digits"),
        (Pair("word " * 1000, "mot"), "longer than 4,096 characters"),
        (Pair("Good morning.", "\x07\u200b"), "a side is empty after cleaning"),
    ],
)
def test_useless_pairs_are_dropped_and_reported(pair: Pair, reason: str) -> None:
    kept, found = cleaned([*GOOD, pair])
    assert kept == GOOD
    assert dict(found.dropped.counts) == {reason: 1}
    (example,) = found.dropped.examples[reason]
    assert example.line == len(GOOD) + 1
    assert pair.source.startswith(example.source[:20])


@pytest.mark.slow
def test_several_processes_give_the_result_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """On pairs that are all in the other order."""
    monkeypatch.setattr(rules, "_CHUNK_PAIRS", 200)
    rng = random.Random(1)
    faults = [
        Pair("The weather is fine today.", "Das Wetter ist heute sehr schön."),
        Pair("He said &quot;no&quot; to me.", "Il m'a dit &quot;non&quot;."),
        Pair("It opened in 1950, with 300 seats.", "Il a ouvert en 1972, avec 4500 places."),
        Pair("Good morning.", "..."),
    ]
    pairs = [rng.choice(GOOD + PAIRS) if rng.random() < 0.95 else rng.choice(faults) for _ in range(500)]
    pairs = [Pair(pair.target, pair.source) for pair in pairs]
    options, found = CleaningOptions("en", "fr"), [CleaningTally(), CleaningTally()]
    kept = [list(clean(enumerate(pairs, 1), options, found[n], processes)) for n, processes in enumerate((1, 2))]
    assert kept[0] == kept[1]
    assert found[0] == found[1]
    assert len(found[0].dropped.counts) == 3
    assert found[0].repaired.counts[SWAPPED] > 400


def test_truncated_corpus_is_an_error_with_several_processes_too() -> None:
    def broken() -> Iterator[tuple[int, Pair]]:
        yield from ((number, GOOD[0]) for number in range(1, 2500))
        raise CorpusError("corpus.tsv.xz", "the file is cut off")

    with pytest.raises(CorpusError, match="cut off"):
        list(clean(broken(), CleaningOptions("en", "fr"), CleaningTally(), 2))


@pytest.mark.parametrize("year", ["١٩٩٠", "１９９０", "१९९०"])
def test_numbers_in_another_scripts_digits_are_equal(year: str) -> None:
    options = CleaningOptions("en", "tlh")  # a language that nothing is known of
    pairs = [(1, Pair("He left in 1990.", f"X {year} Y")), (2, Pair("He left in 1984.", f"X {year} Y"))]
    found = CleaningTally()
    assert [number for number, _ in clean(pairs, options, found)] == [1]


@pytest.mark.parametrize("code", ["yue", "wuu", "arz", "ary", "nn"])
def test_language_that_is_detected_as_another_is_checked_as_that_one(code: str) -> None:
    check = LanguageCheck("en", code)
    assert check.identify(Pair("The weather is fine today.", "Das Wetter ist heute sehr schön.")).detected == "de"
    assert check.identify(Pair("This was never translated.", "今日天氣好好，我哋去海邊行下啦。")).order in (
        "expected",
        "unsure",
    )


def test_copied_sentence_is_dropped_even_without_language_detection() -> None:
    names = Pair("Anna, Bernard, Clara, David, Emma", "anna bernard clara david emma")
    kept, found = cleaned([*GOOD, names], keep=("languages",))
    assert kept == GOOD
    assert dict(found.dropped.counts) == {"not translated": 1}


def test_lengths_far_out_of_proportion_are_dropped_once_a_usual_ratio_is_known() -> None:
    odd = Pair("The children are playing in the garden.", " ".join(["Les enfants jouent dans le jardin."] * 9))
    pairs = [Pair(f"{n}: {pair.source}", f"{n} : {pair.target}") for n in range(40) for pair in GOOD[:6]]
    kept, found = cleaned([*pairs, odd])
    assert kept == pairs
    assert dict(found.dropped.counts) == {"lengths out of proportion": 1}
    assert cleaned([odd])[0] == [odd]


def test_a_swapped_pair_is_swapped_back() -> None:
    first = GOOD[0]
    kept, found = cleaned([*GOOD, Pair(first.target, first.source)])
    assert kept == [*GOOD, first]
    assert dict(found.repaired.counts) == {SWAPPED: 1}


def test_in_a_mostly_swapped_corpus_short_pairs_are_swapped_too() -> None:
    pairs = [*GOOD[:5], Pair("Run!", "Cours !")]
    turned = [Pair(pair.target, pair.source) for pair in pairs]
    kept, found = cleaned([*turned[:-1], GOOD[2], turned[-1]])
    assert kept == [*pairs[:-1], GOOD[2], pairs[-1]]
    assert found.repaired.counts[SWAPPED] == len(pairs)


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_can_be_disabled(rule: str) -> None:
    assert not CleaningOptions("en", "fr", keep=frozenset({rule})).applies(rule)
    assert not CleaningOptions("en", "fr", keep=frozenset({"all"})).applies(rule)
    assert all(CleaningOptions("en", "fr", keep=frozenset({rule})).applies(other) for other in RULES if other != rule)


def test_disabling_all_rules_keeps_everything() -> None:
    pairs = [
        Pair("Das ist kein Englisch, ganz sicher.", "1984 <b>"),
        Pair("Cours !", "Run!"),
        Pair("In 1950.", "En 1972."),
    ]
    assert cleaned(pairs, keep=("all",))[0] == pairs


def test_unknown_rule_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="--keep copy: no such rule; choose from markup"):
        CleaningOptions("en", "fr", keep=frozenset({"copy"}))


def test_unknown_languages_are_not_checked() -> None:
    pairs = [Pair("Das ist kein Englisch, ganz sicher.", "Et ceci n'est pas connu non plus.")]
    assert cleaned(pairs, "tlh", "qya")[0] == pairs


def test_variants_of_one_language_are_never_swapped() -> None:
    assert (
        LanguageCheck("en-GB", "en-US")
        .identify(Pair("The colour of it is grey.", "The color of it is gray."))
        .wrong_side
        is None
    )


# ---- What is put right


@pytest.mark.parametrize(
    ("pair", "repaired", "done"),
    [
        (
            Pair("The coffee.", "Le cafÃ© est dÃ©jÃ\xa0 prÃªt."),
            Pair("The coffee.", "Le café est déjà prêt."),
            [MOJIBAKE],
        ),
        (Pair("A\x00 b\x1f\u200bc\ufeff", "d\xad"), Pair("A b c", "d"), [CONTROL]),
        (Pair("Tom &amp; Jerry&#39;s", "Tom et Jerry"), Pair("Tom & Jerry's", "Tom et Jerry"), [ENTITIES]),
        (Pair("A &amp;quot;b&amp;quot;", "a"), Pair('A "b"', "a"), [ENTITIES]),
        (Pair("Nice &#55357;&#56832; &#xD83D;&#xde00; day", "a"), Pair("Nice 😀 😀 day", "a"), [ENTITIES]),
        (Pair("A &#55357; &#56832;&#55357; &#39;", "a"), Pair("A &#55357; &#56832;&#55357; '", "a"), [ENTITIES]),
        (Pair("<p class='x'>One<br/>two</p>", "Un <i>deux</i>"), Pair("One two", "Un deux"), [TAGS]),
    ],
)
def test_repairable_pairs_are_repaired(pair: Pair, repaired: Pair, done: list[str]) -> None:
    assert repair(pair) == (repaired, done)


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r"), max_size=60)
HOSTILE = st.text(st.sampled_from("<>&;#aÃ©‰\x00\x85\u200b 1,.é中/b"), max_size=200)


@given(st.builds(Pair, TEXT | HOSTILE, TEXT | HOSTILE))
def test_repair_ends_and_leaves_nothing_invisible_or_broken(pair: Pair) -> None:
    repaired, done = repair(pair)
    assert not set("\x00\x07\x85\ufeff\t\n\r") & set("".join(repaired))
    assert (repaired == pair) == (not done)
    assert repair(repaired)[0] == repaired or done  # a second look only finds what the first uncovered


@given(st.lists(st.builds(Pair, TEXT | HOSTILE, TEXT | HOSTILE), max_size=8))
def test_every_line_is_kept_or_dropped_with_a_reason(pairs: list[Pair]) -> None:
    kept, found = cleaned(pairs)
    assert len(kept) + found.dropped.counts.total() == len(pairs)
    assert all(all(pair) for pair in kept)


@pytest.mark.parametrize("text", ["<", "<a ", "</a\t", "&amp;", "&amp;amp", "1 ", "1,000", "Ã©", "a_", "é"])
def test_long_hostile_lines_are_cleaned_in_time(text: str) -> None:
    text *= 1200
    kept, found = cleaned([Pair(text, "Oui."), Pair(text * 40, text)])
    assert len(kept) + found.dropped.counts.total() == 2
    assert all(len(pair.source) < 5000 for pair in kept)


# ---- Lines out of step


def sentences(count: int) -> list[Pair]:
    """Sentences of words with one translation each, all distinct."""
    draw = random.Random(1)
    words = [[draw.randrange(400) for _ in range(draw.randint(4, 8))] for _ in range(count)]
    return [Pair(" ".join(f"s{_name(w)}" for w in line), " ".join(f"t{_name(w)}" for w in line)) for line in words]


def _name(number: int) -> str:
    return "".join(chr(97 + int(digit)) for digit in f"{number:03d}")


@pytest.mark.slow
@pytest.mark.parametrize(("begin", "end", "shift"), [(600, 640, 1), (600, 615, -2), (200, 1499, 1), (1100, 1400, 5)])
def test_run_of_shifted_lines_is_dropped_and_the_others_are_kept(begin: int, end: int, shift: int) -> None:
    pairs = sentences(1500)
    moved = list(pairs)
    for line in range(begin, end):
        moved[line] = Pair(pairs[line].source, pairs[(line - shift) % len(pairs)].target)
    skipped = LineTally()
    kept = {line for line, _ in drop_misaligned(enumerate(moved), skipped)}
    right = set(range(1500)) - set(range(begin, end))
    assert len(right - kept) <= 5
    assert len(kept - right) <= 5
    where = "below" if shift > 0 else "above"
    assert all(where in reason for reason in skipped.counts)


def test_aligned_lines_and_several_translations_of_a_sentence_are_kept() -> None:
    pairs = [pair for pair in sentences(400) for pair in (pair, Pair(pair.source, pair.target[::-1]), pair)]
    assert len(list(drop_misaligned(enumerate(pairs), LineTally()))) == len(pairs) > MIN_PAIRS


def test_misalignment_is_not_searched_where_words_cannot_be_learnt() -> None:
    pairs = sentences(MIN_PAIRS - 1)
    moved = [Pair(pair.source, other.target) for pair, other in zip(pairs, pairs[1:] + pairs[:1], strict=True)]
    assert len(list(drop_misaligned(enumerate(moved), LineTally()))) == len(moved)


# ---- The report


@pytest.fixture
def messy(tmp_path: Path) -> Path:
    """A messy file: Windows line ends, a byte order mark, and errors of all kinds among good lines."""
    lines = [f"{pair.source}\t{pair.target}" for pair in PAIRS]
    faults = [
        "Good evening.\t",
        "one column",
        "Où as-tu mis les clés ?\tWhere did you put the keys?",
        "The weather is fine today.\tDas Wetter ist heute sehr schön.",
        "The coffee is ready.\tLe cafÃ© est dÃ©jÃ\xa0 prÃªt.",
        lines[0],
    ]
    path = tmp_path / "messy.tsv"
    path.write_text("\r\n".join([*lines, *faults]) + "\r\n", encoding="utf-8-sig", newline="")
    return path


def test_report_counts_kept_and_dropped_lines_with_examples(messy: Path, tmp_path: Path) -> None:
    said: list[str] = []
    options = PrepareOptions((str(messy),), "en", "fr", tmp_path / "data", vocab_size=360)
    summary = prepare_corpora(options, said.append)
    (report,) = json.loads((tmp_path / "data/report.json").read_text(encoding="utf-8"))["corpora"]
    assert (report["read"], report["kept"]) == (summary.corpora[0]["read"], summary.corpora[0]["kept"])
    assert {entry["reason"]: entry["lines"] for entry in report["put_right"]} == {SWAPPED: 1, MOJIBAKE: 1}
    dropped = {entry["reason"]: entry for entry in report["left_out"]}
    assert dropped["the target is not fr but de"]["examples"] == [
        {"line": len(PAIRS) + 4, "source": "The weather is fine today.", "target": "Das Wetter ist heute sehr schön."}
    ]
    assert {"an empty side", "1 instead of 2 columns", "a duplicate pair"} <= dropped.keys()
    assert dropped["a duplicate pair"]["examples"][0]["source"] == PAIRS[0].source
    text = (tmp_path / "data/report.txt").read_text(encoding="utf-8")
    assert "UTF-8 with a byte order mark, CRLF line endings" in text
    assert f"line {len(PAIRS) + 3}: 'Où as-tu mis les clés ?' | 'Where did you put the keys?'" in text
    assert f"messy.tsv: 1 line repaired: {SWAPPED} (line {len(PAIRS) + 3})" in said
    assert f"more examples of each are in {tmp_path / 'data/report.txt'}" in said


def test_identical_pairs_are_dropped_across_corpora_and_other_translations_kept(tmp_path: Path) -> None:
    first = [*PAIRS, Pair("Run!", "Cours !"), Pair("Run!", "Courez !"), Pair("Run!\x07", "Cours !")]
    write_pairs(tmp_path / "a.tsv", first)
    write_pairs(tmp_path / "b.tsv", [Pair("Run!", "Courez !"), Pair("Cours vite !", "Run fast!")])
    write_pairs(tmp_path / "dev.tsv", [Pair("Nothing else.", "Rien d'autre.")])
    files = str(tmp_path / "a.tsv"), str(tmp_path / "b.tsv")
    dev = str(tmp_path / "dev.tsv")
    prepare_corpora(PrepareOptions(files, "en", "fr", tmp_path / "data", dev, vocab_size=360), lambda line: None)
    reports = json.loads((tmp_path / "data/report.json").read_text(encoding="utf-8"))["corpora"]
    same = [
        [entry["first_lines"] for entry in report["left_out"] if entry["reason"] == "a duplicate pair"]
        for report in reports
    ]
    assert same == [[[len(first)]], [[1]], []]


@pytest.mark.slow
def test_training_uses_the_repaired_pairs(messy: Path, tmp_path: Path) -> None:
    options = PrepareOptions((str(messy),), "en", "fr", tmp_path / "data", vocab_size=360, dev=str(messy))
    with pytest.raises(ValueError, match="every one shares a sentence with the development set"):
        prepare_corpora(options, lambda line: None)
    dev = tmp_path / "dev.tsv"
    write_pairs(dev, [Pair("Where did you put the keys?", "Ailleurs.")])
    options = PrepareOptions((str(messy),), "en", "fr", tmp_path / "data", vocab_size=360, dev=str(dev))
    summary = prepare_corpora(options, lambda line: None)
    assert summary.corpora[0]["skipped"]["a sentence is in the development set"] == 1
    assert read_pairs(tmp_path / "data/dev.tsv")[0] == [("Where did you put the keys?", "Ailleurs.")]


def test_command_line_disables_rules_and_names_an_unknown_one(messy: Path, tmp_path: Path) -> None:
    command = ["prepare", "--pairs", str(messy), "--source", "en", "--target", "fr", "--vocab-size", "360"]
    result = CliRunner().invoke(
        cli, [*command, "--out", str(tmp_path / "kept"), "--keep", "languages", "--keep", "markup"]
    )
    assert result.exit_code == 0, result.output
    assert "repaired" not in result.stdout
    assert "not fr but de" not in result.stdout
    result = CliRunner().invoke(cli, [*command, "--out", str(tmp_path / "none"), "--keep", "nothing"])
    assert result.exit_code == 1
    assert "no such rule" in result.stderr
