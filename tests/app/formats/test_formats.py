"""app/formats/: documents: everything that is not text is reproduced byte for byte, and other texts do not change
the structure."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polib
import pysubs2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples

from app.formats import (
    FORMATS,
    MEDIA_TYPES,
    Document,
    UnknownFormat,
    UnreadableDocument,
    read,
    reader_of,
    translated_name,
)
from app.formats.encodings import from_legacy
from app.markup.passage import Passage
from app.markup.render import render_source

HTML = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>A title</title>
<script>var a = "Hello";</script></head>
<body><!-- a comment --><p class='x'>Hello <b>my &amp; your</b> friend.</p><img alt="a cat"></body></html>
"""
SRT = """1
00:00:01,000 --> 00:00:03,500
{\\an8}<i>The cat that lives here
sleeps</i> all day.

2
00:00:04,000 --> 00:00:05,000
- Is it well?
- Yes.

3
00:00:06,000 --> 00:00:07,000
1234

4
0:00:08,000 --> 0:00:09,000 X1:40 X2:600
A dog
"""
VTT = """WEBVTT - a title

NOTE Not a subtitle.

intro
00:01.000 --> 00:03.500 align:start
<v Ann>Fish &amp; chips</v>

STYLE
::cue { color: red }
"""
PO = """# A translator's comment
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=3; plural=n;\\n"

#. extracted
#: a.c:1
#, c-format
msgid "Hello \\"%s\\"\\n"
"my friend"
msgstr ""

#| msgid "an older one"
msgctxt "menu"
msgid "One file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""
msgstr[2] ""

msgid "done"
msgstr "fait"

msgid "---"
msgstr ""

#~ msgid "gone"
#~ msgstr ""
"""
JSON = """{"title": "Hello",\t"n": 1.50e3, "id": "12",
  "nested": [{"a": "The \\u0022cat\\u0022"}, null, "dog"],
  "@title": {"description": "Not for users", "placeholders": ["here"]}, "last": {"@id": "x"}, "end": "bird"}"""
WITHOUT_CHANGE = {".txt": "Hello.\n\n  How are you?\n", ".html": HTML, ".srt": SRT, ".vtt": VTT, ".json": JSON}
ENCODINGS: list[Callable[[str], bytes]] = [
    lambda text: text.encode(),
    lambda text: text.encode("utf-8-sig"),
    lambda text: text.encode("utf-16"),
    lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
    lambda text: text.replace("\n", "\r\n").encode(),
]


def as_it_was(document: Document) -> bytes:
    return document.write([render_source(passage) for passage in document.passages])


def shouted(document: Document) -> bytes:
    """The document with its texts in capitals, and protected text and tags in place."""
    return document.write([render_source(_loud(passage)) for passage in document.passages])


def _loud(passage: Passage) -> Passage:
    nested = tuple(inner._replace(passage=_loud(inner.passage)) for inner in passage.nested)
    return replace(passage, text=passage.text.upper(), nested=nested)


def texts(document: Document) -> list[str]:
    return [passage.text for passage in document.passages]


@pytest.mark.parametrize("encode", ENCODINGS)
@pytest.mark.parametrize("suffix", WITHOUT_CHANGE)
def test_unchanged_texts_reproduce_the_document_byte_for_byte(suffix: str, encode: Callable[[str], bytes]) -> None:
    content = encode(WITHOUT_CHANGE[suffix])
    document = read(f"a{suffix}", content)
    assert document.passages
    assert as_it_was(document) == content


def test_every_supported_format_has_a_reader() -> None:
    assert all(callable(reader_of(one)) for one in FORMATS.values())


@draw_examples(200)
@given(
    suffix=st.sampled_from(sorted(MEDIA_TYPES)), text=st.text(st.characters() | st.sampled_from("\n\"'{}[]<>&#*_-|`:1"))
)
def test_any_text_is_a_document_or_refused_in_one_line(suffix: str, text: str) -> None:
    content = text.encode(errors="replace")
    document, fault = None, ""
    try:
        document = read(f"a{suffix}", content)
    except UnreadableDocument as error:
        fault = str(error)
    if document is None:
        assert len(fault.splitlines()) == 1
        return
    assert suffix in {".po", ".pot"} or as_it_was(document) == content
    shouted(document)


@given(content=st.binary(max_size=60), suffix=st.sampled_from(sorted(MEDIA_TYPES)))
def test_no_bytes_crash_a_reader(content: bytes, suffix: str) -> None:
    with contextlib.suppress(UnreadableDocument):
        document = read(f"a{suffix}", content)
        found = document.evident_encoding
        expected = from_legacy(content, found) if found else content
        assert suffix in {".po", ".pot"} or as_it_was(document) == expected


NOT_PLAIN_TEXT = {".docx", ".pdf", ".pptx", ".xlsx", ".odt", ".ods", ".odp", ".epub", ".xliff", ".xlf", ".properties"}


@pytest.mark.parametrize("suffix", sorted(set(MEDIA_TYPES) - NOT_PLAIN_TEXT))
def test_bytes_of_another_encoding_are_refused_with_their_location(suffix: str) -> None:
    with pytest.raises(UnreadableDocument, match="not UTF-8: byte 3 is 0xe9"):
        read(f"a{suffix}", "Caf\xe9".encode("latin-1"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", '<meta http-equiv="Content-Type" content="text/html; charset=x-other"><p>Hello</p>'),
        ("a.xhtml", '<?xml version="1.0" encoding="x-other"?><p>Hello</p>'),
        ("a.po", PO.replace("UTF-8", "x-other")),
    ],
)
def test_unsupported_declared_encoding_is_refused(name: str, text: str) -> None:
    with pytest.raises(UnreadableDocument, match=r"declares the encoding '?x-other"):
        read(name, text.encode())


@pytest.mark.parametrize("name", ["a.png", "a", "docx", ".txt", "a.doc"])
def test_unknown_suffix_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(UnknownFormat, match=r"\.docx"):
        read(name, b"Hello")


def test_suffix_is_recognised_in_capitals() -> None:
    assert read("A.TXT", b"Hello").media_type == "text/plain"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("report.docx", "report.fr.docx"),
        ("a.b.MD", "a.b.fr.MD"),
        ("C:\\folder\\résumé.txt", "résumé.fr.txt"),
        ("../x.po", "x.fr.po"),
    ],
)
def test_translated_file_is_named_after_its_source(name: str, expected: str) -> None:
    assert translated_name(name, "fr") == expected


def test_long_text_is_split_into_passages_at_line_ends() -> None:
    text = "A line of text.\n" * 2_000
    document = read("a.txt", text.encode())
    assert len(document.passages) > 1
    assert all(len(passage.text) < 10_000 and passage.text.endswith("\n") for passage in document.passages)
    assert shouted(document).decode() == text.upper()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One.\nTwo.\nThree.\n", ["One.\nTwo.\n", "Three.\n"]),
        ("One, two. And three.", ["One, two. ", "And three."]),
        ("One two three four", ["One two ", "three four"]),
        ("一二三四。五六七八九十。", ["一二三四。", "五六七八九十。"]),
        ("abcdefghijklm\n\nn", ["abcdefghij", "klm\n\nn"]),
        ("a\r\n" * 4, ["a\r\n" * 3, "a\r\n"]),
    ],
)
def test_no_passage_of_plain_text_exceeds_the_limit(text: str, expected: list[str]) -> None:
    assert texts(read("a.txt", text.encode(), max_chars=10)) == expected


@given(text=st.text(st.sampled_from("ab .。\n\r\x85")), max_chars=st.integers(1, 12))
def test_plain_text_split_anywhere_is_reproduced_byte_for_byte(text: str, max_chars: int) -> None:
    document = read("a.txt", text.encode(), max_chars=max_chars)
    assert as_it_was(document).decode() == "".join(texts(document)) == text
    assert all(0 < len(passage.text) <= max_chars for passage in document.passages)


def test_only_the_text_of_an_html_page_changes() -> None:
    document = read("a.html", HTML.encode())
    assert texts(document) == ["A title", "Hello my & your friend.", "a cat"]
    expected = (
        HTML.replace("a cat", "A CAT")
        .replace("A title", "A TITLE")
        .replace("Hello <b>my &amp; your</b> friend", "HELLO <b>MY &amp; YOUR</b> FRIEND")
    )
    assert shouted(document).decode() == expected


@pytest.mark.parametrize(
    ("source", "before", "after"),
    [
        ("en", '<html lang="en">', '<html lang="fr">'),
        ("auto", '<html dir=ltr lang=en-GB xml:lang="en">', '<html dir=ltr lang=fr xml:lang="fr">'),
        ("en", '<html lang="es">', '<html lang="es">'),
        ("en", '<html lang="">', '<html lang="">'),
        ("en", "<html>", "<html>"),
        ("en", '<p lang="en">', '<p lang="en">'),
    ],
)
def test_html_page_declares_its_new_language(source: str, before: str, after: str) -> None:
    page = "<!DOCTYPE html>\n<!-- en -->{}<p lang=en>x</p>"
    document = read("a.html", page.format(before).encode(), "fr", source=source)
    assert as_it_was(document).decode() == page.format(after)


def test_only_the_values_of_json_change() -> None:
    document = read("a.json", JSON.encode())
    assert texts(document) == ["Hello", 'The "cat"', "dog", "bird"]
    written = shouted(document).decode()

    def loud(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {k: v if k.startswith("@") else loud(v) for k, v in value.items()}
        return (
            [loud(v) for v in value] if isinstance(value, list) else value.upper() if isinstance(value, str) else value
        )

    assert json.loads(written) == loud(json.loads(JSON))
    assert re.sub(r'"[^"]*"', "", written.replace('\\"', "")) == re.sub(r'"[^"]*"', "", JSON.replace("\\u0022", ""))


JSON_VALUES = st.recursive(
    # Without marks of mnemonics, which are no part of a passage: tests/app/text/test_mnemonics.py.
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(st.characters(exclude_characters="&_", exclude_categories=["Cs"])),
    lambda values: st.lists(values) | st.dictionaries(st.text(), values),
)


@pytest.mark.slow
@given(value=JSON_VALUES, indent=st.none() | st.integers(0, 3), ascii_only=st.booleans())
def test_any_json_keeps_its_keys_and_numbers(value: Any, indent: int | None, ascii_only: bool) -> None:
    def translated(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: v if k.startswith("@") else translated(v) for k, v in value.items()}
        if isinstance(value, list):
            return [translated(v) for v in value]
        return f'"{value}\\' if isinstance(value, str) and any(map(str.isalpha, value)) else value

    content = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    document = read("a.json", content)
    assert as_it_was(document) == content
    assert json.loads(document.write([f'"{p.text}\\' for p in document.passages])) == translated(value)


def test_ascii_json_stays_ascii() -> None:
    document = read("a.json", b'["d\\u00e9j\\u00e0"]')
    assert document.write(["été"]) == b'["\\u00e9t\\u00e9"]'
    assert read("a.json", '["déjà"]'.encode()).write(["été"]).decode() == '["été"]'


@pytest.mark.parametrize(
    ("text", "fault"),
    [("[" * 200_000, "nested too deeply"), ("{", "not JSON"), ('["\\ud800"]', "lone surrogate"), ("", "not JSON")],
)
def test_unreadable_json_is_refused(text: str, fault: str) -> None:
    with pytest.raises(UnreadableDocument, match=fault):
        read("a.json", text.encode())


def test_subtitles_keep_their_numbers_times_and_line_counts() -> None:
    document = read("a.srt", SRT.encode())
    assert texts(document) == ["The cat that lives here sleeps all day.", "- Is it well?", "- Yes.", "A dog"]
    written = shouted(document).decode()
    assert "{\\an8}<i>THE CAT THAT LIVES\nHERE SLEEPS</i> ALL DAY.\n" in written
    before, after = pysubs2.SSAFile.from_string(SRT), pysubs2.SSAFile.from_string(written)
    assert [(e.start, e.end, e.text.count("\\N")) for e in after] == [
        (e.start, e.end, e.text.count("\\N")) for e in before
    ]
    assert [e.plaintext.replace("\n", " ") for e in after] == [e.plaintext.replace("\n", " ").upper() for e in before]
    assert [line for line in written.splitlines() if "-->" in line] == [
        line for line in SRT.splitlines() if "-->" in line
    ]


def test_webvtt_keeps_notes_styles_and_escapes() -> None:
    document = read("a.vtt", VTT.encode())
    assert texts(document) == ["Fish & chips"]
    assert shouted(document).decode() == VTT.replace("Fish &amp; chips", "FISH &amp; CHIPS")


def test_the_displayed_text_of_subtitles_is_translated() -> None:
    shown = 'It\'s "me"\u200e &lt;\n\nyou, AT&T'
    cue = "WEBVTT\n\n00:01.000 --> 00:02.000\nIt&#39;s &quot;me&quot;&lrm; &amp;lt;&#10;&#x0a;you, AT&T"
    document = read("a.vtt", cue.encode())
    assert texts(document) == [shown]
    assert as_it_was(document) == cue.encode()
    assert texts(read("a.vtt", shouted(document))) == [shown.upper()]


@pytest.mark.parametrize(
    ("lines", "translation", "expected"),
    [
        (2, "un deux trois quatre", "un deux\ntrois quatre"),
        (3, "un deux trois", "un\ndeux\ntrois"),
        (2, "un", "un"),
        (2, "猫在这里睡觉", "猫在这\n里睡觉"),
        (2, "<i>un deux</i> {\\an8}trois", "<i>un deux</i>\n{\\an8}trois"),
    ],
)
def test_translated_cue_has_as_many_lines(lines: int, translation: str, expected: str) -> None:
    cue = "1\n00:00:01,000 --> 00:00:02,000\n"
    document = read("a.srt", (cue + "\n".join(["a"] * lines)).encode())
    assert document.write([translation]).decode() == cue + expected


def test_subtitles_without_times_are_refused() -> None:
    with pytest.raises(UnreadableDocument, match="no subtitle"):
        read("a.srt", b"Hello")
    with pytest.raises(UnreadableDocument, match="not WebVTT"):
        read("a.vtt", SRT.encode())


@pytest.mark.parametrize(
    ("catalogue", "line"),
    [
        ('msgid "Hello"\n', 1),
        ('msgid "A"\nmsgstr ""\n\nmsgid "Hello"', 4),
        ('msgid "One file"\nmsgid_plural "%d files"\n', 1),
        ('msgid "One file"\nmsgid_plural "%d files"\nmsgstr ""\n', 1),
        ('msgctxt "menu"\nmsgid "Hello"\n#~ msgstr ""\n', 1),
    ],
)
def test_truncated_catalogue_is_refused_by_line(catalogue: str, line: int) -> None:
    with pytest.raises(UnreadableDocument, match=f"the entry at line {line} has no msgstr"):
        read("a.po", catalogue.encode())


def test_empty_catalogue_entries_are_filled_and_marked_fuzzy() -> None:
    document = read("a.po", PO.encode())
    assert texts(document) == ['Hello "%s"\nmy friend', "One file", "25 files"]
    written = shouted(document)
    before, after = polib.pofile(f"\n{PO}"), polib.pofile(f"\n{written.decode()}")
    hello, files, *others = after
    assert (hello.msgstr, hello.flags) == ('HELLO "%S"\nMY FRIEND', ["fuzzy", "c-format"])
    assert (files.msgstr_plural, files.flags) == ({0: "ONE FILE", 1: "%d FILES", 2: "%d FILES"}, ["fuzzy"])
    assert [str(entry) for entry in others] == [str(entry) for entry in list(before)[2:]]
    assert (after.metadata, after.header) == (before.metadata, before.header)
    for old, new in zip(before, after, strict=True):
        assert (old.msgid, old.msgctxt, old.comment, old.occurrences, old.previous_msgid) == (
            (new.msgid, new.msgctxt, new.comment, new.occurrences, new.previous_msgid)
        )


def test_no_other_line_of_a_catalogue_changes() -> None:
    written = shouted(read("a.po", PO.encode())).decode().splitlines()
    kept = [line for line in PO.splitlines() if not line.startswith(("msgstr", "#, "))]
    assert [line for line in written if line in kept] == kept


def test_tags_in_a_catalogue_stay_around_their_words() -> None:
    catalogue = 'msgid "<p>Click <a href=\\"%s\\">here &amp; now</a>.</p>"\nmsgstr ""\n'
    document = read("a.po", catalogue.encode())
    assert texts(document) == ["Click here & now."]
    assert [tag.raw for tag in document.passages[0].tags] == ['<a href="%s">', "</a>"]
    assert b'msgstr "<p>CLICK <a href=\\"%s\\">HERE &amp; NOW</a>.</p>"' in shouted(document)
    assert texts(read("a.po", b'msgid "Copy <file> & go"\nmsgstr ""\n')) == ["Copy <file> & go"]


def test_language_with_one_plural_form_gets_the_plural() -> None:
    catalogue = 'msgid "One file"\nmsgid_plural "%d files"\nmsgstr[0] ""\n'
    document = read("a.po", catalogue.encode())
    assert b'msgstr[0] "%d FILES"' in shouted(document)


POT = """msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\\n"

msgid "One file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""
"""


@pytest.mark.parametrize(
    ("target", "forms"),
    [
        ("de", ["ONE FILE", "%d FILES"]),
        ("fr", ["ONE FILE", "%d FILES"]),
        ("zh", ["%d FILES"]),
        ("ru", ["%d FILES"] * 3),
        ("pl", ["ONE FILE", "%d FILES", "%d FILES"]),
        ("xx", ["ONE FILE", "%d FILES"]),
    ],
)
def test_template_gets_the_plural_forms_of_the_target(target: str, forms: list[str]) -> None:
    written = shouted(read("a.pot", POT.encode(), target)).decode()
    catalogue = polib.pofile(f"\n{written}")
    assert list(catalogue[0].msgstr_plural.values()) == forms
    assert target == "xx" or catalogue.metadata["Plural-Forms"].startswith(f"nplurals={len(forms)}; ")


def test_catalogue_whose_content_is_a_file_name_opens_no_file(tmp_path: Path) -> None:
    (tmp_path / "secret.po").write_text('msgid "secret"\nmsgstr ""\n')
    with pytest.raises(UnreadableDocument, match="not a gettext catalogue"):
        read("a.po", str(tmp_path / "secret.po").encode())


def test_catalogue_with_an_unterminated_string_is_refused() -> None:
    with pytest.raises(UnreadableDocument, match="200000 characters"):
        read("a.po", b'msgid ""\n' + b'"ab"\n' * 60_000)


FUZZY = """#, fuzzy
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

# A comment.
#, c-format, fuzzy
#| msgctxt "an older one"
#| msgid ""
#| "The old %s"
msgctxt "menu"
msgid "The new %s"
msgstr "Le vieux %s"

#, fuzzy
#| msgid "a file"
msgid "One file"
msgid_plural "%d files"
msgstr[0] "Un"
msgstr[1] ""

#| msgid "left"
msgid "Good"
msgstr "Bien"
"""


def test_fuzzy_translations_are_redone_only_on_request() -> None:
    assert read("a.po", FUZZY.encode()).passages == []
    document = read("a.po", FUZZY.encode(), redo_fuzzy=True)
    assert texts(document) == ["The new %s", "One file", "25 files"]
    assert [location.line for location in document.locations] == [11, 16, 16]
    expected = """#, fuzzy
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

# A comment.
#, c-format, fuzzy
msgctxt "menu"
msgid "The new %s"
msgstr "THE NEW %S"

#, fuzzy
msgid "One file"
msgid_plural "%d files"
msgstr[0] "ONE FILE"
msgstr[1] "%d FILES"

#| msgid "left"
msgid "Good"
msgstr "Bien"
"""
    assert shouted(document).decode() == expected
    again = polib.pofile(f"\n{expected}")
    assert [(entry.fuzzy, entry.previous_msgid) for entry in again] == [(True, None), (True, None), (False, "left")]


def test_message_branches_are_translated_in_catalogues() -> None:
    message = 'It\'s {n, plural, one {# "file"} other {# files}}.'
    expected = "{n, plural, one {IT'S # \"FILE\".} other {IT'S # FILES.}}"
    document = read("a.json", json.dumps({"a": message, "b": "One"}).encode())
    assert texts(document) == ['It\'s 1 "file".', "It's 25 files.", "One"]
    assert [location.name for location in document.locations] == ["$.a", "$.a", "$.b"]
    assert json.loads(shouted(document)) == {"a": expected, "b": "ONE"}
    assert as_it_was(document) == json.dumps({"a": message, "b": "One"}).encode()
    escaped = message.replace('"', '\\"')
    [entry] = polib.pofile("\n" + shouted(read("a.po", f'msgid "{escaped}"\nmsgstr ""\n'.encode())).decode())
    assert entry.msgstr == expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [("fr", ["&OPEN", "SAVE &AS...", "R&D", "E_XIT"]), ("zh", ["OPEN(&O)", "SAVE AS(&A)...", "R&D", "E_XIT"])],
)
def test_labels_are_translated_without_their_mnemonics(target: str, expected: list[str]) -> None:
    labels = ["&Open", "Save &As...", "R&D", "E_xit"]
    shown = ["Open", "Save As...", "R&D", "E_xit"]
    document = read("a.json", json.dumps(labels).encode(), target)
    assert texts(document) == shown
    assert json.loads(shouted(document)) == expected
    assert as_it_was(document) == json.dumps(labels).encode()
    catalogue = "\n".join(f'msgid "{label}"\nmsgstr ""\n' for label in labels)
    document = read("a.po", catalogue.encode(), target)
    assert texts(document) == shown
    assert [entry.msgstr for entry in polib.pofile("\n" + shouted(document).decode())] == expected


def test_passages_are_located_by_line_or_path() -> None:
    document = read("a.json", b'{"a": [1, {"b c": "x"}],\r\n "d": {"e": [["y", "z,{"]]}, "@f": {"g": "no"}, "h": "w"}')
    assert [str(location) for location in document.locations] == [
        'line 1, $.a[1]["b c"]',
        "line 2, $.d.e[0][0]",
        "line 2, $.d.e[0][1]",
        "line 2, $.h",
    ]
    assert [str(location) for location in read("a.srt", SRT.encode()).locations] == [
        "line 3, cue 1",
        "line 8, cue 2",
        "line 9, cue 2",
        "line 17, cue 4",
    ]
