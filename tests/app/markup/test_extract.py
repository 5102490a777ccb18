"""Laws of splitting HTML and XML into pieces, for any input, and which parts of real pages are translated."""

from __future__ import annotations

import re
import sys
import tracemalloc
from dataclasses import replace
from html import unescape
from itertools import pairwise
from types import FrameType
from typing import Any
from xml.etree import ElementTree

import pytest
from fakes import render_tags
from hypothesis import given
from hypothesis import strategies as st

from app.markup.char_refs import split_references
from app.markup.extract import inline_pieces, locate_passages, markup_pieces
from app.markup.html_elements import NO_RULES, Rules, parse_elements, passage_boundaries
from app.markup.html_tokenizer import tokens
from app.markup.passage import AlignedSpan, Passage, Piece, ProtectedSpan
from app.markup.render import render_source

TAGS = [
    *(
        "<b>",
        "</b>",
        "<i class=x>",
        "</i>",
        "<p>",
        "</p>",
        "<br>",
        "<br/>",
        "<li>",
        "<code>",
        "</code>",
        "<pre>",
        "</pre>",
    ),
    *("<span translate='no'>", "</span>", '<b translate="yes">', '<p class="a notranslate">', "<svg>", "</svg>"),
    *(
        "<my-x>",
        "</my-x>",
        "<x id='1'/>",
        "<a href=http://x/>",
        "</a>",
        "</ p>",
        "<script>",
        "</script>",
        "<math>",
        "</math>",
    ),
    *("<!--", "-->", "<!-- c -->", "<![CDATA[", "]]>", "<?php ", "?>", "<!", "<!doctype x [", "]>", "<td>", "<title>"),
]
TAGS += ["<img alt='a cat'>", '<i title="two words" alt=x>', "<img title=b/>", "<input placeholder=' c ' />", "<img>"]
TEXT = ["word", "Two words. ", " ", "\n   ", "é", ".", "x", "\u00a0", "😀", ">", "{name}", '"']
REFERENCES = [
    "&amp;",
    "&lt;",
    "&eacute;",
    "&nbsp;",
    "&shy;",
    "&#8203;",
    "&#39;",
    "&hellip;",
    "&foo;",
    "&fjlig;",
    "&#1;",
]
BROKEN = [
    "<",
    "&",
    "&am",
    "&#",
    "&#x",
    "&copy",
    "&notit;",
    "<a href='",
    '<a href="',
    "='",
    "<%",
    "%>",
    "/",
    "<a ",
    "&#38;",
    "é",
]


def soup(*kinds: list[str]) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from([part for kind in kinds for part in kind]), max_size=25).map("".join)


def written(found: list[Piece]) -> str:
    return "".join(piece if isinstance(piece, str) else render_source(piece) for piece in found)


def passages(markup: str, rules: Rules = NO_RULES) -> list[str]:
    """The translated passages, with tags and protected text: `[..]` are marks that are spaces, `{..}` is protected."""
    found = []
    for passage in markup_pieces(markup, rules):
        if isinstance(passage, Passage):
            tags = tuple(tag._replace(raw=f"[{tag.raw}]" if tag.space else tag.raw) for tag in passage.tags)
            protected = tuple(part._replace(raw=f"{{{part.raw}}}") for part in passage.protected)
            found.append(render_source(Passage(passage.text, protected, tags, nested=passage.nested)))
    return found


@given(soup(TAGS, TEXT))
def test_untranslated_parts_are_unchanged_byte_for_byte(markup: str) -> None:
    # A "<" that is text is none of these: see below.
    assert written(markup_pieces(markup)) == markup
    assert written(inline_pieces(markup)) == markup


@given(soup(TAGS, [text for text in TEXT if text not in "é\"'"], REFERENCES))
def test_character_references_are_kept(markup: str) -> None:
    assert written(markup_pieces(markup)) == markup


@given(soup(TAGS, TEXT, REFERENCES, BROKEN) | st.text())
def test_any_input_keeps_its_characters(markup: str) -> None:
    assert read(written(markup_pieces(markup))) == read(markup)
    assert read(written(inline_pieces(markup))) == read(markup)


def read(markup: str) -> list[str]:
    """The tags as written, and between them the characters that the text represents."""
    found = [""]
    for token in tokens(markup):
        if token.kind == "text":
            found[-1] += "".join(part.raw if part.text is None else part.text for part in split_references(token.raw))
        else:
            found += [token.raw, ""]
    return found


@given(soup(TAGS, TEXT, REFERENCES, BROKEN) | st.text())
def test_passages_have_correct_offsets(markup: str) -> None:
    found = locate_passages(markup)
    assert [place.passage.text for place in found] == [p.text for p in markup_pieces(markup) if isinstance(p, Passage)]
    assert all(read(markup[start:end]) == read(render_source(passage)) for start, end, passage in found)
    assert all(first.end < second.start for first, second in pairwise(found))


@given(soup(TAGS, TEXT, REFERENCES, BROKEN) | st.text())
def test_passages_keep_their_invariants(markup: str) -> None:
    for passage in (piece for piece in (*markup_pieces(markup), *inline_pieces(markup)) if isinstance(piece, Passage)):
        end = 0
        for protected in passage.protected:
            assert end <= protected.start < protected.end
            end = protected.end
        assert end <= len(passage.text)
        assert not any(
            protected.start < tag.at < protected.end for tag in passage.tags for protected in passage.protected
        )
        assert [tag.at for tag in passage.tags] == sorted(tag.at for tag in passage.tags)
        depth = 0
        for tag in passage.tags:
            depth += {"open": 1, "close": -1, "mark": 0}[tag.kind]
            assert depth >= 0
        assert depth == 0
        assert "\n" not in passage.text
        assert "  " not in passage.text


@given(soup(TAGS, TEXT, REFERENCES, BROKEN) | st.text())
def test_tokens_make_up_the_input_and_tags_are_complete(markup: str) -> None:
    found = list(tokens(markup))
    assert "".join(token.raw for token in found) == markup
    assert all(token.raw[0] == "<" and token.raw[-1] == ">" for token in found if token.name)


@given(st.text() | soup(TEXT, REFERENCES, BROKEN))
def test_references_are_decoded_as_in_html(text: str) -> None:
    found = list(split_references(text))
    assert "".join(part.raw for part in found) == text
    assert "".join(part.raw if part.text is None else part.text for part in found) == unescape(text)


@given(st.text())
def test_markup_in_model_output_is_escaped(text: str) -> None:
    (passage,) = (piece for piece in markup_pieces("<p>x &lt; y</p>") if isinstance(piece, Passage))
    assert unescape(passage.write(text)) == unescape(text.replace("&", "&amp;"))
    assert not any(token.name for token in tokens(passage.write(text) + "<b>") if token.raw != "<b>")


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("Hello", ["Hello"]),
        ("<p>One.</p> <p>Two.</p>", ["One.", "Two."]),
        ("<p>One<p>Two<br>Three", ["One", "Two", "Three"]),
        ("<ul><li>One <li>Two</ul>", ["One", "Two"]),
        ("<table><tr><td>a<td>b</table>", ["a", "b"]),
        ("<p><b>All bold</b></p>", ["All bold"]),
        ("<p> <b> <i>All</i> </b> <img> </p>", ["All"]),
        ("<p><b>Some</b> bold</p>", ["<b>Some</b> bold"]),
        ("<p>in <b>bold</b></p>", ["in <b>bold</b>"]),
        ("<p><b></b>Text<i> </i></p>", ["Text"]),
        ("<p>two\n    lines</p>", ["two[\n    ]lines"]),
        ("<p>a <b> b</b></p>", ["a <b>[ ]b</b>"]),
        ("<p>10&nbsp;000 &shy;Donau&shy;dampf</p>", ["10[&nbsp;]000 &shy;Donau&shy;dampf"]),
        ("<p>&nbsp;</p><p>—</p>", []),
        ("<p>a <!-- b --> c</p>", ["a <!-- b -->[ ]c"]),
        ("<p>run <code>a &lt; b</code> now</p>", ["run {<code>a &lt; b</code>} now"]),
        ("<p>by <span translate=no>Foo</span></p>", ["by {<span translate=no>Foo</span>}"]),
        ("<p>an <svg><title>x</title></svg> icon</p>", ["an {<svg><title>x</title></svg>} icon"]),
        ("<p>is <math><mi>x</mi></math></p>", ["is {<math><mi>x</mi></math>}"]),
        ("<p>see <script>1<2</script>this</p>", ["see <script>1<2</script>this"]),
        ("<p>press <kbd>a</kbd>+<kbd>b</kbd> + <kbd>c</kbd></p>", ["press {<kbd>a</kbd>+<kbd>b</kbd> + <kbd>c</kbd>}"]),
        (
            "<p>a <kbd>a</kbd>, <kbd>b</kbd> and <img>+<img> c",
            ["a {<kbd>a</kbd>}, {<kbd>b</kbd>} and {<img>}+{<img>} c"],
        ),
        (
            "<p><ruby>猫<rp>(</rp><rt>ねこ</rt><rp>)</rp></ruby>です</p>",
            ["<ruby>猫<rp>(</rp><rt>ねこ</rt><rp>)</rp></ruby>です"],
        ),
        ("<p><ruby>猫<rt>ねこ</ruby>です</p>", ["猫", "です"]),
        ("<p><code>only code</code></p>", []),
        ("<pre>code <b>x</b></pre><textarea>a</textarea><style>b {}</style><template>t</template>", []),
        ('<div translate="no">a <p translate="yes">b</p> c</div>', ["b"]),
        ('<div class="x notranslate">a <p>b</p></div>c', ["c"]),
        ("<p>a <span translate=no>b <i translate=yes>c</i></span></p>", ["a", "c"]),
        ('<a href="not">this</a><img src="not" alt="-"><meta content="nor this">', ["this"]),
        ("Look at <img src=x> now. <img>", ["Look at {<img src=x>} now."]),
        ("Take <input name=n> of these.", ["Take {<input name=n>} of these."]),
        ("Take <input type=number /> books", ["Take {<input type=number />} books"]),
        ("Name: <input> Age: <input>", ["Name:", "Age:"]),
        ("Name <input> Age <input>", ["Name", "Age"]),
        ("or <input type=radio> this", ["or", "this"]),
        ("There are <x id=1 /> books", ["There are {<x id=1 />} books"]),
        ("There are <ph></ph> books, <it>x</it> too", ["There are {<ph></ph>} books, {<it>x</it>} too"]),
        ("wait<wbr>ing", ["wait<wbr>ing"]),
        ("<a href=x><h3>Head</h3><p>Text</p></a>", ["Head", "Text"]),
        ("<a>Home</a> | <a>About us</a>", ["Home", "About us"]),
        ("see <a>this</a> <a>that</a>", ["see <a>this</a> <a>that</a>"]),
        ("<p>a <b>b <i>c</b> d</i></p>", ["a <b>b <i>c</b> d"]),
        ("<p>a </b>c</p>", ["a </b>c"]),
        ("<p>a <b>c</p>", ["a <b>c"]),
        ("<option>One<option>Two", ["One", "Two"]),
        ("<p>AT&T &copy; &unknown;</p>", ["AT&T © {&unknown;}"]),
        ("<p>if a < b</p>", ["if a < b"]),
        ("<p>a <?= $name ?> b</p>", ["a {<?= $name ?>} b"]),
        ("text <a href='x", ["text"]),
        ("a <!-- b", ["a"]),
        ("<a href=http://x.org/>link</a> here", ["<a href=http://x.org/>link</a> here"]),
        ('<?xml version="1.0"?><r><s>One</s><s>Two <q>x</q> <u2/></s></r>', ["One", "Two <q>x</q>"]),
        ('<?xml version="1.0"?><p><b>One</b> <i>two</i></p>', ["<b>One</b> <i>two</i>"]),
        ("<seg>Press <g id='1'>the <x id='2'/> key</g>.</seg>", ["Press <g id='1'>the {<x id='2'/>} key</g>."]),
        ("<seg>a <bpt i='1'>&lt;b&gt;</bpt>b<ept i='1'>&lt;/b&gt;</ept></seg>", ["a <bpt i='1'>&lt;b&gt;</bpt>b"]),
        ("<seg>a <ph>{0}</ph> b</seg>", ["a {<ph>{0}</ph>} b"]),
        ("<doc><par>One <em2>two</em2>.</par><par>Three</par></doc>", ["One <em2>two</em2>.", "Three"]),
        ("<w:p><w:r><w:t>One</w:t></w:r></w:p><w:p>Two</w:p>", ["One", "Two"]),
        ("<p><![CDATA[a]]></p><p>b <![CDATA[c]]> d</p>", ["b {<![CDATA[c]]>} d"]),
    ],
)
def test_translatable_texts_are_found(markup: str, expected: list[str]) -> None:
    assert passages(markup) == expected
    assert written(markup_pieces(markup)) == markup


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ('<img alt="A cat" src="b.png">', ["A cat"]),
        ('<p title="One">Two</p>', ["One", "Two"]),
        ('<p>Look <img alt="a cat"> there</p><i title="c">', ['Look {<img alt="a cat">} there', "c"]),
        ('<p><img alt="a">Look</p>', ["a", "Look"]),
        ('<input placeholder="Your name"><textarea placeholder="a">b</textarea>', ["Your name", "a"]),
        ('<button aria-label="Close" aria-description="a">X</button>', ["Close", "a", "X"]),
        ('<input type="submit" value="Send"><input value="kept"><input type=hidden value=x>', ["Send"]),
        ('<meta name="description" content="A page"><meta name=robots content="all">', ["A page"]),
        ('<meta property="og:title" content="One"><meta property=og:description content=Two>', ["One", "Two"]),
        ('<option label="One" value="x">Two', ["One", "Two"]),
        ('<img translate=no alt="a"><p class=notranslate><img alt="b"></p><code title="c">d</code>', ["c"]),
        ('<svg aria-label="Menu"><a title="not">x</a></svg>', ["Menu"]),
        ('<link title="not" alt="not"><p alt="not" x-title="nor this">a</p>', ["a"]),
        ('<my-x title="One"/><foo title="not"/>', ["One"]),
        ('<?xml version="1.0"?><r><p title="not">a</p></r>', ["a"]),
        ('<?xml version="1.0"?><html><p title="One">a</p></html>', ["One", "a"]),
        ('<img alt="R&amp;D &eacute;t&eacute;">', ["R&D été"]),
        ("<img alt='a \n b' title= \"A > b\">", ["a[ \n ]b", "A > b"]),
    ],
)
def test_text_attributes_are_translated(markup: str, expected: list[str]) -> None:
    assert passages(markup) == expected
    assert written(markup_pieces(markup)) == markup


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ('<img alt="A cat">', '<img alt="UN &quot;CHAT&quot; D\'UN">'),
        ("<img alt='A cat'>", "<img alt='UN \"CHAT\" D&#39;UN'>"),
        ("<img alt=A>", "<img alt=UN&#32;&quot;CHAT&quot;&#32;D&#39;UN>"),
        (
            '<p>See <img alt="A cat" src="&lt;"> there</p>',
            '<p>SEE <img alt="UN &quot;CHAT&quot; D\'UN" src="&lt;"> THERE</p>',
        ),
    ],
)
def test_a_translated_attribute_keeps_its_quotes(markup: str, expected: str) -> None:
    def loud(passage: Passage) -> Passage:
        nested = tuple(inner._replace(passage=loud(inner.passage)) for inner in passage.nested)
        text = passage.text.upper() if "cat" not in passage.text.lower() and passage.text != "A" else 'UN "CHAT" D\'UN'
        return replace(passage, text=text, nested=nested)

    assert written([piece if isinstance(piece, str) else loud(piece) for piece in markup_pieces(markup)]) == expected


def test_attributes_are_skipped_if_the_request_or_the_markup_says_so() -> None:
    markup = '<p title="One">Two</p>'
    assert passages(markup, Rules(attributes=False)) == ["Two"]
    assert passages(markup + "\ufdd2") == ["Two"]


@pytest.mark.parametrize(
    ("markup", "text", "expected"),
    [
        ("<p>caf&eacute;</p>", "été", "&eacute;t&eacute;"),
        ("<p>caf&eacute;</p>", "l'à-côté", "l'à-côt&eacute;"),
        ("<p>x</p><p>caf&eacute;</p>", "été", "&eacute;t&eacute;"),
        ("<p>x é</p><p>caf&eacute;</p>", "été", "été"),
        ("<p>&quot;x&quot; &#39;y&#39;</p>", "\"'", "&quot;&#39;"),
        ('<p>"x"</p><p>&quot;</p>', '"', '"'),
        ("<p>a &#38; b</p>", "&", "&#38;"),
        ("<p>AT&T</p>", "R&D & &lt;", "R&D & &amp;lt;"),
        ("<p>x</p>", "a & b < c > d", "a &amp; b &lt; c &gt; d"),
        ("<p>x > y</p>", ">", ">"),
        ("<p>x < y</p>", "x < y <b> <", "x < y &lt;b&gt; &lt;"),
    ],
)
def test_characters_are_written_as_in_the_passage_or_else_the_document(markup: str, text: str, expected: str) -> None:
    passage = next(piece for piece in markup_pieces(markup) if isinstance(piece, Passage))
    assert passage.write(text) == expected


def test_references_of_a_document_are_not_stored_per_passage() -> None:
    markup = "".join(f"&#{0x20000 + number};" for number in range(3_000)) + "a<br>" * 200
    found = [piece for piece in markup_pieces(markup) if isinstance(piece, Passage)]
    tracemalloc.start()
    assert {passage.write("é \U00020001 &") for passage in found} == {"é &#131073; &amp;"}
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found) == 200
    assert taken < 100_000


@pytest.mark.parametrize(
    ("markup", "rules", "expected"),
    [
        ("a <x>b</x> c", Rules(untranslated=frozenset({"x"})), ["a {<x>b</x>} c"]),
        ("a <X>b <p>c</p></X> d", Rules(untranslated=frozenset({"x"})), ["a", "d"]),
        ("<x>b</x><y>c</y>", Rules(untranslated=frozenset({"x"})), ["c"]),
        ("a <b>b</b> c", Rules(splitting=frozenset({"b"})), ["a", "b", "c"]),
        ("<x>a</x><p>b</p>", Rules(joining=frozenset({"x", "p"})), ["<x>a</x><p>b</p>"]),
        ("<p>a</p><p>b</p></p> c", Rules(outline=False), ["<p>a</p><p>b</p></p> c"]),
        ("<p>a</p><x>b</x>", Rules(outline=False, splitting=frozenset({"x"})), ["a", "b"]),
    ],
)
def test_request_may_define_the_meaning_of_elements(markup: str, rules: Rules, expected: list[str]) -> None:
    assert passages(markup, rules) == expected
    assert written(markup_pieces(markup, rules)) == markup


def test_phrase_has_no_block_elements() -> None:
    found = inline_pieces("<title>One</title> and <p>two</p><br> three</p>")
    assert [piece.text for piece in found if isinstance(piece, Passage)] == ["One and two three"]


NAMES = ["p", "div", "b", "i", "a", "span", "x", "unknown", "br", "code", "li", "pre"]


@st.composite
def trees(draw: st.DrawFn) -> ElementTree.Element:
    """Well-formed documents in which each element has its own number."""
    elements = [ElementTree.Element("html", id="0")]
    for number in range(1, draw(st.integers(1, 12))):
        parent = draw(st.sampled_from(elements[-4:]))
        elements.append(ElementTree.SubElement(parent, draw(st.sampled_from(NAMES)), id=str(number)))
    for element in elements:
        element.text = draw(st.sampled_from(["", " ", "some words ", "a & b", "é\n <x>"]))
        element.tail = draw(st.sampled_from(["", " ", " more words", "."])) if element is not elements[0] else None
    return elements[0]


def scrambled(passage: Passage) -> str:
    """The words in reverse order, each linked to itself."""
    spans = [found.span() for found in re.finditer(r"\S+", passage.text)]
    held = {(protected.start, protected.end): protected for protected in passage.protected}
    spans = [span for span in spans if not any(k.start < span[1] and span[0] < k.end for k in passage.protected)]
    parts: list[str | ProtectedSpan] = []
    aligned_spans: list[AlignedSpan] = []
    at = 0
    for span in sorted([*spans, *held], reverse=True):
        part = held.get(span) or passage.text[slice(*span)].upper()
        size = len(part.raw if isinstance(part, ProtectedSpan) else part)
        parts += [part, " "]
        aligned_spans.append(AlignedSpan(span, (at, at + size)))
        at += size + 1
    return render_tags(parts, passage.tags, passage.text, aligned_spans, passage.write)


@given(trees())
def test_translated_document_is_the_same_tree(tree: ElementTree.Element) -> None:
    markup = ElementTree.tostring(tree, encoding="unicode")
    found = ElementTree.fromstring("".join(p if isinstance(p, str) else scrambled(p) for p in markup_pieces(markup)))
    kept, theirs = elements(found), elements(tree)
    assert kept.keys() == theirs.keys()
    # An element whose words the translation lacks may go around a neighbour.
    assert all(kept[number] >= around for number, around in theirs.items())


def elements(tree: ElementTree.Element) -> dict[tuple[str, str | None], set[str | None]]:
    """Each element's name and number, and the numbers of the elements around it."""
    found: dict[tuple[str, str | None], set[str | None]] = {}

    def visit(element: ElementTree.Element, around: set[str | None]) -> None:
        found[element.tag, element.get("id")] = around
        for child in element:
            visit(child, around | {element.get("id")})

    visit(tree, set())
    return found


HOSTILE = [
    "<a ",
    "<a b='",
    '<a b="',
    "</a ",
    "<a/",
    "<a =",
    "<a b",
    "<a translate=",
    "<!--",
    "<![CDATA[",
    "<?",
    "<%",
    "<",
    "&",
]
HOSTILE += [
    '<p title="a">',
    "<p title=",
    "<p alt='a' title=a ",
    "b <img alt=a> ",
    "<!doctype [",
    "<script>",
    "<script></",
    "<b>x",
    "x</b>",
    "<b>x<p>",
    "<x>y",
    "<code>x<b translate=yes>",
    "<kbd>x</kbd>+",
    "<kbd>x</kbd> + ",
    "<rt>",
    " \n",
    "&a",
]


@pytest.mark.slow
@pytest.mark.parametrize("part", HOSTILE)
def test_hostile_input_is_read_in_time(part: str) -> None:
    # Reading that takes the square of the length is seen here: HTMLParser takes half a minute for the first of these.
    markup = (part * 50_000)[:49_999] + ">"
    assert read(written(markup_pieces(markup))) == read(markup)


@pytest.mark.parametrize("name", ["svg", "math", "template", "b", "p", "li", "code", "x"])
def test_nested_elements_take_linear_time(name: str) -> None:
    assert steps(f"<{name}>" * 80 + f"</{name}>" * 80) < 5 * steps(f"<{name}>" * 20 + f"</{name}>" * 20)


def steps(markup: str) -> int:
    """The number of lines that run to determine what the elements mean."""
    found, lines = list(tokens(markup)), 0

    def step(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return step

    before = sys.gettrace()
    sys.settrace(step)
    passage_boundaries(found, parse_elements(found))
    sys.settrace(before)
    return lines


@pytest.mark.parametrize(
    ("markup", "texts"),
    [
        ("* Katze\n* Hund\n", ["* Katze\n* Hund"]),
        ("<b>• a</b>\n  • <i>b</i> c", ["• a\n• b c"]),
        ("Ours:\n- a\n- b\n\n- c", ["Ours:\n- a\n- b\n- c"]),
        ("1. a\n2. b", ["1. a\n2. b"]),
        ("a walk\n- a long one", ["a walk - a long one"]),
        ("since\n12. May, or\nlater", ["since 12. May, or later"]),
    ],
)
def test_lines_of_a_list_in_text_are_lines(markup: str, texts: list[str]) -> None:
    pieces = markup_pieces(markup)
    assert [piece.text for piece in pieces if isinstance(piece, Passage)] == texts
    assert "".join(piece if isinstance(piece, str) else render_source(piece) for piece in pieces) == markup
