"""app/formats/: resources of Android, .NET and Flutter: only their values change, and independent readers find the
translations."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from translate.storage import aresource
from translate.storage import resx as toolkit_resx

from app.formats import UnreadableDocument, read
from tests.app.formats.test_formats import ENCODINGS, as_it_was, shouted, texts

ANDROID = """<?xml version="1.0" encoding="utf-8"?>
<!-- A comment -->
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2" xmlns:tools="http://schemas.android.com/tools">
    <string name="app" translatable="false">Interlinear</string>
    <string name='hello' tools:ignore="x">Hello, it\\'s \\"me\\"\\u0021</string>
    <string name="number">42</string>
    <string name="other">@string/hello</string>
    <string name="quoted">"  It's quoted "</string>
    <string name="wrapped">
        Two lines,
        one text.\\nNew line
    </string>
    <string name="styled">Click <b>here &amp; now</b><br/>, <xliff:g id="n" example="3">%1$d</xliff:g> times.</string>
    <string name="html"><![CDATA[See <a href=\\"https://a.org\\">the page</a> &amp; more]]></string>
    <string name="escaped">Some &lt;b&gt;bold&lt;/b&gt; text</string>
    <color name="red">#FF0000</color>
    <string-array name="days">
        <item>Monday</item>
        <item>@string/hello</item>
    </string-array>
    <plurals name="files">
        <!-- one -->
        <item quantity="one">%d file</item>
        <item quantity="other">%d files</item>
    </plurals>
    <plurals name="kept" translatable="false"><item quantity="other">%d</item></plurals>
</resources>
"""
RESX = """<?xml version="1.0" encoding="utf-8"?>
<root>
  <!-- A comment -->
  <xsd:schema id="root" xmlns="" xmlns:xsd="http://www.w3.org/2001/XMLSchema">
    <xsd:import namespace="http://www.w3.org/XML/1998/namespace" />
  </xsd:schema>
  <resheader name="resmimetype">
    <value>text/microsoft-resx</value>
  </resheader>
  <data name="Open.Text" xml:space="preserve">
    <value>&amp;Open</value>
    <comment>A comment</comment>
  </data>
  <data name="Icon" type="System.Drawing.Bitmap" mimetype="application/x-microsoft.net.object.bytearray.base64">
    <value>abcd</value>
  </data>
  <data name="&gt;&gt;Open.Name"><value>openButton</value></data>
  <data name="Quote"><value>Say "hi" &lt;b&gt;now&lt;/b&gt;</value></data>
  <data name="Lines"><value>Open {0}&#xD;
now</value></data>
  <data name="Empty"><value /></data>
</root>
"""
ARB = """{
  "@@locale": "en",
  "@@last_modified": "today",
  "hello": "Hello {name}",
  "@hello": {"description": "A greeting", "placeholders": {"name": {"type": "String"}}},
  "files": "{n, plural, one{# file} other{# files}}"
}
"""
WITHOUT_CHANGE = {".xml": ANDROID, ".resx": RESX, ".arb": ARB}


@pytest.mark.parametrize("encode", ENCODINGS)
@pytest.mark.parametrize("suffix", WITHOUT_CHANGE)
def test_unchanged_texts_reproduce_the_resources_byte_for_byte(suffix: str, encode: Callable[[str], bytes]) -> None:
    content = encode(WITHOUT_CHANGE[suffix].replace('<?xml version="1.0" encoding="utf-8"?>', '<?xml version="1.0"?>'))
    document = read(f"a{suffix}", content)
    assert document.passages
    assert as_it_was(document) == content


def test_only_the_strings_of_android_change() -> None:
    document = read("strings.xml", ANDROID.encode(), "de")
    assert texts(document) == [
        'Hello, it\'s "me"!',
        "  It's quoted ",
        "Two lines, one text.\nNew line",
        "Click here & now, %1$d times.",
        "See the page & more",
        "Some <b>bold</b> text",
        "Monday",
        "1 file",
        "25 files",
    ]
    expected = (
        ANDROID.replace("""Hello, it\\'s \\"me\\"\\u0021""", """HELLO, IT\\'S \\"ME\\"!""")
        .replace("It's quoted", "IT\\'S QUOTED")
        .replace("Two lines,\n        one text.\\nNew line", "TWO LINES, ONE TEXT.\\nNEW LINE")
        .replace("Click <b>here &amp; now</b><br/>,", "CLICK <b>HERE &amp; NOW</b><br/>,")
        .replace(" times.", " TIMES.")
        .replace('See <a href', 'SEE <a href').replace("the page</a> &amp; more", "THE PAGE</a> &amp; MORE")
        .replace("Some &lt;b&gt;bold&lt;/b&gt; text", "SOME &lt;B&gt;BOLD&lt;/B&gt; TEXT")
        .replace("Monday", "MONDAY").replace("%d file<", "%d FILE<").replace("%d files<", "%d FILES<")
    )  # fmt: skip
    assert shouted(document).decode() == expected


def test_translate_toolkit_reads_the_strings_of_android() -> None:
    store = aresource.AndroidResourceFile()
    store.parse(shouted(read("strings.xml", ANDROID.encode(), "de")))
    found = {unit.getid(): str(unit.target) for unit in store.units}
    assert found["hello"] == 'HELLO, IT\'S "ME"!'
    assert found["wrapped"] == "TWO LINES, ONE TEXT.\nNEW LINE"
    assert '<xliff:g id="n" example="3">%1$d</xliff:g> TIMES.' in found["styled"]
    assert "<b>HERE &amp; NOW</b>" in found["styled"]


@pytest.mark.parametrize(
    ("target", "forms"),
    [("de", "one other"), ("fr", "one many other"), ("zh", "other"), ("ru", "one few many other"), ("xx", "one other")],
)
def test_android_plurals_have_the_categories_of_the_target(target: str, forms: str) -> None:
    written = shouted(read("strings.xml", ANDROID.encode(), target))
    [plurals, _] = etree.fromstring(written).iter("plurals")
    items = {item.get("quantity"): item.text for item in plurals.iter("item")}
    assert list(items) == forms.split()
    assert items["other"] == "%d FILES" and items.get("one", "%d FILE") == "%d FILE"
    assert set(items.values()) <= {"%d FILE", "%d FILES"}
    block = written.decode().partition('name="files">')[2].partition("</plurals>")[0]
    assert block.startswith("\n        <!-- one -->\n        <item ") and block.endswith("</item>\n    ")


def test_one_without_its_number_is_not_used_for_others() -> None:
    plurals = '<resources><plurals name="a"><item quantity="one">A file</item><item quantity="other">%d files</item>'
    plurals += "</plurals></resources>"
    written = shouted(read("strings.xml", plurals.encode(), "ru")).decode()
    assert "A FILE" not in written and written.count("%d FILES") == 4
    assert "A FILE" in shouted(read("strings.xml", plurals.encode(), "fr")).decode()


ANDROID_TEXT = st.text(st.characters(blacklist_categories=["Cs", "Cc"]) | st.sampled_from("\n\"'\\@?<&>"), max_size=8)


@given(ANDROID_TEXT, st.sampled_from(["Hello", '"Hello"', "<![CDATA[Hello]]>", "a <b>Hello</b>", "It\\'s <i>me</i>"]))
def test_android_displays_the_translation(translation: str, source: str) -> None:
    document = read("strings.xml", f'<resources><string name="a">{source}</string></resources>'.encode())
    [passage] = document.passages
    translated = f"x{translation}x"
    written = document.write([passage.write(translated)])
    root = etree.fromstring(written)
    [string] = root
    if "CDATA" not in source and "&" not in translation:  # which may mark a mnemonic
        assert texts(read("strings.xml", written)) == [translated]
        assert len(string) == 0


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("a.xml", "<root/>", "not Android's strings.xml: its root is root"),
        ("a.xml", "<resources>", "not well-formed"),
        ("a.xml", '<!DOCTYPE r [<!ENTITY a "b"><!ENTITY c "&a;&a;">]><resources/>', "declarations in its DOCTYPE"),
        ("a.xml", "<resources>" + "<b>" * 300 + "</b>" * 300 + "</resources>", "nested too deeply"),
        ("a.xml", '<?xml version="1.0" encoding="utf-7"?><resources/>', "declares the encoding utf-7"),
        ("a.resx", "<resources/>", "not .resx: its root is resources"),
        (
            "a.resx",
            '<!DOCTYPE r [<!ENTITY a SYSTEM "/etc/passwd">]><root><data><value>&a;</value></data></root>',
            "DOC",
        ),
        ("a.arb", "{", "not JSON"),
    ],
)
def test_unreadable_resources_are_refused(name: str, text: str, fault: str) -> None:
    with pytest.raises(UnreadableDocument, match=fault):
        read(name, text.encode())


def test_resources_in_another_encoding_keep_it() -> None:
    text = '<?xml version="1.0" encoding="ISO-8859-1"?><resources><string name="a">é</string></resources>'
    document = read("a.xml", text.encode("latin-1"))
    assert as_it_was(document) == text.encode("latin-1")
    assert document.write(["ö猫"]).decode("latin-1") == text.replace("é", "ö&#29483;")


def test_only_the_strings_of_resx_change() -> None:
    document = read("a.resx", RESX.encode(), "fr")
    assert texts(document) == ["Open", 'Say "hi" <b>now</b>', "Open {0}\r\nnow"]
    written = shouted(document)
    expected = RESX.replace("&amp;Open<", "&amp;OPEN<").replace("Open {0}&#xD;\nnow", "OPEN {0}&#13;\nNOW")
    assert written.decode() == expected.replace('Say "hi" &lt;b&gt;now&lt;/b&gt;', 'SAY "HI" &lt;B&gt;NOW&lt;/B&gt;')
    store = toolkit_resx.RESXFile()
    store.parse(written)
    found = {unit.getid(): unit.target for unit in store.units}
    assert found["Quote"] == 'SAY "HI" <B>NOW</B>'


@pytest.mark.parametrize(("source", "locale"), [("en", "pt_BR"), ("auto", "pt_BR"), ("", "pt_BR"), ("fr", "en")])
def test_arb_declares_its_new_locale(source: str, locale: str) -> None:
    document = read("app_en.arb", ARB.encode(), "pt-BR", source=source)
    assert texts(document)[:2] == ["Hello {name}", "1 file"]
    parsed, before = json.loads(shouted(document)), json.loads(ARB)
    assert parsed.pop("@@locale") == locale
    assert parsed["hello"] == "HELLO {NAME}"
    assert parsed["@hello"] == before["@hello"] and parsed["@@last_modified"] == "today"
    assert as_it_was(document).decode() == ARB.replace('"en"', f'"{locale}"')


def test_text_that_looks_like_an_attribute_is_no_part_of_the_tag_before_it() -> None:
    content = b'<root><data name="a" ><value >x="y"> word</value></data></root>'
    document = read("a.resx", content)
    assert texts(document) == ['x="y"> word']
    assert as_it_was(document) == content


CDATA = r"""<resources xmlns:xliff="urn:x">
<string name="a"><Data><![CDATA[<style a=\"b/css\">p { margin: 0 }</style><p>It\'s <b>here</b>.</p>]]></Data></string>
<string name="b">Mind <![CDATA[<a title="a dog">it</a> & \@me]]> and &lt;i&gt; <b>more</b>!</string>
<string name="c">Dear <xliff:g id="x">%s <b>x</b></xliff:g>, <i>how</i> are<!-- c --> you<br/>?</string>
<string name="d">At \@noon\?</string>
</resources>"""


def test_cdata_in_other_content_stays_cdata() -> None:
    document = read("strings.xml", CDATA.encode())
    assert as_it_was(document) == CDATA.encode()
    written = shouted(document).decode()
    for part in (
        r"<style a=\"b/css\">p { margin: 0 }</style><p>IT\'S <b>HERE</b>.</p>]]></Data>",
        r'MIND <![CDATA[<a title="A DOG">IT</a> & \@ME]]> AND &lt;I&gt; <b>MORE</b>!',
        r'DEAR <xliff:g id="x">%s <b>x</b></xliff:g>, <i>HOW</i> ARE<!-- c --> YOU<br/>?',
        r"AT \@NOON\?",
    ):
        assert part in written


@pytest.mark.parametrize(
    "part", ["<![CDATA[", "]]>", "<b>", "</b>", '<xliff:g id="a">', "</xliff:g>", "<br/>", "\\@", '"', "a "]
)
@given(data=st.data())
def test_any_content_is_reproduced(part: str, data: st.DataObject) -> None:
    parts = data.draw(st.lists(st.sampled_from([part, "a", " ", "<![CDATA[<i>b</i>]]>", "\\'", "&lt;", "<b>c</b>"])))
    content = f'<resources xmlns:xliff="x"><string name="a">{"".join(parts)}</string></resources>'.encode()
    try:
        document = read("strings.xml", content)
    except UnreadableDocument:
        return
    assert as_it_was(document) == content
