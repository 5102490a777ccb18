"""PDFs with a text layer: paragraphs in reading order, and a page of HTML; scans and hostile files are refused."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zlib
from collections.abc import Sequence
from typing import Any

import pytest
from lxml import html
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import BaseDocTemplate, Frame, PageBreak, PageTemplate, Paragraph, Spacer

from app import formats
from app.formats import Document, UnreadableDocument, pdf_text
from app.formats.pdf import Block, paragraphs

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


def test_file_that_takes_too_long_or_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf_text, "MAX_SECONDS", 1e-4)
    with pytest.raises(UnreadableDocument, match="too long or too much memory"):
        read(made([("Normal", FIRST)]))


def test_program_sets_its_limits_itself() -> None:
    """A megabyte of zeros that unpacks to a gigabyte."""
    limit = "import app.formats.pdf_text as t; t.MAX_BYTES = 400 << 20; t.MAX_SECONDS = 30; t.main()"
    bomb = _with_stream(b"BT (" + b"a" * (800 << 20) + b") Tj ET")
    done = subprocess.run([sys.executable, "-c", limit], input=bomb, capture_output=True, check=False)
    assert done.returncode or json.loads(done.stdout).keys() == {"fault"}


def _with_stream(content: bytes) -> bytes:
    """A PDF whose one page draws `content`, compressed."""

    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(content[at : at + (1 << 20)]) for at in range(0, len(content), 1 << 20))
    packed += packer.flush()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<<>>>>",
        b"<</Filter/FlateDecode/Length %d>>\nstream\n%s\nendstream" % (len(packed), packed),
    ]
    out, places = io.BytesIO(), []
    out.write(b"%PDF-1.4\n")
    for number, body in enumerate(objects, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, body))
    start = out.tell()
    out.write(b"xref\n0 5\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % place for place in places))
    out.write(b"trailer<</Root 1 0 R/Size 5>>\nstartxref\n%d\n%%%%EOF" % start)
    return out.getvalue()


def test_page_tree_that_contains_itself_ends() -> None:
    content = _with_stream(b"BT ET").replace(b"/Kids[3 0 R]", b"/Kids[2 0 R]")
    with pytest.raises(UnreadableDocument):
        read(content)


def test_reader_needs_no_library_in_its_own_process() -> None:
    """The library, which takes 0.2 s to load, and the file are the program's."""
    program = "import sys, app.formats.pdf; sys.exit('pdfminer' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
