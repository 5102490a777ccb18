"""app/formats/: small packages that hold much, and what is looked up for each of many parts: in proportion to the
file's size."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from typing import Any

import pytest
from office_packages import parts_of, with_parts

from app.formats import UnreadableDocument, odf_paragraphs, read, xml_parts
from app.formats.package import Package
from app.formats.xml_parts import alternatives, parse_xml
from app.markup.passage import resolve_references
from app.markup.render import TagNode, empty_elements
from tests.app.formats.test_formats import shouted
from tests.app.formats.test_odf import body
from tests.app.formats.test_packages import PACKAGES, PARSED, every_package
from tests.app.formats.test_xlsx import SHARED

pytestmark = pytest.mark.slow


def root_with(suffix: str, content: str) -> bytes:
    """The document, with `content` at the end of a part."""
    name = PARSED[suffix]
    part = parts_of(PACKAGES[suffix][0])[name].decode()
    place = part.rindex("</")
    return with_parts(PACKAGES[suffix][0], {name: part[:place] + content + part[place:]})


@every_package
def test_text_that_is_large_for_its_file_is_refused(suffix: str) -> None:
    content = root_with(suffix, " " * (12 << 20))
    assert len(content) < 64 << 10
    with pytest.raises(UnreadableDocument, match=r"^Unpacked, the text .* too much for its size\.$"):
        read(f"a{suffix}", content)


@every_package
def test_tags_that_are_many_for_their_file_are_refused(suffix: str) -> None:
    content = root_with(suffix, "<a/>" * 1_000_000)
    with pytest.raises(UnreadableDocument, match=r"too (?:many|much) for its size"):
        read(f"a{suffix}", content)


def test_texts_that_are_many_for_their_file_are_refused() -> None:
    content = body("<text:p>a</text:p>" * 3_500)
    with pytest.raises(UnreadableDocument, match="texts to translate: too many for its size"):
        read("a.odt", content)


def test_parts_searched_for_names_are_in_proportion_to_the_file() -> None:
    content = with_parts(SHARED, {"xl/worksheets/sheet9.xml": "<a>" + "a!" * 1_000_000 + "</a>"})
    with pytest.raises(UnreadableDocument, match=r"sheet9\.xml: too much for its size"):
        read("a.xlsx", content, sheet_names=True)


def test_directory_of_a_package_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may list ten thousand parts."""
    opened = Counter[str]()

    class Counted(zipfile.ZipFile):
        def __init__(self, file: Any, mode: Any = "r", *others: Any) -> None:
            opened[mode] += 1
            super().__init__(file, mode, *others)

    monkeypatch.setattr(zipfile, "ZipFile", Counted)
    found = Package(PACKAGES[".docx"][0], ".docx")
    found.check()
    for name in found.parts:
        found.read(name)
        found.holds(name, re.compile(b"a"))
    found.with_parts({})
    assert opened == {"r": 1, "w": 1}


def test_alternatives_around_many_paragraphs_are_found_by_one_look_at_each_element(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nested, count = 200, 500
    content = (
        "<a>" * nested + "<AlternateContent><b>" + "<p/>" * count + "</b></AlternateContent><p/>" + "</a>" * nested
    )
    root = parse_xml(content.encode(), "it")
    looks = Counter[str]()
    local_name = xml_parts.local_name

    def counted(element: Any) -> str:
        looks[local_name(element)] += 1
        return local_name(element)

    monkeypatch.setattr(xml_parts, "local_name", counted)
    found = list(alternatives(root.iter("p")))
    assert [each is None for each in found] == [False] * count + [True]
    assert looks.total() <= nested + 2


def test_value_of_a_cell_is_stated_once_for_all_its_paragraphs(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 300
    paragraphs = "<text:p>a word</text:p>" * count
    cell = f'<table:table-cell office:value-type="string" office:string-value="a">{paragraphs}</table:table-cell>'
    document = read("a.odt", body(f"<table:table><table:table-row>{cell}</table:table-row></table:table>"))
    made = Counter[str]()

    class Counted(odf_paragraphs.Paragraph):
        def __init__(self, *arguments: Any) -> None:
            made["paragraph"] += 1
            super().__init__(*arguments)

    monkeypatch.setattr(odf_paragraphs, "Paragraph", Counted)
    written = parts_of(shouted(document))["content.xml"].decode()
    assert 'office:string-value="A WORD' in written
    assert made.total() == count


def test_references_with_thousands_of_digits_are_text() -> None:
    text = f"a\ufdd2{'1' * 5_000}\ufdd3"
    assert resolve_references(text, dict[int, str]().get) == text
    assert list(xml_parts.split_references(f"\ufdd0{'1' * 5_000}\ufdd1")) == ["1" * 5_000]


def test_elements_without_words_are_found_at_any_depth() -> None:
    node = TagNode(0, 4, "<b>", "</b>", place=(0, 0))
    for _ in range(5_000):
        node = TagNode(0, 6, children=[node], place=(0, 1))
    assert list(empty_elements(TagNode(0, 6, children=[node]), "some a", "x")) == ["some"]


def test_deeply_nested_spans_are_read_and_written() -> None:
    """The parser refuses more than 256 levels."""
    document = read("a.odt", body("<text:p>" + "<text:span>" * 200 + "a word" + "</text:span>" * 200 + "</text:p>"))
    assert b"A WORD" in parts_of(shouted(document))["content.xml"]
