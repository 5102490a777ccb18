"""app/formats/: hostile packages of every format that is a zip file: refused in one line, with memory bounded, and
never a crash."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples
from office_packages import LAUGHS, changed_parts, nested_zip, parts_of, with_claimed_size, with_parts

import tests.app.formats.test_epub as test_formats_epub
import tests.app.formats.test_odf as test_formats_odf
import tests.app.formats.test_pptx as test_formats_pptx
import tests.app.formats.test_xlsx as test_formats_xlsx
from app.formats import Document, UnreadableDocument, package, read
from tests.app.formats.test_docx import RICH, word
from tests.app.formats.test_formats import as_it_was, shouted

pytestmark = pytest.mark.slow

PACKAGES: dict[str, tuple[bytes, str]] = {
    ".docx": (word(RICH), "word/document.xml"),
    ".pptx": (test_formats_pptx.CONTENT, "ppt/slides/slide1.xml"),
    ".xlsx": (test_formats_xlsx.SHARED, "xl/sharedStrings.xml"),
    ".epub": (test_formats_epub.CONTENT, "EPUB/text/a page.xhtml"),
    **{suffix: (content, "content.xml") for suffix, content in test_formats_odf.DOCUMENTS.items()},
}
"""By suffix, a document and the name of one of its parts with text."""
PARSED = {suffix: name for suffix, (_, name) in PACKAGES.items()} | {".epub": "EPUB/package.opf"}
"""By suffix, the name of a part that is parsed as XML: an EPUB's pages are not."""
every_package = pytest.mark.parametrize("suffix", PACKAGES)
MEMORY_BYTES = 24 << 20
"""What refusing one of these files may take: far from the gigabytes to which some would unpack."""


def refused(suffix: str, content: bytes, fault: str) -> None:
    """Asserts that the document is refused in a line with `fault`, and how much memory that takes."""
    tracemalloc.start()
    try:
        with pytest.raises(UnreadableDocument, match=fault) as error:
            read(f"a{suffix}", content)
        assert tracemalloc.get_traced_memory()[1] < MEMORY_BYTES + 4 * len(content)
    finally:
        tracemalloc.stop()
    assert len(str(error.value).splitlines()) == 1


@every_package
def test_package_that_claims_to_unpack_to_gigabytes_is_refused(suffix: str) -> None:
    content, name = PACKAGES[suffix]
    refused(suffix, with_claimed_size(content, name, (4 << 30) - 2), "over 256 MiB")


@every_package
def test_part_that_unpacks_to_more_than_it_claims_is_refused(suffix: str) -> None:
    content, name = PACKAGES[suffix]
    bomb = with_parts(content, {name: b" " * (40 << 20)})
    refused(suffix, bomb, f"Unpacked, the text|part {name} ")
    refused(suffix, with_claimed_size(bomb, name, 1_000), f"The part {name} cannot be unpacked: Bad CRC-32")


@every_package
def test_part_of_too_many_tags_is_refused(suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content, name = PACKAGES[suffix]
    monkeypatch.setattr(package, "MAX_TAGS", 5_000)
    assert read(f"a{suffix}", content)
    refused(suffix, with_parts(content, {name: f"<a>{'<b/>' * 5_000}</a>"}), f"over 5000 tags with its part {name}")


@every_package
def test_zip_files_within_the_package_are_copied_unopened(suffix: str) -> None:
    content, name = PACKAGES[suffix]
    inner = nested_zip(5)
    nested = with_parts(content, {"embedded/a.zip": inner, "embedded/b.zip": b"PK\3\4 not a zip file"})
    written = shouted(read(f"a{suffix}", nested))
    assert name in changed_parts(nested, written)
    assert parts_of(written)["embedded/a.zip"] == inner


@every_package
def test_attributes_of_parts_stay(suffix: str) -> None:
    content, name = PACKAGES[suffix]
    entry = bytearray(content)
    at = entry.rindex(b"PK\1\2", 0, entry.rindex(name.encode()))
    entry[at + 38 : at + 42] = bytes(4)  # as LibreOffice writes them
    assert not changed_parts(bytes(entry), as_it_was(read(f"a{suffix}", bytes(entry))))


@every_package
def test_package_of_too_many_parts_is_refused(suffix: str) -> None:
    refused(suffix, many_parts(), "over 10000 parts")


@cache
def many_parts() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for number in range(21_000):
            archive.writestr(f"{number}", "")
    return packed.getvalue()


@every_package
@pytest.mark.parametrize("name", ["../../etc/passwd", "a/../../b.xml", "/etc/passwd", "..\\b.xml", "C:\\b.xml", "a/.."])
def test_name_that_leads_out_of_the_package_is_refused(suffix: str, name: str) -> None:
    content, _ = PACKAGES[suffix]
    refused(suffix, with_parts(content, {name: "<a/>"}), "has a name that leads out of the file")


@every_package
@pytest.mark.parametrize("name", ["a\nb.xml", "a\u2028b.xml", "a" * 2_000])
def test_name_that_no_part_can_have_is_refused(suffix: str, name: str) -> None:
    refused(suffix, with_parts(PACKAGES[suffix][0], {name: "<a/>"}), "has a name that no part can have")


@every_package
def test_two_parts_with_one_name_are_refused(suffix: str) -> None:
    content, name = PACKAGES[suffix]
    packed = io.BytesIO(content)
    with zipfile.ZipFile(packed, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr(name, "<a/>")
    refused(suffix, packed.getvalue(), f"two parts with the same name, '{name}'")


@every_package
@pytest.mark.parametrize("hostile", [f"{LAUGHS}<a>&a11;</a>", f"{LAUGHS}<a b='&a11;'/>", "<a>" * 5_000])
def test_hostile_xml_is_refused_and_its_part_named(suffix: str, hostile: str) -> None:
    content, name = PACKAGES[suffix][0], PARSED[suffix]
    refused(suffix, with_parts(content, {name: hostile}), f"The part {name} ")


@every_package
def test_missing_part_is_refused(suffix: str) -> None:
    content, name = PACKAGES[suffix]
    with pytest.raises(UnreadableDocument):
        read(f"a{suffix}", with_parts(content, {name: None}))


@every_package
def test_depth_that_xml_allows_is_no_obstacle(suffix: str) -> None:
    """Elements nest to 256 levels, each of which may be a link, a span, or a list."""
    content, name = PACKAGES[suffix]
    part = parts_of(content)[name].decode()
    for element in DEEP[suffix]:
        opening, closing = f"<{element}>" * 200, f"</{element.partition(' ')[0]}>" * 200
        for place in ("p", "h", "a:p", "w:p", "text:p", "text:h", "si"):
            nested = part.replace(f"</{place}>", f"{opening}{closing}</{place}>")
            shouted(read(f"a{suffix}", with_parts(content, {name: nested})))


DEEP = {
    ".docx": ["w:ins", "w:hyperlink"],
    ".pptx": ["a:p", "a:r"],
    ".xlsx": ["r", "t"],
    ".epub": ["span", "div", "code", "x-y"],
    **{suffix: ["text:span", "text:a", "text:p", "text:ruby"] for suffix in test_formats_odf.DOCUMENTS},
}
_ODF = ["text:p", "text:h", "text:span", "text:a", "text:s", "text:tab", "text:line-break", "text:note", "text:date"]
_CELLS = ['table:table-cell office:value-type="string"', "text:ruby", "text:ruby-base", "draw:frame", "svg:title"]
ELEMENTS = {
    ".docx": [
        "w:p",
        "w:r",
        "w:t",
        "w:br",
        "w:ins",
        "w:sdt",
        "w:rPr",
        "w:b",
        "w:fldChar",
        "w:hyperlink",
        'w:i w:val="1"',
    ],
    ".xlsx": ["si", "r", "t", "rPr", "rPh", "b", "phoneticPr", "is", "c t='inlineStr'", "f", 'sz val="1"'],
    **{suffix: [*_ODF, *_CELLS] for suffix in test_formats_odf.DOCUMENTS},
    ".epub": ["p", "b", "br", "code", "div", "table", "td", "title", "span lang='x'", 'img alt="a b"', "x-y"],
    ".pptx": ["a:p", "a:r", "a:t", "a:br", "a:fld", "a:pPr", "a:endParaRPr", "a:latin", 'a:rPr b="1"', 'a:rPr u="sng"'],
}
"""By suffix, elements of its part."""


TEXTS = ["a", "b1", " ", "\t \n", "\xa0", "猫", "&amp;", "<!-- c -->", "<?p i?>", "<![CDATA[<b]]>"]


def xml_content(suffix: str) -> st.SearchStrategy[str]:
    """Well-formed content of any of the suffix's elements, in any order."""
    tags = st.sampled_from(ELEMENTS[suffix]).map(lambda tag: (tag, ""))
    texts = st.sampled_from(TEXTS).map(lambda text: ("", text))
    return st.lists(tags | texts | st.just(("", "")), max_size=30).map(nested)


def nested(parts: list[tuple[str, str]]) -> str:
    """Tags that open, texts, and where both are empty the end of the last tag that is open."""
    written, opened = list[str](), list[str]()
    for tag, text in parts:
        if tag:
            written.append(f"<{tag}>")
            opened.append(tag.partition(" ")[0])
        elif text or not opened:
            written.append(text)
        else:
            written.append(f"</{opened.pop()}>")
    return "".join([*written, *(f"</{name}>" for name in reversed(opened))])


@every_package
@draw_examples(30)
@given(data=st.data())
def test_any_content_of_a_part_is_translated(suffix: str, data: st.DataObject) -> None:
    content, name = PACKAGES[suffix]
    part = parts_of(content)[name]
    at = part.rindex(b"</", 0, part.rindex(b"</", 0, part.rindex(b"</")))
    changed = with_parts(content, {name: part[:at] + data.draw(xml_content(suffix)).encode() + part[at:]})
    document = read(f"a{suffix}", changed)
    assert not changed_parts(changed, as_it_was(document))
    read(f"a{suffix}", shouted(document))


@every_package
@draw_examples(50)
@given(data=st.data())
def test_no_damage_crashes_a_reader(suffix: str, data: st.DataObject) -> None:
    content = bytearray(PACKAGES[suffix][0])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.none() | st.integers(0, len(content)))
    document = _read_if_possible(suffix, bytes(content[:cut]))
    if document is not None:
        shouted(document)


def _read_if_possible(suffix: str, content: bytes) -> Document | None:
    document, fault = None, ""
    try:
        document = read(f"a{suffix}", content)
    except UnreadableDocument as error:
        fault = str(error)
    assert len(fault.splitlines()) == (document is None)
    return document
