"""EPUB books: zip files of pages, read again with zipfile and lxml. Only texts change, as in .html."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from office_packages import LAUGHS, changed_parts, parts_of, with_parts

from app.formats import UnreadableDocument, read
from tests.app.formats.test_formats import as_it_was, shouted, texts

CONTAINER = """<?xml version="1.0"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="EPUB/package.opf" media-type="application/oebps-package+xml"/></rootfiles></container>
"""
OPF = """<?xml version='1.0' encoding="utf-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id">
  <metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
    <dc:identifier id="id">A book 1</dc:identifier>
    <dc:title id="t">Cats &amp; dogs</dc:title><meta refines="#t" property="file-as">Dogs</meta>
    <dc:creator>Ann Bell</dc:creator> <dc:language>en-GB</dc:language>
    <dc:description>
      A book about cats
    </dc:description><dc:subject>animals</dc:subject>
    <meta property="dcterms:modified">2024-01-01T00:00:00Z</meta>
  </metadata>
  <manifest>
    <item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml" />
    <item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>
    <item id="one" href="text/a%20page.xhtml" media-type="application/xhtml+xml"/>
    <item id="two" href="text/two.xhtml" media-type="application/xhtml+xml"/>
    <item id="aside" href="text/aside.xhtml" media-type="application/xhtml+xml"/>
    <item id="art" href="art.svg" media-type="image/svg+xml"/>
    <item id="css" href="style.css" media-type="text/css"/>
    <item id="font" href="font.otf" media-type="font/otf"/>
  </manifest>
  <spine toc="ncx"><itemref idref="one"/><itemref idref="art"/><itemref idref="two" linear="no"/>
  <itemref idref="one"/></spine>
</package>
"""
NCX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "http://www.daisy.org/z3986/2005/ncx-2005-1.dtd">
<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/" version="2005-1">
<head><meta name="dtb:uid" content="A book 1"/></head>
<docTitle><text>Cats &amp; dogs</text></docTitle><docAuthor><text>Ann Bell</text></docAuthor>
<navMap><navPoint id="n1" playOrder="1"><navLabel><text>Chapter one</text></navLabel>
<content src="text/a%20page.xhtml"/></navPoint></navMap></ncx>
"""
PAGE = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" xml:lang="en" lang="en">
<head><title>{title}</title><link rel="stylesheet" href="../style.css"/></head>
<body>{body}</body>
</html>
"""
BODY = """<section epub:type="chapter"><h1>Chapter one</h1>
<p>The <b>black</b> cat&#160;sleeps<a epub:type="noteref" href="#n">1</a>.<br/>It is late 🎉</p><p></p>
<p dir="rtl">مرحبا hello</p><table><tr><td colspan="2">Merged</td></tr></table>
<img src="../cat.png" alt="A black cat"/><pre>code here</pre><aside id="n" epub:type="footnote"><p>A note</p></aside>
</section>"""
NAV = '<nav epub:type="toc"><h2>Contents</h2><ol><li><a href="text/a%20page.xhtml">Chapter one</a></li></ol></nav>'
ENCRYPTION = """<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container"
 xmlns:enc="http://www.w3.org/2001/04/xmlenc#"><enc:EncryptedData><enc:CipherData>
<enc:CipherReference URI="{}"/></enc:CipherData></enc:EncryptedData></encryption>"""


def book(parts: Mapping[str, str | bytes] | None = None) -> bytes:
    """A book with two pages, a page outside the reading order, both tables of contents, and an obfuscated font."""
    files: Mapping[str, str | bytes] = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": CONTAINER,
        "META-INF/encryption.xml": ENCRYPTION.format("EPUB/font.otf"),
        "EPUB/package.opf": OPF,
        "EPUB/toc.ncx": NCX,
        "EPUB/nav.xhtml": PAGE.format(title="Contents", body=NAV),
        "EPUB/text/two.xhtml": PAGE.format(title="Two", body="<p>The end</p>"),
        "EPUB/text/a page.xhtml": PAGE.format(title="One", body=BODY),
        "EPUB/text/aside.xhtml": PAGE.format(title="Aside", body="<p>Not read</p>"),
        "EPUB/art.svg": '<svg xmlns="http://www.w3.org/2000/svg"><text>A picture</text></svg>',
        "EPUB/style.css": "p { color: red }",
        "EPUB/font.otf": bytes(range(256)),
        "EPUB/cat.png": b"no picture",
        **(parts or {}),
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            compression = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            archive.writestr(zipfile.ZipInfo(name, (2020, 2, 2, 2, 2, 2)), content, compression)
    return packed.getvalue()


CONTENT = book()
CHANGED = {
    *("EPUB/package.opf", "EPUB/toc.ncx", "EPUB/nav.xhtml"),
    *("EPUB/text/two.xhtml", "EPUB/text/a page.xhtml"),
}


def test_pages_are_read_in_their_order_after_titles_and_contents() -> None:
    document = read("a.epub", CONTENT)
    assert texts(document) == [
        *("Cats & dogs", "A book about cats"),
        *("Contents", "Contents", "Chapter one"),
        *("Cats & dogs", "Chapter one"),
        *("One", "Chapter one", "The black cat sleeps1.", "It is late 🎉", "مرحبا hello", "Merged"),
        *("A black cat", "A note", "Two", "The end"),
    ]
    assert str(document.locations[-1]) == "line 5, EPUB/text/two.xhtml"


def test_unchanged_texts_reproduce_every_part_byte_for_byte() -> None:
    assert not changed_parts(CONTENT, as_it_was(read("a.epub", CONTENT)))


def test_the_type_stays_the_first_part_and_uncompressed() -> None:
    written = shouted(read("a.epub", CONTENT))
    assert written[:58] == CONTENT[:58]
    assert written[30:58] == b"mimetypeapplication/epub+zip"


def test_only_texts_change() -> None:
    written = shouted(read("a.epub", CONTENT))
    assert changed_parts(CONTENT, written) == CHANGED
    after = parts_of(written)
    expected = OPF.replace("Cats &amp; dogs", "CATS &amp; DOGS").replace("A book about cats", "A BOOK ABOUT CATS")
    assert after["EPUB/package.opf"].decode() == expected
    expected = NCX.replace("Cats &amp; dogs", "CATS &amp; DOGS").replace("Chapter one", "CHAPTER ONE")
    assert after["EPUB/toc.ncx"].decode() == expected
    expected = BODY
    for old in ("Chapter one", "The ", "black</b>", "sleeps", "It is late", "hello", "Merged", "A black cat", "A note"):
        expected = expected.replace(old, old.upper().replace("</B>", "</b>"))
    expected = expected.replace("</b> cat", "</b> CAT")
    assert after["EPUB/text/a page.xhtml"].decode() == PAGE.format(title="ONE", body=expected)


def test_reference_to_a_note_is_a_value_of_its_sentence() -> None:
    (passage,) = (each for each in read("a.epub", CONTENT).passages if "sleeps" in each.text)
    assert [(passage.text[each.start : each.end], each.raw) for each in passage.protected] == [
        ("1", '<a epub:type="noteref" href="#n">1</a>')
    ]


def test_links_and_structure_are_those_of_the_source_as_lxml_sees_them() -> None:
    before, after = parts_of(CONTENT), parts_of(shouted(read("a.epub", CONTENT)))
    for name in CHANGED:
        old, new = (etree.fromstring(each[name]) for each in (before, after))
        assert [each.tag for each in old.iter()] == [each.tag for each in new.iter()]
        kept = [{k: v for k, v in each.attrib.items() if k != "alt"} for each in old.iter()]
        assert kept == [{k: v for k, v in each.attrib.items() if k != "alt"} for each in new.iter()]


@pytest.mark.parametrize(("source", "language"), [("en", "fr"), ("auto", "fr"), ("de", "en-GB")])
def test_book_declares_its_new_language(source: str, language: str) -> None:
    written = parts_of(as_it_was(read("a.epub", CONTENT, "fr", source=source)))
    assert f"<dc:language>{language}</dc:language>".encode() in written["EPUB/package.opf"]
    assert (b'xml:lang="fr" lang="fr"' in written["EPUB/text/two.xhtml"]) == (language == "fr")


def test_entities_of_a_page_are_not_opened() -> None:
    page = LAUGHS + "<html><body><p>Hello &a11; there</p></body></html>"
    content = with_parts(CONTENT, {"EPUB/text/two.xhtml": page})
    written = parts_of(shouted(read("a.epub", content)))["EPUB/text/two.xhtml"].decode()
    assert written == page.replace("Hello", "HELLO").replace("there", "THERE")


OPF_PART = "EPUB/package.opf"


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ({"mimetype": "text/plain"}, "not .epub"),
        ({"mimetype": None}, "not .epub: it has no part 'mimetype'"),
        ({"META-INF/container.xml": None}, "not .epub: it has no part 'META-INF/container.xml'"),
        ({"META-INF/container.xml": "<container/>"}, "META-INF/container.xml names no book"),
        ({OPF_PART: None}, "not .epub: it has no part 'EPUB/package.opf'"),
        ({OPF_PART: "<package"}, "The part EPUB/package.opf is not well-formed"),
        ({OPF_PART: OPF.replace('idref="two"', 'idref="x"')}, "package.opf lists 'x', which it does not describe"),
        (
            {OPF_PART: OPF.replace("text/two", "../../../etc")},
            "refers to '../../../etc.xhtml', which the",
        ),
        (
            {OPF_PART: OPF.replace("text/two.xhtml", "https://example.org/a")},
            "refers to 'https://example.org/a'",
        ),
        ({"EPUB/text/two.xhtml": None}, "package.opf refers to 'text/two.xhtml', which the file does not have"),
        ({"EPUB/text/two.xhtml": b"<p>\xe9</p>"}, "two.xhtml cannot be read: .*byte 3 is 0xe9"),
        ({"EPUB/text/two.xhtml": "a" * (2 << 20) + "b"}, "The part EPUB/text/two.xhtml is over 2 MiB"),
        ({"META-INF/encryption.xml": ENCRYPTION.format("EPUB/text/a%20page.xhtml")}, "a page.xhtml is encrypted"),
    ],
)
def test_broken_book_is_refused_and_the_part_named(parts: dict[str, str | bytes | None], fault: str) -> None:
    with pytest.raises(UnreadableDocument, match=re.escape(fault) if ".*" not in fault else fault) as error:
        read("a.epub", with_parts(CONTENT, parts))
    assert "\n" not in str(error.value)


@given(
    text=st.lists(
        st.sampled_from(
            [
                "<navLabel>",
                "</navLabel>",
                "<text>",
                "</text>",
                "<ncx>",
                "</ncx>",
                "&amp;",
                "&#160;",
                "&x;",
                "<![CDATA[a]]>",
            ]
        )
        | st.text("ab <>&/\n猫", max_size=4)
    ).map("".join)
)
def test_any_text_is_a_table_of_contents(text: str) -> None:
    content = with_parts(CONTENT, {"EPUB/toc.ncx": text})
    document = read("a.epub", content)
    assert not changed_parts(content, as_it_was(document))
    shouted(document)
