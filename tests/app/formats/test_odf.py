"""OpenDocument files, as odfpy writes and reads them: only the text of paragraphs changes."""

from __future__ import annotations

import io
import re
from html import escape
from typing import Any

import pytest
from odf import dc, draw, office, opendocument, presentation, style, svg, table, teletype, text
from office_packages import canonical, changed_parts, parts_of, with_parts

from app.formats import UnreadableDocument, read
from tests.app.formats.test_formats import as_it_was, shouted, texts


def saved(document: Any) -> bytes:
    packed = io.BytesIO()
    document.write(packed)
    return packed.getvalue()


def paragraph(*content: Any, kind: Any = text.P, **attributes: Any) -> Any:
    """A paragraph of strings and elements."""
    made = kind(**attributes)
    for each in content:
        if isinstance(each, str):
            teletype.addTextToElement(made, each)
        else:
            made.addElement(each)
    return made


def text_document() -> bytes:
    """A text with all that may be in a paragraph, or around one."""
    made = opendocument.OpenDocumentText()
    made.meta.addElement(dc.Title(text="Not for readers"))
    bold = style.Style(name="Bold", family="text")
    bold.addElement(style.TextProperties(fontweight="bold"))
    unseen = style.Style(name="T1", family="text")
    unseen.addElement(style.TextProperties(language="en", country="GB"))
    for each in (bold, unseen):
        made.automaticstyles.addElement(each)
    page = style.PageLayout(name="Page")
    made.automaticstyles.addElement(page)
    master = style.MasterPage(name="Standard", pagelayoutname=page)
    header = style.Header()
    header.addElement(paragraph("A header"))
    master.addElement(header)
    made.masterstyles.addElement(master)

    body = made.text
    body.addElement(paragraph("Cats & dogs", kind=text.H, outlinelevel=1))
    body.addElement(paragraph())
    link = text.A(href="https://example.org/", type="simple")
    link.addText("a link")
    note = text.Note(noteclass="footnote")
    note.addElement(text.NoteCitation(text="1"))
    inside = text.NoteBody()
    inside.addElement(paragraph("A note"))
    note.addElement(inside)
    body.addElement(
        paragraph(
            "The ",
            text.Span(stylename=bold, text="black"),
            " c",
            text.Span(stylename=unseen, text="at"),
            " of ",
            link,
            note,
            " on page ",
            text.PageNumber(text="7"),
            " sleeps\ttwice\nhere   now 🎉",
        )
    )
    body.addElement(paragraph("مرحبا hello"))
    items = text.List()
    item = text.ListItem()
    item.addElement(paragraph("An item"))
    items.addElement(item)
    body.addElement(items)
    cells = table.Table(name="Table")
    for row in (["Merged", None], ["Name", "Age"]):
        line = table.TableRow()
        for cell in row:
            spanned = table.TableCell(numbercolumnsspanned=2) if row[1] is None else table.TableCell()
            made_cell = spanned if cell else table.CoveredTableCell()
            if cell:
                made_cell.addElement(paragraph(cell))
            line.addElement(made_cell)
        cells.addElement(line)
    body.addElement(cells)
    frame = draw.Frame(anchortype="as-char", width="1cm", height="1cm")
    frame.addElement(draw.Image(href=made.addPictureFromString(b"no picture", "image/png"), type="simple"))
    frame.addElement(svg.Title(text="A black cat"))
    box = draw.Frame(anchortype="paragraph", width="1cm", height="1cm")
    shape = draw.TextBox()
    shape.addElement(paragraph("In a box"))
    box.addElement(shape)
    comment = office.Annotation()
    comment.addElement(paragraph("A comment"))
    body.addElement(paragraph("Look ", frame, " here", box, comment))
    return saved(made)


def spreadsheet() -> bytes:
    """A sheet with texts, numbers, formulas and cells that are repeated absurdly often."""
    made = opendocument.OpenDocumentSpreadsheet()
    sheet = table.Table(name="Animals")

    def cell(shown: str, repeated: int | None = None, **attributes: Any) -> Any:
        found = table.TableCell(**attributes)
        if repeated:
            found.setAttribute("numbercolumnsrepeated", repeated)
        found.addElement(paragraph(shown))
        return found

    rows = [
        [cell("Merged cells", valuetype="string", numbercolumnsspanned=3), table.CoveredTableCell()],
        [
            cell("Cats & dogs", valuetype="string"),
            cell("twelve", valuetype="float", value="12"),
            cell("a date", valuetype="date", datevalue="2024-01-01"),
            cell("yes", valuetype="string", formula='of:=IF([.B2]>1;"yes";"no")'),
            cell("stated", valuetype="string", stringvalue="stated"),
        ],
        [cell("again", 1_000_000_000, valuetype="string"), table.TableCell(numbercolumnsrepeated=2_000_000_000)],
    ]
    for cells in rows:
        row = table.TableRow(numberrowsrepeated=1_000_000_000) if len(cells) == 2 else table.TableRow()
        for each in cells:
            row.addElement(each)
        sheet.addElement(row)
    made.spreadsheet.addElement(sheet)
    return saved(made)


def slides() -> bytes:
    """Slides with notes, a table, and a master page with text."""
    made = opendocument.OpenDocumentPresentation()
    layout = style.PageLayout(name="Page")
    made.automaticstyles.addElement(layout)
    master = style.MasterPage(name="Master", pagelayoutname=layout)

    def frame(*shown: str, **attributes: Any) -> Any:
        found, box = draw.Frame(width="9cm", height="3cm", **attributes), draw.TextBox()
        for each in shown:
            box.addElement(paragraph(each))
        found.addElement(box)
        return found

    master.addElement(frame("Click to edit"))
    made.masterstyles.addElement(master)
    made.presentation.addElement(presentation.FooterDecl(name="ftr1", text="A footer"))
    page = draw.Page(masterpagename=master, name="page1")
    page.addElement(frame("A talk", "of two lines"))
    notes = presentation.Notes()
    notes.addElement(frame("Greet everybody"))
    page.addElement(notes)
    made.presentation.addElement(page)
    second = draw.Page(masterpagename=master, name="page2")
    second.addElement(frame("2024", "The end"))
    made.presentation.addElement(second)
    return saved(made)


TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
ODT, ODS, ODP = text_document(), spreadsheet(), slides()
DOCUMENTS = {".odt": ODT, ".ods": ODS, ".odp": ODP}
each_kind = pytest.mark.parametrize("suffix", DOCUMENTS)


def shown(content: bytes) -> list[tuple[str, list[str]]]:
    """The paragraphs and headings that odfpy finds, with the elements in them, except spans that one does not see."""
    found = opendocument.load(io.BytesIO(content))
    listed = [*found.getElementsByType(text.H), *found.getElementsByType(text.P)]
    return [
        (
            teletype.extractText(each),
            [
                child.qname[1]
                for child in each.childNodes
                if hasattr(child, "qname") and child.attributes.get((TEXT, "style-name")) != "T1"
            ],
        )
        for each in listed
    ]


def test_texts_are_read_in_order() -> None:
    assert texts(read("a.odt", ODT)) == [
        "Cats & dogs",
        "The black cat of a link on page {x} sleeps\ttwice\nhere now 🎉",
        "A note",
        "مرحبا hello",
        "An item",
        "Merged",
        "Name",
        "Age",
        "Look \ufffc here",
        "A black cat",
        "In a box",
        "A header",
    ]
    assert texts(read("a.ods", ODS)) == ["Merged cells", "Cats & dogs", "stated", "again"]
    assert texts(read("a.odp", ODP)) == ["A footer", "A talk", "of two lines", "Greet everybody", "The end"]


def test_only_spans_that_one_sees_are_tags() -> None:
    passage = read("a.odt", ODT).passages[1]
    pairs = [tag for tag in passage.tags if tag.kind != "mark"]
    assert [(tag.kind, tag.at) for tag in pairs] == [("open", 4), ("close", 9), ("open", 17), ("close", 23)]
    assert [passage.text[each.start : each.end] for each in passage.protected] == ["{x}"]


@each_kind
def test_unchanged_texts_reproduce_every_part_byte_for_byte(suffix: str) -> None:
    content = DOCUMENTS[suffix]
    assert not changed_parts(content, as_it_was(read(f"a{suffix}", content)))


@each_kind
def test_the_type_stays_the_first_part_and_uncompressed(suffix: str) -> None:
    content = DOCUMENTS[suffix]
    written = shouted(read(f"a{suffix}", content))
    end = 38 + len(parts_of(content)["mimetype"])
    assert written[30:end] == content[30:end] == b"mimetype" + parts_of(content)["mimetype"]


@each_kind
def test_only_texts_change_as_odfpy_sees_them(suffix: str) -> None:
    content = DOCUMENTS[suffix]
    document = read(f"a{suffix}", content)
    written = shouted(document)
    assert changed_parts(content, written) == {"content.xml"} | ({"styles.xml"} if suffix == ".odt" else set())
    kept = {"twelve", "a date", "yes", "Click to edit", "2024"}
    loud = {each: each.upper().replace("A COMMENT", "A comment") for each, _ in shown(content) if each not in kept}
    expected = [(loud.get(each, each), children) for each, children in shown(content)]
    assert shown(written) == expected


@pytest.mark.parametrize("suffix", [".ods", ".odp"])
def test_no_other_node_of_the_content_changes(suffix: str) -> None:
    content = DOCUMENTS[suffix]
    before, after = (parts_of(each)["content.xml"] for each in (content, shouted(read(f"a{suffix}", content))))
    for old in texts(read(f"a{suffix}", content)):
        before = before.replace(f">{escape(old)}<".encode(), f">{escape(old.upper())}<".encode())
    before = before.replace(b'string-value="stated"', b'string-value="STATED"')
    assert canonical(before) == canonical(after)


BODY = re.compile("(<office:text[^>]*>)(.*)(</office:text>)", re.DOTALL)


def body(content: str) -> bytes:
    """The text document with this content."""
    part = parts_of(ODT)["content.xml"].decode()
    return with_parts(ODT, {"content.xml": BODY.sub(lambda found: found[1] + content + found[3], part)})


def written_body(content: bytes) -> str:
    found = BODY.search(parts_of(content)["content.xml"].decode())
    assert found
    return found[2]


SPAN = '<text:span text:style-name="Bold">{}</text:span>'


def test_moved_words_keep_their_formatting() -> None:
    document = read("a.odt", body(f"<text:p>black {SPAN.format('cat')}</text:p>"))
    opening, closing = (tag.raw for tag in document.passages[0].tags)
    written = document.write([f"{opening}chat{closing} noir", *texts(document)[1:]])
    assert written_body(written) == f"<text:p>{SPAN.format('chat')} noir</text:p>"


@pytest.mark.parametrize(
    ("content", "shown_text"),
    [
        ('a<text:s text:c="3"/>b', "a b"),
        ('a <text:s text:c="1000000000"/>b', "a b"),
        ("a<text:tab/>b<text:line-break/>c", "a\tb\nc"),
        ("\n  a\n   b", "a b"),
        ('a <text:bookmark text:name="x"/>b', "a b"),
        ('on <text:date text:fixed="true">1 May</text:date> we', "on {x} we"),
        (
            "<text:ruby><text:ruby-base>猫</text:ruby-base><text:ruby-text>ねこ</text:ruby-text></text:ruby>です",
            "猫です",
        ),
        ("<text:span>a <text:span>b</text:span></text:span>", "a b"),
        ("a<!-- c -->b<?p i?>c", "abc"),
    ],
)
def test_text_is_read_as_it_is_displayed(content: str, shown_text: str) -> None:
    source = body(f"<text:p>{content}</text:p>")
    document = read("a.odt", source)
    assert document.passages[0].text == shown_text
    assert not changed_parts(source, as_it_was(document))
    again = read("a.odt", shouted(document))
    assert again.passages[0].text == shown_text.upper().replace("{X}", "{x}")


def test_white_space_that_xml_would_lose_is_encoded() -> None:
    document = read("a.odt", body("<text:p>one two three</text:p>"))
    written = document.write(["un   deux\ttrois\nquatre", *texts(document)[1:]])
    expected = '<text:p>un <text:s text:c="2"/>deux<text:tab/>trois<text:line-break/>quatre</text:p>'
    assert written_body(written) == expected


def test_deleted_text_and_links_around_pictures_stay() -> None:
    content = (
        "<text:tracked-changes><text:changed-region><text:deletion><text:p>gone</text:p></text:deletion>"
        "</text:changed-region></text:tracked-changes><text:p>here</text:p>"
    )
    assert texts(read("a.odt", body(content)))[0] == "here"


@pytest.mark.parametrize(
    ("suffix", "parts", "fault"),
    [
        (".odt", {"content.xml": None}, "not .odt: it has no part 'content.xml'"),
        (".odt", {"mimetype": None}, "not .odt: it has no part 'mimetype'"),
        (".ods", {"mimetype": "application/vnd.oasis.opendocument.text"}, "not .ods: its type is 'application/vnd"),
        (".odt", {"styles.xml": "<a"}, "The part styles.xml is not well-formed"),
        (".odp", {"META-INF/manifest.xml": "<a><manifest:encryption-data/></a>"}, "password-protected"),
    ],
)
def test_broken_document_is_refused(suffix: str, parts: dict[str, str | None], fault: str) -> None:
    with pytest.raises(UnreadableDocument, match=fault):
        read(f"a{suffix}", with_parts(DOCUMENTS[suffix], parts))
