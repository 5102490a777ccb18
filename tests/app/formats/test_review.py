"""Reviews of documents: units with codes, in XLIFF and in HTML, and back into the document."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples
from lxml import html
from translate.storage import xliff as toolkit_xliff

from app import formats
from app.formats import Document, UnreadableDocument
from app.formats.review import read_xliff, write_xliff
from app.formats.review_html import write_html
from app.formats.units import Reviewed, translations_of, units_of
from app.formats.xml_parts import clean
from app.markup.passage import NestedPassage, Passage, ProtectedSpan, Tag, reference
from app.markup.render import render_source

HTML = b"<p>Press <b>Save</b> and <code>F5</code> now.</p>\n<p>Hello &amp; you.</p>"


def document(content: bytes = HTML, name: str = "a.html") -> Document:
    return formats.read(name, content, "fr")


def same(text: str) -> Reviewed:
    return Reviewed(text, 0.9, [], [])


def reviewed(content: bytes = HTML, name: str = "a.html") -> tuple[Document, bytes]:
    """A document, and its review with each source as its translation."""
    found = document(content, name)
    units = units_of(found.passages, found.locations)
    return found, write_xliff(name, ("en", "fr"), units, [same(unit.source) for unit in units], "model")


def written(found: Document, review: bytes) -> bytes:
    units = units_of(found.passages, found.locations)
    return found.write(translations_of(found.passages, units, read_xliff(review, units)))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.html", HTML),
        ("a.txt", b"One.\r\n\r\nTwo <b> & three.\x0c\r\n"),
        ("a.md", b"# One *two*\n\n- [three](http://x.example/?a=1&b=2) `code`\n"),
        ("a.json", b'{"a": "Hello {name}, you have %d.", "b": ["x"]}'),
        ("a.srt", b"1\n00:00:01,000 --> 00:00:02,000\n<i>Hello</i>\nyou.\n"),
    ],
)
def test_review_without_changes_leaves_the_document_as_it_is(name: str, content: bytes) -> None:
    found, review = reviewed(content, name)
    assert written(found, review) == content


def test_changed_translation_is_written_with_its_codes_in_the_documents_markup() -> None:
    found, review = reviewed()
    head, press, hello = review.decode().split("<target")
    changed = f"{head}<target{press.replace('Press ', 'Tapez « ')}<target{hello.replace('Hello', '&lt;Salut')}"
    assert written(found, changed.encode()).decode() == (
        "<p>Tapez « <b>Save</b> and <code>F5</code> now.</p>\n<p>&lt;Salut &amp; you.</p>"
    )


def test_codes_may_move() -> None:
    found, review = reviewed(b"<p>Press <b>Save</b> now.</p>")
    opening, closing = re.findall(rb"<[be]x [^>]*/>", review.split(b"<target")[1])
    old = b"Press " + opening + b"Save" + closing + b" now.</target>"
    moved = review.replace(old, opening + b"Jetzt" + closing + b".</target>")
    assert written(found, moved) == b"<p><b>Jetzt</b>.</p>"


@given(text=st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufdd0\ufdd1")))
@draw_examples(50)
def test_any_translation_comes_back(text: str) -> None:
    passage = Passage("a b", (ProtectedSpan(2, 3, "<b/>"),), (Tag(0, "<i>", "open"), Tag(1, "</i>", "close")))
    units = units_of([passage], [formats.TextLocation(1, "key")])
    target = units[0].source.replace("a", "x" + text)
    review = write_xliff("a", ("en", "fr"), units, [same(target)], "model")
    [back] = translations_of([passage], units, read_xliff(review, units))
    assert back == f"<i>x{clean(text)}</i> <b/>"


def test_nested_passages_are_units_of_their_own() -> None:
    inner = Passage("A house")
    outer = Passage("See it.", tags=(Tag(4, f'<img alt="{reference(7)}">', "mark"),), nested=(NestedPassage(7, inner),))
    units = units_of([outer, inner], [formats.TextLocation(1), formats.TextLocation(2)])
    assert [unit.passage.text for unit in units] == ["See it.", "A house", "A house"]
    targets = [unit.source for unit in units]
    assert translations_of([outer, inner], units, targets) == [render_source(outer), "A house"]
    assert translations_of([outer, inner], units, [targets[0], "Une maison", "Deux"]) == [
        'See <img alt="Une maison">it.',
        "Deux",
    ]


def test_tools_for_translators_read_the_review() -> None:
    _, review = reviewed()
    store = toolkit_xliff.xlifffile.parsestring(review)  # type: ignore[no-untyped-call]
    assert [str(unit.source)[:5] for unit in store.units] == ["Press", "Hello"]
    assert [unit.isfuzzy() or unit.isreview() for unit in store.units] == [True, True]
    assert (store.getsourcelanguage(), store.gettargetlanguage()) == ("en", "fr")
    store.units[1].target = "Salut & toi."
    found, _ = reviewed()
    assert written(found, bytes(store)).endswith(b"<p>Salut &amp; toi.</p>")


TARGET = "(<target[^>]*>)"


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('<trans-unit id="2"', '<trans-unit id="9"', "Unit 2 of the review is missing."),
        ("Press", "Click", "Unit 1 of the review is of another document"),
        ('<bx id="1"', '<x id="1"/><bx id="1"', "Unit 1 of the review is of another document"),
        (r'(<target.*?)<bx id="1"[^>]*>', r"\1", "Unit 1 of the review lacks the code id=1"),
        (TARGET, r'\1<x id="1"/>', "Unit 1 of the review repeats the code id=1"),
        (TARGET, r'\1<x id="77"/>', "Unit 1 of the review has an unknown code, x id='77'"),
        (TARGET, r"\1<x/>", "Unit 1 of the review has an unknown code, x id=''"),
        (TARGET, r"\1<evil/>", "Unit 1 of the review has an element evil"),
        (r"<target.*?</target>", "<target/>", "Unit 1 of the review has no target."),
        ("<body>", '<body><trans-unit id="99"/>', "has 3 units, and the document 2 texts"),
        ("<body>", '<body><trans-unit id="2"/>', "The review has several units with the id '2'."),
        (TARGET, "\\1\ufdd099\ufdd1", "Unit 1 of the review has a noncharacter (U+FDD0, U+FDD1)"),
        (TARGET, f"\\1\ufdd0{'9' * 5_000}\ufdd1", "Unit 1 of the review has a noncharacter (U+FDD0, U+FDD1)"),
        (TARGET, r"\1<mrk/>" + "\ufdd00\ufdd1", "Unit 1 of the review has a noncharacter (U+FDD0, U+FDD1)"),
        (TARGET, r'\1<x id="0000000010"/>', "Unit 1 of the review has an unknown code, x id='0000000010'"),
        (
            TARGET,
            rf'\1<x id="{"9" * 5_000}"/>',
            "Unit 1 of the review has an unknown code, x id='99999999999999999999'",
        ),
        (TARGET, r"\1" + "<mrk>" * 210 + "</mrk>" * 210, "Unit 1 of the review is nested too deeply"),
        ("<xliff", "<x<liff", "The review is not well-formed XML"),
        ("<xliff", '<!DOCTYPE x [<!ENTITY e "x">]><xliff', "has a DOCTYPE"),
    ],
)
def test_review_that_does_not_fit_names_what_is_wrong(old: str, new: str, fault: str) -> None:
    found, review = reviewed()
    wrong, changes = re.subn(old, new, review.decode(), count=1, flags=re.DOTALL)
    assert changes
    with pytest.raises(UnreadableDocument, match=re.escape(fault)):
        written(found, wrong.encode())


def test_code_that_closes_before_it_opens_is_refused() -> None:
    found, review = reviewed(b"<p>Press <b>Save</b> now.</p>")
    opening, closing = re.findall(r"<[be]x [^>]*/>", review.decode().split("<target")[1])
    head, target = review.decode().split("<target")
    swapped = target.replace(opening, "@").replace(closing, opening).replace("@", closing)
    with pytest.raises(UnreadableDocument, match="closes the code id=1 before it opens it"):
        written(found, f"{head}<target{swapped}".encode())


def test_segments_that_a_tool_adds_are_passed_through() -> None:
    found, review = reviewed(b"<p>Hello.</p>")
    changed = re.sub(rb"(<target[^>]*>)Hello\.", rb'\1<mrk mtype="seg" mid="1">Bonjour.</mrk>', review)
    assert written(found, changed) == b"<p>Bonjour.</p>"


def test_noncharacters_of_the_document_are_no_codes_and_survive_a_review_without_changes() -> None:
    content = "<p>a \ufdd00\ufdd1 <b>b</b> \ufdd0\ufdd1 c</p>".encode()
    found, review = reviewed(content)
    assert written(found, review) == content


def test_page_has_what_to_check_first_at_the_top_and_escapes_all() -> None:
    found = document(b"<p>One <b>bold</b>.</p><p>Two &lt;script&gt;.</p><p>Three.</p><p>Four.</p>")
    units = units_of(found.passages, found.locations)
    facts = [(0.9, []), (0.4, []), (0.9, ["<Mind>."]), (0.2, [])]
    rows = [
        Reviewed(unit.source, quality, warnings, []) for unit, (quality, warnings) in zip(units, facts, strict=True)
    ]
    rows[3] = rows[3]._replace(words=[(0, 4)])
    page = write_html("<a>.html", ("en", "zh"), units, rows, "model", doubtful=0.5).decode()
    tree: Any = html.fromstring(page)
    assert [row.findall("td")[1].text_content() for row in tree.findall(".//tbody/tr")] == [
        "Four.",
        "Two <script>.",
        "Three.",
        "One 1⟨bold⟩1.",
    ]
    assert [row.get("class") for row in tree.findall(".//tbody/tr")] == ["check", "check", "check", None]
    assert tree.findtext(".//h1") == "<a>.html"
    assert tree.findtext(".//u") == "Four"
    assert tree.findall(".//script") == []
    assert "4 texts, 3 to check first" in page
    assert "&lt;Mind&gt;." in page
    assert tree.findall(".//td")[2].get("lang") == "zh"
    assert not re.search(r"(?:src|href)=", page)
