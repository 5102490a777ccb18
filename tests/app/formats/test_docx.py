"""Word documents: only the text of paragraphs changes, and no other element, part or byte of the package."""

from __future__ import annotations

import io
import re
import struct
import tracemalloc
import zipfile
from collections.abc import Mapping

import pytest
from lxml import etree

from app.formats import UnreadableDocument, read
from app.formats.docx_paragraphs import paragraphs
from app.formats.package import Package
from app.formats.xml_parts import Element, parse_xml
from tests.app.formats.test_formats import as_it_was, shouted, texts

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
NOTES = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"
COMMENTS = "application/vnd.openxmlformats-officedocument.wordprocessingml.comments+xml"


def field(instruction: str, result: str) -> str:
    return (
        f'<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>{instruction}</w:instrText></w:r>'
        f'<w:r><w:fldChar w:fldCharType="separate"/></w:r>{result}<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )


def run(text: str, properties: str = "") -> str:
    return f'<w:r>{properties and f"<w:rPr>{properties}</w:rPr>"}<w:t xml:space="preserve">{text}</w:t></w:r>'


def word(body: str, main: str = MAIN, parts: Mapping[str, str | bytes] | None = None) -> bytes:
    """A Word document, with notes and comments."""
    note, comment = f"<w:p>{run('A note')}</w:p>", f"<w:p>{run('A comment')}</w:p>"
    files: Mapping[str, str | bytes] = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        f'<Override PartName="/word/document.xml" ContentType="{main}"/>'
        f'<Override PartName="/word/footnotes.xml" ContentType="{NOTES}"/>'
        f'<Override PartName="/word/comments.xml" ContentType="{COMMENTS}"/></Types>',
        "word/document.xml": '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
        f'<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>',
        "word/footnotes.xml": f'<w:footnotes xmlns:w="{W}"><w:footnote>{note}</w:footnote></w:footnotes>',
        "word/comments.xml": f'<w:comments xmlns:w="{W}"><w:comment>{comment}</w:comment></w:comments>',
        "word/media/image1.png": bytes(range(256)),
        **(parts or {}),
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 2, 2, 2, 2, 2)), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def part(content: bytes, name: str = "word/document.xml") -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        return archive.read(name)


def body(content: bytes) -> str:
    """The content of the body, as lxml writes it."""
    written = etree.tostring(etree.fromstring(part(content))[0], encoding="unicode")
    return written.replace(f' xmlns:w="{W}"', "").removeprefix("<w:body>").removesuffix("</w:body>")


BOLD, ITALIC = "<w:b/>", "<w:i/>"
RICH = (
    f'<w:p><w:pPr><w:jc w:val="left"/></w:pPr><w:bookmarkStart w:id="0" w:name="b"/>{run("A ")}{run("bold", BOLD)}'
    f'{run(" word and ")}<w:hyperlink w:anchor="x">{run("a link", "<w:u/>")}</w:hyperlink>'
    '<w:r><w:footnoteReference w:id="1"/></w:r><w:bookmarkEnd w:id="0"/>'
    '<w:r><w:tab/><w:t xml:space="preserve">after</w:t><w:br/><w:t xml:space="preserve">below</w:t></w:r>'
    '<w:r><w:br w:type="page"/></w:r><w:del w:id="3"><w:r><w:delText>gone</w:delText></w:r></w:del>'
    f'<w:ins w:id="4">{run(" added")}</w:ins>{field("PAGE", run("three"))}'
    f"{field('HYPERLINK &quot;y&quot;', run('shown', ITALIC))}</w:p>"
)


def test_unchanged_texts_reproduce_every_part_byte_for_byte() -> None:
    content = word(RICH)
    written = as_it_was(read("a.docx", content))
    with zipfile.ZipFile(io.BytesIO(content)) as before, zipfile.ZipFile(io.BytesIO(written)) as after:
        assert after.namelist() == before.namelist()
        assert [after.read(name) for name in after.namelist()] == [before.read(name) for name in before.namelist()]
        assert [i.date_time for i in after.infolist()] == [i.date_time for i in before.infolist()]


def test_only_text_changes_in_a_paragraph() -> None:
    document = read("a.docx", word(RICH))
    assert texts(document) == ["A bold word and a link\tafter\nbelow added{x}shown", "A note"]
    expected = RICH
    for text in ("A ", "bold", " word and ", "a link", "after", "below", " added", "shown"):
        expected = expected.replace(f">{text}<", f">{text.upper()}<")
    written = shouted(document)
    assert body(written) == expected.replace("&quot;", '"')
    assert b">A NOTE<" in part(written, "word/footnotes.xml")
    assert b">A comment<" in part(written, "word/comments.xml")
    assert shouted(document) == written


def test_runs_with_equal_formatting_are_one_text() -> None:
    english, german = '<w:lang w:val="en-GB"/>', '<w:noProof/><w:lang w:val="de-DE"/>'
    paragraph = f'<w:p>{run("A sen", english)}<w:proofErr w:type="spellStart"/>{run("ten", german)}{run("ce.")}</w:p>'
    document = read("a.docx", word(paragraph))
    assert (document.passages[0].text, document.passages[0].tags) == ("A sentence.", ())
    assert body(shouted(document)) == f"<w:p>{run('A SENTENCE.', english)}</w:p>"


@pytest.mark.parametrize("look", ['<w:u w:val="single"/>', '<w:highlight w:val="yellow"/>', "<w:strike/>"])
def test_white_space_with_visible_formatting_keeps_it(look: str) -> None:
    tabs = f"<w:r><w:rPr>{look}</w:rPr><w:tab/><w:tab/></w:r>"
    paragraph = f"<w:p>{run('Name: ')}{tabs}{run(' Date: ')}{run(' ' * 30, look)}{run('  ')}{run('    ', look)}</w:p>"
    document = read("a.docx", word(paragraph))
    written = body(shouted(document))
    assert written == paragraph.replace("Name", "NAME").replace("Date", "DATE")


def test_white_space_without_visible_formatting_joins_the_text_beside_it() -> None:
    document = read("a.docx", word(f"<w:p>{run('A')}{run(' ', BOLD)}{run('cat')}</w:p>"))
    assert (document.passages[0].text, document.passages[0].tags) == ("A cat", ())


def test_tables_text_boxes_and_controls_have_their_own_passages() -> None:
    inside = f"<w:txbxContent><w:p>{run('in a box')}</w:p></w:txbxContent>"
    shape = f'<v:shape xmlns:v="urn:schemas-microsoft-com:vml"><v:textbox>{inside}</v:textbox></v:shape>'
    box = f"<w:r><w:pict>{shape}</w:pict></w:r>"
    control = (
        f'<w:sdt><w:sdtPr><w:alias w:val="a"/></w:sdtPr><w:sdtContent>{run("in a control")}</w:sdtContent></w:sdt>'
    )
    choice = f"<w:sdt><w:sdtPr><w:date/></w:sdtPr><w:sdtContent>{run('June')}</w:sdtContent></w:sdt>"
    source = (
        f"<w:p>{run('beside')}{box}</w:p><w:tbl><w:tr><w:tc><w:p>{run('in a cell')}</w:p></w:tc></w:tr></w:tbl>"
        f"<w:p>{run('then ')}{control}{choice}</w:p>"
    )
    document = read("a.docx", word(source))
    assert texts(document)[:4] == ["beside", "in a box", "in a cell", "then in a control{x}"]
    expected = source
    for text in ("beside", "in a box", "in a cell", "then ", "in a control"):
        expected = expected.replace(f">{text}<", f">{text.upper()}<")
    assert body(shouted(document)) == expected


SIMPLE = f'<w:fldSimple w:instr=" {{}} ">{run("7")}</w:fldSimple>'
INLINE = '<w:r><w:drawing><wp:inline xmlns:wp="urn:wp"><wp:docPr id="1" name="P"/></wp:inline></w:drawing></w:r>'
ANCHORED = INLINE.replace("inline", "anchor")


@pytest.mark.parametrize(
    ("element", "text"),
    [
        (SIMPLE.format("MERGEFIELD n"), "{x}"),
        (SIMPLE.format("XE book"), ""),
        (SIMPLE.format("HYPERLINK u"), "7"),
        *((field(kind, run("7")), "{x}") for kind in ("PAGE", "REF a \\h", "MERGEFIELD n", "DATE", "NUMPAGES")),
        (field("IF 1 = 1", run("1") + field("PAGE", run("2"))), "{x}"),
        (field("XE &quot;book&quot;", ""), ""),
        (re.sub('<w:r><w:fldChar[^>]*"separate"/></w:r>', "", field("PAGE", "")), "{x}"),
        ("<w:r><w:pgNum/></w:r>", "{x}"),
        (f"<w:sdt><w:sdtPr><w:date/></w:sdtPr><w:sdtContent>{run('7')}</w:sdtContent></w:sdt>", "{x}"),
        (f"<w:sdt><w:sdtPr><w:checkbox/></w:sdtPr><w:sdtContent>{run('7')}</w:sdtContent></w:sdt>", "\ufffc"),
        ('<w:r><w:sym w:font="Wingdings" w:char="F03A"/></w:r>', "\ufffc"),
        ('<m:oMath xmlns:m="urn:m"><m:r><m:t>7</m:t></m:r></m:oMath>', "\ufffc"),
        (INLINE, "\ufffc"),
        (ANCHORED, ""),
        (
            f'<mc:AlternateContent xmlns:mc="urn:mc"><mc:Choice>{INLINE[5:-6]}</mc:Choice></mc:AlternateContent>',
            "\ufffc",
        ),
        ('<w:r><w:pict><v:shape xmlns:v="urn:v" style="width:1pt"><v:imagedata/></v:shape></w:pict></w:r>', "\ufffc"),
        ('<w:r><w:footnoteReference w:id="1"/></w:r>', ""),
    ],
)
def test_field_displayed_in_a_sentence_is_a_value(element: str, text: str) -> None:
    source = f"<w:p>{run('There are ')}{element}{run(' books.')}</w:p>"
    document = read("a.docx", word(source))
    passage = document.passages[0]
    assert passage.text == f"There are {text} books."
    assert [passage.text[one.start : one.end] for one in passage.protected] == [text] * (text not in ("", "7"))
    expected = source.replace("There are", "THERE ARE").replace("books.", "BOOKS.").replace("&quot;", '"')
    assert body(shouted(document)) == expected


def test_both_copies_of_a_text_box_share_one_translation() -> None:
    box = f"<w:txbxContent><w:p>{run('in ')}{run('a', BOLD)}{run(' box')}</w:p></w:txbxContent>"
    choice, fallback = f"<mc:Choice>{box}</mc:Choice>", f"<mc:Fallback>{box}</mc:Fallback>"
    both = f'<w:r><mc:AlternateContent xmlns:mc="urn:mc">{choice}{fallback}</mc:AlternateContent></w:r>'
    source = f"<w:p>{run('beside')}</w:p><w:p>{both}</w:p><w:p>{both}</w:p><w:p>{run('beside')}</w:p>"
    document = read("a.docx", word(source))
    assert texts(document)[:-1] == ["beside", "in a box", "in a box", "beside"]
    expected = source
    for text in ("beside", "in ", "a", " box"):
        expected = expected.replace(f">{text}<", f">{text.upper()}<")
    assert body(shouted(document)) == expected
    numbered = body(document.write(["0", "1", "2", "3", "4"]))  # one for each box
    assert re.findall(r">(\d)<", numbered) == ["0", "1", "1", "2", "2", "3"]


def test_document_properties_and_alternative_texts_are_translated() -> None:
    dc, cp = (
        "http://purl.org/dc/elements/1.1/",
        "http://schemas.openxmlformats.org/package/2006/metadata/core-properties",
    )
    about = (
        f'<cp:coreProperties xmlns:cp="{cp}" xmlns:dc="{dc}"><dc:title>A title</dc:title>'
        "<dc:subject>A &amp; b</dc:subject><dc:creator>Ann</dc:creator><cp:keywords>a, b</cp:keywords>"
        "<dc:description>1</dc:description></cp:coreProperties>"
    )
    types = "application/vnd.openxmlformats-package.core-properties+xml"
    listed = part(word(""), "[Content_Types].xml").decode()
    listed = listed.replace("</Types>", f'<Override PartName="/docProps/core.xml" ContentType="{types}"/></Types>')
    picture = INLINE.replace('name="P"', 'name="P" descr="A cat"')
    parts = {"docProps/core.xml": about, "[Content_Types].xml": listed}
    document = read("a.docx", word(f"<w:p>{run('Look ')}{picture}</w:p>", parts=parts))
    assert texts(document) == ["Look \ufffc", "A cat", "A note", "A title", "A & b"]
    written = shouted(document)
    assert (
        part(written, "docProps/core.xml")
        .decode()
        .endswith(about.replace("A title", "A TITLE").replace("A &amp; b", "A &amp; B"))
    )
    assert 'descr="A CAT"' in body(written)


def test_a_field_that_ends_in_another_paragraph_keeps_its_parts() -> None:
    begin = '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>TOC</w:instrText></w:r>'
    separator, end = (f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("separate", "end"))
    page = field("PAGEREF a", run("7"))
    source = f"<w:p>{begin}{separator}{run('One ')}{page}</w:p><w:p>{run('Two')}{end}</w:p>"
    assert body(shouted(read("a.docx", word(source)))) == source.replace("One", "ONE").replace("Two", "TWO")


def test_moved_words_keep_their_formatting() -> None:
    document = read("a.docx", word(f"<w:p>{run('black ')}{run('cat', BOLD)}</w:p>"))
    opening, closing = (tag.raw for tag in document.passages[0].tags)
    written = document.write([f"{opening}chat{closing} noir", "Note"])
    assert body(written) == f"<w:p>{run('chat', BOLD)}{run(' noir')}</w:p>"


def _cut_short() -> bytes:
    content = bytearray(word(RICH))
    content[60:70] = bytes(10)
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"Hello", "not .docx"),
        (b"", "not .docx"),
        (b"\xd0\xcf\x11\xe0" + bytes(100), "password"),
        (
            word(
                "",
                MAIN.replace("openxmlformats-officedocument.wordprocessingml", "ms-word").replace(
                    "main", "macroEnabled.main"
                ),
            ),
            "macros",
        ),
        (word("", "text/plain"), "no main part"),
        (word("<w:p>"), "not well-formed"),
        (word("", parts={"[Content_Types].xml": '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'}), "DOCTYPE"),
        (_cut_short(), "cannot be unpacked"),
        (word("")[100:], "cannot be unpacked"),
    ],
    ids=["text", "nothing", "encrypted", "macros", "another", "broken XML", "entities", "broken zip", "no beginning"],
)
def test_files_that_are_not_word_documents_are_refused(content: bytes, fault: str) -> None:
    with pytest.raises(UnreadableDocument, match=fault) as error:
        read("a.docx", content)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("place", "fault"), [(16, "Bad CRC-32"), (10, "compression"), (8, "encrypted")])
def test_picture_that_cannot_be_copied_is_refused_on_reading(place: int, fault: str) -> None:
    """`place`: a byte of its directory entry: of its checksum, compression method or flags."""
    content = bytearray(word(f"<w:p>{run('Hello')}</w:p>"))
    content[content.rindex(b"PK\1\2", 0, content.rindex(b"word/media/image1.png")) + place] ^= 1
    with pytest.raises(UnreadableDocument, match=f"image1.png cannot be unpacked: .*{fault}"):
        read("a.docx", bytes(content))


def test_decompression_bomb_is_refused_before_it_is_unpacked() -> None:
    content = word(RICH, parts={"word/media/image2.png": bytes(3 << 20)})
    assert len(content) < 1 << 16
    with pytest.raises(UnreadableDocument, match="over 2 MiB"):
        Package(content, ".docx", max_unpacked_bytes=2 << 20)
    package = Package(content, ".docx", max_text_bytes=1 << 10)
    with pytest.raises(UnreadableDocument, match="the text of the file"):
        package.read("word/document.xml")


def test_part_with_another_compression_is_refused_before_it_is_unpacked() -> None:
    packed = io.BytesIO(word(RICH))
    with zipfile.ZipFile(packed, "a") as archive:  # which unpacks as much as there is, whatever the directory says
        archive.writestr("word/media/image2.png", bytes(9 << 20), zipfile.ZIP_BZIP2)
    with pytest.raises(UnreadableDocument, match=r"image2.png cannot be unpacked: .*compression"):
        read("a.docx", packed.getvalue())


def test_no_part_unpacks_beyond_the_size_in_the_directory() -> None:
    size = 32 << 20
    content = word("", parts={"word/document.xml": b" " * size})
    content = content.replace(struct.pack("<I", size), struct.pack("<I", 100))
    tracemalloc.start()
    try:
        with pytest.raises(UnreadableDocument, match="Bad CRC-32"):
            read("a.docx", content)
        assert tracemalloc.get_traced_memory()[1] < size // 8
    finally:
        tracemalloc.stop()


def main_part(content: str) -> Element:
    """The main part of a document."""
    return parse_xml(Package(word(content), ".docx").read("word/document.xml"), "The part")


@pytest.mark.parametrize(
    "marks", ["<w:r><w:drawing/></w:r>" * 200, f"<w:r><w:rPr>LOOK</w:rPr>{'<w:drawing/>' * 200}</w:r>"]
)
def test_endlessly_repeated_formatting_is_refused(marks: str) -> None:
    look = f'<w:b w:val="{"1" * 10_000}"/>'
    found = paragraphs(main_part(f"<w:p>{run('Hello', look)}</w:p>" * 10), max_copied_chars=1 << 20)
    assert [paragraph.passage.text for paragraph in found[:2]] == ["Hello", "Hello"]
    with pytest.raises(UnreadableDocument, match="too much formatting"):
        paragraphs(main_part(f"<w:p>{run('Hello', look)}{marks.replace('LOOK', look)}</w:p>"), max_copied_chars=1 << 20)


def test_two_parts_with_one_name_are_refused() -> None:
    packed = io.BytesIO(word(RICH))
    with zipfile.ZipFile(packed, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("word/document.xml", "<a/>")
    with pytest.raises(UnreadableDocument, match="two parts with the same name"):
        read("a.docx", packed.getvalue())


def test_a_paragraph_is_located_by_its_number_among_those_with_text() -> None:
    document = read("a.docx", word(f"<w:p>{run('One')}</w:p><w:p/><w:p>{run('Two')}</w:p>"))
    assert [str(location) for location in document.locations] == [
        "paragraph 1",
        "paragraph 2",
        "word/footnotes.xml, paragraph 1",
    ]
