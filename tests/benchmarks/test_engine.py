"""The engine benchmark: both engines decode the same ids, each sentence once; its arithmetic; its output. No test
asserts speed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import typer
from typer.testing import CliRunner

from benchmarks.decoders import OURS, THEIRS
from benchmarks.engine import PARTS, chosen_cores, chosen_work, main, models_of
from benchmarks.engine_tables import Bench, Plan, Setting, Speed, compare_best, compared, in_turns, joined
from benchmarks.shapes import SHAPES, random_bundle
from benchmarks.table import Table, shown
from benchmarks.team import QUEUE_CAPACITY, Answer, Engine, Team, Work
from model.bundle_weights import LoadedBundle, load_bundle, save_bundle
from model.decoding import greedy_decode
from model.decoding.torch_backend import TorchBackend
from model.transformer import Transformer

pytestmark = pytest.mark.slow

WORK = Work([[5 + 7 * n % 300, 4 + n % 7, 20, *range(30, 30 + n % 13)] for n in range(60)], limit=20)
EOS = 2
A, B = Setting(Engine(OURS, "int8", 2), 64), Setting(Engine(THEIRS, "float32", 1, 2), 16)


@pytest.fixture(scope="module")
def talkative(bundle: LoadedBundle, tmp_path_factory: pytest.TempPathFactory) -> LoadedBundle:
    """A bundle whose random weights are large enough that different sentences get different answers."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(2)
        model = Transformer(replace(bundle.model.config, share_embeddings="none")).eval()
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
        model.output.weight[EOS] *= 2  # so that some end
    folder = tmp_path_factory.mktemp("bundles") / "talkative"
    record = {"source": "en", "target": "fr", "samples": []}
    save_bundle(folder, model, bundle.source_tokenizer, bundle.limits, record, "A bundle for tests.\n")
    return load_bundle(folder, torch.device("cpu"))


@pytest.fixture(scope="module")
def models(talkative: LoadedBundle, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    return models_of(talkative, tmp_path_factory.mktemp("ctranslate2"), ["float32"])


@pytest.fixture(scope="module")
def teams(models: dict[tuple[str, str], Path]) -> Iterator[dict[str, Team]]:
    """Each engine in two workers: processes of ours, and threads of the other's process."""
    ours, theirs = Engine(OURS, "float32", 2), Engine(THEIRS, "float32", 2, 1)
    with Team(ours, models[OURS, "float32"], []) as our_team, Team(theirs, models[THEIRS, "float32"], []) as their_team:
        yield {OURS: our_team, THEIRS: their_team}


@pytest.fixture(scope="module")
def reference(talkative: LoadedBundle) -> list[Answer]:
    backend, limits = TorchBackend(talkative.model), replace(talkative.limits, ratio=0.0, margin=WORK.limit)
    found = greedy_decode(backend, WORK.sources, limits, rows=16)
    return [Answer(h.tokens, sum(h.log_probs) / len(h.log_probs)) for h in found]


@pytest.mark.parametrize(("kind", "rows"), [(OURS, 8), (THEIRS, 16)])
def test_every_engine_decodes_the_same_sentences_each_once(
    teams: dict[str, Team], reference: list[Answer], kind: str, rows: int
) -> None:
    team = teams[kind]
    team.load(WORK)
    team.ready(rows)
    tokens, seconds = team.decode()
    assert seconds > 0
    found = team.answers()
    assert all(taken > 0 for taken in team.alone([0, 5]))
    assert [answer.tokens for answer in found] == [answer.tokens for answer in reference]
    assert [answer.log_prob for answer in found] == pytest.approx([answer.log_prob for answer in reference], abs=1e-4)
    assert tokens == sum(len(answer.tokens) for answer in found)
    assert {answer.tokens[-1] == EOS for answer in found} == {True, False}
    assert {len(answer.tokens) for answer in found if answer.tokens[-1] != EOS} == {WORK.limit}
    assert len(found) == len(WORK.sources)


def test_sentences_can_be_decoded_again_with_others_after_them(teams: dict[str, Team]) -> None:
    team = teams[OURS]
    team.load(WORK)
    counts = set()
    for rows in (4, 64, 4):
        team.ready(rows)
        counts.add(team.decode()[0])
    assert len(counts) == 1
    team.load(Work(WORK.sources[:3], 5))
    team.decode()
    assert [len(answer.tokens) <= 5 for answer in team.answers()] == [True] * 3


def test_decoder_process_imports_only_the_library_it_measures() -> None:
    check = "import sys, benchmarks.decoders; sys.exit(bool({'torch', 'ctranslate2', 'model'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", check], timeout=900).returncode == 0


def test_dead_process_is_an_error_that_names_its_engine(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="CTranslate2 int8, 1 x 1 exited with status 1"):
        Team(Engine(THEIRS, "int8"), tmp_path, [])


def test_more_sentences_than_the_queue_holds_are_refused(teams: dict[str, Team]) -> None:
    with pytest.raises(ValueError, match="exceed"):
        teams[THEIRS].load(Work([[5]] * (QUEUE_CAPACITY + 1), 5))


class Played(Bench):
    """Turns with known speeds."""

    def __init__(self, speeds: dict[Setting, list[float]]) -> None:
        super().__init__({}, [0], Plan(rounds=1), WORK)
        self.left: dict[Setting, Iterator[float]] = {setting: iter(values) for setting, values in speeds.items()}
        self.turns: list[Setting] = []

    def warm_up(self, setting: Setting, work: Work) -> None:
        self.turns.append(setting)

    def turn(self, setting: Setting, work: Work) -> Speed:
        self.turns.append(setting)
        speed = next(self.left[setting])
        return Speed(speed, 10 * speed)


def test_turns_alternate_after_a_warm_up_of_each_engine() -> None:
    bench = Played({A: [1, 1, 1], B: [1, 1, 1]})
    bench.rounds([A, B], WORK, 3)
    assert bench.turns == [A, B, A, B, B, A, A, B]


def test_table_shows_the_median_of_per_round_ratios() -> None:
    table = compare_best(Played({A: [100, 400, 300], B: [50, 100, 100]}), {OURS: A, THEIRS: B})
    assert table.rows["ours / theirs"] == [[2, 4, 3], [2, 4, 3]]
    lines = list(table.lines())
    assert lines[-1].split()[-4:] == ["3", "(2", "to", "4)"]
    assert "Interlinear int8, 2 x 1, rows: 64" in lines[2]
    assert "100 (50 to 100)" in lines[3]


def test_turns_of_both_engines_are_spread_over_a_round() -> None:
    many, few = [Setting(Engine(THEIRS, "int8"), rows) for rows in range(8)], [A, B]
    assert in_turns(many, few) == [many[0], A, *many[1:5], B, *many[5:]]


def test_results_are_compared_by_tokens_and_equal_ones_by_score() -> None:
    reference = [Answer([5, 2], -0.1), Answer([6, 7, 2], -0.2), Answer([8, 2], -0.5)]
    found = [Answer([5, 2], -0.2), Answer([6, 2], -0.1), Answer([8, 2], -0.2)]
    assert compared(reference, found) == pytest.approx([100 * 2 / 3, 0.2, 0.3, 6])
    assert compared(reference[:1], [Answer([9], -0.1)]) == [0, None, None, 1]


@pytest.mark.parametrize(("length", "count"), [(1, 3), (7, 2), (5, 11)])
def test_joined_sentences_have_the_requested_length(length: int, count: int) -> None:
    sources = [[1, 2, 3], [4], [5, 6, 7, 8, 9]]
    made = joined(sources, length, count)
    assert [len(source) for source in made] == [length] * count
    flat = [id for source in made for id in source]
    assert flat == [1 + place % 9 for place in range(length * count)]


def test_length_limit_is_common_to_all_engines_and_fits_the_longest_sentence(
    bundle: LoadedBundle, tmp_path: Path
) -> None:
    texts = ["The cat sleeps.", "Hello.", "long " * 400]
    (tmp_path / "pairs.tsv").write_text("".join(f"{text}\tcourt\n" for text in texts), encoding="utf-8")
    work = chosen_work(bundle, tmp_path / "pairs.tsv", 10)
    lengths = [len(bundle.source_tokenizer.encode(text)) for text in texts[:2]]
    assert sorted(work.lengths) == sorted(length + 1 for length in lengths)
    assert work.limit == bundle.limits.target(max(lengths))
    (tmp_path / "long.tsv").write_text(f"{texts[2]}\tcourt\n", encoding="utf-8")
    with pytest.raises(typer.BadParameter, match="no sentence"):
        chosen_work(bundle, tmp_path / "long.tsv", 10)


def test_cores_are_those_available_to_the_process() -> None:
    everything, single = chosen_cores(None)[0], chosen_cores([1])[0]
    assert single == everything[:1]
    with pytest.raises(typer.BadParameter, match="must be 1 to"):
        chosen_cores([len(everything) + 1])


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (128, "128"),
        (12345.6, "12,346"),
        (3.14159, "3.14"),
        (0.0123, "0.0123"),
        (3.2e-7, "3.2e-07"),
        ([2.0, 1.0, 4.0], "2 (1 to 4)"),
        ([0.5], "0.500"),
    ],
)
def test_figures_have_three_digits_and_a_range(cell: float | list[float] | None, text: str) -> None:
    assert shown(cell) == text


def test_table_is_aligned_and_its_json_has_every_round() -> None:
    table = Table("speed", ("a", "b"), {"one": [[1.5, 2.5], 3], "another": [None, 1234]}, note="made up")
    title, *rows = table.lines()
    assert title == "speed: made up"
    assert len(set(map(len, rows))) == 1
    assert json.loads(json.dumps(table.as_json()))["rows"]["one"] == {"a": [1.5, 2.5], "b": 3}


def test_command_names_the_machine_and_prints_every_table(
    bundle: LoadedBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.engine_tables.LENGTH_TOKENS", 1)
    monkeypatch.setattr("benchmarks.engine_tables.LENGTH_ROWS", 2)
    app = typer.Typer()
    app.command()(main)
    options = ["--short", "--sentences", "12", "--seconds", "0", "--cores", "1", "--json", str(tmp_path / "all.json")]
    result = CliRunner().invoke(app, ["--bundle", str(bundle.folder), *options], catch_exceptions=False)
    assert (result.exit_code, result.stderr) == (0, "")
    for part in (bundle.name, "at most", "targets of at most", "CTranslate2 4", "PyTorch", "ours / theirs"):
        assert part in result.stdout
    figures = json.loads((tmp_path / "all.json").read_text())
    assert figures["machine"] in result.stdout
    (measured,) = figures["measured"].values()
    assert measured["computed"] and all(about in result.stdout for about in measured["computed"])
    tables = measured["tables"]
    assert len(tables) == len(PARTS) + 1
    assert all(table["title"] in result.stdout and table["rows"] for table in tables)


def test_both_engines_find_the_same_beams(teams: dict[str, Team]) -> None:
    work, found = replace(WORK, sources=WORK.sources[:12], beam_size=3), []
    for team in teams.values():
        team.load(work)
        team.ready(4)
        team.decode()
        found.append([answer.tokens for answer in team.answers()])
    same = sum(ours == theirs for ours, theirs in zip(*found, strict=True))
    assert same >= 9  # the engines end a beam by other rules


def test_a_random_bundle_has_the_shape_asked_for(bundle: LoadedBundle, tmp_path: Path) -> None:
    shape = {"vocabulary": 500, "d_model": 32, "num_heads": 2, "d_ff": 64, "activation": "swish", "output_bias": True}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SHAPES, "small", shape)
        made = random_bundle(tmp_path / "made", "small", bundle)
    assert made.source_tokenizer.vocab_size == made.model.config.target_vocab_size == 500
    assert made.model.config.activation == "swish"
    text = "The kettle is on the stove."
    assert made.source_tokenizer.encode_source(text) == bundle.source_tokenizer.encode_source(text)


def test_unknown_shapes_are_refused() -> None:
    with pytest.raises(typer.BadParameter, match="huge"):
        main(shapes=["opus", "huge"])


def test_unknown_parts_are_refused() -> None:
    with pytest.raises(typer.BadParameter, match="everything"):
        main(parts=["speed", "everything"])
