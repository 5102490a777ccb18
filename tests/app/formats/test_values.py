"""app/formats/: JSON, YAML and TOML of translations: only the chosen values change, and independent readers find
the translations."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.formats import UnreadableDocument, read
from app.formats.value_paths import PathFilter, ValuePath
from app.text.mnemonics import remove_mnemonic
from tests.app.formats.test_formats import ENCODINGS, as_it_was, shouted, texts

YAML = """# A comment: not a value
en:   # the language
  title: Hello
  "quoted": "Say \\"hi\\" to %{name}"  # kept
  'single': 'It''s me'
  plain: Two words
    in two lines
  number: 42
  boolean: yes
  nothing: ~
  date: 2024-01-31
  text: !!str 12a
  other: !ruby/symbol word
  anchored: &a "Anchored"
  alias: *a
  list: [One, "two", 3, {deep: Three}]
  items:
  - First
  - name: Second
  ? complex
  : value
  literal: |-
    Line one.
      Line two.

  folded: >
    One long line, folded
    into two of them.

    A paragraph.
  empty: ""
"""
TOML = '''# A comment = "not a value"
title = "Hello"
count = 42
"quoted key" = 'It is'
date = 2024-01-31

[menu] # "comment"
open = "Open \\"it\\""
items = ["One", 'two', ["three"], 4] # more
inline = { a = "Inner", b = { c = "Deep" } }
text = """
First "line".
Second line.\\
  joined"""
literal = \'\'\'
It's raw\'\'\'

[[list]]
name = "First"
[[list]]
a.b = "Dotted"
'''


@pytest.mark.parametrize("encode", ENCODINGS)
@pytest.mark.parametrize(("suffix", "text"), [(".yaml", YAML), (".toml", TOML)])
def test_unchanged_texts_reproduce_the_file_byte_for_byte(
    suffix: str, text: str, encode: Callable[[str], bytes]
) -> None:
    content = encode(text)
    document = read(f"a{suffix}", content)
    assert document.passages
    assert as_it_was(document) == content


def loud(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: loud(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [loud(inner) for inner in value]
    return value.upper() if isinstance(value, str) else value


Loader: Any = type("Loader", (yaml.SafeLoader,), {})
"""Reads symbols as tuples, which `loud` leaves alone."""
Loader.add_constructor("!ruby/symbol", lambda loader, node: (node.value,))


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_only_the_values_of_yaml_change(line_end: str) -> None:
    content = YAML.replace("\n", line_end)
    document = read("a.yml", content.encode(), "fr", source="en")
    assert texts(document)[:6] == [
        "Hello",
        'Say "hi" to %{name}',
        "It's me",
        "Two words in two lines",
        "12a",
        "Anchored",
    ]
    assert [str(location) for location in document.locations][6:12] == [
        "line 16, $.en.list[0]",
        "line 16, $.en.list[1]",
        "line 16, $.en.list[3].deep",
        "line 18, $.en.items[0]",
        "line 19, $.en.items[1].name",
        "line 21, $.en.complex",
    ]
    written = shouted(document).decode()
    assert yaml.load(written, Loader) == {"fr": loud(yaml.load(content, Loader)["en"])}
    assert f"fr:   # the language{line_end}" in written
    assert "# A comment: not a value" in written and "  # kept" in written
    assert f"  literal: |-{line_end}    LINE ONE.{line_end}      LINE TWO.{line_end}{line_end}" in written
    assert "  folded: >" in written and f"{line_end}{line_end}    A PARAGRAPH.{line_end}" in written
    assert "'IT''S ME'" in written and '[ONE, "TWO", 3, {deep: THREE}]' in written
    unchanged = ("number", "boolean", "nothing", "date", "other", "alias", "empty")
    kept = [line for line in content.split(line_end) if line.strip().startswith(unchanged)]
    assert len(kept) == 7 and [line for line in written.split(line_end) if line in kept] == kept


@pytest.mark.parametrize(
    ("text", "source", "expected"),
    [
        ("en:\n  a: Hello\n", "en", "fr:"),
        ("en:\n  a: Hello\n", "auto", "fr:"),
        ("'en-GB': {a: Hello}", "en", "'fr':"),
        ("en:\n  a: Hello\nfr:\n  a: Bonjour\n", "en", "en:"),
        ("de:\n  a: Hello\n", "en", "de:"),
        ("menu:\n  a: Hello\n", "auto", "menu:"),
        ("a: Hello\nen: b\n", "en", "a:"),
    ],
)
def test_the_outermost_key_of_yaml_becomes_the_target(text: str, source: str, expected: str) -> None:
    assert as_it_was(read("a.yaml", text.encode(), "fr", source=source)).decode().startswith(expected)


def test_a_language_that_yaml_takes_for_a_boolean_is_quoted() -> None:
    assert as_it_was(read("a.yaml", b"en: {a: b}", "no", source="en")) == b'"no": {a: b}'


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("a: x", "yes", 'a: "yes"'),
        ("a: x", "12", 'a: "12"'),
        ("a: x", "b: c", 'a: "b: c"'),
        ("a: x # c", "b #d", 'a: "b #d" # c'),
        ("a: x", "- b", 'a: "- b"'),
        ("a: x", "d'été", "a: d'été"),
        ("[x]", "b, c", '["b, c"]'),
        ("a: x", "b, c", "a: b, c"),
        ("a: 'x'", "d'été\n", 'a: "d\'été\\n"'),
        ('a: "\\u00e9"', "é😀", 'a: "\\u00E9\\U0001F600"'),
        ("a: |\n  x\nb: 1", " y", 'a: " y\\n"\nb: 1'),
        ("a: |\n  x\nb: 1", "y\nz", "a: |\n  y\n  z\nb: 1"),
        ("a: >-\n  x\nb: 1", "y\nz", "a: >-\n  y\n\n  z\nb: 1"),
        ("a: |2-\n   x\nb: 1", "y", 'a: "y"\nb: 1'),
        ("a: &b !!str x", "z", "a: &b !!str z"),
        ("{a: x, b: 1}", "Wer?", '{a: "Wer?", b: 1}'),
        ("a: x", "Wer?", "a: Wer?"),
        ("x", "z", "z"),
    ],
)
def test_a_translation_is_written_in_the_style_of_its_source(source: str, translation: str, expected: str) -> None:
    document = read("a.yaml", source.encode())
    assert document.write([translation]).decode() == expected


YAML_TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\t :#-'\"{}[],&*!|>%@`"), max_size=12
)
STYLES = ["a: x\nb: 1\n", 'a: "x"\nb: 1\n', "a: 'x'\nb: 1\n", "a: |\n  x\nb: 1\n", "a: >-\n  x\nb: 1\n", "{a: x, b: 1}"]


@given(YAML_TEXT, st.sampled_from([*STYLES, "a:\n  - x\n  - 1\n"]))
def test_any_translation_is_read_again_from_yaml(translation: str, source: str) -> None:
    written = read("a.yaml", source.encode()).write([translation]).decode()
    found = yaml.safe_load(written)["a"]
    assert found == (translation if source[3:4] != "|" else f"{translation}\n") or found == [translation, 1]


# Not y and n, which are yes and no in YAML 1.1: without quotation marks they stay, although PyYAML reads strings. Nor
# labels with a mnemonic, whose mark moves to a letter of the translation.
STRINGS = st.text(st.characters(exclude_categories=["Cs", "Cc"])).filter(
    lambda text: text.lower() not in ("y", "n") and remove_mnemonic(text, frozenset("&_")) is None
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | STRINGS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.sampled_from("abé"), min_size=1), inner),
)


@given(VALUES, st.booleans(), st.sampled_from([None, '"', "'", "|", ">"]))
def test_any_yaml_keeps_its_structure(value: Any, flow: bool, style: str | None) -> None:
    content = yaml.safe_dump(value, allow_unicode=True, default_flow_style=flow, default_style=style).encode()
    document = read("a.yaml", content)
    assert as_it_was(document) == content
    assert yaml.safe_load(shouted(document)) == loud(yaml.safe_load(content))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: [", "not YAML: line 2"),
        ("a: 'x", "not YAML"),
        ("\ta: b", "not YAML: line 1"),
        ("a: \x07", "not YAML"),
        ("[" * 100_000, r"YAML.*(deeply|depth)"),
        ("- " * 100_000, r"YAML.*(deeply|depth)"),
        ("\ufeff\ufeffa: b", "two byte order marks"),
        (f"a: {'word ' * 50_000}", "more than 200000 characters"),
    ],
)
def test_unreadable_yaml_is_refused(text: str, fault: str) -> None:
    with pytest.raises(UnreadableDocument, match=fault):
        read("a.yaml", text.encode())


def test_aliases_are_not_expanded() -> None:
    bomb = 'a0: &a0 ["word"]\n' + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    document = read("a.yaml", bomb.encode())
    assert texts(document) == ["word"]
    assert shouted(document).decode() == bomb.replace("word", "WORD")


def test_only_the_values_of_toml_change() -> None:
    document = read("a.toml", TOML.encode(), "fr")
    assert [str(location) for location in document.locations] == [
        "line 2, $.title",
        'line 4, $["quoted key"]',
        "line 8, $.menu.open",
        "line 9, $.menu.items[0]",
        "line 9, $.menu.items[1]",
        "line 9, $.menu.items[2][0]",
        "line 10, $.menu.inline.a",
        "line 10, $.menu.inline.b.c",
        "line 11, $.menu.text",
        "line 15, $.menu.literal",
        "line 19, $.list.name",
        "line 21, $.list.a.b",
    ]
    written = shouted(document).decode()
    assert tomllib.loads(written) == loud(tomllib.loads(TOML))
    expected = TOML
    for text in ("Hello", "It is", 'Open \\"it', "One", "'two", "three", "Inner", "Deep", 'First "line"', "It's raw"):
        expected = expected.replace(text, text.upper())
    expected = expected.replace('"First"', '"FIRST"').replace("Dotted", "DOTTED")
    assert written == expected.replace("Second line.\\\n  joined", "SECOND LINE.JOINED")


@given(
    YAML_TEXT,
    st.sampled_from(['a="x"', "a='x'", 'a="""x"""', "a='''\nx'''", 'a=["x"]', 'a="\\u00e9"', 'a="""\r\nx"""']),
)
def test_any_translation_is_read_again_from_toml(translation: str, source: str) -> None:
    written = read("a.toml", source.encode()).write([translation]).decode()
    assert tomllib.loads(written)["a"] in (translation, [translation])


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a = ", "not TOML"),
        ('a = "x', "not TOML"),
        ("a = 1\na = 2", "not TOML"),
        ("a = " + "[" * 100_000, "nested too deeply"),
        ("a = " + "{a=" * 100_000, "nested too deeply"),
        ("a." * 1_000_000 + "a=1", "over 100 parts"),
        ("[" + "a." * 1_000_000 + "a]", "over 100 parts"),
        ("}" * 1000, "not TOML"),
    ],
)
def test_unreadable_toml_is_refused(text: str, fault: str) -> None:
    with pytest.raises(UnreadableDocument, match=fault):
        read("a.toml", text.encode())


DATA = {"id": "Hello", "menu": {"items": ["One", {"title": "Two"}], "title": "Three"}, "a b": {"c-d": "Four"}}


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ("", ["Hello", "One", "Two", "Three", "Four"]),
        ("$", ["Hello", "One", "Two", "Three", "Four"]),
        ("$.menu", ["One", "Two", "Three"]),
        ("$.menu.title, $.id", ["Hello", "Three"]),
        ("$..title", ["Two", "Three"]),
        ("$.menu.items[0]", ["One"]),
        ("$.menu.*[*]", ["One", "Two"]),
        ('$["a b"]', ["Four"]),
        ("$['a b'].c-d", ["Four"]),
        ("$..[1]", ["Two"]),
        ("$.nothing", []),
    ],
)
def test_only_values_at_the_paths_are_translated(paths: str, expected: list[str]) -> None:
    content = json.dumps(DATA).encode()
    assert texts(read("a.json", content, paths=paths)) == expected
    assert texts(read("a.yaml", yaml.safe_dump(DATA, sort_keys=False).encode(), paths=paths)) == expected


@pytest.mark.parametrize(
    "paths", ["menu", "$menu", "$.", "$.a[", "$.a[x]", "$.a..", "$.a,b", '$["\\x"]', "$" + ".a" * 40]
)
def test_unreadable_path_is_refused(paths: str) -> None:
    with pytest.raises(UnreadableDocument, match=r"is not like|no JSON string"):
        PathFilter(paths)


def test_too_many_paths_are_refused() -> None:
    with pytest.raises(UnreadableDocument, match="over 20 paths"):
        PathFilter("$.a," * 200)


@pytest.mark.parametrize("suffix", [".json", ".yaml", ".toml"])
def test_value_costs_the_same_at_any_depth_and_for_any_number_of_paths(
    suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = list[int]()
    below = PathFilter.below

    def counted(chosen: PathFilter, path: ValuePath, *added: str | int) -> ValuePath:
        keys.append(len(added))
        return below(chosen, path, *added)

    monkeypatch.setattr(PathFilter, "below", counted)
    for depth in (10, 190):
        keys.clear()
        content = "a = " * (suffix == ".toml") + "[" * depth + '"word", ' * 300 + "1" + "]" * depth
        assert len(read(f"a{suffix}", content.encode(), paths="$..*, $.a.b.c, $..[0], $[1]").passages) == 300
        assert sum(keys) <= 300 + depth + 1


def test_path_of_a_value_does_not_repeat_a_long_key() -> None:
    content = json.dumps({"k" * 100_000: ["word"] * 100})
    found = read("a.json", content.encode()).locations
    assert found[99].name.startswith('$["kkk')
    assert found[99].name.endswith("[99]")
    assert len(found[99].name) < 600
    deep = json.loads("[" * 150 + "{}" + "]" * 150)
    innermost = deep
    while innermost[0]:
        innermost = innermost[0]
    innermost[0] = {"k" * 400: "word"}
    assert len(read("a.json", json.dumps(deep).encode()).locations[0].name) < 1_500


@pytest.mark.parametrize("suffix", [".json", ".yaml", ".toml"])
def test_values_nest_as_deeply_as_the_budget_of_a_document(suffix: str) -> None:
    start = "a = " * (suffix == ".toml")
    assert texts(read(f"a{suffix}", f'{start}{"[" * 199}["word"]{"]" * 199}'.encode())) == ["word"]
    with pytest.raises(UnreadableDocument, match="nested too deeply"):
        read(f"a{suffix}", f'{start}{"[" * 200}["word"]{"]" * 200}'.encode())
