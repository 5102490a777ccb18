"""app/formats/: ten documents of each kind, different ones, made by the libraries that programs use, translated,
and opened by them again: every text that went in comes out translated, and everything else as it was."""

from __future__ import annotations

import csv
import io
import random
import zipfile
from collections.abc import Callable
from typing import Any
from xml.sax.saxutils import escape

import javaproperties
import openpyxl
import polib
import pysubs2
import pytest
import xlsxwriter
import yaml
from docutils import nodes
from docutils.core import publish_doctree
from docutils.utils import column_width
from fluent.syntax import FluentParser, FluentSerializer, ast
from lxml import etree
from odf import opendocument, table, teletype, text
from odf.draw import Frame, Page, TextBox
from odf.namespaces import TEXTNS
from odf.style import MasterPage, PageLayout, Style, TextProperties
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont
from pptx import Presentation
from pptx.util import Inches
from translate.storage import aresource, resx, ts2, xliff

from app.formats import read
from tests.app.formats.test_formats import shouted

Texts = list[str]
PROSE = (
    "the cat sleeps on table house river green open save file window press button again never Straße café naïve 你好 "
    '世界 مرحبا שלום 🎉 R&D <tag> "quoted" it\'s 3rd'
)
WORDS = PROSE.split()


class Draw(random.Random):
    """What a document is made of."""

    def sentence(self) -> str:
        words = [self.choice(WORDS) for _ in range(self.randint(2, 12))]
        return f"{self.choice('ABCDEFGH')}n {' '.join(words)}{self.choice('.!?')}"

    def sentences(self) -> Texts:
        return [self.sentence() for _ in range(self.randint(1, 8))]


# ---- Office


def pptx_made(draw: Draw) -> tuple[bytes, Texts]:
    made, put = Presentation(), list[str]()
    for _ in range(draw.randint(1, 4)):
        slide = made.slides.add_slide(made.slide_layouts[1])
        slide.shapes.title.text = draw.sentence()
        put.append(slide.shapes.title.text)
        frame = slide.placeholders[1].text_frame
        for number, sentence in enumerate(draw.sentences()):
            paragraph = frame.paragraphs[0] if number == 0 else frame.add_paragraph()
            paragraph.level = draw.randrange(3)
            for part in sentence.partition(" cat "):
                run = paragraph.add_run()
                run.text, run.font.bold = part, draw.random() < 0.5
            put.append(sentence)
        if draw.random() < 0.5:
            cells = slide.shapes.add_table(2, 2, Inches(1), Inches(5), Inches(6), Inches(1)).table
            for row in range(2):
                for column in range(2):
                    cells.cell(row, column).text = draw.sentence()
                    put.append(cells.cell(row, column).text)
        if draw.random() < 0.5:
            slide.notes_slide.notes_text_frame.text = draw.sentence()
            put.append(slide.notes_slide.notes_text_frame.text)
    out = io.BytesIO()
    made.save(out)
    return out.getvalue(), put


def pptx_read(content: bytes) -> Texts:
    found = list[str]()
    for slide in Presentation(io.BytesIO(content)).slides:
        for shape in slide.shapes:
            if shape.has_text_frame:
                found += [paragraph.text for paragraph in shape.text_frame.paragraphs]
            elif shape.has_table:
                found += [cell.text for row in shape.table.rows for cell in row.cells]
        if slide.has_notes_slide:
            found.append(slide.notes_slide.notes_text_frame.text)
    return [each for each in found if each]


def xlsx_made(draw: Draw) -> tuple[bytes, Texts]:
    """By openpyxl, or by xlsxwriter."""
    out, put = io.BytesIO(), list[str]()
    if draw.random() < 0.5:
        writer = xlsxwriter.Workbook(out, {"in_memory": True})
        sheet, bold = writer.add_worksheet("Data"), writer.add_format({"bold": True})
        for row, sentence in enumerate(draw.sentences()):
            if draw.random() < 0.5 and " " in sentence:
                first, _, rest = sentence.partition(" ")
                sheet.write_rich_string(row, 0, bold, first, " " + rest)
            else:
                sheet.write_string(row, 0, sentence)
            put.append(sentence)
            sheet.write_number(row, 1, draw.randint(1, 99))
            sheet.write_formula(row, 2, f"=B{row + 1}*2", None, 4)
        writer.close()
        return out.getvalue(), put
    book = openpyxl.Workbook()
    for sheet in (book.active, book.create_sheet("More")):
        for row, sentence in enumerate(draw.sentences(), 1):
            first, _, rest = sentence.partition(" ")
            rich = CellRichText(TextBlock(InlineFont(b=True), first), " " + rest)
            sheet.cell(row, 1, rich if draw.random() < 0.5 else sentence)
            put.append(sentence)
            sheet.cell(row, 2, draw.randint(1, 99))
            sheet.cell(row, 3, f"=SUM(B1:B{row})")
    book.save(out)
    return out.getvalue(), put


def xlsx_read(content: bytes) -> Texts:
    book = openpyxl.load_workbook(io.BytesIO(content), rich_text=True)
    cells = [cell for sheet in book for row in sheet.iter_rows() for cell in row]
    assert all(isinstance(cell.value, int) for cell in cells if cell.column == 2)
    assert all(str(cell.value).startswith("=") for cell in cells if cell.column == 3)
    return [str(cell.value) for cell in cells if cell.column == 1]


def _styled(document: Any) -> Any:
    bold = Style(name="Bold", family="text")
    bold.addElement(TextProperties(fontweight="bold"))
    document.automaticstyles.addElement(bold)
    return bold


def _paragraph(sentence: str, bold: Any, draw: Draw) -> Any:
    paragraph = text.P()
    first, _, rest = sentence.partition(" ")
    if draw.random() < 0.5:
        paragraph.addElement(text.Span(stylename=bold, text=first))
        paragraph.addText(" " + rest)
    else:
        paragraph.addText(sentence)
    return paragraph


def odt_made(draw: Draw) -> tuple[bytes, Texts]:
    made, put = opendocument.OpenDocumentText(), list[str]()
    bold = _styled(made)
    for _ in range(draw.randint(1, 3)):
        heading = draw.sentence()
        made.text.addElement(text.H(outlinelevel=1, text=heading))
        put.append(heading)
        for sentence in draw.sentences():
            made.text.addElement(_paragraph(sentence, bold, draw))
            put.append(sentence)
    cells = table.Table(name="T")
    row = table.TableRow()
    for sentence in draw.sentences():
        cell = table.TableCell()
        cell.addElement(_paragraph(sentence, bold, draw))
        row.addElement(cell)
        put.append(sentence)
    cells.addElement(row)
    made.text.addElement(cells)
    return _saved(made), put


def ods_made(draw: Draw) -> tuple[bytes, Texts]:
    made, put = opendocument.OpenDocumentSpreadsheet(), list[str]()
    bold = _styled(made)
    sheet = table.Table(name="Data")
    for sentence in draw.sentences():
        row, cell = table.TableRow(), table.TableCell(valuetype="string")
        cell.addElement(_paragraph(sentence, bold, draw))
        row.addElement(cell)
        put.append(sentence)
        number = table.TableCell(valuetype="float", value="7", formula="of:=3+4")
        number.addElement(text.P(text="7"))
        row.addElement(number)
        sheet.addElement(row)
    made.spreadsheet.addElement(sheet)
    return _saved(made), put


def odp_made(draw: Draw) -> tuple[bytes, Texts]:
    made, put = opendocument.OpenDocumentPresentation(), list[str]()
    bold = _styled(made)
    layout = PageLayout(name="L")
    made.automaticstyles.addElement(layout)
    master = MasterPage(name="M", pagelayoutname=layout)
    made.masterstyles.addElement(master)
    for number in range(draw.randint(1, 4)):
        page = Page(masterpagename=master, name=f"p{number}")
        frame, box = Frame(width="10cm", height="5cm"), TextBox()
        for sentence in draw.sentences():
            box.addElement(_paragraph(sentence, bold, draw))
            put.append(sentence)
        frame.addElement(box)
        page.addElement(frame)
        made.presentation.addElement(page)
    return _saved(made), put


def _saved(document: Any) -> bytes:
    out = io.BytesIO()
    document.write(out)
    return out.getvalue()


def odf_read(content: bytes) -> Texts:
    document = opendocument.load(io.BytesIO(content))
    paragraphs = [
        node for node in _descendants(document.body) if getattr(node, "qname", None) in ((TEXTNS, "p"), (TEXTNS, "h"))
    ]
    found = [teletype.extractText(node) for node in paragraphs]
    return [each for each in found if each and each != "7"]


def _descendants(node: Any) -> list[Any]:
    return [node, *(inner for child in getattr(node, "childNodes", []) for inner in _descendants(child))]


XHTML = "http://www.w3.org/1999/xhtml"


def epub_made(draw: Draw) -> tuple[bytes, Texts]:
    put, out = list[str](), io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        archive.writestr(
            "META-INF/container.xml",
            '<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="c.opf" media-type="application/oebps-package+xml"/></rootfiles></container>',
        )
        count = draw.randint(1, 4)
        items = "".join(f'<item id="c{n}" href="c{n}.xhtml" media-type="application/xhtml+xml"/>' for n in range(count))
        spine = "".join(f'<itemref idref="c{n}"/>' for n in range(count))
        archive.writestr(
            "c.opf",
            '<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="i"><metadata '
            'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:identifier id="i">x</dc:identifier><dc:language>en'
            f"</dc:language></metadata><manifest>{items}</manifest><spine>{spine}</spine></package>",
        )
        for number in range(count):
            sentences = draw.sentences()
            put += sentences
            body = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
            archive.writestr(
                f"c{number}.xhtml", f'<html xmlns="{XHTML}"><head><title/></head><body>{body}</body></html>'
            )
    return out.getvalue(), put


def epub_read(content: bytes) -> Texts:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.namelist()[0] == "mimetype"
        pages = [archive.read(name) for name in archive.namelist() if name.endswith(".xhtml")]
    found = [element for page in pages for element in etree.fromstring(page).iter(f"{{{XHTML}}}p")]
    return ["".join(map(str, element.itertext())) for element in found]


# ---- Localisation


def keyed(draw: Draw) -> dict[str, str]:
    return {f"key.{number}": sentence for number, sentence in enumerate(draw.sentences())}


def properties_made(draw: Draw) -> tuple[bytes, Texts]:
    values = keyed(draw)
    return javaproperties.dumps(values, timestamp=False).encode("latin-1"), list(values.values())


def properties_read(content: bytes) -> Texts:
    # Where a text has values, MessageFormat reads its apostrophes; these have none.
    return list(javaproperties.loads(content.decode("latin-1")).values())


def po_made(draw: Draw) -> tuple[bytes, Texts]:
    made = polib.POFile()
    made.metadata = {"Content-Type": "text/plain; charset=UTF-8", "Language": "fr"}
    sentences = list(dict.fromkeys(draw.sentences()))
    for number, sentence in enumerate(sentences):
        made.append(polib.POEntry(msgid=sentence, msgstr="", occurrences=[("a.c", str(number))], comment="Note"))
    return str(made).encode(), sentences


def po_read(content: bytes) -> Texts:
    made = polib.pofile(content.decode())
    assert all(entry.comment == "Note" for entry in made)
    return [entry.msgstr for entry in made]


def yaml_made(draw: Draw) -> tuple[bytes, Texts]:
    values = keyed(draw)
    return yaml.safe_dump({"menu": values, "count": 3}, allow_unicode=True).encode(), list(values.values())


def yaml_read(content: bytes) -> Texts:
    found = yaml.safe_load(content)
    assert found["count"] == 3
    return list(found["menu"].values())


def fluent_made(draw: Draw) -> tuple[bytes, Texts]:
    sentences = draw.sentences()
    messages = [
        ast.Message(ast.Identifier(f"key-{number}"), ast.Pattern([ast.TextElement(sentence)]))
        for number, sentence in enumerate(sentences)
    ]
    return FluentSerializer().serialize(ast.Resource(list(messages))).encode(), sentences


def fluent_read(content: bytes) -> Texts:
    found = FluentParser().parse(content.decode()).body
    assert all(isinstance(entry, ast.Message) for entry in found)
    return ["".join(part.value for part in entry.value.elements) for entry in found]  # type: ignore[union-attr]


def csv_made(draw: Draw) -> tuple[bytes, Texts]:
    out, sentences = io.StringIO(), draw.sentences()
    writer = csv.writer(out)
    writer.writerow(["id", "text"])
    writer.writerows(enumerate(sentences))
    return out.getvalue().encode(), sentences


def csv_read(content: bytes) -> Texts:
    rows = list(csv.reader(io.StringIO(content.decode())))
    assert rows[0] == ["id", "text"]
    assert [row[0] for row in rows[1:]] == [str(number) for number in range(len(rows) - 1)]
    return [row[1] for row in rows[1:]]


def ass_made(draw: Draw) -> tuple[bytes, Texts]:
    made, sentences = pysubs2.SSAFile(), draw.sentences()
    for number, sentence in enumerate(sentences):
        made.append(pysubs2.SSAEvent(start=1000 * number, end=1000 * number + 900, text=sentence))
    return made.to_string("ass").encode(), sentences


def ass_read(content: bytes) -> Texts:
    return [event.text for event in pysubs2.SSAFile.from_string(content.decode())]


def srt_made(draw: Draw) -> tuple[bytes, Texts]:
    made, sentences = pysubs2.SSAFile(), [each.replace("<tag>", "tag") for each in draw.sentences()]
    for number, sentence in enumerate(sentences):
        made.append(pysubs2.SSAEvent(start=1000 * number, end=1000 * number + 900, text=sentence))
    return made.to_string("srt").encode(), sentences


def srt_read(content: bytes) -> Texts:
    return [event.plaintext.replace("\n", " ") for event in pysubs2.SSAFile.from_string(content.decode())]


def toolkit(factory: Any, **arguments: str) -> Callable[[Draw], tuple[bytes, Texts]]:
    """Documents of a format of translate-toolkit that have targets beside their sources."""

    def made(draw: Draw) -> tuple[bytes, Texts]:
        store, sentences = factory(**arguments), list(dict.fromkeys(draw.sentences()))
        for sentence in sentences:
            store.addsourceunit(sentence)
        return bytes(store), sentences

    return made


def ts_made(draw: Draw) -> tuple[bytes, Texts]:
    """As Qt's lupdate writes it."""
    sentences = draw.sentences()
    messages = "".join(
        f'    <message>\n        <source>{escape(sentence)}</source>\n        <translation type="unfinished">'
        "</translation>\n    </message>\n"
        for sentence in sentences
    )
    start = '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE TS>\n<TS version="2.1">\n<context>\n'
    return f"{start}    <name>Main</name>\n{messages}</context>\n</TS>\n".encode(), sentences


def toolkit_targets(factory: Any) -> Callable[[bytes], Texts]:
    def found(content: bytes) -> Texts:
        return [str(unit.target) for unit in factory.parsestring(content).units if unit.source]

    return found


def resource_made(factory: Any) -> Callable[[Draw], tuple[bytes, Texts]]:
    def made(draw: Draw) -> tuple[bytes, Texts]:
        store, values = factory(), keyed(draw)
        for name, sentence in values.items():
            unit = store.addsourceunit(name.replace(".", "_"))
            unit.setid(name.replace(".", "_"))
            unit.target = sentence
        return bytes(store), list(values.values())

    return made


def resource_read(factory: Any) -> Callable[[bytes], Texts]:
    def found(content: bytes) -> Texts:
        return [str(unit.target) for unit in factory.parsestring(content).units]

    return found


def rst_made(draw: Draw) -> tuple[bytes, Texts]:
    """By hand: docutils reads reStructuredText, and nothing writes it."""
    put, out = list[str](), ""
    for mark in "=-~"[: draw.randint(1, 3)]:
        title, first, second, *others = [draw.sentence() for _ in range(6)]
        cells = [draw.sentence() for _ in range(4)]
        widths = [2 + max(map(column_width, cells[column::2])) for column in (0, 1)]
        border = f"+{'-' * widths[0]}+{'-' * widths[1]}+\n"
        out += f"{title}\n{mark * column_width(title)}\n\n{first}\n\n.. note:: {second}\n\n"
        out += "".join(f"{draw.choice(['-', '#.'])} {one}\n\n" for one in others)
        for row in (cells[:2], cells[2:]):
            padded = [f" {one}{' ' * (width - 1 - column_width(one))}" for one, width in zip(row, widths, strict=True)]
            out += f"{border}|{padded[0]}|{padded[1]}|\n"
        out += f"{border}\n"
        put += [title, first, second, *others, *cells]
    return out.encode(), put


def rst_read(content: bytes) -> Texts:
    settings = {"_disable_config": True, "halt_level": 2}
    found = publish_doctree(content, settings_overrides=settings).findall(nodes.TextElement)
    return [node.astext() for node in found if isinstance(node, (nodes.title, nodes.subtitle, nodes.paragraph))]


KINDS: dict[str, tuple[Callable[[Draw], tuple[bytes, Texts]], Callable[[bytes], Texts]]] = {
    "a.pptx": (pptx_made, pptx_read),
    "a.xlsx": (xlsx_made, xlsx_read),
    "a.odt": (odt_made, odf_read),
    "a.ods": (ods_made, odf_read),
    "a.odp": (odp_made, odf_read),
    "a.epub": (epub_made, epub_read),
    "a.properties": (properties_made, properties_read),
    "a.po": (po_made, po_read),
    "a.yaml": (yaml_made, yaml_read),
    "a.rst": (rst_made, rst_read),
    "a.ftl": (fluent_made, fluent_read),
    "a.csv": (csv_made, csv_read),
    "a.ass": (ass_made, ass_read),
    "a.srt": (srt_made, srt_read),
    "a.xliff": (toolkit(xliff.xlifffile), toolkit_targets(xliff.xlifffile)),
    "a.ts": (ts_made, toolkit_targets(ts2.tsfile)),
    "strings.xml": (resource_made(aresource.AndroidResourceFile), resource_read(aresource.AndroidResourceFile)),
    "a.resx": (resource_made(resx.RESXFile), resource_read(resx.RESXFile)),
}


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", KINDS)
def test_every_text_comes_back_translated_and_the_program_reads_it(name: str, seed: int) -> None:
    make, found = KINDS[name]
    content, put = make(Draw(seed))
    options: dict[str, Any] = {"columns": "text"} if name == "a.csv" else {}
    document = read(name, content, "fr", source="en", **options)
    assert sorted(found(shouted(document))) == sorted(sentence.upper() for sentence in put)
