"""README.md and docs/: the READMEs and the pages they link to, against the code: links, files, commands and options
exist, settings, metrics and defaults match, figures are the bundles', and examples give the output shown."""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
from prometheus_client.parser import text_string_to_metric_families
from typer.core import TyperGroup

from app.__main__ import cli as app_cli
from app.cli.exit_codes import EXIT_CODES
from app.cli.training_verbs import TRAINER
from app.runtime.metrics import Metrics, exposition
from app.settings import PREFIX, describe_settings
from model.bundle_files import CONFIG, SUMS, WEIGHTS
from training.__main__ import cli as training_cli
from training.data.prepare import vocabulary_size
from training.optim.defaults import FROM_PARENT, LARGEST_ON_GPU, SIZES, Size

READMES = ["README.md", "README.zh-CN.md"]
STARTS = ["docs/start.md", "docs/start.zh-CN.md"]
SETTINGS = ["docs/settings.md", "docs/settings.zh-CN.md"]
FIGURES = ["docs/figures.md", "docs/figures.zh-CN.md"]
PAGES = [
    *READMES,
    "CONTRIBUTING.md",
    "SECURITY.md",
    *map(str, sorted([*Path("bundles").glob("*/README.md"), *Path("docs").glob("*.md")])),
]
TOLD = [*PAGES, "Makefile", "Dockerfile", "docker-compose.yml", *map(str, sorted(Path("recipes").rglob("*.toml")))]
NOTHING = "none", "无"
FOREIGN = {
    *("--build", "--depth", "--index-url", "--logdir", "--nproc-per-node", "--profile", "--standalone"),
    "--update-models",
}
"""Options of docker, git, pip, TensorBoard, torchrun and LibreTranslate."""
CLIS, HELP = {"app": app_cli, "training": training_cli}, {"--help"}
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of its headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", PAGES)
def test_every_link_and_anchor_resolves(name: str) -> None:
    page = Path(name)
    for path, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        linked = page.parent / path if path else page
        assert linked.exists(), path
        assert not anchor or anchor in anchors(linked), f"{path}#{anchor}"


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_table_has_every_setting_with_its_default(name: str) -> None:
    rows = re.findall(rf"^\| (`{PREFIX}[^|]*) \| ([^|]*) \|", Path(name).read_text(encoding="utf-8"), re.MULTILINE)
    told = {}
    for names, defaults in rows:
        each = [variable.strip("`") for variable in re.split("[,、] ?", names)]
        values = [default.strip("`") for default in re.split("[,、] ?", defaults)]
        for index, variable in enumerate(each):
            value = values[min(index, len(values) - 1)]
            told[PREFIX + variable.removeprefix(PREFIX).lstrip("_")] = "" if value in NOTHING else value
    assert told == dict(line.split(" ", 1)[0].split("=", 1) for line in describe_settings().splitlines())


def test_every_metric_is_documented() -> None:
    exposed = text_string_to_metric_families(exposition(Metrics()).decode())
    ours = {family.name for family in exposed if family.name.startswith("interlinear")}
    names = re.findall(r"`(interlinear_\w+)`", Path("docs/monitoring.md").read_text(encoding="utf-8"))
    told = {name.removesuffix("_total") for name in names}
    assert {name for name in ours if not name.endswith("_created")} == told


def read(name: str | Path) -> str:
    return Path(name).read_text(encoding="utf-8")


def commands(text: str) -> list[tuple[str, str]]:
    """Each `python -m`, torchrun or interlinear command in a page or a file's comments: its module with the verb, and
    its arguments. Lines joined by a backslash are one."""
    joined = re.sub(r"\\\n[#\s]*", " ", text).replace("make train ARGS=", "-m training run ")
    joined = re.sub(r"(?<=bin/)interlinear ([a-z][\w-]*)", lambda match: f"-m {_module_of(match[1])}", joined)
    return re.findall(r"-m ((?:app|training) [a-z]\w*|(?:benchmarks|model)(?:\.\w+)+)\b([^\n`|;)]*)", joined)


def _module_of(verb: str) -> str:
    """The module behind a verb of `interlinear`, and the verb's name there."""
    trainer = {ours: its for verbs in TRAINER.values() for ours, its in verbs.items()}
    return f"training {trainer[verb].name}" if verb in trainer else f"app {verb}"


def verbs_of(cli: typer.Typer) -> Mapping[str, Any]:
    """Its commands, from typer."""
    group = typer.main.get_command(cli)
    assert isinstance(group, TyperGroup)
    return group.commands


@cache
def options_of(command: str) -> set[str] | None:
    """All options of a verb or a benchmark; None if it does not exist."""
    module, _, verb = command.partition(" ")
    if verb:
        found = verbs_of(CLIS[module]).get(verb)
        return found and {name for option in found.params for name in [*option.opts, *option.secondary_opts]} | HELP
    path = Path(module.replace(".", "/")).with_suffix(".py")
    if not path.exists():
        return None
    # Not imported: some want what is not installed. A parameter's name is its option unless it is spelt out.
    named = re.findall(r"^    (\w+): Annotated\[", read(path), re.M)
    spelt = [option for options in re.findall(r'"(--[\w/-]+)"', read(path)) for option in options.split("/")]
    return HELP | {*spelt, *(f"--{no}{name}".replace("_", "-") for name in named for no in ("", "no-"))}


@pytest.mark.parametrize("name", TOLD)
def test_every_command_and_its_options_exist(name: str) -> None:
    for command, rest in commands(read(name)):
        known = options_of(command)
        assert known is not None, f"there is no {command}"
        assert set(OPTION.findall(rest)) <= known | FOREIGN, command


@pytest.mark.slow
@pytest.mark.parametrize("name", TOLD)
def test_every_option_mentioned_exists(name: str) -> None:
    """Options in backquotes, perhaps behind a verb, as in `prepare --limit 10000`."""
    by_verb: dict[str, set[str]] = {}
    for module, cli in CLIS.items():
        for verb in verbs_of(cli):
            # Both have a `translate`.
            by_verb[verb] = by_verb.get(verb, set()) | (options_of(f"{module} {verb}") or set())
    benchmarks = (options_of(f"benchmarks.{path.stem}") or set() for path in Path("benchmarks").glob("*.py"))
    anyone = set().union(FOREIGN, *by_verb.values(), *benchmarks)
    for verb, rest in re.findall(r"`(?:([a-z0-9]+) )?(--[a-z][^`\n]*)`", read(name)):
        assert set(OPTION.findall(rest)) <= by_verb.get(verb, anyone), f"{verb} {rest}"


@pytest.mark.parametrize("name", TOLD)
def test_every_file_mentioned_exists(name: str) -> None:
    """Except links; a name with a star matches at least one file."""
    folders = "app|benchmarks|docs|model|recipes|tests|training"
    for path in re.findall(rf"(?<![\w/.(-])((?:{folders})/[\w./*-]*\.(?:py|toml|tsv|md|csv|json|c)\b)", read(name)):
        assert list(Path().glob(path)), path


@pytest.mark.parametrize("names", [READMES, STARTS, SETTINGS, FIGURES], ids=lambda names: names[0])
def test_page_and_its_translation_have_the_same_commands_and_figures(names: list[str]) -> None:
    told = []
    for name in names:
        blocks = re.findall(r"^    .*\S$", read(name), re.M)
        # Behind two spaces, or a hash, stands what a command is for.
        figures = [re.findall(r"\d[\d,.]*", row) for row in re.findall(r"^\| [^`\n]+$", read(name), re.M)]
        told.append(([re.split(" {2,}|  # ", line.strip())[0] for line in blocks], figures))
    assert told[0] == told[1]


def metrics_of_en_fr() -> dict[tuple[str, str], dict[str, Any]]:
    config = json.loads(read(Path("bundles/en-fr", CONFIG)))
    return {(metric["set"], metric["metric"]): metric for metric in config["metrics"]}


@pytest.mark.parametrize("name", READMES)
def test_readme_is_short(name: str) -> None:
    lines = read(name).splitlines()
    assert len(lines) <= 110
    wide = {line: sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in line) for line in lines}
    assert [line for line, columns in wide.items() if columns > 100 and not line.startswith("| ")] == []


@pytest.mark.parametrize("name", STARTS)
def test_example_answers_come_from_the_bundle_that_ships(name: str) -> None:
    [weights] = re.findall(rf"^(\w+)  {WEIGHTS}$", read(Path("bundles/en-fr", SUMS)), re.M)
    assert set(re.findall(r"en-fr@(\w+)", read(name))) == {weights[:12]}


def flores_bleu(pair: str) -> tuple[str, str]:
    """BLEU of the bundle on FLORES-200's development set, and that of Firefox's model as published."""
    metrics = json.loads(read(Path("bundles", pair, CONFIG)))["metrics"]
    [shipped] = [one["score"] for one in metrics if one["set"].startswith("flores-dev/") and one["metric"] == "BLEU"]
    [published] = re.findall(rf"^\| {pair} \| [^|]+ \| ([\d.]+), ", read("docs/models.md"), re.M)
    return f"{shipped:.1f}", published


@pytest.mark.parametrize("name", READMES)
def test_readmes_bleu_is_that_of_the_bundles_and_of_the_page_on_models(name: str) -> None:
    rows = re.findall(r"^\| [^|]+ \| ([\d.]+)[;；] ?([\d.]+) \| ([\d.]+)[;；] ?([\d.]+) \|$", read(name), re.M)
    expected = []
    for language in ("fr", "es", "de", "zh"):
        there, back = flores_bleu(f"en-{language}"), flores_bleu(f"{language}-en")
        expected.append((there[0], back[0], there[1], back[1]))
    assert rows == expected


@pytest.mark.parametrize("name", READMES)
def test_readmes_speed_is_that_of_the_page_of_figures(name: str) -> None:
    [(page, told)] = re.findall(r"^\| \[[^]]*\]\((docs/figures[^)#]*)#[^)]*\) \| (.*) \|$", read(name), re.M)
    rows = re.findall(r"^\| [^|]+ \| ([\d.,]+) \| ([\d.,]+) \| \d\.\d+ ", read(page), re.M)
    assert re.findall(r"\b\d[\d.,]*\d", told) == [figure for row in rows[:2] for figure in row]


@pytest.mark.parametrize("name", READMES)
def test_readmes_runs_and_losses_are_those_of_the_page_on_scale(name: str) -> None:
    cells = r" \| ".join([r"([\d,]+)"] * 7)
    pages = read("docs/scale.md") + read("docs/ray.md")
    rows = re.findall(rf"^\| ([^|]+) \| {cells} \|$", pages, re.M)
    runs, answered, refused, lost, twice, changed, _ = zip(
        *([int(cell.replace(",", "")) for cell in row] for what, *row in rows if "no balancer" not in what),
        strict=True,
    )
    [told] = re.findall(r"^\| \[[^]]*\]\(docs/scale\.md#[^)]*\) \| (.*) \|$", read(name), re.M)
    assert len(rows) == 24
    assert re.findall(r"\d[\d,]*", told) == [str(sum(runs)), f"{sum(answered):,}", str(sum(lost))]
    assert not any([*refused, *lost, *twice, *changed])


@pytest.mark.parametrize("name", FIGURES)
def test_quality_table_has_the_bundles_scores(name: str) -> None:
    text, metrics = read(name), metrics_of_en_fr()
    rows = re.findall(r"^\| [^|]+ \| ([\d,]+) \| ([\d.]+) \| ([\d.]+) \|$", text, re.M)
    sets = ["en-fr/tatoeba.test.tsv", "development set", "en-fr/newstest2013.dev.tsv", "flores-dev/en-fr.tsv"]
    sets.append("en-fr/ui.dev.tsv")
    for row, one in zip(rows, sets, strict=True):
        bleu, chrf = metrics[one, "BLEU"], metrics[one, "chrF"]
        assert row == (f"{bleu['sentences']:,}", f"{bleu['score']:.1f}", f"{chrf['score']:.1f}")
        assert f"`{bleu['signature']}`" in text


def test_bundle_table_has_the_bundles_figures() -> None:
    rows = re.findall(
        r"^\| \[(\w+-\w+)\]\(.*?\) \| ([\d.]+), ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", read("docs/recipes.md"), re.M
    )
    assert {pair for pair, *_ in rows} == {path.name for path in Path("bundles").iterdir() if path.is_dir()}
    for pair, *told in rows:
        metrics = json.loads(read(Path("bundles", pair, CONFIG)))["metrics"]
        found = {}
        for metric in metrics:
            name = Path(metric["set"]).name.partition(".")[0].rstrip("0123456789")
            found[name, metric["metric"]] = f"{metric['score']:.1f}"
        flores = next(score for (name, metric), score in found.items() if "-" in name and metric == "BLEU")
        assert told == [found["tatoeba", "BLEU"], found["tatoeba", "chrF"], found["newstest", "BLEU"], flores], pair


def test_table_of_defaults_has_the_defaults() -> None:
    table = re.search(r"^\| pairs \| shape .*?\n\n", read("docs/training.md"), re.M | re.S)
    assert table
    rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in table[0].splitlines()[2:-1]]

    def row(size: Size, pairs: int) -> list[str]:
        shape = [size.architecture, str(size.dropout), f"{size.epochs:g}", f"{size.batch_tokens:,}"]
        return [*shape, f"{vocabulary_size(pairs, characters=100):,}"]

    by_pairs = [int(found[1].replace(",", "")) for cells in rows if (found := re.match(r"to ([\d,]+)$", cells[0]))]
    expected = [row(next(size for size in SIZES if pairs <= size.pairs), pairs - 1) for pairs in by_pairs]
    expected += [row(SIZES[-1], 10**6), row(LARGEST_ON_GPU, 10**6)]
    assert [cells[1:] for cells in rows[:-1]] == expected
    assert {int(size.pairs) for size in SIZES[:-1]} <= set(by_pairs)
    assert rows[-1][2:5] == row(FROM_PARENT, 10**6)[1:4]


def test_documented_exit_codes_are_those_of_the_command_line() -> None:
    table = read("docs/documents.md").partition("| exit code | |\n|--:|---|\n")[2]
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", table, re.M)
    assert rows == [tuple(line.split(maxsplit=1)) for line in EXIT_CODES.splitlines()]


EXAMPLE = re.compile(r"^    curl (?P<command>\S(?:.|\n {5,})*)\n\n?    (?P<answer>[{\"](?:.|\n {5,})*)$", re.M)
EXAMPLES = [
    pytest.param(match["command"], match["answer"], id=f"{name}-{number}")
    for name in ("README.md", "docs/start.md", "docs/clients.md", "docs/deepl.md")
    for number, match in enumerate(EXAMPLE.finditer(read(name)))
]


def test_examples_are_found() -> None:
    assert len(EXAMPLES) == 6


@pytest.mark.parametrize(("command", "answer"), EXAMPLES)
def test_examples_produce_the_output_shown(command: str, answer: str, shipped_url: str) -> None:
    words = shlex.split(command.replace("\\\n", ""))
    [path] = [word.partition(":8000")[2] for word in words if word.startswith("http")]
    sent = [after for word, after in pairwise(words) if word == "-d"]
    form = dict(field.split("=", 1) for field in sent if not field.startswith("{"))
    asked = None if form else json.loads(sent[0])
    got = httpx.post(shipped_url + path, data=form or None, json=asked, timeout=60)
    body = got.raise_for_status().json()
    texts = [each["text"] for each in body["translations"]] if "translations" in body else []
    texts += [body[name] for name in ("translation", "translatedText") if name in body]
    assert texts
    assert [text for text in texts if json.dumps(text, ensure_ascii=False) not in answer] == []
    if answer.startswith("{"):
        assert all(json.dumps(body[name]) in answer for name in ("alignment", "model") if name in body)
    if "attention" in body:
        [shown_rows] = re.findall(r"\[{4}(.*), \.{3}\]{3}", answer)
        for shown_row, row in zip(json.loads(f"[[{shown_rows}]"), body["attention"]["cross"][0][0], strict=False):
            assert row == pytest.approx(shown_row, abs=0.02)  # float32 here; the page shows int8
    if answer.startswith("{") and "usage" in body:
        shown = json.loads(answer)
        for each in shown["translations"]:
            for name in ("score", "quality"):
                each[name] = pytest.approx(each[name], abs=0.02)  # float32 here; in int8 a little otherwise
        assert shown == body


def test_deepl_command_line_example_prints_the_output_shown(shipped_url: str) -> None:
    [(text, answer)] = re.findall(r"^    deepl text --to FR '(.*)'\n    (.*)$", read("docs/deepl.md"), re.M)
    got = httpx.post(f"{shipped_url}/deepl/v2/translate", data={"text": text, "target_lang": "FR"}, timeout=60)
    assert [each["text"] for each in got.raise_for_status().json()["translations"]] == [answer]
