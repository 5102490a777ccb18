"""app/formats/ and app/text/: files made to be slow: time and memory for a small file are bounded, and grow with
the size of a large one."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from processor_time import least_seconds

from app.formats import FormatOptions, UnreadableDocument, read
from app.formats.memory_files import read_pairs
from app.runtime.work_unit import unit_seconds
from app.text.icu_messages import message_pieces
from app.text.mnemonics import Mnemonic
from benchmarks.grammars import Genome, Grammar, Node, fitted, mutated, seeds
from benchmarks.slow_files import BOUND_BYTES, BOUND_MB, BOUND_WORK, grammars
from tests.app.formats.test_formats import shouted

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
FACTOR = 8


def run_python(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs Python on one thread, so that what it runs may fork."""
    return subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)


def test_no_small_file_of_any_format_is_slow_or_large() -> None:
    seed = ["--seed", "0"] if os.environ.get("CI") == "true" else []
    # A few files of each grammar; `make soak` looks for an hour.
    done = run_python("-m", "benchmarks.slow_files", "--minutes", "0.03", "--times", "1", *seed)
    assert not done.returncode, f"{done.stdout}\n{done.stderr}"


MEASURED = """
from app.documents.messages import Budget
from benchmarks.slow_files import measure, BOUND_BYTES
def spin():
    while True: pass
def fill():
    held = []
    while True: held.append(b"x" * (1 << 20))
def fail():
    raise IndexError("a fault of a reader")
for work in (spin, fill, fail, lambda: [0.0001]):
    cost = measure(work, Budget(1_000, 256 << 20))
    print(cost.share(BOUND_BYTES) > 1, cost.fault.splitlines()[-1:])
"""


def test_runaway_work_is_stopped_and_a_fault_is_reported() -> None:
    done = run_python("-c", MEASURED)
    assert done.stdout.splitlines() == ["True []", "True []", "False ['IndexError: a fault of a reader']", "False []"]


@pytest.mark.parametrize("grammar", grammars(), ids=lambda grammar: grammar.name)
def test_files_of_a_grammar_are_small(grammar: Grammar) -> None:
    draw = random.Random(0)
    found = [genome for genome, _ in zip(seeds(grammar, BOUND_BYTES, draw), range(30), strict=False)]
    for _ in range(30):
        found.append(mutated(draw.choice(found), found, grammar, BOUND_BYTES, draw))
    assert max(len(genome.text(grammar).encode()) for genome in found) <= BOUND_BYTES
    assert sum(len(genome.text(grammar).encode()) > BOUND_BYTES // 2 for genome in found) > 30


def test_genome_is_written_as_it_nests_and_repeats() -> None:
    grammar = Grammar("a", ".txt", ["x"], before="<", after=">")
    genome = Genome((Node("(", ")", 3, True, (Node("a\0", count=2),)), Node("[", "]", 2, False, (Node("b"),))))
    assert genome.text(grammar) == "<(((a1a2)))[b][b]>"
    assert len(fitted(genome, grammar, 12, random.Random(0)).text(grammar)) <= 12


def deep(before: str, inner: str, after: str, depth: int = 60) -> str:
    return before * depth + inner + after * depth


XLIFF = '<xliff version="1.2"><file><trans-unit><source>{}</source></trans-unit></file></xliff>'
SHAPES: dict[str, tuple[str, int, Callable[[int], str]]] = {
    "a string never closed": (".toml", 3_000, lambda n: 'a = "' + '\\"' * n),
    "a plural in plurals": (".xcstrings", 1, lambda n: xcstrings('"plural":{"other":{', 3 * n)),
    "variations in variations": (".xcstrings", 2, lambda n: xcstrings('"variations":{"device":{', n)),
    "comments that end nowhere": (".xml", 500, lambda n: android(f"<![CDATA[{'<!--' * n}]]><b>x</b>")),
    "digits after a brace": (".properties", 1_000, lambda n: "k=word {" + "1" * n),
    "forms of a number": (".ts", 200, lambda n: ts("{s,select,other{word}}" * n, "<numerusform/>" * n)),
    "lines of a comment": (".po", 10_000, lambda n: "# aaa\n" * n + 'msgid "word"\nmsgstr ""\n'),
    "white space before no line end": (".xliff", 2_000, lambda n: XLIFF.format(f"a{' ' * n}b")),
    "namespaces": (".xliff", 100, lambda n: namespaces(n)),
    "markup that never ends": (".rst", 300, lambda n: "*a `b |c ``d :e:`f\\n" * n),
    "names with hyphens": (".rst", 2_000, lambda n: "a-" * n),
    "lists after each other": (".rst", 30, lambda n: "- a\n\n* b\n\n.. c\n\n1. d\n\n" * n),
    "a table of many columns": (".rst", 20, lambda n: ("+-" * 20 + "+\n" + "|a" * 20 + "|\n") * n + "+-" * 20 + "+"),
    "a wide table": (".rst", 400, lambda n: "+-" * n + "+\n" + "|a" * n + "|\n" + "+-" * n + "+"),
    "a wide simple table": (".rst", 400, lambda n: f"{'= ' * n}=\n{'é ' * n}a\n{'= ' * n}="),
    "a simple table of short rows": (".rst", 100, lambda n: "= " * n + "=\n" + "a\n" * n + "= " * n + "="),
    "combining characters of a table": (".rst", 1_000, lambda n: "= =\na " + "a\u0301" * n + "\n= ="),
    "columns and short rows": (".csv", 60, lambda n: ",".join(map(str, range(1, n))) + "\n1" * 40 * n),
}
SEG_END = "</seg></tuv></tu>"
LONG_NAMES: dict[str, Callable[[int], str]] = {
    ".json": lambda n: '{"' + "k" * n + '": [' + '"a",' * n + "1]}",
    ".yaml": lambda n: f"? {'k' * n}\n: [" + "a, " * n + "]",
    ".toml": lambda n: f"{'k' * n} = [" + '"a",' * n + "]",
    ".xml": lambda n: string_array("a" * n, n),
    ".stringsdict": lambda n: stringsdict("k" * n, n),
    ".ftl": lambda n: f"{'a' * n} = b\n" + " .c = d\n" * n,
}


def xcstrings(nest: str, depth: int) -> str:
    inner = deep(nest, '"stringUnit":{"state":"new","value":"word"}', "}}", depth)
    return f'{{"sourceLanguage":"en","strings":{{"k":{{"localizations":{{"en":{{{inner}}}}}}}}}}}'


def android(inner: str) -> str:
    return f'<resources><string name="a">{inner}</string></resources>'


def string_array(name: str, count: int) -> str:
    return f'<resources><string-array name="{name}">{"<item>word</item>" * count}</string-array></resources>'


def stringsdict(key: str, count: int) -> str:
    inner = "<key>a</key><string>word</string>" * count
    return f"<plist><dict><key>{key}</key><dict>{inner}</dict></dict></plist>"


def ts(source: str, forms: str) -> str:
    translation = f'<translation type="unfinished">{forms}</translation>'
    return f'<TS><context><message numerus="yes"><source>{source}</source>{translation}</message></context></TS>'


def tmx(inner: str) -> str:
    return f'<tmx><header srclang="en"/><body>{inner}</body></tmx>'


def namespaces(count: int) -> str:
    declared = "".join(f' xmlns:a{number}="{number}"' for number in range(count))
    units = "<trans-unit><source>word</source></trans-unit>" * count
    return f'<xliff version="1.2"{declared}><file>{units}</file></xliff>'


def assert_linear(work: Callable[[int], Callable[[], object]], size: int) -> None:
    """What costs the square of its size takes 64 times as long."""

    def least(size: int) -> float:
        done = work(size)
        return least_seconds(lambda: _unless_refused(done))

    assert least(size * FACTOR) < 3 * FACTOR * max(least(size), unit_seconds())


def _unless_refused(work: Callable[[], object]) -> None:
    with contextlib.suppress(UnreadableDocument):
        work()


@pytest.mark.parametrize("name", SHAPES)
def test_time_for_a_file_grows_with_its_size(name: str) -> None:
    suffix, size, make = SHAPES[name]

    def work(size: int) -> Callable[[], object]:
        content = make(size).encode()
        columns = ",".join(map(str, range(1, min(size, 500))))
        options: FormatOptions = {"columns": columns} if suffix == ".csv" else {}
        return lambda: shouted(read(f"a{suffix}", content, "ar", source="en", **options))

    assert_linear(work, size)


@pytest.mark.parametrize("suffix", LONG_NAMES)
def test_names_of_texts_do_not_repeat_a_long_one(suffix: str) -> None:
    found = read(f"a{suffix}", LONG_NAMES[suffix](1_000).encode(), "fr").locations
    assert len(found) >= 1_000
    assert max(len(location.name) for location in found[1:]) <= 600


def test_unit_in_a_unit_is_no_text_of_its_own() -> None:
    content = tmx(deep('<tu><tuv xml:lang="en"><seg>word ', "", SEG_END)).encode()
    assert len(read("a.tmx", content, "fr", source="en").locations) == 1


def test_units_in_each_other_are_one_pair_of_a_memory() -> None:
    variants = '<tuv xml:lang="fr"><seg>mot</seg></tuv><tuv xml:lang="en"><seg>'
    content = tmx(deep(f"<tu>{variants}", "word", SEG_END)).encode()
    assert len(read_pairs("a.tmx", content, "en", "fr")) == 1


def test_time_for_a_message_with_arguments_beside_branches_grows_with_its_size() -> None:
    def work(size: int) -> Callable[[], object]:
        branches = "".join(f"b{number}{{x}}" for number in range(size))
        return lambda: message_pieces(f"word{'{a}' * size}{{s,select,other{{}}{branches}}}", "fr")

    assert_linear(work, 300)


def test_time_for_a_label_with_placeholders_grows_with_its_size() -> None:
    mnemonic = Mnemonic("&", "x")
    assert_linear(lambda size: lambda: mnemonic.insert_into("{a} " * size, "fr"), 100)
    assert_linear(lambda size: lambda: mnemonic.insert_into(f"a{' ' * size}b", "zh"), 2_000)


def test_bounds_are_those_that_are_promised() -> None:
    assert (BOUND_BYTES, BOUND_WORK, BOUND_MB) == (4096, 500, 64)
