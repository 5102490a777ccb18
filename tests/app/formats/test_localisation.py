"""app/formats/: Qt's .ts, TMX, Fluent, tables and SubStation Alpha: only translations change, and independent
readers find them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any

import pysubs2
import pytest
from fluent.syntax import FluentParser, ast
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from translate.storage import tmx as toolkit_tmx
from translate.storage import ts2

from app.formats import UnreadableDocument, WrongOption, read
from tests.app.formats.test_formats import ENCODINGS, as_it_was, shouted, texts

TS = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" sourcelanguage="en">
<context>
    <name>Main</name>
    <message>
        <location filename="a.cpp" line="1"/>
        <source>&amp;Open &quot;%1&quot;</source>
        <comment>A comment</comment>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Close</source>
        <translation type="unfinished" />
    </message>
    <message>
        <source>Done</source>
        <translation>Fertig</translation>
    </message>
    <message>
        <source>Begun</source>
        <translation type="unfinished">Begonnen</translation>
    </message>
    <message>
        <source>Gone</source>
        <translation type="vanished"></translation>
    </message>
    <message numerus="yes">
        <source>%n file(s)</source>
        <translation type="unfinished">
            <numerusform></numerusform>
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n page(s)</source>
        <translation type="unfinished"></translation>
    </message>
</context>
</TS>
"""
TMX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4">
  <header srclang="en" segtype="sentence"><note>Not text</note></header>
  <body>
    <tu tuid="a">
      <note>A note</note>
      <tuv xml:lang="EN-us" creationdate="20240101T000000Z">
        <seg>Click <bpt i="1">&lt;b></bpt>here<ept i="1">&lt;/b></ept>, <ph x="1">{1}</ph> &amp; <hi>now</hi>.</seg>
      </tuv>
    </tu>
    <tu><tuv xml:lang="en"><seg>Done</seg></tuv><tuv xml:lang="fr"><seg>Fait</seg></tuv></tu>
    <tu><tuv xml:lang="en"><seg>Empty</seg></tuv><tuv xml:lang="fr"><seg></seg></tuv></tu>
    <tu><tuv xml:lang="de"><seg>Nur Deutsch</seg></tuv></tu>
    <tu><tuv lang="en"><seg>42</seg></tuv></tu>
  </body>
</tmx>
"""
FLUENT = """### Not text
# A comment
-brand-name = Acme Browser
-menu = Main menu
    .gender = masculine
hello = Hello, { $name }!
    This goes on.

    A paragraph of { -brand-name }.
    .title = A title
    .accesskey = H
files = { $count ->
    [0] No files
    [one] { $count } file
   *[other] { $count } files in { DATETIME($d, month: "long") }
} are here
platform =
    { PLATFORM() ->
        [macos] Preferences
       *[other] Settings
    }
nothing = { $a }
"""
CSV = '''id,en,fr,note
1,"Hello, you",,"A ""note"""
2,Done,Fait,
3,Say,"",x

4,42,,
5,"Two
lines",  ,
'''
ASS = """[Script Info]
; A comment
Title: Not text

[V4+ Styles]
Format: Name, Fontname
Style: Default,Arial

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Dialogue: 0,0:00:01.00,0:00:02.00,Default,Ann,0,0,0,,{\\an8}The {\\i1}cat, that{\\i0} lives\\Nhere{a remark}, sleeps.
Comment: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,Not shown
Dialogue: 0,0:00:03.00,0:00:04.00,Default,,0,0,0,,- Is it\\hwell?\\N- Yes.
Dialogue: 0,0:00:05.00,0:00:06.00,Default,,0,0,0,,{\\p1}m 0 0 l 100 0{\\p0}
Dialogue: 0,0:00:07.00,0:00:08.00,Default,,0,0,0,,1234
"""


@pytest.mark.parametrize("encode", ENCODINGS)
@pytest.mark.parametrize(
    ("suffix", "text"),
    [(".ts", TS), (".tmx", TMX), (".ftl", FLUENT), (".csv", CSV), (".tsv", CSV.replace(",", "\t")), (".ass", ASS)],
)
def test_unchanged_texts_reproduce_the_file_byte_for_byte(
    suffix: str, text: str, encode: Callable[[str], bytes]
) -> None:
    without_encoding = text.replace(' encoding="utf-8"', "").replace(' encoding="UTF-8"', "")
    content = encode(without_encoding)
    options: dict[str, Any] = {"columns": "note, 2"} if suffix in (".csv", ".tsv") else {}
    document = read(f"a{suffix}", content, **options)
    assert document.passages or suffix == ".tmx"
    if suffix != ".ts":  # whose translations are beside their sources
        assert as_it_was(document) == content


def test_empty_unfinished_translations_of_qt_are_filled_in() -> None:
    document = read("a.ts", TS.encode(), "fr")
    assert texts(document) == ['Open "%1"', "Close", "%n file(s)", "%n file(s)", "%n page(s)"]
    assert str(document.locations[0]) == "line 10, Main"
    written = shouted(document).decode()
    expected = (
        TS.replace("<TS version", '<TS language="fr" version')
        .replace('"unfinished"></translation>', '"unfinished">&amp;OPEN &quot;%1&quot;</translation>', 1)
        .replace('"unfinished" />', '"unfinished" >CLOSE</translation>')
        .replace("<numerusform></numerusform>", "<numerusform>%N FILE(S)</numerusform>")
    )
    two = "<numerusform>%N PAGE(S)</numerusform>" * 2
    assert written == expected.replace('"unfinished"></translation>', f'"unfinished">{two}</translation>')
    store = ts2.tsfile()
    store.parse(written.encode())
    found = {unit.source: unit for unit in store.units}
    assert str(found['&Open "%1"'].target) == '&OPEN "%1"' and found['&Open "%1"'].isfuzzy()
    assert found["%n file(s)"].target.strings == ["%N FILE(S)", "%N FILE(S)"]
    assert found["Done"].target == "Fertig" and found["Begun"].target == "Begonnen"


@pytest.mark.parametrize(("target", "forms"), [("zh", 1), ("de", 2), ("fr", 2), ("ru", 3), ("ar", 6), ("xx", 2)])
def test_qt_gets_as_many_forms_as_the_target_has_for_whole_numbers(target: str, forms: int) -> None:
    root = etree.fromstring(shouted(read("a.ts", TS.encode(), target)))
    assert root.get("language") == target
    last = list(root.iter("translation"))[-1]
    assert len(last) == forms


def test_units_of_a_memory_get_the_target() -> None:
    document = read("a.tmx", TMX.encode(), "fr", source="en")
    assert texts(document) == ["Click here, {x} & now.", "Empty"]
    written = shouted(document).decode()
    new = """
      <tuv xml:lang="fr" creationid="Interlinear">
        <seg>CLICK <bpt i="1">&lt;b></bpt>HERE<ept i="1">&lt;/b></ept>, <ph x="1">{1}</ph> &amp; <hi>NOW</hi>.</seg>
      </tuv>"""
    expected = TMX.replace("</tuv>\n    </tu>", f"</tuv>{new}\n    </tu>").replace("<seg></seg>", "<seg>EMPTY</seg>")
    number = '<seg>42</seg></tuv><tuv xml:lang="fr" creationid="Interlinear"><seg>42</seg></tuv>'
    assert written == expected.replace("<seg>42</seg></tuv>", number)
    again = read("a.tmx", written.encode(), "fr", source="en")
    assert not again.passages and as_it_was(again) == written.encode()
    store = toolkit_tmx.tmxfile(sourcelanguage="en", targetlanguage="fr")
    store.parse(written.encode())
    found = {unit.source: unit.target for unit in store.units}
    assert found["Done"] == "Fait" and found["Empty"] == "EMPTY"


def test_memory_without_the_source_is_refused() -> None:
    with pytest.raises(UnreadableDocument, match="no unit in es"):
        read("a.tmx", TMX.encode(), "fr", source="es")
    assert texts(read("a.tmx", TMX.encode(), "fr", source="de")) == ["Nur Deutsch"]
    assert texts(read("a.tmx", TMX.encode(), "de"))[:2] == ["Click here, {x} & now.", "Done"]


def patterns(content: str) -> dict[str, str]:
    """The patterns of a Fluent file as Mozilla's parser reads them."""
    found = {}
    for entry in FluentParser().parse(content).body:
        assert not isinstance(entry, ast.Junk)
        if isinstance(entry, ast.Message | ast.Term):
            if entry.value:
                found[entry.id.name] = entry.value
            found |= {f"{entry.id.name}.{one.id.name}": one.value for one in entry.attributes}
    return {name: "|".join(_texts(value)) for name, value in found.items()}


def _texts(node: Any) -> list[str]:
    if isinstance(node, ast.TextElement):
        return [node.value]
    if isinstance(node, ast.Pattern):
        return [part for element in node.elements for part in _texts(element)]
    if isinstance(node, ast.Placeable) and isinstance(node.expression, ast.SelectExpression):
        variants = node.expression.variants
        return [part for one in variants for part in [f"[{_key(one)}]", *_texts(one.value)]]
    return ["{}"]


def _key(variant: ast.Variant) -> str:
    key: str = variant.key.value if isinstance(variant.key, ast.NumberLiteral) else variant.key.name
    return key


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_only_the_patterns_of_fluent_change(line_end: str) -> None:
    document = read("a.ftl", FLUENT.replace("\n", line_end).encode(), "de")
    assert texts(document) == [
        "Main menu",
        "Hello, { $name }! This goes on.\n\nA paragraph of { -brand-name }.",
        "A title",
        "No files",
        "1 file",
        '25 files in { DATETIME($d, month: "long") }',
        " are here",
        "Preferences",
        "Settings",
    ]
    expected = FLUENT.replace("!\n    This goes on.", "! THIS GOES ON.").replace("A paragraph of", "A PARAGRAPH OF")
    changed = ("Main menu", "Hello", "A title", "No files", "} file\n", "} files in", "are here", "Preferences")
    for text in (*changed, "Settings"):
        expected = expected.replace(text, text.upper())
    written = shouted(document).decode()
    assert written == expected.replace("\n", line_end)


@pytest.mark.parametrize(
    ("target", "forms"),
    [("de", "0 one other"), ("fr", "0 one many other"), ("zh", "0 other"), ("ru", "0 one few many other")],
)
def test_selection_by_number_has_the_categories_of_the_target(target: str, forms: str) -> None:
    written = shouted(read("a.ftl", FLUENT.encode(), target)).decode()
    parts = patterns(written)["files"].split("|")
    assert [part[1:-1] for part in parts if part[0] == "["] == forms.split()
    assert patterns(written)["platform"] == "[macos]|PREFERENCES|[other]|SETTINGS"
    if target == "fr":
        assert "\n    [many] { $count } FILES IN" in written


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n {}[]*.=#-"), max_size=8))
def test_any_translation_is_text_in_fluent(translation: str) -> None:
    for source in ("a = Hello\nb = x\n", "a =\n    Hello\nb = x\n", "a = { $n ->\n   *[other] Hello\n }\nb = x\n"):
        document = read("a.ftl", source.encode())
        [first, second] = document.passages
        content = document.write([first.write(f"x{translation}x"), second.text]).decode()
        entries = FluentParser().parse(content).body
        assert [type(entry) for entry in entries] == [ast.Message, ast.Message]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("no message", "no message"),
        ("a = " + "{ " * 100_000, "nested too deeply"),
        ("a = " + "{ $b ->\n *[c] " * 3_000, "nested too deeply"),
        ("a = b\n" * 200_000, "over 1 MiB"),
    ],
)
def test_unreadable_fluent_is_refused(text: str, fault: str) -> None:
    with pytest.raises(UnreadableDocument, match=fault):
        read("a.ftl", text.encode())


def cells(content: bytes, delimiter: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode(), newline=""), delimiter=delimiter))


def test_columns_of_a_table_are_translated_in_place_or_filled_in() -> None:
    in_place = read("a.csv", CSV.encode(), columns="en, note")
    assert texts(in_place) == ["Hello, you", 'A "note"', "Done", "Say", "x", "Two\nlines"]
    written = shouted(in_place)
    before = cells(CSV.encode())
    assert cells(written) == [
        row if number == 0 or not row else [row[0], row[1].upper(), row[2], row[3].upper()]
        for number, row in enumerate(before)
    ]
    assert b'3,SAY,"",X\n\n4,42,,\n' in written
    filled = read("a.csv", CSV.encode(), columns="en=fr")
    assert texts(filled) == ["Hello, you", "Say", "Two\nlines"]
    assert [row[2] for row in cells(shouted(filled)) if row] == ["fr", "HELLO, YOU", "Fait", "SAY", "", "TWO\nLINES"]
    by_language = read("a.csv", CSV.encode(), "fr", source="en")
    assert shouted(by_language) == shouted(filled)
    assert as_it_was(read("a.csv", CSV.encode(), columns="2=3")) == as_it_was(filled)


@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ";"), ("a.csv", "\t"), ("a.tsv", "\t")])
def test_delimiter_is_the_one_of_the_first_row(name: str, delimiter: str) -> None:
    content = f'id{delimiter}"a, b"{delimiter}c\r\n1{delimiter}Hello{delimiter}x\r\n'
    document = read(name, content.encode(), columns="2")
    assert document.write([f"x{delimiter}y"]).decode() == content.replace("Hello", f'"x{delimiter}y"')


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ("", "with the option columns; its columns are id, en, fr, note"),
        ("text", "no column 'text'"),
        ("5", "no column '5'"),
        ("en=de", "no column 'de'"),
        ("en, en", "named twice"),
    ],
)
def test_columns_that_a_table_lacks_are_refused(columns: str, fault: str) -> None:
    with pytest.raises(UnreadableDocument, match=fault):
        read("a.csv", CSV.encode(), "es", source="en", columns=columns)


@pytest.mark.parametrize("text", ['a,b\n1,"x', 'a,b\n1,"x"y,z', '"a'])
def test_unclosed_quotation_mark_is_refused(text: str) -> None:
    with pytest.raises(UnreadableDocument, match="quotation mark that is not closed"):
        read("a.csv", text.encode(), columns="1")


CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"))
TABLES = st.lists(st.lists(CELLS, min_size=2, max_size=2))


@given(TABLES, st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), st.sampled_from("\n,\r\n"))
def test_any_table_is_read_as_python_reads_it(rows: list[list[str]], quoting: Any, line_end: str) -> None:
    out = io.StringIO()
    writer = csv.writer(out, quoting=quoting, lineterminator="\r\n" if line_end == "," else "\n")
    writer.writerows([["a", "b"], *rows])
    content = out.getvalue().encode()
    document = read("a.csv", content, columns="a")
    assert as_it_was(document) == content
    wanted = [[row[0].upper(), row[1]] if any(map(str.isalpha, row[0])) else row for row in cells(content)[1:]]
    if not any("{" in row[0] or "&" in row[0] or "_" in row[0] for row in rows):
        assert cells(shouted(document))[1:] == wanted


def test_only_the_dialogue_of_subtitles_changes() -> None:
    document = read("a.ass", ASS.encode())
    assert texts(document) == ["The cat, that lives here, sleeps.", "- Is it well?", "- Yes."]
    written = shouted(document).decode()
    lines = [(old, new) for old, new in zip(ASS.splitlines(), written.splitlines(), strict=True) if old != new]
    assert [new.partition(",,")[2] or new for _, new in lines][1:] == ["0,0,0,,- IS IT\\hWELL?\\N- YES."]
    assert lines[0][1].endswith("{\\an8}THE {\\i1}CAT, THAT{\\i0} LIVES\\NHERE{a remark}, SLEEPS.")
    before, after = pysubs2.SSAFile.from_string(ASS), pysubs2.SSAFile.from_string(written)
    assert [(e.start, e.end, e.type, e.name) for e in after] == [(e.start, e.end, e.type, e.name) for e in before]
    assert [e.plaintext.count("\n") for e in after] == [e.plaintext.count("\n") for e in before]
    assert after[0].plaintext.replace("\n", " ") == "THE CAT, THAT LIVES HERE, SLEEPS."
    assert after.styles == before.styles and after.info == before.info


@pytest.mark.parametrize(
    ("text", "fault"),
    [("Hello", r"no section \[Events\]"), ("[Events]\nFormat: Text, Start\n", "does not end with Text")],
)
def test_files_without_events_are_refused(text: str, fault: str) -> None:
    with pytest.raises(UnreadableDocument, match=fault):
        read("a.ass", text.encode())


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("a.ts", "<TV/>", "its root is TV"),
        ("a.ts", '<!DOCTYPE TS [<!ENTITY a "b">]><TS/>', "declarations in its DOCTYPE"),
        ("a.ts", "<TS>" + "<context>" * 300, "nested too deeply"),
        ("a.tmx", "<tmy/>", "its root is tmy"),
        ("a.tmx", '<!DOCTYPE tmx [<!ENTITY % a SYSTEM "file:///etc/passwd">%a;]><tmx/>', "declarations in its DOCTYPE"),
    ],
)
def test_hostile_xml_is_refused(name: str, text: str, fault: str) -> None:
    with pytest.raises(UnreadableDocument, match=fault):
        read(name, text.encode(), "fr")


def test_column_is_translated_into_a_few_others_only() -> None:
    content = ("en," + ",".join(f"c{number}" for number in range(11)) + "\nword" + "," * 11 + "\n").encode()
    columns = [f"en=c{number}" for number in range(11)]
    assert len(read("a.csv", content, columns=",".join(columns[:10])).passages) == 10
    with pytest.raises(WrongOption, match="into over 10 columns"):
        read("a.csv", content, columns=",".join(columns))


def test_message_of_qt_with_more_forms_than_any_language_is_refused() -> None:
    forms = "<numerusform/>" * 7
    message = f'<message numerus="yes"><source>%n word</source><translation type="unfinished">{forms}</translation>'
    with pytest.raises(UnreadableDocument, match="The message in line 2 has over 6 forms"):
        read("a.ts", f"<TS><context>\n{message}</message></context></TS>".encode(), "fr")
