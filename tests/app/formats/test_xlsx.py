"""Excel workbooks, as openpyxl and XlsxWriter write them and openpyxl reads them: only the texts of cells change."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Callable
from typing import Any

import openpyxl
import pytest
import xlsxwriter
from office_packages import canonical, changed_parts, parts_of, with_parts
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont
from openpyxl.comments import Comment
from openpyxl.styles import Alignment, Font
from openpyxl.worksheet.table import Table

from app.formats import UnreadableDocument, read
from tests.app.formats.test_formats import as_it_was, shouted, texts


def by_xlsxwriter() -> bytes:
    """A workbook with shared strings, and with all else that texts may be beside."""
    packed = io.BytesIO()
    book = xlsxwriter.Workbook(packed, {"in_memory": True})
    book.set_properties({"title": "A list of cats", "author": "Ann"})
    bold, red = book.add_format({"bold": True}), book.add_format({"font_color": "red"})
    sheet = book.add_worksheet("Animals & more")
    sheet.merge_range("A1:C1", "Merged cells", bold)
    sheet.write_row("A2", ["Cats & dogs", 12.5, "2024"])
    sheet.write_rich_string("A3", "The ", bold, "black", " cat ", red, "sleeps")
    sheet.write_formula("B3", '=IF(B2>1,"yes","no")', None, "yes")
    sheet.write_string("A4", "مرحبا hello 🎉")
    sheet.write_string("A5", " two lines\nhere ")
    sheet.write_string("A6", "Cats & dogs")
    sheet.write_blank("A7", None, bold)
    sheet.write_comment("A2", "Not for readers")
    sheet.data_validation("B5", {"validate": "list", "source": ["Yes", "No"]})
    sheet.insert_textbox("E2", "In a box")
    sheet.insert_textbox("E9", "Linked", {"textlink": "=$A$2"})
    table = book.add_worksheet("Prices")
    table.add_table(
        "A1:C3",
        {
            "columns": [
                {"header": "Name"},
                {"header": "Unit price"},
                {"header": "Twice", "formula": "=[@[Unit price]]*2"},
            ],
            "data": [["A cat", 1], ["A dog", 2]],
        },
    )
    chart = book.add_chart({"type": "pie"})
    chart.add_series({"categories": "=Prices!$A$2:$A$3", "values": "=Prices!$B$2:$B$3", "name": "Sales"})
    table.insert_chart("E2", chart)
    book.close()
    return packed.getvalue()


def by_openpyxl() -> bytes:
    """A workbook with strings in its cells."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "First"
    sheet["A1"], sheet["A2"], sheet["A3"] = "Hello there", 7, "=SUM(A2:A2)"
    sheet["A1"].font, sheet["A1"].alignment = Font(bold=True), Alignment(readingOrder=2)
    sheet["B1"] = CellRichText("A ", TextBlock(InlineFont(b=True), "bold"), " word")
    sheet["B2"] = '=A1&" text"'
    sheet["C1"].comment = Comment("A comment", "Ann")
    sheet.merge_cells("D1:E2")
    sheet["D1"] = "Merged"
    second = book.create_sheet("Second sheet")
    for row in (["Colour", "Number"], ["red", 1], ["blue", 2]):
        second.append(row)
    second.add_table(Table(displayName="T", ref="A1:B3"))
    packed = io.BytesIO()
    book.save(packed)
    return packed.getvalue()


SHARED, INLINE = by_xlsxwriter(), by_openpyxl()


def shown(content: bytes, change: Callable[[str], str] = str) -> dict[str, Any]:
    """All that openpyxl tells about the cells, with `change` made to texts."""

    def of_value(value: object) -> object:
        if isinstance(value, CellRichText):
            return [(change(str(part)), repr(part.font) if isinstance(part, TextBlock) else None) for part in value]
        return change(value) if isinstance(value, str) and not value.startswith("=") else value

    book = openpyxl.load_workbook(io.BytesIO(content), rich_text=True)
    return {
        sheet.title: [
            sheet.merged_cells.ranges,
            [
                (of_value(cell.value), repr(cell.font), repr(cell.alignment), cell.comment and cell.comment.text)
                for row in sheet.iter_rows()
                for cell in row
            ],
        ]
        for sheet in book
    }


def test_strings_of_cells_are_read_once_each() -> None:
    assert texts(read("a.xlsx", SHARED)) == [
        "Merged cells",
        "Cats & dogs",
        "The black cat sleeps",
        "مرحبا hello 🎉",
        " two lines\nhere ",
        "Name",
        "Twice",
        "A cat",
        "A dog",
        "In a box",
        "A list of cats",
    ]
    assert texts(read("a.xlsx", INLINE)) == ["Hello there", "A bold word", "Merged", "Colour", "Number", "red", "blue"]


@pytest.mark.parametrize("content", [SHARED, INLINE], ids=["shared", "inline"])
def test_unchanged_texts_reproduce_every_part_byte_for_byte(content: bytes) -> None:
    assert not changed_parts(content, as_it_was(read("a.xlsx", content, sheet_names=True)))


def upper(text: str) -> str:
    """As `shouted` changes a text: a column that a formula uses stays."""
    return text if text in ("Unit price", "yes") else text.upper()


def test_only_texts_change_as_openpyxl_sees_them() -> None:
    written = shouted(read("a.xlsx", SHARED))
    assert changed_parts(SHARED, written) == {
        "xl/sharedStrings.xml",
        "xl/drawings/drawing1.xml",
        "xl/tables/table1.xml",
        "docProps/core.xml",
    }
    assert shown(written) == shown(SHARED, upper)
    columns = openpyxl.load_workbook(io.BytesIO(written))["Prices"].tables["Table1"].column_names
    assert columns == ["NAME", "Unit price", "TWICE"]
    drawing = "xl/drawings/drawing1.xml"
    changed = parts_of(SHARED)[drawing].replace(b"In a box", b"IN A BOX")
    assert canonical(parts_of(written)[drawing]) == canonical(changed)


def test_strings_in_cells_are_translated_in_their_place() -> None:
    written = shouted(read("a.xlsx", INLINE))
    assert shown(written) == shown(INLINE, str.upper)
    sheets = {"xl/worksheets/sheet1.xml", "xl/worksheets/sheet2.xml", "xl/tables/table1.xml"}
    assert changed_parts(INLINE, written) == sheets
    for name in sheets - {"xl/tables/table1.xml"}:
        assert canonical(parts_of(INLINE)[name], str.upper, ["t"]) == canonical(parts_of(written)[name])
    assert openpyxl.load_workbook(io.BytesIO(written))["Second sheet"].tables["T"].column_names == ["COLOUR", "NUMBER"]


def test_columns_of_a_table_keep_different_names() -> None:
    document = read("a.xlsx", INLINE)
    translations = ["Nom" if text in ("Colour", "Number") else text for text in texts(document)]
    book = openpyxl.load_workbook(io.BytesIO(document.write(translations)))
    sheet = book["Second sheet"]
    assert sheet.tables["T"].column_names == [sheet["A1"].value, sheet["B1"].value] == ["Nom", "Nom 2"]
    emptied = document.write(["" if text == "Colour" else text for text in texts(document)])
    assert openpyxl.load_workbook(io.BytesIO(emptied))["Second sheet"]["A1"].value == "Colour"


@pytest.mark.parametrize(
    ("name", "formula", "used"),
    [
        ("Unit price", "[Unit price]*2", True),
        ("Unit price", "T[[#This Row],[Unit price]]", True),
        ("Driver's age", "T[Driver''s age]", True),
        ("Driver's age", "T[age]", False),
        ("A &amp; b", "T[A &amp; b]", True),
    ],
)
def test_column_that_a_formula_uses_keeps_its_name(name: str, formula: str, used: bool) -> None:
    content = with_parts(
        INLINE,
        {
            part: parts_of(INLINE)[part].decode().replace("Colour", name).replace("SUM(A2:A2)", formula)
            for part in ("xl/worksheets/sheet1.xml", "xl/worksheets/sheet2.xml", "xl/tables/table1.xml")
        },
    )
    assert (name.replace("&amp;", "&") not in texts(read("a.xlsx", content))) == used


@pytest.mark.slow
def test_many_columns_with_one_translation_are_told_apart() -> None:
    columns = 3_000
    book = openpyxl.Workbook()
    book.active.append([f"Colour {chr(0x4E00 + number)}" for number in range(columns)])
    book.active.append(list(range(columns)))
    last = openpyxl.utils.get_column_letter(columns)
    book.active.add_table(Table(displayName="T", ref=f"A1:{last}2"))
    packed = io.BytesIO()
    book.save(packed)
    document = read("a.xlsx", packed.getvalue())
    written = openpyxl.load_workbook(io.BytesIO(document.write(["Farbe"] * columns)))
    names = written.active.tables["T"].column_names
    assert names == [cell.value for cell in written.active[1]]
    assert names == ["Farbe", *(f"Farbe {number}" for number in range(2, columns + 1))]


def test_moved_words_keep_their_font() -> None:
    document = read("a.xlsx", INLINE)
    opening, closing = (tag.raw for tag in document.passages[1].tags)
    written = document.write(["Hello there", f"Mot {opening}gras{closing}", *texts(document)[2:]])
    value = openpyxl.load_workbook(io.BytesIO(written), rich_text=True)["First"]["B1"].value
    assert [(str(part), isinstance(part, TextBlock)) for part in value] == [("Mot ", False), ("gras", True)]


def test_sheets_are_renamed_on_request_unless_a_formula_uses_their_names() -> None:
    assert "First" not in texts(read("a.xlsx", INLINE))
    document = read("a.xlsx", INLINE, sheet_names=True)
    assert texts(document)[:2] == ["First", "Second sheet"]
    assert openpyxl.load_workbook(io.BytesIO(shouted(document))).sheetnames == ["FIRST", "SECOND SHEET"]
    hostile = document.write(["x/[y]" + "z" * 90, "X  Y " + "z" * 90, *texts(document)[2:]])
    names = openpyxl.load_workbook(io.BytesIO(hostile)).sheetnames
    assert names == ["x y " + "z" * 23, "X Y " + "z" * 23 + " 2"]
    assert texts(read("a.xlsx", SHARED, sheet_names=True))[:2] == ["Animals & more", "Merged cells"]


@pytest.mark.parametrize(
    ("formula", "used"),
    [
        ("First!A1", True),
        ("SUM(FIRST!A1:A3)", True),
        ("'First'!A1", True),
        ("&apos;First&apos;!A1", True),
        ("First:Second!A1", True),
        ("'[1]First'!A1", False),
        ("MyFirst!A1", False),
        ("First+1", False),
    ],
)
def test_reference_to_a_sheet_is_recognised(formula: str, used: bool) -> None:
    name = "xl/worksheets/sheet1.xml"
    part = parts_of(INLINE)[name].decode().replace("SUM(A2:A2)", formula)
    found = texts(read("a.xlsx", with_parts(INLINE, {name: part}), sheet_names=True))
    assert ("First" not in found) == used


def strings(*inside: str) -> bytes:
    """The workbook with these shared strings."""
    listed = "".join(f"<si>{each}</si>" for each in inside)
    namespace = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    return with_parts(SHARED, {"xl/sharedStrings.xml": f'<sst xmlns="{namespace}">{listed}</sst>'})


def written_strings(content: bytes) -> list[str]:
    return re.findall(r"<si>(.*?)</si>", parts_of(content)["xl/sharedStrings.xml"].decode(), re.DOTALL)


def test_reading_of_japanese_goes_with_its_text() -> None:
    phonetic = '<rPh sb="0" eb="1"><t>ねこ</t></rPh><phoneticPr fontId="1"/>'
    document = read("a.xlsx", strings(f"<t>猫です</t>{phonetic}", f"<t>12</t>{phonetic}"))
    assert texts(document)[0] == "猫です"
    written = document.write(["A cat", *texts(document)[1:]])
    assert written_strings(written) == ["<t>A cat</t>", f"<t>12</t>{phonetic}"]


def test_escaped_characters_stay() -> None:
    document = read("a.xlsx", strings("<t>One_x000D_\ntwo</t>", "<t>A_x005F_x0041_ b</t>"))
    assert texts(document)[:2] == ["One\ntwo", "Ax0041_ b"]
    assert written_strings(shouted(document))[0] == "<t>ONE_x000D_\nTWO</t>"


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ({"xl/sharedStrings.xml": "<a"}, "The part xl/sharedStrings.xml is not well-formed"),
        ({"xl/tables/table1.xml": "<a"}, "The part xl/tables/table1.xml is not well-formed"),
        ({"xl/workbook.xml": None}, "not an Excel workbook"),
        ({"xl/sharedStrings.xml": None}, "workbook.xml refers to 'sharedStrings.xml', which the file does not have"),
        ({"xl/worksheets/sheet1.xml": None}, "workbook.xml refers to 'worksheets/sheet1.xml', which"),
    ],
)
def test_broken_workbook_is_refused_and_the_part_named(parts: dict[str, str | None], fault: str) -> None:
    with pytest.raises(UnreadableDocument, match=fault):
        read("a.xlsx", with_parts(SHARED, parts), sheet_names=True)


def test_workbook_that_refers_to_itself_is_read_once() -> None:
    name = "xl/_rels/workbook.xml.rels"
    kinds = ("worksheet", "sharedStrings", "worksheet")
    targets = ("workbook.xml", "worksheets/sheet1.xml", "/xl/worksheets/sheet1.xml")
    back = "".join(
        f'<Relationship Id="b{number}" Type="http://x/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(zip(kinds, targets, strict=True))
    )
    listed = parts_of(INLINE)[name].decode().replace("</Relationships>", f"{back}</Relationships>")
    document = read("a.xlsx", with_parts(INLINE, {name: listed}), sheet_names=True)
    assert sorted(texts(document)) == sorted(texts(read("a.xlsx", INLINE, sheet_names=True)))
    assert list(shown(shouted(document))) == ["FIRST", "SECOND SHEET"]


@pytest.mark.slow
@pytest.mark.parametrize("part", ["'", "''", "a", "'a", "!", "[a", "sheet='", "&apos;", "a:"])
def test_hostile_formulas_are_searched_in_time(part: str) -> None:
    name = "xl/worksheets/sheet2.xml"
    picture = random.Random(0).randbytes(20_000)  # since a file of a few KB may not have that much text
    content = with_parts(SHARED, {"xl/media/a.png": picture, name: "<a>" + part * (1_000_000 // len(part)) + "</a>"})
    assert texts(read("a.xlsx", content, sheet_names=True))
