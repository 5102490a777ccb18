"""The textbook exercise: its words, vocabulary and BLEU, and that the model memorises lines."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from training.__main__ import cli
from training.cli.d2l import EOS, PAD, QUESTIONS, STEPS, UNKNOWN, D2LOptions, Learned, Vocabulary, bleu, learn, words

pytestmark = pytest.mark.slow

MODULE = sys.modules["training.cli.d2l"]

MADE_UP = [
    ("A red door!", "Une porte rouge !"),
    ("A blue door!", "Une porte bleue !"),
    ("The door's blue.", "La porte est bleue."),
    ("The boat, blue?", "Le bateau, bleu ?"),
]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """The four sources with their translations, and generated lines; all twice, so that every word is in the
    vocabulary."""
    file = tmp_path / "pairs.tsv"
    lines = [f"{source}\t{target}\n" for source, target in [*QUESTIONS.items(), *MADE_UP]]
    file.write_text("".join(lines * 2), encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Go.", ["go", "."]),
        ("Va\u202f!", ["va", "!"]),
        ("Va\xa0!", ["va", "!"]),
        ("Attends, Élise !", ["attends", ",", "élise", "!"]),
        ("He's calm.", ["he's", "calm", "."]),
        ("What?!", ["what", "?", "!"]),
        ("one: two; three", ["one:", "two;", "three"]),
    ],
)
def test_words_are_lower_case_with_separate_punctuation(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_word_that_occurs_once_is_unknown() -> None:
    vocabulary = Vocabulary([["go", "home", "."], ["go", "."]])
    assert vocabulary.words == ["<pad>", "<bos>", "<eos>", "<unk>", "go", "."]
    assert vocabulary.encode(["go", "home", "."]) == [4, UNKNOWN, 5]
    assert vocabulary.decode([4, UNKNOWN, 5, EOS, 4]) == "go <unk> ."


def test_rows_are_truncated_or_padded_and_end_with_the_end_symbol_if_it_fits() -> None:
    vocabulary = Vocabulary([["a"] * 2])
    table = vocabulary.table([["a"], ["a"] * (STEPS - 1), ["a"] * STEPS, ["a"] * (STEPS + 5)])
    assert table.shape == (4, STEPS)
    assert table[0].tolist() == [4, EOS] + [PAD] * (STEPS - 2)
    assert table[1].tolist() == [4] * (STEPS - 1) + [EOS]
    assert table[2].tolist() == table[3].tolist() == [4] * STEPS


@pytest.mark.parametrize(
    ("prediction", "reference", "k", "expected"),
    [
        ("je suis chez moi .", "je suis chez moi .", 2, 1.0),
        # 2 of 3 words, 1 of 2 pairs, one word too short
        ("a b c", "a b d e", 2, math.exp(1 - 4 / 3) * (2 / 3) ** 0.5 * (1 / 2) ** 0.25),
        ("a b c", "a b d e", 1, math.exp(1 - 4 / 3) * (2 / 3) ** 0.5),
        # a word matches as often as the reference has it; what is too long has no penalty of its own
        ("a a a a", "a a", 2, (2 / 4) ** 0.5 * (1 / 3) ** 0.25),
        ("a b", "b a", 2, 0.0),
        ("a", "a", 2, 1.0),
        ("a", "a b", 2, math.exp(-1)),
        ("", "a", 2, 0.0),
    ],
)
def test_bleu_equals_the_textbooks_formula(prediction: str, reference: str, k: int, expected: float) -> None:
    assert bleu(prediction, reference, k) == pytest.approx(expected, abs=1e-12)


def test_equal_options_give_equal_weights(pairs: Path) -> None:
    first, second = (learn(D2LOptions(pairs, epochs=3), lambda line: None).model for _ in range(2))
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)


def test_command_memorises_lines_and_prints_questions_with_their_translations_and_bleu(
    pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt: list[Learned] = []

    def keep(*given: Any) -> Learned:
        learnt.append(learn(*given))
        return learnt[0]

    monkeypatch.setattr(MODULE, "learn", keep)
    words_of_command = ["d2l", "--pairs", str(pairs), "--epochs", "120", "--device", "cpu"]
    result = CliRunner().invoke(cli, words_of_command, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[-4:] == [f"{question} => {answer}, bleu 1.000" for question, answer in QUESTIONS.items()]
    for source, target in [*QUESTIONS.items(), *MADE_UP]:
        assert learnt[0].translate(" ".join(words(source))) == " ".join(words(target))
    losses = [float(line.split("training loss ")[1]) for line in lines if line.startswith("epoch")]
    assert losses[-1] < losses[0]


def test_a_file_without_pairs_is_named_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "none.tsv"
    file.write_text("no tab here\n", encoding="utf-8")
    result = CliRunner().invoke(cli, ["d2l", "--pairs", str(file)])
    assert result.exit_code == 1
    assert "none.tsv" in result.output


@pytest.mark.parametrize("given", [[], ["--pairs", "elsewhere.tsv"]])
def test_missing_file_error_says_where_to_get_it_or_how_to_make_it(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["d2l", *given])
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    for part in (given[-1] if given else "d2l-first-600.tsv", "no such file", "fra-eng.zip", "Tatoeba", "head -n 600"):
        assert part in result.stderr
    assert "fra-eng.zip" in CliRunner().invoke(cli, ["d2l", "--help"]).output
