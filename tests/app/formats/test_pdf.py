"""PDFs with a text layer: paragraphs in reading order, and a page of HTML; scans and hostile files are refused."""

from __future__ import annotations

import asyncio
import base64
import io
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from lxml import html
from pdfminer.psparser import PSLiteralTable
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import BaseDocTemplate, Frame, PageBreak, PageTemplate, Paragraph, Spacer

from app import formats
from app.documents.messages import File, Read, Texts
from app.documents.processes import DocumentProcesses
from app.errors import InvalidFields
from app.formats import Document, UnreadableDocument, pdf_layout, pdf_text
from app.formats.pdf import Block, paragraphs

pytestmark = pytest.mark.slow

STYLES = getSampleStyleSheet()
FIRST = (
    "The cat sleeps on the table because the table is warm, and nobody in the house has the heart to wake it up before "
    "the evening comes and the lamps are lit."
)
SECOND = "The second paragraph is short & has <signs>."


def made(parts: Sequence[Any], columns: int = 1, head: str = "") -> bytes:
    """A PDF of paragraphs, each with the name of a style and a text, and of other parts."""
    width, height = A4
    column = (width - 100) / columns
    frames = [Frame(50 + number * column, 60, column - 10, height - 140) for number in range(columns)]

    def draw(canvas: Any, template: Any) -> None:
        canvas.setFont("Helvetica", 9)
        if head:
            canvas.drawString(50, height - 40, f"{head} {template.page}")
        canvas.drawString(width / 2, 30, str(template.page))

    out = io.BytesIO()
    document = BaseDocTemplate(out, pagesize=A4)
    document.addPageTemplates([PageTemplate(frames=frames, onPage=draw)])
    story = []
    for part in parts:
        if isinstance(part, tuple):
            style, text = part
            escaped = text.replace("&", "&amp;").replace("<", "&lt;")
            story += [Paragraph(escaped, STYLES[style]), Spacer(1, 12)]
        else:
            story.append(part)
    document.build(story)
    return out.getvalue()


def read(content: bytes) -> Document:
    return formats.read("report.pdf", content, "fr")


def texts(content: bytes) -> list[str]:
    return [passage.text for passage in read(content).passages]


def test_paragraphs_and_headings_are_passages_on_one_line() -> None:
    content = made([("Title", "A report"), ("Normal", FIRST), ("Heading2", "Details"), ("Normal", SECOND)])
    assert texts(content) == ["A report", FIRST, "Details", SECOND]


def test_page_of_html_has_the_translations_and_says_what_it_is() -> None:
    document = read(made([("Title", "A report"), ("Normal", FIRST), ("Normal", "2026"), ("Normal", SECOND)]))
    page = document.write(["Titre", *(passage.write(passage.text.upper()) for passage in document.passages[1:])])
    tree: Any = html.fromstring(page)
    assert tree.get("lang") == "fr"
    assert [(element.tag, element.text_content()) for element in tree.iter("h1", "h2", "p")] == [
        ("p", "Text of a PDF in reading order, without its pictures and layout."),
        ("h1", "Titre"),
        ("p", FIRST.upper()),
        ("p", SECOND.upper()),
    ]
    assert document.media_type == "text/html"
    assert formats.translated_name("report.PDF", "fr") == "report.fr.html"


def test_columns_are_read_one_after_the_other() -> None:
    parts = [("Normal", f"Paragraph {number} of the text. {FIRST}") for number in range(24)]
    found = [text for text in texts(made(parts, columns=2)) if text.startswith("Paragraph")]
    assert [int(text.split()[1]) for text in found] == list(range(24))


def test_running_heads_and_page_numbers_are_left_out() -> None:
    pages = [part for number in range(4) for part in (("Normal", f"This is page text {'abcd'[number]}."), PageBreak())]
    found = texts(made(pages, head="The annual report"))
    assert found == [f"This is page text {letter}." for letter in "abcd"]


def test_locations_are_pages() -> None:
    document = read(made([("Normal", FIRST), PageBreak(), ("Normal", SECOND)]))
    assert [location.name for location in document.locations] == ["page 1", "page 2"]


def test_chinese_lines_are_joined_without_spaces() -> None:
    pdfmetrics.registerFont(UnicodeCIDFont("STSong-Light"))
    out = io.BytesIO()
    canvas = Canvas(out)
    canvas.setFont("STSong-Light", 12)
    lines = "北京是中国的首都也是全国", "的政治中心和文化中心。"
    for number, line in enumerate(lines):
        canvas.drawString(50, 700 - 15 * number, line)
    canvas.save()
    assert texts(out.getvalue()) == ["".join(lines)]


@pytest.mark.parametrize(
    ("found", "joined"),
    [
        (["a sen-\ntence"], ["a sentence"]),
        (["the Anglo-\nSaxon"], ["the Anglo-Saxon"]),
        (["a page ends", "in a sentence."], ["a page ends in a sentence."]),
        (["It ends.", "another"], ["It ends.", "another"]),
        (["a word is bro-", "ken here."], ["a word is broken here."]),
        (["e\ufb03cient \ufb02ow"], ["efficient flow"]),
        (["12", " "], []),
        (["Fruit:\n\u2022 apples\nand pears\n\u2022 plums"], ["Fruit:", "\u2022 apples and pears", "\u2022 plums"]),
    ],
)
def test_lines_and_blocks_are_joined_where_a_sentence_goes_on(found: list[str], joined: list[str]) -> None:
    assert [block.text for block in paragraphs([Block(1, 10.0, text) for text in found])] == joined


def test_blocks_of_other_letters_are_not_joined() -> None:
    blocks = [Block(1, 18.0, "A heading"), Block(1, 10.0, "and its text.")]
    assert [block.text for block in paragraphs(blocks)] == ["A heading", "and its text."]


def test_scan_is_refused_by_name() -> None:
    out = io.BytesIO()
    canvas = Canvas(out)
    canvas.rect(50, 50, 300, 300, fill=1)
    canvas.save()
    with pytest.raises(UnreadableDocument, match="it is a scan"):
        read(out.getvalue())


def test_encrypted_file_is_refused_by_name() -> None:
    out = io.BytesIO()
    canvas = Canvas(out, encrypt="secret")
    canvas.drawString(50, 700, "Hello.")
    canvas.save()
    with pytest.raises(UnreadableDocument, match="is encrypted"):
        read(out.getvalue())


@pytest.mark.parametrize(
    "content", [b"", b"%PDF-1.7\n", b"<html>", b"%PDF-1.4\n1 0 obj\n<<>>\nendobj\ntrailer <</Root 1 0 R>>"]
)
def test_what_is_no_pdf_is_refused_in_one_line(content: bytes) -> None:
    with pytest.raises(UnreadableDocument, match=r"^[^\n]+$"):
        read(content)


def test_damaged_files_are_read_or_refused() -> None:
    content = made([("Normal", FIRST)])
    for cut in range(0, len(content), max(1, len(content) // 12)):
        damaged = content[:cut] + bytes(reversed(content[cut : cut + 40])) + content[cut + 40 :]
        try:
            document = read(damaged)
        except UnreadableDocument:
            continue
        assert document.write([passage.write(passage.text) for passage in document.passages])


@pytest.fixture(scope="module")
def served() -> Iterator[Callable[[bytes], object]]:
    """Reads a PDF as the service does: in a process, with the memory of a small document."""
    with asyncio.Runner() as runner:
        documents = DocumentProcesses()
        yield lambda content: runner.run(documents.run(Read(File("report.pdf", content, "fr", "en", 50_000)), ""))
        runner.run(documents.stop())


TOO_MUCH = pytest.raises(InvalidFields, match=r"takes too much (?:work|memory)")


@pytest.mark.parametrize(
    ("content", "filters"),
    [
        (zlib.compress(b"BT /F1 12 Tf (" + b"a" * (3 << 20) + b") Tj ET"), "/FlateDecode"),
        (zlib.compress(zlib.compress(b"BT (" + b"a" * (32 << 20) + b") Tj ET")), "/FlateDecode/FlateDecode"),
        (zlib.compress(b"\x81a" * 1_000_000), "/FlateDecode/RunLengthDecode"),
        (zlib.compress(b"z" * 6_000_000), "/FlateDecode/ASCII85Decode"),
        (zlib.compress(b" " * 6_000_000), "/FlateDecode/ASCII85Decode"),
        (zlib.compress(b"\x80" + b"\x00" * 3_000_000), "/FlateDecode/LZWDecode"),
    ],
)
def test_stream_that_unpacks_to_megabytes_is_refused(
    served: Callable[[bytes], object], content: bytes, filters: str
) -> None:
    with TOO_MUCH:
        served(_with_packed(content, filters.encode()))


def test_filters_are_read() -> None:
    drawn = b"BT /F1 12 Tf 50 700 Td (Hello there.) Tj ET"
    literal = bytes([len(drawn) - 1]) + drawn + b"\x80"
    chains = {
        b"": drawn,
        b"/FlateDecode": zlib.compress(drawn),
        b"/FlateDecode ": zlib.compress(drawn)[:-2],  # a checksum that was cut off
        b"/ASCIIHexDecode": drawn.hex().encode() + b">",
        b"/ASCII85Decode": b"<~" + base64.a85encode(drawn) + b"~>\n",
        b"/RunLengthDecode": literal,
        b"/ASCII85Decode/FlateDecode/RunLengthDecode": base64.a85encode(zlib.compress(literal)) + b"~>",
    }
    assert [texts(_with_packed(content, filters)) for filters, content in chains.items()] == 7 * [["Hello there."]]


@pytest.mark.parametrize(
    ("font", "more"),
    [
        (b"<</Type/Font/Subtype/Type0/Encoding/Identity-H/DescendantFonts[6 0 R]>>", b"/W[0 999999999 500]"),
        (b"<</Type/Font/Subtype/Type0/Encoding/Identity-H/ToUnicode 7 0 R/DescendantFonts[6 0 R]>>", b""),
        (b"<</Type/Font/Subtype/Type1/ToUnicode 7 0 R>>", b""),
        (b"5 0 R", b""),
        (b"<</Type/Font/Subtype/Type1/Widths 8 0 R>>", b""),
    ],
)
def test_ranges_and_references_that_a_file_only_names_are_not_filled_in(
    served: Callable[[bytes], object], font: bytes, more: bytes
) -> None:
    letters = b"1 beginbfrange <00000000> <7fffffff> <0041> endbfrange"
    page = _with_objects(
        b"BT /F1 12 Tf (Hello there.) Tj ET",
        font,
        b"<</Type/Font/Subtype/CIDFontType2/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)>>%s>>" % more,
        b"<</Length %d>>stream\n%s\nendstream" % (len(letters), letters),
        *(b"[%d 0 R %d 0 R]" % (number, number) for number in range(9, 60)),
    )
    with TOO_MUCH:
        served(page)


def test_letter_that_stands_for_a_book_is_refused(served: Callable[[bytes], object]) -> None:
    letters = b"1 beginbfchar <41> <%s> endbfchar" % (b"0041" * 10_000)
    page = _with_objects(
        b"BT /F1 12 Tf (%s) Tj ET" % (b"A" * 10_000),
        b"<</Type/Font/Subtype/Type1/FirstChar 65/Widths[500]/ToUnicode 6 0 R>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(letters), letters),
    )
    with TOO_MUCH:
        served(page)


def test_page_of_thousands_of_words_apart_is_read() -> None:
    """Each is a block, of which the library compares each pair."""
    words = [b"1 0 0 1 %d %d Tm (word) Tj " % (10 * (number % 60), 5 * (number // 60)) for number in range(2_400)]
    page = _with_objects(b"BT /F1 1 Tf %s ET" % b"".join(words), b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>")
    assert len(pdf_text.blocks(page)) == len(words)


@pytest.mark.parametrize("count", [1, 60, 600])
def test_paragraphs_of_one_sentence_are_within_their_budget(served: Callable[[bytes], object], count: int) -> None:
    """No prose has fewer bytes for its letters."""
    read_texts = served(made([("Normal", FIRST)] * count))
    assert isinstance(read_texts, Texts) and len(read_texts.units) >= count


def test_order_above_the_number_of_compared_blocks_is_that_of_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    content = made([("Normal", FIRST), ("Heading2", "Details"), ("Normal", SECOND)])
    expected = texts(content)
    monkeypatch.setattr(pdf_layout, "_MAX_COMPARED", 0)
    assert texts(content) == expected


def test_names_of_a_file_are_forgotten() -> None:
    before = len(PSLiteralTable.dict)
    texts(_with_objects(b"BT /F1 12 Tf (Hello.) Tj ET /Unheard-of gs", b"<</Subtype/Type1/BaseFont/Helvetica>>"))
    assert len(PSLiteralTable.dict) == before


def _with_packed(content: bytes, filters: bytes) -> bytes:
    """A PDF whose one page draws `content`, which has these filters."""
    return _with_objects(content, b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>", filters=filters)


def _with_objects(drawn: bytes, font: bytes, *others: bytes, filters: bytes = b"") -> bytes:
    """A PDF of one page with a font, object 5, and other objects from 6."""
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Filter[%s]/Length %d>>\nstream\n%s\nendstream" % (filters, len(drawn), drawn),
        font,
        *others,
    ]
    out, places = io.BytesIO(), []
    out.write(b"%PDF-1.4\n")
    for number, body in enumerate(objects, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, body))
    start = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    out.write(b"".join(b"%010d 00000 n \n" % place for place in places))
    out.write(b"trailer<</Root 1 0 R/Size %d>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, start))
    return out.getvalue()


def test_page_tree_that_contains_itself_ends() -> None:
    content = _with_objects(b"BT ET", b"<<>>").replace(b"/Kids[3 0 R]", b"/Kids[2 0 R]")
    with pytest.raises(UnreadableDocument):
        read(content)


def test_library_is_loaded_with_the_first_pdf() -> None:
    """It takes 0.2 s."""
    program = "import sys, app.formats.pdf; sys.exit('pdfminer' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("i" * 200_000 + "z", "i" * 200_000 + "z"),
        ("a" + "\n" * 200_000 + "z", "a z"),
        ("\u5317" + "\n" * 100_000 + "a", "\u5317 a"),
        ("\u5317" + "\n" * 100_000 + "\u4eac", "\u5317\u4eac"),
    ],
)
def test_long_runs_in_a_block_are_searched_once(text: str, shown: str) -> None:
    assert [block.text for block in paragraphs([Block(1, 10.0, text)])] == [shown]


def test_many_blocks_of_one_sentence_are_joined_once() -> None:
    (block,) = paragraphs([Block(1, 10.0, "and so on" * 100)] * 10_000)
    assert len(block.text) == 10_000 * 901 - 1
