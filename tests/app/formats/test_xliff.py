"""XLIFF: targets beside their sources with the same inline elements, and everything else unchanged, according to
lxml."""

from __future__ import annotations

import codecs
import re

import pytest
from lxml import etree

from app.formats import UnreadableDocument, read
from tests.app.formats.test_formats import as_it_was, shouted, texts

ONE = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:x="urn:x">
<file source-language="en" target-language="de" original="a" datatype="plaintext"><body>
<!-- a comment -->
<trans-unit id="1"><source x:kind="y">Hello <g id="1">my <x id="2"/>friend</g>, <bpt id="3">&lt;b></bpt>bold<ept id="3"
>&lt;/b></ept> <mrk mtype="protected">Acme</mrk> &amp; son<x:other/>.</source><note>n</note></trans-unit>
<trans-unit id="2"><source>One. Two.</source><seg-source><mrk mtype="seg" mid="1">One.</mrk> <mrk mtype="seg" mid="2"
>Two.</mrk></seg-source><target/></trans-unit>
<trans-unit id="3"><source>done</source><target state="final">fait</target></trans-unit>
<trans-unit id="4"><source>done</source><target>fait</target></trans-unit>
<trans-unit id="5"><source>again</source><target state="new" x:kind="z">again</target></trans-unit>
<group translate="no"><trans-unit id="6"><source>never</source></trans-unit></group>
<trans-unit id="7" approved="yes"><source>agreed</source><target></target></trans-unit>
<trans-unit id="8"><source>123 <x id="1"/></source></trans-unit>
</body></file></xliff>"""
TWO = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en"><file id="f">
<unit id="1"><segment id="1"><source>Hello <pc id="1">my
   friend</pc> <sc id="2"/>there<ec startRef="2"/> <ph id="3"/>.</source></segment>
<ignorable><source> </source></ignorable>
<segment id="2" state="reviewed"><source>done</source><target>fait</target></segment></unit>
<unit id="2" translate="no"><segment><source>never</source></segment></unit>
</file></xliff>"""


def units(content: bytes, name: str) -> list[etree._Element]:
    return [e for e in etree.fromstring(content).iter(etree.Element) if etree.QName(e).localname == name]


def inner(element: etree._Element, name: str) -> str:
    """The content of the child with that name, as lxml writes it."""
    child = next(e for e in element if etree.QName(e).localname == name)
    written = etree.tostring(child, encoding="unicode", with_tail=False)
    return written[written.index(">") + 1 : written.rindex("<")] if len(child) or child.text else ""


def test_passages_are_the_sources_to_translate() -> None:
    assert texts(read("a.xlf", ONE.encode())) == ["Hello my {x}friend, bold Acme & son.", "One.", "Two.", "again"]
    assert texts(read("a.xliff", TWO.encode())) == ["Hello my friend there {x}."]


def test_a_target_has_the_inline_elements_of_its_source() -> None:
    for number, unit in enumerate(units(as_it_was(read("a.xlf", ONE.encode())), "trans-unit")[:2]):
        assert inner(unit, "target") == inner(unit, ["source", "seg-source"][number])
    loud = inner(units(shouted(read("a.xlf", ONE.encode())), "trans-unit")[0], "target")
    namespaces = ' xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:x="urn:x"'
    assert loud.replace(namespaces, "") == (
        'HELLO <g id="1">MY <x id="2"/>FRIEND</g>, <bpt id="3">&lt;b&gt;</bpt>BOLD<ept id="3">&lt;/b&gt;</ept> '
        '<mrk mtype="protected">Acme</mrk> &amp; SON<x:other/>.'
    )


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ('a <x id="1"/> b', "a {x} b"),
        ('<x id="1"/> b', "{x} b"),
        ('a <ph id="1">%d</ph> b', "a {x} b"),
        ('a <it id="1" pos="open">&lt;b></it> b', "a \ufffc b"),
        ('a <bpt id="1">&lt;b></bpt> b', "a \ufffc b"),
        ('a <ept id="1">&lt;b></ept> b', "a \ufffc b"),
        ('a <bpt id="1"/>b<ept id="2"/>', "a \ufffcb\ufffc"),
        ('a <bx id="1" rid="3"/>b<ex id="2" rid="3"/> c', "a b c"),
        ('a <bx id="1"/>b', "a \ufffcb"),
        ('a <bpt id="1"/>b <bpt id="2"/>c<ept id="1"/> d<ept id="2"/>', "a b c d"),
        ('a <sc id="1"/>b<ec startRef="1"/> <ec id="2" isolated="yes"/>', "a b \ufffc"),
        ('a <x id="1" equiv-text="&lt;b&gt;"/>b<x id="2" equiv-text="&lt;/b&gt;"/> c', "a b c"),
        ('a <ph id="1">&lt;b></ph>b<ph id="2">&lt;/b></ph> c', "a b c"),
        ('a <x id="1" equiv-text="&lt;b&gt;"/> c', "a {x} c"),
        ('a.<x id="1" ctype="lb"/>b', "a. b"),
        ('a.<x id="1" ctype="x-html-br"/>b', "a. b"),
        ('a.<x id="1" equiv-text="\\n"/>b', "a. b"),
        ('a.<x id="1" equiv-text="&#10;"/>b', "a. b"),
        ('a.<ph id="1">&lt;br/></ph>b', "a. b"),
        ('a.<ph id="1" type="fmt" subType="xlf:lb"/>b', "a. b"),
        ('a<x id="1" ctype="lb"/> b', "a b"),
        ('a<x id="1" ctype="x-html-wbr"/>b', "ab"),
        ('猫<x id="1" ctype="lb"/>猫', "猫猫"),
    ],
)
def test_standalone_code_is_a_value_unless_it_breaks_the_line(source: str, text: str) -> None:
    unit = f"<trans-unit id='1'><source>{source}</source></trans-unit>"
    document = read("a.xlf", f"<xliff><file><body>{unit}</body></file></xliff>".encode())
    (passage,) = document.passages
    assert passage.text == text
    assert [passage.text[one.start : one.end] for one in passage.protected] == re.findall(r"\{x\}|\ufffc", text)
    assert as_it_was(document).replace(b"&gt;", b">").count(source.replace("&gt;", ">").encode()) == 2


def test_target_is_marked_as_machine_translated() -> None:
    target = next(e for e in units(shouted(read("a.xlf", ONE.encode(), "fr")), "target"))
    assert (target.get("state"), target.get("state-qualifier")) == ("needs-review-translation", "mt-suggestion")
    first, second, _ = units(shouted(read("a.xlf", TWO.encode(), "fr")), "segment")
    assert (first.get("state"), second.get("state")) == ("translated", "reviewed")
    assert first.get("subState") == "interlinear:machine"


@pytest.mark.parametrize("content", [ONE, TWO])
def test_without_its_new_targets_the_file_is_unchanged(content: str) -> None:
    def bare(document: bytes) -> bytes:
        root = etree.fromstring(document)
        for element in list(root.iter(etree.Element)):
            name = etree.QName(element).localname
            if name == "target" and (element.text or "").strip() != "fait":
                parent = element.getparent()
                assert parent is not None
                parent.remove(element)
            if name == "segment" and element.get("subState"):
                del element.attrib["state"], element.attrib["subState"]
        return etree.tostring(root, method="c14n")

    assert bare(shouted(read("a.xlf", content.encode()))) == bare(content.encode())


PLAIN = """<?xml version='1.0' encoding='UTF-8'?>
<!-- before -->
<xliff version = '1.2'  xmlns='urn:oasis:names:tc:xliff:document:1.2'><file
  source-language='en' target-language = "fr" note=' state="a" &#233; é'>
<body><trans-unit id='1' ><source>the &#65; <x id='2' /> &quot;<![CDATA[<b>]]></source>
  <note/></trans-unit>
<trans-unit id='2'><source>a
b</source><target  state='new' >old</target></trans-unit><trans-unit id="3"><source>c</source></trans-unit>
</body></file></xliff >
<!-- after -->"""
PLAIN_2 = """<xliff version='2.0' xmlns='urn:oasis:names:tc:xliff:document:2.0' trgLang='fr'><file id='f' ><unit
 id='1'><segment id='s' ><source>it is é</source></segment></unit></file></xliff>"""


@pytest.mark.parametrize(
    "content",
    [
        PLAIN.encode(),
        f"{PLAIN}\n".encode(),
        PLAIN.replace("\n", "\r\n").encode(),
        codecs.BOM_UTF8 + PLAIN.encode(),
        PLAIN.replace("UTF-8", "UTF-16").encode("utf-16"),
        PLAIN.replace("UTF-8", "ISO-8859-1").encode("latin-1"),
        PLAIN_2.encode(),
    ],
)
def test_every_byte_outside_the_new_targets_is_kept(content: bytes) -> None:
    encoding = "utf-16-le" if content.startswith(codecs.BOM_UTF16_LE) else "latin-1"
    written = shouted(read("a.xlf", content, "fr")).decode(encoding)
    old_target, new_target = r"<target  state='new' >old</target>", r"\s*<target\b[^<]*(<[^/][^<]*)*</target>"
    written = re.sub(r" state=\"translated\" subState=\"interlinear:machine\"", "", written)
    assert "IT IS" in written or "THE A" in written
    assert re.sub(new_target, "", written) == re.sub(rf"\s*{old_target}", "", content.decode(encoding))


def test_a_character_outside_the_encoding_is_written_as_a_reference() -> None:
    content = PLAIN.replace("UTF-8", "ISO-8859-1").encode("latin-1")
    document = read("a.xlf", content, "zh")
    written = document.write([passage.write("你 <b>") for passage in document.passages])
    assert b'target-language = "zh"' in written
    assert "你 <b>" in etree.tostring(units(written, "target")[1], method="text", encoding="unicode")


def test_file_declares_its_target_language() -> None:
    assert b'target-language="fr"' in shouted(read("a.xlf", ONE.encode(), "fr"))
    assert b'target-language="de"' in shouted(read("a.xlf", ONE.encode(), "de-AT"))
    assert b'trgLang="fr"' in shouted(read("a.xlf", TWO.encode(), "fr"))


def test_document_can_be_written_repeatedly() -> None:
    document = read("a.xlf", ONE.encode())
    assert shouted(document) == shouted(document)


def test_layout_line_breaks_are_not_text_unless_preserved() -> None:
    preserving = TWO.replace('<file id="f"', '<file id="f" xml:space="preserve"')
    assert texts(read("a.xlf", preserving.encode())) == ["Hello my\n   friend there {x}."]


def test_characters_invalid_in_xml_are_removed() -> None:
    document = read("a.xlf", TWO.encode())
    assert b"<target>a b</target>" in document.write([passage.write("a\x00 \ufffeb") for passage in document.passages])


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("<xliff", "not well-formed"),
        ("<a/>", "its root is a"),
        ('<!DOCTYPE xliff [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><xliff>&b;</xliff>', "DOCTYPE"),
        ("<xliff>" + "<g>" * 100_000, "nested too deeply"),
        ("", "not well-formed"),
    ],
)
def test_files_that_are_unsafe_or_not_xliff_are_refused(content: str, fault: str) -> None:
    with pytest.raises(UnreadableDocument, match=fault) as error:
        read("a.xlf", content.encode())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("begin", "end"), [('<g id="1">a ', "</g>"), ('<trans-unit id="1"><source>a ', "</source></trans-unit>")]
)
def test_nested_content_is_copied_once(begin: str, end: str) -> None:
    inside = f"{begin * 40}{'<x/>' * 100}{end * 40}"
    content = f"<xliff><file><body><trans-unit><source>b {inside}</source></trans-unit></body></file></xliff>"
    document = read("a.xlf", content.encode())
    assert inner(units(shouted(document), "trans-unit")[0], "target").lower() == f"b {inside}"
    assert shouted(document).lower().count(inside.encode()) == 2


@pytest.mark.parametrize(("target", "expected"), [("fr", "&amp;OPEN %s"), ("zh", "OPEN(&amp;O)")])
def test_labels_are_translated_without_their_mnemonics_and_have_their_units_location(
    target: str, expected: str
) -> None:
    label = "&amp;Open" + " %s" * (target == "fr")
    unit = f'<trans-unit id="menu">\n<source>{label}</source></trans-unit>'
    content = f'<xliff version="1.2">\n<file><body>{unit}</body></file></xliff>'.encode()
    document = read("a.xliff", content, target)
    assert [passage.text for passage in document.passages] == [label.replace("&amp;", "")]
    assert [str(location) for location in document.locations] == ["line 3, unit menu"]
    written = document.write([passage.text.upper().replace("%S", "%s") for passage in document.passages])
    assert f">{expected}</target>" in written.decode()
