"""PowerPoint presentations, as python-pptx writes and reads them: only the text of slides and notes changes."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from lxml import etree
from office_packages import canonical, changed_parts, parts_of, with_parts
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.dml.color import RGBColor
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches, Pt

from app.formats import UnreadableDocument, drawing_text, read, run_formats
from tests.app.formats.test_formats import as_it_was, shouted, texts

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001"
    "a5f645400000000049454e44ae426082"
)
A = "http://schemas.openxmlformats.org/drawingml/2006/main"


def presentation() -> bytes:
    """Slides with all that python-pptx can put there."""
    made = Presentation()
    made.core_properties.title, made.core_properties.author = "A talk about cats", "Ann"
    made.core_properties.comments = ""
    first = made.slides.add_slide(made.slide_layouts[0])
    first.shapes.title.text = "Cats & dogs"
    first.placeholders[1].text = "A talk\vof two lines"
    first.notes_slide.notes_text_frame.text = "Greet everybody.\nThen begin 🎉"

    second = made.slides.add_slide(made.slide_layouts[1])
    second.shapes.title.text = "2024"
    frame = second.placeholders[1].text_frame
    paragraph = frame.paragraphs[0]
    for text, bold, link in [("The ", None, None), ("black", True, None), (" cat ", None, None), ("here", None, "h")]:
        run = paragraph.add_run()
        run.text, run.font.bold = text, bold
        if link:
            run.hyperlink.address = "https://example.org/"
    frame.add_paragraph()
    coloured = frame.add_paragraph()
    coloured.level, run = 1, coloured.add_run()
    run.text, run.font.size, run.font.color.rgb = "All in red", Pt(20), RGBColor(255, 0, 0)
    arabic = frame.add_paragraph()
    arabic.text = "مرحبا hello"
    arabic._p.get_or_add_pPr().set("rtl", "1")

    third = made.slides.add_slide(made.slide_layouts[5])
    third.shapes.title.text = "A table"
    table = third.shapes.add_table(3, 2, Inches(1), Inches(2), Inches(6), Inches(2)).table
    for row, cells in enumerate([("Merged", ""), ("Name", "Age"), ("Tom", "7")]):
        for column, text in enumerate(cells):
            table.cell(row, column).text = text
    table.cell(0, 0).merge(table.cell(0, 1))
    data = CategoryChartData()
    data.categories = ["East", "West"]
    data.add_series("Sales", (1, 2))
    third.shapes.add_chart(XL_CHART_TYPE.PIE, Inches(1), Inches(4), Inches(4), Inches(3), data)
    picture = third.shapes.add_picture(io.BytesIO(PNG), 0, 0)
    picture._element.nvPicPr.cNvPr.set("descr", "A black cat")
    group = third.shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, Inches(1), Inches(1)).text_frame.text = "In a group"
    packed = io.BytesIO()
    made.save(packed)
    return packed.getvalue()


CONTENT = presentation()
CHANGED = {"ppt/slides/slide1.xml", "ppt/slides/slide2.xml", "ppt/slides/slide3.xml", "ppt/notesSlides/notesSlide1.xml"}


def shown(content: bytes) -> list[Any]:
    """All that python-pptx tells about the shapes of each slide, except texts in upper case."""

    def of_frame(frame: Any) -> list[Any]:
        return [
            (
                each.level,
                each.alignment,
                [
                    (run.text.upper(), run.font.bold, run.font.size, run.font.color.type, run.hyperlink.address)
                    for run in each.runs
                ],
            )
            for each in frame.paragraphs
        ]

    def of_shape(shape: Any) -> list[Any]:
        found: list[Any] = [shape.shape_type, shape.name, shape.left, shape.top, shape.width, shape.height]
        if shape.has_text_frame:
            found.append(of_frame(shape.text_frame))
        if getattr(shape, "has_table", False):
            found += [
                (cell.is_merge_origin, cell.is_spanned, of_frame(cell.text_frame)) for cell in shape.table.iter_cells()
            ]
        if getattr(shape, "has_chart", False):
            found += [list(plot.categories) for plot in shape.chart.plots]
        return found + [of_shape(each) for each in getattr(shape, "shapes", ())]

    made = Presentation(io.BytesIO(content))
    return [
        (
            slide.slide_layout.name,
            [of_shape(shape) for shape in slide.shapes],
            of_frame(slide.notes_slide.notes_text_frame) if slide.has_notes_slide else None,
        )
        for slide in made.slides
    ]


def test_slides_notes_and_tables_are_read_in_order() -> None:
    document = read("a.pptx", CONTENT)
    assert texts(document) == [
        "Cats & dogs",
        "A talk\nof two lines",
        "Greet everybody.",
        "Then begin 🎉",
        "The black cat here",
        "All in red",
        "مرحبا hello",
        "A table",
        "Merged",
        "Name",
        "Age",
        "Tom",
        "In a group",
        "A black cat",
        "A talk about cats",
    ]
    assert [str(location) for location in document.locations[1:4]] == [
        "slide 1, paragraph 2",
        "slide 1, notes, paragraph 1",
        "slide 1, notes, paragraph 2",
    ]
    assert len(document.passages[4].tags) == 4
    assert not document.passages[5].tags


def test_unchanged_texts_reproduce_every_part_byte_for_byte() -> None:
    assert not changed_parts(CONTENT, as_it_was(read("a.pptx", CONTENT)))


def test_only_texts_change_as_python_pptx_sees_them() -> None:
    written = shouted(read("a.pptx", CONTENT))
    assert changed_parts(CONTENT, written) == {*CHANGED, "docProps/core.xml"}
    assert shown(written) == shown(CONTENT)
    made = Presentation(io.BytesIO(written))
    assert made.core_properties.title == "A TALK ABOUT CATS"
    assert made.slides[0].shapes.title.text == "CATS & DOGS"
    assert made.slides[0].placeholders[1].text == "A TALK\vOF TWO LINES"
    assert made.slides[0].notes_slide.notes_text_frame.text == "GREET EVERYBODY.\nTHEN BEGIN 🎉"
    assert made.slides[2].shapes[1].table.cell(0, 0).text == "MERGED"


@pytest.mark.parametrize("name", sorted(CHANGED))
def test_no_other_node_of_a_changed_part_changes(name: str) -> None:
    before, after = parts_of(CONTENT)[name], parts_of(shouted(read("a.pptx", CONTENT)))[name]
    before = before.replace(b'descr="A black cat"', b'descr="A BLACK CAT"')
    kept = re.sub(rb"<a:fld.*?</a:fld>", b"", before)
    assert canonical(kept, str.upper, ["t"]) == canonical(re.sub(rb"<a:fld.*?</a:fld>", b"", after))
    assert re.findall(rb"<a:fld.*?</a:fld>", before) == re.findall(rb"<a:fld.*?</a:fld>", after)


def slide(body: str) -> bytes:
    """The presentation, whose first slide has paragraphs with these contents."""
    name = "ppt/slides/slide1.xml"
    root = etree.fromstring(parts_of(CONTENT)[name])
    text_body = next(root.iter("{*}txBody"))
    for paragraph in text_body.findall(f"{{{A}}}p"):
        text_body.remove(paragraph)
    for paragraph in etree.fromstring(f'<x xmlns:a="{A}">{body}</x>'):
        text_body.append(paragraph)
    return with_parts(CONTENT, {name: etree.tostring(root)})


def paragraphs(content: bytes) -> str:
    """The first slide's paragraphs in its first shape, as lxml writes them."""
    text_body = next(etree.fromstring(parts_of(content)["ppt/slides/slide1.xml"]).iter("{*}txBody"))
    found = "".join(etree.tostring(each, encoding="unicode") for each in text_body.findall(f"{{{A}}}p"))
    return re.sub(r' xmlns:\w+="[^"]*"', "", found)


FIELD = '<a:fld id="{B}" type="slidenum"><a:rPr lang="en-GB"/><a:t>7</a:t></a:fld>'
END = '<a:endParaRPr lang="en-GB" dirty="0"/>'


def test_field_is_a_value_of_its_sentence() -> None:
    source = f'<a:p><a:pPr algn="ctr"/><a:r><a:t>Slide </a:t></a:r>{FIELD}<a:r><a:t> of ten</a:t></a:r>{END}</a:p>'
    document = read("a.pptx", slide(source))
    assert document.passages[0].text == "Slide {x} of ten"
    assert paragraphs(shouted(document)) == source.replace("Slide", "SLIDE").replace("of ten", "OF TEN")


def test_runs_that_look_the_same_are_one_text() -> None:
    runs = (
        '<a:r><a:rPr lang="en-GB" dirty="0"/><a:t>A sen</a:t></a:r>'
        '<a:r><a:rPr lang="de-DE" err="1"/><a:t>tence.</a:t></a:r>'
    )
    document = read("a.pptx", slide(f"<a:p>{runs}{END}</a:p>"))
    assert (document.passages[0].text, document.passages[0].tags) == ("A sentence.", ())
    expected = f'<a:p><a:r><a:rPr lang="en-GB" dirty="0"/><a:t>A SENTENCE.</a:t></a:r>{END}</a:p>'
    assert paragraphs(shouted(document)) == expected


def test_moved_words_keep_their_formatting_and_lines_their_breaks() -> None:
    source = (
        '<a:p><a:r><a:t>black </a:t></a:r><a:r><a:rPr b="1"/><a:t>cat</a:t></a:r>'
        '<a:br><a:rPr sz="800"/></a:br><a:r><a:t>below</a:t></a:r></a:p>'
    )
    document = read("a.pptx", slide(source))
    opening, closing = (tag.raw for tag in document.passages[0].tags)
    translations = [f"{opening}chat{closing} noir\nplus\nbas", *texts(document)[1:]]
    assert paragraphs(document.write(translations)) == (
        '<a:p><a:r><a:rPr b="1"/><a:t>chat</a:t></a:r><a:r><a:t> noir</a:t></a:r><a:br><a:rPr sz="800"/></a:br>'
        "<a:r><a:t>plus</a:t></a:r><a:br/><a:r><a:t>bas</a:t></a:r></a:p>"
    )


SMART_ART = "http://schemas.openxmlformats.org/drawingml/2006/diagram"


def test_text_of_a_diagram_is_translated() -> None:
    data = (
        f'<dgm:dataModel xmlns:dgm="{SMART_ART}" xmlns:a="{A}"><dgm:ptLst><dgm:pt modelId="1"><dgm:t><a:p><a:r>'
        "<a:t>A step</a:t></a:r></a:p></dgm:t></dgm:pt></dgm:ptLst></dgm:dataModel>"
    )
    rels = "ppt/slides/_rels/slide1.xml.rels"
    relation = '<Relationship Id="rId99" Type="http://x/relationships/diagramData" Target="../diagrams/data1.xml"/>'
    listed = parts_of(CONTENT)[rels].replace(b"</Relationships>", relation.encode() + b"</Relationships>")
    content = with_parts(CONTENT, {rels: listed, "ppt/diagrams/data1.xml": data})
    document = read("a.pptx", content)
    assert "A step" in texts(document)
    assert b"<a:t>A STEP</a:t>" in parts_of(shouted(document))["ppt/diagrams/data1.xml"]


RELS = "ppt/_rels/presentation.xml.rels"


def test_slides_that_refer_to_each_other_are_read_once() -> None:
    rels = "ppt/slides/_rels/slide1.xml.rels"
    relations = "".join(
        f'<Relationship Id="c{number}" Type="http://x/relationships/notesSlide" Target="{target}"/>'
        for number, target in enumerate(["slide2.xml", "slide1.xml", "/ppt/slides/slide1.xml"])
    )
    listed = parts_of(CONTENT)[rels].replace(b"</Relationships>", relations.encode() + b"</Relationships>")
    document = read("a.pptx", with_parts(CONTENT, {rels: listed}))
    assert sorted(texts(document)) == sorted(texts(read("a.pptx", CONTENT)))
    assert shown(shouted(document)) == shown(CONTENT)


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ({"ppt/slides/slide2.xml": None}, r"presentation.xml refers to 'slides/slide2.xml', which the file does not"),
        ({RELS: None}, "presentation.xml lists slide 1, which the file does not have"),
        ({"ppt/slides/slide2.xml": "<a"}, "The part ppt/slides/slide2.xml is not well-formed"),
        ({"ppt/slides/slide2.xml": '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'}, "slide2.xml has a DOCTYPE"),
        ({"ppt/slides/slide2.xml": "<a>" * 300 + "</a>" * 300}, "slide2.xml is not well-formed XML: .*depth"),
        ({RELS: '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'}, "presentation.xml.rels has a DOCTYPE"),
        ({"[Content_Types].xml": None}, "not .pptx: it has no part"),
        ({"[Content_Types].xml": "<Types/>"}, "not a PowerPoint presentation"),
        ({"ppt/presentation.xml": None}, "not a PowerPoint presentation"),
    ],
)
def test_broken_presentation_is_refused_and_the_part_named(parts: dict[str, str | None], fault: str) -> None:
    with pytest.raises(UnreadableDocument, match=fault) as error:
        read("a.pptx", with_parts(CONTENT, parts))
    assert "\n" not in str(error.value)


def test_endlessly_repeated_formatting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = f'<a:rPr><a:latin typeface="{"x" * 10_000}"/></a:rPr>'
    runs = f"<a:r>{properties}<a:t>Hello</a:t></a:r>" + "<a:br/><a:r><a:t>1</a:t></a:r>" * 300
    monkeypatch.setattr(drawing_text, "check_copied", lambda counts: run_formats.check_copied(counts, 1 << 20))
    with pytest.raises(UnreadableDocument, match="too much formatting"):
        read("a.pptx", slide(f"<a:p>{runs}</a:p>"))
    assert read("a.pptx", slide(f"<a:p><a:r>{properties}<a:t>Hello</a:t></a:r></a:p>" * 20))
