"""The command `translate`: pairs for a student, which are dropped, and that a kill costs only time."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from shared_fixtures import SHIPPED
from typer.testing import CliRunner
from warm import WarmProcess

from model.backends import prepare
from model.bundle_weights import LoadedBundle, load_bundle, save_bundle
from model.decoding import beam_decode
from model.hypothesis import Hypothesis
from training.__main__ import cli
from training.corpora.corpus import Pair, write_pairs
from training.synthetic import teacher as teacher_module
from training.synthetic.program import usable_translation
from training.synthetic.resumable_tsv import ResumableTsv
from training.synthetic.sampling_decoder import SamplingDecoderState
from training.synthetic.teacher import rejection_reason
from training.synthetic.translate import TranslateOptions

pytestmark = [pytest.mark.bundle, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[3]
WORDS = ["dog", "cat", "house", "book", "apple", "friend", "letter", "doctor", "garden", "train", "river", "key"]
PAIRS = [Pair(f"I see the {word} of my {other}.", f"Bonjour, {word}.") for word in WORDS[:5] for other in WORDS[:5:2]]


@pytest.fixture(scope="module")
def shipped() -> LoadedBundle:
    """A bundle whose output makes sense and ends."""
    return load_bundle(SHIPPED / "en-fr", torch.device("cpu"))


@pytest.fixture
def pairs_file(tmp_path: Path) -> Path:
    write_pairs(tmp_path / "pairs.tsv", PAIRS)
    return tmp_path / "pairs.tsv"


def translate(*options: object, code: int = 0) -> str:
    given = [*map(str, options), "--device", "cpu", "--threads", "1"]
    result = CliRunner().invoke(cli, ["translate", *given])
    assert result.exit_code == code, result.output
    return result.output


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def translations(bundle: LoadedBundle, texts: Sequence[str], beam_size: int) -> list[list[str]]:
    """The beam's translations of each text, best first."""
    encoded = [bundle.source_tokenizer.encode(text) for text in texts]
    found = beam_decode(prepare(bundle.model, "auto"), encoded, bundle.limits, beam_size)
    return [[bundle.target_tokenizer.decode(h.tokens) for h in decoded.finished or [decoded]] for decoded in found]


def distilled(bundle: LoadedBundle, pairs: Sequence[Pair], beam_size: int) -> list[str]:
    sources = [pair.source for pair in pairs]
    return [
        f"{source}\t{best}"
        for source, (best, *_) in zip(sources, translations(bundle, sources, beam_size), strict=True)
    ]


def test_hypotheses_are_ranked_by_the_bundles_length_penalty(
    shipped: LoadedBundle, pairs_file: Path, tmp_path: Path
) -> None:
    names = ("source", "target", "training", "metrics", "licence", "samples")
    record = {name: shipped.config[name] for name in names} | {"decoding": {"length_penalty": 6.0}}
    save_bundle(tmp_path / "other", shipped.model, shipped.source_tokenizer, shipped.limits, record, "")
    translate("--bundle", tmp_path / "other", "--pairs", pairs_file, "--out", tmp_path / "out.tsv")
    encoded = [shipped.source_tokenizer.encode(pair.source) for pair in PAIRS]
    found = beam_decode(prepare(shipped.model, "auto"), encoded, shipped.limits, 5, length_penalty=6.0)
    expected = [shipped.target_tokenizer.decode(hypothesis.tokens) for hypothesis in found]
    written = [line.split("\t")[1] for line in lines_of(tmp_path / "out.tsv")]
    assert written == expected != [best for best, *_ in translations(shipped, [pair.source for pair in PAIRS], 5)]


def test_pairs_are_sources_with_the_best_of_a_beam_of_five(
    shipped: LoadedBundle, pairs_file: Path, tmp_path: Path
) -> None:
    said = translate("--bundle", shipped.folder, "--pairs", pairs_file, "--out", tmp_path / "out.tsv")
    assert lines_of(tmp_path / "out.tsv") == distilled(shipped, PAIRS, 5)
    assert "15 pairs in" in said
    assert "from 15 distinct texts" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.tsv", "pairs.tsv"]


def test_back_translation_is_greedy_and_puts_the_translation_first(shipped: LoadedBundle, tmp_path: Path) -> None:
    (tmp_path / "mono.txt").write_text("I see you.\n\n  I see you.\nHello.\nno\ttab\n", encoding="utf-8")
    given = ["--bundle", shipped.folder, "--texts", tmp_path / "mono.txt", "--back"]
    said = translate(*given, "--out", tmp_path / "out.tsv")
    texts = ["I see you.", "Hello."]
    found = [f"{best}\t{text}" for text, (best,) in zip(texts, translations(shipped, texts, 1), strict=True)]
    assert lines_of(tmp_path / "out.tsv") == found
    for reason in ("an empty line (line 2)", "a duplicate (line 3)", "a tab or line end in it (line 5)"):
        assert reason in said


def test_back_translation_of_pairs_translates_the_students_target(shipped: LoadedBundle, tmp_path: Path) -> None:
    """The bundle reads English, which the student is to write."""
    (tmp_path / "p.tsv").write_text("Le chat.\tThe cat.\nBonjour.\tHello.\n", encoding="utf-8")
    given = ["--bundle", shipped.folder, "--pairs", tmp_path / "p.tsv", "--back"]
    translate(*given, "--out", tmp_path / "a.tsv")
    assert [line.split("\t")[1] for line in lines_of(tmp_path / "a.tsv")] == ["The cat.", "Hello."]
    translate(*given, "--columns", "2,1", "--out", tmp_path / "b.tsv")
    assert [line.split("\t")[1] for line in lines_of(tmp_path / "b.tsv")] == ["Le chat.", "Bonjour."]
    (tmp_path / "turned.tsv").write_text("The cat is here.\tLe chat est ici.\nHello.\tBonjour.\n", encoding="utf-8")
    translate(*given[:2], "--pairs", tmp_path / "turned.tsv", "--back", "--out", tmp_path / "c.tsv")
    assert [line.split("\t")[1] for line in lines_of(tmp_path / "c.tsv")] == ["The cat is here.", "Hello."]


def test_hypothesis_closest_to_the_reference_is_chosen(shipped: LoadedBundle, tmp_path: Path) -> None:
    sources = [pair.source for pair in PAIRS]
    found = translations(shipped, sources, 4)
    references = [made[n % len(made)] for n, made in enumerate(found)]
    write_pairs(tmp_path / "p.tsv", map(Pair, sources, references))
    given = ["--bundle", shipped.folder, "--pairs", tmp_path / "p.tsv", "--beam", 4]
    translate(*given, "--nearest", "--out", tmp_path / "out.tsv")
    assert lines_of(tmp_path / "out.tsv") == [f"{s}\t{r}" for s, r in zip(sources, references, strict=True)]
    translate(*given, "--out", tmp_path / "best.tsv")
    assert lines_of(tmp_path / "best.tsv") == [f"{s}\t{made[0]}" for s, made in zip(sources, found, strict=True)]


def ended(text_tokens: int, source: int = 30, reason: str = "stop", log_prob: float = -1.0) -> Hypothesis:
    hypothesis = Hypothesis([5] * source, 300)
    hypothesis.tokens, hypothesis.log_probs = [7] * text_tokens + [2], [log_prob] * (text_tokens + 1)
    hypothesis.finish_reason = "length" if reason == "length" else "stop"
    return hypothesis


@pytest.mark.parametrize(
    ("hypothesis", "text", "why"),
    [
        (ended(30), "Bonjour.", ""),
        (ended(30, reason="length"), "Bonjour.", "does not end"),
        (ended(30, log_prob=float("nan")), "Bonjour.", "does not end"),
        (ended(30), "", "empty"),
        (ended(30), "a\tb", "tab"),
        (ended(30), "a\ufffd", "broken character"),
        (ended(121), "Bonjour.", "out of proportion"),
        (ended(7), "Bonjour.", "out of proportion"),
        (ended(120), "Bonjour.", ""),
        (ended(24, source=1), "Bonjour.", ""),
    ],
)
def test_unusable_translations_are_recognised(hypothesis: Hypothesis, text: str, why: str) -> None:
    found = rejection_reason(hypothesis, text, 4.0)
    assert bool(found) == bool(why)
    assert why in found


def test_unusable_translations_are_counted_and_replaced_by_the_beams_next(
    shipped: LoadedBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "How are you? " * 200
    write_pairs(tmp_path / "p.tsv", [*PAIRS[:3], Pair(long, "x"), *PAIRS[3:6]])
    [[best, second, *_]] = translations(shipped, [PAIRS[4].source], 3)
    monkeypatch.setattr(
        teacher_module, "rejection_reason", lambda hypothesis, text, ratio: "bad" if text == best else ""
    )
    given = ["--bundle", shipped.folder, "--pairs", tmp_path / "p.tsv"]
    said = translate(*given, "--beam", 3, "--out", tmp_path / "beam.tsv")
    assert "1 line left out: longer than 256 tokens (line 4)" in said
    assert lines_of(tmp_path / "beam.tsv")[4] == f"{PAIRS[4].source}\t{second}"
    monkeypatch.setattr(teacher_module, "rejection_reason", lambda *_: "never good")
    said = translate(*given, "--out", tmp_path / "none.tsv", code=1)
    assert "no pair was made: 6 lines left out: never good" in said
    assert not (tmp_path / "none.tsv").exists()


def test_sampling_follows_the_seed_and_top_1_is_greedy(shipped: LoadedBundle, pairs_file: Path, tmp_path: Path) -> None:
    def drawn(name: str, best: int, seed: int) -> list[str]:
        given = ["--bundle", shipped.folder, "--pairs", pairs_file, "--out", tmp_path / name]
        translate(*given, "--sample", best, "--seed", seed)
        return lines_of(tmp_path / name)

    assert drawn("a", 10, 1) == drawn("b", 10, 1) != drawn("c", 10, 2)
    sources = [pair.source for pair in PAIRS]
    found = beam_decode(shipped.model, [shipped.source_tokenizer.encode(text) for text in sources], shipped.limits, 1)
    greedy = [shipped.target_tokenizer.decode(hypothesis.tokens) for hypothesis in found]
    assert drawn("d", 1, 1) == [f"{source}\t{best}" for source, best in zip(sources, greedy, strict=True)]


def test_tokens_are_sampled_with_their_probabilities() -> None:
    probabilities = torch.tensor([[0.05, 0.5, 0.15, 0.3]]).expand(20_000, 4)
    state = object.__new__(SamplingDecoderState)
    state.generator, state.best = torch.Generator().manual_seed(1), 3
    scores, tokens = state.choose(probabilities.log())
    shares = torch.bincount(tokens, minlength=4) / len(tokens)
    assert shares.tolist() == pytest.approx([0, 0.5 / 0.95, 0.15 / 0.95, 0.3 / 0.95], abs=0.02)
    assert torch.equal(scores, probabilities.log()[0][tokens])


def test_required_credits_are_listed_at_the_end(shipped: LoadedBundle, pairs_file: Path, tmp_path: Path) -> None:
    said = translate("--bundle", shipped.folder, "--pairs", pairs_file, "--beam", 1, "--out", tmp_path / "out.tsv")
    assert f"made by {shipped.name}, licence: {shipped.config['licence']}\n" in said
    assert said.endswith("".join(f"\n  {line}" for line in shipped.config["attribution"]) + "\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--texts", "x"], "give either --pairs or --texts"),
        (["--program", "cat"], "give either --bundle or --program"),
        (["--into", "es"], "--into is the language of a --program"),
        (["--pivot", "--nearest", "--beam", "2"], "--pivot has no translation to be the --nearest to"),
        (["--pivot", "--min-chrf", "40"], "--min-chrf compares with the other side of --pairs, without --pivot"),
        (["--min-chrf", "101"], "--min-chrf must be from 0 to 100"),
        (["--like", "pairs.tsv"], "--like chooses the most like ones: give their number, --limit"),
        (["--like", "pairs.tsv", "--limit", "2", "--like-column", "0"], "--like-column must be at least 1"),
        (["--like", "pairs.tsv", "--limit", "2", "--like-column", "3"], "pairs.tsv, line 1: has no column 3"),
        (["--limit", "0"], "--limit must be at least 1"),
        (["--without", "nowhere.tsv"], "nowhere.tsv: no such file"),
        (["--beam", "0"], "--beam must be at least 1"),
        (["--beam", "9", "--rows", "8"], "--beam 9 needs as many --rows"),
        (["--beam", "1", "--nearest"], "--nearest chooses among hypotheses"),
        (["--sample", "10", "--beam", "2"], "--sample draws one translation"),
        (["--sample", "10", "--precision", "int8"], "--sample works in"),
        (["--max-ratio", "1"], "--max-ratio must be over 1"),
        (["--precision", "int4"], "precision must be one of"),
        (["--out", "pairs.tsv"], "pairs.tsv exists; give --replace"),
        (["--out", "pairs.tsv", "--replace"], "--out pairs.tsv is also the input, which would be lost"),
        (["--out", "out.tsv.gz"], "--out is not compressed: give out.tsv"),
        (["--pairs", "nowhere.tsv"], "nowhere.tsv: no such file"),
        (["--bundle", "nowhere"], "nowhere: bundle folder not found"),
    ],
)
def test_invalid_options_are_reported_in_one_line(
    shipped: LoadedBundle, pairs_file: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], said: str
) -> None:
    monkeypatch.chdir(pairs_file.parent)
    given = ["--bundle", str(shipped.folder), "--pairs", "pairs.tsv", "--out", "out.tsv", "--threads", "1", *options]
    result = CliRunner().invoke(cli, ["translate", *given])
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert said in result.stderr
    assert not Path("out.tsv").exists()


# ---- Which texts, and which pairs


def test_translations_far_from_the_other_side_are_dropped(shipped: LoadedBundle, tmp_path: Path) -> None:
    sources = [pair.source for pair in PAIRS[:4]]
    best = [made[0] for made in translations(shipped, sources, 2)]
    write_pairs(tmp_path / "p.tsv", map(Pair, sources, [best[0], "Zzz qq xx.", best[2], "Kk ww."]))
    given = ["--bundle", shipped.folder, "--pairs", tmp_path / "p.tsv", "--columns", "1,2", "--beam", 2]
    said = translate(*given, "--min-chrf", 90, "--out", tmp_path / "out.tsv")
    assert lines_of(tmp_path / "out.tsv") == [f"{sources[n]}\t{best[n]}" for n in (0, 2)]
    assert "2 lines left out: a chrF below 90 (lines 2, 4)" in said


def test_pivot_puts_the_translation_in_its_texts_place(shipped: LoadedBundle, tmp_path: Path) -> None:
    write_pairs(tmp_path / "p.tsv", [Pair("El perro.", "The dog."), Pair("Hola.", "Hello.")])
    given = ["--bundle", shipped.folder, "--pairs", tmp_path / "p.tsv", "--pivot"]
    [[dog], [hello]] = translations(shipped, ["The dog.", "Hello."], 1)
    translate(*given, "--back", "--out", tmp_path / "back.tsv")
    assert lines_of(tmp_path / "back.tsv") == [f"{dog}\tEl perro.", f"{hello}\tHola."]
    translate(*given, "--columns", "2,1", "--beam", 1, "--out", tmp_path / "out.tsv")
    assert lines_of(tmp_path / "out.tsv") == [f"El perro.\t{dog}", f"Hola.\t{hello}"]


def test_no_pair_shares_a_sentence_with_a_file_that_is_held_out(shipped: LoadedBundle, tmp_path: Path) -> None:
    texts = [pair.source for pair in PAIRS[:4]]
    made = [best for best, *_ in translations(shipped, texts, 1)]
    write_pairs(tmp_path / "p.tsv", PAIRS[:4])
    write_pairs(tmp_path / "held.tsv", [Pair(texts[1].upper() + "!", "x"), Pair("y", made[3])])
    given = ["--bundle", shipped.folder, "--pairs", tmp_path / "p.tsv", "--beam", 1]
    said = translate(*given, "--without", tmp_path / "held.tsv", "--out", tmp_path / "out.tsv")
    assert lines_of(tmp_path / "out.tsv") == [f"{texts[n]}\t{made[n]}" for n in (0, 2)]
    assert "2 lines left out: a sentence is held out (lines 2, 4)" in said


def test_a_limit_draws_texts_by_the_seed_or_takes_those_most_like_a_file(tmp_path: Path) -> None:
    minutes = [f"Mr President, I agree with honourable member {number}." for number in range(40)]
    news = ["Police found a tiny chip in the river.", "Scientists found a chip in a river last Monday."]
    (tmp_path / "t.txt").write_text("".join(f"{text}\n" for text in [*minutes, *news]), encoding="utf-8")
    (tmp_path / "news.tsv").write_text("Scientists found a river on Monday.\tx\n" * 9, encoding="utf-8")
    given = ["--program", "cat", "--texts", tmp_path / "t.txt", "--limit", 2]
    said = translate(*given, "--like", tmp_path / "news.tsv", "--out", tmp_path / "like.tsv")
    assert "2 pairs in" in said
    assert "from 2 of 42 distinct texts" in said
    assert lines_of(tmp_path / "like.tsv") == [f"{text}\t{text}" for text in news]
    (tmp_path / "pairs.tsv").write_text("x\tScientists found a river on Monday.\n" * 9, encoding="utf-8")
    column = ["--like", tmp_path / "pairs.tsv", "--like-column", 2]
    translate(*given, *column, "--replace", "--out", tmp_path / "like.tsv")
    assert lines_of(tmp_path / "like.tsv") == [f"{text}\t{text}" for text in news]
    drawn = set()
    for seed in (1, 1, 2, 3):
        translate(*given, "--seed", seed, "--replace", "--out", tmp_path / "drawn.tsv")
        drawn.add(tuple(lines_of(tmp_path / "drawn.tsv")))
    assert len(drawn) == 3


# ---- By a program

PROGRAM = """
import sys
for line in sys.stdin:
    print(line.rstrip("\\n").replace("chat", "gato").rstrip("."))
"""


def program(folder: Path, code: str = PROGRAM) -> str:
    (folder / "program.py").write_text(code, encoding="utf-8")
    return f"{sys.executable} -I -S {folder / 'program.py'}"


def test_programs_translate_one_after_the_other(tmp_path: Path) -> None:
    write_pairs(tmp_path / "p.tsv", [Pair("The cat is here.", "Le chat est là."), Pair("Cat!", "chat!")])
    second = tmp_path / "second"
    second.mkdir()
    both = ["--program", program(tmp_path), "--program", program(second, PROGRAM.replace("chat", "est"))]
    given = [*both, "--pairs", tmp_path / "p.tsv", "--pivot", "--back"]
    said = translate(*given, "--out", tmp_path / "out.tsv")
    assert lines_of(tmp_path / "out.tsv") == ["Le gato gato là.\tThe cat is here.", "gato!\tCat!"]
    assert "made by" not in said


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print('one')", "wrote 1 lines for 15: it must write one for each"),
        ("import sys; sys.exit('no data\\nfor that pair')", "failed with the status 1: no data"),
    ],
)
def test_a_program_that_fails_is_named_and_nothing_is_written(
    pairs_file: Path, tmp_path: Path, code: str, said: str
) -> None:
    given = ["--program", program(tmp_path, code), "--pairs", pairs_file, "--processes", 1]
    found = translate(*given, "--out", tmp_path / "out.tsv", code=1)
    assert said in found.replace("\n", " ")
    assert not (tmp_path / "out.tsv").exists()
    assert "nowhere cannot be run" in translate(
        "--program", "nowhere", *given[2:], "--out", tmp_path / "out.tsv", code=1
    )


@pytest.mark.parametrize(
    ("source", "written", "into", "expected"),
    [
        ("Le chat est là.", "El gato está allí", "es", "El gato está allí."),
        ("Il a vu Belmarsh.", "Ha visto *Belmarsh", "es", "Ha visto Belmarsh."),
        ("Il a vu Belmarsh.", "Ha visto **Belmarsh", "es", "Ha visto Belmarsh."),
        ("Un corrosif.", "Un *corrosif", "es", None),
        ("Un corrosif.", "Un **corrosif", "es", None),
        ("L'eau.", "*l'eau", "es", None),
        ("a", "un @b c", "es", None),
        ("a", "un #b c", "es", None),
        ("a  b", "", "es", None),
        ("Que propose-t-il ?", "Que  propone ?", "es", "¿Que propone?"),
        ("Viens !", "Ven !", "es", "¡Ven!"),
        ("Viens !", "¡Ven !", "es", "¡Ven!"),
        ("Viens !", "Vem !", "pt", "Vem!"),
        ("Il dit « oui ».", "Dice «sí»", "es", "Dice «sí»"),
        ("Note 5 * 3", "Nota 5 * 3", None, "Nota 5 * 3"),
    ],
)
def test_what_a_program_writes_becomes_a_sentence_or_is_dropped(
    source: str, written: str, into: str | None, expected: str | None
) -> None:
    text, reason = usable_translation(source, written, into)
    assert (text, bool(reason)) == (expected or "", expected is None)


# ---- Stopped, and going on


def test_a_stopped_command_resumes_to_the_same_file_and_counts(
    shipped: LoadedBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(teacher_module.BATCH_TEXTS, "cpu", 6)
    long = Pair("How are you? " * 200, "x")
    write_pairs(tmp_path / "p.tsv", [*PAIRS[:5], long, *PAIRS[3:10], long._replace(target="y"), *PAIRS[10:]])
    given = ["--bundle", shipped.folder, "--pairs", tmp_path / "p.tsv", "--sample", 5, "--processes", 1]
    whole = translate(*given, "--out", tmp_path / "whole.tsv")
    add, calls = ResumableTsv.add, iter(range(100))

    def killed(self: ResumableTsv, *made: Any) -> None:
        if next(calls) in (2, 3):
            self._file.write(b"half of a pie")  # a kill may come between the pairs and the record of them
            self._file.flush()
            raise KeyboardInterrupt
        add(self, *made)

    monkeypatch.setattr(ResumableTsv, "add", killed)
    for _ in range(2):
        assert "to resume:" in translate(*given, "--out", tmp_path / "out.tsv", code=130)
        assert not (tmp_path / "out.tsv").exists()
    said = translate(*given, "--out", tmp_path / "out.tsv")
    assert "12 of 16 texts are already done" in said
    assert (tmp_path / "out.tsv").read_bytes() == (tmp_path / "whole.tsv").read_bytes()
    assert said.split("resuming\n")[1].replace("out.tsv", "whole.tsv") == whole.split("\n", 1)[1]
    assert "1 line left out: longer than 256 tokens (line 6)" in said
    assert "a duplicate" in said


def test_a_file_started_with_other_options_is_not_resumed(
    shipped: LoadedBundle, pairs_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(self: ResumableTsv) -> None:
        self.close()
        raise KeyboardInterrupt

    given = ["--bundle", shipped.folder, "--pairs", pairs_file, "--out", tmp_path / "out.tsv"]
    with monkeypatch.context() as patch:
        patch.setattr(ResumableTsv, "finish", stopped)
        translate(*given, "--beam", 2, code=130)
    said = translate(*given, "--beam", 3, code=1)
    assert ".out.tsv.partial was started with beam 2, not 3: delete it" in said
    write_pairs(pairs_file, PAIRS[1:])
    assert "was started with input" in translate(*given, "--beam", 2, code=1)


def test_samples_depend_on_the_batch_and_translations_do_not(shipped: LoadedBundle, pairs_file: Path) -> None:
    asked = TranslateOptions(Path("out.tsv"), shipped.folder, pairs=str(pairs_file), beam=1)
    for sample, alike in ((10, False), (None, True)):
        few, many = (replace(asked, sample=sample, rows=rows).settings("b", ()) for rows in (8, 9))
        assert (few == many) == alike


def test_killed_command_resumes_to_the_file_of_an_uninterrupted_one(shipped: LoadedBundle, tmp_path: Path) -> None:
    """A real process with two workers; SIGKILL prevents any cleanup."""
    sources = [f"I see the {one} {number}." for number in range(33) for one in WORDS]  # two tasks, of 256 and 140
    (tmp_path / "texts.txt").write_text("".join(f"{source}\n" for source in sources), encoding="utf-8")
    given = ["--bundle", shipped.folder.resolve(), "--texts", tmp_path / "texts.txt", "--beam", 1]
    command = ["training", "translate", *map(str, given), "--out", str(tmp_path / "out.tsv")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    process = WarmProcess([*command, "--device", "cpu", "--processes", "2"], env=environment, cwd=tmp_path)
    while process.poll() is None and not (tmp_path / ".out.tsv.partial.json").exists():
        time.sleep(0.002)
    process.kill()
    assert process.wait() == -9
    assert not (tmp_path / "out.tsv").exists()
    assert "are already done: resuming" in translate(*given, "--out", tmp_path / "out.tsv", "--processes", 1)
    assert "already done" not in translate(*given, "--out", tmp_path / "whole.tsv", "--processes", 1)
    assert (tmp_path / "out.tsv").read_bytes() == (tmp_path / "whole.tsv").read_bytes()
    assert len(lines_of(tmp_path / "out.tsv")) == len(sources)
