"""Words with tags inside or against them: which are kept with their tags, and which are translated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.markup.extract import markup_pieces
from app.markup.passage import Passage, ProtectedSpan
from app.markup.render import render_source
from app.text.word_tags import keep_word_tags, with_protected


def passage_of(markup: str) -> Passage:
    [passage] = [piece for piece in markup_pieces(markup) if isinstance(piece, Passage)]
    return passage


def kept(markup: str) -> list[str]:
    """What is protected, and the marks."""
    passage = keep_word_tags(passage_of(markup))
    marks = [(tag.at, tag.raw) for tag in passage.tags if tag.kind == "mark" and not tag.space]
    return [raw for _, raw in sorted([*((one.start, one.raw) for one in passage.protected), *marks])]


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("a flat of 40 m<sup>2</sup>.", ["m<sup>2</sup>"]),
        ("some C<sub>6</sub>H<sub>12</sub>O<sub>6</sub> here", ["C<sub>6</sub>H<sub>12</sub>O<sub>6</sub>"]),
        ("SO<sub>4</sub><sup>2−</sup> reacts", ["SO<sub>4</sub><sup>2−</sup>"]),
        ("Ca<sup>2+</sup> reacts", ["Ca<sup>2+</sup>"]),
        ("so a<sup>2</sup>+b<sup>2</sup>=c<sup>2</sup> holds", ["a<sup>2</sup>+b<sup>2</sup>=c<sup>2</sup>"]),
        ("at 9 m/s<sup>2</sup> down", ["m/s<sup>2</sup>"]),
        ("about 10<sup>9</sup> stars", ["10<sup>9</sup>"]),
        ("let T<sub>max</sub> be", ["T<sub>max</sub>"]),
        ("our Acme<sup>®</sup> phones", ["Acme<sup>®</sup>"]),
        ("our Power<b>Point</b> slides", ["Power<b>Point</b>"]),
        ("pages 7–<i>9</i>, read", ["7–<i>9</i>"]),
        ("a room<sup>3</sup> there", ["<sup>3</sup>"]),
        ('a room.<sup><a href="#n">[3]</a></sup> There', ['<sup><a href="#n">[3]</a></sup>']),
        ("a room<sup>3</sup><sup>4</sup>, there", ["<sup>3</sup><sup>4</sup>"]),
        ("a room<sup>3</sup>,<sup>4</sup> there", ["<sup>3</sup>", "<sup>4</sup>"]),
        ("房间<sup>3</sup>很大", ["<sup>3</sup>"]),
        ("a room<sup>b</sup> there", ["<sup>b</sup>"]),
        ("a room.<sup>a,b</sup> There", ["<sup>a,b</sup>"]),
        ("a room<sup>iii</sup> and a wall<sup>a</sup><sup>b</sup>", ["<sup>iii</sup>", "<sup>a</sup><sup>b</sup>"]),
        ("la 1<sup>e</sup> au XX<sup>e</sup>, n<sup>o</sup>, D.<sup>a</sup>", ["n<sup>o</sup>"]),
        ("two dog<b>s</b> here", []),
        # ordinary words, and words that only the page's style separates
        ("<b>O</b>nce un<b>believ</b>able", []),
        ("<span>HomePage</span><span>AboutUs</span><span>Contact</span>", []),
        ("<span>Price</span>20 now", []),
        ("the 19<sup>th</sup> day", []),
        ("yes<b>!</b> and <b>no</b>.", []),
        ("<i>1</i>. First", []),
    ],
)
def test_codes_and_footnotes_are_kept_with_their_tags(markup: str, expected: list[str]) -> None:
    assert kept(markup) == expected


def test_footnote_is_not_in_the_text_that_the_model_reads() -> None:
    assert keep_word_tags(passage_of("a room<sup>3</sup> and H<sub>2</sub>O")).text == "a room and H2O"


def test_address_in_spans_is_protected_with_them() -> None:
    markup = "see <a><span>https://</span><span>example.org/a</span><span>/b</span></a> now"
    passage = passage_of(markup)
    start = passage.text.index("https")
    found = with_protected(passage, [ProtectedSpan(start, passage.text.index(" now"), "")])
    assert [one.raw for one in found.protected] == [
        "<a><span>https://</span><span>example.org/a</span><span>/b</span></a>"
    ]
    assert not found.tags


def test_elements_around_nothing_but_an_address_are_part_of_it() -> None:
    link = '<b><a><span class="a">https://</span><span>example.org/a</span><span class="a"></span></a></b>'
    passage = passage_of(f"see {link} now")
    found = with_protected(passage, [ProtectedSpan(4, passage.text.index(" now"), "")])
    assert [one.raw for one in found.protected] == [link]
    assert not found.tags


def test_span_that_cuts_an_element_is_left_out() -> None:
    passage = passage_of("see ab<i>cd ef</i> now")
    assert with_protected(passage, [ProtectedSpan(4, 8, "abcd")]) == passage


MARKUP = st.lists(
    st.sampled_from(["a", "bc", "H", "O", "2", "10", "®", " ", ",", "-", "=", "猫", "<i>", "<sup>", "<sub>", "</i>"])
)


@given(MARKUP)
def test_kept_words_are_written_as_they_were(parts: list[str]) -> None:
    for piece in markup_pieces("".join(parts)):
        if isinstance(piece, Passage):
            assert render_source(keep_word_tags(piece)) == render_source(piece)


@given(MARKUP, st.data())
def test_protected_spans_are_written_as_they_were(parts: list[str], data: st.DataObject) -> None:
    for piece in markup_pieces("".join(parts)):
        if isinstance(piece, Passage):
            cuts = sorted(data.draw(st.sets(st.integers(0, len(piece.text)), max_size=6)))
            pairs = zip(cuts[::2], cuts[1::2], strict=False)
            spans = [ProtectedSpan(a, b, piece.text[a:b]) for a, b in pairs if not piece.text[a].isspace()]
            assert render_source(with_protected(piece, spans)) == render_source(piece)


@pytest.mark.slow
def test_thousands_of_tags_in_words_take_linear_time() -> None:
    markup = "a<b>1</b>" * 4_000 + "x<sup>2</sup> " * 4_000 + "<i>" * 2_000 + "y" + "</i>" * 2_000
    for piece in markup_pieces(markup):
        if isinstance(piece, Passage):
            assert render_source(keep_word_tags(piece)) == render_source(piece)
